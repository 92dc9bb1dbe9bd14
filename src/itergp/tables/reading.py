"""Tables as they are in files: names and columns of cells, each cell with its position, all unaltered."""

import bisect
import contextlib
import csv
import gzip
import itertools
import math
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from itergp.errors import InputError, StorageError

Cells = Sequence[str]
Column = Cells | np.ndarray  # text as in the file, or float64 with NaN for missing values
Row = tuple[int, Cells]  # the line on which it begins, and its cells

# missing numbers; a category is missing if it is empty
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
SEPARATORS = ";,\t|"
LOOK = 50  # rows used to detect the separator and the header
TOGETHER = 1 << 16  # cells joined into one text per column
LONGEST = 1 << 24  # characters in a line
# characters of a compressed file that are too many, if they exceed its bytes by this factor
UNPACKED, TIMES = 20_000_000, 200
ROOM = 24  # bytes needed per cell: a number, and copies of it
BINARY = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK": "a spreadsheet or an archive",
    b"\x1f\x8b": "compressed",
}


class Text(Sequence[str]):
    """The cells of a column as in the file, joined into a few texts: short texts take 50 bytes each."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._ends = array("q", [0])

    def append(self, cells: Sequence[str]) -> None:
        self._pieces.append("\0".join(cells))  # which no cell contains
        self._ends.append(self._ends[-1] + len(cells))

    def pieces(self) -> Iterator[list[str]]:
        return (piece.split("\0") for piece in self._pieces)

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self.pieces())

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not 0 <= i < len(self):
            raise IndexError(i)
        piece = bisect.bisect_right(self._ends, i) - 1
        return self._pieces[piece].split("\0")[i - self._ends[piece]]

    def numbers(self) -> np.ndarray:
        """As float64; ValueError if a cell is not a number."""
        return np.concatenate([np.array(piece, dtype=np.float64) for piece in self.pieces()])


@dataclass(frozen=True, eq=False)
class Table:
    """A file's columns. `lines[i]` is where row i begins: the line of a text file, or the row, from 1."""

    path: Path
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: Sequence[int]
    header: bool  # whether the names are from the file, or "column 1", "column 2", ...
    unit: str = "line"

    @property
    def rows(self) -> int:
        return len(self.lines)

    def place(self, row: int, column: int) -> str:
        """The position of a cell, in words."""
        return f"{self.path}, {self.unit} {self.lines[row]}, column {self.names[column]!r}"

    def missing(self, column: int) -> np.ndarray:
        """Which rows have no number in a column, and no text instead."""
        cells = self.columns[column]
        if isinstance(cells, np.ndarray):
            return np.isnan(cells)
        return np.fromiter((cell.strip().lower() in MISSING for cell in cells), dtype=bool, count=len(cells))

    def text(self, column: int) -> list[str]:
        """A column as text, for categories; 3.0 becomes "3"."""
        cells = self.columns[column]
        if not isinstance(cells, np.ndarray):
            once: dict[str, str] = {}  # there are few categories: each is stored once
            return [once.setdefault(cell, cell) for cell in map(str.strip, cells)]
        return ["" if math.isnan(x) else str(int(x)) if x.is_integer() else repr(x) for x in cells.tolist()]


def read_table(path: Path, header: bool | None = None, known: Collection[str] = ()) -> Table:
    """Read a CSV or Parquet file. With `header=None`, whether the first line holds names is auto-detected.

    It does if it contains all of `known`, if it has text above numbers, or if there are no numbers at all.
    """
    from itergp.storage.replacing import irregular  # needs SciPy, which `itergp --help` should not import

    try:
        kind = irregular(path)
        if kind is not None:
            raise StorageError(
                f"{path} cannot be read: it is {kind}, not an ordinary file. Write the table to a file first."
            )
        with open(path, "rb") as file:
            start = file.read(4)
        if start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq"):
            return _read_parquet(path)
        return _read_csv(path, header, known)
    except StorageError:
        raise
    # the last two are raised for truncated or damaged compressed files
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


# CSV.


def _read_csv(path: Path, header: bool | None, known: Collection[str]) -> Table:
    with _opened(path) as file:
        lines = _checked_lines(path, file)
        first = list(itertools.islice(lines, LOOK))
        rows = _full_rows(path, _rows(path, itertools.chain(first, lines), _separator(first)))
        head = list(itertools.islice(rows, LOOK + 1))
        if not head:
            raise InputError(f"{path} is empty; expected a line of names and lines of numbers.")
        if header is None:
            header = _has_header(path, head, known)
        line, cells = head[0]
        names = (
            _names(path, cells, f"line {line}")
            if header
            else tuple(f"column {j + 1}" for j in range(len(cells)))
        )
        columns, places = _columns(path, itertools.chain(head[1:] if header else head, rows), len(cells))
    if not places:
        raise InputError(f"{path} has names but no rows below them; expected at least one row of numbers.")
    return Table(path, names, columns, places, header)


def _columns(path: Path, rows: Iterator[Row], width: int) -> tuple[tuple[Text, ...], Sequence[int]]:
    """The cells by column, and the line of each row; read in parts, while the numbers fit in memory."""
    from itergp.linalg.compute import require_bytes

    columns, places = tuple(Text() for _ in range(width)), array("q")
    while some := list(itertools.islice(rows, max(1, TOGETHER // width))):
        places.extend(line for line, _ in some)
        for column, cells in zip(columns, zip(*(cells for _, cells in some), strict=True), strict=True):
            column.append(cells)
        what = f"{path}: the first {len(places):,} rows of {width:,} cells"
        require_bytes(ROOM * len(places) * width, what, "Remove rows or columns.")
    return columns, places


def _opened(path: Path) -> TextIO:
    """The file as text; invalid UTF-8 becomes lone surrogates, so that its line can be reported."""
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", **how)  # type: ignore[return-value]
    with open(path, "rb") as file:
        start = file.read(2)
    if start in BINARY:
        raise InputError(
            f"{path} is {BINARY[start]}; expected a table as CSV in UTF-8, or Parquet. Save it as one of "
            "these."
        )
    return open(path, **how)


def _checked_lines(path: Path, file: TextIO) -> Iterator[str]:
    most = max(UNPACKED, TIMES * path.stat().st_size) if path.suffix.lower() == ".gz" else math.inf
    seen = 0
    for number, line in enumerate(iter(lambda: file.readline(LONGEST), ""), 1):
        seen += len(line)
        if seen > most:
            raise InputError(
                f"{path} unpacks to more than {TIMES} times its size, {seen / 1e6:,.0f} MB or more, which is "
                "unusual. If this is intended, unpack it first, and use the unpacked file."
            )
        if len(line) >= LONGEST:
            raise InputError(
                f"{path}, line {number}: longer than {LONGEST:,} characters, so not a table. Expected CSV."
            )
        if "\0" in line:
            raise InputError(
                f"{path}, line {number}: a NUL byte, so this is not text. Expected CSV in UTF-8, or Parquet."
            )
        if not line.isascii() and any("\ud800" <= letter <= "\udfff" for letter in line):
            raise InputError(
                f"{path}, line {number}: not UTF-8. Save the file as UTF-8, or remove the invalid characters."
            )
        yield line


def _separator(lines: list[str]) -> str:
    """The separator that splits the first lines into the most cells, equally many in each if possible."""
    widths = {separator: _widths(lines, separator, len(lines) < LOOK) for separator in SEPARATORS}
    even = {
        separator: found[0] for separator, found in widths.items() if found[0] > 1 and len(set(found)) == 1
    }
    if even:
        return max(even, key=even.__getitem__)
    first = {separator: found[0] for separator, found in widths.items() if found[0] > 1}
    return max(first, key=first.__getitem__) if first else ","


def _widths(lines: list[str], separator: str, whole: bool) -> list[int]:
    """How many cells each row has; unless these lines are the whole file, the last row may be cut off and
    does not count."""
    found: list[int] = []
    with contextlib.suppress(csv.Error):
        found.extend(len(cells) for cells in csv.reader(lines, delimiter=separator) if cells)
    return (found if whole else found[:-1]) or found or [0]


def _rows(path: Path, lines: Iterator[str], separator: str) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            yield begins, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}, line {begins}: {error}. Look for an unclosed quotation mark."
            ) from None


def _full_rows(path: Path, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of equal width. Blank lines are skipped; but in a single column, they are missing values."""
    first, width, blank = 0, 0, array("q")
    for line, cells in rows:
        if len(cells) < 2 and not (cells and cells[0].strip()):
            if width == 1:
                blank.append(line)
            continue
        if not width:
            first, width = line, len(cells)
        if len(cells) != width:
            raise InputError(
                f"{path}, line {line}: {_cells(len(cells))}; expected {width}, as in line {first}."
            )
        for other in blank:
            yield other, [""]
        blank = array("q")
        yield line, cells


def _cells(number: int) -> str:
    return f"{number} cell" if number == 1 else f"{number} cells"


def _has_header(path: Path, rows: list[Row], known: Collection[str]) -> bool:
    first, below = [cell.strip() for cell in rows[0][1]], [cells for _, cells in rows[1 : 1 + LOOK]]
    if known and set(known) <= set(first):
        return True
    numbers_in_it = any(map(is_number, first))
    above_numbers = [
        j for j, cell in enumerate(first) if _is_text(cell) and _of_numbers([cells[j] for cells in below])
    ]
    if above_numbers and numbers_in_it:
        raise InputError(
            f"{path}, line {rows[0][0]}: both text ({first[above_numbers[0]]!r}, above numbers) and numbers, "
            "so it may be names or data. Use --header or --no-header."
        )
    if above_numbers or not below:
        return not numbers_in_it
    return not numbers_in_it and any(map(_is_text, first))


def is_number(cell: str) -> bool:
    try:
        value = float(cell)
    except ValueError:
        return False
    return not math.isnan(value) and "_" not in cell


def _is_text(cell: str) -> bool:
    return not is_number(cell) and cell.strip().lower() not in MISSING


def _of_numbers(cells: list[str]) -> bool:
    return any(map(is_number, cells)) and not any(map(_is_text, cells))


def _names(path: Path, cells: Sequence[str], place: str) -> tuple[str, ...]:
    """Distinct column names; a column without one is named by its number."""
    names = tuple(cell.strip() or f"column {j + 1}" for j, cell in enumerate(cells))
    for j, name in enumerate(names):
        if name in names[:j]:
            raise InputError(
                f"{path}, {place}: two columns are called {name!r} (columns {names.index(name) + 1} and "
                f"{j + 1}). Rename one."
            )
    return names


# Parquet.


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs pyarrow, which is not installed. Run pip install 'itergp[data]', or use "
            "CSV."
        ) from None
    from itergp.linalg.compute import require_bytes

    try:
        with pq.ParquetFile(path) as file:
            names = _names(path, file.schema_arrow.names, "its schema")
            what = f"{path}: {file.metadata.num_rows:,} rows of {len(names):,} columns"
            require_bytes(ROOM * file.metadata.num_rows * len(names), what, "Remove rows or columns.")
            table = file.read()
    except (pa.ArrowException, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a Parquet file that can be read ({error}).") from None
    if not names or not table.num_rows:
        raise InputError(
            f"{path} is empty: {len(names)} columns, {table.num_rows} rows; expected at least one of each."
        )
    columns = tuple(_arrow_column(pa, column) for column in table.columns)
    return Table(path, names, columns, range(1, table.num_rows + 1), True, unit="row")


def _arrow_column(pa: Any, column: Any) -> Column:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if any(test(kind) for test in number):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return ["" if value is None else str(value) for value in column.to_pylist()]

"""Tables as they are in files: names and columns of cells, each cell with its position, all unaltered."""

import contextlib
import csv
import gzip
import itertools
import math
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from itergp.errors import InputError, StorageError
from itergp.tables.cells import Cells, Coded, Column, Text, is_missing, is_number

Row = tuple[int, Cells]  # the line on which it begins, and its cells

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


@dataclass(frozen=True, eq=False)
class Head:
    """What is known of a table before its rows are read."""

    path: Path
    names: tuple[str, ...]
    header: bool  # whether the names are from the file, or "column 1", "column 2", ...
    unit: str = "line"


@dataclass(frozen=True, eq=False)
class Table(Head):
    """A file's columns, or those of some of its rows. `lines[i]` is where row i begins: the line of a text
    file, or the row, from 1."""

    columns: tuple[Column, ...] = ()
    lines: Sequence[int] = ()
    # by column, where text was read as numbers: the first row with a cell that is neither missing nor a
    # finite number, and this cell
    foreign: Mapping[int, tuple[int, str]] = field(default_factory=dict)

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
        if isinstance(cells, Coded):
            return cells.where(cell for cell in cells.different if is_missing(cell))
        return np.fromiter(map(is_missing, cells), dtype=bool, count=len(cells))

    def text(self, column: int) -> list[str]:
        """A column as text, for categories; 3.0 becomes "3"."""
        cells = self.columns[column]
        if isinstance(cells, Coded):
            return list(cells)
        if not isinstance(cells, np.ndarray):
            once: dict[str, str] = {}  # there are few categories: each is stored once
            return [once.setdefault(cell, cell) for cell in map(str.strip, cells)]
        return ["" if math.isnan(x) else str(int(x)) if x.is_integer() else repr(x) for x in cells.tolist()]

    def coded(self, column: int) -> Coded:
        """The same, each different text once."""
        cells = self.columns[column]
        return cells if isinstance(cells, Coded) else Coded.of(self.text(column))


Use = Callable[[Head], Mapping[int, str]]  # which columns are used, and whether as NUMBERS or as TEXT
NUMBERS, TEXT = "numbers", "text"


def read_table(
    path: Path, header: bool | None = None, known: Collection[str] = (), use: Use | None = None
) -> Table:
    """Read a CSV or Parquet file. With `header=None`, whether the first line holds names is auto-detected.

    It does if it contains all of `known`, if it has text above numbers, or if there are no numbers at all.
    With `use`, other columns are left empty, and numbers are kept as such: much less memory.
    """
    if use is not None:
        from itergp.tables.pieces import Pieces, joined

        return joined(Pieces(path, header, known, use))
    with readable(path) as parquet:
        return _read_parquet(path) if parquet else _read_csv(path, header, known)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[bool]:
    """Check that it is an ordinary file, and report what fails meanwhile. Yields whether it is Parquet."""
    from itergp.storage.replacing import irregular  # needs SciPy, which `itergp --help` should not import

    try:
        kind = irregular(path)
        if kind is not None:
            raise StorageError(
                f"{path} cannot be read: it is {kind}, not an ordinary file. Write the table to a file first."
            )
        with open(path, "rb") as file:
            start = file.read(4)
        yield start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")
    except StorageError:
        raise
    # the last two are raised for truncated or damaged compressed files
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


# CSV.


@dataclass(frozen=True, eq=False)
class Csv:
    """A CSV file whose first rows have been looked at."""

    head: Head
    rows: Iterator[Row]  # all, without the names
    separator: str
    width: int
    first: int  # the line of the first row, names or not
    line: int  # on which the rows below the names begin
    skipped: list[str]  # the lines before that one, as far as they were looked at


def opened_csv(path: Path, file: TextIO, header: bool | None, known: Collection[str]) -> Csv:
    """Find out about separator and names; `file` stays open as long as rows are read."""
    lines = checked_lines(path, file)
    first = list(itertools.islice(lines, LOOK))
    separator = _separator(first)
    rows = full_rows(path, csv_rows(path, itertools.chain(first, lines), separator))
    head = list(itertools.islice(rows, LOOK + 1))
    if not head:
        raise InputError(f"{path} is empty; expected a line of names and lines of numbers.")
    if header is None:
        header = _has_header(path, head, known)
    line, cells = head[0]
    names = (
        column_names(path, cells, f"line {line}")
        if header
        else tuple(f"column {j + 1}" for j in range(len(cells)))
    )
    below = head[1:] if header else head
    if not below:
        raise InputError(f"{path} has names but no rows below them; expected at least one row of numbers.")
    begins = below[0][0]
    return Csv(
        Head(path, names, header),
        itertools.chain(below, rows),
        separator,
        len(cells),
        line,
        begins,
        first[: begins - 1],
    )


def _read_csv(path: Path, header: bool | None, known: Collection[str]) -> Table:
    with opened(path) as file:
        found = opened_csv(path, file, header, known)
        columns, places = _columns(path, found.rows, found.width)
    return Table(path, found.head.names, found.head.header, columns=columns, lines=places)


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


def opened(path: Path) -> TextIO:
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


def checked_lines(path: Path, file: TextIO, line: int = 1) -> Iterator[str]:
    """The lines of a text, the first of which is this line of the file."""
    most = max(UNPACKED, TIMES * path.stat().st_size) if path.suffix.lower() == ".gz" else math.inf
    seen = 0
    for number, text in enumerate(iter(lambda: file.readline(LONGEST), ""), line):
        seen += len(text)
        if seen > most:
            raise InputError(
                f"{path} unpacks to more than {TIMES} times its size, {seen / 1e6:,.0f} MB or more, which is "
                "unusual. If this is intended, unpack it first, and use the unpacked file."
            )
        if len(text) >= LONGEST:
            raise InputError(
                f"{path}, line {number}: longer than {LONGEST:,} characters, so not a table. Expected CSV."
            )
        if "\0" in text:
            raise InputError(
                f"{path}, line {number}: a NUL byte, so this is not text. Expected CSV in UTF-8, or Parquet."
            )
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(
                f"{path}, line {number}: not UTF-8. Save the file as UTF-8, or remove the invalid characters."
            )
        yield text


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


def csv_rows(path: Path, lines: Iterator[str], separator: str, line: int = 1) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        begins = reader.line_num + line
        try:
            yield begins, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}, line {begins}: {error}. Look for an unclosed quotation mark."
            ) from None


def full_rows(path: Path, rows: Iterable[Row], first: int = 0, width: int = 0) -> Iterator[Row]:
    """Rows of equal width: that of the first, which is on this line. Blank lines are skipped; but in a single
    column, they are missing values."""
    blank = array("q")
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


def _is_text(cell: str) -> bool:
    return not is_number(cell) and not is_missing(cell)


def _of_numbers(cells: list[str]) -> bool:
    return any(map(is_number, cells)) and not any(map(_is_text, cells))


def column_names(path: Path, cells: Sequence[str], place: str) -> tuple[str, ...]:
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


def parquet_libraries(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs pyarrow, which is not installed. Run pip install 'itergp[data]', or use "
            "CSV."
        ) from None
    return pa, pq


def _read_parquet(path: Path) -> Table:
    from itergp.linalg.compute import require_bytes

    pa, pq = parquet_libraries(path)
    with parquet_errors(path, pa), pq.ParquetFile(path) as file:
        names = column_names(path, file.schema_arrow.names, "its schema")
        what = f"{path}: {file.metadata.num_rows:,} rows of {len(names):,} columns"
        require_bytes(ROOM * file.metadata.num_rows * len(names), what, "Remove rows or columns.")
        table = file.read()
    require_content(path, len(names), table.num_rows)
    columns = tuple(arrow_column(pa, column) for column in table.columns)
    return Table(path, names, True, "row", columns, range(1, table.num_rows + 1))


@contextlib.contextmanager
def parquet_errors(path: Path, pa: Any) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path} is not a Parquet file that can be read ({error}).") from None


def require_content(path: Path, columns: int, rows: int) -> None:
    if not columns or not rows:
        raise InputError(f"{path} is empty: {columns} columns, {rows} rows; expected at least one of each.")


def arrow_column(pa: Any, column: Any) -> Column:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if any(test(kind) for test in number):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return ["" if value is None else str(value) for value in column.to_pylist()]

"""Tables as they are in files: names and columns of cells, each cell with its place. Nothing is guessed away."""

import contextlib
import csv
import gzip
import itertools
import math
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from itergp.errors import InputError, StorageError

Cells = Sequence[str]
Column = Cells | np.ndarray  # text as it stands in the file, or float64 with NaN where nothing is
Row = tuple[int, Cells]  # the line on which it begins, and its cells

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))  # of numbers; a category is missing where it is empty
SEPARATORS = ";,\t|"
LOOK = 50  # rows that separators and headers are judged by
BINARY = {b"\xff\xfe": "UTF-16 text", b"\xfe\xff": "UTF-16 text", b"PK": "a spreadsheet or an archive", b"\x1f\x8b": "compressed"}


@dataclass(frozen=True, eq=False)
class Table:
    """A file's columns. `lines[i]` is where row i begins: a line of a text file, or a row of another, counted from 1."""

    path: Path
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: Sequence[int]
    header: bool  # whether the names are the file's own, or "column 1", "column 2", ...
    unit: str = "line"

    @property
    def rows(self) -> int:
        return len(self.lines)

    def place(self, row: int, column: int) -> str:
        """Where a cell is, in words."""
        return f"{self.path}, {self.unit} {self.lines[row]}, column {self.names[column]!r}"

    def missing(self, column: int) -> np.ndarray:
        """Which rows have no number in a column, and no text instead of one."""
        cells = self.columns[column]
        if isinstance(cells, np.ndarray):
            return np.isnan(cells)
        return np.array([cell.strip().lower() in MISSING for cell in cells])

    def text(self, column: int) -> list[str]:
        """A column as text, for categories; 3.0 is written 3."""
        cells = self.columns[column]
        if not isinstance(cells, np.ndarray):
            return [cell.strip() for cell in cells]
        return ["" if math.isnan(x) else str(int(x)) if x.is_integer() else repr(x) for x in cells.tolist()]


def read_table(path: Path, header: bool | None = None, known: Collection[str] = ()) -> Table:
    """The table in a CSV or Parquet file. `header=None` finds out whether the first line holds names.

    It does where all of `known` are in it, where there is text in it above numbers, or where there are no numbers at all.
    """
    from itergp.storage.replacing import irregular  # with SciPy, which `itergp --help` can do without

    try:
        kind = irregular(path)
        if kind is not None:
            raise StorageError(f"{path} cannot be read: it is {kind}, not an ordinary file. Write the table to a file first.")
        with open(path, "rb") as file:
            start = file.read(4)
        if start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq"):
            return _read_parquet(path)
        return _read_csv(path, header, known)
    except StorageError:
        raise
    except (OSError, EOFError, zlib.error) as error:  # the last two from compressed files that are cut off or damaged
        raise StorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


# CSV.


def _read_csv(path: Path, header: bool | None, known: Collection[str]) -> Table:
    with _opened(path) as file:
        lines = _checked_lines(path, file)
        first = list(itertools.islice(lines, LOOK))
        rows = _without_blanks(list(_rows(path, itertools.chain(first, lines), _separator(first))))
    if not rows:
        raise InputError(f"{path} is empty; expected a line of names and lines of numbers.")
    _check_widths(path, rows)
    if header is None:
        header = _has_header(path, rows, known)
    line, cells = rows[0]
    names = _names(path, cells, f"line {line}") if header else tuple(f"column {j + 1}" for j in range(len(cells)))
    body = rows[1:] if header else rows
    if not body:
        raise InputError(f"{path} has names but no rows below them; expected at least one row of numbers.")
    return Table(path, names, tuple(zip(*(cells for _, cells in body), strict=True)), [line for line, _ in body], header)


def _opened(path: Path) -> TextIO:
    """The file as text; bytes that are no UTF-8 stay visible as lone surrogates, so that their line can be named."""
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", **how)  # type: ignore[return-value]
    with open(path, "rb") as file:
        start = file.read(2)
    if start in BINARY:
        raise InputError(f"{path} is {BINARY[start]}; expected a table as CSV in UTF-8, or Parquet. Save it as one of these.")
    return open(path, **how)


def _checked_lines(path: Path, file: TextIO) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise InputError(f"{path}, line {number}: a NUL byte, so this is no text. Expected CSV in UTF-8, or Parquet.")
        if not line.isascii() and any("\ud800" <= letter <= "\udfff" for letter in line):
            raise InputError(f"{path}, line {number}: not UTF-8. Save the file in UTF-8, or remove the foreign letters.")
        yield line


def _separator(lines: list[str]) -> str:
    """The one that splits the first lines into the most cells, the same number in each; else into the most in the first."""
    widths = {separator: _widths(lines, separator) for separator in SEPARATORS}
    even = {separator: found[0] for separator, found in widths.items() if found[0] > 1 and len(set(found)) == 1}
    if even:
        return max(even, key=even.__getitem__)
    first = {separator: found[0] for separator, found in widths.items() if found[0] > 1}
    return max(first, key=first.__getitem__) if first else ","


def _widths(lines: list[str], separator: str) -> list[int]:
    """How many cells each row has; the last row may be cut off, so it counts only where it is alone."""
    found: list[int] = []
    with contextlib.suppress(csv.Error):
        found.extend(len(cells) for cells in csv.reader(lines, delimiter=separator) if cells)
    return found[:-1] or found or [0]


def _rows(path: Path, lines: Iterator[str], separator: str) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            yield begins, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{path}, line {begins}: {error}. Look for a quotation mark that is not closed.") from None


def _without_blanks(rows: list[Row]) -> list[Row]:
    """Blank lines are nothing; but between the rows of a single column, they are cells without a value."""
    full = [k for k, (_, cells) in enumerate(rows) if len(cells) > 1 or (cells and cells[0].strip())]
    if full and len(rows[full[0]][1]) == 1:
        return [(line, cells or [""]) for line, cells in rows[full[0] : full[-1] + 1]]
    return [rows[k] for k in full]


def _check_widths(path: Path, rows: list[Row]) -> None:
    first, width = rows[0][0], len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise InputError(f"{path}, line {line}: {_cells(len(cells))}; expected {width}, as in line {first}.")


def _cells(number: int) -> str:
    return f"{number} cell" if number == 1 else f"{number} cells"


def _has_header(path: Path, rows: list[Row], known: Collection[str]) -> bool:
    first, below = [cell.strip() for cell in rows[0][1]], [cells for _, cells in rows[1 : 1 + LOOK]]
    if known and set(known) <= set(first):
        return True
    numbers_in_it = any(map(is_number, first))
    above_numbers = [j for j, cell in enumerate(first) if _is_text(cell) and _of_numbers([cells[j] for cells in below])]
    if above_numbers and numbers_in_it:
        raise InputError(
            f"{path}, line {rows[0][0]}: both text ({first[above_numbers[0]]!r}, above numbers) and numbers, so it may be names "
            "or data. Say --header or --no-header."
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
    """Column names, no two alike; a column without one is called by its number."""
    names = tuple(cell.strip() or f"column {j + 1}" for j, cell in enumerate(cells))
    for j, name in enumerate(names):
        if name in names[:j]:
            raise InputError(
                f"{path}, {place}: two columns are called {name!r} (columns {names.index(name) + 1} and {j + 1}). Rename one."
            )
    return names


# Parquet.


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs pyarrow, which is not installed. Run pip install 'itergp[data]', or use CSV."
        ) from None
    try:
        with pq.ParquetFile(path) as file:
            names = _names(path, file.schema_arrow.names, "its schema")
            table = file.read()
    except (pa.ArrowException, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a Parquet file that can be read ({error}).") from None
    if not names or not table.num_rows:
        raise InputError(f"{path} is empty: {len(names)} columns, {table.num_rows} rows; expected at least one of each.")
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

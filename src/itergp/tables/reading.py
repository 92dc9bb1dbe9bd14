"""Tables as they are in files: CSV with the standard library alone, and Parquet if pyarrow is installed."""

import contextlib
import itertools
import zlib
from array import array
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, time
from pathlib import Path
from typing import Any

import numpy as np

from itergp.errors import InputError, StorageError
from itergp.tables.cells import Column, Plain, Text
from itergp.tables.csvs import LOOK, column_names, opened_csv
from itergp.tables.dates import arrow_days, is_arrow_date
from itergp.tables.lines import DAMAGE, opened
from itergp.tables.looking import looked_at
from itergp.tables.table import (
    ANY_DATES,
    DATES,
    INDEX,
    NUMBERS as NUMBERS,
    RAW,
    TEXT,
    Head as Head,
    How,
    Row,
    Table as Table,
    Use,
)

TOGETHER = 1 << 16  # cells joined into one text per column
ROOM = 24  # bytes needed per cell: a number, and copies of it


def read_table(
    path: Path,
    header: bool | None = None,
    known: Collection[str] = (),
    use: Use | None = None,
    decimal: str | None = None,
    otherwise: str | None = None,
    skip_bad: bool = False,
) -> Table:
    """Read a CSV or Parquet file. With `header=None`, whether the first line holds names is auto-detected.

    It does if it contains all of `known`, if it has text above numbers, or if there are no numbers at all.
    With `use`, other columns are left empty, and numbers are kept as such: much less memory.
    """
    how = How(header, known, decimal, otherwise, skip_bad)
    if use is not None:
        from itergp.tables.pieces import Pieces, joined

        return joined(Pieces(path, how, use))
    with readable(path) as parquet:
        return _read_parquet(path, how) if parquet else _read_csv(path, how)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[bool]:
    """Check that it is an ordinary file, and report what fails meanwhile. Yields whether it is Parquet."""
    from itergp.storage.replacing import irregular  # needs SciPy, which `itergp --help` should not import

    try:
        kind = irregular(path)
        if kind is not None:
            raise StorageError(
                f"{path} cannot be read: it is {kind}, not an ordinary file. Write the table to a file "
                "first, or use - to read it from a pipe."
            )
        with open(path, "rb") as file:
            start = file.read(4)
        yield start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")
    except StorageError:
        raise
    except (OSError, zlib.error, *DAMAGE) as error:
        # Arrow's own may have several lines, and end in a full stop
        reason = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
        raise StorageError(f"{path} cannot be read: {reason}.") from error


def _read_csv(path: Path, how: How) -> Table:
    with opened(path) as file:
        found = opened_csv(path, file, how)
        columns, places = _columns(path, found.rows, found.width)
    return Table(**vars(found.head), columns=columns, lines=places)


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


# Parquet.


def parquet_libraries(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs pyarrow, which is not installed. Run pip install pyarrow, or use CSV."
        ) from None
    return pa, pq


def _read_parquet(path: Path, how: How) -> Table:
    from itergp.linalg.compute import require_bytes

    pa, pq = parquet_libraries(path)
    with parquet_errors(path, pa), pq.ParquetFile(path) as file:
        head = parquet_head(path, pa, file, how)
        what = f"{path}: {file.metadata.num_rows:,} rows of {len(head.names):,} columns"
        require_bytes(ROOM * file.metadata.num_rows * len(head.names), what, "Remove rows or columns.")
        table = file.read()
    columns = tuple(
        arrow_column(pa, column, _use(pa, column, j, head)) for j, column in enumerate(table.columns)
    )
    return Table(**vars(head), columns=columns, lines=range(1, table.num_rows + 1))


def _use(pa: Any, column: Any, j: int, head: Head) -> str:
    """As what a column is read if nobody says: what keeps most of it."""
    if j in head.dates:
        return DATES
    return TEXT if pa.types.is_boolean(column.type) else NUMBERS


def parquet_head(path: Path, pa: Any, file: Any, how: How) -> Head:
    """Names and types are in the schema; of text, the first rows are looked at."""
    schema = file.schema_arrow
    names = column_names(path, schema.names, "its schema")
    require_content(path, len(names), file.metadata.num_rows)
    kinds = [_value_type(pa, kind) for kind in schema.types]
    text = [j for j, kind in enumerate(kinds) if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
    looked = _first_cells(pa, file, text)
    head = looked_at(Head(path, names, True, "row"), schema.names, looked, how)
    dates = {j for j, kind in enumerate(kinds) if is_arrow_date(pa, kind)}
    index = {j: INDEX for j, name in enumerate(schema.names) if name == "__index_level_0__"}
    left_out = {**head.left_out, **index}
    return Head(**vars(head) | {"dates": head.dates | dates, "left_out": left_out})


def _first_cells(pa: Any, file: Any, columns: list[int]) -> dict[int, list[str]]:
    if not columns:
        return {}
    batch = next(file.iter_batches(LOOK, columns=[file.schema_arrow.names[j] for j in columns]))
    return {j: _texts(batch.column(k)) for k, j in enumerate(columns)}


def _value_type(pa: Any, kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


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


def arrow_column(pa: Any, column: Any, use: str) -> Column:
    """Numbers as such; truth values as True and False where they are categories; all else as text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind):
        return [""] * len(column) if use == RAW else np.full(len(column), np.nan)
    if use in ANY_DATES and is_arrow_date(pa, kind):
        return arrow_days(pa, column)
    number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if not any(test(kind) for test in number):
        return _texts(column)
    # as float64, two long integers may be one category
    exact = pa.types.is_boolean(kind) or pa.types.is_integer(kind)
    if use in (RAW, *ANY_DATES) or (use == TEXT and exact):
        return Plain(_texts(column))
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _texts(column: Any) -> list[str]:
    """As CSV files have them: moments that are all at midnight are dates."""
    values = column.to_pylist()
    moments = [value for value in values if isinstance(value, datetime)]
    if moments and all(moment.time() == time.min for moment in moments):
        values = [value.date() if isinstance(value, datetime) else value for value in values]
    return ["" if value is None else str(value) for value in values]

"""Results as CSV or Parquet: written completely, or not at all."""

import contextlib
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from itergp.errors import InputError, StorageError

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}


def table_format(path: Path) -> str:
    """Choose the format by the file extension; called before any work is done."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} ends in {path.suffix!r}; expected a name that ends in .csv or .parquet.")
    kind = FORMATS[path.suffix.lower()]
    if kind == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError(
                f"{path}: Parquet needs pyarrow, which is not installed. Run pip install pyarrow, or "
                "use .csv."
            ) from None
    return kind


Columns = Mapping[str, np.ndarray | Sequence[str]]  # numbers, NaN for none, or text
COMMENT = "#"  # begins a line that is no row
ROW_GROUP = 1 << 20  # rows of Parquet that are written together, as Arrow does by itself


def write_table(path: Path, columns: Columns) -> None:
    """One column of numbers or text per name. An existing file is kept until everything is written."""
    with writing_table(path) as write:
        write(columns)


@contextlib.contextmanager
def writing_table(path: Path) -> Iterator[Callable[[Columns], None]]:
    """The same for rows that come one block after the other: the file is there when all of them are."""
    from itergp.storage.replacing import replacing  # needs SciPy, which `itergp --help` should not import

    kind = table_format(path)
    try:
        with replacing(path) as temporary, (_csv if kind == "csv" else _parquet)(temporary) as write:
            yield write
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextlib.contextmanager
def _csv(path: Path) -> Iterator[Callable[[Columns], None]]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        yield lambda columns: _write_csv(file, columns, names=file.tell() == 0)


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Callable[[Columns], None]]:
    """Rows are gathered into groups that do not depend on the blocks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting: list[Any] = []
    with contextlib.ExitStack() as stack:
        writers: list[Any] = []

        def flush(least: int) -> None:
            table = pa.concat_tables(waiting)
            if not writers:
                writers.append(stack.enter_context(pq.ParquetWriter(path, table.schema)))
            while table.num_rows >= least:
                writers[0].write_table(table.slice(0, ROW_GROUP), ROW_GROUP)
                table = table.slice(ROW_GROUP)
            waiting[:] = [table]

        def write(columns: Columns) -> None:
            waiting.append(pa.table({name: _arrow(pa, column) for name, column in columns.items()}))
            if sum(table.num_rows for table in waiting) >= ROW_GROUP:
                flush(ROW_GROUP)

        yield write
        flush(1)


def _arrow(pa: Any, column: np.ndarray | Sequence[str]) -> Any:
    """NaN becomes null."""
    return (
        pa.array(column, from_pandas=True)
        if isinstance(column, np.ndarray)
        else pa.array(column, pa.string())
    )


def csv_text(columns: Columns, names: bool = True) -> str:
    text = io.StringIO(newline="")
    _write_csv(text, columns, names)
    return text.getvalue()


def _write_csv(file: TextIO, columns: Columns, names: bool) -> None:
    """Numbers with enough digits to be read back exactly."""
    writer = csv.writer(file, lineterminator="\n")
    if names and next(iter(columns), "").startswith(COMMENT):  # in quotes it is none
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow(columns)
    elif names:
        writer.writerow(columns)
    writer.writerows(zip(*map(_cells, columns.values()), strict=True))


def _cells(column: np.ndarray | Sequence[str]) -> Sequence[Any]:
    """NaN becomes an empty cell."""
    if not isinstance(column, np.ndarray):
        return column
    cells = column.tolist()
    return ["" if cell != cell else cell for cell in cells] if np.isnan(column).any() else cells

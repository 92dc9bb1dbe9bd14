"""Results as CSV or Parquet: written completely, or not at all."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

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
                f"{path}: Parquet needs pyarrow, which is not installed. Run pip install 'itergp[data]', or "
                "use .csv."
            ) from None
    return kind


def write_table(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """One column of numbers per name. An existing file is kept until everything is written."""
    from itergp.storage.replacing import replacing  # needs SciPy, which `itergp --help` should not import

    kind = table_format(path)
    try:
        with replacing(path) as temporary:
            if kind == "csv":
                with open(temporary, "w", encoding="utf-8", newline="") as file:
                    _write_csv(file, columns)
            else:
                import pyarrow as pa
                import pyarrow.parquet as pq

                pq.write_table(pa.table(dict(columns)), temporary)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error


def csv_text(columns: Mapping[str, np.ndarray]) -> str:
    text = io.StringIO(newline="")
    _write_csv(text, columns)
    return text.getvalue()


def _write_csv(file: TextIO, columns: Mapping[str, np.ndarray]) -> None:
    """Numbers with enough digits to be read back exactly."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

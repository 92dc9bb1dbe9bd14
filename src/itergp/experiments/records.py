"""The records of an experiment: one JSON line per finished cell, appended and never changed."""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from itergp.errors import StorageError
from itergp.storage.replacing import replacing

Line = dict[str, Any]  # {"cell": key, "quick": ..., "seconds": ..., "records": [...], ...}: see running.py


def plain(value: Any) -> Any:
    """As JSON: NumPy's numbers and arrays as Python's, tuples as lists, values that are not finite as
    None."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def identity(key: Any) -> str:
    """The same text for the same key, in any order of its names."""
    return json.dumps(plain(key), sort_keys=True)


def read_lines(path: Path) -> list[Line]:
    """All finished cells. An incomplete last line, from a run killed while writing, does not count."""
    if not path.exists():
        return []
    rows = path.read_bytes().split(b"\n")  # what follows the last line end is incomplete or empty
    return [_parsed(path, number, row) for number, row in enumerate(rows[:-1], 1) if row.strip()]


def _parsed(path: Path, number: int, row: bytes) -> Line:
    try:
        line = json.loads(row)
        line["cell"], line["quick"], line["seconds"], line["records"]
        return line
    except (ValueError, KeyError, TypeError):
        raise StorageError(
            f"{path} is damaged in line {number}. Delete that line, and its cell is run again; the others "
            "are kept."
        ) from None


def drop_torn_line(path: Path) -> None:
    """Cut the file after its last line end, so that the next line does not begin inside an incomplete one."""
    if path.exists():
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


def append_line(path: Path, line: Line) -> None:
    """Written in one piece, and on disk when this returns."""
    with open(path, "ab") as file:
        file.write(json.dumps(plain(line), allow_nan=False, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def one_of_each(lines: Iterable[Line]) -> list[Line]:
    """One line per cell, the last one: files may be joined from several machines."""
    return list({identity(line["cell"]): line for line in lines}.values())


def grouped(records: Iterable[dict[str, Any]], *names: str) -> dict[Any, list[dict[str, Any]]]:
    """Records grouped by their values under these names, in order."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault(tuple(record[name] for name in names), []).append(record)
    return found


def keep_lines(path: Path, lines: Iterable[Line]) -> None:
    """The file with only these lines."""
    with replacing(path) as temporary:
        temporary.write_bytes(
            b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
        )

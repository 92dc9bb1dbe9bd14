"""Cells of a column: text as in the file, numbers, or a few different texts that repeat."""

import bisect
import itertools
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Cells = Sequence[str]
Column = Cells | np.ndarray  # text as in the file, or float64 with NaN for missing values

# missing numbers; a category is missing if it is empty
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    try:
        value = float(cell)
    except ValueError:
        return False
    return not math.isnan(value) and "_" not in cell


def numbers_of(cells: Cells) -> tuple[np.ndarray, tuple[int, str] | None]:
    """As float64, NaN for missing values; and the first cell that is neither missing nor a finite number."""
    values = _all_numbers(cells)
    if values is not None:
        return values, None
    values, foreign = np.full(len(cells), np.nan), None
    for i, cell in enumerate(cells):
        if is_number(cell) and math.isfinite(float(cell)):
            values[i] = float(cell)
        elif foreign is None and not is_missing(cell):
            foreign = i, cell.strip()
    return values, foreign


def _all_numbers(cells: Cells) -> np.ndarray | None:
    """All at once, or None; Python reads 1_000 as a number, which tables do not mean."""
    try:
        values = cells.numbers() if isinstance(cells, Text) else np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() and "_" not in "".join(cells) else None


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


class Coded(Sequence[str]):
    """Cells of which there are few different ones, without the spaces around them: each as a number."""

    def __init__(self) -> None:
        self.different: dict[str, int] = {}
        self._codes: list[np.ndarray] = []

    @staticmethod
    def of(cells: Cells) -> "Coded":
        if isinstance(cells, Coded):
            return cells
        coded = Coded()
        coded.append(cells)
        return coded

    def append(self, cells: Cells) -> None:
        if isinstance(cells, Coded):
            self.append_coded(list(cells.different), cells.codes)
            return
        known = self.different
        codes = (known.setdefault(cell, len(known)) for cell in map(str.strip, cells))
        self._codes.append(np.fromiter(codes, dtype=np.int32, count=len(cells)))

    def append_coded(self, different: Iterable[str], codes: np.ndarray) -> None:
        """Cells as numbers of other `different` ones."""
        known = self.different
        ours = np.array([known.setdefault(cell.strip(), len(known)) for cell in different], dtype=np.int32)
        self._codes.append(ours[codes] if ours.size else np.empty(0, dtype=np.int32))

    @property
    def codes(self) -> np.ndarray:
        if len(self._codes) != 1:
            self._codes = [np.concatenate([np.empty(0, dtype=np.int32), *self._codes])]
        return self._codes[0]

    def where(self, cells: Iterable[str]) -> np.ndarray:
        """Which rows have one of these cells."""
        return np.isin(self.codes, [self.different[cell] for cell in cells])

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return map(list(self.different).__getitem__, self.codes.tolist())

    def __getitem__(self, i: Any) -> Any:
        different = list(self.different)
        if isinstance(i, slice):
            return [different[code] for code in self.codes[i]]
        return different[self.codes[i]]


class Lines(Sequence[int]):
    """The lines of all rows: runs of consecutive ones take no memory."""

    def __init__(self) -> None:
        self._runs: list[Sequence[int]] = []
        self._ends = array("q", [0])

    def extend(self, lines: Sequence[int]) -> None:
        last = self._runs[-1] if self._runs else None
        if isinstance(lines, range) and isinstance(last, range) and last.stop == lines.start:
            self._runs[-1] = range(last.start, lines.stop)
            self._ends[-1] += len(lines)
        elif len(lines):
            self._runs.append(lines)
            self._ends.append(self._ends[-1] + len(lines))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not 0 <= i < len(self):
            raise IndexError(i)
        run = bisect.bisect_right(self._ends, i) - 1
        return self._runs[run][i - self._ends[run]]

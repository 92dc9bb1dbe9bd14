"""Cells of a column: text as in the file, numbers, or a few different texts that repeat."""

import bisect
import itertools
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Cells = Sequence[str]
Column = Cells | np.ndarray  # text as in the file, or float64 with NaN for missing values

# missing numbers; a category is missing if it is empty
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "<na>", "nat", "#n/a"))
DASHES = frozenset(("-", "--", "\u2013", "\u2014"))  # among numbers or dates they say that there is none
BOOLEANS = {"true": "1", "false": "0"}
DAMAGED = "\x1a"  # stands for all cells of a row that cannot be read, where these are skipped
_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)\.0+")


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def is_no_value(cell: str) -> bool:
    """In a column of numbers or dates; a category may be a dash."""
    return is_missing(cell) or cell.strip() in DASHES


def is_number(cell: str) -> bool:
    try:
        value = float(cell)
    except ValueError:
        return False
    return not math.isnan(value) and "_" not in cell


def spelled(cell: str) -> str:
    """A category without the spaces around it, spelled as Parquet would: true is True, and 4.0 is 4."""
    text = cell.strip()
    if text[:1] in "tTfF" and text.lower() in BOOLEANS:
        return text.capitalize()
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


class Plain(list[str]):
    """Numbers of a typed column as Python writes them: with a point, whatever the text of a table has."""


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
    """Cells of which there are few different ones, as categories are `spelled`: each as a number."""

    def __init__(self) -> None:
        self.different: dict[str, int] = {}
        self._written: dict[str, int] = {}  # as in the file
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
        self._codes.append(np.fromiter(map(self._code, cells), dtype=np.int32, count=len(cells)))

    def append_coded(self, different: Iterable[str], codes: np.ndarray) -> None:
        """Cells as numbers of other `different` ones."""
        ours = np.array([self._code(cell) for cell in different], dtype=np.int32)
        self._codes.append(ours[codes] if ours.size else np.empty(0, dtype=np.int32))

    def _code(self, cell: str) -> int:
        code = self._written.get(cell)
        if code is None:
            code = self._written[cell] = self.different.setdefault(spelled(cell), len(self.different))
        return code

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

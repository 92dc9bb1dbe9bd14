"""A table: names and columns of cells, each cell with its position, all unaltered."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from itergp.tables.cells import Cells, Coded, Column, Plain, is_missing
from itergp.tables.dates import days_of
from itergp.tables.notes import Notes
from itergp.tables.numbers import POINT, Numbers, numbers_of

Row = tuple[int, Cells]  # the line on which it begins, and its cells
# what a column is read as: float64, categories, days since 1970, or text as it is in the file
NUMBERS, TEXT, DATES, RAW = "numbers", "text", "dates", "raw"
DAY_FIRST = "dates with the day first"
ANY_DATES = (DATES, DAY_FIRST)
INDEX, EMPTY = "index", "empty"  # why a column is left out


@dataclass(frozen=True)
class How:
    """What a reader is told."""

    header: bool | None = None  # whether the first line holds names; found out if None
    known: Collection[str] = ()  # names that mark a header
    decimal: str | None = None  # "." or ","; found out if None
    otherwise: str | None = None  # if it cannot be found out
    skip_bad: bool = False  # whether rows of another width than the first are damaged, and no error
    use: "Use | None" = None  # which columns are used, so that others say nothing about decimals


@dataclass(frozen=True, eq=False)
class Head:
    """What is known of a table before its rows are read."""

    path: Path
    names: tuple[str, ...]
    header: bool  # whether the names are from the file, or "column 1", "column 2", ...
    unit: str = "line"
    decimal: str | None = None  # how decimals are written; None if that is not known
    dates: frozenset[int] = frozenset()  # columns that hold dates, as far as they were looked at
    day_first: frozenset[int] = frozenset()  # those of them that can only be read with the day first
    left_out: Mapping[int, str] = field(default_factory=dict)  # columns that are no features, and why
    notes: Notes = field(default_factory=Notes)


Use = Callable[[Head], Mapping[int, str]]  # which columns are used, and as what


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

    def numbers(self, column: int, kind: str = NUMBERS) -> Numbers:
        """A column as NUMBERS, or as DATES of either kind."""
        cells = self.columns[column]
        if not isinstance(cells, np.ndarray):
            return as_numbers(self, column, cells, kind)
        foreign = self.foreign.get(column)
        if foreign is None:
            infinite = np.flatnonzero(np.isinf(cells))
            foreign = (int(infinite[0]), repr(float(cells[infinite[0]]))) if infinite.size else None
        return Numbers(cells, foreign)

    def text(self, column: int) -> list[str]:
        """A column as text, for categories; 3.0 becomes "3"."""
        cells = self.columns[column]
        if not isinstance(cells, np.ndarray):
            return list(Coded.of(cells))
        return ["" if math.isnan(x) else str(int(x)) if x.is_integer() else repr(x) for x in cells.tolist()]

    def coded(self, column: int) -> Coded:
        """The same, each different text once."""
        cells = self.columns[column]
        return Coded.of(self.text(column) if isinstance(cells, np.ndarray) else cells)


def as_numbers(head: Head, column: int, cells: Cells, kind: str) -> Numbers:
    """Cells as numbers or days; what is unusual about the way they are written is noted."""
    if isinstance(cells, Coded):
        found = _of_coded(head, cells, kind)
    else:
        decimal = POINT if isinstance(cells, Plain) else head.decimal
        found = _read(cells, kind, decimal)
    for how, meaning in found.unusual.items():
        head.notes.add((how, column), f"{head.names[column]!r} has {meaning}.")
    head.notes.met(("without percent signs", column), found.plain)
    return found


def _read(cells: Cells, kind: str, decimal: str | None) -> Numbers:
    return days_of(cells, kind == DAY_FIRST) if kind in ANY_DATES else numbers_of(cells, decimal)


def _of_coded(head: Head, cells: Coded, kind: str) -> Numbers:
    """Each different cell once."""
    different = list(cells.different)
    found = _read(different, kind, head.decimal)
    values = found.values[cells.codes] if different else np.empty(0)
    foreign = np.flatnonzero(np.isinf(values))
    first = (int(foreign[0]), cells[int(foreign[0])]) if foreign.size else None
    return Numbers(values, first, found.unusual, found.plain)

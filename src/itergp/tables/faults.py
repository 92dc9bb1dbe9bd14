"""Cells that should be numbers and are not: found in a table or piece by piece, and named all in one
message."""

from collections.abc import Sequence

import numpy as np

from itergp.errors import InputError
from itergp.tables.cells import is_number, numbers_of
from itergp.tables.reading import Table

MANY = 12  # names in a message


class Faults:
    """What is wrong with the numbers in some columns. Text comes first, since it may be a whole column."""

    def __init__(self, names: Sequence[str], columns: Sequence[int]) -> None:
        self.names, self.columns = names, columns
        self.foreign: dict[int, tuple[str, str]] = {}  # the place of the first, and what is there
        self.missing: dict[int, tuple[str, int]] = {}  # the place of the first, and how many there are

    def add(self, table: Table) -> None:
        for j in self.columns:
            found = _first_bad(table, j)
            if found is None:
                continue
            row, cell = found
            if cell:
                self.foreign.setdefault(j, (table.place(row, j), cell))
            else:
                first, number = self.missing.get(j, (table.place(row, j), 0))
                self.missing[j] = first, number + int(table.missing(j).sum())

    def raise_first(self, advice: str) -> None:
        """Raise an error if there was anything."""
        foreign = [j for j in self.columns if j in self.foreign]
        for j in foreign:
            place, cell = self.foreign[j]
            also = f" So are cells of {listed([self.names[k] for k in foreign[1:]])}." if foreign[1:] else ""
            what = "not finite; expected a finite number" if is_number(cell) else "not a number"
            raise InputError(f"{place}: {cell!r} is {what}.{also} {_decimal_comma(cell)}{advice}")
        for j in self.columns:
            if j in self.missing:
                number = sum(number for _, number in self.missing.values())
                raise InputError(
                    f"{self.missing[j][0]}: the value is missing ({number} {'is' if number == 1 else 'are'} "
                    "missing in all). Fill them in, or remove these rows."
                )


def check_numbers(table: Table, columns: Sequence[int], advice: str) -> None:
    """Check that every cell of these columns is a finite number; raise for the first that is not."""
    faults = Faults(table.names, columns)
    faults.add(table)
    faults.raise_first(advice)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(map(repr, names[:MANY])) + more


def _first_bad(table: Table, j: int) -> tuple[int, str] | None:
    """The first row without a finite number, and its content ("" if missing). Text comes first."""
    cells = table.columns[j]
    if not isinstance(cells, np.ndarray):
        cells, foreign = numbers_of(cells)
        if foreign is not None:
            return foreign
    elif j in table.foreign:
        return table.foreign[j]
    rows = np.flatnonzero(~np.isfinite(cells))
    infinite = rows[np.isinf(cells[rows])]
    if infinite.size:
        return int(infinite[0]), repr(float(cells[infinite[0]]))
    return (int(rows[0]), "") if rows.size else None


def _decimal_comma(cell: str) -> str:
    return "Write decimals with a point. " if is_number(cell.replace(",", ".", 1)) and "," in cell else ""

"""Cells that should be numbers or dates and are not: found in a table or piece by piece, and named all in one
message."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from itergp.errors import InputError
from itergp.tables.cells import is_number
from itergp.tables.dates import days, is_date_like
from itergp.tables.numbers import COMMA, POINT, is_undecided, number, unit_of
from itergp.tables.table import ANY_DATES, DAY_FIRST, NUMBERS, Table

SKIPPING = ", or --skip-bad to leave such rows out"  # as part of an advice,
LEAVING = " --skip-bad leaves such rows out."  # or as a sentence of its own
MANY = 12  # names in a message
REMEDY = "Fill them in, remove these rows, or fit with --missing drop or --missing impute."


class Faults:
    """What is wrong with the numbers in some columns. Text comes first, since it may be a whole column.
    What is missing, or what is foreign, may be allowed."""

    def __init__(
        self, names: Sequence[str], kinds: Mapping[int, str], missing: bool = False, foreign: bool = False
    ) -> None:
        self.names, self.kinds, self._allowed = names, kinds, (missing, foreign)
        self.of_numbers: set[int] = set()  # columns with at least one
        self.foreign: dict[int, tuple[str, str]] = {}  # the place of the first, and what is there
        self.missing: dict[int, tuple[str, int]] = {}  # the place of the first, and how many there are
        self.signs: dict[int, tuple[Path, str]] = {}  # a number without a percent sign, where others have one

    def add(self, table: Table) -> None:
        missing_allowed, foreign_allowed = self._allowed
        for j, kind in self.kinds.items():
            found = table.numbers(j, kind)
            if found.foreign is not None and not foreign_allowed:
                row, cell = found.foreign
                self.foreign.setdefault(j, (table.place(row, j), cell))
            if np.isfinite(found.values).any():
                self.of_numbers.add(j)
            rows = np.flatnonzero(np.isnan(found.values))
            if rows.size and not missing_allowed:
                first, count = self.missing.get(j, (table.place(int(rows[0]), j), 0))
                self.missing[j] = first, count + rows.size
            plain = table.notes.example(("without percent signs", j))
            if plain is not None and table.notes.count(("percent", j)):
                self.signs[j] = table.path, plain

    def raise_first(self, advice: str) -> None:
        """Raise an error if there was anything."""
        foreign = [j for j in self.kinds if j in self.foreign]
        for j in foreign:
            place, cell = self.foreign[j]
            also = (
                f" Neither are cells of {listed([self.names[k] for k in foreign[1:]])}."
                if foreign[1:]
                else ""
            )
            wrong, hint = _wrong(cell, self.kinds[j]), _hint(cell, self.kinds[j])
            if not self.of_numbers.issuperset(foreign):  # no row would be left
                advice = advice.replace(SKIPPING, "").replace(LEAVING, "")
            raise InputError(f"{place}: {cell!r} is {wrong}.{also} {hint}{advice}")
        for j in self.kinds:
            if j in self.missing:
                number = sum(number for _, number in self.missing.values())
                raise InputError(
                    f"{self.missing[j][0]}: the value is missing ({number} {'is' if number == 1 else 'are'} "
                    f"missing in all). {REMEDY}"
                )
        for j, (path, plain) in self.signs.items():
            raise InputError(
                f"{path}, column {self.names[j]!r}: some numbers have percent signs, others have none, such "
                f"as {plain}, so it is not clear what these mean. Write all in one way, or leave out the "
                "column."
            )


def check_numbers(table: Table, columns: Sequence[int], advice: str) -> None:
    """Check that every cell of these columns is a finite number; raise for the first that is not."""
    faults = Faults(table.names, dict.fromkeys(columns, NUMBERS), missing=True)
    faults.add(table)
    faults.raise_first(advice)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(map(quoted, names[:MANY])) + more


def quoted(name: str) -> str:
    """A name in quotes, as a shell takes it: Python's escapes could not be pasted there. Names with control
    characters are escaped nonetheless, since a terminal would obey them."""
    if not name.isprintable():
        return repr(name)
    found = shlex.quote(name)
    return f"'{name}'" if found == name else found


def _wrong(cell: str, kind: str) -> str:
    if kind in ANY_DATES:
        example = "31.01.2024" if kind == DAY_FIRST else "2024-01-31"
        return f"not a date such as {example}, as others in this column are"
    if is_undecided(cell) and POINT in cell:
        return "not a number for certain"
    return "not finite; expected a finite number" if is_number(cell) else "not a number"


def _hint(cell: str, kind: str) -> str:
    if is_undecided(cell) and kind not in ANY_DATES:
        mark = "comma" if COMMA in cell else "point"
        why = "" if COMMA in cell else ", since other cells of the column have none"
        remedy = "use --decimal , or --decimal . to say so"
        return f"Whether its {mark} is a decimal one is not clear{why}: {remedy}. "
    if is_number(cell):
        return ""
    if number(cell, COMMA) is not None:
        return "Write decimals with a point, or use --decimal , if all have a comma. "
    if number(cell, POINT) is not None:
        return "Write decimals with a comma, as the first rows do, or use --decimal . if that is wrong. "
    if days(cell) is not None and kind not in ANY_DATES:
        return "It is a date, but the first rows of the column have none: put rows with dates first. "
    if is_date_like(cell):
        return "Write dates as 2024-01-31. "
    unit = unit_of(cell)
    return f"Currencies and units are not read: write the number without {unit!r}. " if unit else ""

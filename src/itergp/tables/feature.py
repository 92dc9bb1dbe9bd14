"""A column of a table as inputs of a model: a number, one column for each category, or parts of a date; and
what stands for a value that is missing."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from itergp.data.holes import Hole
from itergp.errors import InputError
from itergp.tables.cells import BOOLEANS, DAMAGED, Coded, spelled
from itergp.tables.dates import AUTO, Dates, chosen, from_json as dates_from_json
from itergp.tables.faults import listed
from itergp.tables.table import ANY_DATES, DATES, DAY_FIRST, NUMBERS, TEXT, Table

MOST_CATEGORIES = 1000
MISSING = ("refuse", "drop", "impute")  # what is done about missing values
NO_CATEGORY = (
    "there is no category here. Fill it in, remove the row, or fit with --missing drop or --missing impute."
)


@dataclass(frozen=True)
class Feature:
    """A column: numbers, categories that are one-hot encoded, or dates."""

    name: str
    place: int  # in the file used for fitting, from 0
    categories: tuple[str, ...] | None = None  # the empty one stands for those that are missing
    dates: Dates | None = None
    # in early models: stands for a number that is missing, or a date; 0 allows missing categories
    fill: float | None = None
    indicator: bool = False  # whether an input says where the value was missing
    percent: bool = False  # whether numbers had percent signs, so that 40 would mean something else
    holes: bool = False  # whether values may be missing, so that those of similar rows stand for them

    @property
    def kind(self) -> str:
        if self.categories is not None:
            return TEXT
        return NUMBERS if self.dates is None else DAY_FIRST if self.dates.day_first else DATES

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs that come from it."""
        if self.categories is not None:
            return [f"{self.name}={category}" if category else self.absent for category in self.categories]
        values = [self.name] if self.dates is None else self.dates.names(self.name)
        return values + [self.absent] * self.indicator

    @property
    def absent(self) -> str:
        """The name of the input that says where a value is missing, if there is one."""
        return f"{self.name} is missing"

    @property
    def hole(self) -> Hole:
        """Which of its inputs are missing together, and which says so."""
        count = len(self.inputs)
        if self.categories is None:
            values = range(count - self.indicator)
            return Hole(tuple(values), count - 1 if self.indicator else None)
        flag = self.categories.index("") if "" in self.categories else None
        return Hole(tuple(j for j in range(count) if j != flag), flag, category=True)

    def fill_in(self, out: np.ndarray, table: Table, j: int) -> tuple[np.ndarray, np.ndarray]:
        """The inputs that come from column j, (rows, inputs): NaN where values are missing; and where they
        are, and where a cell is not what it should be."""
        if self.categories is not None:
            return self._fill_categories(out, table.coded(j))
        values = table.numbers(j, self.kind).values
        missing, bad = np.isnan(values), np.isinf(values)
        usable = ~(bad | missing) if self.fill is None else ~bad
        if self.fill is not None:
            values = np.where(missing, self.fill, values)
        if self.indicator:
            out[:, -1] = missing
        if self.dates is None:
            out[:, 0] = values
        else:  # days of rows that are not usable would not be dates
            self.dates.fill(out[:, : len(self.dates.parts)], np.where(usable, values, self.dates.origin))
        if self.fill is None:
            out[np.ix_(missing, np.array(self.hole.values))] = np.nan
        return missing, bad

    def _fill_categories(self, out: np.ndarray, cells: Coded) -> tuple[np.ndarray, np.ndarray]:
        """A category that is missing, as none was in the fit, is none of them in early models."""
        known = self.codes(cells)
        code = known[cells.codes] if len(known) else np.empty(0, dtype=np.intp)
        out[:] = 0.0
        seen = code >= 0
        out[seen, code[seen]] = 1.0
        missing = cells.where(cell for cell in cells.different if not cell)
        if self.fill is None:
            out[np.ix_(missing, np.array(self.hole.values))] = np.nan
        return missing, ~seen & ~missing

    def codes(self, cells: Coded) -> np.ndarray:
        """Which of the categories each different cell is; -1 if it is none."""
        assert self.categories is not None
        code = {spelled(category): k for k, category in reversed(list(enumerate(self.categories)))}
        for word, digit in BOOLEANS.items():  # truth values are written either way
            pair = word.capitalize(), digit
            for one, other in (pair, pair[::-1]):
                if one in code:
                    code.setdefault(other, code[one])
        return np.array([code.get(cell, -1) for cell in cells.different], dtype=np.intp)

    def check_categories(self, table: Table, j: int, missing: bool, unseen: bool) -> None:
        """Raise for the first cell that is no category of the fit; `missing` and `unseen` ones may be
        allowed."""
        cells = table.coded(j)
        wrong = {
            cell
            for cell, code in zip(cells.different, self.codes(cells), strict=True)
            if code < 0 and not (unseen if cell else missing)
        }
        if not wrong:
            return
        i = int(cells.where(wrong).argmax())
        if not cells[i]:
            raise InputError(f"{table.place(i, j)}: {NO_CATEGORY}")
        known = [category for category in self.categories or () if category]
        raise InputError(
            f"{table.place(i, j)}: the fit has not seen the category {cells[i]!r}; it knows {listed(known)}."
        )

    # Stored with the model, as JSON.

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "place": self.place,
            "categories": None if self.categories is None else list(self.categories),
            "dates": None
            if self.dates is None
            else {
                "parts": list(self.dates.parts),
                "origin": self.dates.origin,
                "day_first": self.dates.day_first,
            },
            "fill": self.fill,
            "indicator": self.indicator,
            "percent": self.percent,
            "holes": self.holes,
        }

    @staticmethod
    def from_json(value: Any) -> "Feature":
        """KeyError, TypeError or ValueError if it is not what was stored. Early files have numbers and
        categories alone."""
        categories, fill = value.get("categories"), value.get("fill")
        if fill is not None and not (isinstance(fill, int | float) and abs(fill) < np.inf):
            raise ValueError(f"fill {fill!r}")
        return Feature(
            str(value["name"]),
            int(value["place"]),
            None if categories is None else tuple(map(str, categories)),
            dates_from_json(value.get("dates")),
            None if fill is None else float(fill),
            value.get("indicator", False) is True,
            value.get("percent", False) is True,
            value.get("holes", False) is True,
        )


def feature_of(table: Table, j: int, kind: str, missing: str, parts: str = AUTO) -> Feature | None:
    """A feature made from a column of the training data; None if all of its values are missing."""
    bare = Feature(table.names[j], j)
    if kind == TEXT:
        names = _categories(table, j, missing)
        return replace(bare, categories=names, holes=missing == "impute") if names else None
    found = table.numbers(j, kind)
    values, foreign = found.values, found.foreign
    known = values[np.isfinite(values)]
    if not known.size:  # a row that is skipped has no value either
        return None if foreign is None or foreign[1] == DAMAGED else bare
    if kind in ANY_DATES:
        bare = replace(bare, dates=chosen(known, parts, kind == DAY_FIRST))
    bare = replace(bare, percent=table.notes.count(("percent", j)) > 0)
    if missing != "impute":
        return bare
    return replace(bare, holes=True, indicator=bool(np.isnan(values).any()))


def _categories(table: Table, j: int, missing: str) -> tuple[str, ...]:
    cells = table.coded(j)
    if "" in cells.different and missing == "refuse":
        raise InputError(f"{table.place(int(cells.where(['']).argmax()), j)}: {NO_CATEGORY}")
    found = tuple(sorted(cell for cell in cells.different if cell and cell != DAMAGED))
    if len(found) > MOST_CATEGORIES:
        raise InputError(
            f"{table.path}, column {table.names[j]!r}: {len(found):,} different categories; expected at most "
            f"{MOST_CATEGORIES:,}, since each becomes a feature. --drop it, or group them."
        )
    return (*found, "") if found and "" in cells.different and missing == "impute" else found

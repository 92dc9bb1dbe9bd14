"""Which column is the target, and how the others become features: decided by the fit, stored in the model."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import InputError, StorageError
from itergp.tables.cells import Text
from itergp.tables.faults import Faults, check_numbers, listed
from itergp.tables.reading import NUMBERS, TEXT, Head, Table

VERSION = 1
MOST_CATEGORIES = 1000
ADVICE = "It was a number in the fit."
NO_CATEGORY = "there is no category here. Fill it in, or remove the row."


@dataclass(frozen=True)
class Feature:
    """A column: numbers, or categories that are one-hot encoded."""

    name: str
    place: int  # in the file used for fitting, from 0
    categories: tuple[str, ...] | None = None

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs that come from it."""
        return (
            [self.name]
            if self.categories is None
            else [f"{self.name}={category}" for category in self.categories]
        )


@dataclass(frozen=True)
class Layout:
    """The columns of a table as used by a model."""

    target: Feature | None
    features: tuple[Feature, ...]
    width: int  # columns of the file used for fitting
    header: bool  # whether columns are matched by name, or by position
    dropped: tuple[str, ...] = ()

    @staticmethod
    def of(
        table: Table,
        target: str,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        groups: int | None = None,
    ) -> "Layout":
        """Columns are given by name, or by number from 1; several can be separated by commas. `groups` is
        the place of a column that is no feature."""
        y, dropped, categories = _chosen(table, target, drop, categorical, groups)
        kept = [j for j in range(len(table.names)) if j != y and j not in dropped]
        features = tuple(
            Feature(table.names[j], j, _categories(table, j) if j in categories else None) for j in kept
        )
        left_out = tuple(table.names[j] for j in sorted(dropped))
        return Layout(Feature(table.names[y], y), features, len(table.names), table.header, left_out)

    @staticmethod
    def uses(
        head: Head,
        target: str,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        groups: int | None = None,
    ) -> dict[int, str]:
        """The columns that `of` will need of a table, and as what; wrong options are refused here already."""
        _, dropped, text = _chosen(head, target, drop, categorical, groups)
        used = {j: TEXT if j in text else NUMBERS for j in range(len(head.names)) if j not in dropped}
        return used if groups is None else used | {groups: TEXT}

    @staticmethod
    def of_inputs(features: int, names: Sequence[str] | None) -> "Layout":
        """For a model that was not fitted from a file: by the names of its features, or by position."""
        called = [f"column {j + 1}" for j in range(features)] if names is None else list(names)
        return Layout(None, tuple(map(Feature, called, range(features))), features, names is not None)

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs, in order."""
        return [name for feature in self.features for name in feature.inputs]

    @property
    def names(self) -> list[str]:
        """The columns that a header must have; none if columns are matched by position."""
        return [feature.name for feature in self.features] if self.header else []

    # From a table to arrays.

    def X(self, table: Table, advice: str = ADVICE) -> np.ndarray:
        """The model's inputs, (rows, features); columns unknown to the model are ignored."""
        places = self._places(table)
        check_numbers(table, self._numeric(places), advice)
        X, start = np.empty((table.rows, len(self.inputs))), 0
        for feature, j in zip(self.features, places, strict=True):
            stop = start + len(feature.inputs)
            _fill(X[:, start:stop], feature, table, j)
            start = stop
        return X

    def check(self, tables: Iterable[Table]) -> int:
        """How many rows there are in all; raise what `X` would for all of them in one table."""
        rows, faults, first = 0, None, None
        for table in tables:
            places = self._places(table)
            faults = faults or Faults(table.names, self._numeric(places))
            faults.add(table)
            rows += table.rows
            try:
                if first is None:
                    self._check_categories(table, places)
            except InputError as error:  # numbers come first
                first = error
        if faults is not None:
            faults.raise_first(ADVICE)
        if first is not None:
            raise first
        return rows

    def columns(self, head: Head, target: bool = False) -> dict[int, str]:
        """The columns of a table that the model needs, and as what."""
        places = self._places(head)
        used = {
            j: NUMBERS if feature.categories is None else TEXT
            for feature, j in zip(self.features, places, strict=True)
        }
        j = self._target_place(head) if target else None
        return used if j is None else {j: NUMBERS} | used

    def _numeric(self, places: Sequence[int]) -> list[int]:
        return [j for feature, j in zip(self.features, places, strict=True) if feature.categories is None]

    def _check_categories(self, table: Table, places: Sequence[int]) -> None:
        for feature, j in zip(self.features, places, strict=True):
            if feature.categories is not None:
                _codes(feature, table, j)

    def _target_place(self, head: Head) -> int | None:
        """None if there is no target in this table."""
        if self.target is None:
            return None
        if self.header:
            return head.names.index(self.target.name) if self.target.name in head.names else None
        return self.target.place if len(head.names) == self.width else None

    def y(self, table: Table) -> np.ndarray:
        """The target, (rows,)."""
        if self.target is None:
            raise InputError(
                "the model does not say which column is the target: it was not fitted by `itergp fit`."
            )
        if self.header and self.target.name not in table.names:
            raise InputError(
                f"{table.path} lacks the column {self.target.name!r}, the target; it has "
                f"{listed(table.names)}."
            )
        if not self.header and len(table.names) != self.width:
            raise InputError(self._width_message(table, f"{self.width} columns, the target among them"))
        j = self._target_place(table)
        assert j is not None
        check_numbers(table, [j], "The target must be numbers.")
        return _numbers(table, j)

    def unknown(self, table: Head) -> list[str]:
        """Columns that are unknown to the model."""
        if not self.header:
            return []
        known = {*self.names, *self.dropped, *([self.target.name] if self.target else [])}
        return [name for name in table.names if name not in known]

    def _places(self, table: Head) -> list[int]:
        """The positions of the features in this table."""
        if self.header:
            return self._places_by_name(table)
        if table.header:
            raise InputError(
                f"{table.path} has names in its first line, but the model was fitted without; remove "
                "them, or use --no-header if they are data."
            )
        if len(table.names) == self.width:
            return [feature.place for feature in self.features]
        if self.target is not None and len(table.names) == self.width - 1:
            return [feature.place - (feature.place > self.target.place) for feature in self.features]
        other = "" if self.target is None else f" (or {self.width - 1}, without the target)"
        raise InputError(self._width_message(table, f"{self.width} columns{other}"))

    def _places_by_name(self, table: Head) -> list[int]:
        if not table.header:
            raise InputError(
                f"{table.path} has no names in its first line; the model needs the columns "
                f"{listed(self.names)}. Add them, or use --header if they are there."
            )
        absent = [name for name in self.names if name not in table.names]
        if absent:
            what = "the column" if len(absent) == 1 else "the columns"
            raise InputError(
                f"{table.path} lacks {what} {listed(absent)}; it has "
                f"{listed(table.names)}.{_hint(absent, table.names)}"
            )
        return [table.names.index(name) for name in self.names]

    def _width_message(self, table: Head, expected: str) -> str:
        return f"{table.path} has {len(table.names)} columns; expected {expected}, in the order of the fit."

    # Stored with the model, as JSON.

    def as_json(self) -> dict[str, Any]:
        target = None if self.target is None else {"name": self.target.name, "place": self.target.place}
        features = [
            {
                "name": f.name,
                "place": f.place,
                "categories": None if f.categories is None else list(f.categories),
            }
            for f in self.features
        ]
        where = {"width": self.width, "header": self.header, "dropped": list(self.dropped)}
        return {"version": VERSION, "target": target, "features": features, **where}

    @staticmethod
    def from_json(value: Any) -> "Layout":
        try:
            if value["version"] > VERSION:
                raise StorageError(
                    "the model's columns were written by a later version of itergp; upgrade it."
                )
            target = (
                None
                if value["target"] is None
                else Feature(str(value["target"]["name"]), int(value["target"]["place"]))
            )
            features = tuple(
                Feature(
                    str(f["name"]),
                    int(f["place"]),
                    None if f["categories"] is None else tuple(map(str, f["categories"])),
                )
                for f in value["features"]
            )
            return Layout(
                target,
                features,
                int(value["width"]),
                bool(value["header"]),
                tuple(map(str, value["dropped"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the model's columns cannot be understood ({error!r}).") from None


# Columns by name or number.


def column_of(table: Head, asked: str, option: str) -> int:
    """The position of a column given by name, or by number from 1; names take precedence."""
    place = _place(table, asked)
    if place is None:
        numbers = "" if table.header else " The file has no names: use numbers."
        raise InputError(
            f"{option} is {asked!r}, which is not a column of {table.path}; its columns are "
            f"{listed(table.names)}.{numbers}{_hint([asked], table.names)}"
        )
    return place


def _chosen(
    table: Head, target: str, drop: Sequence[str], categorical: Sequence[str], groups: int | None
) -> tuple[int, set[int], set[int]]:
    """The places of the target, of what is no feature, and of categories."""
    y = column_of(table, target, "--target")
    dropped, categories = _columns_of(table, drop, "--drop"), _columns_of(table, categorical, "--categorical")
    by = set() if groups is None else {groups}
    for option, columns in (("--drop", dropped), ("--categorical", categories), ("--groups", by)):
        if y in columns:
            raise InputError(
                f"{option} names {table.names[y]!r}, which is the target; expected another column."
            )
    for option, columns in (("--drop", dropped), ("--groups", by)):
        for j in columns & categories:
            raise InputError(
                f"{option} and --categorical both name {table.names[j]!r}; expected one of them."
            )
    if len(dropped | by) + 1 == len(table.names):
        raise InputError(
            f"{table.path} has no column other than the target {table.names[y]!r}; expected a feature."
        )
    return y, dropped | by, categories


def _place(table: Head, asked: str) -> int | None:
    name = asked.strip()
    if name in table.names:
        return table.names.index(name)
    if name.isascii() and name.isdigit() and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    return None


def _columns_of(table: Head, asked: Sequence[str], option: str) -> set[int]:
    """Split each item at commas; a column name that contains a comma is tried as it is first."""
    found = set()
    for one in asked:
        parts = [one] if _place(table, one) is not None else one.split(",")
        found |= {column_of(table, part, option) for part in parts}
    return found


def _hint(absent: Sequence[str], names: Sequence[str]) -> str:
    close = difflib.get_close_matches(absent[0], names, 1) if len(absent) == 1 else []
    return f" Did you mean {close[0]!r}?" if close else ""


# Cells to numbers.


def _fill(out: np.ndarray, feature: Feature, table: Table, j: int) -> None:
    """The inputs that come from a column."""
    if feature.categories is None:
        cells = table.columns[j]
        out[:, 0] = cells if isinstance(cells, np.ndarray) else _numbers(table, j)
        return
    out[:] = 0.0
    out[np.arange(table.rows), _codes(feature, table, j)] = 1.0


def _codes(feature: Feature, table: Table, j: int) -> np.ndarray:
    """Which of the feature's categories each row has."""
    assert feature.categories is not None
    code, cells = {category: k for k, category in enumerate(feature.categories)}, table.coded(j)
    unseen = cells.where(cell for cell in cells.different if not cell or cell not in code)
    if unseen.any():
        i = int(unseen.argmax())
        if not cells[i]:
            raise InputError(f"{table.place(i, j)}: {NO_CATEGORY}")
        raise InputError(
            f"{table.place(i, j)}: the fit has not seen the category {cells[i]!r}; it knows "
            f"{listed(list(code))}."
        )
    return np.array([code.get(cell, 0) for cell in cells.different])[cells.codes]


def _categories(table: Table, j: int) -> tuple[str, ...]:
    cells = table.coded(j)
    if "" in cells.different:
        raise InputError(f"{table.place(int(cells.where(['']).argmax()), j)}: {NO_CATEGORY}")
    found = tuple(sorted(cells.different))
    if len(found) > MOST_CATEGORIES:
        raise InputError(
            f"{table.path}, column {table.names[j]!r}: {len(found):,} different categories; expected at most "
            f"{MOST_CATEGORIES:,}, since each becomes a feature. --drop it, or group them."
        )
    return found


def _numbers(table: Table, j: int) -> np.ndarray:
    cells = table.columns[j]
    return cells.numbers() if isinstance(cells, Text) else np.array(cells, dtype=np.float64)

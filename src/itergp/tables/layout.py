"""Which column is the target, and how the others become features: decided by the fit, stored in the model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from itergp.data.holes import Holes
from itergp.errors import InputError, StorageError
from itergp.tables.columns import chosen_columns, hint
from itergp.tables.dates import AUTO
from itergp.tables.faults import LEAVING, Faults, check_numbers, listed, quoted
from itergp.tables.feature import MISSING, Feature, feature_of
from itergp.tables.numbers import DECIMALS
from itergp.tables.table import DATES, DAY_FIRST, EMPTY, INDEX, NUMBERS, TEXT, Head, Table

TAKEN_AS_KNOWN = (
    "the model is of an earlier version, for which the median of the fit stands for them and is taken for "
    "known: intervals of such rows can be far too narrow. Fit it again."
)
VERSION = 3
ADVICE = f"It was one in the fit.{LEAVING}"


@dataclass(frozen=True)
class Choice:
    """What is asked for: columns by name, or by number from 1, several separated by commas; `groups` is the
    place of a column that is no feature."""

    target: str
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    groups: int | None = None
    missing: str = "refuse"
    dates: str = AUTO

    def of(self, head: Head) -> tuple[int, set[int], dict[int, str]]:
        """The places of the target, of what is left out, and of the features with what they are."""
        y, dropped, text = chosen_columns(head, self.target, self.drop, self.categorical, self.groups)
        if y in head.dates:
            raise InputError(
                f"--target is {quoted(head.names[y])}, which holds dates; expected a column of numbers. To "
                "predict when, add a column with the days since some day, and name that."
            )
        kept = [j for j in range(len(head.names)) if j != y and j not in dropped]
        kinds = {j: TEXT if j in text else _kind(head, j) for j in kept}
        return y, dropped, kinds


def _kind(head: Head, j: int) -> str:
    """Of a column that holds no categories."""
    return DAY_FIRST if j in head.day_first else DATES if j in head.dates else NUMBERS


@dataclass(frozen=True)
class Layout:
    """The columns of a table as used by a model."""

    target: Feature | None
    features: tuple[Feature, ...]
    width: int  # columns of the file used for fitting
    header: bool  # whether columns are matched by name, or by position
    dropped: tuple[str, ...] = ()
    missing: str = "refuse"  # what is done about missing values: refuse, drop or impute
    decimal: str | None = None  # how the file used for fitting wrote decimals, where another does not tell
    # inputs in use that say where a value is missing: of a finished model, and read off the fit
    told: frozenset[str] | None = None

    @staticmethod
    def of(table: Table, target: str, *others: Any, **options: Any) -> "Layout":
        """As `Choice` takes them. What is done about columns is noted."""
        asked = Choice(target, *others, **options)
        y, dropped, kinds = asked.of(table)
        found = {j: feature_of(table, j, kind, asked.missing, asked.dates) for j, kind in kinds.items()}
        _note(table, dropped, found)
        features = tuple(feature for feature in found.values() if feature is not None)
        if not features:
            raise InputError(f"{table.path} has no column with values other than the target; expected one.")
        left_out = tuple(table.names[j] for j in sorted({*dropped, *(j for j in found if found[j] is None)}))
        table.numbers(y)  # which notes how they are written
        bare = Feature(table.names[y], y, percent=table.notes.count(("percent", y)) > 0)
        return Layout(bare, features, len(table.names), table.header, left_out, asked.missing, table.decimal)

    @staticmethod
    def uses(head: Head, target: str, *others: Any, **options: Any) -> dict[int, str]:
        """The columns that `of` will need of a table, and as what; wrong options are refused here already."""
        asked = Choice(target, *others, **options)
        y, _, kinds = asked.of(head)
        used = {y: NUMBERS} | kinds
        used = {j: used[j] for j in sorted(used)}
        return used if asked.groups is None else used | {asked.groups: TEXT}

    @staticmethod
    def of_inputs(features: int, names: Sequence[str] | None) -> "Layout":
        """For a model that was not fitted from a file: by the names of its features, or by position."""
        called = [f"column {j + 1}" for j in range(features)] if names is None else list(names)
        return Layout(None, tuple(map(Feature, called, range(features))), features, names is not None)

    def with_target(self, asked: str) -> "Layout":
        """For a model that does not know its target: by name, or by number from 1 among all columns."""
        if self.header:
            if asked in self.names:
                raise InputError(f"--target is {asked!r}, which is a feature of the model; expected another.")
            return replace(self, target=Feature(asked, -1))
        width = self.width + 1
        if not (asked.isascii() and asked.isdigit() and 1 <= int(asked) <= width):
            raise InputError(
                f"--target is {asked!r}; expected a number from 1 to {width}, since the model does not know "
                "the names of its columns."
            )
        y = int(asked) - 1
        features = tuple(replace(f, place=f.place + (f.place >= y)) for f in self.features)
        return replace(self, target=Feature(f"column {y + 1}", y), features=features, width=width)

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs, in order."""
        return [name for feature in self.features for name in feature.inputs]

    @property
    def names(self) -> list[str]:
        """The columns that a header must have; none if columns are matched by position."""
        return [feature.name for feature in self.features] if self.header else []

    @property
    def holes(self) -> Holes | None:
        """Which inputs may be missing; None if there are none, as in early models."""
        found, start = [], 0
        for feature in self.features:
            if feature.holes:
                found.append(feature.hole.moved(start))
            start += len(feature.inputs)
        return Holes(tuple(found)) if found else None

    def knowing(self, holes: Holes | None) -> "Layout":
        """The same, with what the fit found about inputs that may be missing; early models have none."""
        if holes is None:
            return self
        inputs = self.inputs
        flags = (hole.flag for hole in holes.columns if hole.told and hole.flag is not None)
        return replace(self, told=frozenset(inputs[flag] for flag in flags))

    def outcome(self) -> list[str]:
        """Sentences about the columns that lacked values in the fit: whether an input says where."""
        if self.told is None:
            return []
        found: dict[bool, list[str]] = {True: [], False: []}
        for feature in self.features:
            if feature.holes and feature.hole.flag is not None:
                found[feature.absent in self.told].append(feature.name)
        return [f"{listed(names)}: {SAID[told]}." for told, names in found.items() if names]

    # From a table to arrays.

    def X(self, table: Table, advice: str = ADVICE) -> np.ndarray:
        """The model's inputs, (rows, features), NaN where they may be missing and are; columns unknown to the
        model are ignored."""
        return self.rows(table, advice)[0]

    def rows(
        self, table: Table, advice: str = ADVICE, skip_bad: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The model's inputs, and which rows have none: for want of values, or since a cell is not what it
        should be. Raises where this is not allowed."""
        places = self._places(table)
        self._check_numbers([table], places, advice, skip_bad)
        self._check_categories(table, places, skip_bad)
        X, start = np.empty((table.rows, len(self.inputs))), 0
        missing, bad = np.zeros((2, table.rows), dtype=bool)
        for feature, j in zip(self.features, places, strict=True):
            stop = start + len(feature.inputs)
            absent, wrong = feature.fill_in(X[:, start:stop], table, j)
            bad |= wrong
            if feature.fill is None and not feature.holes:
                missing |= absent
            elif absent.any():
                _note_filled(table, feature, int(absent.sum()), self.told)
            start = stop
        return X, missing & ~bad, bad

    def check(self, tables: Iterable[Table], skip_bad: bool = False) -> int:
        """How many rows there are in all; raise what `rows` would for all of them in one table."""
        rows, faults, first = 0, None, None
        for table in tables:
            places = self._places(table)
            faults = faults or self._faults(table, places, skip_bad)
            faults.add(table)
            rows += table.rows
            try:
                if first is None:
                    self._check_categories(table, places, skip_bad)
            except InputError as error:  # numbers come first
                first = error
        if faults is not None:
            faults.raise_first(ADVICE)
        if first is not None:
            raise first
        return rows

    def columns(self, head: Head, target: bool = False) -> dict[int, str]:
        """The columns of a table that the model needs, and as what."""
        used = {j: feature.kind for feature, j in zip(self.features, self._places(head), strict=True)}
        j = self._target_place(head) if target else None
        return used if j is None else {j: NUMBERS} | used

    def note_percent(self, table: Table) -> None:
        """Say where a column has percent signs, and had none in the fit, or the other way round."""
        columns = [*zip(self.features, self._places(table), strict=True)]
        y = self._target_place(table)
        if self.target is not None and y is not None:
            columns.append((self.target, y))
        for feature, j in columns:
            signs = table.notes.count(("percent", j)) > 0
            if feature.kind == NUMBERS and signs != feature.percent and not table.missing(j).all():
                here, there = ("has", "had none") if signs else ("has no", "had them")
                said = f"{feature.name!r} {here} percent signs here, and {there} in the fit: 40 % is 0.4."
                table.notes.add(("percent as in the fit", j), said)

    def _faults(self, table: Table, places: Sequence[int], skip_bad: bool) -> Faults:
        kinds = {j: f.kind for f, j in zip(self.features, places, strict=True) if f.categories is None}
        return Faults(table.names, kinds, missing=self.missing != "refuse", foreign=skip_bad)

    def _check_numbers(
        self, tables: Iterable[Table], places: Sequence[int], advice: str, skip_bad: bool
    ) -> None:
        for table in tables:
            faults = self._faults(table, places, skip_bad)
            faults.add(table)
            faults.raise_first(advice)

    def _check_categories(self, table: Table, places: Sequence[int], skip_bad: bool) -> None:
        for feature, j in zip(self.features, places, strict=True):
            if feature.categories is not None:
                feature.check_categories(table, j, missing=self.missing != "refuse", unseen=skip_bad)

    def _target_place(self, head: Head) -> int | None:
        """None if there is no target in this table."""
        if self.target is None:
            return None
        if self.header:
            return head.names.index(self.target.name) if self.target.name in head.names else None
        return self.target.place if len(head.names) == self.width else None

    def y(self, table: Table, skip_bad: bool = False) -> np.ndarray:
        """The target, (rows,): NaN where it is missing, infinite in rows to be skipped."""
        if self.target is None:
            raise InputError(
                "the model does not say which column is the target: it was not fitted by `itergp fit`. Name "
                "it with --target."
            )
        if self.header and self.target.name not in table.names:
            raise InputError(
                f"{table.path} lacks the column {self.target.name!r}, the target; it has "
                f"{listed(table.names)}.{hint([self.target.name], table.names)}"
            )
        if not self.header and len(table.names) != self.width:
            raise InputError(self._width_message(table, f"{self.width} columns, the target among them"))
        j = self._target_place(table)
        assert j is not None
        if not skip_bad:
            check_numbers(
                table, [j], f"The target must be numbers: write numbers, or choose another.{LEAVING}"
            )
        return table.numbers(j).values

    def without_numbers(self, table: Table) -> list[str]:
        """Columns used as numbers or dates in which no cell is any, though there are some."""
        places = zip(self.features, self._places(table), strict=True)
        kinds = [(j, feature.kind) for feature, j in places if feature.categories is None]
        return [table.names[j] for j, kind in kinds if np.isinf(table.numbers(j, kind).values).all()]

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
                f"{listed(table.names)}.{hint(absent, table.names)}"
            )
        return [table.names.index(name) for name in self.names]

    def _width_message(self, table: Head, expected: str) -> str:
        return f"{table.path} has {len(table.names)} columns; expected {expected}, in the order of the fit."

    # Stored with the model, as JSON.

    def as_json(self) -> dict[str, Any]:
        y = self.target
        target = None if y is None else {"name": y.name, "place": y.place, "percent": y.percent}
        features = [feature.as_json() for feature in self.features]
        where = {"width": self.width, "header": self.header, "dropped": list(self.dropped)}
        how = {"missing": self.missing, "decimal": self.decimal}
        return {"version": VERSION, "target": target, "features": features, **where, **how}

    @staticmethod
    def from_json(value: Any) -> "Layout":
        """Early files know nothing of missing values, dates and decimals."""
        try:
            if value["version"] > VERSION:
                raise StorageError(
                    "the model's columns were written by a later version of itergp; upgrade it."
                )
            missing, decimal = value.get("missing", "refuse"), value.get("decimal")
            if missing not in MISSING or decimal not in (None, *DECIMALS):
                raise ValueError(f"missing {missing!r}, decimal {decimal!r}")
            return Layout(
                None if value["target"] is None else Feature.from_json(value["target"]),
                tuple(map(Feature.from_json, value["features"])),
                int(value["width"]),
                bool(value["header"]),
                tuple(map(str, value["dropped"])),
                missing,
                decimal,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(f"the model's columns cannot be understood ({error!r}).") from None


# What is said.

WHY = {INDEX: "numbers the rows, so it is no feature", EMPTY: "has no name, and no value in the first rows"}


def _note(table: Table, dropped: Iterable[int], found: dict[int, Feature | None]) -> None:
    """Of columns that became something else, and of those that were left out by themselves."""
    for j in sorted(dropped):
        why = table.left_out.get(j)
        if why is not None:
            what = WHY[why]
            own = f"column {j + 1}"  # what it is called if it has no name
            called = own if table.names[j] == own else f"{own} ({table.names[j]!r})"
            table.notes.add(("left out", j), f"{called} {what}: left out.")
    for j, feature in found.items():
        if feature is None:
            table.notes.add(("left out", j), f"{table.names[j]!r} has no value in any row: left out.")
        elif feature.dates is not None:
            parts = ", ".join(name.removeprefix(f"{feature.name}: ") for name in feature.inputs)
            table.notes.add(("date", j), f"{feature.name!r} is a date, used as: {parts}.")


# whether an input says where values are missing
SAID = {
    True: "an input says where values are missing",
    False: "no input says where values are missing, since held-out errors did not ask for one",
}


def _note_filled(table: Table, feature: Feature, count: int, told: frozenset[str] | None) -> None:
    said = f"{feature.name!r} has missing values ({{count}}): those of similar rows stand for them"
    if feature.hole.flag is None:
        said += "; the fit had none."
    elif told is None:  # the fit will find it out
        said += ". If held-out errors ask for it, an input says where."
    else:
        said += f"; {SAID[feature.absent in told]}."
    table.notes.add(("missing", feature.name), said, count)
    if feature.fill is not None:
        table.notes.add(("filled in", ""), TAKEN_AS_KNOWN)

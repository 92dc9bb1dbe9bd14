"""Which column is the target, and how the others become features: decided by the fit, stored in the model."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import InputError, StorageError
from itergp.tables.reading import Table, Text, is_number

VERSION = 1
MOST_CATEGORIES = 1000
MANY = 12  # names in a message
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
        y = column_of(table, target, "--target")
        dropped, categories = (
            _columns_of(table, drop, "--drop"),
            _columns_of(table, categorical, "--categorical"),
        )
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
        dropped |= by
        kept = [j for j in range(len(table.names)) if j != y and j not in dropped]
        if not kept:
            raise InputError(
                f"{table.path} has no column other than the target {table.names[y]!r}; expected a feature."
            )
        features = tuple(
            Feature(table.names[j], j, _categories(table, j) if j in categories else None) for j in kept
        )
        left_out = tuple(table.names[j] for j in sorted(dropped))
        return Layout(Feature(table.names[y], y), features, len(table.names), table.header, left_out)

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

    def X(self, table: Table, advice: str = "It was a number in the fit.") -> np.ndarray:
        """The model's inputs, (rows, features); columns unknown to the model are ignored."""
        places = self._places(table)
        numeric = [j for feature, j in zip(self.features, places, strict=True) if feature.categories is None]
        _check_numbers(table, numeric, advice)
        return np.concatenate(
            [_values(feature, table, j) for feature, j in zip(self.features, places, strict=True)], axis=1
        )

    def y(self, table: Table) -> np.ndarray:
        """The target, (rows,)."""
        if self.target is None:
            raise InputError(
                "the model does not say which column is the target: it was not fitted by `itergp fit`."
            )
        if self.header and self.target.name not in table.names:
            raise InputError(
                f"{table.path} lacks the column {self.target.name!r}, the target; it has "
                f"{_listed(table.names)}."
            )
        if not self.header and len(table.names) != self.width:
            raise InputError(self._width_message(table, f"{self.width} columns, the target among them"))
        j = table.names.index(self.target.name) if self.header else self.target.place
        _check_numbers(table, [j], "The target must be numbers.")
        return _numbers(table, j)

    def unknown(self, table: Table) -> list[str]:
        """Columns that are unknown to the model."""
        if not self.header:
            return []
        known = {*self.names, *self.dropped, *([self.target.name] if self.target else [])}
        return [name for name in table.names if name not in known]

    def _places(self, table: Table) -> list[int]:
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

    def _places_by_name(self, table: Table) -> list[int]:
        if not table.header:
            raise InputError(
                f"{table.path} has no names in its first line; the model needs the columns "
                f"{_listed(self.names)}. Add them, or use --header if they are there."
            )
        absent = [name for name in self.names if name not in table.names]
        if absent:
            what = "the column" if len(absent) == 1 else "the columns"
            raise InputError(
                f"{table.path} lacks {what} {_listed(absent)}; it has "
                f"{_listed(table.names)}.{_hint(absent, table.names)}"
            )
        return [table.names.index(name) for name in self.names]

    def _width_message(self, table: Table, expected: str) -> str:
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


def column_of(table: Table, asked: str, option: str) -> int:
    """The position of a column given by name, or by number from 1; names take precedence."""
    place = _place(table, asked)
    if place is None:
        numbers = "" if table.header else " The file has no names: use numbers."
        raise InputError(
            f"{option} is {asked!r}, which is not a column of {table.path}; its columns are "
            f"{_listed(table.names)}.{numbers}{_hint([asked], table.names)}"
        )
    return place


def _place(table: Table, asked: str) -> int | None:
    name = asked.strip()
    if name in table.names:
        return table.names.index(name)
    if name.isascii() and name.isdigit() and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    return None


def _columns_of(table: Table, asked: Sequence[str], option: str) -> set[int]:
    """Split each item at commas; a column name that contains a comma is tried as it is first."""
    found = set()
    for one in asked:
        parts = [one] if _place(table, one) is not None else one.split(",")
        found |= {column_of(table, part, option) for part in parts}
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(map(repr, names[:MANY])) + more


def _hint(absent: Sequence[str], names: Sequence[str]) -> str:
    close = difflib.get_close_matches(absent[0], names, 1) if len(absent) == 1 else []
    return f" Did you mean {close[0]!r}?" if close else ""


# Cells to numbers.


def _values(feature: Feature, table: Table, j: int) -> np.ndarray:
    if feature.categories is None:
        return _numbers(table, j)[:, None]
    code = {category: k for k, category in enumerate(feature.categories)}
    values = np.zeros((table.rows, len(code)))
    for i, cell in enumerate(table.text(j)):
        if not cell:
            raise InputError(f"{table.place(i, j)}: {NO_CATEGORY}")
        if cell not in code:
            raise InputError(
                f"{table.place(i, j)}: the fit has not seen the category {cell!r}; it knows "
                f"{_listed(list(code))}."
            )
        values[i, code[cell]] = 1.0
    return values


def _categories(table: Table, j: int) -> tuple[str, ...]:
    cells = table.text(j)
    if "" in cells:
        raise InputError(f"{table.place(cells.index(''), j)}: {NO_CATEGORY}")
    found = tuple(sorted(set(cells)))
    if len(found) > MOST_CATEGORIES:
        raise InputError(
            f"{table.path}, column {table.names[j]!r}: {len(found):,} different categories; expected at most "
            f"{MOST_CATEGORIES:,}, since each becomes a feature. --drop it, or group them."
        )
    return found


def _numbers(table: Table, j: int) -> np.ndarray:
    cells = table.columns[j]
    return cells.numbers() if isinstance(cells, Text) else np.array(cells, dtype=np.float64)


def _check_numbers(table: Table, columns: Sequence[int], advice: str) -> None:
    """Check that every cell of these columns is a finite number; raise for the first that is not."""
    bad = {j: found for j in columns if (found := _first_bad(table, j)) is not None}
    foreign = [j for j, (_, cell) in bad.items() if cell]
    for j in foreign:
        row, cell = bad[j]
        also = f" So are cells of {_listed([table.names[k] for k in foreign[1:]])}." if foreign[1:] else ""
        what = "not finite; expected a finite number" if is_number(cell) else "not a number"
        raise InputError(f"{table.place(row, j)}: {cell!r} is {what}.{also} {_decimal_comma(cell)}{advice}")
    for j, (row, _) in bad.items():
        number = sum(int(table.missing(k).sum()) for k in bad)
        raise InputError(
            f"{table.place(row, j)}: the value is missing ({number} {'is' if number == 1 else 'are'} missing "
            "in all). Fill them in, or remove these rows."
        )


def _first_bad(table: Table, j: int) -> tuple[int, str] | None:
    """The first row without a finite number, and its content ("" if missing). Text comes first."""
    cells = table.columns[j]
    if isinstance(cells, np.ndarray):
        rows = np.flatnonzero(~np.isfinite(cells))
        infinite = rows[np.isinf(cells[rows])]
        return (
            (int(infinite[0]), repr(float(cells[infinite[0]])))
            if infinite.size
            else (int(rows[0]), "")
            if rows.size
            else None
        )
    if _all_numbers(cells):
        return None
    missing = table.missing(j)
    for i, cell in enumerate(cells):
        if not missing[i] and (not is_number(cell) or not np.isfinite(float(cell))):
            return i, cell.strip()
    return (int(np.argmax(missing)), "") if missing.any() else None


def _all_numbers(cells: Sequence[str]) -> bool:
    """All at once; Python reads 1_000 as a number, which tables do not mean."""
    try:
        numbers = cells.numbers() if isinstance(cells, Text) else np.array(cells, dtype=np.float64)
        return bool(np.isfinite(numbers).all()) and not any("_" in cell for cell in cells)
    except ValueError:
        return False


def _decimal_comma(cell: str) -> str:
    return "Write decimals with a point. " if is_number(cell.replace(",", ".", 1)) and "," in cell else ""

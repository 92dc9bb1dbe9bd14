"""The columns of a table as a reader knows them: numbers, and categories that were made into columns of their
own."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from itergp.data.categories import features_of
from itergp.data.holes import Hole, Holes
from itergp.fitted.units import Scaling

MISSING = "missing"
SEPARATORS = "=_:. "  # between the name of a category and its values, as in species=Adelie


@dataclass(frozen=True, eq=False)
class Column:
    """A number, or the columns of a category, of which one is on."""

    name: str
    numbers: tuple[int, ...]  # of the columns of X
    values: tuple[str, ...] = ()  # of a category
    on: np.ndarray | None = None  # the value of each column where its category is this one
    centre: float = 0.0  # of a number, and its unit
    unit: float = 1.0
    flag: int | None = None  # the input that says whether it is missing, unless that is a category of it
    hole: int | None = None  # its number among the columns that may be missing

    @property
    def category(self) -> bool:
        return len(self.numbers) > 1

    def value(self, x: np.ndarray) -> float | str:
        """What it is in a row in the units of the data; "none of these" where no column is on."""
        if self.flag is not None and x[self.flag] > 0.5:
            return MISSING
        if not self.category or self.on is None:
            value = float(x[self.numbers[0]])
            return 0.0 if abs(value) < 1e-9 * self.unit else value  # scaled and back, 0 is 1e-17
        on = np.isclose(x[list(self.numbers)], self.on)
        return self.values[int(on.argmax())] if on.any() else "none of these"


def columns(
    X: np.ndarray,
    scaling: Scaling,
    names: Sequence[str],
    order: Sequence[int],
    holes: Holes | None = None,
) -> list[Column]:
    """In the order of their most relevant input; those that say whether a column is missing are no columns of
    their own, and count with that column."""
    holes = Holes(()) if holes is None else holes
    flags = holes.flags
    inputs = np.setdiff1d(np.arange(X.shape[1]), list(flags))
    feature = dict(zip(inputs.tolist(), features_of(X[:, inputs]).tolist(), strict=True))
    flag_of = {j: flag for flag, hole in flags.items() for j in hole.values}
    hole_of = {j: k for k, hole in enumerate(holes.columns) for j in hole.values}
    own = {hole.flag for hole in holes.columns if hole.own}
    found, seen = [], set()
    for j in (_shown_by(j, order, flags) for j in order):
        if feature[j] in seen:
            continue
        seen.add(feature[j])
        numbers = tuple(k for k in feature if feature[k] == feature[j])
        first = numbers[0]  # a category begins with a value: whether it is missing comes last
        one = _column(X, scaling, names, numbers, own)
        found.append(replace(one, flag=flag_of.get(first), hole=hole_of.get(first)))
    return found


def _shown_by(j: int, order: Sequence[int], flags: Mapping[int, Hole]) -> int:
    """The input itself; for one that says whether a column is missing, the most relevant value of that."""
    if j not in flags:
        return j
    values = flags[j].values
    return next((k for k in order if k in values), values[0])


def _column(
    X: np.ndarray, scaling: Scaling, names: Sequence[str], numbers: tuple[int, ...], flags: Set[int | None]
) -> Column:
    """`flags` are inputs that are the category of rows that lack one."""
    if len(numbers) == 1:
        j = numbers[0]
        unit = float(np.abs(scaling.x_mean[j] + scaling.x_scale[j] * X[:, j]).max(initial=0.0))
        return Column(names[j], numbers, unit=unit)
    own = [names[j] for j in numbers if j not in flags]
    first, last = min(own), max(own)  # what these two share, all of them do
    same = [a == b for a, b in zip(first, last, strict=False)]
    shared = first[: same.index(False) if False in same else len(same)]
    while shared and shared[-1] not in SEPARATORS:
        shared = shared[:-1]
    on = scaling.original(X.max(axis=0)[None])[0][list(numbers)]
    if shared.rstrip(SEPARATORS):
        called, start = shared.rstrip(SEPARATORS), len(shared)
    else:
        called, start = " / ".join(own[:2]) + (" / ..." if len(own) > 2 else ""), 0
    values = tuple(MISSING if j in flags else names[j][start:] for j in numbers)
    return Column(called, numbers, values, on)


def typical(X: np.ndarray, found: Sequence[Column]) -> np.ndarray:
    """Numbers at their median, and not missing; categories as in most rows: together, since not every
    combination exists."""
    x = np.median(X, axis=0)
    flags = [column.flag for column in found if column.flag is not None]
    x[flags] = X[:, flags].min(axis=0)
    categories = [column for column in found if column.category]
    numbers = [j for column in categories for j in column.numbers]
    if numbers:
        flags = [
            j for c in categories for j, value in zip(c.numbers, c.values, strict=True) if value == MISSING
        ]
        whole = (X[:, flags] == X[:, flags].min(axis=0)).all(axis=1)
        some = X[whole] if whole.any() else X
        rows, counts = np.unique(some[:, numbers], axis=0, return_counts=True)
        x[numbers] = rows[counts.argmax()]
    return x

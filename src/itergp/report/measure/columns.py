"""The columns of a table as a reader knows them: numbers, and categories that were made into columns of their
own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from itergp.data.categories import features_of
from itergp.fitted.units import Scaling

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

    @property
    def category(self) -> bool:
        return len(self.numbers) > 1

    def value(self, x: np.ndarray) -> float | str:
        """What it is in a row in the units of the data; "none of these" where no column is on."""
        if not self.category or self.on is None:
            value = float(x[self.numbers[0]])
            return 0.0 if abs(value) < 1e-9 * self.unit else value  # scaled and back, 0 is 1e-17
        on = np.isclose(x[list(self.numbers)], self.on)
        return self.values[int(on.argmax())] if on.any() else "none of these"


def columns(X: np.ndarray, scaling: Scaling, names: Sequence[str], order: Sequence[int]) -> list[Column]:
    """In the order of their most relevant column."""
    feature = features_of(X)
    found, seen = [], set()
    for j in order:
        if feature[j] in seen:
            continue
        seen.add(feature[j])
        numbers = tuple(int(k) for k in np.flatnonzero(feature == feature[j]))
        found.append(_column(X, scaling, names, numbers))
    return found


def _column(X: np.ndarray, scaling: Scaling, names: Sequence[str], numbers: tuple[int, ...]) -> Column:
    if len(numbers) == 1:
        j = numbers[0]
        unit = float(np.abs(scaling.x_mean[j] + scaling.x_scale[j] * X[:, j]).max(initial=0.0))
        return Column(names[j], numbers, unit=unit)
    own = [names[j] for j in numbers]
    first, last = min(own), max(own)  # what these two share, all of them do
    same = [a == b for a, b in zip(first, last, strict=False)]
    shared = first[: same.index(False) if False in same else len(same)]
    while shared and shared[-1] not in SEPARATORS:
        shared = shared[:-1]
    on = scaling.original(X.max(axis=0)[None])[0][list(numbers)]
    if shared.rstrip(SEPARATORS):
        return Column(shared.rstrip(SEPARATORS), numbers, tuple(one[len(shared) :] for one in own), on)
    return Column(" / ".join(own[:2]) + (" / ..." if len(own) > 2 else ""), numbers, tuple(own), on)


def typical(X: np.ndarray, found: Sequence[Column]) -> np.ndarray:
    """Numbers at their median, categories as in most rows: together, since not every combination exists."""
    x = np.median(X, axis=0)
    numbers = [j for column in found if column.category for j in column.numbers]
    if numbers:
        rows, counts = np.unique(X[:, numbers], axis=0, return_counts=True)
        x[numbers] = rows[counts.argmax()]
    return x

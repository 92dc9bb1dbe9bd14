"""What the rows of a problem do not say about the data: the group of each row, and, where rows were merged,
some of the observations themselves. Held-out predictions need both."""

from dataclasses import dataclass

import numpy as np

from itergp.data.rows import Rows, places
from itergp.validate import Array

MOST = 2000  # observations that are kept, and held out
SEED = 0


@dataclass(frozen=True, eq=False)
class Sample:
    """Random observations: each has a random number, and those with the lowest ones are kept, so that the
    sample of more data follows from that of the data before."""

    rows: Array  # (m,) of the problem, where each observation went
    y: Array  # (m,) or (m, t) in scaled units, its own
    order: Array  # (m,) its random number

    @staticmethod
    def drawn(rows: Array, y: Array, before: int = 0) -> "Sample":
        """Of observations of which `before` others came first."""
        order = np.random.default_rng([SEED, 2, before]).random(len(y))
        chosen = _lowest(order)
        return Sample(rows[chosen], y[chosen], order[chosen])

    def joined(self, more: "Sample") -> "Sample":
        rows, y, order = (
            np.concatenate([getattr(self, name), getattr(more, name)]) for name in ("rows", "y", "order")
        )
        chosen = _lowest(order)
        return Sample(rows[chosen], y[chosen], order[chosen])


@dataclass(frozen=True, eq=False)
class Observed:
    """Groups, if rows have any; and a sample, unless each row is one observation, or rows have weights: then
    the rows are held out as they are."""

    groups: Array | None = None  # (n,), a number for each row of the problem
    sample: Sample | None = None

    @staticmethod
    def of(data: Rows, X: Array, y: Array, groups: Array | None = None) -> "Observed":
        """Of the observations X and y, in scaled units, that were merged into these rows."""
        as_they_are = data.weights is not None or (data.counts == 1).all()
        return Observed(groups, None if as_they_are else Sample.drawn(places(X), y))

    def after(self, old: Rows, X: Array, y: Array, new: Rows) -> "Observed":
        """With more observations X and y, which made new rows of old ones. The rows that they add are a group
        of their own."""
        groups = self.groups
        if groups is not None:
            groups = np.concatenate([groups, np.full(new.n - old.n, groups.max() + 1)])
        if new.weights is not None or (new.counts == 1).all():
            return Observed(groups)
        known = self.sample or Sample.drawn(np.arange(old.n), old.y)
        more = Sample.drawn(np.arange(len(y)), y, int(old.counts.sum()))
        if len(known.order) == MOST and more.order.min() > known.order.max():  # none of them is kept
            return Observed(groups, known)
        where = _places(old, X, new)
        return Observed(groups, known.joined(Sample(where[more.rows], more.y, more.order)))


def _places(old: Rows, X: Array, new: Rows) -> Array:
    """The rows to which new observations X went: at the end, unless they merged."""
    appended = new.n - old.n == len(X)
    return np.arange(old.n, new.n) if appended else places(np.concatenate([old.X, X]))[old.n :]


def _lowest(order: Array) -> Array:
    """In the order of the data."""
    if len(order) <= MOST:
        return np.arange(len(order))
    return np.sort(np.argpartition(order, MOST)[:MOST])

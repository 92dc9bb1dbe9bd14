"""What the rows of a problem do not say about the data: the group of each row, and, where rows were merged,
some of the observations themselves. Held-out predictions need both."""

from dataclasses import dataclass, replace

import numpy as np

from itergp import brief
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
    # (m,) its precision in units of 1 / noise; None: an equal share of its row's
    weights: Array | None = None
    # (m,) by what factor its noise is larger than that of a new one, as an outlier's is; None: 1
    factors: Array | None = None

    __repr__ = brief.call

    @staticmethod
    def drawn(
        rows: Array,
        y: Array,
        before: int = 0,
        of: Array | None = None,
        weights: Array | None = None,
        factors: Array | None = None,
    ) -> "Sample":
        """Of observations of which `before` others came first. `of` has the group of each: then the first of
        each group come before any second."""
        order = np.random.default_rng([SEED, 2, before]).random(len(y))
        if of is not None:
            order = order + turns(of, order)
        return Sample(rows, y, order, weights, factors).some(_lowest(order))

    def some(self, chosen: Array) -> "Sample":
        weights, factors = (None if part is None else part[chosen] for part in (self.weights, self.factors))
        return Sample(self.rows[chosen], self.y[chosen], self.order[chosen], weights, factors)

    def joined(self, more: "Sample") -> "Sample":
        rows, y, order = (
            np.concatenate([getattr(self, name), getattr(more, name)]) for name in ("rows", "y", "order")
        )
        weights = _joined(self.weights, more.weights, len(self.y), len(more.y))
        factors = _joined(self.factors, more.factors, len(self.y), len(more.y))
        return Sample(rows, y, order, weights, factors).some(_lowest(order))


@dataclass(frozen=True, eq=False)
class Observed:
    """Groups, if rows have any; and a sample, unless each row is one observation and none is an outlier."""

    groups: Array | None = None  # (n,), a number for each row of the problem
    sample: Sample | None = None

    __repr__ = brief.call

    @staticmethod
    def of(
        data: Rows,
        X: Array,
        y: Array,
        groups: Array | None = None,
        apart: Array | None = None,
        weights: Array | None = None,
        factors: Array | None = None,
    ) -> "Observed":
        """Of the observations X and y, in scaled units, that were merged into these rows; those that are
        `apart` (a number for each) were not. `factors` are those of outliers, 1 for all others."""
        if (data.counts == 1).all() and factors is None:
            return Observed(groups)
        where = np.arange(data.n) if data.n == len(X) else places(X, apart)
        of = None if groups is None else groups[where]
        return Observed(groups, Sample.drawn(where, y, of=of, weights=weights, factors=factors))

    def after(
        self,
        old: Rows,
        X: Array,
        y: Array,
        new: Rows,
        apart: Array | None = None,
        weights: Array | None = None,
    ) -> "Observed":
        """With more observations X and y, which made new rows of old ones. The rows that they add are a group
        of their own; `apart` has those of the old rows and of X."""
        groups = self.groups
        if groups is not None:
            groups = np.concatenate([groups, np.full(new.n - old.n, groups.max() + 1)])
        unknown = self.sample is None and (old.counts > 1).any()  # early files, where rows have weights
        if unknown or (self.sample is None and (new.counts == 1).all()):
            return Observed(groups)
        known = self.sample or Sample.drawn(np.arange(old.n), old.y, of=self.groups)
        if known.weights is None and new.weights is not None:
            known = replace(known, weights=(old.precision / old.counts)[known.rows])
        of = None if groups is None else np.zeros(len(y))
        more = Sample.drawn(np.arange(len(y)), y, int(old.counts.sum()), of, weights)
        if len(known.order) == MOST and more.order.min() > known.order.max():  # none of them is kept
            return Observed(groups, known)
        where = _places(old, X, new, apart)
        return Observed(groups, known.joined(replace(more, rows=where[more.rows])))


def _joined(first: Array | None, more: Array | None, m: int, m_more: int) -> Array | None:
    """Numbers of some observations, and of more; 1 where they have none."""
    if first is None and more is None:
        return None
    return np.concatenate(
        [np.ones(size) if part is None else part for part, size in ((first, m), (more, m_more))]
    )


def _places(old: Rows, X: Array, new: Rows, apart: Array | None) -> Array:
    """The rows to which new observations X went: at the end, unless they merged."""
    appended = new.n - old.n == len(X)
    return np.arange(old.n, new.n) if appended else places(np.concatenate([old.X, X]), apart)[old.n :]


def turns(groups: Array, order: Array) -> Array:
    """0, 1, 2, ... within each group, by ascending order."""
    sorted_by = np.lexsort([order, groups])
    _, first, sizes = np.unique(groups[sorted_by], return_index=True, return_counts=True)
    turn = np.empty(len(groups), dtype=np.intp)
    turn[sorted_by] = np.arange(len(groups)) - np.repeat(first, sizes)
    return turn


def _lowest(order: Array) -> Array:
    """In the order of the data."""
    if len(order) <= MOST:
        return np.arange(len(order))
    return np.sort(np.argpartition(order, MOST)[:MOST])

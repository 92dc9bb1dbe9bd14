"""Rows of data, with identical inputs merged into one row: an exact reduction of the Gaussian process.

With scalar noise s2, c observations at one input are equivalent to a single row with their mean and noise s2
/ c. The posterior is the same; the log likelihood gains a term that depends on the noise alone
(`Rows.within`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.data.spread import AT_ONCE, centre_and_spread
from itergp.errors import InputError
from itergp.validate import Array, finite, inputs, targets

NOTHING = 1e-24  # of a variance: rounding alone
DISTINCT = 0.5  # of the records: with more values than that, y is continuous
SAME, FINEST = 1e-9, 0.1  # of y, below which values differ by rounding; quantile of gaps that is one step


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct rows in the order of their first appearance. Row i stands for `counts[i]` observations with
    mean y, so its noise is noise / counts[i]."""

    X: Array  # (u, d)
    y: Array  # (u,) or (u, t)
    counts: Array  # (u,)
    # sum of squares of the observations around the means of their rows: a number, or one per target
    scatter: Any
    # rows whose observations are copies of one record; None: none
    copied: Array | None = None
    resolution: Any = 0.0  # variance of rounding y to the values that it takes: a number, or one per target

    @staticmethod
    def of(X: ArrayLike, y: ArrayLike, counts: ArrayLike | None = None, scatter: ArrayLike = 0.0) -> "Rows":
        """Validated rows, as given by the user."""
        X = inputs("X", X)
        y = targets("y", y, len(X))
        counts = np.ones(len(X)) if counts is None else finite("counts", np.asarray(counts, dtype=np.float64))
        if counts.shape != (len(X),) or not (counts >= 1).all():
            raise InputError(
                f"counts has shape {counts.shape}; expected ({len(X)},), each at least 1: one per row of X."
            )
        squares = np.asarray(scatter, dtype=np.float64)
        if squares.shape not in ((), y.shape[1:]) or not ((squares >= 0) & (squares < np.inf)).all():
            raise InputError(
                f"scatter is {scatter!r}; expected a finite sum of squares >= 0, or one per target."
            )
        return Rows(X, y, counts, float(squares) if squares.ndim == 0 else squares)

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def t(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def Y(self) -> Array:
        """y as (u, t)."""
        return self.y[:, None] if self.y.ndim == 1 else self.y

    @property
    def total(self) -> float:
        """The number of observations."""
        return float(self.counts.sum())

    @property
    def variance(self) -> float:
        """The mean square of all observations and targets; their variance if y is centred."""
        return float(((self.counts @ self.Y**2).sum() + np.sum(self.scatter)) / (self.counts.sum() * self.t))

    @property
    def variances(self) -> Array:
        """The mean square of each target; that of all targets where it is negligible."""
        own = (self.counts @ self.Y**2 + self.scatter) / self.counts.sum()
        return np.where(own > NOTHING * own.mean(), own, own.mean())

    @property
    def spread(self) -> Array:
        """The standard deviation of each feature without a few outliers; 1 where constant."""
        times = np.rint(self.counts).astype(np.intp)
        if (times == 1).all():
            return centre_and_spread(self.X)[1]
        if times.sum() <= AT_ONCE:
            return centre_and_spread(np.repeat(self.X, times, axis=0))[1]
        features = (np.repeat(self.X[:, [j]], times, axis=0) for j in range(self.X.shape[1]))
        return np.concatenate([centre_and_spread(feature)[1] for feature in features])

    def N(self, noise: float) -> Array:
        """The noise variance of each row."""
        return noise / self.counts

    def noise(self, noise: float) -> float | Array:
        """As `N`, but the number itself if no rows were merged."""
        return noise if (self.counts == 1).all() else self.N(noise)

    def within(self, noise: float) -> tuple[float, float]:
        """- log density of the deviations from the rows' means, and its slope in the noise.

        A group of c observations has the density of its mean, N(.; f, noise / c), times
        (2 pi noise)^(-(c - 1) / 2) c^(-1/2) exp(-deviations / (2 noise)). Rounded observations that agree do
        not show that there is less noise than their rounding.
        """
        lost, scatter = self.t * (self.total - self.n), float(np.sum(self.scatter))
        if lost == 0.0 and scatter == 0.0:
            return 0.0, 0.0
        own = noise + float(np.mean(self.resolution))
        value = 0.5 * (
            scatter / own + lost * np.log(2.0 * np.pi * own) + self.t * float(np.log(self.counts).sum())
        )
        return float(value), 0.5 * (lost - scatter / own) / own

    def to_learn_from(self) -> "Rows":
        """Where copies of a record count once: they say nothing more, and nothing about the noise. As two
        measurements that agree, a handful of them would drive the noise of all rows to zero."""
        if self.copied is None:
            return self
        return replace(self, counts=np.where(self.copied, 1, self.counts), copied=None)

    def each(self) -> list["Rows"]:
        """The rows of each target separately."""
        scatter = np.asarray(self.scatter)
        if self.t > 1 and scatter.ndim == 0 and scatter:
            raise InputError(
                f"scatter is one number for {self.t} targets; expected one per target, as each has its own "
                "noise."
            )
        return [
            replace(self, y=self.Y[:, [j]], scatter=float(of_target), resolution=float(resolution))
            for j, (of_target, resolution) in enumerate(
                zip(*(np.broadcast_to(part, self.t) for part in (scatter, self.resolution)), strict=True)
            )
        ]

    def of_targets(self, chosen: Array) -> "Rows":
        """A subset of the targets."""
        scatter = np.atleast_1d(self.scatter)[chosen]
        resolution = np.broadcast_to(self.resolution, self.t)[chosen]
        scatter = float(scatter[0]) if scatter.size == 1 else scatter
        return replace(self, y=self.Y[:, chosen], scatter=scatter, resolution=resolution)

    def some(self, chosen: Array) -> "Rows":
        """A subset of the rows, with their share of the scatter."""
        lost = self.total - self.n
        share = float((self.counts[chosen] - 1.0).sum()) / lost if lost > 0 else 0.0
        copied = None if self.copied is None else self.copied[chosen]
        counts, scatter = self.counts[chosen], share * self.scatter
        return Rows(self.X[chosen], self.y[chosen], counts, scatter, copied, self.resolution)

    def absorb(self, X: Array, y: Array) -> "Rows":
        """Add rows: those with known inputs merge into existing rows, the others are appended."""
        more = _merge(
            np.concatenate([self.X, X]), np.concatenate([self.y, y]), np.concatenate([self.counts, _ones(X)])
        )
        return replace(more, scatter=self.scatter + more.scatter, copied=None)

    def append(self, X: Array, y: Array) -> "Rows":
        """Add rows without merging."""
        counts = np.concatenate([self.counts, _ones(X)])
        return Rows(np.concatenate([self.X, X]), np.concatenate([self.y, y]), counts, self.scatter)

    def observations(self) -> tuple[Array, Array]:
        """Unmerged rows that merge into these with the same total scatter: two of each group off its mean,
        the others on it."""
        X, y = np.repeat(self.X, self.counts, axis=0), np.repeat(self.y, self.counts, axis=0)
        several, extra = np.flatnonzero(self.counts > 1), self.counts.sum() - len(self.counts)
        if several.size:
            share = np.multiply.outer((self.counts[several] - 1) / extra, self.scatter)
            last = np.cumsum(self.counts)[several] - 1
            y[last] += np.sqrt(share / 2)
            y[last - 1] -= np.sqrt(share / 2)
        return X, y


def first_places(X: Array) -> Array:
    """The first place of each distinct row of X, in the order of `merge_rows`."""
    return _groups(X)[0]


def places(X: Array) -> Array:
    """The number of the distinct row, in the order of `merge_rows`, that each row of X is."""
    return _groups(X)[1]


def merge_rows(X: Array, y: Array) -> Rows:
    """Merge identical rows of X; -0.0 equals 0.0."""
    return _merge(X, y, _ones(X))


def unmerged(X: Array, y: Array) -> Rows:
    """Rows without merging, duplicates or not."""
    return Rows(X, y, _ones(X), _no_scatter(y))


def _merge(X: Array, y: Array, weights: Array) -> Rows:
    first, group = _groups(X)
    if len(first) == len(X):
        return Rows(X, y, weights, _no_scatter(y))
    counts = np.bincount(group, weights).astype(np.intp)
    w = weights.reshape(-1, *[1] * (y.ndim - 1))
    # means are relative to the first row of each group: a row without duplicates keeps its bits
    shift = np.zeros((len(first), *y.shape[1:]))
    np.add.at(shift, group, w * (y - y[first][group]))
    mean = y[first] + shift / counts.reshape(-1, *[1] * (y.ndim - 1))
    deviations = y - mean[group]
    scatter = (w * deviations**2).sum(axis=0)
    copied, resolution = _copied(group, deviations, counts, y)
    return Rows(X[first], mean, counts, float(scatter) if y.ndim == 1 else scatter, copied, resolution)


def _copied(group: Array, deviations: Array, counts: Array, y: Array) -> tuple[Array | None, Any]:
    """Which rows are copies of one record, and the variance of rounding y.

    If y takes many values, observations at one place that agree are copies, whether there is noise or not:
    without noise, the other rows show it. If it takes few (counts, grades), they agree by rounding.
    """
    differ = deviations.reshape(len(deviations), -1).any(axis=1)
    copied = (counts > 1) & (np.bincount(group, differ, minlength=len(counts)) == 0)
    if not copied.any():
        return None, 0.0
    records = counts.sum() - (counts - 1)[copied].sum()
    if len(np.unique(y, axis=0)) > DISTINCT * records:
        return copied, 0.0
    of_targets = [_rounding(column) for column in y.reshape(len(y), -1).T]
    return None, of_targets[0] if y.ndim == 1 else np.array(of_targets)


def _rounding(y: Array) -> float:
    """The variance of rounding to a grid, by the gaps between neighbouring values: most are one step."""
    gaps = np.diff(np.unique(y))
    gaps = gaps[gaps > SAME * np.abs(y).max()]
    return float(np.quantile(gaps, FINEST)) ** 2 / 12.0 if gaps.size else 0.0


def _ones(X: Array) -> Array:
    return np.ones(len(X), dtype=np.intp)


def _no_scatter(y: Array) -> Any:
    return 0.0 if y.ndim == 1 else np.zeros(y.shape[1])


def _groups(X: Array) -> tuple[Array, Array]:
    """The first row of each group of identical rows, ascending, and the group of every row."""
    firsts, group = np.unique(_digests(X), return_index=True, return_inverse=True)[1:]
    group = group.reshape(-1)
    # hash collision between different rows
    if len(firsts) < len(X) and not all(np.array_equal(x[firsts][group], x) for x in X.T):
        firsts, group = _sorted_groups(X)
    order = np.argsort(firsts)  # groups are numbered by their first appearance
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return firsts[order], rank[group]


def _digests(X: Array) -> Array:
    """A 64-bit hash of each row: sorting one column is faster than sorting by all of them."""
    found = np.zeros(len(X), dtype=np.uint64)
    for feature in X.T:
        found ^= (feature + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        found *= np.uint64(0x9E3779B97F4A7C15)  # odd, so that the map is invertible
        found ^= found >> np.uint64(29)
    return found


def _sorted_groups(X: Array) -> tuple[Array, Array]:
    """The first row of each group, and the group of every row, by all columns."""
    order = np.lexsort(X.T)  # stable: within a group, the first row comes first
    changes = np.concatenate([[True], (X[order][1:] != X[order][:-1]).any(axis=1)])
    group = np.empty(len(X), dtype=np.intp)
    group[order] = np.cumsum(changes) - 1
    return order[changes], group

"""Rows of data, with identical inputs merged into one row: an exact reduction of the Gaussian process.

With scalar noise s2, c observations at one input are equivalent to a single row with their mean and noise s2
/ c. The posterior is the same; the log likelihood gains a term that depends on the noise alone
(`Rows.within`). An observation of weight w has the noise s2 / w, so weights add up: they are precisions in
units of 1 / s2.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.data.spread import AT_ONCE, centre_and_spread
from itergp.errors import InputError
from itergp.validate import Array, finite, inputs, targets

NOTHING = 1e-24  # of a variance: rounding alone
DISTINCT = 0.5  # of the records: with more values than that, y is continuous
SAME, FINEST = 1e-9, 0.1  # of y, below which values differ by rounding; quantile of gaps that is one step


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct rows in the order of their first appearance. Row i stands for `counts[i]` observations with
    mean y, so its noise is noise / counts[i]; where observations have weights, noise / weights[i]."""

    X: Array  # (u, d)
    y: Array  # (u,) or (u, t)
    counts: Array  # (u,)
    # weighted sum of squares of the observations around the means of their rows: a number, or one per target
    scatter: Any
    # rows whose observations are copies of one record; None: none
    copied: Array | None = None
    resolution: Any = 0.0  # variance of rounding y to the values that it takes: a number, or one per target
    weights: Array | None = None  # (u,): those of each row's observations, summed; None: all are 1
    log_weights: Array | None = None  # (u,): the logarithms of these weights, summed

    __repr__ = brief.call

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
    def precision(self) -> Array:
        """Of each row, in units of 1 / noise: how many observations of weight 1 it is worth."""
        return self.counts if self.weights is None else self.weights

    @property
    def unit(self) -> float:
        """The mean weight of an observation."""
        return 1.0 if self.weights is None else float(self.weights.sum() / self.counts.sum())

    @property
    def variance(self) -> float:
        """The mean square of all observations and targets; their variance if y is centred."""
        P = self.precision
        return float(((P @ self.Y**2).sum() + np.sum(self.scatter)) / (P.sum() * self.t))

    @property
    def variances(self) -> Array:
        """The mean square of each target; that of all targets where it is negligible."""
        own = (self.precision @ self.Y**2 + self.scatter) / self.precision.sum()
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
        return noise / self.precision

    def noise(self, noise: float) -> float | Array:
        """As `N`, but the number itself if no rows were merged and none has a weight."""
        return noise if (self.precision == 1).all() else self.N(noise)

    def within(self, noise: float) -> tuple[float, float]:
        """- log density of the deviations from the rows' means, and its slope in the noise.

        A group of c observations has the density of its mean, N(.; f, noise / c), times
        (2 pi noise)^(-(c - 1) / 2) c^(-1/2) exp(-deviations / (2 noise)). With weights w of sum W the mean
        has the noise noise / W, deviations are weighted, and prod(w) / W takes the place of 1 / c. Rounded
        observations that agree do not show that there is less noise than their rounding.
        """
        lost, scatter = self.t * (self.total - self.n), float(np.sum(self.scatter))
        if lost == 0.0 and scatter == 0.0:
            return 0.0, 0.0
        own = noise + float(np.mean(self.resolution))
        shares = float(np.log(self.precision).sum())
        if self.log_weights is not None:
            shares -= float(self.log_weights.sum())
        value = 0.5 * (scatter / own + lost * np.log(2.0 * np.pi * own) + self.t * shares)
        return float(value), 0.5 * (lost - scatter / own) / own

    def to_learn_from(self) -> "Rows":
        """Where copies of a record count once: they say nothing more, and nothing about the noise. As two
        measurements that agree, a handful of them would drive the noise of all rows to zero."""
        if self.copied is None:
            return self
        once, times = replace(self, counts=np.where(self.copied, 1, self.counts), copied=None), self.counts
        if self.weights is None or self.log_weights is None:
            return once
        shares = {name: getattr(self, name) / times for name in ("weights", "log_weights")}
        return replace(
            once, **{name: np.where(self.copied, one, getattr(self, name)) for name, one in shares.items()}
        )

    def per(self, unit: float) -> "Rows":
        """The same rows with weights in this unit; the noise of an observation of weight 1 is in it too."""
        if self.weights is None or self.log_weights is None:
            return self
        weights, logs = self.weights / unit, self.log_weights - self.counts * np.log(unit)
        return replace(self, weights=weights, log_weights=logs, scatter=self.scatter / unit)

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
        parts = (self.copied, self.weights, self.log_weights)
        copied, weights, logs = (None if part is None else part[chosen] for part in parts)
        X, scatter = self.X[chosen], share * self.scatter
        counts = _ones(X) if _all_ones(self.counts) else self.counts[chosen]
        return Rows(X, self.y[chosen], counts, scatter, copied, self.resolution, weights, logs)

    def reordered(self, order: Array) -> "Rows":
        """The same rows in another order."""
        names = ("X", "y", "counts", "copied", "weights", "log_weights")
        parts = {name: getattr(self, name) for name in names}
        return replace(self, **{name: part[order] for name, part in parts.items() if part is not None})

    def absorb(self, X: Array, y: Array, weights: Array | None = None, groups: Array | None = None) -> "Rows":
        """Add rows: those with known inputs merge into existing rows, the others are appended. `groups` are
        those of the rows here and of the added ones."""
        return merged(self.append(X, y, weights), groups)

    def append(self, X: Array, y: Array, weights: Array | None = None) -> "Rows":
        """Add rows without merging."""
        X, y = np.concatenate([self.X, X]), np.concatenate([self.y, y])
        more = len(X) - self.n
        longer = Rows(X, y, np.concatenate([self.counts, _ones(X[self.n :])]), self.scatter)
        if weights is None and self.weights is None:
            return longer
        weights = np.ones(more) if weights is None else weights
        logs = np.zeros(self.n) if self.log_weights is None else self.log_weights
        return replace(
            longer,
            weights=np.concatenate([self.precision, weights]),
            log_weights=np.concatenate([logs, np.log(weights)]),
        )

    def observations(self) -> tuple[Array, Array, Array | None]:
        """Unmerged rows that merge into these with the same total scatter: two of each group off its mean,
        the others on it; and their weights, if there are any."""
        X, y = np.repeat(self.X, self.counts, axis=0), np.repeat(self.y, self.counts, axis=0)
        weights = None if self.weights is None else np.repeat(self.weights / self.counts, self.counts)
        several, extra = np.flatnonzero(self.counts > 1), self.counts.sum() - len(self.counts)
        if several.size:
            share = np.multiply.outer((self.counts[several] - 1) / extra, self.scatter)
            last = np.cumsum(self.counts)[several] - 1
            each = 1.0 if weights is None else weights[last].reshape(-1, *[1] * (y.ndim - 1))
            y[last] += np.sqrt(share / (2 * each))
            y[last - 1] -= np.sqrt(share / (2 * each))
        return X, y, weights


def first_places(X: Array, groups: Array | None = None) -> Array:
    """The first place of each distinct row of X, in the order of `merge_rows`."""
    return _groups(_keys(X, groups))[0]


def places(X: Array, groups: Array | None = None) -> Array:
    """The number of the distinct row, in the order of `merge_rows`, that each row of X is."""
    return _groups(_keys(X, groups))[1]


def merge_rows(X: Array, y: Array, weights: Array | None = None, groups: Array | None = None) -> Rows:
    """Merge identical rows of X; -0.0 equals 0.0. Rows of different groups stay apart, so that one of the
    groups can be held out without the others."""
    rows, keys = unmerged(X, y, weights), _keys(X, groups)
    if _all_different(_digests(keys)):
        return rows
    first, group = _numbered(keys)
    if len(first) == len(X):
        return rows
    found, deviations = _merged(rows, first, group)
    copied, resolution = _copied(group, deviations, found.counts, y)
    return replace(found, copied=copied, resolution=resolution)


def merged(rows: Rows, groups: Array | None = None) -> Rows:
    """Rows that may stand for several observations already, with identical ones merged."""
    first, group = _groups(_keys(rows.X, groups))
    return rows if len(first) == rows.n else _merged(rows, first, group)[0]


def unmerged(X: Array, y: Array, weights: Array | None = None) -> Rows:
    """Rows without merging, duplicates or not."""
    logs = None if weights is None else np.log(weights)
    return Rows(X, y, _ones(X), _no_scatter(y), weights=weights, log_weights=logs)


def _merged(rows: Rows, first: Array, group: Array) -> tuple[Rows, Array]:
    """Weighted means of the groups, and how far each row is from that of its group."""
    y, counts = rows.y, np.bincount(group, rows.counts).astype(np.intp)
    parts = (rows.weights, rows.log_weights)
    weights, logs = (None if part is None else np.bincount(group, part) for part in parts)
    of_rows, of_groups = (
        part.reshape(-1, *[1] * (y.ndim - 1))
        for part in (rows.precision, counts if weights is None else weights)
    )
    # means are relative to the first row of each group: a row without duplicates keeps its bits
    shift = np.zeros((len(first), *y.shape[1:]))
    np.add.at(shift, group, of_rows * (y - y[first][group]))
    mean = y[first] + shift / of_groups
    deviations = y - mean[group]
    scatter = (of_rows * deviations**2).sum(axis=0)
    scatter = rows.scatter + (float(scatter) if y.ndim == 1 else scatter)
    return Rows(rows.X[first], mean, counts, scatter, weights=weights, log_weights=logs), deviations


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
    """One observation for each row, which takes no memory; nobody writes to it."""
    return np.broadcast_to(np.intp(1), len(X))


def _all_ones(counts: Array) -> bool:
    """Whether these are such."""
    return counts.strides == (0,) and len(counts) > 0 and counts[0] == 1


def _no_scatter(y: Array) -> Any:
    return 0.0 if y.ndim == 1 else np.zeros(y.shape[1])


def _keys(X: Array, groups: Array | None) -> Array:
    """What rows that merge have in common: the inputs, and the number of the group."""
    return X if groups is None else np.column_stack([X, groups])


def _groups(X: Array) -> tuple[Array, Array]:
    """The first row of each group of identical rows, ascending, and the group of every row."""
    if _all_different(_digests(X)):
        return np.arange(len(X)), np.arange(len(X))
    return _numbered(X)


def _numbered(X: Array) -> tuple[Array, Array]:
    """The same, where some rows may be identical."""
    firsts, group = np.unique(_digests(X), return_index=True, return_inverse=True)[1:]
    group = group.reshape(-1)
    # hash collision between different rows
    if len(firsts) < len(X) and not all(np.array_equal(x[firsts][group], x) for x in X.T):
        firsts, group = _sorted_groups(X)
    order = np.argsort(firsts)  # groups are numbered by their first appearance
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return firsts[order], rank[group]


def _all_different(digests: Array) -> bool:
    """As most often: then there is nothing to number, which takes more time and memory than to see it. The
    digests are sorted in place."""
    digests.sort()
    return not (digests[1:] == digests[:-1]).any()


def _digests(X: Array) -> Array:
    """A 64-bit hash of each row: sorting one column is faster than sorting by all of them."""
    found = np.zeros(len(X), dtype=np.uint64)
    for start in range(0, len(X), AT_ONCE):
        some = found[start : start + AT_ONCE]
        for feature in X[start : start + AT_ONCE].T:
            some ^= (feature + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            some *= np.uint64(0x9E3779B97F4A7C15)  # odd, so that the map is invertible
            some ^= some >> np.uint64(29)
    return found


def _sorted_groups(X: Array) -> tuple[Array, Array]:
    """The first row of each group, and the group of every row, by all columns."""
    order = np.lexsort(X.T)  # stable: within a group, the first row comes first
    changes = np.concatenate([[True], (X[order][1:] != X[order][:-1]).any(axis=1)])
    group = np.empty(len(X), dtype=np.intp)
    group[order] = np.cumsum(changes) - 1
    return order[changes], group

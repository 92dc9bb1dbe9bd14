"""Rows with identical inputs become one: an exact reduction of the Gaussian process.

With scalar noise s2, a group of c rows at one input says as much about f as one row with their mean and
noise s2 / c. The posterior is the same; the log likelihood gains a term that depends on the noise alone
(`within_groups`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.validate import Array

NOTHING = 1e-24  # of a variance: rounding alone


@dataclass(frozen=True, eq=False)
class Merged:
    """Distinct rows in the order of their first appearance: row j stands for `counts[j]` rows, and its y
    is their mean."""

    X: Array  # (u, d)
    y: Array  # (u,) or (u, t)
    counts: Array  # (u,)
    scatter: Any  # the sum of squares of y around the means of its groups: a number, or one per target
    group: Array  # (n,): old row i is part of row group[i]

    @property
    def targets(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    def noise(self, noise: float) -> float | Array:
        """The noise variance of each merged row; the number itself where no rows were merged."""
        return noise if (self.counts == 1).all() else noise / self.counts

    def absorb(self, X: Array, y: Array) -> "Merged":
        """With more rows: those with known inputs merge into the old ones, the rest are appended."""
        ones = np.ones(len(X), dtype=np.intp)
        more = _merge(
            np.concatenate([self.X, X]), np.concatenate([self.y, y]), np.concatenate([self.counts, ones])
        )
        return Merged(more.X, more.y, more.counts, self.scatter + more.scatter, more.group[len(self.X) :])

    def append(self, X: Array, y: Array) -> "Merged":
        """With more rows, each for itself."""
        counts = np.concatenate([self.counts, np.ones(len(X), dtype=np.intp)])
        group = np.arange(len(self.X), len(counts))
        return Merged(np.concatenate([self.X, X]), np.concatenate([self.y, y]), counts, self.scatter, group)

    def observations(self) -> tuple[Array, Array]:
        """Rows whose merging gives these again, with the same scatter in all: two of each group off its
        mean, the rest on it."""
        X, y = np.repeat(self.X, self.counts, axis=0), np.repeat(self.y, self.counts, axis=0)
        several, extra = np.flatnonzero(self.counts > 1), self.counts.sum() - len(self.counts)
        if several.size:
            share = np.multiply.outer((self.counts[several] - 1) / extra, self.scatter)
            last = np.cumsum(self.counts)[several] - 1
            y[last] += np.sqrt(share / 2)
            y[last - 1] -= np.sqrt(share / 2)
        return X, y


def merge_rows(X: Array, y: Array) -> Merged:
    """Rows of X that are identical, as one each; -0.0 is 0.0."""
    return _merge(X, y, np.ones(len(X), dtype=np.intp))


def unmerged(X: Array, y: Array) -> Merged:
    """Every row for itself, duplicates or not."""
    return Merged(X, y, np.ones(len(X), dtype=np.intp), _no_scatter(y), np.arange(len(X)))


def mean_square(y: Array, counts: Array, scatter: Any) -> float:
    """Of all observations and targets, whose means in groups of `counts` are y, (u,) or (u, t), with
    `scatter` around them."""
    return float(((counts @ y**2).sum() + np.sum(scatter)) / (counts.sum() * (y.size // len(y))))


def variances(y: Array, counts: Array, scatter: Any) -> Array:
    """`mean_square` of each target, a column of y; that of one which is nothing beside the others is
    theirs: it has no unit."""
    own = (counts @ y**2 + scatter) / counts.sum()
    return np.where(own > NOTHING * own.mean(), own, own.mean())


def within_groups(merged: Merged, noise: float) -> float:
    """log p(y) - log p(merged y): -1/2 [scatter / s2 + t ((n - u) log(2 pi s2) + sum log count)], for t
    targets."""
    counts, n, u = merged.counts, int(merged.counts.sum()), len(merged.counts)
    normaliser = (n - u) * np.log(2 * np.pi * noise) + float(np.log(counts).sum())
    return -0.5 * (float(np.sum(merged.scatter)) / noise + merged.targets * normaliser)


def _merge(X: Array, y: Array, weights: Array) -> Merged:
    first, group = _groups(X)
    if len(first) == len(X):
        return Merged(X, y, weights, _no_scatter(y), group)
    counts = np.bincount(group, weights).astype(np.intp)
    w = weights.reshape(-1, *[1] * (y.ndim - 1))
    # means are counted from the first row of each group: a row that stays alone keeps its bits
    shift = np.zeros((len(first), *y.shape[1:]))
    np.add.at(shift, group, w * (y - y[first][group]))
    mean = y[first] + shift / counts.reshape(-1, *[1] * (y.ndim - 1))
    scatter = (w * (y - mean[group]) ** 2).sum(axis=0)
    return Merged(X[first], mean, counts, float(scatter) if y.ndim == 1 else scatter, group)


def _no_scatter(y: Array) -> Any:
    return 0.0 if y.ndim == 1 else np.zeros(y.shape[1])


def _groups(X: Array) -> tuple[Array, Array]:
    """The first row of each group of identical rows, ascending, and the group of every row."""
    X = X + 0.0  # -0.0 becomes 0.0
    firsts, group = np.unique(_digests(X), return_index=True, return_inverse=True)[1:]
    group = group.reshape(-1)
    # different rows with the same digest
    if len(firsts) < len(X) and not np.array_equal(X[firsts[group]], X):
        firsts, group = _sorted_groups(X)
    order = np.argsort(firsts)  # groups are numbered by their first appearance
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return firsts[order], rank[group]


def _digests(X: Array) -> Array:
    """A number of 64 bits for each row, the same for the same row: sorting by one column is faster than by
    all."""
    bits, found = np.ascontiguousarray(X.T).view(np.uint64), np.zeros(len(X), dtype=np.uint64)
    for column in bits:
        found ^= column
        found *= np.uint64(0x9E3779B97F4A7C15)  # odd, so that nothing is lost
        found ^= found >> np.uint64(29)
    return found


def _sorted_groups(X: Array) -> tuple[Array, Array]:
    """The first row of each group, and the group of every row, by all columns."""
    order = np.lexsort(X.T)  # stable: within a group, the first row comes first
    changes = np.concatenate([[True], (X[order][1:] != X[order][:-1]).any(axis=1)])
    group = np.empty(len(X), dtype=np.intp)
    group[order] = np.cumsum(changes) - 1
    return order[changes], group

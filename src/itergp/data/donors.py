"""What stands for values that are missing, and how uncertain that makes an observation.

Nobody knows a missing value, but similar rows have one. A ridge regression predicts the missing inputs of a
row from those that it has; the K rows whose predictions are nearest to its own are its donors (predictive
mean matching). The mean of their values stands for the missing one, and the variance that this adds to an
observation is that of the function over their values, and what it is off at their mean:

    extra = (K + 1) / (K - 3) Var_k f(x_k) + (mean_k f(x_k) - f(x_m))^2 + max(mean_k v(x_k) - v(x_m), 0)

with x_k the row with the values of donor k, x_m that with their mean, and f and v mean and variance of the
function. The last term is large where rows are missing whose values nobody knows: there f says nothing. The
factor is that of a new value, given K of them (Student's predictive distribution). Donors are predicted
by a regression on others, as the row itself is: one on many inputs would else reproduce their values, find
donors that agree, and take the value for known.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from itergp.data.holes import Hole, Holes
from itergp.validate import Array

DONORS = 24  # of each row
MOST = 1000  # rows among which they are sought
FEW = 4  # donors of each row at which variances are computed, which takes longer than means
FOLDS = 5  # of these, each predicted by the others
AT_ONCE = 2**22  # numbers
PENALTIES = 10.0 ** np.arange(-4, 3)  # of the ridge regression, for each row
CONSTANT = 1e-12  # of its mean: an input that varies by less says nothing
SEED = 0

Function = Callable[[Array], Array]  # from inputs (m, d) to means or variances (m,)


@dataclass(frozen=True, eq=False)
class Donors:
    """Rows that have values, in random order; NaN where they have none."""

    holes: Holes
    X: Array

    @staticmethod
    def among(holes: Holes, X: Array) -> "Donors":
        """Some of these rows: the first in random order, and enough of those that have a value that is
        rare."""
        order = np.random.default_rng([SEED, len(X)]).permutation(len(X))
        missing = holes.missing(X)[order]
        rank = np.arange(len(X)) < MOST
        for column in missing.T:
            rank |= ~column & (np.cumsum(~column) <= DONORS)
        X = X[order[rank]].copy()
        for j, hole in enumerate(holes.columns):  # which may have been given with a flag alone
            X[np.ix_(missing[rank, j], np.array(hole.values))] = np.nan
        return Donors(holes, X)

    @cached_property
    def missing(self) -> Array:
        """(n, columns)"""
        return self.holes.missing(self.X)

    @cached_property
    def whole(self) -> Array:
        """Where a donor lacks another value, the mean of all stands for it."""
        known = ~np.isnan(self.X)
        mean = np.where(known, self.X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return np.where(known, self.X, mean)

    def values(self, pattern: Array, X: Array) -> Array:
        """(m, K, inputs): what the donors of rows have where these, with this pattern, have nothing."""
        lacking, rows = self.holes.of(pattern), self._having(pattern)
        if len(rows) >= DONORS or len(lacking) == 1:
            return self._nearest(rows, lacking, lacking, X)
        # too few have all: each by rows of its own, in any order
        rng, parts = np.random.default_rng([SEED, 1]), []
        for hole, column in zip(lacking, np.flatnonzero(pattern), strict=True):
            own = self._nearest(self._having(np.arange(pattern.size) == column), [hole], lacking, X)
            parts.append(rng.permutation(own, axis=1))
        fewest = min(part.shape[1] for part in parts)
        return np.concatenate([part[:, :fewest] for part in parts], axis=2)

    def _having(self, pattern: Array) -> Array:
        """Rows that lack none of these columns."""
        return np.flatnonzero(~self.missing[:, pattern].any(axis=1))

    def _nearest(self, rows: Array, asked: list[Hole], lacking: list[Hole], X: Array) -> Array:
        """Of these rows, the K nearest by what the inputs that are there say about those asked for."""
        theirs, absent = self.whole[rows], _inputs(lacking)
        there = [j for j in range(X.shape[1]) if j not in absent]
        C = theirs[:, _values(asked)]
        if len(rows) <= DONORS:
            return np.repeat(C[None], len(X), axis=0)
        distance = np.empty((len(X), len(rows)))
        fold = np.arange(len(rows)) % FOLDS  # of rows in random order
        for k in range(FOLDS):
            regression = Regression.of(theirs[fold != k][:, there], C[fold != k])
            of_donors, of_rows = regression(theirs[fold == k][:, there]), regression(X[:, there])
            distance[:, fold == k] = (
                (of_rows**2).sum(axis=1)[:, None] - 2.0 * of_rows @ of_donors.T + (of_donors**2).sum(axis=1)
            )
        return C[np.argpartition(distance, DONORS - 1, axis=1)[:, :DONORS]]


@dataclass(frozen=True, eq=False)
class Regression:
    """A ridge regression; predictions are in units of their errors."""

    centre: Array
    weights: Array

    @staticmethod
    def of(A: Array, C: Array) -> "Regression":
        """C by A, with the penalty that predicts rows best that are left out: e / (1 - leverage)."""
        centre, unit, size = A.mean(axis=0), A.std(axis=0), C.std(axis=0)
        unit = np.where(unit > CONSTANT * np.abs(centre), unit, np.inf)
        C = (C - C.mean(axis=0)) / np.where(size > 0, size, 1.0)
        U, s, Vt = np.linalg.svd((A - centre) / unit, full_matrices=False)
        best, weights = np.inf, np.empty(0)
        for penalty in PENALTIES * len(A):
            shrunk = s**2 / (s**2 + penalty)
            errors = C - U @ (shrunk[:, None] * (U.T @ C))
            errors /= np.maximum(1.0 - 1.0 / len(A) - U**2 @ shrunk, CONSTANT)[:, None]
            squares = (errors**2).mean(axis=0)
            if squares.sum() < best:
                best, scale = float(squares.sum()), np.sqrt(np.where(squares > 0, squares, 1.0))
                weights = Vt.T @ ((s / (s**2 + penalty))[:, None] * (U.T @ C)) / scale
        return Regression(centre, weights / unit[:, None])

    def __call__(self, A: Array) -> Array:
        return (A - self.centre) @ self.weights


def filled(X: Array, donors: Donors, belief: tuple[Function, Function] | None = None) -> tuple[Array, Array]:
    """X with something in place of what is missing, flags set; and the variance (m,) of observations that
    this adds, for the mean and the variance of a function."""
    out, extra = X.copy(), np.zeros(len(X))
    for pattern, rows in _patterns(donors.holes.missing(X), DONORS * X.shape[1]):
        lacking = donors.holes.of(pattern)
        values = donors.values(pattern, X[rows])
        middle = _middle(values, lacking)
        if belief is not None:
            factor = max(hole.factor for hole in lacking)
            extra[rows] = factor * _spread(*belief, X[rows], values, middle, lacking)
        out[rows] = _told(_with(X[rows], middle[:, None], lacking)[:, 0], lacking)
    return out, extra


def _spread(f: Function, v: Function, X: Array, values: Array, middle: Array, lacking: list[Hole]) -> Array:
    each, m, K = _with(X, values, lacking), *values.shape[:2]
    centre = _with(X, middle[:, None], lacking)[:, 0]
    few = each[:, :: max(1, K // FEW)]
    means, variances = (g(x.reshape(-1, X.shape[1])).reshape(m, -1) for g, x in ((f, each), (v, few)))
    extra = (K + 1) / max(K - 3, 1) * means.var(axis=1)
    extra += np.maximum(variances.mean(axis=1) - v(centre), 0.0)
    if not any(hole.own for hole in lacking):  # whose function is its own, and is right on average
        extra += (means.mean(axis=1) - f(centre)) ** 2
    return extra


def _with(X: Array, values: Array, lacking: list[Hole]) -> Array:
    """(m, K, d): rows with these values (m, K, inputs), as if none had been missing."""
    out = np.repeat(X[:, None], values.shape[1], axis=1)
    out[:, :, _values(lacking)] = values
    out[:, :, [hole.flag for hole in lacking if hole.flag is not None]] = 0.0
    return out


def _told(X: Array, lacking: list[Hole]) -> Array:
    """Flags set, if the model is told; a category that is one of its own is no other."""
    for hole in lacking:
        if hole.own:
            X[:, hole.values] = 0.0
        if hole.flag is not None:
            X[:, hole.flag] = float(hole.told)
    return X


def _middle(values: Array, lacking: list[Hole]) -> Array:
    """(m, inputs): means; of a category, that which most donors have."""
    middle, start = values.mean(axis=1), 0
    for hole in lacking:
        part = middle[:, start : start + len(hole.values)]
        if hole.category:
            most = part.argmax(axis=1)
            part[:] = 0.0
            part[np.arange(len(part)), most] = 1.0
        start += len(hole.values)
    return middle


def _patterns(missing: Array, numbers: int) -> Iterator[tuple[Array, Array]]:
    """Rows that lack the same columns, some at a time: each takes so many numbers."""
    lacking = np.flatnonzero(missing.any(axis=1))
    if not lacking.size:
        return
    patterns, which = np.unique(missing[lacking], axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        rows, size = lacking[which == k], max(1, AT_ONCE // max(numbers, MOST))
        for start in range(0, len(rows), size):
            yield pattern, rows[start : start + size]


def _values(holes: list[Hole]) -> list[int]:
    return [j for hole in holes for j in hole.values]


def _inputs(holes: list[Hole]) -> set[int]:
    return {*_values(holes), *(hole.flag for hole in holes if hole.flag is not None)}

"""What stands for values that are missing, and how uncertain that makes an observation.

Nobody knows a missing value, but similar rows have one. A ridge regression predicts the missing inputs of a
row from those that it has; the K rows whose predictions are nearest to its own are its donors (predictive
mean matching). The mean of their values stands for the missing one, and the variance of an observation is
larger by that of the function over their values, and by what it is off at their mean:

    spread = (K + 1) / (K - 3) Var_k f(x_k) + (mean_k f(x_k) - f(x_m))^2 + max(mean_k v(x_k) - v(x_m), 0)

with x_k the row with the values of donor k, x_m that with their mean, f the mean of the function, and v the
variance of an observation if nothing is missing. The last term is large where rows are missing whose values
nobody knows: there f says nothing. The factor is that of a new value, given K of them (Student's predictive
distribution). Where held-out rows say that v + spread is too small by some factor, an observation has

    extra = factor (v + spread) - v

more variance than one of a row that lacks nothing.

A gross outlier (99999 among single digits) stands for nothing, and where it tells another value, it counts as
one that is just not gross. A single one would else decide the regression, and with it who is alike.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from itergp.data.holes import Hole, Holes
from itergp.data.matching import AT_ONCE, DONORS, Search
from itergp.data.spread import fences
from itergp.validate import Array

MOST = 1000  # rows among which donors are sought
FEW = 4  # donors of each row at which variances are computed, which takes longer than means
LOOKED = 2000  # rows of a fit that have donors of their own, if more lack values
ALIKE = 500  # of them, with which each of the others is compared
FEW_COLUMNS, PATTERNS = 8, 200  # with more columns, so many patterns at most have regressions of their own
SEED = 0

Function = Callable[[Array], Array]  # from inputs (m, d) to means or variances (m,)


@dataclass(frozen=True, eq=False)
class Donors:
    """Rows that have values, in random order; NaN where they have none."""

    holes: Holes
    X: Array

    @staticmethod
    def among(holes: Holes, X: Array) -> "Donors":
        """Some of these rows."""
        return Donors._first(holes, X[np.random.default_rng([SEED, len(X)]).permutation(len(X))])

    def joined(self, X: Array, before: int) -> "Donors":
        """Some of these and of `before` others, of which the first MOST here are a random part: each of all
        is here with the same probability."""
        rng, here = np.random.default_rng([SEED, before, len(X)]), self.X[:MOST]
        old = len(here) if before <= MOST else int(rng.hypergeometric(before, len(X), MOST))
        more = X[rng.permutation(len(X))]
        new = len(more) if before <= MOST else MOST - old
        ahead = rng.permutation(np.concatenate([here[:old], more[:new]]))
        return Donors._first(self.holes, np.concatenate([ahead, self.X[old:], more[new:]]))

    @staticmethod
    def _first(holes: Holes, X: Array) -> "Donors":
        """Of rows in random order the first, and enough of those that have a value that is rare."""
        missing, rank = holes.missing(X), np.arange(len(X)) < MOST
        for column in missing.T:
            rank |= ~column & (np.cumsum(~column) <= DONORS)
        X = X[rank].copy()
        for j, hole in enumerate(holes.columns):  # which may have been given with a flag alone
            X[np.ix_(missing[rank, j], np.array(hole.values))] = np.nan
        return Donors(holes, X)

    @cached_property
    def missing(self) -> Array:
        """(n, columns)"""
        return self.holes.missing(self.X)

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """(inputs,) each: values below and above these are gross outliers."""
        low, high = np.array([fences(x[~np.isnan(x)]) for x in self.X.T]).reshape(-1, 2).T
        return low, high

    @cached_property
    def centre(self) -> Array:
        """(inputs,): means of those that are known."""
        known = ~np.isnan(self.X)
        within = np.where(known, np.clip(self.X, *self.ends), 0.0)
        return within.sum(axis=0) / np.maximum(known.sum(axis=0), 1)

    @cached_property
    def common(self) -> set[bytes]:
        """Patterns with regressions of their own, where many can be: those that most rows have."""
        patterns, counts = np.unique(self.missing, axis=0, return_counts=True)
        return {patterns[k].tobytes() for k in np.argsort(-counts, kind="stable")[:PATTERNS]}

    @cached_property
    def by_column(self) -> tuple["Search", ...]:
        """Of each column by all other inputs."""
        each = np.eye(len(self.holes.columns), dtype=bool)
        return tuple(
            self._search(self._having(one), [hole], [hole])
            for one, hole in zip(each, self.holes.columns, strict=True)
        )

    def whole(self, X: Array) -> Array:
        """Where rows lack values, the mean of all stands for them."""
        return np.where(np.isnan(X), self.centre, X)

    def within(self, X: Array) -> Array:
        """The same, and no outlier is farther away than its end."""
        return np.clip(self.whole(X), *self.ends)

    def values(self, pattern: Array, X: Array) -> Array:
        """(m, K, inputs): what the donors of rows have where these, with this pattern, have nothing."""
        lacking, rows, X = self.holes.of(pattern), self._having(pattern), self.within(X)
        if pattern.size > FEW_COLUMNS and len(lacking) > 1 and pattern.tobytes() not in self.common:
            return _any_order([self.by_column[j](X) for j in np.flatnonzero(pattern)])
        if len(rows) >= DONORS or len(lacking) == 1:
            return self._search(rows, lacking, lacking)(X)
        # too few have all: each by rows of its own
        columns = [np.arange(pattern.size) == j for j in np.flatnonzero(pattern)]
        each = zip(columns, lacking, strict=True)
        return _any_order([self._search(self._having(one), [hole], lacking)(X) for one, hole in each])

    def _having(self, pattern: Array) -> Array:
        """Rows that lack none of these columns, and have no outlier there."""
        holes = self.holes.of(pattern)
        low, high = (end[_values(holes)] for end in self.ends)
        values = self.X[:, _values(holes)]
        beyond = ((values < low) | (values > high)).any(axis=1)
        return np.flatnonzero(~(self.missing[:, pattern].any(axis=1) | beyond))

    def _search(self, rows: Array, asked: list[Hole], lacking: list[Hole]) -> "Search":
        """Among these rows, by the inputs that are there."""
        theirs, absent = self.within(self.X[rows]), _inputs(lacking)
        return Search.of(theirs, [j for j in range(self.X.shape[1]) if j not in absent], _values(asked))


def filled(X: Array, donors: Donors, belief: tuple[Function, Function] | None = None) -> tuple[Array, Array]:
    """X with something in place of what is missing, flags set; and the variance (m,) of observations that
    this adds, for the mean of a function and the variance of observations of it."""
    out, extra, waiting = X.copy(), np.zeros(len(X)), list[_Part]()
    for pattern, rows in _patterns(donors.holes.missing(X), DONORS * X.shape[1]):
        lacking = donors.holes.of(pattern)
        values = donors.values(pattern, X[rows])
        centre = _with(X[rows], _middle(values, lacking)[:, None], lacking)[:, 0]
        if belief is not None:
            waiting.append(_Part(rows, lacking, _with(X[rows], values, lacking), centre))
            if sum(part.each.size for part in waiting) > AT_ONCE:
                _add_variances(*belief, waiting, extra)
                waiting.clear()
        out[rows] = _told(centre.copy(), lacking)
    if belief is not None and waiting:
        _add_variances(*belief, waiting, extra)
    return out, extra


def looked_at(missing: Array) -> Array:
    """Rows that lack values: at random, and enough that lack each column."""
    order = np.random.default_rng([SEED, len(missing)]).permutation(np.flatnonzero(missing.any(axis=1)))
    missing = missing[order]
    chosen = np.arange(len(order)) < LOOKED
    for column in missing.T:
        chosen |= column & (np.cumsum(column) <= DONORS)
    return np.sort(order[chosen])


def filled_alike(X: Array, some: Array, extra: Array, donors: Donors) -> tuple[Array, Array]:
    """The same as `filled`, where only some rows that lack values have donors: these were looked at, and it
    is known what they add. In others, what stands for a value is what stands in that row of them which is
    nearest, and it adds as much. A search takes far longer, and many rows need the same donors."""
    out, variance, missing = X.copy(), np.zeros(len(X)), donors.holes.missing(X)
    out[some], variance[some] = filled(X[some], donors)[0], extra
    rest, each = missing.copy(), extra / np.maximum(missing[some].sum(axis=1), 1)
    rest[some] = False
    for j in np.flatnonzero(rest.any(axis=0)):
        hole, others = donors.holes.columns[j], np.flatnonzero(rest[:, j])
        known = np.flatnonzero(missing[some, j])
        known = known[:: -(-known.size // ALIKE)]  # from all over the table, which may be in order
        theirs = some[known]
        nearest = donors.by_column[j].nearest(donors.within(X[others]), donors.within(X[theirs]))
        out[others[:, None], hole.values] = out[theirs[nearest][:, None], hole.values]
        if hole.flag is not None:
            out[others, hole.flag] = float(hole.told)
        variance[others] += each[known[nearest]]
    return out, variance


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows that lack the same, as they would be with the values of each donor, and with the middle."""

    rows: Array
    lacking: list[Hole]
    each: Array  # (m, K, d)
    centre: Array  # (m, d)

    @property
    def few(self) -> Array:
        return self.each[:, :: max(1, self.each.shape[1] // FEW)]

    def extra(self, means: Array, middle: Array, variances: Array, known: Array) -> Array:
        K, factor = self.each.shape[1], max(hole.factor for hole in self.lacking)
        spread = (K + 1) / max(K - 3, 1) * means.var(axis=1)
        spread += np.maximum(variances.mean(axis=1) - known, 0.0)
        if not any(hole.own for hole in self.lacking):  # whose function is its own, and is right on average
            spread += (means.mean(axis=1) - middle) ** 2
        return factor * spread + (factor - 1.0) * known


def _add_variances(f: Function, v: Function, parts: list[_Part], extra: Array) -> None:
    """What these rows add. Functions are asked once for all, as they may be of few rows each."""
    centres = [part.centre for part in parts]
    means, middles = _of_all(f, [part.each for part in parts]), _of_all(f, centres)
    variances, known = _of_all(v, [part.few for part in parts]), _of_all(v, centres)
    for part, *found in zip(parts, means, middles, variances, known, strict=True):
        extra[part.rows] = part.extra(*found)


def _of_all(g: Function, points: list[Array]) -> list[Array]:
    """What a function says of points (..., d), in their shapes."""
    d, sizes = points[0].shape[-1], [some[..., 0].size for some in points]
    found = np.split(g(np.concatenate([some.reshape(-1, d) for some in points])), np.cumsum(sizes)[:-1])
    return [values.reshape(some.shape[:-1]) for values, some in zip(found, points, strict=True)]


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


def _any_order(parts: list[Array]) -> Array:
    """(m, K, inputs): what donors have, which are others for each column."""
    rng, fewest = np.random.default_rng([SEED, 1]), min(part.shape[1] for part in parts)
    return np.concatenate([rng.permutation(part, axis=1)[:, :fewest] for part in parts], axis=2)


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

"""Where a report measures: at test data, or at held-out rows without a refit. Both answer the same
questions, in scaled units."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from itergp.posterior.bounds import Bounds, joined, variance_bounds
from itergp.posterior.combined import Posterior
from itergp.posterior.holdout import WithoutFold, exact_variance_without, exact_without, prefix, without_folds
from itergp.posterior.uncertainty import variance_by

WORK = 1.5e10  # numbers n x rank x points: a second or two on two cores
FEWEST, MOST = 200, 1000  # points
FOLDS = 10
FOLD_WORK = 3e10  # rank^3, over all folds
LEADING = 1024  # actions of an exact model along which the path is followed
SEED = 0


class Points(ABC):
    """Inputs with observations; `path`, `local` and `exact` are means (m, t) and variances (m,) of the
    latent function there, with what missing values could be."""

    posterior: Posterior
    rows: np.ndarray  # which rows of the test data, or of the training data
    note: str
    source: str

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        """One posterior, or one per target."""
        return (self.posterior,)

    def of_target(self, target: int) -> slice:
        """Slice of a target's variances among all; here all targets share them."""
        return slice(0, self.rows.size)

    @property
    @abstractmethod
    def X(self) -> np.ndarray: ...

    @property
    @abstractmethod
    def y(self) -> np.ndarray:
        """(m, t)"""

    @property
    @abstractmethod
    def noise(self) -> np.ndarray:
        """The variance of each observation, (m,)."""

    @abstractmethod
    def path(self, ranks: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        """After each of these numbers of actions; then with additional local actions, if any: (K, m, t)."""

    @abstractmethod
    def local(self, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        """With the given number of local actions per point."""

    @abstractmethod
    def exact(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """The exact GP's variances; L L^T = K_hat, an L for each posterior."""

    @abstractmethod
    def bounds(self, neighbours: int, passes: int) -> Bounds:
        """Bounds on the exact GP's variances from neighbours of each point, then from passes over K."""

    @abstractmethod
    def few(self, number: int) -> np.ndarray:
        """A random subset of the points, for expensive computations."""

    @abstractmethod
    def some(self, chosen: np.ndarray) -> "Points":
        """Some of the points."""

    @abstractmethod
    def seen_by(self, posterior: Posterior) -> "Points":
        """The same points, for another posterior of the same problem."""


@dataclass(frozen=True, eq=False)
class TestData(Points):
    """Rows that the model has not seen."""

    posterior: Posterior
    inputs: np.ndarray
    targets: np.ndarray
    rows: np.ndarray
    noises: np.ndarray  # (n,): of all rows of the test data
    note: str
    extras: np.ndarray  # (n,): the variance that missing values add
    source: str = "test data"

    @property
    def X(self) -> np.ndarray:
        return self.inputs[self.rows]

    @property
    def y(self) -> np.ndarray:
        return self.targets[self.rows]

    @property
    def noise(self) -> np.ndarray:
        return self.noises[self.rows]

    def path(self, ranks: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        means, variances = path_at(self.posterior, self.X, ranks, neighbours)
        return means, variances + self.extras[self.rows]

    def local(self, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.posterior.local(neighbours).marginals(self.X)
        return _columns(mean, 0), variance + self.extras[self.rows]

    def exact(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        return variance_by(factors[0], self.posterior, self.X) + self.extras[self.rows]

    def bounds(self, neighbours: int, passes: int) -> Bounds:
        return _wider(variance_bounds(self.posterior.at(self.X), neighbours, passes), self.extras[self.rows])

    def few(self, number: int) -> np.ndarray:
        return chosen_rows(self.rows.size, number)

    def some(self, chosen: np.ndarray) -> "TestData":
        return replace(self, rows=self.rows[chosen])

    def seen_by(self, posterior: Posterior) -> "TestData":
        return replace(self, posterior=posterior)


@dataclass(frozen=True, eq=False)
class HeldOut(Points):
    """Training rows, each predicted from the rows outside its fold with the actions that were taken."""

    posterior: Posterior
    folds: tuple[WithoutFold, ...]
    rows: np.ndarray
    fold: np.ndarray  # the number of the fold of each of these rows
    note: str
    extras: np.ndarray  # (n,): the variance that missing values add to each training row
    source: str = "held-out folds"

    @property
    def X(self) -> np.ndarray:
        return self.posterior.problem.X[self.rows]

    @property
    def y(self) -> np.ndarray:
        return _columns(np.asarray(self.posterior.problem.y)[self.rows], 0)

    @property
    def noise(self) -> np.ndarray:
        return self.posterior.problem.N[self.rows] - self.extras[self.rows]

    @property
    def is_exact(self) -> bool:
        return self.posterior.rank == self.posterior.problem.n

    def _each(self) -> Iterator[tuple[WithoutFold, np.ndarray, np.ndarray]]:
        """For each fold: which of its rows are asked for, and where these are among all."""
        for number, fold in enumerate(self.folds):
            asked = np.flatnonzero(self.fold == number)
            if asked.size:
                yield fold, np.searchsorted(fold.F, self.rows[asked]), asked

    def path(self, ranks: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        mean = np.empty((len(ranks), self.rows.size, self.posterior.problem.targets))
        variance = np.empty((len(ranks), self.rows.size))
        for fold, wanted, asked in self._each():
            found = fold.path(ranks)
            mean[:, asked], variance[:, asked] = _columns(found.mean, 1)[:, wanted], found.var[:, wanted]
        if self.is_exact:
            whole = ranks == self.posterior.rank
            mean[whole], variance[whole] = self._exact()
        variance += self.extras[self.rows]
        return _with_last(mean, variance, self.local(neighbours)) if neighbours else (mean, variance)

    def local(self, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.empty((self.rows.size, self.posterior.problem.targets)), np.empty(self.rows.size)
        for fold, wanted, asked in self._each():
            found, variance[asked] = fold.local(neighbours, wanted)
            mean[asked] = _columns(found, 0)
        return mean, variance + self.extras[self.rows]

    def _exact(self) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.empty((self.rows.size, self.posterior.problem.targets)), np.empty(self.rows.size)
        for fold, wanted, asked in self._each():
            found, spread = exact_without(self.posterior, fold.F)
            mean[asked], variance[asked] = _columns(found, 0)[wanted], spread[wanted]
        return mean, variance

    def exact(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        variance = np.empty(self.rows.size)
        for fold, wanted, asked in self._each():
            variance[asked] = exact_variance_without(self.posterior, factors[0], fold.F)[wanted]
        return variance + self.extras[self.rows]

    def bounds(self, neighbours: int, passes: int) -> Bounds:
        found = Bounds(np.empty(self.rows.size), np.empty(self.rows.size))
        for fold, wanted, asked in self._each():
            one = fold.variance_bounds(neighbours, passes, wanted)
            found.lower[asked], found.upper[asked] = one.lower, one.upper
        return _wider(found, self.extras[self.rows])

    def few(self, number: int) -> np.ndarray:
        """Fold by fold, so that few folds are needed: which rows are in a fold is random already."""
        return np.sort(np.argsort(self.fold, kind="stable")[:number])

    def some(self, chosen: np.ndarray) -> "HeldOut":
        return replace(self, rows=self.rows[chosen], fold=self.fold[chosen])

    def seen_by(self, posterior: Posterior) -> "HeldOut":
        numbers, fold = np.unique(self.fold, return_inverse=True)
        return replace(
            self,
            posterior=posterior,
            fold=fold,
            folds=tuple(without_folds(posterior, [self.folds[k].F for k in numbers])),
        )


@dataclass(frozen=True, eq=False)
class EachTarget(Points):
    """The points of several targets with noises of their own: variances and noises are those of each
    target in turn, (t m,)."""

    each: tuple[Points, ...]

    @property
    def posterior(self) -> Posterior:  # type: ignore[override]
        """That of the first: their ranks and rows are the same."""
        return self.each[0].posterior

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        return tuple(points.posterior for points in self.each)

    @property
    def rows(self) -> np.ndarray:  # type: ignore[override]
        return self.each[0].rows

    @property
    def note(self) -> str:  # type: ignore[override]
        return self.each[0].note

    @property
    def source(self) -> str:  # type: ignore[override]
        return self.each[0].source

    @property
    def X(self) -> np.ndarray:
        return self.each[0].X

    @property
    def y(self) -> np.ndarray:
        return np.concatenate([points.y for points in self.each], axis=1)

    @property
    def noise(self) -> np.ndarray:
        return np.concatenate([points.noise for points in self.each])

    def of_target(self, target: int) -> slice:
        return slice(target * self.rows.size, (target + 1) * self.rows.size)

    def path(self, ranks: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        return _in_turn([points.path(ranks, neighbours) for points in self.each])

    def local(self, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
        return _in_turn([points.local(neighbours) for points in self.each])

    def exact(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([points.exact([L]) for points, L in zip(self.each, factors, strict=True)])

    def bounds(self, neighbours: int, passes: int) -> Bounds:
        return joined([points.bounds(neighbours, passes) for points in self.each])

    def few(self, number: int) -> np.ndarray:
        """The same points of each target."""
        chosen = self.each[0].few(number)
        return np.concatenate([chosen + target * self.rows.size for target in range(len(self.each))])

    def some(self, chosen: np.ndarray) -> "EachTarget":
        first = chosen[: chosen.size // len(self.each)]
        return EachTarget(tuple(points.some(first) for points in self.each))

    def seen_by(self, posterior: Posterior) -> "EachTarget":
        """After as many actions as that posterior has."""
        return EachTarget(
            tuple(points.seen_by(prefix(points.posterior, posterior.rank)) for points in self.each)
        )


def _in_turn(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Means beside each other, variances one after the other."""
    return np.concatenate([mean for mean, _ in found], axis=-1), np.concatenate(
        [variance for _, variance in found], axis=-1
    )


def _wider(found: Bounds, extra: np.ndarray) -> Bounds:
    return Bounds(found.lower + extra, found.upper + extra)


def from_test_data(
    posterior: Posterior,
    X: np.ndarray,
    y: np.ndarray,
    noise: float | np.ndarray,
    extra: float | np.ndarray = 0.0,
) -> TestData:
    """`extra` is what missing values add to the variance."""
    rows = chosen_rows(len(X), affordable(posterior))
    some = (
        f"{rows.size:,} of the {len(X):,} rows of the test data, chosen at random"
        if rows.size < len(X)
        else ""
    )
    every = f"All {len(X):,} rows" if len(X) > 1 else "The only row"
    note = some or f"{every} of the test data"
    noises, extras = (np.broadcast_to(one, (len(X),)) for one in (noise, extra))
    return TestData(posterior, X, y[:, None] if y.ndim == 1 else y, rows, noises, f"{note}.", extras)


def from_folds(
    posterior: Posterior,
    counts: np.ndarray,
    neighbours: int,
    learned: bool,
    extra: float | np.ndarray = 0.0,
) -> HeldOut:
    """At most ten folds of training rows, chosen at random. Of their noise, `extra` is what their missing
    values could be."""
    n = posterior.problem.n
    rows = chosen_rows(n, affordable(posterior))
    folds = int(np.clip(FOLD_WORK / max(1, min(posterior.rank, LEADING)) ** 3, 2, min(FOLDS, max(2, n))))
    fold = np.random.default_rng([SEED, 1]).permutation(np.arange(rows.size) % folds)
    exact = posterior.rank == n
    # an exact model has a formula of its own for its last position
    leading = _leading(posterior) if exact else posterior
    without = tuple(without_folds(leading, [rows[fold == number] for number in range(folds)]))
    note = _about_folds(rows.size, folds, posterior, counts, neighbours, learned)
    return HeldOut(posterior, without, rows, fold, note, np.broadcast_to(extra, (n,)))


def _about_folds(
    m: int, folds: int, posterior: Posterior, counts: np.ndarray, neighbours: int, learned: bool
) -> str:
    n = posterior.problem.n
    every = f"All {n:,} training rows" if n > 1 else "The only training row"
    which = every if m == n else f"{m:,} of {n:,} training rows, chosen at random"
    text = f"{which}, in {folds} folds; each is predicted from the rows outside its fold, without refitting"
    if neighbours:
        text += f", with {neighbours} rows near it outside the fold as local actions"
    seen = ["hyper-parameters"] * learned + ["actions"] * (0 < posterior.rank < n)
    text += (
        f". This is optimistic: the {' and '.join(seen)} were chosen with the held-out rows included."
        if seen
        else "."
    )
    if (counts > 1).any():
        text += " Rows with the same inputs are held out together, and their mean is predicted."
    return text


def chosen_rows(n: int, most: int) -> np.ndarray:
    return np.sort(np.random.default_rng(SEED).permutation(n)[:most])


def affordable(posterior: Posterior) -> int:
    """Number of points at which a path can be evaluated in a second or two."""
    return int(np.clip(WORK / (posterior.problem.n * max(1, posterior.rank)), FEWEST, MOST))


def _leading(posterior: Posterior) -> Posterior:
    """The first actions only, to follow the path along."""
    return prefix(posterior, min(LEADING, posterior.rank))


def path_at(
    posterior: Posterior, X: np.ndarray, ranks: np.ndarray, neighbours: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, m, t) and variances (K, m) along the path; the last with local actions, unless there are
    none."""
    at = posterior.at(X)
    found = at.path(ranks)
    means = _columns(found.mean, 1)
    return _with_last(means, found.var, at.local(neighbours).marginals) if neighbours else (means, found.var)


def _with_last(
    means: np.ndarray, variances: np.ndarray, last: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = last
    return np.concatenate([means, _columns(mean, 0)[None]]), np.concatenate([variances, variance[None]])


def _columns(mean: np.ndarray, lead: int) -> np.ndarray:
    """Means (..., m) or (..., m, t) as (..., m, t)."""
    return mean if mean.ndim == lead + 2 else mean[..., None]

"""Rows held out, and predicted by what `predict` will use: some global actions, and local ones on top.

Up to a thousand rows every row, or group of rows, is left out in turn, from one factorisation. Beyond, some
rows are held out of the others.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial import cKDTree
from scipy.special import ndtri

from itergp.data.rows import Rows
from itergp.limits import EXACT_ROWS
from itergp.linalg.cholesky import cholesky, inverse
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram
from itergp.posterior.combined import condition
from itergp.posterior.local import NEIGHBOURS, candidates
from itergp.prior.gp import Prior
from itergp.prior.kernel import Kernel
from itergp.solver.policies import UnitVector
from itergp.solver.state import Progress, State
from itergp.solver.stopping import MaxActions, StoppingCriterion

SHARE = 0.2  # of the rows may be held out
MOST = (1000, 512)  # rows held out at most, and the global actions that predict them
LARGE, FEWER = 10_000, (500, 256)  # the same beyond so many rows, most of which are near one of them only
# 500 rows with heavy tails tell little, and beyond so many rows learning takes longer than to predict more
HUGE, SOME_MORE = 100_000, (2000, 256)
QUICK = (300, 128)  # if time is short
SPATIAL = 3  # features, up to which new rows may lie in gaps
GAPS = 20
SMALLEST_GAP, GAP = 10, 0.02  # rows of the smallest gap, and the share of all rows in the largest
BLOCK_ROWS, BLOCKS, MOST_CLUSTERED = 50, (4, 40), 20_000  # rows of a block, blocks, rows that make them
LOG_2_PI = float(np.log(2.0 * np.pi))
REACH = float(ndtri(0.975))  # of a 95 % interval
TIE = 1e-6  # by which an interval that ends at a score is longer: others may be equal to it, as counts are
SURE = 2.0  # standard errors
# fewer rows say nothing about a factor on all variances; so many are believed, below but for a standard error
FEW, MANY = 20, 200
WORST = -1e10  # log density of a prediction that is not finite


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of held-out rows and the variances they were predicted with, (rows, targets).

    Rows of one gap or group err together: `clusters` has their number, and -1 for single rows.
    """

    errors: np.ndarray
    variances: np.ndarray
    clusters: np.ndarray | None = None

    @property
    def squares(self) -> np.ndarray:
        """Squared errors in units of their variance."""
        return self.errors**2 / self.variances

    @property
    def densities(self) -> np.ndarray:
        """The log density of each row, summed over targets."""
        with np.errstate(all="ignore"):
            found = -0.5 * (self.squares + np.log(self.variances) + LOG_2_PI).sum(axis=1)
        return np.where(np.isfinite(found), found, WORST)

    @property
    def coverage(self) -> float:
        """Of 95 % intervals."""
        return float((self.squares <= REACH**2).mean())

    @property
    def factor(self) -> float:
        """By how much variances are too small, as far as these rows can tell: at least 1 (the worst target).

        Single rows are asked, if there are any: those of a gap err together. Variances never shrink: new rows
        may lie farther away than held-out ones, and a wide interval costs little where a narrow one is wrong.
        """
        single = np.full(len(self.errors), True) if self.clusters is None else self.clusters < 0
        z2 = self.squares[single] if single.any() else self.squares
        if len(z2) < FEW or not np.isfinite(z2).all():
            return 1.0
        errors = SURE * z2.std(axis=0) / len(z2) ** 0.5
        t = z2.shape[1]  # the worst of t targets looks worse than it is, as the largest of t normals (Blom)
        in_doubt = float(ndtri((t - 0.375) / (t + 0.25))) + (len(z2) < MANY)
        doubt = in_doubt * (0.95 * 0.05 / len(z2)) ** 0.5
        of_targets = np.maximum(
            z2.mean(axis=0) - errors, (1.0 + TIE) * np.quantile(z2, 0.95 - doubt, axis=0) / REACH**2
        )
        return max(1.0, float(of_targets.max()))

    def error(self, values: np.ndarray) -> float:
        """The standard error of the mean of a value for each row; infinite if all rows are of one cluster."""
        centred = values - values.mean()
        if self.clusters is None:
            return float(centred.std()) / centred.size**0.5
        single = self.clusters < 0
        sums = np.bincount(self.clusters[~single], centred[~single])
        units = np.count_nonzero(single) + np.unique(self.clusters[~single]).size
        if units < 2:
            return np.inf
        squares = float((centred[single] ** 2).sum() + (sums**2).sum())
        return (squares * units / (units - 1)) ** 0.5 / centred.size

    @staticmethod
    def failed(rows: int, targets: int, clusters: np.ndarray | None) -> "Scores":
        """Of predictions that could not be made."""
        return Scores(np.full((rows, targets), np.nan), np.ones((rows, targets)), clusters)

    def rescaled(self, factor: float) -> "Scores":
        return replace(self, variances=factor * self.variances)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Some rows held out of the others."""

    given: Rows  # the others, or all: then those of `out` are left out
    rows: Rows  # held out
    compute: Compute = Compute()
    seed: int = 0
    actions: int = MOST[1]  # global ones, unless the rows are few enough for the exact GP
    clusters: np.ndarray | None = None  # of the rows held out
    out: np.ndarray | None = None
    tick: Tick = no_tick  # asked between blocks of actions

    @property
    def known(self) -> Rows:
        """Made when it is asked for, and not kept: of many rows, a copy is much."""
        if self.out is None:
            return self.given
        is_known = np.full(self.given.n, True)
        is_known[self.out] = False
        return self.given.some(np.flatnonzero(is_known))

    @staticmethod
    def split(
        rows: Rows, groups: np.ndarray | None, seed: int, compute: Compute, quick: bool = False
    ) -> "HeldOut":
        """Random rows, or all rows of random groups; `quick`: fewer of them, with fewer global actions.

        With up to three features, half of them lie in gaps: in space, new rows often do, and what predicts
        the next row best may know nothing of the distance.
        """
        rng, in_space = np.random.default_rng([seed, rows.n, 1]), rows.X.shape[1] <= SPATIAL
        most, actions = QUICK if quick else _most(rows.n, in_space)
        most = min(most, int(SHARE * rows.n))
        numbers = np.full(rows.n, -1)
        if groups is not None:
            out = rng.permutation(np.flatnonzero(np.isin(groups, _few_groups(groups, rng, SHARE * rows.n))))
            held, numbers[out] = out[:most], groups[out]
        else:
            numbers = gaps(rows.X, rng) if in_space else numbers
            away = np.flatnonzero(numbers >= 0)
            far = rng.permutation(away)[: most // 2]
            near = rng.permutation(np.flatnonzero(numbers < 0))[: most - far.size]
            out, held = np.concatenate([near, away]), np.concatenate([near, far])
        return HeldOut(rows, rows.some(held), compute, seed, actions, numbers[held], out)

    def failed(self) -> Scores:
        return Scores.failed(self.rows.n, self.rows.t, self.clusters)

    def scores(self, kernel: Kernel, noise: Any, neighbours: int = NEIGHBOURS) -> Scores:
        """Only rows that are acted on enter: those of the global actions, and those near held-out rows."""
        known, rng = self.known, np.random.default_rng([self.seed, 2])
        r = known.n if known.n <= EXACT_ROWS else self.actions
        acted = np.arange(known.n) if r == known.n else np.sort(rng.permutation(known.n)[:r])
        m = 0 if r == known.n else min(neighbours, known.n)
        J = self._near(known, kernel, noise, m)
        rows = np.union1d(acted, J)
        some = known.some(rows)
        each = np.atleast_1d(np.asarray(noise, dtype=np.float64))
        means, variances = np.empty(self.rows.Y.shape), np.empty(self.rows.Y.shape)
        for variance in np.unique(each):
            policy = UnitVector(order=np.searchsorted(rows, acted), block_size=512)
            posterior = condition(
                Prior(kernel),
                some.X,
                some.Y,
                some.N(float(variance)),
                policy,
                MaxActions(r) | _Ticking(self.tick),
                self.compute,
            )
            at = posterior.at(self.rows.X)
            mean, var = at.local(m).knowing(J=np.searchsorted(rows, J)).marginals if m else at.marginals
            of = np.flatnonzero(np.broadcast_to(each, self.rows.t) == variance)
            means[:, of] = mean.reshape(self.rows.Y.shape)[:, of]
            variances[:, of] = (var + self.rows.N(float(variance)))[:, None]
        return Scores(self.rows.Y - means, variances, self.clusters)

    def _near(self, known: Rows, kernel: Kernel, noise: Any, count: int) -> np.ndarray:
        """The known rows that say most about each held-out row, as `predict` takes them; (rows, count)."""
        if not count:
            return np.empty((self.rows.n, 0), dtype=np.intp)
        gram, N = Gram(kernel, known.X, self.compute), known.N(float(np.min(noise)))
        near = gram.nearest_once(self.rows.X, candidates(count, known.n))
        return gram.most_informative(self.rows.X, near, N, count)


@dataclass(frozen=True)
class _Ticking(StoppingCriterion):
    """Never stops by itself: `tick` may raise."""

    tick: Tick

    def reached(self, begun: Progress, state: State) -> bool:
        self.tick()
        return False


def _most(n: int, in_space: bool) -> tuple[int, int]:
    """Rows held out of n, and global actions. In space more rows would be more of the same gaps."""
    if n <= LARGE:
        return MOST
    return FEWER if n <= HUGE or in_space else SOME_MORE


def gaps(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The number of the gap in which each row lies, or -1: a few gaps of all sizes, around random rows."""
    sizes = np.geomspace(min(SMALLEST_GAP, GAP * len(X)), GAP * len(X), GAPS).astype(np.intp)
    tree, centres, numbers = cKDTree(X), X[rng.permutation(len(X))[:GAPS]], np.full(len(X), -1)
    for number, (centre, size) in enumerate(zip(centres, np.maximum(1, sizes), strict=False)):
        numbers[tree.query(centre, size)[1]] = number
    return numbers


def blocks(X: np.ndarray, seed: int = 0) -> np.ndarray:
    """Groups of rows that are near each other, by k-means."""
    from scipy.cluster.vq import kmeans2

    size = int(np.clip(len(X) // BLOCK_ROWS, *BLOCKS))
    some = X[np.random.default_rng([seed, 3]).permutation(len(X))[:MOST_CLUSTERED]]
    centres, _ = kmeans2(some, min(size, len(some)), minit="++", rng=np.random.default_rng([seed, 4]))
    return cKDTree(centres).query(X)[1]


def _few_groups(groups: np.ndarray, rng: np.random.Generator, rows: float) -> np.ndarray:
    """Random groups that have about so many rows: at least one, never all."""
    names, sizes = np.unique(groups, return_counts=True)
    order = rng.permutation(names.size)
    count = int(np.searchsorted(np.cumsum(sizes[order]), rows)) + 1
    return names[order[: min(count, names.size - 1)]]


@dataclass(frozen=True, eq=False)
class LeaveOut:
    """Every row, or group of rows, left out in turn: the exact GP of the others, by one factorisation."""

    rows: Rows
    groups: np.ndarray | None = None
    compute: Compute = Compute()
    tick: Tick = no_tick

    def failed(self) -> Scores:
        return Scores.failed(len(self.parts) * self.rows.n, self.rows.t, self.clusters)

    @property
    def clusters(self) -> np.ndarray:
        single = np.full(self.rows.n, -1)
        return np.concatenate([single if groups is None else groups for groups in self.parts])

    @cached_property
    def parts(self) -> list[np.ndarray | None]:
        """Groups; or single rows, and with up to three features blocks as well, as in `HeldOut.split`."""
        if self.groups is None and self.rows.X.shape[1] <= SPATIAL and self.rows.n >= 2 * BLOCK_ROWS:
            return [None, blocks(self.rows.X)]
        return [self.groups]

    def scores(self, kernel: Kernel, noise: Any, neighbours: int = 0) -> Scores:
        each, parts = np.broadcast_to(np.asarray(noise, dtype=np.float64), self.rows.t), self.parts
        n, t = self.rows.Y.shape
        errors, variances = np.empty((len(parts) * n, t)), np.empty((len(parts) * n, t))
        for variance in np.unique(each):
            of = np.flatnonzero(each == variance)
            L, _ = cholesky(Gram(kernel, self.rows.X, self.compute), self.rows.N(float(variance)), self.tick)
            alpha = scipy.linalg.cho_solve((L, True), self.rows.Y[:, of], check_finite=False)
            P = inverse(L, self.tick)  # its lower half
            for k, groups in enumerate(parts):
                here = slice(k * n, (k + 1) * n)
                errors[here, of], left = _left_out(P, alpha, groups)
                variances[here, of] = left[:, None]
        return Scores(errors, variances, self.clusters)


def _left_out(P: np.ndarray, alpha: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """y_F - E[y_F | others] = P_FF^{-1} alpha_F, with the covariance P_FF^{-1}."""
    if groups is None:
        diagonal = np.diag(P)
        return alpha / diagonal[:, None], 1.0 / diagonal
    errors, variances = np.empty(alpha.shape), np.empty(len(alpha))
    for name in np.unique(groups):
        F = np.flatnonzero(groups == name)
        P_FF = P[np.ix_(F, F)]
        covariance = np.linalg.inv(np.tril(P_FF) + np.tril(P_FF, -1).T)
        errors[F], variances[F] = covariance @ alpha[F], np.diag(covariance)
    return errors, variances

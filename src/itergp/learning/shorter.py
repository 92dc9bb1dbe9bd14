"""Shorter lengthscales than a search begins with. Where a function turns many times within the data, as a
daily cycle over months does, the likelihood is flat around the usual starts, and learning ends in noise.

A likelihood of rows given near ones is evaluated at ever shorter lengthscales, of all features and of each
alone. It is worth a start where it has a minimum that the usual lengthscales are far above, whatever the
noise.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from itergp.data.rows import Rows
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.parameters import Ranges, is_composite
from itergp.learning.run import OutOfTime, Share
from itergp.learning.wide import is_wide
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Tick
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import parameters, with_parameters

USUAL = (4.0, 2.0, 1.0, 0.5)  # factors on the lengthscales of a start, from which a search finds its way
STEP, STEPS = 0.5, 24
NOISES = (0.01, 0.1, 0.5, 0.9)  # shares of the variance
NEIGHBOURS, BATCH, MOST_ROWS = 15, 400, 200_000
EACH = 10  # features, up to which each is tried alone
ALONE = 1e-3  # the lengthscale of such a feature, while its neighbours are searched
LOOKING = 0.1  # of the time, at most
GAIN, IN_ALL = 0.05, 5.0  # nats per observation, and of all of them
BELOW = 0.1  # of a lengthscale: so far beyond it a search may go on
CLOSE = 0.5  # lengthscales between rows that show one
CENTRES = 5  # of places around which rows are taken, where random ones lie too far apart


@dataclass(frozen=True, eq=False)
class Shorter:
    """Where else to start."""

    kernel: Kernel
    noise: float  # a share of the variance

    @property
    def shared(self) -> bool:
        """Whether it is the same for all features."""
        return np.ptp(lengthscales(self.kernel)) == 0

    def shown_by(self, X: np.ndarray) -> bool:
        """Whether these rows lie close enough in the features that it is about."""
        own = lengthscales(self.kernel)
        U = (X / own)[:, np.broadcast_to(own == np.min(own), X.shape[1])]
        return bool(np.median(cKDTree(U).query(U, 2)[0][:, 1]) < CLOSE)

    def near(self, X: np.ndarray, count: int, seed: int) -> np.ndarray:
        """About so many rows, around a few random ones."""
        U, each = X / lengthscales(self.kernel), count // CENTRES
        centres = np.random.default_rng([seed, len(X), 8]).permutation(len(X))[:CENTRES]
        near = [np.argpartition(((U - U[i]) ** 2).sum(axis=1), each)[:each] for i in centres]
        return np.unique(np.concatenate(near))

    def within(self, usual: Ranges, spread: np.ndarray) -> Ranges:
        """Ranges in which this start is not at the end."""
        least = float((lengthscales(self.kernel) / spread).min())
        return Ranges(usual.noise, (min(usual.length[0], BELOW * least), usual.length[1]))

    def noise_of(self, rows: Rows, like: Any) -> Any:
        """A number, or one for each target."""
        return np.full(np.shape(like), self.noise * rows.variance)[()]


def lengthscales(kernel: Kernel) -> Any:
    return parameters(kernel)[_path(kernel)]


def shorter(
    kernel: Kernel,
    rows: Rows,
    noise: float | None,
    seed: int,
    seconds: float | None = None,
    compute: Compute = Compute(),
) -> Shorter | None:
    """From a kernel with a scale and usual lengthscales; None if nothing speaks for shorter ones. `noise` is
    a share of the variance, if it is known. Of `seconds`, a share is for this."""
    if not _applies(kernel, rows) or rows.n <= NEIGHBOURS or not 0 < rows.variance < np.inf:
        return None
    if rows.n > MOST_ROWS:
        chosen = np.random.default_rng([seed, rows.n, 9]).permutation(rows.n)[:MOST_ROWS]
        rows = rows.some(np.sort(chosen))
    path = _path(kernel)
    d, usual = rows.X.shape[1], parameters(kernel)[path]
    directions = [np.ones(d)]
    if 1 < d <= EACH and np.size(usual) == d:
        directions += [np.where(np.arange(d) == j, ALONE, 1.0) for j in range(d)]
    clock = Share(None if seconds is None else LOOKING * seconds)
    of = _Scan(kernel, path, rows, NOISES if noise is None else (noise,), seed, compute, clock.tick)
    found = []
    with contextlib.suppress(OutOfTime):
        found += [one for one in map(of.best, directions) if one is not None]
    if not found:
        return None
    _, best, share = min(found, key=lambda one: one[0])
    return Shorter(best, share)


@dataclass(frozen=True, eq=False)
class _Scan:
    kernel: Kernel
    path: str
    rows: Rows
    noises: tuple[float, ...]
    seed: int
    compute: Compute
    tick: Tick

    def best(self, direction: np.ndarray) -> tuple[float, Kernel, float] | None:
        """The lowest minimum at shorter lengthscales of the features for which `direction` is the least, if
        there is one that the usual lengthscales are far above."""
        moved = direction == direction.min()
        searched = self._with(direction)
        given = NeighbourLikelihood.at(
            searched, self.rows, NEIGHBOURS, BATCH, self.seed, self.compute, self.tick
        )
        nearest = _nearest(given, lengthscales(self._with(np.ones(len(moved)))), moved)
        factors = [*USUAL]
        while factors[-1] > nearest and len(factors) < STEPS:
            factors.append(STEP * factors[-1])
        kernels = [self._with(np.where(moved, factor, 1.0)) for factor in factors]
        values = [self._at(given, kernel) for kernel in kernels]
        least, gain = np.array([value for value, _ in values]), max(GAIN, IN_ALL / self.rows.total)
        minima = [
            i
            for i in range(len(USUAL), len(least) - 1)
            if least[i] <= min(least[i - 1], least[i + 1]) and least[i] < least[: len(USUAL)].min() - gain
        ]
        if not minima:
            return None
        i = min(minima, key=least.__getitem__)
        return float(least[i]), kernels[i], values[i][1]

    def _with(self, factors: np.ndarray) -> Kernel:
        usual = parameters(self.kernel)[self.path]
        factor = factors if np.size(usual) == factors.size else factors.min()
        return with_parameters(self.kernel, {self.path: usual * factor})

    def _at(self, given: NeighbourLikelihood, kernel: Kernel) -> tuple[float, float]:
        """The lowest value for a noise, and this noise."""
        variance = self.rows.variance
        values = []
        for noise in self.noises:
            scaled = with_parameters(kernel, {"scale": max(1.0 - noise, 0.1) * variance})
            values.append((given(scaled, noise * variance).value, noise))
        return min(values)


def _nearest(given: NeighbourLikelihood, usual: Any, moved: np.ndarray) -> float:
    """The median distance to the nearest row, in the features that are moved and in units of the usual
    lengthscales: far below it, all is noise."""
    J, X = given.given.J, given.given.X[:, moved] / np.broadcast_to(usual, moved.shape)[moved]
    away = np.linalg.norm(X[J] - X[given.given.chosen][:, None], axis=2)
    away = np.where((J >= 0) & (away > 0), away, np.inf).min(axis=1)
    away = away[np.isfinite(away)]
    return float(np.median(away)) if away.size else np.inf


def _applies(kernel: Kernel, rows: Rows) -> bool:
    """Whether it is a scale times one stationary kernel of all features. Composite ones and wide tables have
    other starts."""
    if not kernel.stationary or is_composite(kernel) or is_wide(kernel, rows):
        return False
    found, (term, *more) = parameters(kernel), kernel.terms()
    return not more and term.columns is None and "scale" in found and f"{term.path}lengthscale" in found


def _path(kernel: Kernel) -> str:
    return f"{kernel.terms()[0].path}lengthscale"

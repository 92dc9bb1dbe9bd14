"""The nearest-neighbour likelihood: each observation given its nearest others, by the rows of a random order or by all.

With the rows in a random order and each given its nearest *earlier* ones (Vecchia), the product of the conditionals is a
density of all data, and a random batch of them is an unbiased estimate of its logarithm. Given its nearest *others*, each
conditional is what a local prediction of that row would be.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.learning.parameters import Evaluation
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.neighbours import coordinates, likelihood, nearest
from itergp.prior.kernels import Kernel


def within_groups(noise: float, counts: np.ndarray, scatter: float, targets: int) -> tuple[float, float]:
    """-log density of the observations around their group's mean, given it; and its slope in the noise."""
    lost = targets * float((counts - 1.0).sum())
    value = 0.5 * (lost * np.log(2.0 * np.pi * noise) + targets * float(np.log(counts).sum()) + scatter / noise)
    return value, 0.5 * (lost - scatter / noise) / noise


@dataclass(frozen=True, eq=False)
class NeighbourLikelihood:
    """An objective for fixed neighbours: `at(kernel)` finds them anew in that kernel's metric."""

    X: np.ndarray  # in the random order, if neighbours are earlier ones
    y: np.ndarray
    counts: np.ndarray
    scatter: float
    among: str
    rows: np.ndarray
    J: np.ndarray
    threads: int | None = None
    tick: Tick = no_tick

    @staticmethod
    def at(
        kernel: Kernel, X: np.ndarray, y: np.ndarray, counts: np.ndarray, scatter: float, neighbours: int, batch: int,
        among: str = "earlier", seed: Any = 0, threads: int | None = None, tick: Tick = no_tick,
    ) -> "NeighbourLikelihood":  # fmt: skip
        """The likelihood of `batch` rows at random, given neighbours that are near in the metric of `kernel`."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        X, y, counts = X[order], y[order], counts[order]
        rows = np.sort(rng.choice(len(X), min(batch, len(X)), replace=False))
        F = coordinates(kernel, X)
        if among == "earlier" or rows.size == len(X):
            J = nearest(F, F, min(neighbours, len(X)), among, threads, tick)[rows]
        else:
            J = nearest(F[rows], F, min(neighbours + 1, len(X)), "all", threads, tick)
            J = np.where(rows[:, None] == J, -1, J)  # not itself
        return NeighbourLikelihood(X, y, counts, scatter, among, rows, J, threads, tick)

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        share = 1.0 / self.counts
        values, slopes, slope = likelihood(
            kernel, self.X, self.y, noise * share, share, self.rows, self.J, self.threads, self.tick
        )
        per_row, total = len(self.X) / self.rows.size, float(self.counts.sum())
        within, within_slope = within_groups(noise, self.counts, self.scatter, self.y.shape[1])
        return Evaluation(
            (per_row * float(values.sum()) + within) / total,
            {path: per_row * np.asarray(part) / total for path, part in slopes.items()},
            (per_row * slope + within_slope) / total,
        )

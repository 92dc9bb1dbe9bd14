"""Shared by the one-dimensional figures: data in two clumps with a gap, a matching prior, and a grid."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.prior.gp import Prior
from itergp.prior.stationary import Matern32
from itergp.solver.policies import ConjugateGradient, Eigenvector, PseudoInput, UnitVector

NOISE = 0.01
PRIOR = Prior(1.0 * Matern32(lengthscale=0.35))
LEFT, RIGHT = -1.5, 1.5  # of the grid; the data are within [-1, 1]
CLUMPS = ((-1.0, -0.25), (0.25, 1.0))
INDUCING_POINTS = np.array([[-0.85], [-0.4], [0.4], [0.85]])


@dataclass(frozen=True)
class Line:
    """Observations of sin(pi x) along a line, in order, and the points where a posterior is drawn."""

    X: np.ndarray
    y: np.ndarray
    grid: np.ndarray

    @property
    def t(self) -> np.ndarray:
        return self.grid[:, 0]


def line(n: int = 24, seed: int = 0, points: int = 181) -> Line:
    """n points, half of them in each clump."""
    rng = np.random.default_rng([seed, n])
    x = np.sort(
        np.concatenate(
            [rng.uniform(*clump, size) for clump, size in zip(CLUMPS, (n // 2, n - n // 2), strict=True)]
        )
    )
    y = truth(x) + np.sqrt(NOISE) * rng.standard_normal(n)
    return Line(x[:, None], y, np.linspace(LEFT, RIGHT, points)[:, None])


def truth(x: np.ndarray) -> np.ndarray:
    return np.sin(np.pi * x)


# Table 1 of the paper. Pivots are the rows of largest variance: in sequence, four of them would all be
# neighbours.
POLICIES: dict[str, Callable[[], Any]] = {
    "IterGP-Chol": lambda: UnitVector("pivoted"),
    "IterGP-PBR": lambda: Eigenvector(block_size=1),
    "IterGP-CG": lambda: ConjugateGradient(),
    "IterGP-PI": lambda: PseudoInput(INDUCING_POINTS, block_size=1),
}


def rounded(values: np.ndarray) -> list[Any]:
    """For records that are only plotted: six digits."""
    return [float(f"{value:.6g}") for value in np.asarray(values).ravel()]

"""Draws from Gaussian processes with known hyper-parameters, and what is best predicted from them.

Sixty cells, a fixed list: each level of smoothness, noise, number of features, number of rows, and clusters
appears equally often (large n less often), and pairs of levels meet as evenly as a seeded search makes them.
Inputs are in the unit cube, uniform or in clusters. One to three features matter, with a few lengthscales
across the cube. A draw is `y = L z`, where L L^T is the covariance of all observations, so the rows of L at
the test rows also give the exact posterior with the true hyper-parameters: its error is `L22 z2` and its
covariance `L22 L22^T`. That is the oracle.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from zlib import crc32

import numpy as np
import scipy.linalg

from itergp.linalg.blas import blas_threads

NEW = 500  # test rows
FREE = 1e-10  # the variance of noise that stands for none: draws need a Cholesky factor
BLOCK = 1024  # rows of the covariance that are computed at a time
PROFILES = {  # functions of the distance over the lengthscale, from rough to smooth
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
    "matern52": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
    "rbf": lambda r: np.exp(-0.5 * r**2),
}
LEVELS = {  # of each factor, and how many of the 60 cells have them
    "smoothness": dict.fromkeys(PROFILES, 15),
    "noise": dict.fromkeys((0.0, 0.01, 0.1, 1.0), 15),
    "d": {1: 8, 2: 8, 3: 8, 5: 8, 8: 7, 12: 7, 20: 7, 40: 7},
    "n": {200: 10, 400: 10, 800: 10, 1500: 10, 2500: 8, 5000: 6, 10_000: 3, 20_000: 3},
    "clustered": {False: 30, True: 30},
}
ROWS_PER_FEATURE = 10  # at least


@dataclass(frozen=True)
class Cell:
    """A problem. `noise` is that of the draws, relative to the variance 1 of the function."""

    smoothness: str
    noise: float
    d: int
    n: int
    clustered: bool

    @property
    def name(self):
        layout = "clusters" if self.clustered else "uniform"
        return f"{self.smoothness}-noise{self.noise:g}-d{self.d}-n{self.n}-{layout}"

    @property
    def relevant(self):
        """How many features matter: few, so that the rows suffice to see it."""
        return min(self.d, 2 if self.n < 1000 else 3)

    @property
    def variance(self):
        """Of the noise that is drawn."""
        return max(self.noise, FREE)


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, test rows, and the oracle: the exact GP with the true hyper-parameters, at the test rows."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@cache
def cells(swaps=4000):
    """The fixed list: levels are shuffled, then swapped as long as pairs of levels meet more evenly."""
    rng = np.random.default_rng(15)
    table = [
        rng.permutation(np.repeat(range(len(counts)), list(counts.values()))) for counts in LEVELS.values()
    ]
    uneven = _unevenness(table)
    for _ in range(swaps):
        column, pair = table[rng.integers(len(table))], rng.integers(len(table[0]), size=2)
        column[pair] = column[pair[::-1]]
        now = _unevenness(table)
        if now <= uneven:
            uneven = now
        else:
            column[pair] = column[pair[::-1]]
    return sorted(map(_cell, zip(*table, strict=True)), key=lambda cell: cell.n)


def _cell(codes):
    return Cell(*(list(counts)[code] for counts, code in zip(LEVELS.values(), codes, strict=True)))


def _unevenness(table):
    """The squared differences between how often pairs of levels meet and how often they should, summed; a
    cell with too few rows per feature counts more than all."""
    total = 0.0
    for (a, levels_a), (b, levels_b) in combinations(zip(table, LEVELS.values(), strict=True), 2):
        met = np.bincount(a * len(levels_b) + b, minlength=len(levels_a) * len(levels_b))
        expected = np.outer(list(levels_a.values()), list(levels_b.values())) / len(a)
        total += np.sum((met - expected.ravel()) ** 2)
    d, n = (np.array(list(LEVELS[name]))[table[list(LEVELS).index(name)]] for name in ("d", "n"))
    return total + 1e6 * np.sum(n < ROWS_PER_FEATURE * d)


def hyperparameters(cell, rng):
    """Which features matter, and their lengthscales: 2.5 to 6.7 across the cube's edge for one feature, and
    as many fewer for several as distances are longer."""
    features = rng.choice(cell.d, cell.relevant, replace=False)
    return features, np.exp(rng.uniform(np.log(0.15), np.log(0.4), cell.relevant)) * cell.relevant**0.5


def inputs(cell, rng):
    """All rows, those of the tests last and distributed alike; clusters have 20 rows on average."""
    total = cell.n + NEW
    if not cell.clustered:
        return rng.uniform(size=(total, cell.d))
    centres = rng.uniform(size=(max(5, cell.n // 20), cell.d))
    return centres[rng.integers(len(centres), size=total)] + 0.03 * rng.standard_normal((total, cell.d))


def covariance(cell, Z):
    """That of observations at inputs Z, which are in units of lengthscales."""
    K = np.empty((len(Z), len(Z)), order="F")
    for start in range(0, len(Z), BLOCK):
        rows = slice(start, start + BLOCK)
        squares = sum(np.subtract.outer(Z[rows, j], Z[:, j]) ** 2 for j in range(Z.shape[1]))
        K[rows] = PROFILES[cell.smoothness](np.sqrt(squares))
    K[np.diag_indices(len(Z))] += cell.variance
    return K


def seed(cell):
    return crc32(cell.name.encode())


def draw(cell):
    """The problem of a cell, always the same."""
    rng = np.random.default_rng(seed(cell))
    features, lengthscales = hyperparameters(cell, rng)
    X, n = inputs(cell, rng), cell.n
    z = rng.standard_normal(len(X))
    K = covariance(cell, X[:, features] / lengthscales)
    with blas_threads(1):  # with several threads OpenBLAS crashes on 20,000 rows
        L = scipy.linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    y, mean = L @ z, L[n:, :n] @ z[:n]
    return Problem(X[:n], y[:n], X[n:], y[n:], mean, np.sum(L[n:, n:] ** 2, axis=1))


def load(cell, folder):
    """The problem, drawn once and kept in a folder: where there is no noise, rounding decides on the draw."""
    path = Path(folder) / f"{cell.name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(part, **vars(draw(cell)))
        part.replace(path)
    with np.load(path) as kept:
        return Problem(**kept)

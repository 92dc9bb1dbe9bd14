"""Lines through the inputs, and the function along them after each part of the computation."""

from dataclasses import dataclass

import numpy as np

from itergp.fitted.points import path_at
from itergp.fitted.seen import Seen
from itergp.posterior.combined import Posterior
from itergp.posterior.uncertainty import variance_by
from itergp.report.measure.columns import Column, typical

FEATURES, SPREAD_OVER = 4, 8  # slices of one target, and of all of them
POINTS, POINTS_IN_1D = 64, 120
NEAR = 300


@dataclass(frozen=True, eq=False)
class Line:
    """A line through the inputs along feature j, in scaled units; and the training rows beside it."""

    j: int
    X: np.ndarray
    rows: np.ndarray


def lines(
    posterior: Posterior, columns: list[Column], targets: int, made_up: np.ndarray | None = None
) -> list[Line]:
    """Along the most relevant features that vary. Not between categories: nothing is half of one. `made_up`
    (n, columns that may be missing) says where a training row has no value, or may have none."""
    X = posterior.problem.X
    centre = typical(X, columns)
    numbers = [column for column in columns if not column.category]
    varying = [column for column in numbers if np.ptp(X[:, column.numbers[0]]) > 0]
    number = max(1, min(FEATURES, SPREAD_OVER // targets))
    return [_line(posterior, centre, column, made_up) for column in varying[:number]]


def _line(posterior: Posterior, centre: np.ndarray, column: Column, made_up: np.ndarray | None) -> Line:
    X, j = posterior.problem.X, column.numbers[0]
    one = X.shape[1] == 1
    least, most = X[:, j].min(), X[:, j].max()
    low, high = (least, most) if one else np.quantile(X[:, j], [0.005, 0.995])
    if not high > low:
        low, high = least, most
    margin = 0.08 * (high - low)  # up to the data's own ends: not every feature has a value beyond them
    low, high = max(low - margin, least), min(high + margin, most)
    grid = np.tile(centre, (POINTS_IN_1D if one else POINTS, 1))
    grid[:, j] = np.linspace(low, high, len(grid))
    having = np.arange(len(X))
    if made_up is not None and column.hole is not None:
        having = np.flatnonzero(~made_up[:, column.hole])
    return Line(j, grid, having[_beside(posterior, grid[0], j, X[having])])


def _beside(posterior: Posterior, centre: np.ndarray, j: int, X: np.ndarray) -> np.ndarray:
    """Some of these rows where there is one feature; else those nearest to the line, in the kernel's metric
    if it has one."""
    if X.shape[1] == 1:
        return np.sort(np.random.default_rng(0).permutation(len(X))[:NEAR])
    there = np.tile(centre, (len(X), 1))
    there[:, j] = X[:, j]  # the point of the line with the row's own x_j
    gram = posterior.problem.gram
    F, F_line = gram.embedding(X), gram.embedding(there)
    apart = X - there if F is None or F_line is None else F - F_line
    return np.sort(np.argsort((apart**2).sum(axis=1), kind="stable")[: NEAR // 3])


@dataclass(frozen=True, eq=False)
class Along:
    """The latent function along all lines in a row, in scaled units: means (K, m, t), variances (K, m), and
    mathematical variances (m,) where they are known."""

    means: np.ndarray
    variances: np.ndarray
    mathematical: np.ndarray | None


def along(seen: Seen, number: int, found: list[Line]) -> Along:
    """For one of the posteriors that were looked at."""
    posterior = seen.posteriors[number]
    X = np.concatenate([line.X for line in found])
    means, variances = path_at(posterior, X, seen.ranks, seen.fit.neighbours)
    if posterior.rank == posterior.problem.n:
        return Along(means, variances, variances[-1])
    if seen.factors is None:
        return Along(means, variances, None)
    exact = variance_by(seen.factors[number], posterior, X)
    return Along(means, variances, np.minimum(exact, variances[-1]))

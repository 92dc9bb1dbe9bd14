"""Mean and bands along the most relevant inputs, the others at their median; after each part of the
computation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.fitted.fit import Fit
from itergp.fitted.formats import beside
from itergp.fitted.points import path_at
from itergp.linalg.gram import Gram
from itergp.posterior.combined import Posterior
from itergp.posterior.uncertainty import variance_by
from itergp.prior.parameters import parameters

FEATURES, SPREAD_OVER = 4, 8  # slices of one target, and of all of them
POINTS, POINTS_IN_1D = 64, 120
NEAR = 300
NAMED = 6  # features whose median is told


@dataclass(frozen=True, eq=False)
class Line:
    """A line through the inputs along feature j, in scaled units; and the training rows beside it."""

    j: int
    X: np.ndarray
    rows: np.ndarray


def lines(posterior: Posterior, order: np.ndarray, targets: int) -> list[Line]:
    """Along the most relevant features that vary."""
    X = posterior.problem.X
    varying = [int(j) for j in order if np.ptp(X[:, j]) > 0]
    number = max(1, min(FEATURES, SPREAD_OVER // targets))
    return [_line(posterior, j) for j in varying[:number]]


def _line(posterior: Posterior, j: int) -> Line:
    X = posterior.problem.X
    one = X.shape[1] == 1
    low, high = (X[:, j].min(), X[:, j].max()) if one else np.quantile(X[:, j], [0.005, 0.995])
    if not high > low:
        low, high = X[:, j].min(), X[:, j].max()
    margin = 0.08 * (high - low)
    grid = np.tile(np.median(X, axis=0), (POINTS_IN_1D if one else POINTS, 1))
    grid[:, j] = np.linspace(low - margin, high + margin, len(grid))
    return Line(j, grid, _rows_beside(posterior, grid[0], j))


def _rows_beside(posterior: Posterior, centre: np.ndarray, j: int) -> np.ndarray:
    """Some of the rows where there is one feature; else those nearest to the line, in the kernel's metric
    if it has one."""
    X = posterior.problem.X
    if X.shape[1] == 1:
        return np.sort(np.random.default_rng(0).permutation(len(X))[:NEAR])
    there = np.tile(centre, (len(X), 1))
    there[:, j] = X[:, j]  # the point of the line with the row's own x_j
    gram = posterior.problem.gram
    F, F_line = gram.embedding(X), gram.embedding(there)
    apart = X - there if F is None or F_line is None else F - F_line
    return np.sort(np.argsort((apart**2).sum(axis=1), kind="stable")[: NEAR // 3])


def variances_along(
    posterior: Posterior, L: np.ndarray | None, found: list[Line], ranks: np.ndarray, neighbours: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Means (K, m, t), variances (K, m) and mathematical variances (m,) of the latent function, all lines
    in a row."""
    X = np.concatenate([line.X for line in found])
    means, variances = path_at(posterior, X, ranks, neighbours)
    if posterior.rank == posterior.problem.n:
        return means, variances, variances[-1]
    return means, variances, None if L is None else np.minimum(variance_by(L, posterior, X), variances[-1])


def relevance(gram: Gram) -> tuple[np.ndarray, np.ndarray | None]:
    """How much each feature matters, the largest 1: 1 / lengthscale where the kernel has one for each; and
    these lengthscales.

    Else how far the correlation falls when a feature moves by one standard deviation from the median.
    """
    kernel, X = gram.kernel, gram.X
    scales = [value for path, value in parameters(kernel).items() if path.endswith("lengthscale")]
    d = X.shape[1]
    if len(scales) == 1 and np.size(scales[0]) == d:
        lengthscales = np.atleast_1d(np.asarray(scales[0], dtype=np.float64))
        return (1.0 / lengthscales) * lengthscales.min(), lengthscales
    centre = np.median(X, axis=0)[None, :]
    moved = np.repeat(centre, d, axis=0) + np.diag(X.std(axis=0))
    k = gram.dense(centre, moved)[0]
    size = np.sqrt(float(kernel.diagonal(centre)[0]) * np.asarray(kernel.diagonal(moved)))
    fall = 1.0 - np.divide(k, size, out=np.ones(d), where=size > 0)
    return fall / fall.max() if fall.max() > 0 else np.ones(d), None


def held_at(names: list[str], values: np.ndarray, spreads: np.ndarray, j: int) -> str:
    """The medians at which the other features are held."""
    others = [k for k in range(len(names)) if k != j]
    if not others:
        return ""
    told = ", ".join(f"{names[k]} = {beside(values[k], spreads[k])}" for k in others[:NAMED])
    left = len(others) - NAMED
    return f"The others at their median: {told}" + (f" and {left} more." if left > 0 else ".")


def as_values(
    found: list[Line],
    along: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]],
    fit: Fit,
    posterior: Posterior,
    y: np.ndarray,
    names: list[str],
    target: int,
) -> list[dict[str, Any]]:
    """The lines in the units of the data, for one target with these observations."""
    means, variances, mathematical = along[target if len(along) > 1 else 0]  # of each target, or of all
    means = means[..., 0 if len(along) > 1 else target]
    scaling, noise = fit.scaling, np.broadcast_to(fit.noise, fit.scaling.y_mean.size)[target]
    centre, unit = float(np.atleast_1d(scaling.y_mean)[target]), float(np.atleast_1d(scaling.y_scale)[target])
    values, start = [], 0
    for line in found:
        some, start = slice(start, start + len(line.X)), start + len(line.X)
        back = scaling.original(line.X)
        values.append(
            {
                "feature": names[line.j],
                "x": back[:, line.j],
                "mean": centre + unit * means[:, some],
                "combined": unit**2 * variances[:, some],
                "mathematical": None if mathematical is None else unit**2 * mathematical[some],
                "noise": unit**2 * noise,
                "held_at": held_at(
                    names, back[0], scaling.x_scale * np.std(posterior.problem.X, axis=0), line.j
                ),
                "near": {
                    "x": scaling.x_mean[line.j]
                    + scaling.x_scale[line.j] * posterior.problem.X[line.rows, line.j],
                    "y": centre + unit * y[line.rows],
                },
                "sd_units": False,
            }
        )
    return values

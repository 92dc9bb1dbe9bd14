"""What the predictions of all baselines share: kernels at test points, the prior mean, and variances that stay variances."""

import warnings
from collections.abc import Iterator

import numpy as np

from itergp.errors import PrecisionWarning
from itergp.linalg.blas import blas_threads
from itergp.solver.problem import Problem

ENTRIES = 2**23  # of a matrix with one column per test point: 64 MB


def kernel_at(problem: Problem, X0: np.ndarray, X1: np.ndarray) -> np.ndarray:
    """k(X0, X1), dense, in float64."""
    gram = problem.gram
    with blas_threads(problem.compute.threads):
        dense = gram.engine.dense(gram.kernel, X0 - gram.origin, X1 - gram.origin, np.dtype("float64"))
    return np.asarray(dense, dtype=np.float64)


def batches(points: int, rows: int) -> Iterator[slice]:
    """Slices of so many points that matrices of `rows` rows stay small."""
    size = max(1, ENTRIES // max(1, rows))
    return (slice(start, start + size) for start in range(0, points, size))


def with_prior_mean(problem: Problem, X: np.ndarray, update: np.ndarray) -> np.ndarray:
    """mu(x) + update, in the shape of y: (m,) or (m, t)."""
    mean = problem.prior.mean(X)
    if problem.y.ndim == 1:
        return mean + update[:, 0]
    return (mean[:, None] if mean.ndim == 1 else mean) + update


def above_floor(problem: Problem, variance: np.ndarray, k0: np.ndarray) -> np.ndarray:
    """The variances, where rounding left them above what any data allow; else that floor, with a warning."""
    floor = problem.variance_floor(k0)
    low = variance < floor - 1e-12 * k0
    if low.any():
        warnings.warn(
            f"{int(low.sum())} variances fell below what any data allow, by rounding, and were raised to that floor. "
            "Use Compute(dtype='float64') or more noise.",
            PrecisionWarning,
            stacklevel=3,
        )
    return np.maximum(variance, floor)

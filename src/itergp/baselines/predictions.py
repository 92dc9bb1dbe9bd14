"""What the predictions of all baselines share: dense kernels at test points, a batch at a time."""

from collections.abc import Iterator

import numpy as np

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

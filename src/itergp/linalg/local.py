"""Local actions on many small matrices: for each point the rows near it, given actions that all share.

S = K_JJ + N_J - H_J H_J^T + jitter has the factor L_J; w_J = L_J^{-1} (k_J - H_J w) and z_J = L_J^{-1} r_J.
Then mean += w_J . z_J, and variance -= |w_J|^2. This is the work of `Engine.local_actions`, in NumPy.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from itergp.linalg.blas import blas_threads
from itergp.linalg.libraries import workers
from itergp.linalg.memory import available_bytes

BATCH = 256  # points per batch
Batch = Callable[[np.ndarray, np.ndarray], np.ndarray]  # k(A[p], B[p]) for each p


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Points, each with neighbours among some rows, and what the shared actions have seen of both."""

    X0: np.ndarray  # the points, (points, d)
    X1: np.ndarray  # the rows, (rows, d)
    N: np.ndarray  # (rows,)
    J: np.ndarray  # which of the rows are near each point, (points, neighbours) int32, padded with -1
    W: np.ndarray  # L^{-1} Q^T k_x of the points, (points, r)
    H: np.ndarray  # B^T: the rows of K_hat Q L^{-T}, (rows, r)
    jitter: float


def factor(batch: Batch, given: Neighbourhoods, some: slice) -> tuple[np.ndarray, np.ndarray]:
    """L_J, and k_J - H_J w, for a batch; a neighbour that is not there has a unit row, and zero."""
    J = given.J[some]
    here, points, B = J >= 0, given.X1[J], given.H[J]
    K_JJ, k_J = batch(points, points), batch(points, given.X0[some, None, :])[:, :, 0]
    S = K_JJ - B @ B.swapaxes(1, 2)
    S = (S + S.swapaxes(1, 2)) / 2
    index = np.arange(J.shape[1])
    S[:, index, index] += given.N[J] + given.jitter
    k_rest = k_J - np.einsum("pjr,pr->pj", B, given.W[some])
    if not here.all():
        S = np.where(here[:, :, None] & here[:, None, :], S, np.eye(J.shape[1]))
        k_rest = np.where(here, k_rest, 0.0)
    return robust_cholesky(S, given.jitter), k_rest


def act(
    batch: Batch,
    given: Neighbourhoods,
    residual: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    threads: int | None,
) -> None:
    """Update means (points, t) and variances by the local actions, in batches; `residual` is of the rows."""
    number, size = _batches(given, threads)

    def one(start: int) -> None:
        some = slice(start, start + size)
        L_J, k_rest = factor(batch, given, some)
        r_J = np.where(given.J[some, :, None] >= 0, residual[given.J[some]], 0.0)
        # NumPy has no triangular solve for batches; SciPy's rounds differently
        both = np.linalg.solve(L_J, np.concatenate([k_rest[:, :, None], r_J], axis=2))
        mean[some] += np.einsum("pj,pjt->pt", both[:, :, 0], both[:, :, 1:])
        for w in both[:, :, 0].T:
            variance[some] -= w * w

    starts = range(0, len(given.X0), size)
    if len(starts) == 1:
        one(0)
    elif number == 1:
        with blas_threads(1):
            list(map(one, starts))
    else:  # many small matrices: one thread per batch, not several per matrix
        with blas_threads(1), ThreadPoolExecutor(number) as pool:
            list(pool.map(one, starts))


def _batches(given: Neighbourhoods, threads: int | None) -> tuple[int, int]:
    """Threads, and points per thread, such that these and their neighbours' weights fit in memory."""
    m, r = given.J.shape[1], given.W.shape[1]
    each = 8.0 * (m + 1) * (5 * m + 2 * r + 1)
    number = workers(threads, each * BATCH)
    return number, int(min(BATCH, max(1.0, available_bytes() / (2.0 * number * each))))


def robust_cholesky(S: np.ndarray, jitter: float) -> np.ndarray:
    """Batched Cholesky; a matrix that is indefinite by rounding gets a larger diagonal: larger variances."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        if len(S) > 1:
            half = len(S) // 2
            return np.concatenate([robust_cholesky(S[:half], jitter), robust_cholesky(S[half:], jitter)])
        return robust_cholesky(S + 10.0 * jitter * np.eye(S.shape[1]), 10.0 * jitter)

"""The Cholesky factor of K + N as a dense matrix, with as little jitter as rounding requires, and its
inverse.

LAPACK does not check the clock. Up to `WHOLE` rows it is one call; beyond, it goes block by block, with a
tick in between.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dtrtri

from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram

# relative to the largest k(x, x), tried in turn if K + N is singular to rounding
JITTERS = (0.0, 1e-13, 1e-11, 1e-9)
# of k(Z, Z), relative to its mean diagonal. Inducing variables f(z) + noise are inducing variables too, so a
# bound remains a bound with any jitter.
SMALL_JITTERS = (1e-10, 1e-8, 1e-6)
WHOLE, BLOCK = 2048, 512  # rows of one LAPACK call, and of a block
# features of pairs between two ticks, a fraction of a second; and what an entry costs on top of them
ENTRIES, OTHER = 5e8, 250.0


def cholesky(gram: Gram, N: np.ndarray, tick: Tick = no_tick) -> tuple[np.ndarray, float]:
    """L with L L^T = K + N + jitter, in place of K, and that jitter. LinAlgError if no jitter is enough."""
    return with_jitter(lambda: _matrix(gram, tick), N, float(gram.diagonal().max()), tick)


def with_jitter(
    matrix: Callable[[], np.ndarray], N: np.ndarray, largest: float, tick: Tick
) -> tuple[np.ndarray, float]:
    """The same for a function that computes K in LAPACK's layout, of which the lower half is read."""
    for share in JITTERS:
        K_hat = matrix()
        K_hat[np.diag_indices(len(K_hat))] += N + share * largest
        L, failed = factor(K_hat, tick)
        if not failed:
            return L, share * largest
    raise np.linalg.LinAlgError("K + N is not positive definite to rounding")


def _matrix(gram: Gram, tick: Tick) -> np.ndarray:
    """K in LAPACK's layout."""
    tick()
    n, step = gram.n, max(1, int(ENTRIES / (gram.n * (gram.X.shape[1] + OTHER))))
    if step >= n:
        return gram.columns(np.arange(n)).T  # symmetric anyway
    K = np.empty((n, n), order="F")
    for j in range(0, n, step):
        tick()
        K[:, j : j + step] = gram.columns(np.arange(j, min(j + step, n)))
    return K


def factor(A: np.ndarray, tick: Tick = no_tick) -> tuple[np.ndarray, bool]:
    """The lower Cholesky factor in place of A (LAPACK's layout; lower half is read); True if it failed."""
    tick()
    if len(A) <= WHOLE:
        L, failed = dpotrf(A, lower=1, clean=1, overwrite_a=1)
        return L, bool(failed)
    for k in range(0, len(A), BLOCK):
        e = min(k + BLOCK, len(A))
        for j in range(0, k, BLOCK):
            tick()
            A[k:, k:e] -= A[k:, j : j + BLOCK] @ A[k:e, j : j + BLOCK].T
        A[k:e, k:e], failed = dpotrf(A[k:e, k:e], lower=1, clean=1)
        if failed:
            return A, True
        A[e:, k:e] = dtrsm(1.0, A[k:e, k:e], A[e:, k:e], side=1, lower=1, trans_a=1)
        A[k:e, e:] = 0.0
    return A, False


def inverse(L: np.ndarray, tick: Tick = no_tick) -> np.ndarray:
    """(L L^T)^{-1} in place of L: its lower half."""
    tick()
    if len(L) <= WHOLE:
        out, failed = dpotri(L, lower=1, overwrite_c=1)
        if failed:
            raise np.linalg.LinAlgError("the inverse of K + N is infinite")
        return out
    starts = range(0, len(L), BLOCK)
    for k in reversed(starts):  # L^{-1}, starting with the last columns
        e = min(k + BLOCK, len(L))
        L[k:e, k:e], failed = dtrtri(L[k:e, k:e], lower=1)
        if failed:
            raise np.linalg.LinAlgError("the inverse of K + N is infinite")
        below = L[e:, k:e] @ -L[k:e, k:e]
        for i in range(e, len(L), BLOCK):
            tick()
            L[i : i + BLOCK, k:e] = L[i : i + BLOCK, e : i + BLOCK] @ below[: i + BLOCK - e]
    for i in starts:  # L^{-T} L^{-1}, starting with the first rows: they are not needed again
        left = L[i:, i : i + BLOCK].T.copy()
        for j in range(0, i + 1, BLOCK):
            tick()
            L[i : i + BLOCK, j : j + BLOCK] = left @ L[i:, j : j + BLOCK]
    return L


def small_factor(K: np.ndarray) -> tuple[np.ndarray, float]:
    """L with L L^T = K + jitter * mean(diagonal), for a small matrix without noise, and that jitter."""
    for jitter in SMALL_JITTERS:
        L, failed = dpotrf(K + jitter * np.trace(K) / len(K) * np.eye(len(K)), lower=1, clean=1)
        if not failed and np.isfinite(L).all():
            return L, jitter
    raise np.linalg.LinAlgError("k(Z, Z) is not positive definite to rounding")

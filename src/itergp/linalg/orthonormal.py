"""Orthonormal blocks: against all earlier columns and within, twice, dropping linearly dependent columns."""

import numpy as np
from scipy.linalg import solve_triangular

from itergp.linalg.basis import Basis
from itergp.linalg.blas import blas_threads

ROWS, TALL = 1024, 4  # a block of this many rows is factorised at once, if there are several
# what a second projection must leave of a unit vector; if it leaves less, the first left rounding
TWICE_IS_ENOUGH = 0.5


def orthonormalise(
    S: np.ndarray, basis: Basis, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Q with S[:, kept] = Q_old C + Q R, in the order of S, by projecting and factorising twice.

    Columns that only the second projection shows to be dependent are dropped too; then R is zero, since it is
    unreliable.
    """
    C = basis.inner(S)
    rest = S - basis.combine(C)
    Q, R = _qr(rest)
    kept = _independent(R, tolerance)
    if kept.size < S.shape[1]:
        Q, R = _qr(rest[:, kept])
    again = basis.inner(Q)
    rest = Q - basis.combine(again)
    Q, R_again = _qr(rest)
    sound = _independent(R_again, TWICE_IS_ENOUGH)
    if sound.size < kept.size:
        Q, nothing = _qr(rest[:, sound])
        return Q, kept[sound], np.zeros((basis.size, sound.size)), np.zeros_like(nothing)
    return Q, kept, C[:, kept] + again @ R, R_again @ R


def _qr(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR with a positive diagonal, so that a direction keeps its sign."""
    if A.shape[1] and A.shape[0] >= TALL * max(ROWS, 2 * A.shape[1]):
        R = _triangle(A)
        diagonal = np.where(np.diag(R) == 0.0, 1.0, np.diag(R))  # of columns that will be dropped
        return solve_triangular(np.triu(R, 1) + np.diag(diagonal), A.T, trans=1, check_finite=False).T, R
    Q, R = np.linalg.qr(A)
    signs = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * signs, R * signs[:, None]


def _triangle(A: np.ndarray) -> np.ndarray:
    """R of a tall matrix, from those of its parts: each fits in the cache, while LAPACK would read all of A
    for each column.

    R is as accurate as LAPACK's. A R^{-1} is orthonormal up to rounding times the condition number; the
    second round corrects that.
    """
    width = A.shape[1]
    rows = max(ROWS, 2 * width)  # so that each round at least halves the rows
    with blas_threads(1):  # for such small factorisations, synchronising threads takes longer than the work
        while A.shape[0] >= TALL * rows:
            parts = A.shape[0] // rows
            triangles = np.asarray(np.linalg.qr(A[: parts * rows].reshape(parts, rows, width), mode="r"))
            A = np.concatenate([triangles.reshape(-1, width), A[parts * rows :]])
        R = np.asarray(np.linalg.qr(A, mode="r"))
    return R * np.where(np.diag(R) < 0, -1.0, 1.0)[:, None]


def _independent(R: np.ndarray, tolerance: float) -> np.ndarray:
    """The columns of R that add a direction to the ones kept before them."""
    if R.shape[0] == R.shape[1] and (np.abs(np.diag(R)) > tolerance).all():
        return np.arange(R.shape[1])
    kept, Q = [], np.zeros((R.shape[0], 0))
    for j in range(R.shape[1]):
        rest = R[:, j] - Q @ (Q.T @ R[:, j])
        rest -= Q @ (Q.T @ rest)
        norm = np.linalg.norm(rest)
        if norm > tolerance:
            kept.append(j)
            Q = np.column_stack([Q, rest / norm])
    return np.array(kept, dtype=np.intp)

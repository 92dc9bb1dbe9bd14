"""The Cholesky factor of K + N as a dense matrix, with as little jitter as rounding asks for."""

import numpy as np
import scipy.linalg

from itergp.linalg.gram import Gram

JITTERS = (0.0, 1e-13, 1e-11, 1e-9)  # of the largest k(x, x), tried in turn where K + N is singular to rounding


def cholesky(gram: Gram, N: np.ndarray) -> tuple[np.ndarray, float]:
    """L with L L^T = K + N + jitter, in the place of K, and that jitter. LinAlgError where none is enough."""
    largest = float(gram.diagonal().max())
    for share in JITTERS:
        K_hat = gram.columns(np.arange(gram.n)).T  # LAPACK's layout; symmetric anyway
        K_hat[np.diag_indices(gram.n)] += N + share * largest
        L, failed = scipy.linalg.lapack.dpotrf(K_hat, lower=1, clean=1, overwrite_a=1)
        if not failed:
            return L, share * largest
    raise np.linalg.LinAlgError("K + N is not positive definite to rounding")

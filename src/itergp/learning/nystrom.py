"""P = Q + N with the Nystrom matrix Q = K_XZ K_ZZ^{-1} K_ZX, and its gradient, for bounds and
preconditioners.

One class serves both the bound of `inducing.py` and the solves of `iterative.py`. (A partial Cholesky factor
with pivots Z is the Nystrom matrix of those Z.)
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from itergp.linalg.cholesky import small_factor
from itergp.linalg.gram import Gram
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.prior.parameters import Slopes, added


@dataclass(frozen=True, eq=False)
class Nystrom:
    """P = N + U U^T with U = K_XZ L^{-T} and L L^T = K_ZZ + jitter * mean(diag K_ZZ) * I."""

    gram: Gram
    Z: np.ndarray
    L: np.ndarray
    jitter: float
    P: DiagonalPlusLowRank

    @staticmethod
    def of(gram: Gram, Z: np.ndarray, N: np.ndarray) -> "Nystrom":
        if not (N > 0).all():
            raise np.linalg.LinAlgError("P is singular without noise")
        L, jitter = small_factor(gram.batch(Z[None], Z[None])[0])
        U = scipy.linalg.solve_triangular(L, gram.dense(Z, gram.X), lower=True, check_finite=False).T
        return Nystrom(gram, Z, L, jitter, DiagonalPlusLowRank(N, U))

    @property
    def U(self) -> np.ndarray:
        return self.P.U

    @property
    def N(self) -> np.ndarray:
        return self.P.diagonal

    def scaled(self) -> np.ndarray:
        """P^{-1} U = N^{-1} U (I + U^T N^{-1} U)^{-1}"""
        return (
            scipy.linalg.cho_solve((self.P.inner_factor, True), self.U.T, check_finite=False).T
            / self.N[:, None]
        )

    def noise_share(self) -> float:
        """tr(P^{-1} N) = n - m + tr((I + U^T N^{-1} U)^{-1})"""
        n, m = self.U.shape
        inverse = scipy.linalg.solve_triangular(
            self.P.inner_factor, np.eye(m), lower=True, check_finite=False
        )
        return n - m + float((inverse**2).sum())

    def draws(self, w_X: np.ndarray, w_Z: np.ndarray) -> np.ndarray:
        """N^{1/2} w_X + U w_Z: vectors with covariance P, if those of w have covariance I."""
        return np.sqrt(self.N)[:, None] * w_X + self.U @ w_Z

    def gradient(self, GU: np.ndarray) -> tuple[Slopes, np.ndarray]:
        """Gradient of a function F of Q with dF = <G, dQ> in the parameters and in Z, from the product G U.

        With M = K_XZ K_ZZ^{-1} = U L^{-1}: dQ = dK_XZ M^T + M dK_ZX - M dK_ZZ M^T.
        """
        GM = _right_solve(GU, self.L)
        W_ZZ = -_left_solve(self.L, _right_solve(self.U.T @ GU, self.L))
        W_ZZ = (W_ZZ + W_ZZ.T) / 2
        W_ZZ[np.diag_indices(len(W_ZZ))] += self.jitter * np.trace(W_ZZ) / len(W_ZZ)
        cross, in_Z = self.gram.weighted_gradient(self.Z, self.gram.X, 2.0 * GM.T)
        inner, in_Z_twice = self.gram.weighted_gradient(self.Z, self.Z, W_ZZ)
        return added(cross, inner), in_Z + 2.0 * in_Z_twice


def _right_solve(A: np.ndarray, L: np.ndarray) -> np.ndarray:
    """A L^{-1}"""
    return scipy.linalg.solve_triangular(L, A.T, lower=True, trans=1, check_finite=False).T


def _left_solve(L: np.ndarray, A: np.ndarray) -> np.ndarray:
    """L^{-T} A"""
    return scipy.linalg.solve_triangular(L, A, lower=True, trans=1, check_finite=False)

"""The exact Gaussian process, by a dense Cholesky factor: the reference for every approximation."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from itergp import brief
from itergp.baselines.predictions import batches
from itergp.errors import InputError
from itergp.linalg.blas import blas_threads
from itergp.linalg.cholesky import cholesky
from itergp.linalg.compute import Compute, require_bytes
from itergp.prior.gp import Prior
from itergp.solver.problem import Problem
from itergp.validate import inputs


def exact(
    prior: Prior, X: ArrayLike, y: ArrayLike, noise: ArrayLike, *, compute: Compute = Compute()
) -> "ExactGP":
    """The prior conditioned on all data. O(n^3) time, O(n^2) memory, float64."""
    problem = Problem(prior, X, y, noise, compute)
    require_bytes(
        2 * 8.0 * problem.n**2,
        f"The exact GP on {problem.n} rows",
        "Use itergp.condition, which needs no n x n matrix.",
    )
    with blas_threads(compute.threads):
        L, jitter = _factor(problem)
        v = scipy.linalg.cho_solve((L, True), problem.b, check_finite=False)
    return ExactGP(problem, L, v, jitter)


@dataclass(frozen=True, eq=False)
class ExactGP:
    """GP(mu_*, k_*): mu_*(x) = mu(x) + k_x^T v*, k_*(x, x') = k(x, x') - k_x^T K_hat^{-1} k_x' (Eq. 1)."""

    problem: Problem
    L: np.ndarray  # K_hat = L L^T
    representer_weights: np.ndarray  # v* = K_hat^{-1} b, (n, t)
    jitter: float  # on the diagonal of K_hat: 0, unless it is singular to rounding

    __repr__ = brief.call

    def mean(self, X: ArrayLike) -> np.ndarray:
        X = self._inputs("X", X)
        return self.problem.with_prior_mean(X, self.problem.gram.cross(X, self.representer_weights))

    def var(self, X: ArrayLike) -> np.ndarray:
        X = self._inputs("X", X)
        k0 = self.problem.prior.var(X)
        explained = [(self._whitened(X[some]) ** 2).sum(axis=0) for some in batches(len(X), self.problem.n)]
        return self.problem.above_floor(k0 - np.concatenate(explained), k0)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        X0 = self._inputs("X0", X0)
        X1 = X0 if X1 is None else self._inputs("X1", X1)
        points = len(X0) + len(X1)
        require_bytes(
            16.0 * self.problem.n * points,
            f"a covariance of {len(X0)} x {len(X1)} points",
            "Use fewer at once.",
        )
        return self.problem.gram.dense(X0, X1) - self._whitened(X0).T @ self._whitened(X1)

    @property
    def log_marginal_likelihood(self) -> float:
        """log N(y; mu, K_hat), summed over targets."""
        n, t = self.problem.b.shape
        logdet = 2.0 * float(np.log(np.diag(self.L)).sum())
        return -0.5 * (
            float((self.problem.b * self.representer_weights).sum()) + t * (logdet + n * np.log(2.0 * np.pi))
        )

    def _whitened(self, X: np.ndarray) -> np.ndarray:
        """L^{-1} k(X, x), one column per point."""
        K_x = self.problem.gram.dense(self.problem.X, X)
        return scipy.linalg.solve_triangular(self.L, K_x, lower=True, overwrite_b=True, check_finite=False)

    def _inputs(self, name: str, X: ArrayLike) -> np.ndarray:
        return inputs(name, X, self.problem.X.shape[1])


def _factor(problem: Problem) -> tuple[np.ndarray, float]:
    """The lower Cholesky factor of K_hat, and the jitter it needed."""
    try:
        return cholesky(problem.gram, problem.N)
    except np.linalg.LinAlgError:
        raise InputError(
            f"noise is at least {problem.N.min():.3g}, but K + noise is not positive definite to rounding; "
            "expected more noise, or a kernel with shorter lengthscales."
        ) from None

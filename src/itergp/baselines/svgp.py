"""SVGP: the variational posterior of inducing points, with the optimal q(u) in closed form, or by batches.

Titsias (2009); Hensman et al. (2013). q is whitened: u = L v with L L^T = k(Z, Z) and q(v) = N(Lambda^{-1} h,
Lambda^{-1}). With a(x) = L^{-1} k(Z, x), the optimal one has Lambda = I + sum_i a(x_i) a(x_i)^T / N_i and h =
sum_i a(x_i) b_i / N_i: sums over rows, which batches estimate.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from itergp import brief
from itergp.baselines.predictions import batches
from itergp.data.rows import Rows
from itergp.errors import InputError
from itergp.linalg.cholesky import small_factor
from itergp.linalg.compute import Compute
from itergp.prior.gp import Prior
from itergp.solver.problem import Problem
from itergp.validate import count, inputs


def svgp(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    noise: ArrayLike,
    Z: ArrayLike,
    *,
    compute: Compute = Compute(),
) -> "SVGP":
    """The collapsed posterior: the optimal q(u) for inducing points Z. O(n m^2) time, O(n + m^2) memory."""
    problem, Z = _problem(prior, X, y, noise, compute), inputs("Z", Z, inputs("X", X).shape[1])
    L = _factor(problem, Z)
    precision, shift = np.eye(len(Z)), np.zeros((len(Z), problem.targets))
    for some in batches(problem.n, len(Z)):
        A = _features(problem, Z, L, problem.X[some])
        precision += (A / problem.N[some]) @ A.T
        shift += (A / problem.N[some]) @ problem.b[some]
    return _posterior(problem, Z, L, precision, shift)


def stochastic_svgp(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    noise: float,
    Z: ArrayLike,
    *,
    steps: int = 200,
    batch: int = 1024,
    seed: int = 0,
    compute: Compute = Compute(),
) -> "SVGP":
    """The same posterior by `steps` natural-gradient steps of the stochastic bound, each on a random batch of
    rows.

    Step i has the size 1 / i, so that Lambda and h are means over all batches so far, and converge to those
    of `svgp`. Hyper-parameters stay as given: `itergp.learning.learn(..., method="sgpr")` learns those of the
    bound.
    """
    from itergp.learning.evaluation import WORST
    from itergp.learning.inducing import svgp as stochastic_bound

    problem, Z = _problem(prior, X, y, noise, compute), inputs("Z", Z, inputs("X", X).shape[1])
    if np.ndim(problem.noise):
        raise InputError(
            "noise is one value per row; expected one number for the stochastic bound. Or use svgp."
        )
    bound = stochastic_bound(Rows.of(problem.X, problem.b), Z, batch=batch, seed=seed)
    for i in range(count("steps", steps)):
        bound.step = 1.0 / (i + 1)
        if bound(prior.kernel, float(problem.noise)).value >= WORST:
            raise InputError(
                "k(Z, Z) is not positive definite to rounding; expected inducing points Z that are further "
                "apart."
            )
    return _posterior(problem, Z, _factor(problem, Z), bound.precision, bound.shift)


@dataclass(frozen=True, eq=False)
class SVGP:
    """mu(x) + a^T E[v]; k(x, x') - a^T a' + a^T Lambda^{-1} a': no computational uncertainty, however few the
    points."""

    problem: Problem
    Z: np.ndarray  # (m, d)
    L: np.ndarray  # k(Z, Z) = L L^T
    R: np.ndarray  # Lambda = R R^T
    v: np.ndarray  # E[v] = Lambda^{-1} h, (m, t)
    elbo: float  # a lower bound on the log marginal likelihood, summed over targets

    __repr__ = brief.call

    def mean(self, X: ArrayLike) -> np.ndarray:
        X = self._inputs("X", X)
        update = [self._features(X[some]).T @ self.v for some in batches(len(X), len(self.Z))]
        return self.problem.with_prior_mean(X, np.concatenate(update))

    def var(self, X: ArrayLike) -> np.ndarray:
        X = self._inputs("X", X)
        k0 = self.problem.prior.var(X)
        explained = [_explained(self._features(X[some]), self.R) for some in batches(len(X), len(self.Z))]
        return self.problem.above_floor(k0 - np.concatenate(explained), k0)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        X0 = self._inputs("X0", X0)
        X1 = X0 if X1 is None else self._inputs("X1", X1)
        A0, A1 = self._features(X0), self._features(X1)
        spread0, spread1 = (scipy.linalg.solve_triangular(self.R, A, lower=True) for A in (A0, A1))
        return self.problem.gram.dense(X0, X1) - A0.T @ A1 + spread0.T @ spread1

    def _features(self, X: np.ndarray) -> np.ndarray:
        return _features(self.problem, self.Z, self.L, X)

    def _inputs(self, name: str, X: ArrayLike) -> np.ndarray:
        return inputs(name, X, self.problem.X.shape[1])


def _problem(prior: Prior, X: ArrayLike, y: ArrayLike, noise: ArrayLike, compute: Compute) -> Problem:
    problem = Problem(prior, X, y, noise, compute)
    if not problem.N.min() > 0:
        raise InputError(
            f"noise is {problem.N.min()}; expected a variance above 0: without noise the bound is minus "
            "infinity."
        )
    return problem


def _factor(problem: Problem, Z: np.ndarray) -> np.ndarray:
    """L with L L^T = k(Z, Z) and as little jitter as it needs: with any jitter, a bound remains a bound."""
    K = problem.gram.dense(Z, Z)
    try:
        return small_factor((K + K.T) / 2)[0]
    except np.linalg.LinAlgError:
        raise InputError(
            "k(Z, Z) is not positive definite to rounding; expected inducing points Z that are further apart."
        ) from None


def _features(problem: Problem, Z: np.ndarray, L: np.ndarray, X: np.ndarray) -> np.ndarray:
    """a(x) = L^{-1} k(Z, x), one column per point."""
    return scipy.linalg.solve_triangular(L, problem.gram.dense(Z, X), lower=True, check_finite=False)


def _explained(A: np.ndarray, R: np.ndarray) -> np.ndarray:
    """a^T a - a^T Lambda^{-1} a, for each column."""
    return (A**2).sum(axis=0) - (
        scipy.linalg.solve_triangular(R, A, lower=True, check_finite=False) ** 2
    ).sum(axis=0)


def _posterior(
    problem: Problem, Z: np.ndarray, L: np.ndarray, precision: np.ndarray, shift: np.ndarray
) -> SVGP:
    """q(v) = N(Lambda^{-1} h, Lambda^{-1}) with its bound: E[log p(y | f)] - KL(q(v) | N(0, I))."""
    m, t = shift.shape
    R = scipy.linalg.cholesky((precision + precision.T) / 2, lower=True)
    v = scipy.linalg.cho_solve((R, True), shift)
    expected = 0.0
    for some in batches(problem.n, m):
        A, N = _features(problem, Z, L, problem.X[some]), problem.N[some]
        variance = problem.prior.var(problem.X[some]) - _explained(A, R)
        misfit = ((problem.b[some] - A.T @ v) ** 2).sum(axis=1)
        expected -= 0.5 * float((t * np.log(2.0 * np.pi * N) + (misfit + t * variance) / N).sum())
    trace = float((scipy.linalg.solve_triangular(R, np.eye(m), lower=True) ** 2).sum())
    divergence = 0.5 * (float((v**2).sum()) + t * (trace - m + 2.0 * float(np.log(np.diag(R)).sum())))
    return SVGP(problem, Z.copy(), L, R, v, expected - divergence)

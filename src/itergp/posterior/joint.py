"""Joint answers at points that have actions of their own: covariances and draws.

A local prediction is a linear estimate mu(x) + c_x^T b, with c_x = Q g + E_J g_J, and its variance is that of
its error e(x) = f(x) - mu(x) - c_x^T b, whatever the other points are. So the errors at any points have a
covariance, too: k_local(x, x') = cov(e(x), e(x')). It is positive semi-definite, its diagonal is the local
variance, and it does not depend on which other points are asked for: a Gaussian process, with the means and
the variances that `LocalPosterior` has. As a matrix it lies above the covariance of the exact GP, and above
that of all actions together (`around.py`), since these are the best estimates from more.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from itergp import brief
from itergp.linalg.compute import require_bytes
from itergp.linalg.gram import Gram
from itergp.posterior.gradients import Pull, Seen, Weights, pulled_update
from itergp.posterior.sampling import Features, PriorDraws, accuracy, projected
from itergp.solver.problem import Problem

if TYPE_CHECKING:
    from itergp.posterior.at import LocalAt
    from itergp.posterior.combined import Posterior

ENTRIES = 2**22  # of K at once: 32 MB
POINTS = 512  # at which draws are evaluated at once


@dataclass(frozen=True, eq=False)
class Estimates:
    """Linear estimates mu(x) + w^T z + A b_rows at some points: c = Q L^{-T} w + A^T."""

    X: np.ndarray
    w: np.ndarray  # L^T g, (i, m)
    rows: np.ndarray
    A: Any  # weights of the rows, (m, rows): dense or sparse
    jitter: float  # rounding of the products at these rows, as noise of theirs

    @staticmethod
    def of(at: "LocalAt") -> "Estimates":
        """With the local actions of each point: w = L^{-1} Q^T (k_x - K_hat E_J g_J), and A = g_J."""
        actions = at.actions()
        w, g_J = actions.weights()
        ends = np.arange(0, actions.J.size + 1, actions.J.shape[1])
        A = sp.csr_array((g_J.ravel(), actions.J.ravel(), ends), shape=(len(at.X), actions.rows.size))
        return Estimates(at.X, w, actions.rows, A, actions.jitter)

    def errors(self, X: np.ndarray) -> tuple[np.ndarray, sp.csc_array]:
        """Points Z and weights M, such that M f(Z) = f(x) - A f(X_rows) at each point; X are the data."""
        M = sp.hstack([sp.eye_array(len(self.X)), -self.A])
        return np.concatenate([self.X, X[self.rows]]), sp.csc_array(M)

    def of_rows(self, n: int) -> sp.csr_array:
        """A for all rows of the data, (m, n)."""
        A = sp.csr_array(self.A)
        return sp.csr_array((A.data, self.rows[A.indices], A.indptr), shape=(len(self.X), n))


def covariance(at0: "LocalAt", at1: "LocalAt | None" = None) -> np.ndarray:
    """k_local(X0, X1) = M0 k(Z0, Z1) M1^T + A0 N A1^T - w0^T w1, from kernel tiles of the points and the rows
    near them: no pass over K."""
    problem, m0 = at0.at.posterior.problem, len(at0.X)
    m1 = m0 if at1 is None else len(at1.X)
    require_bytes(32.0 * m0 * m1, f"a covariance of {m0} x {m1} points", "Use var(X), or fewer points.")
    one = Estimates.of(at0)
    other = one if at1 is None else Estimates.of(at1)
    A0, A1 = one.of_rows(problem.n), other.of_rows(problem.n)
    noise = A0.multiply(problem.N + one.jitter) @ A1.T
    if at1 is None:
        out = _spread(problem.gram, *one.errors(problem.X))
        out += noise.toarray() - one.w.T @ one.w
        out = (out + out.T) / 2
        np.fill_diagonal(out, at0.var)
        return out
    return _spread_between(problem, one, other) + noise.toarray() - one.w.T @ other.w


def _spread(gram: Gram, Z: np.ndarray, M: sp.csc_array) -> np.ndarray:
    """M k(Z, Z) M^T; each entry of k is evaluated once, some columns at a time."""
    half, step = np.zeros((M.shape[0], M.shape[0])), max(1, ENTRIES // len(Z))
    for start in range(0, len(Z), step):
        here, after = slice(start, start + step), slice(start, None)
        K = gram.dense(Z[after], Z[here])
        K[: K.shape[1]] /= 2  # it is there twice
        half += M[:, here] @ (M[:, after].tocsr() @ K).T
    return half + half.T


def _spread_between(problem: Problem, one: Estimates, other: Estimates) -> np.ndarray:
    """M0 k(Z0, Z1) M1^T"""
    (Z0, M0), (Z1, M1) = one.errors(problem.X), other.errors(problem.X)
    out, step, M0 = np.zeros((len(one.X), len(other.X))), max(1, ENTRIES // len(Z0)), M0.tocsr()
    for start in range(0, len(Z1), step):
        here = slice(start, start + step)
        out += (M1[:, here] @ (M0 @ problem.gram.dense(Z0, Z1[here])).T).T
    return out


def _slices(points: int) -> list[slice]:
    return [slice(start, start + POINTS) for start in range(0, points, POINTS)]


class Estimating(Protocol):
    """A process whose means are linear estimates from a posterior's actions and some rows."""

    @property
    def posterior(self) -> "Posterior": ...

    def estimates(self, X: np.ndarray) -> Estimates: ...

    def var(self, X: ArrayLike) -> np.ndarray: ...

    def pulled_weights(self, pull: Pull, seen: Seen) -> Weights: ...


@dataclass(frozen=True, eq=False)
class LocalSamples:
    """Draws as functions by Matheron's rule, f'(x) + c_x^T (b - y'), with the actions of each point: the same
    function in every evaluation, with the variance of the process wherever it is evaluated."""

    process: Estimating
    prior: PriorDraws
    z: np.ndarray  # L^{-1} Q^T (b - y'), (i, size * t)
    rounding: np.ndarray  # of the rows, in units of the jitter, (n, size * t)

    __repr__ = brief.call

    @staticmethod
    def of(process: Estimating, size: int, seed: int, features: int) -> "LocalSamples":
        rng, posterior = np.random.default_rng(seed), process.posterior
        prior = PriorDraws.of(posterior.problem, size, rng, features)
        z = projected(posterior, prior, rng)
        return LocalSamples(process, prior, z, rng.standard_normal(prior.noise.shape))

    @property
    def exact(self) -> bool:
        """False if random features approximate the prior."""
        return self.prior.exact

    @cached_property
    def rests_on(self) -> str:
        """How the draws were made, and their accuracy: measured on request, by `var`."""
        return accuracy(self.prior, self.var, self.process.var)

    def __call__(self, X: ArrayLike) -> np.ndarray:
        X = self.process.posterior._inputs(X)
        draws = [self._draws(X[some]) for some in _slices(len(X))]
        return self.prior.with_prior_mean(X, np.concatenate(draws))

    def _draws(self, X: np.ndarray) -> np.ndarray:
        found = self.process.estimates(X)
        misfit = self._misfit(found.rows) - np.sqrt(found.jitter) * self.rounding[found.rows]
        return self.prior.at(X) + found.w.T @ self.z + found.A @ misfit

    def pullback(self, X: ArrayLike, slopes: ArrayLike) -> np.ndarray:
        """The gradient in X of a function of the draws at X, from its slopes in these: in the shape of X."""
        X, posterior = self.process.posterior._inputs(X), self.process.posterior
        S = self.prior.by_point(slopes, len(X))
        found = [self._pullback(posterior, X[some], S[some]) for some in _slices(len(X))]
        return np.concatenate(found) + self.prior.pullback(X, S)

    def _pullback(self, posterior: "Posterior", X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """That of c_x^T (b - y'): the mean of a posterior whose targets are these."""
        jitter = self.process.estimates(X).jitter

        def residual(rows: np.ndarray) -> np.ndarray:
            misfit = self._misfit(rows) - np.sqrt(jitter) * self.rounding[rows]
            return misfit - posterior._prepared.weights(rows) @ self.z

        none = np.zeros((len(X), 1, 1))
        pull, seen = Pull(X[:, None], slopes[:, None], none), Seen(self.z, residual)
        return pulled_update(posterior, pull, lambda some: self.process.pulled_weights(some, seen))[:, 0]

    def _misfit(self, rows: np.ndarray) -> np.ndarray:
        """b - y' at some rows: made when they are first asked for, and kept."""
        D, made = self._kept
        new = rows[~made[rows]]
        if new.size:
            D[new] = self.prior.misfit(new)
            made[new] = True
        return D[rows]

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        return np.empty_like(self.prior.noise), np.zeros(len(self.prior.noise), dtype=bool)

    def var(self, X: ArrayLike) -> np.ndarray:
        """The variance of these draws at X, given the features; `var(X)` of the process if the features were
        exact. Cost O(m n) per feature if the global actions are dense."""
        X, Phi = self.process.posterior._inputs(X), self.prior.features
        return np.concatenate([self._var(X[some], Phi) for some in Phi.blocks(len(X))])

    def _var(self, X: np.ndarray, Phi: Features) -> np.ndarray:
        """f(x) - mu(x) = (Phi(x) - a^T Phi(X)) w - a^T noise - g^T rounding, with a = Q g + A^T."""
        problem, state = self.prior.problem, self.process.posterior.state
        found = self.process.estimates(X)
        g = state.factor.solve_transposed(found.w, state.rank)
        own = found.of_rows(problem.n).toarray().T
        a = state.basis.combine(g) + own
        rows = np.flatnonzero(a.any(axis=1))
        left = Phi(X)
        for some in Phi.blocks(len(rows)):
            left -= a[rows[some]].T @ Phi(problem.X[rows[some]])
        rounding = state.tau[: state.rank] @ g**2 + found.jitter * (own**2).sum(axis=0)
        return (np.abs(left) ** 2).sum(axis=1) + problem.N @ a**2 + rounding

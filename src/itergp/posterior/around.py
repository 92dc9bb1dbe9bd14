"""One posterior for a batch of points: the rows near each of them are actions that all of them share.

On top of the global actions Q these are the unit vectors of U, the union of the local rows, so it is the
exact combined posterior for [Q, E_U]. Every entry of the extended Gram matrix is in K Q or in a kernel tile,
so there is no pass over K. The covariance lies between that of the exact GP and that of `local`, where each
point has its own rows alone: k_* <= k_joint <= k_local, unless rows are left out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpotrf

from itergp.limits import JOINT_POINTS
from itergp.linalg.compute import require_bytes
from itergp.posterior.gradients import Gradients, Pull, Seen, Weights, gradients, of_joint, pullback
from itergp.posterior.joint import Estimates, LocalSamples
from itergp.posterior.sampling import joint_draws, require_draws
from itergp.validate import count

if TYPE_CHECKING:
    from itergp.posterior.at import At, LocalAt
    from itergp.posterior.combined import Posterior

LIMIT = 2000  # rows that are shared, by default: their Gram matrix takes 32 MB, and its factor a second


@dataclass(frozen=True, eq=False)
class JointPosterior:
    """A Gaussian process: `mean`, `var`, `cov`, `sample`. Immutable. Valid everywhere, and sharpest around
    the points that it was made for."""

    posterior: "Posterior"
    rows: np.ndarray  # of the data, whose unit vectors are actions
    left_out: int  # rows that would be shared without the limit
    H: np.ndarray  # the rows of K_hat Q L^{-T}
    L: np.ndarray  # L L^T = K_UU + N_U - H H^T + jitter
    jitter: float

    @staticmethod
    def of(at: "LocalAt", limit: int) -> "JointPosterior":
        """With the rows of all points, or the first of them: those which say most about one of the points,
        then those which say second most, and so on."""
        posterior, problem = at.at.posterior, at.at.posterior.problem
        wanted = at.J.T.ravel()
        order = wanted[np.sort(np.unique(wanted, return_index=True)[1])]
        rows = np.sort(order[:limit])
        require_bytes(
            8.0 * rows.size * (3 * rows.size + 2 * posterior.rank),
            f"{rows.size} shared rows",
            "Give a smaller limit, or fewer points.",
        )
        H, jitter = posterior._prepared.weights(rows), posterior._prepared.rounding(at.neighbours)
        S = problem.gram.dense(problem.X[rows], problem.X[rows]) - H @ H.T
        S[np.diag_indices(rows.size)] += problem.N[rows]
        L, jitter = _factor((S + S.T) / 2, jitter)
        return JointPosterior(posterior, rows, order.size - rows.size, H, L, jitter)

    def __repr__(self) -> str:
        left = f", {self.left_out:,} left out" if self.left_out else ""
        return f"JointPosterior({self.posterior.rank} global actions, {self.rows.size:,} rows{left})"

    @cached_property
    def z(self) -> np.ndarray:
        """L^{-1} r_U, where r is the residual of the global actions, (rows, t)"""
        return self._solve(self.posterior.state.residual[self.rows])

    def mean(self, X: ArrayLike) -> np.ndarray:
        """(m,) or (m, t)"""
        at = self.posterior.at(X)
        state = self.posterior.state
        return self.posterior.problem.with_prior_mean(
            at.X, at.W.T @ state.z[: state.rank] + self._weights(at).T @ self.z
        )

    def var(self, X: ArrayLike) -> np.ndarray:
        """The variance of the latent function."""
        at = self.posterior.at(X)
        return self._var(at, self._weights(at))

    def moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`mean` and `var`, and W with k_joint(X, X) = k(X, X) - W^T W."""
        at, state = self.posterior.at(X), self.posterior.state
        w = self._weights(at)
        update = at.W.T @ state.z[: state.rank] + w.T @ self.z
        mean = self.posterior.problem.with_prior_mean(at.X, update)
        return mean, self._var(at, w), np.concatenate([at.W, w])

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        """The variance of a new observation: latent plus noise (by default that of the training data)."""
        return self.var(X) + self.posterior.noise_at(self.posterior._inputs(X), noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        """k(X0, X1) - W0^T W1, of the global and the shared actions."""
        at0 = self.posterior.at(self.posterior._inputs(X0, "X0"))
        at1 = at0 if X1 is None else self.posterior.at(self.posterior._inputs(X1, "X1"))
        m0, m1 = len(at0.X), len(at1.X)
        require_bytes(16.0 * m0 * m1, f"a covariance of {m0} x {m1} points", "Use var(X), or fewer points.")
        w0 = self._weights(at0)
        w1 = w0 if X1 is None else self._weights(at1)
        out = self.posterior.problem.gram.dense(at0.X, at1.X) - at0.W.T @ at1.W - w0.T @ w1
        if X1 is None:
            out = (out + out.T) / 2
            np.fill_diagonal(out, self._var(at0, w0))
        return out

    def gradients(self, X: ArrayLike) -> Gradients:
        """The gradients of `mean` and `var` in the inputs, at each point."""
        return gradients(self, self.posterior._inputs(X), self.posterior._targets)

    def pullback(
        self, X: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike | None = None
    ) -> np.ndarray:
        """See `Posterior.pullback`."""
        return pullback(self, X, mean, cov)

    def pulled_weights(self, pull: Pull, seen: Seen) -> Weights:
        """The weights of the data in a gradient."""
        return of_joint(self, pull, seen)

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent function at X, (size, m) or (size, m, t): exact up to 2,000 points,
        function draws beyond."""
        X, size = self.posterior._inputs(X), count("size", size)
        if len(X) > JOINT_POINTS:
            return self.sample_function(size, seed)(X)
        require_draws(size, self.posterior.problem.targets, len(X))
        return joint_draws(self.mean(X), self.cov(X), size, count("seed", seed, least=0))

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> LocalSamples:
        """Draws that are functions, defined everywhere: call the result at any X."""
        return LocalSamples.of(
            self, count("size", size), count("seed", seed, least=0), count("features", features)
        )

    def estimates(self, X: np.ndarray) -> Estimates:
        """The mean at X as weights of the actions: those of the rows are L^{-T} w."""
        at = self.posterior.at(X)
        A = scipy.linalg.solve_triangular(self.L, self._weights(at), lower=True, trans=1, check_finite=False)
        return Estimates(at.X, at.W - self.H.T @ A, self.rows, A.T, self.jitter)

    def _weights(self, at: "At") -> np.ndarray:
        """L^{-1} (k_U - H w), (rows, m)"""
        problem = self.posterior.problem
        return self._solve(problem.gram.dense(problem.X[self.rows], at.X) - self.H @ at.W)

    def _var(self, at: "At", w: np.ndarray) -> np.ndarray:
        variance = np.subtract.reduce(np.concatenate([at.var[None], w * w]))
        return self.posterior.problem.above_floor(variance, at.k0)

    def _solve(self, B: np.ndarray) -> np.ndarray:
        return scipy.linalg.solve_triangular(self.L, B, lower=True, check_finite=False)


def _factor(S: np.ndarray, jitter: float) -> tuple[np.ndarray, float]:
    """L L^T = S + jitter; if that is indefinite by rounding, the jitter grows: larger variances."""
    diagonal, places = np.diag(S).copy(), np.diag_indices(len(S))
    while True:
        S[places] = diagonal + jitter
        L, failed = dpotrf(S.T, lower=1, clean=1)  # LAPACK's layout; S is symmetric
        if not failed:
            return L, jitter
        jitter *= 10.0

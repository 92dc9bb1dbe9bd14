"""Local actions: each test point acts on its nearest training rows too, on top of the global actions.

Every entry of the extended Gram matrix is in K Q or in a small kernel tile, so there is no pass over K.
Each marginal is the exact combined posterior for the actions [Q, E_J] of that point: k_* <= k_local <= k_i
(DESIGN, section 3).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.linalg.blas import blas_threads
from itergp.linalg.compute import require_bytes
from itergp.linalg.gram import UNIT
from itergp.linalg.libraries import workers
from itergp.linalg.memory import available_bytes
from itergp.linalg.neighbours import TREE_FEATURES

if TYPE_CHECKING:
    from itergp.posterior.combined import Posterior
    from itergp.posterior.uncertainty import Certificate, Decomposition

BATCH, FEW = 256, 32  # test points at once, with few and with many neighbours
NEIGHBOURS = 60  # unless told otherwise


@dataclass(frozen=True, eq=False)
class LocalPosterior:
    """A Gaussian process for marginals: mean, var, predictive_var, decompose, certify."""

    posterior: "Posterior"
    neighbours: int

    def mean(self, X: ArrayLike) -> np.ndarray:
        return self.marginals(X)[0]

    def var(self, X: ArrayLike) -> np.ndarray:
        return self.marginals(X)[1]

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        X = self.posterior._inputs(X)
        return self.var(X) + self.posterior.noise_at(X, noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        raise InputError(
            "Local posteriors give marginals: each point has actions of its own, and a covariance needs "
            "shared ones. Use "
            "posterior.cov(X), or posterior.refine(UnitVector(order=rows), ...) on the union of the "
            "neighbours, then cov."
        )

    def decompose(self, X: ArrayLike, method: str = "auto", passes: int | None = None) -> "Decomposition":
        """Combined variance = mathematical + computational; see `Posterior.decompose`."""
        from itergp.posterior.uncertainty import decompose

        X = self.posterior._inputs(X)
        return decompose(self.posterior, X, self.var(X), self.neighbours, method, passes)

    def certify(self, X: ArrayLike) -> "Certificate":
        """The global certificate, with the local variance as the upper bound; the mean's error by the
        triangle."""
        from itergp.posterior.uncertainty import Certificate, certify

        X = self.posterior._inputs(X)
        glob = certify(self.posterior, X)
        mean, variance = self.marginals(X)
        shift = np.abs(mean - self.posterior.mean(X))
        shift = shift.max(axis=1) if shift.ndim == 2 else shift
        return Certificate(np.minimum(glob.variance_lower, variance), variance, glob.mean_error + shift)

    def marginals(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances, in batches."""
        X = self.posterior._inputs(X)
        return self.marginals_by(X, self.posterior.weights(X))

    def marginals_by(
        self, X: np.ndarray, W: np.ndarray, J: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`marginals`, for who has the weights at X already, and perhaps the nearest rows."""
        posterior, problem, state = self.posterior, self.posterior.problem, self.posterior.state
        m = min(self.neighbours, problem.n)
        J = nearest_rows(posterior, X, m) if J is None else J
        rows, position = np.unique(J, return_inverse=True)
        J = position.reshape(J.shape)
        require_bytes(
            8.0 * rows.size * state.rank * 2,
            f"{state.rank} weights at {rows.size} neighbours",
            "Predict in batches.",
        )
        H = self._rows_of_whitened_products(rows)
        k0 = problem.prior.var(X)
        mean = W.T @ state.z[: state.rank]
        variance = posterior._subtract(k0, W)
        jitter, residual = self.rounding(), state.residual[rows]
        # bytes for a point: matrices of its neighbours, and their weights
        each = 8.0 * (m + 1) * (5 * m + 2 * state.rank + 1)
        threads = workers(problem.compute.threads, each * BATCH)
        batch = int(min(BATCH, max(1.0, available_bytes() / (2.0 * threads * each))))

        def act(start: int) -> None:
            some = slice(start, start + batch)
            w_J, z_J = self.local_weights(
                X[some], rows[J[some]], H[J[some]], W[:, some], residual[J[some]], jitter
            )
            mean[some] += np.einsum("pj,pjt->pt", w_J, z_J)
            for w in w_J.T:
                variance[some] -= w * w

        starts = range(0, len(X), batch)
        if len(starts) == 1:
            act(0)
        elif threads == 1:
            with blas_threads(1):
                list(map(act, starts))
        else:  # many small matrices: one thread for each batch, not several for each matrix
            with blas_threads(1), ThreadPoolExecutor(threads) as pool:
                list(pool.map(act, starts))
        return problem.with_prior_mean(X, mean), problem.above_floor(variance, k0)

    def weights(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g, J and g_J: the mean at x is mu(x) + c^T b with c = Q g + E_J g_J."""
        posterior, state = self.posterior, self.posterior.state
        W = posterior.weights(X)
        if not self.neighbours:
            none = np.zeros((len(X), 0))
            return state.factor.solve_transposed(W, state.rank), none.astype(np.intp), none
        J = nearest_rows(posterior, X, min(self.neighbours, posterior.problem.n))
        rows, position = np.unique(J, return_inverse=True)
        w, g_J = self.weights_by(X, rows, position.reshape(J.shape), self._rows_of_whitened_products(rows), W)
        return state.factor.solve_transposed(w, state.rank), J, g_J

    def weights_by(
        self, X: np.ndarray, rows: np.ndarray, J: np.ndarray, H: np.ndarray, W: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """L^T g = w - B g_J, and g_J = L_J^{-T} w_J; J says which of the rows."""
        w, g_J, jitter = W.copy(), np.empty(J.shape), self.rounding()
        with blas_threads(1):  # many small matrices
            for start in range(0, len(X), FEW):
                some = slice(start, start + FEW)
                B = H[J[some]]
                L_J, k_rest = self.local_factor(X[some], rows[J[some]], B, W[:, some], jitter)
                w_J = np.linalg.solve(L_J, k_rest[:, :, None])
                g_J[some] = np.linalg.solve(L_J.swapaxes(1, 2), w_J)[:, :, 0]
                w[:, some] -= np.einsum("pjr,pj->rp", B, g_J[some])
        return w, g_J

    def _rows_of_whitened_products(self, rows: np.ndarray) -> np.ndarray:
        """B^T: rows J of (K + N) Q L^{-T}, for all neighbours at once."""
        state = self.posterior.state
        if not state.rank:
            return np.zeros((rows.size, 0))
        K_hat_Q = state.basis.KQ.rows(rows)[:, : state.rank]
        K_hat_Q = K_hat_Q + self.posterior.problem.N[rows, None] * state.basis.rows(rows)[:, : state.rank]
        return state.factor.solve(K_hat_Q.T, state.rank).T

    def local_weights(
        self, X: np.ndarray, J: np.ndarray, B: np.ndarray, W: np.ndarray, r_J: np.ndarray, jitter: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """w_J = L_J^{-1} (k_J - B^T w) and z_J = L_J^{-1} r_J, for a batch."""
        L_J, k_rest = self.local_factor(X, J, B, W, jitter)
        both = np.linalg.solve(L_J, np.concatenate([k_rest[:, :, None], r_J], axis=2))
        return both[:, :, 0], both[:, :, 1:]

    def local_factor(
        self, X: np.ndarray, J: np.ndarray, B: np.ndarray, W: np.ndarray, jitter: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_J with L_J L_J^T = K_JJ + N_J - B^T B + tau, and k_J - B^T w, for a batch."""
        problem = self.posterior.problem
        points = problem.X[J]
        K_JJ, k_J = problem.gram.batch(points, points), problem.gram.batch(points, X[:, None, :])[:, :, 0]
        S = K_JJ - B @ B.swapaxes(1, 2)
        S = (S + S.swapaxes(1, 2)) / 2
        index = np.arange(J.shape[1])
        S[:, index, index] += problem.N[J] + jitter
        return robust_cholesky(S, jitter), k_J - np.einsum("pjr,rp->pj", B, W)

    def rounding(self) -> float:
        """tau on the local block too, for the rows of K Q that enter: the incoherent part of it, whatever
        the number of rows."""
        problem, state = self.posterior.problem, self.posterior.state
        own = UNIT["float64"] * float(problem.gram.diagonal().max()) * 64 * min(self.neighbours, problem.n)
        of_products = min(
            float(state.tau[: state.rank].max(initial=0.0)),
            float(problem.gram.rounding(problem.n, dtype=state.coarsest)),
        )
        return max(of_products, own)


def robust_cholesky(S: np.ndarray, jitter: float) -> np.ndarray:
    """Batched Cholesky; where a matrix is indefinite by rounding, its diagonal is raised, which only
    raises variances."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        if len(S) > 1:
            half = len(S) // 2
            return np.concatenate([robust_cholesky(S[:half], jitter), robust_cholesky(S[half:], jitter)])
        return robust_cholesky(S + 10.0 * jitter * np.eye(S.shape[1]), 10.0 * jitter)


def nearest_rows(posterior: "Posterior", X: np.ndarray, m: int) -> np.ndarray:
    """The m training rows nearest to each point in the kernel's own metric, (points, m), nearest first."""
    problem = posterior.problem
    F, F_X = problem.gram.embedding(problem.X), problem.gram.embedding(X)
    if F is not None and F_X is not None and F.shape[1] <= TREE_FEATURES:
        from scipy.spatial import cKDTree

        return cKDTree(F).query(F_X, k=np.arange(1, m + 1), workers=workers(problem.compute.threads, 0.0))[1]
    if F is not None and F_X is not None:
        return problem.gram.engine.nearest(F_X, F, m, threads=problem.compute.threads)
    return _most_correlated(posterior, X, m)


def _most_correlated(posterior: "Posterior", X: np.ndarray, m: int) -> np.ndarray:
    gram, out = posterior.problem.gram, []
    scale = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    for start in range(0, len(X), BATCH):
        correlation = np.abs(gram.dense(X[start : start + BATCH], gram.X)) / scale
        top = np.argpartition(-correlation, m - 1, axis=1)[:, :m]
        order = np.argsort(-np.take_along_axis(correlation, top, axis=1), axis=1, kind="stable")
        out.append(np.take_along_axis(top, order, axis=1))
    return np.concatenate(out)

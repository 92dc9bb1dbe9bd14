"""Local actions: each test point also acts on training rows near it, in addition to the global actions.

Rows along a line, or in a cluster, repeat each other, and the nearest may all be from one. So of the nearest
rows, those are taken that lower the variance at the point the most, one by one (`Gram.most_informative`).

Every entry of the extended Gram matrix is in K Q or in a small kernel tile, so there is no pass over K. Each
marginal is the exact combined posterior for the actions [Q, E_J] of that point: k_* <= k_local <= k_i
(DESIGN, section 3).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp.linalg.blas import blas_threads
from itergp.linalg.gram import UNIT
from itergp.linalg.libraries import workers
from itergp.linalg.memory import available_bytes
from itergp.solver.problem import Problem

if TYPE_CHECKING:
    from itergp.posterior.at import LocalAt
    from itergp.posterior.combined import Posterior
    from itergp.posterior.uncertainty import Certificate, Decomposition

BATCH, FEW = 256, 32  # test points per batch, with few and with many neighbours
NEIGHBOURS = 60  # by default
CANDIDATES = 240  # nearest rows, of which the neighbours are chosen


@dataclass(frozen=True, eq=False)
class LocalPosterior:
    """Marginals of a Gaussian process: `mean`, `var`, and what follows from them.

    There is no covariance, as each point has its own actions. Use `posterior.cov(X)`, or
    `posterior.refine(UnitVector(order=rows), ...)` on the union of the neighbours, then `cov`.
    """

    posterior: "Posterior"
    neighbours: int

    def at(self, X: ArrayLike) -> "LocalAt":
        """This posterior at points: `mean`, `var`, `decompose()` and `certify()` of the result share their
        common computations."""
        return self.posterior.at(X).local(self.neighbours)

    def mean(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).mean

    def var(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).var

    def marginals(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances, in batches."""
        return self.at(X).marginals

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        at = self.at(X)
        return at.var + self.posterior.noise_at(at.X, noise)

    def decompose(self, X: ArrayLike, method: str = "auto", passes: int | None = None) -> "Decomposition":
        """Combined variance = mathematical + computational; see `Posterior.decompose`."""
        return self.at(X).decompose(method, passes)

    def certify(self, X: ArrayLike) -> "Certificate":
        """The global certificate, with the local variance as upper bound, and a wider bound on the mean."""
        return self.at(X).certify()


@dataclass(frozen=True, eq=False)
class LocalActions:
    """The unit vectors of the rows near each point, in addition to actions with L L^T = G and K_hat Q.

    Used for the actions of a posterior, and for those of a fold without its rows.
    """

    problem: Problem
    X: np.ndarray  # the points
    W: np.ndarray  # L^{-1} Q^T k_x, (r, points)
    rows: np.ndarray  # all neighbours
    J: np.ndarray  # which of the rows are near each point, (points, neighbours)
    H: np.ndarray  # B^T: the rows of K_hat Q L^{-T}
    jitter: float

    def act(self, mean: np.ndarray, variance: np.ndarray, residual: np.ndarray) -> None:
        """Update means and variances by the local actions, in batches; `residual` is that of the rows."""
        threads, batch = self._batches()

        def act(start: int) -> None:
            some = slice(start, start + batch)
            w_J, z_J = self.weights_and_targets(some, residual[self.J[some]])
            mean[some] += np.einsum("pj,pjt->pt", w_J, z_J)
            for w in w_J.T:
                variance[some] -= w * w

        starts = range(0, len(self.X) if self.J.shape[1] else 0, batch)
        if len(starts) == 1:
            act(0)
        elif threads == 1:
            with blas_threads(1):
                list(map(act, starts))
        else:  # many small matrices: one thread per batch, not several per matrix
            with blas_threads(1), ThreadPoolExecutor(threads) as pool:
                list(pool.map(act, starts))

    def _batches(self) -> tuple[int, int]:
        """Threads, and points per thread, such that these and their neighbours' weights fit in memory."""
        m, r = self.J.shape[1], len(self.W)
        each = 8.0 * (m + 1) * (5 * m + 2 * r + 1)
        threads = workers(self.problem.compute.threads, each * BATCH)
        return threads, int(min(BATCH, max(1.0, available_bytes() / (2.0 * threads * each))))

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """L^T g and g_J for each point, where the mean is mu(x) + c^T b with c = Q g + E_J g_J.

        L^T g = w - B g_J, and g_J = L_J^{-T} w_J.
        """
        w, g_J = self.W.copy(), np.empty(self.J.shape)
        with blas_threads(1):  # many small matrices
            for start in range(0, len(self.X), FEW):
                some = slice(start, start + FEW)
                L_J, k_rest = self.factor(some)
                w_J = np.linalg.solve(L_J, k_rest[:, :, None])
                g_J[some] = np.linalg.solve(L_J.swapaxes(1, 2), w_J)[:, :, 0]
                w[:, some] -= np.einsum("pjr,pj->rp", self.H[self.J[some]], g_J[some])
        return w, g_J

    def weights_and_targets(self, some: slice, r_J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """w_J = L_J^{-1} (k_J - B^T w) and z_J = L_J^{-1} r_J, for a batch."""
        L_J, k_rest = self.factor(some)
        # NumPy has no triangular solve for batches; SciPy's rounds differently
        both = np.linalg.solve(L_J, np.concatenate([k_rest[:, :, None], r_J], axis=2))
        return both[:, :, 0], both[:, :, 1:]

    def factor(self, some: slice) -> tuple[np.ndarray, np.ndarray]:
        """L_J with L_J L_J^T = K_JJ + N_J - B^T B + tau, and k_J - B^T w, for a batch."""
        problem, J, B = self.problem, self.rows[self.J[some]], self.H[self.J[some]]
        points, X = problem.X[J], self.X[some]
        K_JJ, k_J = problem.gram.batch(points, points), problem.gram.batch(points, X[:, None, :])[:, :, 0]
        S = K_JJ - B @ B.swapaxes(1, 2)
        S = (S + S.swapaxes(1, 2)) / 2
        index = np.arange(J.shape[1])
        S[:, index, index] += problem.N[J] + self.jitter
        return robust_cholesky(S, self.jitter), k_J - np.einsum("pjr,rp->pj", B, self.W[:, some])


def candidates(m: int, rows: int) -> int:
    """How many of so many rows are candidates for the m neighbours of a point: the nearest ones.

    The same number for any m, unless that is larger: so more neighbours contain fewer.
    """
    return min(max(CANDIDATES, m), rows)


def rounding(posterior: "Posterior", neighbours: int) -> float:
    """tau on the local block too, for the rows of K Q that enter: its incoherent part."""
    problem, state = posterior.problem, posterior.state
    own = UNIT["float64"] * float(problem.gram.diagonal().max()) * 64 * neighbours
    of_products = min(
        float(state.tau[: state.rank].max(initial=0.0)),
        float(problem.gram.rounding(problem.n, dtype=state.coarsest)),
    )
    return max(of_products, own)


def robust_cholesky(S: np.ndarray, jitter: float) -> np.ndarray:
    """Batched Cholesky; a matrix that is indefinite by rounding gets a larger diagonal: larger variances."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        if len(S) > 1:
            half = len(S) // 2
            return np.concatenate([robust_cholesky(S[:half], jitter), robust_cholesky(S[half:], jitter)])
        return robust_cholesky(S + 10.0 * jitter * np.eye(S.shape[1]), 10.0 * jitter)


def unique_rows(J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All distinct rows, and the index of each row in them."""
    rows, position = np.unique(J, return_inverse=True)
    return rows, position.reshape(J.shape)

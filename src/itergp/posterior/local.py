"""Local actions: each test point also acts on training rows near it, in addition to the global actions.

Rows along a line, or in a cluster, repeat each other, and the nearest may all be from one. So of the nearest
rows, those are taken that lower the variance at the point the most, one by one (`Gram.most_informative`).

Every entry of the extended Gram matrix is in K Q or in a small kernel tile, so there is no pass over K. Each
marginal is the exact combined posterior for the actions [Q, E_J] of that point: k_* <= k_local <= k_i
(DESIGN, section 3).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.limits import JOINT_POINTS
from itergp.linalg.blas import blas_threads
from itergp.linalg.local import Neighbourhoods
from itergp.posterior.gradients import Gradients, Pull, Seen, Weights, gradients, of_local, pullback
from itergp.posterior.joint import Estimates, LocalSamples, covariance
from itergp.posterior.sampling import joint_draws, require_draws
from itergp.posterior.spread import marginals
from itergp.solver.problem import Problem
from itergp.validate import count

if TYPE_CHECKING:
    from itergp.posterior.at import LocalAt
    from itergp.posterior.combined import Posterior
    from itergp.posterior.uncertainty import Certificate, Decomposition

FEW = 32  # test points per batch, if all of their neighbours' weights are wanted
NEIGHBOURS = 60  # by default
CANDIDATES = 240  # nearest rows, of which the neighbours are chosen


@dataclass(frozen=True, eq=False)
class LocalPosterior:
    """A Gaussian process: `mean`, `var`, `cov`, `sample`. Each point has its own actions, so its answer does
    not depend on which other points are asked for.

    `cov` is the covariance of the errors that these means have (`joint.py`). `posterior.around(X)` lets all
    points of a batch share their actions, which is sharper.
    """

    posterior: "Posterior"
    neighbours: int

    def __repr__(self) -> str:
        each = brief.counted(self.neighbours, "neighbour")
        return f"LocalPosterior: {each} of each point as its own actions, in addition to\n{self.posterior!r}"

    def at(self, X: ArrayLike) -> "LocalAt":
        """This posterior at points: `mean`, `var`, `decompose()` and `certify()` of the result share their
        common computations."""
        return self.posterior.at(X).local(self.neighbours)

    def mean(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).mean

    def var(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).var

    def marginals(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances; of many points on the machines of a cluster, if the engine has one."""
        mean, variance = marginals(self, self.posterior._inputs(X))
        assert variance is not None
        return mean, variance

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        at = self.at(X)
        return at.var + self.posterior.noise_at(at.X, noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        """k_local(X0, X1); its diagonal is `var`. The cost grows with the square of the number of rows near
        the points."""
        at0 = self.at(self.posterior._inputs(X0, "X0"))
        return covariance(at0, None if X1 is None else self.at(self.posterior._inputs(X1, "X1")))

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
        return of_local(self.at(pull.points), pull, seen)

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent function at X, (size, m) or (size, m, t): exact up to 2,000 points,
        function draws beyond."""
        at, size, seed = self.at(X), count("size", size), count("seed", seed, least=0)
        if len(at.X) > JOINT_POINTS:
            return self.sample_function(size, seed)(at.X)
        require_draws(size, self.posterior.problem.targets, len(at.X))
        return joint_draws(at.mean, covariance(at), size, seed)

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> LocalSamples:
        """Draws that are functions, defined everywhere: call the result at any X."""
        return LocalSamples.of(
            self, count("size", size), count("seed", seed, least=0), count("features", features)
        )

    def estimates(self, X: np.ndarray) -> Estimates:
        """The mean at X as weights of the actions."""
        return self.at(X).estimates()

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

    @cached_property
    def given(self) -> Neighbourhoods:
        problem = self.problem
        return problem.gram.around(self.X, self.rows, self.J, problem.N, (self.W.T, self.H), self.jitter)

    def act(self, mean: np.ndarray, variance: np.ndarray, residual: np.ndarray) -> None:
        """Update means (points, t) and variances by the local actions; `residual` is that of the rows."""
        if self.J.size:
            self.problem.gram.act_locally(self.given, residual, mean, variance)

    def solved(self, R: np.ndarray) -> np.ndarray:
        """S_J^{-1} r for each point, (points, neighbours), where S_J is what the actions leave of K_hat."""
        out = np.empty(R.shape)
        with blas_threads(1):
            for start in range(0, len(self.X), FEW):
                some = slice(start, start + FEW)
                L_J, _ = self.problem.gram.local_factor(self.given, some)
                half = np.linalg.solve(L_J, R[some, :, None])
                out[some] = np.linalg.solve(L_J.swapaxes(1, 2), half)[:, :, 0]
        return out

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """L^T g and g_J for each point, where the mean is mu(x) + c^T b with c = Q g + E_J g_J.

        L^T g = w - B g_J, and g_J = L_J^{-T} w_J.
        """
        w, g_J = self.W.copy(), np.empty(self.J.shape)
        with blas_threads(1):  # many small matrices
            for start in range(0, len(self.X), FEW):
                some = slice(start, start + FEW)
                L_J, k_rest = self.problem.gram.local_factor(self.given, some)
                w_J = np.linalg.solve(L_J, k_rest[:, :, None])
                g_J[some] = np.linalg.solve(L_J.swapaxes(1, 2), w_J)[:, :, 0]
                w[:, some] -= np.einsum("pjr,pj->rp", self.H[self.J[some]], g_J[some])
        return w, g_J


def candidates(m: int, rows: int) -> int:
    """How many of so many rows are candidates for the m neighbours of a point: the nearest ones.

    The same number for any m, unless that is larger: so more neighbours contain fewer.
    """
    return min(max(CANDIDATES, m), rows)

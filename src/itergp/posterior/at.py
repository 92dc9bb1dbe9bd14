"""A posterior at points: what predictions share is computed once, on first use."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from itergp import brief
from itergp.errors import InputError
from itergp.linalg.compute import require_bytes
from itergp.linalg.neighbours import distinct
from itergp.posterior.joint import Estimates
from itergp.posterior.local import LocalActions, candidates
from itergp.posterior.uncertainty import Certificate, Decomposition, certify, decompose

if TYPE_CHECKING:
    from itergp.posterior.combined import Posterior

WEIGHTS, LEAST = 2**29, 64  # bytes of weights at the rows near some points, and the fewest points at once


@dataclass(frozen=True)
class Path:
    """Posteriors along the computation: after `ranks[i]` actions, `mean[i]` and `var[i]`."""

    ranks: np.ndarray
    mean: np.ndarray
    var: np.ndarray

    __repr__ = brief.call


@dataclass(frozen=True, eq=False)
class At:
    """A posterior at the points X: `mean`, `var`, `path`, `local`, `decompose` and `certify`."""

    posterior: "Posterior"
    X: np.ndarray  # validated

    __repr__ = brief.call

    def knowing(self, **values: Any) -> "At":
        """The same with precomputed values."""
        self.__dict__.update(values)
        return self

    def some(self, points: slice) -> "At":
        """At a subset of the points."""
        return At(self.posterior, self.X[points]).knowing(k0=self.k0[points], W=self.W[:, points])

    @cached_property
    def k0(self) -> np.ndarray:
        """The prior variance k(x, x)."""
        return self.posterior.problem.prior.var(self.X)

    @cached_property
    def W(self) -> np.ndarray:
        """w = L^{-1} Q^T k_x for each point, (i, m): everything a prediction needs."""
        return self.posterior._solve(self.inner_products())

    def inner_products(self) -> np.ndarray:
        """Q^T k_x for each point, (i, m): the part that does not depend on the noise."""
        state, problem, gram = self.posterior.state, self.posterior.problem, self.posterior.problem.gram
        if not state.rank:
            return np.zeros((0, len(self.X)))
        require_bytes(
            32.0 * state.rank * len(self.X),
            f"{state.rank} weights at {len(self.X)} points",
            "Predict in smaller batches.",
        )
        prepared = self.posterior._prepared
        if prepared.narrow:
            return prepared.actions.T @ gram.dense(problem.X[prepared.support], self.X)
        if prepared.support is not None:
            return gram.multiply_points(self.X, prepared.support, prepared.dense_actions).T
        return state.basis.projected(gram, self.X, state.rank)

    @cached_property
    def mean(self) -> np.ndarray:
        """mu_i(x) = mu(x) + k(x, X) v_i, shape (m,) or (m, t). Cost O(m n)."""
        problem, state = self.posterior.problem, self.posterior.state
        update = problem.gram.cross(self.X, state.representer_weights, self.posterior._prepared.support)
        return problem.with_prior_mean(self.X, update)

    @cached_property
    def var(self) -> np.ndarray:
        """k_i(x, x) = k0 - sum_j w_j^2, in order, so more computation can only lower it. Cost O(m n i)."""
        terms = np.empty((len(self.W) + 1, len(self.X)))
        terms[0] = self.k0
        np.multiply(self.W, self.W, out=terms[1:])
        variance = np.subtract.reduce(terms)  # one by one, where a sum would be taken by halves
        return self.posterior.problem.above_floor(variance, self.k0)

    @property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        return self.mean, self.var

    def path(self, ranks: Sequence[int] | np.ndarray | None = None) -> Path:
        """Mean and variance after each prefix of the actions, at the cost of the last one."""
        problem, last = self.posterior.problem, self.posterior.rank
        wanted = _checked_ranks(ranks, last)
        z, W, k0 = self.posterior.state.z[:last], self.W, self.k0
        means, variances = {}, {}
        update, variance = np.zeros((len(self.X), problem.targets)), k0.copy()
        for j in range(last + 1):
            if j:
                update += np.outer(W[j - 1], z[j - 1])
                variance -= W[j - 1] ** 2
            if j in wanted:
                means[j] = problem.with_prior_mean(self.X, update.copy())
                variances[j] = problem.above_floor(variance, k0)
        each = wanted.tolist()
        return Path(wanted, np.stack([means[j] for j in each]), np.stack([variances[j] for j in each]))

    def local(self, neighbours: int) -> "LocalAt":
        """Add the unit vectors of rows near each point as its own actions."""
        return LocalAt(self, min(neighbours, self.posterior.problem.n))

    def decompose(self, method: str = "auto", passes: int | None = None) -> Decomposition:
        return decompose(self, self.var, 0, method, passes)

    def certify(self) -> Certificate:
        return certify(self)


@dataclass(frozen=True, eq=False)
class LocalAt:
    """A posterior with local actions at the points of `at`, which holds what both share."""

    at: At
    neighbours: int

    __repr__ = brief.call

    def knowing(self, **values: Any) -> "LocalAt":
        """The same with precomputed values."""
        self.__dict__.update(values)
        return self

    @property
    def X(self) -> np.ndarray:
        return self.at.X

    @cached_property
    def near(self) -> np.ndarray:
        """The rows nearest to each point, of which its neighbours are chosen."""
        problem = self.at.posterior.problem
        return problem.gram.nearest(self.X, candidates(self.neighbours, problem.n))

    @cached_property
    def J(self) -> np.ndarray:
        """The rows near each point that say most about it, (m, neighbours)."""
        problem = self.at.posterior.problem
        return problem.gram.most_informative(self.X, self.near, problem.N, self.neighbours)

    @property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        return self.mean, self.var

    @property
    def mean(self) -> np.ndarray:
        """This alone needs no global variances."""
        return self._acted[0]

    @cached_property
    def var(self) -> np.ndarray:
        at = self.at
        return at.posterior.problem.above_floor(at.var - self._acted[1], at.k0)

    @cached_property
    def _acted(self) -> tuple[np.ndarray, np.ndarray]:
        """The means, and what the local actions take off the variances."""
        at, state = self.at, self.at.posterior.state
        mean, left = _row_by_row(at.W.T, state.z[: state.rank]), np.zeros(len(self.X))
        for some in self._batches():
            actions = self.actions(some)
            actions.act(mean[some], left[some], state.residual[actions.rows])
        return at.posterior.problem.with_prior_mean(self.X, mean), -left

    def _batches(self) -> list[slice]:
        """Points, such that the weights of all rows near them fit in memory. Rows near several of them are
        weighted once, so all points are one batch if all rows would fit."""
        state, n = self.at.posterior.state, self.at.posterior.problem.n
        fitting = WEIGHTS // (16 * max(1, state.rank))
        size = len(self.X) if n <= fitting else max(LEAST, fitting // max(1, self.neighbours))
        return [slice(start, start + size) for start in range(0, len(self.X), size)]

    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g, J and g_J: the mean at x is mu(x) + c^T b with c = Q g + E_J g_J."""
        state = self.at.posterior.state
        if not self.neighbours:
            none = np.zeros((len(self.X), 0))
            return state.factor.solve_transposed(self.at.W, state.rank), none.astype(np.intp), none
        w, g_J = self.actions().weights()
        return state.factor.solve_transposed(w, state.rank), self.J, g_J

    def actions(self, some: slice = slice(None)) -> LocalActions:
        """The local actions of some of the points."""
        posterior, rank = self.at.posterior, self.at.posterior.rank
        rows, J = distinct(self.J[some], posterior.problem.n)
        require_bytes(
            8.0 * rows.size * rank * 2,
            f"{rank} weights at {rows.size} neighbours",
            "Predict in smaller batches.",
        )
        H = posterior._prepared.weights(rows)
        jitter = posterior._prepared.rounding(self.neighbours)
        return LocalActions(posterior.problem, self.X[some], self.at.W[:, some], rows, J, H, jitter)

    def estimates(self) -> Estimates:
        """The mean at each point as weights of the actions."""
        return Estimates.of(self)

    def decompose(self, method: str = "auto", passes: int | None = None) -> Decomposition:
        return decompose(self.at, self.var, self.neighbours, method, passes)

    def certify(self) -> Certificate:
        glob, (mean, variance) = certify(self.at), self.marginals
        shift = np.abs(mean - self.at.mean)
        shift = shift.max(axis=1) if shift.ndim == 2 else shift
        return Certificate(np.minimum(glob.variance_lower, variance), variance, glob.mean_error + shift)


def _row_by_row(W: np.ndarray, z: np.ndarray) -> np.ndarray:
    """W z, such that no row depends on how many there are: BLAS rounds accordingly."""
    return np.stack([(W * column).sum(axis=1) for column in z.T], axis=1)


def _checked_ranks(ranks: Sequence[int] | np.ndarray | None, last: int) -> np.ndarray:
    found = np.arange(last + 1) if ranks is None else np.asarray(ranks)
    if found.ndim != 1 or found.dtype.kind not in "iu" or (found < 0).any() or (found > last).any():
        raise InputError(
            f"ranks is {ranks!r}; expected integers from 0 to {last}, the rank of this posterior."
        )
    return found

"""The combined posterior GP(mu_i, k_i): mathematical plus computational uncertainty, valid whenever you
stop (Eq. 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.linalg.compute import Compute, require_bytes
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.prior.gp import Prior
from itergp.solver.loop import Callback, accept_waiting, solve
from itergp.solver.more_data import extend
from itergp.solver.policies import UnitVector, default_actions, default_policy
from itergp.solver.problem import Problem
from itergp.solver.state import State, Status, Step
from itergp.solver.stopping import MaxActions, StoppingCriterion
from itergp.validate import count, inputs, noise_variance

if TYPE_CHECKING:
    from itergp.posterior.local import LocalPosterior
    from itergp.posterior.sampling import SampleFunction
    from itergp.posterior.uncertainty import Certificate, Decomposition, Share

NEW_ROWS = 1000  # `extend` acts on each new row up to here, and on so many of them at random beyond


def condition(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    noise: ArrayLike,
    policy: Any = None,
    stop: StoppingCriterion | None = None,
    compute: Compute = Compute(),
    seed: int = 0,
    callback: Callback | None = None,
) -> "Posterior":
    """Condition a prior on data, with as much computation as `stop` allows, spent as `policy` says.

    Without a policy: the exact GP up to 2,048 rows; beyond, a block of pseudo-inputs, Krylov blocks, then
    deflated residuals. Without `stop`: all of it, or 512 actions.
    """
    problem = Problem(prior, X, y, noise, compute)
    policy = default_policy(problem.n) if policy is None else policy
    stop = MaxActions(default_actions(problem.n)) if stop is None else stop
    return Posterior(
        problem, solve(problem, policy, stop, seed=count("seed", seed, least=0), callback=callback), policy
    )


@dataclass(frozen=True)
class Path:
    """Posteriors along the computation: after `ranks[i]` actions, `mean[i]` and `var[i]`."""

    ranks: np.ndarray
    mean: np.ndarray
    var: np.ndarray


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian process again: `mean`, `var`, `cov`. Immutable; `refine` and `extend` return new ones."""

    problem: Problem
    state: State
    policy: Any = None

    # Predictions.

    def mean(self, X: ArrayLike) -> np.ndarray:
        """mu_i(x) = mu(x) + k(x, X) v_i, shape (m,) or (m, t). Cost O(m n)."""
        X = self._inputs(X)
        support = self.state.basis.support()
        update = self.problem.gram.cross(X, self.state.representer_weights, support)
        return self.problem.with_prior_mean(X, update)

    def var(self, X: ArrayLike) -> np.ndarray:
        """k_i(x, x), of the latent function. Cost O(m n i)."""
        X = self._inputs(X)
        return self._subtract(self.problem.prior.var(X), self.weights(X))

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        """The variance of a new observation: latent plus noise, that of the training data unless given."""
        X = self._inputs(X)
        return self.var(X) + self.noise_at(X, noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        """k_i(X0, X1)"""
        X0 = self._inputs(X0, "X0")
        X1 = None if X1 is None else self._inputs(X1, "X1")
        m0, m1 = len(X0), len(X0 if X1 is None else X1)
        require_bytes(16.0 * m0 * m1, f"a covariance of {m0} x {m1} points", "Use var(X), or fewer points.")
        W0 = self.weights(X0)
        W1 = W0 if X1 is None else self.weights(X1)
        covariance = self.problem.gram.dense(X0, X0 if X1 is None else X1) - W0.T @ W1
        if X1 is None:
            covariance = (covariance + covariance.T) / 2
            np.fill_diagonal(covariance, self._subtract(self.problem.prior.var(X0), W0))
        return covariance

    def path(self, X: ArrayLike, ranks: Sequence[int] | None = None) -> Path:
        """Mean and variance after each prefix of the actions, at the cost of the last."""
        X = self._inputs(X)
        ranks_ = np.arange(self.rank + 1) if ranks is None else np.asarray(ranks)
        if (
            ranks_.ndim != 1
            or ranks_.dtype.kind not in "iu"
            or (ranks_ < 0).any()
            or (ranks_ > self.rank).any()
        ):
            raise InputError(
                f"ranks is {ranks!r}; expected integers from 0 to {self.rank}, the rank of this posterior."
            )
        return self.path_by(X, self.weights(X), ranks_)

    def path_by(self, X: np.ndarray, W: np.ndarray, ranks_: np.ndarray) -> Path:
        """`path`, for who has the weights at X already."""
        z, k0 = self.state.z[: self.rank], self.problem.prior.var(X)
        means, variances = {}, {}
        update, variance = np.zeros((len(X), self.problem.targets)), k0.copy()
        for j in range(self.rank + 1):
            if j:
                update += np.outer(W[j - 1], z[j - 1])
                variance -= W[j - 1] ** 2
            if j in ranks_:
                means[j], variances[j] = (
                    self.problem.with_prior_mean(X, update.copy()),
                    self.problem.above_floor(variance, k0),
                )
        return Path(
            ranks_,
            np.stack([means[j] for j in ranks_.tolist()]),
            np.stack([variances[j] for j in ranks_.tolist()]),
        )

    def weights(self, X: np.ndarray) -> np.ndarray:
        """w = L^{-1} Q^T k_x for each row of X, (i, m): everything a prediction needs."""
        return self.state.factor.solve(self.inner_products(X), self.rank)

    def inner_products(self, X: np.ndarray) -> np.ndarray:
        """Q^T k_x for each row of X, (i, m): what does not depend on the noise."""
        state = self.state
        if not state.rank:
            return np.zeros((0, len(X)))
        require_bytes(
            24.0 * state.rank * len(X),
            f"{state.rank} weights at {len(X)} points",
            "Predict in smaller batches.",
        )
        support = state.basis.support()
        if support is not None:
            Q = state.basis.actions(state.rank)[support].toarray()  # type: ignore[union-attr]
            return self.problem.gram.multiply_points(X, support, Q).T
        return self.problem.gram.cross(X, state.basis.dense(0, state.rank)).T

    def noise_at(self, X: np.ndarray, noise: ArrayLike | None) -> np.ndarray | float:
        if noise is None:
            if np.ndim(self.problem.noise):
                raise InputError(
                    "noise is missing: the training noise is one value per row, so give the noise at X."
                )
            return float(self.problem.noise)
        return noise_variance("noise", noise, len(X))

    def _inputs(self, X: ArrayLike, name: str = "X") -> np.ndarray:
        return inputs(name, X, self.problem.X.shape[1])

    def _subtract(self, k0: np.ndarray, W: np.ndarray) -> np.ndarray:
        """k0 - sum_j w_j^2, one after the other, so that more computation can only lower it."""
        variance = k0.copy()
        for w in W:
            variance -= w * w
        return self.problem.above_floor(variance, k0)

    # More computation, more data.

    def refine(
        self, policy: Any = None, stop: StoppingCriterion | None = None, callback: Callback | None = None
    ) -> "Posterior":
        """The same posterior after more computation: the same policy goes on unless another is given."""
        policy = self.policy if policy is None else policy
        if policy is None:
            policy = default_policy(self.problem.n)
        stop = MaxActions(default_actions(self.problem.n)) if stop is None else stop
        return Posterior(
            self.problem, solve(self.problem, policy, stop, self.state, callback=callback), policy
        )

    def extend(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise: ArrayLike | None = None,
        policy: Any = None,
        stop: StoppingCriterion | None = None,
    ) -> "Posterior":
        """The posterior with more data. `policy=None` then acts on the new rows; `policy=False` only
        appends them."""
        state = extend(self.state, X, y, noise)
        if policy is False:
            return Posterior(state.problem, state, self.policy)
        state = accept_waiting(state)
        new = np.arange(self.problem.n, state.problem.n)
        if policy is None:
            if new.size > NEW_ROWS:
                new = np.sort(
                    np.random.default_rng([state.seed, state.counter]).choice(new, NEW_ROWS, replace=False)
                )
            policy = UnitVector(order=new, block_size=min(new.size, 64))
        stop = MaxActions(new.size) if stop is None else stop
        after = Posterior(state.problem, state, self.policy).refine(policy, stop)
        return Posterior(after.problem, after.state, self.policy)

    # What was done.

    @property
    def rank(self) -> int:
        return self.state.rank

    @property
    def status(self) -> Status:
        return Status.BUDGET if self.state.status is None else self.state.status

    @property
    def actions(self) -> Any:
        """The orthonormal actions, n x r: a NumPy array, or a SciPy sparse matrix where all of them are
        sparse."""
        return self.state.basis.actions(self.rank)

    @property
    def trace(self) -> tuple[Step, ...]:
        return self.state.trace

    def preconditioner(self) -> DiagonalPlusLowRank:
        """P = N + U U^T, made of the by-products: `P @ V`, `P.solve(V)`."""
        return self.state.preconditioner()

    # Other rooms of this house.

    def local(self, neighbours: int = 60) -> "LocalPosterior":
        """The same posterior with actions of its own for each test point: the unit vectors of its nearest
        rows."""
        from itergp.posterior.local import LocalPosterior

        return LocalPosterior(self, count("neighbours", neighbours))

    def decompose(self, X: ArrayLike, method: str = "auto", passes: int | None = None) -> "Decomposition":
        """Combined variance = mathematical + computational: exact up to 4,096 rows, between bounds beyond.

        `method` is "exact", "estimate" (bounds from `passes` products with K for each 256 points; with 0,
        from more neighbours), "certificate" (no product, often loose), or "auto".
        """
        from itergp.posterior.uncertainty import decompose

        X = self._inputs(X)
        return decompose(self, X, self.var(X), 0, method, passes)

    def certify(self, X: ArrayLike) -> "Certificate":
        """Guaranteed bounds on the exact GP's variance and mean, without computing it."""
        from itergp.posterior.uncertainty import certify

        return certify(self, self._inputs(X))

    def computational_share(self, X: ArrayLike, probes: int = 8, passes: int = 10) -> "Share":
        """The computational share of the variance over X, estimated with its error, for `passes` products."""
        from itergp.posterior.uncertainty import computational_share

        return computational_share(
            self, self._inputs(X), count("probes", probes, least=2), count("passes", passes)
        )

    def worst_case_error(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        """sup |h(x) - mu_i(x)| over all h with unit norm in the RKHS of k + noise: sqrt(k_i(x, x) + noise)
        (Thm. 2)."""
        return np.sqrt(self.predictive_var(X, noise))

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent function at X, (size, m) or (size, m, t): exact up to 2,000 points,
        beyond as functions."""
        from itergp.posterior.sampling import sample

        return sample(self, self._inputs(X), count("size", size), count("seed", seed, least=0))

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> "SampleFunction":
        """Draws that are functions, defined everywhere: call the result at any X.

        `.rests_on` says what they are made of, and how near their variance is to that of the posterior, as
        measured.
        """
        from itergp.posterior.sampling import sample_function

        return sample_function(
            self, count("size", size), count("seed", seed, least=0), count("features", features)
        )

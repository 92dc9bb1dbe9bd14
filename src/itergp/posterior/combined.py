"""The combined posterior GP(mu_i, k_i): mathematical plus computational uncertainty, always valid (Eq. 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError
from itergp.linalg.compute import Compute, require_bytes
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.posterior.around import LIMIT, JointPosterior
from itergp.posterior.at import At, Path
from itergp.posterior.gradients import Gradients, Pull, gradients, of_global, pulled
from itergp.posterior.local import LocalPosterior
from itergp.posterior.prepared import Prepared
from itergp.posterior.sampling import SampleFunction, sample, sample_function
from itergp.posterior.spread import as_sent
from itergp.posterior.uncertainty import Certificate, Decomposition, Share, computational_share
from itergp.prior.gp import Prior
from itergp.solver.loop import accept_waiting
from itergp.solver.more_data import extend
from itergp.solver.policies import UnitVector
from itergp.solver.problem import Problem
from itergp.solver.run import Callback, solve
from itergp.solver.schedule import default_actions, default_policy
from itergp.solver.state import State, Status, Step
from itergp.solver.stopping import MaxActions, StoppingCriterion
from itergp.validate import count, grouped_inputs, inputs, noise_variance

NEW_ROWS = 1000  # `extend` acts on each new row up to this number; beyond, on this number of them at random


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
    """Condition a prior on data, with as much computation as `stop` allows, using the actions of `policy`.

    The default policy is the exact GP up to 2,048 rows; beyond, a block of pseudo-inputs, Krylov blocks, then
    deflated residuals. The default `stop` is all of it, or 512 actions.
    """
    problem = Problem(prior, X, y, noise, compute)
    policy = default_policy(problem.n) if policy is None else policy
    stop = MaxActions(default_actions(problem.n)) if stop is None else stop
    return Posterior(
        problem, solve(problem, policy, stop, seed=count("seed", seed, least=0), callback=callback), policy
    )


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian process: `mean`, `var`, `cov`. Immutable; `refine` and `extend` return new posteriors."""

    problem: Problem
    state: State
    policy: Any = None

    @property
    def posterior(self) -> "Posterior":
        """Itself, as `local` and `around` have the posterior whose actions they share."""
        return self

    def __repr__(self) -> str:
        parts = self.problem.described | {"policy": brief.value(self.policy)}
        return brief.lines(f"Posterior: {self.problem.size}; {self.state.reached}", **parts)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_prepared", "as_sent")}

    @cached_property
    def _prepared(self) -> Prepared:
        """What predictions read that does not depend on where they are."""
        return Prepared(self.problem, self.state)

    @cached_property
    def as_sent(self) -> "Posterior":
        """What other machines need to predict with it; one value, so that it is sent once."""
        return as_sent(self)

    # Predictions.

    def at(self, X: ArrayLike) -> At:
        """This posterior at points: `mean`, `var`, `path(ranks)`, `local(neighbours)`, `decompose()` and
        `certify()` of the result share their common computations."""
        return At(self, self._inputs(X))

    def mean(self, X: ArrayLike) -> np.ndarray:
        """mu_i(x) = mu(x) + k(x, X) v_i, shape (m,) or (m, t). Cost O(m n)."""
        return self.at(X).mean

    def var(self, X: ArrayLike) -> np.ndarray:
        """k_i(x, x), the variance of the latent function. Cost O(m n i)."""
        return self.at(X).var

    def moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`mean` and `var`, and W with k_i(X, X) = k(X, X) - W^T W. The mean is that of W, which rounds less
        than k(x, X) v where there is little noise: line searches notice."""
        at, z = self.at(X), self.state.z[: self.rank]
        return self.problem.with_prior_mean(at.X, at.W.T @ z), at.var, at.W

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        """The variance of a new observation: latent plus noise (by default that of the training data)."""
        at = self.at(X)
        return at.var + self.noise_at(at.X, noise)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        """k_i(X0, X1)"""
        at0 = At(self, self._inputs(X0, "X0"))
        at1 = at0 if X1 is None else At(self, self._inputs(X1, "X1"))
        m0, m1 = len(at0.X), len(at1.X)
        require_bytes(16.0 * m0 * m1, f"a covariance of {m0} x {m1} points", "Use var(X), or fewer points.")
        covariance = self.problem.gram.dense(at0.X, at1.X) - at0.W.T @ at1.W
        if X1 is None:
            covariance = (covariance + covariance.T) / 2
            np.fill_diagonal(covariance, at0.var)
        return covariance

    def path(self, X: ArrayLike, ranks: Sequence[int] | None = None) -> Path:
        """Mean and variance after each prefix of the actions, at the cost of the last one."""
        return self.at(X).path(ranks)

    def noise_at(self, X: np.ndarray, noise: ArrayLike | None) -> np.ndarray | float:
        if noise is None:
            if np.ndim(self.problem.noise):
                raise InputError(
                    "noise is missing: the training noise is one value per row, so pass the noise at X."
                )
            return float(self.problem.noise)
        return noise_variance("noise", noise, len(X))

    def _solve(self, B: np.ndarray) -> np.ndarray:
        """L^{-1} B, (i, m)"""
        return self.problem.gram.solve_lower(self.state.L, B.T).T

    def _inputs(self, X: ArrayLike, name: str = "X") -> np.ndarray:
        return inputs(name, X, self.problem.X.shape[1])

    def gradients(self, X: ArrayLike) -> Gradients:
        """The gradients of `mean` and `var` in the inputs, at each point."""
        return gradients(self, self._inputs(X), self._targets)

    def pullback(
        self, X: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike | None = None
    ) -> np.ndarray:
        """The gradient in X of a function of `mean(X)` and `cov(X)`, from its slopes in these: a
        vector-Jacobian product, in the shape of X.

        X may be (b, q, d), b groups of q points, with `cov` (b, q, q) for the covariances of each group.
        """
        pull = Pull.of(self._groups(X), self._targets, mean, cov)
        return pulled(self, pull, lambda some: of_global(self.at(some.points), some)).reshape(np.shape(X))

    @property
    def _targets(self) -> int:
        """0 if y is a vector."""
        return 0 if self.problem.y.ndim == 1 else self.problem.targets

    def _groups(self, X: ArrayLike) -> np.ndarray:
        """Points, or groups of points."""
        return grouped_inputs("X", X, self.problem.X.shape[1])

    # More computation, more data.

    def refine(
        self, policy: Any = None, stop: StoppingCriterion | None = None, callback: Callback | None = None
    ) -> "Posterior":
        """The posterior after more computation: continues the same policy unless another is given."""
        policy = self.policy if policy is None else policy
        if policy is None:
            policy = default_policy(self.problem.n)
        stop = MaxActions(default_actions(self.problem.n)) if stop is None else stop
        return Posterior(
            self.problem, solve(self.problem, policy, stop, self.state, callback=callback), policy
        )

    def append(self, X: ArrayLike, y: ArrayLike, noise: ArrayLike | None = None) -> "Posterior":
        """The posterior with more data, same actions: no prediction changes until `refine` (Thm. S7)."""
        state = extend(self.state, X, y, noise)
        return Posterior(state.problem, state, self.policy)

    def extend(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise: ArrayLike | None = None,
        policy: Any = None,
        stop: StoppingCriterion | None = None,
    ) -> "Posterior":
        """The posterior with more data and with actions on the new rows, or those of `policy`. With
        `policy=False`, or with `append`, no action is taken."""
        appended = self.append(X, y, noise)
        if policy is False:
            return appended
        state = accept_waiting(appended.state)
        new = np.arange(self.problem.n, state.problem.n)
        if policy is None:
            if new.size > NEW_ROWS:
                new = np.sort(
                    np.random.default_rng([int(state.seed), int(state.counter)]).choice(
                        new, NEW_ROWS, replace=False
                    )
                )
            policy = UnitVector(order=new, block_size=min(new.size, 64))
        stop = MaxActions(new.size) if stop is None else stop
        after = Posterior(state.problem, state, self.policy).refine(policy, stop)
        return Posterior(after.problem, after.state, self.policy)

    # Diagnostics.

    @property
    def rank(self) -> int:
        return self.state.rank

    @property
    def status(self) -> Status:
        return Status.BUDGET if self.state.status is None else self.state.status

    @property
    def actions(self) -> Any:
        """The orthonormal actions, n x r: a NumPy array, or a SciPy sparse matrix if all are sparse."""
        return self.state.basis.actions(self.rank)

    @property
    def trace(self) -> tuple[Step, ...]:
        return self.state.trace

    def preconditioner(self) -> DiagonalPlusLowRank:
        """The preconditioner P = N + U U^T, a by-product of the run: `P @ V`, `P.solve(V)`."""
        return self.state.preconditioner()

    # Shortcuts to other modules.

    def local(self, neighbours: int = 60) -> LocalPosterior:
        """The same posterior with additional actions per test point: the unit vectors of rows near it.

        Of the nearest rows, those that lower the variance at the point the most, one by one.
        """
        return LocalPosterior(self, count("neighbours", neighbours))

    def around(self, X: ArrayLike, neighbours: int = 60, limit: int = LIMIT) -> JointPosterior:
        """The same posterior with additional actions that all points share: the unit vectors of the rows that
        `local(neighbours)` takes for any of these points.

        The variance is at most that of `local`, unless there are more than `limit` such rows: then those that
        say most are taken, and `left_out` says how many are not. Makes no pass over K.
        """
        at = self.at(X).local(count("neighbours", neighbours))
        return JointPosterior.of(at, count("limit", limit))

    def decompose(self, X: ArrayLike, method: str = "auto", passes: int | None = None) -> Decomposition:
        """Combined variance = mathematical + computational: exact up to 4,096 rows, bounds beyond.

        `method` is "exact", "estimate" (bounds from `passes` products with K per 256 points; with 0, from
        more neighbours), "certificate" (no product, often loose), or "auto".
        """
        return self.at(X).decompose(method, passes)

    def certify(self, X: ArrayLike) -> Certificate:
        """Guaranteed bounds on the exact GP's variance and mean, without computing it."""
        return self.at(X).certify()

    def computational_share(self, X: ArrayLike, probes: int = 8, passes: int = 10) -> Share:
        """The computational share of the variance over X, estimated by `passes` products, with its error."""
        return computational_share(
            self, self._inputs(X), count("probes", probes, least=2), count("passes", passes)
        )

    def worst_case_error(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        """sup |h(x) - mu_i(x)| over all h with unit norm in the RKHS of k + noise: sqrt(k_i(x, x) + noise)
        (Thm. 2)."""
        return np.sqrt(self.predictive_var(X, noise))

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent function at X, (size, m) or (size, m, t): exact up to 2,000 points,
        function draws beyond."""
        return sample(self, self._inputs(X), count("size", size), count("seed", seed, least=0))

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> SampleFunction:
        """Draws that are functions, defined everywhere: call the result at any X.

        `.rests_on` describes how they were made, and how close their variance is to that of the posterior, as
        measured.
        """
        return sample_function(
            self, count("size", size), count("seed", seed, least=0), count("features", features)
        )

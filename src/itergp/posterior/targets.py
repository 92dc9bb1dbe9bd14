"""Several targets, each with its own noise: K and the actions are shared, each target has its own belief.

The actions are chosen in one run with the smallest noise. Krylov spaces do not depend on the noise, but the
precision of the products and the stopping criteria do, and must satisfy the most demanding target. The belief
of each target, with its own noise, follows from Q and K Q without a pass over K (`solver/more_data.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.posterior.around import LIMIT, JointPosterior
from itergp.posterior.at import At, Path
from itergp.posterior.beside import TargetSamples, beside, draws, each_field, of_targets, pulled_each
from itergp.posterior.combined import Posterior
from itergp.posterior.gradients import Gradients
from itergp.posterior.local_targets import JointTargets, LocalTargets
from itergp.posterior.uncertainty import Certificate, Decomposition, Share
from itergp.solver.more_data import target_beliefs
from itergp.solver.problem import Problem
from itergp.solver.run import Callback
from itergp.solver.state import State, Status, Step
from itergp.solver.stopping import StoppingCriterion
from itergp.validate import count


def common_noise(noise: np.ndarray) -> Any:
    """The noise of the run that chooses the actions, from that of each target: (t,), or (t, n) if per row."""
    return float(noise.min()) if noise.ndim == 1 else noise.min(axis=0)


@dataclass(frozen=True, eq=False)
class TargetPosterior:
    """A Gaussian process for each target: `mean` and `var` are (m, t), `cov` is (m, m, t). Immutable.

    `shared` is the run that chose the actions, for all targets with their smallest noise; `each` holds the
    posteriors of the targets with their own noise. `problem`, `state`, `trace` and the like are those of
    `shared`.
    """

    shared: Posterior
    noise: np.ndarray  # (t,), or (t, n) if it differs between rows

    def __post_init__(self) -> None:
        t, n = self.shared.problem.targets, self.shared.problem.n
        noise = np.array(self.noise, dtype=np.float64)
        if self.shared.problem.y.ndim != 2 or noise.shape not in ((t,), (t, n)):
            raise InputError(
                f"noise has shape {noise.shape}; expected one value for each of {t} targets, or one row of "
                f"{n} values."
            )
        object.__setattr__(self, "noise", noise)

    def __repr__(self) -> str:
        problem, state = self.shared.problem, self.shared.state
        parts = problem.described | {"noise": brief.value(self.noise), "policy": brief.value(self.policy)}
        return brief.lines(f"TargetPosterior: {problem.size}; {state.reached}", **parts)

    @cached_property
    def each(self) -> tuple[Posterior, ...]:
        """One posterior per target; computed on first use."""
        state = self.shared.state
        return tuple(
            Posterior(belief.problem, state.believing(belief), self.policy)
            for belief in target_beliefs(state.belief, list(self.noise))
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "as_sent"}

    @cached_property
    def as_sent(self) -> "TargetPosterior":
        """What other machines need to predict with it; one value, so that it is sent once."""
        sent = TargetPosterior(self.shared.as_sent, self.noise)
        vars(sent)["each"] = tuple(one.as_sent for one in self.each)
        return sent

    # Predictions.

    def at(self, X: ArrayLike) -> "TargetsAt":
        """These posteriors at points: common computations are done once."""
        return TargetsAt(self, self.shared._inputs(X))

    def mean(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).mean

    def var(self, X: ArrayLike) -> np.ndarray:
        return self.at(X).var

    def predictive_var(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        """The variance of a new observation: latent plus noise (default: each target's own)."""
        return self.var(X) + self.noise_at(noise)

    def noise_at(self, noise: ArrayLike | None) -> np.ndarray:
        if noise is None and self.noise.ndim == 2:
            raise InputError(
                "noise is missing: the training noise differs between rows, so pass that of new observations."
            )
        return self.noise if noise is None else of_targets(noise, self.problem.targets)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        return beside([one.cov(X0, X1) for one in self.each])

    def gradients(self, X: ArrayLike) -> Gradients:
        """The gradients of `mean` and `var` in the inputs, at each point: (m, d, t)."""
        return each_field([one.gradients(X) for one in self.each])

    def pullback(
        self, X: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike | None = None
    ) -> np.ndarray:
        """See `Posterior.pullback`; the slopes `cov` have one more axis, for the targets."""
        return pulled_each(self.each, X, mean, cov)

    def path(self, X: ArrayLike, ranks: Sequence[int] | None = None) -> Path:
        found = [at.path(ranks) for at in self.at(X).each()]
        return Path(found[0].ranks, beside([one.mean for one in found]), beside([one.var for one in found]))

    def decompose(self, X: ArrayLike, method: str = "auto", passes: int | None = None) -> Decomposition:
        return each_field([at.decompose(method, passes) for at in self.at(X).each()])

    def certify(self, X: ArrayLike) -> Certificate:
        return each_field([at.certify() for at in self.at(X).each()])

    def computational_share(self, X: ArrayLike, probes: int = 8, passes: int = 10) -> tuple[Share, ...]:
        """One per target."""
        return tuple(one.computational_share(X, probes, passes) for one in self.each)

    def worst_case_error(self, X: ArrayLike, noise: ArrayLike | None = None) -> np.ndarray:
        return np.sqrt(self.predictive_var(X, noise))

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws of the latent functions at X: (size, m, t)."""
        return draws(self.each, X, size, seed)

    def sample_function(self, size: int = 1, seed: int = 0, features: int = 4096) -> TargetSamples:
        return TargetSamples.of(self.each, size, seed, features)

    def local(self, neighbours: int = 60) -> LocalTargets:
        """With additional actions per test point: the unit vectors of rows near it."""
        return LocalTargets(self, count("neighbours", neighbours))

    def around(self, X: ArrayLike, neighbours: int = 60, limit: int = LIMIT) -> JointTargets:
        """With additional actions that all points share: the rows near any of these points, of each target;
        see `Posterior.around`."""
        at, limit = self.local(neighbours).at(X), count("limit", limit)
        return JointTargets(self, tuple(JointPosterior.of(one, limit) for one in at.each()))

    # More computation, more data.

    def refine(
        self, policy: Any = None, stop: StoppingCriterion | None = None, callback: Callback | None = None
    ) -> "TargetPosterior":
        return TargetPosterior(self.shared.refine(policy, stop, callback), self.noise)

    def extend(
        self,
        X: ArrayLike,
        y: ArrayLike,
        noise: ArrayLike | None = None,
        policy: Any = None,
        stop: StoppingCriterion | None = None,
    ) -> "TargetPosterior":
        """With more data; `noise` is one value per target, unchanged by default."""
        more = self.noise_at(noise)
        shared = self.shared.extend(X, y, common_noise(more), policy, stop)
        if np.array_equal(more, self.noise):
            return TargetPosterior(shared, self.noise)
        old, new = self.problem.n, shared.problem.n - self.problem.n
        before = self.noise if self.noise.ndim == 2 else np.repeat(self.noise[:, None], old, axis=1)
        return TargetPosterior(
            shared, np.concatenate([before, np.repeat(more[:, None], new, axis=1)], axis=1)
        )

    # Diagnostics, for all targets.

    @property
    def problem(self) -> Problem:
        return self.shared.problem

    @property
    def state(self) -> State:
        return self.shared.state

    @property
    def policy(self) -> Any:
        return self.shared.policy

    @property
    def rank(self) -> int:
        return self.shared.rank

    @property
    def status(self) -> Status:
        return self.shared.status

    @property
    def actions(self) -> Any:
        return self.shared.actions

    @property
    def trace(self) -> tuple[Step, ...]:
        return self.shared.trace

    @property
    def elbo(self) -> float:
        """The computation-aware evidence lower bound, summed over targets."""
        return sum(one.state.elbo for one in self.each)

    def preconditioner(self) -> DiagonalPlusLowRank:
        return self.shared.preconditioner()


@dataclass(frozen=True, eq=False)
class TargetsAt:
    """The posteriors of several targets at the points X; products with the actions are shared."""

    posterior: TargetPosterior
    X: np.ndarray  # validated

    __repr__ = brief.call

    @cached_property
    def _products(self) -> np.ndarray:
        return At(self.posterior.shared, self.X).inner_products()

    @cached_property
    def _k0(self) -> np.ndarray:
        return self.posterior.problem.prior.var(self.X)

    def each(self) -> Iterator[At]:
        """Target by target, each with its own L."""
        for one in self.posterior.each:
            yield At(one, self.X).knowing(W=one._solve(self._products), k0=self._k0)

    @cached_property
    def mean(self) -> np.ndarray:
        problem, support = self.posterior.problem, self.posterior.shared._prepared.support
        v = np.concatenate([one.state.representer_weights for one in self.posterior.each], axis=1)
        return problem.with_prior_mean(self.X, problem.gram.cross(self.X, v, support))

    @cached_property
    def var(self) -> np.ndarray:
        return beside([at.var for at in self.each()])

    @property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        return self.mean, self.var

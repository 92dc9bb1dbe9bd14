"""State: a belief, and the progress of the run that leads to it."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from itergp import brief
from itergp.linalg.basis import Basis, Factor
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.solver.belief import Belief
from itergp.solver.problem import Problem

if TYPE_CHECKING:
    from itergp.solver.stopping import StoppingCriterion


class Status(Enum):
    """How a run ended."""

    CONVERGED = "converged"
    BUDGET = "budget"
    EXACT = "exact"
    ACTIONS_EXHAUSTED = "actions exhausted"
    PRECISION_LIMIT = "precision limit"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "The criterion was met. Nothing to do.",
    Status.BUDGET: "The budget is used up. The posterior is valid, and its variance accounts for the missing "
    "computation. Call `refine` to continue.",
    Status.EXACT: "There are as many independent actions as rows: inference is exact for these "
    "hyper-parameters. More actions change nothing.",
    Status.ACTIONS_EXHAUSTED: "The policy has no more directions. Call `refine` with another policy to "
    "continue.",
    Status.PRECISION_LIMIT: "Rounding hides any effect of further actions. Use Compute(dtype='float64') or "
    "more noise.",
    Status.INTERRUPTED: "The run was stopped early. Completed work is kept and valid. Call `refine` to "
    "continue.",
}


@dataclass(frozen=True)
class Progress:
    """How much was done so far; also one record of the trace."""

    actions: int = 0  # accepted: the rank
    dropped: int = 0  # linearly dependent on earlier ones
    passes: int = 0  # products with the whole of K
    entries: int = 0  # kernel evaluations
    seconds: float = 0.0


@dataclass(frozen=True)
class Step(Progress):
    """A record of the trace: the progress after a step, and its result."""

    residual_norm: float = 0.0
    energy: float = 0.0  # b^T v, rises to b^T K_hat^{-1} b
    elbo: float = 0.0  # <= log marginal likelihood, equal at rank n
    mean_training_variance: float = 0.0


@dataclass(frozen=True)
class Stage:
    """Whose turn it is, and its progress: what it prepared, how much it proposed, and when it began."""

    policy: Any  # the policy acting now; inside a Schedule, that of the entry
    limit: "StoppingCriterion | None" = None  # how long its turn is
    memory: Any = None
    proposed: int = 0
    index: int = 0  # of the turn
    begun: Progress = field(default_factory=Progress)

    __repr__ = brief.call

    def over(self, state: "State") -> bool:
        return self.limit is not None and self.limit.reached(self.begun, state)

    def room(self, state: "State") -> float:
        """How many more actions it may propose."""
        return np.inf if self.limit is None else self.limit.allowance(self.begun, state)


@dataclass(frozen=True, eq=False)
class State:
    """Immutable: the belief and the run so far. Attributes of the belief can be read here too."""

    belief: Belief
    seed: int = 0
    counter: int = 0  # of calls to policies
    policy: Any = None
    stage: Stage | None = None
    idle: int = 0  # consecutive blocks without a usable action
    progress: Progress = field(default_factory=Progress)
    trace: tuple[Step, ...] = ()
    status: Status | None = None
    tick: Tick = no_tick  # inside a step: called during long work, which it ends when the time is over

    def __repr__(self) -> str:
        parts = {"policy": brief.value(self.policy)} | self.problem.described
        return brief.lines(f"State: {self.problem.size}; {self.reached}", **parts)

    @property
    def reached(self) -> str:
        """How far it came, in words."""
        done = brief.counted(self.rank, "action"), brief.counted(self.progress.passes, "pass")
        ended = "" if self.status is None else f", ended by: {self.status.value}"
        return f"{done[0]} in {done[1]} over K{ended}"

    @staticmethod
    def start(problem: Problem, seed: int = 0) -> "State":
        """No computation yet."""
        return State(Belief.start(problem), seed)

    def believing(self, belief: Belief) -> "State":
        """Continue from another belief: a prefix, more data, other noise. The policy starts over, since what
        it prepared was for the old one."""
        return replace(
            self,
            belief=belief,
            policy=None,
            stage=None,
            progress=replace(self.progress, actions=belief.rank),
            trace=tuple(step for step in self.trace if step.actions <= belief.rank),
            status=Status.EXACT if belief.rank == belief.problem.n else None,
        )

    def with_targets(self) -> "State":
        """The same run with its targets, if a file did not store them."""
        belief = self.belief.with_targets()
        return self if belief is self.belief else replace(self, belief=belief)

    def ended(self, status: Status) -> "State":
        return replace(self, status=status)

    def record(self) -> Step:
        return Step(
            **vars(self.progress),
            residual_norm=self.belief.sums.residual_norm,
            energy=self.energy,
            elbo=self.elbo,
            mean_training_variance=self.belief.sums.mean_variance,
        )

    # The run, as policies read it.

    @property
    def memory(self) -> Any:
        """What the policy prepared when it began."""
        return None if self.stage is None else self.stage.memory

    @property
    def proposed(self) -> int:
        """How many actions the policy proposed since it began."""
        return 0 if self.stage is None else self.stage.proposed

    def rng(self) -> np.random.Generator:
        """A random generator for this call of the policy: the same for the same seed and step, however the
        run was cut."""
        return np.random.default_rng([self.seed, self.counter])

    # The belief.

    @property
    def problem(self) -> Problem:
        return self.belief.problem

    @property
    def basis(self) -> Basis:
        """The actions Q, and K Q."""
        return self.belief.basis

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.belief.blocks

    @property
    def factor(self) -> Factor:
        return self.belief.factor

    @property
    def z(self) -> np.ndarray:
        return self.belief.z

    @property
    def tau(self) -> np.ndarray:
        return self.belief.tau

    @property
    def rank(self) -> int:
        """How many actions are accepted."""
        return self.belief.rank

    @property
    def representer_weights(self) -> np.ndarray:
        """v, (n, t)"""
        return self.belief.representer_weights

    @property
    def residual(self) -> np.ndarray:
        """r = b - K_hat v, (n, t)"""
        return self.belief.residual

    @property
    def training_variance(self) -> np.ndarray:
        """k_i(x_j, x_j) at the training inputs."""
        return self.belief.training_variance

    @property
    def L(self) -> np.ndarray:
        return self.belief.L

    @property
    def coefficients(self) -> np.ndarray:
        """c = G^{-1} Q^T b"""
        return self.belief.coefficients

    @property
    def coarsest(self) -> str:
        return self.belief.coarsest

    @property
    def energy(self) -> float:
        """b^T v"""
        return self.belief.energy

    @property
    def elbo(self) -> float:
        """The computation-aware evidence lower bound, summed over targets."""
        return self.belief.elbo

    @property
    def projected_log_likelihood(self) -> float:
        """log N(Q^T b; 0, G), summed over targets."""
        return self.belief.projected_log_likelihood

    def last_products(self) -> np.ndarray:
        """K Q_b of the last block."""
        return self.belief.last_products()

    def search_directions(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """D = Q L^{-T}: conjugate, scaled to eta = 1."""
        return self.belief.search_directions(start, stop)

    def search_products(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """K D, without the noise."""
        return self.belief.search_products(start, stop)

    def precision(self) -> np.ndarray:
        """C = D D^T, dense: for tests and small n."""
        return self.belief.precision()

    def preconditioner(self) -> DiagonalPlusLowRank:
        """P = N + U U^T with U = K D."""
        return self.belief.preconditioner()

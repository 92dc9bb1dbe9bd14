"""State: what has been computed, and the belief about v* that follows. It alone crosses from computation
to inference."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from itergp.linalg.basis import Basis, Factor
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.solver.problem import Problem

# Entries of Q^T K Q between two actions come from the product whose tau is below this share of the other's;
# from whichever is at hand where both are alike. The coarser one would err by its own tau, where sqrt(tau_1
# tau_2) is allowed for.
FINER = 0.1


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
    Status.BUDGET: "The budget is used. The posterior is valid, and its variance says what is missing; "
    "`refine` goes on.",
    Status.EXACT: "As many independent actions as data: exact inference for these hyper-parameters. More "
    "actions change nothing.",
    Status.ACTIONS_EXHAUSTED: "The policy has no new direction to offer. `refine` with another policy to go "
    "on.",
    Status.PRECISION_LIMIT: "Rounding hides what further actions would show. Use Compute(dtype='float64') or "
    "more noise.",
    Status.INTERRUPTED: "The run was stopped from outside. What was computed is kept and valid; `refine` "
    "goes on.",
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
    """A record of the trace: the progress after a step, and where it led."""

    residual_norm: float = 0.0
    energy: float = 0.0  # b^T v, rises to b^T K_hat^{-1} b
    elbo: float = 0.0  # <= log marginal likelihood, equal at rank n
    mean_training_variance: float = 0.0


@dataclass(frozen=True)
class Stage:
    """Where a policy stands: what it prepared, how much it proposed, and when it began."""

    policy: Any  # the one that acts now; inside a Schedule, that entry's
    memory: Any = None
    proposed: int = 0
    index: int = 0
    begun: Progress = field(default_factory=Progress)


@dataclass(frozen=True, eq=False)
class State:
    """Immutable. `rank` actions are accepted; `basis` and `factor` may hold more of a block that a budget
    cut."""

    problem: Problem
    basis: Basis
    factor: Factor  # L L^T = G = Q^T K Q + Q^T N Q + diag(tau)
    factor_A: Factor | None  # of A = Q^T N Q, where the noise differs between rows
    z: np.ndarray  # L^{-1} Q^T b
    tau: np.ndarray
    blocks: tuple[int, ...]  # where each computed block starts, and where the last one ends
    rank: int
    representer_weights: np.ndarray  # v, (n, t)
    residual: np.ndarray  # r = b - K_hat v, (n, t)
    training_variance: np.ndarray  # k_i(x_j, x_j) at the training inputs
    trace_GA: float  # tr(G^{-1} A), for the ELBO
    seed: int
    counter: int = 0  # of calls to policies
    policy: Any = None
    stage: Stage | None = None
    idle: int = 0  # blocks in a row of which nothing could be used
    progress: Progress = field(default_factory=Progress)
    trace: tuple[Step, ...] = ()
    status: Status | None = None
    tick: Tick = no_tick  # inside a step: to be called during long work, which it ends when the time is over

    @staticmethod
    def start(problem: Problem, seed: int = 0) -> "State":
        """No computation yet: the belief about v* is N(0, K_hat^{-1}), which gives back the prior (Eq. 2)."""
        return State(
            problem=problem,
            basis=Basis.empty(problem.n),
            factor=Factor.empty(),
            factor_A=Factor.empty() if problem.noise_differs else None,
            z=np.zeros((0, problem.targets)),
            tau=np.zeros(0),
            blocks=(0,),
            rank=0,
            representer_weights=np.zeros_like(problem.b),
            residual=problem.b.copy(),
            training_variance=problem.gram.diagonal(),
            trace_GA=0.0,
            seed=seed,
        )

    # What a policy reads.

    @property
    def memory(self) -> Any:
        """What the policy prepared when it began."""
        return None if self.stage is None else self.stage.memory

    @property
    def proposed(self) -> int:
        """How many actions the policy proposed since it began."""
        return 0 if self.stage is None else self.stage.proposed

    def rng(self) -> np.random.Generator:
        """Randomness for this call of the policy: the same for the same seed and step, however the run was
        cut."""
        return np.random.default_rng([self.seed, self.counter])

    def last_products(self) -> np.ndarray:
        """K Q_b of the last block."""
        if len(self.blocks) < 2:
            return np.zeros((self.problem.n, 0))
        return self.basis.KQ.between(self.blocks[-2], self.blocks[-1])

    # What follows from Q and K Q without another product (errata page, "One product per step").

    @property
    def coarsest(self) -> str:
        """The lowest precision among the products so far and the next ones: a run may have begun with
        float32 tiles.

        tau tells: no float64 product of these rows can have a larger one, since |K q| <= n max k(x, x).
        """
        gram = self.problem.gram
        if gram.dtype == np.float32 or not self.tau.size:
            return gram.dtype.name
        largest = gram.rounding(gram.n, gram.n * float(gram.diagonal().max()), "float64")
        return "float32" if self.tau.max() > largest else "float64"

    @property
    def L(self) -> np.ndarray:
        return self.factor.L(self.rank)

    @property
    def coefficients(self) -> np.ndarray:
        """c = G^{-1} Q^T b"""
        return self.factor.solve_transposed(self.z[: self.rank], self.rank)

    def search_directions(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """D = Q L^{-T}: conjugate, scaled to eta = 1."""
        return self.basis.combine(self._columns_of_inverse(start, stop))

    def search_products(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """K D, without the noise."""
        return self.basis.KQ.combine(self._columns_of_inverse(start, stop))

    def _columns_of_inverse(self, start: int, stop: int | None) -> np.ndarray:
        stop = self.rank if stop is None else stop
        return self.factor.solve_transposed(np.eye(self.rank)[:, start:stop], self.rank)

    def precision(self) -> np.ndarray:
        """C = D D^T, dense: for tests and small n."""
        D = self.search_directions()
        return D @ D.T

    def preconditioner(self) -> DiagonalPlusLowRank:
        """P = N + U U^T with U = K D (Remark S1, corrected: eta^(-1/2), and eta = 1 here)."""
        return DiagonalPlusLowRank(np.array(self.problem.N), self.search_products())

    @property
    def energy(self) -> float:
        return float((self.z[: self.rank] ** 2).sum())

    @property
    def elbo(self) -> float:
        """The computation-aware evidence lower bound, summed over targets."""
        N, t = self.problem.N, self.problem.targets
        if not N.min() > 0:
            return -np.inf
        # b - K Q c
        v, misfit = self.representer_weights, self.residual + N[:, None] * self.representer_weights
        expected = -0.5 * (
            t * float(np.log(2 * np.pi * N).sum() + (self.training_variance / N).sum())
            + float((misfit**2 / N[:, None]).sum())
        )
        logdet_G = 2.0 * float(np.log(np.diag(self.L)).sum())
        logdet_A = (
            self.rank * float(np.log(N[0]))
            if self.factor_A is None
            else 2.0 * float(np.log(np.diag(self.factor_A.L(self.rank))).sum())
        )
        quadratic = self.energy - float((N[:, None] * v**2).sum())
        return expected - 0.5 * (quadratic + t * (logdet_G - logdet_A - self.rank + self.trace_GA))

    @property
    def projected_log_likelihood(self) -> float:
        """log N(Q^T b; 0, G), summed over targets."""
        t = self.problem.targets
        logdet_G = 2.0 * float(np.log(np.diag(self.L)).sum())
        return -0.5 * (self.energy + t * (logdet_G + self.rank * float(np.log(2 * np.pi))))

    def ended(self, status: Status) -> "State":
        return replace(self, status=status)

    def record(self) -> Step:
        return Step(
            **vars(self.progress),
            residual_norm=float(np.linalg.norm(self.residual)),
            energy=self.energy,
            elbo=self.elbo,
            mean_training_variance=float(self.training_variance.mean()),
        )

"""Hyper-parameters from data: objectives in stages, each minimised by L-BFGS-B, within a strict time limit.

The best point seen is returned whatever ends a stage: convergence, the clock, Ctrl-C. Without a limit in
seconds the work is counted instead, so that the same data give the same bits.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from itergp.data.rows import Rows
from itergp.errors import InputError
from itergp.learning.endings import Ending, Learning
from itergp.learning.evaluation import over_targets
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.learning.parameters import Objective, Space
from itergp.learning.wide import MOST_ROWS, Shared, is_wide, stages as wide_stages
from itergp.limits import EXACT_LIKELIHOOD_ROWS
from itergp.linalg.compute import Compute
from itergp.linalg.libraries import require_working_room
from itergp.prior.kernel import Kernel
from itergp.validate import choice, noise_variance

SMALL_BATCH, NEIGHBOURS = 3000, 30
SUBSET, INDUCING_POINTS, BLOCK = 2000, 512, 256
FEW_ROWS, FEWEST_ROWS, FEW_EXACT_ROWS = 1000, 100, 250  # rows to begin with if time is short
EVALUATIONS = 20  # evaluations of an objective in some 15 iterations
PROBE, POOL = 256, 20_000  # rows timed beforehand, and the fewest among which a batch has its neighbours
SEARCH_SHARE = 0.25  # share of the remaining time for finding the neighbours of a batch
ROUNDS = 6  # rounds of updating the neighbours, at most
SETTLED = 1e-3  # nats per observation that updating the neighbours must still gain


@dataclass(frozen=True)
class Record:
    """One step of an optimiser."""

    stage: str
    iteration: int
    objective: float  # nats per observation
    seconds: float


@dataclass(frozen=True, eq=False)
class Learned:
    """Where learning ended."""

    kernel: Kernel
    noise: Any  # a number, or one per target
    objective: float
    trace: tuple[Record, ...] = ()
    stages: tuple[str, ...] = ()
    at_bounds: tuple[str, ...] = ()
    ended: Ending = Ending.CONVERGED

    @property
    def interrupted(self) -> bool:
        return self.ended is Ending.INTERRUPTED

    @property
    def learning(self) -> Learning:
        return Learning(self.ended, len(self.trace))


class OutOfTime(Exception):  # noqa: N818 (no error)
    """The clock ran out inside an evaluation."""


class Enough(Exception):  # noqa: N818 (no error)
    """The callback asked to stop."""


@dataclass(frozen=True, eq=False)
class Before:
    """Where an attempt began, and by how much it must lower the objective."""

    shared: Shared | None
    space: Space
    theta: np.ndarray
    objective: float
    ended: Ending
    price: float


@dataclass(eq=False)
class Run:
    """Shared by the stages of one call: the best point so far, the clock, the trace."""

    space: Space
    theta: np.ndarray
    seconds: float | None
    callback: Callable[[Record], Any] | None
    began: float = field(default_factory=lambda: time.perf_counter())
    objective: float = np.inf
    trace: list[Record] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    ended: Ending = Ending.NOT_ASKED  # of the last stage, or of all
    per_evaluation: float = 0.0  # seconds, of the last stage
    per_pair: float = 0.0  # seconds, of the last search for neighbours
    batch: int = 1  # rows of the last stage with neighbours
    # tolerance at which an optimiser has converged: SciPy's default
    tolerance: float = 1e7 * float(np.finfo(np.float64).eps)
    shared: Shared | None = None  # if the space is that of a reduced kernel
    before: "Before | None" = None  # an attempt

    @property
    def left(self) -> float:
        return np.inf if self.seconds is None else self.seconds - (time.perf_counter() - self.began)

    def tick(self) -> None:
        if self.left <= 0:
            raise OutOfTime

    @property
    def kernel(self) -> Kernel:
        return self.space.values(self.theta)[0]

    def seconds_of(self, objective: Objective) -> float:
        """The time of one evaluation."""
        began = time.perf_counter()
        objective(*self.space.values(self.theta))
        return time.perf_counter() - began

    def summed(self, rows: Rows, make: Callable[[Rows], Objective]) -> Objective:
        """The objective of these rows; if each target has its own noise, the sum over targets."""
        return (
            make(rows)
            if np.ndim(self.space.noise) == 0
            else over_targets([make(of_target) for of_target in rows.each()])
        )

    def reduce(self, shared: Shared, kernel: Kernel, noise: Any, rows: Rows) -> None:
        """Continue with a reduced kernel."""
        self.shared, self.space = shared, shared.space(kernel, noise, rows, self.space.learn_noise)
        self.theta = self.space.vector(kernel, noise)

    def attempt(self, shared: Shared, kernel: Kernel, noise: Any, rows: Rows, price: float) -> None:
        """The same, for a stage that must lower the objective by `price`: see `settle`."""
        self.before = Before(self.shared, self.space, self.theta, self.objective, self.ended, price)
        self.reduce(shared, kernel, noise, rows)

    def settle(self) -> bool:
        """After an attempt: whether it was worth its price; if not, it is undone."""
        before, self.before = self.before, None
        if before is None or before.objective - self.objective > before.price:
            return True
        self.shared, self.space, self.theta, self.objective = (
            before.shared,
            before.space,
            before.theta,
            before.objective,
        )
        self.ended = before.ended
        return False

    def found(self) -> tuple[Kernel, Any, tuple[str, ...]]:
        """The kernel, the noise, and the parameters that ended at the edge of their range."""
        self.settle()
        (kernel, noise), names = self.space.values(self.theta), self.space.at_bounds(self.theta)
        if self.shared is None:
            return kernel, noise, names
        return self.shared.expanded(kernel), noise, tuple(map(self.shared.name, names))

    def minimise(self, name: str, objective: Objective, iterations: int) -> None:
        """L-BFGS-B from the best point so far. The best point found is kept even if it is interrupted."""
        self.stages.append(name)
        reached, self.objective, evaluations, began = self.objective, np.inf, 0, time.perf_counter()
        best = self.theta

        def total(theta: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, evaluations
            self.tick()
            found, (penalty, pull) = objective(*self.space.values(theta)), self.space.prior(theta)
            evaluations += 1
            value = found.value + penalty
            if value < self.objective:
                self.objective, best = value, theta.copy()
            return value, self.space.slope(found, theta) + pull

        def after(_: np.ndarray) -> None:
            record = Record(name, len(self.trace), self.objective, time.perf_counter() - self.began)
            self.trace.append(record)
            if self.callback is not None and self.callback(record):
                raise Enough

        try:
            options = {"maxiter": iterations, "maxcor": 20, "ftol": self.tolerance}
            found = minimize(
                total,
                best,
                jac=True,
                method="L-BFGS-B",
                bounds=self.space.bounds,
                callback=after,
                options=options,
            )
            self.ended = Ending.LIMIT if found.nit >= iterations else Ending.CONVERGED
        finally:
            # the clock ended the stage before it began: the result of the last one still holds
            if not evaluations:
                self.objective = reached
            self.theta = best
            self.per_evaluation = (time.perf_counter() - began) / max(1, evaluations)


def learn(
    X: ArrayLike,
    y: ArrayLike,
    kernel: Kernel,
    noise: Any,
    *,
    counts: ArrayLike | None = None,
    scatter: ArrayLike = 0.0,
    learn_noise: bool = True,
    method: str = "auto",
    seconds: float | None = None,
    seed: int = 0,
    callback: Callable[[Record], Any] | None = None,
    compute: Compute = Compute(),
) -> Learned:
    """Learn the kernel's parameters and the noise from data, starting at the given values.

    y is already centred by the prior mean. Row i stands for counts[i] observations with the same input and
    mean y[i], and `scatter` is the sum of squares around these means. With one `noise` per target, each is
    learned separately, and `scatter` must be given per target; a single number is shared by all. `seconds`
    limits the time; the result is valid whenever it ends.
    """
    rows = Rows.of(X, y, counts, scatter)
    limits: dict[str, Any] = {"seconds": seconds, "seed": seed, "callback": callback, "compute": compute}
    return learn_rows(rows, kernel, noise, learn_noise, method, **limits)


def learn_rows(
    rows: Rows,
    kernel: Kernel,
    noise: Any,
    learn_noise: bool = True,
    method: str = "auto",
    *,
    seconds: float | None = None,
    seed: int = 0,
    callback: Callable[[Record], Any] | None = None,
    compute: Compute = Compute(),
) -> Learned:
    """`learn`, for a `Rows`: X, centred y, counts and scatter in one."""
    require_working_room()
    noise = _checked(noise, rows.t)
    choice("method", method, METHODS)
    kernel.check_features(rows.X.shape[1])
    space = Space.of(kernel, noise, rows, learn_noise)
    run = Run(space, space.vector(kernel, noise), seconds, callback)
    try:
        for name, objective, iterations in _stages(method, rows, run, seed, compute):
            run.minimise(name, objective, iterations)
    except OutOfTime:
        run.ended = Ending.BUDGET
    except Enough:
        run.ended = Ending.STOPPED
    except KeyboardInterrupt:
        run.ended = Ending.INTERRUPTED
    ended, (found, found_noise, at_bounds) = run.ended, run.found()
    kernel, noise = (found, found_noise) if method != "none" else (kernel, noise)
    return Learned(kernel, noise, run.objective, tuple(run.trace), tuple(run.stages), at_bounds, ended)


def _checked(noise: Any, targets: int) -> Any:
    if np.ndim(noise) and np.shape(noise) != (targets,):
        raise InputError(
            f"noise has shape {np.shape(noise)}; expected a number, or one value for each of {targets} "
            "targets."
        )
    return noise_variance("noise", noise, targets)


Stage = tuple[str, Objective, int]  # a name, what is minimised, and for how many iterations


def _stages(method: str, rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """The stages of a method, each created when the previous one has ended, to start from its result."""
    if method in ("auto", "exact", "subset") and is_wide(run.kernel, rows):
        return wide_stages(rows, run, seed, rows.n if method == "exact" else MOST_ROWS)
    if method == "auto":
        method = "exact" if rows.n <= EXACT_LIKELIHOOD_ROWS else "neighbours"
    return STAGES[method](rows, run, seed, compute) if method in STAGES else iter(())


def _exact(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    from itergp.learning.exact import exact

    def of(some: Rows) -> Objective:
        return run.summed(some, lambda of: exact(of, compute=compute, tick=run.tick))

    if run.seconds is not None and rows.n > 2 * FEW_EXACT_ROWS:
        few = of(_few(rows, FEW_EXACT_ROWS, seed))
        if EVALUATIONS * run.seconds_of(few) * (rows.n / FEW_EXACT_ROWS) ** 3 > 0.5 * run.left:
            yield "exact, a few rows", few, 15
    yield "exact", of(rows), 200


def _subset(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    from itergp.learning.exact import subset

    how: dict[str, Any] = {"seed": seed, "compute": compute, "tick": run.tick}
    yield "subset", run.summed(rows, lambda of: subset(of, SUBSET, **how)), 50


def _iterative(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """The likelihood of all rows by products with K, starting from the result on a subset."""
    from itergp.learning.iterative import iterative

    yield from _subset(rows, run, seed, compute)
    how: dict[str, Any] = {"seed": seed, "compute": compute, "tick": run.tick}
    yield "iterative", run.summed(rows, lambda of: iterative(of, **how)), 30


def _sgpr(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    from itergp.learning.inducing import sgpr

    how: dict[str, Any] = {"seed": seed, "compute": compute}
    yield (
        "inducing points",
        run.summed(rows, lambda of: sgpr(of, INDUCING_POINTS, **how)),
        100,
    )


def _elbo(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """The computation-aware ELBO of pseudo-inputs, after the neighbours; actions are renewed twice."""
    from itergp.learning.actions import elbo
    from itergp.posterior.combined import condition
    from itergp.prior.gp import Prior
    from itergp.solver.policies import PseudoInput
    from itergp.solver.stopping import MaxActions

    def with_actions() -> Objective:
        kernel, noise = run.space.values(run.theta)
        block, N = PseudoInput(block_size=BLOCK), rows.N(float(np.min(noise)))
        Q = condition(
            Prior(kernel), rows.X, rows.Y, N, block, MaxActions(min(BLOCK, rows.n)), compute, seed
        ).actions
        return run.summed(rows, lambda of: elbo(of, Q, compute=compute, tick=run.tick))

    yield from _neighbours(rows, run, seed, compute)
    for _ in range(3):
        yield "computation-aware ELBO", with_actions(), 10


def _neighbours(rows: Rows, run: Run, seed: int, compute: Compute) -> Iterator[Stage]:
    """A small batch while the metric is still inaccurate, then all rows, updating the neighbours between
    rounds.

    Within a time limit, a batch has its neighbours among as many rows as can be searched in a share of the
    time: it is the likelihood of those rows. If even the first batch might take too long, a few rows come
    first, so that something is learned in any case. Otherwise they do not, since few rows can mislead if
    there are many features.
    """

    def at(batch: int | None, m: int, pool: int | None = None) -> Objective:
        some, began = rows if pool is None or pool >= rows.n else _few(rows, pool, seed), time.perf_counter()
        found = NeighbourLikelihood.at(run.kernel, some, m, batch, seed, compute, run.tick)
        run.batch = found.batch
        run.per_pair = 2.0 * (time.perf_counter() - began) / (run.batch * some.n)
        # all targets share the neighbours
        return run.summed(found.rows, lambda of: replace(found, rows=of))

    batch, pool, before = None, None, np.inf
    few = (
        0
        if run.seconds is None or rows.n <= FEW_ROWS
        else _in_a_hurry(rows.n, run, at(PROBE, NEIGHBOURS // 2, POOL))
    )
    if few:
        yield "neighbours, a few rows", at(None, NEIGHBOURS // 2, few), 15
    if rows.n > SMALL_BATCH:
        yield (
            "neighbours, a small batch",
            at(SMALL_BATCH // 2, NEIGHBOURS // 2, _searchable(SMALL_BATCH // 2, run)),
            15,
        )
        yield "neighbours, a batch", at(SMALL_BATCH, NEIGHBOURS, _searchable(SMALL_BATCH, run)), 15
        batch, pool = _affordable(rows.n, run, rounds=2)
    for _ in range(ROUNDS):
        yield (
            "neighbours, all rows" if batch is None else "neighbours, a large batch",
            at(batch, NEIGHBOURS, pool),
            15,
        )
        if before - run.objective >= SETTLED:
            before = run.objective
            continue
        run.ended = Ending.CONVERGED
        larger, wider = _affordable(rows.n, run, rounds=1)
        if batch is None or (larger is not None and larger < 1.5 * batch):
            return
        batch, pool, before = larger, wider, np.inf  # there is time for more rows


def _few(rows: Rows, count: int, seed: int) -> Rows:
    return rows.some(np.random.default_rng([seed, count]).permutation(rows.n)[:count])


def _in_a_hurry(n: int, run: Run, probe: Objective) -> int:
    """The number of rows to begin with; 0 if the first batch takes less than half of the time left."""
    per_row, batch = run.seconds_of(probe) / run.batch, min(n, SMALL_BATCH // 2)
    search = 0.5 * run.per_pair * batch * n
    if EVALUATIONS * per_row * batch + search < 0.5 * run.left:
        return 0
    return int(min(FEW_ROWS, max(FEWEST_ROWS, 0.5 * run.left / (EVALUATIONS * per_row))))


def _searchable(batch: int, run: Run) -> int | None:
    """Among how many rows a batch's neighbours can be searched in a share of the time left; None: any."""
    if run.seconds is None:
        return None
    return max(POOL, int(2.0 * SEARCH_SHARE * run.left / (batch * max(run.per_pair, 1e-12))))


def _affordable(n: int, run: Run, rounds: int) -> tuple[int | None, int | None]:
    """A batch for which the remaining time allows this many rounds of 15 iterations, each with its search,
    and the rows among which its neighbours are searched; None: all rows."""
    pool = min(n, _searchable(SMALL_BATCH, run) or n)
    per_row = rounds * (15.0 * max(run.per_evaluation, 1e-6) / run.batch + 0.5 * run.per_pair * pool)
    batch = run.left / per_row
    if batch >= n <= pool:
        return None, None
    return min(pool, max(SMALL_BATCH, int(batch))), pool


# The methods of learning by name; a new method only needs an entry here.
STAGES: dict[str, Callable[[Rows, Run, int, Compute], Iterator[Stage]]] = {
    "neighbours": _neighbours,
    "exact": _exact,
    "iterative": _iterative,
    "sgpr": _sgpr,
    "elbo": _elbo,
    "subset": _subset,
}
METHODS = ("auto", *STAGES, "none")

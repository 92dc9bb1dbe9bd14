"""The course of a fit: scale, merge, learn, act. Plain values in, plain values out; the estimator has the
manners."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from itergp.data.rows import Merged, variances
from itergp.errors import InputError, LearningWarning
from itergp.estimator.budgets import LEARNING_SHARE, Budget, FromTheStart, Until, actions_in_memory
from itergp.estimator.names import Translated
from itergp.estimator.progress import Interrupts, Watch
from itergp.estimator.schedules import default_schedule, default_stop, policy_by_the_clock
from itergp.learning.endings import Ending, Learning
from itergp.linalg.compute import Compute
from itergp.posterior.combined import NEW_ROWS, Posterior
from itergp.posterior.targets import TargetPosterior
from itergp.prior.gp import Prior
from itergp.prior.kernel import Kernel
from itergp.prior.means import Mean
from itergp.solver.loop import accept_waiting
from itergp.solver.more_data import extend, reweighted
from itergp.solver.policies import UnitVector
from itergp.solver.problem import Problem, centred, check_kernel_values
from itergp.solver.run import solve
from itergp.solver.state import State, Status
from itergp.solver.stopping import MaxActions, StoppingCriterion
from itergp.validate import as_float64, choice

if TYPE_CHECKING:
    from itergp.learning import Learned

START_NOISE = 0.1  # of the targets' variance, where learning begins
Report = Callable[[State], bool]  # after each step; True asks to stop
METHODS = ("auto", "neighbours", "exact", "iterative", "sgpr", "elbo", "subset", "none")
GIVEN = Learning(Ending.NOT_ASKED)
FEW = 128  # actions after Ctrl-C during learning: columns of K only, no pass


@dataclass
class Clock:
    """The wall clock of a fit, from its first line on, and what each part took."""

    budget: Budget
    began: float = field(init=False)
    timings: dict[str, float] = field(default_factory=dict)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self._last = time.perf_counter()

    @property
    def deadline(self) -> float | None:
        """A little before the end: what comes after the last step takes a moment."""
        seconds = self.budget.seconds
        return None if seconds is None else self.began + seconds - min(0.2, 0.02 * seconds)

    def left(self) -> Budget:
        """The budget, with the seconds that are left of it."""
        if self.deadline is None:
            return self.budget
        return Budget(seconds=max(1e-3, self.deadline - time.perf_counter()))

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.timings[name] = self.timings.get(name, 0.0) + now - self._last
        self._last = now

    def total(self, earlier: dict[str, float] | None = None) -> dict[str, float]:
        """The seconds of each part so far, with those of earlier calls."""
        now = self.timings | {"total": time.perf_counter() - self.began}
        return (
            now
            if earlier is None
            else earlier | {name: earlier.get(name, 0.0) + value for name, value in now.items()}
        )

    def after(self, earlier: dict[str, float]) -> dict[str, float]:
        """The seconds of a model that was acted on once more, since its earlier calls: all of this call
        went into acting."""
        now = self.total()["total"]
        return earlier | {name: earlier.get(name, 0.0) + now for name in ("act", "total")}


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be fitted, and how; in the units of the fit."""

    data: Merged
    start: Translated
    mean: Mean
    noise: Any  # a variance, one for each target, or "learn"
    learn: Any
    policy: Any  # "auto" where it is chosen after learning, by the time that is left
    compute: Compute
    seed: int
    learnable: Any = True  # whether a target tells something: values that differ; one flag for each

    @property
    def learns(self) -> bool:
        """Whether anything is to be learned."""
        return self.method != "none" and not self.start.keeps_kernel()

    @property
    def told(self) -> np.ndarray:
        """The targets that take part in learning. The others would only draw the kernel that all share
        towards nothing."""
        return np.flatnonzero(np.broadcast_to(self.learnable, self.data.targets))

    @property
    def method(self) -> str:
        """How hyper-parameters are learned; "none" where they are not."""
        if isinstance(self.learn, bool | np.bool_):
            return "auto" if self.learn else "none"
        return choice("learn", self.learn, METHODS)


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Where learning ended, or what was given."""

    kernel: Kernel
    noise: Any  # a number, or one for each target
    learned: "Learned | None" = None
    learning: Learning = GIVEN


def hyperparameters(plan: Plan, clock: Clock, watch: Watch) -> Hyperparameters:
    """What is to be learned is learned, within its share of the time; the rest stays as given."""
    data, mean, start, method = plan.data, plan.mean, plan.start, plan.method
    check_kernel_values(start.kernel, data.X)
    b = centred(Prior(start.kernel, mean), data.X, data.y)
    given = _given_noise(plan.noise, start.noise, data.targets)
    learn_noise = given is None and method != "none" and not start.keeps_noise()
    if given is None:
        given = _start_noise(start.noise, b, plan) if learn_noise else start.noise
        if given is None:
            raise InputError(
                "noise is 'learn' but learn is False; give the noise variance as a number, such "
                "as noise=0.01."
            )
    if method == "none" or (start.keeps_kernel() and not learn_noise):
        return Hyperparameters(start.kernel, given)
    if start.keeps_kernel():
        raise InputError(
            "kernel: its hyper-parameters are fixed, but the noise is not; give noise=<number> "
            "or learn=False."
        )
    if not np.any(plan.learnable):
        return Hyperparameters(start.kernel, given, learning=Learning(Ending.NOTHING_TO_LEARN))
    from itergp.learning import learn

    interrupted = Hyperparameters(start.kernel, given, learning=Learning(Ending.INTERRUPTED))
    if watch.interrupts.asked:
        return interrupted
    seconds, told = clock.left().seconds, plan.told
    watch.begin("learning")
    try:
        with watch.interrupts.raised():
            learned = learn(
                data.X,
                b[:, told],
                start.kernel,
                _one_or_each(given[told]) if np.ndim(given) else given,
                counts=None if (data.counts == 1).all() else data.counts,
                scatter=_one_or_each(np.atleast_1d(data.scatter)[told]),
                learn_noise=learn_noise,
                method=method,
                seconds=None if seconds is None else LEARNING_SHARE * seconds,
                seed=plan.seed,
                callback=watch.learned,
                compute=plan.compute,
            )
    except KeyboardInterrupt:
        return interrupted
    finally:
        watch.end()
    if learned.learning.falls_short:
        warnings.warn(learned.learning.advice, LearningWarning, stacklevel=5)
    noise = learned.noise
    if np.ndim(given):
        noise = np.array(given)  # that of a target which tells nothing stays as it began
        noise[told] = learned.noise
    return Hyperparameters(learned.kernel, noise, learned, learned.learning)


def _start_noise(white: float | None, b: np.ndarray, plan: Plan) -> Any:
    """Where learning begins: a noise for each target; a number where there is one target."""
    sizes, told, data = np.ones(b.shape[1]), plan.told, plan.data
    if told.size:
        sizes[told] = variances(b[:, told], data.counts, np.atleast_1d(data.scatter)[told])
    return _one_or_each(START_NOISE * sizes if white is None else np.full(b.shape[1], white))


def _one_or_each(values: np.ndarray) -> Any:
    """A number where there is one target."""
    return float(values[0]) if values.size == 1 else values


def _given_noise(noise: Any, white: float | None, targets: int) -> Any:
    """The noise variance where it is given: as a number, or as one for each target."""
    if isinstance(noise, str) and noise == "learn":
        return None
    listed = targets > 1 and isinstance(noise, list | tuple | np.ndarray)
    several = listed and as_float64("noise", noise).shape == (targets,)
    if not several and (
        isinstance(noise, bool) or not isinstance(noise, int | float | np.integer | np.floating)
    ):
        each = f", one for each of the {targets} targets" if targets > 1 else ""
        raise InputError(
            f"noise is {noise!r}; expected 'learn' or a variance >= 0{each}. For one value per row, use "
            "itergp.condition."
        )
    values = as_float64("noise", noise)
    if not ((values >= 0) & (values < np.inf)).all():
        raise InputError(f"noise is {noise!r}; expected 'learn' or a variance: a finite number >= 0.")
    if white is not None:
        raise InputError(
            "noise is given twice: as a number and as a WhiteKernel in the kernel. Leave one of them out."
        )
    return values if several else float(noise)


def believed(posterior: Posterior, noise: Any, counts: np.ndarray) -> Any:
    """The posterior itself; where each target has a noise of its own, that of each target from the same
    actions."""
    if np.ndim(noise) == 0:
        return posterior
    return TargetPosterior(posterior, noise if (counts == 1).all() else np.divide.outer(noise, counts))


def reporter(
    watch: Watch, attributes: Callable[[Posterior], dict[str, Any]] | None = None, checkpoint: Any = None
) -> Report:
    """What the solver calls after each step."""

    def report(state: State) -> bool:
        if checkpoint is not None:
            checkpoint.write(state)
        if attributes is None:
            return watch.acted(state)
        return watch.acted(state, lambda: attributes(Posterior(state.problem, state, state.policy)))

    return report


def infer(
    plan: Plan, found: Hyperparameters, clock: Clock, report: Report, checkpoint: Any, interrupts: Interrupts
) -> tuple[Posterior, int]:
    """The posterior that the budget allows, and the action from which it resumed. After Ctrl-C: a few
    actions, no pass."""
    data, seed = plan.data, plan.seed
    problem = Problem(
        Prior(found.kernel, plan.mean), data.X, data.y, data.noise(float(np.min(found.noise))), plan.compute
    )
    policy = plan.policy
    if isinstance(policy, str):
        hurry = interrupts.asked and (checkpoint is None or "policy" not in checkpoint.about)
        policy = (
            default_schedule(problem.n, clock.budget)
            if hurry
            else policy_by_the_clock(problem, clock.left(), checkpoint)
        )
    state = None if checkpoint is None else checkpoint.resume(problem, policy)
    resumed = 0 if state is None else state.rank
    if interrupts.asked:
        return _in_a_hurry(problem, policy, state, seed, interrupts), resumed
    state = State.start(problem, seed) if state is None else state
    state = solved(state, policy, FromTheStart(stopping(clock, problem.n)), report, interrupts)
    if checkpoint is not None:
        checkpoint.write_now(state)
    return Posterior(problem, state, policy), resumed


def solved(
    state: State, policy: Any, stop: StoppingCriterion, report: Report | None, interrupts: Interrupts
) -> State:
    """`solve`, with the last state that was reported where Ctrl-C strikes just outside its loop."""
    latest = state

    def remember(now: State) -> bool:
        nonlocal latest
        latest = now
        return report is not None and report(now)

    try:
        with interrupts.raised():
            return solve(state.problem, policy, stop, state, callback=remember)
    except KeyboardInterrupt:
        return latest.ended(Status.INTERRUPTED)


def stopping(clock: Clock, n: int) -> StoppingCriterion:
    """The end of the inference: by the clock and by what fits in memory, or by what is counted."""
    if clock.deadline is None:
        return default_stop(n, clock.budget)
    return Until(clock.deadline) | MaxActions(actions_in_memory(n))


def _in_a_hurry(
    problem: Problem, policy: Any, state: State | None, seed: int, interrupts: Interrupts
) -> Posterior:
    """Somebody waits: a few unit vectors, which need no pass over K."""
    if state is None:
        few, stop = UnitVector("random", block_size=FEW), MaxActions(FEW) | Until(time.perf_counter() + 1.0)
        state = solved(State.start(problem, seed), few, stop, None, interrupts)
    return Posterior(
        problem, state if state.status is Status.EXACT else state.ended(Status.INTERRUPTED), policy
    )


def update(
    posterior: Posterior | TargetPosterior,
    old: Merged,
    new: Merged,
    noise: Any,
    clock: Clock,
    report: Report,
    interrupts: Interrupts,
) -> Posterior:
    """More data: rows that were known change their mean and noise, the others are appended; then actions
    on all of these."""
    n, state, variances = len(old.X), posterior.state, new.noise(float(np.min(noise)))
    before, after = (variances, variances) if isinstance(variances, float) else (variances[:n], variances[n:])
    changed = np.flatnonzero(new.counts[:n] != old.counts)
    if changed.size:
        state = reweighted(state, before, new.y[:n])
    if len(new.X) > n:
        state = extend(state, new.X[n:], new.y[n:], after)
    state = accept_waiting(state)
    rows = np.concatenate([changed, np.arange(n, len(new.X))])
    rows = rows[~state.basis.spanned_rows()[rows]]
    if not rows.size:
        return Posterior(state.problem, state, posterior.policy)
    stop: StoppingCriterion = MaxActions(min(rows.size, NEW_ROWS))
    if clock.budget != Budget():
        stop = stopping(clock, state.problem.n) | MaxActions(rows.size)
    room = int(min(stop.allowance(state.progress, state), rows.size))
    if room < rows.size or clock.deadline is not None:  # perhaps not all: then any of them
        rows = np.random.default_rng([state.seed, state.counter]).permutation(rows)
    policy = UnitVector(order=rows, block_size=max(1, min(room, 64)))
    return Posterior(state.problem, solved(state, policy, stop, report, interrupts), posterior.policy)

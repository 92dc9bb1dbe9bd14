"""`noise="heteroscedastic"`: after kernel and noise are learned, how the noise varies, and both again."""

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from itergp.data.rows import Rows, places
from itergp.errors import LearningWarning
from itergp.estimator.clock import Clock
from itergp.estimator.hyperparameters import Hyperparameters, Plan, centred_rows, of_told
from itergp.estimator.progress import Watch
from itergp.estimator.schedules import learning_seconds
from itergp.learning.candidates import Candidate, rescaled
from itergp.learning.endings import Ending
from itergp.learning.heldout import Scores
from itergp.learning.run import Learned, OutOfTime, Timed, ending
from itergp.learning.training import learn_on
from itergp.learning.varying import Errors, errors_within, held_out_errors, learned_function

ROUNDS = 2
CONSTANT = (
    "Noise that varies with the inputs was asked for (heteroscedastic), but the budget ended before that was "
    "learned: the model has constant noise. Fit again with a larger budget."
)

Reweighted = Callable[[np.ndarray], Rows]  # the rows of the problem, for g at all rows of the data


@dataclass(eq=False)
class Rounds(Timed):
    """The clock of all rounds."""

    seconds: float | None
    began: float = field(default_factory=time.perf_counter)
    ended: Ending = Ending.CONVERGED


def varying(
    plan: Plan, found: Hyperparameters, data: Rows, rows: Reweighted, clock: Clock, watch: Watch
) -> Hyperparameters:
    """What was learned for constant noise, or for noise that varies where held-out errors show it.

    `data` has all observations. Whatever ends it, the clock or Ctrl-C, what the last complete round has found
    is valid.
    """
    if found.learned is None or not np.any(plan.learnable) or watch.interrupts.asked:
        return found
    total = clock.budget.seconds
    spent = time.perf_counter() - clock.began
    limit = None if total is None else learning_seconds(plan.policy, plan.data.n, total)
    rounds, best = Rounds(None if limit is None else max(1e-3, limit - spent)), found
    with ending(rounds), watch.interrupts.raised():
        for number in range(ROUNDS):
            after = _round(plan, best, data, rows, rounds, ROUNDS - number, watch)
            if after is None:
                break
            best = after
            if best.learned is not None and best.learned.interrupted:
                break
        if best is not found and plan.start.chosen:
            best = _rescaled(plan, best, data.X, rows, rounds)
    if best.function is None and rounds.ended is Ending.BUDGET:
        warnings.warn(CONSTANT, LearningWarning, stacklevel=5)
    assert best.learned is not None
    ended = best.learned.ended if rounds.ended is Ending.CONVERGED else rounds.ended
    learned = replace(best.learned, ended=ended)
    return replace(best, learned=learned, learning=learned.learning)


def _round(
    plan: Plan,
    found: Hyperparameters,
    data: Rows,
    rows: Reweighted,
    rounds: Rounds,
    left: int,
    watch: Watch,
) -> Hyperparameters | None:
    """g by the errors of this model, then kernel and noise for this g; None if noise does not vary."""
    seconds = None if rounds.seconds is None else rounds.left / (2 * left)
    errors = _errors(plan, found, data.X, rows, rounds)
    if plan.data.n < data.n:  # rows were merged
        told = centred_rows(plan, data)
        errors = errors.joined(errors_within(told, places(data.X), of_told(plan, found.noise), plan.seed))
    function = None
    with contextlib.suppress(*[OutOfTime] * (found.function is not None)):  # then the last one holds
        function = learned_function(errors, plan.seed, seconds, plan.compute, rounds.tick)
    if function is None:
        return None
    level = float(function(plan.data.X).mean())
    function = function.with_mean_one(plan.data.X)
    told = centred_rows(plan, rows(function(data.X)))
    unit, noise = told.unit, level * of_told(plan, found.noise)
    how: dict[str, Any] = {"seed": plan.seed, "callback": watch.learned, "compute": plan.compute}
    learned = learn_on(
        told.per(unit),
        found.kernel,
        noise / unit,
        plan.free.noise,
        plan.method,
        fixed=plan.start.held,
        seconds=None if rounds.seconds is None else max(1e-3, rounds.left / (2 * left)),
        **how,
    )
    return replace(
        found,
        kernel=learned.kernel,
        noise=_with_told(plan, found.noise, unit * learned.noise),
        learned=_joined(found.learned, learned),
        function=function,
    )


def _rescaled(
    plan: Plan, found: Hyperparameters, X: np.ndarray, rows: Reweighted, rounds: Rounds
) -> Hyperparameters:
    """Scale and noise by one factor where held-out errors say that all variances are off by it, as where a
    kernel was chosen for constant noise."""
    errors = _errors(plan, found, X, rows, rounds)
    variances = errors.variances(np.log(_factors(plan, found, errors.X)))
    factor = Scores(errors.errors, variances).factor
    after = rescaled(Candidate("", found.kernel, found.noise), factor)
    return replace(found, kernel=after.kernel, noise=after.noise)


def _errors(plan: Plan, found: Hyperparameters, X: np.ndarray, rows: Reweighted, rounds: Rounds) -> Errors:
    told = centred_rows(plan, rows(_factors(plan, found, X)))
    noise, g = of_told(plan, found.noise), _factors(plan, found, told.X)
    return held_out_errors(told, g, found.kernel, noise, plan.seed, plan.compute, rounds.tick)


def _factors(plan: Plan, found: Hyperparameters, X: np.ndarray) -> np.ndarray:
    """g at X."""
    return np.ones(len(X)) if found.function is None else found.function(X)


def _with_told(plan: Plan, before: Any, noise: Any) -> Any:
    """The noise of all targets, where some tell nothing and keep theirs."""
    if not np.ndim(before):
        return noise
    after = np.array(before)
    after[plan.told] = noise
    return after


def _joined(before: Learned | None, after: Learned) -> Learned:
    return after if before is None else replace(after, trace=before.trace + after.trace)

"""`noise="robust"`: after kernel and noise are learned, outliers get a noise of their own, and both are
learned again without them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from itergp.data.rows import Rows
from itergp.estimator.clock import Clock
from itergp.estimator.hyperparameters import Hyperparameters, Plan, centred_rows, hyperparameters, of_told
from itergp.estimator.progress import Watch
from itergp.learning.heldout import SURE
from itergp.learning.outliers import outlying
from itergp.learning.run import OutOfTime
from itergp.learning.varying import Errors, held_out_errors
from itergp.validate import Array

ROUNDS = 2  # what is small beside gross errors is seen when these are gone

Reweighted = Callable[[Array], Rows]  # the rows of the problem, for a factor on the noise of each


def without_outliers(
    plan: Plan, found: Hyperparameters, rows: Reweighted, clock: Clock, watch: Watch
) -> Hyperparameters:
    """Kernel and noise of the other rows, with the factors of all rows, where there are outliers and the
    others are predicted better without them. Whatever ends it, what was found before is valid."""
    if found.learned is None or not np.any(plan.learnable):
        return found
    first, best, g = None, found, np.ones(plan.data.n)
    for _ in range(ROUNDS):
        if watch.interrupts.asked or clock.over:
            break
        errors = _errors(plan, best, rows, g, clock, watch)
        if errors is None:
            break
        first = first or errors
        more = outlying(errors.errors, errors.variances(np.zeros(len(g))))
        if ((more > 1) == (g > 1)).all():
            break
        again = hyperparameters(replace(plan, data=rows(more)), clock, watch)
        if again.learned is None or again.learned.interrupted:
            break
        best, g = again, more
    if first is None or best is found:
        return found
    last = _errors(plan, best, rows, g, clock, watch)
    if last is None or not _better(first, last, g == 1):
        return found
    return replace(best, outliers=g)


def _errors(
    plan: Plan, found: Hyperparameters, rows: Reweighted, g: Array, clock: Clock, watch: Watch
) -> Errors | None:
    """Of all rows, each predicted by others; None if there was no time."""

    def tick() -> None:
        if clock.over:
            raise OutOfTime

    told = centred_rows(plan, rows(g))
    try:
        with watch.interrupts.raised():
            noise = of_told(plan, found.noise)
            return held_out_errors(told, g, found.kernel, noise, plan.seed, plan.compute, tick, told.n)
    except (OutOfTime, KeyboardInterrupt):
        return None


def _better(before: Errors, after: Errors, ordinary: Array) -> bool:
    """Whether ordinary rows are predicted better, more than chance would have it."""
    h = np.zeros(len(ordinary))
    gains = (after.densities(h) - before.densities(h))[ordinary]
    return bool(gains.mean() > SURE * gains.std() / gains.size**0.5)

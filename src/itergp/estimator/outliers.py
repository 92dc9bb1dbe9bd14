"""`noise="robust"`: after kernel and noise are learned, outliers get a noise of their own, and both are
learned again without them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from itergp.estimator.clock import Clock
from itergp.estimator.hyperparameters import Hyperparameters, Plan, centred_rows, hyperparameters, of_told
from itergp.estimator.progress import Watch
from itergp.learning.heldout import SURE
from itergp.learning.outliers import outlying, too_many
from itergp.learning.run import OutOfTime
from itergp.learning.varying import Errors, held_out_errors
from itergp.validate import Array

ROUNDS = 3  # what is small beside gross errors is seen when these are gone
GROWN = 4.0  # by less than this, the noise of outliers is as it was

Planned = Callable[[Array], Plan]  # for a factor on the noise of each row of the problem: its rows and mean


def without_outliers(
    plan: Plan, found: Hyperparameters, planned: Planned, clock: Clock, watch: Watch
) -> Hyperparameters:
    """Kernel and noise of the other rows, with the factors of all rows, where there are outliers and the
    others are predicted better without them. Whatever ends it, what was found before is valid."""
    if found.learned is None or not np.any(plan.learnable):
        return found
    first, best, g = None, found, np.ones(plan.data.n)
    for _ in range(ROUNDS):
        if watch.interrupts.asked or clock.over:
            break
        errors = _errors(planned(g), best, g, clock, watch)
        if errors is None:
            break
        first = first or errors
        more = outlying(errors.errors, _ordinary(errors))
        if ((more > 1) == (g > 1)).all() and (more <= GROWN * g).all():
            break
        again = hyperparameters(planned(more), clock, watch)
        if again.learned is None or again.learned.interrupted:
            break
        best, g = again, more
    if first is None or best is found:
        return found
    last = _errors(planned(g), best, g, clock, watch)
    if last is None or too_many(last.errors, _ordinary(last)) or not _better(first, last, g == 1):
        return found
    return replace(best, outliers=g)


def _errors(plan: Plan, found: Hyperparameters, g: Array, clock: Clock, watch: Watch) -> Errors | None:
    """Of all rows, each predicted by others; None if there was no time."""

    def tick() -> None:
        if clock.over:
            raise OutOfTime

    told = centred_rows(plan, plan.data)
    try:
        with watch.interrupts.raised():
            noise = of_told(plan, found.noise)
            return held_out_errors(told, g, found.kernel, noise, plan.seed, plan.compute, tick, told.n)
    except (OutOfTime, KeyboardInterrupt):
        return None


def _ordinary(errors: Errors) -> Array:
    """Variances as if no row were an outlier."""
    return errors.variances(np.zeros(len(errors.X)))


def _better(before: Errors, after: Errors, ordinary: Array) -> bool:
    """Whether ordinary rows are predicted better, more than chance would have it."""
    h = np.zeros(len(ordinary))
    gains = (after.densities(h) - before.densities(h))[ordinary]
    return bool(gains.mean() > SURE * gains.std() / gains.size**0.5)

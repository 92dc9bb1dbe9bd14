"""`noise="robust"`: after kernel and noise are learned, outliers get a noise of their own, and both are
learned again without them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from itergp.data.rows import Rows
from itergp.estimator.clock import Clock
from itergp.estimator.hyperparameters import Hyperparameters, Plan, centred_rows, hyperparameters, of_told
from itergp.estimator.progress import Watch
from itergp.learning.heldout import SURE
from itergp.learning.outliers import outlying, too_many
from itergp.learning.run import OutOfTime
from itergp.learning.varying import Errors, held_out_errors
from itergp.posterior.holdout import with_the_others
from itergp.validate import Array

ROUNDS = 3  # what is small beside gross errors is seen when these are gone
GROWN = 4.0  # by less than this, the noise of outliers is as it was


@dataclass(frozen=True, eq=False)
class Each:
    """Single observations, of which some may be outliers: not the rows that they were merged into."""

    data: Rows
    where: Array | None  # the row of the problem that each went to; None: each is a row
    without: Callable[[Array], Plan]  # rows and mean, for a factor on the noise of each observation

    def errors(self, plan: Plan, g: Array, rows: Rows, held: Errors, each: Array) -> Errors:
        """Of observations, each predicted by the others, those of its own row too, unless they are copies of
        it. `held` has the errors of rows, and `each` the noise of the targets."""
        own = centred_rows(plan, self.data)
        where = np.arange(own.n) if self.where is None else self.where
        share = np.minimum(own.precision / g / rows.precision[where], 1.0)
        mean, latent, N = rows.Y - held.errors, held.latent, held.noise
        found = with_the_others(mean[where], latent[where], rows.Y[where], own.Y, share, N[where])
        return Errors(own.X, own.Y - found[0], found[1], np.multiply.outer(1.0 / own.precision, each))


def without_outliers(
    plan: Plan, found: Hyperparameters, each: Each, clock: Clock, watch: Watch
) -> Hyperparameters:
    """Kernel and noise of the others, with the factors of all observations, where there are outliers and the
    others are predicted better without them. Whatever ends it, what was found before is valid."""
    if found.learned is None or not np.any(plan.learnable):
        return found
    first, best, g = None, found, np.ones(each.data.n)
    for _ in range(ROUNDS):
        if watch.interrupts.asked or clock.over:
            break
        errors = _errors(each, best, g, clock, watch)
        if errors is None:
            break
        first = first or errors
        more = outlying(errors.errors, _ordinary(errors))
        if ((more > 1) == (g > 1)).all() and (more <= GROWN * g).all():
            break
        again = hyperparameters(each.without(more), clock, watch)
        if again.learned is None or again.learned.interrupted:
            break
        best, g = again, more
    if first is None or best is found:
        return found
    last = _errors(each, best, g, clock, watch)
    if last is None or too_many(last.errors, _ordinary(last)) or not _better(first, last, g == 1):
        return found
    return replace(best, outliers=g)


def _errors(each: Each, found: Hyperparameters, g: Array, clock: Clock, watch: Watch) -> Errors | None:
    """Of all observations, each predicted by others; None if there was no time."""

    def tick() -> None:
        if clock.over:
            raise OutOfTime

    plan = each.without(g)
    told, noise = centred_rows(plan, plan.data), of_told(plan, found.noise)
    try:
        with watch.interrupts.raised():
            held = held_out_errors(
                told, np.ones(told.n), found.kernel, noise, plan.seed, plan.compute, tick, told.n
            )
    except (OutOfTime, KeyboardInterrupt):
        return None
    return each.errors(plan, g, told, held, np.broadcast_to(noise, told.t))


def _ordinary(errors: Errors) -> Array:
    """Variances as if none were an outlier."""
    return errors.variances(np.zeros(len(errors.X)))


def _better(before: Errors, after: Errors, ordinary: Array) -> bool:
    """Whether ordinary rows are predicted better, more than chance would have it."""
    h = np.zeros(len(ordinary))
    gains = (after.densities(h) - before.densities(h))[ordinary]
    return bool(gains.mean() > SURE * gains.std() / gains.size**0.5)

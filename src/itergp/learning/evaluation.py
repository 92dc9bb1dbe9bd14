"""What an objective returns: nats per observation with their gradient, or WORST if nothing is finite."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from itergp.data.rows import Rows
from itergp.errors import KernelError
from itergp.learning.parameters import Evaluation, Objective
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, no_slopes

WORST = 1e10  # nats per observation if nothing could be computed: finite, so that an optimiser steps back


def per_observation(rows: Rows, noise: float, value: float, slopes: Slopes, slope: float) -> Evaluation:
    """- log likelihood of the rows' means with its gradients, and of deviations from them, per
    observation."""
    within, within_slope = rows.within(noise)
    per = 1.0 / rows.total
    return Evaluation(
        per * (value + within),
        {path: per * np.asarray(part, dtype=np.float64) for path, part in slopes.items()},
        per * (float(slope) + within_slope),
    )


def sound(kernel: Kernel, evaluate: Callable[[], Evaluation]) -> Evaluation:
    """The result of `evaluate` if it is finite, else WORST with a zero gradient."""
    try:
        with np.errstate(all="ignore"):
            found = evaluate()
    except (np.linalg.LinAlgError, ArithmeticError, KernelError):
        return Evaluation(WORST, no_slopes(kernel), 0.0)
    numbers: list[Any] = [found.value, found.noise, *found.kernel.values()]
    if not all(np.isfinite(number).all() for number in numbers):
        return Evaluation(WORST, no_slopes(kernel), 0.0)
    return found


def over_targets(objectives: Sequence[Objective]) -> Objective:
    """The sum over targets, each with its own objective and noise; they share the kernel."""

    def objective(kernel: Kernel, noise: Any) -> Evaluation:
        found = [one(kernel, float(of_target)) for one, of_target in zip(objectives, noise, strict=True)]
        slopes = {path: sum(part.kernel[path] for part in found) for path in found[0].kernel}
        return Evaluation(sum(part.value for part in found), slopes, np.array([part.noise for part in found]))

    return objective


def summed(rows: Rows, noise: Any, make: Callable[[Rows], Objective]) -> Objective:
    """The objective of these rows; if each target has its own noise, the sum over targets."""
    return make(rows) if np.ndim(noise) == 0 else over_targets([make(of) for of in rows.each()])

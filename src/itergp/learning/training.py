"""Hyper-parameters from data: objectives in stages, each minimised by L-BFGS-B, within a strict time limit.

Without a limit in seconds the work is counted instead, so that the same data give the same bits.
"""

import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.data.rows import Rows
from itergp.errors import InputError
from itergp.learning.parameters import RANGES, Ranges, Space
from itergp.learning.run import Learned, Record, Run, ending
from itergp.learning.shorter import shorter
from itergp.learning.stages import METHODS, a_sample, stages
from itergp.linalg.blas import blas_threads
from itergp.linalg.compute import Compute
from itergp.linalg.libraries import require_working_room
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import parameters
from itergp.validate import choice, noise_variance

LIKELIHOODS = ("auto", "exact", "neighbours", "full-scale")  # the methods that look for other starts


def learn(
    X: ArrayLike,
    y: ArrayLike,
    kernel: Kernel,
    noise: Any,
    *,
    counts: ArrayLike | None = None,
    scatter: ArrayLike = 0.0,
    learn_noise: bool = True,
    fixed: Collection[str] = (),
    method: str = "auto",
    seconds: float | None = None,
    seed: int = 0,
    callback: Callable[[Record], Any] | None = None,
    compute: Compute = Compute(),
) -> Learned:
    """Learn the kernel's parameters and the noise from data, starting at the given values, unless much
    shorter lengthscales are more likely by far.

    y is already centred by the prior mean. Row i stands for counts[i] observations with the same input and
    mean y[i], and `scatter` is the sum of squares around these means. With one `noise` per target, each is
    learned separately, and `scatter` must be given per target; a single number is shared by all. `fixed`
    names parameters of the kernel that keep their values, by their paths, such as "right.period". `seconds`
    limits the time; the result is valid whenever it ends.
    """
    rows = Rows.of(X, y, counts, scatter)
    limits: dict[str, Any] = {"seconds": seconds, "seed": seed, "callback": callback, "compute": compute}
    return learn_rows(rows, kernel, noise, learn_noise, method, fixed=fixed, **limits)


def learn_rows(
    rows: Rows,
    kernel: Kernel,
    noise: Any,
    learn_noise: bool = True,
    method: str = "auto",
    *,
    fixed: Collection[str] = (),
    seconds: float | None = None,
    seed: int = 0,
    compute: Compute = Compute(),
    **how: Any,
) -> Learned:
    """`learn`, for a `Rows`: X, centred y, counts and scatter in one. It begins at much shorter lengthscales
    than given, if these are more likely by far."""
    require_working_room()
    noise = _checked(noise, rows.t)
    choice("method", method, METHODS)
    kernel.check_features(rows.X.shape[1])
    began, ranges = time.perf_counter(), RANGES
    if method in LIKELIHOODS and not fixed:
        known = None if learn_noise else float(np.mean(noise)) / max(rows.variance, 1e-300)
        found = shorter(kernel, rows, known, seed, seconds, compute)
        if found is not None:
            ranges, kernel = found.within(RANGES, rows.spread), found.kernel
            noise = found.noise_of(rows, noise) if learn_noise else noise
    how |= {"seconds": seconds, "seed": seed, "compute": compute, "began": began, "ranges": ranges}
    return learn_on(rows, kernel, noise, learn_noise, method, fixed=fixed, **how)


def learn_on(
    rows: Rows,
    kernel: Kernel,
    noise: Any,
    learn_noise: bool = True,
    method: str = "auto",
    *,
    fixed: Collection[str] = (),
    seconds: float | None = None,
    seed: int = 0,
    callback: Callable[[Record], Any] | None = None,
    compute: Compute = Compute(),
    began: float | None = None,
    ranges: Ranges = RANGES,
) -> Learned:
    """From the given values, which are sound."""
    require_working_room()
    rows, _ = a_sample(rows, seed)
    known = list(parameters(kernel))
    if isinstance(fixed, str) or not set(fixed) <= set(known):
        raise InputError(f"fixed is {fixed!r}; expected a list of parameters, out of {known}.")
    space = Space.of(kernel, noise, rows, learn_noise, ranges=ranges, fixed=fixed)
    run = Run(space, space.vector(kernel, noise), seconds, callback)
    run.began = run.began if began is None else began
    with ending(run), blas_threads(compute.threads):
        for name, objective, iterations in stages(method, rows, run, seed, compute):
            run.minimise(name, objective, iterations)
            del objective  # it may have a copy of the rows, and so will the next one
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

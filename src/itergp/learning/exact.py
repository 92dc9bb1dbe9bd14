"""The exact log marginal likelihood by a dense Cholesky factor, for small n or a subset of large data."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from itergp.data.rows import Rows
from itergp.errors import InputError
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.parameters import Evaluation, Objective
from itergp.linalg.blas import dense_threads
from itergp.linalg.cholesky import cholesky, inverse
from itergp.linalg.compute import Compute, require_bytes
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram
from itergp.prior.kernel import Kernel
from itergp.validate import count


def exact(
    rows: Rows,
    *,
    compute: Compute = Compute(),
    tick: Tick = no_tick,
) -> Objective:
    """- log N(y; 0, K + N) per observation. O(n^3) time, two n x n float64 matrices. Evaluations call
    `tick`."""
    return _objective(rows, compute, tick)


def subset(
    rows: Rows,
    chosen: int | ArrayLike,
    *,
    seed: int = 0,
    compute: Compute = Compute(),
    tick: Tick = no_tick,
) -> Objective:
    """The exact likelihood of a subset: a number of random rows, or those listed. A fast first stage.

    The scatter of merged rows is only known in total; the subset takes a share proportional to its number of
    deviations.
    """
    if isinstance(chosen, int | np.integer):
        size = min(count("chosen", chosen), rows.n)
        listed = np.sort(np.random.default_rng(seed).choice(rows.n, size, replace=False))
    else:
        listed = np.asarray(chosen)
        numbers = listed.ndim == 1 and listed.size and listed.dtype.kind in "iu"
        if not numbers or listed.min() < 0 or listed.max() >= rows.n:
            raise InputError(
                f"chosen is {chosen!r}; expected a number of rows, or row numbers from 0 to {rows.n - 1}."
            )
    return _objective(rows.some(listed), compute, tick)


def _objective(rows: Rows, compute: Compute, tick: Tick) -> Objective:
    require_bytes(
        3 * 8.0 * rows.n**2,
        f"The exact likelihood of {rows.n} rows",
        "Use a subset, or an iterative objective.",
    )
    return lambda kernel, noise: sound(kernel, lambda: _evaluate(rows, kernel, noise, compute, tick))


def _evaluate(rows: Rows, kernel: Kernel, noise: float, compute: Compute, tick: Tick) -> Evaluation:
    gram = Gram(kernel, rows.X, compute)
    with dense_threads(rows.n, compute.threads):
        L, _ = cholesky(gram, rows.N(noise), tick)
        value, W = value_and_weights(rows, L, tick)
        slopes = gram.symmetric_gradient(W, tick)
    return per_observation(rows, noise, value, slopes, float((np.diag(W) / rows.precision).sum()))


def value_and_weights(rows: Rows, L: np.ndarray, tick: Tick = no_tick) -> tuple[float, np.ndarray]:
    """- log N(y; 0, L L^T) and its gradient W in that covariance; W's lower half is written in place of L."""
    alpha = scipy.linalg.cho_solve((L, True), rows.Y, check_finite=False)
    logdet = 2.0 * float(np.log(np.diag(L)).sum())
    value = 0.5 * (float((rows.Y * alpha).sum()) + rows.t * (logdet + rows.n * np.log(2.0 * np.pi)))
    # dvalue = sum_ij W_ij dK_hat_ij with W = (t K_hat^{-1} - alpha alpha^T) / 2
    W = scipy.linalg.blas.dsyrk(-0.5, alpha, beta=0.5 * rows.t, c=inverse(L, tick), lower=1, overwrite_c=1)
    return value, W

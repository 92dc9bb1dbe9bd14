"""Noise that varies with the inputs: a second, small Gaussian process, of the logarithm of its variance.

Held-out errors e have the variance v(x) = s(x)^2 + N g(x): that of the latent function, which is known, and
the noise N of a row times a factor g(x) = exp(h(x)). A first h follows from log(e^2 / v), which has the noise
log chi^2_1: of mean -1.27 and variance pi^2 / 2. Its kernel is kept. Then Fisher's scoring finds the mode of
h given e ~ N(0, v), whose information about h is p^2 / 2 with p = N g / v. Where p is small that is far less
than the curvature, and a step would go far too far; so i = p^2 + p (1 - p) |e^2 / v - 1| is in its place,
which is p^2 where p is 1. Each step is a regression on

    u = h + p (e^2 / v - 1) / i    with the noise 2 / i,

so errors that are mostly those of the latent function say little. Observations at the same place also say
how large the noise is there: each less the mean of those before it, an error without a latent part. Noise
that does not vary is found to be constant: unless g predicts errors better than a constant does, each left
out in turn, there is no g.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import minimize_scalar

from itergp import brief
from itergp.data.rows import Rows, unmerged
from itergp.learning.endings import Ending
from itergp.learning.heldout import FEWER, HeldOut, LeaveOut
from itergp.learning.run import OutOfTime
from itergp.learning.training import learn_on
from itergp.limits import EXACT_LIKELIHOOD_ROWS, EXACT_ROWS
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram
from itergp.prior.kernel import Kernel
from itergp.prior.stationary import Matern52
from itergp.validate import Array

LOG_CHI2_MEAN, LOG_CHI2_VARIANCE = -1.2703628454614782, np.pi**2 / 2
MOST, FOLDS = 2000, 4  # rows with a held-out error, and the folds that they are in beyond the exact GP
FEWEST = 50  # errors: fewer do not tell whether noise varies
STEPS = 6  # of Fisher's scoring
LARGEST = 16.0  # squared errors in units of their variance, at most: an outlier is not a region
LEAST = 1e-6  # squared errors in units of their variance, at least: log 0; and p
SURE = 3.0  # standard errors of a gain: heavy tails reach two by chance
FARTHEST = 12.0  # that a constant h is from 0, which stands for the noise that was learned
LENGTH = 1.5  # standard deviations of a feature, where lengthscales begin


@dataclass(frozen=True, eq=False)
class NoiseFunction:
    """g(x) = exp(constant + k(x, X) weights): the noise variance at x over its mean at the training rows."""

    kernel: Kernel
    X: Array  # (m, d), in scaled units
    weights: Array  # (m,)
    constant: float

    __repr__ = brief.call

    @cached_property
    def _gram(self) -> Gram:
        return Gram(self.kernel, self.X, Compute(dtype="float64"))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_gram"}

    def __call__(self, X: Array) -> Array:
        """(m,), at inputs in scaled units."""
        return np.exp(self.constant + self._gram.cross(X, self.weights[:, None])[:, 0])

    def with_mean_one(self, X: Array) -> "NoiseFunction":
        """The same function up to a factor: its mean over these rows is one."""
        return replace(self, constant=self.constant - float(np.log(self(X).mean())))


@dataclass(frozen=True, eq=False)
class Errors:
    """Held-out errors of some rows, (m, t): with the latent variances, and the noise variances for g = 1."""

    X: Array
    errors: Array
    latent: Array
    noise: Array

    def joined(self, more: "Errors") -> "Errors":
        names = ("X", "errors", "latent", "noise")
        return Errors(*(np.concatenate([getattr(self, name), getattr(more, name)]) for name in names))

    def variances(self, h: Array) -> Array:
        return self.latent + self.noise * np.exp(h)[:, None]

    def densities(self, h: Array) -> Array:
        """The log density of each row's errors, but for a constant."""
        v = self.variances(h)
        return -0.5 * (np.minimum(self.errors**2 / v, LARGEST) + np.log(v)).sum(axis=1)

    def logarithms(self, h: Array) -> Array:
        """Of squared errors over their variances, without bias; the mean over targets."""
        squares = np.maximum(self.errors**2 / self.variances(h), LEAST)
        return np.log(squares).mean(axis=1) - LOG_CHI2_MEAN

    def scoring(self, h: Array) -> tuple[Array, Array]:
        """u and its precision; several targets are several errors at one place."""
        v = self.variances(h)
        p = np.maximum(self.noise * np.exp(h)[:, None] / v, LEAST)
        excess = np.minimum(self.errors**2 / v, LARGEST) - 1.0
        information = (p**2 + p * (1.0 - p) * np.abs(excess)).sum(axis=1)
        return h + (p * excess).sum(axis=1) / information, 0.5 * information


def held_out_errors(
    rows: Rows,
    g: Array,
    kernel: Kernel,
    noise: Any,
    seed: int,
    compute: Compute,
    tick: Tick = no_tick,
    most: int = MOST,
) -> Errors:
    """Of all rows, each left out in turn, where the GP can be exact; beyond, of at most so many random rows,
    in a few folds. Ordered as the rows are.

    The weights of `rows` have g in them already, at all rows.
    """
    each = np.broadcast_to(np.asarray(noise, dtype=np.float64), (rows.t,))
    N = np.multiply.outer(1.0 / rows.precision, each)
    if rows.n <= EXACT_ROWS:
        scores = LeaveOut(rows, None, compute, tick).scores(kernel, noise)
        errors, variances = scores.errors[: rows.n], scores.variances[: rows.n]
        latent = np.maximum(variances - N, 0.0)
        return Errors(rows.X, errors, latent, N / g[:, None])
    chosen = np.random.default_rng([seed, rows.n, 5]).permutation(rows.n)[:most]
    found = []
    for F in np.array_split(chosen, FOLDS):
        tick()
        known = rows.some(np.setdiff1d(np.arange(rows.n), F))
        found.append(HeldOut(known, rows.some(F), compute, seed, FEWER[1]).scores(kernel, noise))
    order = np.argsort(chosen)
    errors, variances = (
        np.concatenate([getattr(one, name) for one in found])[order] for name in ("errors", "variances")
    )
    chosen = chosen[order]
    latent = np.maximum(variances - N[chosen], 0.0)
    return Errors(rows.X[chosen], errors, latent, N[chosen] / g[chosen, None])


def errors_within(rows: Rows, group: Array, noise: Any, seed: int) -> Errors:
    """Of observations at the same place, those of a group: each less the mean of those before it.

    They are independent. Equal ones are left out: they may be copies of a record, or y may be rounded.
    """
    order = np.argsort(group, kind="stable")
    group, y, w = group[order], rows.Y[order], rows.precision[order][:, None]
    first = np.r_[True, group[1:] != group[:-1]]
    begin = np.maximum.accumulate(np.where(first, np.arange(group.size), 0))
    y = y - y[begin]  # sums of differences are small, and cancel nothing
    before, sums = (np.cumsum(part, axis=0) - part for part in (w, w * y))
    before, sums = before - before[begin], sums - sums[begin]
    later = np.flatnonzero(~first)
    errors = y[later] - sums[later] / before[later]
    kept = np.flatnonzero((errors != 0).all(axis=1))
    kept = np.sort(np.random.default_rng([seed, kept.size, 7]).permutation(kept)[:MOST])
    at = later[kept]
    each = np.broadcast_to(np.asarray(noise, dtype=np.float64), (rows.t,))
    return Errors(
        rows.X[order[at]], errors[kept], np.zeros((at.size, rows.t)), (1.0 / w[at] + 1.0 / before[at]) * each
    )


def learned_function(
    found: Errors, seed: int, seconds: float | None, compute: Compute, tick: Tick = no_tick
) -> NoiseFunction | None:
    """g by held-out errors; None if they do not show that it varies."""
    m, t = found.errors.shape
    if m < FEWEST or not np.isfinite(found.errors).all() or not (found.noise > 0).all():
        return None
    h = np.full(m, _constant(found))
    values = found.logarithms(h)
    few = np.sort(np.random.default_rng([seed, m, 6]).permutation(m)[:EXACT_LIKELIHOOD_ROWS])
    some = unmerged(found.X[few], (values - values.mean())[few])
    variance = LOG_CHI2_VARIANCE / t
    how: dict[str, Any] = {"seconds": seconds, "seed": seed, "compute": compute}
    learned = learn_on(some, 1.0 * Matern52(LENGTH * some.spread), variance, False, "exact", **how)
    if learned.interrupted:
        raise KeyboardInterrupt
    kernel = learned.kernel
    K = Gram(kernel, found.X, compute).dense(found.X, found.X)
    u, precision = h + values, np.full(m, 1.0 / variance)
    for _ in range(STEPS):
        tick()
        regression = Regression.of(K, u, precision)
        u, precision = found.scoring(regression.mean(K))
    tick()
    if not _better(found, regression.left_out()):
        if learned.ended is Ending.BUDGET:  # nobody knows what more time would have shown
            raise OutOfTime
        return None
    return NoiseFunction(kernel, found.X, regression.weights, regression.constant)


def _constant(found: Errors) -> float:
    """The best constant h."""

    def loss(h: float) -> float:
        return -float(found.densities(np.full(len(found.X), h)).sum())

    return float(minimize_scalar(loss, bounds=(-FARTHEST, FARTHEST), method="bounded").x)


@dataclass(frozen=True, eq=False)
class Regression:
    """GP regression of u with the noise 1 / precision, around a constant."""

    u: Array
    L: Array  # L L^T = K + diag(1 / precision)
    weights: Array
    constant: float

    @staticmethod
    def of(K: Array, u: Array, precision: Array) -> "Regression":
        constant = float(np.average(u, weights=precision))
        A = K.copy()
        A[np.diag_indices(len(A))] += 1.0 / precision
        L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        weights = scipy.linalg.cho_solve((L, True), u - constant, check_finite=False)
        return Regression(u, L, weights, constant)

    def mean(self, K: Array) -> Array:
        return self.constant + K @ self.weights

    def left_out(self) -> Array:
        """The mean at each row without that row."""
        E = scipy.linalg.solve_triangular(self.L, np.eye(len(self.L)), lower=True, check_finite=False)
        return self.u - self.weights / (E**2).sum(axis=0)


def _better(found: Errors, h: Array) -> bool:
    """Whether errors are predicted better by h than by a constant, more than chance would have it."""
    gains = found.densities(h) - found.densities(np.full(h.size, _constant(found)))
    return bool(gains.mean() > SURE * gains.std() / gains.size**0.5)

"""Standardising inputs and targets, and undoing it: the one place that knows both units."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.data.spread import CONSTANT, binary_unit, centre_and_spread
from itergp.errors import InputError, PrecisionWarning
from itergp.plots.slices import Data, training_data
from itergp.posterior.uncertainty import Decomposition, Shares
from itergp.validate import Array

LARGEST = 1e100  # in scaled units: squares and sums of squares stay in float64
SMALLEST = 1e-146  # of the largest target: squares of what is 1e-8 of it still have all their digits


@dataclass(frozen=True, eq=False)
class Scaling:
    """x -> (x - x_mean) / x_scale and y -> (y - y_mean) / y_scale; y_mean and y_scale are numbers, or one
    per target."""

    x_mean: Array
    x_scale: Array
    y_mean: Array
    y_scale: Array

    __repr__ = brief.call

    @staticmethod
    def of(X: Array, y: Array, weights: Array | None = None) -> "Scaling":
        """To mean 0 and standard deviation 1; what is constant is only shifted.

        A few values far from all others do not set the unit of a feature. Those of a target do: Gaussian
        noise has to explain them, whatever the unit. Weights enter the mean and the size of y.
        """
        return Scaling(*centre_and_spread(_bounded("X", X)), *_mean_and_scale(_bounded("y", y), weights))

    def keeping_inputs(self) -> "Scaling":
        """The same with inputs in their own units, counted from their mean: for a kernel that is given in
        these units."""
        return replace(self, x_scale=np.ones_like(self.x_scale))

    @staticmethod
    def none(X: Array, y: Array) -> "Scaling":
        """The identity, for `normalize=False`."""
        sizes = np.abs(y).max(axis=0)
        if ((sizes > 0) & (sizes < SMALLEST)).any():
            raise InputError(
                f"y is at most {sizes[sizes > 0].min():.2g} in size, and normalize is False: its squares, "
                "the variances, are too small for float64. Use normalize=True, or multiply y by a large "
                "number."
            )
        return Scaling(np.zeros(X.shape[1]), np.ones(X.shape[1]), np.zeros(y.shape[1:]), np.ones(y.shape[1:]))

    # To scaled units.

    def inputs(self, X: ArrayLike) -> Array:
        return self._in_scaled_units(X - self.x_mean)

    def inputs_in_place(self, X: Array) -> Array:
        """The same, to the bit; X is overwritten."""
        X -= self.x_mean
        return self._in_scaled_units(X)

    def _in_scaled_units(self, centred: Array) -> Array:
        centred /= self.x_scale
        return _bounded("X", centred)

    def targets(self, y: Array) -> Array:
        return _bounded("y", (y - self.y_mean) / self.y_scale)

    # Back to the units of the data.

    def original(self, X: Array) -> Array:
        """Inputs (n, d), as they came."""
        return self.x_mean + self.x_scale * X

    def mean(self, mean: Array) -> Array:
        """Means (m,) or (m, t)."""
        return self.y_mean + self.y_scale * mean

    def variance(self, variance: Array, own: bool = False) -> Array:
        """Variances (m,), which all targets share in scaled units: (m,), or (m, t) for several targets.

        With `own` each target has its own, so that they come as (m, t).
        """
        scaled = variance if own else np.multiply.outer(variance, np.ones_like(self.y_scale))
        out = scaled * self.y_scale**2
        if np.min(self.y_scale) < SMALLEST and _vanished(out, scaled):
            warnings.warn(
                "Variances are in units of y squared, and y is so small that float64 has few or no digits "
                f"for them: its scale is {np.min(self.y_scale):.2g}. Use standard deviations "
                "(return_std, interval), or multiply y by a large number before fit.",
                PrecisionWarning,
                stacklevel=3,
            )
        return out

    def size(self, size: Array, own: bool = False) -> Array:
        """Differences of means (m,): (m,), or (m, t) for several targets; with `own` they come as (m, t)."""
        return size * self.y_scale if own else np.multiply.outer(size, self.y_scale)


@dataclass(frozen=True, eq=False)
class Unscaled:
    """A posterior of scaled data as a Gaussian process in the units of the data: for pictures, which are
    of any process."""

    process: Any
    scaling: Scaling
    own: bool = False  # whether each target has its own variances

    __repr__ = brief.call

    def mean(self, X: ArrayLike) -> Array:
        return self.scaling.mean(self.process.mean(self.scaling.inputs(X)))

    def var(self, X: ArrayLike) -> Array:
        return self.scaling.variance(self.process.var(self.scaling.inputs(X)), self.own)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> Array:
        covariance = self.process.cov(
            self.scaling.inputs(X0), None if X1 is None else self.scaling.inputs(X1)
        )
        return self.scaling.variance(covariance, self.own)

    def decompose(self, X: ArrayLike) -> Decomposition:
        parts, back = self.process.decompose(self.scaling.inputs(X)), self.scaling.variance
        names = ("combined", "mathematical", "computational", "computational_lower", "computational_upper")
        return replace(parts, **{name: back(getattr(parts, name), self.own) for name in names})

    def training_data(self) -> Data | None:
        data, back = training_data(self.process), self.scaling
        return (
            None
            if data is None
            else Data(back.original(data.X), None if data.y is None else back.mean(data.y))
        )


@dataclass(frozen=True, eq=False)
class Parts(Shares):
    """The variance of a new observation, taken apart, in units of y squared: mathematical + computational
    + noise.

    `combined` = mathematical + computational is that of the latent function. What a missing value of a table
    could be is mathematical: the data do not say it. Where `exact` is False,
    `computational` is its lower bound, and the truth lies between that and the upper one, guaranteed;
    `method` says how they were found, "estimate" by passes over K, or "neighbours" by so many for each
    point. `share` is the computational share over all points, and `share_bounds` what it can be.
    """

    mathematical: Array
    computational: Array
    noise: Array
    computational_lower: Array = field(repr=False)
    computational_upper: Array = field(repr=False)
    exact: bool
    method: str = "exact"
    neighbours: int = 0

    __repr__ = brief.call

    @property
    def combined(self) -> Array:  # type: ignore[override]
        return self.mathematical + self.computational


def _mean_and_scale(A: Array, weights: Array | None) -> tuple[Array, Array]:
    unit = binary_unit(A)
    A = A / unit
    mean, scale = A.mean(axis=0), A.std(axis=0)
    if weights is not None:
        mean = np.average(A, axis=0, weights=weights)
        scale = np.sqrt(np.average((A - mean) ** 2, axis=0, weights=weights))
    return unit * mean, np.where(scale > CONSTANT * np.abs(A).max(axis=0), unit * scale, 1.0)


def _vanished(out: Array, variance: Array) -> bool:
    """Whether some of these variances, beside the largest, have lost digits in other units."""
    seen = np.abs(variance) > np.finfo(np.float64).eps * np.abs(variance).max(initial=0.0)
    return bool((seen & (np.abs(out) < np.finfo(np.float64).tiny)).any())


def _bounded(name: str, A: Array) -> Array:
    if not (A.max(initial=0.0) < LARGEST and A.min(initial=0.0) > -LARGEST):  # nor if it is NaN
        raise InputError(
            f"{name} has values too large for float64 arithmetic, given the fitted scaling. Rescale it."
        )
    return A

"""Metrics of predictions: functions of observations, predictive means and predictive variances (with noise).

`y` and `mean` are (m,) or (m, targets); `var` is the same, or (m,) for one variance shared by all targets, as
returned by a posterior.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtrit

from itergp.errors import InputError
from itergp.validate import as_float64

GAUSSIAN_95 = 1.959963984540054
LEVELS = tuple(np.round(np.arange(0.05, 1.0, 0.05), 2).tolist())


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error."""
    y, mean, _ = _aligned(y, mean, 0.0)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nll(y: ArrayLike, mean: ArrayLike, var: ArrayLike) -> float:
    """Mean negative log density of the observations under N(mean, var)."""
    y, mean, var = _aligned(y, mean, var)
    return float(np.mean(0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)))


def crps(y: ArrayLike, mean: ArrayLike, var: ArrayLike) -> float:
    """Mean continuous ranked probability score of N(mean, var): the integral of (F(x) - [y <= x])^2, in units
    of y.

    With z = (y - mean) / std it is std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), which is the absolute
    error if std = 0.
    """
    y, mean, var = _aligned(y, mean, var)
    std, error = np.sqrt(var), y - mean
    z = np.divide(error, std, out=np.copysign(np.inf, error), where=std > 0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return float(np.mean(error * (2 * ndtr(z) - 1) + std * (2 * density - 1 / np.sqrt(np.pi))))


def coverage(y: ArrayLike, mean: ArrayLike, var: ArrayLike, quantile: float = GAUSSIAN_95) -> float:
    """The share of observations inside mean +- quantile * std (0.95 is expected by default)."""
    y, mean, var = _aligned(y, mean, var)
    return float(np.mean(np.abs(y - mean) <= quantile * np.sqrt(var)))


def calibration_curve(
    y: ArrayLike, mean: ArrayLike, var: ArrayLike, levels: ArrayLike = LEVELS
) -> np.ndarray:
    """The share of observations inside the central interval of each level: the levels, if calibrated."""
    asked = as_float64("levels", levels)
    if asked.ndim != 1 or not ((asked > 0) & (asked < 1)).all():
        raise InputError(
            f"levels is {levels!r}; expected a list of probabilities between 0 and 1, such as [0.5, 0.95]."
        )
    return np.array([coverage(y, mean, var, quantile) for quantile in ndtri(0.5 + asked / 2)])


def sharpness(var: ArrayLike) -> float:
    """The mean predictive standard deviation. Of two calibrated forecasts, the sharper one says more."""
    return float(np.mean(np.sqrt(as_float64("var", var))))


def mean_and_interval(values: ArrayLike, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mean over repetitions, and half the width of its 95 % interval (Student's t); NaN for just one."""
    values = as_float64("values", values)
    if values.ndim == 0 or values.shape[axis] == 0:
        raise InputError(
            f"values has shape {values.shape}; expected at least one repetition along axis {axis}."
        )
    repetitions, mean = values.shape[axis], values.mean(axis=axis)
    if repetitions == 1:
        return mean, np.full_like(mean, np.nan)
    standard_error = values.std(axis=axis, ddof=1) / np.sqrt(repetitions)
    return mean, stdtrit(repetitions - 1, 0.975) * standard_error


def _aligned(y: ArrayLike, mean: ArrayLike, var: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check that all three have the same shape: (m,) against (m, 1) would silently broadcast to (m, m)."""
    y, mean, var = as_float64("y", y), as_float64("mean", mean), as_float64("var", var)
    if y.shape != mean.shape or y.size == 0:
        raise InputError(
            f"y has shape {y.shape} and mean has shape {mean.shape}; expected equal shapes with at least one "
            "row."
        )
    if var.ndim == 1 and y.ndim == 2:
        var = var[:, None]
    if var.ndim and var.shape not in (y.shape, (len(y), 1)):
        raise InputError(
            f"var has shape {var.shape}; expected {y.shape} or ({len(y)},), as mean has shape {mean.shape}."
        )
    return y, mean, np.broadcast_to(var, y.shape)

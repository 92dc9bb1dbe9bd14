"""Forecasts of real numbers, and how they are scored.

A forecast is Gaussian or a list of quantiles, with a mean beside them. Both are scored by the same rules:

- RMSE of the means; coverage of the interval between the 2.5 % and the 97.5 % quantile.
- CRPS = 2 times the integral over u of (1[y <= Q(u)] - u) (Q(u) - y), by midpoints. Between the levels that
  a method predicts, Q is linear in the normal score of u, and beyond them it goes on so. A Gaussian is scored
  by its formula, which is the same integral.
- NLL of a Gaussian, for all methods. For quantiles it is the nearest one (by Kullback-Leibler): it has the
  mean of the forecast, and the variance of Q about it. Its standard deviation is at least a thousandth of
  that of y: where all quantiles are the same number, there is no density. This is not what a quantile method
  aims at; its CRPS says more.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from itergp import metrics

LEVELS = np.array([0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975])
U = (np.arange(1000) + 0.5) / 1000  # where the integral over u takes its integrand
CHUNK = 2000  # rows that are integrated at a time
LEAST = 1e-3  # standard deviation of the Gaussian for quantiles, in those of y


@dataclass(frozen=True, eq=False)
class Gaussian:
    mean: np.ndarray
    variance: np.ndarray

    @property
    def interval(self):
        half = metrics.GAUSSIAN_95 * np.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def crps(self, y):
        return metrics.crps(y, self.mean, self.variance)

    def gaussian(self):
        return self.mean, self.variance


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Values at LEVELS, one row for each point. Where they cross, they are sorted."""

    mean: np.ndarray
    values: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "values", np.sort(self.values, axis=1))

    @property
    def interval(self):
        return self.values[:, 0], self.values[:, -1]

    def crps(self, y):
        total = 0.0
        for rows, Q in self.quantile_functions():
            below = Q - y[rows, None]
            total += np.sum(((below >= 0) - U) * below)
        return float(2.0 * total / (len(U) * len(y)))

    def gaussian(self):
        variance = np.empty(len(self.mean))
        for rows, Q in self.quantile_functions():
            variance[rows] = np.mean((Q - self.mean[rows, None]) ** 2, axis=1)
        return self.mean, np.maximum(variance, LEAST**2)

    def quantile_functions(self):
        """Q at U for some rows at a time."""
        weights = interpolation(ndtri(LEVELS), ndtri(U)).T
        for start in range(0, len(self.values), CHUNK):
            rows = slice(start, start + CHUNK)
            yield rows, self.values[rows] @ weights


def interpolation(known, asked):
    """Weights of values at `known` for those at `asked`: linear between, and beyond the ends."""
    right = np.clip(np.searchsorted(known, asked), 1, len(known) - 1)
    share = (asked - known[right - 1]) / (known[right] - known[right - 1])
    weights = np.zeros((len(asked), len(known)))
    rows = np.arange(len(asked))
    weights[rows, right - 1], weights[rows, right] = 1 - share, share
    return weights


def scores(y, forecast):
    """All scores of a forecast, in units of y."""
    (low, high), (mean, variance) = forecast.interval, forecast.gaussian()
    terms = 0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
    return {
        "rmse": metrics.rmse(y, forecast.mean),
        "nll": float(np.mean(terms)),
        "nll_error": float(np.std(terms) / np.sqrt(len(terms))),
        "crps": forecast.crps(y),
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "width": float(np.mean(high - low)),
    }

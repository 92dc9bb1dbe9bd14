"""How good are predictions? Functions of observations, predictive means and predictive variances (noise included)."""

import numpy as np

GAUSSIAN_95 = 1.959963984540054


def rmse(y: np.ndarray, mean: np.ndarray) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nll(y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> float:
    """Mean negative log density of the observations under N(mean, var)."""
    return float(np.mean(0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)))


def coverage(y: np.ndarray, mean: np.ndarray, var: np.ndarray, quantile: float = GAUSSIAN_95) -> float:
    """The share of observations inside mean +- quantile * std (0.95 is expected by default)."""
    return float(np.mean(np.abs(y - mean) <= quantile * np.sqrt(var)))

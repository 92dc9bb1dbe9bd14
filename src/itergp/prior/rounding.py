"""Measures how much rounding grows in a user's kernel, whose formula is not known here."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

ROWS, MOVED = 256, 64  # the first rows, the same when data are appended; and how many of them are moved
UNIT = float(np.finfo(np.float32).eps) / 2
POINTS_PER_DECADE = 64
FAR = 1e8  # in lengthscales: above this, rounding would be visible in float64 too, for rows that close


class Shifted:
    """Rows less an origin, made when they are asked for: of many rows, a copy of all of them is much."""

    def __init__(self, X: np.ndarray, origin: np.ndarray) -> None:
        self.X, self.origin = X, origin

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.X[rows] - self.origin

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:]


def measured(kernel: Callable[[Any, Any], Any], X: np.ndarray) -> float:
    """4 + 2 x the largest single-precision error over u k(x, x), between rows, and rows and nearby points."""
    X, moved = X[:ROWS], X[:MOVED]
    towards = moved[::-1] - moved
    points = np.concatenate([X, *(moved + step * towards for step in 10.0 ** -np.arange(1, 7))])
    with np.errstate(all="ignore"):
        exact = np.asarray(kernel(X, points), dtype=np.float64)
        rounded = np.asarray(kernel(X.astype(np.float32), points.astype(np.float32)), dtype=np.float64)
        unit = UNIT * max(_largest(exact), 1e-300)
        return 4.0 + 2.0 * _largest(rounded - exact) / unit


def of_profile(profile: Callable[[Any], Any], size: float, farthest: float) -> float:
    """4 + the profile's own error + 2 |phi| x its slope, at all distances from 1e-8 to `farthest`.

    Coordinates are rounded by u |phi| (`size`), so distances by twice that. A positive definite function is
    nowhere much steeper than near 0, where these distances are dense.
    """
    decades = 8.0 + np.log10(farthest)
    r = farthest * np.logspace(-decades, 0.0, int(POINTS_PER_DECADE * decades))
    s = (r * r).astype(np.float32)
    with np.errstate(all="ignore"):
        values, rounded = np.asarray(profile(r * r)), np.asarray(profile(s), dtype=np.float64)
        own = _largest(rounded - np.asarray(profile(s.astype(np.float64)))) / UNIT
        steepest = _largest(np.diff(values) / np.diff(r))
    return 4.0 + own + 2.0 * max(1.0, steepest) * size


def where_steep(profile: Callable[[Any], Any], F: np.ndarray, rounded: np.ndarray, dtype: str) -> float:
    """|phi| x the slope of the profile beyond the nearest other row, averaged over rows: far away k is 0,
    however distances are rounded. `F` is phi(x), and `rounded` the size of its rounding, both by row.

    A profile that is a mixture of exp(-r^2 / 2 l^2), as all of these are, falls at most as fast as
    profile(r^2 / 4) / r. Equal rows have a distance of exactly 0.
    """
    largest = float(np.abs(F).max())
    points, row = np.unique(F / largest, axis=0, return_inverse=True)
    r = largest * cKDTree(points).query(points, k=[2])[0][row.reshape(-1), 0]  # infinite if all are equal
    r = np.maximum(0.0, r - 2.0 * np.finfo(dtype).eps * rounded.max())
    with np.errstate(all="ignore"):
        steep = np.asarray(profile((r / 2.0) ** 2)) / r
    return float(np.sqrt(np.mean((rounded * np.where(steep < 1.0, steep, 1.0)) ** 2)))


def _largest(values: np.ndarray) -> float:
    """Over finite values; the others are detected in products, where they matter."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))

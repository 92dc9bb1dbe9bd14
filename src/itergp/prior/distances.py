"""Distances, in both NumPy and JAX."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

Array = Any  # NumPy or JAX arrays
# up to this number of features each is an operation of its own: the fastest tiles, but compile time grows
# with it
UNROLLED = 64


def squared_distance(F0: Array, F1: Array) -> Array:
    """|f - f'|^2 by direct differences, feature by feature.

    Never by |f|^2 + |f'|^2 - 2 f^T f', whose cancellation made kernel matrices of real data indefinite.
    """
    if isinstance(F0, np.ndarray) and F0.dtype == np.float64:
        return cdist(F0, F1, "sqeuclidean")  # direct differences, in C
    if F0.shape[1] > UNROLLED:
        return _of_many_features(F0, F1)
    s = 0.0
    for f in range(F0.shape[1]):
        difference = F0[:, f, None] - F1[None, :, f]
        s = s + difference * difference
    return s


def _of_many_features(F0: Array, F1: Array) -> Array:
    """One sum over features, so that the program does not grow with their number. Compilers fuse
    it and store no differences; NumPy would, so there the sum is computed in float64 and rounded once."""
    if isinstance(F0, np.ndarray):
        return cdist(F0, F1, "sqeuclidean").astype(np.result_type(F0, F1))
    difference = F0[:, None, :] - F1[None, :, :]
    return (difference * difference).sum(axis=-1)


def distance(s: Array) -> Array:
    """sqrt(s), with derivative 0 instead of NaN at s = 0 (so profiles in r are safe under autodiff).

    One maximum, not the usual two nested choices: XLA's compiler for CPUs was seen to mix up two such
    pairs in one program, and then returned sqrt(1) for s = 0.
    """
    xp = s.__array_namespace__()
    return xp.sqrt(xp.maximum(s, xp.asarray(1e-36, dtype=s.dtype)))

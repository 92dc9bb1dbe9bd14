"""Rows of a data set given their neighbours: what the neighbour likelihood is computed of."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Conditionals:
    """Some rows of a data set, each conditioned on its neighbours: y_i | y_J."""

    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n, t)
    share: np.ndarray  # (n,), of the noise: N = noise * share
    rows: np.ndarray  # i, (m,) int32
    J: np.ndarray  # (m, neighbours) int32, padded with -1
    less: np.ndarray | None = None  # (n, r): the covariance is k(x, x') less their inner products
    weights: "Weights | None" = None  # filled in, where they are asked for


@dataclass(frozen=True, eq=False)
class Weights:
    """Of -log p(y_i | y_J) for each row i: of points (J, i), the slope in the covariances is the symmetric
    part of w q^T, and in y it is -w pull."""

    w: np.ndarray  # (m, neighbours + 1)
    q: np.ndarray
    pull: np.ndarray  # (m, t)

    @staticmethod
    def empty(rows: int, neighbours: int, targets: int) -> "Weights":
        shape = rows, neighbours + 1
        return Weights(np.empty(shape), np.empty(shape), np.empty((rows, targets)))

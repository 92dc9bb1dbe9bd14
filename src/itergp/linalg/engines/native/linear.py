"""The linear parts of a kernel: Phi0 Phi1^T with a few columns, in float64, beside the tiles of the others.

Products are made block by block, with zeros after the last row: BLAS splits sums by their length, and rounds
accordingly, so this way appending rows changes no bit of what the earlier ones contribute. With so few
columns, more threads would only wait for each other.
"""

import numpy as np
from scipy.linalg.blas import dgemm

from itergp.linalg.blas import blas_threads
from itergp.linalg.engines.native.leaves import Leaf

ROWS = 1024  # of a block


def features(parts: list[Leaf], X: np.ndarray) -> np.ndarray:
    """Phi; without linear parts it has no columns."""
    of_parts = [leaf.height**0.5 * (leaf.term.of(X) / leaf.lengthscale) for leaf in parts if leaf.linear]
    return np.concatenate([np.zeros((len(X), 0)), *of_parts], axis=1)


def add_dense(parts: list[Leaf], X0: np.ndarray, X1: np.ndarray, out: np.ndarray) -> None:
    """out += Phi0 Phi1^T"""
    if not any(leaf.linear for leaf in parts):
        return
    Phi0, Phi1 = features(parts, X0), features(parts, X1)
    with blas_threads(1):
        if out.dtype == np.float64:  # in place: another matrix of this size would take longer than its sums
            dgemm(1.0, Phi1, Phi0, beta=1.0, c=out.T, trans_b=1, overwrite_c=1)
        else:
            out += Phi0 @ Phi1.T


def add_product(parts: list[Leaf], X0: np.ndarray, X1: np.ndarray, V: np.ndarray, out: np.ndarray) -> None:
    """out += Phi0 (Phi1^T V)"""
    if not any(leaf.linear for leaf in parts):
        return
    Phi0, T = features(parts, X0), transposed_product(features(parts, X1), V)
    with blas_threads(1):
        for i in range(0, len(Phi0), ROWS):
            out[i : i + ROWS] += (_block(Phi0, i) @ T)[: len(Phi0) - i]


def transposed_product(Phi: np.ndarray, V: np.ndarray) -> np.ndarray:
    total = np.zeros((Phi.shape[1], V.shape[1]))
    with blas_threads(1):
        for i in range(0, len(Phi), ROWS):
            total += _block(Phi, i).T @ _block(V, i)
    return total


def _block(V: np.ndarray, first: int) -> np.ndarray:
    some = np.ascontiguousarray(V[first : first + ROWS])
    return some if len(some) == ROWS else np.pad(some, [(0, ROWS - len(some)), (0, 0)])

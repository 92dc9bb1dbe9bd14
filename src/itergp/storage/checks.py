"""Validation of numbers read from files: finite, with the right sign, shape and count.

A digest shows that a file is unchanged since it was written, not that it is a valid model. Each array is
checked once, where it is used.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from itergp.storage.files import Malformed, Tensors

_SOME = 1 << 16  # numbers per chunk, so that a chunk fits in the cache
# far above what a fit can have, and far enough below the limit of float64 that sums of such numbers are
# finite
_LARGEST = 1e200
_SMALLEST = 1e-150  # on the diagonal of a factor, which is divided by
_LARGEST_COUNT = 10**18


def finite(array: np.ndarray) -> bool:
    """Whether all values are finite and of a sensible size."""
    flat = array.reshape(-1)
    return all((np.abs(flat[i : i + _SOME]) <= _LARGEST).all() for i in range(0, flat.size, _SOME))


def shaped(tensors: Tensors, name: str, *shape: int, least: float = -math.inf) -> np.ndarray:
    """The float64 array of that name; it must have that shape and finite values >= `least`."""
    array = tensors[name]
    if array.shape != shape or array.dtype != np.float64:
        raise Malformed(
            f"array {name} is {array.dtype} of shape {array.shape}; expected float64 of shape {shape}."
        )
    return numbers(array, f"array {name}", least)


def numbers(array: np.ndarray, name: str, least: float = -math.inf) -> np.ndarray:
    """The array itself, if all values are finite and >= `least`."""
    if not finite(array):
        raise Malformed(f"{name} has values that are not finite, or larger than {_LARGEST:.0e}.")
    if least > -math.inf and array.size and array.min() < least:
        raise Malformed(f"{name} has the value {array.min():.3g}; expected at least {least:g}.")
    return array


def lower_factor(L: np.ndarray, name: str) -> np.ndarray:
    """A diagonal block of a Cholesky factor: lower triangular, with a positive diagonal."""
    if not (np.diagonal(L) > _SMALLEST).all():
        raise Malformed(f"array {name} is not a Cholesky factor: its diagonal must be positive.")
    for i in range(0, len(L), 256):  # in strips, without a second matrix
        if np.triu(L[i : i + 256, i:], 1).any():
            raise Malformed(f"array {name} is not a Cholesky factor: it has values above its diagonal.")
    return L


def sparse_columns(tensors: Tensors, name: str, n: int) -> sp.csc_array:
    """Sparse columns with n rows. SciPy trusts `indptr`: a wrong value would read foreign memory."""
    data, indices, ends = (tensors[f"{name}/{what}"] for what in ("data", "indices", "indptr"))
    if data.dtype != np.float64 or data.ndim != 1:
        raise Malformed(
            f"array {name}/data is {data.dtype} of shape {data.shape}; expected float64, one axis."
        )
    if any(array.dtype.kind != "i" or array.ndim != 1 for array in (indices, ends)):
        raise Malformed(f"array {name}/indices or {name}/indptr is not made of whole numbers.")
    if (
        ends.size < 2
        or ends[0] != 0
        or ends[-1] != data.size
        or (np.diff(ends) < 0).any()
        or indices.size != data.size
    ):
        raise Malformed(f"array {name}/indptr is not valid for columns of {data.size} numbers.")
    if data.size and not 0 <= indices.min() <= indices.max() < n:
        raise Malformed(f"array {name}/indices has row numbers outside the {n} rows.")
    return sp.csc_array((numbers(data, f"array {name}/data"), indices, ends), shape=(n, ends.size - 1))


def of_unit_length(Q: Any, name: str) -> None:
    """Check that actions have length 1."""
    squares = Q.multiply(Q).sum(axis=0) if sp.issparse(Q) else np.einsum("nr,nr->r", Q, Q)
    if not (np.abs(np.asarray(squares) - 1.0) < 1e-3).all():
        raise Malformed(f"array {name} has actions that are not of length 1.")


def counted(value: Any, name: str, least: int = 0) -> int:
    """An integer."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST_COUNT:
        raise Malformed(f"{name} is {_short(value)}; expected a whole number from {least} to 10^18.")
    return value


def number(value: Any, name: str, least: float = -math.inf) -> float:
    """A finite number."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not least <= value < math.inf
        or value == -math.inf
    ):
        raise Malformed(
            f"{name} is {_short(value)}; expected a finite "
            f"number{'' if least == -math.inf else f' >= {least:g}'}."
        )
    return float(value)


def array_of(value: Any, name: str, *shape: int, least: float = -math.inf, whole: bool = False) -> np.ndarray:
    """A number, or lists of numbers, as an array of this shape: of integers if `whole`, else of float64."""
    # before they are turned into anything
    if shape and (not isinstance(value, list) or len(value) != shape[0]):
        raise Malformed(
            f"{name} has {len(value) if isinstance(value, list) else 'no list of'} values; expected "
            f"{shape[0]}."
        )
    array = np.array(value)
    if array.shape != shape or array.dtype.kind not in ("i" if whole else "if"):
        raise Malformed(
            f"{name} is not made of {'whole ' if whole else ''}numbers, or its shape is not {shape}."
        )
    return numbers(array.astype(np.intp if whole else np.float64), name, least)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Validation at the public boundary: finite float64 NumPy arrays of the right shape, or a clear error."""

import numbers
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError

Array = np.ndarray
LARGEST_COUNT = 2**53
INTERVALS = ("gaussian", "conformal")  # how an interval is made
# Unicode categories that are invisible or change how other characters look: control, format, line and
# paragraph separators, surrogates, private use.
_UNSEEN = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co"}


def sparse(name: str) -> str:
    """What to do about a sparse matrix; those of inputs mostly come from an encoder."""
    encoder = "OneHotEncoder(sparse_output=False) in a pipeline, or " if name.startswith("X") else ""
    return (
        f"{name} is a sparse matrix; expected a dense array. Use {encoder}{name}.toarray() if it fits in "
        "memory."
    )


def as_float64(name: str, value: ArrayLike) -> Array:
    """Convert `value` to a float64 array; text, objects, complex numbers and masked arrays are rejected."""
    if hasattr(value, "toarray"):
        raise InputError(sparse(name))
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a masked array; expected plain numbers. Drop or fill the masked entries first."
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"{name} cannot be read as an array ({error}); expected rows of equal length."
        ) from None
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has dtype {array.dtype}; expected real numbers. Encode or convert it first."
        )
    return np.asarray(array, dtype=np.float64, order="C")


def finite(name: str, array: Array) -> Array:
    """Return `array` unchanged if every entry is finite."""
    if not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = where[0] if array.ndim == 1 else where
        raise InputError(
            f"{name} has {int(bad.sum())} entries that are not finite, the first at {place} "
            f"({array[where]}); expected finite numbers. Drop or impute those rows."
        )
    return array


def inputs(name: str, value: ArrayLike, features: int | None = None) -> Array:
    """Inputs as a finite float64 matrix (n, d), n >= 1; a vector is read as a single feature."""
    X = as_float64(name, value)
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2:
        raise InputError(
            f"{name} has shape {X.shape}; expected (n, d): one row per point, one column per feature."
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InputError(f"{name} has shape {X.shape}; expected at least one row and one feature.")
    if features is not None and X.shape[1] != features:
        raise InputError(f"{name} has {X.shape[1]} features; expected {features}, as in the training inputs.")
    return finite(name, X)


def grouped_inputs(name: str, value: ArrayLike, features: int) -> Array:
    """Inputs (n, d), or groups of them (b, q, d), which keep their shape."""
    X = as_float64(name, value)
    if X.ndim != 3:
        return inputs(name, X, features)
    if not X.shape[1]:
        raise InputError(f"{name} has shape {X.shape}; expected (b, q, d): groups of at least one point.")
    return inputs(name, X.reshape(-1, X.shape[2]), features).reshape(X.shape)


def targets(name: str, value: ArrayLike, rows: int) -> Array:
    """Targets as a finite float64 array (n,) or (n, t)."""
    y = as_float64(name, value)
    if y.ndim not in (1, 2) or y.shape[0] != rows or y.size == 0:
        raise InputError(
            f"{name} has shape {y.shape}; expected ({rows},) or ({rows}, targets): one row per row of X."
        )
    return finite(name, y)


def noise_variance(name: str, value: ArrayLike, rows: int) -> float | Array:
    """A noise variance: a number or one value per row; finite and not negative."""
    noise = finite(name, as_float64(name, value))
    if noise.ndim > 1 or (noise.ndim == 1 and noise.shape[0] != rows):
        raise InputError(f"{name} has shape {noise.shape}; expected a number or one value per row ({rows},).")
    if (noise < 0).any():
        raise InputError(f"{name} is negative ({float(noise.min())}); expected a variance, which is >= 0.")
    return float(noise) if noise.ndim == 0 else noise


def count(name: str, value: Any, least: int = 1) -> int:
    """An integer >= `least` that float64 can represent exactly."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} is {value!r}; expected an integer of at least {least}.")
    if int(value) > LARGEST_COUNT:
        raise InputError(f"{name} is {value!r}; expected an integer of at most {LARGEST_COUNT}.")
    return int(value)


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < float("inf"):
        raise InputError(f"{name} is {value!r}; expected a finite number above 0.")
    return float(value)


def positive_parameter(name: str, value: Any) -> Any:
    """A positive number or vector; tracers of an autodiff library pass through untouched."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        raise InputError(f"{name} is {value!r}; expected a positive number, or one per feature.")
    if hasattr(value, "__array_namespace__") and not isinstance(value, np.ndarray | np.generic):
        return value
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r}; expected a positive number, or one per feature.") from None
    if array.ndim > 1 or array.size == 0:
        raise InputError(
            f"{name} has shape {array.shape}; expected a number or a vector with one value per feature."
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{name} is {value!r}; expected finite values above 0.")
    return float(array) if array.ndim == 0 else array


def positive_scalar(name: str, value: Any) -> Any:
    """A positive number, or a tracer of one."""
    value = positive_parameter(name, value)
    if np.ndim(value) != 0:
        raise InputError(f"{name} has shape {np.shape(value)}; expected a number.")
    return value


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of a fixed set of names."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}.")
    return value


def unseen(letter: str) -> bool:
    """Whether a character is invisible; tabs and line ends do not count."""
    return letter not in "\t\n" and unicodedata.category(letter) in _UNSEEN


def visible(text: str) -> str:
    """Text with invisible characters escaped, as in Python."""
    return "".join(letter.encode("unicode_escape").decode() if unseen(letter) else letter for letter in text)

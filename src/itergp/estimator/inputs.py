"""Validation of X, y and options, as in scikit-learn; errors name the argument and say what to do."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from itergp.errors import InputError
from itergp.tables.frames import frame_columns, frame_inputs, is_frame
from itergp.tables.groups import BLOCKS
from itergp.validate import INTERVALS, Array, choice, count, sparse, visible

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100  # so that noise / weight and its squares fit in float64


class InputTypeError(InputError, TypeError):
    """An argument contains values that are not numbers; scikit-learn's checks expect a TypeError."""


def training_data(estimator: Any, X: Any, y: Any, reset: bool, holes: bool = False) -> tuple[Array, Array]:
    """X (n, d) and y (n,) or (n, t): finite float64; with `holes`, X may have NaN. `reset` sets the names and
    the number of features."""
    if y is not None:
        _plain("y", y)
    X = _named(X) if reset else encoded(estimator, _named(X))
    _plain("X", X)
    with _clear_errors():
        X, y = validate_data(
            estimator,
            X,
            y,
            reset=reset,
            dtype=np.float64,
            order="C",
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=1,
            ensure_all_finite="allow-nan" if holes else True,
        )
    y = np.asarray(y, dtype=np.float64)
    if y.size == 0:
        raise InputError(f"y has shape {y.shape}; expected at least one target.")
    return X, y


def sample_weights(weights: Any, n: int) -> Array | None:
    """The weight of each row: finite, >= 0, not all zero; None where all are 1."""
    if weights is None:
        return None
    _plain("sample_weight", weights)
    if np.iscomplexobj(np.asarray(weights)):
        raise InputError(
            f"sample_weight has the dtype {np.asarray(weights).dtype}; expected real numbers >= 0: one for "
            "each row of X."
        )
    try:
        found = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"sample_weight cannot be read as numbers ({error}); expected ({n},).") from None
    found = np.full(n, found) if found.ndim == 0 else found
    if found.shape != (n,):
        raise InputError(
            f"sample_weight has shape {found.shape}; expected ({n},): one weight for each row of X."
        )
    wrong = np.flatnonzero(~((found >= 0) & (found < np.inf)))
    if wrong.size:
        raise InputError(
            f"sample_weight has {wrong.size} values that are negative or not finite, the first in row "
            f"{wrong[0]} ({found[wrong[0]]}); expected numbers >= 0. Use 0 for rows to be left out."
        )
    if not found.any():
        raise InputError(
            "sample_weight is zero for all rows, which leaves none; expected some weight above 0."
        )
    low, high = found[found > 0].min(), found.max()
    if low < LEAST_WEIGHT or high > MOST_WEIGHT:
        raise InputError(
            f"sample_weight reaches from {low:.3g} to {high:.3g}; expected {LEAST_WEIGHT:.0e} to "
            f"{MOST_WEIGHT:.0e}, or 0. Rescale the weights, and the noise with them if it is given."
        )
    return None if (found == 1).all() else found


def weighted_rows(X: Array, y: Array, weights: Array | None, *more: Any) -> tuple[Any, ...]:
    """Without the rows of weight zero: X, y, the weights, and what else there is for each row."""
    if weights is None or weights.all():
        return X, y, weights, *more
    kept = weights > 0
    weights = None if (weights[kept] == 1).all() else weights[kept]
    return X[kept], y[kept], weights, *(part[kept] if isinstance(part, np.ndarray) else part for part in more)


def require_groups(groups: Array | str | None) -> None:
    """Refuse if rows of weight zero were all that was outside of one group."""
    if isinstance(groups, np.ndarray) and (groups == groups[0]).all():
        raise InputError(
            "groups has one group with a sample_weight above 0; expected at least two, so that some can be "
            "held out. Leave it out to hold out random rows."
        )


def encoded(estimator: Any, X: Any) -> Any:
    """A data frame with the columns of the table that the command line fitted the model to, as its inputs;
    other data as they are."""
    layout = getattr(estimator, "table_", None)
    if layout is None or not layout.header or not is_frame(X) or hasattr(estimator, "feature_names_in_"):
        return X
    if layout.inputs != layout.names and list(map(str, frame_columns(X))) == layout.inputs:
        return np.column_stack([X[name] for name in frame_columns(X)])
    return frame_inputs(layout, X)


def new_inputs(estimator: Any, X: Any) -> Array:
    """X (m, d), with the features of the training inputs."""
    X = encoded(estimator, _named(X))
    _plain("X", X)
    with _clear_errors():
        return validate_data(
            estimator,
            X,
            reset=False,
            dtype=np.float64,
            order="C",
            ensure_all_finite=True if estimator.fit_.donors is None else "allow-nan",
        )


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """Convert scikit-learn's errors into errors of this library."""
    try:
        yield
    except OverflowError:
        raise InputError(
            "X or y contains an integer that is too large for float64; expected numbers below 1e308."
        ) from None
    except TypeError as error:
        raise InputTypeError(
            f"{visible(str(error))}. X and y must contain numbers; encode or convert other values."
        ) from None
    except ValueError as error:
        advice = " Drop or impute those rows first." if str(error).startswith("Input y contains") else ""
        raise InputError(f"{visible(str(error))}{advice}") from None


def _named(X: Any) -> Any:
    """Convert an Arrow batch to a table: scikit-learn ignores the column names of batches."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not isinstance(X, arrow.RecordBatch):
        return X
    return arrow.Table.from_batches([X])


def _plain(name: str, value: Any) -> None:
    """Reject values that NumPy would silently convert to wrong numbers."""
    if hasattr(value, "toarray"):
        raise InputError(sparse(name))
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a masked array; expected plain numbers. Drop or fill the masked entries first."
        )
    if isinstance(value, str | bytes | dict | set) or value is None:
        raise InputError(f"{name} is a {type(value).__name__}; expected an array or a data frame of numbers.")
    if hasattr(value, "columns"):  # column by column: some frames turn dates beside numbers into numbers
        # Arrow's, or a frame's
        columns = list(value.column_names if hasattr(value, "column_names") else value.columns)
        _distinct_names(name, columns)
        for column in columns:
            _plain(f"column {column!r} of {name}", value[column])
        return
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{name} cannot be read as an array ({error}); expected rows of equal length."
        ) from None
    kind = array.dtype.kind
    if kind in "Mm":
        raise InputError(
            f"{name} holds dates or durations ({array.dtype}); expected numbers, such as days since a date."
        )
    if kind == "V":
        raise InputError(f"{name} holds records ({array.dtype}); expected numbers, one column per feature.")
    if kind in "USO":
        _no_text(name, array)


def _no_text(name: str, array: Array) -> None:
    """Object arrays may contain numbers but no text, even if it looks like a number."""
    for where, entry in np.ndenumerate(array):
        if isinstance(entry, str | bytes):
            place = where[0] if len(where) == 1 else where
            raise InputError(
                f"{name} holds text, the first at {place} ({entry!r}); expected numbers. Encode it first "
                "(one-hot, ordinal)."
            )


def _distinct_names(name: str, columns: list[Any]) -> None:
    for i, column in enumerate(columns):
        if column in columns[:i]:
            raise InputError(
                f"{name} has two columns named {column!r}; expected distinct names. Rename or "
                "drop one of them."
            )


# Options, and errors that leave the model unchanged.


def check_flags(asked: Mapping[str, Any]) -> None:
    """Check the parameters that nothing else checks before the work begins."""
    for name in ("normalize", "merge_duplicates"):
        if not isinstance(asked[name], bool | np.bool_):
            raise InputError(f"{name} is {asked[name]!r}; expected True or False.")
    if asked["neighbours"] != "auto":
        count("neighbours", asked["neighbours"], least=0)
    if not isinstance(asked["verbose"], bool):
        count("verbose", asked["verbose"], least=0)
    if asked["checkpoint"] is not None:
        _check_name("checkpoint", asked["checkpoint"])


def check_path(path: Any) -> None:
    if not isinstance(path, str | PathLike):
        raise InputError(f"path is {path!r}; expected a path to a file, such as 'model.itergp'.")


def seed_of(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return count("random_state", random_state, least=0)
    return int(randomness(random_state).randint(2**31 - 1))


def randomness(random_state: Any) -> np.random.RandomState:
    try:
        return check_random_state(random_state)
    except ValueError:
        raise InputError(
            f"random_state is {random_state!r}; expected an integer >= 0, a RandomState, or None."
        ) from None


def interval_reach(level: Any) -> float:
    """Half-width of the central interval with this probability, in standard deviations."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise InputError(f"level is {level!r}; expected a probability between 0 and 1, such as 0.95.")
    reach = float(ndtri(0.5 + float(level) / 2))
    if not np.isfinite(reach):
        raise InputError(
            f"level is {level!r}, which float64 cannot distinguish from 1; expected at most 1 - 3e-16."
        )
    return reach


def probabilities(levels: Any, name: str = "levels") -> np.ndarray:
    """One or more, as an array."""
    try:
        given = np.asarray(levels)
    except ValueError:  # lists of several lengths
        given = np.array(levels, dtype=object)
    if given.dtype.kind not in "iuf" or given.ndim > 1 or not given.size or np.ma.is_masked(levels):
        what = repr(levels) if given.ndim < 2 else f"an array of shape {given.shape}"
        raise InputError(f"{name} is {what}; expected probabilities, such as 0.9 or [0.05, 0.5, 0.95].")
    found = np.atleast_1d(given).astype(np.float64)
    wrong = [level for level in found.tolist() if not (0 < level < 1 and np.isfinite(ndtri(level)))]
    if wrong:
        raise InputError(f"{name} has {wrong[0]!r}; expected probabilities between 0 and 1, such as 0.9.")
    return found


def check_method(method: Any, include_noise: bool) -> None:
    """Of an interval. Held-out rows say nothing about the latent function."""
    choice("method", method, INTERVALS)
    if method == "conformal" and not include_noise:
        raise InputError(
            "include_noise is False and method is 'conformal', which is about observations; use "
            "method='gaussian' for the latent function."
        )


def check_calibrated(calibrated: Any, return_std: bool, include_noise: bool) -> None:
    if not isinstance(calibrated, bool | np.bool_):
        raise InputError(f"calibrated is {calibrated!r}; expected True or False.")
    if calibrated and not (return_std and include_noise):
        wrong = "return_std" if not return_std else "include_noise"
        raise InputError(
            f"calibrated is True and {wrong} is False; it is for the standard deviations of observations, so "
            f"set {wrong}=True or calibrated=False."
        )


def _check_name(name: str, path: Any) -> None:
    """Check that the path is valid on this system: not empty, no null bytes, not too long."""
    if not isinstance(path, str | PathLike) or not os.fspath(path):
        raise InputError(f"{name} is {path!r}; expected a path, or None.")
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # reported when it is written
    except (OSError, ValueError) as error:
        raise InputError(
            f"{name} is {str(path)[:80]!r}, which is not a valid path ({error}); choose another one."
        ) from None


@contextlib.contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Bad input leaves a fitted model unchanged. scikit-learn cleans up its callback state itself."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        own = {
            name: value for name, value in vars(estimator).items() if name.startswith(("_callback", "_skl"))
        }
        for name in list(vars(estimator)):
            delattr(estimator, name)
        for name, value in {**before, **own}.items():
            setattr(estimator, name, value)
        raise


def labels(groups: Any, n: int) -> Array | str | None:
    """The group of each row as a number, "blocks", or None."""
    if groups is None or (isinstance(groups, str) and groups == BLOCKS):
        return groups
    if isinstance(groups, str):
        raise InputError(f"groups is {groups!r}; expected one label per row, or {BLOCKS!r}.")
    try:
        found = np.asarray(groups)
    except ValueError:
        found = np.empty(0, dtype=object)
    if found.shape != (n,):
        raise InputError(
            f"groups has shape {found.shape}; expected ({n},): one label for each row of X, such as a column "
            "of stations."
        )
    missing = np.array([label is None or label != label for label in found.tolist()])
    if missing.any():
        raise InputError(
            f"groups has {missing.sum()} missing values, the first in row {int(missing.argmax())}; give each "
            "row a label, or drop those rows."
        )
    index: dict[Any, int] = {}
    numbers = np.array([index.setdefault(label, len(index)) for label in found.tolist()])
    if len(index) < 2:
        raise InputError(
            f"groups has one group, {found.tolist()[0]!r}; expected at least two, so that some can be held "
            "out. Leave it out to hold out random rows."
        )
    return numbers

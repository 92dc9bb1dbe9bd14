"""X, y and options as scikit-learn's manners want them, with errors that name the argument and say what to
do; and the first rows of a stream, which are too few to learn from for good."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from itergp.data.spread import CONSTANT
from itergp.errors import InputError
from itergp.validate import Array, count

ENOUGH = 100  # rows that tell something: from here on hyper-parameters and scaling stay
KEPT = 1000  # rows that a model keeps as they came, until then


class InputTypeError(InputError, TypeError):
    """An argument holds things that are no numbers; scikit-learn's checks expect a TypeError here."""


def training_data(estimator: Any, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:
    """X (n, d) and y (n,) or (n, t): finite float64. `reset` reads the names and the number of features
    anew."""
    if y is not None:
        _plain("y", y)
    X = _named(X)
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
        )
    y = np.asarray(y, dtype=np.float64)
    if y.size == 0:
        raise InputError(f"y has shape {y.shape}; expected at least one target.")
    return X, y


def new_inputs(estimator: Any, X: Any) -> Array:
    """X (m, d), with the features of the training inputs."""
    X = _named(X)
    _plain("X", X)
    with _clear_errors():
        return validate_data(estimator, X, reset=False, dtype=np.float64, order="C")


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """scikit-learn's complaints, as errors of this library."""
    try:
        yield
    except OverflowError:
        raise InputError(
            "X or y holds an integer that is too large for float64; expected numbers below 1e308."
        ) from None
    except TypeError as error:
        raise InputTypeError(f"{error}. X and y must hold numbers: encode or convert what is not.") from None
    except ValueError as error:
        advice = " Drop or impute those rows first." if str(error).startswith("Input y contains") else ""
        raise InputError(f"{error}{advice}") from None


def _named(X: Any) -> Any:
    """An Arrow batch as a table: scikit-learn would not look at the names of its columns."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not isinstance(X, arrow.RecordBatch):
        return X
    return arrow.Table.from_batches([X])


def _plain(name: str, value: Any) -> None:
    """Refuse what NumPy would turn into numbers silently, or into nonsense."""
    if hasattr(value, "toarray"):
        raise InputError(
            f"{name} is a sparse matrix; expected a dense array. Use {name}.toarray() if it fits in memory."
        )
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
        raise InputError(
            f"{name} holds records ({array.dtype}); expected numbers, one column for each feature."
        )
    if kind in "USO":
        _no_text(name, array)


def _no_text(name: str, array: Array) -> None:
    """Numbers in object arrays are fine; text in them is not, even where it looks like a number."""
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


# The first rows of a stream.


@dataclass(frozen=True, eq=False)
class FirstRows:
    """All rows so far, while some target or feature has told too little: what was learned is kept only
    until that has doubled.

    Up to KEPT rows are here as they came, so that what is learned anew is what `fit` learns, to the bit.
    Of more rows the model has the only copy: scaled and merged, which `fit` learns the same from but for
    rounding.
    """

    X: Array | None
    y: Array | None
    late: Array  # (d,): the features that were constant, until enough rows say how y changes along them
    # (t + 1,): how many rows told something when last fitted, of each target and of the late features; -1:
    # enough
    fitted: Array
    told: Array  # (t,): whether there was anything to learn from

    @staticmethod
    def of(
        X: Array, y: Array, residual: Array, learns: bool, before: "FirstRows | None" = None
    ) -> "FirstRows | None":
        """None where the rows suffice: to learn, or for scaling alone. `residual` is what the prior mean
        leaves of y; `before` is what was known of the first of these rows."""
        enough, told, late = ENOUGH if learns else 1, telling(residual, y), constant(X)
        if before is not None and _differing(X, before.late) < enough:
            late = late | before.late
        needed = np.array([*(told < enough), late.any()])
        if not needed.any():
            return None
        fitted = np.where(needed, [*telling(y, y), _differing(X, late)], -1)
        return FirstRows(X, y, late, fitted, told > 0).bounded()

    def joined(self, X: Array, y: Array, model: Callable[[], tuple[Array, Array]]) -> "FirstRows":
        """With more rows; `model` has those so far where they are not here."""
        before = model() if self.X is None or self.y is None else (self.X, self.y)
        return replace(self, X=np.concatenate([before[0], X]), y=np.concatenate([before[1], y]))

    def bounded(self) -> "FirstRows":
        return self if self.X is None or len(self.X) <= KEPT else replace(self, X=None, y=None)

    @property
    def due(self) -> bool:
        """Whether to fit all rows anew: of a target or of the late features twice as many tell something
        as when last fitted, or enough for good."""
        assert self.X is not None  # they are joined
        assert self.y is not None
        now, needed = np.array([*telling(self.y, self.y), _differing(self.X, self.late)]), self.fitted >= 0
        grown = (now >= 2 * self.fitted) | ((now >= ENOUGH) & (self.fitted < ENOUGH))
        return bool((needed & (now > 0) & grown).any())


def telling(b: Array, y: Array) -> Array:
    """How many values in each column of b differ from its median by more than the rounding of y: of n
    different numbers all, or all but one; where most are equal, the others."""
    return _differ(b.reshape(len(b), -1), y).sum(axis=0)


def _differing(X: Array, features: Array) -> int:
    """How many rows differ from the median of some of these features."""
    return int(_differ(X[:, features], X[:, features]).any(axis=1).sum())


def _differ(b: Array, y: Array) -> Array:
    return np.abs(b - np.median(b, axis=0)) > CONSTANT * np.abs(y).max(axis=0)


def constant(X: Array) -> Array:
    """Which features are constant but for rounding."""
    return X.max(axis=0) - X.min(axis=0) <= CONSTANT * np.abs(X).max(axis=0)


# Options, and errors that change nothing.


def check_flags(estimator: Any) -> None:
    """Those options that nothing else looks at before the work begins."""
    for name in ("normalize", "merge_duplicates"):
        if not isinstance(getattr(estimator, name), bool | np.bool_):
            raise InputError(f"{name} is {getattr(estimator, name)!r}; expected True or False.")
    if estimator.neighbours != "auto":
        count("neighbours", estimator.neighbours, least=0)
    if not isinstance(estimator.verbose, bool):
        count("verbose", estimator.verbose, least=0)
    if estimator.checkpoint is not None:
        _check_name("checkpoint", estimator.checkpoint)


def _check_name(name: str, path: Any) -> None:
    """A path that the system can have: not empty, without null bytes, not too long."""
    if not isinstance(path, str | PathLike) or not os.fspath(path):
        raise InputError(f"{name} is {path!r}; expected a path, or None.")
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # what cannot be written is found out, and told, when it is written
    except (OSError, ValueError) as error:
        raise InputError(
            f"{name} is {str(path)[:80]!r}, which is not a path here ({error}); give another one."
        ) from None


@contextlib.contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Bad input leaves a fitted model as it was. What scikit-learn keeps for its callbacks stays: it
    tidies up itself."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        own = {
            name: value for name, value in vars(estimator).items() if name.startswith(("_callback", "_skl"))
        }
        for name in list(vars(estimator)):
            delattr(estimator, name)
        assign(estimator, {**before, **own})
        raise


def assign(estimator: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(estimator, name, value)

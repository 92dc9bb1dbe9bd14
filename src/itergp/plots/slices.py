"""A process along one feature, with the data next to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.plots.drawing import BLACK
from itergp.validate import as_float64, choice, count, finite, inputs, targets

DRAWN = 1000  # points of the data, at most
NEAREST = 300  # of them next to a slice
COARSE = 25  # points along each feature, to find the one along which the mean changes most
MARGIN = 0.1  # share of the data's range, on either side


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs (n, d), and targets if they are known."""

    X: np.ndarray
    y: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Slice:
    """A line through the inputs: the feature varies over t, the others are fixed `at` a point (d,)."""

    feature: int
    t: np.ndarray
    at: np.ndarray

    @property
    def X(self) -> np.ndarray:
        X = np.tile(self.at, (self.t.size, 1))
        X[:, self.feature] = self.t
        return X


def training_data(process: Any) -> Data | None:
    """What a posterior or a baseline was conditioned on; without the targets if a file did not store them."""
    problem = getattr(getattr(process, "posterior", process), "problem", None)
    if problem is None:
        return None
    return Data(problem.X, problem.y if isinstance(problem.y, np.ndarray) else None)


def data_for(process: Any, X: ArrayLike | None, y: ArrayLike | None) -> Data | None:
    """What was given, or what the process was conditioned on, if anything."""
    if X is not None:
        X = inputs("X", X)
        return Data(X, None if y is None else targets("y", y, len(X)))
    if y is not None:
        raise InputError("y is given without X; expected both, or neither to plot the training data.")
    return process.training_data() if hasattr(process, "training_data") else training_data(process)


@dataclass(frozen=True, eq=False)
class Slices:
    """All slices through a point `at` (d,): each as long as the given limits, or as the data."""

    at: np.ndarray
    data: Data | None
    limits: tuple[float, float] | None

    def along(self, feature: int, points: int) -> Slice:
        low, high = (
            _range(self.data.X[:, feature])
            if self.limits is None and self.data is not None
            else _checked(self.limits)
        )
        return Slice(feature, np.linspace(low, high, points), self.at)

    def most_changing(self, process: Any, target: int) -> int:
        """The feature along which the mean changes most, by its standard deviation on a coarse slice."""
        if self.at.size == 1:
            return 0
        slices = [self.along(j, COARSE) for j in range(self.at.size)]
        return int(np.argmax([np.std(column(process.mean(line.X), target)) for line in slices]))


def slices_for(
    process: Any, data: Data | None, at: ArrayLike | None, limits: tuple[float, float] | None
) -> Slices:
    if data is None and limits is None:
        raise InputError(
            f"limits is missing, and a {type(process).__name__} without data has no range; give limits=(-1, "
            "1)."
        )
    if at is None:
        return Slices(np.zeros(1) if data is None else np.median(data.X, axis=0), data, limits)
    here = finite("at", np.atleast_1d(as_float64("at", at)))
    if here.ndim != 1 or (data is not None and here.size != data.X.shape[1]):
        expected = "(features,)" if data is None else f"({data.X.shape[1]},)"
        raise InputError(f"at has shape {here.shape}; expected {expected}: one value per feature.")
    return Slices(here, data, limits)


def feature_index(feature: int | str, names: Sequence[str] | None, features: int) -> int:
    if isinstance(feature, str):
        names = [str(name) for name in (() if names is None else names)]
        return names.index(choice("feature", feature, tuple(names)))
    if count("feature", feature, least=0) >= features:
        raise InputError(
            f"feature is {feature}; expected a number from 0 to {features - 1}, one of the features."
        )
    return int(feature)


def _range(x: np.ndarray) -> tuple[float, float]:
    """Slightly beyond the data on either side."""
    low, high = float(x.min()), float(x.max())
    margin = MARGIN * (high - low) if high > low else 0.5
    return low - margin, high + margin


def _checked(limits: Any) -> tuple[float, float]:
    pair = as_float64("limits", limits)
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair[0] < pair[1]:
        raise InputError(
            f"limits is {limits!r}; expected two finite numbers, the lower one first, such as (-1, 1)."
        )
    return float(pair[0]), float(pair[1])


def scatter(axis: Any, data: Data, line: Slice, target: int) -> None:
    """The data; next to a slice only the nearest ones, in standard deviations of the other features."""
    n, features = data.X.shape
    assert data.y is not None
    if features > 1:
        scale = np.where(data.X.std(axis=0) > 0, data.X.std(axis=0), 1.0)
        away = (data.X - line.at) / scale
        away[:, line.feature] = 0.0
        rows = np.argsort((away**2).sum(axis=1), kind="stable")[: min(NEAREST, max(20, n // 10))]
        label = f"the {rows.size} nearest data" if rows.size < n else "data"
    else:
        rows = np.arange(n) if n <= DRAWN else np.random.default_rng(0).choice(n, DRAWN, replace=False)
        label = "data" if n <= DRAWN else f"{DRAWN:,} of {n:,} data"
    x, y = data.X[rows, line.feature], column(data.y, target)[rows]
    inside = (x >= line.t[0]) & (x <= line.t[-1])
    axis.scatter(x[inside], y[inside], s=9, color=BLACK, lw=0, alpha=0.7, zorder=3, label=label)


def feature_name(names: Sequence[str] | None, feature: int, features: int) -> str:
    if names is not None:
        return str(names[feature])
    return "x" if features == 1 else f"feature {feature}"


def column(values: np.ndarray, target: int) -> np.ndarray:
    """One target of (m, t); values shared by all targets are returned unchanged."""
    values = np.asarray(values)
    if values.ndim == 1:
        return values
    if count("target", target, least=0) >= values.shape[1]:
        raise InputError(
            f"target is {target}; expected a number from 0 to {values.shape[1] - 1}, one of the targets."
        )
    return values[:, target]

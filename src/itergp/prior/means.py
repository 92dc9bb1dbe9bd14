"""Prior mean functions mu(x)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp import brief
from itergp.errors import InputError
from itergp.validate import as_float64, finite


class Mean(ABC):
    """A function from inputs (n, d) to prior means: (n,), or (n, t) for several targets."""

    @abstractmethod
    def __call__(self, X: np.ndarray) -> np.ndarray: ...

    def __init_subclass__(cls) -> None:
        brief.keep_repr(cls)

    def __repr__(self) -> str:
        return brief.call(self)

    def pullback(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """The gradient of sum_it slopes_it mu_t(x_i) in X; `slopes` is (n, t). Correct for any function;
        override it if there is a formula."""
        return by_differences(self, X, slopes)


def by_differences(mean: Callable[[np.ndarray], np.ndarray], X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """`Mean.pullback` by central differences."""
    out = np.zeros_like(X)
    for f in range(X.shape[1]):
        h = np.zeros(X.shape[1])
        h[f] = 1e-6 * max(1.0, float(np.abs(X[:, f]).max()))
        change = np.asarray(mean(X + h), dtype=np.float64) - mean(X - h)
        out[:, f] = (slopes * change.reshape(len(X), -1)).sum(axis=1) / (2.0 * h[f])
    return out


@dataclass(frozen=True, eq=False)
class Zero(Mean):
    """0"""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(X.shape[0])

    def pullback(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return np.zeros_like(X)


@dataclass(frozen=True, eq=False)
class ConstantMean(Mean):
    """value: a number, or one per target"""

    value: Any = 0.0

    def __post_init__(self) -> None:
        value = finite("ConstantMean.value", as_float64("ConstantMean.value", self.value))
        if value.ndim > 1:
            raise InputError(
                f"ConstantMean.value has shape {value.shape}; expected a number or one value per target."
            )
        object.__setattr__(self, "value", float(value) if value.ndim == 0 else value)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.value, (X.shape[0], *np.shape(self.value))).copy()

    def pullback(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return np.zeros_like(X)


@dataclass(frozen=True, eq=False)
class MeanOfTarget(Mean):
    """One target's part of a mean function of several targets"""

    mean: Mean
    target: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        values = np.asarray(self.mean(X), dtype=np.float64)
        return values if values.ndim == 1 else values[:, self.target]


@dataclass(frozen=True, eq=False)
class LinearMean(Mean):
    """x^T weights + intercept: weights (d,), or (d, t) for several targets"""

    weights: Any
    intercept: Any = 0.0

    def __post_init__(self) -> None:
        weights = finite("LinearMean.weights", as_float64("LinearMean.weights", self.weights))
        if weights.ndim not in (1, 2):
            raise InputError(f"LinearMean.weights has shape {weights.shape}; expected (d,) or (d, targets).")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(
            self,
            "intercept",
            finite("LinearMean.intercept", as_float64("LinearMean.intercept", self.intercept)),
        )

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if X.shape[1] != self.weights.shape[0]:
            raise InputError(
                f"LinearMean.weights is for {self.weights.shape[0]} features, but the inputs have "
                f"{X.shape[1]}."
            )
        return X @ self.weights + self.intercept

    def pullback(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        one = self.weights.ndim == 1  # the same for all targets
        return np.outer(slopes.sum(axis=1), self.weights) if one else slopes @ self.weights.T

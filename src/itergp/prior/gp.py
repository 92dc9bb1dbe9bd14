"""A Gaussian process has a mean, a variance and a covariance function; marginals have no covariance."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError
from itergp.prior.kernel import Kernel
from itergp.prior.means import Mean, Zero, by_differences
from itergp.validate import count, inputs


@runtime_checkable
class Marginals(Protocol):
    """A mean and a variance at each point: the interface that metrics and plots use."""

    def mean(self, X: ArrayLike) -> np.ndarray: ...

    def var(self, X: ArrayLike) -> np.ndarray: ...


@runtime_checkable
class GaussianProcess(Marginals, Protocol):
    """Marginals with a joint distribution: adds a covariance."""

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray: ...


def gaussian_draws(covariance: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws from N(0, covariance), shape (m, size), by the symmetric square root: no jitter, any rank."""
    eigenvalues, U = np.linalg.eigh(covariance)
    root = U * np.sqrt(np.maximum(eigenvalues, 0.0))  # negative only by rounding
    return root @ rng.standard_normal((covariance.shape[0], size))


@dataclass(frozen=True, eq=False)
class Prior:
    """f ~ GP(mean, kernel)"""

    kernel: Kernel
    mean_function: Mean

    def __init__(self, kernel: Kernel, mean: Mean | None = None) -> None:
        if not isinstance(kernel, Kernel):
            raise InputError(
                f"kernel is {kernel!r}; expected an itergp kernel such as Matern32(lengthscale=0.3)."
            )
        mean = Zero() if mean is None else mean
        if not callable(mean):
            raise InputError(f"mean is {mean!r}; expected a mean function such as ConstantMean(1.0).")
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "mean_function", mean)

    def __repr__(self) -> str:
        mean = "" if isinstance(self.mean_function, Zero) else f", mean={brief.value(self.mean_function)}"
        return f"Prior({self.kernel!r}{mean})"

    def mean(self, X: ArrayLike) -> np.ndarray:
        return np.asarray(self.mean_function(inputs("X", X)), dtype=np.float64)

    def var(self, X: ArrayLike) -> np.ndarray:
        return np.asarray(self.kernel.diagonal(inputs("X", X)), dtype=np.float64)

    def mean_pullback(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """The gradient of sum_it slopes_it mu_t(x_i) in X, for slopes (n, t)."""
        mean = self.mean_function
        return mean.pullback(X, slopes) if isinstance(mean, Mean) else by_differences(mean, X, slopes)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        X0 = inputs("X0", X0)
        return np.asarray(self.kernel(X0, X0 if X1 is None else inputs("X1", X1)), dtype=np.float64)

    def sample(self, X: ArrayLike, size: int = 1, seed: int = 0) -> np.ndarray:
        """Joint draws at X, shape (size, m): exact, at cubic cost in m."""
        rng = np.random.default_rng(seed)
        mean = self.mean(X)
        targets = 1 if mean.ndim == 1 else mean.shape[1]
        draws = gaussian_draws(self.cov(X), count("size", size) * targets, rng)
        return draws.T.reshape(size, targets, -1).swapaxes(1, 2).reshape(size, *mean.shape) + mean

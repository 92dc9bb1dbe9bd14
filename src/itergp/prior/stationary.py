"""Stationary kernels: functions of x - x'. Each is defined in one line, its `profile`."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import KernelError
from itergp.prior import rounding, spectra
from itergp.prior.distances import distance, squared_distance
from itergp.prior.kernel import Array, Kernel, RandomFeatures, check_sizes
from itergp.validate import positive_parameter, positive_scalar

MOST_RADIANS = 1e12  # a larger angle has fewer than four correct decimals
AT_ONCE = 2**16  # rows whose coordinates are squared at once


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k(x, x') = profile(|phi(x) - phi(x')|^2), with phi(x) = x / lengthscale unless overridden."""

    lengthscale: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "lengthscale", positive_parameter(f"{type(self).__name__}.lengthscale", self.lengthscale)
        )

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """The kernel as a function of the squared distance s; profile(0) = 1."""

    def frequencies(
        self, rng: np.random.Generator, size: int, dimension: int
    ) -> np.ndarray | spectra.Frequencies:
        """`size` draws from the spectral density of the profile (Bochner's theorem), for samples that are
        functions.

        Draws from another density are returned with their weights, (draws, weights): see
        `itergp.prior.spectra`.
        """
        raise KernelError(
            f"{type(self).__name__} has no frequencies, so its samples cannot be functions defined "
            "everywhere. Use posterior.sample(X) at given points, or give the kernel a `frequencies` method."
        )

    def features(self, X: Array) -> Array:
        return X / self.lengthscale

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.profile(squared_distance(self.features(X0), self.features(X1)))

    def diagonal(self, X: Array) -> Array:
        return X.__array_namespace__().ones(X.shape[0], dtype=X.dtype)

    @property
    def stationary(self) -> bool:
        return True

    def embedding(self, X: np.ndarray) -> np.ndarray:
        return self.features(X)

    def rates(self) -> np.ndarray | None:
        own = type(self).features, type(self).embedding
        return (
            1.0 / np.asarray(self.lengthscale) if own == (Stationary.features, Stationary.embedding) else None
        )

    def amplification(self, X: np.ndarray | rounding.Shifted, dtype: str = "float32") -> float:
        # coordinates are rounded by u |phi|, so distances by twice that, and no profile here has a slope
        # above 1 in distance
        squares = self._rounded(X)
        size = float(np.sqrt(squares.mean()))
        if not squares.max() < float(np.finfo(dtype).max) / 1e16:  # below, s exp(-r) vanishes in all engines
            if dtype == "float32":
                return float("inf")
            largest = np.abs(np.asarray(X)).max()
            raise KernelError(
                f"{type(self).__name__}.lengthscale is {self.lengthscale!r}, but inputs are as large as "
                f"{largest:.2g}: in this unit, squared distances are too large for float64. Give a "
                "longer lengthscale, or rescale the inputs."
            )
        derived = 4.0 + 2.0 * size
        if type(self).__module__ == __name__:
            if size < rounding.FAR:
                return derived
            F = self.features(np.asarray(X))
            steep = rounding.where_steep(self.profile, F, np.sqrt(squares), dtype)
            return min(derived, 4.0 + 2.0 * steep)
        few = X[: rounding.ROWS]
        farthest = 2.0 * float(np.abs(self.features(few)).max(initial=0.0)) + 1.0
        return max(derived, rounding.measured(self, few), rounding.of_profile(self.profile, size, farthest))

    def _rounded(self, X: np.ndarray | rounding.Shifted) -> np.ndarray:
        """Squared rounding of the coordinates phi(x) of each row, in units of u."""
        out = np.empty(len(X))
        with np.errstate(over="ignore"):
            for start in range(0, len(X), AT_ONCE):  # of many, no copies
                rows = slice(start, start + AT_ONCE)
                out[rows] = (self.features(X[rows]) ** 2).sum(axis=1)
        return out

    def check_features(self, d: int) -> None:
        check_sizes(self, d)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        dimension = self.features(np.zeros((1, d))).shape[1]
        drawn = self.frequencies(rng, size, dimension)
        omega, weights = drawn if isinstance(drawn, tuple) else (drawn, np.full(size, 1.0 / size))
        return lambda X: np.exp(1j * (self.features(X) @ omega.T)) * np.sqrt(weights)


def rounded_by_pieces(kernel: Kernel) -> bool:
    """Whether its amplification reads rows some at a time: multiples, sums and products of kernels of this
    file."""
    return all(type(term.kernel).__module__ == __name__ and term.columns is None for term in kernel.terms())


class RBF(Stationary):
    """exp(-s / 2)"""

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-0.5 * s)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.gaussian(dimension))


class Matern12(Stationary):
    """exp(-r), with r = sqrt(s)"""

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-distance(s))

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.student(dimension, 1.0))


class Matern32(Stationary):
    """(1 + r) exp(-r), with r = sqrt(3 s)"""

    def profile(self, s: Array) -> Array:
        r = distance(3.0 * s)
        return (1.0 + r) * s.__array_namespace__().exp(-r)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.student(dimension, 3.0))


class Matern52(Stationary):
    """(1 + r + r^2 / 3) exp(-r), with r = sqrt(5 s)"""

    def profile(self, s: Array) -> Array:
        r = distance(5.0 * s)
        return (1.0 + r + 5.0 / 3.0 * s) * s.__array_namespace__().exp(-r)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.student(dimension, 5.0))


@dataclass(frozen=True, eq=False)
class RationalQuadratic(Stationary):
    """(1 + s / (2 alpha))^(-alpha): a mixture of RBF kernels over lengthscales."""

    alpha: Any = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", positive_scalar("RationalQuadratic.alpha", self.alpha))

    def profile(self, s: Array) -> Array:
        xp = s.__array_namespace__()
        return xp.exp(-self.alpha * xp.log1p(s / (2.0 * self.alpha)))

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.gaussian_mixture(dimension, self.alpha))


@dataclass(frozen=True, eq=False)
class Periodic(Stationary):
    """exp(-2 sum_f sin^2(pi (x_f - x'_f) / period_f) / lengthscale_f^2)

    The RBF kernel after wrapping each feature around a circle, since |e^{ia} - e^{ib}|^2 = 4 sin^2((a - b) /
    2).
    """

    period: Any = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", positive_parameter("Periodic.period", self.period))

    def features(self, X: Array) -> Array:
        xp = X.__array_namespace__()
        angle = 2.0 * np.pi * X / self.period
        if (
            isinstance(angle, np.ndarray)
            and angle.dtype == np.float64
            and np.abs(angle).max(initial=0.0) > MOST_RADIANS
        ):
            raise KernelError(
                f"Periodic.period is {self.period!r}, but inputs are as large as {np.abs(X).max():.2g}: that "
                "many periods from the origin, float64 cannot resolve the phase. Give a longer period, or "
                "subtract a reference point from the inputs."
            )
        return xp.concat([xp.cos(angle) / self.lengthscale, xp.sin(angle) / self.lengthscale], axis=1)

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-0.5 * s)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.gaussian(dimension))

    def _rounded(self, X: np.ndarray | rounding.Shifted) -> np.ndarray:
        # rounding of the angle, on the circle
        angle = (1.0 + 2.0 * np.pi * np.abs(np.asarray(X)) / self.period) / self.lengthscale
        with np.errstate(over="ignore"):
            return (angle**2).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """value, everywhere"""

    value: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive_scalar("Constant.value", self.value))

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.value * X0.__array_namespace__().ones((X0.shape[0], X1.shape[0]), dtype=X0.dtype)

    def diagonal(self, X: Array) -> Array:
        return self.value * X.__array_namespace__().ones(X.shape[0], dtype=X.dtype)

    @property
    def stationary(self) -> bool:
        return True

    def rates(self) -> np.ndarray:
        return np.zeros(())

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        return 1.0

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        return lambda X: np.full((X.shape[0], size), np.sqrt(self.value / size))

    def finite_features(self) -> RandomFeatures:
        return lambda X: np.full((len(X), 1), np.sqrt(self.value))

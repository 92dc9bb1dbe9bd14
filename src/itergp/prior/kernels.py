"""Kernels: each is its formula plus a few lines.

A formula is written once, against the array namespace of its input, so the same lines run in NumPy, inside
JAX tiles and under autodiff. A kernel is a frozen dataclass whose fields are its parameters (numbers,
arrays, other kernels); a field that is not a parameter, such as a choice of columns, is marked with
`metadata={"static": True}`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from itergp.errors import InputError, KernelError
from itergp.prior import rounding, spectra
from itergp.prior.distances import distance, squared_distance
from itergp.validate import positive_parameter, positive_scalar

Array = Any  # NumPy arrays and JAX arrays alike
MOST_RADIANS = 1e12  # an angle beyond has less than four digits behind the point
RandomFeatures = Callable[[np.ndarray], np.ndarray]


class Kernel(ABC):
    """A positive semi-definite function k(x, x')."""

    @abstractmethod
    def __call__(self, X0: Array, X1: Array) -> Array:
        """The matrix k(X0, X1), shape (n0, n1)."""

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for each row of X. Correct for any kernel; cheaper where the formula is known."""
        xp = X.__array_namespace__()
        return xp.stack([self(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    @property
    def stationary(self) -> bool:
        """True when k depends on x - x' only, so that inputs may be shifted."""
        return False

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        """Coordinates in which k falls with Euclidean distance, if there are such: the kernel's own
        metric."""
        return None

    def amplification(self, X: np.ndarray) -> float:
        """How much rounding grows: entries evaluated in precision u err by about u * amplification * k(x,
        x), in the mean.

        Here measured on a few rows, which serves any kernel; where the formula is known, derived from it.
        """
        return rounding.measured(self, X)

    def check_features(self, d: int) -> None:  # noqa: B027 (most kernels take any)
        """Raise if the kernel cannot take inputs with d features."""

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        """A map Phi from X to (n, size), possibly complex, with E[Phi Phi^H] = k(X, X)."""
        raise KernelError(
            f"{type(self).__name__} has no random features, so no sample of it is a function that is defined "
            "everywhere. "
            "Use posterior.sample(X) at given points, or give the kernel a `random_features` method."
        )

    def __add__(self, other: "Kernel") -> "Kernel":
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other)

    __rmul__ = __mul__

    def on(self, columns: Sequence[int]) -> "Kernel":
        """The same kernel, of some columns of the input only."""
        return OnColumns(self, tuple(np.atleast_1d(np.asarray(columns, dtype=object))))


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k(x, x') = profile(|phi(x) - phi(x')|^2): one line each, `profile`; phi(x) = x / lengthscale unless
    overridden."""

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
        """`size` draws from the spectral density of the profile (Bochner's theorem): for samples that are
        functions.

        Draws from another density come with their weights, (draws, weights): see `itergp.prior.spectra`.
        """
        raise KernelError(
            f"{type(self).__name__} has no frequencies, so no sample of it is a function that is defined "
            "everywhere. "
            "Use posterior.sample(X) at given points, or give the kernel a `frequencies` method."
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

    def amplification(self, X: np.ndarray) -> float:
        # coordinates are rounded by u |phi|, so distances by twice that, and no profile here is steeper than
        # 1 in distance
        size = self._rounded(X)
        derived = 4.0 + 2.0 * size
        if type(self).__module__ == __name__:
            return derived
        farthest = 2.0 * float(np.abs(self.features(X[: rounding.ROWS])).max(initial=0.0)) + 1.0
        return max(derived, rounding.measured(self, X), rounding.of_profile(self.profile, size, farthest))

    def _rounded(self, X: np.ndarray) -> float:
        """By how many u the coordinates phi(x) are rounded, in the mean."""
        return float(np.sqrt((self.features(X) ** 2).sum(axis=1).mean()))

    def check_features(self, d: int) -> None:
        for parameter in fields(self):
            size = np.size(getattr(self, parameter.name))
            if np.ndim(getattr(self, parameter.name)) == 1 and size != d:
                raise InputError(
                    f"{type(self).__name__}.{parameter.name} has {size} values, but the inputs have {d} "
                    "features; "
                    "expected a number or one value per feature."
                )

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        dimension = self.features(np.zeros((1, d))).shape[1]
        drawn = self.frequencies(rng, size, dimension)
        omega, weights = drawn if isinstance(drawn, tuple) else (drawn, np.full(size, 1.0 / size))
        return lambda X: np.exp(1j * (self.features(X) @ omega.T)) * np.sqrt(weights)


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

    The RBF kernel after wrapping each feature around a circle, since |e^{ia} - e^{ib}|^2 = 4 sin^2((a - b)
    / 2).
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
                f"Periodic.period is {self.period!r}, but inputs are as large as {np.abs(X).max():.2g}: so "
                "many periods from "
                "the origin float64 does not know the phase. Give a longer period, or inputs counted from a "
                "point among them."
            )
        return xp.concat([xp.cos(angle) / self.lengthscale, xp.sin(angle) / self.lengthscale], axis=1)

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-0.5 * s)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> spectra.Frequencies:
        return spectra.isotropic(rng, size, dimension, spectra.gaussian(dimension))

    def _rounded(self, X: np.ndarray) -> float:
        # rounding of the angle, on the circle
        angle = (1.0 + 2.0 * np.pi * np.abs(X) / self.period) / self.lengthscale
        return float(np.sqrt((angle**2).sum(axis=1).mean()))


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """sum_f x_f x'_f / lengthscale_f^2"""

    lengthscale: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", positive_parameter("Linear.lengthscale", self.lengthscale))

    def __call__(self, X0: Array, X1: Array) -> Array:
        return (X0 / self.lengthscale) @ (X1 / self.lengthscale).T

    def diagonal(self, X: Array) -> Array:
        return ((X / self.lengthscale) ** 2).sum(axis=1)

    check_features = Stationary.check_features

    def amplification(self, X: np.ndarray) -> float:
        return 4.0 + X.shape[1]

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        signs = rng.choice([-1.0, 1.0], (d, size))
        return lambda X: (X / self.lengthscale) @ signs / np.sqrt(size)


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

    def amplification(self, X: np.ndarray) -> float:
        return 1.0

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        return lambda X: np.full((X.shape[0], size), np.sqrt(self.value / size))


@dataclass(frozen=True, eq=False)
class Scaled(Kernel):
    """scale * k"""

    kernel: Kernel
    scale: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_scalar("scale of a kernel", self.scale))

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.scale * self.kernel(X0, X1)

    def diagonal(self, X: Array) -> Array:
        return self.scale * self.kernel.diagonal(X)

    @property
    def stationary(self) -> bool:
        return self.kernel.stationary

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        return self.kernel.embedding(X)

    def amplification(self, X: np.ndarray) -> float:
        return 1.0 + self.kernel.amplification(X)

    def check_features(self, d: int) -> None:
        self.kernel.check_features(d)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        features = self.kernel.random_features(rng, size, d)
        return lambda X: np.sqrt(self.scale) * features(X)


@dataclass(frozen=True, eq=False)
class _Pair(Kernel):
    left: Kernel
    right: Kernel

    @property
    def stationary(self) -> bool:
        return self.left.stationary and self.right.stationary

    def check_features(self, d: int) -> None:
        self.left.check_features(d)
        self.right.check_features(d)


class Sum(_Pair):
    """k1 + k2"""

    def amplification(self, X: np.ndarray) -> float:
        return 1.0 + max(self.left.amplification(X), self.right.amplification(X))

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.left(X0, X1) + self.right(X0, X1)

    def diagonal(self, X: Array) -> Array:
        return self.left.diagonal(X) + self.right.diagonal(X)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        left = self.left.random_features(rng, size - size // 2, d)
        right = self.right.random_features(rng, max(1, size // 2), d)
        return lambda X: np.concatenate([left(X), right(X)], axis=1)


class Product(_Pair):
    """k1 * k2"""

    def amplification(self, X: np.ndarray) -> float:
        return self.left.amplification(X) + self.right.amplification(X)

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.left(X0, X1) * self.right(X0, X1)

    def diagonal(self, X: Array) -> Array:
        return self.left.diagonal(X) * self.right.diagonal(X)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        left = self.left.random_features(rng, size, d)
        right = self.right.random_features(rng, size, d)
        # features come in an order, of radii or of the parts of a sum: any may meet any
        pairs = rng.permutation(size)
        return lambda X: np.sqrt(size) * left(X) * right(X)[:, pairs]


@dataclass(frozen=True, eq=False)
class OnColumns(Kernel):
    """k of some columns of the input"""

    kernel: Kernel
    columns: tuple[int, ...] = field(default=(), metadata={"static": True})

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) and c >= 0 for c in columns)
        if not columns or not whole or len(set(columns)) != len(columns):
            raise InputError(
                f"columns of `kernel.on(...)` is {list(columns)!r}; expected distinct column numbers from 0."
            )
        object.__setattr__(self, "columns", tuple(int(c) for c in columns))

    def _select(self, X: Array) -> Array:
        return X[:, np.array(self.columns)]

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.kernel(self._select(X0), self._select(X1))

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(self._select(X))

    @property
    def stationary(self) -> bool:
        return self.kernel.stationary

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        return self.kernel.embedding(self._select(X))

    def amplification(self, X: np.ndarray) -> float:
        return self.kernel.amplification(self._select(X))

    def check_features(self, d: int) -> None:
        if max(self.columns) >= d:
            raise InputError(
                f"kernel.on({list(self.columns)}) needs column {max(self.columns)}, but the inputs have {d} "
                "features."
            )
        self.kernel.check_features(len(self.columns))

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        features = self.kernel.random_features(rng, size, len(self.columns))
        return lambda X: features(self._select(X))


def parameters(kernel: Kernel, prefix: str = "") -> dict[str, Any]:
    """Every parameter by its path, such as {"kernel.lengthscale": 0.3, "scale": 2.0}."""
    found: dict[str, Any] = {}
    for part in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, part.name)
        if isinstance(value, Kernel):
            found |= parameters(value, f"{prefix}{part.name}.")
        elif not part.metadata.get("static"):
            found[prefix + part.name] = value
    return found


def with_parameters(kernel: Kernel, values: dict[str, Any], check: bool = True) -> Kernel:
    """The same kernel with other values for some of its parameters (`check=False`: any values, such as
    gradients)."""
    changes: dict[str, Any] = {}
    for part in fields(kernel):  # type: ignore[arg-type]
        inner = {path.partition(".")[2]: v for path, v in values.items() if path.startswith(part.name + ".")}
        if inner:
            changes[part.name] = with_parameters(getattr(kernel, part.name), inner, check)
        elif part.name in values:
            changes[part.name] = values[part.name]
    if check:
        return replace(kernel, **changes)  # type: ignore[type-var]
    copy = object.__new__(type(kernel))
    for part in fields(kernel):  # type: ignore[arg-type]
        object.__setattr__(copy, part.name, changes.get(part.name, getattr(kernel, part.name)))
    return copy

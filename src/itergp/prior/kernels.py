"""Kernels: each is its formula plus a few lines.

A formula is written once, against the array namespace of its input, so the same lines run in NumPy, inside JAX tiles
and under autodiff. A kernel is a frozen dataclass whose fields are its parameters (numbers, arrays, other kernels);
a field that is not a parameter, such as a choice of columns, is marked with `metadata={"static": True}`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from itergp.errors import InputError, KernelError

Array = Any  # NumPy arrays and JAX arrays alike
RandomFeatures = Callable[[np.ndarray], np.ndarray]


def _positive_parameter(name: str, value: Any) -> Any:
    """A positive number or vector; tracers of an autodiff library pass through untouched."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        raise InputError(f"{name} is {value!r}; expected a positive number, or one per feature.")
    if not isinstance(value, int | float | list | tuple | np.ndarray | np.generic):
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}; expected a positive number, or one per feature.") from None
    if array.ndim > 1 or array.size == 0:
        raise InputError(f"{name} has shape {array.shape}; expected a number or a vector with one value per feature.")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{name} is {value!r}; expected finite values above 0.")
    return float(array) if array.ndim == 0 else array


def squared_distance(F0: Array, F1: Array) -> Array:
    """|f - f'|^2 by direct differences, feature by feature.

    Never by |f|^2 + |f'|^2 - 2 f^T f', whose cancellation made kernel matrices of real data indefinite.
    """
    if isinstance(F0, np.ndarray) and F0.dtype == np.float64:
        return cdist(F0, F1, "sqeuclidean")  # direct differences, in C
    s = 0.0
    for f in range(F0.shape[1]):
        difference = F0[:, f, None] - F1[None, :, f]
        s = s + difference * difference
    return s


def distance(s: Array) -> Array:
    """sqrt(s), with derivative 0 instead of NaN at s = 0 (so profiles in r are safe under autodiff)."""
    xp = s.__array_namespace__()
    apart = s > 0
    return xp.where(apart, xp.sqrt(xp.where(apart, s, 1.0)), 0.0)


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
        """Coordinates in which k falls with Euclidean distance, if there are such: the kernel's own metric."""
        return None

    def amplification(self, X: np.ndarray) -> float:
        """How much rounding grows: entries evaluated in precision u err by about u * amplification * k(x, x).

        Here measured on a few rows, which serves any kernel; where the formula is known, derived from it.
        """
        X = X[:256]
        exact, rounded = self(X, X), np.asarray(self(X.astype(np.float32), X.astype(np.float32)), dtype=np.float64)
        unit = float(np.finfo(np.float32).eps) / 2 * max(float(np.abs(exact).max()), 1e-300)
        return 4.0 + 2.0 * float(np.abs(rounded - exact).max()) / unit

    def check_features(self, d: int) -> None:
        """Raise if the kernel cannot take inputs with d features."""

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        """A map Phi from X to (n, size), possibly complex, with E[Phi Phi^H] = k(X, X)."""
        raise KernelError(
            f"{type(self).__name__} has no random features, so no sample of it is a function that is defined everywhere. "
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
        return OnColumns(self, tuple(columns))


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k(x, x') = profile(|phi(x) - phi(x')|^2): one line each, `profile`; phi(x) = x / lengthscale unless overridden."""

    lengthscale: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", _positive_parameter(f"{type(self).__name__}.lengthscale", self.lengthscale))

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """The kernel as a function of the squared distance s; profile(0) = 1."""

    @abstractmethod
    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        """`size` draws from the spectral density of the profile (Bochner's theorem)."""

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
        # coordinates are rounded by u |phi|, so distances by twice that, and no profile is steeper than 1 in distance
        return 4.0 + 2.0 * float(np.sqrt((self.features(X) ** 2).sum(axis=1).max()))

    def check_features(self, d: int) -> None:
        for parameter in fields(self):
            size = np.size(getattr(self, parameter.name))
            if np.ndim(getattr(self, parameter.name)) == 1 and size != d:
                raise InputError(
                    f"{type(self).__name__}.{parameter.name} has {size} values, but the inputs have {d} features; "
                    "expected a number or one value per feature."
                )

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        dimension = self.features(np.zeros((1, d))).shape[1]
        omega = self.frequencies(rng, size, dimension).T
        return lambda X: np.exp(1j * (self.features(X) @ omega)) / np.sqrt(size)


class RBF(Stationary):
    """exp(-s / 2)"""

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-0.5 * s)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        return rng.standard_normal((size, dimension))


def _student_t(rng: np.random.Generator, size: int, dimension: int, degrees: float) -> np.ndarray:
    """The spectral density of a Matern kernel of order nu: a multivariate t with 2 nu degrees of freedom."""
    return rng.standard_normal((size, dimension)) / np.sqrt(rng.chisquare(degrees, (size, 1)) / degrees)


class Matern12(Stationary):
    """exp(-r), with r = sqrt(s)"""

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-distance(s))

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        return _student_t(rng, size, dimension, 1.0)


class Matern32(Stationary):
    """(1 + r) exp(-r), with r = sqrt(3 s)"""

    def profile(self, s: Array) -> Array:
        r = distance(3.0 * s)
        return (1.0 + r) * s.__array_namespace__().exp(-r)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        return _student_t(rng, size, dimension, 3.0)


class Matern52(Stationary):
    """(1 + r + r^2 / 3) exp(-r), with r = sqrt(5 s)"""

    def profile(self, s: Array) -> Array:
        r = distance(5.0 * s)
        return (1.0 + r + 5.0 / 3.0 * s) * s.__array_namespace__().exp(-r)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        return _student_t(rng, size, dimension, 5.0)


@dataclass(frozen=True, eq=False)
class RationalQuadratic(Stationary):
    """(1 + s / (2 alpha))^(-alpha): a mixture of RBF kernels over lengthscales."""

    alpha: Any = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", _positive_parameter("RationalQuadratic.alpha", self.alpha))
        if np.ndim(self.alpha) != 0:
            raise InputError(f"RationalQuadratic.alpha has shape {np.shape(self.alpha)}; expected a number.")

    def profile(self, s: Array) -> Array:
        xp = s.__array_namespace__()
        return xp.exp(-self.alpha * xp.log1p(s / (2.0 * self.alpha)))

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        precision = rng.gamma(self.alpha, 1.0 / self.alpha, (size, 1))
        return rng.standard_normal((size, dimension)) * np.sqrt(precision)


@dataclass(frozen=True, eq=False)
class Periodic(Stationary):
    """exp(-2 sum_f sin^2(pi (x_f - x'_f) / period_f) / lengthscale_f^2)

    The RBF kernel after wrapping each feature around a circle, since |e^{ia} - e^{ib}|^2 = 4 sin^2((a - b) / 2).
    """

    period: Any = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", _positive_parameter("Periodic.period", self.period))

    def features(self, X: Array) -> Array:
        xp = X.__array_namespace__()
        angle = 2.0 * np.pi * X / self.period
        return xp.concat([xp.cos(angle) / self.lengthscale, xp.sin(angle) / self.lengthscale], axis=1)

    def profile(self, s: Array) -> Array:
        return s.__array_namespace__().exp(-0.5 * s)

    def frequencies(self, rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
        return rng.standard_normal((size, dimension))

    def amplification(self, X: np.ndarray) -> float:
        angle = (1.0 + 2.0 * np.pi * np.abs(X) / self.period) / self.lengthscale  # rounding of the angle, on the circle
        return 4.0 + 2.0 * float(np.sqrt((angle**2).sum(axis=1).max()))


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """sum_f x_f x'_f / lengthscale_f^2"""

    lengthscale: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", _positive_parameter("Linear.lengthscale", self.lengthscale))

    def __call__(self, X0: Array, X1: Array) -> Array:
        return (X0 / self.lengthscale) @ (X1 / self.lengthscale).T

    def diagonal(self, X: Array) -> Array:
        return ((X / self.lengthscale) ** 2).sum(axis=1)

    check_features = Stationary.check_features

    def amplification(self, X: np.ndarray) -> float:
        return 4.0 + X.shape[1]

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        projections = rng.standard_normal((d, size))
        return lambda X: (X / self.lengthscale) @ projections / np.sqrt(size)


@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """value, everywhere"""

    value: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _positive_parameter("Constant.value", self.value))
        if np.ndim(self.value) != 0:
            raise InputError(f"Constant.value has shape {np.shape(self.value)}; expected a number.")

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
        object.__setattr__(self, "scale", _positive_parameter("scale of a kernel", self.scale))
        if np.ndim(self.scale) != 0:
            raise InputError(f"scale of a kernel has shape {np.shape(self.scale)}; expected a number.")

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
        return lambda X: np.sqrt(size) * left(X) * right(X)  # a product of independent features is a feature of the product


@dataclass(frozen=True, eq=False)
class OnColumns(Kernel):
    """k of some columns of the input"""

    kernel: Kernel
    columns: tuple[int, ...] = field(default=(), metadata={"static": True})

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) and c >= 0 for c in columns)
        if not columns or not whole or len(set(columns)) != len(columns):
            raise InputError(f"columns of `kernel.on(...)` is {list(columns)!r}; expected distinct column numbers from 0.")
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
            raise InputError(f"kernel.on({list(self.columns)}) needs column {max(self.columns)}, but the inputs have {d} features.")
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
    """The same kernel with other values for some of its parameters (`check=False`: any values, such as gradients)."""
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

"""Kernels: each is its formula plus a few lines.

A formula is written once, against the array namespace of its input, so the same lines run in NumPy, inside
JAX tiles and under autodiff. A kernel is a frozen dataclass whose fields are its parameters (numbers, arrays,
other kernels). A field that is not a parameter, such as a list of columns, is marked with
`metadata={"static": True}`.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from itergp import brief
from itergp.errors import InputError, KernelError
from itergp.prior import rounding
from itergp.validate import positive_scalar

Array = Any  # NumPy or JAX arrays
RandomFeatures = Callable[[np.ndarray], np.ndarray]
MOST_SUMMANDS = 8  # when a product of sums is expanded
SAME_METRIC = 1e-12  # the largest relative difference of lengthscales that is only rounding


@dataclass(frozen=True, eq=False)
class Term:
    """A leaf kernel (one that contains no other) as a part of a larger one, as engines read it."""

    kernel: "Kernel"
    path: str = ""  # path of its parameters in the larger kernel, such as "left.kernel."
    columns: tuple[int, ...] | None = None  # columns it is evaluated on; None: all
    scales: dict[str, Any] = field(default_factory=dict)  # scales above it, by path, innermost first
    added: bool = True  # False inside a product: the larger kernel is not a sum of such terms

    @property
    def weight(self) -> float:
        return float(math.prod(self.scales.values()))

    def of(self, X: Array) -> Array:
        """The columns of X that the kernel is evaluated on."""
        return X if self.columns is None else X[:, np.array(self.columns)]

    def below(self, name: str) -> "Term":
        """The same term, seen from the kernel that holds it in the field `name`."""
        scales = {f"{name}.{path}": scale for path, scale in self.scales.items()}
        return replace(self, path=f"{name}.{self.path}", scales=scales)


class Kernel(ABC):
    """A positive semi-definite function k(x, x')."""

    @abstractmethod
    def __call__(self, X0: Array, X1: Array) -> Array:
        """The matrix k(X0, X1), shape (n0, n1)."""

    def __repr__(self) -> str:
        """A formula, such as 1.43 * Matern32(lengthscale=0.3) + Linear(lengthscale=1)."""
        return brief.call(self)

    def __init_subclass__(cls) -> None:
        """A class with its own formula has no parts, unless it defines them."""
        brief.keep_repr(cls)
        if "__call__" in vars(cls):
            for method in ("evaluate", "terms", "summands"):
                if method not in vars(cls):
                    setattr(cls, method, vars(Kernel)[method])

    def evaluate(self, X0: Array, X1: Array, leaf: Callable[["Kernel", Array, Array], Array]) -> Array:
        """k(X0, X1), where `leaf(kernel, X0, X1)` evaluates the kernels that contain no other."""
        return leaf(self, X0, X1)

    def terms(self) -> list[Term]:
        """All kernels in this one that contain no other."""
        return [Term(self)]

    def summands(self) -> list["Kernel"]:
        """Kernels without sums that add up to this one; products of sums are expanded if that gives few."""
        return [self]

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for each row of X. Correct for any kernel; override it if there is a cheaper formula."""
        xp = X.__array_namespace__()
        return xp.stack([self(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    @property
    def stationary(self) -> bool:
        """True if k depends only on x - x', so that inputs may be shifted."""
        return False

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        """Coordinates in which k decreases with Euclidean distance (the kernel's own metric), or None."""
        return None

    def rates(self) -> np.ndarray | None:
        """By what the embedding multiplies features, if that is all it does; 0 if k is the same everywhere,
        so that it decreases in any coordinates."""
        return None

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        """How much rounding grows: entries evaluated in `dtype`, with unit roundoff u, have an error of about
        u * amplification * k(x, x), on average. Infinity if float32 cannot represent what k is computed from.

        The default is measured on a few rows, which works for any kernel; subclasses derive it from their
        formula.
        """
        return rounding.measured(self, X)

    def check_features(self, d: int) -> None:  # noqa: B027 (most kernels take any)
        """Raise if the kernel cannot take inputs with d features."""

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        """A map Phi from X to (n, size), possibly complex, with E[Phi Phi^H] = k(X, X)."""
        raise KernelError(
            f"{type(self).__name__} has no random features, so its samples cannot be functions defined "
            "everywhere. Use posterior.sample(X) at given points, or give the kernel a `random_features` "
            "method."
        )

    def finite_features(self) -> RandomFeatures | None:
        """A map Phi with Phi Phi^T = k(X, X) exactly, if a few columns are enough; else None."""
        return None

    def __add__(self, other: "Kernel") -> "Kernel":
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other)

    __rmul__ = __mul__

    def on(self, columns: Sequence[int]) -> "Kernel":
        """The same kernel, evaluated only on some columns of the input."""
        return OnColumns(self, tuple(np.atleast_1d(np.asarray(columns, dtype=object))))


def check_sizes(kernel: Kernel, d: int) -> None:
    """Raise if a parameter has one value per feature, but not d values."""
    for parameter in fields(kernel):  # type: ignore[arg-type]
        size = np.size(getattr(kernel, parameter.name))
        if np.ndim(getattr(kernel, parameter.name)) == 1 and size != d:
            raise InputError(
                f"{type(kernel).__name__}.{parameter.name} has {size} values, but the inputs have {d} "
                "features; expected a number or one value per feature."
            )


class _Combined(Kernel):
    """A kernel made of others; `evaluate` is its formula."""

    def __call__(self, X0: Array, X1: Array) -> Array:
        return self.evaluate(X0, X1, _call)

    @abstractmethod
    def evaluate(self, X0: Array, X1: Array, leaf: Callable[[Kernel, Array, Array], Array]) -> Array: ...

    @abstractmethod
    def terms(self) -> list[Term]: ...


def _call(kernel: Kernel, X0: Array, X1: Array) -> Array:
    return kernel(X0, X1)


def _as_factor(kernel: Kernel) -> str:
    return f"({kernel!r})" if isinstance(kernel, Sum) else repr(kernel)


@dataclass(frozen=True, eq=False)
class Scaled(_Combined):
    """scale * k"""

    kernel: Kernel
    scale: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_scalar("scale of a kernel", self.scale))

    def __repr__(self) -> str:
        return f"{brief.value(self.scale)} * {_as_factor(self.kernel)}"

    def evaluate(self, X0: Array, X1: Array, leaf: Callable[[Kernel, Array, Array], Array]) -> Array:
        return self.scale * self.kernel.evaluate(X0, X1, leaf)

    def terms(self) -> list[Term]:
        inner = [term.below("kernel") for term in self.kernel.terms()]
        return [replace(term, scales={**term.scales, "scale": self.scale}) for term in inner]

    def summands(self) -> list[Kernel]:
        return [Scaled(part, self.scale) for part in self.kernel.summands()]

    def diagonal(self, X: Array) -> Array:
        return self.scale * self.kernel.diagonal(X)

    @property
    def stationary(self) -> bool:
        return self.kernel.stationary

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        return self.kernel.embedding(X)

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        return 1.0 + self.kernel.amplification(X, dtype)

    def check_features(self, d: int) -> None:
        self.kernel.check_features(d)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        features = self.kernel.random_features(rng, size, d)
        return lambda X: np.sqrt(self.scale) * features(X)

    def finite_features(self) -> RandomFeatures | None:
        features = self.kernel.finite_features()
        return features and (lambda X: np.sqrt(self.scale) * features(X))


@dataclass(frozen=True, eq=False)
class _Pair(_Combined):
    left: Kernel
    right: Kernel

    @property
    def stationary(self) -> bool:
        return self.left.stationary and self.right.stationary

    def terms(self) -> list[Term]:
        pair = (self.left, "left"), (self.right, "right")
        return [term.below(name) for kernel, name in pair for term in kernel.terms()]

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        """That of one part, if all decrease with its distances: sums and products of them do too."""
        part = _in_one_metric(self.terms())
        return None if part is None else part.kernel.embedding(part.of(X))

    def check_features(self, d: int) -> None:
        self.left.check_features(d)
        self.right.check_features(d)


class Sum(_Pair):
    """k1 + k2"""

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        return 1.0 + max(self.left.amplification(X, dtype), self.right.amplification(X, dtype))

    def evaluate(self, X0: Array, X1: Array, leaf: Callable[[Kernel, Array, Array], Array]) -> Array:
        return self.left.evaluate(X0, X1, leaf) + self.right.evaluate(X0, X1, leaf)

    def summands(self) -> list[Kernel]:
        return self.left.summands() + self.right.summands()

    def diagonal(self, X: Array) -> Array:
        return self.left.diagonal(X) + self.right.diagonal(X)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        left = self.left.random_features(rng, size - size // 2, d)
        right = self.right.random_features(rng, max(1, size // 2), d)
        return lambda X: np.concatenate([left(X), right(X)], axis=1)


class Product(_Pair):
    """k1 * k2"""

    def __repr__(self) -> str:
        return f"{_as_factor(self.left)} * {_as_factor(self.right)}"

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        return self.left.amplification(X, dtype) + self.right.amplification(X, dtype)

    def evaluate(self, X0: Array, X1: Array, leaf: Callable[[Kernel, Array, Array], Array]) -> Array:
        return self.left.evaluate(X0, X1, leaf) * self.right.evaluate(X0, X1, leaf)

    def terms(self) -> list[Term]:
        return [replace(term, added=False) for term in super().terms()]

    def summands(self) -> list[Kernel]:
        parts: list[Kernel] = [Product(a, b) for a in self.left.summands() for b in self.right.summands()]
        return parts if len(parts) <= MOST_SUMMANDS else [self]

    def diagonal(self, X: Array) -> Array:
        return self.left.diagonal(X) * self.right.diagonal(X)

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        left = self.left.random_features(rng, size, d)
        right = self.right.random_features(rng, size, d)
        # features are ordered, by radius or by the parts of a sum: permute, so that any may be paired
        pairs = rng.permutation(size)
        return lambda X: np.sqrt(size) * left(X) * right(X)[:, pairs]


@dataclass(frozen=True, eq=False)
class OnColumns(_Combined):
    """k evaluated on some columns of the input"""

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

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, _Combined) else repr(self.kernel)
        few = len(self.columns) <= brief.FEW
        return f"{inner}.on({list(self.columns)})" if few else f"{inner}.on(<{len(self.columns)} columns>)"

    def _select(self, X: Array) -> Array:
        return X[:, np.array(self.columns)]

    def evaluate(self, X0: Array, X1: Array, leaf: Callable[[Kernel, Array, Array], Array]) -> Array:
        return self.kernel.evaluate(self._select(X0), self._select(X1), leaf)

    def terms(self) -> list[Term]:
        def selected(inner: tuple[int, ...] | None) -> tuple[int, ...]:
            return self.columns if inner is None else tuple(self.columns[column] for column in inner)

        inner = [term.below("kernel") for term in self.kernel.terms()]
        return [replace(term, columns=selected(term.columns)) for term in inner]

    def summands(self) -> list[Kernel]:
        return [OnColumns(part, self.columns) for part in self.kernel.summands()]

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(self._select(X))

    @property
    def stationary(self) -> bool:
        return self.kernel.stationary

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        return self.kernel.embedding(self._select(X))

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        return self.kernel.amplification(self._select(X), dtype)

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

    def finite_features(self) -> RandomFeatures | None:
        features = self.kernel.finite_features()
        return features and (lambda X: features(self._select(X)))


def _in_one_metric(terms: list[Term]) -> Term | None:
    """One of these terms, if distances in all others that have any are multiples of its own."""
    first: tuple[Term, np.ndarray] | None = None
    for term in terms:
        rates = term.kernel.rates()
        if rates is None:
            return None
        if not rates.any():
            continue
        first = first or (term, rates)
        if term.columns != first[0].columns:
            return None
        factors = rates / first[1]
        if np.ptp(factors) > SAME_METRIC * factors.max():
            return None
    return first and first[0]


def without_linear(kernel: Kernel) -> Kernel:
    """The kernel without its linear summands (of finite rank, and not stationary); as it is if nothing else
    remains."""
    parts = kernel.summands()
    others = [part for part in parts if part.stationary or part.finite_features() is None]
    return kernel if len(others) in (0, len(parts)) else functools.reduce(Sum, others)

"""A kernel as the native code reads it: a sum of weight * profile(|f - f'|^2), and of linear parts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.prior.kernel import Kernel, Term
from itergp.prior.linear import Linear
from itergp.prior.parameters import Slopes
from itergp.prior.stationary import RBF, Constant, Matern12, Matern32, Matern52, Periodic, RationalQuadratic

# kind of profile in tiles.h, and the factor on the features that absorbs its constant
PROFILES: dict[type, tuple[int, float]] = {
    RBF: (0, 0.5**0.5),
    Periodic: (0, 0.5**0.5),
    Constant: (0, 1.0),  # with no features: profile(0) = 1
    Matern12: (1, 1.0),
    Matern32: (2, 3.0**0.5),
    Matern52: (3, 5.0**0.5),
    RationalQuadratic: (4, 1.0),  # and (2 alpha)^(-1/2)
    Linear: (5, 1.0),  # f . f'
}


@dataclass(frozen=True, eq=False)
class Leaf:
    """A term of one of these kernels."""

    term: Term

    @property
    def kernel(self) -> Any:
        return self.term.kernel

    @property
    def constant(self) -> bool:
        return type(self.kernel) is Constant

    @property
    def linear(self) -> bool:
        return type(self.kernel) is Linear

    @property
    def height(self) -> float:
        """The factor on the profile."""
        return math.prod(self.term.scales.values(), start=self.kernel.value if self.constant else 1.0)

    @property
    def kind(self) -> int:
        return PROFILES[type(self.kernel)][0]

    @property
    def alpha(self) -> float:
        return float(getattr(self.kernel, "alpha", 0.0))

    @property
    def factor(self) -> float:
        return (2.0 * self.alpha) ** -0.5 if self.alpha else PROFILES[type(self.kernel)][1]

    @property
    def lengthscale(self) -> np.ndarray:
        return np.asarray(self.kernel.lengthscale, dtype=np.float64)

    def features(self, X: np.ndarray) -> np.ndarray:
        if self.constant:
            return np.zeros((len(X), 0))
        if self.linear:
            return self.term.of(X) / self.lengthscale
        return self.kernel.features(self.term.of(X)) * self.factor

    def columns(self, d: int) -> np.ndarray:
        return self.term.of(np.arange(d)[None])[0]

    def rate(self, d: int) -> np.ndarray:
        """The features, by column, if they are linear: f = rate * x."""
        return np.broadcast_to(self.factor / self.lengthscale, self.columns(d).shape)


def leaves(kernel: Kernel) -> list[Leaf] | None:
    """The kernel as a sum of leaves, or None if it contains anything else."""
    terms = kernel.terms()
    if all(term.added and type(term.kernel) in PROFILES for term in terms):
        return [Leaf(term) for term in terms]
    return None


def differentiable_leaves(kernel: Kernel) -> list[Leaf] | None:
    """The same if all features are multiples of inputs: gradients of these kernels are computed here."""
    found = leaves(kernel)
    return None if found is None or any(type(leaf.kernel) is Periodic for leaf in found) else found


def slopes_of(
    profiles: Iterable[tuple[Leaf, float, float, Any]], constants: list[Leaf], total: float
) -> Slopes:
    """A gradient by path, from the sums of W k, of its derivative in alpha and of W k'(s) (f - f')_c^2 for
    each profile (of W f_c f'_c for each linear part), and the sum of W for the constants."""
    slopes: Slopes = {}

    def add(leaf: Leaf, name: str, slope: Any, by_weight: float) -> None:
        slopes[f"{leaf.term.path}{name}"] = slope
        for path, scale in leaf.term.scales.items():
            slopes[path] = slopes.get(path, np.float64(0.0)) + leaf.term.weight / scale * by_weight

    for leaf, by_weight, by_alpha, squares in profiles:
        weight = leaf.term.weight
        add(leaf, "lengthscale", -2.0 * weight * squares / leaf.lengthscale, by_weight)
        if leaf.alpha:
            slopes[f"{leaf.term.path}alpha"] = weight * by_alpha
    for leaf in constants:
        add(leaf, "value", leaf.term.weight * total, leaf.kernel.value * total)
    return slopes

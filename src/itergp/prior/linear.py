"""The linear kernel."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.prior.kernel import Array, Kernel, RandomFeatures, check_sizes
from itergp.validate import positive_parameter


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

    def check_features(self, d: int) -> None:
        check_sizes(self, d)

    def amplification(self, X: np.ndarray, dtype: str = "float32") -> float:
        return 4.0 + X.shape[1]

    def random_features(self, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
        signs = rng.choice([-1.0, 1.0], (d, size))
        return lambda X: (X / self.lengthscale) @ signs / np.sqrt(size)

    def finite_features(self) -> RandomFeatures:
        return lambda X: X / self.lengthscale

"""A kernel as the native code sees it where gradients are asked for: a sum of scaled leaves."""

from dataclasses import dataclass

import numpy as np

from itergp.linalg._native import _PROFILES
from itergp.prior.kernel import Kernel, OnColumns, Scaled, Sum
from itergp.prior.stationary import Constant, Periodic, RationalQuadratic


@dataclass(frozen=True)
class Leaf:
    """A kernel that holds no other: its path in the tree, the columns it sees, and the scales above it by
    their paths."""

    kernel: Kernel
    path: str
    columns: np.ndarray
    scales: dict[str, float]

    @property
    def weight(self) -> float:
        return float(np.prod(list(self.scales.values())))

    @property
    def lengthscale(self) -> np.ndarray:
        return np.asarray(self.kernel.lengthscale, dtype=np.float64)  # type: ignore[attr-defined]

    @property
    def alpha(self) -> float:
        return float(getattr(self.kernel, "alpha", 0.0))

    @property
    def kind(self) -> int:
        return 4 if isinstance(self.kernel, RationalQuadratic) else _PROFILES[type(self.kernel)][0]

    @property
    def rate(self) -> np.ndarray:
        """The features, by column: f = rate * x."""
        factor = (2.0 * self.alpha) ** -0.5 if self.alpha else _PROFILES[type(self.kernel)][1]
        return np.broadcast_to(factor / self.lengthscale, self.columns.shape)


def leaves(
    kernel: Kernel, columns: np.ndarray, path: str = "", scales: dict[str, float] | None = None
) -> list[Leaf] | None:
    """The kernel as a sum of scaled leaves, or None if it holds anything else."""
    scales = scales or {}
    if type(kernel) is Scaled:
        return leaves(kernel.kernel, columns, f"{path}kernel.", {**scales, f"{path}scale": kernel.scale})
    if type(kernel) is OnColumns:
        return leaves(kernel.kernel, columns[list(kernel.columns)], f"{path}kernel.", scales)
    if type(kernel) is Sum:
        left = leaves(kernel.left, columns, f"{path}left.", scales)
        right = leaves(kernel.right, columns, f"{path}right.", scales)
        return left and right and left + right
    known = {*_PROFILES, Constant, RationalQuadratic} - {Periodic}
    return [Leaf(kernel, path, columns, scales)] if type(kernel) in known else None

"""Diagonal-plus-low-rank matrices P = diag(d) + U U^T: preconditioners (Remark S1, corrected)."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from itergp import brief
from itergp.errors import InputError


@dataclass(frozen=True, eq=False)
class DiagonalPlusLowRank:
    """P = diag(diagonal) + U U^T, with solves by the Woodbury identity."""

    diagonal: np.ndarray
    U: np.ndarray

    __repr__ = brief.call

    def __post_init__(self) -> None:
        if not (self.diagonal > 0).all():
            raise InputError(
                "The diagonal of a preconditioner must be positive; it is the noise, so give noise > 0."
            )
        inner = np.eye(self.U.shape[1]) + self.U.T @ (self.U / self.diagonal[:, None])
        object.__setattr__(self, "_factor", scipy.linalg.cholesky(inner, lower=True))

    @property
    def inner_factor(self) -> np.ndarray:
        """The lower Cholesky factor of I + U^T diag^{-1} U."""
        return self._factor  # type: ignore[attr-defined]

    def logdet(self) -> float:
        """log det P, by the determinant lemma"""
        return float(np.log(self.diagonal).sum()) + 2.0 * float(np.log(np.diag(self.inner_factor)).sum())

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return (self.diagonal * V.T).T + self.U @ (self.U.T @ V)

    def solve(self, V: np.ndarray) -> np.ndarray:
        """P^{-1} V"""
        scaled = (V.T / self.diagonal).T
        small = scipy.linalg.cho_solve((self.inner_factor, True), self.U.T @ scaled)
        return scaled - ((self.U @ small).T / self.diagonal).T

"""The reference engine: the oracle of the others, and the choice for small n, where there is no start-up
to pay."""

import numpy as np

from itergp.linalg.engines import TiledEngine
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import parameters, with_parameters


class NumpyEngine(TiledEngine):
    name = "numpy"
    tile_size = 512
    padding = 64

    def supports(self, kernel: Kernel, d: int) -> str:
        return ""

    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        # parameters that are float64 vectors would promote the tile, and a stored one would differ from a
        # fresh one
        return np.asarray(kernel(np.asarray(X0, dtype=dtype), np.asarray(X1, dtype=dtype)), dtype=dtype)

    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        """By central differences: slow, accurate to about 1e-9, and independent of any autodiff."""

        def rows(k: Kernel, X: np.ndarray) -> np.ndarray:  # sum_j (A B^T)_ij k(x_i, x'_j), for each i
            return ((A @ B.T) * k(X, X1)).sum(axis=1)

        slopes = {}
        for path, value in parameters(kernel).items():
            slope = np.zeros(np.shape(value))
            for index in np.ndindex(slope.shape):
                ends = []
                step = 1e-6 * float(np.asarray(value)[index])
                for sign in (1.0, -1.0):
                    moved = np.array(value, dtype=np.float64)
                    moved[index] += sign * step
                    ends.append(
                        rows(with_parameters(kernel, {path: moved if moved.ndim else float(moved)}), X0).sum()
                    )
                slope[index] = (ends[0] - ends[1]) / (2 * step)
            slopes[path] = slope
        in_inputs = np.zeros_like(X0)
        for f in range(X0.shape[1]):
            h = np.zeros(X0.shape[1])
            h[f] = 1e-6 * max(1.0, float(np.abs(X0[:, f]).max()))
            in_inputs[:, f] = (rows(kernel, X0 + h) - rows(kernel, X0 - h)) / (2 * h[f])
        return with_parameters(kernel, slopes, check=False), in_inputs


ENGINE = NumpyEngine()

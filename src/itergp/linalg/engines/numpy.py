"""The reference engine: the oracle for the others, and the choice for small n: it has no start-up cost."""

import numpy as np

from itergp.linalg.engines.base import TiledEngine
from itergp.prior.kernel import Kernel


class NumpyEngine(TiledEngine):
    name = "numpy"
    tile_size = 512
    padding = 64

    def supports(self, kernel: Kernel, d: int) -> str:
        return ""

    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        # float64 parameter vectors would promote the tile, and a stored one would differ from a fresh one
        return np.asarray(kernel(np.asarray(X0, dtype=dtype), np.asarray(X1, dtype=dtype)), dtype=dtype)


ENGINE = NumpyEngine()

"""An engine that leaves to the native engine of this process whatever it does not do elsewhere."""

from typing import Any

import numpy as np

from itergp.linalg.engines.base import Engine, Tick, no_tick
from itergp.linalg.engines.conditionals import Conditionals
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes


class NativeHere(Engine):
    """To derive from; `_native` is the native engine."""

    _native: Any

    def supports(self, kernel: Kernel, d: int) -> str:
        return self._native.supports(kernel, d)

    def in_tiles(self, kernel: Kernel) -> Kernel:
        return self._native.in_tiles(kernel)

    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return self._native.dense(kernel, X0, X1, dtype)

    def product(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        return self._native.product(kernel, X0, X1, V, dtype, tick)

    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        return self._native.gradient(kernel, X0, X1, A, B)

    def weighted_symmetric(
        self, kernel: Kernel, X: np.ndarray, W: np.ndarray, tick: Tick = no_tick
    ) -> Slopes:
        return self._native.weighted_symmetric(kernel, X, W, tick)

    def likelihood(
        self,
        kernel: Kernel,
        noise: float,
        given: Conditionals,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> tuple[np.ndarray, Slopes, float]:
        return self._native.likelihood(kernel, noise, given, threads, tick)

"""Tiles in C++ for sums of stationary kernels, on CPUs: close to the machine's peak. Linear parts are added.

The engine reads a kernel as a sum of `weight * profile(|f - f'|^2)`, with the features f computed here in
float64 and rounded once; linear parts have a few columns, in float64 (`linear.py`). Data are padded to whole
tiles. Products are split into calls of a fraction of a second, so that interrupts and budgets take effect.
Panels are assigned to threads in a fixed way, so the same number of threads gives the same bits.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.linalg.engines.base import Engine, Tick, TileCache, no_tick
from itergp.linalg.engines.conditionals import Conditionals
from itergp.linalg.engines.native import _tiles, linear, local, neighbours
from itergp.linalg.engines.native.gradients import gradient, input_gradient, symmetric_gradient
from itergp.linalg.engines.native.layout import BLOCK, blocks, padded, unpadded
from itergp.linalg.engines.native.leaves import Leaf, differentiable_leaves, leaves
from itergp.linalg.engines.native.pace import paced
from itergp.linalg.local import Neighbourhoods
from itergp.linalg.memory import cores
from itergp.prior.kernel import Kernel, without_linear
from itergp.prior.parameters import Slopes

PANEL = _tiles.PANEL
MAX_COLUMNS = 256  # columns of one call: accumulators are threads x n x columns float64
# Kernel evaluations and column products between two ticks, at most: panels of one call share what they read
# of V and of the sums. `paced` makes fewer of them where they take long.
WORK_PER_CALL = 1.2e9


def default_threads() -> int:
    """The cores available to this process, or fewer if the usual environment variables say so."""
    limits = [os.environ.get(name, "") for name in ("ITERGP_NUM_THREADS", "OMP_NUM_THREADS")]
    asked = [int(limit) for limit in limits if limit.isdecimal() and int(limit) > 0]
    return min([cores(), *asked[:1]])


def at_most_cores(threads: int | None) -> int:
    """The requested or default number of threads, at most one per core: each has its own sums in memory."""
    return min(threads, cores()) if threads else default_threads()


@dataclass
class Store:
    """Shared by the symmetric products of one Gram: the features, and the tiles of the first panels of the
    upper half in streaming order."""

    kernel: Any
    array: np.ndarray
    offsets: np.ndarray
    rows: int
    filled: bool = False

    @property
    def nbytes(self) -> int:
        return self.array.nbytes


class NativeEngine(Engine):
    name = "native"
    own_threads = True

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def with_threads(self, threads: int | None) -> "NativeEngine":
        return self if threads is None else NativeEngine(threads)

    def supports(self, kernel: Kernel, d: int) -> str:
        if any(not leaf.linear for leaf in leaves(kernel) or []):
            return ""
        return f"{type(kernel).__name__} is not a sum of stationary kernels, or of these and linear ones"

    def in_tiles(self, kernel: Kernel) -> Kernel:
        return without_linear(kernel)

    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        # a tile is wider than tall: columns are cheaper as rows, and bitwise the same
        if len(X1) < min(BLOCK, len(X0)):
            return self.dense(kernel, X1, X0, dtype).T
        out = np.empty((len(X0), len(X1)), dtype=dtype)
        if not out.size:
            return out
        native, call = _kernel(kernel, X0, X1, dtype), _function("dense", dtype)
        panels = -(-len(X0) // PANEL)
        for first, last in paced(panels, _panels_per_call(len(X1), 1, X1.shape[1]), no_tick):
            call(native, out, first, last, self._threads())
        linear.add_dense(_leaves(kernel), X0, X1, out)
        return out

    def product(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        panels, out = -(-len(X0) // PANEL), np.zeros((len(X0), V.shape[1]))
        if not len(X0) or not len(X1):
            return out
        native, call = _kernel(kernel, X0, X1, dtype), _function("cross", dtype)
        for start in range(0, V.shape[1], MAX_COLUMNS):
            some = padded(V[:, start : start + MAX_COLUMNS], dtype)
            sums = np.zeros((-(-len(X0) // BLOCK) * BLOCK, some.shape[1]))
            most = _panels_per_call(len(X1), some.shape[1], X1.shape[1])
            for first, last in paced(panels, most, tick):
                call(native, some, sums, first, last, self._threads())
            unpadded(sums, dtype, out[:, start : start + MAX_COLUMNS])
        linear.add_product(_leaves(kernel), X0, X1, V, out)
        return out

    def symmetric(
        self,
        kernel: Kernel,
        X: np.ndarray,
        V: np.ndarray,
        dtype: np.dtype,
        cache: TileCache,
        first: int,
        tick: Tick,
    ) -> np.ndarray:
        out = np.empty((len(X), V.shape[1]))
        store = _store(cache, kernel, X, dtype, first)
        for start in range(0, V.shape[1], MAX_COLUMNS):
            some = padded(V[:, start : start + MAX_COLUMNS], dtype)
            sums = self._accumulate(some, dtype, store, X.shape[1], first // BLOCK, tick)
            unpadded(sums, dtype, out[:, start : start + MAX_COLUMNS])
            store.filled = store.filled or (first == 0 and len(store.offsets) > 1)
        linear.add_product(_leaves(kernel), X, X, V, out)
        return out

    def _accumulate(
        self, V: np.ndarray, dtype: np.dtype, store: Store, features: int, from_block: int, tick: Tick
    ) -> np.ndarray:
        call, panels = _function("symmetric", dtype), V.shape[0] // PANEL
        sums = np.zeros((min(self._threads(), panels), *V.shape))  # one per thread, added in a fixed order
        stored = store.array, store.offsets, store.filled
        for p, last in paced(panels, _panels_per_call(V.shape[0] // 2, 2 * V.shape[1], features), tick):
            call(store.kernel, V, sums, p, last, from_block, *stored)
        for more in sums[1:]:
            sums[0] += more
        return sums[0]

    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        found = gradient(kernel, X0, X1, A, B, self._threads())
        return super().gradient(kernel, X0, X1, A, B) if found is None else found

    def in_inputs(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> np.ndarray:
        found = input_gradient(kernel, X0, X1, W, self._threads())
        return self.weighted(kernel, X0, X1, W)[1] if found is None else found

    def weighted_symmetric(
        self, kernel: Kernel, X: np.ndarray, W: np.ndarray, tick: Tick = no_tick
    ) -> Slopes:
        found = symmetric_gradient(kernel, X, W, self._threads(), tick)
        return super().weighted_symmetric(kernel, X, W, tick) if found is None else found

    def nearest(
        self,
        F0: np.ndarray,
        F1: np.ndarray,
        count: int,
        among: str = "all",
        chosen: np.ndarray | None = None,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> np.ndarray:
        places = np.arange(len(F0)) if chosen is None else chosen
        at_once = at_most_cores(threads or self.threads)
        return neighbours.NativeScan(F1, at_once).nearest(F0[places], count, among, places, tick)

    def scan(self, F: np.ndarray, threads: int | None = None) -> neighbours.NativeScan:
        return neighbours.NativeScan(F, at_most_cores(threads or self.threads))

    def chooses(self, kernel: Kernel) -> bool:
        parts = leaves(kernel)
        return parts is not None and not any(leaf.linear for leaf in parts)

    def most_informative(
        self,
        kernel: Kernel,
        X0: np.ndarray,
        X1: np.ndarray,
        N: np.ndarray,
        J: np.ndarray,
        count: int,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> np.ndarray:
        if not self.chooses(kernel):
            return super().most_informative(kernel, X0, X1, N, J, count, threads, tick)
        at_once = at_most_cores(threads or self.threads)
        return neighbours.most_informative(_leaves(kernel), X0, X1, N, J, count, at_once, tick)

    def tree(
        self, F: np.ndarray, threads: int | None = None, tick: Tick = no_tick, owned: bool = False
    ) -> local.NativeTree:
        return local.NativeTree(F, at_most_cores(threads or self.threads), tick, owned)

    def solve_lower(self, L: np.ndarray, B: np.ndarray, threads: int | None = None) -> np.ndarray:
        return local.solve_lower(L, B, at_most_cores(threads or self.threads))

    def acts_locally(self, kernel: Kernel, given: Neighbourhoods) -> bool:
        return leaves(kernel) is not None and 0 < given.J.shape[1] <= local.MANY

    def local_actions(
        self,
        kernel: Kernel,
        given: Neighbourhoods,
        residual: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        threads: int | None = None,
    ) -> None:
        if not self.acts_locally(kernel, given):
            return super().local_actions(kernel, given, residual, mean, variance, threads)
        at_once = at_most_cores(threads or self.threads)
        return local.local_actions(_leaves(kernel), given, residual, mean, variance, at_once)

    def differentiates(self, kernel: Kernel) -> bool:
        return differentiable_leaves(kernel) is not None

    def likelihood(
        self,
        kernel: Kernel,
        noise: float,
        given: Conditionals,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> tuple[np.ndarray, Slopes, float]:
        parts = differentiable_leaves(kernel)
        if parts is None:
            return super().likelihood(kernel, noise, given, threads, tick)
        return neighbours.likelihood(parts, noise, given, at_most_cores(threads or self.threads), tick)

    def _threads(self) -> int:
        return at_most_cores(self.threads)


def _function(name: str, dtype: np.dtype) -> Callable[..., None]:
    return getattr(_tiles, f"{name}{8 * np.dtype(dtype).itemsize}")


def _panels_per_call(columns_of_K: int, columns: int, features: int) -> int:
    """Panels per call, so that ticks come in time for any number of features; the bits stay the same."""
    return max(
        2, int(WORK_PER_CALL / (PANEL * max(1, columns_of_K) * (1.0 + columns / 16.0 + features / 8.0)))
    )


def _leaves(kernel: Kernel) -> list[Leaf]:
    parts = leaves(kernel)
    assert parts  # `supports` was checked
    return parts


def _kernel(kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> object:
    native = _tiles.Kernel32() if np.dtype(dtype).itemsize == 4 else _tiles.Kernel64()
    same = X0 is X1
    for leaf in _leaves(kernel):
        if leaf.linear:
            continue
        right = blocks(leaf.features(X1), dtype)
        left = right if same else blocks(leaf.features(X0), dtype)
        native.add(left, right, leaf.kind, float(leaf.height), leaf.alpha)
    return native


def _store(cache: TileCache, kernel: Kernel, X: np.ndarray, dtype: np.dtype, first: int) -> Store:
    """The Gram's store, with space for as many panels as fit; none while only some rows are computed."""
    rows = -(-len(X) // BLOCK) * BLOCK
    store = cache.native
    if (
        isinstance(store, Store)
        and store.rows == rows
        and store.array.dtype == dtype
        and (store.filled or first == 0)
    ):
        return store
    tiles = rows // BLOCK - np.arange(rows // PANEL) * PANEL // BLOCK
    offsets = np.concatenate([[0], np.cumsum(tiles * PANEL * BLOCK)]).astype(np.int64)
    panels = (
        0
        if first
        else int(np.searchsorted(offsets * np.dtype(dtype).itemsize, cache.budget, side="right")) - 1
    )
    offsets = offsets[: panels + 1]
    store = Store(_kernel(kernel, X, X, dtype), np.empty(int(offsets[-1]), dtype=dtype), offsets, rows)
    if not first:
        cache.native = store
    return store


ENGINE = NativeEngine()

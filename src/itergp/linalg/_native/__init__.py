"""Tiles in C++ for stationary kernels and their sums, on CPUs: near the machine's limit.

The engine sees a kernel as a sum of `weight * profile(|f - f'|^2)`, with the features f computed here in
float64 and rounded once. Data are padded to whole tiles; products are made in calls of a fraction of a
second, so that interrupts and budgets are heard; panels are dealt to threads in a fixed way, so the same
number of threads gives the same bits.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.linalg.engines import Engine, Tick, TileCache, get
from itergp.linalg.memory import cores
from itergp.prior.kernel import Kernel, OnColumns, Scaled, Sum
from itergp.prior.stationary import RBF, Constant, Matern12, Matern32, Matern52, Periodic, RationalQuadratic

try:
    _tiles: Any = importlib.import_module("itergp.linalg._native._tiles")
except ModuleNotFoundError:
    raise ImportError("it was not built: install again where there is a C++ compiler") from None

PANEL, BLOCK = _tiles.PANEL, _tiles.BLOCK
MAX_COLUMNS = 256  # of one call: accumulators are threads x n x columns float64
WORK_PER_CALL = 3e8  # kernel evaluations and column products between two ticks: about a quarter of a second


@dataclass(frozen=True)
class Component:
    """weight * profile(|f(x) - f(x')|^2)"""

    weight: float
    kind: int
    alpha: float
    features: Callable[[np.ndarray], np.ndarray]


# kind of profile in tiles.h, and the factor on the features that takes the constant out of it
_PROFILES = {
    RBF: (0, 0.5**0.5),
    Periodic: (0, 0.5**0.5),
    Matern12: (1, 1.0),
    Matern32: (2, 3.0**0.5),
    Matern52: (3, 5.0**0.5),
}


def components(kernel: Kernel) -> list[Component] | None:
    """The kernel as a sum of stationary components, or None if it is none."""
    if type(kernel) is Scaled:
        inner = components(kernel.kernel)
        return inner and [Component(c.weight * kernel.scale, c.kind, c.alpha, c.features) for c in inner]
    if type(kernel) is Sum:
        left, right = components(kernel.left), components(kernel.right)
        return left and right and left + right
    if type(kernel) is OnColumns:
        inner, columns = components(kernel.kernel), list(kernel.columns)
        return inner and [Component(c.weight, c.kind, c.alpha, _on(c.features, columns)) for c in inner]
    if type(kernel) is Constant:
        return [Component(kernel.value, 0, 0.0, lambda X: np.zeros((len(X), 0)))]
    if type(kernel) is RationalQuadratic:
        factor = (2.0 * kernel.alpha) ** -0.5
        return [Component(1.0, 4, kernel.alpha, lambda X: kernel.features(X) * factor)]
    if type(kernel) in _PROFILES:
        kind, factor = _PROFILES[type(kernel)]
        return [Component(1.0, kind, 0.0, lambda X: kernel.features(X) * factor)]  # type: ignore[attr-defined]
    return None


def _on(
    features: Callable[[np.ndarray], np.ndarray], columns: list[int]
) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: features(X[:, columns])


def default_threads() -> int:
    """The cores this process may use, or fewer where the usual environment variables say so."""
    limits = [os.environ.get(name, "") for name in ("ITERGP_NUM_THREADS", "OMP_NUM_THREADS")]
    asked = [int(limit) for limit in limits if limit.isdigit() and int(limit) > 0]
    return min([cores(), *asked[:1]])


def at_most_cores(threads: int | None) -> int:
    """So many threads as are asked for, or as is usual; never more than cores: each has sums of its own,
    in memory."""
    return min(threads, cores()) if threads else default_threads()


@dataclass
class Store:
    """What symmetric products of one Gram share: the features, and the tiles of the first panels of the
    upper half in the order in which they are streamed."""

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
        return "" if components(kernel) else f"{type(kernel).__name__} is not a sum of stationary kernels"

    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        # a tile is wider than high: columns cost less as rows, and are the same to the bit
        if len(X1) < min(BLOCK, len(X0)):
            return self.dense(kernel, X1, X0, dtype).T
        out = np.empty((len(X0), len(X1)), dtype=dtype)
        if not out.size:
            return out
        native, call = _kernel(kernel, X0, X1, dtype), _function("dense", dtype)
        panels = -(-len(X0) // PANEL)
        step = _panels_per_call(len(X1), 1, X1.shape[1])
        for first in range(0, panels, step):
            call(native, out, first, min(first + step, panels), self._threads())
        return out

    def product(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        panels, out = -(-len(X0) // PANEL), np.zeros((len(X0), V.shape[1]))
        if not len(X0) or not len(X1):
            return out
        native, call = _kernel(kernel, X0, X1, dtype), _function("cross", dtype)
        for start in range(0, V.shape[1], MAX_COLUMNS):
            some = _padded(V[:, start : start + MAX_COLUMNS], dtype)
            sums = np.zeros((-(-len(X0) // BLOCK) * BLOCK, some.shape[1]))
            step = _panels_per_call(len(X1), some.shape[1], X1.shape[1])
            for first in range(0, panels, step):
                tick()
                call(native, some, sums, first, min(first + step, panels), self._threads())
            width = min(MAX_COLUMNS, V.shape[1] - start)
            out[:, start : start + width] = _unpadded(sums, len(X0), width, dtype)
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
            some = _padded(V[:, start : start + MAX_COLUMNS], dtype)
            width = min(MAX_COLUMNS, V.shape[1] - start)
            sums = self._accumulate(some, dtype, store, X.shape[1], first // BLOCK, tick)
            out[:, start : start + width] = _unpadded(sums, len(X), width, dtype)
            store.filled = store.filled or (first == 0 and len(store.offsets) > 1)
        return out

    def _accumulate(
        self, V: np.ndarray, dtype: np.dtype, store: Store, features: int, from_block: int, tick: Tick
    ) -> np.ndarray:
        call, panels = _function("symmetric", dtype), V.shape[0] // PANEL
        sums = np.zeros((min(self._threads(), panels), *V.shape))  # one sum per thread, added in their order
        step = _panels_per_call(V.shape[0] // 2, 2 * V.shape[1], features)
        for p in range(0, panels, step):
            tick()
            call(
                store.kernel,
                V,
                sums,
                p,
                min(p + step, panels),
                from_block,
                store.array,
                store.offsets,
                store.filled,
            )
        return sums.sum(axis=0) if len(sums) > 1 else sums[0]

    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        from itergp.linalg._native.gradients import gradient

        return gradient(kernel, X0, X1, A, B, self._threads()) or get("jax").gradient(kernel, X0, X1, A, B)

    def _threads(self) -> int:
        return at_most_cores(self.threads)


def _function(name: str, dtype: np.dtype) -> Callable[..., None]:
    return getattr(_tiles, f"{name}{8 * np.dtype(dtype).itemsize}")


def _panels_per_call(columns_of_K: int, columns: int, features: int) -> int:
    """So many that a tick comes in time, however many features there are; how panels are dealt out decides
    no bit."""
    return max(
        2, int(WORK_PER_CALL / (PANEL * max(1, columns_of_K) * (1.0 + columns / 16.0 + features / 8.0)))
    )


def _kernel(kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> object:
    parts = components(kernel)
    assert parts  # `supports` was asked
    native = _tiles.Kernel32() if np.dtype(dtype).itemsize == 4 else _tiles.Kernel64()
    same = X0 is X1
    for part in parts:
        right = _blocks(part.features(X1), dtype)
        left = right if same else _blocks(part.features(X0), dtype)
        native.add(left, right, part.kind, float(part.weight), float(part.alpha))
    return native


def _blocks(F: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Points in blocks, feature by feature inside a block; the last one padded with zeros."""
    whole = len(F) // BLOCK
    out = np.zeros((-(-len(F) // BLOCK), F.shape[1], BLOCK), dtype=dtype)
    out[:whole] = F[: whole * BLOCK].reshape(whole, BLOCK, F.shape[1]).transpose(0, 2, 1)
    if whole < len(out):
        out[whole, :, : len(F) - whole * BLOCK] = F[whole * BLOCK :].T
    return out


def _groups(columns: int, dtype: np.dtype) -> list[slice]:
    """How the native code wants columns: in groups of three vectors, and the rest."""
    width = _tiles.group_width(np.dtype(dtype).itemsize)
    return [slice(start, min(start + width, columns)) for start in range(0, columns, width)]


def _padded(V: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """V in `dtype`, padded to whole tiles and vectors, each group of columns with all its rows together."""
    unit = _tiles.columns_unit()
    columns = 1 if V.shape[1] == 1 else -(-V.shape[1] // unit) * unit
    rows = -(-len(V) // BLOCK) * BLOCK
    out = np.zeros(rows * columns, dtype=dtype)
    for group in _groups(columns, dtype):
        some = V[:, group]
        out[rows * group.start : rows * group.stop].reshape(rows, -1)[: len(V), : some.shape[1]] = some
    return out.reshape(rows, columns)


def _unpadded(sums: np.ndarray, rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """The first rows and columns of what comes back in groups."""
    flat, height, out = sums.reshape(-1), sums.shape[0], np.empty((rows, columns))
    for group in _groups(sums.shape[1], dtype):
        some = flat[height * group.start : height * group.stop].reshape(height, -1)
        out[:, group] = some[:rows, : max(0, columns - group.start)]
    return out


def _store(cache: TileCache, kernel: Kernel, X: np.ndarray, dtype: np.dtype, first: int) -> Store:
    """The Gram's store, with room for as many panels as fit the cache; none while only some rows are
    computed."""
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

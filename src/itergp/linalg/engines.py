"""The seam: whatever evaluates kernels and multiplies with them is an Engine.

Three come with the library: `numpy` (the reference), `jax` (compiled tiles, any kernel) and, where it was
built, `native` (C++, stationary kernels). A user's own object with these methods goes into
`Compute(engine=...)`, and `from_function` makes one of a plain product function.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from itergp.errors import InputError, KernelError, MemoryLimitError
from itergp.linalg.compute import Compute
from itergp.linalg.libraries import require_jax
from itergp.prior.kernel import Kernel

# larger tiles, with what autodiff keeps of them, leave the cache: measured slower per entry
GRADIENT_TILE = 512
Tick = Callable[[], None]  # called between tiles; raises to stop a product that is under way


def no_tick() -> None:
    pass


class TileCache:
    """Tiles of the upper half of K, stored while they fit the budget. Owned by a Gram, filled by its
    engine."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.tiles: dict[tuple[int, int], np.ndarray] = {}
        self.native: Any = None  # what an engine with its own layout stores

    @property
    def bytes(self) -> int:
        return sum(tile.nbytes for tile in self.tiles.values()) + getattr(self.native, "nbytes", 0)

    def offer(self, key: tuple[int, int], tile: np.ndarray, dtype: np.dtype) -> None:
        size = tile.size * dtype.itemsize
        if size <= self.budget:
            self.tiles[key] = tile.astype(dtype)
            self.budget -= size

    def branch(self) -> "TileCache":
        """The same tiles for data that grow: what is stored from here on belongs to one of the two only."""
        copy = TileCache(self.budget)
        copy.tiles = dict(self.tiles)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """For copies to other processes: the room, not the tiles, which are made again faster than they
        are sent."""
        return {
            "budget": self.budget + sum(tile.nbytes for tile in self.tiles.values()),
            "tiles": {},
            "native": None,
        }


class Engine(ABC):
    """Products with kernel matrices. NumPy in, float64 NumPy out; `dtype` is that of the kernel's tiles."""

    name: str
    own_threads: bool = False  # whether products run on threads of its own, which those of BLAS would disturb

    def with_threads(self, threads: int | None) -> "Engine":
        """The same engine with so many threads, where it has threads of its own."""
        return self

    @abstractmethod
    def supports(self, kernel: Kernel, d: int) -> str:
        """Empty when the engine can evaluate this kernel, else the reason why not."""

    @abstractmethod
    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """k(X0, X1), evaluated in `dtype`."""

    @abstractmethod
    def product(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        """k(X0, X1) @ V. Its transpose is the same with X0 and X1 exchanged."""

    @abstractmethod
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
        """k(X, X) @ V, each pair of tiles evaluated once; rows before `first` may be left out (zero)."""

    @abstractmethod
    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        """Gradient of sum_ij (A B^T)_ij k(x_i, x'_j) in the parameters (a kernel-shaped tree) and in X0."""


class TiledEngine(Engine):
    """What `dense` makes possible: products tile by tile, multiplied and summed in float64.

    Inputs are padded to full tiles (`padding` rows at least), with zeros in V: so appending rows to a data
    set changes neither the compiled shapes nor a bit of what the earlier rows contribute.
    """

    tile_size: int
    padding: int

    def padded(self, X: np.ndarray, multiple: int) -> np.ndarray:
        extra = -X.shape[0] % multiple
        return np.concatenate([X, np.broadcast_to(X[:1], (extra, X.shape[1]))]) if extra else X

    def tile(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """k(X0, X1) of padded inputs, evaluated in `dtype`, returned as float64."""
        return np.asarray(self.dense(kernel, X0, X1, dtype), dtype=np.float64)

    def product(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        T, m = self.tile_size, X0.shape[0]
        X1, V = self.padded(X1, self.padding), _zero_padded(V, T)
        out = np.zeros((m, V.shape[1]))
        for i in range(0, m, T):
            rows = self.padded(X0[i : i + T], self.padding)
            for j in range(0, X1.shape[0], T):
                tick()
                Vj = V[j : j + T]
                if Vj.any():  # actions are often zero on most rows
                    tile = self.tile(kernel, rows, X1[j : j + T], dtype)
                    out[i : i + T] += (_wide(tile, T) @ Vj)[: m - i]
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
        T, n = self.tile_size, X.shape[0]
        X, V = self.padded(X, self.padding), _zero_padded(V, T)
        out = np.zeros((X.shape[0], V.shape[1]))
        for i in range(0, X.shape[0], T):
            for j in range(max(i, first // T * T), X.shape[0], T):
                tick()
                tile = cache.tiles.get((i, j))
                if tile is None:
                    tile = self.tile(kernel, X[i : i + T], X[j : j + T], dtype)
                    if j + T <= n:  # a partial tile changes when rows are appended
                        cache.offer((i, j), tile, dtype)
                full = _full(tile.astype(np.float64, copy=False), T)
                if i >= first // T * T:
                    out[i : i + T] += (full @ V[j : j + T])[: len(out) - i]
                if i < j:
                    out[j : j + T] += (full.T @ V[i : i + T])[: len(out) - j]
        return out[:n]


def _zero_padded(V: np.ndarray, multiple: int) -> np.ndarray:
    extra = -V.shape[0] % multiple
    return np.concatenate([V, np.zeros((extra, V.shape[1]))]) if extra else np.ascontiguousarray(V)


def _wide(tile: np.ndarray, T: int) -> np.ndarray:
    """Zeros up to T columns: BLAS splits a sum by its length, so sums of any other length would round
    otherwise."""
    extra = T - tile.shape[1]
    return np.concatenate([tile, np.zeros((tile.shape[0], extra))], axis=1) if extra else tile


def _full(tile: np.ndarray, T: int) -> np.ndarray:
    """Zeros up to T x T: BLAS has other code for small products, so that the number of rows decides how
    sums round too."""
    return tile if tile.shape == (T, T) else np.pad(tile, [(0, T - size) for size in tile.shape])


def get(name: str) -> Engine:
    """The engine of that name, loaded when first asked for."""
    modules = {
        "numpy": "itergp.linalg._numpy",
        "jax": "itergp.linalg._jax",
        "native": "itergp.linalg._native",
    }
    if name not in modules:
        raise InputError(f"engine is {name!r}; expected one of {', '.join(modules)}.")
    if name == "jax":
        require_jax()
    return importlib.import_module(modules[name]).ENGINE


SMALL = 2048  # rows below which no compiled tile pays for its start-up


def choose(compute: Compute, kernel: Kernel, n: int, d: int) -> tuple[Engine, str]:
    """The engine for this work, and why it was taken."""
    if not isinstance(compute.engine, str):
        return compute.engine, "given by the caller"
    if compute.engine != "auto":
        try:
            engine = get(compute.engine)
        except ImportError as error:
            raise InputError(
                f"Compute.engine={compute.engine!r} is not available here ({error}); use engine='auto'."
            ) from None
        reason = engine.supports(kernel, d)
        if reason:
            raise KernelError(
                f"Compute.engine={compute.engine!r} cannot take this kernel: {reason}. Use engine='auto'."
            )
        return engine.with_threads(compute.threads), "asked for"
    reasons = []
    for name in ("native", "jax"):
        if name == "jax" and n <= SMALL:
            reasons.append(f"n = {n} is small")
            break
        try:
            engine = get(name)
        except (ImportError, MemoryLimitError) as error:
            reasons.append(f"{name} is missing ({error})")
            continue
        reason = engine.supports(kernel, d)
        if not reason:
            return engine.with_threads(compute.threads), "; ".join(reasons) or "tiles in C++"
        reasons.append(f"{name}: {reason}")
    return get("numpy"), "; ".join(reasons)


def from_function(
    product: Callable[[Kernel, np.ndarray, np.ndarray, np.ndarray], np.ndarray], name: str = "user"
) -> Engine:
    """An engine of a plain function `product(kernel, X0, X1, V) -> k(X0, X1) @ V`; the rest is the
    reference engine's."""
    reference = type(get("numpy"))

    def cross(
        self: Any, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        tick()
        return np.asarray(product(kernel, X0, X1, V), dtype=np.float64)

    def symmetric(
        self: Any,
        kernel: Kernel,
        X: np.ndarray,
        V: np.ndarray,
        dtype: np.dtype,
        cache: TileCache,
        first: int,
        tick: Tick,
    ) -> np.ndarray:
        return cross(self, kernel, X, X, V, dtype, tick)

    return type("FunctionEngine", (reference,), {"name": name, "product": cross, "symmetric": symmetric})()

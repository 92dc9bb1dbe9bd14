"""The interface of an engine: products with kernel matrices, and all other heavy work on them.

An engine must say which kernels it supports, evaluate a matrix, and multiply with one. The rest (gradients,
nearest rows, their likelihood, small matrices) has defaults here, which an engine may override with something
faster. So another device, or several machines, can take over all of the work through this one interface.
Inputs are already shifted to a point among the data (`itergp.linalg.gram`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from itergp.linalg.columns import Columns, InMemory
from itergp.linalg.engines import differences, registry
from itergp.linalg.engines.conditionals import Conditionals
from itergp.linalg.engines.sums import in_batches
from itergp.linalg.local import Neighbourhoods, act
from itergp.linalg.neighbours import Scan, Tree, earlier_by_trees, most_informative, nearest_by_tree
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, with_parameters

POINTS = 64  # points whose neighbours are chosen at once, between two ticks
Tick = Callable[[], None]  # called between tiles; raises to stop a product in progress


def no_tick() -> None:
    pass


class TileCache:
    """Tiles of the upper half of K, stored while they fit. Owned by a Gram, filled by its engine."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.tiles: dict[tuple[int, int], np.ndarray] = {}
        self.native: Any = None  # data of engines with their own layout

    @property
    def bytes(self) -> int:
        return sum(tile.nbytes for tile in self.tiles.values()) + getattr(self.native, "nbytes", 0)

    def offer(self, key: tuple[int, int], tile: np.ndarray, dtype: np.dtype) -> None:
        size = tile.size * dtype.itemsize
        if size <= self.budget:
            self.tiles[key] = tile.astype(dtype)
            self.budget -= size

    def branch(self) -> "TileCache":
        """The same tiles for growing data: anything stored from now on belongs to only one of the two."""
        copy = TileCache(self.budget)
        copy.tiles = dict(self.tiles)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """For copies to other processes: the budget, not the tiles, which are recomputed faster than sent."""
        return {
            "budget": self.budget + sum(tile.nbytes for tile in self.tiles.values()),
            "tiles": {},
            "native": None,
        }


class Engine(ABC):
    """Products with kernel matrices. NumPy in, float64 NumPy out; `dtype` is that of the kernel's tiles."""

    name: str
    own_threads: bool = False  # whether products run on its own threads, which those of BLAS would disturb

    def with_threads(self, threads: int | None) -> "Engine":
        """The same engine with this number of threads, if it has threads of its own."""
        return self

    def columns(self, n: int) -> Columns:
        """Where n x r numbers of a run will live: an empty matrix of n rows."""
        return InMemory(n)

    @abstractmethod
    def supports(self, kernel: Kernel, d: int) -> str:
        """Empty if the engine can evaluate this kernel, else the reason why not."""

    def in_tiles(self, kernel: Kernel) -> Kernel:
        """The part of the kernel that is rounded to the dtype of the tiles; the rest is added in float64."""
        return kernel

    @abstractmethod
    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """k(X0, X1), evaluated in `dtype`."""

    @abstractmethod
    def product(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, dtype: np.dtype, tick: Tick
    ) -> np.ndarray:
        """k(X0, X1) @ V. Its transpose is the same with X0 and X1 swapped."""

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
        """k(X, X) @ V, each pair of tiles evaluated once; rows before `first` may be skipped (zero)."""

    def batch(self, kernel: Kernel, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """k(A[p], B[p]) in float64 for each p, (p, a, b): many small matrices."""
        return np.stack([kernel(A[p], B[p]) for p in range(len(A))])

    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        """Gradient of sum_ij (A B^T)_ij k(x_i, x'_j) in the parameters (a kernel-shaped tree) and in X0."""
        jax = registry.autodiff(kernel, X0.shape[1])
        if jax:
            return jax.gradient(kernel, X0, X1, A, B)
        slopes, in_inputs = differences.gradient(kernel, X0, X1, A @ B.T)
        return with_parameters(kernel, slopes, check=False), in_inputs

    def weighted(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray
    ) -> tuple[Slopes, np.ndarray]:
        """Gradient of sum_ij W_ij k(x_i, x'_j) in the parameters and in X0, for dense weights."""
        jax = registry.autodiff(kernel, X0.shape[1])
        return jax.weighted(kernel, X0, X1, W) if jax else differences.gradient(kernel, X0, X1, W)

    def in_inputs(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Gradient of sum_ij W_ij k(x_i, x'_j) in X0 alone, for dense weights: what predictions need. The
        native code serves every engine, if it supports the kernel."""
        native = registry.native()
        if native and native.differentiates(kernel):
            return native.in_inputs(kernel, X0, X1, W)
        return self.weighted(kernel, X0, X1, W)[1]

    def weighted_symmetric(
        self, kernel: Kernel, X: np.ndarray, W: np.ndarray, tick: Tick = no_tick
    ) -> Slopes:
        """Gradient of sum_ij W_ij k(x_i, x_j) in the parameters; W is symmetric, its lower half is read."""
        jax = registry.autodiff(kernel, X.shape[1])
        if jax:
            return jax.weighted_symmetric(kernel, X, W, tick)
        W = both_halves(W)

        def total(k: Kernel) -> float:
            tick()
            return float((W * k(X, X)).sum())

        return differences.in_parameters(kernel, total)

    def weighted_diagonal(self, kernel: Kernel, X: np.ndarray, w: np.ndarray) -> Slopes:
        """Gradient of sum_i w_i k(x_i, x_i) in the parameters."""
        jax = registry.autodiff(kernel, X.shape[1])
        if jax:
            return jax.weighted_diagonal(kernel, X, w)
        return differences.in_parameters(kernel, lambda k: float(w @ k.diagonal(X)))

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
        """The `count` rows of F1 nearest to each row of F0, nearest first, padded with -1 if there are fewer.

        `among` is "all" rows; or, if F0 is F1, the "others", or those "earlier" in the order of the rows.
        `chosen` restricts the search to some rows of F0, in ascending order. No kernel is involved, so the
        native code serves every engine if it was built.
        """
        native = registry.native()
        if native:
            return native.nearest(F0, F1, count, among, chosen, threads, tick)
        found = nearest_by_tree(F0, F1, count, among)
        return found if chosen is None else found[chosen]

    def earlier(
        self,
        F: np.ndarray,
        count: int,
        chosen: np.ndarray,
        by_trees: bool,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> np.ndarray:
        """The `count` nearest earlier rows of the `chosen` ones (ascending), padded with -1."""

        def brute(stop: int, rows: np.ndarray) -> np.ndarray:
            return self.nearest(F[:stop], F[:stop], count, "earlier", rows, threads, tick)

        if by_trees:
            tree = partial(self.tree, threads=threads, tick=tick)
            return earlier_by_trees(tree, brute, F, count, chosen, tick)
        return brute(len(F), chosen)

    def tree(
        self, F: np.ndarray, threads: int | None = None, tick: Tick = no_tick, owned: bool = False
    ) -> Any:
        """A search tree over the rows of F: `tree.nearest(F0, count)` is what `nearest` finds among all.

        An F that is `owned` is the tree's from now on, which may reorder it; of others it has a copy."""
        native = registry.native()
        return native.tree(F, threads, tick, owned) if native else Tree(F, threads)

    def scan(self, F: np.ndarray, threads: int | None = None) -> Any:
        """The rows of F prepared for searches that compare with all of them: `scan.nearest(F0, count)`."""
        native = registry.native()
        return native.scan(F, threads) if native else Scan(F)

    def solve_lower(self, L: np.ndarray, B: np.ndarray, threads: int | None = None) -> np.ndarray:
        """L^{-1} b for each row b of B, (rows, r). In the native code no row depends on the others."""
        native = registry.native()
        if native:
            return native.solve_lower(L, B, threads)
        return scipy.linalg.solve_triangular(L, B.T, lower=True, check_finite=False).T if B.size else B.copy()

    def local_actions(
        self,
        kernel: Kernel,
        given: Neighbourhoods,
        residual: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        threads: int | None = None,
    ) -> None:
        """Update means (points, t) and variances (points,) by actions on each point's neighbours.

        `residual` is that of the rows. See `itergp.linalg.local` for the formulas.
        """
        native = registry.native()
        if native and native.acts_locally(kernel, given):
            native.local_actions(kernel, given, residual, mean, variance, threads)
        else:
            act(partial(self.batch, kernel), given, residual, mean, variance, threads)

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
        """For each row of X0, `count` of its candidates J (rows of X1, nearest first, padded with -1).

        One by one, the candidate whose noisy observation lowers the variance at the point the most, given
        those before; of those that tie, the nearest. Only the columns of chosen candidates are evaluated.
        """
        native = registry.native()
        if native and native.chooses(kernel):
            return native.most_informative(kernel, X0, X1, N, J, count, threads, tick)
        out = np.empty((len(X0), count), dtype=np.int32)
        k0, K_hat = np.asarray(kernel.diagonal(X0)), np.asarray(kernel.diagonal(X1)) + N
        for start in range(0, len(X0), POINTS):
            tick()
            some = slice(start, start + POINTS)
            out[some] = most_informative(
                partial(self.batch, kernel), X0[some], k0[some], X1, K_hat, J[some], count
            )
        return out

    def likelihood(
        self,
        kernel: Kernel,
        noise: float,
        given: Conditionals,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> tuple[np.ndarray, Slopes, float]:
        """-log p(y_i | y_J) for each row i with its neighbours J, summed over targets; and the gradient of
        their sum in the kernel's parameters, by path, and in the noise. Uses the native code if it supports
        the kernel, else JAX."""
        native = registry.native()
        if native and native.differentiates(kernel):
            return native.likelihood(kernel, noise, given, threads, tick)
        registry.get("jax")  # raises if JAX cannot be loaded
        from itergp.linalg.engines.jax_neighbours import likelihood

        return likelihood(kernel, noise, given, tick)

    def summed_likelihood(
        self,
        kernel: Kernel,
        noise: float,
        given: Conditionals,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> tuple[float, Slopes, float]:
        """The sum of `likelihood` over all rows, and its gradient: some rows at a time, always the same ones,
        so that its bits do not depend on where they were computed."""
        values, slopes, in_noise = self.likelihood(kernel, noise, given, threads, tick)
        return float(in_batches(values)), slopes, in_noise

    # Points that do not depend on each other, such as those of predictions.

    def spreads(self, points: int) -> bool:
        """Whether so many points should go through `each`, some at a time."""
        return False

    def each(
        self,
        function: Callable[[Any, np.ndarray], Any],
        shared: Any,
        pieces: Sequence[np.ndarray],
        tick: Tick = no_tick,
    ) -> list[Any]:
        """function(shared, piece) for each piece, in their order. All of them may be computed elsewhere: then
        `shared` is sent once, for as long as it lives."""
        found = []
        for piece in pieces:
            tick()
            found.append(function(shared, piece))
        return found

    # What a cluster says of itself; nothing, where there is none.

    def speedup(self, kernel: Kernel, X: np.ndarray, dtype: np.dtype) -> float:
        """How many times as fast a pass over many rows is as one over these few would suggest, which is made
        in this process."""
        return 1.0

    def placement(self, n: int, d: int, targets: int, columns: int, kernel: Kernel | None = None) -> str:
        """What each worker will hold for a fit; raises MemoryLimitError if that does not fit. `columns` is
        the least that a pass has, 0 if there is none; `kernel` is where learning begins, if that is known."""
        return ""

    def activity(self) -> str:
        """Who works, and how many bytes were moved so far."""
        return ""


def both_halves(W: np.ndarray) -> np.ndarray:
    """Weights of the lower half that also account for the upper half."""
    return 2.0 * np.tril(W, -1) + np.diag(np.diag(W))


class TiledEngine(Engine):
    """Products built on `dense`: tile by tile, multiplied and summed in float64.

    Inputs are padded to full tiles (at least `padding` rows), with zeros in V. So appending rows to a data
    set changes neither the compiled shapes nor a bit of what the earlier rows contribute.
    """

    tile_size: int = 512
    padding: int = 64

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
    """Pad with zeros to T columns: BLAS splits sums by their length, and rounds accordingly."""
    extra = T - tile.shape[1]
    return np.concatenate([tile, np.zeros((tile.shape[0], extra))], axis=1) if extra else tile


def _full(tile: np.ndarray, T: int) -> np.ndarray:
    """Pad with zeros to T x T: BLAS has other code for small products, which rounds differently."""
    return tile if tile.shape == (T, T) else np.pad(tile, [(0, T - size) for size in tile.shape])

"""Passes over K, Q and K Q, weights, residual and variances on JAX devices: rows are dealt out to the
devices, and XLA adds up over them.

Everything that crosses between a device and this process does so by `device_put` and `device_get`, and is
counted: inputs once, then n x b blocks and r x b numbers, and what a policy reads. With
`jax.transfer_guard("disallow")` any other copy would be an error. Products of float32 tiles are summed over
32 terms in float32, and over these in float64; all else is float64.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from itergp.errors import InputError
from itergp.linalg.columns import CHUNK, Columns, InMemory, Sums, Vectors
from itergp.linalg.engines.base import Tick, TileCache
from itergp.linalg.engines.batches import Traffic
from itergp.linalg.engines.jax import JaxEngine, _with_x64, as_tree
from itergp.prior.kernel import Kernel

if TYPE_CHECKING:
    from itergp.linalg.gram import Gram

TILE = 512  # columns of K at a time
TERMS = 32  # of a sum in float32
POINTS = 256  # at which the kernel is evaluated at once


@functools.cache
def on_devices(count: int | str) -> "JaxDevices":
    """The engine for some of the devices that JAX has, or for "all" of them."""
    found = jax.devices()
    if count != "all" and int(count) > len(found):
        raise InputError(
            f"Compute.devices is {count}; JAX has {len(found)} ({found[0].platform}). Ask for fewer, or for "
            "'all'. On a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four of one."
        )
    return JaxDevices(Rows(Mesh(np.array(found if count == "all" else found[: int(count)]), ("rows",))))


@dataclass(frozen=True)
class Rows:
    """Rows of arrays, dealt out to devices in equal parts; the last ones are zeros."""

    mesh: Mesh
    traffic: Traffic = field(default_factory=Traffic, compare=False)

    @property
    def dealt(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec("rows"))

    @property
    def copied(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())

    def padded(self, n: int) -> int:
        """So many rows, and more, until each device has whole tiles."""
        whole = TILE * self.mesh.size
        return -(-n // whole) * whole

    def put(self, A: np.ndarray, n: int) -> Any:
        """The first n rows, one part on each device."""
        out = np.zeros((self.padded(n), *A.shape[1:]), dtype=A.dtype)
        out[:n] = A[:n]
        self.traffic.sent += out.nbytes
        return jax.device_put(out, self.dealt)

    def zeros(self, n: int, columns: int) -> Any:
        """Made where they lie."""
        return _zeros(self.padded(n), columns, self.dealt)()

    def everywhere(self, tree: Any) -> Any:
        """Small things, on each device."""
        self.traffic.sent += self.mesh.size * sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))
        return jax.device_put(tree, self.copied)

    def gathered(self, there: Any) -> Any:
        """Rows that are dealt out, as a whole on each device: they pass from one device to another."""
        return jax.device_put(there, self.copied)

    def get(self, there: list[Any]) -> list[np.ndarray]:
        """Arrays in this process."""
        found = [np.asarray(one) for one in jax.device_get(there)]
        self.traffic.received += sum(one.nbytes for one in found)
        return found


@functools.cache
def _zeros(rows: int, columns: int, where: NamedSharding) -> Callable[[], Any]:
    return jax.jit(lambda: jnp.zeros((rows, columns), dtype=jnp.float64), out_shardings=where)


@functools.partial(jax.jit, donate_argnums=0)
def _add_tile(total: Any, kernel: Kernel, X: Any, whole: Any, V: Any, start: Any) -> Any:
    """total + k(X, tile) V, with no more than 32 terms in the dtype of the tile: 512 rows of the whole X."""
    tile, V = (jax.lax.dynamic_slice_in_dim(A, start, TILE) for A in (whole, V))
    K = kernel(X, tile).reshape(X.shape[0], -1, TERMS)
    short = jnp.einsum("ick,ckb->icb", K, V.reshape(-1, TERMS, V.shape[1]), precision="highest")
    return total + short.sum(axis=1, dtype=jnp.float64)


@jax.jit
def _inner(A: Any, V: Any) -> Any:
    return jnp.matmul(A.T, V, precision="highest")


@functools.partial(jax.jit, donate_argnums=0)
def _with_product(total: Any, A: Any, C: Any) -> Any:
    return total + jnp.matmul(A, C, precision="highest")


@jax.jit
def _with_block(A: Any, block: Any, start: Any) -> Any:
    return jax.lax.dynamic_update_slice(A, block, (jnp.zeros_like(start), start))


@jax.jit
def _projected(A: Any, kernel: Kernel, X: Any, points: Any) -> Any:
    return jnp.matmul(A.T, kernel(X, points), precision="highest")


@jax.jit
def _squared_rows(A: Any) -> Any:
    return jnp.square(A).sum(axis=1)


@jax.jit
def _rows(A: Any, indices: Any) -> Any:
    return A[indices]


@jax.jit
def _accepted(
    v: Any, r: Any, variance: Any, N: Any, floor: Any, D: Any, F: Any, z: Any, first: Any
) -> tuple[Any, Any, Any, Any]:
    """Action by action, as in the loop of one process (Alg. 1, lines 9 to 14); and their trace of D^T N D."""

    def one(j: Any, so_far: Any) -> Any:
        v, r, variance, trace = so_far
        d, f = (jax.lax.dynamic_index_in_dim(A, first + j, 1, keepdims=False) for A in (D, F))
        Nd, z_j = N * d, jax.lax.dynamic_index_in_dim(z, j, 0)
        return v + d[:, None] * z_j, r - (f + Nd)[:, None] * z_j, variance - f * f, trace + (d * Nd).sum()

    start = v, r, variance, jnp.zeros((), dtype=v.dtype)
    v, r, variance, trace = jax.lax.fori_loop(0, z.shape[0], one, start)
    return v, r, jnp.maximum(variance, floor), trace


@jax.jit
def _sums(v: Any, r: Any, variance: Any, N: Any, is_row: Any) -> Any:
    safe = jnp.where(is_row, N, 1.0)  # rows that are there to fill a tile have no noise
    misfit, weights = jnp.square(r + N[:, None] * v) / safe[:, None], N[:, None] * jnp.square(v)
    return jnp.stack(
        [jnp.square(r).sum(), variance.sum(), (variance / safe).sum(), misfit.sum(), weights.sum()]
    )


class JaxDevices(JaxEngine):
    """The JAX engine with n x r numbers and passes on devices: `Compute(engine="jax", devices=4)`."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[int]]:
        return on_devices, (self.rows.mesh.size,)

    def columns(self, n: int) -> Columns:
        return OnDevices(n, self.rows)

    @_with_x64
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
        """Column tile by column tile: each device has its rows of K, and all of X and V."""
        placed, n, rows = self._placed(kernel, X, np.dtype(dtype), cache), len(X), self.rows
        rounded = V.astype(dtype)
        rest, width = (V - rounded).astype(dtype), V.shape[1]
        parts = _power_of_two(np.concatenate([rounded, rest], axis=1) if rest.any() else rounded)
        there, total = rows.gathered(rows.put(parts, n)), rows.zeros(n, parts.shape[1])
        for start in range(0, n, TILE):
            tick()
            if parts[start : start + TILE].any():
                at = rows.everywhere(np.int32(start))
                total = _add_tile(total, placed.tree, placed.X, placed.whole, there, at)
        out = rows.get([total])[0][:n]
        return out[:, :width] + out[:, width : 2 * width] if rest.any() else out[:, :width]

    def _placed(self, kernel: Kernel, X: np.ndarray, dtype: np.dtype, cache: TileCache) -> "Placed":
        """Inputs cross once: they are kept with what else the Gram of this kernel and this X keeps."""
        placed = cache.native
        same = isinstance(placed, Placed) and placed.kernel is kernel
        if same and (placed.n, placed.dtype) == (len(X), dtype):
            return placed
        there = self.rows.put(X.astype(dtype), len(X))
        tree = self.rows.everywhere(as_tree(kernel, dtype))
        cache.native = Placed(kernel, len(X), dtype, tree, there, self.rows.gathered(there))
        return cache.native

    def activity(self) -> str:
        traffic, count = self.rows.traffic, self.rows.mesh.size
        return f"{count} device{'s' * (count > 1)} · {(traffic.sent + traffic.received) / 1e6:,.1f} MB moved"


@dataclass(frozen=True, eq=False)
class Placed:
    """What passes over one matrix read on the devices."""

    kernel: Kernel
    n: int
    dtype: np.dtype
    tree: Any  # the kernel
    X: Any  # some rows on each device
    whole: Any  # and all of them


def _power_of_two(V: np.ndarray) -> np.ndarray:
    """With columns of zeros, so that few shapes are compiled."""
    missing = (1 << max(0, V.shape[1] - 1).bit_length()) - V.shape[1]
    return np.concatenate([V, np.zeros((len(V), missing), dtype=V.dtype)], axis=1)


@dataclass(frozen=True, eq=False)
class OnDevices(Columns):
    """A matrix in chunks of 64 columns, each with its rows on all devices. A chunk never changes."""

    with_vectors: ClassVar[bool] = True
    n: int
    on: Rows
    columns: int = 0
    chunks: tuple[Any, ...] = ()

    @property
    def size(self) -> int:
        return self.columns

    def empty(self) -> "OnDevices":
        return OnDevices(self.n, self.on)

    @_with_x64
    def append(self, block: np.ndarray) -> "OnDevices":
        chunks, size = list(self.chunks), self.columns
        while block.shape[1]:
            if size % CHUNK == 0:
                chunks.append(self.on.zeros(self.n, CHUNK))
            used = size % CHUNK
            some = self.on.put(block[:, : CHUNK - used], self.n)
            chunks[-1] = _with_block(chunks[-1], some, self.on.everywhere(np.int32(used)))
            size, block = size + some.shape[1], block[:, CHUNK - used :]
        return replace(self, columns=size, chunks=tuple(chunks))

    @_with_x64
    def inner(self, V: np.ndarray) -> np.ndarray:
        there = self.on.put(np.asarray(V, dtype=np.float64), self.n)
        return self._stacked([_inner(chunk, there) for chunk in self.chunks], V.shape[1])

    @_with_x64
    def combine(self, C: np.ndarray) -> np.ndarray:
        return self.on.get([self.times(C)])[0][: self.n]

    def times(self, C: np.ndarray) -> Any:
        """The same, which stays there."""
        total = self.on.zeros(self.n, C.shape[1])
        for i, chunk in enumerate(self.chunks[: -(-len(C) // CHUNK)]):
            some = np.zeros((CHUNK, C.shape[1]))
            some[: len(C[i * CHUNK : (i + 1) * CHUNK])] = C[i * CHUNK : (i + 1) * CHUNK]
            if some.any():
                total = _with_product(total, chunk, self.on.everywhere(some))
        return total

    @_with_x64
    def projected(self, gram: "Gram", X: np.ndarray) -> np.ndarray:
        kernel, rows, points = gram.between_rows_and(X)
        tree, there = self.on.everywhere(as_tree(kernel, np.float64)), self.on.put(rows, self.n)
        out = np.zeros((self.columns, len(X)))
        for start in range(0, len(X), POINTS):
            some = np.concatenate([points[start : start + POINTS], np.repeat(points[:1], POINTS, axis=0)])
            at = self.on.everywhere(some[:POINTS])
            found = self._stacked([_projected(chunk, tree, there, at) for chunk in self.chunks], POINTS)
            out[:, start : start + POINTS] = found[:, : len(X) - start]
        return out

    def _stacked(self, parts: list[Any], width: int) -> np.ndarray:
        return np.concatenate([np.zeros((0, width)), *self.on.get(parts)])[: self.columns]

    def between(self, start: int, stop: int) -> np.ndarray:
        first, last = start // CHUNK, -(-stop // CHUNK)
        found = [chunk[: self.n] for chunk in self.on.get(list(self.chunks[first:last]))]
        whole = np.concatenate([np.zeros((self.n, 0)), *found], axis=1)
        return whole[:, start - first * CHUNK : stop - first * CHUNK]

    @_with_x64
    def rows(self, indices: np.ndarray) -> np.ndarray:
        at = self.on.everywhere(np.asarray(indices))
        found = self.on.get([_rows(chunk, at) for chunk in self.chunks])
        return np.concatenate([np.zeros((len(indices), 0)), *found], axis=1)[:, : self.columns]

    @_with_x64
    def squared_rows(self) -> np.ndarray:
        found = self.on.get([_squared_rows(chunk) for chunk in self.chunks])
        return sum((some[: self.n] for some in found), np.zeros(self.n))

    @_with_x64
    def with_rows(self, new: np.ndarray) -> "OnDevices":
        """A chunk at a time: the rows of each device change."""
        n, chunks = self.n + len(new), []
        for i, chunk in enumerate(self.chunks):
            more = np.zeros((len(new), CHUNK))
            some = new[:, i * CHUNK : (i + 1) * CHUNK]
            more[:, : some.shape[1]] = some
            chunks.append(self.on.put(np.concatenate([self.on.get([chunk])[0][: self.n], more]), n))
        return replace(self, n=n, chunks=tuple(chunks))

    def bytes_here(self, columns: int) -> float:
        return 0.0

    @_with_x64
    def vectors(
        self, v: np.ndarray, r: np.ndarray, variance: np.ndarray, N: np.ndarray, floor: np.ndarray
    ) -> Vectors:
        there = [self.on.put(one, self.n) for one in (v, r, variance, N, floor, np.ones(self.n, dtype=bool))]
        return VectorsOnDevices(self.n, self.on, *there)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnDevices":
        return self  # it never changes

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process is in its memory."""
        return _in_memory, (self.between(0, self.columns),)


def _in_memory(A: np.ndarray) -> InMemory:
    return InMemory(len(A)).append(A)


@dataclass(frozen=True, eq=False)
class VectorsOnDevices(Vectors):
    """Each with its rows on all devices, like those of Q and K Q."""

    n: int
    on: Rows
    v: Any
    r: Any
    variances: Any
    N: Any
    floor: Any
    is_row: Any

    def weights(self) -> np.ndarray:
        return self.on.get([self.v])[0][: self.n]

    def residual(self) -> np.ndarray:
        return self.on.get([self.r])[0][: self.n]

    def variance(self) -> np.ndarray:
        return self.on.get([self.variances])[0][: self.n]

    @_with_x64
    def sums(self) -> Sums:
        found = self.on.get([_sums(self.v, self.r, self.variances, self.N, self.is_row)])[0]
        squared, variance, *others = map(float, found)
        return Sums(squared**0.5, variance / self.n, *others)

    @_with_x64
    def after(
        self, Q: list[tuple[Any, np.ndarray]], KQ: Columns, C: np.ndarray, z: np.ndarray, first: int
    ) -> tuple[Vectors, float]:
        assert isinstance(KQ, OnDevices)
        D = self.on.zeros(self.n, C.shape[1])
        for part, some in Q:
            D = D + (part.times(some) if isinstance(part, OnDevices) else self._sparse(part, some))
        actions, at = self.on.everywhere((z, np.int32(first)))
        F, before = KQ.times(C), (self.v, self.r, self.variances)
        v, r, variances, trace = _accepted(*before, self.N, self.floor, D, F, actions, at)
        return replace(self, v=v, r=r, variances=variances), float(self.on.get([trace])[0])

    def _sparse(self, part: Any, some: np.ndarray) -> Any:
        """A product with actions that live in this process, since they are sparse."""
        return self.on.put(np.asarray(part[:, : len(some)] @ some), self.n)

    def __deepcopy__(self, memo: dict[int, Any]) -> "VectorsOnDevices":
        return self  # it never changes

"""Tiles in JAX: any kernel whose formula uses the array namespace, on CPU, GPU or TPU.

JAX evaluates a tile, fused from distances to profile, in the tile's dtype, and returns it as float64; the
product with it is BLAS in float64 (measured: XLA's own products of such tiles were two to ten times slower,
and summing in float32 would lose accuracy). One shape is compiled per number of features, for every n and all
parameter values.
"""

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from itergp.linalg.engines.base import Tick, TiledEngine, both_halves, no_tick
from itergp.linalg.libraries import require_jax
from itergp.prior.distances import squared_distance
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, added, no_slopes, parameters
from itergp.prior.stationary import Stationary

# larger tiles, with what autodiff stores for them, do not fit the cache: measured slower per entry
GRADIENT_TILE = 512


def register(kernel: Kernel) -> None:
    """Register the kernel and its parts with JAX as pytrees of their parameters."""
    _register(type(kernel))
    for part in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, part.name)
        if isinstance(value, Kernel):
            register(value)


@functools.cache
def _register(cls: type) -> None:
    static = [part.name for part in fields(cls) if part.metadata.get("static")]
    data = [part.name for part in fields(cls) if part.name not in static]

    def flatten(kernel: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(kernel, name) for name in data], tuple(getattr(kernel, name) for name in static)

    # without validation: leaves may be gradients or tracers
    def unflatten(fixed: tuple[Any, ...], leaves: Any) -> Any:
        kernel: Any = object.__new__(cls)
        for name, value in zip([*data, *static], [*leaves, *fixed], strict=True):
            object.__setattr__(kernel, name, value)
        return kernel

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


def as_tree(kernel: Kernel, dtype: Any) -> Kernel:
    """The kernel with arrays for parameters: Python numbers would be compiled in, and every value recompiled.

    Every call to JAX goes through this, and raises here if JAX cannot be used.
    """
    require_jax()
    register(kernel)
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=dtype), kernel)


@jax.custom_vjp
def _squared_distance(F0: Any, F1: Any) -> Any:
    return squared_distance(F0, F1)


def _slopes_of_distance(parts: tuple[Any, Any, Any], P: Any) -> tuple[Any, Any]:
    """Of sum_ij P_ij |f_i - f'_j|^2 in F0 and F1.

    Profiles in r have P of the order 1 / r: if points differ only by rounding, P f - P f' would be rounding
    times that. Such pairs contribute P s, of the order r, which is dropped.
    """
    F0, F1, s = parts
    P = jnp.where(s > 1e-16 * jnp.maximum(jnp.max(F0 * F0), jnp.max(F1 * F1)), P, 0.0)
    return 2.0 * (P.sum(axis=1)[:, None] * F0 - P @ F1), 2.0 * (P.sum(axis=0)[:, None] * F1 - P.T @ F0)


def _distance_and_parts(F0: Any, F1: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    s = squared_distance(F0, F1)
    return s, (F0, F1, s)


_squared_distance.defvjp(_distance_and_parts, _slopes_of_distance)


def differentiable(kernel: Any, X0: Any, X1: Any) -> Any:
    """k(X0, X1), by the same operations, with a gradient by matrix products instead of a loop over features.

    Several times faster than autodiff through the loop, and faster to compile. Values still come from direct
    differences; only their slopes are summed as P F, and a slope cannot become indefinite.
    """
    return kernel.evaluate(X0, X1, _differentiable_leaf)


def _differentiable_leaf(kernel: Any, X0: Any, X1: Any) -> Any:
    if type(kernel).__call__ is Stationary.__call__:
        return kernel.profile(_squared_distance(kernel.features(X0), kernel.features(X1)))
    return kernel(X0, X1)


@jax.jit
def _formula(kernel: Kernel, X0: Any, X1: Any) -> Any:
    """For `supports`: a module-level function is traced once per structure, a lambda on every call."""
    return kernel(X0, X1)


@jax.jit
def _tile(kernel: Kernel, X0T: Any, X1T: Any) -> Any:
    # features first: contiguous reads in the loop over features
    return kernel(X0T.T, X1T.T).astype(jnp.float64)


@jax.jit
def _slopes(kernel: Kernel, X0: Any, X1: Any, W: Any) -> Any:
    return jax.grad(lambda kernel, X0: jnp.sum(W * differentiable(kernel, X0, X1)), argnums=(0, 1))(
        kernel, X0
    )


def point_variances(kernel: Any, X: Any) -> Any:
    """k(x, x) for each row, for tracers: a user's kernel may have no formula for it."""
    return jax.vmap(lambda x: kernel(x[None], x[None])[0, 0])(X)


@jax.jit
def _diagonal_slopes(kernel: Kernel, X: Any, w: Any) -> Any:
    return jax.grad(lambda kernel: w @ point_variances(kernel, X))(kernel)


def _with_x64(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any) -> Any:
        with jax.enable_x64(True):
            return function(*args)

    return wrapped


class JaxEngine(TiledEngine):
    name = "jax"
    tile_size = 1024
    padding = 1024

    def supports(self, kernel: Kernel, d: int) -> str:
        if not is_dataclass(kernel):
            return f"{type(kernel).__name__} is not a dataclass, so JAX cannot see its parameters"
        tree, shape = as_tree(kernel, np.float32), jax.ShapeDtypeStruct((4, d), np.float32)
        try:
            jax.eval_shape(_formula, tree, shape, shape)
        except Exception as error:  # whatever a user's formula raises on tracers
            return f"JAX cannot trace {type(kernel).__name__} ({type(error).__name__})"
        return ""

    @_with_x64
    def dense(self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, dtype: np.dtype) -> np.ndarray:
        m, n = X0.shape[0], X1.shape[0]
        T = self.tile_size
        if m != T or n != T:  # one compiled shape only
            out = np.empty((m, n))
            for i in range(0, m, T):
                for j in range(0, n, T):
                    rows, columns = self.padded(X0[i : i + T], T), self.padded(X1[j : j + T], T)
                    out[i : i + T, j : j + T] = self.dense(kernel, rows, columns, dtype)[: m - i, : n - j]
            return out
        X0T, X1T = np.ascontiguousarray(X0.T, dtype=dtype), np.ascontiguousarray(X1.T, dtype=dtype)
        return np.asarray(jax.device_get(_tile(*jax.device_put((as_tree(kernel, dtype), X0T, X1T)))))

    def gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        T, in_inputs = GRADIENT_TILE, np.zeros_like(X0)
        in_parameters = jax.tree.map(np.zeros_like, as_tree(kernel, np.float64))
        for i in range(0, X0.shape[0], T):
            for j in range(0, X1.shape[0], T):
                # A B^T by BLAS: inside the tile it would be recompiled for every rank
                slopes, slope = self._tile_gradient(
                    kernel, X0[i : i + T], X1[j : j + T], A[i : i + T] @ B[j : j + T].T
                )
                in_parameters = jax.tree.map(lambda total, new: total + new, in_parameters, slopes)
                in_inputs[i : i + T] += slope
        return in_parameters, in_inputs

    def weighted(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray
    ) -> tuple[Slopes, np.ndarray]:
        T, slopes, in_inputs = GRADIENT_TILE, no_slopes(kernel), np.zeros_like(X0)
        for i in range(0, len(X0), T):
            for j in range(0, len(X1), T):
                here, there = slice(i, i + T), slice(j, j + T)
                found, slope = self._tile_gradient(kernel, X0[here], X1[there], W[here, there])
                slopes = added(slopes, parameters(found))
                in_inputs[here] += slope
        return slopes, in_inputs

    def weighted_symmetric(
        self, kernel: Kernel, X: np.ndarray, W: np.ndarray, tick: Tick = no_tick
    ) -> Slopes:
        T, slopes = GRADIENT_TILE, no_slopes(kernel)
        for i in range(0, len(X), T):
            for j in range(0, i + 1, T):
                tick()
                here, there = slice(i, i + T), slice(j, j + T)
                weights = both_halves(W[here, there]) if i == j else 2.0 * W[here, there]
                found, _ = self._tile_gradient(kernel, X[here], X[there], weights)
                slopes = added(slopes, parameters(found))
        return slopes

    @_with_x64
    def weighted_diagonal(self, kernel: Kernel, X: np.ndarray, w: np.ndarray) -> Slopes:
        T, slopes = GRADIENT_TILE, no_slopes(kernel)
        for i in range(0, len(X), T):
            weights = np.zeros(T)
            weights[: len(w[i : i + T])] = w[i : i + T]
            found = _diagonal_slopes(as_tree(kernel, np.float64), self.padded(X[i : i + T], T), weights)
            slopes = added(slopes, parameters(jax.tree.map(np.asarray, found)))
        return slopes

    @_with_x64
    def _tile_gradient(
        self, kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray
    ) -> tuple[Kernel, np.ndarray]:
        """Gradient of sum_ij W_ij k(x_i, x'_j), for at most one tile, in the parameters and in X0."""
        T = GRADIENT_TILE
        padded = np.zeros((T, T))
        padded[: len(X0), : len(X1)] = W
        slopes, slope = _slopes(as_tree(kernel, np.float64), self.padded(X0, T), self.padded(X1, T), padded)
        return jax.tree.map(np.asarray, slopes), np.asarray(slope)[: len(X0)]


ENGINE = JaxEngine()

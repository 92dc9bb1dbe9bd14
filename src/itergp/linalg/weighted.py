"""Gradients of weighted sums of kernel values, sum_ij W_ij k(x_i, x'_j): what every objective's gradient
comes down to.

Weights of low rank go to the engine (`low_rank_gradient`); weights without structure go tile by tile
through JAX, or through differences where JAX cannot follow the kernel's formula.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from itergp.linalg.engines import GRADIENT_TILE as TILE, Engine, Tick, get, no_tick
from itergp.linalg.gram import Gram
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import parameters, with_parameters

Slopes = dict[str, Any]  # by the path of the parameter
ROWS = 2048  # of a low-rank gradient between two ticks


def _jax() -> Any:
    """Loaded when it is needed: learning from neighbours, and all that the native engine does, never needs
    it."""
    return get("jax")


def added(*all_slopes: Slopes) -> Slopes:
    """The sum of gradients."""
    return {path: sum(slopes[path] for slopes in all_slopes) for path in all_slopes[0]}


def no_slopes(kernel: Kernel) -> Slopes:
    return {path: np.zeros(np.shape(value)) for path, value in parameters(kernel).items()}


def low_rank_gradient(gram: Gram, A: np.ndarray, B: np.ndarray, tick: Tick = no_tick) -> Slopes:
    """Gradient of sum_ij (A B^T)_ij k(x_i, x_j) in the parameters; each pair evaluated once, with weights
    A B^T + B A^T."""
    X, slopes = gram.centred(gram.X), no_slopes(gram.kernel)
    for i in range(0, gram.n, ROWS):
        here, after = slice(i, i + ROWS), slice(i + ROWS, None)
        tick()
        slopes = added(slopes, _engine_gradient(gram, X[here], X[here], A[here], B[here]))
        if i + ROWS < gram.n:
            tick()
            left, right = np.hstack([A[here], B[here]]), np.hstack([B[after], A[after]])
            slopes = added(slopes, _engine_gradient(gram, X[here], X[after], left, right))
    return slopes


def low_rank_columns_gradient(
    gram: Gram, columns: np.ndarray, A: np.ndarray, B: np.ndarray, tick: Tick = no_tick
) -> Slopes:
    """Gradient of sum_ij (A B^T)_ij k(x_i, x_{columns[j]}) in the parameters, where weights reach some
    columns only."""
    X, slopes = gram.centred(gram.X), no_slopes(gram.kernel)
    for i in range(0, gram.n, ROWS):
        tick()
        slopes = added(slopes, _engine_gradient(gram, X[i : i + ROWS], X[columns], A[i : i + ROWS], B))
    return slopes


def _engine_gradient(gram: Gram, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray) -> Slopes:
    engine: Engine = gram.engine
    if engine.name == "numpy" and not _jax().supports(gram.kernel, X0.shape[1]):
        engine = _jax()  # the reference engine's gradient is made of differences: for tests
    return parameters(engine.gradient(gram.kernel, X0, X1, A, B)[0])


def gradient(kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> tuple[Slopes, np.ndarray]:
    """Gradient of sum_ij W_ij k(x_i, x'_j) in the parameters and in X0, for dense weights."""
    if _jax().supports(kernel, X0.shape[1]):
        return _differences(kernel, lambda k: float((W * k(X0, X1)).sum())), _differences_in_inputs(
            kernel, X0, X1, W
        )
    slopes, in_inputs = no_slopes(kernel), np.zeros_like(X0)
    for i in range(0, len(X0), TILE):
        for j in range(0, len(X1), TILE):
            here, there = slice(i, i + TILE), slice(j, j + TILE)
            found, slope = _tile_gradient(kernel, X0[here], X1[there], W[here, there])
            slopes = added(slopes, found)
            in_inputs[here] += slope
    return slopes, in_inputs


def symmetric_gradient(kernel: Kernel, X: np.ndarray, W: np.ndarray, tick: Tick = no_tick) -> Slopes:
    """Gradient of sum_ij W_ij k(x_i, x_j) in the parameters, for a symmetric W of which the lower half is
    read."""
    if _jax().supports(kernel, X.shape[1]):
        W = 2.0 * np.tril(W, -1) + np.diag(np.diag(W))

        def total(k: Kernel) -> float:
            tick()
            return float((W * k(X, X)).sum())

        return _differences(kernel, total)
    slopes = no_slopes(kernel)
    for i in range(0, len(X), TILE):
        here = slice(i, i + TILE)
        for j in range(0, i, TILE):
            tick()
            there = slice(j, j + TILE)
            slopes = added(slopes, _tile_gradient(kernel, X[here], X[there], 2.0 * W[here, there])[0])
        tick()
        corner = W[here, here]
        corner = 2.0 * np.tril(corner, -1) + np.diag(np.diag(corner))
        slopes = added(slopes, _tile_gradient(kernel, X[here], X[here], corner)[0])
    return slopes


def diagonal_gradient(kernel: Kernel, X: np.ndarray, w: np.ndarray) -> Slopes:
    """Gradient of sum_i w_i k(x_i, x_i) in the parameters."""
    if _jax().supports(kernel, X.shape[1]):
        return _differences(kernel, lambda k: float(w @ k.diagonal(X)))
    slopes, engine = no_slopes(kernel), _jax()
    for i in range(0, len(X), TILE):
        slopes = added(slopes, parameters(engine.diagonal_gradient(kernel, X[i : i + TILE], w[i : i + TILE])))
    return slopes


def _tile_gradient(
    kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray
) -> tuple[Slopes, np.ndarray]:
    slopes, slope = _jax().weighted_gradient(kernel, X0, X1, W)
    return parameters(slopes), slope


def _differences(kernel: Kernel, total: Callable[[Kernel], float]) -> Slopes:
    """By central differences, for kernels that JAX cannot trace: slow, and accurate to about 1e-9."""
    slopes = no_slopes(kernel)
    for path, value in parameters(kernel).items():
        for index in np.ndindex(np.shape(value)):
            step, ends = 1e-6 * float(np.asarray(value)[index]), []
            for sign in (1.0, -1.0):
                moved = np.array(value, dtype=np.float64)
                moved[index] += sign * step
                ends.append(total(with_parameters(kernel, {path: moved if moved.ndim else float(moved)})))
            slopes[path][index] = (ends[0] - ends[1]) / (2.0 * step)
    return slopes


def _differences_in_inputs(kernel: Kernel, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> np.ndarray:
    out = np.zeros_like(X0)
    for f in range(X0.shape[1]):
        h = np.zeros(X0.shape[1])
        h[f] = 1e-6 * max(1.0, float(np.abs(X0[:, f]).max()))
        out[:, f] = (W * (kernel(X0 + h, X1) - kernel(X0 - h, X1))).sum(axis=1) / (2.0 * h[f])
    return out

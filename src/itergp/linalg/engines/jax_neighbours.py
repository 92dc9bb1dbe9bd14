"""The likelihood of rows given their nearest rows, in JAX: any kernel whose formula uses the array namespace.

With w = C^{-1} c and a = C^{-1} y_J, the derivative of -log p(y_i | y_J) in the kernel matrix of (J, i) is
the symmetric part of w q^T, with w extended by -1 and q = slope * w - u; so no factorisation is
differentiated.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from itergp.linalg.engines.base import Tick
from itergp.linalg.engines.conditionals import Conditionals
from itergp.linalg.engines.jax import as_tree, differentiable
from itergp.prior.distances import UNROLLED
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, parameters

CHUNK = 256  # matrices per batch: larger batches of small factorisations hang on some machines


def likelihood(
    kernel: Kernel, noise: float, given: Conditionals, tick: Tick
) -> tuple[np.ndarray, Slopes, float]:
    """See `Engine.likelihood`."""
    X, y, share, rows = given.X, given.y, given.share, given.rows
    N = noise * share
    points = np.concatenate([given.J, rows[:, None]], axis=1)
    values, slopes, in_noise = np.empty(len(rows)), Slopes(), 0.0
    less = np.zeros((len(X), 0)) if given.less is None else given.less
    with jax.enable_x64(True):
        tree = as_tree(kernel, np.float64)
        for start in range(0, len(rows), CHUNK):
            tick()
            some = points[start : start + CHUNK]
            count = len(some)
            some = np.concatenate([some, np.full((CHUNK - count, some.shape[1]), -1, dtype=some.dtype)])
            there = some >= 0
            N_some = np.where(there, N[some], 0.0)
            value, gradient, slope, weights = _chunk(
                tree,
                X[some],
                less[some],
                np.where(there[..., None], y[some], 0.0),
                N_some,
                share[some],
                there,
            )
            values[start : start + count] = np.asarray(value)[:count]
            if given.weights is not None:
                for into, part in zip(vars(given.weights).values(), weights, strict=True):
                    into[start : start + count] = np.asarray(part)[:count]
            in_noise += float(slope)
            for path, part in parameters(gradient).items():
                slopes[path] = slopes.get(path, 0.0) + np.asarray(part)
    return values, slopes, in_noise


@jax.jit
def _chunk(kernel: Any, X: Any, less: Any, y: Any, N: Any, share: Any, there: Any) -> Any:
    w, q, pull, values = jax.vmap(_conditional, in_axes=(None, 0, 0, 0, 0, 0))(kernel, X, less, y, N, there)

    def contracted(kernel: Any) -> Any:
        # which stores no differences
        formula = kernel if X.shape[-1] <= UNROLLED else partial(differentiable, kernel)
        K = jax.vmap(lambda points: formula(points, points))(X)
        return jnp.sum(w[:, :, None] * q[:, None, :] * K)

    in_noise = jnp.sum(jnp.where(there, w * q * share, 0.0))
    return values, jax.grad(contracted)(kernel), in_noise, (w, q, pull)


def _conditional(kernel: Any, X: Any, less: Any, y: Any, N: Any, there: Any) -> Any:
    """For one point, the last of X, given the others: `Weights`, and the value."""
    pairs = there[:, None] & there[None, :]
    K = jnp.where(pairs, kernel(X, X) - less @ less.T, 0.0) + jnp.diag(jnp.where(there, N, 1.0))
    L = jnp.linalg.cholesky(K[:-1, :-1])
    c = solve_triangular(L, K[:-1, -1], lower=True)
    z = solve_triangular(L, y[:-1], lower=True)
    variance = jnp.maximum(K[-1, -1] - c @ c, 1e-14 * K[-1, -1])
    error = y[-1] - c @ z
    targets = y.shape[1]
    values = 0.5 * jnp.sum(error**2) / variance + 0.5 * targets * jnp.log(2.0 * jnp.pi * variance)
    slope = 0.5 * targets / variance - 0.5 * jnp.sum(error**2) / variance**2
    back = solve_triangular(L.T, jnp.concatenate([c[:, None], z], axis=1), lower=False)
    w = jnp.append(back[:, 0], -1.0)
    u = jnp.append(back[:, 1:] @ (-error / variance), 0.0)
    present = there[-1]
    w, q = jnp.where(there, w, 0.0), jnp.where(there & present, slope * w - u, 0.0)
    return w, q, jnp.where(present, error / variance, 0.0), values

"""Inducing-point bounds: collapsed (SGPR, Titsias 2009) and stochastic (SVGP, Hensman et al. 2013)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike

from itergp.data.rows import Rows
from itergp.errors import InputError
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.nystrom import Nystrom
from itergp.learning.parameters import Evaluation
from itergp.linalg.cholesky import SMALL_JITTERS
from itergp.linalg.compute import Compute, require_bytes
from itergp.linalg.engines import get
from itergp.linalg.engines.jax import as_tree, differentiable, point_variances
from itergp.linalg.gram import Gram, origin
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import added, no_slopes, parameters
from itergp.validate import count, inputs, positive


def sgpr(
    rows: Rows,
    inducing_points: int | ArrayLike,
    *,
    seed: int = 0,
    compute: Compute = Compute(),
) -> "CollapsedBound":
    """The collapsed bound per observation, with given inducing points, or this number of random rows."""
    return CollapsedBound(rows, _inducing_points(rows, inducing_points, seed), compute)


def svgp(
    rows: Rows,
    inducing_points: int | ArrayLike,
    *,
    batch: int = 1024,
    step: float = 0.1,
    seed: int = 0,
) -> "StochasticBound":
    """The stochastic bound per observation: each call draws a new random batch and updates q(u)."""
    if not positive("step", step) <= 1.0:
        raise InputError(f"step is {step!r}; expected a natural-gradient step size, above 0 and at most 1.")
    Z = _inducing_points(rows, inducing_points, seed)
    return StochasticBound(rows, Z, min(count("batch", batch), rows.n), step, seed)


def _inducing_points(rows: Rows, given: Any, seed: int) -> np.ndarray:
    if isinstance(given, int | np.integer):
        size = min(count("inducing_points", given), rows.n)
        return rows.X[np.sort(np.random.default_rng(seed).choice(rows.n, size, replace=False))]
    return inputs("inducing_points", given, rows.X.shape[1]).copy()


class CollapsedBound:
    """-[log N(y; 0, Q + N) - tr(N^{-1} (K - Q)) / 2], with Q = K_XZ K_ZZ^{-1} K_ZX: O(n m^2) time, O(n m)
    memory, float64."""

    def __init__(self, rows: Rows, Z: np.ndarray, compute: Compute) -> None:
        self.rows, self.Z, self.compute = rows, Z, compute
        require_bytes(
            5 * 8.0 * rows.n * len(Z), f"{len(Z)} inducing points for {rows.n} rows", "Use fewer, or `svgp`."
        )

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        return sound(kernel, lambda: self.evaluate(kernel, noise, self.Z)[0])

    def evaluate(self, kernel: Kernel, noise: float, Z: np.ndarray) -> tuple[Evaluation, np.ndarray]:
        """The objective at any inducing points, and its gradient in them. LinAlgError if undefined."""
        rows, t, N = self.rows, self.rows.t, self.rows.N(noise)
        gram = Gram(kernel, rows.X, self.compute)
        q = Nystrom.of(gram, Z, N)
        alpha = q.P.solve(rows.Y)
        missing = gram.diagonal() - (q.U**2).sum(axis=1)
        likelihood = 0.5 * (float((rows.Y * alpha).sum()) + t * (q.P.logdet() + rows.n * np.log(2.0 * np.pi)))
        value = likelihood + 0.5 * t * float((missing / N).sum())
        # dvalue = <G, dQ> + t/2 sum_i dk_ii / N_i, with G = (t P^{-1} - alpha alpha^T - t N^{-1}) / 2
        inverse = scipy.linalg.cho_solve((q.P.inner_factor, True), np.eye(len(Z)), check_finite=False)
        GU = 0.5 * (t * (q.U / N[:, None]) @ (inverse - np.eye(len(Z))) - alpha @ (alpha.T @ q.U))
        slopes, in_Z = q.gradient(GU)
        slopes = added(slopes, gram.diagonal_gradient(0.5 * t / N))
        slope = (
            0.5
            * (t * q.noise_share() - float((N[:, None] * alpha**2).sum()) - t * float((missing / N).sum()))
            / noise
        )
        return per_observation(rows, noise, value, slopes, slope), in_Z / rows.total


class StochasticBound:
    """The bound with an explicit q(u), whitened: u = L v, L L^T = K_ZZ, v ~ N(Lambda^{-1} h, Lambda^{-1}).

    A call draws a batch, updates the natural parameters (Lambda, h) by a natural-gradient step (for Gaussian
    noise, a weighted mean with their optimum for that batch), and returns the batch's estimate of the bound
    with its gradient. With all rows in the batch and step 1, q is optimal, and the bound is the collapsed
    one.
    """

    def __init__(self, rows: Rows, Z: np.ndarray, batch: int, step: float, seed: int) -> None:
        self.rows, self.Z, self.batch, self.step, self.seed = rows, Z, batch, step, seed
        self.precision = np.eye(len(Z))  # Lambda
        self.shift = np.zeros((len(Z), rows.t))  # h
        self.calls = 0

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        reason = get("jax").supports(kernel, self.rows.X.shape[1])
        if reason:
            raise InputError(f"svgp does not support this kernel: {reason}. Use sgpr.")
        if not noise > 0:
            return sound(kernel, lambda: Evaluation(np.inf, no_slopes(kernel), 0.0))
        return sound(kernel, lambda: self._evaluate(kernel, noise))

    def _evaluate(self, kernel: Kernel, noise: float) -> Evaluation:
        rows, start = self.rows, origin(kernel, self.rows.X)
        chosen = np.random.default_rng([self.seed, self.calls]).choice(rows.n, self.batch, replace=False)
        step = 1.0 if self.calls == 0 else self.step  # at first there is nothing to keep
        with jax.enable_x64(True):
            tree, size = as_tree(kernel, np.float64), np.float64(rows.n / self.batch)
            batch = (rows.X[chosen] - start, rows.Y[chosen], rows.precision[chosen])
            (value, q), (slopes, slope) = _bound(
                tree,
                np.float64(noise),
                self.Z - start,
                batch,
                size,
                self.precision,
                self.shift,
                np.float64(step),
            )
            found = {path: np.asarray(part) for path, part in parameters(slopes).items()}
            precision, shift = (np.asarray(part) for part in q)
        self.calls += 1
        if np.isfinite(precision).all() and np.isfinite(shift).all():
            self.precision, self.shift = precision, shift
        return per_observation(rows, noise, float(value), found, float(slope))


@jax.jit
def _bound(
    kernel: Any, noise: Any, Z: Any, batch: Any, size: Any, precision: Any, shift: Any, step: Any
) -> Any:
    """The batch's estimate of the negative bound, the updated q, and the gradient in kernel and noise with
    that q fixed."""
    X, y, weights = batch
    t, m = y.shape[1], Z.shape[0]

    def negative_bound(kernel: Any, noise: Any) -> Any:
        N = noise / weights
        K_ZZ = differentiable(kernel, Z, Z)
        L = jnp.linalg.cholesky(K_ZZ + SMALL_JITTERS[0] * jnp.trace(K_ZZ) / m * jnp.eye(m))
        A = solve_triangular(L, differentiable(kernel, Z, X), lower=True)
        held = jax.lax.stop_gradient((A, N))
        q = _moved(*held, y, size, precision, shift, step)
        R = jnp.linalg.cholesky(q[0])
        mu = jax.scipy.linalg.cho_solve((R, True), q[1])
        spread = solve_triangular(R, A, lower=True)  # a^T Lambda^{-1} a = |R^{-1} a|^2
        variance = point_variances(kernel, X) - (A**2).sum(axis=0) + (spread**2).sum(axis=0)
        misfit = ((y - A.T @ mu) ** 2).sum(axis=1)
        expected = -0.5 * jnp.sum(t * jnp.log(2.0 * jnp.pi * N) + (misfit + t * variance) / N)
        traces = (
            (solve_triangular(R, jnp.eye(m), lower=True) ** 2).sum() + 2.0 * jnp.log(jnp.diag(R)).sum() - m
        )
        return 0.5 * ((mu**2).sum() + t * traces) - size * expected, q

    return jax.value_and_grad(negative_bound, argnums=(0, 1), has_aux=True)(kernel, noise)


def _moved(A: Any, N: Any, y: Any, size: Any, precision: Any, shift: Any, step: Any) -> Any:
    """(Lambda, h) after a step towards the batch's optimum."""
    best = jnp.eye(A.shape[0]) + size * (A / N) @ A.T
    return (1.0 - step) * precision + step * best, (1.0 - step) * shift + step * size * (A / N) @ y

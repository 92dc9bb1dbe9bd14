"""Published interface tests: what must hold for every kernel, policy, Gaussian process and engine.

    from itergp.testing import check_kernel
    check_kernel(MyKernel(lengthscale=0.3))

Each raises AssertionError with a message that says what does not hold.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from itergp.errors import ItergpError
from itergp.linalg import engines
from itergp.linalg.engines import differences
from itergp.linalg.gram import UNIT
from itergp.posterior.combined import Posterior, condition
from itergp.prior.gp import GaussianProcess, Prior
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import parameters, with_parameters
from itergp.prior.stationary import Matern32
from itergp.solver.state import Status
from itergp.solver.stopping import MaxActions

FLOAT64, FLOAT32 = np.dtype("float64"), np.dtype("float32")


def _require(holds: Any, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _close(a: Any, b: Any, tolerance: float) -> bool:
    """|a - b| <= tolerance * max |b|, entry by entry."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return a.shape == b.shape and bool(
        (np.abs(a - b) <= tolerance * max(1.0, float(np.abs(b).max(initial=0.0)))).all()
    )


# Kernels.


def check_kernel(kernel: Kernel, d: int = 2, seed: int = 0) -> None:
    """Check that k is finite, symmetric and positive semi-definite, and consistent across its methods and
    engines."""
    name = type(kernel).__name__
    _require(isinstance(kernel, Kernel), f"{name} is not a subclass of itergp.Kernel.")
    kernel.check_features(d)
    rng = np.random.default_rng(seed)
    X, Z = rng.uniform(-2, 2, (24, d)), rng.uniform(-2, 2, (7, d))
    X[5] = X[3]  # a pair at distance 0
    _check_kernel_matrix(kernel, X, Z)
    _check_kernel_in_float32(kernel, X)
    _check_kernel_in_jax(kernel, X, Z)
    _check_kernel_parameters(kernel, X)


def _check_kernel_matrix(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> None:
    name, K, cross = type(kernel).__name__, np.asarray(kernel(X, X)), np.asarray(kernel(X, Z))
    _require(K.shape == (len(X), len(X)), f"{name}(X, X) has shape {K.shape}; expected ({len(X)}, {len(X)}).")
    _require(
        cross.shape == (len(X), len(Z)),
        f"{name}(X, Z) has shape {cross.shape}; expected ({len(X)}, {len(Z)}).",
    )
    _require(np.isfinite(K).all() and np.isfinite(cross).all(), f"{name} returns values that are not finite.")
    _require(_close(K, K.T, 1e-10), f"{name} is not symmetric: k(x, x') differs from k(x', x).")
    _require(
        _close(cross, np.asarray(kernel(Z, X)).T, 1e-10),
        f"{name}(X, Z) is not the transpose of {name}(Z, X).",
    )
    _require(
        _close(kernel(X[3:6], X)[0], K[3], 1e-10), f"{name}: a row of k(X, X) depends on the other rows."
    )
    lowest = np.linalg.eigvalsh((K + K.T) / 2)[0]
    _require(
        lowest >= -1e-9 * max(1.0, np.abs(K).max()) * len(X),
        f"{name} is not positive semi-definite: {lowest:.3g}.",
    )
    diagonal = np.asarray(kernel.diagonal(X))
    _require(_close(diagonal, np.diag(K), 1e-9), f"{name}.diagonal(X) is not the diagonal of {name}(X, X).")
    if kernel.stationary:
        shifted = np.asarray(kernel(X + 0.5, X + 0.5))
        _require(
            _close(shifted, K, 1e-8),
            f"{name} says that it is stationary, but changes when inputs are shifted.",
        )


def _check_kernel_in_float32(kernel: Kernel, X: np.ndarray) -> None:
    name, K = type(kernel).__name__, np.asarray(kernel(X, X))
    rounded = np.asarray(kernel(X.astype(np.float32), X.astype(np.float32)), dtype=np.float64)
    amplification = kernel.amplification(X)
    _require(
        np.isfinite(amplification) and amplification >= 1,
        f"{name}.amplification(X) is {amplification}; expected >= 1.",
    )
    bound = UNIT["float32"] * amplification * float(np.abs(K).max()) * len(X) ** 0.5
    error = float(np.linalg.norm(rounded - K, 2))
    _require(
        error <= bound * 2,
        f"{name} has an error of {error:.2g} in float32; its amplification allows {bound:.2g}.",
    )


def _check_kernel_in_jax(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> None:
    name = type(kernel).__name__
    try:
        jax = engines.get("jax")
    except ImportError:
        return
    if jax.supports(kernel, X.shape[1]):  # a reason why it is not supported: then NumPy serves this kernel
        return
    K = np.asarray(kernel(X, Z))
    _require(_close(jax.dense(kernel, X, Z, FLOAT64), K, 1e-10), f"{name} differs between NumPy and JAX.")
    slopes, slope = jax.gradient(kernel, X, X, np.ones((len(X), 1)), np.ones((len(X), 1)))
    finite = (
        all(np.isfinite(value).all() for value in parameters(slopes).values()) and np.isfinite(slope).all()
    )
    _require(
        finite, f"{name}: a gradient is not finite; is the formula smooth where two points are the same?"
    )


def _check_kernel_parameters(kernel: Kernel, X: np.ndarray) -> None:
    name, values = type(kernel).__name__, parameters(kernel)
    again = with_parameters(kernel, values)
    _require(
        type(again) is type(kernel),
        f"with_parameters(k, parameters(k)) is a {type(again).__name__}, not a {name}.",
    )
    _require(parameters(again).keys() == values.keys(), f"{name}: parameter names change in a round trip.")
    _require(
        np.array_equal(again(X, X), kernel(X, X)),
        f"{name}: with_parameters(k, parameters(k)) is a different kernel.",
    )


# Policies.


def check_policy(make_policy: Callable[[], Any], seed: int = 0) -> None:
    """Check that runs of `make_policy()` can be cut, resumed and repeated, and that variances are valid."""
    rng = np.random.default_rng(seed)
    X, X_new, prior = (
        rng.uniform(-1, 1, (23, 2)),
        rng.uniform(-1, 1, (6, 2)),
        Prior(kernel=1.2 * Matern32(lengthscale=0.7)),
    )
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(23)

    def after(actions: int) -> Posterior:
        return condition(prior, X, y, 0.05, make_policy(), MaxActions(actions), seed=seed)

    whole = after(9)
    _check_run(whole, 9)
    _check_variances(whole, X_new)
    _check_same_bits(
        whole, after(9), X_new, "two runs with the same seed differ; take randomness from state.rng()"
    )
    for cut in (1, 4):
        first = after(cut)
        resumed = first.refine(stop=MaxActions(9 - cut)) if first.rank == cut else first
        _check_same_bits(
            whole,
            resumed,
            X_new,
            f"a run cut after {cut} actions and resumed differs; do not keep state in the policy",
        )


def _check_run(posterior: Posterior, actions: int) -> None:
    ended = posterior.status in (Status.EXACT, Status.ACTIONS_EXHAUSTED, Status.PRECISION_LIMIT)
    _require(
        0 < posterior.rank <= actions, f"The policy took {posterior.rank} actions; expected 1 to {actions}."
    )
    _require(
        posterior.rank == actions or ended or posterior.status is Status.BUDGET,
        f"The policy stopped at rank {posterior.rank} with the status {posterior.status.name}.",
    )
    Q = posterior.actions
    Q = Q.toarray() if hasattr(Q, "toarray") else Q
    _require(_close(Q.T @ Q, np.eye(posterior.rank), 1e-10), "The accepted actions are not orthonormal.")


def _check_variances(posterior: Posterior, X: np.ndarray) -> None:
    parts, prior = posterior.decompose(X, "exact"), posterior.problem.prior.var(X)
    combined, rounding = posterior.var(X), 1e-10 * prior
    _require((combined <= prior + rounding).all(), "A variance exceeds the prior variance.")
    _require(
        (combined >= parts.mathematical - rounding).all(),
        "A variance is below that of the exact Gaussian process.",
    )


def _check_same_bits(a: Posterior, b: Posterior, X: np.ndarray, sentence: str) -> None:
    same = a.rank == b.rank and np.array_equal(a.mean(X), b.mean(X)) and np.array_equal(a.var(X), b.var(X))
    _require(same, f"{sentence[0].upper()}{sentence[1:]}.")


# Gaussian processes.


def check_gp(gp: GaussianProcess, d: int = 2, seed: int = 0) -> None:
    """Check that `mean`, `var` and `cov` belong to one Gaussian process."""
    name, rng = type(gp).__name__, np.random.default_rng(seed)
    _require(isinstance(gp, GaussianProcess), f"{name} lacks one of the methods mean, var and cov.")
    X, Z = rng.uniform(-1, 1, (9, d)), rng.uniform(-1, 1, (4, d))
    mean, var, cov, cross = gp.mean(X), gp.var(X), gp.cov(X), gp.cov(X, Z)
    scale = max(float(np.abs(var).max()), 1e-300)
    _require(
        mean.shape[:1] == (9,) and mean.ndim <= 2,
        f"{name}.mean(X) has shape {mean.shape}; expected (9,) or (9, targets).",
    )
    _require(var.shape == (9,), f"{name}.var(X) has shape {var.shape}; expected (9,).")
    _require(cov.shape == (9, 9), f"{name}.cov(X) has shape {cov.shape}; expected (9, 9).")
    _require(cross.shape == (9, 4), f"{name}.cov(X, Z) has shape {cross.shape}; expected (9, 4).")
    _require(
        all(np.isfinite(a).all() for a in (mean, var, cov, cross)),
        f"{name} returns values that are not finite.",
    )
    _require((var >= 0).all(), f"{name}.var(X) is negative.")
    _require(
        _close(np.diag(cov) / scale, var / scale, 1e-8),
        f"{name}.var(X) is not the diagonal of {name}.cov(X).",
    )
    _require(_close(cov / scale, cov.T / scale, 1e-8), f"{name}.cov(X) is not symmetric.")
    _require(
        _close(cross / scale, gp.cov(Z, X).T / scale, 1e-8),
        f"{name}.cov(X, Z) is not the transpose of {name}.cov(Z, X).",
    )
    joint = gp.cov(np.concatenate([X, Z]))
    _require(
        _close(joint[:9, 9:] / scale, cross / scale, 1e-7),
        f"{name}.cov(X, Z) is not a part of the joint covariance.",
    )
    lowest = np.linalg.eigvalsh((joint + joint.T) / 2)[0]
    _require(lowest >= -1e-8 * scale * len(joint), f"{name}.cov is not positive semi-definite: {lowest:.3g}.")
    _require(
        _close(gp.mean(X[2:5]), mean[2:5], 1e-8),
        f"{name}.mean at a point depends on the other points passed with it.",
    )


# Engines.


def check_engine(engine: engines.Engine, seed: int = 0) -> None:
    """Check every method against the reference engine, in both dtypes, for sizes that are not whole tiles."""
    rng, kernel = np.random.default_rng(seed), 1.4 * Matern32(lengthscale=[0.6, 0.9, 0.4])
    reason = engine.supports(kernel, 3)
    _require(not reason, f"engine {engine.name} does not support a Matern kernel: {reason}.")
    for n, m, columns in ((1, 1, 1), (67, 5, 3), (1031, 13, 2)):
        X, Z, V = rng.uniform(-1, 1, (n, 3)), rng.uniform(-1, 1, (m, 3)), rng.standard_normal((n, columns))
        for dtype, tolerance in ((FLOAT64, 1e-10), (FLOAT32, 2e-5 * n**0.5)):
            _check_products(engine, kernel, X, Z, V, dtype, tolerance)
    _check_gradient(engine, kernel, X[:67], Z, rng)
    _check_tick(engine, kernel, X, V)


def _check_products(
    engine: engines.Engine,
    kernel: Kernel,
    X: np.ndarray,
    Z: np.ndarray,
    V: np.ndarray,
    dtype: np.dtype,
    tolerance: float,
) -> None:
    where, tick = f"engine {engine.name}, {dtype.name}, n = {len(X)}", engines.no_tick
    K, K_z = np.asarray(kernel(X, X)), np.asarray(kernel(Z, X))
    _require(_close(engine.dense(kernel, Z, X, dtype), K_z, tolerance), f"{where}: `dense` is not k(X0, X1).")
    _require(
        _close(engine.product(kernel, Z, X, V, dtype, tick), K_z @ V, tolerance),
        f"{where}: `product` is not k(X0, X1) V.",
    )
    first = 2 * len(X) // 3
    for budget in (0, 10**8):
        cache = engines.TileCache(budget)
        for _ in range(2):  # the second time from what was stored
            out = engine.symmetric(kernel, X, V, dtype, cache, 0, tick)
            _require(
                _close(out, K @ V, tolerance),
                f"{where}: `symmetric` is not k(X, X) V with a cache of {budget} bytes.",
            )
        rows = engine.symmetric(kernel, X, V, dtype, cache, first, tick)
        _require(
            np.array_equal(rows[first:], out[first:]),
            f"{where}: `symmetric` from row {first} on gives different bits.",
        )


def _check_gradient(
    engine: engines.Engine, kernel: Kernel, X: np.ndarray, Z: np.ndarray, rng: np.random.Generator
) -> None:
    A, B = rng.standard_normal((len(X), 2)), rng.standard_normal((len(Z), 2))
    slopes, slope = engine.gradient(kernel, X, Z, A, B)
    expected, expected_slope = differences.gradient(kernel, X, Z, A @ B.T)
    for path, value in expected.items():
        _require(
            _close(parameters(slopes)[path], value, 1e-6),
            f"engine {engine.name}: the gradient in {path} is wrong.",
        )
    _require(
        _close(slope, expected_slope, 1e-6), f"engine {engine.name}: the gradient in the inputs is wrong."
    )


def _check_tick(engine: engines.Engine, kernel: Kernel, X: np.ndarray, V: np.ndarray) -> None:
    class Stop(ItergpError):  # noqa: N818 (no error)
        pass

    def tick() -> None:
        raise Stop

    try:
        engine.symmetric(kernel, X, V, FLOAT64, engines.TileCache(0), 0, tick)
    except Stop:
        return
    raise AssertionError(
        f"engine {engine.name} does not call `tick`, so a time budget cannot stop its products."
    )


__all__ = ["check_engine", "check_gp", "check_kernel", "check_policy"]

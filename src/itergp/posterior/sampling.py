"""Samples of the combined posterior: by Matheron's rule, a prior draw plus a correction (S3.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp.prior.gp import gaussian_draws
from itergp.prior.kernels import Constant, Kernel, Linear, OnColumns, Scaled, Sum

if TYPE_CHECKING:
    from itergp.posterior.combined import Posterior

JOINT_POINTS = 2000  # exact joint draws up to here: cubic in the number of points


def sample(posterior: "Posterior", X: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Exact joint draws where the points are few; beyond, function draws (random features) evaluated at X.

    Matheron's rule draws (f(X_*), Q^T y') from the prior and corrects by Q^T (y - y'). With the prior covariance of that
    pair factorised exactly, y' cancels, and what is left is a draw from N(mu_i, k_i): that is what is drawn.
    """
    if len(X) > JOINT_POINTS:
        return sample_function(posterior, size, seed)(X)
    t, mean = posterior.problem.targets, posterior.mean(X)
    draws = gaussian_draws(posterior.cov(X), size * t, np.random.default_rng(seed))
    return draws.T.reshape(size, t, len(X)).swapaxes(1, 2).reshape(size, *mean.shape) + mean


@dataclass(frozen=True, eq=False)
class SampleFunction:
    """Draws from the posterior as functions: f'(.) + k(., X) C (y - y'), the same wherever and whenever evaluated."""

    posterior: "Posterior"
    prior_draw: Callable[[np.ndarray], np.ndarray]  # (m, d) -> (m, size * t)
    weights: np.ndarray  # C (b - y'), (n, size * t)
    size: int
    rests_on: str  # what the prior draws are made of

    @property
    def exact(self) -> bool:
        """False where random features stand in for the prior."""
        return self.rests_on == "exact features"

    def __call__(self, X: ArrayLike) -> np.ndarray:
        posterior = self.posterior
        X = posterior._inputs(X)
        support = posterior.state.basis.support()
        draws = self.prior_draw(X) + posterior.problem.gram.cross(X, self.weights, support)
        mean = posterior.problem.prior.mean(X)
        draws = draws.T.reshape(self.size, posterior.problem.targets, len(X)).swapaxes(1, 2)
        if posterior.problem.y.ndim == 1:
            return draws[:, :, 0] + mean
        return draws + (mean[:, None] if mean.ndim == 1 else mean)


def sample_function(posterior: "Posterior", size: int, seed: int, features: int = 4096) -> SampleFunction:
    """f' from random features of the kernel, then the pathwise update by Matheron's rule."""
    problem, state, rng = posterior.problem, posterior.state, np.random.default_rng(seed)
    draws = size * problem.targets
    prior_draw = feature_draws(problem.prior.kernel, rng, features, problem.X.shape[1], draws)
    noise = np.sqrt(problem.N)[:, None] * rng.standard_normal((problem.n, draws))
    y_prior = _in_blocks(prior_draw, problem.X, draws) + noise
    b = np.tile(problem.b, (1, size))  # targets of each draw lie side by side
    projected = state.basis.inner(b - y_prior)[: state.rank]
    projected -= np.sqrt(state.tau[: state.rank])[:, None] * rng.standard_normal((state.rank, draws))  # rounding is noise too
    c = state.factor.solve_transposed(state.factor.solve(projected, state.rank), state.rank)
    exact = _finite_dimensional(problem.prior.kernel)
    return SampleFunction(
        posterior, prior_draw, state.basis.combine(c), size, "exact features" if exact else f"{features} random Fourier features"
    )


def feature_draws(
    kernel: Kernel, rng: np.random.Generator, features: int, d: int, draws: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Prior draws Re(Phi(X) w) with complex Gaussian w."""
    if isinstance(kernel, Sum):  # a sum of independent processes, each with its own features
        left, right = (feature_draws(part, rng, features, d, draws) for part in (kernel.left, kernel.right))
        return lambda X: left(X) + right(X)
    if isinstance(kernel, Scaled):
        inner = feature_draws(kernel.kernel, rng, features, d, draws)
        return lambda X: np.sqrt(kernel.scale) * inner(X)
    if isinstance(kernel, OnColumns):
        inner = feature_draws(kernel.kernel, rng, features, len(kernel.columns), draws)
        return lambda X: inner(X[:, list(kernel.columns)])
    if isinstance(kernel, Linear):
        slopes = rng.standard_normal((d, draws))
        return lambda X: (X / kernel.lengthscale) @ slopes
    if isinstance(kernel, Constant):
        level = np.sqrt(kernel.value) * rng.standard_normal(draws)
        return lambda X: np.tile(level, (len(X), 1))
    Phi = kernel.random_features(rng, features, d)
    w = rng.standard_normal((features, draws)) + 1j * rng.standard_normal((features, draws))
    return lambda X: _in_blocks(lambda some: (Phi(some) @ w).real, X, draws)


def _finite_dimensional(kernel: Kernel) -> bool:
    if isinstance(kernel, Scaled | OnColumns):
        return _finite_dimensional(kernel.kernel)
    if isinstance(kernel, Sum):
        return _finite_dimensional(kernel.left) and _finite_dimensional(kernel.right)
    return isinstance(kernel, Linear | Constant)


def _in_blocks(function: Callable[[np.ndarray], np.ndarray], X: np.ndarray, columns: int, rows: int = 2048) -> np.ndarray:
    out = np.empty((len(X), columns))
    for start in range(0, len(X), rows):
        out[start : start + rows] = function(X[start : start + rows])
    return out

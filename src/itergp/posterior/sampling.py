"""Samples of the combined posterior: by Matheron's rule, a prior draw plus a correction (S3.3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp.limits import JOINT_POINTS
from itergp.linalg.compute import require_bytes
from itergp.prior.gp import gaussian_draws
from itergp.prior.kernel import Kernel, RandomFeatures

if TYPE_CHECKING:
    from itergp.posterior.combined import Posterior

CHECKED = 16  # rows of the data, and points between them, at which draws are compared with the posterior
AT_ONCE = 2**20  # values of features held in memory


def sample(posterior: "Posterior", X: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Exact joint draws for few points; beyond, function draws (random features) evaluated at X.

    Matheron's rule draws (f(X_*), Q^T y') from the prior and corrects by Q^T (y - y'). If the prior
    covariance of that pair is factorised exactly, y' cancels, which leaves a draw from N(mu_i, k_i): that is
    what is drawn.
    """
    if len(X) > JOINT_POINTS:
        return sample_function(posterior, size, seed)(X)
    t = posterior.problem.targets
    require_bytes(
        32.0 * size * t * len(X), f"{size} draws at {len(X)} points", "Ask for fewer draws at once."
    )
    mean = posterior.mean(X)
    draws = gaussian_draws(posterior.cov(X), size * t, np.random.default_rng(seed))
    return draws.T.reshape(size, t, len(X)).swapaxes(1, 2).reshape(size, *mean.shape) + mean


@dataclass(frozen=True, eq=False)
class SampleFunction:
    """Draws from the posterior as functions: f'(.) + k(., X) C (y - y'), the same in every evaluation."""

    posterior: "Posterior"
    features: "Features"
    loads: np.ndarray  # weights of the features in f', (F, size * t)
    weights: np.ndarray  # C (b - y'), (n, size * t)
    size: int
    exact: bool  # False if random features approximate the prior

    def __call__(self, X: ArrayLike) -> np.ndarray:
        posterior = self.posterior
        X = posterior._inputs(X)
        support = posterior.state.basis.support()
        draws = self.features.draws(X, self.loads) + posterior.problem.gram.cross(X, self.weights, support)
        mean = posterior.problem.prior.mean(X)
        draws = draws.T.reshape(self.size, posterior.problem.targets, len(X)).swapaxes(1, 2)
        if posterior.problem.y.ndim == 1:
            return draws[:, :, 0] + mean
        return draws + (mean[:, None] if mean.ndim == 1 else mean)

    def var(self, X: ArrayLike) -> np.ndarray:
        """The variance of these draws at X, given the features; `posterior.var(X)` if the features were
        exact.

        Cost O(m n) per feature.
        """
        X = self.posterior._inputs(X)
        return np.concatenate([self._var(X[some]) for some in self.features.blocks(len(X))])

    def _var(self, X: np.ndarray) -> np.ndarray:
        """f(x) - mu_i(x) = (Phi(x) - a^T Phi(X)) w - a^T noise - g^T rounding, with g = G^{-1} Q^T k_x and
        a = Q g."""
        problem, state = self.posterior.problem, self.posterior.state
        g = state.factor.solve_transposed(self.posterior.at(X).W, state.rank)
        a = state.basis.combine(g)
        rows = np.flatnonzero(a.any(axis=1))
        left = self.features(X)
        for some in self.features.blocks(len(rows)):
            left -= a[rows[some]].T @ self.features(problem.X[rows[some]])
        return (np.abs(left) ** 2).sum(axis=1) + problem.N @ a**2 + state.tau[: state.rank] @ g**2

    @cached_property
    def rests_on(self) -> str:
        """How the draws were made, and their accuracy: measured on request, by `var`."""
        if self.exact:
            return "exact features"
        X, rng = self.posterior.problem.X, np.random.default_rng(0)
        i, j = (rng.choice(len(X), CHECKED, replace=len(X) < CHECKED) for _ in range(2))
        points = np.concatenate([X[i], (X[i] + X[j]) / 2])
        negligible = 1e-12 * self.posterior.problem.prior.var(points)
        ratio = (self.var(points) + negligible) / (self.posterior.var(points) + negligible)
        return (
            f"{self.features.size} random features; the variance of the draws is {ratio.min():.2f} to "
            f"{ratio.max():.2f} times that of the posterior at {CHECKED} rows of the data and at {CHECKED} "
            "points halfway between two rows"
        )


def sample_function(posterior: "Posterior", size: int, seed: int, features: int = 4096) -> SampleFunction:
    """f' from random features of the kernel, then the pathwise update by Matheron's rule."""
    problem, state, rng = posterior.problem, posterior.state, np.random.default_rng(seed)
    kernel, draws = problem.prior.kernel, size * problem.targets
    needed = 48.0 * features * draws + 32.0 * problem.n * draws + 16.0 * features * (problem.X.shape[1] + 1)
    require_bytes(
        needed, f"{size} draws as functions with {features} features", "Ask for fewer draws or features."
    )
    exact = all(part.finite_features() for part in kernel.summands())
    feature_map = problem.gram.features(_features(kernel, rng, features, problem.X.shape[1]))
    Phi = Features(feature_map, feature_map(problem.X[:1]).shape[1])
    loads = rng.standard_normal((Phi.size, draws)) + 1j * rng.standard_normal((Phi.size, draws))
    noise = np.sqrt(problem.N)[:, None] * rng.standard_normal((problem.n, draws))
    y_prior = noise
    touched = state.basis.remade.support if state.basis.lean else slice(None)  # others are not asked for
    y_prior[touched] += Phi.draws(problem.X[touched], loads)
    b = np.tile(problem.b, (1, size))  # the targets of each draw are adjacent
    projected = state.basis.inner(b - y_prior)[: state.rank]
    # rounding counts as noise
    projected -= np.sqrt(state.tau[: state.rank])[:, None] * rng.standard_normal((state.rank, draws))
    c = state.factor.solve_transposed(state.factor.solve(projected, state.rank), state.rank)
    return SampleFunction(posterior, Phi, loads, state.basis.combine(c), size, exact)


@dataclass(frozen=True, eq=False)
class Features:
    """A map Phi with Phi Phi^H close to k."""

    map: RandomFeatures
    size: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.map(X)

    def draws(self, X: np.ndarray, loads: np.ndarray) -> np.ndarray:
        """Prior draws Re(Phi(X) w) with complex Gaussian w."""
        return np.concatenate([(self(X[some]) @ loads).real for some in self.blocks(len(X))])

    def blocks(self, rows: int) -> Iterator[slice]:
        step = max(1, AT_ONCE // self.size)
        return (slice(start, start + step) for start in range(0, rows, step))


def _features(kernel: Kernel, rng: np.random.Generator, size: int, d: int) -> RandomFeatures:
    """Features of a sum of independent processes: exact ones if they are few, else `size` random ones."""
    parts = [part.finite_features() or part.random_features(rng, size, d) for part in kernel.summands()]
    return lambda X: np.concatenate([part(X) for part in parts], axis=1)

"""Samples of the combined posterior: by Matheron's rule, a prior draw plus a correction (S3.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError
from itergp.limits import JOINT_POINTS
from itergp.linalg.compute import require_bytes
from itergp.prior.gp import gaussian_draws
from itergp.prior.kernel import Kernel, RandomFeatures
from itergp.prior.means import by_differences
from itergp.solver.problem import Problem
from itergp.validate import as_float64, finite

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
    require_draws(size, posterior.problem.targets, len(X))
    return joint_draws(posterior.mean(X), posterior.cov(X), size, seed)


def require_draws(size: int, targets: int, points: int) -> None:
    """Raise MemoryLimitError if joint draws do not fit."""
    needed = 32.0 * size * targets * points
    require_bytes(needed, f"{size} draws at {points} points", "Ask for fewer draws at once.")


def joint_draws(mean: np.ndarray, covariance: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draws from N(mean, covariance), (size, m) or (size, m, t): independent between targets."""
    m, t = len(mean), 1 if mean.ndim == 1 else mean.shape[1]
    draws = gaussian_draws(covariance, size * t, np.random.default_rng(seed))
    return draws.T.reshape(size, t, m).swapaxes(1, 2).reshape(size, *mean.shape) + mean


@dataclass(frozen=True, eq=False)
class SampleFunction:
    """Draws from the posterior as functions: f'(.) + k(., X) C (y - y'), the same in every evaluation."""

    posterior: "Posterior"
    prior: "PriorDraws"
    weights: np.ndarray  # C (b - y'), (n, size * t)

    __repr__ = brief.call

    @property
    def features(self) -> "Features":
        return self.prior.features

    @property
    def exact(self) -> bool:
        """False if random features approximate the prior."""
        return self.prior.exact

    def __call__(self, X: ArrayLike) -> np.ndarray:
        posterior = self.posterior
        X = posterior._inputs(X)
        support = posterior.state.basis.support()
        update = posterior.problem.gram.cross(X, self.weights, support)
        return self.prior.with_prior_mean(X, self.prior.at(X) + update)

    def pullback(self, X: ArrayLike, slopes: ArrayLike) -> np.ndarray:
        """The gradient in X of a function of the draws at X, from its slopes in these: in the shape of X."""
        X = self.posterior._inputs(X)
        S = self.prior.by_point(slopes, len(X))
        rows = np.flatnonzero(self.weights.any(axis=1))
        problem = self.posterior.problem
        update = problem.gram.input_gradient(X, problem.X[rows], S @ self.weights[rows].T)
        return self.prior.pullback(X, S) + update

    def var(self, X: ArrayLike) -> np.ndarray:
        """The variance of these draws at X, given the features; `posterior.var(X)` if the features were
        exact.

        Cost O(m n) per feature.
        """
        X = self.posterior._inputs(X)
        return np.concatenate([self._var(X[some]) for some in self.prior.features.blocks(len(X))])

    def _var(self, X: np.ndarray) -> np.ndarray:
        """f(x) - mu_i(x) = (Phi(x) - a^T Phi(X)) w - a^T noise - g^T rounding, with g = G^{-1} Q^T k_x and
        a = Q g."""
        problem, state, Phi = self.posterior.problem, self.posterior.state, self.prior.features
        g = state.factor.solve_transposed(self.posterior.at(X).W, state.rank)
        a = state.basis.combine(g)
        rows = np.flatnonzero(a.any(axis=1))
        left = Phi(X)
        for some in Phi.blocks(len(rows)):
            left -= a[rows[some]].T @ Phi(problem.X[rows[some]])
        return (np.abs(left) ** 2).sum(axis=1) + problem.N @ a**2 + state.tau[: state.rank] @ g**2

    @cached_property
    def rests_on(self) -> str:
        """How the draws were made, and their accuracy: measured on request, by `var`."""
        return accuracy(self.prior, self.var, self.posterior.var)


def accuracy(
    prior: "PriorDraws", drawn: Callable[[np.ndarray], np.ndarray], var: Callable[[np.ndarray], np.ndarray]
) -> str:
    """How draws were made, and their variance compared with that of their process."""
    if prior.exact:
        return "exact features"
    X, rng = prior.problem.X, np.random.default_rng(0)
    i, j = (rng.choice(len(X), CHECKED, replace=len(X) < CHECKED) for _ in range(2))
    points = np.concatenate([X[i], (X[i] + X[j]) / 2])
    negligible = 1e-12 * prior.problem.prior.var(points)
    ratio = (drawn(points) + negligible) / (var(points) + negligible)
    return (
        f"{prior.features.size} random features; the variance of the draws is {ratio.min():.2f} to "
        f"{ratio.max():.2f} times that of the posterior at {CHECKED} rows of the data and at {CHECKED} "
        "points halfway between two rows"
    )


def sample_function(posterior: "Posterior", size: int, seed: int, features: int = 4096) -> SampleFunction:
    """f' from random features of the kernel, then the pathwise update by Matheron's rule."""
    rng, state = np.random.default_rng(seed), posterior.state
    prior = PriorDraws.of(posterior.problem, size, rng, features)
    z = projected(posterior, prior, rng)
    weights = state.basis.combine(state.factor.solve_transposed(z, state.rank))
    return SampleFunction(posterior, prior, weights)


@dataclass(frozen=True, eq=False)
class PriorDraws:
    """Functions f' drawn from the prior, without its mean, and observations y' of them at the data."""

    problem: Problem
    features: "Features"
    loads: np.ndarray  # weights of the features in f', (F, size * t)
    noise: np.ndarray  # (n, size * t)
    size: int
    exact: bool  # False if random features approximate the prior

    __repr__ = brief.call

    @staticmethod
    def of(problem: Problem, size: int, rng: np.random.Generator, features: int) -> "PriorDraws":
        kernel, draws, d = problem.prior.kernel, size * problem.targets, problem.X.shape[1]
        require_bytes(
            48.0 * features * draws + 32.0 * problem.n * draws + 16.0 * features * (d + 1),
            f"{size} draws as functions with {features} features",
            "Ask for fewer draws or features.",
        )
        feature_map = problem.gram.features(_features(kernel, rng, features, d))
        Phi = Features(feature_map, feature_map(problem.X[:1]).shape[1])
        loads = rng.standard_normal((Phi.size, draws)) + 1j * rng.standard_normal((Phi.size, draws))
        noise = np.sqrt(problem.N)[:, None] * rng.standard_normal((problem.n, draws))
        exact = all(part.finite_features() for part in kernel.summands())
        return PriorDraws(problem, Phi, loads, noise, size, exact)

    def at(self, X: np.ndarray) -> np.ndarray:
        """f'(X), (m, size * t)"""
        return self.features.draws(X, self.loads)

    def pullback(self, X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """The gradient of sum slopes * (f'(X) + mu(X)) in X, for slopes (m, size * t); of f' by central
        differences, as features are any functions."""
        each = slopes.reshape(len(X), self.size, self.problem.targets).sum(axis=1)
        return by_differences(self.at, X, slopes) + self.problem.prior.mean_pullback(X, each)

    def by_point(self, values: ArrayLike, points: int) -> np.ndarray:
        """Values at draws, (size, m) or (size, m, t), as (m, size * t)."""
        found = finite("slopes", as_float64("slopes", values))
        shape = (self.size, points) if self.problem.y.ndim == 1 else (self.size, points, self.problem.targets)
        if found.shape != shape:
            raise InputError(f"slopes has shape {found.shape}; expected {shape}: that of the draws.")
        return found.swapaxes(0, 1).reshape(points, -1)

    def misfit(self, rows: np.ndarray) -> np.ndarray:
        """b - y' at some rows, (rows, size * t): the targets of each draw are adjacent."""
        y_prior = self.noise[rows] + self.at(self.problem.X[rows])
        return np.tile(self.problem.b[rows], (1, self.size)) - y_prior

    def with_prior_mean(self, X: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Draws (m, size * t) as (size, m) or (size, m, t), with the prior mean."""
        problem, mean = self.problem, self.problem.prior.mean(X)
        draws = draws.T.reshape(self.size, problem.targets, len(X)).swapaxes(1, 2)
        if problem.y.ndim == 1:
            return draws[:, :, 0] + mean
        return draws + (mean[:, None] if mean.ndim == 1 else mean)


def projected(posterior: "Posterior", prior: PriorDraws, rng: np.random.Generator) -> np.ndarray:
    """z = L^{-1} Q^T (b - y') of the draws, (i, size * t); rounding counts as noise."""
    problem, state = posterior.problem, posterior.state
    y_prior = prior.noise.copy()
    touched = state.basis.remade.support if state.basis.lean else slice(None)  # others are not asked for
    y_prior[touched] += prior.at(problem.X[touched])
    seen = state.basis.inner(np.tile(problem.b, (1, prior.size)) - y_prior)[: state.rank]
    seen -= np.sqrt(state.tau[: state.rank])[:, None] * rng.standard_normal(seen.shape)
    return state.factor.solve(seen, state.rank)


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

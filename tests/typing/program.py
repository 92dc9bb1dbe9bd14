"""A program of a user, which `mypy --strict` checks: every public name that it uses has a type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from itergp import (
    RBF,
    Compute,
    ConjugateGradient,
    ConstantMean,
    GaussianProcess,
    InputError,
    IterGPRegressor,
    Kernel,
    Marginals,
    Matern32,
    MaxActions,
    Periodic,
    Posterior,
    Prior,
    Problem,
    PseudoInput,
    ResidualNorm,
    Schedule,
    State,
    Status,
    TimeBudget,
    condition,
    iterate,
    solve,
    storage,
)
from itergp.metrics import coverage, nll, rmse

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Offset(Kernel):
    offset: float = 1.0

    def __call__(self, X0: Any, X1: Any) -> Any:
        return self.offset + X0 @ X1.T


def data(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def estimator(X: Array, y: Array) -> float:
    model: IterGPRegressor = IterGPRegressor(kernel="matern32", budget="9 actions", noise=0.01, learn=False)
    model.fit(X, y).refine("3 actions").partial_fit(X[:5] + 2.0, y[:5])
    lower, upper = model.interval(X, 0.9)
    parts = model.decompose(X)
    shown: dict[str, Any] = model.report("fit.html")
    model.save("model.itergp", refinable=False)
    again: IterGPRegressor = IterGPRegressor.load("model.itergp")
    status: Status = again.status_
    kernel: Kernel = model.kernel_
    widths: Array = upper - lower
    assert isinstance(kernel, Kernel)
    assert status.advice
    assert shown["verdict"]
    return float(parts.share) + float(widths.mean())


def library(X: Array, y: Array) -> Posterior:
    season = RBF([1.0, 2.0]) * Periodic(period=2.0).on([0])
    kernel = 1.0 * Matern32(lengthscale=0.5) + 0.5 * season + Offset()
    prior = Prior(kernel, ConstantMean(0.1))
    policy = Schedule((PseudoInput(8), 8), (ConjugateGradient(), None))
    posterior = condition(
        prior, X, y, noise=0.01, policy=policy, stop=MaxActions(16) | TimeBudget(5.0), compute=Compute()
    )
    problem: Problem = posterior.problem
    state: State = solve(problem, ConjugateGradient(), MaxActions(4) & ResidualNorm(1e-3))
    for step in iterate(problem, ConjugateGradient()):
        progress: int = step.rank
        if progress >= 2:
            break
    assert state.rank <= problem.n
    storage.save("posterior.itergp", posterior)
    return posterior.refine(stop=MaxActions(2)).extend(X[:1] + 3.0, y[:1])


def score(process: Marginals, X: Array, y: Array) -> tuple[float, float, float]:
    mean, variance = process.mean(X), process.var(X)
    return rmse(y, mean), nll(y, mean, variance + 0.01), coverage(y, mean, variance + 0.01)


def correlations(process: GaussianProcess, X: Array) -> Array:
    covariance: Array = process.cov(X)
    return covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))


def main() -> None:
    X, y = data(60)
    try:
        estimator(X, y)
    except InputError as error:
        print(error)
    posterior = library(X, y)
    score(posterior.local(10), X, y)
    correlations(posterior, X[:5])
    draws: Array = posterior.sample(X, 2)
    assert draws.shape == (2, 60)
    function: Callable[[Any], Array] = condition(Prior(RBF(0.5)), X, y, 0.01).sample_function(2)
    assert function(X).shape == (2, 60)


if __name__ == "__main__":
    main()

"""Composite kernels on few rows: sums and products, periods, several starts."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as skl

from itergp import RBF, InputError, IterGPRegressor, Linear, Matern32, Periodic, RationalQuadratic
from itergp.learning import learn, run
from itergp.learning.endings import Ending
from itergp.learning.parameters import is_composite
from itergp.learning.starts import STARTS, peaks
from itergp.prior.parameters import parameters


def series(n=150, seed=0, period=1.0):
    """A trend, a season of changing shape, irregularities of medium length, and noise, as in records of
    carbon dioxide."""
    rng = np.random.default_rng(seed)
    x = np.arange(n) / 12.0
    season = np.sin(2.0 * np.pi * x / period) + (0.4 + 0.02 * x) * np.cos(4.0 * np.pi * x / period)
    medium = np.convolve(rng.standard_normal(n + 11), np.hanning(12), "valid")
    y = 0.9 * x + 0.05 * x**2 + 2.5 * season + 0.2 * medium + 0.2 * rng.standard_normal(n)
    return x[:, None], y - y.mean()


def as_in_scikit_learns_example(**periodicity):
    return (
        50.0**2 * skl.RBF(50.0)
        + 2.0**2 * skl.RBF(100.0) * skl.ExpSineSquared(1.0, 1.0, **periodicity)
        + 0.5**2 * skl.RationalQuadratic(1.0, 1.0)
        + 0.1**2 * skl.RBF(0.1)
        + skl.WhiteKernel(0.1**2)
    )


KERNELS = {
    "four parts": as_in_scikit_learns_example(),
    "four parts, the period fixed": as_in_scikit_learns_example(periodicity_bounds="fixed"),
    "trend and season": 10.0 * skl.RBF(5.0) + 4.0 * skl.ExpSineSquared(1.0, 1.0) + skl.WhiteKernel(0.1),
    "product": 10.0 * skl.Matern(10.0, nu=2.5)
    + 4.0 * skl.Matern(10.0, nu=1.5) * skl.ExpSineSquared(1.0, 1.0)
    + skl.WhiteKernel(0.1),
    "mixture of lengthscales": 10.0 * skl.RationalQuadratic(1.0, 1.0)
    + 1.0 * skl.RBF(0.1)
    + skl.WhiteKernel(0.1),
}


def log_likelihood(X, y, kernel, noise):
    K = np.asarray(kernel(X, X)) + noise * np.eye(len(X))
    L = np.linalg.cholesky(K)
    z = np.linalg.solve(L, y)
    return -0.5 * z @ z - np.log(np.diag(L)).sum() - 0.5 * len(X) * np.log(2.0 * np.pi)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_the_log_likelihood_is_at_least_scikit_learns(name, seed):
    """With scikit-learn's own kernel, in its own units, and two restarts there."""
    X, y = series(120, seed)
    theirs = GaussianProcessRegressor(KERNELS[name], alpha=0.0, n_restarts_optimizer=2, random_state=0)
    with warnings.catch_warnings(action="ignore"):  # about its bounds
        theirs.fit(X, y)
    ours = IterGPRegressor(KERNELS[name], normalize=False).fit(X, y)
    assert log_likelihood(X, y, ours.kernel_, ours.noise_) >= theirs.log_marginal_likelihood_value_ - 0.1


def unknown_period(period=1.0):
    return 1.0 * RBF(1.0) + 1.0 * Periodic(1.0, period)


def seasonal(true, seed, n=120):
    """Three harmonics and a parabola, at random points."""
    rng = np.random.default_rng(seed)
    x, a = np.sort(rng.uniform(0.0, 12.0, n)), rng.standard_normal((2, 3)) / np.arange(1, 4)
    angle = 2.0 * np.pi * np.outer(x, np.arange(1, 4)) / true
    y = np.sin(angle) @ a[0] + np.cos(angle) @ a[1] + 0.1 * rng.uniform(-1.0, 1.0) * (x - 6.0) ** 2
    y += 0.3 * rng.standard_normal(n)
    return x[:, None], y - y.mean()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("true", [0.43, 1.7, 2.9])
def test_a_period_is_found_from_a_wrong_start(true, seed):
    X, y = seasonal(true, seed)
    found, known = (learn(X, y, unknown_period(period), 1.0) for period in (1.0, true))
    cycles = found.kernel.right.kernel.period / true
    assert cycles == pytest.approx(max(1, round(cycles)), rel=0.02)  # several periods are one, too
    best = log_likelihood(X, y, known.kernel, known.noise)
    assert log_likelihood(X, y, found.kernel, found.noise) >= best - 0.1


def test_a_given_period_may_be_held():
    X, y = series(80)
    found = learn(X, y, unknown_period(0.7), 1.0, fixed=["right.kernel.period"])
    assert found.kernel.right.kernel.period == 0.7
    assert found.kernel.right.kernel.lengthscale != 1.0
    with pytest.raises(InputError, match=r"fixed is \['period'\]; .*right.kernel.period"):
        learn(X, y, unknown_period(), 1.0, fixed=["period"])


def test_identical_parts_come_apart():
    """From one point they have the same gradient for ever; other starts tell them apart."""
    X, y = series(100, seed=1)
    found = learn(X, y, 1.0 * RBF(1.0) + 1.0 * RBF(1.0), 0.1)
    assert found.kernel.left.kernel.lengthscale != pytest.approx(found.kernel.right.kernel.lengthscale)


def columns(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (100, 3))
    y = (
        np.sin(3.0 * X[:, 0])
        + 0.3 * X[:, 1] ** 2
        + X[:, 2] * np.cos(X[:, 0])
        + 0.1 * rng.standard_normal(100)
    )
    return X, y - y.mean()


ON_COLUMNS = (
    1.0 * RBF(1.0).on([0])
    + 1.0 * RationalQuadratic(1.0, 1.0).on([1])
    + 1.0 * RBF(1.0).on([0]) * Linear().on([2])
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", ["series", "columns"])
def test_other_starts_are_never_worse_than_the_given_one_alone(case, seed, monkeypatch):
    X, y = series(80, seed, 1.7) if case == "series" else columns(seed)
    kernel = unknown_period() if case == "series" else ON_COLUMNS
    found = learn(X, y, kernel, 0.5, seed=seed)
    monkeypatch.setattr("itergp.learning.stages._restarts", lambda *_: iter(()))
    alone = learn(X, y, kernel, 0.5, seed=seed)
    assert alone.stages == ("exact",)
    assert found.stages == (
        "exact",
        *(f"exact, start {i} of {STARTS + 1}" for i in range(2, STARTS + 2)),
        found.stages[-1],
    )
    assert found.objective <= alone.objective


def test_the_same_seed_gives_the_same_bits():
    X, y = series(60)
    first, second = (learn(X, y, unknown_period(0.6), 0.5, seed=4) for _ in range(2))
    assert (first.objective, first.noise) == (second.objective, second.noise)
    for path, value in parameters(first.kernel).items():
        np.testing.assert_array_equal(value, parameters(second.kernel)[path])
    assert [record.objective for record in first.trace] == [record.objective for record in second.trace]


@pytest.mark.parametrize("evaluations", [3, 30, 70, 90, 130])
def test_whenever_the_clock_ends_it_the_best_so_far_is_kept(monkeypatch, evaluations):
    """A clock that each look at it moves by one."""
    X, y = series(60)
    now = iter(range(10**9))
    monkeypatch.setattr(run.time, "perf_counter", lambda: float(next(now)))
    found = learn(X, y, unknown_period(0.6), 0.5, seconds=6.0 * evaluations)
    best = min((record.objective for record in found.trace), default=np.inf)
    assert found.objective <= best
    assert found.ended in (Ending.BUDGET, Ending.CONVERGED)
    assert next(now) < 12.0 * evaluations


def test_an_interruption_in_a_later_start_keeps_the_best_so_far():
    X, y = series(60)

    def interrupt(record):
        if record.stage.startswith("exact, start 3"):
            raise KeyboardInterrupt

    found = learn(X, y, unknown_period(), 0.5, callback=interrupt)
    assert found.interrupted
    assert found.objective <= min(record.objective for record in found.trace)


def test_what_has_other_starts():
    assert is_composite(RBF() + Matern32())
    assert is_composite(2.0 * (RBF() * Periodic()))
    assert is_composite(Periodic())
    assert not is_composite(1.0 * RBF() + 1.0 * Linear())
    assert not is_composite(1.0 * RationalQuadratic().on([1]))


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_a_handful_of_rows_has_no_periodogram_but_is_learned_from(n):
    X, y = series(n)
    assert np.isfinite(learn(X, y, unknown_period(), 0.5).objective)


def test_the_periodogram_finds_the_period_below_a_trend():
    X, y = series(200, period=1.7)
    found = peaks(X[:, 0] + 2000.0, y[:, None], known=0.1)
    assert found[0] == pytest.approx(1.7, rel=0.05) or found[1] == pytest.approx(1.7, rel=0.05)
    assert not np.isclose(peaks(X[:, 0], y[:, None], known=1.7), 1.7, rtol=0.01).any()
    assert peaks(np.ones(20), np.ones((20, 1)), 1.0).size == 0

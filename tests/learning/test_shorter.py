"""Functions that turn many times within the data are found, and what is none is left alone."""

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import minimize

from itergp import RBF, Constant, IterGPRegressor, Linear, Periodic
from itergp.data.rows import Rows
from itergp.learning.candidates import FIRST, start_of
from itergp.learning.shorter import lengthscales, shorter


def hours(days, seed, noise=0.1):
    """A daily cycle, known at seven hours of ten; the others are to be predicted."""
    rng = np.random.default_rng(seed)
    t = np.arange(24.0 * days)
    f = np.sin(2 * np.pi * t / 24)
    known = rng.random(t.size) < 0.7
    return t[:, None], f, f + noise * rng.standard_normal(t.size), known


def rbf(a, b, length):
    return np.exp(-0.5 * ((a[:, None] - b) / length) ** 2)


def exact(t, y, new):
    """The mean of an exact process with an RBF kernel, by dense algebra: its likelihood is maximised from a
    quarter of a cycle."""

    def factor(theta):
        scale, length, noise = np.exp(theta)
        return scipy.linalg.cho_factor(scale * rbf(t, t, length) + noise * np.eye(t.size))

    def loss(theta):
        L = factor(theta)
        return 0.5 * y @ scipy.linalg.cho_solve(L, y) + np.log(np.diag(L[0])).sum()

    theta = minimize(loss, np.log([1.0, 6.0, 0.1]), method="Nelder-Mead").x
    scale, length, _ = np.exp(theta)
    return scale * rbf(new, t, length) @ scipy.linalg.cho_solve(factor(theta), y)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_daily_cycle_of_many_days_is_found(seed):
    """From the usual lengthscales the likelihood is flat: some of such fits ended as pure noise, with an
    error of 0.7, by default and with a kernel that was named."""
    t, f, y, known = hours(45, seed)
    mean = exact(t[known, 0], y[known], t[~known, 0])
    least = np.sqrt(np.mean((mean - f[~known]) ** 2))
    for kernel in ("auto", "rbf"):
        model = IterGPRegressor(kernel=kernel).fit(t[known], y[known])
        mean, std = model.predict(t[~known], return_std=True)
        assert np.sqrt(np.mean((mean - f[~known]) ** 2)) < 1.2 * least
        assert (np.abs(mean - y[~known]) < 1.96 * std).mean() > 0.92


def test_a_cycle_that_a_few_rows_cannot_show_is_found_among_many():
    """500 random ones of 3,000 rows lie a third of a day apart."""
    t, f, y, known = hours(180, 0)
    model = IterGPRegressor().fit(t[known], y[known])
    assert np.sqrt(np.mean((model.predict(t[~known]) - f[~known]) ** 2)) < 0.1


def test_a_cycle_in_one_of_three_features_is_found():
    t, f, y, known = hours(60, 0)
    X = np.column_stack([np.random.default_rng(5).standard_normal((2, t.size)).T, t])
    y = y + X[:, 0]
    model = IterGPRegressor().fit(X[known], y[known])
    error = model.predict(X[~known]) - (f + X[:, 0])[~known]
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_a_few_rows_far_away_do_not_hide_the_others():
    """The unit of a feature is then the distance to these."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (900, 2))
    X[rng.permutation(400)[:12]] += 1000
    f = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1])
    y = f + 0.1 * rng.standard_normal(900)
    model = IterGPRegressor().fit(X[:400], y[:400])
    assert np.sqrt(np.mean((model.predict(X[400:]) - f[400:]) ** 2)) < 0.15


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("n", [30, 100, 700])
def test_noise_and_slow_functions_speak_for_nothing_shorter(n, d):
    for seed in range(8):
        rng = np.random.default_rng([seed, n, d])
        X, noise = rng.standard_normal((n, d)), rng.standard_normal(n)
        for y in (noise, X.sum(axis=1), np.sin(X).sum(axis=1) + 0.3 * noise):
            assert shorter(start_of(FIRST, d), Rows.of(X, (y - y.mean()) / y.std()), None, 0) is None


def test_it_is_about_the_feature_in_which_the_function_turns_and_within_a_factor_of_it():
    t, _, y, known = hours(60, 3)
    X = np.column_stack([t, np.random.default_rng(4).standard_normal((2, t.size)).T])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = shorter(start_of(FIRST, 3), Rows.of(X[known], y[known]), None, 0)
    day = 24 / t.std()
    assert lengthscales(found.kernel).argmin() == 0
    assert day / 16 < lengthscales(found.kernel)[0] < day
    assert found.shown_by(X)
    assert not found.shown_by(X[:: X.shape[0] // 20])
    near = X[found.near(X, 200, 0)][:, 0]
    assert 150 < near.size <= 200
    assert np.median(np.diff(np.sort(near))) < 1.5 / t.std()  # hour by hour


@pytest.mark.parametrize(
    "kernel",
    [
        1.0 * RBF([1.0, 2.0]).on([0, 2]),
        1.0 * Linear(np.ones(3)),
        RBF(1.0),
        1.0 * RBF(1.0) + 1.0 * RBF(3.0),
        1.0 * Periodic(1.0, 2.0),
        Constant(1.0),
    ],
    ids=str,
)
def test_other_kernels_begin_where_they_are_told(kernel):
    t, _, y, _ = hours(45, 0)
    X = np.column_stack([t, t % 7, t % 5])
    rows = Rows.of((X - X.mean(axis=0)) / X.std(axis=0), y)
    assert shorter(kernel, rows, None, 0) is None

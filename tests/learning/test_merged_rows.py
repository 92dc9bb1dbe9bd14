"""Merged rows teach what the rows that they stand for teach: parameters, noise, predictions, from one
distinct input on."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itergp import IterGPRegressor, Matern32
from itergp.data.rows import merge_rows
from itergp.learning import learn
from itergp.learning.parameters import PRIOR_WIDTH
from itergp.learning.stages import METHODS
from itergp.prior.parameters import parameters

ROWS = 200
DISTINCT = (1, 2, 3, 5, 20, 100)


def truth(X):
    return np.sin(6 * X[:, 0]) + np.cos(4 * X[:, -1])


def repeated(distinct, noise, targets=None, d=2, seed=0):
    """ROWS observations at so many places, as often as chance has it; noise is a standard deviation."""
    rng = np.random.default_rng([seed, distinct])
    places = rng.uniform(-1, 1, (distinct, d))
    X = places[np.concatenate([np.arange(distinct), rng.integers(0, distinct, ROWS - distinct)])]
    f = truth(X)
    y = f if targets is None else np.outer(f, np.arange(1, targets + 1))
    return X, 10.0 + y + noise * rng.standard_normal(y.shape), places


@pytest.mark.parametrize("options", [{}, {"mean": "linear"}, {"normalize": False}, {"targets": 2}], ids=str)
@pytest.mark.parametrize("noise", [3.0, 0.3, 0.01])
@pytest.mark.parametrize("distinct", DISTINCT)
def test_a_merged_fit_is_the_unmerged_one(distinct, noise, options):
    X, y, places = repeated(distinct, noise, options.get("targets"))
    parts = {name: value for name, value in options.items() if name != "targets"}
    merged, oracle = (
        IterGPRegressor(kernel="matern32", merge_duplicates=merge, **parts).fit(X, y)
        for merge in (True, False)
    )
    assert merged.posterior_.problem.n == distinct < oracle.posterior_.problem.n == ROWS
    assert merged.noise_ == pytest.approx(oracle.noise_, rel=1e-3)
    for path, value in parameters(oracle.kernel_).items():
        np.testing.assert_allclose(
            np.log(parameters(merged.kernel_)[path]), np.log(value), atol=0.02, err_msg=path
        )
    for found, expected in zip(
        merged.predict(places, return_std=True), oracle.predict(places, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * y.std())


@pytest.mark.parametrize("noise", [3.0, 0.01])
@pytest.mark.parametrize("distinct", DISTINCT)
def test_what_learning_minimises_is_the_dense_likelihood_of_all_observations_and_the_prior(distinct, noise):
    X, y, _ = repeated(distinct, noise)
    y = y - y.mean()
    data = merge_rows(X, y)
    learned = learn(data.X, data.y, 1.0 * Matern32([1.4, 1.4]), 0.1, counts=data.counts, scatter=data.scatter)
    kernel, spread, variance = learned.kernel, X.std(axis=0), y.var()
    spread = np.where(np.ptp(X, axis=0) > 0, spread, 1.0)
    likelihood = multivariate_normal(np.zeros(ROWS), kernel(X, X) + learned.noise * np.eye(ROWS)).logpdf(y)
    values = np.array([*kernel.kernel.lengthscale, kernel.scale, learned.noise])
    middles = np.array([*(2**0.5 * spread), variance, 1e-2 * variance])
    prior = -0.5 * np.sum((np.log(values / middles) / PRIOR_WIDTH) ** 2)
    assert learned.objective == pytest.approx(-(likelihood + prior) / ROWS, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "none"])
@pytest.mark.parametrize("distinct", [1, 2, 5])
def test_noise_beside_which_nothing_else_shows_is_found_by_every_method(distinct, method):
    X, y, places = repeated(distinct, 3.0)
    _, std = IterGPRegressor(learn=method).fit(X, y).predict(places, return_std=True)
    assert (np.abs(std / y.std(ddof=1) - 1.0) < 0.1).all()


@pytest.mark.parametrize("distinct", DISTINCT)
def test_intervals_hold_what_they_say(distinct):
    """Of 20 data sets with the noise of the first, at the same places: 95 % of new observations, give or
    take 5 %."""
    inside = []
    for seed in range(20):
        X, y, places = repeated(distinct, 1.0, seed=seed)
        low, high = IterGPRegressor().fit(X, y).interval(places)
        new = 10.0 + truth(places)
        new = new + np.random.default_rng([seed, distinct, 1]).standard_normal((500, distinct))
        inside.append(((low < new) & (new < high)).mean())
    assert 0.90 < np.mean(inside) < 0.98


def test_the_ranges_in_a_report_are_those_of_the_unmerged_fit(tmp_path):
    X, y, _ = repeated(5, 3.0)
    said = [
        IterGPRegressor(kernel="matern32", merge_duplicates=merge)
        .fit(X, y)
        .report(tmp_path / "page.html")["hyperparameters"]
        for merge in (True, False)
    ]
    for merged, oracle in zip(*said, strict=True):
        assert (merged["low"], merged["high"]) == pytest.approx((oracle["low"], oracle["high"]), rel=1e-9)

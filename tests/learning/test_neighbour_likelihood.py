"""The nearest-neighbour likelihood: a density of all data; with every earlier row a neighbour, the
marginal likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itergp import RBF, Constant, Matern32
from itergp.data.rows import Rows
from itergp.learning.neighbours import NeighbourLikelihood, in_order
from itergp.linalg.gram import Gram
from itergp.prior.parameters import parameters, with_parameters

KERNEL, NOISE = 1.3 * Matern32([0.4, 1.5]) + 0.2 * RBF(2.0) + Constant(0.1), 0.07


def observations(n=60, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n, 2)), rng.standard_normal((n, targets))


def log_likelihood(X, y, kernel=KERNEL, noise=NOISE):
    """Of all observations, each with its own noise, by SciPy."""
    normal = multivariate_normal(np.zeros(len(X)), kernel(X, X) + noise * np.eye(len(X)))
    return sum(normal.logpdf(column) for column in y.T)


def test_with_every_earlier_row_as_a_neighbour_it_is_the_marginal_likelihood():
    X, y = observations()
    value = NeighbourLikelihood.at(KERNEL, Rows.of(X, y), neighbours=len(X))(KERNEL, NOISE).value
    assert np.isclose(value, -log_likelihood(X, y) / len(X), rtol=1e-10)


def test_merged_rows_have_the_likelihood_of_the_observations_they_stand_for():
    X, y = observations(20)
    counts = np.random.default_rng(1).integers(1, 4, len(X))
    X_all, y_all = np.repeat(X, counts, axis=0), np.repeat(y, counts, axis=0)
    y_all = y_all + np.random.default_rng(2).standard_normal(y_all.shape)
    group = np.repeat(np.arange(len(X)), counts)
    means = np.stack([y_all[group == g].mean(axis=0) for g in range(len(X))])
    scatter = float(((y_all - means[group]) ** 2).sum())
    found = NeighbourLikelihood.at(KERNEL, Rows.of(X, means, counts, scatter), neighbours=len(X))(
        KERNEL, NOISE
    )
    assert np.isclose(found.value, -log_likelihood(X_all, y_all) / len(X_all), rtol=1e-10)


def test_batches_estimate_the_likelihood_of_all_rows_without_bias():
    X, y = observations(300)
    rows = Rows.of(X, y)
    whole = NeighbourLikelihood.at(KERNEL, rows, neighbours=8, seed=5)(KERNEL, NOISE).value
    full = NeighbourLikelihood.at(KERNEL, rows, neighbours=8, seed=5)
    batches = []
    for seed in range(200):
        chosen = np.sort(np.random.default_rng(seed).choice(300, 30, replace=False))
        some = replace(full.given, chosen=chosen.astype(np.int32), J=full.given.J[chosen])
        batches.append(replace(full, given=some)(KERNEL, NOISE).value)
    assert abs(np.mean(batches) - whole) < 4 * np.std(batches) / np.sqrt(200)


@pytest.mark.parametrize("batch", [None, 17])
def test_gradients_are_those_of_finite_differences(batch):
    X, y = observations()
    objective = NeighbourLikelihood.at(KERNEL, Rows.of(X, y), neighbours=6, batch=batch)
    found = objective(KERNEL, NOISE)
    for path, value in parameters(KERNEL).items():
        for q in range(np.size(value)):
            step = np.zeros(np.shape(value))
            step[(q,) * step.ndim] = 1e-6
            up, down = (with_parameters(KERNEL, {path: value + sign * step}) for sign in (1.0, -1.0))
            slope = (objective(up, NOISE).value - objective(down, NOISE).value) / 2e-6
            assert np.isclose(np.atleast_1d(found.kernel[path])[q], slope, rtol=1e-5, atol=1e-8), path
    slope = (objective(KERNEL, NOISE + 1e-7).value - objective(KERNEL, NOISE - 1e-7).value) / 2e-7
    assert np.isclose(found.noise, slope, rtol=1e-5)


@pytest.mark.parametrize("noise", [1e-12, 1e6])
@pytest.mark.parametrize("lengthscale", [1e-6, 1e6])
def test_nothing_but_finite_numbers_leaves_it(noise, lengthscale):
    X, y = observations()
    X[:30] = X[30:]  # every row twice
    kernel = 1e4 * Matern32([lengthscale, 1.0])
    found = NeighbourLikelihood.at(kernel, Rows.of(X, y), neighbours=12)(kernel, noise)
    assert all(np.isfinite(part).all() for part in (found.value, found.noise, *found.kernel.values()))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_carries_the_rows_that_it_needs_and_no_others(weighted):
    """Its likelihood and gradients are those of the same conditionals with all rows at hand."""
    X, y = observations(2000)
    rng = np.random.default_rng(3)
    rows = Rows.of(X, y, rng.integers(1, 4, len(X)), np.array([2.0, 3.0]))
    rows = (
        replace(rows, weights=rng.uniform(0.5, 4, len(X)), log_weights=np.zeros(len(X))) if weighted else rows
    )
    few = NeighbourLikelihood.at(KERNEL, rows, neighbours=8, batch=40, seed=2)
    order, chosen = in_order(len(X), 40, 2)
    given = Gram(KERNEL, X).earlier(order, 8, chosen)
    assert len(few.given.X) == np.unique(np.append(given.J[given.J >= 0], chosen)).size
    found, oracle = few(KERNEL, NOISE), NeighbourLikelihood(rows, given)(KERNEL, NOISE)
    assert found.value == pytest.approx(oracle.value, rel=1e-13)
    assert found.noise == pytest.approx(oracle.noise, rel=1e-11)
    for path, slope in oracle.kernel.items():
        assert found.kernel[path] == pytest.approx(slope, rel=1e-10, abs=1e-13), path

"""The nearest-neighbour likelihood: a density of all data; with every earlier row a neighbour, the
marginal likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itergp import RBF, Constant, Matern32
from itergp.data.rows import Rows
from itergp.learning.neighbours import NeighbourLikelihood
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

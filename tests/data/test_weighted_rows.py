"""Rows with weights, merged: the density of all observations, each with the noise noise / weight."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from helpers import make_data
from itergp import Matern32
from itergp.data.rows import merge_rows, merged, unmerged
from itergp.learning.actions import elbo
from itergp.learning.exact import exact
from itergp.learning.inducing import sgpr
from itergp.learning.iterative import iterative
from itergp.learning.neighbours import NeighbourLikelihood

KERNEL = 1.3 * Matern32([0.6, 0.9])


def weighted(targets=2, seed=0):
    """24 places, observed one to three times, with weights of all sizes."""
    rng, data = np.random.default_rng([seed, 11]), make_data(24, seed=seed, targets=targets)
    where = rng.permutation(np.concatenate([np.arange(24), rng.integers(0, 24, 20)]))
    y = data.y[where] + 0.2 * rng.standard_normal((44, *data.y.shape[1:]))
    return data.X[where], y, np.exp(rng.normal(0.0, 1.0, 44))


def negative_log_density(X, y, weights, noise, kernel=KERNEL):
    density = multivariate_normal(np.zeros(len(X)), kernel(X, X) + np.diag(noise / weights))
    return -sum(density.logpdf(column) for column in y.T)


OBJECTIVES = {
    "exact": lambda rows: exact(rows),
    "neighbours": lambda rows: NeighbourLikelihood.at(KERNEL, rows, rows.n),
    "iterative": lambda rows: iterative(rows, rank=rows.n, tolerance=1e-10),
    "elbo": lambda rows: elbo(rows, np.eye(rows.n)),
    "sgpr": lambda rows: sgpr(rows, rows.X),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_of_merged_rows_is_the_dense_density_of_all_observations(name):
    X, y, weights = weighted()
    for noise in (0.02, 0.5):
        found = OBJECTIVES[name](merge_rows(X, y, weights))(KERNEL, noise)
        expected = negative_log_density(X, y, weights, noise) / len(X)
        assert found.value == pytest.approx(expected, rel=1e-5 if name == "sgpr" else 1e-7)
        step = 1e-5 * noise
        slope = (
            negative_log_density(X, y, weights, noise + step)
            - negative_log_density(X, y, weights, noise - step)
        ) / (2 * step * len(X))
        assert found.noise == pytest.approx(slope, rel=1e-3 if name == "sgpr" else 1e-5)


@pytest.mark.parametrize("targets", [None, 2])
def test_merging_in_pieces_is_merging_at_once(targets):
    X, y, weights = weighted(targets)
    together = merge_rows(X, y, weights)
    pieces = merge_rows(X[:9], y[:9], weights[:9])
    for rows in (slice(9, 30), slice(30, 44)):
        pieces = pieces.absorb(X[rows], y[rows], weights[rows])
    for name in ("X", "y", "counts", "scatter", "weights", "log_weights"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(together, name), rtol=1e-12, err_msg=name)


def test_rows_without_weights_join_those_that_have_some_with_a_weight_of_one():
    X, y, weights = weighted()
    ones = np.concatenate([np.ones(20), weights[20:]])
    expected = merge_rows(X, y, ones)
    late = merge_rows(X[:20], y[:20]).absorb(X[20:], y[20:], weights[20:])
    np.testing.assert_allclose(late.weights, expected.weights, rtol=1e-12)
    np.testing.assert_allclose(late.within(0.3), expected.within(0.3), rtol=1e-12)


def test_observations_merge_into_the_rows_that_they_were_made_from():
    X, y, weights = weighted()
    rows = merge_rows(X, y, weights)
    again = merge_rows(*rows.observations())
    for name in ("X", "y", "counts", "scatter", "weights"):
        np.testing.assert_allclose(getattr(again, name), getattr(rows, name), rtol=1e-10, atol=1e-12)


def test_weights_in_another_unit_are_the_same_density():
    X, y, weights = weighted()
    rows = merge_rows(X, y, weights)
    unit = rows.unit
    assert unit == pytest.approx(weights.mean())
    found, same = exact(rows.per(unit))(KERNEL, 0.3), exact(rows)(KERNEL, 0.3 * unit)
    assert found.value == pytest.approx(same.value, rel=1e-12)
    assert rows.per(unit).variance == pytest.approx(rows.variance, rel=1e-12)


def test_parts_and_orders_of_rows_keep_their_weights():
    rows = unmerged(*weighted())
    chosen = np.array([5, 2, 40])
    np.testing.assert_array_equal(rows.some(chosen).weights, rows.weights[chosen])
    order = np.random.default_rng(0).permutation(rows.n)
    np.testing.assert_array_equal(rows.reordered(order).N(0.3), rows.N(0.3)[order])
    assert merged(rows).weights.sum() == pytest.approx(rows.weights.sum())

"""One-hot columns are found, and share a lengthscale where there are few rows."""

import numpy as np
import pytest

from itergp import IterGPRegressor
from itergp.data.categories import features_of, same_distance
from itergp.data.rows import Rows
from itergp.learning.parameters import Space
from itergp.prior.stationary import Matern32


def one_hot(labels, count):
    return (labels[:, None] == np.arange(count)).astype(float)


def table(n=300, seed=0):
    """A number, two categories side by side, a number, two flags, and a category without its first column."""
    rng = np.random.default_rng([seed, n])
    a, b, c = rng.integers(4, size=n), rng.integers(3, size=n), rng.integers(5, size=n)
    flags = (rng.uniform(size=(n, 2)) < 0.5).astype(float)
    parts = (rng.standard_normal((n, 1)), one_hot(a, 4), one_hot(b, 3))
    X = np.concatenate([*parts, rng.standard_normal((n, 1)), flags, one_hot(c, 5)[:, 1:]], axis=1)
    return X, a


FEATURES = [0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 6, 6, 6]


def test_columns_that_exclude_each_other_are_one_feature():
    X, _ = table()
    np.testing.assert_array_equal(features_of(X), FEATURES)


def test_units_do_not_matter():
    X, _ = table()
    rng = np.random.default_rng(1)
    scaled = X * rng.uniform(0.1, 10.0, X.shape[1]) + rng.standard_normal(X.shape[1])
    np.testing.assert_array_equal(features_of(scaled), FEATURES)


@pytest.mark.parametrize("n", [1, 3, 40])
def test_rare_flags_and_constants_are_features_of_their_own(n):
    X = np.zeros((n, 4))
    X[0, 1] = X[n // 2, 2] = 1.0  # they exclude each other, by chance
    np.testing.assert_array_equal(features_of(X), np.arange(4))


def test_categories_are_equally_far_apart_in_any_units():
    X, labels = table()
    X = X / X.std(axis=0)  # rare categories are farther away now
    lengthscales = 2.0 * same_distance(X, features_of(X))
    columns = np.flatnonzero(np.array(FEATURES) == 1)
    places = np.array([X[labels == k][0, columns] for k in range(4)]) / lengthscales[columns]
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)[np.triu_indices(4, 1)]
    np.testing.assert_allclose(squares, squares[0])


def test_tied_parameters_have_the_slope_of_their_sum():
    """Against differences of a function of all parameters."""
    X, _ = table()
    rows = Rows.of(X, X[:, 0])
    features, factors = features_of(X), np.random.default_rng(2).uniform(0.5, 2.0, X.shape[1])
    space = Space.of(1.5 * Matern32(np.linspace(1.0, 2.0, X.shape[1])), 0.1, rows).tied(features, factors)
    assert space.lower.size == 1 + 7 + 1
    theta = space.vector(2.0 * Matern32(3.0 * factors), 0.2)
    kernel, noise = space.values(theta)
    np.testing.assert_allclose(kernel.kernel.lengthscale, 3.0 * factors)
    assert (kernel.scale, noise) == pytest.approx((2.0, 0.2))
    weights = np.random.default_rng(3).standard_normal(X.shape[1])

    def value(theta):
        kernel, noise = space.values(theta)
        return float(weights @ kernel.kernel.lengthscale**2 + kernel.scale**3 + noise**2)

    from itergp.learning.parameters import Evaluation

    slopes = {"kernel.lengthscale": 2.0 * weights * kernel.kernel.lengthscale, "scale": 3.0 * kernel.scale**2}
    found = space.slope(Evaluation(0.0, slopes, 2.0 * noise), theta)
    steps = 1e-6 * np.eye(theta.size)
    np.testing.assert_allclose(
        found, [(value(theta + e) - value(theta - e)) / 2e-6 for e in steps], rtol=1e-6, atol=1e-6
    )


def test_a_category_that_matters_is_learned_from_few_rows():
    """Twelve categories in 150 rows: each is as far from the others, and intervals hold."""
    rng = np.random.default_rng(4)
    labels, x = rng.integers(12, size=550), rng.uniform(-1, 1, 550)
    y = rng.standard_normal(12)[labels] + x + 0.2 * rng.standard_normal(550)
    X = np.column_stack([x, one_hot(labels, 12)])
    model = IterGPRegressor().fit(X[:150], y[:150])
    mean, std = model.predict(X[150:], return_std=True)
    assert np.sqrt(np.mean((mean - y[150:]) ** 2)) < 0.3
    assert 0.9 < np.mean(np.abs(mean - y[150:]) < 1.96 * std) < 0.99


def test_a_level_that_nobody_has_seen_is_far_from_all_others():
    """Its column is constant in training: intervals there are as wide as levels differ."""
    rng = np.random.default_rng(5)
    labels, x = rng.integers(9, size=3000), rng.uniform(-1, 1, 3000)
    y = 2.0 * rng.standard_normal(9)[labels] + x + 0.2 * rng.standard_normal(3000)
    X, seen = np.column_stack([x, one_hot(labels, 9)]), np.flatnonzero(labels < 6)
    model = IterGPRegressor().fit(X[seen[:200]], y[seen[:200]])
    new = np.flatnonzero(labels >= 6)
    known, unknown = (model.predict(X[some], return_std=True)[1] for some in (seen[200:], new))
    assert np.median(unknown) > 4.0 * np.median(known)

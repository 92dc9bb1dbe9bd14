"""The unit of a feature is its standard deviation, to the bit, unless a few values far from all others
make it."""

import numpy as np
import pytest

from itergp import IterGPRegressor, Matern32
from itergp.data.rows import Rows
from itergp.data.spread import DOMINATED, centre_and_spread, fences
from itergp.fitted.units import Scaling
from itergp.learning.parameters import RANGES, Space


def rare(rng, n, share):
    x = np.zeros(n)
    x[rng.permutation(n)[: max(1, int(share * n))]] = 1.0
    return x


SHAPES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "normal, far from 0": lambda rng, n: 1e6 + rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: rng.lognormal(sigma=1.5, size=n),
    "Student's t": lambda rng, n: rng.standard_t(3, n),
    "log-uniform": lambda rng, n: 10.0 ** rng.uniform(-6, 6, n),
    "counts": lambda rng, n: rng.poisson(0.3, n).astype(float),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "one-hot, rare": lambda rng, n: rare(rng, n, 0.005),
    "one-hot, once": lambda rng, n: rare(rng, n, 0.0),
    "one-hot, of 0.1 and 0.3": lambda rng, n: 0.1 + 0.2 * rare(rng, n, 0.005),
    "mostly zero": lambda rng, n: rng.standard_normal(n) * rare(rng, n, 0.02),
    "mostly zero, then lognormal": lambda rng, n: rng.lognormal(size=n) * rare(rng, n, 0.3),
    "two clusters": lambda rng, n: rng.standard_normal(n) + 1e3 * (np.arange(n) < n // 20),
    "integers in order": lambda rng, n: np.arange(n, dtype=float),
    "an outlier that is no trouble": lambda rng, n: np.where(
        np.arange(n) == 7, 0.5 * DOMINATED * n**0.5, rng.standard_normal(n)
    ),
}


@pytest.mark.parametrize("n", [2, 19, 60, 1000, 5000])
@pytest.mark.parametrize("shape", SHAPES)
def test_features_of_all_kinds_keep_their_standard_deviation(shape, n):
    X = SHAPES[shape](np.random.default_rng(n), n)[:, None]
    centre, spread = centre_and_spread(X)
    assert centre == X.mean(axis=0)
    assert spread == X.std(axis=0) or (spread == 1.0 and X.std() == 0.0)


@pytest.mark.parametrize("n", [60, 1000, 5000])
@pytest.mark.parametrize("size", [1e5, 1e30])
@pytest.mark.parametrize(
    "shape", sorted(set(SHAPES) - {"an outlier that is no trouble", "log-uniform", "normal, far from 0"})
)
def test_one_value_far_away_leaves_the_unit_that_the_others_have(shape, size, n):
    """Not where hardly any value differs from the rest: then it is one of those that say something."""
    x = SHAPES[shape](np.random.default_rng(n), n)
    spoilt = x.copy()
    spoilt[n // 2] = size * (1.0 + np.abs(x).max())
    centre, spread = centre_and_spread(np.column_stack([spoilt, x]))
    told = int((spoilt != np.median(spoilt)).sum())
    if told < 20 or (np.ptp(x[x != np.median(x)]) == 0 and 2 * told < n):
        assert spread[0] == np.column_stack([spoilt, x]).std(axis=0)[0]
    else:
        assert 0.2 * spread[1] < spread[0] < 1.1 * spread[1]
        assert abs(centre[0] - x.mean()) < spread[1]


def test_what_is_constant_keeps_a_unit_of_one():
    X = np.column_stack([np.full(100, 0.1), np.full(100, 1e8), np.zeros(100)])
    np.testing.assert_array_equal(centre_and_spread(X)[1], 1.0)


def test_lengthscales_are_sought_in_units_of_the_others_also_where_nothing_is_scaled():
    X = np.random.default_rng(0).standard_normal((300, 2))
    X[5, 0] = 1e6
    space = Space.of(1.0 * Matern32([1.0, 1.0]), 0.1, Rows.of(X, X[:, 1]))
    place = space.paths.index("kernel.lengthscale")
    lower, upper = np.exp(space.lower)[place : place + 2], np.exp(space.upper)[place : place + 2]
    np.testing.assert_allclose(lower, RANGES.length[0], rtol=0.2)
    np.testing.assert_allclose(upper, RANGES.length[1], rtol=0.2)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("where", [0, 77])
def test_one_value_of_a_million_in_a_feature_does_not_spoil_the_fit(normalize, where):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(600)
    clean = IterGPRegressor(normalize=normalize).fit(X[:300], y[:300]).predict(X[300:])
    X[where, 0] = 1e6
    spoilt = IterGPRegressor(normalize=normalize).fit(X[:300], y[:300]).predict(X[300:])
    error, before = (np.sqrt(np.mean((mean - y[300:]) ** 2)) for mean in (spoilt, clean))
    assert error < 1.1 * before


def test_the_unit_of_a_target_is_its_standard_deviation_always():
    y = np.random.default_rng(0).standard_normal((100, 2))
    y[3, 1] = 1e6
    scaling = Scaling.of(y, y)
    np.testing.assert_array_equal(scaling.y_scale, y.std(axis=0))
    assert scaling.x_scale[1] < 2.0


@pytest.mark.parametrize("n", [20, 100, 3000])
def test_fences_leave_out_what_is_far_from_all_others_and_nothing_else(n):
    rng = np.random.default_rng(9)
    for x in (rng.standard_normal(n), rng.uniform(1e6, 1e6 + 1, n)):
        low, high = fences(x)
        assert ((low <= x) & (x <= high)).mean() >= 0.95
        far = x.copy()
        far[3], far[7] = x.max() + 30 * x.std(), x.min() - 1e9
        np.testing.assert_array_equal(np.flatnonzero((far < fences(far)[0]) | (far > fences(far)[1])), [3, 7])
    low, high = fences(np.exp(1.2 * rng.standard_normal(n)))
    assert low < 0
    assert high > np.exp(1.2 * 1.5)


def test_fences_keep_values_that_are_rare_where_most_are_equal_and_few_values():
    rare = np.zeros(1000)
    rare[:7] = 1.0
    for x in (rare, np.r_[np.zeros(19), 1e9][:19], np.array([1.0, 1e9]), np.array([]), np.ones(50)):
        assert fences(x) == (-np.inf, np.inf)

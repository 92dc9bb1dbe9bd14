"""How much wider intervals of rows with missing values are, by the definition of the factor."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from itergp import IterGPRegressor
from itergp.data.donors import Donors
from itergp.data.holes import Hole, Holes
from itergp.estimator.widening import optimism, widened, with_factors, with_more

TWO = Holes((Hole((0,)), Hole((1,))))


@pytest.fixture
def donors():
    return Donors.among(TWO, np.random.default_rng(0).standard_normal((30, 3)))


def factors(donors):
    return np.array([hole.factor for hole in donors.holes.columns])


def test_the_factor_is_that_of_students_interval(donors):
    """Beside two rows that are as expected; (n + p) / (n - p) comes on top."""
    z2, missing = np.array([9.0, 4.0, 1.0, 0.5]), np.array([[1, 0], [1, 1], [1, 0], [1, 0]], dtype=bool)
    ends = stats.t.ppf(0.975, [6, 3]) / stats.norm.ppf(0.975)
    expected = np.array([(2 + 14.5) / 6, (2 + 4.0) / 3]) * ends**2
    np.testing.assert_allclose(factors(widened(donors, z2, missing)), expected, rtol=1e-9)
    np.testing.assert_allclose(factors(widened(donors, z2, missing, 1.5)), 1.5 * expected, rtol=1e-9)


def test_few_rows_make_it_large_and_good_ones_do_not_make_it_small(donors):
    found = [factors(widened(donors, np.full(m, 0.1), np.ones((m, 2), bool)))[0] for m in (0, 1, 5, 30, 4000)]
    assert np.all(np.diff(found) < 0)
    assert found[0] == pytest.approx(4.82, abs=0.01)
    assert 1.0 < found[-1] < 1.01


def test_what_rows_say_one_after_the_other_they_say_together(donors):
    z2, missing = np.arange(1.0, 7.0), np.arange(12).reshape(6, 2) % 3 > 0
    once = widened(donors, z2, missing)
    twice = with_more(widened(donors, z2[:2], missing[:2]), z2[2:], missing[2:])
    np.testing.assert_allclose(factors(with_factors(twice, 1.0)), factors(once), rtol=1e-12)


def test_the_optimism_is_akaikes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + 0.3 * rng.standard_normal(60)
    fit = IterGPRegressor(kernel="matern52").fit(X, y).fit_
    p = 3 + 1 + 1 + 1  # lengthscales, scale, noise, mean
    assert optimism(fit) == pytest.approx((60 + p) / (60 - p))
    # the unit of weights does not matter; rows that weigh next to nothing do not count
    assert optimism(replace(fit, weights=np.full(60, 7.0))) == pytest.approx((60 + p) / (60 - p))
    few = np.where(np.arange(60) < 40, 1.0, 1e-9)
    assert optimism(replace(fit, weights=few)) == pytest.approx((40 + p) / (40 - p))
    # rows that were merged count each
    assert optimism(replace(fit, counts=np.full(60, 5))) == pytest.approx((300 + p) / (300 - p))
    fixed = IterGPRegressor(kernel="matern52", learn=False, noise=0.1).fit(X, y).fit_
    assert optimism(fixed) == pytest.approx(61 / 59)
    assert optimism(IterGPRegressor(kernel="matern52").fit(X[:5], y[:5]).fit_) <= 3.0

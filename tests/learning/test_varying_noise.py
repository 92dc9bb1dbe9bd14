"""How noise varies, by held-out errors: every step against its formula."""

import numpy as np
import pytest
from scipy.special import polygamma

from helpers import make_data
from itergp import Compute, Matern32
from itergp.data.rows import merge_rows, unmerged
from itergp.learning.varying import (
    LOG_CHI2_MEAN,
    LOG_CHI2_VARIANCE,
    Errors,
    NoiseFunction,
    Regression,
    _constant,
    errors_within,
    held_out_errors,
    learned_function,
)

KERNEL = 1.3 * Matern32([0.6, 0.9])


def errors(n=60, t=1, seed=0, slope=0.0):
    """Errors whose noise has the logarithm `slope` x of its variance, on top of some latent variance."""
    rng = np.random.default_rng([seed, n, t])
    X, latent = rng.uniform(-2, 2, (n, 2)), rng.uniform(0.0, 0.3, (n, t))
    noise = rng.uniform(0.5, 2.0, (n, t))
    v = latent + noise * np.exp(slope * X[:, :1])
    return Errors(X, np.sqrt(v) * rng.standard_normal((n, t)), latent, noise)


def test_the_moments_of_the_logarithm_of_a_squared_normal():
    assert pytest.approx(polygamma(0, 0.5) + np.log(2)) == LOG_CHI2_MEAN
    assert pytest.approx(polygamma(1, 0.5)) == LOG_CHI2_VARIANCE


@pytest.mark.parametrize("t", [1, 3])
def test_scoring_steps_along_the_gradient_of_the_log_density(t):
    found, h, step = errors(t=t), np.random.default_rng(1).normal(0.0, 0.5, 60), 1e-6
    assert (found.errors**2 / found.variances(h)).max() < 16  # none is cut
    u, precision = found.scoring(h)
    gradient = (found.densities(h + step) - found.densities(h - step)) / (2 * step)
    np.testing.assert_allclose(precision * (u - h), gradient, atol=1e-7)


def test_a_regression_without_a_row_is_one_that_never_had_it():
    rng = np.random.default_rng(2)
    X, u, precision = rng.uniform(-1, 1, (20, 2)), rng.standard_normal(20), rng.uniform(0.1, 2.0, 20)
    found = Regression.of(KERNEL(X, X), u, precision)
    constant = np.average(u, weights=precision)
    for i, left_out in enumerate(found.left_out()):
        others = np.delete(np.arange(20), i)
        A = KERNEL(X[others], X[others]) + np.diag(1 / precision[others])
        k = KERNEL(X[[i]], X[others])[0]
        assert left_out == pytest.approx(constant + k @ np.linalg.solve(A, u[others] - constant))


@pytest.mark.parametrize("merged", [True, False])
def test_errors_are_those_of_a_dense_gp_without_the_row(merged):
    data, rng = make_data(30, targets=2), np.random.default_rng(3)
    X, y, weights = data.X, data.y, rng.uniform(0.5, 2.0, 30)
    if merged:
        X, y, weights = (np.concatenate([part, part[:9]]) for part in (X, y + 0.1, weights))
    g, noise = np.exp(rng.standard_normal(30)), np.array([0.05, 0.3])
    rows = (merge_rows if merged else unmerged)(X, y, weights / (np.concatenate([g, g[:9]]) if merged else g))
    found = held_out_errors(rows, g, KERNEL, noise, 0, Compute())
    for j, own in enumerate(noise):
        N = own / rows.precision
        np.testing.assert_allclose(found.noise[:, j], N / g)
        for i in (0, 7, 29):
            others = np.delete(np.arange(30), i)
            A = KERNEL(rows.X[others], rows.X[others]) + np.diag(N[others])
            k = KERNEL(rows.X[[i]], rows.X[others])[0]
            assert found.errors[i, j] == pytest.approx(
                rows.y[i, j] - k @ np.linalg.solve(A, rows.y[others, j])
            )
            assert found.latent[i, j] == pytest.approx(1.3 - k @ np.linalg.solve(A, k))


def test_beyond_the_exact_gp_some_rows_are_held_out_in_folds(monkeypatch):
    monkeypatch.setattr("itergp.learning.varying.EXACT_ROWS", 50)
    data = make_data(120)
    rows = unmerged(data.X, data.y, np.ones(120))
    folds = held_out_errors(rows, np.ones(120), KERNEL, 0.05, 0, Compute())
    monkeypatch.undo()
    alone = held_out_errors(rows, np.ones(120), KERNEL, 0.05, 0, Compute())
    where = [int(np.flatnonzero((x == alone.X).all(axis=1))[0]) for x in folds.X]
    assert sorted(where) == list(range(120))
    ratio = np.mean(folds.errors**2) / np.mean(alone.errors**2)
    assert 0.5 < ratio < 3.0
    assert (folds.latent >= alone.latent[where] - 1e-9).all()  # fewer rows know less


@pytest.mark.parametrize("t", [1, 2])
def test_the_function_is_found_where_there_is_one(t):
    found = learned_function(errors(400, t, slope=1.0), 0, None, Compute())
    at = np.stack([np.linspace(-1.8, 1.8, 30), np.zeros(30)], axis=1)
    np.testing.assert_allclose(np.log(found(at)), at[:, 0], atol=0.5)
    dense = np.exp(found.constant + found.kernel(at, found.X) @ found.weights)
    np.testing.assert_allclose(found(at), dense, rtol=1e-9)
    assert found.with_mean_one(at)(at).mean() == pytest.approx(1.0)


def test_noise_that_does_not_vary_has_no_function():
    found = [learned_function(errors(200, seed=seed), 0, None, Compute()) for seed in range(10)]
    assert sum(one is not None for one in found) <= 1


@pytest.mark.parametrize("latent", [1.0, 30.0, 1e3])
def test_the_best_constant_has_the_largest_density_where_errors_are_mostly_latent(latent):
    """From there a step of Fisher's went to where exp overflows, and `noise="heteroscedastic"` failed."""
    one = errors(60, seed=4)
    few = Errors(one.X, one.errors, np.full_like(one.latent, latent), 0.01 * one.noise)
    density = few.densities(np.full(60, _constant(few))).sum()
    grid = [few.densities(np.full(60, h)).sum() for h in np.linspace(-12, 12, 500)]
    assert density >= max(grid) - 1e-6


def test_without_a_latent_part_the_best_constant_is_the_mean_of_squares():
    one = errors(60, seed=4)
    for size in (0.01, 0.3, 1.0, 5.0):
        few = Errors(one.X, size * one.errors, np.zeros_like(one.latent), one.noise)
        expected = np.log(np.mean(few.errors**2 / few.noise))
        assert _constant(few) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("size", [0.0, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.2])
def test_no_step_goes_far_where_errors_are_mostly_latent(size, share):
    """At most 1 / (1 - p), where Fisher's goes up to 15 / p."""
    one = errors(60, seed=4)
    few = Errors(one.X, size * one.errors, (1.0 - share) * np.ones((60, 1)), share * np.ones((60, 1)))
    u, precision = few.scoring(np.zeros(60))
    assert np.abs(u).max() <= 1 / (1 - share) + 1e-9
    assert (precision >= 0).all()
    learned_function(few, 0, None, Compute())  # ends, whatever it finds


def test_too_few_errors_and_errors_that_are_not_finite_say_nothing():
    assert learned_function(errors(40, slope=3.0), 0, None, Compute()) is None
    one = errors(100, slope=3.0)
    broken = Errors(
        one.X, np.where(np.arange(100) == 3, np.nan, one.errors[:, 0])[:, None], one.latent, one.noise
    )
    assert learned_function(broken, 0, None, Compute()) is None
    assert isinstance(learned_function(one, 0, None, Compute()), NoiseFunction)


def test_errors_within_a_place_are_independent_and_have_the_variance_that_they_say():
    """Each observation less the weighted mean of those before it, as a dense covariance has it."""
    group, w = np.array([0, 1, 0, 0, 1, 2]), np.array([1.0, 2.0, 0.5, 4.0, 1.0, 3.0])
    y = np.random.default_rng(0).standard_normal(6)
    found = errors_within(unmerged(np.zeros((6, 1)), y, w), group, 0.3, seed=0)
    A = np.array(  # of the draw y: rows 2 and 3 of group 0, row 4 of group 1
        [[-1, 0, 1, 0, 0, 0], [-1 / 1.5, 0, -0.5 / 1.5, 1, 0, 0], [0, -1, 0, 0, 1, 0]]
    )
    covariance = A @ np.diag(0.3 / w) @ A.T
    np.testing.assert_allclose(found.errors[:, 0], A @ y, atol=1e-14)
    np.testing.assert_allclose(np.diag(found.noise[:, 0]), covariance, atol=1e-14)
    assert not found.latent.any()

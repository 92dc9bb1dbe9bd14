"""Metrics against definitions: densities by SciPy, the CRPS by its integral, intervals by their tables."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from itergp import InputError, metrics

RNG = np.random.default_rng(3)
Y, MEAN, VAR = RNG.standard_normal(40), RNG.standard_normal(40), RNG.uniform(0.1, 2.0, 40)


def test_nll_is_the_mean_negative_log_density():
    expected = -scipy.stats.norm(MEAN, np.sqrt(VAR)).logpdf(Y).mean()
    assert metrics.nll(Y, MEAN, VAR) == pytest.approx(expected, rel=1e-12)


def test_rmse_is_the_norm_of_the_error_over_the_root_of_its_length():
    assert metrics.rmse(Y, MEAN) == pytest.approx(np.linalg.norm(Y - MEAN) / np.sqrt(40), rel=1e-12)


def test_crps_is_the_integral_of_the_squared_distance_between_distribution_functions():
    expected = []
    for y, mean, std in zip(Y[:6], MEAN[:6], np.sqrt(VAR[:6]), strict=True):
        F = scipy.stats.norm(mean, std).cdf
        below = scipy.integrate.quad(lambda x, F=F: F(x) ** 2, min(y, mean) - 12 * std, y)[0]
        above = scipy.integrate.quad(lambda x, F=F: (1 - F(x)) ** 2, y, max(y, mean) + 12 * std)[0]
        expected.append(below + above)
    assert metrics.crps(Y[:6], MEAN[:6], VAR[:6]) == pytest.approx(np.mean(expected), rel=1e-7)


def test_crps_of_a_certain_forecast_is_the_absolute_error():
    assert metrics.crps([1.0, 2.0, 2.0], [3.0, 2.0, 1.5], 0.0) == pytest.approx(2.5 / 3, rel=1e-15)


def test_the_calibration_curve_counts_the_central_intervals():
    levels = [0.1, 0.5, 0.95]
    inside = [np.abs(scipy.stats.norm(MEAN, np.sqrt(VAR)).cdf(Y) - 0.5) <= level / 2 for level in levels]
    np.testing.assert_array_equal(metrics.calibration_curve(Y, MEAN, VAR, levels), np.mean(inside, axis=1))
    assert metrics.calibration_curve(Y, MEAN, VAR, [0.95])[0] == metrics.coverage(Y, MEAN, VAR)


def test_the_calibration_curve_of_honest_forecasts_is_the_diagonal():
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(40_000), rng.uniform(0.5, 2.0, 40_000)
    curve = metrics.calibration_curve(mean + std * rng.standard_normal(40_000), mean, std**2)
    np.testing.assert_allclose(curve, metrics.LEVELS, atol=0.01)
    narrow = metrics.calibration_curve(mean + std * rng.standard_normal(40_000), mean, 0.25 * std**2)
    assert (narrow < np.array(metrics.LEVELS) - 0.02).all()


def test_sharpness_is_the_mean_standard_deviation():
    assert metrics.sharpness([4.0, 9.0]) == 2.5


def test_the_interval_over_repetitions_is_that_of_students_t():
    values = np.random.default_rng(1).standard_normal((5, 3))
    mean, half = metrics.mean_and_interval(values)
    for j in range(3):
        low, high = scipy.stats.t.interval(0.95, 4, values[:, j].mean(), scipy.stats.sem(values[:, j]))
        assert (mean[j] - half[j], mean[j] + half[j]) == pytest.approx((low, high), rel=1e-12)
    other_axis = metrics.mean_and_interval(values.T, axis=1)
    np.testing.assert_allclose(other_axis, (mean, half), rtol=1e-14)


def test_one_repetition_has_no_interval():
    mean, half = metrics.mean_and_interval([[1.0, 2.0]])
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    assert np.isnan(half).all()


def test_several_targets_share_the_variance_of_their_row():
    y, mean = RNG.standard_normal((7, 2)), RNG.standard_normal((7, 2))
    var = RNG.uniform(0.5, 1.0, 7)
    for metric in (metrics.nll, metrics.crps, metrics.coverage):
        each = [metric(y[:, j], mean[:, j], var) for j in range(2)]
        assert metric(y, mean, var) == pytest.approx(np.mean(each), rel=1e-12)


@pytest.mark.parametrize("metric", [metrics.nll, metrics.crps, metrics.coverage, metrics.calibration_curve])
def test_shapes_that_would_broadcast_to_nonsense_are_refused(metric):
    with pytest.raises(InputError, match=r"y has shape \(40,\) and mean has shape \(40, 1\)"):
        metric(Y, MEAN[:, None], VAR)
    with pytest.raises(InputError, match=r"var has shape \(3,\)"):
        metric(Y, MEAN, VAR[:3])


def test_what_cannot_be_averaged_or_asked_for_is_refused_by_name():
    with pytest.raises(InputError, match="levels is"):
        metrics.calibration_curve(Y, MEAN, VAR, [0.5, 1.0])
    with pytest.raises(InputError, match=r"values has shape \(0, 2\)"):
        metrics.mean_and_interval(np.zeros((0, 2)))
    with pytest.raises(InputError, match="y has shape"):
        metrics.rmse([], [])

"""`noise="robust"`: a few gross errors set neither the noise of all rows nor the function near them."""

import json

import numpy as np
import pytest

from itergp import IterGPRegressor, Matern52
from itergp.errors import StorageError
from itergp.learning.outliers import MEDIAN, outlying, too_many

NOISE, SIZE = 0.2, 20.0


def function(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def data(n=300, share=0.03, seed=0):
    """Inputs, targets, and which of them are gross errors."""
    rng = np.random.default_rng(seed)
    X, off = rng.uniform(-1, 1, (n, 2)), np.zeros(n, dtype=bool)
    off[rng.permutation(n)[: round(share * n)]] = True
    errors = rng.standard_normal(n) + SIZE * off * rng.choice([-1.0, 1.0], n)
    return X, function(X) + NOISE * errors, off


def noise_of(model):
    """As a standard deviation, in units of y."""
    return float(np.sqrt(model.noise_) * model.scaling_.y_scale)


def error_of(model, X):
    return float(np.sqrt(np.mean((model.predict(X) - function(X)) ** 2)))


@pytest.fixture(scope="module")
def fits():
    X, y, off = data()
    return {
        "robust": IterGPRegressor("matern52", noise="robust").fit(X, y),
        "learn": IterGPRegressor("matern52").fit(X, y),
        "clean": IterGPRegressor("matern52").fit(X[~off], y[~off]),
    }


def test_gross_errors_do_not_set_the_noise_of_all_rows(fits):
    assert noise_of(fits["learn"]) > 2 * NOISE  # what is to be mended
    assert noise_of(fits["robust"]) == pytest.approx(noise_of(fits["clean"]), rel=0.05)


def test_the_function_is_that_of_the_other_rows(fits):
    new = np.random.default_rng(1).uniform(-1, 1, (500, 2))
    assert error_of(fits["robust"], new) < 1.1 * error_of(fits["clean"], new)
    assert error_of(fits["robust"], new) < 0.5 * error_of(fits["learn"], new)


def test_intervals_hold_new_rows_without_such_errors(fits):
    new = np.random.default_rng(2).uniform(-1, 1, (2000, 2))
    y = function(new) + NOISE * np.random.default_rng(3).standard_normal(2000)
    mean, std = fits["robust"].predict(new, return_std=True)
    assert 0.92 < np.mean(np.abs(y - mean) < 1.96 * std) < 0.98


def test_outliers_alone_have_little_weight(fits):
    _, _, off = data()
    np.testing.assert_array_equal(fits["robust"].row_weights_ < 1, off)
    assert fits["robust"].row_weights_[off].max() < 1 / 25


def test_without_outliers_nothing_changes():
    X, y, _ = data(share=0.0)
    robust, learn = (IterGPRegressor("matern52", noise=noise).fit(X, y) for noise in ("robust", "learn"))
    np.testing.assert_array_equal(robust.predict(X), learn.predict(X))
    np.testing.assert_array_equal(robust.row_weights_, 1)


def test_beyond_the_exact_gp_too():
    X, y, off = data(n=2400, share=0.02, seed=4)
    model = IterGPRegressor("matern52", noise="robust", budget="64 actions").fit(X, y)
    assert noise_of(model) == pytest.approx(NOISE, rel=0.1)
    flagged = model.row_weights_ < 1
    assert flagged[off].all()
    assert flagged[~off].sum() <= 2


def test_merged_rows_and_several_targets():
    X, y, off = data()
    other = function(X) + NOISE * np.random.default_rng(5).standard_normal(len(X))
    X, Y = np.vstack([X, X[:20]]), np.column_stack([y, other])
    Y = np.vstack([Y, Y[:20] + 0.01])
    model = IterGPRegressor("matern52", noise="robust").fit(X, Y)
    assert len(model.row_weights_) == 300
    np.testing.assert_array_equal(model.row_weights_ < 1, off)
    np.testing.assert_allclose(np.sqrt(model.noise_) * model.scaling_.y_scale, NOISE, rtol=0.2)


@pytest.mark.parametrize(("places", "times"), [(100, 5), (10, 40)])
def test_of_several_observations_at_a_place_only_the_gross_errors_are_outliers(places, times):
    """A place may have so many that its mean is hardly off; and the others there still count."""
    rng = np.random.default_rng(13)
    X = np.repeat(rng.uniform(-1, 1, (places, 2)), times, axis=0)
    off = np.zeros(len(X), dtype=bool)
    off[rng.permutation(len(X))[:10]] = True
    y = function(X) + NOISE * (rng.standard_normal(len(X)) + SIZE * off)
    how = {"kernel": Matern52([1.0, 1.0]), "learn": "exact"}
    robust = IterGPRegressor(noise="robust", **how).fit(X, y)
    clean, learn = IterGPRegressor(**how).fit(X[~off], y[~off]), IterGPRegressor(**how).fit(X, y)
    assert noise_of(learn) > 2 * NOISE
    assert noise_of(robust) == pytest.approx(noise_of(clean), rel=0.05)
    kept = np.bincount(np.repeat(np.arange(places), times), ~off)
    np.testing.assert_allclose(robust.row_weights_, kept, atol=0.5)
    assert np.sum(np.abs(robust.calibration_.scores) > 10) == 10


def test_copies_of_a_gross_error_do_not_vouch_for_each_other():
    X, y, off = data(n=200, seed=14)
    again = np.flatnonzero(off)[:2].repeat(5)
    model = IterGPRegressor("matern52", noise="robust").fit(np.vstack([X, X[again]]), np.append(y, y[again]))
    np.testing.assert_array_equal(model.row_weights_ < 1, off)
    assert noise_of(model) == pytest.approx(NOISE, rel=0.2)


@pytest.mark.parametrize("n", [1, 2, 5, 19, 25])
def test_few_rows_are_fitted_as_they_are_or_without_their_gross_error(n):
    X, y, _ = data(n=n, share=0.0, seed=15)
    if n == 25:
        y[3] += 40.0
    robust, learn = (IterGPRegressor("matern52", noise=noise).fit(X, y) for noise in ("robust", "learn"))
    if n < 25:
        np.testing.assert_array_equal(robust.predict(X), learn.predict(X))
    else:
        assert noise_of(robust) == pytest.approx(NOISE, rel=0.3)
        np.testing.assert_array_equal(np.flatnonzero(robust.row_weights_ < 1), [3])


def test_weights_of_the_user_stay_beside_those_of_outliers():
    X, y, off = data()
    w = np.random.default_rng(16).uniform(0.5, 4.0, len(X))
    y = function(X) + (y - function(X)) / np.sqrt(w)
    model = IterGPRegressor("matern52", noise="robust").fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.row_weights_[~off], w[~off])
    assert (model.row_weights_[off] < w[off] / 25).all()
    assert noise_of(model) == pytest.approx(NOISE, rel=0.15)


def test_a_saved_model_and_a_resumed_fit_keep_them(tmp_path, fits):
    X, y, off = data()
    fits["robust"].save(tmp_path / "model.itergp")
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    np.testing.assert_array_equal(loaded.predict(X), fits["robust"].predict(X))
    how = {"kernel": "matern52", "noise": "robust", "policy": "cg", "checkpoint": tmp_path / "run"}
    first = IterGPRegressor(**how, budget="3 actions").fit(X, y)
    again = IterGPRegressor(**how, budget="6 actions").fit(X, y)
    assert again.trace_.resumed_from == 3
    assert again.noise_ == first.noise_
    np.testing.assert_array_equal(again.row_weights_ < 1, off)


def test_a_checkpoint_with_rows_that_are_not_there_is_refused(tmp_path):
    X, y, _ = data()
    how = {"kernel": "matern52", "noise": "robust", "policy": "cg", "checkpoint": tmp_path / "run"}
    IterGPRegressor(**how, budget="3 actions").fit(X, y)
    [manifest] = [path for path in (tmp_path / "run").iterdir() if path.suffix == ".json"]
    text = json.loads(manifest.read_text())

    def damaged(value):
        if isinstance(value, dict):
            return {k: [10**6] * len(v) if k == "rows" else damaged(v) for k, v in value.items()}
        return value

    manifest.write_text(json.dumps(damaged(text)))
    with pytest.raises(StorageError):
        IterGPRegressor(**how, budget="6 actions").fit(X, y)


def test_outliers_are_beyond_five_robust_standard_deviations():
    rng = np.random.default_rng(6)
    errors, variances = rng.standard_normal((400, 2)) * 3.0, np.full((400, 2), 4.0)
    errors[7, 0], errors[300, 1] = 40.0, -60.0
    s = np.median(np.abs(errors) / 2.0, axis=0) / MEDIAN
    g = outlying(errors, variances)
    np.testing.assert_array_equal(np.flatnonzero(g > 1), [7, 300])
    np.testing.assert_allclose(g[[7, 300]], [(40.0 / 2 / s[0]) ** 2, (60.0 / 2 / s[1]) ** 2])


def test_undefined_ones_are_none_and_of_many_the_farthest_are():
    for odd in (np.zeros((100, 1)), np.full((100, 1), np.nan), np.array([[1.0], [50.0]])):
        np.testing.assert_array_equal(outlying(odd, np.ones_like(odd)), 1.0)
        assert not too_many(odd, np.ones_like(odd))
    errors = np.random.default_rng(7).standard_normal((100, 1))
    errors[:15] = 100 + np.arange(15.0)[:, None]
    np.testing.assert_array_equal(
        np.flatnonzero(outlying(errors, np.ones_like(errors)) > 1), np.arange(5, 15)
    )
    assert too_many(errors, np.ones_like(errors))
    assert not too_many(errors[8:], np.ones((92, 1)))


def test_more_than_a_tenth_are_no_outliers_but_a_distribution():
    X, y, _ = data(share=0.2, seed=9)
    robust, learn = (IterGPRegressor("matern52", noise=noise).fit(X, y) for noise in ("robust", "learn"))
    np.testing.assert_array_equal(robust.predict(X), learn.predict(X))
    np.testing.assert_array_equal(robust.row_weights_, 1)


def test_gross_errors_that_have_spoilt_the_first_function_are_found():
    """The first function follows them, so all errors are large, and theirs too small in units of these."""
    rng = np.random.default_rng([1, 5])
    X = rng.uniform(-1, 1, (300, 3))
    off = rng.random(300) < 0.02
    y = function(X) + NOISE * (rng.standard_normal(300) + 1e4 * off * rng.choice([-1.0, 1.0], 300))
    model = IterGPRegressor(noise="robust").fit(X, y)
    np.testing.assert_array_equal(model.row_weights_ < 1, off)
    assert noise_of(model) == pytest.approx(NOISE, rel=0.2)


def test_conformal_intervals_hold_new_rows_with_and_gaussian_ones_those_without_such_errors():
    """Scores are in units of what is predicted for new rows, which are not known to be outliers."""
    X, y, _ = data(n=600, share=0.05, seed=10)
    model = IterGPRegressor("matern52", noise="robust").fit(X, y)
    new, y_new, bad = data(n=4000, share=0.05, seed=11)
    for level in (0.5, 0.8, 0.95):
        low, high = model.interval(new, level, method="conformal")
        chance = 3 * np.sqrt(level * (1 - level) / len(X))
        assert np.mean((low <= y_new) & (y_new <= high)) == pytest.approx(level, abs=chance)
    low, high = model.interval(new[~bad], 0.95)
    assert np.mean((low <= y_new[~bad]) & (y_new[~bad] <= high)) == pytest.approx(0.95, abs=0.02)
    # each score is that of the exact GP without the row, with the noise of the others
    scores = np.sort(left_out(model, X, y))
    np.testing.assert_allclose(model.calibration_.scores, scores, rtol=1e-5, atol=1e-7)


def left_out(model, X, y):
    """By dense algebra, in units of the noise of an ordinary row."""
    fit = model.fit_
    Z, b, N = fit.scaling.inputs(X), fit.scaling.targets(y), fit.noise / model.row_weights_
    K = np.asarray(fit.kernel(Z, Z)) + np.diag(N)
    inverse = np.linalg.inv(K)
    prior = fit.posterior.problem.prior.mean(Z)
    errors, variances = inverse @ (b - prior) / np.diag(inverse), 1 / np.diag(inverse)
    return errors / np.sqrt(variances - N + fit.noise)


def test_scores_of_outliers_survive_files_and_more_rows(tmp_path):
    X, y, off = data()
    model = IterGPRegressor("matern52", noise="robust").fit(X, y)
    model.save(tmp_path / "model.itergp")
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    np.testing.assert_array_equal(loaded.calibration_.scores, model.calibration_.scores)
    assert np.sum(np.abs(model.calibration_.scores) > 10) == off.sum()
    # at new places, and at those of outliers: none of the new observations is one
    more, at_outliers = data(n=40, share=0.0, seed=12)[:2], (X[off], function(X[off]))
    for later in (more, at_outliers):
        found = IterGPRegressor.load(tmp_path / "model.itergp").partial_fit(*later).calibration_
        assert found.units == len(X) + len(later[0])
        assert np.sum(np.abs(found.scores) > 10) == off.sum()

"""One row, or equal targets: nothing is learned, intervals are honest, and later rows are learned from as
`fit` would."""

import json

import numpy as np
import pytest

from itergp import IterGPRegressor
from itergp.estimator.hyperparameters import START_NOISE
from itergp.fitted.first_rows import ENOUGH, telling
from itergp.prior.parameters import parameters


def stream(n, d=2, noise=0.3, seed=0, targets=None):
    """Inputs and targets far from mean 0 and standard deviation 1."""
    rng = np.random.default_rng([seed, d])
    X = rng.uniform(40, 60, (n, d))
    f = 5.0 * np.sin(0.3 * (X - 50.0).sum(axis=1) / d**0.5)
    f = f if targets is None else np.outer(f, np.arange(1, targets + 1))
    return X, 100.0 + f + noise * rng.standard_normal(f.shape)


X, Y = stream(300)
AT = stream(50, seed=1)[0]


def assert_same_model(found, expected):
    assert found.noise_ == pytest.approx(expected.noise_)
    for path, value in parameters(expected.kernel_).items():
        np.testing.assert_array_equal(parameters(found.kernel_)[path], value)
    for name in ("x_mean", "x_scale", "y_mean", "y_scale"):
        np.testing.assert_array_equal(getattr(found.scaling_, name), getattr(expected.scaling_, name))
    np.testing.assert_array_equal(found.predict(AT, return_std=True), expected.predict(AT, return_std=True))


def assert_not_learned(model):
    """The prior's own values, and intervals that are as wide as it says."""
    assert model.trace_.learning == ()
    assert model.noise_ == START_NOISE
    fresh = IterGPRegressor(learn=False, noise=START_NOISE, normalize=model.normalize).fit(X[:3], Y[:3])
    for path, value in parameters(fresh.kernel_).items():
        np.testing.assert_array_equal(parameters(model.kernel_)[path], value)
    mean, std = model.predict(AT, return_std=True)
    assert np.isfinite(mean).all()
    assert ((std**2 >= START_NOISE) & (std**2 <= 1.0 + START_NOISE + 1e-9)).all()


@pytest.mark.parametrize("rows", [1, 2, 50])
@pytest.mark.parametrize("value", [0.0, 5.0, -1e-9, 1e8])
@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"merge_duplicates": False}], ids=str)
def test_equal_targets_teach_nothing_and_what_follows_does(rows, value, options):
    model = IterGPRegressor(**options).partial_fit(X[:rows], np.full(rows, value))
    assert_not_learned(model)
    np.testing.assert_allclose(model.predict(AT), value, rtol=1e-12, atol=1e-12)
    model.partial_fit(X[rows:200], Y[rows:200])
    expected = IterGPRegressor(**options).fit(X[:200], np.concatenate([np.full(rows, value), Y[rows:200]]))
    assert_same_model(model, expected)


@pytest.mark.parametrize(("relative", "learns"), [(1e-9, True), (1e-14, False)])
def test_targets_that_differ_by_their_rounding_only_are_equal(relative, learns):
    y = 7.0 * (1.0 + relative * np.random.default_rng(0).standard_normal(200))
    model = IterGPRegressor().fit(X[:200], y)
    _, std = model.predict(AT, return_std=True)
    if learns:
        np.testing.assert_allclose(std, y.std(), rtol=0.2)
    else:
        assert_not_learned(model)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_plane_through_all_rows_leaves_nothing_to_learn_from(rows):
    model = IterGPRegressor(mean="linear").partial_fit(X[:rows], Y[:rows])
    assert model.trace_.learning == ()
    assert model.noise_ == START_NOISE
    assert_same_model(
        model.partial_fit(X[rows:200], Y[rows:200]), IterGPRegressor(mean="linear").fit(X[:200], Y[:200])
    )


def test_rows_one_by_one_end_where_a_fit_of_the_first_hundred_does():
    model, fits = IterGPRegressor(), []
    for i in range(130):
        kernel = getattr(model, "kernel_", None)
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
        fits += [] if model.kernel_ is kernel else [i + 1]
    assert fits == [1, 2, 4, 8, 16, 32, 64, 100]  # so all learning together costs little more than the last
    expected = IterGPRegressor().fit(X[:100], Y[:100])
    for path, value in parameters(expected.kernel_).items():
        np.testing.assert_array_equal(parameters(model.kernel_)[path], value)
    expected.partial_fit(X[100:130], Y[100:130])
    np.testing.assert_allclose(
        model.predict(AT, return_std=True), expected.predict(AT, return_std=True), rtol=1e-6
    )


@pytest.mark.parametrize("noise", [0.3, 3.0])
@pytest.mark.parametrize("d", [1, 3])
def test_what_so_few_rows_taught_serves_those_that_follow(d, noise):
    """The mean of six streams: 95 % intervals hold what they say, give or take 4 %."""
    inside = []
    for seed in range(6):
        X, y = stream(200, d, noise, seed)
        X_new, y_new = stream(500, d, noise, 100 + seed)
        model = IterGPRegressor().partial_fit(X[:1], y[:1])
        for start, stop in ((1, ENOUGH), (ENOUGH, 200)):
            model.partial_fit(X[start:stop], y[start:stop])
        low, high = model.interval(X_new)
        inside.append(((low < y_new) & (y_new < high)).mean())
    assert 0.91 < np.mean(inside) < 0.99


def test_one_input_again_and_again_ends_with_the_spread_of_its_targets():
    rng = np.random.default_rng(0)
    model, y = IterGPRegressor(), 10.0 + 3.0 * rng.standard_normal(200)
    for i in range(200):
        model.partial_fit([[1.5]], y[i : i + 1])
    assert model.posterior_.problem.n == 1
    assert model.predict([[1.5]], return_std=True)[1] == pytest.approx(y[:128].std(), rel=0.15)


def test_a_proper_fit_keeps_scaling_and_hyperparameters():
    model = IterGPRegressor().fit(X[:ENOUGH], Y[:ENOUGH])
    assert model.first_rows_ is None
    kernel, scaling, noise = model.kernel_, model.scaling_, model.noise_
    model.partial_fit(X[ENOUGH:], Y[ENOUGH:])
    assert (model.kernel_ is kernel, model.scaling_ is scaling, model.noise_) == (True, True, noise)
    given = IterGPRegressor(learn=False, noise=0.1).fit(X[:2], Y[:2])
    scaling = given.scaling_
    assert given.partial_fit(X[2:200], Y[2:200]).scaling_ is scaling


def test_few_rows_are_fitted_anew_when_they_have_doubled():
    model = IterGPRegressor().fit(X[:40], Y[:40])
    kernel = model.kernel_
    assert model.partial_fit(X[40:79], Y[40:79]).kernel_ is kernel
    assert_same_model(model.partial_fit(X[79:80], Y[79:80]), IterGPRegressor().fit(X[:80], Y[:80]))
    kernel = model.kernel_
    assert model.partial_fit(X[80:99], Y[80:99]).kernel_ is kernel
    assert_same_model(model.partial_fit(X[99:100], Y[99:100]), IterGPRegressor().fit(X[:100], Y[:100]))


@pytest.mark.slow
def test_targets_that_begin_to_differ_late_are_not_learned_for_good_from_the_first_of_them():
    """A sensor that starts after 200 rows of zeros."""
    y = np.concatenate([np.zeros(200), Y[200:300] - 100.0])
    model = IterGPRegressor().partial_fit(X[:200], y[:200])
    for i in range(200, 300):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert_same_model(model, IterGPRegressor().fit(X, y))


def test_scaling_that_one_row_cannot_tell_is_sought_anew_without_learning_too():
    model = IterGPRegressor(learn=False, noise=0.1).partial_fit(X[:1], Y[:1]).partial_fit(X[1:50], Y[1:50])
    assert_same_model(model, IterGPRegressor(learn=False, noise=0.1).fit(X[:50], Y[:50]))


def test_several_targets_tell_something_where_one_of_them_does():
    X, Y = stream(200, targets=2)
    model = IterGPRegressor().partial_fit(X[:1], Y[:1])
    assert model.first_rows_ is not None
    _, std = model.partial_fit(X[1:], Y[1:]).predict(X[:5], return_std=True)
    np.testing.assert_allclose(std, IterGPRegressor().fit(X, Y).predict(X[:5], return_std=True)[1])


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1])
def test_a_target_of_equal_values_beside_another_keeps_some_noise(value):
    model = IterGPRegressor().fit(X, np.stack([Y, np.full(300, value)], axis=1))
    mean, std = model.predict(AT, return_std=True)
    np.testing.assert_allclose(mean[:, 1], value, atol=1e-6)
    assert (std[:, 1] > 1e-4).all()
    np.testing.assert_allclose(
        std[:, 0], IterGPRegressor().fit(X, Y).predict(AT, return_std=True)[1], rtol=0.3
    )


def test_the_first_rows_are_in_the_file_unless_it_is_for_predictions_only(tmp_path):
    model = IterGPRegressor().partial_fit(X[:5], Y[:5])
    model.save(tmp_path / "model.itergp")
    model.save(tmp_path / "small.itergp", refinable=False)
    loaded = IterGPRegressor.load(tmp_path / "model.itergp").partial_fit(X[5:150], Y[5:150])
    assert_same_model(loaded, model.partial_fit(X[5:150], Y[5:150]))
    assert json.dumps(float(X[3, 1])).encode() not in (tmp_path / "small.itergp").read_bytes()
    assert json.dumps(float(X[3, 1])).encode() in (tmp_path / "model.itergp").read_bytes()


def test_a_model_that_is_fitted_anew_keeps_its_manners(tmp_path):
    """Names of features, seconds so far, its checkpoint's folder; and errors change nothing."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = IterGPRegressor(checkpoint=tmp_path / "folder").partial_fit(frame[:1], Y[:1])
    before = model.timings_["total"]
    model.partial_fit(frame[1:150], Y[1:150])
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.timings_["total"] > before
    assert model.timings_["learn"] > 0


def test_a_report_does_not_say_learned_where_nothing_was(tmp_path):
    said = IterGPRegressor().fit(X[:20], np.full(20, 5.0)).report(tmp_path / "page.html")["hyperparameters"]
    assert all("not learned" in row["words"] for row in said)


@pytest.mark.parametrize(
    ("y", "rows"),
    [
        ([3.0], 0),
        ([3.0] * 9, 0),
        ([1.0, 2.0], 2),
        ([1.0, 2.0, 3.0], 2),
        ([0.0] * 9 + [1.0], 1),
        ([1e9, 1e9 + 1e-4], 0),
    ],
    ids=str,
)
def test_rows_that_tell_something(y, rows):
    assert telling(np.array(y), np.array(y)) == rows

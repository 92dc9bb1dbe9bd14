"""A target from which nothing can be learned takes no part in learning, and has the noise that it has
alone."""

import numpy as np
import pytest

from itergp import IterGPRegressor
from itergp.data.rows import merge_rows
from itergp.estimator.files import about, restored
from itergp.estimator.hyperparameters import START_NOISE
from itergp.fitted.first_rows import KEPT
from itergp.prior.parameters import parameters


def rows(n, seed, low=0.0, high=1.0):
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(low, high, (n, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(n)


AT = np.linspace(0, 1, 60)[:, None]


def assert_same_kernel(found, expected):
    """To rounding: the mean of a column is summed in another order than that of a vector."""
    for path, value in parameters(expected.kernel_).items():
        np.testing.assert_allclose(parameters(found.kernel_)[path], value, rtol=1e-9)


@pytest.mark.parametrize("constants", [(7.0,), (0.1,), (7.0, 1.0, 0.0)], ids=str)
@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"noise": 0.02}, {"mean": "linear"}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_a_target_beside_constant_ones_is_fitted_as_it_is_alone(constants, options, seed):
    X, y = rows(150, seed)
    alone = IterGPRegressor(**options).fit(X, y)
    model = IterGPRegressor(**options).fit(X, np.stack([*(np.full(150, c) for c in constants), y], axis=1))
    assert_same_kernel(model, alone)
    assert model.learning_.ended is alone.learning_.ended
    mean, std = model.predict(AT, return_std=True)
    expected = alone.predict(AT, return_std=True)
    np.testing.assert_allclose(mean[:, -1], expected[0], atol=1e-9)
    np.testing.assert_allclose(std[:, -1], expected[1], rtol=1e-9)
    np.testing.assert_allclose(mean[:, :-1], np.broadcast_to(constants, (60, len(constants))), atol=1e-9)
    if "noise" not in options:
        np.testing.assert_allclose(model.noise_, [*[START_NOISE] * len(constants), alone.noise_], rtol=1e-9)


@pytest.mark.parametrize("noise", ["learn", 0.05, [0.1, 0.05, 0.02]], ids=str)
@pytest.mark.parametrize("merge", [True, False])
def test_two_targets_beside_a_constant_one_are_fitted_as_they_are_without_it(noise, merge):
    """Each has its own deviations where rows are merged."""
    X, y = rows(120, 0)
    X, y = np.concatenate([X, X[:40]]), np.concatenate([y, rows(40, 1)[1]])
    both = np.stack([y, np.cos(5 * X[:, 0]) + 0.3 * rows(160, 2)[1]], axis=1)
    Y = np.stack([both[:, 0], np.full(160, -3.0), both[:, 1]], axis=1)
    model = IterGPRegressor(noise=noise, merge_duplicates=merge).fit(X, Y)
    without = IterGPRegressor(
        noise=noise[::2] if isinstance(noise, list) else noise, merge_duplicates=merge
    ).fit(X, both)
    assert_same_kernel(model, without)
    if noise == "learn":
        np.testing.assert_allclose(np.asarray(model.noise_)[[0, 2]], without.noise_, rtol=1e-9)
    np.testing.assert_allclose(model.predict(AT)[:, [0, 2]], without.predict(AT), atol=1e-9)


def test_a_report_says_which_noise_was_not_learned(tmp_path):
    X, y = rows(120, 0)
    model = IterGPRegressor().fit(X, np.stack([y, np.full(120, 7.0)], axis=1))
    said = {row["name"]: row["words"] for row in model.report(tmp_path / "page.html")["hyperparameters"]}
    assert "not learned" in said["noise[1]"]
    assert "not learned" not in said["noise[0]"]


# Streams.


def two_targets(n, seed, low, high):
    """The second begins to vary at x = 1."""
    X, y = rows(n, seed, low, high)
    varying = np.sin(3 * (X[:, 0] - 1)) + 0.5 * np.random.default_rng(seed).standard_normal(n)
    return X, np.stack([y, np.where(X[:, 0] < 1, 7.0, 7.0 + varying)], axis=1)


def assert_same_model(found, expected, X, **close):
    assert_same_kernel(found, expected)
    np.testing.assert_allclose(found.noise_, expected.noise_, **(close or {"rtol": 1e-9}))
    np.testing.assert_allclose(
        found.predict(X, return_std=True), expected.predict(X, return_std=True), rtol=1e-6, atol=1e-9
    )


def test_a_target_that_is_constant_at_first_is_learned_once_it_varies():
    """Though the target beside it told enough before."""
    (X1, Y1), (X2, Y2) = two_targets(150, 0, 0, 1), two_targets(150, 1, 1, 3)
    model = IterGPRegressor().partial_fit(X1, Y1)
    assert model.noise_[1] == START_NOISE
    model.partial_fit(X2, Y2)
    X, Y = np.concatenate([X1, X2]), np.concatenate([Y1, Y2])
    assert_same_model(model, IterGPRegressor().fit(X, Y), X)
    assert model.first_rows_ is None


@pytest.mark.parametrize("learn", ["auto", False])
def test_each_target_is_fitted_anew_when_its_own_rows_have_doubled(learn):
    """A sensor that starts after 120 rows, beside one that runs: its scaling is sought with its first row,
    its noise longer."""
    X, y = rows(240, 0)
    late = np.where(np.arange(240) < 120, 7.0, 7.0 + 100 * y[::-1])
    Y, how = np.stack([y, late], axis=1), {"learn": learn, "noise": "learn" if learn else 0.1}
    model, fits = IterGPRegressor(**how).partial_fit(X[:120], Y[:120]), []
    for i in range(120, 240):
        scaling = model.scaling_
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
        fits += [] if model.scaling_ is scaling else [i - 119]
    assert fits == ([1, 2, 4, 8, 16, 32, 64, 100] if learn else [1])
    assert model.first_rows_ is None


# Inputs that begin to vary.


@pytest.mark.parametrize("unit", [1.0, 1e4])
@pytest.mark.parametrize("learn", ["auto", False])
def test_a_feature_that_was_constant_is_learned_once_it_varies(unit, learn):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (400, 2)) * [1.0, unit]
    y = np.sin(3 * X[:, 0]) + 3 * np.sin(3 * X[:, 1] / unit) + 0.1 * rng.standard_normal(400)
    X[:150, 1] = 0.0
    how = {"learn": learn, "noise": "learn" if learn else 0.1}
    model = IterGPRegressor(**how).partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    assert_same_model(model, IterGPRegressor(**how).fit(X, y), X[:50])
    assert model.first_rows_ is None


def test_one_input_first_and_others_later_end_with_intervals_that_hold():
    """95 % give or take 5, row by row: a kernel that never saw x vary is not kept, nor one that saw it in
    a few rows."""
    rng = np.random.default_rng(0)
    X = np.concatenate([np.full((120, 1), 1.5), rng.uniform(0, 3, (1100, 1))])
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    model, fits = IterGPRegressor().partial_fit(X[:120], y[:120]), []
    for i in range(120, 240):
        kernel = model.kernel_
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        fits += [] if model.kernel_ is kernel else [i - 119]
    assert fits[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert len(fits) == 8
    assert model.first_rows_ is None
    low, high = model.interval(X[240:])
    assert 0.9 < ((low < y[240:]) & (y[240:] < high)).mean() <= 1.0


def test_a_column_that_never_varies_changes_nothing():
    X, y = rows(300, 0)
    X = np.column_stack([X, np.full(300, 4.0)])
    model = IterGPRegressor().partial_fit(X[:120], y[:120])
    kernel = model.kernel_
    assert model.partial_fit(X[120:], y[120:]).kernel_ is kernel


# Not more rows than are needed.


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("targets", [1, 2])
# the optimiser ends at about the same place
@pytest.mark.parametrize(("learn", "close"), [(False, 1e-9), ("auto", 1e-3)])
def test_beyond_a_bound_the_only_copy_of_the_rows_is_the_models_own(
    merge, targets, learn, close, tmp_path, monkeypatch
):
    """A sensor that starts after 150 equal values, with repeated inputs: learned from as `fit` would, and
    in a file too."""
    monkeypatch.setattr("itergp.fitted.first_rows.KEPT", 100)
    rng = np.random.default_rng(0)
    X = rng.uniform(40, 60, (280, 2))
    X[50:100] = X[:50]
    Y = (
        3.0
        + np.stack([np.sin(0.2 * X.sum(axis=1)), np.cos(0.3 * X[:, 0])], axis=1)
        + 0.1 * rng.standard_normal((280, 2))
    )
    Y[:150, 0] = 3.0
    Y = Y[:, 0] if targets == 1 else Y
    how = {"merge_duplicates": merge, "learn": learn, "noise": "learn" if learn else 0.1}
    model = IterGPRegressor(**how)
    for i in range(0, 150, 50):
        model.partial_fit(X[i : i + 50], Y[i : i + 50])
        assert (model.first_rows_.X is None) == (i + 50 > 100)
    model.save(tmp_path / "model.itergp")
    expected = IterGPRegressor(**how).fit(X, Y)
    for one in (model, IterGPRegressor.load(tmp_path / "model.itergp")):
        one.partial_fit(X[150:], Y[150:])
        np.testing.assert_allclose(one.scaling_.y_scale, expected.scaling_.y_scale, rtol=1e-9)
        np.testing.assert_array_equal(one.row_counts_, expected.row_counts_)
        np.testing.assert_allclose(one.scatter_, expected.scatter_, rtol=1e-9)
        np.testing.assert_allclose(one.noise_, expected.noise_, rtol=close)
        np.testing.assert_allclose(
            one.predict(X, return_std=True), expected.predict(X, return_std=True), rtol=close
        )


def test_a_stream_of_zeros_keeps_a_bounded_number_of_rows():
    X = np.random.default_rng(0).uniform(0, 3, (3 * KEPT // 2, 1))
    model = IterGPRegressor(budget="5 actions", neighbours=0)
    for i in range(0, len(X), 250):
        model.partial_fit(X[i : i + 250], np.zeros(250))
        assert model.first_rows_.X is None or len(model.first_rows_.X) <= KEPT
    assert model.first_rows_.X is None


@pytest.mark.parametrize("targets", [(), (3,)])
def test_observations_merge_into_what_they_came_from(targets):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, (60, 2)).astype(float), rng.standard_normal((60, *targets))
    merged = merge_rows(np.concatenate([X, [[9.0, 9.0]]]), np.concatenate([y, np.ones((1, *targets))]))
    again = merge_rows(*merged.observations())
    np.testing.assert_array_equal(again.X, merged.X)
    np.testing.assert_array_equal(again.counts, merged.counts)
    np.testing.assert_allclose(again.y, merged.y, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(again.scatter, merged.scatter, rtol=1e-12)


@pytest.mark.parametrize("targets", [1, 2])
def test_files_that_have_one_count_for_all_targets_are_still_read(targets):
    X, y = rows(40, 0)
    y = y if targets == 1 else np.stack([y, np.full(40, 7.0)], axis=1)
    model = IterGPRegressor().fit(X[:20], y[:20])
    said = about(model.fit_)
    said["first_rows"] = {"X": X[:20].tolist(), "y": y[:20].tolist(), "fitted": 20, "told": True}
    first = restored(model.posterior_, said, model.get_params()).first_rows
    np.testing.assert_array_equal(first.X, X[:20])
    assert not first.joined(X[20:39], y[20:39], model.fit_.observations).due
    assert first.joined(X[20:40], y[20:40], model.fit_.observations).due

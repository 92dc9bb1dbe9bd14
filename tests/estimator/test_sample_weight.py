"""A row of weight w has the noise variance noise / w: in the posterior, in learning, in streams and files."""

import numpy as np
import pytest
import sklearn
from hypothesis import given as over, settings, strategies as st
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import make_data
from itergp import InputError, IterGPRegressor, Matern32

DATA = make_data(60)
AT, KERNEL, NOISE = DATA.X_new, 1.3 * Matern32(0.6), 0.05
WEIGHTS = np.random.default_rng(3).uniform(0.2, 4.0, 60)


def given(**parameters):
    """Nothing to learn, nothing scaled."""
    fixed = {"kernel": KERNEL, "noise": NOISE, "learn": False, "normalize": False, "mean": "zero"}
    return IterGPRegressor(**fixed | parameters)


def dense(X, y, weights, include_noise=True):
    """Mean and standard deviation by NumPy: K + diag(noise / weights)."""
    K_hat, k = KERNEL(X, X) + np.diag(NOISE / weights), KERNEL(X, AT)
    variance = KERNEL.diagonal(AT) - np.sum(k * np.linalg.solve(K_hat, k), axis=0)
    return k.T @ np.linalg.solve(K_hat, y), np.sqrt(variance + include_noise * NOISE)


def assert_same(model, expected, tolerance=1e-10):
    for found, one in zip(model.predict(AT, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=0, atol=tolerance)


@pytest.mark.parametrize("merge", [True, False])
def test_predictions_are_those_of_a_dense_gp_with_noise_over_weight(merge):
    X, y = np.concatenate([DATA.X, DATA.X[:20]]), np.concatenate([DATA.y, DATA.y[:20] + 0.3])
    weights = np.concatenate([WEIGHTS, WEIGHTS[20:40]])
    model = given(merge_duplicates=merge).fit(X, y, sample_weight=weights)
    assert_same(model, dense(X, y, weights))
    assert model.posterior_.problem.n == (60 if merge else 80)


@settings(max_examples=20, deadline=None)
@over(st.integers(0, 10**6), st.booleans())
def test_a_weight_of_k_is_k_repeats(seed, merge):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 5, 60)
    weights[0] = 1
    repeated = rng.permutation(np.repeat(np.arange(60), weights))
    model = given(merge_duplicates=merge).fit(DATA.X, DATA.y, sample_weight=weights)
    other = given(merge_duplicates=merge).fit(DATA.X[repeated], DATA.y[repeated])
    assert_same(model, other.predict(AT, return_std=True))


def test_rows_of_weight_zero_are_as_rows_that_were_never_there_to_the_bit():
    weights = np.where(np.arange(60) % 3, WEIGHTS, 0.0)
    kept = weights > 0
    model = IterGPRegressor("matern32").fit(DATA.X, DATA.y, sample_weight=weights)
    other = IterGPRegressor("matern32").fit(DATA.X[kept], DATA.y[kept], sample_weight=weights[kept])
    assert_same(model, other.predict(AT, return_std=True), tolerance=0)


def test_weights_of_one_are_no_weights_to_the_bit():
    for ones in (np.ones(60), 1, [1] * 60):
        model = IterGPRegressor("matern32").fit(DATA.X, DATA.y, sample_weight=ones)
        other = IterGPRegressor("matern32").fit(DATA.X, DATA.y)
        assert_same(model, other.predict(AT, return_std=True), tolerance=0)


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize("factor", [1e-4, 1e6])
def test_weights_in_another_unit_give_the_same_function_and_a_noise_in_that_unit(factor, targets):
    y = make_data(60, targets=targets).y
    one, other = (
        IterGPRegressor("matern32").fit(DATA.X, y, sample_weight=unit * WEIGHTS) for unit in (1.0, factor)
    )
    np.testing.assert_allclose(other.noise_, factor * np.asarray(one.noise_), rtol=1e-4)
    for found, expected in zip(
        *(model.predict(AT, return_std=True, include_noise=False) for model in (other, one)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_learning_finds_the_noise_of_weight_one_where_weights_are_true():
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (600, 1))
    weights = rng.choice([0.2, 1.0, 25.0], 600)
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(600) / np.sqrt(weights)
    model = IterGPRegressor("matern52", normalize=False).fit(X, y, sample_weight=weights)
    assert 0.27**2 < model.noise_ < 0.33**2
    at = np.linspace(-1.9, 1.9, 50)[:, None]
    errors = [
        np.sqrt(np.mean((fitted.predict(at) - np.sin(2 * at[:, 0])) ** 2))
        for fitted in (model, IterGPRegressor("matern52", normalize=False).fit(X, y))
    ]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("merge", [True, False])
def test_rows_that_come_later_count_with_their_weights(merge):
    X, y = np.concatenate([DATA.X, DATA.X[:20]]), np.concatenate([DATA.y, DATA.y[:20] + 0.3])
    weights = np.concatenate([np.ones(30), WEIGHTS[30:], WEIGHTS[:20]])
    weights[35] = 0.0
    model = given(merge_duplicates=merge).fit(X[:30], y[:30])
    model.partial_fit(X[30:50], y[30:50], sample_weight=weights[30:50])
    model.partial_fit(X[50:], y[50:], sample_weight=weights[50:])
    kept = weights > 0
    assert_same(model, dense(X[kept], y[kept], weights[kept]), 1e-9)


def test_a_stream_of_few_rows_learns_with_its_weights():
    whole = IterGPRegressor("matern32").fit(DATA.X, DATA.y, sample_weight=WEIGHTS)
    stream = IterGPRegressor("matern32")
    for rows in (slice(0, 7), slice(7, 30), slice(30, 60)):
        stream.partial_fit(DATA.X[rows], DATA.y[rows], sample_weight=WEIGHTS[rows])
    assert_same(stream, whole.predict(AT, return_std=True), tolerance=0)


@pytest.mark.parametrize("refinable", [True, False])
def test_a_file_keeps_the_weights(tmp_path, refinable):
    model = IterGPRegressor("matern32").fit(DATA.X, DATA.y, sample_weight=WEIGHTS)
    model.save(tmp_path / "model.itergp", refinable)
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    assert_same(loaded, model.predict(AT, return_std=True), tolerance=0)
    np.testing.assert_array_equal(loaded.row_weights_, WEIGHTS)
    if refinable:
        for one in (model, loaded):
            one.partial_fit(AT[:5], np.zeros(5), sample_weight=np.full(5, 3.0))
        assert_same(loaded, model.predict(AT, return_std=True), tolerance=0)


def test_several_targets_share_the_weights():
    data = make_data(60, targets=2)
    model = given(noise=[0.05, 0.2]).fit(data.X, data.y, sample_weight=WEIGHTS)
    alone = [
        given(noise=noise).fit(data.X, data.y[:, j], sample_weight=WEIGHTS)
        for j, noise in enumerate([0.05, 0.2])
    ]
    expected = [
        np.stack(part, axis=-1) for part in zip(*(one.predict(AT, True) for one in alone), strict=True)
    ]
    assert_same(model, expected)


def test_weights_are_routed_to_fit_and_to_score():
    with sklearn.config_context(enable_metadata_routing=True):
        model = given().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipe.fit(DATA.X, DATA.y, sample_weight=WEIGHTS)
        np.testing.assert_array_equal(pipe[-1].row_weights_, WEIGHTS)
        scores = cross_val_score(pipe, DATA.X, DATA.y, params={"sample_weight": WEIGHTS}, cv=3)
        plain = cross_val_score(pipe, DATA.X, DATA.y, cv=3)
    assert (scores != plain).all()
    R2 = model.fit(DATA.X, DATA.y).score(AT, np.arange(len(AT)), sample_weight=np.ones(len(AT)))
    assert model.score(AT, np.arange(len(AT))) == R2


BAD = {
    "negative": (np.where(np.arange(60) == 7, -1.0, 1.0), r"sample_weight has 1 .*row 7 \(-1.0\).*>= 0"),
    "NaN": (np.where(np.arange(60) == 7, np.nan, 1.0), r"sample_weight has 1 .*row 7 \(nan\)"),
    "infinite": (np.full(60, np.inf), "sample_weight has 60 values"),
    "all zero": (np.zeros(60), "sample_weight is zero for all rows"),
    "a zero": (0, "sample_weight is zero for all rows"),
    "too few": (np.ones(59), r"sample_weight has shape \(59,\); expected \(60,\)"),
    "two columns": (np.ones((60, 2)), r"sample_weight has shape \(60, 2\)"),
    "text": (["1"] * 60, "sample_weight holds text"),
    "a word": ("balanced", "sample_weight is a str"),
    "ragged": ([[1.0], [1.0, 2.0]] * 30, "sample_weight cannot be read"),
    "complex": (np.ones(60) * 1j, "sample_weight"),
    "tiny": (np.where(np.arange(60) == 7, 1e-200, 1.0), "sample_weight reaches from 1e-200 to 1"),
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("weights", "words"), BAD.values(), ids=BAD)
def test_bad_weights_end_in_one_clear_message_and_leave_the_model_unchanged(weights, words):
    model = given().fit(DATA.X, DATA.y)
    before = model.predict(AT, return_std=True)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(InputError, match=words):
            call(DATA.X, DATA.y, sample_weight=weights)
    assert_same(model, before, tolerance=0)

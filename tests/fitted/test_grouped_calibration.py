"""Groups, weights and repeated inputs together: what is held out is what the user said, and scores are those
of dense refits without it."""

import numpy as np
import pytest

from itergp import InputError, IterGPRegressor, Matern32
from itergp.data.rows import merge_rows
from itergp.fitted import observed
from itergp.fitted.first_rows import ENOUGH, KEPT
from itergp.storage import files

pytestmark = pytest.mark.filterwarnings("ignore:groups were given:itergp.errors.LearningWarning")
NOISE, N = 0.05, 60
RNG = np.random.default_rng(17)
PLACES = RNG.uniform(-1, 1, (20, 2))
X = PLACES[RNG.integers(0, 20, N)]  # most places more than once
Y = np.sin(3 * X[:, 0]) + 0.3 * RNG.standard_normal(N)
GROUPS = RNG.permutation(np.arange(N) % 9)
WEIGHTS = 10.0 ** RNG.uniform(-1.5, 1.5, N)
KERNEL = 1.5 * Matern32([0.6, 1.1])


def model(**more):
    fixed = {"kernel": KERNEL, "noise": NOISE, "learn": False, "normalize": False, "mean": "zero"}
    return IterGPRegressor(**fixed | more)


def streamed(rows, each, **more):
    """A model that learns: two groups of three rows first, then so many for each call of partial_fit."""
    rng = np.random.default_rng(rows)
    x = rng.uniform(-1, 1, (rows, 1))
    y = np.sin(4 * x[:, 0]) + 0.2 * rng.standard_normal(rows)
    fitted = IterGPRegressor(budget="20 actions", **more).fit(x[:6], y[:6], groups=np.arange(6) % 2)
    for start in range(6, rows, each):
        fitted.partial_fit(x[start : start + each], y[start : start + each])
    return fitted


def edited(path, change):
    """The file, with something else about the fit in it."""
    value, tensors, _ = files.read(path, "model")
    tensors = {name: array.copy() for name, array in tensors.items()}
    change(value["about"])
    files.write(path, "model", value, tensors)


def dense_scores(x, y, weights, unit):
    """The error of each row from those of other units, in its standard deviations, by dense algebra."""
    scores = np.empty(len(y))
    for u in np.unique(unit):
        out = unit == u
        A = np.asarray(KERNEL(x[~out], x[~out])) + np.diag(NOISE / weights[~out])
        k = np.asarray(KERNEL(x[~out], x[out]))
        a = np.linalg.solve(A, k)
        scores[out] = (y[out] - a.T @ y[~out]) / np.sqrt(1.5 - (a * k).sum(axis=0) + NOISE / weights[out])
    return np.sort(scores)


def agree(found, expected, units):
    np.testing.assert_allclose(found.scores, expected, rtol=1e-9, atol=1e-9)
    assert found.units == units


# Groups at the same places.


@pytest.mark.parametrize("merge", [True, False])
def test_groups_that_share_inputs_are_held_out_each_with_all_of_its_observations(merge):
    fitted = model(merge_duplicates=merge).fit(X, Y, groups=GROUPS)
    agree(fitted.calibration_, dense_scores(X, Y, np.ones(N), GROUPS), 9)
    whole = model().fit(X, Y)  # the posterior is the same
    np.testing.assert_allclose(fitted.predict(PLACES), whole.predict(PLACES), rtol=1e-9)


def test_on_a_grid_that_all_groups_share_each_of_them_is_a_unit():
    x, groups = np.tile(np.linspace(0, 1, 5), 12)[:, None], np.repeat(np.arange(12), 5)
    y = np.sin(6 * x[:, 0]) + np.random.default_rng(3).standard_normal(12)[groups]
    assert model(kernel=Matern32(0.5)).fit(x, y, groups=groups).calibration_.units == 12


@pytest.mark.parametrize("merge", [True, False])
def test_rows_added_at_the_places_of_groups_are_a_group_of_their_own(merge):
    fitted = model(merge_duplicates=merge).fit(X[:40], Y[:40], groups=GROUPS[:40])
    fitted.partial_fit(X[40:], Y[40:]).partial_fit(X[:7], Y[:7] + 0.1)
    x, y = np.concatenate([X, X[:7]]), np.concatenate([Y, Y[:7] + 0.1])
    unit = np.concatenate([GROUPS[:40], np.full(20, 9), np.full(7, 10)])
    agree(fitted.calibration_, dense_scores(x, y, np.ones(67), unit), 11)


def test_each_group_is_in_the_sample_before_any_has_more(monkeypatch):
    monkeypatch.setattr(observed, "MOST", 12)
    sample = model().fit(X, Y, groups=GROUPS).fit_.observed.sample
    groups = model().fit(X, Y, groups=GROUPS).fit_.observed.groups
    assert sorted(np.bincount(groups[sample.rows])) == [1] * 6 + [2] * 3


def test_copies_of_a_record_within_a_group_still_count_once():
    x, y = np.concatenate([X[:30], X[:10]]), np.concatenate([Y[:30], Y[:10]])
    groups = np.concatenate([np.arange(30), np.arange(10)])
    rows = merge_rows(x, y, None, groups)
    assert rows.copied.sum() == 10
    np.testing.assert_array_equal(rows.to_learn_from().counts, 1)


# Groups in a stream.


@pytest.mark.parametrize("merge", [True, False])
def test_groups_are_kept_while_first_rows_are_fitted_again(merge):
    fitted = streamed(ENOUGH + 14, 18, merge_duplicates=merge)
    assert fitted.fit_.first_rows is None  # it was fitted again, for good
    expected = np.concatenate([np.arange(6) % 2, 2 + np.arange(ENOUGH + 8) // 18])
    np.testing.assert_array_equal(fitted.fit_.observed.groups, expected)
    assert (fitted.calibration_.units, fitted.calibration_.grouped) == (8, True)


def test_groups_are_kept_where_the_model_has_the_only_copy_of_the_rows():
    rng, rows = np.random.default_rng(0), KEPT + 100
    x, y = rng.uniform(-1, 1, (rows, 1)), np.zeros(rows)
    x[5], x[7] = x[0], x[0]  # another group, and the same
    groups = np.arange(rows) % 7
    fitted = IterGPRegressor("matern52", budget="5 actions").fit(x, y, groups=groups)
    assert fitted.fit_.first_rows.X is None
    fitted.partial_fit(rng.uniform(-1, 1, (9, 1)), rng.standard_normal(9))
    kept = fitted.fit_.observed.groups
    np.testing.assert_array_equal(np.bincount(kept), [*np.bincount(groups) - (np.arange(7) == 0), 9])


def test_blocks_of_first_rows_stay_and_later_rows_are_one_more_group():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (90, 2))
    x[1] = x[0]
    fitted = IterGPRegressor("matern52").fit(x[:40], np.sin(x[:40, 0]), groups="blocks")
    before = fitted.calibration_.units
    fitted.partial_fit(x[40:], np.sin(x[40:, 0]))
    assert fitted.calibration_.units == before + 1


@pytest.mark.parametrize("early", [False, True])
def test_a_loaded_model_keeps_the_groups_of_its_first_rows(tmp_path, early):
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-1, 1, (40, 1)), rng.standard_normal(40)
    IterGPRegressor("matern52").fit(x[:15], y[:15], groups=np.arange(15) % 5).save(tmp_path / "a.itergp")
    if early:  # before first rows had groups
        edited(tmp_path / "a.itergp", lambda about: about["first_rows"].pop("groups"))
    loaded = IterGPRegressor.load(tmp_path / "a.itergp").partial_fit(x[15:], y[15:])
    np.testing.assert_array_equal(
        loaded.fit_.observed.groups, np.concatenate([np.arange(15) % 5, np.full(25, 5)])
    )


# Weights at repeated inputs.


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weights", [WEIGHTS, np.full(N, 2.0)], ids=["different", "equal"])
def test_a_score_of_a_weighted_observation_is_in_units_of_its_own_noise(merge, grouped, weights):
    fitted = model(merge_duplicates=merge).fit(X, Y, GROUPS if grouped else None, sample_weight=weights)
    unit = GROUPS if grouped else np.arange(N)
    agree(fitted.calibration_, dense_scores(X, Y, weights, unit), 9 if grouped else N)


@pytest.mark.parametrize("weighted", ["both", "before", "after"])
@pytest.mark.parametrize("repeated", [False, True])
def test_weighted_observations_added_later_are_scored_as_if_they_had_been_there(weighted, repeated):
    x = X[:45] if repeated else np.concatenate([PLACES, X[:25]])  # at first: some places twice, or none
    y, w, first, later = Y[:45], WEIGHTS[:45].copy(), slice(20), slice(20, None)
    if weighted != "both":
        w[later if weighted == "before" else first] = 1.0
    fitted = model()
    for part in (first, later):
        fitted.partial_fit(x[part], y[part], sample_weight=w[part])
    agree(fitted.calibration_, dense_scores(x, y, w, np.arange(45)), 45)


def test_an_observation_that_outweighs_all_others_at_its_place_is_scored_without_them():
    w = np.where(np.arange(N) % 3 == 0, 1e10, 1e-10)
    found = model().fit(X, Y, sample_weight=w).calibration_
    assert np.isfinite(found.scores).all()
    assert found.units == N


def test_each_target_has_its_own_scores_of_weighted_observations():
    both = np.stack([Y, -2 * Y + X[:, 0]], axis=1)
    found = model(noise=[NOISE, 3 * NOISE]).fit(X, both, sample_weight=WEIGHTS).calibration_
    np.testing.assert_allclose(
        found.scores[:, 0], dense_scores(X, Y, WEIGHTS, np.arange(N)), rtol=1e-9, atol=1e-9
    )
    other = dense_scores(X, both[:, 1], WEIGHTS / 3, np.arange(N))
    np.testing.assert_allclose(found.scores[:, 1], other, rtol=1e-9, atol=1e-9)


def test_observations_of_noise_that_varies_are_kept_when_more_come():
    rng = np.random.default_rng(5)
    x = np.linspace(-1, 1, 120)[rng.integers(0, 120, 420)][:, None]
    y = np.sin(3 * x[:, 0]) + 0.05 * 10 ** (x[:, 0] + 1) * rng.standard_normal(420)
    fitted = IterGPRegressor("matern52", noise="heteroscedastic", random_state=0).fit(x[:390], y[:390])
    g = fitted.fit_.noise_function
    assert g is not None
    assert fitted.calibration_.units == 390
    assert fitted.partial_fit(x[390:], y[390:]).calibration_.units == 420
    inputs = fitted.fit_.scaling.inputs(x)
    oracle = model(kernel=fitted.fit_.kernel, noise=float(fitted.fit_.noise), merge_duplicates=False)
    prior = fitted.fit_.posterior.problem.prior
    rest = fitted.fit_.scaling.targets(y) - prior.mean(inputs)
    apart = oracle.fit(inputs, rest, sample_weight=1 / g(inputs)).calibration_
    np.testing.assert_allclose(fitted.calibration_.scores, apart.scores, rtol=1e-6, atol=1e-6)


def test_weights_of_observations_are_saved_and_early_files_have_none(tmp_path):
    fitted = model().fit(X, Y, sample_weight=WEIGHTS)
    fitted.save(tmp_path / "a.itergp")
    loaded = IterGPRegressor.load(tmp_path / "a.itergp")
    np.testing.assert_array_equal(loaded.calibration_.scores, fitted.calibration_.scores)
    even = model().fit(X, Y)
    even.save(tmp_path / "b.itergp")
    edited(tmp_path / "b.itergp", lambda about: about["observed"]["sample"].pop("weights"))
    loaded = IterGPRegressor.load(tmp_path / "b.itergp")
    np.testing.assert_array_equal(loaded.calibration_.scores, even.calibration_.scores)
    edited(tmp_path / "a.itergp", lambda about: about["observed"].update(sample=None))
    loaded = IterGPRegressor.load(tmp_path / "a.itergp").partial_fit(X[:5], Y[:5])
    assert loaded.calibration_.units == loaded.fit_.posterior.problem.n  # rows as they are


# Bad input.


@pytest.mark.parametrize("weights", [np.full(N, 1.0 + 0j), [1.0 + 2j] * N, np.full(N, 1, dtype=np.complex64)])
def test_complex_weights_are_refused_by_their_dtype(weights):
    with pytest.raises(InputError, match=r"sample_weight has the dtype complex\d+; expected real numbers"):
        model().fit(X, Y, sample_weight=weights)


def test_weights_of_zero_that_leave_one_group_are_refused_as_one_group_is():
    alone = (GROUPS[0] == GROUPS).astype(float)
    with pytest.raises(InputError, match=r"groups has one group.*at least two.*Leave it out"):
        model().fit(X, Y, GROUPS, sample_weight=alone)
    assert (
        model().fit(X, Y, GROUPS, sample_weight=alone + (1 + GROUPS[0] % 8 == GROUPS)).calibration_.units == 2
    )

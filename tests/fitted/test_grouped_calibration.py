"""Groups, weights and repeated inputs together: what is held out is what the user said, and scores are those
of dense refits without it."""

import numpy as np
import pytest

from itergp import IterGPRegressor, Matern32
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

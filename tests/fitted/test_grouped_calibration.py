"""Groups, weights and repeated inputs together: what is held out is what the user said, and scores are those of
dense refits without it."""

import numpy as np
import pytest

from itergp import InputError, IterGPRegressor, Matern32
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
    """A model that learns, with two groups of three rows first, then calls of partial_fit with so many rows."""
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
    x[5] = x[0]
    groups = np.arange(rows) % 7
    fitted = IterGPRegressor("matern52", budget="5 actions").fit(x, y, groups=groups)
    assert fitted.fit_.first_rows.X is None
    fitted.partial_fit(rng.uniform(-1, 1, (9, 1)), rng.standard_normal(9))
    kept = fitted.fit_.observed.groups
    np.testing.assert_array_equal(np.bincount(kept)[:7] >= np.bincount(groups) - 1, True)
    assert (kept == 7).sum() == 9


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

"""scikit-learn manners: its own checks, data frames, pipelines, searches, clones, copies in other
processes, callbacks."""

import copy
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from helpers import make_data
from itergp import InputError, IterGPRegressor, Matern32, Status
from itergp.estimator.files import DEFAULTS

DATA = make_data(60)
AT = DATA.X_new


def given(**parameters):
    """Nothing to learn: quick."""
    return IterGPRegressor(**{"noise": 0.05, "learn": False} | parameters)


REPEATS = "check_sample_weight_equivalence_on_dense_data"
LEARNED = "Repeated rows are records that agree, and say so about the noise; a weight is a known precision."
FEW = "Five random actions are other ones where rows come in another order."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "excused"),
    [
        (IterGPRegressor(), {REPEATS: LEARNED}),
        (given(budget="5 actions", neighbours=3), {REPEATS: FEW}),
        (given(normalize=False, mean="linear", merge_duplicates=False, policy="block-krylov"), {}),
    ],
    ids=["default", "local", "plain"],
)
def test_every_check_of_scikit_learn_passes(estimator, excused):
    """But one: that weights are repeats, which is so where nothing is learned and all rows are acted on."""
    results = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=excused)
    for result in results:
        expected = ("passed", "skipped") if result["check_name"] == "check_array_api_input" else ("passed",)
        expected = ("xfail",) if result["check_name"] in excused else expected
        assert result["status"] in expected, f"{result['check_name']}: {result['exception']!r}"
    assert {result["check_name"] for result in results if result["expected_to_fail"]} == set(excused)


def test_nothing_is_excused():
    tags = given().__sklearn_tags__()
    assert not tags.regressor_tags.poor_score
    assert not tags._skip_test
    assert not tags.non_deterministic
    assert tags.target_tags.multi_output


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_come_in_with_their_names_and_arrays_go_out(frame):
    X = frame({"width": DATA.X[:, 0], "height": DATA.X[:, 1]})
    y = pd.Series(DATA.y) if frame is pd.DataFrame else pl.Series(DATA.y)
    model = given().fit(X, y)
    np.testing.assert_array_equal(model.feature_names_in_, ["width", "height"])
    new = frame({"width": AT[:, 0], "height": AT[:, 1]})
    mean, std = model.predict(new, return_std=True)
    reference = given().fit(DATA.X, DATA.y).predict(AT, return_std=True)
    assert type(mean) is type(std) is np.ndarray
    np.testing.assert_array_equal(mean, reference[0])
    np.testing.assert_array_equal(std, reference[1])
    with pytest.raises(InputError, match="feature names should match"):
        model.predict(frame({"width": AT[:, 0], "depth": AT[:, 1]}))
    with pytest.raises(InputError, match="feature names should match"):
        model.partial_fit(frame({"height": AT[:, 0], "width": AT[:, 1]}), AT[:, 0])
    several = frame({"a": DATA.y, "b": 2 * DATA.y})
    assert given().fit(X, several).predict(new).shape == (12, 2)


def test_integers_booleans_and_nullable_columns_are_numbers():
    X = pd.DataFrame(
        {
            "whole": np.arange(60),
            "flag": np.arange(60) % 2 == 0,
            "maybe": pd.array(np.arange(60), dtype="Int64"),
        }
    )
    assert given().fit(X, np.arange(60)).score(X, np.arange(60)) > 0.9


def test_it_is_the_end_of_a_pipeline():
    X = pd.DataFrame({"x": DATA.X[:, 0], "kind": np.where(DATA.X[:, 1] > 0, "a", "b")})
    columns = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder=StandardScaler())
    pipeline = make_pipeline(columns, given()).fit(X, DATA.y)
    assert pipeline.score(X, DATA.y) > 0.3
    mean, std = pipeline.predict(X, return_std=True)
    assert mean.shape == std.shape == (60,)


@pytest.mark.slow
def test_grid_search_with_two_workers_finds_what_one_finds():
    grid = {"noise": [0.01, 1.0], "kernel": ["rbf", 1.0 * Matern32(0.3)]}
    searches = [GridSearchCV(given(), grid, cv=3, n_jobs=jobs).fit(DATA.X, DATA.y) for jobs in (1, 2)]
    assert searches[0].best_params_ == searches[1].best_params_
    np.testing.assert_allclose(
        searches[1].cv_results_["mean_test_score"], searches[0].cv_results_["mean_test_score"], rtol=1e-9
    )
    np.testing.assert_allclose(searches[1].predict(AT), searches[0].predict(AT), rtol=1e-9)


def test_clones_have_the_parameters_and_nothing_else():
    model = given(kernel=1.0 * Matern32([0.3, 0.5]), budget="7 actions").fit(DATA.X, DATA.y)
    fresh = clone(model)
    assert not hasattr(fresh, "posterior_")
    assert fresh.budget == "7 actions"
    np.testing.assert_array_equal(fresh.fit(DATA.X, DATA.y).predict(AT), model.predict(AT))


@pytest.mark.parametrize("n", [60, 3000], ids=["numpy", "native"])
@pytest.mark.parametrize(
    "there_and_back", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy], ids=["pickle", "deepcopy"]
)
def test_copies_predict_and_go_on_to_the_same_bits(there_and_back, n):
    data = make_data(n)
    model = given(budget="9 actions", policy="block-krylov").fit(data.X, data.y)
    twin = there_and_back(model)
    np.testing.assert_array_equal(twin.predict(AT), model.predict(AT))
    np.testing.assert_array_equal(twin.refine("5 actions").predict(AT), model.refine("5 actions").predict(AT))
    assert twin.posterior_.rank == 14


def test_copies_leave_stored_tiles_behind():
    data = make_data(3000)
    model = given(budget="9 actions", policy="cg").fit(data.X, data.y)
    assert model.posterior_.problem.gram.cache.bytes > 3e7
    assert len(pickle.dumps(model)) < 4e6  # 64 columns of Q and of K Q


def test_joblib_sends_fitted_models_to_workers(tmp_path):
    model = given(budget="9 actions").fit(DATA.X, DATA.y)
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(AT), model.predict(AT))
    answers = joblib.Parallel(n_jobs=2)(joblib.delayed(model.predict)(AT) for _ in range(2))
    for answer in answers:
        np.testing.assert_allclose(answer, model.predict(AT), rtol=1e-9)


def test_repr_and_docstring_say_in_which_units_kernel_and_noise_are():
    assert "units of the scaled data" in repr(given())
    assert "units of the scaled data" not in repr(given(normalize=False))
    said = repr(IterGPRegressor(kernel=1.0 * Matern32(0.5)))
    assert said.endswith("[lengthscales and periods in units of X, scale and noise in variances of y]")
    assert "has its lengthscales and periods in the units of X." in " ".join(IterGPRegressor.__doc__.split())


def test_fits_repeat_to_the_bit():
    data = make_data(3000)
    first, second = (given(budget="150 actions", random_state=3).fit(data.X, data.y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(AT, return_std=True), second.predict(AT, return_std=True))
    other = given(budget="150 actions", random_state=4).fit(data.X, data.y)
    assert not np.array_equal(first.predict(AT), other.predict(AT))
    for state in (None, np.random.RandomState(0)):
        assert given(random_state=state).fit(DATA.X, DATA.y).status_ is Status.EXACT


@pytest.mark.parametrize("noise", [0.05, [0.05, 0.2]], ids=["one target", "two, with their own noise"])
@pytest.mark.parametrize("neighbours", [0, 20])
def test_whatever_is_asked_for_means_and_variances_are_the_same(noise, neighbours):
    y = DATA.y if np.ndim(noise) == 0 else np.stack([DATA.y, np.cos(3 * DATA.X[:, 0])], axis=1)
    model = given(budget="4 actions", neighbours=neighbours, noise=noise).fit(DATA.X, y)
    mean, std = model.predict(AT, return_std=True)
    joint_mean, covariance = model.predict(AT, return_cov=True)
    np.testing.assert_array_equal(joint_mean, mean)
    np.testing.assert_array_equal(model.predict(AT), mean)
    np.testing.assert_allclose(np.einsum("ii...->i...", covariance), std**2, rtol=1e-12)
    some = model.predict(AT[2:5], return_cov=True)[1]
    np.testing.assert_allclose(covariance[2:5, 2:5], some, atol=1e-10)
    size = 4000
    draws = model.sample_y(AT, size, random_state=1)
    assert (np.abs(draws.mean(axis=-1) - mean) < 5 * std / size**0.5).all()
    np.testing.assert_allclose(draws.std(axis=-1), std, rtol=4 / size**0.5)


def test_many_points_are_predicted_in_batches(monkeypatch):
    import itergp.fitted.batches as module

    model = given(budget="9 actions").fit(DATA.X, DATA.y)
    X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    whole = model.predict(X, return_std=True)
    monkeypatch.setattr(module, "BATCH_BYTES", 1)  # 256 points at once
    np.testing.assert_allclose(model.predict(X, return_std=True), whole, rtol=1e-12)


def test_the_parts_of_a_fit_take_its_time():
    """In one of five fits at least: between two readings of a clock, others may have the core."""
    found = [given(budget="9 actions").fit(DATA.X, DATA.y).timings_ for _ in range(5)]
    assert min(abs(sum(times.values()) / times["total"] - 2.0) for times in found) < 0.1


def test_attributes_after_a_fit():
    model = given(budget="9 actions").fit(DATA.X, DATA.y)
    assert model.noise_ == 0.05
    assert model.kernel_ is model.posterior_.problem.prior.kernel
    assert model.status_ is Status.BUDGET
    assert model.trace_.steps[-1].actions == model.posterior_.rank == 9
    assert model.trace_.resumed_from == 0
    assert set(model.timings_) == {"prepare", "learn", "act", "total"}
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")


def test_scikit_learns_callbacks_see_every_step_and_may_stop_the_fit():
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    del callback

    class Recorder:
        def __init__(self, stop_after=10**9):
            self.steps, self.scores, self.tasks, self.stop_after = 0, [], [], stop_after

        def setup(self, estimator, context):
            self.tasks.append("setup")

        def teardown(self, estimator, context):
            self.tasks.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            if context.max_subtasks != 0:
                self.tasks.append(context.task_name)

        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            if context.task_name == "step":
                self.steps += 1
                self.scores.append(fitted_estimator.score(DATA.X, DATA.y))
                return self.steps >= self.stop_after
            return False

    recorder = Recorder()
    model = given(policy="cg", budget="6 actions").set_callbacks(recorder).fit(DATA.X, DATA.y)
    assert recorder.tasks == ["setup", "fit", "acting", "teardown"]
    assert recorder.steps == 6
    assert recorder.scores[-1] == model.score(DATA.X, DATA.y)
    with pytest.warns(match="Interrupted after 2 actions"):
        stopped = given(policy="cg", budget="6 actions").set_callbacks(Recorder(2)).fit(DATA.X, DATA.y)
    assert (stopped.posterior_.rank, stopped.status_) == (2, Status.INTERRUPTED)
    failing = Recorder()
    with pytest.raises(InputError):
        given().set_callbacks(failing).fit(DATA.X * np.nan, DATA.y)
    assert failing.tasks in ([], ["setup", "teardown"])


def test_verbose_draws_what_is_running_on_the_side(capsys):
    given(verbose=1, budget="9 actions", policy="cg").fit(DATA.X, DATA.y)
    captured = capsys.readouterr()
    assert captured.out == ""
    given(budget="9 actions").fit(DATA.X, DATA.y)
    silent = capsys.readouterr()
    assert silent.out == silent.err == ""


@pytest.mark.slow
def test_the_name_loads_without_jax_and_the_library_without_scikit_learn():
    code = (
        "import sys, itergp; print('sklearn' in sys.modules); itergp.IterGPRegressor; print('jax' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_fit_is_read_from_a_file_without_scikit_learn(tmp_path):
    """Which takes longer to import than the file to read: `itergp report` and `itergp info` need none."""
    path = tmp_path / "model.itergp"
    given(budget="9 actions").fit(DATA.X, DATA.y).save(path)
    code = (
        "import sys; from itergp.estimator.files import load_fit; from itergp.report import numbers; "
        "numbers(load_fit(sys.argv[1])[0]); print({'sklearn', 'scipy.stats'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_an_early_file_lacks_has_the_default_of_the_estimator():
    assert IterGPRegressor().get_params() == DEFAULTS

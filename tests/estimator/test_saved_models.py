"""Models in files and checkpoints of fits, as the estimator uses them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import kernels as skl

from helpers import make_data
from itergp import (
    ConjugateGradient,
    InputError,
    IterGPRegressor,
    LinearMean,
    Matern32,
    MaxActions,
    Status,
    StorageError,
    storage,
)

LEARNS = "itergp.estimator.hyperparameters.learn_rows"
DATA = make_data(120)
AT = DATA.X_new


def given(**parameters):
    return IterGPRegressor(**{"noise": 0.05, "learn": False} | parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {"budget": "9 actions"},
        {
            "budget": MaxActions(9),
            "kernel": 2.0 * Matern32([0.5, 0.7]),
            "mean": LinearMean([0.1, 0.2]),
            "policy": ConjugateGradient(),
        },
        {"kernel": skl.RBF(0.5), "random_state": np.random.RandomState(0), "normalize": False},
    ],
    ids=["texts", "objects", "scikit-learn"],
)
def test_what_was_saved_predicts_and_goes_on_to_the_same_bits(tmp_path, parameters):
    model = given(**parameters).fit(DATA.X[:100], DATA.y[:100])
    model.partial_fit(DATA.X[90:110], DATA.y[90:110])  # some known, some new
    model.save(tmp_path / "model.itergp")
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    assert loaded.status_ is model.status_
    assert loaded.noise_ == model.noise_
    assert loaded.trace_.steps == model.trace_.steps
    for both in (
        lambda m: m.predict(AT, return_std=True),
        lambda m: m.predict(AT, return_cov=True)[1],
        lambda m: m.sample_y(AT, 3),
        lambda m: m.decompose(AT).computational,
        lambda m: m.refine("4 actions").predict(AT),
        lambda m: m.partial_fit(DATA.X[100:], DATA.y[100:]).predict(AT),
    ):
        np.testing.assert_array_equal(both(loaded), both(model))
    plain = {
        name: value
        for name, value in model.get_params(False).items()
        if isinstance(value, str | int | float | None)
    }
    assert {name: loaded.get_params()[name] for name in plain} == plain
    assert isinstance(loaded.budget, type(model.budget))


def test_names_and_several_targets_are_kept(tmp_path):
    X = pd.DataFrame(DATA.X, columns=["a", "b"])
    model = given().fit(X, np.stack([DATA.y, 3 * DATA.y], axis=1))
    model.save(tmp_path / "model.itergp")
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    np.testing.assert_array_equal(loaded.feature_names_in_, ["a", "b"])
    new = pd.DataFrame(AT, columns=["a", "b"])
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    with pytest.raises(InputError, match="feature names should match"):
        loaded.predict(new[["b", "a"]])


@pytest.mark.parametrize("budget", [None, "9 actions"])
def test_without_what_refinement_needs_it_predicts_and_says_what_is_missing(tmp_path, budget):
    model = given(budget=budget).fit(DATA.X, DATA.y)
    model.save(tmp_path / "small.itergp", refinable=False)
    loaded = IterGPRegressor.load(tmp_path / "small.itergp")
    np.testing.assert_allclose(
        loaded.predict(AT, return_std=True), model.predict(AT, return_std=True), rtol=1e-12
    )
    if budget:
        with pytest.raises(InputError, match="refinable=False"):
            loaded.refine("3 actions")
    with pytest.raises(InputError, match="refinable=False"):
        loaded.partial_fit(AT, AT[:, 0])


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "no.itergp").write_bytes(b"no model")
    with pytest.raises(StorageError):
        IterGPRegressor.load(tmp_path / "no.itergp")
    with pytest.raises(StorageError):
        IterGPRegressor.load(tmp_path / "missing.itergp")
    storage.save(tmp_path / "posterior.itergp", given().fit(DATA.X, DATA.y).posterior_)
    with pytest.raises(StorageError, match="not an IterGPRegressor"):
        IterGPRegressor.load(tmp_path / "posterior.itergp")


def test_an_estimator_that_is_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        given().save(tmp_path / "model.itergp")


class Killed(BaseException):
    """Stands for kill -9: nothing of the fit runs after it."""


def test_a_fit_that_was_killed_resumes_to_the_same_bits(tmp_path, monkeypatch):
    """Hyper-parameters are not learned again: they are in the checkpoint."""
    import itergp.estimator.fitting

    parameters = {"policy": "cg", "budget": "12 actions", "checkpoint": tmp_path / "fit"}
    solve = itergp.estimator.fitting.solve

    def dies(problem, policy, stop, state, callback):
        def after(now):
            callback(now)
            if now.rank == 5:
                raise Killed

        return solve(problem, policy, stop, state, callback=after)

    with monkeypatch.context() as patch:
        patch.setattr(itergp.estimator.fitting, "solve", dies)
        patch.setattr("itergp.storage.checkpoints.SECONDS", 0.0)
        patch.setattr(
            "itergp.storage.checkpoints.Checkpoint.write", lambda self, state: self.write_now(state)
        )
        with pytest.raises(Killed):
            IterGPRegressor(**parameters).fit(DATA.X, DATA.y)
    with monkeypatch.context() as patch:
        patch.setattr(LEARNS, lambda *a, **k: pytest.fail("learned again"))
        resumed = IterGPRegressor(**parameters).fit(DATA.X, DATA.y)
    whole = IterGPRegressor(**parameters | {"checkpoint": None}).fit(DATA.X, DATA.y)
    assert (resumed.trace_.resumed_from, whole.trace_.resumed_from) == (5, 0)
    assert resumed.posterior_.rank == 12
    assert resumed.noise_ == whole.noise_
    np.testing.assert_array_equal(resumed.predict(AT, return_std=True), whole.predict(AT, return_std=True))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("kernel", {"kernel": "rbf"}),
        ("noise", {"noise": 0.3}),
        ("policy", {"policy": "random"}),
        ("seed", {"random_state": 8}),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_by_name(tmp_path, field, change):
    parameters = {"policy": "cg", "budget": "5 actions", "checkpoint": str(tmp_path / "fit")}
    given(**parameters).fit(DATA.X, DATA.y)
    model = given(**parameters | change)
    with pytest.raises(StorageError, match=f"its {field} differs"):
        model.fit(DATA.X, DATA.y)
    assert not hasattr(model, "posterior_")
    with pytest.raises(StorageError, match="its y differs"):
        given(**parameters).fit(DATA.X, DATA.y + 1.0 * (DATA.X[:, 0] > 0))
    assert given(**parameters).fit(DATA.X, DATA.y).status_ is Status.BUDGET

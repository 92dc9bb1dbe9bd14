"""Every row of `bad_inputs.py`: an error of this library, with a message that names what is wrong, and the
model unchanged."""

import warnings

import numpy as np
import pytest

import bad_inputs as bad
from itergp import ItergpError, IterGPRegressor
from itergp.linalg.gram import Gram

LEARNS = "itergp.estimator.hyperparameters.learn_rows"


def model(**parameters):
    return IterGPRegressor(**{"noise": 0.1, "learn": False, "budget": "9 actions"} | parameters)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(bad.X, bad.Y)


@pytest.fixture(scope="module")
def named():
    return model().fit(bad.frame(), bad.Y)


def assert_refused(call, words, estimator, at=bad.AT):
    """A clear error, from this library, without a pass over K and without a warning; and nothing has
    changed."""
    before, mean = dict(vars(estimator)), estimator.predict(at) if hasattr(estimator, "posterior_") else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ItergpError, match=f"(?s){words}") as caught:
            call()
    assert 25 < len(str(caught.value)) < 1000
    assert dict(vars(estimator)) == before
    if mean is not None:
        np.testing.assert_array_equal(estimator.predict(at), mean)


def test_there_are_enough():
    tables = (
        bad.INPUTS,
        bad.NEW,
        bad.NAMED,
        bad.TARGETS,
        bad.PARAMETERS,
        bad.CALLS,
        bad.CONSTRUCTION,
        bad.FILES,
    )
    assert sum(map(len, tables)) >= 60


@pytest.mark.parametrize("verb", ["fit", "fit again", "partial_fit", "predict"])
@pytest.mark.parametrize("name", bad.INPUTS)
def test_inputs(name, verb, fitted, named, monkeypatch):
    X, words = bad.INPUTS[name]
    framed = hasattr(X, "columns")
    estimator = model() if verb == "fit" else named if framed else fitted
    call = {"partial_fit": lambda: estimator.partial_fit(X, bad.Y), "predict": lambda: estimator.predict(X)}
    monkeypatch.setattr(Gram, "multiply", lambda *_: pytest.fail("a pass over K was made"))
    assert_refused(
        call.get(verb, lambda: estimator.fit(X, bad.Y)), words, estimator, bad.frame() if framed else bad.AT
    )


@pytest.mark.parametrize("verb", ["partial_fit", "predict"])
@pytest.mark.parametrize("name", bad.NEW)
def test_inputs_of_another_width(name, verb, fitted):
    X, words = bad.NEW[name]
    assert_refused(
        {"partial_fit": lambda: fitted.partial_fit(X, bad.Y), "predict": lambda: fitted.predict(X)}[verb],
        words,
        fitted,
    )


@pytest.mark.parametrize("verb", ["partial_fit", "predict"])
@pytest.mark.parametrize("name", bad.NAMED)
def test_inputs_with_other_names(name, verb, named):
    X, words = bad.NAMED[name]
    call = {"partial_fit": lambda: named.partial_fit(X, bad.Y), "predict": lambda: named.predict(X)}[verb]
    assert_refused(call, words, named, bad.frame())


@pytest.mark.parametrize("verb", ["fit", "fit again", "partial_fit"])
@pytest.mark.parametrize("name", bad.TARGETS)
def test_targets(name, verb, fitted):
    y, words = bad.TARGETS[name]
    estimator = model() if verb == "fit" else fitted
    assert_refused(
        lambda: (estimator.partial_fit if verb == "partial_fit" else estimator.fit)(bad.X, y),
        words,
        estimator,
    )


@pytest.mark.parametrize("name", bad.PARAMETERS)
def test_parameters(name, monkeypatch):
    parameters, words = bad.PARAMETERS[name]
    monkeypatch.setattr(LEARNS, lambda *_, **__: pytest.fail("learning had begun"))
    estimator = model(**parameters)
    assert_refused(lambda: estimator.fit(bad.X, bad.Y), words, estimator)
    if "policy" not in parameters:  # a fitted model refuses it too, and stays
        good = model().fit(bad.X, bad.Y).set_params(**parameters)
        before = dict(vars(good))
        with pytest.raises(ItergpError, match=f"(?s){words}"):
            good.fit(bad.X, bad.Y)
        assert dict(vars(good)) == before


@pytest.mark.parametrize("name", bad.CALLS)
def test_calls(name, fitted):
    call, words = bad.CALLS[name]
    assert_refused(lambda: call(fitted), words, fitted)


@pytest.mark.parametrize("name", bad.CONSTRUCTION)
def test_construction(name):
    call, words = bad.CONSTRUCTION[name]
    with pytest.raises(ItergpError, match=words):
        call()


@pytest.mark.parametrize("name", bad.FILES)
def test_files(name, fitted, tmp_path):
    make, words = bad.FILES[name]
    fitted.save(tmp_path / "good.itergp")
    folder = tmp_path / "folder"
    folder.mkdir()
    path = make(folder, tmp_path / "good.itergp")
    assert_refused(lambda: IterGPRegressor.load(path), words, fitted)

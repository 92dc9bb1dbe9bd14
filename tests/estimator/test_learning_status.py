"""How learning ended is told beside how the inference ended: by the model, its card, report and file, and
the command line."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers import make_data
from itergp import IterGPRegressor, LearningWarning, Matern32, Status
from itergp.cli.commands import app
from itergp.learning import learn
from itergp.learning.endings import FEW, Ending, Learning
from itergp.learning.run import Run
from itergp.report.page.card import card

DATA = make_data(60)


@pytest.fixture
def out_of_time(monkeypatch):
    """After a number of iterations, learning has no time left; the inference has its own."""

    def after(iterations):
        monkeypatch.setattr(Run, "left", property(lambda run: 1.0 if len(run.trace) < iterations else -1.0))

    return after


def fitted(budget="100s", **how):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = IterGPRegressor(budget=budget, **how).fit(DATA.X, DATA.y)
    return model, [str(one.message) for one in found if one.category is LearningWarning]


def test_a_fit_that_learned_nothing_is_exact_in_its_inference_only(out_of_time):
    out_of_time(0)
    model, told = fitted()
    assert model.status_ is Status.EXACT
    assert model.learning_ == Learning(Ending.BUDGET, 0)
    assert told == [model.learning_.advice]
    assert "starting values" in told[0]
    assert "larger budget" in told[0]
    for text in (model.status_.advice, card(model.fit_)):
        assert "buys nothing" not in text
        assert "these hyper-parameters" in text
    assert model.learning_.advice in card(model.fit_)


def test_a_few_iterations_are_told_as_few_and_many_are_not(out_of_time):
    out_of_time(2)
    model, told = fitted()
    assert 0 < model.learning_.iterations < FEW
    assert len(told) == 1
    out_of_time(10)
    model, told = fitted()
    assert model.learning_.ended is Ending.BUDGET
    assert model.learning_.iterations >= FEW
    assert not told
    assert not model.learning_.falls_short


@pytest.mark.parametrize("iterations", [0, 2, FEW])
def test_learning_that_was_interrupted_at_its_beginning_is_said_to_be_worth_little(iterations):
    """As where the budget ends it; refining cannot mend it."""
    learning = Learning(Ending.INTERRUPTED, iterations)
    assert learning.falls_short == (iterations < FEW)
    assert ("can be far worse" in learning.advice) == (iterations < FEW)
    assert "`refine` does not learn" in learning.advice


def test_noise_that_was_to_vary_and_was_not_learned_for_want_of_time_is_warned_about(monkeypatch):
    from itergp.estimator.varying import CONSTANT, Rounds

    how = {"kernel": "matern32", "noise": "heteroscedastic"}
    _, told = fitted(**how)
    assert CONSTANT not in told
    monkeypatch.setattr(Rounds, "left", property(lambda rounds: -1.0))
    model, told = fitted(**how)
    assert CONSTANT in told
    assert np.ndim(model.noise_) == 0
    assert model.learning_.ended is Ending.BUDGET
    monkeypatch.undo()
    from itergp.learning import varying

    short = replace_ended(varying.learn_on)
    monkeypatch.setattr(varying, "learn_on", short)
    monkeypatch.setattr(varying, "_better", lambda *what: False)
    assert CONSTANT in fitted(**how)[1]  # the time ran out within: what was seen says nothing


def replace_ended(learn_on):
    return lambda *what, **how: replace(learn_on(*what, **how), ended=Ending.BUDGET)


def test_learning_that_ends_by_itself_has_converged():
    model, told = fitted(budget=None)
    assert model.learning_.ended is Ending.CONVERGED
    assert model.learning_.iterations == len(model.trace_.learning) > FEW
    assert not told


def test_what_was_given_was_not_asked_for():
    model, told = fitted(learn=False, noise=0.1)
    assert model.learning_ == Learning(Ending.NOT_ASKED)
    assert not told


def test_equal_targets_have_nothing_to_learn_from():
    model = IterGPRegressor().fit(DATA.X, np.ones(len(DATA.X)))
    assert model.learning_ == Learning(Ending.NOTHING_TO_LEARN)


def test_each_way_to_end_is_told_apart():
    def end(callback=None, method="exact", **how):
        return learn(
            DATA.X, DATA.y, 1.0 * Matern32([1.0, 1.0]), 0.1, method=method, callback=callback, **how
        ).ended

    def interrupt(record):
        raise KeyboardInterrupt

    assert end() is Ending.CONVERGED
    assert end(seconds=1e-9) is Ending.BUDGET
    assert end(lambda record: True) is Ending.STOPPED
    assert end(interrupt) is Ending.INTERRUPTED
    assert end(method="none") is Ending.NOT_ASKED


@pytest.mark.parametrize("ended", Ending)
@pytest.mark.parametrize("iterations", [0, 1, 2, 40])
def test_every_ending_has_a_sentence(ended, iterations):
    advice = Learning(ended, iterations).advice
    assert advice.endswith(".")
    assert "{" not in advice
    assert "1 iterations" not in advice


def test_a_file_keeps_it_and_earlier_files_say_that_they_do_not(tmp_path, out_of_time):
    out_of_time(0)
    model, _ = fitted()
    model.save(tmp_path / "model.itergp")
    assert IterGPRegressor.load(tmp_path / "model.itergp").learning_ == model.learning_
    from itergp import storage
    from itergp.estimator.files import about

    for learn_, expected in (("auto", Ending.UNKNOWN), (False, Ending.NOT_ASKED)):
        model.learn = learn_
        before = {name: value for name, value in about(model.fit_).items() if name != "learning"}
        storage.save(tmp_path / "early.itergp", model.posterior_, before)
        assert IterGPRegressor.load(tmp_path / "early.itergp").learning_.ended is expected


def test_refining_and_adding_rows_keep_how_learning_ended():
    model, _ = fitted(budget="5 actions")
    before = model.learning_
    model.refine("5 actions").partial_fit(DATA.X_new, np.zeros(len(DATA.X_new)))
    assert model.learning_ == before


def test_a_fit_that_resumes_knows_how_learning_ended(tmp_path, out_of_time):
    out_of_time(0)
    fitted(checkpoint=tmp_path / "fit")
    again, _ = fitted(checkpoint=tmp_path / "fit")
    assert again.learning_ == Learning(Ending.BUDGET, 0)


def test_the_report_and_the_command_line_tell_it(tmp_path, out_of_time, monkeypatch):
    out_of_time(0)
    model, _ = fitted()
    values = model.report(tmp_path / "page.html")
    said = values["fitted"]["learned"]
    assert (said["ended"], said["iterations"], said["advice"]) == ("BUDGET", 0, model.learning_.advice)
    assert model.learning_.advice in values["verdict"][-1]
    assert any(model.learning_.advice in text for text in values["warnings"])
    np.savetxt(
        tmp_path / "train.csv", np.column_stack([DATA.X, DATA.y]), delimiter=",", header="a,b,y", comments=""
    )
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, ["fit", "train.csv", "--target", "y", "--budget", "100s"])
    assert run.exit_code == 0, run.output
    assert f"Note: {model.learning_.advice}" in run.stderr
    assert run.stderr.splitlines()[-1].endswith(f"{model.learning_.advice} Inference: exact.")
    info = CliRunner().invoke(app, ["info", "model.itergp", "--json"])
    assert json.loads(info.stdout)["learning"] == {
        "ended": "budget",
        "iterations": 0,
        "advice": model.learning_.advice,
    }
    assert "learning ended" in CliRunner().invoke(app, ["info", "model.itergp"]).stdout


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [([[1.0]], [2.0], "there is one row"), (np.arange(20.0)[:, None], np.full(20, 3.0), "same value")],
    ids=["one row", "constant"],
)
def test_one_row_or_a_constant_target_give_a_warning_that_says_what_to_do(X, y, said):
    with pytest.warns(LearningWarning, match=f"Nothing can be learned: .*{said}.*right column") as caught:
        model = IterGPRegressor().fit(X, y)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(model.predict(X), y)
    with warnings.catch_warnings():  # given, not learned: there is nothing to warn of
        warnings.simplefilter("error", LearningWarning)
        IterGPRegressor(Matern32(1.0), noise=0.1, learn=False).fit(X, y)

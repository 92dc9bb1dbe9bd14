"""The report, the notebook card and the command line say the same about a fit."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from itergp import IterGPRegressor, MaxActions
from itergp.cli import measuring
from itergp.cli.commands import app
from itergp.fitted import price, shares
from itergp.fitted.seen import known_share, look
from itergp.report import numbers
from itergp.report.page.card import card
from itergp.solver.state import Progress

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (160, 2))
Y = np.sin(4 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.standard_normal(160)
FITS = {
    "exact": {},
    "a few actions": {"budget": "12 actions"},
    "without neighbours": {"budget": "12 actions", "neighbours": 0},
    "given": {"budget": "40 actions", "noise": 0.02, "learn": False},
    "one action": {"budget": "1 actions", "noise": 0.02, "learn": False},
}


@pytest.fixture(params=FITS, scope="module")
def model(request):
    return IterGPRegressor(**FITS[request.param]).fit(X, Y)


@pytest.mark.parametrize("method", ["exact", "estimate", "neighbours"])
def test_report_card_and_command_line_say_the_same_share(model, method, monkeypatch):
    if method != "exact":
        monkeypatch.setattr(shares, "DENSE_ROWS", 0)
        monkeypatch.setattr(shares, "affordable_passes", lambda *_: 3 if method == "estimate" else 0)
    fit = replace(model.fit_)
    assert known_share(fit) is None  # nothing is measured for a card
    assert "<dt>computational</dt>" not in card(fit)
    values = numbers(fit)
    summary = measuring.measured(fit)["computational_share"]
    for ours, theirs in {"share": "value", "lower": "lower", "upper": "upper", "error": "error"}.items():
        assert summary[ours] == pytest.approx(values["share"][theirs], rel=1e-4)
    assert (summary["kind"], summary["points"]) == (values["share"]["method"], values["share"]["points"])
    said = re.search("<dt>computational</dt><dd>(.*?) of the variance", card(fit))[1]
    sentence = f"{said[:1].upper()}{said[1:]} of the variance"  # "below 0.01 %" begins one there
    assert values["verdict"][1].startswith((sentence, "None of the variance"))
    assert (said == "0 %") == values["verdict"][1].startswith("None")


def test_a_saved_model_has_the_same_share_as_the_one_that_was_fitted(model, tmp_path, monkeypatch):
    """Also where passes are counted by what they cost: that is in the file."""
    monkeypatch.setattr(shares, "DENSE_ROWS", 0)
    model.save(tmp_path / "m.itergp")
    loaded = look(IterGPRegressor.load(tmp_path / "m.itergp").fit_).share
    assert loaded == look(model.fit_).share


def test_the_commands_print_it(tmp_path):
    table = np.column_stack([X, Y])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,y", comments="")
    model = tmp_path / "m.itergp"

    def output(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    fit = ("fit", tmp_path / "t.csv", "--target", "y", "--budget", "12 actions", "--out", model)
    text = re.sub(r"\s+", " ", output(*fit))
    verdict = json.loads(output("report", model, "--json"))["verdict"][1]
    assert re.search(r"computational share (.*?) of the", text)[1] == verdict.partition(" of the")[0]


def test_relevances_are_the_same(model):
    fit, names = model.fit_, ["a", "b"]
    rows = numbers(fit, feature_names=names)["relevance"]
    ours = measuring._relevances(fit, names)
    assert [row["feature"] for row in rows] == [row["name"] for row in ours]
    lengthscales = [np.array([row["lengthscale"] for row in told], dtype=float) for told in (rows, ours)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-4)  # NaN: none for each feature
    largest = ours[0]["relevance"]
    np.testing.assert_allclose(
        [row["relevance"] for row in rows], [row["relevance"] / largest for row in ours], rtol=1e-4
    )


def test_the_price_of_a_pass_is_what_the_quickest_one_cost():
    n = 1000
    expected = n**2 * (price.PAIR + 10 * price.COLUMN)
    trace = [
        Progress(actions=10, passes=1, seconds=9.0),  # it compiled something
        Progress(actions=15, passes=1, seconds=9.5),  # no pass
        Progress(actions=25, passes=2, seconds=9.5 + 3 * expected),
    ]
    assert price.slowness(trace, n) == pytest.approx(3.0)
    assert price.slowness([Progress(actions=15, seconds=0.5)], n) == price.slowness([], n) == 1.0


def test_the_attributes_are_views_of_one_fit(model):
    fit = model.fit_
    assert model.fit_ is fit
    assert model.posterior_ is fit.posterior
    assert model.kernel_ is fit.kernel
    assert model.trace_ is fit.trace
    with pytest.raises(AttributeError, match="noise_ is a result of `fit`"):
        model.noise_ = 1.0
    with pytest.raises(AttributeError, match="before `fit`"):
        _ = IterGPRegressor().posterior_
    with pytest.raises(AttributeError, match="before `fit`"):
        _ = IterGPRegressor().fit_


def test_a_fit_knows_the_parameters_as_they_are_now():
    model = IterGPRegressor(noise=0.02, learn=False, budget="12 actions").fit(X, Y)
    assert model.fit_.neighbours == 60
    model.neighbours = 0
    assert model.fit_.neighbours == 0
    np.testing.assert_array_equal(
        model.predict(X), model.scaling_.mean(model.posterior_.mean(model.scaling_.inputs(X)))
    )
    fit = model.fit_
    model.refine(MaxActions(3))
    assert fit.posterior.rank == 12  # a fit does not change
    assert model.fit_.posterior.rank == 15

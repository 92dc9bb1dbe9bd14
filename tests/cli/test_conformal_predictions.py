"""`itergp predict --interval conformal` and `--quantiles` give what Python gives; report and card show
what held-out rows say."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from itergp import IterGPRegressor
from itergp.cli.commands import app
from itergp.report import numbers
from itergp.report.page.card import facts
from itergp.report.page.page import render

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (90, 2))
Y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * (RNG.exponential(1.0, 90) - 1)


@pytest.fixture
def model():
    return IterGPRegressor(kernel="matern32", noise=0.1, learn=False).fit(X[:60], Y[:60])


@pytest.fixture
def files(model, tmp_path):
    model.save(tmp_path / "model.itergp")
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows(X[60:].tolist())
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_columns_are_those_of_python(model, files):
    done = run("predict", files / "model.itergp", files / "new.csv", "--interval", "conformal", "--json")
    assert done.exit_code == 0, done.output
    values = json.loads(done.stdout)
    low, high = model.interval(X[60:], 0.95, method="conformal")
    np.testing.assert_allclose(values["predictions"]["lower"], low, rtol=1e-12)
    np.testing.assert_allclose(values["predictions"]["upper"], high, rtol=1e-12)
    assert values["interval"]["method"] == "conformal"
    np.testing.assert_allclose(values["interval"]["ends_in_std"], model.calibration_.reach(0.95))
    out = files / "out.csv"
    said = run("predict", files / "model.itergp", files / "new.csv", "--interval", "conformal", "--out", out)
    assert "conformal, from" in " ".join(said.output.split())


def test_quantiles_have_columns_of_their_own(model, files):
    arguments = ("predict", files / "model.itergp", files / "new.csv", "--quantiles", "0.1, 0.5,0.9")
    for interval in ("gaussian", "conformal"):
        values = json.loads(run(*arguments, "--interval", interval, "--json").stdout)["predictions"]
        assert list(values) == ["mean", "std", "lower", "upper", "q0.1", "q0.5", "q0.9"]
        found = np.stack([values[f"q{level}"] for level in (0.1, 0.5, 0.9)], axis=1)
        np.testing.assert_allclose(found, model.quantiles(X[60:], [0.1, 0.5, 0.9], interval), rtol=1e-12)
        lower, upper = model.interval(X[60:], method=interval)  # beside them, as without them
        np.testing.assert_allclose(values["lower"], lower, rtol=1e-12)
        np.testing.assert_allclose(values["upper"], upper, rtol=1e-12)
    assert run(*arguments).stdout.splitlines()[0] == "mean,std,lower,upper,q0.1,q0.5,q0.9"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interval", "bootstrap"], "--interval is 'bootstrap'; expected one of 'gaussian', 'conformal'"),
        (
            ["--interval", "conformal", "--level", "0.99"],
            "--level is 0.99, and 60 rows were held out; a conformal interval",
        ),
        (["--interval", "conformal", "--level", "1"], "--level is 1.0"),
        (["--quantiles", "0.1;0.9"], "--quantiles is '0.1;0.9'; expected probabilities, such as 0.1,0.5,0.9"),
        (["--quantiles", "5,95"], "--quantiles has 5.0; expected probabilities between 0 and 1"),
        (
            ["--interval", "conformal", "--quantiles", "0.01"],
            "--quantiles has 0.01, which needs 99 held-out rows, and there are 60",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(files, options, words):
    done = run("predict", files / "model.itergp", files / "new.csv", *options)
    assert done.exit_code != 0
    assert words in " ".join(done.output.split())


def test_info_and_card_show_a_calibration_that_was_learned(model, files):
    assert json.loads(run("info", files / "model.itergp", "--json").stdout)["calibration"] is None
    found = model.calibration_
    model.save(files / "model.itergp")
    said = json.loads(run("info", files / "model.itergp", "--json").stdout)["calibration"]
    np.testing.assert_allclose(said["factor"], np.sqrt(np.mean(found.scores**2)))
    np.testing.assert_allclose(said["coverage"]["0.95"], np.mean(np.abs(found.scores) < norm.ppf(0.975)))
    assert said["sentence"] in dict(facts(model.fit_))["held-out"]
    assert "of 60 rows; errors are" in " ".join(run("info", files / "model.itergp").output.split())


def test_the_report_has_both_kinds_of_interval(model):
    values = numbers(model.fit_, X[60:], Y[60:])
    found = values["targets"][0]["intervals"]
    mean, std = model.predict(X[60:], return_std=True)
    for k, level in enumerate((0.5, 0.8, 0.95)):
        z = (Y[60:] - mean) / std
        assert found["levels"][k] == level
        inside = np.mean(np.abs(z) <= norm.ppf(0.5 + level / 2))
        np.testing.assert_allclose(found["coverage"][k], inside, rtol=1e-4)
        low, high = model.interval(X[60:], level, method="conformal")
        inside = np.mean((low <= Y[60:]) & (Y[60:] <= high))
        np.testing.assert_allclose(found["conformal_coverage"][k], inside, rtol=1e-4)
        np.testing.assert_allclose(found["conformal"][k], model.calibration_.reach(level), rtol=1e-4)
    assert found["conformal"][3] is None  # 60 rows are too few for 99 %
    assert found["conformal_coverage"][3] is None
    text = render(values)
    assert "Intervals that hold" in text
    assert "conformal holds" in text
    held_out = numbers(model.fit_)["targets"][0]["intervals"]
    assert held_out["conformal_coverage"] == [None] * 4  # they hold there by construction
    assert held_out["conformal"] == found["conformal"]
    assert "conformal holds" not in render(numbers(model.fit_))


def test_a_model_without_a_calibration_has_a_report(tmp_path):
    fresh = IterGPRegressor(kernel="matern32", noise=0.1, learn=False).fit(X[:60], Y[:60])
    fresh.save(tmp_path / "fresh.itergp", refinable=False)
    loaded = IterGPRegressor.load(tmp_path / "fresh.itergp")
    found = loaded.report(tmp_path / "fit.html")["targets"][0]["intervals"]
    assert found["factor"] is None
    assert found["conformal"] == [None] * 4
    assert "There are no conformal intervals" in (tmp_path / "fit.html").read_text()

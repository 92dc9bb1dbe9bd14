"""A report as a file, from Python and from the command line; and the card that notebooks show."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from typer.testing import CliRunner

from itergp import IterGPRegressor
from itergp.cli.commands import app
from itergp.errors import InputError, StorageError
from itergp.fitted import choice
from itergp.report import numbers, write_twin
from itergp.report.page import parts
from itergp.report.page.card import card

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (70, 2))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.standard_normal(70)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def model():
    return IterGPRegressor(noise=0.05, learn=False, budget="12 actions").fit(X[:50], Y[:50])


def test_report_writes_one_page_and_returns_its_numbers(model, tmp_path):
    values = model.report(tmp_path / "fit.html", X[50:], Y[50:])
    page = (tmp_path / "fit.html").read_text()
    assert values == numbers(model.fit_, X[50:], Y[50:])
    assert page.lower().startswith("<!doctype html>")
    assert len(page) < 2e6
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.html"]


def test_the_twin_is_json_for_machines(model, tmp_path):
    values = numbers(model.fit_)
    write_twin(tmp_path / "fit.json", values)
    assert json.loads((tmp_path / "fit.json").read_text()) == values


def test_a_page_that_cannot_be_written_leaves_what_was_there(model, tmp_path, monkeypatch):
    (tmp_path / "fit.html").write_text("old")
    monkeypatch.setattr(
        "os.replace", lambda *names: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(StorageError, match=r"fit.html cannot be written: No space left on device"):
        model.report(tmp_path / "fit.html")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    with pytest.raises(StorageError, match="cannot be written"):
        model.report(tmp_path / "none" / "fit.html")
    with pytest.raises(InputError, match="path is 3; expected a path"):
        model.report(3)
    with pytest.raises(NotFittedError):
        IterGPRegressor().report(tmp_path / "fit.html")


def test_a_report_changes_nothing_in_the_model(model, tmp_path):
    before = model.predict(X[50:], return_std=True)
    passes, attributes = model.posterior_.problem.gram.passes, set(vars(model))
    model.report(tmp_path / "fit.html")
    np.testing.assert_array_equal(model.predict(X[50:], return_std=True), before)
    assert model.posterior_.problem.gram.passes == passes  # no product with the whole of K
    assert set(vars(model)) == attributes


@pytest.mark.parametrize("again", [lambda m: m.refine("3 actions"), lambda m: m.partial_fit(X[50:], Y[50:])])
def test_time_and_memory_are_those_of_all_calls(again, tmp_path):
    model = IterGPRegressor(noise=0.05, learn=False, budget="6 actions").fit(X[:50], Y[:50])
    timings = {"prepare": 1.0, "learn": 500.0, "act": 200.0, "total": 701.0}
    more = replace(model.trace_, peak_bytes=10**15)  # as of a process that had held more
    model._fit = replace(model.fit_, timings=timings, trace=more)
    values = numbers(again(model).fit_)["fitted"]
    assert values["seconds"]["learn"] == 500.0
    assert 0 < model.timings_["act"] - 200.0 == pytest.approx(model.timings_["total"] - 701.0)
    assert values["memory_bytes"] == 10**15
    assert "<dt>seconds</dt><dd>70" in model._repr_html_()
    model._fit = replace(model.fit_, trace=replace(model.trace_, peak_bytes=1))
    assert numbers(again(model).fit_)["fitted"]["memory_bytes"] > 1e7


# The card.


def test_a_fitted_model_has_a_card_above_the_diagram(model):
    shown = model._repr_html_()
    assert shown.count('class="itergp-card"') == 1
    assert "50 rows; 2 features" in shown
    assert "12 of 50 actions in 1 pass over" in shown
    assert "sk-top-container" in shown.partition('class="itergp-card"')[2]
    assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")


def test_card_and_page_say_which_kernel_was_chosen_and_files_keep_it(tmp_path):
    model = IterGPRegressor(budget="20 actions").fit(X[:50], Y[:50])
    said = choice.sentence(choice.rows(model.trace_.candidates))
    assert said.startswith(f"{choice.words(model.trace_.candidates[0].name)}, chosen among ")
    assert f"<dt>chosen</dt><dd>{said}</dd>" in card(model.fit_)
    values = model.report(tmp_path / "a.html")
    model.save(tmp_path / "m.itergp")
    assert (
        IterGPRegressor.load(tmp_path / "m.itergp").report(tmp_path / "b.html")["candidates"]
        == values["candidates"]
    )
    assert [row["name"] for row in values["candidates"]] == [
        choice.words(one.name) for one in model.trace_.candidates
    ]
    for page in (tmp_path / "a.html", tmp_path / "b.html"):
        text = page.read_text(encoding="utf-8")
        assert 'id="h-candidates"' in text
        assert f"<p>Kernel: {said}.</p>" in text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_given_kernel_has_no_candidates(tmp_path):
    model = IterGPRegressor("rbf", noise=0.1, learn=False, budget="3 actions").fit(X[:50], Y[:50])
    assert model.report(tmp_path / "a.html")["candidates"] == []
    assert 'id="h-candidates"' not in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<dt>chosen</dt>" not in card(model.fit_)


def test_candidates_of_foreign_numbers_are_text():
    shown = parts.candidates({"candidates": [{"name": HOSTILE, "chosen": True}, {"name": None}, {}]})
    assert HOSTILE not in shown
    assert "&lt;img src=x" in shown
    assert parts.candidates({}) == parts.candidates({"candidates": None}) == ""


def test_without_a_fit_it_is_scikit_learns_diagram():
    without_numbers = lambda html: re.sub(r"-\d+", "", html)  # noqa: E731 (identifiers are counted)
    unfitted = IterGPRegressor()
    assert without_numbers(unfitted._repr_html_()) == without_numbers(estimator_html_repr(unfitted))


def test_names_in_the_card_are_text():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:50], columns=[HOSTILE, "b\u202e\u200f"])
    card = IterGPRegressor(noise=0.05, learn=False).fit(frame, Y[:50])._repr_html_().partition("</div>")[0]
    assert HOSTILE not in card
    assert "&lt;img src=x" in card
    assert "b\ufffd\ufffd" in card


def test_the_card_shows_no_control_character():
    model = IterGPRegressor(noise=0.1, learn=False, budget="3 actions").fit(X, Y)
    shown = card(replace(model.fit_, names=("a\x1b[31m\x07", "b")))
    assert "\x1b" not in shown
    assert "a\ufffd[31m\ufffd" in shown


UNSEEN = "\u2028\u2029\u200b\u200d\u00ad\ufeff\U000e0041\ue000\x85\x9b"


def test_nothing_unseen_is_in_a_report(tmp_path):
    pd = pytest.importorskip("pandas")
    names = [f"a{letter}b" for letter in UNSEEN]
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((40, len(names))), columns=names)
    model = IterGPRegressor(noise=0.1, learn=False, budget="3 actions").fit(frame, frame[names[0]])
    model.report(tmp_path / "report.html")
    for text in ((tmp_path / "report.html").read_text(encoding="utf-8"), card(model.fit_)):
        assert not set(UNSEEN) & set(text)
    assert "a\ufffdb" in text


def test_the_summary_and_the_page_use_the_same_words():
    from itergp.cli import drawing, measuring
    from itergp.fitted import formats as words
    from itergp.report import numbers as function
    from itergp.report.measure import fitted
    from itergp.report.page import page, text as page_text

    assert drawing.percent is words.percent
    assert measuring.formula is fitted.formula
    assert page.FORMAT is page_text.FORMAT is function.__globals__["FORMAT"]
    assert [words.percent(v) for v in (0.97, 0.013, 0.0002, 1e-5, 0.0)] == [
        "97 %",
        "1.3 %",
        "0.02 %",
        "below 0.01 %",
        "0 %",
    ]


# The command line.


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("report")
    for name, rows in (("train", slice(0, 50)), ("test", slice(50, 70))):
        with open(path / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", HOSTILE, "b", "y"])
            writer.writerows(zip(range(70)[rows], *X[rows].T.tolist(), Y[rows].tolist(), strict=True))
    fit = (
        "fit",
        path / "train.csv",
        "--target",
        "y",
        "--drop",
        "id",
        "--budget",
        "12 actions",
        "--out",
        path / "m.itergp",
    )
    assert run(*fit).exit_code == 0
    return path


def test_the_command_writes_a_page_beside_the_model_and_says_the_verdict(folder):
    result = run("report", folder / "m.itergp")
    assert result.exit_code == 0, result.output
    assert "of the variance at 50 held-out rows is computational" in " ".join(result.stdout.split())
    assert result.stderr.strip().endswith("m.html")
    page = (folder / "m.html").read_text()
    assert HOSTILE not in page
    (folder / "m.html").unlink()


def test_test_rows_are_read_as_the_model_knows_them(folder, tmp_path):
    result = run(
        "report", folder / "m.itergp", "--data", folder / "test.csv", "--json", "--out", tmp_path / "t.html"
    )
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    model = IterGPRegressor.load(folder / "m.itergp")
    mean = model.predict(X[50:])
    assert values["targets"][0]["metrics"]["rmse"][-1] == pytest.approx(
        np.sqrt(np.mean((mean - Y[50:]) ** 2)), rel=1e-4
    )
    assert values["fitted"]["feature_names"] == [HOSTILE, "b"]
    assert values["fitted"]["targets"] == ["y"]
    assert values["data"]["dropped"].startswith("Columns excluded from the fit: id.")
    assert (tmp_path / "t.html").exists()


def test_json_alone_writes_no_file(folder):
    before = sorted(folder.iterdir())
    result = run("report", folder / "m.itergp", "--json")
    assert json.loads(result.stdout)["points"]["source"] == "held-out folds"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.itergp"], 2, "none.itergp does not exist"),
        (["train.csv"], 1, "train.csv was not written by this library"),
        (["m.itergp", "--data", "none.csv"], 2, "none.csv does not exist"),
        (["m.itergp", "--out", "fit.pdf"], 2, "fit.pdf ends in '.pdf'; expected an HTML file name"),
        (["m.itergp", "--out", "none/fit.html"], 2, "the folder none does not exist"),
        (["m.itergp", "--data", "bare.csv"], 2, "bare.csv lacks the column"),
        (["m.itergp", "--data", "blind.csv"], 2, "blind.csv lacks the column 'y', the target"),
        (
            ["plain.itergp", "--data", "test.csv"],
            2,
            "does not say which column is the target|lacks the column|has names",
        ),
    ],
)
def test_bad_use_is_one_line_and_writes_nothing(folder, monkeypatch, arguments, code, message):
    (folder / "bare.csv").write_text("b,y\n1,2\n")
    (folder / "blind.csv").write_text(f"{HOSTILE},b\n1,2\n")
    IterGPRegressor(noise=0.05, learn=False, budget="3 actions").fit(X[:50], Y[:50]).save(
        folder / "plain.itergp"
    )
    before = sorted(folder.iterdir())
    monkeypatch.chdir(folder)
    result = run("report", *arguments)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert sorted(folder.iterdir()) == before

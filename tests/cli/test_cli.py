"""The command line: it gives what Python gives, explains itself in 80 columns, and says in one line what
is wrong."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from itergp import RBF, IterGPRegressor, Linear, Status
from itergp.cli import measuring
from itergp.cli.commands import app
from itergp.fitted import choice, price, shares
from itergp.fitted.formats import MINUS
from itergp.fitted.seen import look
from itergp.learning import Learned
from itergp.learning.candidates import FIRST, start_of
from itergp.learning.training import learn_rows
from itergp.posterior import uncertainty
from itergp.report import numbers
from itergp.report.measure.fitted import formula

RNG = np.random.default_rng(0)
N, NEW = 150, 12
SIZE, HEAT, COLOUR = (
    RNG.uniform(-1, 1, N + NEW + 10),
    RNG.uniform(0, 100, N + NEW + 10),
    RNG.choice(["red", "blue"], N + NEW + 10),
)
Y = np.sin(3 * SIZE) + 0.01 * HEAT + (COLOUR == "red") + 0.1 * RNG.standard_normal(N + NEW + 10)
# one-hot by hand, the oracle of the encoding
X = np.column_stack([SIZE, HEAT, COLOUR == "blue", COLOUR == "red"]).astype(float)
TRAIN, AT, MORE = slice(0, N), slice(N, N + NEW), slice(N + NEW, None)
COLUMNS = {"id": np.arange(len(Y)), "size": SIZE, "heat": HEAT, "colour": COLOUR, "y": Y}
FIT = ["--target", "y", "--drop", "id", "--categorical", "colour", "--budget", "30 actions"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def write(path, rows, names=tuple(COLUMNS), separator=",", header=True, start=""):
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write(start)
        writer = csv.writer(file, delimiter=separator)
        if header:
            writer.writerow(names)
        writer.writerows(zip(*(COLUMNS[name][rows].tolist() for name in names), strict=True))
    return path


def read(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    return {name: np.array([float(row[j]) for row in rows[1:]]) for j, name in enumerate(rows[0])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with tables and a model that the command line fitted; nobody changes what is in it."""
    path = tmp_path_factory.mktemp("cli")
    write(path / "train.csv", TRAIN)
    write(path / "new.csv", AT, ("colour", "heat", "size"))  # another order, and no target
    write(path / "more.csv", MORE)
    result = succeed("fit", path / "train.csv", *FIT, "--out", path / "model.itergp")
    (path / "fit.txt").write_text(result.stdout)
    return path


@pytest.fixture
def quick(monkeypatch):
    """Where hyper-parameters do not matter, they are not learned."""
    monkeypatch.setattr(
        "itergp.estimator.hyperparameters.learn_rows",
        lambda rows, kernel, noise, *what, **how: Learned(kernel, noise, 0.0),
    )
    monkeypatch.setattr(
        "itergp.estimator.hyperparameters.choose_rows",
        lambda rows, noise, *what, **how: Learned(start_of(FIRST, rows.X.shape[1]), noise, 0.0),
    )


def snapshot(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


# The same as in Python.


def test_fit_and_predict_are_those_of_the_estimator(folder, tmp_path):
    model = IterGPRegressor(budget="30 actions", random_state=0).fit(X[TRAIN], Y[TRAIN])
    succeed(
        *("predict", folder / "model.itergp", folder / "new.csv", "--out", tmp_path / "pred.csv"),
        *("--level", 0.9, "--share"),
    )
    found = read(tmp_path / "pred.csv")
    # the columns of the table come in the order of the file: size, heat, colour
    mean, std = model.predict(X[AT], return_std=True)
    lower, upper = model.interval(X[AT], 0.9)
    parts = model.decompose(X[AT])
    for name, expected in (("mean", mean), ("std", std), ("lower", lower), ("upper", upper)):
        np.testing.assert_array_equal(found[name], expected, err_msg=name)
    np.testing.assert_array_equal(found["computational_std"], np.sqrt(parts.computational))
    assert list(found) == ["mean", "std", "computational_std", "lower", "upper"]
    assert (found["computational_std"] < found["std"]).all()


def test_the_order_of_rows_is_kept_and_that_of_columns_does_not_matter(folder, tmp_path):
    reverse = slice(N + NEW - 1, N - 1, -1)
    write(tmp_path / "reverse.csv", reverse, ("id", "y", "size", "colour", "heat"))
    succeed("predict", folder / "model.itergp", folder / "new.csv", "--out", tmp_path / "a.csv")
    succeed("predict", folder / "model.itergp", tmp_path / "reverse.csv", "--out", tmp_path / "b.csv")
    a, b = read(tmp_path / "a.csv"), read(tmp_path / "b.csv")
    for name in a:
        np.testing.assert_allclose(a[name], b[name][::-1], rtol=1e-9, atol=1e-9, err_msg=name)


def test_predictions_go_to_the_terminal_to_json_or_to_parquet(folder, tmp_path):
    arguments = ("predict", folder / "model.itergp", folder / "new.csv")
    succeed(*arguments, "--out", tmp_path / "pred.csv")
    printed = succeed(*arguments).stdout
    assert printed == (tmp_path / "pred.csv").read_text()
    values = json.loads(succeed(*arguments, "--json").stdout)
    assert {name: list(column) for name, column in read(tmp_path / "pred.csv").items()} == values[
        "predictions"
    ]
    assert (values["rows"], values["level"], values["computational_share"]) == (NEW, 0.95, None)
    values = json.loads(succeed(*arguments, "--json", "--share").stdout)
    assert values["computational_share"]["kind"] == "exact"
    assert list(values["predictions"]) == ["mean", "std", "computational_std", "lower", "upper"]
    pq = pytest.importorskip("pyarrow.parquet")
    values = json.loads(succeed(*arguments, "--json", "--out", tmp_path / "pred.parquet").stdout)
    assert "predictions" not in values
    table = pq.read_table(tmp_path / "pred.parquet").to_pydict()
    assert table == {name: list(column) for name, column in read(tmp_path / "pred.csv").items()}


def test_refine_goes_on_as_in_python_and_replaces_the_model_unless_told(folder, tmp_path):
    model = IterGPRegressor.load(folder / "model.itergp")
    before = (folder / "model.itergp").read_bytes()
    succeed("refine", folder / "model.itergp", "--budget", "5 actions", "--out", tmp_path / "more.itergp")
    assert (folder / "model.itergp").read_bytes() == before
    succeed("refine", tmp_path / "more.itergp", "--budget", "7 actions")  # in place
    refined = IterGPRegressor.load(tmp_path / "more.itergp")
    assert refined.posterior_.rank == 42
    np.testing.assert_array_equal(refined.predict(X[AT]), model.refine("12 actions").predict(X[AT]))


def test_update_is_partial_fit_and_the_table_is_still_known(folder, tmp_path):
    model = IterGPRegressor.load(folder / "model.itergp").partial_fit(X[MORE], Y[MORE])
    values = json.loads(
        succeed(
            "update", folder / "model.itergp", folder / "more.csv", "--json", "--out", tmp_path / "m.itergp"
        ).stdout
    )
    assert values["rows"] == N + 10
    succeed("predict", tmp_path / "m.itergp", folder / "new.csv", "--out", tmp_path / "pred.csv")
    np.testing.assert_array_equal(read(tmp_path / "pred.csv")["mean"], model.predict(X[AT]))


def test_models_written_by_python_are_read_by_names_or_by_place(folder, tmp_path):
    model = IterGPRegressor(noise=0.01, learn=False).fit(X[TRAIN, :2], Y[TRAIN])
    model.save(tmp_path / "plain.itergp")
    write(tmp_path / "two.csv", AT, ("size", "heat"), header=False)
    succeed("predict", tmp_path / "plain.itergp", tmp_path / "two.csv", "--out", tmp_path / "pred.csv")
    np.testing.assert_array_equal(read(tmp_path / "pred.csv")["mean"], model.predict(X[AT, :2]))
    pd = pytest.importorskip("pandas")
    model.fit(pd.DataFrame(X[TRAIN, :2], columns=["size", "heat"]), Y[TRAIN]).save(tmp_path / "named.itergp")
    succeed("predict", tmp_path / "named.itergp", folder / "new.csv", "--out", tmp_path / "named.csv")
    np.testing.assert_allclose(
        read(tmp_path / "named.csv")["mean"], read(tmp_path / "pred.csv")["mean"], rtol=1e-12
    )
    result = run("update", tmp_path / "named.itergp", folder / "more.csv")
    assert result.exit_code == 2
    assert "does not say which column is the target" in result.stderr


def test_parquet_in_is_csv_in(folder, tmp_path, quick):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        pa.table({name: column[TRAIN] for name, column in COLUMNS.items()}), tmp_path / "train.parquet"
    )
    pq.write_table(pa.table({name: column[AT] for name, column in COLUMNS.items()}), tmp_path / "new.pq")
    succeed("fit", tmp_path / "train.parquet", *FIT, "--out", tmp_path / "a.itergp")
    succeed("fit", folder / "train.csv", *FIT, "--out", tmp_path / "b.itergp")
    a = succeed("predict", tmp_path / "a.itergp", tmp_path / "new.pq").stdout
    assert a == succeed("predict", tmp_path / "b.itergp", folder / "new.csv").stdout


# What it says.


def test_the_summary_says_what_was_learned_bought_and_is_missing_in_80_columns(folder):
    text = (folder / "fit.txt").read_text()
    assert max(map(len, text.splitlines())) <= 80
    fit = IterGPRegressor.load(folder / "model.itergp").fit_
    for expected in (
        "What was learned",
        f"{formula(fit.kernel)}, scale in variances of the target",
        f"{choice.sentence(choice.rows(fit.trace.candidates))} noise",
        "colour=red",
        "What the budget bought",
        "30 of 150",
        "budget. The budget is used up.",
        "computational share",
        "computed exactly",
        "Before neighbours",
        "The last half of the actions (15 to 30)",
        "learning iterations gained",
    ):
        assert expected in re.sub(r"\s+", " ", text), expected


@pytest.fixture
def matern32(monkeypatch):
    """The command line chooses the kernel; here it has one lengthscale for each feature."""

    def learned(rows, noise, *what, groups=None, **how):
        return learn_rows(rows, start_of(FIRST, rows.X.shape[1]), noise, *what, **how)

    monkeypatch.setattr("itergp.estimator.hyperparameters.choose_rows", learned)


@pytest.mark.parametrize("share", [False, True], ids=["one for each feature", "one for all features"])
def test_the_summary_ranks_features_whatever_kernel_was_chosen(share, folder, tmp_path, monkeypatch):
    """By how far the predicted mean moves where they have no lengthscales of their own."""
    kernel = 1.0 * RBF(1.0) + 0.5 * Linear(5.0) if share else 1.0 * RBF(np.array([0.5, 5.0, 50.0, 50.0]))
    monkeypatch.setattr(
        "itergp.estimator.hyperparameters.choose_rows",
        lambda rows, noise, *what, **how: Learned(
            kernel + 0.5 * Linear(5.0) if share else kernel, noise, 0.0
        ),
    )
    fit = ("fit", folder / "train.csv", *FIT, "--out", tmp_path / "m.itergp")
    features = json.loads(succeed(*fit, "--json").stdout)["learned"]["features"]
    assert {row["name"] for row in features} == {"size", "heat", "colour=blue", "colour=red"}
    assert [row["lengthscale"] is None for row in features] == [share] * 4
    text = re.sub(r"\s+", " ", succeed(*fit).stdout)
    assert ("how far the predicted mean moves" in text) == share
    assert ("lengthscale relevance" in text) == (not share)  # no empty column
    assert ("Lengthscales are in the units" in text) == (not share)
    assert "colour=red" in text


def test_the_numbers_of_the_summary_are_those_of_the_model(folder, tmp_path, matern32):
    values = json.loads(
        succeed("fit", folder / "train.csv", *FIT, "--json", "--out", tmp_path / "m.itergp").stdout
    )
    model = IterGPRegressor.load(tmp_path / "m.itergp")
    learned, share, acting = values["learned"], values["computational_share"], values["more_budget"]["acting"]
    lengthscales = dict(
        zip(["size", "heat", "colour=blue", "colour=red"], model.kernel_.kernel.lengthscale, strict=True)
    )
    for row in learned["features"]:
        assert row["relevance"] == pytest.approx(1 / lengthscales[row["name"]])
    assert [row["name"] for row in learned["features"]] == sorted(lengthscales, key=lengthscales.get)
    assert learned["features"][0]["name"] == "size"  # the data are made so
    assert learned["noise_std"] ** 2 == pytest.approx(model.decompose(X[:1]).noise[0])
    assert learned["noise_share"] == pytest.approx(learned["noise_std"] ** 2 / Y[TRAIN].var())
    reported = numbers(model.fit_)
    assert share["share"] == pytest.approx(reported["share"]["value"], rel=1e-4)
    assert (share["kind"], share["error"], share["points"], share["held_out"]) == ("exact", 0.0, N, N)
    globally = IterGPRegressor.load(tmp_path / "m.itergp").set_params(neighbours=0)
    assert share["global_actions"]["share"] == pytest.approx(
        numbers(globally.fit_)["share"]["value"], rel=1e-4
    )
    half = IterGPRegressor(budget="15 actions", neighbours=0).fit(X[TRAIN], Y[TRAIN])
    assert (acting["from"], acting["to"]) == (15, 30)
    for which, fitted in (("variance_from", half), ("variance_to", globally)):
        variance = look(fitted.fit_).variances[-1] * model.scaling_.y_scale**2
        assert acting[which] == pytest.approx(variance.mean(), rel=1e-6)
    assert values["budget"]["asked"] == "30 actions"


def stations(path, name="station"):
    """150 rows of ten stations, each at its own place with a level of its own."""
    rng = np.random.default_rng(3)
    at = np.repeat(np.arange(10), 15)
    X = np.column_stack([at + 0.1 * rng.standard_normal(150), rng.uniform(-1, 1, 150)])
    y = rng.standard_normal(10)[at] + np.sin(3 * X[:, 1]) + 0.1 * rng.standard_normal(150)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["place", "load", name, "y"])
        writer.writerows(
            (*map(repr, x), f"s{i}", repr(v)) for x, i, v in zip(X.tolist(), at, y.tolist(), strict=True)
        )
    return X, y, at


def candidates(fit):
    return [(one.name, one.objective, one.score, one.chosen) for one in fit.trace_.candidates]


def test_groups_are_a_column_that_is_no_feature(tmp_path):
    """The kernel is chosen as in Python with these labels, and `predict` needs no such column."""
    X, y, at = stations(tmp_path / "t.csv")
    arguments = ["fit", tmp_path / "t.csv", "--target", "y", "--budget", "20 actions", "--out"]
    result = succeed(*arguments, tmp_path / "m.itergp", "--groups", "station", "--json")
    found = IterGPRegressor.load(tmp_path / "m.itergp")
    expected = IterGPRegressor(budget="20 actions").fit(X, y, at)
    assert candidates(found) == candidates(expected)
    assert candidates(found) != candidates(IterGPRegressor(budget="20 actions").fit(X, y))
    named = [row["name"] for row in json.loads(result.stdout)["learned"]["candidates"]]
    assert named == [
        one.name.replace(", one lengthscale", " (one lengthscale)") for one in found.trace_.candidates
    ]
    (tmp_path / "new.csv").write_text("place,load\n1,0.5\n")
    printed = succeed("predict", tmp_path / "m.itergp", tmp_path / "new.csv")
    assert float(printed.stdout.splitlines()[1].split(",")[0]) == found.predict([[1.0, 0.5]])[0]
    assert "ignored" not in succeed("predict", tmp_path / "m.itergp", tmp_path / "t.csv").stderr


def test_blocks_are_made_of_the_inputs_unless_a_column_is_called_so(tmp_path):
    X, y, at = stations(tmp_path / "t.csv")
    stations(tmp_path / "called.csv", "blocks")
    fit = ["--target", "y", "--budget", "20 actions", "--groups", "blocks", "--out", tmp_path / "m.itergp"]
    succeed("fit", tmp_path / "t.csv", "--drop", "station", *fit)
    expected = IterGPRegressor(budget="20 actions").fit(X, y, "blocks")
    assert candidates(IterGPRegressor.load(tmp_path / "m.itergp")) == candidates(expected)
    succeed("fit", tmp_path / "called.csv", *fit)
    expected = IterGPRegressor(budget="20 actions").fit(X, y, at)
    assert candidates(IterGPRegressor.load(tmp_path / "m.itergp")) == candidates(expected)


def test_a_named_kernel_is_not_chosen(folder, tmp_path):
    values = json.loads(
        succeed(
            "fit", folder / "train.csv", *FIT, "--kernel", "matern12", "--json", "--out", tmp_path / "m"
        ).stdout
    )
    assert values["learned"]["kernel"].endswith("* Matern12")
    assert values["learned"]["candidates"] == []
    assert "chosen" not in succeed("info", tmp_path / "m").stdout


def test_the_help_lists_all_kernels():
    from itergp.estimator.names import AUTO, KERNELS

    said = re.sub(r"[│\s]+", " ", succeed("fit", "--help").stdout)
    assert "[default: auto]" in said
    for name in (AUTO, *KERNELS):
        assert name in said, name


@pytest.mark.parametrize("width", [80, 46])
def test_the_candidates_are_shown_within_the_width_of_the_terminal(folder, width):
    """Every candidate with its numbers, none cut, at the end of a real process."""
    values = json.loads(succeed("info", folder / "model.itergp", "--json").stdout)["learned"]["candidates"]
    shown = subprocess.run(
        [sys.executable, "-m", "itergp.cli", "info", folder / "model.itergp"],
        env=os.environ | {"COLUMNS": str(width)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert max(map(len, shown.splitlines())) <= width
    table = shown.partition("How the kernel was chosen")[2].partition("Log density: ")[0]
    assert "…" not in table
    letters = re.sub(r"\s", "", table)
    assert table.count("chosen") == 1
    assert len(values) > 5
    for row in values:
        if width == 80:
            assert row["name"] in table
        assert row["log_density"] is None or f"{row['log_density']:.2f}".replace("-", MINUS)[:-1] in letters
        assert row["coverage"] is None or f"{100 * row['coverage']:.1f}%" in letters


@pytest.mark.parametrize(("passes", "kind"), [(4, "estimate"), (0, "neighbours")])
def test_more_rows_than_the_exact_gp_can_take_get_bounds(folder, monkeypatch, passes, kind):
    """From passes over K where these are affordable, else from more neighbours, and it is said which."""
    model = IterGPRegressor.load(folder / "model.itergp")
    exact, truth = measuring.measured(model.fit_)["computational_share"], model.decompose(X[AT])
    for module in (measuring, shares, uncertainty):
        monkeypatch.setattr(module, "DENSE_ROWS", 10)
    for module in (measuring, shares):
        monkeypatch.setattr(module, "affordable_passes", lambda *_: passes)
    monkeypatch.setattr(shares, "FEW", N)
    columns, about = measuring.predictions(model.fit_, X[AT], 0.95)
    bound, share = columns["computational_std"] ** 2, about["computational_share"]
    assert (share["kind"], share["by_neighbours"]) == (kind, min(240, N))
    assert (bound <= truth.computational * (1 + 1e-6) + 1e-12).all()  # never too much
    assert bound.sum() > 0.5 * truth.computational.sum()
    assert share["share"] == pytest.approx(bound.sum() / truth.combined.sum())
    assert share["lower"] <= truth.share * (1 + 1e-6)
    assert truth.share <= share["upper"]
    found = measuring.measured(model.fit_)["computational_share"]
    for estimate, known in ((found, exact), (found["global_actions"], exact["global_actions"])):
        assert estimate["kind"] == kind
        assert estimate["lower"] <= known["share"] * (1 + 1e-6) + 1e-12
        assert known["share"] <= estimate["upper"] * (1 + 1e-6)
    assert found["passes"] == passes


def test_passes_are_made_where_they_take_a_small_part_of_the_time_of_the_fit(folder, monkeypatch):
    model = IterGPRegressor.load(folder / "model.itergp")
    posterior = model.posterior_
    monkeypatch.setattr(price, "seconds_of_pass", lambda posterior, points: 0.01 * points)
    check = price.CHECK if posterior.problem.gram.dtype == np.float32 else 1.0
    for seconds, expected in ((0.1 * check, 0), (0.1 * check + 0.25, 3), (1e6, uncertainty.PASSES)):
        assert price.affordable_passes(posterior, 10, seconds) == expected
    monkeypatch.setattr(measuring, "DENSE_ROWS", 10)
    for seconds, expected in ((0.0, 0), (40.0 * check, 2), (1e6, uncertainty.PASSES)):
        fit = replace(model.fit_, timings={"total": seconds})
        assert measuring.affordable(fit, 200 if seconds else 1000) == expected


def test_info_says_what_is_here_and_what_is_in_a_model(folder):
    assert "engine for 20,000 rows" in succeed("info").stdout
    assert "numpy" in json.loads(succeed("info", "--json").stdout)["versions"]
    text = succeed("info", folder / "model.itergp").stdout
    assert "categories of 'colour': 'blue', 'red'" in text
    assert max(map(len, text.splitlines())) <= 80
    values = json.loads(succeed("info", folder / "model.itergp", "--json").stdout)
    assert (values["target"], values["rows"], values["columns"]["dropped"]) == ("y", N, ["id"])


def test_the_help_needs_none_of_the_heavy_libraries():
    code = (
        "import sys, itergp.cli\n"
        "sys.argv = ['itergp', 'fit', '--help']\n"
        "try: itergp.cli.main()\n"
        "except SystemExit as end: print(end.code, sorted({'jax', 'scipy', 'sklearn', 'pandas', 'pyarrow'} & "
        "set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "0 []"


# Strange names and dialects.


def test_hostile_names_of_columns_and_files(tmp_path, quick):
    names = ["[red]", "a,b", 'quo"te', "new\nline", "\x1b[31mx", "ünï", "=cmd()", "--y"]
    train = tmp_path / "[bold] ü\n.csv"
    values = np.random.default_rng(2).standard_normal((40, len(names)))
    with open(train, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *values.tolist()])
    model = tmp_path / "mod[el] \x1b[2J.itergp"
    result = succeed(
        "fit",
        train,
        "--target",
        "--y",
        "--drop",
        "a,b",
        "--categorical",
        "[red]",
        "--budget",
        "5 actions",
        "--out",
        model,
    )
    assert "\x1b" not in result.output
    assert [
        row["name"] for row in json.loads(succeed("info", model, "--json").stdout)["columns"]["features"]
    ] == [name for name in names if name not in ("a,b", "--y")]
    assert "\x1b" not in succeed("info", model).output
    found = succeed("predict", model, train).stdout.splitlines()
    assert len(found) == 41
    result = run("fit", train, "--target", "\x1b[31m")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_table_with_a_byte_order_mark_semicolons_and_no_names(tmp_path, quick):
    names = ("size", "y", "heat")
    write(tmp_path / "train.csv", TRAIN, names, ";", header=False, start="\ufeff")
    succeed(
        "fit",
        tmp_path / "train.csv",
        "--target",
        "2",
        "--budget",
        "9 actions",
        "--out",
        tmp_path / "m.itergp",
    )
    write(tmp_path / "with.csv", AT, names, "\t", header=False)
    write(tmp_path / "without.csv", AT, ("size", "heat"), header=False)
    found = succeed("predict", tmp_path / "m.itergp", tmp_path / "with.csv").stdout
    assert found == succeed("predict", tmp_path / "m.itergp", tmp_path / "without.csv").stdout
    assert len(found.splitlines()) == NEW + 1


def test_columns_that_the_model_does_not_know_are_left_alone_and_named(folder, tmp_path):
    text = (folder / "new.csv").read_text().splitlines()
    (tmp_path / "extra.csv").write_text(
        "\n".join([text[0] + ",note", *(line + ",hello" for line in text[1:])])
    )
    result = succeed("predict", folder / "model.itergp", tmp_path / "extra.csv")
    assert result.stdout == succeed("predict", folder / "model.itergp", folder / "new.csv").stdout
    assert "'note'" in result.stderr


# What is wrong is said in one line, and nothing is written.

FILES = {
    "empty.csv": b"",
    "ragged.csv": b"size,heat,colour,y\n1,2,red,3\n1,2,red\n",
    "nul.csv": b"size,y\n1,2\n\0,3\n",
    "twice.csv": b"size,size,y\n1,2,3\n",
    "missing.csv": b"size,heat,colour,y\n1,2,red,3\n1,,red,4\n",
    "words.csv": b"size,heat,colour,y\n1,2,red,3\n1,hot,red,4\n",
    "wordy.csv": b"size,y\n1,low\n2,3\n",
    "infinite.csv": b"size,heat,colour,y\n1,inf,red,3\n",
    "utf16.csv": "size,y\n1,2\n".encode("utf-16"),
    "quote.csv": b'size,y\n"1,2\n3,4\n',
    "names.csv": b"size,heat,colour,y\n",
    "unclear.csv": b"2019,y\n1,2\n3,4\n",
    "unseen.csv": b"size,heat,colour,y\n1,2,green,3\n",
    "fewer.csv": b"size,colour,y\n1,red,3\n",
    "bare.csv": b"1,2,red\n3,4,blue\n",
    "no_target.csv": b"size,heat,colour\n1,2,red\n",
    "one_group.csv": b"size,line,y\n1,a,2\n2,a,3\n3,a,5\n",
    "no_group.csv": b"size,line,y\n1,a,2\n2,,3\n3,b,5\n4,nan,5\n",
    "sheet.parquet": b"size,y\n1,2\n",
    "text.itergp": b"no model",
}
# arguments, the exit code, and what the message must say
BAD = {
    "no command": (["fitt"], 2, "No such command 'fitt'"),
    "no such option": (
        ["fit", "train.csv", "--target", "y", "--speed", "9"],
        2,
        "No such option:? '?--speed",
    ),
    "no target": (["fit", "train.csv"], 2, "Missing option '--target'"),
    "no file given": (["fit", "--target", "y"], 2, "Missing argument 'TRAIN'"),
    "no such file": (["fit", "none.csv", "--target", "y"], 2, "none.csv does not exist"),
    "a folder": (["fit", ".", "--target", "y"], 2, "is a folder; expected a file"),
    "empty": (["fit", "empty.csv", "--target", "y"], 2, "empty.csv is empty"),
    "ragged": (
        ["fit", "ragged.csv", "--target", "y"],
        2,
        "ragged.csv, line 3: 3 cells; expected 4, as in line 1",
    ),
    "NUL": (["fit", "nul.csv", "--target", "y"], 2, "nul.csv, line 3: a NUL byte"),
    "duplicate names": (
        ["fit", "twice.csv", "--target", "y"],
        2,
        "twice.csv, line 1: two columns are called 'size'",
    ),
    "missing value": (
        ["fit", "missing.csv", "--target", "y", "--categorical", "colour"],
        2,
        "line 3, column 'heat': the value is missing",
    ),
    "text": (
        ["fit", "words.csv", "--target", "y", "--drop", "colour"],
        2,
        "line 3, column 'heat': 'hot' is not a number. Use --categorical",
    ),
    "text everywhere": (
        ["fit", "words.csv", "--target", "y"],
        2,
        "'hot' is not a number. Neither are cells of 'colour'",
    ),
    "text as target": (
        ["fit", "wordy.csv", "--header", "--target", "y"],
        2,
        "line 2, column 'y': 'low' is not a number. The target",
    ),
    "infinite": (
        ["fit", "infinite.csv", "--target", "y", "--drop", "colour"],
        2,
        "column 'heat': 'inf' is not finite",
    ),
    "UTF-16": (["fit", "utf16.csv", "--target", "y"], 2, "utf16.csv is UTF-16 text"),
    "missing, what?": (["fit", "train.csv", *FIT, "--missing", "mean"], 2, "--missing is 'mean'"),
    "dates, what?": (["fit", "train.csv", *FIT, "--dates", "month"], 2, "--dates is 'month'; expected auto"),
    "decimal, what?": (["fit", "train.csv", *FIT, "--decimal", ";"], 2, "--decimal is ';'; expected . or ,"),
    "mean, what?": (["fit", "train.csv", *FIT, "--mean", "median"], 2, "--mean is 'median'"),
    "keep, what?": (
        ["predict", "model.itergp", "new.csv", "--keep", "name"],
        2,
        "--keep is 'name', which is not a column of new.csv",
    ),
    "another target": (
        ["update", "model.itergp", "more.csv", "--target", "size"],
        2,
        "--target is 'size', but the target of the model is 'y'",
    ),
    "open quotation": (["fit", "quote.csv", "--target", "y"], 2, "quote.csv, line 2"),
    "names only": (["fit", "names.csv", "--target", "y"], 2, "names.csv has names but no rows"),
    "names or data": (["fit", "unclear.csv", "--target", "y"], 2, "Use --header or --no-header"),
    "no Parquet": (["fit", "sheet.parquet", "--target", "y"], 2, "is not a Parquet file|pip install"),
    "unknown target": (
        ["fit", "train.csv", "--target", "z"],
        2,
        "--target is 'z', which is not a column of .*'size'",
    ),
    "target 0": (["fit", "train.csv", "--target", "0"], 2, "--target is '0', which is not a column"),
    "target 99": (["fit", "train.csv", "--target", "99"], 2, "--target is '99', which is not a column"),
    "target name, no names": (["fit", "bare.csv", "--target", "y"], 2, "The file has no names: use numbers"),
    "unknown drop": (
        ["fit", "train.csv", "--target", "y", "--drop", "sise"],
        2,
        "--drop is 'sise'.*Did you mean 'size'",
    ),
    "unknown category": (
        ["fit", "train.csv", "--target", "y", "--categorical", "shape"],
        2,
        "--categorical is 'shape'",
    ),
    "target dropped": (
        ["fit", "train.csv", "--target", "y", "--drop", "y"],
        2,
        "--drop names 'y', which is the target",
    ),
    "all dropped": (
        ["fit", "train.csv", "--target", "y", "--drop", "1,2,3,4"],
        2,
        "no column other than the target 'y'",
    ),
    "unknown kernel": (
        ["fit", "train.csv", *FIT, "--kernel", "matern"],
        2,
        "--kernel is 'matern'; expected one of 'auto', 'matern12', .*'linear'",
    ),
    "unknown groups": (
        ["fit", "train.csv", *FIT, "--groups", "color"],
        2,
        "--groups is 'color', which is not a column of .*'size'.*Did you mean 'colour'",
    ),
    "groups: the target": (
        ["fit", "train.csv", "--target", "y", "--groups", "y"],
        2,
        "--groups names 'y', which is the target",
    ),
    "groups: a category": (
        ["fit", "train.csv", *FIT, "--groups", "colour"],
        2,
        "--groups and --categorical both name 'colour'",
    ),
    "one group": (
        ["fit", "one_group.csv", "--target", "y", "--groups", "line"],
        2,
        "groups has one group, 'a'; expected at least two",
    ),
    "a group is missing": (
        ["fit", "no_group.csv", "--target", "y", "--groups", "line"],
        2,
        "line 3, column 'line': the group is missing .2 missing in all.. Give each row a group",
    ),
    "groups beside a kernel": (
        ["fit", "train.csv", *FIT, "--groups", "blocks", "--kernel", "rbf"],
        2,
        "--groups chooses between kernels, but --kernel is 'rbf'; leave one of them out",
    ),
    "budget without unit": (
        ["fit", "train.csv", *FIT, "--budget", "30"],
        2,
        "--budget is '30'; expected a number and a unit",
    ),
    "negative budget": (["fit", "train.csv", *FIT, "--budget", "-3s"], 2, "--budget is '-3s'"),
    "no budget": (["fit", "train.csv", *FIT, "--budget", "0s"], 2, "--budget is '0s'"),
    "half an action": (["fit", "train.csv", *FIT, "--budget", "1.5 actions"], 2, "--budget is '1.5 actions'"),
    "budget in words": (["refine", "model.itergp", "--budget", "a while"], 2, "--budget is 'a while'"),
    "cache": (["fit", "train.csv", *FIT, "--cache", "lots"], 2, "--cache is 'lots'"),
    "negative seed": (["fit", "train.csv", *FIT, "--seed", "-1"], 2, "'--seed'"),
    "seed in words": (["fit", "train.csv", *FIT, "--seed", "one"], 2, "'--seed'"),
    "out: no folder": (
        ["fit", "train.csv", *FIT, "--out", "none/m.itergp"],
        2,
        "the folder none does not exist",
    ),
    "out: a folder": (["fit", "train.csv", *FIT, "--out", "."], 2, "it is a folder, not an ordinary file"),
    "out: a pipe": (
        ["fit", "train.csv", *FIT, "--out", "pipe"],
        2,
        "pipe cannot be written: it is a named pipe",
    ),
    "out: read-only": (
        ["fit", "train.csv", *FIT, "--out", "fixed.itergp"],
        2,
        "it is read-only .mode 444.*chmod u.w",
    ),
    "out: a link to it": (
        ["refine", "model.itergp", "--out", "link.itergp"],
        2,
        "link.itergp cannot be written: it is read-only",
    ),
    "a pipe": (["fit", "pipe", "--target", "y"], 2, "pipe is a named pipe; expected a file"),
    "a pipe as model": (["info", "pipe"], 2, "pipe is a named pipe; expected a file"),
    "a pipe of new rows": (["predict", "model.itergp", "pipe"], 2, "pipe is a named pipe; expected a file"),
    "out: the table": (["fit", "train.csv", *FIT, "--out", "./train.csv"], 2, "is an input of this command"),
    "level 0": (["predict", "model.itergp", "new.csv", "--level", "0"], 2, "--level is 0.0"),
    "level 95": (["predict", "model.itergp", "new.csv", "--level", "95"], 2, "--level is 95.0"),
    "level NaN": (["predict", "model.itergp", "new.csv", "--level", "nan"], 2, "--level is nan"),
    "level in words": (["predict", "model.itergp", "new.csv", "--level", "high"], 2, "'--level'"),
    "no such model": (["predict", "none.itergp", "new.csv"], 2, "none.itergp does not exist"),
    "no model": (["predict", "text.itergp", "new.csv"], 1, "text.itergp was not written by this library"),
    "a table as model": (["predict", "train.csv", "new.csv"], 1, "train.csv was not written by this library"),
    "half a model": (["predict", "half.itergp", "new.csv"], 1, "half.itergp is damaged"),
    "a bit flipped": (["info", "flipped.itergp"], 1, "flipped.itergp is damaged"),
    "several targets": (["predict", "several.itergp", "new.csv"], 2, "several.itergp has 2 targets"),
    "column lacking": (
        ["predict", "model.itergp", "fewer.csv"],
        2,
        "fewer.csv lacks the column 'heat'; it has 'size', 'colour', 'y'",
    ),
    "no names": (["predict", "model.itergp", "bare.csv"], 2, "bare.csv has no names in its first line"),
    "unseen category": (
        ["predict", "model.itergp", "unseen.csv"],
        2,
        "column 'colour': the fit has not seen the category 'green'",
    ),
    "text in new rows": (
        ["predict", "model.itergp", "words.csv"],
        2,
        "line 3, column 'heat': 'hot' is not a number. It was one",
    ),
    "missing in new rows": (
        ["predict", "model.itergp", "missing.csv"],
        2,
        "line 3, column 'heat': the value is missing",
    ),
    "out: a spreadsheet": (
        ["predict", "model.itergp", "new.csv", "--out", "p.xlsx"],
        2,
        "p.xlsx ends in '.xlsx'; expected",
    ),
    "out: the new rows": (
        ["predict", "model.itergp", "new.csv", "--out", "new.csv"],
        2,
        "new.csv is an input of this command",
    ),
    "out: the model": (
        ["predict", "model.itergp", "new.csv", "--out", "model.itergp"],
        2,
        "model.itergp is an input of this command",
    ),
    "cannot be refined": (["refine", "final.itergp", "--budget", "3 actions"], 2, "refinable=False"),
    "update, no target": (
        ["update", "model.itergp", "no_target.csv"],
        2,
        "no_target.csv lacks the column 'y', the target",
    ),
    "update, ragged": (["update", "model.itergp", "ragged.csv"], 2, "ragged.csv, line 3"),
    "update, infinite": (["update", "model.itergp", "infinite.csv"], 2, "'inf' is not finite"),
}


@pytest.fixture(scope="module")
def battlefield(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("bad")
    for name, content in (snapshot(folder) | FILES).items():
        (path / name).write_bytes(content)
    model = (path / "model.itergp").read_bytes()
    (path / "half.itergp").write_bytes(model[: len(model) // 2])
    (path / "flipped.itergp").write_bytes(model[:-9] + bytes([model[-9] ^ 1]) + model[-8:])
    loaded = IterGPRegressor.load(path / "model.itergp")
    loaded.save(path / "final.itergp", refinable=False)
    two = IterGPRegressor(noise=0.1, learn=False, budget="3 actions").fit(
        X[TRAIN], np.stack([Y[TRAIN], Y[TRAIN] ** 2], axis=1)
    )
    two.save(path / "several.itergp")
    os.mkfifo(path / "pipe")
    (path / "fixed.itergp").write_bytes(model)
    (path / "fixed.itergp").chmod(0o444)
    (path / "link.itergp").symlink_to("fixed.itergp")
    return path


@pytest.mark.parametrize("what", BAD)
def test_bad_use_is_named_in_one_line_and_nothing_is_written(battlefield, monkeypatch, what):
    arguments, code, message = BAD[what]
    before = snapshot(battlefield)
    monkeypatch.chdir(battlefield)
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    if not result.stderr.startswith("Usage"):  # typer's own have a frame
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
    assert snapshot(battlefield) == before


def test_failures_while_writing_leave_what_was_there(folder, tmp_path, monkeypatch):
    for name, content in snapshot(folder).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "pred.csv").write_text("old")
    before = snapshot(tmp_path)

    def full(*names, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    for arguments in (
        ("predict", tmp_path / "model.itergp", tmp_path / "new.csv", "--out", tmp_path / "pred.csv"),
        ("refine", tmp_path / "model.itergp", "--budget", "2 actions"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "No space left on device" in result.stderr
        assert snapshot(tmp_path) == before


def test_a_bug_is_one_line_too(folder, monkeypatch):
    def bug(*arguments, **how):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("itergp.cli.fitting.read_table", bug)
    result = run("fit", folder / "train.csv", *FIT)
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: RuntimeError: two lines. This is a bug in itergp; set ITERGP_TRACEBACK=1 for the traceback.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["info"], 0), (["predict", "text.itergp", "new.csv"], 1), (["fit", "x.csv", "--target", "y"], 2)],
)
def test_exit_codes_of_the_program(battlefield, arguments, code):
    result = subprocess.run(
        [sys.executable, "-m", "itergp.cli", *arguments], cwd=battlefield, capture_output=True, text=True
    )
    assert result.returncode == code
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["fit", "--help"], ["info"], ["info", "--json"], ["predict", "model.itergp", "new.csv"]],
)
@pytest.mark.parametrize("messages", ["a place for messages", "none for messages either"])
def test_a_full_disk_is_one_line_also_for_the_help(arguments, messages, battlefield, tmp_path):
    """A full disk is a limit of 0 bytes for files here."""
    pytest.importorskip("resource")
    limited = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); os.execv(sys.argv[1], "
        "sys.argv[1:])"
    )
    with open(tmp_path / "out", "wb") as out:
        result = subprocess.run(
            [sys.executable, "-c", limited, sys.executable, "-m", "itergp.cli", *arguments],
            cwd=battlefield,
            stdout=out,
            stderr=subprocess.PIPE if messages.startswith("a") else out,
            text=True,
        )
    assert result.returncode == 1
    if messages.startswith("a"):
        assert re.fullmatch(r"Error: .*(File too large).*\n", result.stderr), result.stderr


# Ctrl-C.


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_control_c_and_its_like_during_a_fit_save_what_there_is(name, folder, tmp_path, monkeypatch):
    def interrupted(*arguments, **how):
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(1.0)

    monkeypatch.setattr("itergp.estimator.hyperparameters.choose_rows", interrupted)
    result = run("fit", folder / "train.csv", *FIT, "--budget", "60s", "--out", tmp_path / "m.itergp")
    assert result.exit_code == 3  # neither a success nor a failure
    assert "Note: Interrupted after 128 actions. The model is valid" in result.stderr
    assert "Saved: " in result.stderr
    assert "interrupted. The run was stopped early." in result.stdout
    assert "Note: Learning was interrupted before its first iteration" in result.stderr
    assert "can be far worse than the data allow" in result.stderr
    assert IterGPRegressor.load(tmp_path / "m.itergp").status_ is Status.INTERRUPTED
    monkeypatch.undo()
    succeed("refine", tmp_path / "m.itergp", "--budget", "40 actions")
    assert IterGPRegressor.load(tmp_path / "m.itergp").status_ is Status.EXACT


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_control_c_once_the_work_is_done_waits_until_it_is_saved(name, folder, tmp_path, monkeypatch, quick):
    from itergp.cli.files import save_model

    def save(*arguments):
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(0.01)
        save_model(*arguments)

    monkeypatch.setattr("itergp.cli.fitting.save_model", save)
    result = succeed("fit", folder / "train.csv", *FIT, "--json", "--out", tmp_path / "m.itergp")
    assert "computational_share" not in json.loads(result.stdout)  # nobody waits for what would take long
    assert IterGPRegressor.load(tmp_path / "m.itergp").posterior_.rank == 30
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(130)])
@pytest.mark.parametrize("as_json", [False, True])
def test_control_c_while_a_command_starts_is_answered(end, as_json, monkeypatch, capsys):
    """Before there is any command that could do so."""
    import itergp.cli

    def interrupted(*arguments, **how):
        raise end

    monkeypatch.setattr(itergp.cli, "require_libraries", interrupted)
    monkeypatch.setattr("sys.argv", ["itergp", "fit", *["--json"] * as_json])
    with pytest.raises(SystemExit) as ended:
        itergp.cli.main()
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert err == "Error: interrupted; nothing was written.\n"
    expected = {"error": "interrupted; nothing was written.", "exit_code": 1}
    assert json.loads(out) == expected if as_json else not out


def test_control_c_before_anything_was_computed_writes_nothing(folder, tmp_path, monkeypatch):
    def interrupted(*arguments, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring.predicted, "mean_std_and_noise", interrupted)
    monkeypatch.setattr("itergp.cli.fitting.read_table", interrupted)
    for arguments in (
        ("predict", folder / "model.itergp", folder / "new.csv", "--out", tmp_path / "pred.csv"),
        ("fit", folder / "train.csv", *FIT, "--out", tmp_path / "m.itergp"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert result.stderr == "Error: interrupted; nothing was written.\n"
        assert list(tmp_path.iterdir()) == []


# What the bar says once a fit is under way; before scikit-learn 1.9 there are no callbacks, and it only tells
# the time.
BUSY = b"iteration " if hasattr(IterGPRegressor, "set_callbacks") else b"0:00:02"


def long_fit(folder):
    """A table, and a command whose fit of it takes long."""
    rng = np.random.default_rng(3)
    table = rng.uniform(-1, 1, (3000, 4))
    table[:, 3] = np.sin(3 * table[:, :3].sum(axis=1)) + 0.1 * rng.standard_normal(3000)
    np.savetxt(folder / "train.csv", table, delimiter=",", header="a,b,c,y", comments="")
    return table, [
        sys.executable,
        "-m",
        "itergp.cli",
        "fit",
        "train.csv",
        "--target",
        "y",
        "--budget",
        "100s",
    ]


@pytest.mark.slow
def test_a_terminal_that_is_closed_takes_no_model_with_it(tmp_path):
    """SIGHUP, and from then on nothing can be written to the screen, neither the bar nor notes."""
    pty = pytest.importorskip("pty")
    table, command = long_fit(tmp_path)
    ours, theirs = pty.openpty()
    environment, streams = (
        os.environ | {"COLUMNS": "80", "TERM": "xterm"},
        {"stdin": theirs, "stdout": theirs, "stderr": theirs},
    )
    own = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], "
        "sys.argv[1:])"
    )
    command = [sys.executable, "-c", own, *command]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **streams)
    os.close(theirs)
    shown = b""
    while BUSY not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    process.wait(timeout=60)
    model = IterGPRegressor.load(tmp_path / "model.itergp")
    assert model.status_ is Status.INTERRUPTED
    assert np.isfinite(model.predict(table[:5, :3])).all()


@pytest.mark.slow
def test_control_c_in_a_real_terminal(tmp_path):
    """A bar is drawn, Ctrl-C is pressed while it says that it learns, and the model is there."""
    pytest.importorskip("pty")
    table, command = long_fit(tmp_path)
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    shown, pressed = b"", False
    with subprocess.Popen(
        [sys.executable, "-c", terminal, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "80", "TERM": "xterm"},
    ) as process:
        while some := os.read(process.stdout.fileno(), 65536):
            shown += some
            if not pressed and BUSY in shown:
                process.stdin.write(b"\x03")
                process.stdin.flush()
                pressed = True
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert pressed, text
    assert process.returncode == 3, text
    assert "Saved: model.itergp" in text
    model = IterGPRegressor.load(tmp_path / "model.itergp")
    assert model.status_ is Status.INTERRUPTED
    assert np.isfinite(model.predict(table[:5, :3])).all()


@pytest.mark.parametrize("noise", ["heteroscedastic", "robust", "0.05"])
def test_noise_is_learned_as_asked_or_given(folder, tmp_path, noise):
    asked = ["--kernel", "matern12", "--noise", noise, "--json", "--out", tmp_path / "m"]
    values = json.loads(succeed("fit", folder / "train.csv", *FIT, *asked).stdout)
    assert values["learned"]["noise_std"] > 0
    model = IterGPRegressor.load(tmp_path / "m")
    assert str(model.noise) == noise
    assert noise != "0.05" or model.noise_ == 0.05
    refused = run("fit", folder / "train.csv", *FIT, "--noise", "much")
    assert refused.exit_code != 0
    assert "--noise is 'much'; expected learn, heteroscedastic, robust or a variance" in " ".join(
        refused.output.split()
    )

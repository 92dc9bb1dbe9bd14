"""The command line with messy tables: what `fit` was told about a table, all other commands know; what was
done to it is said once; and models go to Python and back."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import itergp
from itergp import IterGPRegressor
from itergp.cli import measuring
from itergp.cli.commands import app
from itergp.fitted import shares
from itergp.tables import Inputs

RNG = np.random.default_rng(5)
N = 60
QUICK = ["--kernel", "matern32", "--budget", "20 actions"]


def run(*arguments, given=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


def succeed(*arguments, given=None):
    result = run(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return result


def rows(start, stop):
    """Semicolons, decimal commas, dates, percent signs, holes, and an id."""
    lines = ["id;day;city;wet;heat;y"]
    for i in range(start, stop):
        day = np.datetime64("2021-03-01") + 5 * i
        wet = "" if i % 9 == 4 else f"{40 + i % 20},5 %"
        heat = "n/a" if i % 7 == 3 else f"{np.sin(i):.3f}".replace(".", ",")
        y = "" if i % 11 == 6 else f"{1000 + 100 * np.sin(i):,.2f}".translate(str.maketrans(",.", ".,"))
        lines.append(f"s{i:02d};{day};{('Bonn', 'Köln')[i % 2]};{wet};{heat};{y}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("messy")
    (path / "train.csv").write_text(rows(0, N), encoding="utf-8")
    (path / "more.csv").write_text(rows(N, N + 20), encoding="latin-1")
    arguments = ["--target", "y", "--drop", "id", "--categorical", "city", "--missing", "impute", *QUICK]
    result = succeed("fit", path / "train.csv", *arguments, "--out", path / "m.itergp", "--json")
    (path / "fit.json").write_text(result.stdout)
    (path / "fit.txt").write_text(result.stderr)
    return path


def test_what_was_done_to_a_table_is_said_once_and_is_in_the_json(folder):
    values, said = json.loads((folder / "fit.json").read_text()), (folder / "fit.txt").read_text()
    for note, part in zip(
        values["notes"],
        (
            "decimals are written with a comma",
            "'wet' has percent signs: 40,5 % is read as 0.405",
            "'y' has thousands separators: 1.000,00 is read as 1000",
            "'day' is a date, used as: days since 2021-03-01, weekday",
            "'wet' has missing values (7)",
            "'heat' has missing values (9)",
            "rows without the target 'y' are left out: 5",
            "'wet', 'heat': an input says where values are missing.",
        ),
        strict=True,
    ):
        assert part in note
        assert said.count(f"Note: {note}\n") == 1
    assert values["rows"] == N - 5


def test_predict_update_and_report_do_as_the_fit_did(folder, tmp_path):
    model = IterGPRegressor.load(folder / "m.itergp")
    found = json.loads(succeed("predict", folder / "m.itergp", folder / "train.csv", "--json").stdout)
    assert found["rows"] == N
    assert found["empty_rows"] == 0
    wet = np.array([np.nan if i % 9 == 4 else (40.5 + i % 20) / 100 for i in range(N)])
    heat = np.array([np.nan if i % 7 == 3 else round(np.sin(i), 3) for i in range(N)])
    day, city = 5.0 * np.arange(N), np.arange(N) % 2
    X = np.column_stack(
        [
            *(day, (day + 0) % 7 + 1),  # which began on a Monday
            *(city == 0, city == 1),
            *(wet, np.isnan(wet)),
            *(heat, np.isnan(heat)),
        ]
    )
    np.testing.assert_allclose(found["predictions"]["mean"], model.predict(X), rtol=1e-12)
    updated = succeed(
        "update", folder / "m.itergp", folder / "more.csv", "--out", tmp_path / "u.itergp", "--json"
    )
    assert json.loads(updated.stdout)["rows"] == N - 5 + 18
    assert "not UTF-8" in updated.stderr
    report = succeed("report", folder / "m.itergp", "--data", folder / "more.csv", "--json")
    assert "rows without the target 'y' are left out: 2." in report.stderr


@pytest.mark.parametrize("shift", [0, 500])
def test_a_finished_model_says_whether_an_input_says_where_values_are_missing(shift, tmp_path):
    """The fit asks held-out errors for it, and says what they said; later nothing depends on them any more.
    y differs by `shift` where b is missing, which nothing else tells."""
    rng = np.random.default_rng(0)
    a, lost = rng.uniform(0, 9, 150), rng.random(150) < 0.3
    y = 100 * np.sin(a) + shift * lost + rng.standard_normal(150)
    cells = [f"{a[i]},{'' if lost[i] else i % 5},{y[i]}" for i in range(150)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *cells]) + "\n")
    asked = ["--target", "y", "--missing", "impute", "--kernel", "matern32", "--out", tmp_path / "m.itergp"]
    asks = "those of similar rows stand for them. If held-out errors ask for it, an input says where."
    says = "an input says where" if shift else "no input says where"
    fitted = succeed("fit", tmp_path / "t.csv", *asked, "--json")
    assert asks in json.loads(fitted.stdout)["notes"][0]
    assert json.loads(fitted.stdout)["notes"][1].startswith(f"'b': {says} values are missing")
    for again in ("predict", "update"):
        there = succeed(again, tmp_path / "m.itergp", tmp_path / "t.csv", "--json")
        (note,) = json.loads(there.stdout)["notes"]
        assert f"those of similar rows stand for them; {says} values are missing" in note
    assert says.replace("an input says", "inputs that say") in succeed("info", tmp_path / "m.itergp").stdout


def test_dropped_rows_are_empty_in_the_predictions_and_ids_are_kept(folder, tmp_path):
    arguments = ["--target", "y", "--drop", "id", "--categorical", "city", "--missing", "drop", *QUICK]
    result = succeed("fit", folder / "train.csv", *arguments, "--out", tmp_path / "d.itergp", "--json")
    missing = sum(i % 9 == 4 or i % 7 == 3 for i in range(N))
    unknown = sum(i % 11 == 6 and not (i % 9 == 4 or i % 7 == 3) for i in range(N))
    assert json.loads(result.stdout)["rows"] == N - missing - unknown
    for suffix in (".csv", ".parquet"):
        out = tmp_path / f"pred{suffix}"
        told = succeed("predict", tmp_path / "d.itergp", folder / "train.csv", "--keep", "id", "--out", out)
        assert f"rows with missing values are empty in the output, as --missing drop says: {missing}" in (
            told.stderr
        )
    lines = (tmp_path / "pred.csv").read_text().splitlines()
    assert lines[0] == "id,mean,std,lower,upper"
    assert [line.split(",")[0] for line in lines[1:]] == [f"s{i:02d}" for i in range(N)]
    assert lines[4] == "s03,,,,"
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(tmp_path / "pred.parquet")
    assert table["mean"].null_count == missing
    assert table["id"].to_pylist()[:2] == ["s00", "s01"]
    clash = run("predict", tmp_path / "d.itergp", tmp_path / "pred.csv", "--keep", "mean")
    assert clash.exit_code == 2


def test_a_pipe_is_a_file(folder, tmp_path):
    content = (folder / "train.csv").read_bytes()
    arguments = ["--target", "y", "--drop", "id", "--categorical", "city", "--missing", "impute", *QUICK]
    succeed("fit", "-", *arguments, "--out", tmp_path / "p.itergp", given=content)
    a = succeed("predict", tmp_path / "p.itergp", "-", given=content).stdout
    b = succeed("predict", folder / "m.itergp", folder / "train.csv").stdout
    assert a == b
    result = run("predict", tmp_path / "p.itergp", "-", given=b"id;day\n1;2\n")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: standard input lacks the columns ")
    result = run("fit", "-", *arguments, "--out", tmp_path / "q.itergp", given=content + b"s99;x\n")
    assert "Error: standard input, line 62: 2 cells; expected 6" in result.stderr


# To Python and back.


def test_python_encodes_the_table_of_a_model_from_the_command_line(folder, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(folder / "train.csv", sep=";", decimal=",", thousands=".", na_values=["n/a"])
    model = IterGPRegressor.load(folder / "m.itergp")
    expected = json.loads(succeed("predict", folder / "m.itergp", folder / "train.csv", "--json").stdout)
    np.testing.assert_allclose(model.predict(frame), expected["predictions"]["mean"], rtol=1e-12)
    assert model.table_.target.name == "y"
    parsed = frame.assign(day=pd.to_datetime(frame.day), city=frame.city.astype("category"))
    np.testing.assert_array_equal(model.predict(parsed), model.predict(frame))
    known = frame.y.notna()
    model.partial_fit(frame[known][:3], frame.y[known][:3])
    model.save(tmp_path / "again.itergp")
    again = succeed("predict", tmp_path / "again.itergp", folder / "train.csv", "--json")
    mean = json.loads(again.stdout)["predictions"]["mean"]
    np.testing.assert_allclose(mean, model.predict(frame), rtol=1e-9)
    with pytest.raises(itergp.InputError, match=r"X lacks the column 'heat'"):
        model.predict(frame.drop(columns="heat"))
    model.fit(np.arange(4.0)[:, None], np.arange(4.0))
    assert not hasattr(model, "table_")


@pytest.mark.parametrize("named", [True, False])
def test_update_takes_models_of_python_with_the_target(named, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = RNG.standard_normal((40, 2)), RNG.standard_normal(40)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = IterGPRegressor(noise=0.1, learn=False).fit(frame[:30] if named else X[:30], y[:30])
    model.save(tmp_path / "m.itergp")
    more = frame.assign(y=y)[["a", "y", "b"]][30:]
    more.to_csv(tmp_path / "more.csv", index=False, header=named)
    succeed("update", tmp_path / "m.itergp", tmp_path / "more.csv", "--target", "y" if named else "2")
    model.partial_fit(frame[30:] if named else X[30:], y[30:])
    updated = IterGPRegressor.load(tmp_path / "m.itergp")
    np.testing.assert_allclose(updated.predict(frame if named else X), model.predict(frame if named else X))
    result = run("update", tmp_path / "m.itergp", tmp_path / "more.csv", "--target", "a" if named else "9")
    assert result.exit_code == 2  # once it knows its target
    assert "but the target of the model is" in result.stderr


# The command itself.


def test_the_share_is_measured_only_if_asked_or_free(folder, monkeypatch):
    monkeypatch.setattr(
        measuring.predicted, "mean_std_and_parts", lambda *what: pytest.fail("this takes long")
    )
    succeed("predict", folder / "m.itergp", folder / "train.csv")
    monkeypatch.undo()
    values = json.loads(
        succeed("predict", folder / "m.itergp", folder / "train.csv", "--share", "--json").stdout
    )
    assert 0 < values["computational_share"]["share"] < 1
    assert len(values["predictions"]["computational_std"]) == N


def test_the_exact_gp_is_factorised_once_for_all_blocks(folder, monkeypatch):
    """However many blocks there are, and to the same numbers."""
    arguments = "predict", folder / "m.itergp", folder / "train.csv", "--share"
    whole = succeed(*arguments).stdout
    factors, calls = shares.dense_factor, []
    monkeypatch.setattr(shares, "dense_factor", lambda posterior: calls.append(1) or factors(posterior))
    monkeypatch.setattr("itergp.fitted.batches.batch", lambda fit: 7)
    parts = succeed(*arguments).stdout
    assert len(calls) == 1
    a, b = (np.loadtxt(text.splitlines()[1:], delimiter=",") for text in (whole, parts))
    variance = a[:, 1] ** 2  # far below that of the prior, to whose rounding the computational part is known
    np.testing.assert_allclose(a[:, 2] ** 2 / variance, b[:, 2] ** 2 / variance, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.delete(a, 2, axis=1), np.delete(b, 2, axis=1), rtol=1e-6)


def test_what_refine_changes_beside_the_share_is_said_where_values_can_be_missing(tmp_path):
    """Variances of rows that lack nothing fall by their computational part; those of others may fall by more,
    as what a missing value could be is told by better predictions."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((150, 3))
    cells = [[*map(repr, x.tolist()), repr(float(np.sin(3 * x[0]) + x[1] + 0.3 * x[2] ** 2))] for x in X]
    lost = np.arange(150) % 5 == 0
    for name, rows in (
        ("whole.csv", cells),
        ("t.csv", [["", *c[1:]] if m else c for c, m in zip(cells, lost, strict=True)]),
    ):
        (tmp_path / name).write_text("\n".join(map(",".join, [["a", "b", "c", "y"], *rows])))
    out = tmp_path / "m.itergp"
    how = ["--target", "y", "--kernel", "matern32", "--budget", "10 actions"]
    fit = ["fit", tmp_path / "t.csv", *how, "--missing", "impute", "--out", out]
    said = "`refine` can change their variance by more"

    def heard(*arguments):
        return said in " ".join(succeed(*arguments).stdout.split())

    assert heard(*fit)
    assert heard("report", out, "--json")
    share = ["--share", "--out", tmp_path / "p.csv"]
    assert heard("predict", out, tmp_path / "t.csv", *share)
    assert not heard("predict", out, tmp_path / "whole.csv", *share)
    model = IterGPRegressor.load(out).set_params(neighbours=0)  # which leaves more to refine
    new = next(Inputs(tmp_path / "t.csv", None, model.table_).blocks(200)).X
    before, model = model.decompose(new), model.refine("150 actions")
    fell = before.combined - model.decompose(new).combined
    assert (fell - before.computational)[~lost].max() < 1e-6 * before.combined.max()
    assert (fell - before.computational)[lost].max() > 0.01 * before.combined.max()
    model.save(out)
    assert not heard("info", out)  # nothing is left to refine
    assert not heard("fit", tmp_path / "whole.csv", *how, "--out", out)


@pytest.mark.parametrize("varies", [False, True])
def test_the_noise_of_predictions_is_said_to_be_the_same_in_every_row_only_where_it_is(tmp_path, varies):
    """The mean is that of `decompose`, row by row; what a missing value could be is none of it."""
    x = np.linspace(0, 10, 200)
    y = np.sin(x) + np.where(x > 5, 1.0, 0.05) * np.random.default_rng(3).standard_normal(x.size)
    cells = ["" if not varies and i % 9 == 4 else f"{value}" for i, value in enumerate(x)]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(cells, y, strict=True)))
    how = ("--noise", "heteroscedastic") if varies else ("--missing", "impute")
    succeed("fit", tmp_path / "t.csv", "--target", "y", *how, *QUICK, "--out", tmp_path / "m.itergp")
    model = IterGPRegressor.load(tmp_path / "m.itergp")
    X = next(Inputs(tmp_path / "t.csv", None, model.table_).blocks(200)).X
    expected = np.sqrt(model.decompose(X).noise)
    assert (expected.max() > 1.01 * expected.min()) == varies
    for more in ([], ["--share"]):
        arguments = ["predict", tmp_path / "m.itergp", tmp_path / "t.csv", *more]
        values = json.loads(succeed(*arguments, "--json").stdout)
        assert values["noise_std"] == pytest.approx(expected.mean(), rel=1e-6)
        assert values["same_noise_in_every_row"] is not varies
    text = " ".join(succeed(*arguments, "--out", tmp_path / "p.csv").stdout.split())
    assert ("on average over rows" in text) == varies
    assert ("in every row" in text) != varies


@pytest.mark.parametrize(("rest", "offered"), [("red,2\n", False), ("7,2\n", True)])
def test_rows_are_offered_to_be_skipped_only_where_some_would_be_left(tmp_path, rest, offered):
    (tmp_path / "t.csv").write_text("a,y\nred,1\n" + rest)
    text = " ".join(run("fit", tmp_path / "t.csv", "--target", "y").stderr.split())
    assert "'red' is not a number. Use --categorical or --drop for such columns" in text
    assert ("--skip-bad" in text) == offered


def test_a_target_of_dates_or_of_text_is_what_the_message_is_about(tmp_path):
    """Not another column, which has text; and no advice that would leave no row."""
    lines = [f"2024-01-{i + 1:02},{('no', 'yes')[i % 2]},{('u', 'v')[i % 2]},{i}" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["when,flag,c,a", *lines]) + "\n")

    def told(*arguments):
        result = run("fit", tmp_path / "t.csv", "--out", tmp_path / "m.itergp", *arguments)
        assert result.exit_code == 2
        return " ".join(result.stderr.split())

    for more in ((), ("--skip-bad",), ("--categorical", "c")):
        text = told("--target", "when", *more)
        assert "--target is 'when', which holds dates; expected a column of numbers." in text
        assert "flag" not in text
    text = told("--target", "flag", "--categorical", "c")
    assert "column 'flag': 'no' is not a number. The target must be numbers" in text
    assert "--skip-bad" not in text
    text = told("--target", "flag", "--categorical", "c", "--skip-bad")
    assert "No cell of the target 'flag' is a number" in text


def test_rows_are_not_offered_to_be_skipped_where_another_column_would_leave_none(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\nred,u,1\n7,v,2\n8,w,3\n")
    text = run("fit", tmp_path / "t.csv", "--target", "y").stderr
    assert "'red' is not a number" in text
    assert "--skip-bad" not in text


@pytest.mark.parametrize("option", ["--categorical", "--drop", "--keep"])
def test_a_column_whose_name_contains_a_comma_is_given_alone(option, tmp_path):
    """The message says so; what it shows can be pasted in a shell, and works."""
    name = 'it\'s "x", ok'
    lines = [f"{i % 2},{i % 3},{i},{i % 7}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(['"it\'s ""x"", ok",b,a,y', *lines]) + "\n")
    fit = ["fit", tmp_path / "t.csv", "--target", "y", *QUICK, "--out", tmp_path / "m.itergp"]
    if option == "--keep":
        succeed(*fit)
        fit = ["predict", tmp_path / "m.itergp", tmp_path / "t.csv"]
    for asked in (f"b,{name}", f"{name},b"):
        result = run(*fit, option, asked)
        assert result.exit_code == 2
        text = " ".join(result.stderr.split())
        assert f"repeat {option} once for each column, as in " in text
        assert "\\" not in text
        words = shlex.split(text.partition("as in ")[2].removesuffix("."))
        assert words == [option, name]
        succeed(*fit, *words, option, "b")


@pytest.mark.parametrize("rows", ["1,2.5\n", "1,0.1\n2,0.1\n3,0.1\n", "1,0\n2,0\n3,0\n"])
def test_a_target_that_does_not_vary_has_no_share_of_noise(tmp_path, rows):
    (tmp_path / "t.csv").write_text("a,y\n" + rows)
    out = tmp_path / "m.itergp"
    fit = "fit", tmp_path / "t.csv", "--target", "y", "--out", out
    values = json.loads(succeed(*fit, "--json").stdout)
    assert values["learned"]["noise_share"] is None
    for text in (succeed(*fit).stdout, succeed("info", out).stdout):
        assert "inf" not in text.replace("inference", "")
        assert "of its variance" not in text


@pytest.mark.parametrize("merged", [False, True])
def test_the_share_of_noise_that_varies_is_that_of_the_variance_of_the_target(tmp_path, merged):
    """Rows with much noise count as all others do in it. Of merged rows, the fit knows
    their scatter in units of their noise alone."""
    x = np.repeat(np.linspace(0, 10, 200), 1 + merged)
    y = np.sin(x) + np.where(x > 5, 1.5, 0.05) * np.random.default_rng(3).standard_normal(x.size)
    np.savetxt(tmp_path / "t.csv", np.c_[x, y], delimiter=",", header="x,y", comments="")
    arguments = ["--target", "y", "--noise", "heteroscedastic", "--kernel", "matern32", "--json"]
    out = tmp_path / "m.itergp"
    learned = json.loads(succeed("fit", tmp_path / "t.csv", *arguments, "--out", out).stdout)["learned"]
    noise = IterGPRegressor.load(out).noise_function_(np.array([[-1.5]]))  # which varies
    assert noise[0] < 0.5
    assert learned["noise_varies"] is True
    assert learned["noise_share"] == pytest.approx(
        learned["noise_std"] ** 2 / y.var(), rel=0.1 if merged else 1e-6
    )
    values = json.loads(succeed("predict", out, tmp_path / "t.csv", "--json").stdout)
    assert values["same_noise_in_every_row"] is False
    assert "it varies with the features" in " ".join(succeed("info", out).stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["predict", "none.itergp", "new.csv", "--json"], "none.itergp does not exist"),
        (["fit", "--json"], "Missing argument"),
        (["fit", "x.csv", "--target", "y", "--wrong", "--json"], "No such option"),
    ],
)
def test_errors_are_json_where_that_is_asked_for(arguments, part, tmp_path):
    command = [sys.executable, "-m", "itergp", *arguments]
    if arguments[0] == "predict":
        (tmp_path / "new.csv").write_text("a\n1\n")
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2
    values = json.loads(result.stdout)
    assert part in values["error"]
    assert values["exit_code"] == 2
    assert result.stderr.startswith("Error: ")


def test_the_version_and_completion():
    assert succeed("--version").stdout == f"itergp {itergp.__version__}\n"
    assert "--show-completion" in succeed("--help").stdout


def test_the_mean_and_threads_are_those_asked_for(folder, tmp_path):
    arguments = ["--target", "y", "--drop", "id,day,city", "--missing", "drop", *QUICK, "--mean", "linear"]
    succeed("fit", folder / "train.csv", *arguments, "--threads", 1, "--out", tmp_path / "m.itergp")
    model = IterGPRegressor.load(tmp_path / "m.itergp")
    assert model.threads == 1
    assert type(model.posterior_.problem.prior.mean_function).__name__ == "LinearMean"


def test_a_frame_with_just_the_columns_of_a_table_of_numbers_is_encoded_too(tmp_path):
    """Holes are filled and text is read as on the command line, whether or not other columns are there."""
    pd = pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text(
        "a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 7 + i % 5}\n" for i in range(40))
    )
    model = tmp_path / "m.itergp"
    succeed("fit", tmp_path / "a.csv", "--target", "y", "--missing", "impute", *QUICK, "--out", model)
    (tmp_path / "new.csv").write_text("a,b\n1,2\n,3\n")
    said = json.loads(succeed("predict", model, tmp_path / "new.csv", "--json").stdout)
    loaded = IterGPRegressor.load(model)
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [2.0, 3.0]})
    for given in (frame, frame.assign(other=1), frame.astype(str)):
        np.testing.assert_array_equal(loaded.predict(given), said["predictions"]["mean"])


def test_the_worst_points_of_a_report_have_the_line_of_the_file(tmp_path):
    """The oracle reads the line of the file that is named, though rows before it were left out, and one has
    two lines. Without test data the page says what is counted."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=60)
    text = [f'{a:.6f},"n{i}{chr(10) if i == 3 else ""}",{np.sin(a):.6f}' for i, a in enumerate(x)]
    for i in (2, 10, 20):
        text[i] = f"{x[i]:.6f},none," if i != 20 else f"{x[i]:.6f},none,bad"
    (tmp_path / "t.csv").write_text("\n".join(["x,note,y", *text]) + "\n")
    told = ["--target", "y", "--drop", "note", "--skip-bad", *QUICK, "--out", tmp_path / "m.itergp"]
    succeed("fit", tmp_path / "t.csv", *told)
    page = tmp_path / "r.html"
    at_test = ("--data", tmp_path / "t.csv", "--skip-bad", "--json", "--out", page)
    values = json.loads(succeed("report", tmp_path / "m.itergp", *at_test).stdout)
    lines = (tmp_path / "t.csv").read_text().split("\n")
    worst = values["targets"][0]["worst"]
    assert len(worst) == 20
    for row in worst:
        cells = lines[row["place"] - 1].split(",")
        assert float(cells[0]) == pytest.approx(row["features"]["x"], rel=1e-3, abs=1e-4)
    assert any(row["place"] > row["row"] + 5 for row in worst)  # after the rows that were left out
    assert '<th scope="col">line</th>' in page.read_text()
    held = json.loads(succeed("report", tmp_path / "m.itergp", "--json").stdout)
    assert "Rows that were left out before the fit" in held["numbered"]["about"]
    assert {row["place"] for row in held["targets"][0]["worst"]} == {None}

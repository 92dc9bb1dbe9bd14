"""`itergp predict` block by block: the numbers of whole tables, complete files or none, and a line that says
how far it is."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from itergp import IterGPRegressor
from itergp.cli import fitting, measuring, rows
from itergp.cli.commands import app
from itergp.tables import read_table, write_table

NEW = 57


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("streaming"), np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 2))
    y = np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(120)
    model = IterGPRegressor(noise=0.02, learn=False, budget="20 actions", random_state=0)
    model.fit(X, y).save(path / "model.itergp")
    new = rng.uniform(-1, 1, (NEW, 2))
    for suffix in (".csv", ".parquet"):
        write_table(path / f"new{suffix}", {"a": new[:, 0], "b": new[:, 1]})
    text = "".join(f"{a!r},{b!r}\n" for a, b in new.tolist())
    (path / "bare.csv").write_text(text)  # the model has no names
    (path / "late.csv").write_text(text + "1,two\n")
    (path / "short.csv").write_text(text + "1\n")
    np.save(path / "new.npy", new)
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    """Everything is read, predicted and written a few rows at a time."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("itergp.fitted.batches.MOST", 5)
    monkeypatch.setattr("itergp.tables.pieces.LARGE", 0)
    monkeypatch.setattr("itergp.tables.arrow.BLOCK", 300)
    monkeypatch.setattr("itergp.tables.pieces.BATCH", 7)
    monkeypatch.setattr("itergp.tables.writing.ROW_GROUP", 11)


def whole(folder):
    fit = IterGPRegressor.load(folder / "model.itergp").fit_
    return measuring.predictions(fit, np.load(folder / "new.npy"), 0.95)


@pytest.fixture
def named(folder, tmp_path):
    """The same model with names for its columns, as Parquet has them."""
    path = tmp_path / "named.itergp"
    pd = pytest.importorskip("pandas")
    model = IterGPRegressor.load(folder / "model.itergp")
    data = model.fit_.scaling
    X = model.fit_.data.X * data.x_scale + data.x_mean
    y = model.fit_.data.y * data.y_scale + data.y_mean
    again = IterGPRegressor(noise=0.02, learn=False, budget="20 actions", random_state=0)
    again.fit(pd.DataFrame(X, columns=["a", "b"]), y).save(path)
    return path


def assert_the_same(found, columns):
    """To the bit; the computational part, a difference of variances by BLAS, whose sums depend on how many
    points there are at once, to the rounding of these variances."""
    assert list(found) == list(columns)
    for name in set(columns) - {"computational_std"}:
        np.testing.assert_array_equal(found[name], columns[name], err_msg=name)
    parts = (np.square(some["computational_std"]) / columns["std"] ** 2 for some in (found, columns))
    np.testing.assert_allclose(*parts, rtol=0, atol=1e-13)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_streamed_predictions_are_those_of_the_whole_table_to_the_bit(suffix, folder, tmp_path, small_blocks):
    columns, about = whole(folder)
    out = tmp_path / f"pred{suffix}"
    result = run("predict", folder / "model.itergp", folder / "bare.csv", "--out", out, "--json", "--share")
    assert result.exit_code == 0, result.output
    table, values = read_table(out), json.loads(result.stdout)
    found = {name: np.array(c, dtype=float) for name, c in zip(table.names, table.columns, strict=True)}
    assert_the_same(found, columns)
    assert values.pop("out") == str(out)
    assert values.pop("unused_columns") == values.pop("notes") == []
    share, expected = values.pop("computational_share"), about.pop("computational_share")
    assert values.pop("interval") == about.pop("interval")
    assert values == pytest.approx(about)
    assert share == pytest.approx(expected)
    assert values["rows"] == share["points"] == NEW


def test_the_terminal_and_json_get_all_rows_in_order(folder, small_blocks):
    columns, _ = whole(folder)
    printed = run("predict", folder / "model.itergp", folder / "bare.csv").stdout.splitlines()
    assert printed[0] == "mean,std,lower,upper"
    assert [float(line.split(",")[0]) for line in printed[1:]] == columns["mean"].tolist()
    arguments = "predict", folder / "model.itergp", folder / "bare.csv", "--json", "--share"
    values = json.loads(run(*arguments).stdout)
    assert_the_same(values["predictions"], columns)


def test_parquet_in_is_csv_in_also_in_blocks(folder, named, tmp_path, small_blocks):
    found = [
        run("predict", named, folder / f"new{suffix}", "--out", tmp_path / f"{suffix[1:]}.csv")
        for suffix in (".csv", ".parquet")
    ]
    assert [result.exit_code for result in found] == [0, 0], found[1].output
    assert (tmp_path / "csv.csv").read_bytes() == (tmp_path / "parquet.csv").read_bytes()


def test_the_summary_is_that_of_all_blocks(folder, small_blocks):
    """Against sums over the whole table, in numpy."""
    fit, X = IterGPRegressor.load(folder / "model.itergp").fit_, np.load(folder / "new.npy")
    predicting = measuring.Predicting(fit, 0.9, NEW, share=True)
    std = np.concatenate([predicting(X[i : i + 10])["std"] for i in range(0, NEW, 10)])
    parts = measuring.predicted.decompose(fit, X, predicting.passes)
    about = predicting.summary()
    assert about["mean_std"] == pytest.approx(std.mean())
    assert about["computational_share"]["share"] == pytest.approx(parts.share)
    assert about["computational_share"]["lower"] == pytest.approx(parts.share_bounds[0])
    assert about["computational_share"]["error"] == 0.0


# Complete, or not at all.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("late.csv", r"late.csv, line 58, column 'column 2': 'two' is not a number. It was one"),
        ("short.csv", "short.csv, line 58: 1 cell; expected 2, as in line 1"),
    ],
)
@pytest.mark.parametrize("to", ["file", "terminal"])
def test_a_fault_in_the_last_row_is_named_before_anything_is_predicted(
    name, message, to, folder, tmp_path, small_blocks, monkeypatch
):
    monkeypatch.setattr(measuring.Predicting, "__call__", lambda *_: pytest.fail("predicted"))
    out = ["--out", tmp_path / "pred.csv"] if to == "file" else []
    result = run("predict", folder / "model.itergp", folder / name, *out)
    assert result.exit_code == 2
    assert message.split(", line")[1] in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def broken_at(block, change):
    """Predictions of which one block is changed."""
    predict, seen = measuring.Predicting.__call__, []

    def call(self, X):
        seen.append(len(X))
        return change(predict(self, X)) if len(seen) == block else predict(self, X)

    return call


def interrupted(columns):
    raise KeyboardInterrupt


def infinite(columns):
    return columns | {"std": columns["std"] * np.inf}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("change", "message"),
    [(interrupted, "interrupted; nothing was written"), (infinite, "predicts values that are not finite")],
)
def test_a_prediction_that_ends_early_leaves_what_was_there(
    change, message, suffix, folder, tmp_path, small_blocks, monkeypatch
):
    monkeypatch.setattr(measuring.Predicting, "__call__", broken_at(9, change))
    out = tmp_path / f"pred{suffix}"
    for before in (None, b"old"):
        if before is not None:
            out.write_bytes(before)
        result = run("predict", folder / "model.itergp", folder / "bare.csv", "--out", out)
        assert result.exit_code == 1
        assert message in result.stderr
        assert [path.read_bytes() for path in tmp_path.iterdir()] == ([] if before is None else [before])
        monkeypatch.undo()
        monkeypatch.setattr("itergp.fitted.batches.MOST", 5)
        monkeypatch.setattr(measuring.Predicting, "__call__", broken_at(9, change))


TERMINATED = """
import os, signal, sys
from itergp.cli import measuring
from itergp.fitted import batches
batches.MOST = 5
predict = measuring.Predicting.__call__
def call(self, X):
    assert any(name.startswith(".pred.csv.") for name in os.listdir("."))  # the file that is being written
    signal.raise_signal(getattr(signal, os.environ["SENT"]))
    return predict(self, X)
measuring.Predicting.__call__ = call
sys.argv[1:] = ["predict", "model.itergp", "bare.csv", "--out", "pred.csv"]
from itergp.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_process_that_is_told_to_end_leaves_no_half_written_file(name, folder, tmp_path):
    for file in ("model.itergp", "bare.csv"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())

    run = subprocess.run(
        [sys.executable, "-c", TERMINATED],
        cwd=tmp_path,
        env={**os.environ, "SENT": name},
        capture_output=True,
    )
    assert run.returncode == (1 if name == "SIGINT" else -signal.SIGTERM), run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare.csv", "model.itergp"]


# How far it is.


def test_progress_says_rows_of_how_many_and_how_fast():
    assert rows.said(0, 2_000_000, 0.5) == "0 of 2,000,000 rows"
    assert rows.said(50_000, 2_000_000, 4.0) == "50,000 of 2,000,000 rows · 12,500 rows/s"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_drawn_on_a_terminal_alone_and_after_a_while(terminal, monkeypatch):
    drawn = io.StringIO()
    monkeypatch.setattr(rows, "messages", Console(file=drawn, force_terminal=terminal, width=100))
    with rows.progress_of_rows(10) as advance:
        advance(10)
    assert "rows" not in drawn.getvalue()  # it took no time
    monkeypatch.setattr(rows, "PATIENCE", 0.0)
    started = []
    start = rows.Progress.start
    monkeypatch.setattr(rows.Progress, "start", lambda self: (start(self), started.append(self)))
    with rows.progress_of_rows(1234) as advance:
        while terminal and not started:
            pass
        advance(1234)
    assert ("1,234 of 1,234 rows" in drawn.getvalue()) is terminal


def test_there_is_no_progress_between_rows_on_a_terminal(monkeypatch):
    drawn = io.StringIO()
    monkeypatch.setattr(rows, "messages", Console(file=drawn, force_terminal=True))
    monkeypatch.setattr(rows, "PATIENCE", 0.0)
    with rows.progress_of_rows(10, shown=False) as advance:
        advance(10)
    assert drawn.getvalue() == ""


# Training data.


def test_a_fit_gets_the_same_data_from_a_large_file(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    lines = [f"{i},{'xyz'[i % 3]},{rng.normal()!r},{i % 4:03d},{rng.normal()!r}\n" for i in range(80)]
    path = tmp_path / "train.csv"
    path.write_text("id,colour,size,station,y\n" + "".join(lines))
    chosen = fitting._Chosen("y", ["id"], ["colour"], "station", "refuse", "auto")
    asked = path, {"skip_bad": False}, chosen
    small = fitting._training(*asked)
    monkeypatch.setattr("itergp.tables.pieces.LARGE", 0)
    monkeypatch.setattr("itergp.tables.arrow.BLOCK", 500)
    large = fitting._training(*asked)
    assert small[:2] == large[:2]
    assert large[1][:5] == ["000", "001", "002", "003", "000"]
    np.testing.assert_array_equal(small[2], large[2])
    np.testing.assert_array_equal(small[3], large[3])

"""Experiments are run cell by cell: each once, recorded whole or not at all, whatever ends a run."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from itergp import ConjugateGradient, Matern32, MaxActions, Prior, Status, condition
from itergp.cli.commands import app
from itergp.errors import InputError, StorageError
from itergp.experiments import EXPERIMENTS, Cell, Experiment, Options, running
from itergp.experiments.running import run_experiment
from itergp.experiments.style import new_figure

COSTS = (1.0, 2.0, 3.0, 4.0, 10.0)


def line_plot(records, options):
    figure = new_figure(3.0, 2.0)
    figure.subplots().plot([record["square"] for record in records])
    return figure


def toy(during=lambda i: None, datasets=()):
    """Squares of numbers; `during` is called inside each cell. Its calls are in `.called`."""
    called = []

    def run(cell, options):
        called.append(cell.key["i"])
        during(cell.key["i"])
        return [{"i": cell.key["i"], "square": np.float64(cell.key["i"] ** 2), "data": cell.key["data"]}]

    def cells(options):
        names = options.datasets or ("own",)
        return [Cell({"data": name, "i": i}, cost) for name in names for i, cost in enumerate(COSTS)]

    def table(records):
        return ["data", "i", "i | squared"], [
            [record["data"], record["i"], record["square"]] for record in records
        ]

    experiment = Experiment("toy", "Fig. 0", "squares", cells, run, table, line_plot, datasets)
    return experiment, called


def lines(folder):
    path = folder / "toy" / "records.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def press_control_c():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_every_cell_is_a_line_and_a_second_run_repeats_none(tmp_path):
    experiment, called = toy()
    folder = run_experiment(experiment, Options(out=tmp_path))
    assert folder == tmp_path / "toy"
    assert called == [0, 1, 2, 3, 4]
    assert [line["cell"] for line in lines(tmp_path)] == [{"data": "own", "i": i} for i in range(5)]
    assert [line["records"][0]["square"] for line in lines(tmp_path)] == [0.0, 1.0, 4.0, 9.0, 16.0]
    assert all(
        line["seconds"] >= 0 and line["versions"]["numpy"] == np.__version__ for line in lines(tmp_path)
    )
    run_experiment(experiment, Options(out=tmp_path))
    assert called == [0, 1, 2, 3, 4]


def test_files_of_two_machines_may_be_joined_and_each_cell_counts_once(tmp_path):
    experiment, called = toy()
    run_experiment(experiment, Options(out=tmp_path))
    path = tmp_path / "toy" / "records.jsonl"
    path.write_text(path.read_text() * 2)
    table = (run_experiment(experiment, Options(out=tmp_path)) / "table.csv").read_text().splitlines()
    assert len(table) == 1 + len(COSTS)
    assert json.loads((tmp_path / "toy" / "about.json").read_text())["cells"] == len(COSTS)
    assert called == [0, 1, 2, 3, 4]


def test_outputs_are_a_table_twice_a_figure_twice_and_how_they_came_about(tmp_path):
    folder = run_experiment(toy()[0], Options(quick=True, out=tmp_path))
    assert sorted(path.name for path in folder.iterdir()) == [
        "about.json",
        "figure.png",
        "figure.svg",
        "records.jsonl",
        "table.csv",
        "table.md",
    ]
    with open(folder / "table.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["data", "i", "i | squared"]
    assert [float(row[2]) for row in rows[1:]] == [0.0, 1.0, 4.0, 9.0, 16.0]
    text = (folder / "table.md").read_text().splitlines()
    assert text[0] == "| data | i | i \\| squared |"
    assert text[-1] == "| own | 4 | 16 |"
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (folder / "figure.svg").read_text()
    about = json.loads((folder / "about.json").read_text())
    assert about["command"] == "itergp experiment run toy --quick"
    assert (about["quick"], about["cells"], about["figure of the paper"]) == (True, 5, "Fig. 0")


@pytest.mark.parametrize("cell", range(5))
def test_control_c_inside_a_cell_keeps_those_before_and_a_second_run_goes_on(tmp_path, cell):
    pressed = []

    def once(i):
        if i == cell and not pressed:
            pressed.append(i)
            press_control_c()

    experiment, called = toy(once)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, Options(out=tmp_path))
    assert [line["cell"]["i"] for line in lines(tmp_path)] == list(range(cell))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run_experiment(experiment, Options(out=tmp_path))
    assert called == [*range(cell + 1), *range(cell, 5)]
    assert [line["cell"]["i"] for line in lines(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_cell_in_which_a_solver_swallowed_control_c_is_not_recorded(tmp_path):
    """`condition` turns it into a valid posterior with fewer actions: right for a user, wrong for a
    record."""
    X = np.linspace(0, 1, 50)[:, None]
    ended = []

    def interrupted(i):
        if i == 2:
            callback = lambda state: press_control_c() if state.rank == 5 else None  # noqa: E731
            posterior = condition(
                Prior(Matern32(0.3)),
                X,
                np.sin(9 * X[:, 0]),
                0.1,
                ConjugateGradient(),
                MaxActions(20),
                callback=callback,
            )
            ended.append(posterior.status)

    experiment, _ = toy(interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, Options(out=tmp_path))
    assert ended == [Status.INTERRUPTED]
    assert [line["cell"]["i"] for line in lines(tmp_path)] == [0, 1]


def test_control_c_while_a_line_is_written_waits_for_it(tmp_path, monkeypatch):
    append = running.append_line

    def slowly(path, line):
        press_control_c()
        append(path, line)

    monkeypatch.setattr(running, "append_line", slowly)
    experiment, called = toy()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, Options(out=tmp_path))
    assert called == [0]
    assert [line["cell"]["i"] for line in lines(tmp_path)] == [0]


def test_a_torn_last_line_is_dropped_and_only_its_cell_is_run_again(tmp_path):
    experiment, _ = toy()
    run_experiment(experiment, Options(out=tmp_path))
    path = tmp_path / "toy" / "records.jsonl"
    whole = path.read_bytes()
    start = whole.rstrip().rfind(b"\n") + 1
    for cut in (start + 1, start + 40, len(whole) - 1):  # the last one: all but the line end
        path.write_bytes(whole[:cut])
        again, called = toy()
        run_experiment(again, Options(out=tmp_path))
        assert called == [4]
        assert [line["cell"]["i"] for line in lines(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_damaged_line_elsewhere_is_named_and_nothing_is_run(tmp_path):
    run_experiment(toy()[0], Options(out=tmp_path))
    path = tmp_path / "toy" / "records.jsonl"
    rows = path.read_text().splitlines(keepends=True)
    for bad in ('{"cell": {"i"\n', "[1, 2]\n", "{}\n", "\x00\x01\n"):
        path.write_text("".join([*rows[:1], bad, *rows[2:]]))
        experiment, called = toy()
        with pytest.raises(StorageError, match=r"records.jsonl is damaged in line 2. Delete that line"):
            run_experiment(experiment, Options(out=tmp_path))
        assert called == []
    path.write_text("".join([*rows[:1], *rows[2:]]))  # as it said
    experiment, called = toy()
    run_experiment(experiment, Options(out=tmp_path))
    assert called == [1]


def test_tables_are_in_the_order_of_the_cells_whatever_ran_first(tmp_path):
    run_experiment(toy()[0], Options(out=tmp_path))
    table = (tmp_path / "toy" / "table.md").read_text()
    path = tmp_path / "toy" / "records.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    run_experiment(toy()[0], Options(out=tmp_path))
    assert (tmp_path / "toy" / "table.md").read_text() == table


def test_an_error_in_a_cell_names_it_and_keeps_those_before(tmp_path):
    def fail(i):
        if i == 3:
            raise InputError("no.")

    with pytest.raises(InputError) as caught:
        run_experiment(toy(fail)[0], Options(out=tmp_path))
    assert caught.value.__notes__ == ['in the cell {"data": "own", "i": 3} of toy']
    assert len(lines(tmp_path)) == 3


def test_full_runs_replace_quick_ones_and_never_the_other_way(tmp_path):
    run_experiment(toy()[0], Options(quick=True, out=tmp_path))
    experiment, called = toy()
    run_experiment(experiment, Options(out=tmp_path))
    assert called == [0, 1, 2, 3, 4]
    assert [line["quick"] for line in lines(tmp_path)] == [False] * 5
    before = (tmp_path / "toy" / "records.jsonl").read_bytes()
    experiment, called = toy()
    with pytest.raises(
        InputError,
        match="holds the results of a full run, which a quick one would replace; give another folder",
    ):
        run_experiment(experiment, Options(quick=True, out=tmp_path))
    assert called == []
    assert (tmp_path / "toy" / "records.jsonl").read_bytes() == before


def test_records_may_hold_numpy_numbers_and_what_is_not_finite_is_null(tmp_path):
    def run(cell, options):
        return [
            {
                "a": np.arange(2),
                "b": np.float32(0.5),
                "c": np.nan,
                "d": (1, np.inf),
                "square": np.int64(3),
                "e": np.True_,
            }
        ]

    cells = lambda options: [Cell({"i": 0})]  # noqa: E731
    experiment = Experiment("toy", "", "", cells, run, lambda records: (["c"], [[np.nan]]), line_plot)
    run_experiment(experiment, Options(out=tmp_path))
    (line,) = lines(tmp_path)
    assert line["records"] == [{"a": [0, 1], "b": 0.5, "c": None, "d": [1, None], "square": 3, "e": True}]
    assert (tmp_path / "toy" / "table.md").read_text().splitlines()[-1] == "|  |"


def test_the_time_left_follows_from_finished_cells_and_costs(tmp_path, monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 3.0))  # asked twice in each cell: each takes three seconds
    monkeypatch.setattr(running.time, "perf_counter", lambda: next(clock))
    told = []
    run_experiment(toy()[0], Options(out=tmp_path), told.append)
    assert [standing.finished for standing in told] == [0, 1, 2, 3, 4, 5]
    assert told[0].seconds_left is None
    for standing, cost, spent in zip(told[1:], (1, 3, 6, 10, 20), (3, 6, 9, 12, 15), strict=True):
        assert standing.seconds_left == pytest.approx(spent / cost * (20 - cost))
        assert standing.share == pytest.approx(cost / 20)
    assert [standing.cell and standing.cell.key["i"] for standing in told] == [0, 1, 2, 3, 4, None]
    monkeypatch.undo()
    told.clear()
    run_experiment(toy()[0], Options(out=tmp_path), told.append)  # all is there: earlier runs count
    assert [(standing.finished, standing.share) for standing in told] == [(5, 1.0)]


# Data sets.


def test_cells_of_other_data_sets_in_the_folder_stay_in_the_table(tmp_path):
    table = tmp_path / "data.csv"
    table.write_text("a,y\n1,2\n")
    for name in ("synthetic", str(table)):
        run_experiment(toy(datasets=("synthetic",))[0], Options(datasets=(name,), out=tmp_path))
    assert len(lines(tmp_path)) == 10
    rows = (tmp_path / "toy" / "table.md").read_text().splitlines()[2:]
    assert len(rows) == 10
    assert json.loads((tmp_path / "toy" / "about.json").read_text())["command"].endswith(
        f"--datasets {table}"
    )


def test_bad_data_sets_are_found_before_any_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("ITERGP_DATA", str(tmp_path / "empty"))
    cases = (
        (
            toy(datasets=("bike",)),
            ("nosuch",),
            "datasets names 'nosuch'; expected some of synthetic, parkinsons, bike",
        ),
        (toy(), ("bike",), "datasets is bike; but toy makes its own data"),
    )
    for (experiment, called), names, message in cases:
        with pytest.raises(InputError, match=message):
            run_experiment(experiment, Options(datasets=names, out=tmp_path))
        assert called == []
    experiment, called = toy(datasets=("bike",))
    with pytest.raises(StorageError, match=r"bike.csv.gz, of the data set 'bike', is not in"):
        run_experiment(experiment, Options(out=tmp_path))
    assert called == []
    assert not (tmp_path / "toy").exists()


# The command line.


def invoke(*arguments):
    return CliRunner().invoke(app, ["experiment", *map(str, arguments)])


@pytest.fixture
def toys(monkeypatch):
    def put(experiment):
        monkeypatch.setitem(EXPERIMENTS, "toy", experiment)

    return put


def test_the_list_has_every_experiment_with_its_figure():
    result = invoke("list")
    assert result.exit_code == 0
    for experiment in EXPERIMENTS.values():
        (row,) = [row for row in result.stdout.splitlines() if row.startswith(experiment.name + " ")]
        assert experiment.figure_of_paper in row
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_unknown_names_list_the_known_ones(tmp_path):
    result = invoke("run", "nosuch", "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: experiment 'nosuch' is unknown; expected one of ")
    assert all(name in result.stderr for name in EXPERIMENTS)
    result = invoke("run", "calibration", "--datasets", "synthetic,nosuch", "--out", tmp_path)
    assert result.exit_code == 2
    assert "Error: datasets names 'nosuch'; expected some of synthetic, parkinsons" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_prints_its_table_and_where_it_is(tmp_path, toys):
    toys(toy()[0])
    result = invoke("run", "toy", "--out", tmp_path / "deep" / "er")
    assert result.exit_code == 0
    assert "| own | 4 | 16 |" in result.stdout
    assert result.stdout.splitlines()[-1] == f"Records, table and figure: {tmp_path / 'deep' / 'er' / 'toy'}"


def test_a_folder_that_cannot_be_made_is_named(tmp_path, toys):
    experiment, called = toy()
    toys(experiment)
    (tmp_path / "file").write_text("")
    result = invoke("run", "toy", "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "cannot be created: " in result.stderr
    assert called == []


def test_control_c_says_what_is_kept_and_how_to_go_on(tmp_path, toys):
    experiment, _ = toy(lambda i: press_control_c() if i == 1 else None)
    toys(experiment)
    result = invoke("run", "toy", "--out", tmp_path)
    assert result.exit_code == 1
    assert (
        result.stderr == f"Interrupted. Finished results are in {tmp_path / 'toy'}; "
        "run the same command again to continue.\n"
    )
    assert len(lines(tmp_path)) == 1


@pytest.mark.slow
def test_a_process_that_is_interrupted_goes_on_without_repeating_a_cell(tmp_path):
    command = [
        sys.executable,
        "-m",
        "itergp.cli",
        "experiment",
        "run",
        "main-illustration",
        "--out",
        str(tmp_path),
    ]
    path = tmp_path / "main-illustration" / "records.jsonl"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 5):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 1, errors
    assert "run the same command again to continue" in errors
    kept = path.read_bytes()
    assert 5 <= kept.count(b"\n") < 201
    experiment, options = EXPERIMENTS["main-illustration"], Options(out=tmp_path)
    run_experiment(experiment, options)
    assert path.read_bytes().startswith(kept)
    keys = [json.loads(row)["cell"] for row in path.read_text().splitlines()]
    assert keys == [cell.key for cell in experiment.cells(options)]

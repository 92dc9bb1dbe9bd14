"""Fits on a Dask cluster: those of one process, whatever happens; models and checkpoints need no cluster."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from itergp import Compute, DaskEngine, IterGPRegressor, Matern32, MemoryLimitError, Prior
from itergp.cli.app import app
from itergp.cli.commands import app as _registered  # noqa: F401
from itergp.errors import InterruptedWarning
from itergp.estimator import fitting
from itergp.estimator.schedules import Machine
from itergp.learning.endings import Ending
from itergp.linalg.engines import cluster, dask, sums
from itergp.posterior import spread
from itergp.prior.parameters import parameters
from itergp.solver.problem import Problem

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'itergp[dask]'")
pytest.importorskip("itergp.linalg.engines.native.shares", reason="the native engine was not built")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (4500, 3))
Y = np.sin(3 * X.sum(axis=1)) + 0.1 * RNG.standard_normal(4500)
NEW = RNG.uniform(-1, 1, (30, 3))
GIVEN = {"kernel": 1.0 * Matern32(0.5), "noise": 0.01, "learn": False}


@pytest.fixture(scope="module")
def client():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with cluster.local_cluster(2) as client:
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, shares=6)


def test_a_fit_on_a_cluster_is_that_of_one_process(client, engine):
    fits = {
        name: clone(IterGPRegressor(**GIVEN, budget="80 actions", engine=where)).fit(X, Y)
        for name, where in (("cluster", engine), ("address", client.scheduler.address), ("alone", "native"))
    }
    for model in fits.values():
        model.refine("10 actions")
    assert {name: model.posterior_.problem.gram.engine.name for name, model in fits.items()} == {
        "cluster": "dask",
        "address": "dask",
        "alone": "native",
    }
    mean, std = fits["alone"].predict(NEW, return_std=True)
    for name in ("cluster", "address"):
        found = fits[name].predict(NEW, return_std=True)
        np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-11)
        np.testing.assert_allclose(found[1], std, rtol=1e-10)
    fits["address"].posterior_.problem.gram.engine.client.close()


def test_more_rows_are_added_on_a_cluster_as_in_one_process(engine):
    on_cluster, alone = (
        IterGPRegressor(**GIVEN, policy="cg", budget="6 actions", engine=where)
        .fit(X[:4200], Y[:4200])
        .partial_fit(X[4200:], Y[4200:])
        for where in (engine, "native")
    )
    np.testing.assert_allclose(on_cluster.predict(NEW), alone.predict(NEW), rtol=0, atol=1e-10)
    assert on_cluster.posterior_.problem.gram.engine is engine


@pytest.mark.parametrize("learn", ["neighbours", "exact", "iterative"])
def test_learning_with_a_cluster_finds_what_one_process_finds(engine, learn):
    on_cluster, alone = (
        IterGPRegressor("rbf", learn=learn, budget="30 actions", engine=where).fit(X[:200], Y[:200])
        for where in (engine, "native")
    )
    np.testing.assert_allclose(on_cluster.predict(NEW), alone.predict(NEW), rtol=0, atol=1e-5)


ALONE = """
import sys; sys.modules["distributed"] = sys.modules["dask"] = None
import json, numpy as np, itergp
model = itergp.IterGPRegressor.load(sys.argv[1])
model.refine("5 actions")
print(json.dumps([model.engine, model.posterior_.problem.gram.engine.name, model.posterior_.rank]))
"""


@pytest.mark.parametrize("by_address", [False, True])
def test_a_model_from_a_cluster_loads_and_goes_on_without_dask(client, engine, tmp_path, by_address):
    where = client.scheduler.address if by_address else engine
    model = IterGPRegressor(**GIVEN, policy="cg", budget="5 actions", engine=where).fit(X, Y)
    model.save(tmp_path / "model.itergp")
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    run = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "model.itergp")], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == ["auto", "native", 10]


def test_a_checkpoint_from_a_cluster_is_resumed_by_one_process(engine, tmp_path):
    how = {**GIVEN, "policy": "cg", "checkpoint": tmp_path / "run"}
    IterGPRegressor(**how, budget="6 actions", engine=engine).fit(X, Y)
    resumed = IterGPRegressor(**how, budget="10 actions").fit(X, Y)
    assert resumed.trace_.resumed_from == 6
    assert resumed.posterior_.problem.gram.engine.name == "native"
    whole = IterGPRegressor(**GIVEN, policy="cg", budget="10 actions").fit(X, Y)
    np.testing.assert_allclose(resumed.predict(NEW), whole.predict(NEW), rtol=0, atol=1e-11)


INTERRUPTED = """
import json, sys, time, warnings
import numpy as np
from itergp import DaskEngine, IterGPRegressor, Matern32
from itergp.estimator.progress import Watch
from itergp.linalg.engines import dask
warnings.simplefilter("ignore")
dask.LOCAL_LIKELIHOOD = dask.LOCAL_SEARCH = 0

def said(name, real):
    def tell(watch, *what):
        print(name, flush=True)
        return real(watch, *what)
    setattr(Watch, name, tell)

said("acted", Watch.acted), said("learned", Watch.learned)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (6000, 4)); y = np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(6000)
how = {"noise": 1e-4, "learn": False} if sys.argv[2] == "acted" else {"learn": "neighbours"}
model = IterGPRegressor(1.0 * Matern32(0.5), **how, policy="cg", budget="600s",
                        neighbours=0, engine=DaskEngine(sys.argv[1], shares=6))
model.fit(X, y)
mean, std = model.predict(X[:50], return_std=True)
valid = bool(np.isfinite(mean).all() and (std > 0).all())
print(json.dumps([valid, model.status_.name, model.posterior_.rank]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("doing", ["acted", "learned"])
def test_control_c_leaves_a_valid_model(client, doing):
    """After a first step of passes, or of learning; few others follow, however busy the machine is."""
    call = [sys.executable, "-c", INTERRUPTED, client.scheduler.address, doing]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == doing
        process.send_signal(signal.SIGINT)
        after = process.stdout.read().splitlines()
        assert process.wait(timeout=60) == 0
    valid, status, rank = json.loads(after[-1])
    assert valid
    assert status == "INTERRUPTED"
    assert rank > 0
    assert after[:-1].count(doing) <= 1  # that may have ended just before


class Shut:
    """Until `door` exists, what workers are asked for does not end: however long that takes, whoever has
    waited for it has waited too long. It opens by itself after a while, so that nothing hangs."""

    SECONDS = 120.0

    def __init__(self, client, folder, what):
        self.client, self.door = client, folder / "open"
        client.run(shut, str(self.door), what, self.SECONDS)

    def __enter__(self):
        self.began = time.monotonic()
        return self

    def __exit__(self, *error):
        waited = time.monotonic() - self.began
        self.door.touch()
        self.client.run(opened)
        assert error[0] or waited < self.SECONDS / 2, "it has waited for the workers"


def shut(door, what, seconds):
    """On a worker: all tasks of a kind wait at the door."""
    import importlib
    import pathlib
    import time

    module, name, method = what
    cls = getattr(importlib.import_module(module), name)
    real = getattr(cls, method)

    def waiting(*given):
        end = time.monotonic() + seconds
        while not pathlib.Path(door).exists() and time.monotonic() < end:
            time.sleep(0.02)
        return real(*given)

    setattr(cls, method, waiting)
    cls.reopen = staticmethod(lambda: setattr(cls, method, real))


def opened():
    from itergp.linalg.engines.native import kept, shares

    for cls in (shares.Share, kept.Observations):
        if hasattr(cls, "reopen"):
            cls.reopen()
            del cls.reopen


PASSES = "itergp.linalg.engines.native.shares", "Share", "multiply"
EVALUATIONS = "itergp.linalg.engines.native.kept", "Observations", "sums"


def struck(monkeypatch, awaited, after=3):
    """Ctrl-C, once so many results have been waited for while a tick was asked for now and then."""
    real, waits = cluster.settled, []

    def settled(future, seconds, tick=lambda: None):
        def heard():
            if str(future.key).startswith(awaited):  # once: later waits for others strike no more
                waits.append(future.key)
                if len(waits) == after:
                    os.kill(os.getpid(), signal.SIGINT)
            tick()

        return real(future, seconds, heard)

    monkeypatch.setattr(cluster, "settled", settled)
    return waits


@pytest.mark.parametrize("actions", [0, 3])
def test_control_c_in_a_pass_that_never_ends_leaves_a_valid_model(
    client, engine, tmp_path, monkeypatch, actions
):
    """In the first pass, or in the first one of more actions; what workers have begun is not waited for."""
    model = IterGPRegressor(**GIVEN, policy="cg", neighbours=0, budget="9 actions", engine=engine)
    if actions:
        model.set_params(budget=f"{actions} actions").fit(X, Y)
    waits = struck(monkeypatch, "total")
    more = partial(model.refine, "6 actions") if actions else partial(model.fit, X, Y)
    with (
        Shut(client, tmp_path, PASSES),
        pytest.warns(InterruptedWarning, match=f"Interrupted after {actions} actions"),
    ):
        more()
    assert model.status_.name == "INTERRUPTED"
    assert waits
    assert model.posterior_.rank == actions
    mean, std = model.predict(NEW, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    monkeypatch.undo()
    model.refine("4 actions")  # and the cluster is as good as before
    alone = IterGPRegressor(**GIVEN, policy="cg", neighbours=0, budget=f"{actions + 4} actions").fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), alone.predict(NEW), rtol=0, atol=1e-10)


def test_a_time_budget_ends_a_pass_that_never_does(client, engine, tmp_path):
    model = IterGPRegressor(**GIVEN, policy="cg", neighbours=0, budget="3 actions", engine=engine).fit(X, Y)
    with Shut(client, tmp_path, PASSES):
        model.refine("1s")
    assert model.status_.name == "BUDGET"
    assert model.posterior_.rank == 3


def test_control_c_in_an_evaluation_that_never_ends_leaves_a_valid_model(
    client, engine, all_there, tmp_path, monkeypatch
):
    model = IterGPRegressor("rbf", policy="cholesky", budget="30 actions", engine=engine)
    waits = struck(monkeypatch, "added")
    with Shut(client, tmp_path, EVALUATIONS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    assert waits
    assert model.learning_.ended is Ending.INTERRUPTED
    assert (model.predict(NEW, return_std=True)[1] > 0).all()


def test_control_c_in_predictions_ends_them(client, engine, all_there, monkeypatch):
    """As anywhere else it is raised; the model stays as it is, and so does the cluster."""
    model = IterGPRegressor(**GIVEN, policy="cholesky", budget="30 actions", engine=engine).fit(X, Y)
    expected, real = model.predict(X), cluster.settled

    def strike(future, seconds, tick=lambda: None):
        os.kill(os.getpid(), signal.SIGINT)
        return real(future, seconds, tick)

    monkeypatch.setattr(cluster, "settled", strike)
    with pytest.raises(KeyboardInterrupt):
        model.predict(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.fixture
def all_there(monkeypatch):
    """Work of all sizes goes to the workers, in small batches."""
    monkeypatch.setattr(sums, "ROWS", 256)
    monkeypatch.setattr(spread, "POINTS", 256)
    for name in ("LOCAL_LIKELIHOOD", "LOCAL_SEARCH", "LOCAL_POINTS"):
        monkeypatch.setattr(dask, name, 0)


@pytest.mark.parametrize("noise", ["learn", 0.02])
def test_a_fit_that_learns_on_a_cluster_has_the_bits_of_one_process(engine, all_there, noise):
    """The kernel and the noise that were learned; predictions to rounding, since sums over rows are those of
    shards on a cluster."""
    few, how = X[:1200], {"noise": noise, "policy": "cholesky", "budget": "30 actions"}
    there, here = (
        IterGPRegressor("matern32", **how, engine=where).fit(few, Y[:1200]) for where in (engine, "native")
    )
    assert engine.traffic.received > 0
    assert there.learning_ == here.learning_
    assert np.array_equal(there.noise_, here.noise_)
    for path, value in parameters(here.kernel_).items():
        np.testing.assert_array_equal(parameters(there.kernel_)[path], value)
    for one, other in zip(
        there.predict(few, return_std=True), here.predict(few, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_weights_and_merged_rows_are_learned_on_a_cluster_as_in_one_process(engine, all_there):
    inputs, weights = X[RNG.integers(500, size=900)], RNG.uniform(0.5, 2.0, 900)
    there, here = (
        IterGPRegressor("rbf", policy="cholesky", budget="20 actions", engine=where).fit(
            inputs, Y[:900], sample_weight=weights
        )
        for where in (engine, "native")
    )
    assert learned(there) == learned(here)


def learned(model):
    """The bits of all hyper-parameters."""
    values = parameters(model.fit_.kernel)
    return [np.asarray(values[path]).tobytes() for path in sorted(values)], float(model.fit_.noise)


def test_the_clock_ends_learning_on_workers_that_do_not_answer(engine, all_there, monkeypatch):
    """As if an evaluation took for ever: what has not come when the time is over is not waited for."""
    real = cluster.awaited

    def never(future, seconds, tick=lambda: None):
        if not str(future.key).startswith("added"):
            return real(future, seconds, tick)
        while True:
            time.sleep(0.05)
            tick()

    monkeypatch.setattr(cluster, "awaited", never)
    began = time.perf_counter()
    model = IterGPRegressor("rbf", policy="cholesky", budget="3s", engine=engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    assert time.perf_counter() - began < 20.0  # 3 s, on a machine that nobody else uses
    assert model.learning_.ended is Ending.BUDGET
    assert model.posterior_.rank > 0


def test_the_report_and_the_status_line_say_who_worked_and_what_was_moved(engine, all_there, tmp_path):
    how = {"policy": "cholesky", "budget": "10 actions", "engine": engine, "verbose": 1}
    model = IterGPRegressor("rbf", **how).fit(X[:600], Y[:600])
    said = model.report(tmp_path / "report.html")["fitted"]["engine"]
    assert re.fullmatch(r"dask, float64, 2 workers · \d\.\d MB moved", said)
    assert said in (tmp_path / "report.html").read_text()


def test_a_time_budget_plans_by_the_speed_of_the_cluster(engine, monkeypatch):
    """Four times the speed, a quarter of the slowness, whatever the clock says."""
    monkeypatch.setattr(Machine, "_timed", lambda machine, work: (work(), 0.01)[1])
    problem = Problem(Prior(GIVEN["kernel"]), X, Y, 0.01, Compute(engine=engine))
    found = []
    for factor in (1.0, 4.0):
        monkeypatch.setattr(DaskEngine, "speedup", lambda *_, factor=factor: factor)
        found.append(Machine(problem).slowness())
    assert found[0] == 4 * found[1]


def test_all_threads_of_a_cluster_are_timed_at_once(engine):
    """Two workers on one machine are at most somewhat faster than one thread of it by itself was."""
    speedup = engine.speedup(GIVEN["kernel"], X[:1000], np.dtype("float32"))
    assert 0.0 < speedup < 100.0  # a busy machine may have slept meanwhile
    assert engine.traffic.received == 0  # two numbers, which are no arrays


def test_a_fit_that_does_not_fit_on_the_workers_is_refused_before_it_begins(engine, monkeypatch):
    small = {
        name: cluster.Worker(name, 1, 10**5, worker.versions, worker.instructions)
        for name, worker in engine._workers.items()
    }
    monkeypatch.setattr(engine, "_workers", small)
    monkeypatch.setattr(fitting, "hyperparameters", lambda *_: pytest.fail("it has begun"))
    with pytest.raises(MemoryLimitError, match=r"A fit of 4,500 rows needs about .* 0\.1 MB, of which 70%"):
        IterGPRegressor("rbf", engine=engine).fit(X, Y)


def test_a_time_budget_is_kept_on_a_cluster(engine):
    model = IterGPRegressor(**GIVEN, policy="cg", neighbours=0, budget="2s", engine=engine)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    assert time.perf_counter() - began < 3.0
    assert model.posterior_.rank > 0


# The command line.


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    np.savetxt(path, np.column_stack([X, Y]), delimiter=",", header="a,b,c,y", comments="")
    return path


def test_the_command_line_fits_on_a_cluster(client, table, tmp_path):
    out = tmp_path / "model.itergp"
    options = ("--target", "y", "--kernel", "matern32", "--noise", "0.01", "--budget", "20 actions")
    found = run("fit", table, *options, "--out", out, "--cluster", client.scheduler.address, "--json")
    assert found.exit_code == 0, found.output
    assert "Cluster: 2 workers, each holds " in found.stderr
    assert "2 workers · " in json.loads(found.stdout)["budget"]["cluster"]
    assert IterGPRegressor.load(out).posterior_.rank == 20


@pytest.fixture
def saved(table, tmp_path):
    """A model of the first 4,300 rows, fitted without a cluster, whose actions are dense."""
    model = IterGPRegressor(**GIVEN, policy="cg", budget="6 actions").fit(X[:4300], Y[:4300])
    model.save(tmp_path / "alone.itergp")
    return tmp_path / "alone.itergp"


def columns(path):
    return np.loadtxt(path, delimiter=",", skiprows=1)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_command_line_predicts_on_a_cluster_what_it_predicts_alone(client, saved, tmp_path, kind):
    """More rows than are handled at once without one; with sparse actions to the bit."""
    if kind == "sparse":
        model = IterGPRegressor(**GIVEN, policy="cholesky", budget="30 actions").fit(X, Y)
        model.save(saved)
    rows, new = 2**15 + 5000, tmp_path / "new.csv"
    at = np.random.default_rng(3).uniform(-1, 1, (rows, 3))
    np.savetxt(new, at, delimiter=",")
    out = {name: tmp_path / f"{name}.csv" for name in ("there", "here")}
    found = run("predict", saved, new, "--out", out["there"], "--cluster", client.scheduler.address)
    assert found.exit_code == 0, found.output
    moved = float(re.search(r"2 workers · (\S+) MB moved", found.output)[1].replace(",", ""))
    assert moved > rows * 8 * (3 + 2) / 1e6  # inputs, means and variances
    assert run("predict", saved, new, "--out", out["here"]).exit_code == 0
    there, here = columns(out["there"]), columns(out["here"])
    assert there.shape == (rows, 4)
    np.testing.assert_allclose(there, here, rtol=0, atol=0 if kind == "sparse" else 1e-9)


def test_the_command_line_refines_and_updates_on_a_cluster(client, saved, tmp_path):
    """A model that was fitted alone goes on there, and the file that is written needs no cluster."""
    more, where = tmp_path / "more.csv", ("--cluster", client.scheduler.address, "--json")
    np.savetxt(more, np.column_stack([X, Y])[4300:], delimiter=",")
    out = {name: tmp_path / f"{name}.itergp" for name in ("refined", "updated")}
    found = run("refine", saved, "--budget", "3 actions", "--out", out["refined"], *where)
    assert found.exit_code == 0, found.output
    assert "2 workers · " in json.loads(found.stdout)["budget"]["cluster"]
    budget = ("--target", "4", "--budget", "2 actions")
    found = run("update", out["refined"], more, *budget, "--out", out["updated"], *where)
    assert found.exit_code == 0, found.output
    alone = IterGPRegressor.load(saved).refine("3 actions")
    alone.budget = "2 actions"
    alone.partial_fit(X[4300:], Y[4300:])
    model = IterGPRegressor.load(out["updated"])
    assert model.posterior_.problem.gram.engine.name == "native"
    assert (model.posterior_.rank, model.posterior_.problem.n) == (11, 4500)
    np.testing.assert_allclose(model.predict(NEW), alone.predict(NEW), rtol=0, atol=1e-9)


def test_a_loaded_model_goes_on_with_the_engine_that_is_given(engine, saved):
    model, same = IterGPRegressor.load(saved, engine=engine), IterGPRegressor.load(saved)
    assert model.posterior_.problem.gram.engine is model.engine is engine
    assert same.engine == "auto"
    np.testing.assert_allclose(model.predict(NEW), same.predict(NEW), rtol=0, atol=1e-12)
    model.refine("2 actions")
    assert engine.traffic.received == 2 * X[:4300, 0].nbytes  # two passes of a column


def ended(group, seconds=5.0):
    """Whether all processes of a group end soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_the_command_line_starts_and_ends_processes_of_its_own(table, tmp_path):
    """As a user calls it: in a process of its own, whose children end with it."""
    small = tmp_path / "small.csv"
    small.write_text("".join(table.read_text().splitlines(keepends=True)[:300]))
    options = ["--target", "y", "--kernel", "matern32", "--noise", "0.01", "--cluster", "local:2", "--out"]
    call = [sys.executable, "-m", "itergp.cli", "fit", str(small), *options, str(tmp_path / "model.itergp")]
    process = subprocess.Popen(call, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 0, output
    assert "Saved:" in output
    assert "Traceback" not in output
    assert ended(process.pid), "somebody is left in its session"


def test_info_lists_the_workers_and_what_does_not_match(client, monkeypatch):
    found = run("info", "--cluster", client.scheduler.address)
    assert found.exit_code == 0, found.output
    assert "workers: 2, threads: 2" in found.output
    assert "itergp" in found.output
    values = json.loads(run("info", "--cluster", client.scheduler.address, "--json").output)
    assert [worker["threads"] for worker in values["workers"]] == [1, 1]
    assert values["wrong"] == []
    own = cluster.here()
    monkeypatch.setattr(cluster, "here", lambda: own | {"itergp": "9.9"})
    monkeypatch.setattr(
        cluster, "described", lambda client, known: {"w": cluster.Worker("w", 1, 0, own, "avx2")}
    )
    found = run("info", "--cluster", client.scheduler.address)
    assert found.exit_code == 1
    assert f"does not match: worker w has itergp {own['itergp']}, and this process 9.9" in found.output


@pytest.mark.parametrize("wrong", ["host:8786", "local:0", "local:many", "remote"])
@pytest.mark.parametrize("command", ["fit", "predict", "refine", "update"])
def test_a_bad_cluster_is_refused_before_any_file_is_read(table, tmp_path, wrong, command):
    """The table is no model, and has no such target."""
    given = {"fit": ("--target", "nothing"), "predict": (table,), "refine": (), "update": (table,)}
    out = tmp_path / ("out.csv" if command == "predict" else "out.itergp")
    found = run(command, table, *given[command], "--cluster", wrong, "--out", out)
    assert found.exit_code == 2
    assert f"--cluster is {wrong!r}" in found.output


def test_a_model_and_a_cluster_are_not_described_at_once(table):
    assert "expected one of them" in run("info", table, "--cluster", "local").output

"""Fits on a Dask cluster: those of one process, whatever happens; models and checkpoints need no cluster."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from itergp import DaskEngine, IterGPRegressor, Matern32
from itergp.cli.app import app
from itergp.cli.commands import app as _registered  # noqa: F401
from itergp.linalg.engines import cluster

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
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (6000, 4)); y = np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(6000)
model = IterGPRegressor(1.0 * Matern32(0.5), noise=1e-4, learn=False, policy="cg", budget="60s",
                        neighbours=0, engine=DaskEngine(sys.argv[1], shares=6))
print("ready", flush=True)
model.fit(X, y)
ended = time.time()
mean, std = model.predict(X[:50], return_std=True)
valid = bool(np.isfinite(mean).all() and (std > 0).all())
print(json.dumps([ended, valid, model.status_.name, model.posterior_.rank]))
"""


@pytest.mark.slow
def test_control_c_in_a_pass_leaves_a_valid_model(client):
    call = [sys.executable, "-c", INTERRUPTED, client.scheduler.address]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(1.0)
        struck = time.time()
        process.send_signal(signal.SIGINT)
        line = process.stdout.readline()
        assert process.wait(timeout=30) == 0
    ended, valid, status, rank = json.loads(line)
    assert valid
    assert status == "INTERRUPTED"
    assert rank > 0
    assert ended - struck < 2.0


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
    assert IterGPRegressor.load(out).posterior_.rank == 20


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
def test_a_bad_cluster_is_refused_before_any_file_is_read(table, wrong):
    found = run("fit", table, "--target", "nothing", "--cluster", wrong)
    assert found.exit_code == 2
    assert f"--cluster is {wrong!r}" in found.output


def test_a_model_and_a_cluster_are_not_described_at_once(table):
    assert "expected one of them" in run("info", table, "--cluster", "local").output

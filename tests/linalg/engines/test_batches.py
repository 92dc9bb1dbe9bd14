"""Learning by neighbours and predictions on a Dask cluster: the bits of one process, whatever happens to its
workers."""

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from itergp import (
    ClusterError,
    Compute,
    ConjugateGradient,
    DaskEngine,
    Linear,
    Matern32,
    MaxActions,
    MemoryLimitError,
    Periodic,
    Prior,
    UnitVector,
    condition,
)
from itergp.data.rows import merge_rows, unmerged
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.linalg.engines import batches, cluster, dask as engine_file, placement, sums
from itergp.linalg.gram import Gram
from itergp.posterior import spread
from itergp.posterior.targets import TargetPosterior

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'itergp[dask]'")
kept = pytest.importorskip("itergp.linalg.engines.native.kept", reason="the native engine was not built")
shares = pytest.importorskip("itergp.linalg.engines.native.shares", reason="the native engine was not built")

ROWS, POINTS, D = 4500, 1300, 3
KERNEL = 1.2 * Matern32([0.5, 0.7, 0.9]) + 0.1 * Linear(1.0)
AFTER = 1.1 * Matern32([0.4, 0.8, 1.1]) + 0.2 * Linear(0.9)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (ROWS, D))
Y = np.sin(3 * X.sum(axis=1, keepdims=True) + [0.0, 1.0]) + 0.1 * RNG.standard_normal((ROWS, 2))
NEW = RNG.uniform(-1, 1, (POINTS, D))


@pytest.fixture(scope="module")
def client():
    """Three processes with a thread each, on this machine; all of them end with the tests."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with cluster.local_cluster(3) as client:
        yield client


@pytest.fixture
def engine(client, scaled, monkeypatch):
    """Everything goes there, in small batches."""
    assert scaled(client, 3)
    monkeypatch.setattr(sums, "ROWS", 448)
    monkeypatch.setattr(spread, "POINTS", 128)
    monkeypatch.setattr(spread, "FEWEST", 128)
    for name in ("LOCAL_LIKELIHOOD", "LOCAL_SEARCH", "LOCAL_POINTS"):
        monkeypatch.setattr(engine_file, name, 0)
    return DaskEngine(client)


def objective(where, rows=None, batch=None, seed=0):
    rows = unmerged(X, Y) if rows is None else rows
    return NeighbourLikelihood.at(KERNEL, rows, 12, batch, seed, Compute(engine=where))


def numbers(evaluation):
    """All of its numbers, to the bit."""
    parts = [
        evaluation.value,
        evaluation.noise,
        *(evaluation.kernel[path] for path in sorted(evaluation.kernel)),
    ]
    return np.concatenate([np.ravel(part) for part in parts]).tobytes()


def posterior(where, policy=None, actions=64, y=Y[:, 0], noise=0.01, dtype="auto"):
    policy = UnitVector("random", block_size=64) if policy is None else policy
    return condition(Prior(KERNEL), X, y, noise, policy, MaxActions(actions), Compute(dtype, engine=where))


def here(process):
    """What the same posterior predicts in this process."""
    return process.at(NEW).marginals


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# The bits of one process.


def weighted():
    weights = np.random.default_rng(1).uniform(0.2, 3.0, ROWS)
    return unmerged(X, Y, weights)


def merged():
    places = np.random.default_rng(2).integers(ROWS // 2, size=ROWS)
    return merge_rows(X[places], Y)


DATA = {"plain": lambda: unmerged(X, Y), "one target": lambda: unmerged(X, Y[:, :1])}
DATA |= {"weights": weighted, "merged": merged, "tiny": lambda: unmerged(X[:7], Y[:7])}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("batch", [None, 1000])
def test_the_neighbour_likelihood_has_the_bits_of_one_process(engine, name, batch):
    rows = DATA[name]()
    there, here = objective(engine, rows, batch), objective("native", rows, batch)
    np.testing.assert_array_equal(there.given.J, here.given.J)
    for kernel, noise in ((KERNEL, 0.01), (AFTER, 0.02), (KERNEL, 0.01)):
        assert numbers(there(kernel, noise)) == numbers(here(kernel, noise))


def test_a_batch_of_rows_has_the_likelihood_of_these_rows(engine):
    """Against the sum of what each row has by itself."""
    given = objective("native")._conditionals
    values = engine.likelihood(KERNEL, 0.01, given)[0]
    np.testing.assert_allclose(engine.summed_likelihood(KERNEL, 0.01, given)[0], values.sum(), rtol=1e-13)


@pytest.mark.parametrize("by_trees", [False, True])
@pytest.mark.parametrize("some", [1, 2000, ROWS])
def test_nearest_earlier_rows_are_those_of_one_process(engine, by_trees, some):
    chosen = np.sort(np.random.default_rng(3).choice(ROWS, some, replace=False))
    found = engine.earlier(X, 10, chosen, by_trees)
    np.testing.assert_array_equal(found, engine._native.earlier(X, 10, chosen, by_trees))


def test_an_engine_that_was_pickled_searches_and_evaluates_like_the_one_that_it_was(engine):
    """It knows no workers before it first asks for them."""
    copied, chosen = pickle.loads(pickle.dumps(engine)), np.arange(100, 300)
    try:
        found = copied.earlier(X, 10, chosen, False)
        np.testing.assert_array_equal(found, engine._native.earlier(X, 10, chosen, False))
        assert numbers(objective(copied)(AFTER, 0.02)) == numbers(objective("native")(AFTER, 0.02))
    finally:
        copied.client.close()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [0.01, np.linspace(0.01, 0.1, ROWS)], ids=["one noise", "per row"])
def test_predictions_with_sparse_actions_have_the_bits_of_one_process(engine, dtype, noise):
    there, alone = (posterior(where, noise=noise, dtype=dtype).local(20) for where in (engine, "native"))
    found, expected = there.marginals(NEW), here(there)
    assert engine.traffic.received == 2 * NEW[:, 0].nbytes
    same(found, expected)
    for one, other in zip(found, here(alone), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_predictions_of_several_targets_have_the_bits_of_one_process(engine):
    there = posterior(engine, y=Y)
    same(there.local(20).marginals(NEW), here(there.local(20)))
    each = TargetPosterior(there, np.array([0.01, 0.05])).local(20)
    found = each.marginals(NEW)
    same(found, here(each))
    assert found[1].shape == (POINTS, 2)


def test_predictions_with_dense_actions_are_those_of_one_process_to_rounding(engine):
    there = posterior(engine, ConjugateGradient(), 5)
    found = there.local(20).marginals(NEW)
    for one, other in zip(found, here(there.local(20)), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
    same(found, there.local(20).marginals(NEW))  # and do not depend on who computes them


@pytest.mark.slow
def test_other_work_stays_in_this_process(engine):
    """Kernels whose gradients JAX computes, rows given others in all conditioning sets, and few points."""
    from itergp.learning.full_scale import FullScaleLikelihood

    sent, rows = engine.traffic.sent, unmerged(X[:300], Y[:300])
    kernel = 1.0 * Periodic(0.8, 2.0) + Matern32(0.5)
    both = [
        NeighbourLikelihood.at(kernel, rows, 5, compute=Compute(engine=where))(kernel, 0.1).value
        for where in (engine, "native")
    ]
    assert both[0] == both[1]
    searched = engine.traffic.sent
    assert searched > sent  # the search for neighbours knows no kernel
    FullScaleLikelihood.at(KERNEL, rows, 5, 16, compute=Compute(engine=engine))(KERNEL, 0.1)
    again = engine.traffic.sent - searched
    assert again < 2 * (searched - sent)  # its search, and nothing of its evaluation


def test_small_work_stays_in_this_process(client):
    engine = DaskEngine(client)
    objective(engine)(KERNEL, 0.01)
    posterior(engine).local(20).marginals(NEW)
    assert engine.traffic == batches.Traffic()


def test_few_points_among_many_rows_are_predicted_as_by_one_process():
    """Their neighbours are a small part of all rows."""
    rows = np.random.default_rng(4).uniform(-1, 1, (20_000, D))
    found, expected = (
        condition(
            Prior(KERNEL),
            rows,
            rows[:, 0],
            0.01,
            UnitVector("random", block_size=16),
            MaxActions(16),
            Compute(engine=where),
        )
        .local(20)
        .marginals(NEW[:3])
        for where in (DaskEngine(None), "native")
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


# What is moved.


def test_rows_are_sent_once_and_an_evaluation_brings_back_a_few_numbers(engine):
    there = objective(engine)
    begun = engine.traffic.sent
    there(KERNEL, 0.01)
    rows = X.nbytes + Y.nbytes + 8 * ROWS
    neighbours = 4 * ROWS * (1 + 12)
    placed = engine.traffic.sent - begun
    assert rows + neighbours <= placed < rows + neighbours + 5000  # and how they are to be read
    received = engine.traffic.received
    for noise in (0.02, 0.03):
        there(AFTER, noise)
    assert engine.traffic.sent - begun == placed
    numbers = 1 + 2 * 2 + 2 * D + 2  # value; two for each of two terms; squares by feature; constant, noise
    assert engine.traffic.received - received == 2 * 8 * numbers


def test_a_posterior_is_sent_once(engine):
    local = posterior(engine).local(20)
    before = engine.traffic.sent
    local.marginals(NEW)
    first = engine.traffic.sent - before
    local.marginals(NEW)
    assert engine.traffic.sent - before - first == NEW.nbytes
    assert first > NEW.nbytes + X.nbytes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 70])
def test_a_pass_moves_what_the_formula_says(engine, dtype, columns):
    """This process: n b in, n b out. Between workers, of which there are three: V to all but one of them, and
    the two parts of a share to where those of either group are added: at most twice p parts of n b."""
    gram, V = Gram(KERNEL, X, Compute(dtype, cache=0, engine=engine)), np.ones((ROWS, columns))
    gram.multiply(V[:, :1])  # the inputs are there
    sent, received, between = engine.traffic.sent, engine.traffic.received, moved_between(engine.client)
    gram.multiply(V)
    size = np.dtype(dtype).itemsize
    assert engine.traffic.sent - sent == ROWS * columns * size
    assert engine.traffic.received - received == ROWS * columns * 8
    blocks, p = column_blocks(columns), shares.Groups.of(ROWS, engine.shares).p
    most = sum(2 * ROWS * b * size + 2 * p * padded(b) * 8 for b in blocks)
    least = sum(ROWS * b * size for b in blocks)
    assert least <= moved_between(engine.client) - between <= 1.01 * most + 10**4


def column_blocks(columns):
    return [min(64, columns - start) for start in range(0, columns, 64)]


def padded(columns):
    """Numbers of a block of columns as the native code has them: whole tiles, whole vectors."""
    return -(-ROWS // 256) * 256 * (-(-columns // 16) * 16)


def moved_between(client):
    """Bytes that workers have taken from each other, as Dask counted them."""

    def incoming(dask_worker):
        return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)

    return sum(client.run(incoming).values())


def test_data_leave_the_workers_with_the_last_reference(client, engine):
    def keys():
        return set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))

    others = keys()
    there, local = objective(engine), posterior(engine).local(20)
    there(KERNEL, 0.01)
    local.marginals(NEW)
    its = keys() - others
    assert its
    del there, local
    assert soon(lambda: not its & keys()), "something still lies on the workers"


def soon(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


# Workers come, go and die.


def test_workers_that_come_and_go_change_no_bit(client, engine, scaled):
    expected, there, its = objective("native"), objective(engine), posterior(engine).local(20)
    local = here(its)
    for workers in (3, 1, 2, 3):
        assert scaled(client, workers)
        assert numbers(there(AFTER, 0.02)) == numbers(expected(AFTER, 0.02))
        same(its.marginals(NEW), local)
        assert len(engine._workers) == workers


class Gate:
    """Workers say that they are in the middle of a batch, and wait until they may go on; meanwhile one is
    killed. Nothing depends on how long anything takes."""

    def __init__(self, folder, kills=1):
        self.folder, self.kills, self.killed = Path(folder), kills, []
        self.thread = threading.Thread(target=self._kill, daemon=True)

    def enter(self):
        """On a worker."""
        if not (self.folder / "open").exists():
            (self.folder / f"in-{os.getpid()}").touch()
            while not (self.folder / "open").exists():
                time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        (self.folder / "open").touch()
        self.thread.join(60)

    def _kill(self):
        while len(self.killed) < self.kills and not (self.folder / "open").exists():
            inside = {int(path.name[3:]) for path in self.folder.glob("in-*")} - set(self.killed)
            if inside:
                self.killed.append(min(inside))
                os.kill(self.killed[-1], signal.SIGKILL)
            time.sleep(0.01)
        (self.folder / "open").touch()

    def __getstate__(self):
        return {"folder": self.folder}


class Gated(kept.Observations):
    """Whose batches pass a gate first."""

    gate = None

    def sums(self, asked, rows, J):
        self.gate.enter()
        return super().sums(asked, rows, J)

    def __reduce__(self):
        return gated, (self.gate, *self.data)


def gated(gate, *data):
    made = Gated(*data)
    made.gate = gate
    return made


def gated_at(gate, neighbours, with_variance, posterior, points):
    gate.enter()
    return AT(neighbours, with_variance, posterior, points)


AT = spread.at


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 2])
def test_workers_killed_while_learning_change_no_bit(engine, tmp_path, monkeypatch, kills):
    expected, there = objective("native"), objective(engine)
    with Gate(tmp_path, kills) as gate:
        monkeypatch.setattr(kept, "Observations", partial(gated, gate))
        found = there(AFTER, 0.02)
    assert len(set(gate.killed)) == kills
    assert numbers(found) == numbers(expected(AFTER, 0.02))
    assert numbers(there(KERNEL, 0.03)) == numbers(expected(KERNEL, 0.03))
    assert not set(gate.killed) & set(engine.client.run(os.getpid).values())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 2])
def test_workers_killed_while_predicting_change_no_bit(engine, tmp_path, monkeypatch, kills):
    there = posterior(engine).local(20)
    expected = here(there)
    with Gate(tmp_path, kills) as gate:
        monkeypatch.setattr(spread, "at", partial(gated_at, gate))
        found = there.marginals(NEW)
    assert len(set(gate.killed)) == kills
    same(found, expected)
    same(there.marginals(NEW), expected)


def test_data_that_are_lost_are_sent_again(engine, monkeypatch):
    there, expected, real = objective(engine), objective("native"), batches.Batches._received
    losses = [KeyError("lost"), OSError("lost"), None]

    def lossy(self, future, tick):
        loss = losses.pop(0) if losses else None
        if loss is not None:
            raise loss
        return real(self, future, tick)

    monkeypatch.setattr(batches.Batches, "_received", lossy)
    sent = engine.traffic.sent
    assert numbers(there(AFTER, 0.02)) == numbers(expected(AFTER, 0.02))
    assert engine.traffic.sent - sent > 3 * (X.nbytes + Y.nbytes)
    losses += 5 * [KeyError("lost")]
    with pytest.raises(ClusterError, match="begun 5 times"):
        there(AFTER, 0.02)


def test_an_error_in_the_work_is_not_taken_for_a_loss(engine):
    with pytest.raises(ClusterError, match="Work failed on a worker: KeyError: 'nothing'"):
        engine.each(failing, Shared(), [X[:3]])
    with pytest.raises(ZeroDivisionError):
        engine.each(dividing, Shared(), [X[:3]])


class Shared:
    pass


def failing(shared, piece):
    raise KeyError("nothing")


def dividing(shared, piece):
    return 1 / 0


def test_a_tick_ends_an_evaluation_and_what_has_not_begun_is_cancelled(engine, tmp_path, monkeypatch):
    class Stop(Exception):  # noqa: N818 (no error)
        pass

    def tick():
        if list(tmp_path.glob("in-*")):  # some batches have begun
            raise Stop

    there, expected, real = objective(engine), objective("native"), kept.Observations
    gate = Gate(tmp_path)
    monkeypatch.setattr(kept, "Observations", partial(gated, gate))
    with pytest.raises(Stop):
        engine.summed_likelihood(KERNEL, 0.01, there._conditionals, tick=tick)
    known = engine.client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
    assert not any(key.startswith("added") for key in known)
    (tmp_path / "open").touch()
    monkeypatch.setattr(kept, "Observations", real)
    assert numbers(there(AFTER, 0.02)) == numbers(expected(AFTER, 0.02))


SCHEDULER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    c = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://",
                     host="127.0.0.1", dashboard_address="127.0.0.1:0")
    print(c.scheduler_address, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_scheduler_that_ends_while_learning_is_an_error_that_says_so(engine, tmp_path, monkeypatch):
    """It lives in one process with its worker, which is killed in the middle of a batch."""
    monkeypatch.setattr(cluster, "CONNECT", 2.0)  # so long it is looked for
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}  # its worker imports this file
    with subprocess.Popen(
        [sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            own = DaskEngine(process.stdout.readline().strip())
            with Gate(tmp_path) as gate:
                monkeypatch.setattr(kept, "Observations", partial(gated, gate))
                with pytest.raises(ClusterError, match=r"scheduler has gone .* last checkpoint"):
                    objective(own)(KERNEL, 0.01)
            assert gate.killed == [process.pid]
        finally:
            process.kill()
    there = posterior("native")
    there.problem.gram.engine = own
    with pytest.warns(RuntimeWarning, match=r"computed in this process, .* scheduler has gone"):
        found = there.local(20).marginals(NEW)
    same(found, posterior("native").local(20).marginals(NEW))
    own.client.close(timeout=1)


def hungry(*_):
    """Takes memory until it is killed for it."""
    held = []
    while True:
        held.append(np.ones(2**21))
        time.sleep(0.001)


def batch_of(engine):
    engine.each(hungry, Shared(), [X[:3]])


def pass_of(engine):
    Gram(KERNEL, X, Compute("float64", engine=engine)).multiply(Y)


@pytest.mark.slow
@pytest.mark.parametrize("work", [batch_of, pass_of])
def test_a_worker_out_of_memory_is_an_error_that_says_so(work, monkeypatch):
    """Its nanny kills it at its limit. Once is enough here, where Dask tries four times; and a pass, whose
    data die with the only worker, is begun twice, not five times."""
    import dask

    monkeypatch.setattr(engine_file, "TRIES", 2)
    monkeypatch.setattr(shares.Share, "multiply", hungry)  # sent to the worker as a function
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="500MB", dashboard_address=None, host="127.0.0.1"
        ) as small,
        distributed.Client(small, set_as_default=False) as its_client,
        pytest.raises(
            ClusterError, match=r"(died again and again|begun 2 times).* ran out of memory, give them more"
        ),
    ):
        work(DaskEngine(its_client))


# Memory.


def small(engine, memory):
    return {
        name: cluster.Worker(name, 1, memory, worker.versions, worker.instructions)
        for name, worker in engine._workers.items()
    }


def test_what_does_not_fit_is_refused_with_both_numbers_before_it_is_sent(engine, monkeypatch):
    monkeypatch.setattr(engine, "_workers", small(engine, 10**5))
    with pytest.raises(
        MemoryLimitError, match=r"Learning from 4,500 rows needs about .* tcp://.* has 0\.1 MB"
    ):
        engine.summed_likelihood(KERNEL, 0.01, objective("native")._conditionals)
    there = posterior("native")
    there.problem.gram.engine = engine
    with pytest.warns(RuntimeWarning, match=r"computed in this process, .* would lie on worker"):
        found = there.local(20).marginals(NEW)
    same(found, posterior("native").local(20).marginals(NEW))
    with pytest.raises(
        MemoryLimitError, match=r"A fit of 4,500 rows needs about .* on worker .* has 0\.1 MB"
    ):
        engine.placement(ROWS, D, 1, 1)


@pytest.mark.parametrize("when", ["before a fit", "before a pass"])
def test_a_cache_that_does_not_fit_beside_the_data_is_refused_with_one_that_does(engine, monkeypatch, when):
    """4,500^2 / 2 numbers of 8 bytes are 27 MB on each of 3 workers, which have 20 MB."""
    begun = {
        "before a fit": lambda of: of.placement(ROWS, D, 1, 1),
        "before a pass": lambda of: Gram(KERNEL, X, Compute("float64", engine=of)).multiply(Y),
    }[when]

    def of(cache):
        made = DaskEngine(engine.client, shares=6, cache=cache)
        monkeypatch.setattr(made, "_workers", small(made, 20 * 10**6))
        return made

    with pytest.raises(
        MemoryLimitError, match=r"DaskEngine\.cache: stored tiles would take 27 MB .* 20 MB"
    ) as refused:
        begun(of("1 GB"))
    fits = re.search(r'cache="(\d+ MB)"', str(refused.value)).group(1)
    assert 15 < int(fits.split()[0]) < 19
    begun(of(fits))
    begun(of("auto"))


def test_the_placement_of_a_fit_is_what_workers_then_hold(engine, monkeypatch):
    """Its number for learning, against what was sent and is kept: rows once, a part of the neighbours, and
    features, with three times as many while they are made."""
    monkeypatch.setattr(engine, "_workers", small(engine, 10**9))
    words = engine.placement(ROWS, D, 2, 0)
    assert words.startswith("3 workers, each holds 0.83 MB while learning, of 1 GB")
    rows, features, neighbours = X.nbytes + Y.nbytes + 8 * ROWS, X.nbytes, 4 * ROWS * 31 / 3
    assert round((rows + 4 * features + neighbours) / 1e6, 2) == 0.83
    assert "for passes of few columns, up to 27 MB of stored tiles" in engine.placement(ROWS, D, 2, 1)
    both = engine.placement(ROWS, D, 2, 0, KERNEL)  # a part with features in tiles, and a linear one
    assert f"each holds {(rows + 8 * features + neighbours) / 1e6:.2g} MB while learning" in both


def test_features_of_all_parts_of_a_kernel_are_counted():
    """Against those that are made for a pass, of whole blocks of rows."""
    inputs = np.random.default_rng(5).uniform(-1, 1, (2048, D))
    kernel = KERNEL + Periodic(0.8, 2.0) + Matern32(0.5)
    rows = shares.Rows(kernel, inputs, "float64", shares._tiles.instruction_set(), 2)
    made = sum(part.nbytes for group in (0, 1) for part in rows.features(group))
    counted = placement.Inputs.of(inputs.shape, kernel)
    assert 8 * 2048 * counted.tiles == made == 8 * 2048 * 4 * D  # a periodic kernel has two for each input
    assert counted.linear == D
    assert placement.of_pass(counted, 0, 8, 1, 1.0) == inputs.nbytes + made


def test_features_of_two_evaluations_are_never_held_at_once(monkeypatch):
    held, real = [], kept.scaled_inputs
    rows, some = kept.Observations(X, Y, np.ones(ROWS)), np.arange(50, 60, dtype=np.int32)

    def counted(parts, inputs):
        held.append(rows._last)
        return real(parts, inputs)

    monkeypatch.setattr(kept, "scaled_inputs", counted)
    asked = [(KERNEL, 0.01), (AFTER, 0.02)]
    for one in (asked[0], asked[0], asked[1]):
        rows.sums(one, some, np.tile(np.arange(12, dtype=np.int32), (10, 1)))
    assert held == [None, None]


def test_activity_says_who_works_and_what_was_moved(engine):
    assert engine.activity() == "3 workers · 0.0 MB moved"
    objective(engine)(KERNEL, 0.01)
    moved = engine.traffic.sent + engine.traffic.received
    assert engine.activity() == f"3 workers · {moved / 1e6:,.1f} MB moved"
    assert moved > 10**5


# Values as they are sent.


def test_what_is_sent_predicts_without_a_connection_of_its_own(engine):
    there = posterior(engine)
    held = batches.Held.of(there.as_sent)
    arrived = pickle.loads(pickle.dumps(held, protocol=5))
    same(arrived.value.local(20).at(NEW).marginals, here(there.local(20)))
    assert arrived.value.problem.gram.engine._client is None
    assert arrived.value.trace == ()
    assert sys.getsizeof(held) >= held.nbytes > X.nbytes
    assert arrived.copy().value is arrived.value


@pytest.mark.parametrize("rows", [0, 1, 447, 448, 449, 8192, 8193, 10**6 + 1, 10**7])
def test_batches_have_each_row_once_and_are_whole_chunks(rows):
    some = sums.batches(rows)
    assert [one.start for one in some[1:]] == [one.stop for one in some[:-1]]
    assert (some[0].start, some[-1].stop) == (0, rows)
    assert all(one.start % sums.WHOLE == 0 for one in some)
    assert len(some) <= sums.MOST


@pytest.mark.parametrize("rows", [0, 1, 64, 8192, 20_000])
def test_sums_in_batches_are_those_of_their_parts(rows):
    values = np.random.default_rng(rows).standard_normal((rows, 3))
    np.testing.assert_allclose(sums.in_batches(values), values.sum(axis=0), atol=1e-11)
    parts = [values[one].sum(axis=0) for one in sums.batches(rows)]
    np.testing.assert_array_equal(sums.in_batches(values), sums.in_order(parts))

"""Q and K Q on the workers of a Dask cluster: the posteriors of one process, whatever happens to workers.

The oracle of bits is `DaskEngine(None)`, the same sums in this process; that of numbers is the native engine.
"""

import gc
import itertools
import logging
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers import POLICIES, make_data
from itergp import (
    ClusterError,
    Compute,
    ConjugateGradient,
    DaskEngine,
    InputError,
    IterGPRegressor,
    Linear,
    Matern32,
    MaxActions,
    MemoryLimitError,
    Posterior,
    Prior,
    RandomAction,
    Schedule,
    UnitVector,
    condition,
)
from itergp.linalg import shards
from itergp.linalg.engines import cluster, dask_shards
from itergp.solver.more_data import reweighted
from itergp.solver.state import Status
from itergp.storage import load, save
from itergp.storage.checkpoints import Checkpoint

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'itergp[dask]'")
pytest.importorskip("itergp.linalg.engines.native.shares", reason="the native engine was not built")

N, SHARES = 4500, 4  # rows of five leaves
KERNEL = 1.2 * Matern32([0.5, 0.7, 0.9]) + 0.1 * Linear(1.0)
DATA = make_data(N, 3, new=30)
MIXED = Schedule(
    (UnitVector("random", block_size=8), 8), (RandomAction(block_size=8), 16), (ConjugateGradient(), 2)
)


@pytest.fixture(scope="module")
def client():
    """Three processes with a thread each; a killed one is started again."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with cluster.local_cluster(3) as client:
        yield client


@pytest.fixture
def engine(client, scaled):
    assert scaled(client, 3)
    return DaskEngine(client, SHARES, basis="workers")


def conditioned(engine, policy=MIXED, actions=26, noise=0.1, y=DATA.y, n=N, **how):
    compute = Compute("float64", engine=engine)
    return condition(Prior(KERNEL), DATA.X[:n], y[:n], noise, policy, MaxActions(actions), compute, **how)


def on_workers(posterior):
    parts = [part for part in posterior.state.basis.parts if isinstance(part, shards.Sharded)]
    places = [matrix.place for matrix in (*parts, posterior.state.basis.KQ)]
    return all(isinstance(place, dask_shards.Workers) for place in places)


def numbers(posterior, local=True):
    """All that predictions and further steps read."""
    at, state = posterior.at(DATA.X_new), posterior.state
    found = [at.mean, at.var, state.representer_weights, state.residual, state.training_variance, state.z]
    found += [state.L, state.basis.rows(np.arange(0, state.problem.n, 7)), state.tau]
    return found + (list(at.local(10).marginals) if local else [])


def assert_same_bits(found, expected):
    for ours, theirs in zip(numbers(found), numbers(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def home_of(client, place):
    """The process and the address of a worker that has some shards."""
    address = place.homes[0]
    return client.run(os.getpid, workers=[address])[address], address


def killed(client, copies):
    """Kill the worker with the first copy, and return once the scheduler knows."""
    pid, address = home_of(client, copies)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: address not in cluster.workers(client))


def wait_until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.02)


# The same numbers.


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_gives_the_posterior_of_one_process(engine, name):
    n = 4000 if name == "adversarial" else N  # the most that it takes is 4,096
    found, here, alone = (
        conditioned(which, POLICIES[name](), 4, n=n) for which in (engine, DaskEngine(None, SHARES), "native")
    )
    assert on_workers(found)
    assert_same_bits(found, here)
    assert found.rank == alone.rank
    assert found.problem.gram.passes == alone.problem.gram.passes
    for ours, theirs in zip(numbers(found)[:2], numbers(alone)[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bits(workers, monkeypatch):
    """Three of them are in the other tests. Here sums are also added on the workers."""
    monkeypatch.setattr(dask_shards, "FEW", 1)
    with cluster.local_cluster(workers) as client:
        found = conditioned(DaskEngine(client, SHARES, basis="workers"))
        assert on_workers(found)
        assert_same_bits(found, conditioned(DaskEngine(None, SHARES)))


def test_more_actions_more_rows_other_noise_and_several_targets(engine):
    """refine, extend by few and by many rows, other noise for each row, and two targets."""
    y = np.column_stack([DATA.y, DATA.y**2])

    def chain(which):
        first = conditioned(which, actions=20, y=y, n=4000).refine(MIXED, MaxActions(6))
        more = first.extend(DATA.X[4000:4005], y[4000:4005]).extend(DATA.X[4005:], y[4005:])
        noisy = more.refine(RandomAction(block_size=4), MaxActions(4))
        other = reweighted(noisy.state, np.linspace(0.1, 0.3, N), y)
        return [first, noisy, Posterior(other.problem, other, MIXED)]

    for found, expected in zip(chain(engine), chain(DaskEngine(None, SHARES)), strict=True):
        assert on_workers(found)
        assert_same_bits(found, expected)


def test_everything_that_reads_a_posterior_has_the_bits_of_one_process(engine):
    found, here = (conditioned(which) for which in (engine, DaskEngine(None, SHARES)))
    X = DATA.X_new[:6]
    for ask in (
        lambda p: p.cov(X),
        lambda p: p.sample(X, 3, seed=0),
        lambda p: p.sample_function(2, seed=0)(X),
        lambda p: p.at(X).path([1, 20]).mean,
        lambda p: p.at(X).decompose(passes=1).computational,
        lambda p: p.at(X).certify().variance_lower,
        lambda p: p.at(X).local(5).decompose(passes=1).combined,
        lambda p: np.array([p.state.elbo, p.state.energy]),
        lambda p: p.actions,
        lambda p: p.state.search_directions(),
    ):
        np.testing.assert_array_equal(np.asarray(ask(found)), np.asarray(ask(here)))


def test_repeated_and_exhausted_actions_end_as_in_one_process(engine):
    """Unit vectors again after they were taken, dense copies of them, and no actions left."""
    repeated = lambda state: np.eye(N)[:, [3, 3, 7]] if state.proposed < 9 else None  # noqa: E731
    listed = Schedule((UnitVector(np.array([3, 5, 3, 7]), block_size=2), None), (repeated, None))
    found, here, alone = (
        conditioned(which, listed, 30) for which in (engine, DaskEngine(None, SHARES), "native")
    )
    assert found.state.status is alone.state.status is Status.ACTIONS_EXHAUSTED
    assert found.rank == alone.rank == 3
    assert found.state.progress.dropped == alone.state.progress.dropped
    assert_same_bits(found, here)


def test_sparse_actions_after_dense_ones(engine):
    policy = Schedule(
        (RandomAction(block_size=4), 4), (UnitVector(block_size=3), 6), (ConjugateGradient(), 2)
    )
    found, here = (conditioned(which, policy, 12) for which in (engine, DaskEngine(None, SHARES)))
    assert on_workers(found)
    assert_same_bits(found, here)


def test_a_basis_moves_to_the_workers_when_it_is_large(client, monkeypatch):
    from itergp.linalg.engines import dask

    limits = {"auto": 8 * N * 20, "here": np.inf, "workers": 0}
    monkeypatch.setattr(dask, "HERE", limits)
    found, stays = (conditioned(DaskEngine(client, SHARES, basis=basis)) for basis in ("auto", "here"))
    assert isinstance(found.state.basis.KQ.place, dask_shards.Workers)  # 26 columns
    assert isinstance(found.state.basis.parts[-1].place, shards.Here)  # 18 dense ones
    assert isinstance(stays.state.basis.KQ.place, shards.Here)
    assert_same_bits(found, stays)
    with pytest.raises(InputError, match=r"DaskEngine\.basis is 'there'; expected one of 'auto', 'here'"):
        DaskEngine(client, basis="there")


# Files.


def test_models_and_pickles_hold_all_numbers_and_need_no_cluster(engine, tmp_path):
    found = conditioned(engine)
    save(tmp_path / "model.itergp", found)
    loaded, sent = load(tmp_path / "model.itergp")[0], pickle.loads(pickle.dumps(found.state.basis))
    for basis in (loaded.state.basis, sent):
        np.testing.assert_array_equal(basis.dense(0, 26), found.state.basis.dense(0, 26))
        np.testing.assert_array_equal(basis.KQ.between(0, 26), found.state.basis.KQ.between(0, 26))
    assert isinstance(loaded, Posterior)
    assert loaded.problem.gram.engine.name == "native"
    assert_same_bits(loaded, found)


GIVEN = {"kernel": 1.0 * Matern32(0.5), "noise": 0.01, "learn": False, "policy": "cg", "neighbours": 0}


def fitted(engine, actions, **how):
    return IterGPRegressor(**GIVEN, budget=f"{actions} actions", engine=engine, **how).fit(DATA.X, DATA.y)


def test_a_checkpoint_of_three_workers_goes_on_on_one_and_on_none_to_the_same_bits(engine, tmp_path):
    whole = fitted(DaskEngine(None, SHARES), 9).posterior_
    fitted(engine, 5, checkpoint=tmp_path / "run")
    with cluster.local_cluster(1) as other:
        for where, actions in (
            (DaskEngine(other, SHARES, basis="workers"), 7),
            (DaskEngine(None, SHARES), 9),
        ):
            resumed = fitted(where, actions, checkpoint=tmp_path / "run")
            assert resumed.trace_.resumed_from == actions - 2
    for ours, theirs in zip(numbers(resumed.posterior_), numbers(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_this_process_never_has_the_whole_basis_while_it_writes_or_reads(engine, tmp_path, monkeypatch):
    """A file is written 64 columns at a time, and segments of a checkpoint are read one at a time."""
    widths, between = [], shards.Sharded.between

    def counted(self, start, stop):
        widths.append(stop - start)
        return between(self, start, stop)

    found = conditioned(engine, RandomAction(block_size=50), 150)
    monkeypatch.setattr(shards.Sharded, "between", counted)
    save(tmp_path / "model.itergp", found)
    assert sorted(widths) == sorted([64, 64, 22] * 2)


# What can go wrong.


@pytest.mark.slow
def test_workers_killed_between_steps_change_no_bit(client, engine):
    """Twice, each time one that has shards; meanwhile another one has started."""
    ranks = {8: 0, 24: 1}

    def kill(state):
        if state.rank in ranks:
            held = state.basis.KQ.held
            killed(client, held[0] if ranks.pop(state.rank) else held[-1])

    found = conditioned(engine, callback=kill)
    assert not ranks
    assert_same_bits(found, conditioned(DaskEngine(None, SHARES)))
    alive = cluster.workers(client)
    for copies in found.state.basis.KQ.held:
        assert len(set(copies.homes)) == 2, "each shard is in two places again"
        assert set(copies.homes) <= set(alive)
        assert len({value.key for value in copies.values}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["_put", "_sent", "_submit", "_settled", "_asked"])
def test_a_worker_killed_in_the_middle_of_work_on_shards_changes_no_bit(client, engine, moment, monkeypatch):
    """After shards came there, blocks were sent, or a task; before results are there; or after all tasks."""
    calls, real = itertools.count(), getattr(dask_shards.Workers, moment)
    done = []

    def then_kill(self, *what):
        found = None if moment == "_settled" else real(self, *what)
        if next(calls) == (0 if moment == "_put" else 6):
            done.append(os.kill(min(client.run(os.getpid).values()), signal.SIGKILL))
        return real(self, *what) if moment == "_settled" else found

    monkeypatch.setattr(dask_shards.Workers, moment, then_kill)
    found = conditioned(engine)
    monkeypatch.undo()
    assert len(done) == 1
    assert_same_bits(found, conditioned(DaskEngine(None, SHARES)))


@pytest.mark.slow
def test_a_worker_killed_in_a_pass_changes_no_bit(client, engine, monkeypatch):
    """All tasks of the pass are known to the scheduler, and none of their sums is here."""
    real, done = DaskEngine._awaited, []

    def kill(self, future, tick):
        if not done:
            done.append(os.kill(min(client.run(os.getpid).values()), signal.SIGKILL))
        return real(self, future, tick)

    monkeypatch.setattr(DaskEngine, "_awaited", kill)
    found = conditioned(engine)
    assert done
    assert_same_bits(found, conditioned(DaskEngine(None, SHARES)))


@pytest.mark.slow
def test_shards_whose_workers_all_die_are_an_error_that_names_the_checkpoint():
    with cluster.local_cluster(2) as client:
        posterior = conditioned(DaskEngine(client, SHARES, basis="workers"), actions=16)
        before = set(cluster.workers(client))
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not before & set(cluster.workers(client)))
        with pytest.raises(ClusterError, match=r"All copies of a part .* lost.*last checkpoint"):
            posterior.refine(ConjugateGradient(), MaxActions(2))


@pytest.mark.slow
def test_workers_that_join_and_workers_that_retire_change_no_bit():
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        engine, seen = DaskEngine(client, SHARES, basis="workers"), []

        def change(state):
            homes = {home for copies in state.basis.KQ.held for home in copies.homes}
            seen.append((state.rank, len(homes)))
            if state.rank == 8:
                local.scale(2)
                client.wait_for_workers(2, timeout=60)
            if state.rank == 24:  # the first one, with a copy of everything
                client.retire_workers([state.basis.KQ.held[0].homes[0]], close_workers=True)

        found = conditioned(engine, callback=change)
        assert seen[:2] == [(8, 1), (16, 2)]
        assert_same_bits(found, conditioned(DaskEngine(None, SHARES)))


SCHEDULER = """
import sys, time
from distributed import LocalCluster
if __name__ == "__main__":
    c = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", host="127.0.0.1",
                     dashboard_address="127.0.0.1:0")
    print(c.scheduler_address, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_when_the_scheduler_dies_the_last_checkpoint_goes_on_without_it_to_the_same_bits(
    tmp_path, monkeypatch
):
    """In the middle of a fit, whose checkpoint has four actions when it dies after the sixth."""
    monkeypatch.setattr(cluster, "CONNECT", 2.0)  # and so long it is looked for
    process = subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True)
    where, real, written = {"checkpoint": tmp_path / "run"}, Checkpoint.write, []

    def write(self, state):
        if state.rank == 6:
            process.kill()
            process.wait()
        elif state.rank <= 4:
            self.every = 0  # at once, and not every few seconds
            real(self, state)
            written.append(state.rank)

    monkeypatch.setattr(Checkpoint, "write", write)
    try:
        engine = DaskEngine(process.stdout.readline().strip(), SHARES, basis="workers")
        with pytest.raises(ClusterError, match=r"scheduler has gone .* last checkpoint"):
            fitted(engine, 9, **where)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    assert written == [1, 2, 3, 4]
    monkeypatch.setattr(Checkpoint, "write", real)
    resumed, whole = fitted(DaskEngine(None, SHARES), 9, **where), fitted(DaskEngine(None, SHARES), 9)
    assert resumed.trace_.resumed_from == 4
    for ours, theirs in zip(numbers(resumed.posterior_), numbers(whole.posterior_), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    engine.client.close(timeout=1)


def test_what_does_not_fit_on_a_worker_is_refused_with_its_numbers(engine, monkeypatch):
    real = cluster.workers

    def small(client):
        return {name: {**worker, "memory_limit": 10**8} for name, worker in real(client).items()}

    monkeypatch.setattr(cluster, "workers", small)
    with pytest.raises(MemoryLimitError, match=r"Worker tcp://\S+ uses \S+ of 0\.1 GB, and .* Add workers"):
        engine.columns(N).append(np.ones((N, 3)))


def test_memory_that_is_free_a_moment_later_is_waited_for(engine, monkeypatch):
    """As that of the parts of a pass, which a worker told of before it let them go."""
    real, looks = cluster.workers, []

    def at_first_full(client):
        looks.append(client)
        limit = {"memory_limit": 10**8} if len(looks) < 4 else {}
        return {name: {**worker, **limit} for name, worker in real(client).items()}

    columns = engine.columns(N).append(np.ones((N, 3)))
    monkeypatch.setattr(cluster, "workers", at_first_full)
    assert columns.append(np.ones((N, 2))).size == 5
    assert len(looks) >= 4


def test_the_numbers_leave_the_workers_with_the_last_reference(client, engine):
    def shards_there():
        keys = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        return {key for key in keys if str(key).startswith(("append", "Shard"))}

    gc.collect()
    others = shards_there()
    matrix = engine.columns(N)
    for _ in range(3):
        matrix = matrix.append(np.ones((N, 2)))
    assert shards_there() - others
    del matrix
    wait_until(lambda: not shards_there() - others)

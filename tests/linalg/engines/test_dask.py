"""Passes over K on a Dask cluster: the same numbers as in one process, whatever happens to its workers."""

import copy
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

from itergp import (
    ClusterError,
    Compute,
    ConjugateGradient,
    DaskEngine,
    InputError,
    KernelError,
    Linear,
    Matern32,
    MaxActions,
    MemoryLimitError,
    Periodic,
    Prior,
    RandomAction,
    Schedule,
    TimeBudget,
    UnitVector,
    condition,
)
from itergp.linalg.engines import TileCache, cluster, dask as engine_file, no_tick
from itergp.linalg.gram import Gram
from itergp.testing import check_engine

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'itergp[dask]'")
shares = pytest.importorskip("itergp.linalg.engines.native.shares", reason="the native engine was not built")

ROWS, SHARES = 4500, 6
KERNEL = 1.2 * Matern32([0.5, 0.7, 0.9]) + 0.1 * Linear(1.0)
FLOAT64 = np.dtype("float64")


def data(n=ROWS, columns=5):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n, 3)), rng.standard_normal((n, columns))


X, V = data()
Y = np.sin(3 * X.sum(axis=1)) + 0.1 * np.random.default_rng(1).standard_normal(ROWS)


@pytest.fixture(scope="module")
def client():
    """Three processes with a thread each, on this machine; all of them end with the tests."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with cluster.local_cluster(3) as client:
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, shares=SHARES)


def pids(client):
    return client.run(os.getpid)


def tasks(client, kind):
    """The keys of tasks of a kind that the scheduler knows."""
    keys = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
    return [key for key in keys if str(key).startswith(kind)]


def soon(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def alone(V, dtype="float64"):
    return Gram(KERNEL, X, Compute(dtype, engine="native")).multiply(V)


# The arithmetic, without a cluster.


def groups_of(X, dtype, p):
    return shares.Rows(KERNEL, X, dtype, shares._tiles.instruction_set(), p)


def multiplied(share, rows, V, first=0):
    """Its parts of both groups, as rows of K V."""
    i, j, _ = share.recipe
    parts = share.multiply(rows, *(V[rows.groups.rows(group)] for group in (i, j)), first)
    out = np.zeros(V.shape)
    for group, part in zip((i, j), parts, strict=False):
        out[rows.groups.rows(group)] += rows.unpadded(group, part, V.shape[1])
    return out


@pytest.mark.parametrize("n", [1, 255, 2000, 4500])
@pytest.mark.parametrize("count", [1, 2, 6, 40])
def test_groups_have_each_row_once_and_shares_each_pair_of_groups(n, count):
    groups = shares.Groups.of(n, count)
    assert sorted(row for group in groups.filled for row in groups.rows(group)) == list(range(n))
    assert all(groups.rows(group).size for group in groups.filled)
    assert groups.p * (groups.p + 1) // 2 <= count < (groups.p + 1) * (groups.p + 2) // 2
    pairs = {(i, j) for i in groups.filled for j in groups.filled if i <= j}
    assert len(groups.shares) == len(pairs)
    assert set(groups.shares) == pairs


@pytest.mark.parametrize("row", [0, 1, 255, 256, 1100, 4499])
def test_the_first_block_of_a_group_is_the_one_that_reaches_a_row(row):
    groups = shares.Groups.of(4500, 6)
    for group in groups.filled:
        whole = [rows.max() for rows in np.split(groups.rows(group), range(256, 4500, 256)) if rows.size]
        before = [last // 256 < row // 256 for last in whole]
        assert groups.first(group, row) == sum(before)


def test_places_get_about_equal_work():
    groups = shares.Groups.of(10**5, 120)
    homes, work = groups.homes(7), np.zeros(7)
    for home, (i, j) in zip(homes, groups.shares, strict=True):
        work[home] += 1 + (i != j)
    assert work.max() / work.min() < 1.1
    assert homes == sorted(homes)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("columns", [1, 5])
def test_a_share_is_the_part_of_k_between_its_groups(dtype, columns):
    """Against a dense K, of which all other blocks are zero."""
    X, V = data(2000, columns)
    rows, kernel = groups_of(X, dtype, 3), 1.2 * Matern32([0.5, 0.7, 0.9])  # without the linear part
    group = np.arange(2000) // shares.BLOCK % 3
    for i, j in ((0, 0), (0, 2), (1, 2)):
        here, there = (group == i)[:, None] & (group == j), (group == j)[:, None] & (group == i)
        expected = np.where(here | there, kernel(X, X), 0.0) @ V
        found = multiplied(shares.Share(i, j, 0), rows, V)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 if dtype == "float64" else 2e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("columns", [1, 5, 70])
def test_stored_tiles_change_no_bit(dtype, columns):
    X, V = data(2000, columns)
    rows, found = groups_of(X, dtype, 2), []
    for budget in (0, 2 * 10**6, 10**9):  # none, some, all
        for pair in ((0, 0), (0, 1)):
            share = shares.Share(*pair, budget)
            found.append([multiplied(share, rows, V) for _ in range(2)])
            np.testing.assert_array_equal(multiplied(share, rows, V, 1100)[1100:], found[-1][0][1100:])
    for i in (0, 1):
        for first, second in found[i::2]:
            np.testing.assert_array_equal(first, found[i][0])
            np.testing.assert_array_equal(second, found[i][0])


def test_threads_that_fill_the_same_tiles_at_once_change_no_bit(monkeypatch):
    """As on a worker with several threads, which have the blocks of columns of one share at once. Both find
    no space for tiles, and the second one is slow to fill its own when the third comes."""
    X, V = data(2000, 3)
    rows, share, calls, real = groups_of(X, "float64", 2), shares.Share(0, 0, 10**9), [], shares.Upper._store
    expected = multiplied(shares.Share(0, 0, 0), rows, V)

    def at_once(self, *what):
        self._stored = self._stored if self._filled else None
        tiles, offsets = real(self, *what)
        if not self._filled:
            tiles.fill(np.nan)
            time.sleep(0.2 * len(calls))
        calls.append(self)
        return tiles, offsets

    monkeypatch.setattr(shares.Upper, "_store", at_once)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: multiplied(share, rows, V), range(3)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("budget", [0, 2 * 10**6, 10**9])
def test_no_more_tiles_are_stored_than_a_share_may_keep(budget):
    X, V = data(2000, 3)
    rows, share = groups_of(X, "float64", 2), shares.Share(0, 1, budget)
    multiplied(share, rows, V)
    kept = sum(half._stored[0].nbytes for half in (share._upper, share._lower))
    assert kept <= budget
    assert (kept > 0) == (budget > 0)
    assert kept == 4 * 4 * 256**2 * 8 or budget < 10**9  # 16 tiles of two groups of four blocks


@pytest.mark.parametrize("grown", [300, 1900, 2000])
def test_appended_rows_change_no_bit_of_a_sum_of_shares(grown):
    X, V = data(2000, 3)

    def multiply(n):
        W = np.where(np.arange(n)[:, None] < 200, V[:n], 0.0)
        return Gram(KERNEL, X[:n], Compute("float64", engine=DaskEngine(None, SHARES))).multiply(W)

    np.testing.assert_array_equal(multiply(grown)[:200], multiply(200))


# The engine.


def test_the_engine_passes_the_published_checks_here_and_there(engine, monkeypatch):
    check_engine(engine)
    monkeypatch.setattr(engine_file, "LOCAL_ROWS", 0)
    check_engine(engine)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("columns", [1, 70])
def test_a_pass_is_that_of_one_process(engine, dtype, columns):
    V = data(columns=columns)[1]
    gram = Gram(KERNEL, X, Compute(dtype, engine=engine))
    expected = alone(V, dtype)
    first, second = gram.multiply(V), gram.multiply(V)  # the second from stored tiles
    assert np.abs(first - expected).max() < 1e-12 * np.abs(expected).max()
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(gram.multiply_rows(V, 3000), first[3000:])
    assert gram.passes == 2


def test_small_matrices_have_the_same_bits_here_as_there(engine, monkeypatch):
    here = Gram(KERNEL, X[:3000], Compute("float64", engine=engine)).multiply(V[:3000])
    monkeypatch.setattr(engine_file, "LOCAL_ROWS", 0)
    there = Gram(KERNEL, X[:3000], Compute("float64", engine=engine)).multiply(V[:3000])
    np.testing.assert_array_equal(here, there)


@pytest.mark.slow
def test_one_two_and_three_workers_and_any_threads_give_the_same_bits(client, engine):
    expected = Gram(KERNEL, X, Compute("float64", engine=engine)).multiply(V)
    for workers, threads in ((2, 1), (1, 2)):  # and the three of before
        with (
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=threads,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
            ) as other,
            distributed.Client(other, set_as_default=False) as its_client,
        ):
            own = DaskEngine(its_client, shares=SHARES)
            found = Gram(KERNEL, X, Compute("float64", engine=own)).multiply(V)
        np.testing.assert_array_equal(found, expected)


POLICIES = {
    "cg": (ConjugateGradient(), 6),
    "random": (RandomAction(block_size=8), 24),
    "cholesky": (UnitVector("pivoted", block_size=16), 32),
    "schedule": (Schedule((UnitVector("pivoted", block_size=8), 16), (ConjugateGradient(), 4)), 20),
}


@pytest.mark.parametrize("name", POLICIES)
def test_posteriors_are_those_of_one_process(engine, name):
    policy, actions = POLICIES[name]
    found, expected = (
        condition(Prior(KERNEL), X, Y, 0.1, policy, MaxActions(actions), Compute("float64", engine=which))
        for which in (engine, "native")
    )
    assert found.rank == expected.rank == actions
    assert found.problem.gram.passes == expected.problem.gram.passes
    new = data(40)[0] + 0.01
    np.testing.assert_allclose(found.mean(new), expected.mean(new), rtol=0, atol=1e-12 * np.ptp(Y))
    np.testing.assert_allclose(found.var(new), expected.var(new), rtol=0, atol=1e-12 * 1.5)


def test_more_rows_extend_a_posterior_as_in_one_process(engine):
    new = data(40)[0] + 0.01
    found, expected = (
        condition(
            Prior(KERNEL),
            X[:4200],
            Y[:4200],
            0.1,
            ConjugateGradient(),
            MaxActions(4),
            Compute("float64", engine=which),
        ).extend(X[4200:], Y[4200:])
        for which in (engine, "native")
    )
    assert found.problem.gram.engine is engine
    np.testing.assert_allclose(found.mean(new), expected.mean(new), rtol=0, atol=1e-12 * np.ptp(Y))


# What can go wrong.


def killed(client, after):
    """A worker that dies by kill -9 in a moment."""
    victim = sorted(pids(client).values())[0]
    timer = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
    timer.start()
    return victim, timer


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 0.05])
def test_a_worker_killed_in_a_pass_changes_no_bit(client, engine, scaled, after):
    W = np.random.default_rng(2).standard_normal((ROWS, 200))
    compute = Compute("float64", cache=0, engine=engine)
    expected = Gram(KERNEL, X, compute).multiply(W)
    gram = Gram(KERNEL, X, compute)
    victim, timer = killed(client, after)
    np.testing.assert_array_equal(gram.multiply(W), expected)
    assert not timer.is_alive()  # it was in this pass, and the next one knows
    np.testing.assert_array_equal(gram.multiply(W), expected)
    assert scaled(client, 3)
    assert victim not in pids(client).values()


def test_the_data_of_a_pass_that_are_lost_are_sent_again(engine, monkeypatch):
    gram = Gram(KERNEL, X, Compute("float64", engine=engine))
    expected, calls, real = gram.multiply(V), [], engine._pass

    def lossy(*what):
        calls.append(what)
        if len(calls) < 3:
            raise KeyError("lost")
        return real(*what)

    monkeypatch.setattr(engine, "_pass", lossy)
    np.testing.assert_array_equal(gram.multiply(V), expected)
    assert len(calls) == 3
    monkeypatch.setattr(engine, "_pass", lambda *_: (_ for _ in ()).throw(KeyError("lost")))
    with pytest.raises(ClusterError, match="begun 5 times"):
        gram.multiply(V)


def test_a_tick_ends_a_pass_and_cancels_what_has_not_begun(client, engine):
    class Stop(Exception):  # noqa: N818 (no error)
        pass

    def tick():
        nonlocal ticks
        ticks += 1
        if ticks > 2:
            raise Stop

    ticks, gram = 0, Gram(KERNEL, X, Compute("float64", cache=0, engine=engine))
    others = of_passes(client)
    with pytest.raises(Stop):
        gram.multiply(np.ones((ROWS, 500)), tick)
    assert soon(lambda: of_passes(client) <= others), "what has not begun is still to be done"
    np.testing.assert_allclose(gram.multiply(V), alone(V), rtol=0, atol=1e-9)


def of_passes(client):
    """The products of shares, and their sums."""
    return {*tasks(client, "multiply"), *tasks(client, "total")}


def test_workers_have_the_parts_of_two_blocks_of_columns_at_most(client, engine, monkeypatch):
    """However many columns there are: looked at whenever a result is waited for."""
    counts, real, others = [], engine._awaited, len(of_passes(client))
    most = 2 * (SHARES + len(shares.Groups.of(ROWS, SHARES).filled)) + others

    def counted(future, tick):
        assert soon(lambda: len(of_passes(client)) <= most), "parts that were added still lie there"
        counts.append(len(of_passes(client)))
        return real(future, tick)

    monkeypatch.setattr(engine, "_awaited", counted)
    W = np.random.default_rng(3).standard_normal((ROWS, 300))
    found = Gram(KERNEL, X, Compute("float64", cache=0, engine=engine)).multiply(W)
    np.testing.assert_allclose(found, alone(W), rtol=0, atol=1e-9)
    assert max(counts) > others


def test_a_time_budget_is_kept_and_the_posterior_is_valid(engine):
    began = time.perf_counter()
    posterior = condition(
        Prior(KERNEL), X, Y, 0.1, ConjugateGradient(), TimeBudget(1.0), Compute("float64", engine=engine)
    )
    assert time.perf_counter() - began < 2.0
    assert posterior.rank > 0
    assert (posterior.var(X[:20]) > 0).all()


def test_unsupported_kernels_and_bad_arguments_are_refused(client, engine):
    with pytest.raises(KernelError, match=r"DaskEngine.* does not support this kernel: Linear is not"):
        Gram(Linear(1.0), X, Compute(engine=engine))
    with pytest.raises(KernelError, match="does not support"):
        Gram(Matern32(0.5) * Periodic(0.5, 1.0), X, Compute(engine=engine))
    for wrong, words in ((7, "client is 7; expected a dask"), ("host:8786", "the address of a scheduler")):
        with pytest.raises(InputError, match=words):
            DaskEngine(wrong)
    for wrong in (0, 2.5, "many"):
        with pytest.raises(InputError, match=r"DaskEngine\.shares"):
            DaskEngine(client, shares=wrong)
    with pytest.raises(InputError, match=r"DaskEngine\.cache is 'much'"):
        DaskEngine(client, cache="much")


def test_an_address_where_nothing_listens_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    with pytest.raises(ClusterError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        DaskEngine("tcp://127.0.0.1:9")


def test_a_cluster_without_workers_is_an_error():
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as empty,
        distributed.Client(empty, set_as_default=False) as its_client,
        pytest.raises(ClusterError, match="has no workers"),
    ):
        DaskEngine(its_client)


def test_all_workers_are_known_though_dask_asks_for_none_of_them_meanwhile():
    """Its answer for itself, which has no workers, may take the place of the one that was asked for."""

    answers = [{"n_workers": 2, "workers": {}}, {"n_workers": 2, "workers": {"b": {}, "a": {}}}]

    class Client:
        status = "running"

        def scheduler_info(self, n_workers):
            assert n_workers == -1
            return answers.pop(0)

    assert list(cluster.workers(Client())) == ["a", "b"]


def test_a_worker_that_dies_before_it_answers_is_left_out(client, monkeypatch):
    """Listed when it was asked, and gone when it should answer: nobody else may, and it is not waited for."""
    real, gone = cluster.workers, "tcp://127.0.0.1:9"
    listed = [real(client) | {gone: {"nthreads": 1}}]
    monkeypatch.setattr(cluster, "workers", lambda client: listed.pop() if listed else real(client))
    assert list(cluster.described(client, {})) == list(real(client))


class Lost:
    """A result that was there, and whose worker has died before it came: nobody makes it again."""

    def add_done_callback(self, call):
        call(self)

    def result(self):
        threading.Event().wait(60.0)


def test_a_result_that_is_lost_before_it_comes_is_not_waited_for():
    def tick():
        raise CancelledError

    with pytest.raises(CancelledError):
        cluster.awaited(Lost(), np.inf, tick)
    with pytest.raises(TimeoutError, match="no result"):
        cluster.awaited(Lost(), 0.2)


def test_workers_with_other_versions_are_named(client):
    found = cluster.checked(client, {})
    address, worker = next(iter(found.items()))
    older = cluster.Worker(address, 1, 0, worker.versions | {"itergp": "0.0.9"}, worker.instructions)
    with pytest.raises(ClusterError, match=rf"worker {address} has itergp 0\.0\.9, and this process"):
        cluster.checked(client, {address: older})
    other = cluster.Worker(address, 1, 0, worker.versions | {"python": "3.9.1"}, "")
    assert [words for sentence in cluster.mismatches({address: other}) for words in
            ("python 3.9.1", "no native engine") if words in sentence] == [
        "python 3.9.1", "no native engine"]  # fmt: skip
    assert not cluster.mismatches(found)
    assert not cluster.differences(found)


def test_all_workers_use_the_instructions_that_all_of_them_have(client):
    versions = cluster.here()
    versions.pop("instructions")
    found = {name: cluster.Worker(name, 1, 0, versions, name) for name in ("avx512", "baseline", "avx2")}
    assert cluster.lowest(found) == "baseline"
    assert "all use baseline" in cluster.differences(found)[0]


def test_a_pass_that_does_not_fit_into_a_worker_is_refused_with_both_numbers(engine, monkeypatch):
    small = {
        name: cluster.Worker(name, 1, 10**5, worker.versions, worker.instructions)
        for name, worker in engine._workers.items()
    }
    monkeypatch.setattr(engine, "_workers", small)
    with pytest.raises(MemoryLimitError, match=r"4,500 rows needs about .* MB on worker tcp://.* 0\.1 MB"):
        Gram(KERNEL, X, Compute("float64", engine=engine)).multiply(V)


@pytest.mark.slow
def test_a_scheduler_that_ends_is_an_error_that_says_so(monkeypatch):
    """It lives in a process of its own, which is killed between two passes and never comes back."""
    monkeypatch.setattr(cluster, "CONNECT", 2.0)  # and so long it is looked for
    code = (
        "import time; from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    c = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol='tcp://', "
        "host='127.0.0.1', dashboard_address='127.0.0.1:0')\n"
        "    print(c.scheduler_address, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            engine = DaskEngine(process.stdout.readline().strip(), shares=2)
            gram = Gram(KERNEL, X, Compute("float64", engine=engine))
            gram.multiply(V)
        finally:
            process.kill()
    with pytest.raises(ClusterError, match=r"scheduler has gone .* last checkpoint"):
        gram.multiply(V)
    engine.client.close(timeout=1)


def test_an_engine_is_copied_as_itself_and_sent_as_an_address(engine):
    assert copy.deepcopy(engine) is engine
    sent = pickle.loads(pickle.dumps(engine))
    assert sent._client is None  # it connects when it is used: a cluster may be gone when a copy is read
    assert (sent.address, sent.shares) == (engine.address, SHARES)
    assert DaskEngine(engine.address).client is sent.client is not engine.client  # one for an address
    sent.client.close()


def test_without_dask_the_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['distributed'] = None\nimport itergp\ntry:\n    "
        "itergp.DaskEngine('tcp://x:1')\nexcept itergp.InputError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "not installed. Run pip install distributed" in run.stdout


def test_importing_the_engine_does_not_import_dask():
    code = "import sys, itergp; itergp.DaskEngine; print('distributed' in sys.modules, 'dask' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_data_leave_the_workers_with_the_last_reference(client, engine):
    others = set(tasks(client, ""))  # of earlier tests, whose last reference may be in a cycle
    gram = Gram(KERNEL, X, Compute("float64", engine=engine))
    gram.multiply(V)
    its = set(tasks(client, "")) - others
    assert sum(str(key).startswith("Share") for key in its) >= SHARES
    del gram
    assert soon(lambda: not its & set(tasks(client, ""))), "something still lies on the workers"


def test_a_cluster_of_this_machine_does_not_hear_control_c_and_leaves_no_processes():
    with cluster.cluster("local:2") as its_client:
        processes = list(pids(its_client).values())
        assert len(set(processes)) == 2
        for pid in processes:
            os.kill(pid, signal.SIGINT)
        time.sleep(0.2)
        found = Gram(KERNEL, X, Compute("float64", engine=DaskEngine(its_client, SHARES))).multiply(V)
        assert list(pids(its_client).values()) == processes
    np.testing.assert_allclose(found, alone(V), rtol=0, atol=1e-9)
    for pid in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


KILLED = """
import os, pathlib, signal, sys, tempfile, time
import numpy as np
from itergp import Compute, DaskEngine, Matern32
from itergp.linalg.engines.cluster import local_cluster
from itergp.linalg.gram import Gram

if __name__ == "__main__":
    X = np.random.default_rng(0).uniform(size=(4500, 3))
    with local_cluster(2) as client:
        gram = Gram(Matern32(0.5), X, Compute("float64", engine=DaskEngine(client)))
        before, files = gram.multiply(X), list(pathlib.Path(tempfile.gettempdir()).rglob("worker-*"))
        assert files, "the test looks in the wrong place"
        if sys.argv[1] == "killed":
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            assert (gram.multiply(X) == before).all()
        if sys.argv[1] == "failed":
            raise ZeroDivisionError
        if sys.argv[1] == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ended", "killed", "failed", "terminated"])
def test_no_processes_and_no_files_are_left(tmp_path, how):
    """After all is done, with a worker killed meanwhile, after an error, and after SIGTERM."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "program.py").write_text(KILLED)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), how],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
    )
    said = process.communicate(timeout=120)[1]
    assert process.returncode == {"failed": 1, "terminated": -signal.SIGTERM}.get(how, 0), said
    assert ("ZeroDivisionError" in said) == (how == "failed")
    assert soon(lambda: not alive(process.pid)), "somebody is left in its session"
    assert list((tmp_path / "temporary").iterdir()) == []


def alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_empty_block_of_columns_has_an_empty_product(engine):
    out = engine.symmetric(KERNEL, X, np.zeros((ROWS, 0)), FLOAT64, TileCache(0), 0, no_tick)
    assert out.shape == (ROWS, 0)

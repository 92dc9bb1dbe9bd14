"""Claims: on a cluster passes over K, learning by neighbours and predictions take little more processor time
than in one process; a basis that fits on no worker fits on several; budgets and Ctrl-C are kept.

Passes: d = 10, Matern 3/2, float32 tiles, never stored, one thread for each worker, all on this machine: so
wall-clock time says nothing about larger clusters, and the processor time of all processes (driver,
scheduler, workers) says what the messages cost. Blocks of 1, 16 and 64 columns; an evaluation of the
likelihood of all rows given 30 neighbours, after the search for these; predictions with 60 local actions on
top of 256 rows. The smallest of some repetitions. Two workers at once also slow each other down where they
share a core or a cache: one worker shows the messages alone. Data that are sent once (inputs, neighbours, the
posterior) are there before.

    python benchmarks/cluster.py [--rows 60000] [--workers 2] [--shares 16] [--repetitions 3]
        [--predictions 100000]

Basis: blocks of random actions until Q and K Q, with their second copies, take so many bytes in all. Workers
have a limit of memory, beyond which Dask kills them, and nothing is written to disk. Half of what all workers
hold is more than any of them may have.

    python benchmarks/cluster.py basis [--rows 20000] [--workers 4] [--memory 1GB] [--held 3GB] [--block 32]

Budgets: time budgets of fits are kept to 3 % or 1 s, and after Ctrl-C there is a valid model within 2 s: with
conjugate gradients, whose passes run on the cluster, and with learning by neighbours, and in a large pass.
Predictions end within 2 s. By the clock, so on an idle machine.

    python benchmarks/cluster.py budgets [--rows 60000] [--workers 2] [--shares 16]
"""

import argparse
import contextlib
import logging
import os
import signal
import threading
import time
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster

from common import print_table, synthetic
from itergp import (
    Compute,
    DaskEngine,
    Matern32,
    MaxActions,
    Prior,
    RandomAction,
    UnitVector,
    condition,
)
from itergp.data.rows import unmerged
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.linalg.compute import parse_bytes
from itergp.linalg.engines.cluster import local_cluster
from itergp.linalg.engines.dask import LOCAL_POINTS
from itergp.linalg.gram import Gram

KERNEL, COLUMNS, NOISE = 1.0 * Matern32(np.sqrt(10)), (1, 16, 64), 0.05


def processor_time():
    """Seconds of this process so far, in all of its threads: the scheduler's too, which is one of them."""
    used = os.times()
    return used.user + used.system


@dataclass
class Cost:
    """Of some work, the smallest of some repetitions."""

    processor: float  # seconds, of all processes
    wall: float
    moved: int  # bytes, in the last one


def compared(works, engine, repetitions):
    """The costs of the same work here and on the cluster, in turns: the machine is as busy for both."""
    found = [[], []]
    for _ in range(repetitions):
        for work, where, costs in zip(works, (None, engine), found, strict=True):
            before, begun = _spent(where), time.perf_counter()
            work()
            wall, after = time.perf_counter() - begun, _spent(where)
            costs.append((after[0] - before[0], wall, after[1] - before[1]))
    return [Cost(min(one[0] for one in costs), min(one[1] for one in costs), costs[-1][2]) for costs in found]


def _spent(engine):
    """Processor seconds of all processes so far, and bytes between this one and the workers."""
    if engine is None:
        return processor_time(), 0
    there = sum(engine.client.run(processor_time).values())
    return processor_time() + there, engine.traffic.sent + engine.traffic.received


def computes(engine, **how):
    return [Compute(engine=where, threads=1, **how) for where in ("native", engine)]


def passes(given, X, engine):
    rng = np.random.default_rng(0)
    grams = [Gram(KERNEL, X, compute) for compute in computes(engine, dtype="float32", cache=0)]
    for columns in COLUMNS:
        V = rng.standard_normal((len(X), columns))
        grams[1].multiply(V[:, :1])  # the inputs are there
        works = [partial(gram.multiply, V) for gram in grams]
        yield f"pass, columns: {columns}", compared(works, engine, given.repetitions)


def learning(given, X, y, engine):
    rows, both = unmerged(X, y[:, None]), computes(engine)
    searches = [partial(NeighbourLikelihood.at, KERNEL, rows, compute=compute) for compute in both]
    yield "search for neighbours", compared(searches, engine, 1)
    objectives = [search() for search in searches]
    objectives[1](KERNEL, NOISE)  # rows and neighbours are there
    works = [partial(objective, KERNEL, NOISE) for objective in objectives]
    yield "evaluation of the likelihood", compared(works, engine, given.repetitions)


def predictions(given, X, y, engine):
    new = np.random.default_rng(1).uniform(X.min(), X.max(), (given.predictions, X.shape[1]))
    policy, stop = UnitVector("random", block_size=128), MaxActions(256)
    both = [
        condition(Prior(KERNEL), X, y, NOISE, policy, stop, compute).local(60)
        for compute in computes(engine, dtype="float32")
    ]
    for local in both:
        local.marginals(new[: LOCAL_POINTS + 1])  # the posterior is there
    yield (
        f"{given.predictions:,} predictions",
        compared([partial(local.marginals, new) for local in both], engine, 1),
    )


def memory():
    """The largest and the present memory of this process, in bytes."""
    used = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(1024 * int(used[name].split()[0]) for name in ("VmHWM", "VmRSS"))


def basis(given):
    """Blocks of actions until the workers hold what was asked for; then a prediction."""
    (X, y), X_new = synthetic(given.rows), synthetic(100, seed=1)[0]
    block, limit, held = given.block, parse_bytes("memory", given.memory), parse_bytes("held", given.held)
    actions = int(held / (2 * 2 * 8 * given.rows)) // block * block
    # shards must not go to disk, and Dask pauses workers long before they are full
    spilling = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause")}
    begun, seconds = time.perf_counter(), []
    with (
        dask.config.set(spilling),
        LocalCluster(
            n_workers=given.workers,
            threads_per_worker=1,
            memory_limit=limit,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        before = client.run(memory)
        engine = DaskEngine(client, given.shares, cache=0, basis="workers")
        here = memory()[1]
        posterior = condition(
            Prior(KERNEL),
            X,
            y,
            0.1,
            RandomAction(block_size=block),
            MaxActions(actions),
            Compute("float32", cache=0, engine=engine),
            callback=lambda state: seconds.append(time.perf_counter() - begun) and None,
        )
        acted, begun = time.perf_counter() - begun, time.perf_counter()
        std = np.sqrt(posterior.var(X_new))
        predicted, after = time.perf_counter() - begun, client.run(memory)
        print(f"n = {given.rows:,}, {posterior.rank:,} actions in blocks of {block}, {given.workers} workers")
        total = 2 * 8 * given.rows * posterior.rank / 1e9
        print(
            f"Q and K Q: {total:.2f} GB, and as much in second copies; a worker may have {limit / 1e9:.2f} GB"
        )
        rows = [
            [
                address,
                f"{before[address][1] / 1e6:.0f}",
                f"{after[address][1] / 1e6:.0f}",
                f"{after[address][0] / 1e6:.0f}",
            ]
            for address in sorted(after)
        ]
        rows.append(
            ["this process", f"{here / 1e6:.0f}", f"{memory()[1] / 1e6:.0f}", f"{memory()[0] / 1e6:.0f}"]
        )
        print_table(["memory in MB", "before", "after", "most"], rows)
        first, last = np.diff(seconds)[[0, -1]]
        print(f"{acted:.0f} s ({first:.2f} s for the second block, {last:.2f} s for the last one)")
        print(
            f"predictions at 100 points: {predicted:.1f} s, with std. dev. {std.min():.3f} to {std.max():.3f}"
        )
        assert sorted(before) == sorted(after), "a worker died"


FITS = {  # what is fitted, and what runs on the workers most of the time
    "passes": {"learn": False, "noise": NOISE, "policy": "cg", "neighbours": 0},
    "learning": {"learn": "neighbours", "policy": "cholesky"},
    "a pass of 512 columns": {
        "learn": False,
        "noise": NOISE,
        "policy": RandomAction(block_size=512),
        "neighbours": 0,
    },
}


def budgets(given):
    """Fits that are ended by their budgets, and by Ctrl-C."""
    from itergp import IterGPRegressor  # not above: workers import this file, and 110 MB for nothing

    X, y = synthetic(given.rows)[:2]
    warnings.simplefilter("ignore")
    rows = []
    with local_cluster(given.workers) as client:
        engines = {"cluster": DaskEngine(client, given.shares), "here": "native"}
        for (what, how), (where, engine) in product(FITS.items(), engines.items()):
            model = partial(IterGPRegressor, KERNEL, **how, threads=given.workers, engine=engine)
            for seconds in (3, 10):
                fitted = model(budget=f"{seconds}s")
                took = _seconds(partial(fitted.fit, X, y))
                kept = took - seconds <= max(1.0, 0.03 * seconds)
                rows.append([what, where, f"budget {seconds} s", f"{took:.2f}", _valid(fitted, X), kept])
            for after in (1, 4):
                fitted = model(budget="600s")
                took = _seconds(partial(fitted.fit, X, y), after) - after
                rows.append(
                    [what, where, f"Ctrl-C after {after} s", f"{took:.2f}", _valid(fitted, X), took <= 2.0]
                )
        how = {"learn": False, "noise": NOISE, "policy": "cholesky", "budget": "256 actions"}
        for where, engine in engines.items():
            fitted = IterGPRegressor(KERNEL, **how, engine=engine).fit(X, y)
            took = _seconds(partial(fitted.predict, np.tile(X, (10, 1))), 2) - 2
            rows.append(
                ["predictions", where, "Ctrl-C after 2 s", f"{took:.2f}", _valid(fitted, X), took <= 2.0]
            )
    print(f"n = {given.rows:,}, {given.workers} workers, {given.shares} shares; here as many threads")
    print_table(["", "", "", "seconds (after Ctrl-C)", "actions", "kept"], rows)


def _seconds(work, struck=None):
    """How long it takes, with Ctrl-C after some time; what it raises then is its end."""
    strike = threading.Timer(struck or 0.0, os.kill, (os.getpid(), signal.SIGINT))
    begun = time.perf_counter()
    if struck is not None:
        strike.start()
    with contextlib.suppress(KeyboardInterrupt):
        work()
    took = time.perf_counter() - begun
    assert struck is None or took > struck, "it had ended before"
    return took


def _valid(model, X):
    """The number of its actions, once its predictions were looked at."""
    mean, std = model.predict(X[:100], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    return str(model.posterior_.rank)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=tuple(CLAIMS), default="overhead")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--shares", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--held", default="3GB")
    parser.add_argument("--block", type=int, default=32)
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    claim, rows, workers = CLAIMS[given.what]
    given.rows, given.workers = given.rows or rows, given.workers or workers
    claim(given)


def overhead(given):
    X, y = synthetic(given.rows)[:2]
    print(f"n = {given.rows:,}, {given.workers} workers, {given.shares} shares")
    table = []
    with local_cluster(given.workers) as client:
        engine = DaskEngine(client, given.shares)
        for name, (alone, there) in (
            *passes(given, X, engine),
            *learning(given, X, y, engine),
            *predictions(given, X, y, engine),
        ):
            over = f"{100 * (there.processor / alone.processor - 1):+.0f} %"
            times = f"{alone.processor:.2f}", f"{there.processor:.2f}", over, f"{there.moved / 1e6:.3f}"
            table.append([name, *times, f"{alone.wall:.2f}", f"{there.wall:.2f}"])
    head = ["", "alone: CPU s", "cluster: CPU s", "overhead", "MB moved", "alone: s", "cluster: s"]
    print_table(head, table)


CLAIMS = {"overhead": (overhead, 60_000, 2), "basis": (basis, 20_000, 4), "budgets": (budgets, 60_000, 2)}


if __name__ == "__main__":
    main()

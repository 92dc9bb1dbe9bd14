"""Claims: a pass over K on a cluster takes little more processor time than in one process; and a basis that
fits on no worker fits on several.

Passes: d = 10, Matern 3/2, float32 tiles, never stored, one thread for each worker, all on this machine: so
wall-clock time says nothing about larger clusters, and the processor time of all processes (driver,
scheduler, workers) says what the messages cost. Blocks of 1, 16 and 64 columns; the smallest of some
repetitions. Two workers at once also slow each other down where they share a core or a cache: one worker
shows the messages alone.

    python benchmarks/cluster.py [--rows 60000] [--workers 2] [--shares 16] [--repetitions 3]

Basis: blocks of random actions until Q and K Q, with their second copies, take so many bytes in all. Workers
have a limit of memory, beyond which Dask kills them, and nothing is written to disk. Half of what all workers
hold is more than any of them may have.

    python benchmarks/cluster.py basis [--rows 20000] [--workers 4] [--memory 1GB] [--held 3GB] [--block 32]
"""

import argparse
import logging
import os
import time
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster

from common import print_table, synthetic
from itergp import Compute, DaskEngine, Matern32, MaxActions, Prior, RandomAction, condition
from itergp.linalg.compute import parse_bytes
from itergp.linalg.engines.cluster import local_cluster
from itergp.linalg.gram import Gram

KERNEL, COLUMNS = 1.0 * Matern32(np.sqrt(10)), (1, 16, 64)


def processor_time():
    """Seconds of this process so far, in all of its threads: the scheduler's too, which is one of them."""
    used = os.times()
    return used.user + used.system


def timed(gram, V, client, repetitions):
    """Processor and wall-clock seconds of a pass, and the processor's by workers."""
    found = []
    for _ in range(repetitions):
        begun, here = time.perf_counter(), processor_time()
        there = sum(client.run(processor_time).values()) if client else 0.0
        gram.multiply(V)
        there = (sum(client.run(processor_time).values()) if client else 0.0) - there
        found.append((processor_time() - here + there, time.perf_counter() - begun))
    return tuple(min(column) for column in zip(*found, strict=True))


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("passes", "basis"), default="passes")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--shares", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--held", default="3GB")
    parser.add_argument("--block", type=int, default=32)
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    defaults = {"passes": (60_000, 2), "basis": (20_000, 4)}[given.what]
    given.rows, given.workers = given.rows or defaults[0], given.workers or defaults[1]
    {"passes": passes, "basis": basis}[given.what](given)


def passes(given):
    X, rng, rows = synthetic(given.rows)[0], np.random.default_rng(0), []
    alone = Gram(KERNEL, X, Compute("float32", cache=0, engine="native", threads=1))
    with local_cluster(given.workers) as client:
        spread = Gram(KERNEL, X, Compute("float32", cache=0, engine=DaskEngine(client, given.shares)))
        for columns in COLUMNS:
            V = rng.standard_normal((given.rows, columns))
            spread.multiply(V[:, :1])  # the inputs are there
            one, many = timed(alone, V, None, given.repetitions), timed(spread, V, client, given.repetitions)
            rows.append(
                [
                    columns,
                    f"{one[0]:.2f}",
                    f"{many[0]:.2f}",
                    f"{100 * (many[0] / one[0] - 1):+.0f} %",
                    f"{one[1]:.2f}",
                    f"{many[1]:.2f}",
                ]
            )
    print(f"n = {given.rows:,}, {given.workers} workers, {given.shares} shares")
    head = ["columns", "alone: CPU s", "cluster: CPU s", "overhead", "alone: s", "cluster: s"]
    print_table(head, rows)


if __name__ == "__main__":
    main()

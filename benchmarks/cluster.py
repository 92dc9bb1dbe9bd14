"""Claim: on a cluster passes over K, learning by neighbours and predictions take little more processor time
than in one process.

d = 10, Matern 3/2, float32 tiles, never stored, one thread for each worker, all on this machine: so
wall-clock time says nothing about larger clusters, and the processor time of all processes (driver,
scheduler, workers) says what the messages cost. Blocks of 1, 16 and 64 columns; an evaluation of the
likelihood of all rows given 30 neighbours, after the search for these; predictions with 60 local actions on
top of 256 rows. The smallest of some repetitions. Two workers at once also slow each other down where they
share a core or a cache: one worker shows the messages alone. Data that are sent once (inputs, neighbours, the
posterior) are there before.

    python benchmarks/cluster.py [--rows 60000] [--workers 2] [--shares 16] [--repetitions 3]
        [--predictions 100000]
"""

import argparse
import logging
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import print_table, synthetic
from itergp import Compute, DaskEngine, Matern32, MaxActions, Prior, UnitVector, condition
from itergp.data.rows import unmerged
from itergp.learning.neighbours import NeighbourLikelihood
from itergp.linalg.engines import dask
from itergp.linalg.engines.cluster import local_cluster
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


def timed(work, engine, repetitions):
    found = []
    for _ in range(repetitions):
        before = _spent(engine)
        begun = time.perf_counter()
        work()
        wall, after = time.perf_counter() - begun, _spent(engine)
        found.append((after[0] - before[0], wall, after[1] - before[1]))
    return Cost(min(one[0] for one in found), min(one[1] for one in found), found[-1][2])


def _spent(engine):
    """Processor seconds of all processes so far, and bytes between this one and the workers."""
    if not isinstance(engine, DaskEngine):
        return processor_time(), 0
    there = sum(engine.client.run(processor_time).values())
    return processor_time() + there, engine.traffic.sent + engine.traffic.received


def passes(given, X, where) -> dict[str, Any]:
    rng, gram = (
        np.random.default_rng(0),
        Gram(KERNEL, X, Compute("float32", cache=0, engine=where, threads=1)),
    )
    gram.multiply(np.ones((len(X), 1)))  # the inputs are there
    blocks = {columns: rng.standard_normal((len(X), columns)) for columns in COLUMNS}
    return {
        f"pass, {columns} columns": timed(lambda V=V: gram.multiply(V), where, given.repetitions)
        for columns, V in blocks.items()
    }


def learning(given, X, y, where) -> dict[str, Any]:
    found, rows = {}, unmerged(X, y[:, None])

    def search():
        found["objective"] = NeighbourLikelihood.at(KERNEL, rows, compute=Compute(engine=where, threads=1))

    searched = timed(search, where, 1)
    found["objective"](KERNEL, NOISE)  # rows and neighbours are there
    evaluated = timed(lambda: found["objective"](KERNEL, NOISE), where, given.repetitions)
    return {"search for neighbours": searched, "evaluation of the likelihood": evaluated}


def predictions(given, X, y, where) -> dict[str, Any]:
    new = np.random.default_rng(1).uniform(X.min(), X.max(), (given.predictions, X.shape[1]))
    compute = Compute("float32", engine=where, threads=1)
    posterior = condition(
        Prior(KERNEL), X, y, NOISE, UnitVector("random", block_size=128), MaxActions(256), compute
    )
    local = posterior.local(60)
    local.marginals(new[: dask.LOCAL_POINTS + 1])  # the posterior is there
    return {f"{given.predictions:,} predictions": timed(lambda: local.marginals(new), where, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shares", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--predictions", type=int, default=100_000)
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    X, y = synthetic(given.rows)[:2]
    with local_cluster(given.workers) as client:
        costs = [
            passes(given, X, where) | learning(given, X, y, where) | predictions(given, X, y, where)
            for where in ("native", DaskEngine(client, given.shares))
        ]
    print(f"n = {given.rows:,}, {given.workers} workers, {given.shares} shares")
    head = ["", "alone: CPU s", "cluster: CPU s", "overhead", "MB moved", "alone: s", "cluster: s"]
    table = []
    for name, alone in costs[0].items():
        there = costs[1][name]
        over = f"{100 * (there.processor / alone.processor - 1):+.0f} %"
        times = f"{alone.processor:.2f}", f"{there.processor:.2f}", over, f"{there.moved / 1e6:.3f}"
        table.append([name, *times, f"{alone.wall:.2f}", f"{there.wall:.2f}"])
    print_table(head, table)


if __name__ == "__main__":
    main()

"""Claim: a pass over K on a cluster takes little more processor time than in one process.

d = 10, Matern 3/2, float32 tiles, never stored, one thread for each worker, all on this machine: so
wall-clock time says nothing about larger clusters, and the processor time of all processes (driver,
scheduler, workers) says what the messages cost. Blocks of 1, 16 and 64 columns; the smallest of some
repetitions. Two workers at once also slow each other down where they share a core or a cache: one worker
shows the messages alone.

    python benchmarks/cluster.py [--rows 60000] [--workers 2] [--shares 16] [--repetitions 3]
"""

import argparse
import logging
import os
import time

import numpy as np

from common import print_table, synthetic
from itergp import Compute, DaskEngine, Matern32
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shares", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
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

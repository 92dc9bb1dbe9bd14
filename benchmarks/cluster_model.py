"""On paper: how long passes, learning and predictions would take on clusters that nobody has measured.

Work over threads, plus bytes over the network, plus tasks through the scheduler; no stored tiles, no
contention, one thread for each worker, d = 10. The rates of one thread are those of `benchmarks/cluster.py`
and `itergp.fitted.price`; the network has 10 Gbit/s at each machine, and a task takes the scheduler 1 ms.

A pass of b columns over n rows by W workers with S = 2 W shares between p = sqrt(2 S) groups of rows:

    n^2 (PAIR + COLUMN b) / W                       the work
    + 4 n b / B                                     V from the driver to the workers
    + (S / W) (2 / p) 4 n b / B                     and from each other: the rows of both groups of a share
    + 2 max(1, p / W) 8 n b / B                     parts to where they are added, always both of a share
    + 8 n b / B                                     and the sums to the driver
    + S + p tasks

An evaluation of the likelihood is n ROW / W and at most 256 batches, so that more workers do not help;
predictions are m POINT / W, their inputs
and answers over the one line of the driver, and a task for each 2,048 points. Each worker holds the inputs
twice, and for a pass V, its parts, and those that it adds.

    python benchmarks/cluster_model.py [--row 4.7e-6] [--point 2.9e-4]
"""

import argparse

from common import print_table
from itergp.fitted.price import COLUMN, PAIR
from itergp.linalg.engines import placement, sums
from itergp.linalg.engines.native.shares import Groups

BANDWIDTH, TASK, FEATURES = 1.25e9, 1e-3, 10
WORKERS, ROWS = (1, 10, 100, 1000), (10**5, 10**6, 10**7, 10**8, 10**9)


def of_pass(n, workers, columns):
    shares, groups = shared(workers)
    work = n**2 * (PAIR + COLUMN * columns) / workers
    block = n * columns / BANDWIDTH
    driver = (4 + 8) * block
    between = (4 * 2 * shares / groups / workers + 8 * 2 * max(1.0, groups / workers)) * block
    return work + driver + (between if workers > 1 else 0.0) + TASK * (shares + groups)


def shared(workers):
    """The shares that are asked for, and the groups of rows that make at most so many."""
    shares = max(16, 2 * workers)
    return shares, Groups.of(1, shares).p


def of_evaluation(n, workers, row):
    batches = len(sums.batches(n))
    return n * row / min(workers, batches) + TASK * (batches + 2)


def of_predictions(m, workers, point):
    return max(m * point / workers, m / 2048 * TASK, 8 * m * (FEATURES + 2) / BANDWIDTH)


def duration(seconds):
    for unit, size in (("years", 3.15e7), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def gigabytes(n, columns):
    """Of one of ten workers."""
    held = placement.of_pass(placement.Inputs.of((n, FEATURES)), columns, 4, 1, shared(10)[1] / 10) / 1e9
    return f"{held:,.0f}" if held >= 10 else f"{held:.2g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--row", type=float, default=4.7e-6, help="seconds of a thread for a row's likelihood"
    )
    parser.add_argument("--point", type=float, default=2.9e-4, help="and for a prediction")
    given = parser.parse_args()
    head = ["rows", *(f"{workers:,} workers" for workers in WORKERS), "GB for each of 10"]
    for title, columns, of in (
        ("a pass of 1 column", 1, lambda n, w: of_pass(n, w, 1)),
        ("a pass of 16 columns", 16, lambda n, w: of_pass(n, w, 16)),
        ("an evaluation of the likelihood", 0, lambda n, w: of_evaluation(n, w, given.row)),
        ("as many predictions as rows", 0, lambda n, w: of_predictions(n, w, given.point)),
    ):
        print(f"\n{title} (on paper)\n")
        rows = [[f"{n:,}", *(duration(of(n, w)) for w in WORKERS), gigabytes(n, columns)] for n in ROWS]
        print_table(head, rows)


if __name__ == "__main__":
    main()

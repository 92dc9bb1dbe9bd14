"""Claim: merging rows with identical inputs takes time and memory in proportion to the rows.

The `magnetic` survey, whose flight lines cross and repeat: all of its rows, a half and a quarter of them, and
all of them ten times over. For each, the distinct rows, the places with several observations, the seconds of
processor, and memory in units of that of the numbers.

    python benchmarks/duplicates.py [--times 10]
"""

import argparse
import time
import tracemalloc

import numpy as np

from common import data_folder, print_table
from itergp.data.rows import merge_rows


def measured(X, y):
    began = time.process_time()
    merged = merge_rows(X, y)
    seconds = time.process_time() - began
    tracemalloc.start()
    merge_rows(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    several = int((merged.counts > 1).sum())
    copies = peak / (X.nbytes + y.nbytes)
    per_row = 1e6 * seconds / len(X)
    found = f"{merged.n:,}", f"{several:,}", f"{seconds:.2f}", f"{per_row:.2f}", f"{copies:.1f}"
    return [f"{len(X):,}", *found]


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--times", type=int, default=10)
    times = arguments.parse_args().times
    table = np.loadtxt(data_folder() / "magnetic.csv.gz", delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))]
    parts = [table[: len(table) // 4], table[: len(table) // 2], table, np.tile(table, (times, 1))]
    rows = [measured(np.ascontiguousarray(part[:, :-1]), part[:, -1].copy()) for part in parts]
    head = ["rows", "distinct", "places with several", "processor s", "us a row", "memory / numbers"]
    print_table(head, rows)


if __name__ == "__main__":
    main()

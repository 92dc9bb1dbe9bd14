"""What benchmarks share: data, timing, memory, tables."""

import os
import resource
import time
from pathlib import Path

import numpy as np


def data_folder():
    for folder in (os.environ.get("ITERGP_DATA"), Path(__file__).resolve().parents[2] / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    raise SystemExit("Real data sets are missing: set ITERGP_DATA to their folder.")


def synthetic(n=60000, d=10, seed=0, noise=0.1):
    """The paper's synthetic set: uniform inputs on [-1, 1]^d, y = sin(pi x^T 1) + noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(np.pi * X.sum(axis=1)) + noise * rng.standard_normal(n)


def load_table(name):
    """All rows, standardised, in a fixed random order."""
    if name == "synthetic":
        return synthetic()
    table = np.loadtxt(data_folder() / f"{name}.csv.gz", delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))]
    std = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(std > 0, std, 1.0)
    return table[:, :-1], table[:, -1]


def load_split(name, split=0):
    """Training and test part of one of the ten fixed splits, standardised with the training part."""
    table = np.loadtxt(data_folder() / f"{name}.csv.gz", delimiter=",")
    test = np.loadtxt(data_folder() / f"{name}.splits.csv.gz", delimiter=",")[:, split] == 1
    mean, std = table[~test].mean(axis=0), table[~test].std(axis=0)
    table = (table - mean) / np.where(std > 0, std, 1.0)
    return table[~test, :-1], table[~test, -1], table[test, :-1], table[test, -1]


def best_time(function, repeats=5):
    """Seconds of the fastest of a few calls, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)


def peak_memory():
    """Peak resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def print_table(header, rows):
    """A Markdown table."""
    print("| " + " | ".join(map(str, header)) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")

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
    X, y, X_new, y_new = load_raw_split(name, split)
    (m, s), (m_y, s_y) = moments(X), moments(y)
    return (X - m) / s, (y - m_y) / s_y, (X_new - m) / s, (y_new - m_y) / s_y


def moments(values):
    """Mean and standard deviation of each column, 1 where it is constant."""
    std = values.std(axis=0)
    return values.mean(axis=0), np.where(std > 0, std, 1.0)


def load_raw_split(name, split=0, test_rows=None):
    """Training and test part in the units of the data; of the test rows, at most `test_rows`, by a fixed
    seed."""
    table = np.loadtxt(data_folder() / f"{name}.csv.gz", delimiter=",")
    test = np.loadtxt(data_folder() / f"{name}.splits.csv.gz", delimiter=",", ndmin=2)[:, split] == 1
    rows = np.flatnonzero(test)
    if test_rows is not None and test_rows < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, test_rows, replace=False))
    return table[~test, :-1], table[~test, -1], table[rows, :-1], table[rows, -1]


def kernel_names(kernel):
    """The kernels that a kernel is made of, such as ["matern32", "linear"]."""
    return [type(term.kernel).__name__.lower() for term in kernel.terms()]


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

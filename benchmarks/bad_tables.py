"""Claim: a fault in the 9,000,000th of 10,000,000 rows of a CSV file is named, with its line, by `itergp fit`
and by `itergp predict`, in the time and memory that it takes to read the file.

Each fault in a file of its own: a word for a number, a cell that is missing, a cell too few, a byte that is
no text, a column that holds words from there on. Prints what was said, the seconds of processor and the peak
of memory; fails if a message lacks the line.

    python benchmarks/bad_tables.py [--rows 10000000] [--row 9000000]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import print_table

NAMES, AT_ONCE, FITTED = ("a", "b", "c", "y"), 100_000, 300
FAULTS = {
    "a word": lambda cells: [cells[0], "lots", *cells[2:]],
    "a missing cell": lambda cells: [cells[0], "", *cells[2:]],
    "a cell too few": lambda cells: cells[:2],
    "a broken byte": lambda cells: [cells[0], "1\udcff", *cells[2:]],
    "another type": lambda cells: [cells[0], "north", *cells[2:]],
}
LASTING = "another type"  # in all rows that follow, of the same AT_ONCE


def lines_of(start, stop):
    X = np.random.default_rng(start).uniform(-1, 1, (stop - start, 3)).round(6)
    table = np.column_stack([X, np.sin(X.sum(axis=1)).round(6)])
    return [",".join(map(str, row)) for row in table.tolist()]


def written(lines):
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def write(path, rows, row):
    """A good table, and where in it the rows begin that are written together with this one, from 1."""
    with open(path, "wb") as file:
        begins = file.write(written([",".join(NAMES)]))
        for start in range(0, rows, AT_ONCE):
            begins = file.tell() if start < row else begins
            file.write(written(lines_of(start, min(start + AT_ONCE, rows))))
    return begins


def damage(good, path, begins, rows, row, fault):
    start = (row - 1) // AT_ONCE * AT_ONCE
    lines = lines_of(start, min(start + AT_ONCE, rows))
    size = len(written(lines))
    for i in range(row - 1 - start, len(lines) if fault == LASTING else row - start):
        lines[i] = ",".join(FAULTS[fault](lines[i].split(",")))
    with open(good, "rb") as source, open(path, "wb") as file:
        while source.tell() < begins:
            file.write(source.read(min(1 << 20, begins - source.tell())))
        file.write(written(lines))
        source.seek(begins + size)
        shutil.copyfileobj(source, file, 1 << 20)


def run(*arguments):
    """The last words of a command, its processor seconds, and its peak of memory in GB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "itergp", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9
    return process.returncode, " ".join(said.split()), seconds, peak


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--row", type=int, default=9_000_000)
    options = arguments.parse_args()
    table, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        names = ("small.csv", "good.csv", "table.csv", "m.itergp", "out.csv")
        small, whole, path, model, out = (Path(folder) / name for name in names)
        write(small, FITTED, 1)
        run("fit", small, "--target", "y", "--budget", "8 actions", "--kernel", "matern32", "--out", model)
        begins = write(whole, options.rows, options.row)
        for fault in FAULTS:
            damage(whole, path, begins, options.rows, options.row, fault)
            for command in (("fit", path, "--target", "y"), ("predict", model, path)):
                code, said, seconds, peak = run(*command, "--out", out)
                named = code != 0 and f"line {options.row + 1}" in said and not out.exists()
                good = good and named
                words = said.replace(str(path), path.name)[-160:]
                found = "yes" if named else "NO", f"{seconds:.1f}", f"{peak:.2f}", words
                table.append([fault, command[0], *found])
                print(*table[-1], flush=True)
    print()
    print_table(["fault", "command", "named", "processor s", "peak GB", "said"], table)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

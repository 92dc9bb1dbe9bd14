"""Claim: on data whose truth is known, learning finds it: the smoothness, intervals that hold, and the log
density of the exact GP with the true hyper-parameters.

Sixty draws from Gaussian processes (learning_problems.py), each fitted with defaults in a process of its own,
500 test rows each. Coverage of a right model scatters too (its standard error is 0.01 for 500 independent
rows, and more where errors are correlated), so it is counted a second time with two standard errors more on
each side, and for the oracle. `processor` has the seconds of all threads.

    python benchmarks/learning_grid.py [--kernel auto] [--budget 30s] [--cells 0 7 rbf] [--few 12]
                                       [--most-rows 5000] [--records grid.jsonl] [--problems folder]
                                       [--workers 1]

`--kernel true` learns with the smoothness of each draw: what can be had once that is right. `--cells` takes
positions or parts of names (`--list` shows both); `--few` takes as many, evenly spaced. With `--records`,
records are appended to a file, those that are there are not run again, and the summary is of all that were
asked for.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import learning_problems as problems
from common import kernel_names, print_table
from itergp.metrics import coverage, nll, rmse

ORDER = list(problems.PROFILES)
COVERED = (0.92, 0.98)
NLL_GAP = 0.05
SHOWN = (
    "cell",
    "oracle_nll",
    "nll",
    "rmse",
    "oracle_coverage",
    "coverage",
    "chosen",
    "true_noise",
    "learned_noise",
    "seconds",
)


def is_neighbour(true, name):
    """Whether a smoothness is the true one or next to it; the rational quadratic is next to Matern 5/2 and
    RBF."""
    if name == "rationalquadratic":
        return true in ("matern52", "rbf")
    return name in ORDER and abs(ORDER.index(true) - ORDER.index(name)) <= 1


def measure(cell, problem, **settings):
    """The record of one fit. The kernel "true" is that of the draw, with hyper-parameters to be learned."""
    from itergp import IterGPRegressor

    named = settings | ({"kernel": cell.smoothness} if settings.get("kernel") == "true" else {})
    wall, processor = time.perf_counter(), time.process_time()
    model = IterGPRegressor(**named).fit(problem.X, problem.y)
    fitted = time.perf_counter() - wall
    mean, std = model.predict(problem.X_new, return_std=True)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    leaves = kernel_names(model.kernel_)
    oracle = problem.y_new, problem.mean, problem.variance
    ours = problem.y_new, mean, std**2
    return {
        "cell": cell.name,
        **settings,
        **vars(cell),
        "relevant": cell.relevant,
        "oracle_nll": nll(*oracle),
        "oracle_rmse": rmse(*oracle[:2]),
        "oracle_coverage": coverage(*oracle),
        "nll": nll(*ours),
        "rmse": rmse(*ours[:2]),
        "coverage": coverage(*ours),
        "chosen": next((name for name in leaves if name != "linear"), leaves[0]),
        "kernels": " ".join(leaves),
        "learned_noise": float(model.noise_),  # in units of the variance of y, as is the next
        "true_noise": cell.variance / float(np.var(problem.y)),
        "actions": model.posterior_.rank,
        "status": model.status_.name,
        "seconds": wall,
        "fit_seconds": fitted,
        "processor": processor,
    }


def worker(name, folder, settings):
    """One fit; prints its record."""
    cell = next(cell for cell in problems.cells() if cell.name == name)
    print(json.dumps(measure(cell, problems.load(cell, folder), **settings)))


def run(cell, folder, settings):
    """A record, from a process of its own; one that says why, where the fit failed."""
    problems.load(cell, folder)  # so that neither its time nor its memory is in the process that fits
    command = [sys.executable, __file__, "--worker", json.dumps([cell.name, str(folder), settings])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"cell": cell.name, **settings, "failed": said[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def within(value, widened=0.0, rows=problems.NEW):
    """Whether a coverage is in the range, widened by some binomial standard errors of its ends."""
    low, high = COVERED
    error = [(end * (1 - end) / rows) ** 0.5 for end in COVERED]
    return low - widened * error[0] <= value <= high + widened * error[1]


def summary(records):
    """The three figures, with what the oracle itself reaches; a failed fit counts against each."""
    right = [r for r in records if "failed" not in r]
    counts = {
        "true smoothness or its neighbour": sum(is_neighbour(r["smoothness"], r["chosen"]) for r in right),
        "true smoothness": sum(r["smoothness"] == r["chosen"] for r in right),
        "coverage within .92 to .98": sum(within(r["coverage"]) for r in right),
        "the same, two standard errors wider": sum(within(r["coverage"], 2.0) for r in right),
        "coverage of the oracle within .92 to .98": sum(within(r["oracle_coverage"]) for r in right),
        "NLL within 0.05 of the oracle": sum(r["nll"] <= r["oracle_nll"] + NLL_GAP for r in right),
    }
    return [[what, count, len(records), f"{count / len(records):.0%}"] for what, count in counts.items()]


def by_level(records):
    """How often smoothness, coverage and NLL are right, for each level of each factor."""
    rows = []
    for factor, level in [(factor, level) for factor, levels in problems.LEVELS.items() for level in levels]:
        those = [r for r in records if r[factor] == level]
        if those:
            near = sum(is_neighbour(r["smoothness"], r["chosen"]) for r in those)
            covered = sum(within(r["coverage"], 2.0) for r in those)
            gaps = np.array([r["nll"] - r["oracle_nll"] for r in those])
            close = np.count_nonzero(gaps <= NLL_GAP)
            worst = [f"{np.median(gaps):.3f}", f"{gaps.max():.3f}"]
            rows.append([factor, level, len(those), near, covered, close, *worst])
    return rows


def asked_cells(options):
    """The cells that were asked for."""
    listed = [cell for cell in problems.cells() if cell.n <= options.most_rows]
    if options.cells:
        names = [problems.cells()[int(part)].name if part.isdigit() else part for part in options.cells]
        listed = [cell for cell in listed if any(part in cell.name for part in names)]
    if options.few and options.few < len(listed):
        listed = [listed[i] for i in np.linspace(0, len(listed) - 1, options.few).astype(int)]
    return listed


def named_settings(kernel, budget):
    """With the default kernel by its name: records of an earlier default must not pass for those of a new
    one."""
    from itergp import IterGPRegressor

    named = {"kernel": IterGPRegressor().kernel if kernel is None else kernel}
    return named if budget is None else named | {"budget": budget}


def recorded(path, settings):
    """Records of the same settings in a file, by cell; those that failed are run again."""
    if path is None or not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text().splitlines() if line[:1] == "{"]
    same = [r for r in records if all(r.get(key) == settings.get(key) for key in ("kernel", "budget"))]
    return {r["cell"]: r for r in same if "failed" not in r}


def run_all(listed, options, settings):
    """The records of all cells, printed and kept as they come."""
    records = recorded(options.records, settings)
    missing = [cell for cell in listed if cell.name not in records]
    with ThreadPoolExecutor(options.workers) as pool:
        for record in pool.map(lambda cell: run(cell, options.problems, settings), missing):
            print(json.dumps(record), flush=True)
            if options.records:
                with options.records.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            records[record["cell"]] = record
    return [records[cell.name] for cell in listed]


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--kernel", help='a name, or "true"; by default, that of the estimator')
    arguments.add_argument("--budget")
    arguments.add_argument("--cells", nargs="+", help="positions, or parts of names")
    arguments.add_argument("--few", type=int, help="only so many, evenly spaced")
    arguments.add_argument("--most-rows", type=int, default=20_000)
    arguments.add_argument("--records", type=Path)
    arguments.add_argument(
        "--problems", type=Path, default=Path(tempfile.gettempdir()) / "itergp-learning-problems"
    )
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--list", action="store_true", help="nothing is run")
    arguments.add_argument("--worker", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.worker:
        return worker(*json.loads(options.worker))
    listed = asked_cells(options)
    if options.list:
        return print_table(
            ["position", "cell", "relevant features"],
            [[problems.cells().index(cell), cell.name, cell.relevant] for cell in listed],
        )
    settings = named_settings(options.kernel, options.budget)
    records = run_all(listed, options, settings)
    right = [r for r in records if "failed" not in r]
    print_table(SHOWN, [[f"{r[k]:.3g}" if isinstance(r[k], float) else r[k] for k in SHOWN] for r in right])
    header = ["factor", "level", "cells", "smoothness", "coverage, wider", "NLL", "median gap", "worst gap"]
    print_table(header, by_level(right))
    print_table(["all", "cells", "of", "share"], summary(records))
    print(f"{sum(r['seconds'] for r in right):.0f} s, processor {sum(r['processor'] for r in right):.0f} s")


if __name__ == "__main__":
    main()

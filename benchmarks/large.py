"""Claim: a fit of a million rows takes time and memory linear in n on this machine, and ten million rows fit.

Synthetic data that can be drawn in O(n): a sum of random Fourier features of uniform inputs, plus noise of
standard deviation 0.1 (that of the function is 1). Each size in a process of its own, with the default
settings: seconds by phase, peak memory and that of the data, and at 2,000 new points RMSE in units of the
noise and the coverage of 95 % intervals of observations. Records are appended to a file as they are
measured; what it has is not measured again.

    python benchmarks/large.py [--rows 10000 100000 1000000] [--kernel matern52] [--no-learn] [--features 10]
    python benchmarks/large.py --rows 10000000 --features 5 --no-learn --kernel matern52

With --no-learn the kernel has the lengthscale and the noise of the data, and acting is measured alone.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from common import peak_memory, print_table

WAVES, NOISE, TESTED = 300, 0.1, 2_000
ROUGH = (
    0.6  # standard deviation of a wave's frequency in each feature: about two bends over all of [-1, 1]^10
)
AT_ONCE = 10_000  # rows drawn at once
SETTINGS = ("rows", "features", "kernel", "learn", "budget", "threads")


def drawn(n, d, seed=0):
    """Inputs, noisy targets, and the same at new points with the function's values."""
    rng = np.random.default_rng(seed)
    omega, phase = rng.normal(0.0, ROUGH * np.sqrt(10 / d), (d, WAVES)), rng.uniform(0, 2 * np.pi, WAVES)
    heights = rng.standard_normal(WAVES) * np.sqrt(2.0 / WAVES)
    X, f = rng.uniform(-1, 1, (n + TESTED, d)), np.empty(n + TESTED)
    for start in range(0, len(X), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        f[rows] = np.cos(X[rows] @ omega + phase) @ heights
    y = f[:n] + NOISE * rng.standard_normal(n)
    y_new = f[n:] + NOISE * rng.standard_normal(TESTED)
    return X[:n], y, X[n:], f[n:], y_new


def measured(settings):
    """Fit and predict, in this process."""
    from itergp import IterGPRegressor, Matern52

    n, d = settings["rows"], settings["features"]
    X, y, X_new, f_new, y_new = drawn(n, d)
    base = peak_memory()
    how = {"kernel": settings["kernel"], "budget": settings["budget"], "threads": settings["threads"]}
    if not settings["learn"]:  # scale and noise in variances of y
        how |= {"learn": False, "noise": NOISE**2 / y.var()}
        if settings["kernel"] in ("auto", "matern52"):
            how["kernel"] = 1.0 / y.var() * Matern52(np.full(d, 1.0 / (ROUGH * np.sqrt(10 / d))))
    model = IterGPRegressor(**how).fit(X, y)
    fitted, begun = peak_memory(), time.perf_counter()
    mean, std = model.predict(X_new, return_std=True)
    seconds = time.perf_counter() - begun
    noise = float(model.noise_) ** 0.5 * float(model.scaling_.y_scale)
    return {
        "seconds": {name: round(value, 2) for name, value in model.timings_.items()},
        "predict_seconds": round(seconds, 2),
        "data_gb": round(base / 1e9, 3),
        "peak_gb": round(fitted / 1e9, 3),
        "peak_gb_with_predictions": round(peak_memory() / 1e9, 3),
        "actions": model.posterior_.rank,
        "rmse_over_noise": round(float(np.sqrt(np.mean((mean - f_new) ** 2))) / NOISE, 4),
        "coverage": round(float(np.mean(np.abs(y_new - mean) <= 1.96 * std)), 4),
        "learned_noise": round(noise, 4),
        "status": model.status_.value,
    }


def known(path):
    """The records measured before, by their settings."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {key(record): record for record in found}


def key(record):
    return tuple(record[name] for name in SETTINGS)


def record_of(settings, path):
    """From the file, or from a process of its own."""
    before = known(path).get(key(settings))
    if before is not None:
        return before
    command = [sys.executable, __file__, "--worker", json.dumps(settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    record = {**settings, **json.loads(done.split("RESULT ")[1])}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    return record


def row_of(record):
    parts = record["seconds"]
    return [
        f"{record['rows']:,}",
        *(parts.get(name, 0.0) for name in ("prepare", "learn", "act", "total")),
        record["predict_seconds"],
        record["data_gb"],
        record["peak_gb"],
        record["rmse_over_noise"],
        record["coverage"],
        record["actions"],
    ]


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    arguments.add_argument("--features", type=int, default=10)
    arguments.add_argument("--kernel", default="auto")
    arguments.add_argument("--learn", action=argparse.BooleanOptionalAction, default=True)
    arguments.add_argument("--budget", help="such as 60s; by default none")
    arguments.add_argument("--threads", type=int)
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "large.jsonl")
    arguments.add_argument("--worker", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.worker:
        return print("RESULT", json.dumps(measured(json.loads(options.worker))))
    table = []
    for n in options.rows:
        settings = {name: getattr(options, name) for name in SETTINGS} | {"rows": n}
        table.append(row_of(record_of(settings, options.out)))
        print(*table[-1], flush=True)
    print()
    head = ["n", "prepare s", "learn s", "act s", "fit s", "predict s", "data GB", "peak GB"]
    print_table([*head, "RMSE / noise", "coverage", "actions"], table)


if __name__ == "__main__":
    main()

"""A fit of a million rows under fire: kill -9 while it acts, then the same fit from its checkpoint, and
Ctrl-C while it acts and while it learns.

    python benchmarks/soak_large.py [--rows 1000000]

Prints a line for each, and a line VIOLATION for whatever went wrong, and fails if there was any. Resumed fits
must have the same bits; Ctrl-C must leave a valid model within two seconds.
"""

import argparse
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from itergp import IterGPRegressor, UnitVector
from itergp.datasets import synthetic
from itergp.linalg.compute import peak_bytes

FEATURES, NEW, ACTIONS, BLOCK = 10, 200, 96, 16
SECONDS = 2.0  # in which Ctrl-C must be answered
ACTING, LEARNING = 3.0, 20.0  # seconds after which it comes


def fit(rows, learns, checkpoint=None):
    """In the child: begin, fit, and say what came out."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make their background jobs ignore it
    X, y = synthetic(rows + NEW, FEATURES)
    print("begins", flush=True)
    how = {"kernel": "matern32", "learn": False, "noise": 0.01, "budget": f"{ACTIONS} actions"}
    policy = UnitVector("random", block_size=BLOCK)
    model = IterGPRegressor(**({} if learns else {**how, "policy": policy}), checkpoint=checkpoint)
    model.fit(X[:rows], y[:rows])
    returned = time.monotonic()
    mean, std = model.predict(X[rows:], return_std=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.itergp")
        same = np.array_equal(IterGPRegressor.load(f"{folder}/model.itergp").predict(X[rows:]), mean)
    found = {
        "returned": returned,
        "status": model.status_.name,
        "actions": model.posterior_.rank,
        "resumed from": model.trace_.resumed_from,
        "bits": hashlib.sha256(mean.tobytes() + std.tobytes()).hexdigest()[:16],
        "valid": bool(np.isfinite(mean).all() and (std > 0).all() and same),
        "GB": round((peak_bytes() or 0) / 1e9, 2),
        "processor": round(time.process_time(), 1),
    }
    print(json.dumps(found), flush=True)


def child(rows, learns, *checkpoint):
    command = [sys.executable, __file__, "child", str(rows), "learn" if learns else "act", *checkpoint]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()  # it begins
    return process


def answer(process):
    line = process.stdout.readline()
    process.wait()
    return json.loads(line) if line else {"valid": False}


def killed(rows, folder):
    """Kill a fit some time after its first actions are in the checkpoint."""
    process, manifest = child(rows, False, folder), Path(folder) / "manifest.json"
    while process.poll() is None:
        if manifest.exists() and '"segments":[]' not in manifest.read_text().replace(" ", ""):
            break
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGKILL)
    process.wait()


def interrupted(rows, learns):
    process = child(rows, learns)
    time.sleep(LEARNING if learns else ACTING)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    found = answer(process)
    return found, found.get("returned", np.inf) - asked


def main():
    if sys.argv[1:2] == ["child"]:
        return fit(int(sys.argv[2]), sys.argv[3] == "learn", *sys.argv[4:])
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rows", type=int, default=10**6)
    rows, good = arguments.parse_args().rows, True
    whole = answer(child(rows, False))
    print("left alone:", whole, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        killed(rows, folder)
        again = answer(child(rows, False, folder))
    same = again.get("bits") == whole["bits"] and again["resumed from"] > 0
    print("" if same else "VIOLATION", "killed and resumed:", again, flush=True)
    for learns in (False, True):
        found, seconds = interrupted(rows, learns)
        in_time = found["valid"] and seconds <= SECONDS
        what = f"Ctrl-C while {'learning' if learns else 'acting'}, answered in {seconds:.2f} s:"
        print("" if in_time else "VIOLATION", what, found, flush=True)
        good = good and in_time
    sys.exit(0 if good and same else 1)


if __name__ == "__main__":
    main()

"""Whole fits under fire: kill -9 and Ctrl-C at random moments of IterGPRegressor.fit, learning included.

    python benchmarks/soak_estimator.py kill --count 50       resumed from its checkpoint, to the same bits
    python benchmarks/soak_estimator.py interrupt --count 20  answered within two seconds, with a valid model

Each prints what it did and a line VIOLATION for whatever went wrong, and fails if there was any.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from itergp import IterGPRegressor
from itergp.datasets import synthetic
from itergp.solver.state import Status
from soak import Tally, run

KILLED, INTERRUPTED = {"n": 3000, "d": 3, "budget": "400 actions"}, {"n": 20000, "d": 5, "budget": "4000 actions"}
POLICIES = ("auto", "cg", "pseudo-input", "random", "block-krylov")
SECONDS = 2.0  # in which Ctrl-C must be answered


def data(n, d, budget):
    X, y = synthetic(n + 200, d)
    return X[:n], y[:n], X[n:]


def fit(job, policy="auto", checkpoint=None):
    X, y, _ = data(**job)
    return IterGPRegressor(budget=job["budget"], policy=policy, checkpoint=checkpoint).fit(X, y)


def prediction(model, job):
    return model.predict(data(**job)[2], return_std=True)


def child(command, *arguments):
    """A fit in another process, which says on a line of its own that it begins."""
    return subprocess.Popen([sys.executable, __file__, "child", command, *arguments], stdout=subprocess.PIPE, text=True)


# kill -9.


def kill(count, seed=0, job=KILLED):
    """Kill a checkpointed fit at a random moment after its first manifest, fit again, compare with one that was left alone."""
    tally, rng, wholes = Tally(), np.random.default_rng(seed), {}
    for i in range(count):
        policy = POLICIES[i % len(POLICIES)]
        if policy not in wholes:
            fit(job, policy)  # compiles
            begun = time.perf_counter()
            wholes[policy] = prediction(fit(job, policy), job), time.perf_counter() - begun
        (mean, std), lasts = wholes[policy]
        with tempfile.TemporaryDirectory() as folder:
            actions = _killed(folder, policy, job, rng.uniform(0, lasts))
            model = fit(job, policy, folder)
        again, std_again = prediction(model, job)
        same, kept = np.array_equal(mean, again) and np.array_equal(std, std_again), model.trace_.resumed_from
        good = same and (kept > 0) == actions
        what = f"VIOLATION {policy}, fit {i}: same bits {same}, actions in the checkpoint {actions}, resumed from {kept}"
        tally["resumed to the same bits" if good else what] += 1
        tally["killed while acting, actions kept" if kept else "killed while learning, or before the first action"] += 1
    return tally


def _killed(folder, policy, job, moment):
    """Whether the checkpoint that a killed fit left has actions in it."""
    with child("fit", json.dumps(job), policy, folder) as process:
        while not (Path(folder) / "manifest.json").exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
    manifest = (Path(folder) / "manifest.json").read_text()
    return '"segments":[]' not in manifest.replace(" ", "")


# Ctrl-C.


def interrupt(count, seed=0, job=INTERRUPTED, longest=12.0):
    """Ctrl-C at a random moment of a long fit: how long until it returned, and whether what it returned is a model."""
    tally, rng, answers = Tally(), np.random.default_rng(seed), []
    for _ in range(count):
        moment = rng.uniform(0.05, longest)
        with child("interrupted", json.dumps(job)) as process:
            process.stdout.readline()  # it begins
            time.sleep(moment)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            if not select.select([process.stdout], [], [], 120.0)[0]:  # it looks at its model before it answers
                process.kill()
            line = process.stdout.readline()
        found = json.loads(line) if line else {"error": "no answer"}
        answers.append(found.get("returned", np.inf) - asked)
        valid = found.get("valid", False) and answers[-1] <= SECONDS
        tally["valid model in time" if valid else f"VIOLATION after {moment:.2f} s: {answers[-1]:.2f} s, {found}"] += 1
        tally["while acting" if found.get("actions", 0) > 128 else "while learning, or in the first actions"] += 1
    tally[f"(the slowest answer took {max(answers):.2f} s, the median one {np.median(answers):.2f} s)"] = count
    return tally


def interrupted_fit(job):
    """In the child: fit until Ctrl-C, then see whether the model is one, also after a turn through a file."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make their background jobs ignore it
    print("begins", flush=True)
    model = fit(job)
    returned = time.monotonic()
    mean, std = prediction(model, job)
    valid = bool(np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all() and model.status_ is Status.INTERRUPTED)
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "model.itergp"))
        same = np.array_equal(mean, IterGPRegressor.load(os.path.join(folder, "model.itergp")).predict(data(**job)[2]))
    model.refine("20 actions")
    valid = valid and bool(same) and bool(np.isfinite(prediction(model, job)[0]).all())
    print(json.dumps({"returned": returned, "valid": valid, "actions": model.posterior_.rank - 20}), flush=True)


COMMANDS = {"kill": (kill, 50), "interrupt": (interrupt, 20)}


def main():
    if sys.argv[1:2] == ["child"]:
        job = json.loads(sys.argv[3])
        return interrupted_fit(job) if sys.argv[2] == "interrupted" else fit(job, *sys.argv[4:])
    run(COMMANDS, __doc__)


if __name__ == "__main__":
    main()

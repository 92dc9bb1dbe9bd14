"""Whole fits under fire: kill -9 and Ctrl-C at random moments of IterGPRegressor.fit, learning included;
and long streams.

    python benchmarks/soak_estimator.py kill --count 50       resumed from its checkpoint, to the same bits
    python benchmarks/soak_estimator.py interrupt --count 20  answered within two seconds, with a valid model
    python benchmarks/soak_estimator.py stream --count 10000 rows one at a time: seconds, memory, and the
    exact GP's mean
    python benchmarks/soak_estimator.py flat --count 1000    ten times as many predictions, then new rows and
    rows that come again: memory is that of the model

Each prints what it did and a line VIOLATION for whatever went wrong, and fails if there was any.
"""

import json
import os
import pickle
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
from itergp.baselines.exact import exact
from itergp.datasets import synthetic
from itergp.linalg.compute import peak_bytes
from itergp.solver.state import Status
from soak import Tally, run

KILLED, INTERRUPTED = (
    {"n": 3000, "d": 3, "budget": "400 actions"},
    {"n": 20000, "d": 5, "budget": "4000 actions"},
)
POLICIES = ("auto", "cg", "pseudo-input", "random", "block-krylov")
SECONDS = 2.0  # in which Ctrl-C must be answered
FIRST, FEATURES = (500, 0), 3  # rows of the fit before a stream begins
PASSES = 10.0  # over an n x r matrix: what a row may cost, on top of what it cost when there were few
CLOSE = 1e-8  # of the prior's standard deviation: how far means may be from those of the exact GP


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
    return subprocess.Popen(
        [sys.executable, __file__, "child", command, *arguments], stdout=subprocess.PIPE, text=True
    )


# kill -9.


def kill(count, seed=0, job=KILLED):
    """Kill a checkpointed fit at a random moment after its first manifest, fit again, compare with one
    that was left alone."""
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
        what = (
            f"VIOLATION {policy}, fit {i}: same bits {same}, actions in the checkpoint {actions}, resumed "
            f"from {kept}"
        )
        tally["resumed to the same bits" if good else what] += 1
        tally[
            "killed while acting, actions kept"
            if kept
            else "killed while learning, or before the first action"
        ] += 1
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
    """Ctrl-C at a random moment of a long fit: how long until it returned, and whether what it returned is
    a model."""
    tally, rng, answers = Tally(), np.random.default_rng(seed), []
    for _ in range(count):
        moment = rng.uniform(0.05, longest)
        with child("interrupted", json.dumps(job)) as process:
            process.stdout.readline()  # it begins
            time.sleep(moment)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            # it looks at its model before it answers
            if not select.select([process.stdout], [], [], 120.0)[0]:
                process.kill()
            line = process.stdout.readline()
        found = json.loads(line) if line else {"error": "no answer"}
        answers.append(found.get("returned", np.inf) - asked)
        valid = found.get("valid", False) and answers[-1] <= SECONDS
        tally[
            "valid model in time"
            if valid
            else f"VIOLATION after {moment:.2f} s: {answers[-1]:.2f} s, {found}"
        ] += 1
        tally[
            "while acting" if found.get("actions", 0) > 128 else "while learning, or in the first actions"
        ] += 1
    tally[f"(the slowest answer took {max(answers):.2f} s, the median one {np.median(answers):.2f} s)"] = (
        count
    )
    return tally


def interrupted_fit(job):
    """In the child: fit until Ctrl-C, then see whether the model is one, also after a turn through a file."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make their background jobs ignore it
    print("begins", flush=True)
    model = fit(job)
    returned = time.monotonic()
    mean, std = prediction(model, job)
    valid = bool(
        np.isfinite(mean).all()
        and np.isfinite(std).all()
        and (std > 0).all()
        and model.status_ is Status.INTERRUPTED
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "model.itergp"))
        same = np.array_equal(
            mean, IterGPRegressor.load(os.path.join(folder, "model.itergp")).predict(data(**job)[2])
        )
    model.refine("20 actions")
    valid = valid and bool(same) and bool(np.isfinite(prediction(model, job)[0]).all())
    print(
        json.dumps({"returned": returned, "valid": valid, "actions": model.posterior_.rank - 20}), flush=True
    )


# Rows one at a time.


def stream(count, seed=0, firsts=FIRST):
    """`partial_fit` with one row at a time, after a fit and from nothing (which ends earlier: it is the
    same soon)."""
    tally = Tally()
    for first in firsts:
        _stream(tally, first, count if first else min(count, 2000), seed)
    return tally


def _stream(tally, first, count, seed):
    X, y = synthetic(first + count + 200, FEATURES, seed=seed)
    X, y, X_new = X[: first + count], y[: first + count], X[first + count :]
    model = IterGPRegressor().fit(X[:first], y[:first]) if first else IterGPRegressor()
    started, least, total = time.perf_counter(), np.inf, 0.0
    for begin in range(first, first + count, 1000):
        seconds = [
            _processor_seconds(lambda i=i: model.partial_fit(X[i : i + 1], y[i : i + 1]))
            for i in range(begin, min(begin + 1000, first + count))
        ]
        total += sum(seconds)
        low, median, high = np.quantile(seconds, [0.1, 0.5, 0.9])
        n, r = model.posterior_.problem.n, model.posterior_.rank
        least, whole = min(least, median), _seconds_of_a_pass(n, r)
        price = (
            f"{1e3 * median:.1f} ms ({1e3 * low:.1f} to {1e3 * high:.1f}), a pass over n x r numbers "
            f"{1e3 * whole:.1f} ms"
        )
        memory = f"{_resident() / 1e9:.2f} GB, {peak_bytes() / 1e9:.2f} GB at most"
        print(f"  from {first}: {n:6d} rows, {r:6d} actions; a call takes {price}; {memory}", flush=True)
        good = median < 3 * least + PASSES * whole
        tally[
            "a thousand rows in time"
            if good
            else f"VIOLATION at {n} rows: {median:.3f} s a row, {least:.3f} s at first"
        ] += 1
    minutes = (
        f"{total / 60:.1f} minutes of the processor, {(time.perf_counter() - started) / 60:.1f} of the clock"
    )
    far = _far_from_exact(model, X, y, X_new)
    good = far < CLOSE and model.status_ is Status.EXACT
    tally[
        "the exact GP in the end"
        if good
        else f"VIOLATION from {first}: mean off by {far:.1e}, {model.status_}"
    ] += 1
    tally[f"(rows one at a time from {first}: {minutes}, mean off by {far:.1e} of the prior's sd)"] = count


def flat(count, seed=0, n=3000):
    """Memory while a model predicts, and while it takes more rows: each adds an action, and nothing else may
    stay."""
    tally, rng = Tally(), np.random.default_rng([seed, 8])
    X, y = synthetic(n + count, 4, seed=seed)
    model = IterGPRegressor(kernel="matern32", budget="128 actions").fit(X[:n], y[:n])
    model.predict(X[n:], return_std=True)
    before = _resident()
    for i in range(10 * count):
        model.predict(X[rng.integers(0, len(X), int(rng.integers(1, 20)))], return_std=bool(i % 2))
    grown = _resident() - before
    tally[f"({10 * count} predictions: {before / 1e6:.0f} MB, then {grown / 1e6:+.0f} MB)"] = 10 * count
    if grown > 20e6:
        tally["VIOLATION predictions keep memory"] += 1
    before = _resident()
    for i in range(count):
        row = n + i if i % 2 else int(rng.integers(0, n))
        model.partial_fit(X[row : row + 1], y[row : row + 1])
    grown, size = _resident() - before, len(pickle.dumps(model))
    tally[
        f"({count} calls of partial_fit: {grown / 1e6:+.0f} MB; the model of {model.posterior_.rank} actions "
        f"has {size / 1e6:.0f} MB)"
    ] = count
    if (
        grown > 3 * size + 50e6
    ):  # arrays grow by doubling, and the last model is there while a new one is made
        tally["VIOLATION more rows keep more memory than the model has"] += 1
    return tally


def _processor_seconds(call):
    """Of all threads: what else the machine does plays no part."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _seconds_of_a_pass(n, r):
    """What it takes to read n x r numbers once, in a product with a vector: the peer of a row's price."""
    panel = np.ones((n, max(1, r // 4)), order="F")
    return (
        min(_processor_seconds(lambda: panel @ np.ones(panel.shape[1])) for _ in range(3))
        * r
        / panel.shape[1]
    )


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _far_from_exact(model, X, y, X_new):
    """From the mean of a dense GP on all rows, with the same scaling and hyper-parameters, in its prior's
    deviations."""
    scaling, prior = model.scaling_, model.posterior_.problem.prior
    oracle = exact(prior, scaling.inputs(X), scaling.targets(y), model.noise_)
    Z = scaling.inputs(X_new)
    return float(np.max(np.abs(model.posterior_.mean(Z) - oracle.mean(Z)) / np.sqrt(prior.var(Z))))


COMMANDS = {"kill": (kill, 50), "interrupt": (interrupt, 20), "stream": (stream, 10000), "flat": (flat, 1000)}


def main():
    if sys.argv[1:2] == ["child"]:
        job = json.loads(sys.argv[3])
        return interrupted_fit(job) if sys.argv[2] == "interrupted" else fit(job, *sys.argv[4:])
    run(COMMANDS, __doc__)


if __name__ == "__main__":
    main()

"""Claim: a fit spends its time in kernel products, and it is known where the rest goes.

n = 20,000, d = 10 (the paper's synthetic set), Matern 3/2, float32 tiles: 100 CG actions, and the default
schedule with 1,024 actions; tiles evaluated anew for each product, or stored. The functions of the library
are wrapped in timers from outside, and each second is counted once, for the innermost of them.

    python benchmarks/profile_fit.py [--n 20000] [--quick]
"""

import argparse
import functools
import time
from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

from common import print_table, synthetic
from itergp import Compute, ConjugateGradient, Matern32, MaxActions, Prior, condition
from itergp.estimator.budgets import Budget
from itergp.estimator.schedules import default_schedule
from itergp.linalg import engines
from itergp.linalg.basis import Basis, Factor
from itergp.linalg.columns import InMemory
from itergp.solver import actions, loop
from itergp.solver.state import State

PRODUCTS, ORTHONORMAL, PROJECTIONS = (
    "kernel products (the engine)",
    "orthonormalisation: QR, subtractions",
    "orthonormalisation: products with Q",
)
WITH_Q, APPEND, CHOLESKY = (
    "other products with Q and K Q",
    "storing Q and K Q",
    "extending the Cholesky factor",
)
POLICY, BELIEF, ROUNDING, RECORD = (
    "policy",
    "belief: updates column by column",
    "rounding bounds",
    "trace: ELBO, norms",
)
REST = "the rest"
PARTS = [PRODUCTS, PROJECTIONS, ORTHONORMAL, WITH_Q, APPEND, CHOLESKY, POLICY, BELIEF, ROUNDING, RECORD, REST]


def timed_functions():
    """What is wrapped: (where it is found, its name, the part it belongs to)."""
    engine = type(engines.get("native"))
    return [
        *((engine, name, PRODUCTS) for name in ("symmetric", "product", "dense")),
        (actions, "orthonormalise", ORTHONORMAL),
        *((matrix, name, WITH_Q) for matrix in (Basis, InMemory) for name in ("inner", "combine")),
        (Basis, "append", APPEND),
        *((Factor, name, CHOLESKY) for name in ("solve", "solve_transposed", "append")),
        (loop, "cholesky_keeping", CHOLESKY),
        (loop, "propose", POLICY),
        (loop, "accept", BELIEF),
        (actions, "_rounding", ROUNDING),
        (State, "record", RECORD),
    ]


class Clock:
    """Seconds of each part: time runs for the innermost one that is open."""

    def __init__(self):
        self.seconds, self.open, self.since = Counter(), [REST], time.perf_counter()

    def turn(self):
        now = time.perf_counter()
        self.seconds[self.open[-1]] += now - self.since
        self.since = now

    def wrapped(self, function, part):
        @functools.wraps(function)
        def timed(*arguments, **options):
            self.turn()
            inside = part == WITH_Q and self.open[-1] in (ORTHONORMAL, PROJECTIONS)
            self.open.append(PROJECTIONS if inside else part)
            try:
                return function(*arguments, **options)
            finally:
                self.turn()
                self.open.pop()

        return timed


def profile(fit):
    """Seconds of each part of `fit()`, and what it returned."""
    clock = Clock()
    with ExitStack() as patches:
        for place, name, part in timed_functions():
            patches.enter_context(patch.object(place, name, clock.wrapped(getattr(place, name), part)))
        clock.since = time.perf_counter()
        posterior = fit()
        clock.turn()
    return clock.seconds, posterior


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--n", type=int, default=20000)
    arguments.add_argument("--quick", action="store_true", help="n = 3,000")
    options = arguments.parse_args()
    n = 3000 if options.quick else options.n
    prior = Prior(1.0 * Matern32(np.sqrt(10)))
    X, y = synthetic(n)

    def fit(policy, actions, cache, rows):
        return condition(
            prior,
            X[:rows],
            y[:rows],
            0.05,
            policy,
            MaxActions(actions),
            Compute("float32", cache=cache, engine="native"),
        )

    schedule = default_schedule(n, Budget(stop=MaxActions(1024)))
    runs = {
        f"{name}, {label}": functools.partial(fit, policy, actions, cache)
        for name, policy, actions in (
            ("100 CG", ConjugateGradient(), 100),
            ("schedule", schedule, 1024),
        )
        for label, cache in (("evaluated", 0), ("stored", "auto"))
    }
    columns = []
    for name, run in runs.items():
        run(2000)  # warm
        seconds, posterior = profile(functools.partial(run, n))
        total, last = seconds.total(), posterior.trace[-1]
        columns.append(
            [
                *(f"{100 * seconds[part] / total:.1f} %" for part in PARTS),
                f"{total:.2f}",
                last.actions,
                last.passes,
            ]
        )
        print(f"{name}: {total:.2f} s", flush=True)
    print(f"\nn = {n}, d = 10\n")
    print_table(["part", *runs], zip([*PARTS, "seconds", "actions", "passes"], *columns, strict=True))


if __name__ == "__main__":
    main()

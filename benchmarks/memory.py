"""Claim: memory is linear in n.

Each case runs in a process of its own; printed is its peak resident memory, above what the import takes.
1. 200 pivoted unit-vector actions on up to 1,000,000 points (d = 5), then predictions at 10,000 points:
under 5 GB.
2. Matrix-free CG with 20 actions at n = 50,000: under 1 GB.

    python benchmarks/memory.py [--quick]
"""

import argparse
import subprocess
import sys
import time

import numpy as np

from common import peak_memory, print_table


def pivoted(n):
    from itergp import Matern32, MaxActions, Prior, UnitVector, condition

    X, y = data(n, 5)
    base, begun = peak_memory(), time.perf_counter()
    posterior = condition(Prior(1.0 * Matern32(1.0)), X, y, 0.01, UnitVector("pivoted"), MaxActions(200))
    X_new = np.random.default_rng(1).uniform(-1, 1, (10_000, 5))
    assert (posterior.var(X_new) > 0).all()
    assert np.isfinite(posterior.mean(X_new)).all()
    return base, time.perf_counter() - begun, posterior


def cg(n):
    from itergp import Compute, ConjugateGradient, Matern32, MaxActions, Prior, condition

    X, y = data(n, 5)
    base, begun = peak_memory(), time.perf_counter()
    compute = Compute("float32", cache=0)
    posterior = condition(
        Prior(1.0 * Matern32(1.0)), X, y, 0.01, ConjugateGradient(), MaxActions(20), compute
    )
    return base, time.perf_counter() - begun, posterior


def data(n, d):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(np.pi * X.sum(axis=1)) + 0.1 * rng.standard_normal(n)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--case", nargs=2)
    options = arguments.parse_args()
    if options.case:
        base, seconds, posterior = {"pivoted": pivoted, "cg": cg}[options.case[0]](int(options.case[1]))
        peak, last = peak_memory(), posterior.trace[-1]
        print(f"RESULT {(peak - base) / 1e9:.3f} {peak / 1e9:.3f} {seconds:.1f} {last.actions} {last.passes}")
        return
    scale = 10 if options.quick else 1
    cases = [("pivoted", n // scale) for n in (125_000, 250_000, 500_000, 1_000_000)] + [
        ("cg", 50_000 // scale)
    ]
    rows = []
    for name, n in cases:
        out = subprocess.run(
            [sys.executable, __file__, "--case", name, str(n)], capture_output=True, text=True, check=True
        ).stdout
        rows.append([name, n, *out.split("RESULT ")[1].split()])
        print(*rows[-1], flush=True)
    print_table(["run", "n", "GB above the data", "GB in all", "seconds", "actions", "passes"], rows)
    sizes = np.array([[r[1], float(r[2])] for r in rows if r[0] == "pivoted"])
    slope = np.polyfit(np.log(sizes[:, 0]), np.log(sizes[:, 1]), 1)[0]
    print(f"\nfitted exponent of memory in n: {slope:.2f}")


if __name__ == "__main__":
    main()

"""Claim: the default schedule is chosen by measurement: NLL and RMSE against passes and seconds, for every
policy.

Split 0 of the five data sets, standardised with the training part, duplicates merged; hyper-parameters
learned by the estimator's `learn="auto"` (ARD Matern 3/2) once per set; with --fixed those of `fit.py`
instead. Each policy runs to 128, 256, 512 and 1,024 actions, or until its seconds are used up; after each,
mean and variance at up to 2,000 test points by the global actions alone, and with 60 local ones for each
point. Seconds are those of the actions; predictions are not counted.

    python benchmarks/policies.py [--datasets parkinsons bike ...] [--policies ...] [--fixed] [--seconds
    60] [--out records.jsonl] python benchmarks/policies.py --summary records.jsonl # the last row of each
    policy up to 512 actions, set by set
"""

import argparse
import json
import time
from functools import partial

import numpy as np

from common import load_split, print_table
from itergp import (
    BlockKrylov,
    Compute,
    ConjugateGradient,
    ConstantMean,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    Schedule,
    UnitVector,
    condition,
)
from itergp.data.rows import merge_rows
from itergp.experiments.beyond import CHECKS, POLICIES as SINGLE, follow, scores
from itergp.learning import learn

DATASETS = ("parkinsons", "bike", "protein", "keggdirected", "keggundirected")
POINTS = 2000
KEYS = ("actions", "passes", "seconds", "nll", "rmse", "local_nll", "local_rmse")


def then(first, blocks, rest, last=None):
    """Pseudo-inputs, Krylov blocks, residuals for the mean, and perhaps more Krylov blocks for the
    variance."""
    parts = [
        (PseudoInput(first, block_size=first), first),
        (BlockKrylov(128), 128 * blocks),
        (ConjugateGradient(), rest),
    ]
    return Schedule(*(part for part in [*parts, *([last] if last else [])] if part[1] != 0))


POLICIES = SINGLE | {
    "unit vectors, sequential": lambda n: UnitVector(block_size=128),
    "PI 128, CG": lambda n: then(128, 0, None),
    "PI 128, BK 256, CG": lambda n: then(128, 2, None),
    "PI 256, CG": lambda n: then(256, 0, None),
    "PI 256, BK 128, CG 16, BK": lambda n: then(256, 1, 16, (BlockKrylov(128), None)),
    "PI 128, BK 256, CG 64, BK": lambda n: then(128, 2, 64, (BlockKrylov(128), None)),
    "PI 512, CG 16, BK": lambda n: then(512, 0, 16, (BlockKrylov(128), None)),
}


def hyperparameters(X, y, fixed):
    """The merged rows, a kernel and a noise variance for each, and the seconds that these took."""
    data = merge_rows(X, y)
    if fixed:
        return data, 1.0 * Matern32(np.sqrt(X.shape[1])), 0.05, 0.0
    begun = time.perf_counter()
    start = 1.0 * Matern32(np.full(X.shape[1], np.sqrt(X.shape[1])))
    found = learn(data.X, data.y - y.mean(), start, 0.1, counts=data.counts, scatter=data.scatter)
    return data, found.kernel, found.noise, time.perf_counter() - begun


def measure(dataset, names, fixed, limit, out):
    X, y, X_test, y_test = load_split(dataset)
    some = np.random.default_rng(0).permutation(len(X_test))[:POINTS]
    X_test, y_test = X_test[some], y_test[some]
    data, kernel, noise, learned = hyperparameters(X, y, fixed)
    prior = Prior(kernel, ConstantMean(y.mean()))
    problem = partial(condition, prior, data.X, data.y, data.noise(noise), compute=Compute())
    print(
        "\n"
        f"{dataset}: n = {len(X)}, merged {len(data.X)}; noise {noise:.2g}; learned in {learned:.0f} s: "
        f"{kernel}\n",
        flush=True,
    )
    score = partial(scores, noise=noise, X_test=X_test, y_test=y_test)
    nothing = {"actions": 0, "passes": 0, "seconds": 0.0} | score(
        problem(policy=UnitVector(), stop=MaxActions(0))
    )
    records = [["none", "", *(nothing[key] for key in KEYS)]]
    for name in names:
        found, status = follow(POLICIES[name](len(data.X)), problem, score, CHECKS, limit)
        rows = [[record[key] for key in KEYS] for record in found]
        records += [[name, status if row is rows[-1] else "", *row] for row in rows]
        print(name, *(f"{value:.4g}" for value in rows[-1]), flush=True)
    header = ["policy", "ended", "actions", "passes", "seconds", "NLL", "RMSE", "NLL, local", "RMSE, local"]
    print()
    print_table(
        header,
        [
            [*r[:4], f"{r[4]:.1f}", f"{r[5]:.3f}", f"{r[6]:.4f}", f"{r[7]:.3f}", f"{r[8]:.4f}"]
            for r in records
        ],
    )
    if out:
        with open(out, "a") as file:
            for record in records:
                file.write(
                    json.dumps({"dataset": dataset, "fixed": fixed} | dict(zip(header, record, strict=True)))
                    + "\n"
                )


def summary(path):
    """NLL and RMSE without and with local actions, where each policy stood at 512 actions or at its end
    before."""
    with open(path) as file:
        records = [json.loads(line) for line in file]
    sets = list(dict.fromkeys((r["dataset"], r["fixed"]) for r in records))
    # the last one of each
    cells = {(r["dataset"], r["fixed"], r["policy"]): r for r in records if r["actions"] <= 512}
    header = ["policy", *(f"{name}, fixed" if fixed else name for name, fixed in sets)]
    rows = [[policy, *(_cell(cells.get((*one, policy))) for one in sets)] for policy in ["none", *POLICIES]]
    print_table(header, rows)


def _cell(r):
    if r is None:
        return ""
    return (
        f"{r['actions']} in {r['passes']}, {r['seconds']:.1f} s: {r['NLL']:.2f} / {r['RMSE']:.4f}, "
        f"{r['NLL, local']:.3f} / {r['RMSE, local']:.4f}"
    )


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    arguments.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    arguments.add_argument(
        "--fixed", action="store_true", help="isotropic, lengthscale sqrt(d), scale 1, noise 0.05"
    )
    arguments.add_argument("--seconds", type=float, default=60.0, help="for each policy")
    arguments.add_argument("--out", help="records, as JSON lines")
    arguments.add_argument("--summary", help="a table of the records in this file; nothing is run")
    options = arguments.parse_args()
    if options.summary:
        return summary(options.summary)
    for dataset in options.datasets:
        measure(dataset, options.policies, options.fixed, options.seconds, options.out)


if __name__ == "__main__":
    main()

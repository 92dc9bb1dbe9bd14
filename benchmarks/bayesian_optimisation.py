"""Bayesian optimisation with `itergp.botorch.IterGPModel` beside BoTorch's SingleTaskGP.

    python benchmarks/bayesian_optimisation.py regret   # branin and Hartmann 6, 100 evaluations, five seeds
    python benchmarks/bayesian_optimisation.py steps    # seconds per step after 100 to 10,000
    python benchmarks/bayesian_optimisation.py long     # one run to 5,000 evaluations, with noise
    python benchmarks/bayesian_optimisation.py tables   # what was recorded

With `itergp` or `SingleTaskGP` as a second word, of one model alone. Cells are recorded in
docs/results/bayesian_optimisation.jsonl, and not run again. Both models have the same starts, acquisition
function (log expected improvement), restarts and random points; SingleTaskGP is fitted again in each step, as
in BoTorch's tutorials. Needs `pip install itergp[botorch]`.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin, Hartmann
from botorch.utils.transforms import unnormalize
from gpytorch.mlls import ExactMarginalLogLikelihood

from itergp.botorch import IterGPModel, optimise

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results" / "bayesian_optimisation.jsonl"
PROBLEMS = {"branin": lambda: Branin(negate=True), "hartmann6": lambda: Hartmann(6, negate=True)}
FIRST, EVALUATIONS, SEEDS = 10, 100, 5
RESTARTS, RAW = 5, 256
SIZES, STEPS = (100, 1000, 5000, 2500, 10000), 5
MOST, ENOUGH = 5000, 60.0  # rows of SingleTaskGP, and processor seconds after which there are no more steps
LONG, NOISE, EVERY = 5000, 0.1, 100


def records():
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []


def done(**cell):
    return any(all(record.get(key) == value for key, value in cell.items()) for record in records())


def record(**cell):
    with RECORDS.open("a") as file:
        file.write(json.dumps(cell) + "\n")
    print({key: value for key, value in cell.items() if not isinstance(value, list)}, flush=True)


class Problem:
    """A function on the unit cube."""

    def __init__(self, name):
        self.function = PROBLEMS[name]()
        self.d = self.function.dim
        self.box = torch.stack([torch.zeros(self.d), torch.ones(self.d)])

    def __call__(self, X):
        return self.function(unnormalize(X, self.function.bounds))[:, None]

    def regret(self, Y):
        return float(self.function.optimal_value - Y.max())


class Itergp:
    """Hyper-parameters are learned again when there are a quarter more rows."""

    def __init__(self, X, Y):
        self.model = IterGPModel(X, Y)

    def step(self, box, X, Y):
        near = X[Y.flatten().topk(min(5, len(Y))).indices]
        best = Y.max()
        x, _ = optimise(
            lambda model: LogExpectedImprovement(model, best), self.model, box, 1, RESTARTS, RAW, near
        )
        return x

    def observe(self, X, Y):
        self.model = self.model.observe(X, Y)


class Botorch:
    """Fitted to all rows in each step."""

    def __init__(self, X, Y):
        self.X, self.Y = X, Y
        self.model = SingleTaskGP(X, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model.likelihood, self.model))

    def step(self, box, X, Y):
        function = LogExpectedImprovement(self.model, Y.max())
        how = {"q": 1, "num_restarts": RESTARTS, "raw_samples": RAW, "options": {"sample_around_best": True}}
        return optimize_acqf(function, box, **how)[0]

    def observe(self, X, Y):
        self.__init__(torch.cat([self.X, X]), torch.cat([self.Y, Y]))


METHODS = {"itergp": Itergp, "SingleTaskGP": Botorch}
WANTED = sys.argv[2:] or list(METHODS)


def sobol(d, n, seed):
    return torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(n, dtype=torch.float64)


class Stopwatch:
    def __init__(self):
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def seconds(self):
        return round(time.perf_counter() - self.wall, 4), round(time.process_time() - self.processor, 4)


def regret():
    for seed in range(SEEDS):
        for name in PROBLEMS:
            for method in WANTED:
                cell = {"kind": "regret", "problem": name, "method": method, "seed": seed}
                if not done(**cell):
                    record(**cell, **one_run(Problem(name), METHODS[method], seed))


def one_run(problem, method, seed):
    torch.manual_seed(seed)
    X = sobol(problem.d, FIRST, seed)
    Y, watch = problem(X), Stopwatch()
    model, best = method(X, Y), [problem.regret(Y)]
    while len(X) < EVALUATIONS:
        x = model.step(problem.box, X, Y).reshape(1, -1)
        y = problem(x)
        X, Y = torch.cat([X, x]), torch.cat([Y, y])
        best.append(problem.regret(Y))
        if len(X) < EVALUATIONS:
            model.observe(x, y)
    wall, processor = watch.seconds()
    return {"regret": best[-1], "best": best, "seconds": wall, "processor": processor}


def steps():
    """A fit to so many evaluations, then a few steps: candidate, evaluation, and the model with it."""
    for n in SIZES:
        for method in WANTED:
            cell = {"kind": "steps", "method": method, "n": n}
            if not done(**cell) and (method == "itergp" or n <= MOST):
                record(**cell, **some_steps(Problem("hartmann6"), METHODS[method], n))


def some_steps(problem, method, n):
    torch.manual_seed(0)
    X = sobol(problem.d, n, 0)
    Y, watch = problem(X), Stopwatch()
    model = method(X, Y)
    fit, each = watch.seconds(), []
    for _ in range(STEPS):
        watch = Stopwatch()
        x = model.step(problem.box, X, Y).reshape(1, -1)
        y = problem(x)
        X, Y = torch.cat([X, x]), torch.cat([Y, y])
        model.observe(x, y)
        each.append(watch.seconds())
        if sum(processor for _, processor in each) > ENOUGH:
            break
    return {"fit": fit[0], "fit_processor": fit[1], "steps": each}


def long():
    """Upper confidence bounds of noisy evaluations, from 100 random ones to 5,000; goes on where it ended."""
    problem, found = Problem("hartmann6"), [record for record in records() if record["kind"] == "long"]
    torch.manual_seed(len(found))
    if found:
        X = torch.tensor([x for record in found for x in record["X"]])
        Y = torch.tensor([y for record in found for y in record["Y"]])[:, None]
    else:
        X = sobol(problem.d, EVERY, 0)
        Y = problem(X) + NOISE * torch.randn(EVERY, 1)
        record(kind="long", n=EVERY, X=X.tolist(), Y=Y[:, 0].tolist(), seconds=[])
    model = IterGPModel(X, Y)
    while len(X) < LONG:
        begun, each = len(X), []
        while len(X) < begun + EVERY:
            watch = Stopwatch()
            near = X[Y.flatten().topk(5).indices]
            x, _ = optimise(lambda m: UpperConfidenceBound(m, 4.0), model, problem.box, 1, 2, 64, near)
            y = problem(x) + NOISE * torch.randn(1, 1)
            model = model.observe(x, y)
            X, Y = torch.cat([X, x]), torch.cat([Y, y])
            each.append(watch.seconds())
        best = problem.regret(problem(X))
        data = {"X": X[begun:].tolist(), "Y": Y[begun:, 0].tolist()}
        record(kind="long", n=len(X), regret=best, mean=float(np.mean(each)), seconds=each, **data)


def tables():
    found = records()
    for name in PROBLEMS:
        for method in METHODS:
            some = [r for r in found if (r.get("problem"), r.get("method")) == (name, method)]
            if some:
                regrets, seconds = (
                    np.array([r["regret"] for r in some]),
                    np.array([r["seconds"] for r in some]),
                )
                processor = np.array([r["processor"] for r in some])
                print(
                    f"{name} {method}: {len(some)} seeds, regret median {np.median(regrets):.2g}, worst "
                    f"{regrets.max():.2g}, mean {regrets.mean():.2g}; {seconds.mean():.0f} s, "
                    f"{processor.mean():.0f} processor seconds"
                )
    for r in found:
        if r["kind"] == "steps":
            wall, processor = np.median(np.array(r["steps"]), axis=0)
            print(
                f"{r['n']} {r['method']}: fit {r['fit']:.1f} s ({r['fit_processor']:.1f}), step {wall:.2f} s "
                f"({processor:.2f}) of {len(r['steps'])}"
            )
    for r in found:
        if r["kind"] == "long" and r["seconds"] and r["n"] % 500 == 0:
            wall, processor = np.median(np.array(r["seconds"]), axis=0)
            slowest = np.array(r["seconds"]).max(axis=0)
            print(
                f"long {r['n']}: {wall:.2f} s ({processor:.2f}), slowest {slowest[0]:.1f} "
                f"({slowest[1]:.1f}), regret {r['regret']:.3g}"
            )


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("default")
    {"regret": regret, "steps": steps, "long": long, "tables": tables}[sys.argv[1]]()

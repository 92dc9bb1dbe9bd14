"""Golden runs: small problems over policies, engines, precisions and ways to a posterior, with what they
predict, to the bit.

python tests/golden.py    records them anew in tests/golden.json, where a change of bits is intended
"""

import hashlib
import json
import platform
import tempfile
import warnings
from pathlib import Path

import jax
import numpy as np
from threadpoolctl import threadpool_info

from itergp import (
    RBF,
    BlockKrylov,
    Compute,
    ConjugateGradient,
    IterGPRegressor,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    MaxActions,
    Prior,
    PseudoInput,
    RandomAction,
    Schedule,
    UnitVector,
    condition,
)

FILE = Path(__file__).with_suffix(".json")
SCHEDULE = Schedule((PseudoInput(block_size=8), 16), (BlockKrylov(8), 24), (ConjugateGradient(), None))


def data(n, d=2, seed=0, offset=0.0):
    rng = np.random.default_rng([seed, n, d])
    X, new = rng.uniform(-1, 1, (n, d)) + offset, rng.uniform(-1, 1, (6, d)) + offset
    return X, np.sin(3 * (X - offset).sum(axis=1)) + 0.1 * rng.standard_normal(n), new


def of_posterior(posterior, new):
    local = posterior.local(8)
    cov = posterior.cov(new)
    return [posterior.mean(new), posterior.var(new), local.mean(new), local.var(new), cov[0], cov[-1]]


def at_once(kernel, policy, noise=0.02, n=90, d=2, actions=40, offset=0.0, **compute):
    X, y, new = data(n, d, offset=offset)
    return of_posterior(
        condition(Prior(kernel), X, y, noise, policy, MaxActions(actions), Compute(threads=1, **compute)), new
    )


def refined_and_extended():
    X, y, new = data(120, 3)
    posterior = condition(
        Prior(Matern32(0.6)), X[:80], y[:80], 0.02, SCHEDULE, MaxActions(20), Compute(threads=1)
    )
    posterior = posterior.refine(ConjugateGradient(), MaxActions(10)).extend(
        X[80:], y[80:], stop=MaxActions(15)
    )
    return of_posterior(posterior.refine(RandomAction(3), MaxActions(6)), new)


def noise_of_rows():
    X, y, new = data(70)
    noise = np.linspace(0.01, 0.3, 70)
    return of_posterior(
        condition(Prior(RBF(0.5)), X, y, noise, BlockKrylov(4), MaxActions(30), Compute(threads=1)), new
    )


def estimator(targets=1, **parameters):
    """Merged duplicates, scaling, a stream, more computation, and a turn through a file."""
    X, y, new = data(110)
    X[60:75] = X[:15]
    Y = y if targets == 1 else np.stack([y, np.cos(5 * X[:, 0])], axis=1)
    how = {
        "kernel": 1.0 * Matern32(np.array([0.7, 0.9]) * X[:90].std(axis=0)),
        "noise": 0.03,
        "learn": False,
        "budget": "40 actions",
        "threads": 1,
    }
    model = IterGPRegressor(**how | parameters).fit(X[:90], Y[:90])
    model.partial_fit(X[90:], Y[90:]).refine("10 actions")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.itergp")
        model = IterGPRegressor.load(Path(folder) / "model.itergp")
    return [*model.predict(new, return_std=True), *model.predict(new, return_cov=True)[:1]]


def learned(**parameters):
    X, y, new = data(150, 3)
    model = IterGPRegressor(budget="60 actions", threads=1, **parameters).fit(X, y)
    return [*model.predict(new, return_std=True), np.atleast_1d(model.noise_)]


RUNS = {
    "schedule, native": lambda: at_once(1.3 * Matern32(0.5), SCHEDULE, engine="native"),
    "schedule, numpy": lambda: at_once(1.3 * Matern32(0.5), SCHEDULE, engine="numpy"),
    "schedule, jax": lambda: at_once(1.3 * Matern32(0.5), SCHEDULE, engine="jax"),
    "cg, float32": lambda: at_once(
        Matern52([0.5, 0.9]), ConjugateGradient(), dtype="float32", engine="native"
    ),
    "unit vectors, then Krylov, float32": lambda: at_once(
        Matern12(0.8),
        Schedule((UnitVector("random", block_size=8), 20), (BlockKrylov(8), None)),
        dtype="float32",
    ),
    "exact": lambda: at_once(RBF(0.4), UnitVector(block_size=16), n=60, actions=60),
    "a sum and a product, far away": lambda: at_once(
        RBF(0.6) * Matern32(2.0) + 0.3 * Matern12(0.5), PseudoInput(block_size=10), offset=1e9
    ),
    "not stationary": lambda: at_once(Linear(1.0) + Matern32(0.5), RandomAction(5)),
    "refined and extended": refined_and_extended,
    "noise of rows": noise_of_rows,
    "estimator": estimator,
    "estimator, two targets with noises of their own": lambda: estimator(2, noise=[0.03, 0.4]),
    "estimator, neighbours": lambda: estimator(neighbours=12),
    "learned, exact likelihood": lambda: learned(kernel="matern32"),
    "learned, neighbours": lambda: learned(kernel="matern32", learn="neighbours"),
    "learned, the kernel too": learned,
}


def machine():
    """What bits depend on besides our code: processor and libraries."""
    libraries = sorted(
        {f"{info['internal_api']} {info.get('architecture')} {info['version']}" for info in threadpool_info()}
    )
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = [line for line in described.splitlines() if line.startswith(("model", "stepping", "flags"))][:4]
    processor = hashlib.sha256("".join(model).encode()).hexdigest()[:16]
    return [platform.machine(), processor, f"numpy {np.__version__}", f"jax {jax.__version__}", *libraries]


def run(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [[float(value).hex() for value in np.ravel(part)] for part in RUNS[name]()]


if __name__ == "__main__":
    found = {"machine": machine(), "runs": {name: run(name) for name in RUNS}}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(RUNS)} runs, {FILE}")

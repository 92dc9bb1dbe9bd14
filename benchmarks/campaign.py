"""Claim: never negative, never above the prior, never rising with more computation, never overconfident,
always certified.

Random problems (n 1 to 120, d 1 to 5, all kernels, lengthscales over three decades, noise 1e-8 to 1, 40 %
with duplicates, badly scaled inputs, inputs up to 1.7e12 from the origin, scalar and per-row noise) times
all policies and mixtures of them, with float64 and float32 tiles, in one go, refined, extended, reweighted
or beside another target with another noise, against the exact GP in extended precision; and, for one
posterior of each problem, the bounds on its computational part and the variance of samples that are
functions. Local actions come on top of the global ones, for each point alone and for all points jointly.
Rounding allowed for is stated below, in units of rounding of k0. Prints counts and the worst figures.

    OMP_NUM_THREADS=1 python benchmarks/campaign.py --problems 10000 --workers 2 [--first 0] [--record
    campaign.jsonl]
"""

import argparse
import hashlib
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import itergp
from itergp import Compute, MaxActions, Posterior, Prior, condition
from itergp.posterior.targets import TargetPosterior, common_noise
from itergp.solver.more_data import reweighted

ROOMS = ("prior", "linalg", "solver", "posterior")  # whose code decides the outcome
POLICIES = {
    "unit": lambda n: itergp.UnitVector(block_size=4),
    "pivoted": lambda n: itergp.UnitVector("pivoted"),
    "random-rows": lambda n: itergp.UnitVector("random", block_size=3),
    "eigenvector": lambda n: itergp.Eigenvector(),
    "cg": lambda n: itergp.ConjugateGradient(),
    "cg-conjugate": lambda n: itergp.ConjugateGradient(form="conjugate"),
    "pseudo-input": lambda n: itergp.PseudoInput(block_size=16),
    "random": lambda n: itergp.RandomAction(block_size=4),
    "block-krylov": lambda n: itergp.BlockKrylov(block_size=8),
    "sparse-block": lambda n: itergp.SparseBlock(groups=max(1, n // 3)),
    "adversarial": lambda n: itergp.Adversarial(),
    "schedule": lambda n: itergp.Schedule(
        (itergp.PseudoInput(block_size=8), max(1, n // 3)),
        (itergp.ConjugateGradient(preconditioner="self"), None),
    ),
    # float64 products before float32 ones, and the other way round
    "units-then-dense": lambda n: itergp.Schedule(
        (itergp.UnitVector("random", block_size=8), max(1, n // 2)), (itergp.PseudoInput(block_size=8), None)
    ),
    "dense-then-units": lambda n: itergp.Schedule(
        (itergp.RandomAction(block_size=6), max(1, n // 3)),
        (itergp.UnitVector("pivoted"), max(1, n // 4)),
        (itergp.BlockKrylov(), None),
    ),
}
CHECKS = (
    "negative",
    "above the prior",
    "rising",
    "below the exact GP",
    "outside the certificates",
    "local below exact",
    "joint outside exact and local",
    "parts",
    "samples",
    "error",
)


@dataclass
class Tally:
    runs: int = 0
    points: int = 0
    violations: dict = field(default_factory=lambda: dict.fromkeys(CHECKS, 0))
    worst: dict = field(default_factory=lambda: dict.fromkeys(CHECKS, -1.0))
    examples: dict = field(default_factory=dict)

    def note(self, check, amount, where):
        """amount > 0 is a violation, in units of k0; the worst one is kept."""
        worst = float(np.max(amount, initial=-1.0))
        self.worst[check] = max(self.worst[check], worst)
        if worst > 0:
            self.violations[check] += 1
            self.examples.setdefault(check, []).append(where)

    def add(self, other):
        self.runs += other.runs
        self.points += other.points
        for check in CHECKS:
            self.violations[check] += other.violations[check]
            self.worst[check] = max(self.worst[check], other.worst[check])
            self.examples.setdefault(check, []).extend(other.examples.get(check, [])[:3])


def random_kernel(rng, d, span):
    """Any kernel, at a lengthscale from 0.02 to 20 of the inputs' span."""
    lengthscale = span * 10 ** rng.uniform(-1.7, 1.3, d if rng.random() < 0.5 else ())
    plain = [itergp.RBF, itergp.Matern12, itergp.Matern32, itergp.Matern52]
    kind = rng.integers(8)
    if kind < 4:
        kernel = plain[kind](lengthscale)
    elif kind == 4:
        kernel = itergp.RationalQuadratic(lengthscale, alpha=10 ** rng.uniform(-1, 1))
    elif kind == 5:
        kernel = itergp.Periodic(
            10 ** rng.uniform(-0.5, 0.5), period=float(np.mean(span)) * 10 ** rng.uniform(-1, 0.5)
        )
    elif kind == 6:
        kernel = (
            itergp.Linear(float(np.mean(span))) + plain[rng.integers(4)](lengthscale) + itergp.Constant(0.5)
        )
    else:
        kernel = plain[rng.integers(4)](lengthscale) * plain[rng.integers(4)](lengthscale)
    return float(10 ** rng.uniform(-1, 1)) * kernel


def random_problem(seed):
    rng = np.random.default_rng([seed, 17])
    n, d = int(rng.integers(1, 121)), int(rng.integers(1, 6))
    X = rng.uniform(-1, 1, (n, d)) if rng.random() < 0.7 else rng.standard_normal((n, d)) ** 3
    span = np.ones(d)
    if rng.random() < 0.3:  # badly scaled inputs: spans over six decades, far from the origin
        span = 10 ** rng.uniform(-3, 3, d)
        X = X * span + span * 10 ** rng.uniform(-1, 2, d)
    if rng.random() < 0.4:  # duplicates
        X = X[rng.integers(0, max(1, n // 2), n)]
    kernel = random_kernel(rng, d, span)
    noise = 10 ** rng.uniform(-8, 0)
    if rng.random() < 0.3:
        noise = noise * 10 ** rng.uniform(-1, 1, n)
    y = np.sin(3 * (X / span).sum(axis=1)) + np.sqrt(np.mean(noise)) * rng.standard_normal(n)
    if rng.random() < 0.05:
        y = np.zeros(n)
    new = np.concatenate(
        [X[rng.integers(0, n, 4)], X[rng.integers(0, n, 6)] + 0.3 * span * rng.standard_normal((6, d))]
    )
    if kernel.stationary and rng.random() < 0.15:
        return Prior(kernel), X, y, noise, new, rng, far_offset(rng, X, new, span)
    return Prior(kernel), X, y, noise, new, rng, np.zeros(d)


def far_offset(rng, X, new, span):
    """An offset of 1e3 to 1.7e12 spans. Inputs are rounded in place to what float64 holds there, so that
    shifting is exact."""
    offset = span * 10 ** rng.uniform(3, 12.23, len(span))
    grid = 2.0 ** (np.ceil(np.log2(offset)) - 51)
    offset = np.round(offset / grid) * grid
    for points in (X, new):
        points[:] = np.round(points / grid) * grid
        assert np.array_equal((points + offset) - offset, points)
    return offset


def cholesky_extended(A):
    """Cholesky in the longest float of the machine (64 bits of mantissa on x86): the oracle must not round
    like the tested."""
    L = np.zeros(A.shape, dtype=np.longdouble)
    for j in range(len(A)):
        column = A[j:, j] - L[j:, :j] @ L[j, :j]
        if not column[0] > 0:
            raise np.linalg.LinAlgError
        L[j:, j] = column / np.sqrt(column[0])
    return L


def forward(L, B):
    """L^{-1} B in extended precision."""
    X = np.array(B, dtype=np.longdouble)
    for j in range(len(L)):
        X[j] = (X[j] - L[j, :j] @ X[:j]) / L[j, j]
    return X


def exact(prior, X, y, noise, new):
    """Mean and variance of the exact GP, from the kernel's formula on, in extended precision."""
    X, new = X.astype(np.longdouble), new.astype(np.longdouble)
    K_hat = np.asarray(prior.kernel(X, X)) + np.diag(np.broadcast_to(noise, len(X)).astype(np.longdouble))
    L = cholesky_extended(K_hat)
    W, z = forward(L, np.asarray(prior.kernel(X, new))), forward(L, y[:, None])[:, 0]
    mean, var = W.T @ z, np.asarray(prior.kernel.diagonal(new)) - (W**2).sum(axis=0)
    return mean.astype(float), var.astype(float), float(np.linalg.norm(z.astype(float)))


def run(seed):
    """One problem, all policies, both dtypes."""
    tally = Tally()
    prior, X, y, noise, new, rng, offset = random_problem(seed)
    try:
        mean, var, z_norm = exact(prior, X, y, noise, new)
    except np.linalg.LinAlgError:
        return tally  # K_hat is singular in float64: there is no oracle
    k0 = prior.var(new)
    X, new = X + offset, new + offset  # exactly: the oracle has seen the same differences
    for name, make in POLICIES.items():
        for dtype in ("float64", "float32"):
            course = str(rng.choice(list(COURSES), p=[0.2, 0.2, 0.2, 0.2, 0.2]))
            where = (seed, name, dtype, course)
            tally.runs += 1
            tally.points += len(new)
            actions = int(rng.integers(1, len(X) + 1))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", itergp.PrecisionWarning)
                    problem = (prior, X, y, noise)
                    posterior = COURSES[course](
                        problem, make(len(X)), actions, Compute(dtype=dtype, threads=1), seed, rng
                    )
                    check(tally, where, posterior, new, k0, mean, var, z_norm)
                    if (
                        name == list(POLICIES)[seed % len(POLICIES)]
                        and dtype == ("float64", "float32")[seed // 2 % 2]
                    ):
                        check_parts(tally, where, posterior, new, k0, var)
                        check_samples(tally, where, posterior, new, k0)
            except Exception as error:
                tally.note("error", 1.0, (*where, repr(error)[:200]))
    return tally


# The ways that lead to a posterior of the same data.


def at_once(problem, policy, actions, compute, seed, rng):
    return condition(*problem, policy, MaxActions(actions), compute, seed=seed)


def refined(problem, policy, actions, compute, seed, rng):
    """Half of the actions, then another policy."""
    other = POLICIES[str(rng.choice(list(POLICIES)))](len(problem[1]))
    return at_once(problem, policy, actions // 2, compute, seed, rng).refine(
        other, MaxActions(actions - actions // 2)
    )


def extended(problem, policy, actions, compute, seed, rng):
    """Half of the rows, then the other half, acted on; then the policy again."""
    prior, X, y, noise = problem
    half, N = (len(X) + 1) // 2, np.broadcast_to(noise, len(X))
    first, more = (N[:half], N[half:]) if np.ndim(noise) else (noise, None)
    posterior = at_once((prior, X[:half], y[:half], first), policy, min(actions, half), compute, seed, rng)
    if half < len(X):
        posterior = posterior.extend(X[half:], y[half:], more, stop=MaxActions(max(1, (len(X) - half) // 2)))
    return posterior.refine(policy, MaxActions(2))


def reweighted_run(problem, policy, actions, compute, seed, rng):
    """The actions of a run with other noise and targets."""
    prior, X, y, noise = problem
    other = (prior, X, np.cos(y), np.mean(noise) * 10 ** rng.uniform(-1, 1, len(X)))
    state = reweighted(at_once(other, policy, actions, compute, seed, rng).state, noise, y)
    return Posterior(state.problem, state, policy)


def beside_another(problem, policy, actions, compute, seed, rng):
    """One of two targets, whose noises differ by up to four decades either way: the actions are those of
    both."""
    prior, X, y, noise = problem
    if isinstance(policy, itergp.Adversarial):  # defined for one target
        return at_once(problem, policy, actions, compute, seed, rng)
    noises = np.stack([noise, noise * 10 ** np.random.default_rng([seed, actions]).uniform(-4, 4)])
    both = (prior, X, np.stack([y, np.cos(3 * y)], axis=1), common_noise(noises))
    return TargetPosterior(at_once(both, policy, actions, compute, seed, rng), noises).each[0]


COURSES = {
    "at once": at_once,
    "beside another": beside_another,
    "refined": refined,
    "extended": extended,
    "reweighted": reweighted_run,
}

UNIT = np.finfo(float).eps / 2
ROUNDING = 8 * UNIT  # of k0, where variances of one run are compared
SAMPLES = 1.5
# of k0, against the exact GP: its variance is a difference of sums over n <= 120 terms
ROUNDING_EXACT = 64 * UNIT
NEIGHBOURS = 5
JITTER = 64 * UNIT * NEIGHBOURS  # of k0: what local and joint actions allow for rounding, each in its own way


def check(tally, where, posterior, new, k0, mean, var, z_norm):
    path = posterior.path(new)
    combined = posterior.var(new)
    tally.note("negative", np.where(combined > 0, -1.0, 1.0), where)
    tally.note("above the prior", path.var / k0 - 1.0 - ROUNDING, where)
    tally.note(
        "rising", np.diff(path.var, axis=0) / k0 - ROUNDING if posterior.rank else np.array([-1.0]), where
    )
    tally.note("below the exact GP", (var - combined) / k0 - ROUNDING_EXACT, where)
    certificate = posterior.certify(new)
    outside = (
        np.maximum(certificate.variance_lower - var, var - certificate.variance_upper) / k0 - ROUNDING_EXACT
    )
    error = (np.abs(posterior.mean(new) - mean) - certificate.mean_error) / np.sqrt(k0) - ROUNDING_EXACT * (
        1.0 + z_norm
    )
    tally.note("outside the certificates", np.concatenate([outside, error]), where)
    own, shared = posterior.local(NEIGHBOURS), posterior.around(new, NEIGHBOURS)
    local, joint = own.var(new), shared.var(new)
    tally.note("local below exact", np.maximum(var - local, local - combined) / k0 - ROUNDING_EXACT, where)
    excess = np.maximum(var - joint - ROUNDING_EXACT * k0, joint - local - JITTER * k0) / k0
    below = np.linalg.eigvalsh(own.cov(new) - shared.cov(new))[0] / k0.max()  # as matrices
    tally.note("joint outside exact and local", np.append(excess, -below - len(new) * JITTER), where)


def check_parts(tally, where, posterior, new, k0, var):
    """The computational part of the variance lies between its bounds, whether they come from passes or
    from neighbours."""
    for process in (posterior, posterior.local(NEIGHBOURS)):
        for passes in (0, 2):
            parts = process.decompose(new, "estimate", passes=passes)
            true = parts.combined - var
            outside = np.maximum(parts.computational_lower - true, true - parts.computational_upper)
            tally.note("parts", outside / k0 - ROUNDING_EXACT, (*where, passes))


def check_samples(tally, where, posterior, new, k0):
    """Samples as functions rest on random features: their variance may be 1.5 times that of the posterior,
    or its inverse."""
    negligible = 1e-12 * k0
    ratio = (posterior.sample_function(1, seed=where[0]).var(new) + negligible) / (
        posterior.var(new) + negligible
    )
    tally.note("samples", np.abs(np.log(ratio)) - np.log(SAMPLES), where)


BLOCK = 100  # problems that are recorded together


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--problems", type=int, default=10000)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument(
        "--record", type=Path, help="a file of finished blocks: a run that was cut goes on from it"
    )
    options = arguments.parse_args()
    total, begun, sources = Tally(), time.time(), digest()
    known = recorded(options.record, sources)
    with ProcessPoolExecutor(options.workers) as pool:
        for first in range(options.first, options.first + options.problems, BLOCK):
            seeds = range(first, min(first + BLOCK, options.first + options.problems))
            block = known.get((first, len(seeds)))
            if block is None:
                block = Tally()
                for tally in pool.map(run, seeds, chunksize=2):
                    block.add(tally)
                if options.record:
                    with open(options.record, "a") as file:
                        line = {"sources": sources, "first": first, "problems": len(seeds), **vars(block)}
                        file.write(json.dumps(line, default=str) + "\n")
            for check, examples in block.examples.items():
                if examples:
                    print(f"VIOLATION {check}: {examples}, {block.worst[check]:.2e}", flush=True)
            total.add(block)
            print(f"{time.time() - begun:.0f} s, {seeds.stop - options.first} problems", flush=True)
    report(total, options.first, options.problems)
    raise SystemExit(1 if sum(total.violations.values()) else 0)


def recorded(path, sources):
    """Finished blocks of the same code, by their first problem and their number."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    fields = ("runs", "points", "violations", "worst", "examples")
    return {
        (line["first"], line["problems"]): Tally(**{name: line[name] for name in fields})
        for line in lines
        if line["sources"] == sources
    }


def digest():
    """Of the code that decides the outcome: a block counts only for the code that it ran."""
    root = Path(itergp.__file__).parent
    found = [
        path
        for room in ROOMS
        for path in sorted((root / room).rglob("*"))
        if path.suffix in (".py", ".cpp", ".h")
    ]
    whole = hashlib.sha256()
    for path in (*found, Path(__file__)):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def report(total, first, problems):
    print(f"\nproblems {first} to {first + problems - 1}: {total.runs} runs, {total.points} predictions")
    print("| check | violations | worst excess over the allowed rounding, in units of k0 |\n|---|---|---|")
    for name in CHECKS:
        print(f"| {name} | {total.violations[name]} | {total.worst[name]:.1e} |", flush=True)


if __name__ == "__main__":
    main()

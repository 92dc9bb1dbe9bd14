"""THE tables: every kernel and every policy has one row here, and every sentence is tested over them.

Oracles are dense float64 NumPy and SciPy, written from the formulas of the paper, never from this
library's solver.
"""

import decimal
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from itergp import (
    RBF,
    Adversarial,
    BlockKrylov,
    ConjugateGradient,
    Constant,
    Eigenvector,
    Linear,
    LinearMean,
    Matern12,
    Matern32,
    Matern52,
    MaxActions,
    Periodic,
    Posterior,
    Prior,
    PseudoInput,
    RandomAction,
    RationalQuadratic,
    Schedule,
    SparseBlock,
    UnitVector,
    condition,
)

# Adding a kernel: one row. All are defined for two features.
KERNELS = {
    "rbf": 1.3 * RBF(lengthscale=0.5),
    "matern12": Matern12(lengthscale=[0.7, 0.4]),
    "matern32": 2.0 * Matern32(lengthscale=0.6),
    "matern52": Matern52(lengthscale=[0.5, 0.9]),
    "rational-quadratic": 0.8 * RationalQuadratic(lengthscale=0.5, alpha=1.5),
    "periodic": Periodic(lengthscale=0.9, period=1.7),
    "linear-plus-constant": Linear(lengthscale=1.2) + 0.5 * Constant(1.0) + 0.3 * RBF(lengthscale=0.4),
    "sum": Matern32(lengthscale=0.5) + 0.5 * RBF(lengthscale=1.5),
    "product": Matern52(lengthscale=0.8) * Linear(lengthscale=0.7) + 0.2 * Matern12(lengthscale=1.0),
    "on-columns": Matern32(lengthscale=0.4).on([1]) + RBF(lengthscale=0.6).on([0]),
}

# Adding a policy: one row. Each is made anew for each use. `random_start` policies differ between seeds.
POLICIES = {
    "unit-sequential": lambda: UnitVector(),
    "unit-random": lambda: UnitVector("random", block_size=3),
    "unit-pivoted": lambda: UnitVector("pivoted"),
    "unit-listed": lambda: UnitVector(order=np.arange(8)[::-1].copy(), block_size=2),
    "eigenvector": lambda: Eigenvector(block_size=4),
    "cg": lambda: ConjugateGradient(),
    "cg-conjugate": lambda: ConjugateGradient(form="conjugate"),
    "pseudo-input": lambda: PseudoInput(block_size=5),
    "random": lambda: RandomAction(block_size=2),
    "block-krylov": lambda: BlockKrylov(block_size=4),
    "sparse-block": lambda: SparseBlock(groups=8, block_size=3),
    "adversarial": lambda: Adversarial(),
    "schedule": lambda: Schedule(
        (PseudoInput(block_size=4), 6), (ConjugateGradient(preconditioner="self"), 3), (BlockKrylov(3), None)
    ),
    "callable": lambda: lambda state: np.cos((1.0 + np.arange(state.problem.n)) * (1.0 + state.proposed)),
}

# Each policy with two kernels, each kernel with two policies or more: where all pairs would take too long.
PAIRS = [
    (list(KERNELS)[(i + shift) % len(KERNELS)], policy)
    for i, policy in enumerate(POLICIES)
    for shift in (0, 4)
]


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray


def make_data(n: int = 40, d: int = 2, seed: int = 0, targets: int | None = None, new: int = 12) -> Data:
    """sin(pi x^T 1) on [-1, 1]^d with noise, as in the paper's synthetic set."""
    rng = np.random.default_rng([seed, n, d])
    X, X_new = rng.uniform(-1, 1, (n, d)), rng.uniform(-1.2, 1.2, (new, d))
    shape = (n,) if targets is None else (n, targets)
    f = np.sin(np.pi * X.sum(axis=1))
    y = (f if targets is None else f[:, None] * np.arange(1, targets + 1)) + 0.1 * rng.standard_normal(shape)
    return Data(X, y, X_new)


@dataclass(frozen=True)
class Oracle:
    """The exact GP, dense: K_hat, v*, mu_*, k_*, log marginal likelihood."""

    K: np.ndarray
    K_hat: np.ndarray
    b: np.ndarray
    v: np.ndarray
    mean: np.ndarray
    cov: np.ndarray
    k_new: np.ndarray  # k(X, X_new)
    log_likelihood: float

    @property
    def var(self) -> np.ndarray:
        return np.diag(self.cov)


def exact(prior: Prior, X: np.ndarray, y: np.ndarray, noise: float | np.ndarray, X_new: np.ndarray) -> Oracle:
    K = np.asarray(prior.kernel(X, X))
    K_hat = K + np.diag(np.broadcast_to(noise, X.shape[:1]))
    b = y - prior.mean(X)
    k_new = np.asarray(prior.kernel(X, X_new))
    factor = scipy.linalg.cho_factor(K_hat, lower=True)
    v = scipy.linalg.cho_solve(factor, b)
    cov = np.asarray(prior.kernel(X_new, X_new)) - k_new.T @ scipy.linalg.cho_solve(factor, k_new)
    logdet = 2.0 * np.log(np.diag(factor[0])).sum()
    likelihood = -0.5 * (b @ v + logdet + len(b) * np.log(2 * np.pi)) if b.ndim == 1 else np.nan
    return Oracle(K, K_hat, b, v, prior.mean(X_new) + k_new.T @ v, cov, k_new, float(likelihood))


def combined(
    oracle: Oracle, prior: Prior, S: np.ndarray, X_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C, mean and covariance of the combined posterior for actions S, by the batch formula (Prop. S3, Eq.
    6)."""
    S = S.toarray() if hasattr(S, "toarray") else S
    C = S @ np.linalg.solve(S.T @ oracle.K_hat @ S, S.T)
    mean = prior.mean(X_new) + oracle.k_new.T @ (C @ oracle.b)
    cov = np.asarray(prior.kernel(X_new, X_new)) - oracle.k_new.T @ C @ oracle.k_new
    return C, mean, cov


def data_folder() -> Path:
    """The folder of real data sets: ITERGP_DATA, or a folder `shared/data` beside the project; else the
    test is skipped."""
    for folder in (os.environ.get("ITERGP_DATA"), Path(__file__).resolve().parents[2] / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    pytest.skip("real data sets are missing: set ITERGP_DATA to their folder")
    raise AssertionError


def load_split(name: str, split: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised X, y, X_test, y_test of one split of a real data set."""
    folder = data_folder()
    table = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",")
    test = np.loadtxt(folder / f"{name}.splits.csv.gz", delimiter=",")[:, split] == 1
    mean, std = table[~test].mean(axis=0), table[~test].std(axis=0)
    table = (table - mean) / np.where(std > 0, std, 1.0)
    return table[~test, :-1], table[~test, -1], table[test, :-1], table[test, -1]


def dense(S: object) -> np.ndarray:
    """A dense array, from a dense or a sparse one."""
    return S.toarray() if hasattr(S, "toarray") else np.asarray(S)


def given(S: np.ndarray, block_size: int = 1):
    """The policy that takes the columns of S, so many at a time."""
    return lambda state: (
        S[:, state.proposed : state.proposed + block_size] if state.proposed < S.shape[1] else None
    )


def row_noise(n: int, seed: int = 0) -> np.ndarray:
    """A noise variance for each row, from 0.02 to 0.2."""
    return np.random.default_rng([seed, n]).uniform(0.02, 0.2, n)


@dataclass(frozen=True)
class Run:
    """A conditioned posterior beside the exact GP and the batch formula for the same actions."""

    data: Data
    prior: Prior
    posterior: Posterior
    oracle: Oracle

    @property
    def Q(self) -> np.ndarray:
        return dense(self.posterior.actions)

    @property
    def C(self) -> np.ndarray:
        return combined(self.oracle, self.prior, self.Q, self.data.X_new)[0]


def run(
    kernel: str, policy: str, actions: int = 10, n: int = 30, noise: float | np.ndarray = 0.05, seed: int = 0
) -> Run:
    """One row of each table, with a prior mean that is not zero."""
    data, prior = make_data(n, seed=seed), Prior(KERNELS[kernel], LinearMean([0.3, -0.2], 0.1))
    posterior = condition(prior, data.X, data.y, noise, POLICIES[policy](), MaxActions(actions), seed=seed)
    return Run(data, prior, posterior, exact(prior, data.X, data.y, noise, data.X_new))


def textbook_cg(
    A: np.ndarray, b: np.ndarray, M_inv: np.ndarray, W: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Deflated preconditioned CG (Saad et al. 2000, Alg. 3.6) in 50 digits: iterates from x_0 with W^T r_0
    = 0, directions.

    With no columns in W it is the textbook's preconditioned CG. In float64 it loses conjugacy after a few
    steps; here not.
    """
    with decimal.localcontext(prec=50):
        A, b, M_inv, W = (
            np.vectorize(decimal.Decimal, otypes=[object])(a) if a.size else a.astype(object)
            for a in (A, b, M_inv, W)
        )
        AW = A.dot(W)
        coarse = W.T.dot(AW)
        x = W.dot(_eliminate(coarse, W.T.dot(b))) if W.size else 0 * b
        r = b - A.dot(x)
        p, rz = 0 * b, None
        iterates, directions = [x], []
        for _ in range(steps):
            z = M_inv.dot(r)
            beta = 0 if rz is None else r.dot(z) / rz
            rz = r.dot(z)
            p = beta * p + z - (W.dot(_eliminate(coarse, AW.T.dot(z))) if W.size else 0)
            Ap = A.dot(p)
            alpha = rz / p.dot(Ap)
            x, r = x + alpha * p, r - alpha * Ap
            iterates.append(x)
            directions.append(p / p.dot(Ap).sqrt())
        return np.array(iterates).astype(float), np.array(directions).astype(float)


def _eliminate(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A^{-1} b for a positive definite A of any number type."""
    A, b = A.copy(), b.copy()
    for j in range(len(b)):
        for i in range(j + 1, len(b)):
            factor = A[i, j] / A[j, j]
            A[i] = A[i] - factor * A[j]
            b[i] = b[i] - factor * b[j]
    for j in reversed(range(len(b))):
        b[j] = (b[j] - A[j, j + 1 :].dot(b[j + 1 :])) / A[j, j]
    return b


class FakeClock:
    """In place of `time.perf_counter`: it moves when it is told to, and by `step` each time it is read."""

    def __init__(self, monkeypatch, step=0.0):
        self.now, self.step, self.readings = 1000.0, step, 0
        monkeypatch.setattr("time.perf_counter", self)

    def __call__(self):
        self.readings += 1
        self.now += self.step
        return self.now


def gains(kernel, x, X, N, J, before):
    """How much each row of J lowers the variance of the exact GP at x, given the rows `before`: dense."""
    K, k = kernel(X[J], X[J]), kernel(X[J], x[None])[:, 0]
    variance = np.diag(K) + N[J]
    if len(before):
        A = np.linalg.solve(kernel(X[before], X[before]) + np.diag(N[before]), kernel(X[before], X[J]))
        k, variance = (
            k - A.T @ kernel(X[before], x[None])[:, 0],
            variance - (A * kernel(X[before], X[J])).sum(0),
        )
    return k**2 / variance


def most_informative(kernel, x, X, N, J, count):
    """The choice of `count` of the rows J, one by one, by dense formulas; J has the nearest first."""
    J, chosen = np.asarray(J), []
    for _ in range(count):
        free = J[~np.isin(J, chosen)]
        gain = gains(kernel, x, X, N, free, np.array(chosen, dtype=int))
        chosen.append(int(free[np.argmax(gain >= (1.0 - 1e-6) * gain.max())]))
    return np.array(chosen)

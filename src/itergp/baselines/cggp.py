"""CGGP: the mean by conjugate gradients, the variance by LOVE, as in GPyTorch.

Gardner et al., GPyTorch (2018); Pleiss et al., Constant-time predictive distributions (2018). These are two
Krylov spaces, so two passes over K per iteration; IterGP-CG gets both from one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError
from itergp.linalg.blas import blas_threads
from itergp.linalg.compute import Compute, require_bytes
from itergp.posterior.combined import Path
from itergp.prior.gp import Prior
from itergp.solver.problem import Problem
from itergp.validate import as_float64, count, finite, inputs

Product = Callable[[np.ndarray], np.ndarray]
EXHAUSTED = 1e-13  # relative to |K_hat q|: a Krylov space that grows by less than this has ended


def cggp(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    noise: ArrayLike,
    iterations: int,
    *,
    probe: ArrayLike | None = None,
    compute: Compute = Compute(),
    seed: int = 0,
) -> "CGGP":
    """`iterations` of CG for the mean, and as many of Lanczos for the variance.

    Lanczos starts at `probe`: by default a random vector from `seed`, as in GPyTorch. From b = y - mu(X) it
    would span the same space as CG, and the variance would be that of IterGP-CG. Neither is preconditioned.
    """
    problem = Problem(prior, X, y, noise, compute)
    n, t = problem.b.shape
    r = count("iterations", iterations)
    start = (
        np.random.default_rng(count("seed", seed, least=0)).standard_normal((n,))
        if probe is None
        else _probe(probe, n)
    )
    require_bytes(8.0 * n * r * (t + 1), f"{r} iterations on {n} rows", "Use fewer.")

    def K_hat(V: np.ndarray) -> np.ndarray:
        return problem.gram.multiply(V) + problem.N[:, None] * V

    with blas_threads(1 if getattr(problem.gram.engine, "own_threads", False) else compute.threads):
        steps = conjugate_gradients(K_hat, problem.b, r)
        Q, alpha, beta = lanczos(K_hat, start, min(r, n))
    diagonal, below = tridiagonal_cholesky(alpha, beta)
    return CGGP(problem, r, steps, Q[:, : len(diagonal)], diagonal, below, problem.gram.passes)


@dataclass(frozen=True, eq=False)
class CGGP:
    """mu(x) + k_x^T v_r with the iterate v_r of CG; k(x, x') - k_x^T Q T^{-1} Q^T k_x' with Q, T of Lanczos,
    T = L L^T."""

    problem: Problem
    iterations: int
    steps: np.ndarray  # v_i - v_{i-1}, (iterations, n, t)
    Q: np.ndarray  # (n, rank)
    diagonal: np.ndarray  # of L, (rank,)
    below: np.ndarray  # the subdiagonal of L, (rank - 1,)
    passes: int  # over K: CG's and Lanczos's

    __repr__ = brief.call

    @property
    def representer_weights(self) -> np.ndarray:
        return self.steps.sum(axis=0)

    @property
    def rank(self) -> int:
        """Of the variance: the number of iterations, or fewer if Lanczos ended early."""
        return len(self.diagonal)

    def mean(self, X: ArrayLike) -> np.ndarray:
        X = self._inputs("X", X)
        return self.problem.with_prior_mean(X, self.problem.gram.cross(X, self.representer_weights))

    def var(self, X: ArrayLike) -> np.ndarray:
        X = self._inputs("X", X)
        k0 = self.problem.prior.var(X)
        return self.problem.above_floor(k0 - (self._weights(X) ** 2).sum(axis=0), k0)

    def cov(self, X0: ArrayLike, X1: ArrayLike | None = None) -> np.ndarray:
        X0 = self._inputs("X0", X0)
        X1 = X0 if X1 is None else self._inputs("X1", X1)
        return self.problem.gram.dense(X0, X1) - self._weights(X0).T @ self._weights(X1)

    def path(self, X: ArrayLike, iterations: Sequence[int] | None = None) -> Path:
        """Mean and variance after these numbers of iterations (default: all), at the cost of the last."""
        X = self._inputs("X", X)
        asked = np.arange(self.iterations + 1) if iterations is None else np.asarray(iterations)
        if (
            asked.ndim != 1
            or asked.dtype.kind not in "iu"
            or (asked < 0).any()
            or (asked > self.iterations).any()
        ):
            raise InputError(
                f"iterations is {iterations!r}; expected integers from 0 to {self.iterations}, as many as "
                "were made."
            )
        r, n, t = self.steps.shape
        products = self.problem.gram.cross(X, self.steps.transpose(1, 0, 2).reshape(n, r * t)).reshape(
            len(X), r, t
        )
        updates = _prefix_sums(products.swapaxes(0, 1))
        explained = _prefix_sums(self._weights(X) ** 2)
        k0 = self.problem.prior.var(X)
        means = [self.problem.with_prior_mean(X, updates[min(i, r)]) for i in asked.tolist()]
        variances = [self.problem.above_floor(k0 - explained[min(i, self.rank)], k0) for i in asked.tolist()]
        return Path(asked, np.array(means), np.array(variances))

    def _weights(self, X: np.ndarray) -> np.ndarray:
        """L^{-1} Q^T k_x, (rank, m): a prefix of the rows corresponds to a prefix of the iterations."""
        require_bytes(
            16.0 * self.rank * len(X),
            f"{self.rank} weights at {len(X)} points",
            "Predict in smaller batches.",
        )
        W = np.ascontiguousarray(self.problem.gram.cross(X, self.Q).T)
        for j in range(self.rank):
            if j:
                W[j] -= self.below[j - 1] * W[j - 1]
            W[j] /= self.diagonal[j]
        return W

    def _inputs(self, name: str, X: ArrayLike) -> np.ndarray:
        return inputs(name, X, self.problem.X.shape[1])


def conjugate_gradients(A: Product, b: np.ndarray, iterations: int) -> np.ndarray:
    """The steps x_i - x_{i-1} of CG on A x = b from x_0 = 0, for each column of b: (iterations, n, t).

    Hestenes and Stiefel (1952), the paper's Alg. S1 without preconditioner and without reorthogonalisation.
    It returns fewer steps if nothing is left to solve.
    """
    steps = np.zeros((iterations, *b.shape))
    r, p = b.copy(), b.copy()
    rr = (r**2).sum(axis=0)
    for i in range(iterations):
        if not rr.any():
            return steps[:i]
        Ap = A(p)
        alpha = _ratio(rr, (p * Ap).sum(axis=0))
        steps[i] = alpha * p
        r = r - alpha * Ap
        rr, before = (r**2).sum(axis=0), rr
        p = r + _ratio(rr, before) * p
    return steps


def lanczos(A: Product, start: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, and the diagonal and subdiagonal of T = Q^T A Q, with full reorthogonalisation, twice."""
    Q = np.zeros((len(start), iterations), order="F")
    alpha, beta = np.zeros(iterations), np.zeros(iterations)
    q = start / np.linalg.norm(start)
    for j in range(iterations):
        Q[:, j] = q
        w = A(q[:, None])[:, 0]
        alpha[j], size = q @ w, np.linalg.norm(w)
        for _ in range(2):
            w -= Q[:, : j + 1] @ (Q[:, : j + 1].T @ w)
        beta[j] = np.linalg.norm(w)
        if beta[j] <= EXHAUSTED * size:
            return Q[:, : j + 1], alpha[: j + 1], beta[:j]
        q = w / beta[j]
    return Q, alpha, beta[:-1]


def tridiagonal_cholesky(alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The diagonal and subdiagonal of L with L L^T = T, as far as T is positive definite to rounding."""
    diagonal, below = np.zeros(len(alpha)), np.zeros(max(0, len(alpha) - 1))
    for j in range(len(alpha)):
        below_j = beta[j - 1] / diagonal[j - 1] if j else 0.0
        pivot = alpha[j] - below_j**2
        if not pivot > 0:
            return diagonal[:j], below[: max(0, j - 1)]
        diagonal[j] = np.sqrt(pivot)
        if j:
            below[j - 1] = below_j
    return diagonal, below


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, or 0 if b is 0: a solved column stays as it is."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _prefix_sums(terms: np.ndarray) -> np.ndarray:
    """The sums of the first 0, 1, 2, ... terms."""
    return np.concatenate([np.zeros((1, *terms.shape[1:])), np.cumsum(terms, axis=0)])


def _probe(probe: ArrayLike, n: int) -> np.ndarray:
    vector = finite("probe", as_float64("probe", probe))
    if vector.shape != (n,) or not vector.any():
        raise InputError(
            f"probe has shape {vector.shape}; expected ({n},), one value per row of X, not all of them zero."
        )
    return vector

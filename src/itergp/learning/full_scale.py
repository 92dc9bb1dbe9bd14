"""The full-scale likelihood: each observation given some rows spread over all data, and its nearest earlier
ones.

As prediction is local on top of global, so is this (a "full-scale Vecchia" approximation, VIF). The rows Z
come first in the order and into every conditioning set, so it is a density of all data, and with as many rows
or neighbours as there are it is the log marginal likelihood. Given y_Z, with L L^T = k(Z, Z) + N_Z, the other
rows have the covariance and the mean

    k(x, x') - a(x) . a(x'),    a(x) . u,    where a(x) = L^{-1} k(Z, x) and u = L^{-1} y_Z,

so that neighbours work on small matrices as before. Gradients go back through a, u and L by hand.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from itergp.data.rows import Rows
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.neighbours import in_order
from itergp.learning.parameters import Evaluation
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Tick, Weights, no_tick
from itergp.linalg.gram import Earlier, Gram
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, added

GLOBAL = 128  # rows in every conditioning set
LEAST = 1e-10  # of the variance, added to the diagonal of k(Z, Z) so that it has a Cholesky factor


@dataclass(frozen=True, eq=False)
class FullScaleLikelihood:
    """An objective with fixed neighbours, the nearest in the metric of the kernel `at` which it was made. The
    first rows are Z."""

    rows: Rows  # in their random order
    given: Earlier  # of rows after Z
    size: int  # of Z
    compute: Compute = Compute()
    tick: Tick = no_tick

    @staticmethod
    def at(
        kernel: Kernel,
        rows: Rows,
        neighbours: int = 30,
        size: int = GLOBAL,
        batch: int | None = None,
        seed: int = 0,
        compute: Compute = Compute(),
        tick: Tick = no_tick,
    ) -> "FullScaleLikelihood":
        """Of `batch` random rows (None: all) beside the first `size`, in the random order of `seed`."""
        order, chosen = in_order(rows.n, batch, seed)
        m, size = max(1, min(neighbours, rows.n - 1)), min(size, rows.n)
        given = Gram(kernel, rows.X, compute).earlier(order, m, chosen, tick)
        later = given.chosen >= size
        J = np.where(given.J[later] < size, -1, given.J[later])  # Z is known already
        given = replace(given, chosen=given.chosen[later], J=np.ascontiguousarray(J))
        return FullScaleLikelihood(rows.reordered(order), given, size, compute, tick)

    @property
    def batch(self) -> int:
        """The number of rows that it is the likelihood of, without Z."""
        return self.given.chosen.size

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        return sound(kernel, lambda: self._evaluate(kernel, noise))

    def _evaluate(self, kernel: Kernel, noise: float) -> Evaluation:
        rows, share, Z = self.rows, 1.0 / self.rows.precision, slice(0, self.size)
        gram, of_Z = (Gram(kernel, X, self.compute) for X in (rows.X, rows.X[Z]))
        L = _factor(gram, rows.X[Z], noise * share[Z], kernel)
        A = _solved(L, gram.dense(rows.X[Z], rows.X))
        u = _solved(L, rows.Y[Z])
        weights = Weights.empty(self.batch, self.given.J.shape[1], rows.t)
        given = self.given.of(rows.Y - A.T @ u, share, np.ascontiguousarray(A.T), weights)
        value, slopes, slope = self.given.likelihood(kernel, noise, given, self.tick)
        scale = (rows.n - self.size) / max(1, self.batch)
        later = _slopes_of_given(self.given, weights, A, u)
        G_A, G_u = (scale * part for part in later)
        G_KZX, G_KZZ = _backwards(L, A, u, G_A, G_u + u, rows.t / np.diag(L))
        own = 0.5 * (u**2).sum() + rows.t * (np.log(np.diag(L)).sum() + 0.5 * self.size * np.log(2.0 * np.pi))
        slopes = Slopes({path: scale * np.asarray(part) for path, part in slopes.items()})
        slopes = added(slopes, gram.weighted_gradient(rows.X[Z], rows.X, G_KZX)[0])
        slopes = added(slopes, of_Z.symmetric_gradient(G_KZZ, self.tick))
        in_noise = scale * slope + float(np.diag(G_KZZ) @ share[Z])
        return per_observation(rows, noise, scale * value + float(own), slopes, in_noise)


def _factor(gram: Gram, Z: np.ndarray, N: np.ndarray, kernel: Kernel) -> np.ndarray:
    K = gram.dense(Z, Z)
    K[np.diag_indices(len(Z))] += N + LEAST * float(np.max(kernel.diagonal(Z)))
    return scipy.linalg.cholesky((K + K.T) / 2, lower=True, check_finite=False)


def _solved(L: np.ndarray, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    return scipy.linalg.solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False)


def _slopes_of_given(
    given: Earlier, weights: Weights, A: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The slopes of the rows' values in A and in u: through covariances less A^T A, and y less A^T u."""
    points = np.concatenate([given.J, given.chosen[:, None]], axis=1)
    there = points >= 0
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])

    def sparse(values: np.ndarray) -> Any:
        return sp.csr_array((values[there], points[there], starts), shape=(len(points), A.shape[1]))

    W, Q, At = sparse(weights.w), sparse(weights.q), A.T
    in_y = -(W.T @ weights.pull)  # (n, t)
    G_A = -(W.T @ (Q @ At) + Q.T @ (W @ At)).T - u @ in_y.T
    return G_A, -A @ in_y


def _backwards(
    L: np.ndarray, A: np.ndarray, u: np.ndarray, G_A: np.ndarray, G_u: np.ndarray, in_diagonal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """From slopes in A = L^{-1} K_ZX, u = L^{-1} y_Z and the diagonal of L to those in K_ZX and L L^T."""
    G_KZX = _solved(L, G_A, transposed=True)
    G_L = -np.tril(G_KZX @ A.T + _solved(L, G_u, transposed=True) @ u.T) + np.diag(in_diagonal)
    P = np.tril(L.T @ G_L)  # the Cholesky factor's own slope
    P[np.diag_indices(len(P))] *= 0.5
    S = _solved(L, _solved(L, P, transposed=True).T, transposed=True)  # L^{-T} P L^{-1}, transposed
    return G_KZX, (S + S.T) / 2.0

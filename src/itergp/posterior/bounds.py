"""Bounds on the exact GP's variance from a few passes over K.

For any weights c, with e = k_x - K_hat c, the exact GP has k_*(x, x) = k0 - c^T (k_x + e) - e^T K_hat^{-1} e.
So

    k0 - c^T (k_x + e) - e^T N^{-1} e  <=  k_*(x, x)  <=  k0 - c^T (k_x + e).

Weights come from the actions and the rows near each point, then from conjugate gradients on all points
at once. The bounds do not depend on how weights were found: they use only the last product, which is in
float64.
"""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from itergp.linalg.basis import Basis
from itergp.linalg.compute import require_bytes
from itergp.linalg.orthonormal import orthonormalise
from itergp.solver.problem import Problem

if TYPE_CHECKING:
    from itergp.posterior.at import At
    from itergp.posterior.combined import Posterior

BYTES = 2**30  # for the n x points arrays that are alive at once
ARRAYS = 8
POINTS = 256  # points per block, at most
INDEPENDENT = 1e-7  # what is left of a unit direction in the span of others


@dataclass(frozen=True, eq=False)
class Bounds:
    """lower <= k_*(x, x) <= upper, guaranteed."""

    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, eq=False)
class Weights:
    """c for each point, n x m, and K c as far as it is known: the start of conjugate gradients."""

    C: np.ndarray
    KC: np.ndarray


@dataclass(frozen=True, eq=False)
class System:
    """K_hat C = K_x for a block of points, on all rows except `without`; P approximates K_hat."""

    posterior: "Posterior"
    K_x: np.ndarray
    without: np.ndarray

    @property
    def problem(self) -> Problem:
        return self.posterior.problem

    def outside(self, V: np.ndarray) -> np.ndarray:
        """V, set to zero on the excluded rows."""
        V[self.without] = 0.0
        return V

    def residual(self, C: np.ndarray, KC: np.ndarray) -> np.ndarray:
        return self.outside(self.K_x - KC - self.problem.N[:, None] * C)


def variance_bounds(at: "At", neighbours: int, passes: int) -> Bounds:
    """Bounds at any points, block by block; `passes` per block include the one that checks."""
    posterior, problem, found = at.posterior, at.posterior.problem, []
    for points in batches(len(at.X), problem.n):
        some = at.some(points)
        system = System(posterior, problem.gram.dense(problem.X, some.X), np.zeros(0, dtype=np.intp))
        weights = initial(system, *some.local(neighbours).weights())
        found.append(bounded(system, some.k0, weights, passes))
    return joined(found)


def joined(found: list[Bounds]) -> Bounds:
    return Bounds(np.concatenate([one.lower for one in found]), np.concatenate([one.upper for one in found]))


def batches(points: int, n: int) -> list[slice]:
    """Blocks of about equal size that fit in memory."""
    most = int(np.clip(BYTES // (8 * ARRAYS * n), 16, POINTS))
    ends = np.linspace(0, points, -(-points // most) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def initial(system: System, g: np.ndarray, J: np.ndarray, g_J: np.ndarray) -> Weights:
    """C = Q g + E_J g_J without the excluded rows, and K C from K Q and the neighbours' columns: no pass."""
    basis, F = system.posterior.state.basis, system.without
    m = len(J)
    require_bytes(
        8.0 * ARRAYS * basis.n * m,
        f"weights of {basis.n} rows for {m} points",
        "Ask for fewer points at once.",
    )
    C = basis.combine(g)
    change = np.zeros((basis.n, m))
    change[F] = -C[F]
    change[J, np.arange(m)[:, None]] = g_J
    rows = np.flatnonzero(change.any(axis=1))
    KC = basis.KQ.combine(g)
    if rows.size:
        KC += system.problem.gram.multiply_columns(rows, change[rows])
    return Weights(C + change, KC)


def bounded(system: System, k0: np.ndarray, weights: Weights, passes: int) -> Bounds:
    """Improve the weights with all passes but the last, which measures their accuracy in float64."""
    problem, gram = system.problem, system.problem.gram
    K_x, N = system.outside(system.K_x), problem.N[:, None]
    C = improved(system, weights, passes - 1)
    KC = gram.multiply_in_float64(C)
    e = system.residual(C, KC)
    size = np.linalg.norm(C, axis=0)
    # The rounding of this product: a vector of length `slack`, or less.
    norms = np.linalg.norm(KC, axis=0) / np.maximum(size, np.finfo(np.float64).tiny)
    slack = gram.rounding(gram.n, norms, "float64") * size
    upper = k0 - (C * (K_x + e)).sum(axis=0)
    rounding = slack * size + 64 * np.finfo(np.float64).eps * (k0 + np.abs(C * K_x).sum(axis=0))
    lowest = problem.N.min()
    left = (
        (np.sqrt((e**2 / N).sum(axis=0)) + slack / np.sqrt(lowest)) ** 2
        if lowest > 0
        else np.full_like(k0, np.inf)
    )
    return Bounds(np.maximum(upper - rounding - left, problem.variance_floor(k0)), upper + rounding)


def improved(system: System, weights: Weights, passes: int) -> np.ndarray:
    """Preconditioned block conjugate gradients: every point may use the directions of all."""
    problem, C = system.problem, weights.C
    if passes < 1:
        return C
    R = system.residual(C, weights.KC)
    precondition = system.posterior.preconditioner().solve if problem.N.min() > 0 else np.copy
    S = directions(system, precondition(R))
    for left in reversed(range(passes)):
        if not S.shape[1]:
            break
        KS = problem.gram.multiply(S)
        tau = problem.gram.rounding(problem.n, np.linalg.norm(KS, axis=0))
        KS = system.outside(KS + problem.N[:, None] * S)
        A = S.T @ KS
        try:
            L = scipy.linalg.cho_factor((A + A.T) / 2 + np.diag(tau), lower=True)
        except np.linalg.LinAlgError:  # without noise, rounding hides the remainder
            break
        B = scipy.linalg.cho_solve(L, S.T @ R)
        C, R = C + S @ B, R - KS @ B
        if left:
            Z = precondition(R)
            S = directions(system, Z - S @ scipy.linalg.cho_solve(L, KS.T @ Z))
    return C


def directions(system: System, Z: np.ndarray) -> np.ndarray:
    """An orthonormal basis of these columns, rounded as in the tiles, zero on the excluded rows."""
    Z = system.outside(Z)
    norms = np.linalg.norm(Z, axis=0)
    some = norms > 0
    if not some.any():
        return Z[:, :0]
    S, *_ = orthonormalise(Z[:, some] / norms[some], Basis.empty(len(Z)), INDEPENDENT)
    return S.astype(system.problem.gram.dtype).astype(np.float64)

"""Other noise and other targets on the same rows, with the actions that were taken: no pass over K.

This is what merged duplicates need: a row that arrives again changes the mean and the noise of the row
that stands for it. And what several targets need that share K and the actions, but not the noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from itergp.linalg.basis import Basis, Factor
from itergp.linalg.gram import UNIT
from itergp.solver.problem import Problem
from itergp.solver.state import FINER, State, Status

SLAB = 512  # rows or columns handled at once


def reweighted(state: State, noise: ArrayLike, y: ArrayLike) -> State:
    """The state that the same actions would have led to with this noise and these targets."""
    return _under(
        state, state.problem.reweighted(noise, y), _gram(state.basis, state.basis.KQ.between, state.tau)
    )


def target_states(state: State, noises: Sequence[ArrayLike]) -> tuple[State, ...]:
    """The states that the same actions would have led to for each of several targets alone, with noises of
    their own."""
    QKQ = _gram(state.basis, state.basis.KQ.between, state.tau)
    return tuple(_under(state, state.problem.of_target(j, noise), QKQ) for j, noise in enumerate(noises))


def _under(state: State, problem: Problem, QKQ: np.ndarray) -> State:
    """The same actions for another problem with the same K.

    Everything follows from Q and K Q (errata page, "One product per step"): G = Q^T K Q + Q^T N Q +
    diag(tau) anew, then z = L^{-1} Q^T b, v = Q c, r = b - K Q c - N v, and the variances k_jj - |F_j|^2
    with F = K Q L^{-T}.
    """
    basis, N, rank = state.basis, problem.N[:, None], state.rank
    A = noise_gram(basis, problem)
    factor, tau = _factor(QKQ + A, state.tau)
    z = factor.solve(basis.inner(problem.b))
    c = factor.solve_transposed(z[:rank], rank)
    v = basis.combine(c)
    return replace(
        state,
        problem=problem,
        factor=factor,
        factor_A=factor_of_noise(problem, lambda: A),
        z=z,
        tau=tau,
        representer_weights=v,
        residual=problem.b - basis.KQ.combine(c) - N * v,
        training_variance=_training_variance(problem, basis, factor, rank),
        trace_GA=float(np.trace(factor.solve_transposed(factor.solve(A[:rank, :rank], rank), rank))),
        policy=None,  # what a policy prepared was for the old noise: it starts anew
        stage=None,
        status=Status.EXACT if rank == problem.n else None,
    )


def _gram(basis: Basis, columns: Callable[[int, int], np.ndarray], tau: np.ndarray) -> np.ndarray:
    """Q^T M for a matrix M that is given by its columns, some at a time; symmetric but for rounding.

    Entries come from both sides, or from the finer one alone where the columns differ in precision (`tau`
    bounds their errors).
    """
    parts = [
        basis.inner(columns(start, min(start + SLAB, basis.size))) for start in range(0, basis.size, SLAB)
    ]
    M = np.concatenate(parts, axis=1) if parts else np.zeros((0, 0))
    finer = tau[None, :] < FINER * tau[:, None]  # column j against row i
    return np.where(finer, M, np.where(finer.T, M.T, (M + M.T) / 2))


def _factor(G: np.ndarray, tau: np.ndarray) -> tuple[Factor, np.ndarray]:
    """L L^T = G + diag(tau); where rounding leaves G indefinite, tau is raised, which only raises
    variances."""
    if not len(G):
        return Factor.empty(), tau
    while True:
        try:
            return Factor.of(np.linalg.cholesky(G + np.diag(tau))), tau
        except np.linalg.LinAlgError:
            tau = 10.0 * np.maximum(tau, UNIT["float64"] * np.abs(np.diag(G)).max())


def noise_gram(basis: Basis, problem: Problem) -> np.ndarray:
    """A = Q^T N Q"""
    return _gram(
        basis, lambda start, stop: problem.N[:, None] * basis.dense(start, stop), np.zeros(basis.size)
    )


def factor_of_noise(problem: Problem, A: Callable[[], np.ndarray]) -> Factor | None:
    """The factor of A = Q^T N Q, where the noise differs between rows."""
    return Factor.of(np.linalg.cholesky(A())) if problem.noise_differs else None


def _training_variance(problem: Problem, basis: Basis, factor: Factor, rank: int) -> np.ndarray:
    diagonal = problem.gram.diagonal()
    variance = diagonal.copy()
    for start in range(0, problem.n, SLAB):
        rows = np.arange(start, min(start + SLAB, problem.n))
        for f in factor.solve(basis.KQ.rows(rows)[:, :rank].T, rank):  # rows of (K D)^T
            variance[rows] -= f * f
    return np.maximum(variance, problem.variance_floor(diagonal))

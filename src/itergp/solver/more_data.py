"""The same actions for other data: more rows, other noise, other targets. No pass over K.

Merged duplicates need this: a row that arrives again changes the mean and the noise of the merged row. So do
several targets that share K and the actions, but not the noise.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from itergp.linalg.basis import Basis, Factor
from itergp.linalg.blas import NARROW
from itergp.linalg.columns import Columns
from itergp.linalg.gram import UNIT, Gram
from itergp.linalg.products import lowered, unstored
from itergp.solver.belief import SLAB, Belief, gram_of, noise_gram, trace_of_solve
from itergp.solver.problem import Problem
from itergp.solver.state import State

ENTRIES = 2**24  # of K per batch: 128 MB


def extend(state: State, X: ArrayLike, y: ArrayLike, noise: ArrayLike | None = None) -> State:
    """More rows, same actions (Thm. S7): they are zero on the new rows, so no prediction changes."""
    belief = state.belief
    problem, n = belief.problem.extended(X, y, noise), belief.problem.n
    basis, variance, Kv_new = _on_new_rows(belief, problem)
    k0 = problem.gram.diagonal()[n:]
    longer = replace(belief, problem=problem, basis=basis, factor_A=_same_A(belief, problem))
    return state.believing(
        longer.knowing(
            representer_weights=np.concatenate(
                [belief.representer_weights, np.zeros((problem.n - n, problem.targets))]
            ),
            residual=np.concatenate([belief.residual, problem.b[n:] - Kv_new]),
            training_variance=np.concatenate(
                [belief.training_variance, np.maximum(variance, problem.variance_floor(k0))]
            ),
            trace_GA=belief.trace_GA,
        )
    )


def _on_new_rows(belief: Belief, problem: Problem) -> tuple[Basis, np.ndarray, np.ndarray]:
    """The actions for more rows, and there the variance and K v."""
    n, rank, basis = belief.problem.n, belief.rank, unstored(belief.basis, problem.gram)
    k0 = problem.gram.diagonal()[n:]
    if basis.lean:
        return _in_sweeps(belief, basis.with_rows(np.zeros((len(k0), 0)), problem.gram), k0)
    KQ_new = _products_on_new_rows(basis, problem, n)
    F_new = belief.factor.solve(KQ_new[:, :rank].T, rank)  # rows of K D
    # one action at a time, as in the loop
    variance = np.subtract.reduce(np.concatenate([k0[None], F_new**2]))
    # K v at the new rows: K Q c, or K D z, which saves the solve for c if there are few rows
    Kv_new = F_new.T @ belief.z[:rank] if len(k0) <= NARROW else KQ_new[:, :rank] @ belief.coefficients
    return basis.with_rows(KQ_new, problem.gram), variance, Kv_new


def _in_sweeps(belief: Belief, basis: Basis, k0: np.ndarray) -> tuple[Basis, np.ndarray, np.ndarray]:
    """The same where products are not stored: slab by slab."""
    n, rank = belief.problem.n, belief.rank
    variance, Kv_new = k0.copy(), np.zeros((len(k0), belief.problem.targets))
    C = np.linalg.inv(belief.factor.L(rank)).T
    for rows, F in basis.remade.sweep(C, first=n):
        new = slice(rows.start - n, rows.stop - n)
        variance[new] = lowered(variance[new], F)
        Kv_new[new] = F @ belief.z[:rank]
    return basis, variance, Kv_new


def reweighted(state: State, noise: ArrayLike, y: ArrayLike) -> State:
    """The state that the same actions would have reached with this noise and these targets."""
    belief = state.belief
    return state.believing(_under(belief, belief.problem.reweighted(noise, y), _projected_K(belief)))


def target_beliefs(belief: Belief, noises: Sequence[ArrayLike]) -> tuple[Belief, ...]:
    """The result of the same actions for each of several targets alone, each with its own noise."""
    QKQ = _projected_K(belief)
    return tuple(_under(belief, belief.problem.of_target(j, noise), QKQ) for j, noise in enumerate(noises))


def _under(belief: Belief, problem: Problem, QKQ: np.ndarray) -> Belief:
    """The same actions for another problem with the same K: recomputes G = Q^T K Q + Q^T N Q + diag(tau)."""
    A = noise_gram(belief.basis, problem)
    factor, tau = _factor(QKQ + A, belief.tau)
    under = belief.under(problem, factor, _factor_A(A, problem), tau)
    return under.knowing(trace_GA=trace_of_solve(factor, A, belief.rank))


def _projected_K(belief: Belief) -> np.ndarray:
    """Q^T K Q"""
    if belief.basis.lean:
        return belief.basis.remade.against(belief.basis.remade)
    return gram_of(belief.basis, belief.basis.KQ.between, belief.tau)


def _factor(G: np.ndarray, tau: np.ndarray) -> tuple[Factor, np.ndarray]:
    """L L^T = G + diag(tau); if G is indefinite by rounding, tau is raised, which only raises variances."""
    if not len(G):
        return Factor.empty(), tau
    while True:
        try:
            return Factor.of(np.linalg.cholesky(G + np.diag(tau))), tau
        except np.linalg.LinAlgError:
            tau = 10.0 * np.maximum(tau, UNIT["float64"] * np.abs(np.diag(G)).max())


def _factor_A(A: np.ndarray, problem: Problem) -> Factor | None:
    """The factor of A = Q^T N Q, if the noise differs between rows."""
    return Factor.of(np.linalg.cholesky(A)) if problem.noise_differs else None


def _same_A(belief: Belief, problem: Problem) -> Factor | None:
    """A = Q^T N Q is unchanged by zero rows, but is needed once the noise differs between rows."""
    if belief.factor_A is None and problem.noise_differs:
        return _factor_A(noise_gram(belief.basis, belief.problem), problem)
    return belief.factor_A if problem.noise_differs else None


def _products_on_new_rows(basis: Basis, problem: Problem, n: int) -> np.ndarray:
    """(K Q)[n:], at least as accurate as on the old rows; sparse ones from columns, in float64."""
    gram, out = problem.gram, np.zeros((problem.n - n, basis.size))
    sparse, Q = basis.sparse_actions()
    if sparse.any():
        support = np.unique(Q.indices)
        Q_T, step = Q[support].T.tocsr(), max(1, ENTRIES // support.size)
        for start in range(n, problem.n, step):
            rows = slice(start, min(start + step, problem.n))
            out[start - n : rows.stop - n, sparse] = (Q_T @ gram.dense(gram.X[support], gram.X[rows])).T
    if sparse.all():
        return out
    parts = [part for part in basis.parts if isinstance(part, Columns)]
    if problem.n - n <= NARROW:  # K's columns and one read of Q, without the copy that a pass makes
        K = gram.columns(np.arange(n, problem.n))[:n]
        out[:, ~sparse] = np.concatenate([part.inner(K) for part in parts]).T
    else:
        blocks = (block for part in parts for block in part.blocks(0, part.size, SLAB))
        out[:, ~sparse] = np.concatenate([_multiplied(gram, block, n) for block in blocks], axis=1)
    return out


def _multiplied(gram: Gram, Q: np.ndarray, n: int) -> np.ndarray:
    """(K Q)[n:] for actions that are zero from row n on."""
    return gram.multiply_rows(np.concatenate([Q, np.zeros((gram.n - n, Q.shape[1]))]), n)

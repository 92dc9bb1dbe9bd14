"""More rows for a state that has acted already: the actions stay, and are zero on the new rows (Thm. S7)."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from itergp.linalg.basis import Basis, Columns, Factor
from itergp.linalg.blas import NARROW
from itergp.solver.problem import Problem
from itergp.solver.reweight import factor_of_noise, noise_gram
from itergp.solver.state import State

ENTRIES = 2**24  # of K at once: 128 MB


def extend(state: State, X: ArrayLike, y: ArrayLike, noise: ArrayLike | None = None) -> State:
    """More data, same actions (Thm. S7): they are zero on the new rows, so no prediction changes."""
    old, problem = state.problem, state.problem.extended(X, y, noise)
    n, basis = old.n, state.basis
    KQ_new = _products_on_new_rows(basis, problem, n)
    F_new = state.factor.solve(KQ_new[:, : state.rank].T, state.rank)  # rows of K D
    k0 = problem.gram.diagonal()[n:]
    # one action after the other, as in the loop
    variance = np.subtract.reduce(np.concatenate([k0[None], F_new**2]))
    # K v at the new rows: K Q c, or K D z, which spares a few rows the solve for c
    Kv_new = (
        F_new.T @ state.z[: state.rank] if len(k0) <= NARROW else KQ_new[:, : state.rank] @ state.coefficients
    )
    return replace(
        state,
        problem=problem,
        basis=basis.with_rows(KQ_new),
        factor_A=_factor_A(state, problem),
        policy=None,  # what a policy prepared was for the old rows: it starts anew
        stage=None,
        representer_weights=np.concatenate(
            [state.representer_weights, np.zeros((problem.n - n, problem.targets))]
        ),
        residual=np.concatenate([state.residual, problem.b[n:] - Kv_new]),
        training_variance=np.concatenate(
            [state.training_variance, np.maximum(variance, problem.variance_floor(k0))]
        ),
        status=None,
    )


def _products_on_new_rows(basis: Basis, problem: Problem, n: int) -> np.ndarray:
    """(K Q)[n:], no action's coarser than its products on the old rows: sparse ones from columns, in
    float64."""
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
    if problem.n - n <= NARROW:  # K's columns, and one look at Q: no copy of it, as a pass makes
        K = gram.columns(np.arange(n, problem.n))[:n]
        out[:, ~sparse] = np.concatenate(
            [part.inner(K) for part in basis.parts if isinstance(part, Columns)]
        ).T
    else:
        dense = basis.dense(0, basis.size)[:, ~sparse]
        out[:, ~sparse] = gram.multiply_rows(
            np.concatenate([dense, np.zeros((problem.n - n, dense.shape[1]))]), n
        )
    return out


def _factor_A(state: State, problem: Problem) -> Factor | None:
    """A = Q^T N Q does not change with zero rows; but it is needed once the noise differs between rows."""
    if state.factor_A is not None and problem.noise_differs:
        return state.factor_A
    return factor_of_noise(problem, lambda: noise_gram(state.basis, state.problem))

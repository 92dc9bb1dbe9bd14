"""What predictions read of a posterior alone: made once for all threads, left out of files and pickles."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from itergp.linalg.columns import Columns
from itergp.linalg.gram import UNIT
from itergp.linalg.memory import available_bytes
from itergp.solver.problem import Problem
from itergp.solver.state import State

DENSE = 0.25  # share of entries that are not zero, from which a sparse product would be slower
KEPT = 2**28  # bytes of weights at training rows, of which the system gives out what is used
WIDE = 4  # rows for each action, up to which k at these rows is kept while it is multiplied


class Prepared:
    """Rounding, sparse actions, and weights at training rows, of a posterior.

    Each value is made by the first thread that asks; another that asks meanwhile makes the same again.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        self.problem, self.state = problem, state

    def rounding(self, neighbours: int) -> float:
        """tau on the local block too, for the rows of K Q that enter: its incoherent part."""
        return max(self._of_products, UNIT["float64"] * self._largest * 64 * neighbours)

    @cached_property
    def _largest(self) -> float:
        return float(self.problem.gram.diagonal().max())

    @cached_property
    def _of_products(self) -> float:
        problem, state = self.problem, self.state
        return min(
            float(state.tau[: state.rank].max(initial=0.0)),
            float(problem.gram.rounding(problem.n, dtype=state.coarsest)),
        )

    @cached_property
    def support(self) -> np.ndarray | None:
        """The rows on which the actions are not zero, if all actions are sparse."""
        return self.state.basis.support()

    @cached_property
    def actions(self) -> Any:
        """Q at the support: sparse, or dense if most entries are not zero."""
        state = self.state
        Q: Any = state.basis.actions(state.rank)[self.support]
        return Q.toarray() if Q.nnz > DENSE * Q.shape[0] * Q.shape[1] else sp.csr_array(Q)

    @property
    def dense_actions(self) -> np.ndarray:
        return self.actions if isinstance(self.actions, np.ndarray) else self.actions.toarray()

    @property
    def narrow(self) -> bool:
        """Whether few rows are acted on."""
        return self.support is not None and self.support.size <= WIDE * self.state.rank

    @cached_property
    def _parts(self) -> list[Any]:
        """The blocks of Q, such that rows of them are found quickly."""
        parts = self.state.basis.parts
        return [part if isinstance(part, Columns) else sp.csr_array(part) for part in parts]

    def weights(self, rows: np.ndarray) -> np.ndarray:
        """The rows of K_hat Q L^{-T}, (rows, rank): made when they are first asked for, and kept.

        Two threads may make the same row at once: to the bit, so it does not matter which of them is kept.
        """
        if not self.state.rank or self._kept is None:
            return self._weights(rows)
        H, made = self._kept
        new = rows[~made[rows]]
        if new.size:
            H[new] = self._weights(new)
            made[new] = True
        return H if rows.size == len(H) else H[rows]  # a copy of all of them would take as long as its use

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Room for the weights of all rows, and which are made; None if they would take much memory."""
        n, size = self.problem.n, 8 * self.problem.n * self.state.rank
        if size > KEPT or 4 * size > available_bytes():
            return None
        return np.empty((n, self.state.rank)), np.zeros(n, dtype=bool)

    def _weights(self, rows: np.ndarray) -> np.ndarray:
        if not self.state.rank:
            return np.zeros((rows.size, 0))
        return self.problem.gram.solve_lower(self.state.L, self.K_hat_Q(rows))

    def K_hat_Q(self, rows: np.ndarray) -> np.ndarray:
        """(K Q + N Q)_rows, (rows, rank)"""
        problem, state = self.problem, self.state
        out, N, start = state.basis.KQ.rows(rows), problem.N[rows], 0
        for part in self._parts:
            if isinstance(part, Columns):
                out[:, start : start + part.size] += N[:, None] * part.rows(rows)
                start += part.size
            else:
                row, column, entry = entries(part, rows)
                out[row, start + column] += N[row] * entry
                start += part.shape[1]
        return out[:, : state.rank]


def entries(Q: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of some rows of a sparse matrix: where in `rows`, column, and value.

    SciPy would make a matrix of these rows, which takes longer than all that is done with it.
    """
    first, counts = Q.indptr[rows], Q.indptr[rows + 1] - Q.indptr[rows]
    where = np.repeat(np.arange(rows.size), counts)
    flat = np.arange(where.size) + np.repeat(first - np.cumsum(counts) + counts, counts)
    return where, Q.indices[flat], Q.data[flat]

"""Accepting the columns of a block, one after the other (Alg. 1, lines 9 to 14): weights, residual, variance.

Column by column, so that there are the same bits wherever a budget cuts, and variances never increase. Where
K Q is not stored, slabs of rows are done one after the other, each with all columns of the block. Where Q and
K Q live elsewhere, weights, residual and variance may live there too.
"""

from dataclasses import dataclass

import numpy as np

from itergp.linalg.blas import blas_threads, dense_threads
from itergp.linalg.columns import Columns, Vectors
from itergp.linalg.engines import Tick
from itergp.linalg.products import lowered
from itergp.solver.belief import Belief

ROWS = 1024  # at a time, so that a block of actions stays in the cache


def beginning(belief: Belief) -> "Accepted | AcceptedElsewhere":
    """What the next actions are added to."""
    KQ, problem, there = belief.basis.KQ, belief.problem, belief.elsewhere
    if not (isinstance(KQ, Columns) and KQ.with_vectors):
        return Accepted.of(belief)
    if there is None:
        start = belief.representer_weights, belief.residual, belief.training_variance
        there = KQ.vectors(*start, problem.N, problem.variance_floor(problem.gram.diagonal()))
    return AcceptedElsewhere(belief, there, belief.trace_GA)


@dataclass(eq=False)
class AcceptedElsewhere:
    """The same where Q and K Q are: nothing of n numbers crosses."""

    belief: Belief
    there: Vectors
    trace_GA: float

    def add(self, block: range, columns: range, tick: Tick) -> None:
        C, basis = in_actions(self.belief, block), self.belief.basis
        assert isinstance(basis.KQ, Columns)
        z = self.belief.z[columns.start : columns.stop]
        self.there, more = self.there.after(basis.split(C), basis.KQ, C, z, columns.start - block.start)
        self.trace_GA += more

    def belief_after(self, rank: int) -> Belief:
        return self.belief.accepted(rank, _elsewhere=self.there, trace_GA=self.trace_GA)


@dataclass(eq=False)
class Accepted:
    """What the loop updates in place, and hands over to the belief at the end."""

    belief: Belief
    v: np.ndarray
    r: np.ndarray
    variance: np.ndarray
    trace_GA: float

    @staticmethod
    def of(belief: Belief) -> "Accepted":
        return Accepted(
            belief,
            belief.representer_weights.copy(),
            belief.residual.copy(),
            belief.training_variance.copy(),
            belief.trace_GA,
        )

    def add(self, block: range, columns: range, tick: Tick) -> None:
        """These columns of a block."""
        if self.belief.basis.lean_until(block.stop):
            self._by_slabs(block, columns, tick)
        else:
            self._at_once(block, columns)

    def _at_once(self, block: range, columns: range) -> None:
        belief = self.belief
        D, F = new_directions(belief, block)
        some, z = slice(columns.start - block.start, columns.stop - block.start), belief.z
        traces = np.zeros(len(columns))
        with blas_threads(1):  # on a busy machine, threads wait longer for each other than one would work
            for start in range(0, len(D), ROWS):
                rows = slice(start, start + ROWS)
                # search directions with eta = 1, and K times them; columns of the whole would be strided
                D_T, F_T = np.ascontiguousarray(D[rows, some].T), np.ascontiguousarray(F[rows, some].T)
                ND_T = belief.problem.N[rows] * D_T
                traces += [d @ Nd for d, Nd in zip(D_T, ND_T, strict=True)]
                self.variance[rows] = lowered(self.variance[rows], F_T.T)
                F_T += ND_T
                for d, f, j in zip(D_T, F_T, columns, strict=True):
                    self.v[rows] += np.outer(d, z[j])
                    self.r[rows] -= np.outer(f, z[j])
        for trace in traces.tolist():
            self.trace_GA += trace

    def _by_slabs(self, block: range, columns: range, tick: Tick) -> None:
        belief, z, front = self.belief, self.belief.z, self.belief.basis.remade
        # all columns of the block, whichever are accepted: products with some round differently
        C, some = in_actions(belief, block), slice(columns.start - block.start, columns.stop - block.start)
        touched, D = front.support, front.weights(C)[:, some]
        ND = belief.problem.N[touched, None] * D
        for d, Nd, j in zip(D.T, ND.T, columns, strict=True):
            self.v[touched] += np.outer(d, z[j])
            self.trace_GA += float(d @ Nd)
        for rows, F in front.sweep(C, tick=tick):
            F = F[:, some]
            self.variance[rows] = lowered(self.variance[rows], F)
            inside = slice(*np.searchsorted(touched, [rows.start, rows.stop]))
            F[touched[inside] - rows.start] += ND[inside]
            for t in range(z.shape[1]):
                terms = [self.r[None, rows, t], F.T * z[columns.start : columns.stop, t, None]]
                self.r[rows, t] = np.subtract.reduce(np.concatenate(terms))

    def belief_after(self, rank: int) -> Belief:
        problem = self.belief.problem
        floor = problem.variance_floor(problem.gram.diagonal())
        return self.belief.accepted(
            rank,
            representer_weights=self.v,
            residual=self.r,
            training_variance=np.maximum(self.variance, floor, out=floor),
            trace_GA=self.trace_GA,
        )


def in_actions(belief: Belief, block: range) -> np.ndarray:
    """C with D_b = Q C: what of earlier actions makes the actions of a block conjugate, of length eta = 1."""
    start, stop = block.start, block.stop
    L = belief.factor.L(stop)
    with dense_threads(stop):
        back = -belief.factor.solve_transposed(L[start:, :start].T, start)  # the part along earlier actions
        return np.concatenate([back, np.eye(stop - start)]) @ np.linalg.inv(L[start:, start:]).T


def new_directions(belief: Belief, block: range) -> tuple[np.ndarray, np.ndarray]:
    """D_b = (Q_b - Q G^{-1} Q^T K_hat Q_b) L_bb^{-T} and F_b = K D_b"""
    C = in_actions(belief, block)
    return belief.basis.combine(C), belief.basis.KQ.combine(C)

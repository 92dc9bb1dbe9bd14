"""The n x r matrices of a run: the actions Q, the products K Q, and the Cholesky factor of their Gram matrix.

Dense ones are `Columns`, which say where their numbers live; sparse actions live here. Where products are not
stored, `products.py` makes them again. All are append-only (`columns.py`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from itergp import brief
from itergp.linalg.blas import NARROW
from itergp.linalg.columns import CHUNK, Columns, InMemory, claim

if TYPE_CHECKING:
    from itergp.linalg.gram import Gram
    from itergp.linalg.products import Products, Remade

PARTS = 8  # of dense and sparse actions in turn, from which on all are kept as dense ones
SLAB = 256  # rows of L per block, if there are many of them and few right-hand sides


@dataclass(frozen=True)
class Basis:
    """The actions Q, dense and sparse blocks in order, and K Q."""

    n: int
    parts: tuple[Columns | sp.csc_array, ...]
    KQ: "Columns | Products"

    __repr__ = brief.call

    @staticmethod
    def empty(n: int, columns: Columns | None = None) -> "Basis":
        """No actions yet; dense numbers will live where these empty `columns` are, or here."""
        return Basis(n, (), InMemory(n) if columns is None else columns)

    @property
    def size(self) -> int:
        return self.KQ.size

    @property
    def sparse(self) -> bool:
        """True if every action is sparse, so that predictions need only a few rows."""
        return all(not isinstance(part, Columns) for part in self.parts)

    @property
    def lean(self) -> bool:
        """True if no n x r numbers are stored: all actions are sparse, and their products are made again."""
        return self.KQ.lean and self.sparse

    @property
    def sharded(self) -> bool:
        """Whether sums over rows are those of shards, wherever these lie."""
        return any(isinstance(part, Columns) and part.sharded for part in (*self.parts, self.KQ))

    @property
    def elsewhere(self) -> bool:
        """Whether some of its numbers live outside of this process."""
        return any(isinstance(part, Columns) and part.elsewhere for part in (*self.parts, self.KQ))

    def lean_until(self, stop: int) -> bool:
        """Whether this is so for the first actions."""
        return self.KQ.lean and stop <= self.remade.size

    @property
    def remade(self) -> "Remade":
        """The products that are made again, of the first actions."""
        assert not isinstance(self.KQ, Columns)
        return self.KQ.front

    def append(self, Q: np.ndarray | sp.csc_array, KQ: "np.ndarray | Remade") -> "Basis":
        parts = list(self.parts)
        if sp.issparse(Q) and len(parts) >= PARTS and isinstance(parts[-1], Columns):
            Q = as_dense(Q)  # a stream, in which they alternate: many small products would take longer
        if sp.issparse(Q):
            if parts and not isinstance(parts[-1], Columns):
                parts[-1] = sp.csc_array(sp.hstack([parts[-1], Q]))
            else:
                parts.append(sp.csc_array(Q))
        elif parts and isinstance(parts[-1], Columns):
            parts[-1] = parts[-1].append(Q)
        else:
            # after sparse actions there may be few dense ones, again and again
            empty = self.KQ.empty()
            again = any(isinstance(part, Columns) for part in parts)
            parts.append((empty.few() if again else empty).append(Q))
        products = self.KQ.append(KQ) if isinstance(KQ, np.ndarray) else KQ.after(self.KQ)
        return Basis(self.n, tuple(parts), products)

    def inner(self, V: Any) -> np.ndarray:
        """Q^T V, for dense or sparse V"""
        products = [
            part.inner(as_dense(V)) if isinstance(part, Columns) else as_dense(part.T @ V)
            for part in self.parts
        ]
        return np.concatenate(products) if products else np.zeros((0, V.shape[1]))

    def split(self, C: np.ndarray) -> "list[tuple[Any, np.ndarray]]":
        """Parts of Q, and for each its rows of C: Q[:, :len(C)] @ C is the sum of their products."""
        found, start = [], 0
        for part in self.parts:
            size = part.size if isinstance(part, Columns) else part.shape[1]
            some = C[start : start + size]
            if len(some):
                found.append((part, some))
            start += size
        return found

    def combine(self, C: np.ndarray) -> np.ndarray:
        """Q[:, :len(C)] @ C"""
        out = np.zeros((self.n, C.shape[1]))
        for part, some in self.split(C):
            dense = isinstance(part, Columns)
            out += part.combine(some) if dense else np.asarray(part[:, : len(some)] @ some)
        return out

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Q[indices], dense."""
        parts = [
            part.rows(indices) if isinstance(part, Columns) else part[indices].toarray()
            for part in self.parts
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(indices), 0))

    def actions(self, stop: int) -> np.ndarray | sp.csc_array:
        """Q[:, :stop] as one array; sparse if every action is."""
        if self.sparse and self.parts:
            return sp.csc_array(sp.hstack(self.parts)[:, :stop])
        return self.dense(0, stop)

    def dense(self, start: int, stop: int) -> np.ndarray:
        """Q[:, start:stop] as a dense array."""
        out, first = [], 0
        for part in self.parts:
            size = part.size if isinstance(part, Columns) else part.shape[1]
            a, b = max(start - first, 0), min(stop - first, size)
            if b > a:
                out.append(part.between(a, b) if isinstance(part, Columns) else part[:, a:b].toarray())
            first += size
        return np.concatenate(out, axis=1) if out else np.zeros((self.n, 0))

    def projected(self, gram: "Gram", X: np.ndarray, stop: int) -> np.ndarray:
        """Q[:, :stop]^T k(rows, x) for each point x, (stop, points)."""
        if all(isinstance(part, InMemory) or sp.issparse(part) for part in self.parts):
            return gram.cross(X, self.dense(0, stop)).T
        parts = [
            part.projected(gram, X) if isinstance(part, Columns) else _projected(part, gram, X)
            for part in self.parts
        ]
        return np.concatenate(parts)[:stop]

    def sparse_actions(self) -> tuple[np.ndarray, sp.csc_array]:
        """A mask of the sparse actions, and these as one matrix."""
        mask = [
            np.full(part.size if isinstance(part, Columns) else part.shape[1], sp.issparse(part))
            for part in self.parts
        ]
        some = [part for part in self.parts if sp.issparse(part)]
        Q = sp.csc_array(sp.hstack(some)) if some else sp.csc_array((self.n, 0))
        return np.concatenate([np.zeros(0, dtype=bool), *mask]), Q

    def support(self) -> np.ndarray | None:
        """The rows touched by some action, if all actions are sparse; None if all rows count."""
        if not self.sparse:
            return None
        touched = [part.indices for part in self.parts]  # type: ignore[union-attr]  # all are sparse
        return np.unique(np.concatenate(touched)).astype(np.intp) if touched else np.zeros(0, dtype=np.intp)

    def spanned_rows(self) -> np.ndarray:
        """A mask of the rows whose unit vector is in the span of the actions: |Q^T e_j| = 1."""
        lengths = np.zeros(self.n)
        for part in self.parts:
            lengths += (
                part.squared_rows()
                if isinstance(part, Columns)
                else np.asarray(part.multiply(part).sum(axis=1))
            )
        return lengths > 1.0 - 1e-6

    def on(self, gram: "Gram") -> "Basis":
        """The same for another Gram of these rows: it makes the products that are not stored."""
        KQ = self.KQ
        return self if isinstance(KQ, Columns) or not KQ.lean else Basis(self.n, self.parts, KQ.on(gram))

    def with_rows(self, KQ_new: np.ndarray, gram: "Gram | None" = None) -> "Basis":
        """More data: actions are zero on the new rows (Thm. S7); their products are not.

        Products that are not stored need the Gram with these rows.
        """
        more = KQ_new.shape[0]
        grow = lambda part: (  # noqa: E731
            part.with_rows(np.zeros((more, part.size)))
            if isinstance(part, Columns)
            else sp.csc_array((part.data, part.indices, part.indptr), shape=(self.n + more, part.shape[1]))
        )
        if isinstance(self.KQ, Columns):
            products: Columns | Products = self.KQ.with_rows(KQ_new)
        else:
            assert gram is not None
            products = self.KQ.with_rows(KQ_new, gram)
        return Basis(self.n + more, tuple(grow(part) for part in self.parts), products)


def _projected(Q: sp.csc_array, gram: "Gram", X: np.ndarray) -> np.ndarray:
    support = np.unique(Q.indices)
    return gram.multiply_points(X, support, Q[support].toarray()).T


def as_dense(A: Any) -> np.ndarray:
    """A dense or SciPy-sparse matrix as an array."""
    return np.asarray(A.toarray() if sp.issparse(A) else A)


class _Square:
    def __init__(self, capacity: int) -> None:
        self.array = np.zeros((capacity, capacity))
        self.filled = 0


@dataclass(frozen=True)
class Factor:
    """A lower Cholesky factor L that grows by rows: L L^T = G."""

    memory: _Square
    size: int

    __repr__ = brief.call

    @staticmethod
    def empty() -> "Factor":
        return Factor(_Square(CHUNK), 0)

    @staticmethod
    def of(L: np.ndarray) -> "Factor":
        """A complete factor, with no spare space."""
        memory = _Square(len(L))
        memory.array[:], memory.filled = L, len(L)
        return Factor(memory, len(L))

    def L(self, size: int | None = None) -> np.ndarray:
        r = self.size if size is None else size
        return self.memory.array[:r, :r]

    def append(self, W: np.ndarray, L_bb: np.ndarray) -> "Factor":
        """[[L, 0], [W^T, L_bb]]"""
        r, b = W.shape
        memory = self.memory
        if r + b > memory.array.shape[0] or not claim(memory, "filled", r, r + b):
            memory = _Square(max(memory.array.shape[0], min(2 * (r + b), r + b + 4096)))
            memory.array[:r, :r], memory.filled = self.L(), r + b
        memory.array[r : r + b, :r] = W.T
        memory.array[r : r + b, r : r + b] = L_bb
        return Factor(memory, r + b)

    def solve(self, B: np.ndarray, size: int | None = None) -> np.ndarray:
        """L^{-1} B"""
        L = self.L(size)
        if len(L) <= 2 * SLAB or B.shape[1] > NARROW:
            return _solve(L, B)
        X = np.array(B)
        for rows, before in _slabs(len(L)):
            X[rows] = _solve(L[rows, rows], X[rows] - L[rows, before] @ X[before])
        return X

    def solve_transposed(self, B: np.ndarray, size: int | None = None) -> np.ndarray:
        """L^{-T} B"""
        L = self.L(size)
        if len(L) <= 2 * SLAB or B.shape[1] > NARROW:
            return _solve(L, B, transposed=True)
        X = np.array(B)
        for rows, before in reversed(_slabs(len(L))):
            X[rows] = _solve(L[rows, rows], X[rows], transposed=True)
            X[before] -= L[rows, before].T @ X[rows]
        return X


def _slabs(size: int) -> list[tuple[slice, slice]]:
    """Row blocks of L, and the rows before each. LAPACK would copy L, which takes longer than a solve."""
    return [(slice(start, min(start + SLAB, size)), slice(0, start)) for start in range(0, size, SLAB)]


def _solve(L: np.ndarray, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    if not L.size:
        return np.zeros((0, B.shape[1]))
    return scipy.linalg.solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False)


def cholesky_keeping(S: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky of S without columns whose pivot is below `least`: the factor, and the columns kept."""
    kept = np.arange(S.shape[0])
    while kept.size:
        some = S if kept.size == len(S) else S[np.ix_(kept, kept)]
        L, failed = scipy.linalg.lapack.dpotrf(some, lower=1, clean=1)
        small = np.flatnonzero(
            np.diag(L)[: failed - 1 if failed else None] ** 2 < least[kept][: failed - 1 if failed else None]
        )
        first = int(small[0]) if small.size else failed - 1
        if first < 0:
            return L, kept
        kept = np.delete(kept, first)
    return np.zeros((0, 0)), kept

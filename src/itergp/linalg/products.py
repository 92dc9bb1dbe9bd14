"""K Q that is not stored: for sparse actions on many rows, what is asked for is made from the kernel again.

A column of K Q for an action on a few rows is a few columns of K, and each of their entries takes about as
long to evaluate as to read from memory. So what a stored n x r array would cost in memory (41 GB for 512
actions on 10^7 rows) is saved, at no cost in time where actions come in blocks. Values are in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from itergp.limits import LEAN_ROWS
from itergp.linalg.basis import Basis
from itergp.linalg.columns import Columns
from itergp.linalg.engines import Tick, no_tick
from itergp.linalg.gram import Gram

FEW = 8  # rows of an action, on average: with more of them, to store its product is cheaper
ENTRIES = 2**20  # of K in a slab of rows: 8 MB
LEAST = 256  # rows of a slab


@dataclass(frozen=True, eq=False)
class Remade:
    """K Q for sparse actions Q, with the interface of `Columns`; nothing that grows with n is kept."""

    gram: Gram
    Q: sp.csc_array

    @property
    def shape(self) -> tuple[int, int]:
        return self.Q.shape

    @property
    def size(self) -> int:
        return self.Q.shape[1]

    @cached_property
    def support(self) -> np.ndarray:
        """The rows that some action touches."""
        return np.unique(self.Q.indices)

    @cached_property
    def touched(self) -> sp.csc_array:
        """Q on its support."""
        places = np.searchsorted(self.support, self.Q.indices)
        return sp.csc_array((self.Q.data, places, self.Q.indptr), shape=(self.support.size, self.size))

    def on(self, gram: Gram) -> "Remade":
        """The same actions for a Gram with more rows, or with finer tiles: they are zero on new rows."""
        Q = self.Q
        return Remade(gram, sp.csc_array((Q.data, Q.indices, Q.indptr), shape=(gram.n, Q.shape[1])))

    def only(self, columns: Any) -> "Remade":
        """Some of the columns."""
        return Remade(self.gram, sp.csc_array(self.Q[:, columns]))

    def joined(self, more: "Remade") -> "Remade":
        return Remade(more.gram, sp.csc_array(sp.hstack([self.Q, more.Q]))) if self.size else more

    def after(self, before: "Columns | Products") -> "Products":
        """These columns after others, none of which are stored."""
        if isinstance(before, Products):
            return Products(before.front.joined(self), before.rest)
        return Products(self, before)

    def against(self, other: "Remade") -> np.ndarray:
        """Q^T K Q', which needs the rows of both supports only."""
        X = self.gram.X
        K = self.gram.dense(X[self.support], X[other.support])
        return self.touched.T @ np.asarray(other.touched.T @ K.T).T

    def weights(self, C: np.ndarray) -> np.ndarray:
        """Q[:, :len(C)] C on the support; zero elsewhere."""
        return np.asarray(self.touched[:, : len(C)] @ C)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """(K Q)[indices]"""
        X = self.gram.X
        if (np.diff(self.Q.indptr) == 1).all():
            return self.gram.dense(X[indices], X[self.Q.indices]) * self.Q.data
        return self.gram.multiply_points(X[indices], self.support, self.touched.toarray())

    def sweep(
        self, C: np.ndarray, first: int = 0, tick: Tick = no_tick
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Slabs of rows, from `first`, each with its rows of K Q[:, :len(C)] C."""
        if not C.size:
            return
        W = self.weights(C)
        for rows in slabs(self.support.size, self.gram.n, first):
            tick()
            yield rows, self.gram.multiply_points(self.gram.X[rows], self.support, W)

    def combine(self, C: np.ndarray) -> np.ndarray:
        """K Q[:, :len(C)] C"""
        out = np.zeros((self.gram.n, C.shape[1]))
        for rows, some in self.sweep(C):
            out[rows] = some
        return out

    def inner(self, V: np.ndarray) -> np.ndarray:
        """(K Q)^T V"""
        X, total = self.gram.X, np.zeros((self.support.size, V.shape[1]))
        if self.size and V.size:
            for rows in slabs(self.support.size, self.gram.n):
                total += self.gram.multiply_points(X[self.support], np.arange(rows.start, rows.stop), V[rows])
        return np.asarray(self.touched.T @ total)

    def between(self, start: int, stop: int) -> np.ndarray:
        """Columns start to stop, as an array."""
        some, out = self.only(slice(start, stop)), np.zeros((self.gram.n, stop - start), order="F")
        if stop > start:
            for rows in slabs(some.support.size, self.gram.n):
                out[rows] = some.rows(np.arange(rows.start, rows.stop))
        return out


@dataclass(frozen=True, eq=False)
class Products:
    """K Q whose first columns are made again, and whose others, from a dense action on, are stored."""

    lean: ClassVar[bool] = True
    front: Remade
    rest: Columns

    @property
    def n(self) -> int:
        return self.rest.n

    @property
    def size(self) -> int:
        return self.front.size + self.rest.size

    def empty(self) -> Columns:
        """For dense actions that follow."""
        return self.rest.empty()

    def bytes_here(self, columns: int) -> float:
        return self.rest.bytes_here(columns)

    def on(self, gram: Gram) -> "Products":
        """For a Gram of the same rows."""
        return Products(self.front.on(gram), self.rest)

    def append(self, block: np.ndarray) -> "Products":
        return Products(self.front, self.rest.append(block))

    def inner(self, V: np.ndarray) -> np.ndarray:
        return np.concatenate([self.front.inner(V), self.rest.inner(V)])

    def combine(self, C: np.ndarray) -> np.ndarray:
        out = self.front.combine(C[: self.front.size])
        if len(C) > self.front.size:
            out += self.rest.combine(C[self.front.size :])
        return out

    def between(self, start: int, stop: int) -> np.ndarray:
        r = self.front.size
        if start >= r:
            return self.rest.between(start - r, stop - r)
        made = self.front.between(start, min(stop, r))
        return made if stop <= r else np.concatenate([made, self.rest.between(0, stop - r)], axis=1)

    def blocks(self, start: int, stop: int, width: int) -> Iterator[np.ndarray]:
        return (self.between(first, min(first + width, stop)) for first in range(start, stop, width))

    def rows(self, indices: np.ndarray) -> np.ndarray:
        made = self.front.rows(indices)
        return np.concatenate([made, self.rest.rows(indices)], axis=1) if self.rest.size else made

    def with_rows(self, new: np.ndarray, gram: Gram) -> "Products":
        """More rows: `new` has those of the stored columns, and may have others before them."""
        return Products(self.front.on(gram), self.rest.with_rows(new[:, new.shape[1] - self.rest.size :]))


PRODUCTS = (Columns, Products)  # what K Q can be; a file may have kept none


def slabs(width: int, n: int, first: int = 0) -> Iterator[slice]:
    """Slabs of rows for kernel matrices of this width, which fit in the cache."""
    step = max(LEAST, ENTRIES // max(1, width))
    return (slice(start, min(start + step, n)) for start in range(first, n, step))


def large(n: int) -> bool:
    """Whether n x r numbers are too many to store where they can be made again."""
    return n > LEAN_ROWS


def remakes(Q: Any, basis: Basis) -> bool:
    """Whether the products of these sparse actions are made again: of few rows each, after no others that
    are stored."""
    stored = isinstance(basis.KQ, Columns) and basis.size
    return large(basis.n) and not stored and basis.sparse and has_few_rows(Q)


def has_few_rows(Q: sp.csc_array) -> bool:
    return Q.indices.size <= FEW * Q.shape[1]


def unstored(basis: Basis, gram: Gram) -> Basis:
    """The same actions without their products, if these can be made again and there are many rows of them."""
    if not (isinstance(basis.KQ, Columns) and large(gram.n) and basis.size and basis.sparse):
        return basis
    Q: Any = basis.actions(basis.size)
    if not has_few_rows(Q):
        return basis
    return Basis(basis.n, basis.parts, Products(Remade(gram, Q), basis.KQ.empty()))


def lowered(variance: np.ndarray, F: np.ndarray) -> np.ndarray:
    """variance - sum_j f_j^2 for the columns of F, one after the other: never raised by more of them."""
    return np.subtract.reduce(np.concatenate([variance[None], np.square(F.T)]))

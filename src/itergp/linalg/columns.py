"""Dense n x r matrices that grow: what the algebra asks of them, and how they lie in this process's memory.

They are append-only, and appended data never change. So a state keeps its view of the first rows and columns
while a later one continues in the same memory. Two that continue from the same state do not see each other
(the second one copies). This also holds across threads: memory is claimed before it is written.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from itergp.linalg.gram import Gram

CHUNK = 64  # columns per allocation
# when rows are appended, a quarter more is reserved: a number is copied about four times in a long stream
ROOM = 4
# One lock for all claims, which are instantaneous: memory is copied and pickled, so it cannot hold a lock. No
# fork happens during a claim.
_CLAIMING = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CLAIMING.acquire, after_in_parent=_CLAIMING.release, after_in_child=_CLAIMING.release
    )


def claim(memory: Any, what: str, start: int, stop: int) -> bool:
    """Claim start to stop of `rows`, or of `filled`; False if another state has claimed it already."""
    with _CLAIMING:
        free = getattr(memory, what) == start
        if free:
            setattr(memory, what, stop)
        return free


class _Chunk:
    """Columns in one allocation; the first `rows` of `filled` of them are taken, first come first served.

    Writes go only outside of that rectangle: to columns or rows that nobody has claimed.
    """

    def __init__(self, rows: int, columns: int, room: int = 0) -> None:
        self.array = np.empty((rows + room, columns), order="F")
        self.rows, self.filled = rows, 0

    def __getstate__(self) -> tuple[tuple[int, ...], np.ndarray, int, int]:
        """What is taken is sent, and no more."""
        rows, filled = self.rows, self.filled
        return self.array.shape, self.array[:rows, :filled], rows, filled

    def __setstate__(self, state: tuple[tuple[int, ...], np.ndarray, int, int]) -> None:
        """In memory of its own: what arrives may begin at any byte, and NumPy multiplies that differently."""
        shape, taken, self.rows, self.filled = state
        self.array = np.empty(shape, order="F")
        self.array[: self.rows, : self.filled] = taken

    def copy(self, rows: int, filled: int, room: int = 0) -> "_Chunk":
        """Copy the first rows and columns to new memory, with space for more rows."""
        new = _Chunk(rows, self.array.shape[1], room)
        new.array[:rows, :filled], new.filled = self.array[:rows, :filled], filled
        return new


class Sums(NamedTuple):
    """What the trace of a run says of its n numbers."""

    residual_norm: float  # |r|
    mean_variance: float
    spread: float  # sum of variance / N
    misfit: float  # sum of (r + N v)^2 / N
    weights: float  # sum of N v^2


class Vectors(ABC):
    """Weights v, residual r and variances at the rows, where they do not live in this process. Immutable."""

    @abstractmethod
    def weights(self) -> np.ndarray:
        """v, (n, t), brought here."""

    @abstractmethod
    def residual(self) -> np.ndarray:
        """r, (n, t), brought here."""

    @abstractmethod
    def variance(self) -> np.ndarray:
        """(n,), brought here."""

    @abstractmethod
    def sums(self) -> Sums:
        """A few numbers, brought here."""

    @abstractmethod
    def after(
        self, Q: "list[tuple[Any, np.ndarray]]", KQ: "Columns", C: np.ndarray, z: np.ndarray, first: int
    ) -> "tuple[Vectors, float]":
        """With len(z) more actions, and the trace of D^T N D that they add.

        D = Q C is the sum of parts of Q, each times its rows of C, and F = K Q C. The actions are the columns
        of D and F from `first` on, one after the other; all columns are made, as products with some of them
        round differently.
        """


class Columns(ABC):
    """A dense n x r matrix that grows by columns and by rows; n x r numbers never leave it at once.

    Where they live is its own business: in this process (`InMemory`), or in shards, here or elsewhere
    (`shards.py`). Whoever uses it sends and gets blocks of a few columns (n x b), and r x b numbers.
    """

    lean: ClassVar[bool] = False  # it is stored
    sharded: ClassVar[bool] = False  # whether sums are those of shards
    with_vectors: ClassVar[bool] = False  # whether weights, residual and variances live there too
    n: int

    @property
    def elsewhere(self) -> bool:
        """Whether its numbers live outside of this process."""
        return False

    @property
    @abstractmethod
    def size(self) -> int:
        """r, the number of columns."""

    @abstractmethod
    def empty(self) -> "Columns":
        """No columns yet, for the same rows, in the same place."""

    def few(self) -> "Columns":
        """The same, which will not have many columns."""
        return self

    @abstractmethod
    def append(self, block: np.ndarray) -> "Columns":
        """With the columns of a block, n x b."""

    @abstractmethod
    def inner(self, V: np.ndarray) -> np.ndarray:
        """self^T V"""

    @abstractmethod
    def combine(self, C: np.ndarray) -> np.ndarray:
        """self[:, :len(C)] @ C"""

    @abstractmethod
    def between(self, start: int, stop: int) -> np.ndarray:
        """Columns start to stop, as an array."""

    def blocks(self, start: int, stop: int, width: int) -> Iterator[np.ndarray]:
        """The same, so many columns at a time."""
        return (self.between(first, min(first + width, stop)) for first in range(start, stop, width))

    @abstractmethod
    def squared_rows(self) -> np.ndarray:
        """The squared length of each row."""

    @abstractmethod
    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Some rows, all columns."""

    @abstractmethod
    def with_rows(self, new: np.ndarray) -> "Columns":
        """Append rows."""

    @abstractmethod
    def projected(self, gram: "Gram", X: np.ndarray) -> np.ndarray:
        """self^T k(rows, x) for each of some points x, (r, points). The Gram may have more rows."""

    @abstractmethod
    def bytes_here(self, columns: int) -> float:
        """The memory of this process that so many more columns take."""

    def vectors(
        self, v: np.ndarray, r: np.ndarray, variance: np.ndarray, N: np.ndarray, floor: np.ndarray
    ) -> Vectors:
        """Weights, residual and variances from now on, where these columns are (`with_vectors`); `floor` is
        the least that a variance may be."""
        raise NotImplementedError


@dataclass(frozen=True)
class InMemory(Columns):
    """In the memory of this process."""

    n: int
    chunks: tuple[tuple[_Chunk, int], ...] = ()  # (memory, how many of its columns belong to this matrix)
    is_small: bool = False  # memory is not taken in advance, but doubles

    @property
    def size(self) -> int:
        return sum(used for _, used in self.chunks)

    def empty(self) -> "InMemory":
        return InMemory(self.n)

    def few(self) -> "InMemory":
        return replace(self, is_small=True)

    @property
    def arrays(self) -> list[np.ndarray]:
        """This matrix's part of each chunk."""
        return [chunk.array[: self.n, :used] for chunk, used in self.chunks]

    def append(self, block: np.ndarray) -> "InMemory":
        chunks, block = list(self.chunks), np.asarray(block)
        while block.shape[1]:
            if not chunks or chunks[-1][1] == chunks[-1][0].array.shape[1]:
                more = min(CHUNK, sum(used for _, used in chunks)) if self.is_small else CHUNK
                chunks.append((_Chunk(self.n, max(more, block.shape[1])), 0))
            chunk, used = chunks[-1]
            width = min(block.shape[1], chunk.array.shape[1] - used)
            if not claim(chunk, "filled", used, used + width):
                chunk = chunk.copy(self.n, used)
                chunk.filled = used + width
            chunk.array[: self.n, used : used + width] = block[:, :width]
            chunks[-1] = (chunk, used + width)
            block = block[:, width:]
        return replace(self, chunks=tuple(chunks))

    def inner(self, V: np.ndarray) -> np.ndarray:
        """self^T V"""
        parts = [array.T @ V for array in self.arrays]
        return np.concatenate(parts) if parts else np.zeros((0, V.shape[1]))

    def combine(self, C: np.ndarray) -> np.ndarray:
        """self[:, :len(C)] @ C"""
        out, start = np.zeros((self.n, C.shape[1])), 0
        for array in self.arrays:
            stop = min(start + array.shape[1], C.shape[0])
            if stop > start:
                out += array[:, : stop - start] @ C[start:stop]
            start += array.shape[1]
        return out

    def between(self, start: int, stop: int) -> np.ndarray:
        """Columns start to stop, as an array."""
        out, first = [], 0
        for array in self.arrays:
            a, b = max(start - first, 0), min(stop - first, array.shape[1])
            if b > a:
                out.append(array[:, a:b])
            first += array.shape[1]
        if len(out) == 1:
            return out[0]
        return np.concatenate(out, axis=1) if out else np.zeros((self.n, 0))

    def squared_rows(self) -> np.ndarray:
        """The squared length of each row."""
        return sum((np.einsum("nr,nr->n", array, array) for array in self.arrays), np.zeros(self.n))

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [array[indices] for array in self.arrays] or [np.zeros((len(indices), 0))], axis=1
        )

    def with_rows(self, new: np.ndarray) -> "InMemory":
        """Append rows, in the same memory while there is space."""
        n, chunks, start = self.n + new.shape[0], [], 0
        for chunk, used in self.chunks:
            if chunk.array.shape[0] < n or not claim(chunk, "rows", self.n, n):
                chunk = chunk.copy(self.n, used, n - self.n + n // ROOM)
                chunk.rows = n
            chunk.array[self.n : n, :used] = new[:, start : start + used]
            chunks.append((chunk, used))
            start += used
        return replace(self, n=n, chunks=tuple(chunks))

    def projected(self, gram: "Gram", X: np.ndarray) -> np.ndarray:
        return gram.multiply_points(X, np.arange(self.n), self.between(0, self.size)).T

    def bytes_here(self, columns: int) -> float:
        return 8.0 * self.n * columns

"""Dense n x r matrices in shards of rows, which may lie in other processes.

A shard is some consecutive leaves of 1,024 rows. All that is computed is computed leaf by leaf, and sums over
rows are added in pairs of neighbours, pairs of pairs and so on. A shard has a power of two of leaves, so its
own sum is a branch of that tree. Therefore no bit depends on where the shards lie, or on how large they are:
only on the number of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from itergp.linalg.blas import blas_threads
from itergp.linalg.columns import CHUNK, Columns, InMemory
from itergp.linalg.engines import registry
from itergp.prior.kernel import Kernel

if TYPE_CHECKING:
    from itergp.linalg.gram import Gram

LEAF = 1024  # rows; their part of a chunk of columns fits in the cache
POINTS = 1024  # at which the kernel is evaluated at once
ALL = 2**40  # leaves of a shard that has all of them

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class Shard:
    """Some consecutive rows of a matrix. Each method is a task, wherever the shard lies."""

    leaves: tuple[InMemory, ...]
    leaf: int  # rows of each, except for the last one

    @staticmethod
    def empty(rows: int, leaf: int) -> "Shard":
        return Shard(tuple(InMemory(min(leaf, rows - start)) for start in range(0, rows, leaf)), leaf)

    @property
    def n(self) -> int:
        return sum(leaf.n for leaf in self.leaves)

    @property
    def size(self) -> int:
        return self.leaves[0].size

    def __sizeof__(self) -> int:
        """What a cluster counts: the memory of its chunks."""
        return sum(chunk.array.nbytes for leaf in self.leaves for chunk, _ in leaf.chunks)

    def cut(self, leaves: int) -> list["Shard"]:
        """Shards of so many leaves each."""
        starts = range(0, len(self.leaves), leaves)
        return [Shard(self.leaves[start : start + leaves], self.leaf) for start in starts]

    def append(self, block: np.ndarray) -> "Shard":
        """With more columns. A chunk ends after 64 of them, so how they lie depends on their number alone."""
        first = CHUNK - self.size % CHUNK
        starts = [0, *range(first, block.shape[1], CHUNK)]
        pieces = [slice(a, b) for a, b in zip(starts, [*starts[1:], block.shape[1]], strict=True)]

        def longer(leaf: InMemory, rows: np.ndarray) -> InMemory:
            for piece in pieces:
                leaf = leaf.append(rows[:, piece])
            return leaf

        return Shard(tuple(longer(leaf, rows) for leaf, rows in self._with(block)), self.leaf)

    def with_rows(self, new: np.ndarray) -> "Shard":
        """With more rows: the last leaf is filled first."""
        last, full = self.leaves[-1], self.leaf - self.leaves[-1].n
        if full:
            last = last.with_rows(new[:full])
        more = Shard.empty(len(new[full:]), self.leaf).append(new[full:]).leaves if len(new) > full else ()
        return Shard((*self.leaves[:-1], last, *more), self.leaf)

    def inner(self, V: np.ndarray) -> np.ndarray:
        with blas_threads(1):
            return in_pairs([leaf.inner(some) for leaf, some in self._with(V)], np.add)

    def combine(self, C: np.ndarray) -> np.ndarray:
        with blas_threads(1):
            return np.concatenate([leaf.combine(_aligned(C)) for leaf in self.leaves])

    def projected(self, given: tuple[Kernel, np.ndarray, np.ndarray]) -> np.ndarray:
        """The inner products with k(rows, points), from the inputs of its rows and the points."""
        kernel, X, points = given[0], given[1], _aligned(given[2])
        engine, float64 = registry.native() or registry.get("numpy"), np.dtype("float64")
        with blas_threads(1):
            parts = [leaf.inner(engine.dense(kernel, some, points, float64)) for leaf, some in self._with(X)]
            return in_pairs(parts, np.add)

    def between(self, ends: tuple[int, int]) -> np.ndarray:
        return np.concatenate([leaf.between(*ends) for leaf in self.leaves])

    def rows(self, indices: np.ndarray) -> np.ndarray:
        out, of = np.empty((indices.size, self.size)), indices // self.leaf
        for i in np.unique(of):
            out[of == i] = self.leaves[i].rows(indices[of == i] - i * self.leaf)
        return out

    def squared_rows(self, _: None = None) -> np.ndarray:
        return np.concatenate([leaf.squared_rows() for leaf in self.leaves])

    def _with(self, V: np.ndarray) -> Iterator[tuple[InMemory, np.ndarray]]:
        """Each leaf, with its rows of V."""
        V = _aligned(V)
        return ((leaf, V[i * self.leaf : i * self.leaf + leaf.n]) for i, leaf in enumerate(self.leaves))


def _aligned(A: np.ndarray) -> np.ndarray:
    """What was sent may begin at any byte; NumPy would copy it for BLAS in another layout."""
    return np.require(A, requirements=("C", "A"))


def in_pairs(parts: Sequence[Part], add: Callable[[Part, Part], Part]) -> Part:
    """The sum of all parts: neighbours first, then pairs of them, and so on."""
    while len(parts) > 1:
        pairs = [add(*two) for two in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


class Place(ABC):
    """Where shards lie. `held` is a shard as the place knows it."""

    @abstractmethod
    def leaves(self, leaves: int) -> int:
        """How many of so many leaves lie together there: a power of two."""

    @abstractmethod
    def put(self, shards: Sequence[Shard]) -> tuple[Any, ...]:
        """Shards of this process, brought there."""

    @abstractmethod
    def changed(
        self, held: Sequence[Any], change: Callable[..., Shard], given: Sequence[Any]
    ) -> tuple[Any, ...]:
        """change(shard, given) of each, kept there."""

    @abstractmethod
    def each(self, held: Sequence[Any], ask: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
        """ask(shard, given) of each, brought here."""

    @abstractmethod
    def total(self, held: Sequence[Any], ask: Callable[..., Any], given: Sequence[Any]) -> np.ndarray:
        """The sum of the same, in pairs."""

    def better(self, size: float) -> "Place | None":
        """Another place for a matrix of so many bytes; None if this one will do."""
        return None

    def bytes_here(self, size: float) -> float:
        """What a matrix of so many bytes takes of the memory of this process."""
        return 0.0


@dataclass(frozen=True)
class Here(Place):
    """In this process; a matrix of more than `limit` bytes moves `elsewhere`."""

    limit: float = np.inf
    elsewhere: Place | None = None

    def leaves(self, leaves: int) -> int:
        return ALL

    def put(self, shards: Sequence[Shard]) -> tuple[Shard, ...]:
        return tuple(shards)

    def changed(
        self, held: Sequence[Shard], change: Callable[..., Shard], given: Sequence[Any]
    ) -> tuple[Shard, ...]:
        return tuple(change(shard, some) for shard, some in zip(held, given, strict=True))

    def each(self, held: Sequence[Shard], ask: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
        return [ask(shard, some) for shard, some in zip(held, given, strict=True)]

    def total(self, held: Sequence[Shard], ask: Callable[..., Any], given: Sequence[Any]) -> np.ndarray:
        return in_pairs(self.each(held, ask, given), np.add)

    def better(self, size: float) -> Place | None:
        return self.elsewhere if size > self.limit else None

    def bytes_here(self, size: float) -> float:
        return size if self.elsewhere is None else min(size, self.limit)


@dataclass(frozen=True, eq=False)
class Sharded(Columns):
    """A matrix in shards, all of them in one place."""

    sharded: ClassVar[bool] = True
    n: int
    place: Place
    columns: int
    held: tuple[Any, ...]
    leaf: int  # rows of a leaf
    leaves: int  # of a shard

    @staticmethod
    def start(n: int, place: Place, leaf: int = LEAF) -> "Sharded":
        """No columns yet."""
        leaves = place.leaves(-(-n // leaf))
        return Sharded(n, place, 0, place.put(Shard.empty(n, leaf).cut(leaves)), leaf, leaves)

    def empty(self) -> "Sharded":
        return Sharded.start(self.n, self.place, self.leaf)

    @property
    def elsewhere(self) -> bool:
        return not isinstance(self.place, Here)

    @property
    def span(self) -> int:
        """The rows of a shard."""
        return self.leaf * self.leaves

    @property
    def size(self) -> int:
        return self.columns

    def _split(self, V: np.ndarray) -> list[np.ndarray]:
        """The rows of each shard, laid out alike wherever it is."""
        V = np.ascontiguousarray(V)
        return [V[start : start + self.span] for start in range(0, self.n, self.span)]

    def _same(self, what: Any) -> list[Any]:
        return [what] * len(self.held)

    def append(self, block: np.ndarray) -> "Sharded":
        size = self.columns + block.shape[1]
        place = self.place.better(8.0 * self.n * size)
        if place is not None:
            return self._moved(place).append(block)
        held = self.held
        if block.shape[1]:
            held = self.place.changed(held, Shard.append, self._split(block))
        return replace(self, columns=size, held=held)

    def _moved(self, place: Place) -> "Sharded":
        """From this process to another place."""
        leaves = place.leaves(-(-self.n // self.leaf))
        shards = [part for shard in self.held for part in shard.cut(leaves)]
        return replace(self, place=place, held=place.put(shards), leaves=leaves)

    def with_rows(self, new: np.ndarray) -> "Sharded":
        """The last shard is filled first; then there are more of them."""
        n, full = self.n + len(new), len(self.held) * self.span - self.n
        held = self.held
        if full and len(new):
            held = (*held[:-1], *self.place.changed(held[-1:], Shard.with_rows, [new[:full]]))
        more = [new[start : start + self.span] for start in range(full, len(new), self.span)]
        if more:
            shards = [Shard.empty(len(rows), self.leaf).append(rows) for rows in more]
            held = (*held, *self.place.put(shards))
        return replace(self, n=n, held=held)

    def inner(self, V: np.ndarray) -> np.ndarray:
        if not (self.columns and V.shape[1]):
            return np.zeros((self.columns, V.shape[1]))
        return self.place.total(self.held, Shard.inner, self._split(V))

    def combine(self, C: np.ndarray) -> np.ndarray:
        if not C.size:
            return np.zeros((self.n, C.shape[1]))
        C = np.ascontiguousarray(C[: self.columns])
        return np.concatenate(self.place.each(self.held, Shard.combine, self._same(C)))

    def projected(self, gram: "Gram", X: np.ndarray) -> np.ndarray:
        """Computed where the shards lie, from the inputs of their rows: n x d numbers are sent."""
        out, (kernel, rows, points) = np.zeros((self.columns, len(X))), gram.between_rows_and(X)
        for start in range(0, len(X) if self.columns else 0, POINTS):
            some = slice(start, start + POINTS)
            given = [(kernel, own, points[some]) for own in self._split(rows[: self.n])]
            out[:, some] = self.place.total(self.held, Shard.projected, given)
        return out

    def between(self, start: int, stop: int) -> np.ndarray:
        out, first = np.empty((self.n, stop - start)), 0
        for part in self.place.each(self.held, Shard.between, self._same((start, stop))):
            out[first : first + len(part)] = part
            first += len(part)
        return out

    def rows(self, indices: np.ndarray) -> np.ndarray:
        indices = np.asarray(indices, dtype=np.intp)  # int32 cannot hold the span of ALL
        out, of = np.empty((len(indices), self.columns)), indices // self.span
        asked = np.unique(of)
        given = [indices[of == i] - i * self.span for i in asked]
        found = self.place.each([self.held[i] for i in asked], Shard.rows, given)
        for i, some in zip(asked, found, strict=True):
            out[of == i] = some
        return out

    def squared_rows(self) -> np.ndarray:
        return np.concatenate(self.place.each(self.held, Shard.squared_rows, self._same(None)))

    def bytes_here(self, columns: int) -> float:
        more = self.place.bytes_here(8.0 * self.n * (self.columns + columns))
        return max(0.0, more - self.place.bytes_here(8.0 * self.n * self.columns))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sharded":
        return self  # it never changes

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has all of it there."""
        shards = self.place.each(self.held, _itself, self._same(None))
        whole = Shard(tuple(leaf for shard in shards for leaf in shard.leaves), self.leaf)
        return Sharded, (self.n, Here(), self.columns, (whole,), self.leaf, ALL)


def _itself(shard: Shard, _: None) -> Shard:
    return shard

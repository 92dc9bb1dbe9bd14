"""K V in shares of about equal work, each computed by one thread, and added in a fixed order.

Blocks of rows are dealt out in turn to p groups, and a share is the part of K between two groups, or within
one: p (p + 1) / 2 of them. It reads the rows of V of its groups, and gives a part of their rows of K V. So a
pass has p parts of the size of K V, however many shares there are. Which blocks are whose depends on p alone,
and the parts of a group are added in the order of the other groups: so the bits of K V depend on p, and not
on where or when a share is computed; and appended rows change no bit of what the earlier ones have, as in the
other engines. Everything here may run in another process than the one that asks for it.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from math import isqrt
from threading import Lock
from typing import Any

import numpy as np

from itergp.linalg.engines.native import _tiles
from itergp.linalg.engines.native.engine import PANEL, _function
from itergp.linalg.engines.native.layout import BLOCK, blocks, padded, unpadded
from itergp.linalg.engines.native.leaves import leaves
from itergp.linalg.engines.sums import in_order
from itergp.prior.kernel import Kernel

COLUMNS = 64  # of V in one task: each has sums of two groups of rows x columns float64
PANELS = BLOCK // PANEL  # in a block


@dataclass(frozen=True)
class Groups:
    """n rows in p groups: block b is in group b % p, so that more rows change nothing of the first ones."""

    n: int
    p: int

    @staticmethod
    def of(n: int, shares: int) -> "Groups":
        """As many groups as make at most so many shares."""
        return Groups(n, (isqrt(8 * shares + 1) - 1) // 2)

    @property
    def filled(self) -> range:
        """The groups that have rows."""
        return range(min(self.p, -(-self.n // BLOCK)))

    @property
    def shares(self) -> list[tuple[int, int]]:
        """Pairs of groups. Those of one group are in the order of the others."""
        return [(i, j) for i in self.filled for j in self.filled[i:]]

    def rows(self, group: int) -> np.ndarray:
        """The rows of a group, ascending."""
        starts = np.arange(group * BLOCK, self.n, self.p * BLOCK)
        rows = (starts[:, None] + np.arange(BLOCK)).ravel()
        return rows[: rows.searchsorted(self.n)]

    def first(self, group: int, row: int) -> int:
        """Its first block that is not wholly before a row."""
        return -(-max(0, row // BLOCK - group) // self.p)

    def homes(self, places: int) -> list[int]:
        """For each share one of some places, with about as much work for each; a group alone is half."""
        work = np.array([0.5 if i == j else 1.0 for i, j in self.shares])
        middle = np.cumsum(work) - work / 2
        return list(map(int, middle / work.sum() * places))


class Rows:
    """The data of a kernel matrix. Sent as kernel and inputs; features are made where they are needed."""

    def __init__(self, kernel: Kernel, X: np.ndarray, dtype: str, instructions: str, p: int) -> None:
        self.recipe = kernel, X, dtype, instructions, p
        self.groups = Groups(len(X), p)
        self._leaves = [leaf for leaf in leaves(kernel) or [] if not leaf.linear]
        self._features: dict[int, list[np.ndarray]] = {}
        self._making = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, self.recipe

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.recipe[2])

    def features(self, group: int) -> list[np.ndarray]:
        """Of a group, for each part of the kernel, as the native code reads them."""
        with self._making:
            if group not in self._features:
                X = self.recipe[1][self.groups.rows(group)]
                self._features[group] = [blocks(leaf.features(X), self.dtype) for leaf in self._leaves]
            return self._features[group]

    def between(self, i: int, j: int) -> Any:
        """The kernel between two groups; all workers of a cluster use the same instructions."""
        self.choose()
        native = _tiles.Kernel32() if self.dtype.itemsize == 4 else _tiles.Kernel64()
        for leaf, left, right in zip(self._leaves, self.features(i), self.features(j), strict=True):
            native.add(left, right, leaf.kind, float(leaf.height), leaf.alpha)
        return native

    def choose(self) -> None:
        instructions = self.recipe[3]
        with self._making:
            if _tiles.instruction_set() != instructions:
                _tiles.choose(instructions)

    def total(self, group: int, columns: int, *shares: tuple[np.ndarray, ...]) -> np.ndarray:
        """A group's rows of K V: its parts of all shares that it is in, in their order."""
        parts = [both[int(other < group)] for other, both in enumerate(shares)]
        return self.unpadded(group, in_order(parts), columns)

    def unpadded(self, group: int, sums: np.ndarray, columns: int) -> np.ndarray:
        self.choose()  # they lie as the instructions want them
        return unpadded(sums, self.dtype, np.empty((self.groups.rows(group).size, columns)))


class Share:
    """The part of K between groups i and j: tiles are those of the upper half of K, so either of them may be
    that of the rows. It is sent without the tiles that it keeps: they are made again faster than they are
    sent."""

    def __init__(self, i: int, j: int, budget: int) -> None:
        self.recipe = i, j, budget
        self._upper = Upper(i, j, budget if i == j else budget // 2)  # block b of i, and c >= b of j
        self._lower = Upper(j, i, budget // 2)  # block b of j, and c > b of i

    def __reduce__(self) -> tuple[Any, ...]:
        return Share, self.recipe

    def multiply(self, rows: Rows, Vi: np.ndarray, Vj: np.ndarray, first: int) -> tuple[np.ndarray, ...]:
        """Its parts of the rows of K V in both groups, from the rows of V there, in float64 and padded; one
        part if both groups are the same. Rows before `first` may be skipped (zero)."""
        i, j, _ = self.recipe
        rows.choose()
        V = {group: padded(some, rows.dtype) for group, some in ((i, Vi), (j, Vj))}
        out = {group: np.zeros(some.shape) for group, some in V.items()}
        for half in [self._upper] if i == j else [self._upper, self._lower]:
            half.add(rows, V, out, first)
        return tuple(out.values())


class Upper:
    """Tiles between group i, panel by panel, and the later blocks of group j, as many of them kept as fit."""

    def __init__(self, i: int, j: int, budget: int) -> None:
        self.i, self.j, self.budget = i, j, budget
        self._stored: tuple[np.ndarray, np.ndarray] | None = None  # tiles in streaming order, offsets
        self._filled, self._filling = False, Lock()

    def add(self, rows: Rows, V: dict[int, np.ndarray], out: dict[int, np.ndarray], first: int) -> None:
        """Their products, from both sides. The next block of columns may come meanwhile, in another thread:
        it waits until tiles that are to be kept are all there."""
        with self._filling if self.budget and not self._filled else nullcontext():
            self._add(rows, V, out, first)

    def _add(self, rows: Rows, V: dict[int, np.ndarray], out: dict[int, np.ndarray], first: int) -> None:
        pair, after = (self.i, self.j), int(self.j < self.i)
        start = [rows.groups.first(group, first) for group in pair]
        tiles, offsets = self._store(len(V[self.i]), len(V[self.j]) // BLOCK - after, rows.dtype, first)
        sides = *(V[group] for group in pair), *(out[group] for group in pair)
        _function("rectangle", rows.dtype)(
            rows.between(*pair), *sides, after, *start, tiles, offsets, self._filled
        )
        self._filled = self._filled or (first == 0 and len(offsets) > 1)

    def _store(self, high: int, across: int, dtype: np.dtype, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Space for the tiles of its first panels; none while only some rows are computed."""
        if self._stored is not None and (first == 0 or self._filled):
            return self._stored
        if first:
            return np.empty(0, dtype=dtype), np.zeros(1, dtype=np.int64)
        tiles = np.maximum(across - np.arange(high // PANEL) // PANELS, 0)
        offsets = np.concatenate([[0], np.cumsum(tiles * PANEL * BLOCK)]).astype(np.int64)
        offsets = offsets[: np.searchsorted(offsets * dtype.itemsize, self.budget, side="right")]
        self._stored = np.empty(int(offsets[-1]), dtype=dtype), offsets
        return self._stored


def column_groups(columns: int) -> list[slice]:
    """V is multiplied some columns at a time, so that sums fit into the memory of a worker."""
    return [slice(start, min(start + COLUMNS, columns)) for start in range(0, columns, COLUMNS)]

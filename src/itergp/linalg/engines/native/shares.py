"""K V in shares of about equal work, each computed by one thread, and added in a fixed tree.

A share is a set of blocks of rows of the upper half of K, each against all columns from its own block on, and
their mirror image. Which blocks are whose depends on the number of shares alone: they are dealt out back and
forth, so that each share gets long and short ones. So the bits of K V depend on the number of shares, and not
on where or when a share is computed; and appended rows change no bit of what the earlier ones have, as in the
other engines. Everything here may run in another process than the one that asks for it.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from itergp.linalg.engines.native import _tiles
from itergp.linalg.engines.native.engine import PANEL, _function, _kernel
from itergp.linalg.engines.native.layout import BLOCK, padded, unpadded
from itergp.prior.kernel import Kernel

COLUMNS = 64  # of V in one task: each has sums of n x columns float64
FAN = 4  # parts that are added at once: those of neighbouring shares, which lie on one worker
PANELS = BLOCK // PANEL  # in a block

Part = TypeVar("Part")


class Rows:
    """The data of a kernel matrix. Sent as kernel and inputs; the features are made where it arrives."""

    def __init__(self, kernel: Kernel, X: np.ndarray, dtype: str, instructions: str) -> None:
        self.recipe = kernel, X, dtype, instructions
        self._native: Any = None
        self._making = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, self.recipe

    @property
    def n(self) -> int:
        return len(self.recipe[1])

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.recipe[2])

    @property
    def blocks(self) -> int:
        return -(-self.n // BLOCK)

    def native(self) -> Any:
        """The kernel as the native code reads it; all workers of a cluster use the same instructions."""
        kernel, X, dtype, instructions = self.recipe
        with self._making:
            if _tiles.instruction_set() != instructions:
                _tiles.choose(instructions)
            if self._native is None:
                self._native = _kernel(kernel, X, X, np.dtype(dtype))
        return self._native

    def padded(self, V: np.ndarray) -> np.ndarray:
        """Columns as the native code reads them, made once for all shares."""
        self.native()  # they lie as the instructions want them
        return padded(V, self.dtype)

    def unpadded(self, sums: np.ndarray, columns: int) -> np.ndarray:
        return unpadded(sums, self.dtype, np.empty((self.n, columns)))


class Share:
    """Share number `index` of `count`, with its tiles, as many as fit. It is sent without them: they are made
    again faster than they are sent."""

    def __init__(self, index: int, count: int, budget: int) -> None:
        self.recipe = index, count, budget
        self._stored: tuple[np.ndarray, np.ndarray] | None = None  # tiles in streaming order, offsets
        self._filled = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Share, self.recipe

    def blocks(self, blocks: int) -> list[int]:
        """Its blocks of rows: index, 2 count - 1 - index, 2 count + index and so on, ascending."""
        index, count, _ = self.recipe
        ahead, back = range(index, blocks, 2 * count), range(2 * count - 1 - index, blocks, 2 * count)
        return sorted([*ahead, *back])

    def multiply(self, rows: Rows, V: np.ndarray, first: int) -> np.ndarray:
        """This share's part of K V in float64, padded as V is; rows before `first` may be skipped (zero)."""
        native, call, sums = rows.native(), _function("symmetric", rows.dtype), np.zeros((1, *V.shape))
        tiles, offsets = self._store(rows, first)
        for b in self.blocks(rows.blocks):
            ends = b * PANELS, (b + 1) * PANELS
            call(native, V, sums, *ends, first // BLOCK, tiles, offsets, self._filled)
        self._filled = self._filled or (first == 0 and len(offsets) > 1)
        return sums[0]

    def _store(self, rows: Rows, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Space for the tiles of its first blocks; none while only some rows are computed."""
        if self._stored is not None and (first == 0 or self._filled):
            return self._stored
        if first:
            return np.empty(0, dtype=rows.dtype), np.zeros(1, dtype=np.int64)
        sizes, left = np.zeros(rows.blocks * PANELS, dtype=np.int64), self.recipe[2]
        for b in self.blocks(rows.blocks):
            size = (rows.blocks - b) * PANEL * BLOCK  # of each of its panels
            left -= PANELS * size * rows.dtype.itemsize
            if left < 0:
                break
            sizes[b * PANELS : (b + 1) * PANELS] = size
        stored = int(sizes.nonzero()[0][-1]) + 1 if sizes.any() else 0
        offsets = np.concatenate([[0], np.cumsum(sizes[:stored])]).astype(np.int64)
        self._stored = np.empty(int(offsets[-1]), dtype=rows.dtype), offsets
        return self._stored


def add(*parts: np.ndarray) -> np.ndarray:
    """The sum of two parts and more, from left to right."""
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total


def tree(parts: Sequence[Part], adding: Callable[..., Part]) -> Part:
    """The sum of all parts, a few neighbours at a time: the same tree, whoever is fastest."""
    while len(parts) > 1:
        some = [parts[i : i + FAN] for i in range(0, len(parts), FAN)]
        parts = [group[0] if len(group) == 1 else adding(*group) for group in some]
    return parts[0]


def column_groups(columns: int) -> list[slice]:
    """V is multiplied some columns at a time, so that sums fit into the memory of a worker."""
    return [slice(start, min(start + COLUMNS, columns)) for start in range(0, columns, COLUMNS)]

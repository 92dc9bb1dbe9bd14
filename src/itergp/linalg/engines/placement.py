"""What each worker of a cluster will hold for a fit, in bytes: said before it begins, and refused if it does
not fit."""

from dataclasses import dataclass

import numpy as np

from itergp.errors import MemoryLimitError
from itergp.linalg.engines.cluster import Worker
from itergp.linalg.pieces import ROWS as ROWS_AT_ONCE
from itergp.prior.kernel import Kernel

ROOM = 0.7  # of a worker's memory that data may take,
WITH_TILES = 0.95  # and data with stored tiles
NEIGHBOURS = 30  # of a row, while hyper-parameters are learned


@dataclass(frozen=True)
class Placement:
    """On one worker: what is kept for learning; then, in its place, for passes."""

    worker: Worker
    learning: float
    passes: float
    tiles: float

    @staticmethod
    def on(
        worker: Worker, rows: "Inputs", targets: int, columns: int, workers: int, groups: int, cache: int
    ) -> "Placement":
        """For learning what `of_learning` says; for passes what `of_pass` says, and tiles up to `cache`. No
        columns: no pass."""
        learning = of_learning(rows, targets, NEIGHBOURS, workers)
        if not columns:
            return Placement(worker, learning, 0.0, 0.0)
        passes = of_pass(rows, columns, 8, worker.threads, groups / workers)
        return Placement(worker, learning, passes, of_tiles(rows.n, 8, cache, workers))

    @property
    def needed(self) -> float:
        return max(self.learning, self.passes)

    def check(self, n: int) -> None:
        """Refuse what does not fit, with both numbers."""
        require_room(self.worker, f"A fit of {n:,} rows", self.needed)
        require_room_for_tiles(self.worker, self.passes, self.tiles)


def require_room(worker: Worker, what: str, needed: float) -> None:
    if worker.memory and needed > ROOM * worker.memory:
        raise MemoryLimitError(
            f"{what} needs about {size(needed)} on worker {worker.address}, which has {size(worker.memory)}, "
            f"of which {ROOM:.0%} may be used. Give workers more memory, or fewer threads each."
        )


def require_room_for_tiles(worker: Worker, data: float, tiles: float) -> None:
    """Can only fail with a cache that was asked for: by itself it is a quarter of the memory."""
    if worker.memory and tiles and data + tiles > WITH_TILES * worker.memory:
        most = max(0.0, WITH_TILES * worker.memory - data)
        raise MemoryLimitError(
            f"DaskEngine.cache: stored tiles would take {size(tiles)} on worker {worker.address}, beside "
            f"{size(data)} of data, and it has {size(worker.memory)}. Use DaskEngine(client, "
            f'cache="{most // 1e6:.0f} MB") or less, or leave it at "auto".'
        )


@dataclass(frozen=True)
class Inputs:
    """n rows with d inputs and the features of all terms of a kernel: those of `tiles`, and linear ones."""

    n: int
    d: int
    tiles: int
    linear: int = 0

    @staticmethod
    def of(shape: tuple[int, ...], kernel: Kernel | None = None) -> "Inputs":
        """Without a kernel, which may not be chosen yet: those of one term."""
        from itergp.linalg.engines.native.leaves import leaves

        n, d = shape
        if kernel is None:
            return Inputs(n, d, d)
        counts = [0, 0]
        for leaf in leaves(kernel) or []:
            counts[leaf.linear] += leaf.features(np.zeros((1, d))).shape[1]
        return Inputs(n, d, *counts)


def of_learning(rows: Inputs, targets: int, neighbours: int, workers: int) -> float:
    """Rows, targets, shares of the noise and its part of the neighbours; and features: all of them, and three
    times those of some rows, of which they are made."""
    n, features = rows.n, rows.tiles + rows.linear
    data = 8.0 * n * (rows.d + targets + 1) + 4.0 * n * (neighbours + 1) / workers
    return data + 8.0 * features * (n + 3 * min(n, ROWS_AT_ONCE))


def of_pass(rows: Inputs, columns: int, itemsize: int, threads: int, parts: float) -> float:
    """The inputs and their features; of this block of columns and the next one V, and its own parts of K V,
    each as large as K V if they are put together; and for each thread those that it adds."""
    of_columns = columns * (2 * (itemsize + 8 * parts) + 16 * threads)
    return float(rows.n) * (8 * (rows.d + rows.tiles) + of_columns)


def of_tiles(n: int, itemsize: int, cache: int, workers: int) -> float:
    """Half of the matrix over all workers, if that is less than what each of them may keep."""
    return min(float(cache), itemsize * float(n) * n / 2 / workers)


def sentence(placements: list[Placement]) -> str:
    """Of the worker that has most to hold; the others have the same data and fewer threads."""
    most = max(placements, key=lambda one: one.needed)
    held = [f"{size(most.learning)} while learning"]
    if most.passes:
        held += [
            f"{size(most.passes)} for passes of few columns",
            f"up to {size(most.tiles)} of stored tiles",
        ]
    memory = f"of {size(most.worker.memory)}" if most.worker.memory else "with no limit of memory"
    count = f"{len(placements)} worker{'s' if len(placements) > 1 else ''}"
    return f"{count}, each holds {', '.join(held)}, {memory}"


def size(count: float) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"

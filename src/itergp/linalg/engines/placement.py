"""What each worker of a cluster will hold for a fit, in bytes: said before it begins, and refused if it does
not fit."""

from dataclasses import dataclass

from itergp.errors import MemoryLimitError
from itergp.linalg.engines.cluster import Worker

ROOM = 0.7  # of a worker's memory that data may take
NEIGHBOURS = 30  # of a row, while hyper-parameters are learned


@dataclass(frozen=True)
class Placement:
    """On one worker: what is kept for learning; then, in its place, for passes."""

    worker: Worker
    learning: float
    passes: float

    @staticmethod
    def on(
        worker: Worker, n: int, d: int, targets: int, columns: int, workers: int, groups: int
    ) -> "Placement":
        """Rows, their features, targets and shares of the noise, and its part of the neighbours; for passes
        what `of_pass` says. No columns: no pass."""
        rows, neighbours = 8.0 * n * (2 * d + targets + 1), 4.0 * n * (NEIGHBOURS + 1) / workers
        passes = of_pass(n, d, columns, 8, worker.threads, groups / workers) if columns else 0.0
        return Placement(worker, rows + neighbours, passes)

    @property
    def needed(self) -> float:
        return max(self.learning, self.passes)

    def check(self, n: int) -> None:
        """Refuse what does not fit, with both numbers."""
        if self.worker.memory and self.needed > ROOM * self.worker.memory:
            raise MemoryLimitError(
                f"A fit of {n:,} rows needs about {size(self.needed)} on worker {self.worker.address}, which "
                f"has {size(self.worker.memory)}, of which {ROOM:.0%} may be used. Give workers more memory, "
                "or fewer threads each."
            )


def of_pass(n: int, d: int, columns: int, itemsize: int, threads: int, parts: float) -> float:
    """The inputs and their features; of this block of columns and the next one V, and its own parts of K V,
    each as large as K V if they are put together; and for each thread those that it adds."""
    return 16.0 * n * d + float(n) * columns * (2 * (itemsize + 8 * parts) + 16 * threads)


def sentence(placements: list[Placement], tiles: int) -> str:
    """Of the worker that has most to hold; the others have the same data and fewer threads."""
    most = max(placements, key=lambda one: one.needed)
    held = [f"{size(most.learning)} while learning"]
    if most.passes:
        held += [f"{size(most.passes)} for passes of few columns", f"up to {size(tiles)} of stored tiles"]
    memory = f"of {size(most.worker.memory)}" if most.worker.memory else "with no limit of memory"
    count = f"{len(placements)} worker{'s' if len(placements) > 1 else ''}"
    return f"{count}, each holds {', '.join(held)}, {memory}"


def size(count: float) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"

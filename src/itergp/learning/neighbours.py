"""The nearest-neighbour likelihood (Vecchia): each observation given its nearest earlier ones in a random
order.

The product of these conditionals is a density of all data, and those of a random batch estimate its logarithm
without bias. With as many neighbours as rows it is the log marginal likelihood itself, by the chain rule.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from itergp.data.rows import Rows
from itergp.learning.evaluation import per_observation, sound
from itergp.learning.parameters import Evaluation
from itergp.linalg.compute import Compute
from itergp.linalg.engines import Conditionals, Tick, no_tick
from itergp.linalg.gram import Earlier, Gram
from itergp.prior.kernel import Kernel

FEW = 0.5  # of the rows: if a batch has fewer near it, the others are left out


@dataclass(frozen=True, eq=False)
class NeighbourLikelihood:
    """An objective with fixed neighbours, the nearest in the metric of the kernel `at` which it was made."""

    rows: Rows
    given: Earlier  # of these rows in a random order, or of those that a batch needs
    tick: Tick = no_tick

    @staticmethod
    def at(
        kernel: Kernel,
        rows: Rows,
        neighbours: int = 30,
        batch: int | None = None,
        seed: int = 0,
        compute: Compute = Compute(),
        tick: Tick = no_tick,
    ) -> "NeighbourLikelihood":
        """Of `batch` random rows (None: all), with the rows in the random order of `seed`."""
        order, chosen = in_order(rows.n, batch, seed)
        gram, m = Gram(kernel, rows.X, compute), max(1, min(neighbours, rows.n - 1))
        few = chosen.size * (m + 1) < FEW * rows.n  # the others would only be copied at each evaluation
        search = gram.earlier_of_few if few else gram.earlier
        return NeighbourLikelihood(rows, search(order, m, chosen, tick), tick)

    @property
    def batch(self) -> int:
        """The number of rows that it is the likelihood of."""
        return self.given.chosen.size

    def __call__(self, kernel: Kernel, noise: float) -> Evaluation:
        return sound(kernel, lambda: self._evaluate(kernel, noise))

    @cached_property
    def _conditionals(self) -> Conditionals:
        """One value for all evaluations: a cluster sends it once."""
        own = self.given.rows
        return self.given.of(self.rows.Y[own], 1.0 / self.rows.precision[own])

    def _evaluate(self, kernel: Kernel, noise: float) -> Evaluation:
        rows = self.rows
        value, slopes, slope = self.given.likelihood(kernel, noise, self._conditionals, self.tick)
        scale = rows.n / self.batch
        return per_observation(
            rows,
            noise,
            scale * value,
            {p: scale * np.asarray(s) for p, s in slopes.items()},
            scale * slope,
        )


def in_order(n: int, batch: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random order of the rows, and the places in it of a random batch (None: all), ascending."""
    rng = np.random.default_rng(seed)
    order, size = rng.permutation(n), n if batch is None else min(batch, n)
    return order, np.arange(n) if size == n else np.sort(rng.choice(n, size, replace=False))

"""What workers keep while hyper-parameters are learned, and what they compute of it, with one thread each.

Everything here may run in another process than the one that asks for it. What can be made again from the
data (features, trees) is made there when it is first needed, and never sent.
"""

import time
from threading import Lock
from typing import Any

import numpy as np

from itergp.linalg.engines.conditionals import Conditionals
from itergp.linalg.engines.native import _tiles
from itergp.linalg.engines.native.engine import ENGINE
from itergp.linalg.engines.native.leaves import differentiable_leaves
from itergp.linalg.engines.native.neighbours import scaled_inputs, summands
from itergp.linalg.engines.native.shares import Rows, Share
from itergp.linalg.neighbours import earlier_by_trees
from itergp.prior.kernel import Kernel

COLUMNS, SECONDS = 16, 0.05  # of passes by which a thread is timed, and for how long

Asked = tuple[Kernel, float]  # the point of an evaluation: kernel and noise


class Observations:
    """Rows with their targets, of which likelihoods are evaluated. X, y and share as in `Conditionals`."""

    def __init__(self, X: np.ndarray, y: np.ndarray, share: np.ndarray) -> None:
        self.data = X, y, share
        self._last: tuple[Asked, Any, np.ndarray] | None = None
        self._making = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Observations, self.data

    def sums(self, asked: Asked, rows: np.ndarray, J: np.ndarray) -> np.ndarray:
        """Of these rows given their neighbours J: the sum of their values, then those of gradients."""
        X, y, share = self.data
        parts, F = self._features(asked)
        values, sums = summands(parts, F, asked[1], Conditionals(X, y, share, rows, J), 1)
        return np.concatenate([[values.sum()], sums.sum(axis=0)])

    def _features(self, asked: Asked) -> tuple[Any, np.ndarray]:
        """Made by the first batch of an evaluation, for all of those on this worker."""
        with self._making:
            if self._last is None or self._last[0] is not asked:
                parts = differentiable_leaves(asked[0])
                assert parts  # checked before it was sent
                self._last = None  # not those of two evaluations at once
                self._last = asked, parts, scaled_inputs(parts, self.data[0])
            return self._last[1:]


class Searched:
    """Rows among which the nearest earlier ones are searched for; see `Engine.earlier`."""

    def __init__(self, F: np.ndarray, count: int, by_trees: bool) -> None:
        self.recipe = F, count, by_trees
        self._made: dict[tuple[str, int], Any] = {}
        self._making = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Searched, self.recipe

    def earlier(self, chosen: np.ndarray) -> np.ndarray:
        """The nearest earlier rows of some of the rows, ascending."""
        F, count, by_trees = self.recipe

        def brute(stop: int, rows: np.ndarray) -> np.ndarray:
            return self._prepared("scan", stop).nearest(F[rows], count, "earlier", rows)

        if not by_trees:
            return brute(len(F), chosen)
        trees = lambda first: self._prepared("tree", len(first))  # noqa: E731
        return earlier_by_trees(trees, brute, F, count, chosen, lambda: None)

    def _prepared(self, kind: str, stop: int) -> Any:
        """The first rows, prepared once for all batches on this worker."""
        with self._making:
            if (kind, stop) not in self._made:
                self._made[kind, stop] = getattr(ENGINE, kind)(self.recipe[0][:stop], 1)
            return self._made[kind, stop]


class Timed:
    """A few rows, whose passes say how fast a thread is."""

    def __init__(self, kernel: Kernel, X: np.ndarray, dtype: str) -> None:
        self.recipe = kernel, X, dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return Timed, self.recipe


def passes_per_second(rows: Timed, _: Any = None) -> float:
    """By one thread, without stored tiles; the first pass makes the features."""
    held, share = Rows(*rows.recipe, _tiles.instruction_set(), 1), Share(0, 0, 0)
    V = np.ones((held.groups.n, COLUMNS))
    share.multiply(held, V, V, 0)
    began, passes = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        share.multiply(held, V, V, 0)
        passes += 1
    return passes / (time.perf_counter() - began)


def earlier(rows: Searched, chosen: np.ndarray) -> np.ndarray:
    return rows.earlier(chosen)

"""A search index: the rows of a data set, prepared for nearest-neighbour queries."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from itergp.linalg.engines import Engine

T = TypeVar("T")
TREE_FEATURES = 40  # up to this number of features a tree finds rows in less time than a comparison with all


class Index:
    """Rows in the kernel's own metric: in a search tree if there are few features, else all compared with.
    F is its own from now on."""

    def __init__(self, F: np.ndarray, engine: Engine, threads: int | None) -> None:
        few = 0 < F.shape[1] <= TREE_FEATURES
        self.rows: Any = engine.tree(F, threads, owned=True) if few else engine.scan(F, threads)

    def nearest(self, F: np.ndarray, count: int) -> np.ndarray:
        """The `count` rows nearest to each of these points, nearest first."""
        return self.rows.nearest(F, count)


class Once(Generic[T]):
    """A value computed on first use, once for all threads, and left out when pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: T | None = None

    def get(self, make: Callable[[], T]) -> T:
        with self.lock:
            if self.made is None:
                self.made = make()
            return self.made

    def __reduce__(self) -> tuple[Any, ...]:
        return Once, ()

"""Local actions, triangular solves and a search tree in C++: what predictions are made of."""

import numpy as np

from itergp.linalg.engines.base import Tick, no_tick
from itergp.linalg.engines.native import _tiles
from itergp.linalg.engines.native.leaves import Leaf
from itergp.linalg.engines.native.neighbours import at_once, features, terms
from itergp.linalg.local import Neighbourhoods

MANY = (
    256  # neighbours, beyond which the matrices of several points are too large to be worked on side by side
)

PER_SEARCH = 5e5  # operations of a search, roughly
GROWN = 2**19  # rows that are split or moved between two ticks, at least: a tenth of a second


class NativeTree:
    """Rows in a search tree, whose leaves are scanned as vectors. Where F is `owned`, it is reordered in
    place: of many rows, a copy is much."""

    def __init__(self, F: np.ndarray, threads: int, tick: Tick = no_tick, owned: bool = False) -> None:
        points = _rows(F) if owned else np.array(F, dtype=np.float64, order="C")
        self.tree, self.threads = _tiles.SearchTree(points), threads
        while not self.tree.grow(GROWN):
            tick()

    def nearest(self, F: np.ndarray, count: int) -> np.ndarray:
        """The `count` rows nearest to each of these points, nearest first."""
        found = np.empty((len(F), count), dtype=np.int32)
        self.tree.nearest(_rows(F), found, at_once(self.threads, len(F) * PER_SEARCH))
        return found


def solve_lower(L: np.ndarray, B: np.ndarray, threads: int) -> np.ndarray:
    """See `Engine.solve_lower`."""
    X = np.empty(B.shape)
    if X.size:
        number = at_once(threads, 0.5 * X.size * len(L))
        _tiles.solve_lower(L if L.strides[1] == L.itemsize else _rows(L), _rows(B), X, number)
    return X


def local_actions(
    parts: list[Leaf],
    given: Neighbourhoods,
    residual: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    threads: int,
) -> None:
    """See `Engine.local_actions`, for a sum of these leaves."""
    (points, sizes), (F, _) = features(parts, given.X0), features(parts, given.X1)
    data = points, F, _rows(given.N), _rows(given.W), _rows(given.H), _rows(residual)
    J = np.ascontiguousarray(given.J, dtype=np.int32)
    groups, pairs = -(-len(points) // _tiles.group_of_points()), 0.5 * J.size * J.shape[1]
    number = at_once(threads, pairs * (given.W.shape[1] + F.shape[1] + J.shape[1] / 3.0 + 20.0))
    _tiles.local_actions(*terms(parts, sizes), *data, J, given.jitter, mean, variance, 0, groups, number)


def _rows(A: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(A, dtype=np.float64)

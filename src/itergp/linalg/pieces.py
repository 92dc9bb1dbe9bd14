"""What is computed of each row by itself, some rows at a time: of many rows, whole copies on the way would
take more memory than the result, and no clock could be read meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from itergp.linalg.engines.base import Tick, no_tick

ROWS = 2**16  # at once: some megabytes


def pieces(n: int) -> Iterator[slice]:
    """Of n rows, at least one piece."""
    return (slice(start, min(start + ROWS, n)) for start in range(0, max(n, 1), ROWS))


def by_pieces(function: Callable[[slice], Any], n: int, tick: Tick = no_tick) -> np.ndarray:
    """function(some of n rows), one below the other."""
    if n <= ROWS:
        return function(slice(0, n))
    out: np.ndarray | None = None
    for rows in pieces(n):
        tick()
        some = function(rows)
        if out is None:
            out = np.empty((n, *some.shape[1:]), dtype=some.dtype)
        out[rows] = some
    assert out is not None
    return out

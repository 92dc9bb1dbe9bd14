"""Sums over many rows: some rows at a time, always the same ones, then these sums from left to right.

So the bits of a sum depend on the number of rows alone, and not on where, when or by whom a part was made.
"""

from collections.abc import Sequence

import numpy as np

ROWS = 8192  # in a batch, at least: a few times what a task on a cluster takes by itself
MOST = 256  # batches
WHOLE = 64  # rows: a batch has a multiple of them, as the native code sums so many at a time


def batches(rows: int) -> list[slice]:
    """The rows that are summed first: which ones depends on their number alone."""
    size = -(-max(ROWS, -(-rows // MOST)) // WHOLE) * WHOLE
    return [slice(start, min(start + size, rows)) for start in range(0, max(1, rows), size)]


def in_batches(values: np.ndarray, each: int = 1) -> np.ndarray:
    """The sum over the first axis, where each entry stands for so many rows: 1, or WHOLE."""
    some = [slice(one.start // each, -(-one.stop // each)) for one in batches(each * len(values))]
    return in_order([values[one].sum(axis=0) for one in some])


def in_order(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The sum from left to right."""
    if len(parts) == 1:
        return parts[0]
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total

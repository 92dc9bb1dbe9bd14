"""Nearest rows, and the likelihood of rows given their nearest ones, in C++."""

from typing import Any

import numpy as np

from itergp.linalg._native import BLOCK, _blocks, _tiles
from itergp.linalg._native.leaves import Leaf, leaves
from itergp.linalg.engines import Tick
from itergp.prior.kernel import Kernel
from itergp.prior.stationary import Constant, RationalQuadratic

ROWS = 4  # of a panel of the search
CHUNK = _tiles.CHUNK
AMONG = {"all": 0, "others": 1, "earlier": 2}
WORK_PER_CALL = 5e8  # distances, or operations on small matrices, between two ticks


def nearest(
    F0: np.ndarray, F1: np.ndarray, count: int, among: str, places: np.ndarray, threads: int, tick: Tick
) -> np.ndarray:
    """The `count` rows of F1 nearest to each row of F0, nearest first; -1 where there are not so many.

    `places` are the rows of F1 that those of F0 are, in ascending order, for "others" and "earlier".
    """
    found = np.empty((len(F0), count), dtype=np.int32)
    centre = F1.mean(axis=0)
    left, right = (_blocks(F - centre, np.dtype("float32")) for F in (F0, F1))
    places = np.ascontiguousarray(places, dtype=np.int32)
    panels, work = -(-len(F0) // ROWS), ROWS * right.shape[0] * BLOCK * (1.0 + F1.shape[1] / 8.0)
    step = max(threads, int(WORK_PER_CALL / work))
    for first in range(0, panels, step):
        tick()
        _tiles.search(
            left, right, places, len(F1), AMONG[among], found, first, min(first + step, panels), threads
        )
    return found


def likelihood(
    kernel: Kernel,
    X: np.ndarray,
    y: np.ndarray,
    N: np.ndarray,
    share: np.ndarray,
    rows: np.ndarray,
    J: np.ndarray,
    threads: int,
    tick: Tick,
) -> tuple[np.ndarray, dict[str, Any], float] | None:
    """As `itergp.linalg.neighbours.likelihood` says; None if the kernel is no sum of scaled leaves."""
    parts = leaves(kernel, np.arange(X.shape[1]))
    if parts is None:
        return None
    profiles = [leaf for leaf in parts if type(leaf.kernel) is not Constant]
    constants = [leaf for leaf in parts if type(leaf.kernel) is Constant]
    constant = sum(leaf.weight * leaf.kernel.value for leaf in constants)  # type: ignore[attr-defined]
    centred = X - X.mean(axis=0)
    F = np.concatenate(
        [np.zeros((len(X), 0)), *(centred[:, leaf.columns] * leaf.rate for leaf in profiles)], axis=1
    )
    sizes = [len(leaf.columns) for leaf in profiles]
    terms = (
        sizes,
        [leaf.kind for leaf in profiles],
        [leaf.weight for leaf in profiles],
        [leaf.alpha for leaf in profiles],
    )
    values, chunks = np.empty(len(rows)), -(-len(rows) // CHUNK)
    sums = np.zeros((chunks, 2 * len(profiles) + sum(sizes) + 2))
    work = CHUNK * (J.shape[1] + 1.0) ** 2 * (sum(sizes) + J.shape[1] / 3.0 + 20.0)
    step = threads * max(1, int(WORK_PER_CALL / work))
    for first in range(0, chunks, step):
        tick()
        ends = first, min(first + step, chunks), threads
        _tiles.likelihood(*terms, constant, F, y, N, share, rows, J, values, sums, *ends)
    return values, *_slopes(profiles, constants, sizes, sums.sum(axis=0))


def _slopes(
    profiles: list[Leaf], constants: list[Leaf], sizes: list[int], total: np.ndarray
) -> tuple[dict[str, Any], float]:
    """From the sums of neighbours.h to gradients by path."""
    slopes: dict[str, Any] = {}

    def add_to_scales(leaf: Leaf, by_weight: float) -> None:
        for path, scale in leaf.scales.items():
            slopes[path] = slopes.get(path, 0.0) + leaf.weight / scale * by_weight

    squares = np.split(total[2 * len(profiles) : -2], np.cumsum(sizes)[:-1]) if profiles else []
    for k, (leaf, by_feature) in enumerate(zip(profiles, squares, strict=True)):
        by_feature = by_feature if leaf.lengthscale.ndim else by_feature.sum()
        slopes[f"{leaf.path}lengthscale"] = -2.0 * leaf.weight * by_feature / leaf.lengthscale
        if isinstance(leaf.kernel, RationalQuadratic):
            slopes[f"{leaf.path}alpha"] = leaf.weight * total[2 * k + 1]
        add_to_scales(leaf, total[2 * k])
    for leaf in constants:
        slopes[f"{leaf.path}value"] = leaf.weight * total[-2]
        add_to_scales(leaf, leaf.kernel.value * total[-2])  # type: ignore[attr-defined]
    return slopes, float(total[-1])

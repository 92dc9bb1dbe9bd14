"""Rows and their nearest rows: the search, and the likelihood of each row given its nearest ones, with its
gradient.

Both are brute force done well: on two cores, all pairs of 40,000 rows are searched in a second or two, and
their likelihoods given 30 neighbours take a fraction of one. Where the native code is missing or does not
know the kernel, a tree and JAX serve.
"""

from typing import Any

import numpy as np

from itergp.linalg.engines import Tick, no_tick
from itergp.prior.kernel import Kernel

TREE_FEATURES = 8  # a k-d tree up to here, brute force beyond


def coordinates(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """X in the kernel's own metric; for kernels made of several, the coordinates of all of them side by
    side."""
    embedded = kernel.embedding(X)
    if embedded is not None:
        return embedded
    inner = [getattr(kernel, name) for name in ("kernel", "left", "right") if hasattr(kernel, name)]
    if hasattr(kernel, "columns"):
        X = X[:, np.array(kernel.columns)]
    parts = [coordinates(part, X) for part in inner]
    return np.concatenate(parts, axis=1) if parts else X / getattr(kernel, "lengthscale", 1.0)


def nearest(
    F0: np.ndarray,
    F1: np.ndarray,
    count: int,
    among: str = "all",
    threads: int | None = None,
    tick: Tick = no_tick,
    chosen: np.ndarray | None = None,
) -> np.ndarray:
    """The `count` rows of F1 nearest to each row of F0, nearest first, and -1 where there are not so many.

    `among` is "all" rows; or, where F0 is F1, the "others", or those "earlier" in the order of the rows.
    `chosen` asks for some rows of F0 only, in ascending order.
    """
    places = np.arange(len(F0)) if chosen is None else chosen
    try:
        from itergp.linalg._native import at_most_cores
        from itergp.linalg._native.neighbours import nearest as native
    except ImportError:
        return _nearest_by_tree(F0, F1, count, among)[places]
    return native(F0[places], F1, count, among, places, at_most_cores(threads), tick)


def _nearest_by_tree(F0: np.ndarray, F1: np.ndarray, count: int, among: str) -> np.ndarray:
    if among == "earlier":  # rows of [2^k, 2^(k+1)) among the first 2^k; the first ones by brute force
        found, stop = np.full((len(F0), count), -1, dtype=np.int32), min(len(F0), 2 * count + 1)
        for i in range(1, stop):
            order = np.argsort(((F1[:i] - F0[i]) ** 2).sum(axis=1), kind="stable")[:count]
            found[i, : order.size] = order
        while stop < len(F0):
            end = min(2 * stop, len(F0))
            found[stop:end] = _nearest_by_tree(F0[stop:end], F1[:stop], count, "all")
            stop = end
        return found
    from sklearn.neighbors import NearestNeighbors

    extra = 1 if among == "others" else 0
    search = NearestNeighbors(algorithm="auto" if F1.shape[1] <= TREE_FEATURES else "brute").fit(F1)
    wanted = min(count + extra, len(F1))
    rows = search.kneighbors(F0, wanted, return_distance=False).astype(np.int32)
    if among == "others":
        itself = rows == np.arange(len(F0))[:, None]
        itself[~itself.any(axis=1), -1] = True  # hidden behind rows at the same place
        rows = rows[~itself].reshape(len(F0), wanted - 1)
    missing = count - rows.shape[1]
    return (
        np.concatenate([rows, np.full((len(F0), missing), -1, dtype=np.int32)], axis=1)
        if missing > 0
        else rows
    )


def likelihood(
    kernel: Kernel,
    X: np.ndarray,
    y: np.ndarray,
    N: np.ndarray,
    share: np.ndarray,
    rows: np.ndarray,
    J: np.ndarray,
    threads: int | None = None,
    tick: Tick = no_tick,
) -> tuple[np.ndarray, dict[str, Any], float]:
    """-log p(y_i | y_J) for each i in `rows` with the neighbours J of that row (-1: none), summed over
    targets; and the gradient of their sum in the kernel's parameters, by path, and in the noise, where
    dN/dnoise = share."""
    rows, J = np.ascontiguousarray(rows, dtype=np.int32), np.ascontiguousarray(J, dtype=np.int32)
    try:
        from itergp.linalg._native import at_most_cores
        from itergp.linalg._native.neighbours import likelihood as native

        answer = native(kernel, X, np.ascontiguousarray(y), N, share, rows, J, at_most_cores(threads), tick)
    except ImportError:
        answer = None
    if answer is not None:
        return answer
    from itergp.linalg._jax_neighbours import likelihood as tiles

    return tiles(kernel, X, y, N, share, rows, J, tick)

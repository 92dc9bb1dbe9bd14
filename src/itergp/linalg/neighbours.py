"""Nearest rows: their coordinates, and a search by k-d tree if nothing faster is available."""

import numpy as np

from itergp.prior.kernel import Kernel

TREE_FEATURES = 8  # a k-d tree up to this number of features, brute force beyond


def coordinates(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """X in the kernel's own metric; for composite kernels, the coordinates of all parts side by side."""
    embedded = kernel.embedding(X)
    if embedded is not None:
        return embedded
    terms = kernel.terms()
    if terms[0].kernel is not kernel:
        return np.concatenate([coordinates(term.kernel, term.of(X)) for term in terms], axis=1)
    inner = [value for value in vars(kernel).values() if isinstance(value, Kernel)]
    if inner:  # a user's composite kernel
        return np.concatenate([coordinates(part, X) for part in inner], axis=1)
    return X / getattr(kernel, "lengthscale", 1.0)


def nearest_by_tree(F0: np.ndarray, F1: np.ndarray, count: int, among: str) -> np.ndarray:
    """`Engine.nearest`, by a k-d tree; by brute force if there are many features."""
    if among == "earlier":  # rows of [2^k, 2^(k+1)) among the first 2^k; the first ones by brute force
        found, stop = np.full((len(F0), count), -1, dtype=np.int32), min(len(F0), 2 * count + 1)
        for i in range(1, stop):
            order = np.argsort(((F1[:i] - F0[i]) ** 2).sum(axis=1), kind="stable")[:count]
            found[i, : order.size] = order
        while stop < len(F0):
            end = min(2 * stop, len(F0))
            found[stop:end] = nearest_by_tree(F0[stop:end], F1[:stop], count, "all")
            stop = end
        return found
    from sklearn.neighbors import NearestNeighbors

    extra = 1 if among == "others" else 0
    search = NearestNeighbors(algorithm="auto" if F1.shape[1] <= TREE_FEATURES else "brute").fit(F1)
    wanted = min(count + extra, len(F1))
    rows = search.kneighbors(F0, wanted, return_distance=False).astype(np.int32)
    if among == "others":
        itself = rows == np.arange(len(F0))[:, None]
        itself[~itself.any(axis=1), -1] = True  # missed because of rows at the same location
        rows = rows[~itself].reshape(len(F0), wanted - 1)
    missing = count - rows.shape[1]
    return (
        np.concatenate([rows, np.full((len(F0), missing), -1, dtype=np.int32)], axis=1)
        if missing > 0
        else rows
    )

"""Nearest rows: their coordinates, a search by k-d tree, and the choice of those that say most, if nothing
faster is available."""

from collections.abc import Callable
from typing import Any

import numpy as np

from itergp.linalg.libraries import workers
from itergp.prior.kernel import Kernel
from itergp.prior.stationary import Constant

FEW, MANY = (
    16,
    2,
)  # a list with fewer than n / 16 rows is sorted instead of marked, one with 2 n has most of them
# where nearest earlier rows are found by trees: rows that go by brute force, rows that are searched for at
# once, and how many more than are wanted are asked for, as half of them may be later
FIRST_ROWS, QUERIES, WIDER = 1000, 8192, 3
TREE_FEATURES = 8  # a k-d tree up to this number of features, brute force beyond

# Shares of the prior variance below which a candidate's conditional variance, and what it would remove at the
# point, are only rounding; and the difference of gains that counts as a tie, as rounding differs by machine.
LEAST_VARIANCE, LEAST_GAIN, TIE = 1e-13, 1e-14, 1e-6


def coordinates(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """X in the kernel's own metric; for composite kernels, the coordinates of all parts side by side."""
    embedded = kernel.embedding(X)
    if embedded is not None:
        return embedded
    terms = kernel.terms()
    if terms[0].kernel is not kernel:
        # a constant has no metric, and X as it is would drown the others where its units are large
        terms = [term for term in terms if not isinstance(term.kernel, Constant)] or terms
        return np.concatenate([coordinates(term.kernel, term.of(X)) for term in terms], axis=1)
    inner = [value for value in vars(kernel).values() if isinstance(value, Kernel)]
    if inner:  # a user's composite kernel
        return np.concatenate([coordinates(part, X) for part in inner], axis=1)
    return X / getattr(kernel, "lengthscale", 1.0)


class Tree:
    """SciPy's k-d tree, if there is no native one."""

    def __init__(self, F: np.ndarray, threads: int | None) -> None:
        from scipy.spatial import cKDTree

        self.tree, self.threads = cKDTree(F), workers(threads, 0.0)

    def nearest(self, F: np.ndarray, count: int) -> np.ndarray:
        """The `count` rows nearest to each of these points, nearest first."""
        return self.tree.query(F, k=np.arange(1, count + 1), workers=self.threads)[1]


class Scan:
    """Searches by brute force, if there are no native ones."""

    def __init__(self, F: np.ndarray) -> None:
        self.F = F

    def nearest(self, F: np.ndarray, count: int) -> np.ndarray:
        """The `count` rows nearest to each of these points, nearest first."""
        return nearest_by_tree(F, self.F, count, "all")


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


def earlier_by_trees(
    tree: Callable[[np.ndarray], Any],
    brute: Callable[[int, np.ndarray], np.ndarray],
    F: np.ndarray,
    count: int,
    chosen: np.ndarray,
    tick: Callable[[], None],
) -> np.ndarray:
    """The `count` nearest earlier rows of the `chosen` ones (ascending), padded with -1.

    The rows of the second half search among all, those of the second quarter among the first half, and so on:
    at least half of what they find is earlier. The first rows search by `brute` force.
    """
    found, stop = np.full((len(chosen), count), -1, dtype=np.int32), len(F)
    while stop > max(FIRST_ROWS, 4 * count):  # so that there are enough
        some = np.flatnonzero((chosen >= stop // 2) & (chosen < stop))
        if some.size:
            index = tree(F[:stop])
            for start in range(0, some.size, QUERIES):
                tick()
                batch = some[start : start + QUERIES]
                found[batch] = _earlier(index, F, chosen[batch], count, stop)
        stop //= 2
    first = np.flatnonzero(chosen < stop)
    if first.size:
        found[first] = brute(stop, chosen[first])
    return found


def _earlier(index: Any, F: np.ndarray, rows: np.ndarray, count: int, stop: int) -> np.ndarray:
    """The nearest earlier rows of these, in a tree of the first `stop` rows; asks for more where it must."""
    wanted = min(stop, WIDER * count)
    near = index.nearest(F[rows], wanted)
    is_earlier = near < rows[:, None]
    first = np.argsort(~is_earlier, axis=1, kind="stable")[:, :count]
    found = np.take_along_axis(near, first, axis=1)
    short = np.flatnonzero(is_earlier.sum(axis=1) < count)
    if short.size:
        found[short] = _earlier(index, F, rows[short], 2 * count, stop)[:, :count]
    return found


def distinct(J: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in J, of n, and J as positions among them (int32); -1 stays. All n rows, if J is so
    long that most of them are in it."""
    if J.size >= MANY * n:
        return np.arange(n), J.astype(np.int32, copy=False)
    if J.size * FEW < n:  # sorting a few numbers takes less time than marking n
        rows = np.unique(J)
        rows = rows[np.searchsorted(rows, 0) :]
        return rows, np.where(J < 0, -1, np.searchsorted(rows, J)).astype(np.int32)
    position = np.full(n + 1, -1, dtype=np.int32)
    position[J] = 0
    rows = np.flatnonzero(position[:n] == 0)
    position[n] = -1
    position[rows] = np.arange(rows.size, dtype=np.int32)
    return rows, position[J]


def most_informative(
    batch: Callable[[np.ndarray, np.ndarray], np.ndarray],
    X0: np.ndarray,
    variance: np.ndarray,
    X1: np.ndarray,
    K_hat: np.ndarray,
    J: np.ndarray,
    count: int,
) -> np.ndarray:
    """`Engine.most_informative` for kernels `batch`, the prior variances of X0, and the diagonal of K_hat.

    A partial Cholesky factorisation of each point's candidates, pivoted by k(x, j)^2 / K_hat(j, j) given the
    pivots so far: how much candidate j lowers the variance at x.
    """
    points, free = np.arange(len(J)), J >= 0
    A, chosen = X1[J], np.full((len(J), count), -1, dtype=np.int32)
    k, s = batch(A, X0[:, None])[:, :, 0], np.where(free, K_hat[J], 0.0)
    floor, L = LEAST_VARIANCE * s, np.zeros((count, *J.shape))
    for i in range(count):
        gain = np.divide(k * k, s, out=np.zeros_like(k), where=free & (s > floor))
        top = gain.max(axis=1)
        some = points[top > LEAST_GAIN * variance]
        if not some.size:
            break
        a = np.argmax(gain[some] >= (1.0 - TIE) * top[some, None], axis=1)  # the nearest of those that tie
        chosen[some, i], free[some, a] = J[some, a], False
        column = batch(A[some], A[some, a][:, None])[:, :, 0]
        column -= np.einsum("ipc,ip->pc", L[:i, some], L[:i, some, a])
        root = np.sqrt(s[some, a])[:, None]
        L[i, some] = column / root
        k[some] -= L[i, some] * k[some, a][:, None] / root
        s[some] -= L[i, some] ** 2
    return _filled(chosen, J, free)


def _filled(chosen: np.ndarray, J: np.ndarray, free: np.ndarray) -> np.ndarray:
    """With the nearest candidates that are left, where those chosen are too few: the rest is rounding."""
    left = np.where(free, J, -1)
    both = np.concatenate([chosen, left], axis=1)
    first = np.argsort(both < 0, axis=1, kind="stable")
    return np.take_along_axis(both, first, axis=1)[:, : chosen.shape[1]].astype(np.int32)

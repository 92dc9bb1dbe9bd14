"""Nearest rows, those of them that say most, and the likelihood of rows given their nearest ones, in C++."""

from typing import Any

import numpy as np

from itergp.linalg.engines.base import Tick, no_tick
from itergp.linalg.engines.conditionals import Conditionals
from itergp.linalg.engines.native import _tiles
from itergp.linalg.engines.native.layout import BLOCK, blocks
from itergp.linalg.engines.native.leaves import Leaf, slopes_of
from itergp.linalg.engines.native.pace import paced
from itergp.linalg.engines.sums import in_batches
from itergp.linalg.neighbours import LEAST_GAIN, LEAST_VARIANCE, TIE
from itergp.linalg.pieces import ROWS as ROWS_AT_ONCE, by_pieces, pieces
from itergp.prior.parameters import Slopes

ROWS = 4  # rows of a panel of the search
SOME = 1024  # rows, of which the median is the centre
FARTHEST = 2.0**30  # coordinates, the sum of whose squares float32 can hold
CHUNK = _tiles.CHUNK
AMONG = {"all": 0, "others": 1, "earlier": 2}
WORK_PER_CALL = 5e8  # distances, or operations on small matrices, between two ticks
WORK_PER_THREAD = 4e6  # below which a thread takes longer to start, on a busy machine, than it would work


def at_once(threads: int, work: float) -> int:
    """As many threads as have enough to do."""
    return max(1, min(threads, int(work / WORK_PER_THREAD)))


class NativeScan:
    """Rows prepared once, for searches that compare with all of them."""

    def __init__(self, F: np.ndarray, threads: int) -> None:
        self.rows, self.threads = len(F), threads
        # the mean would follow a single row far away, and float32 has no digits left for the others
        self.centre = np.median(F[:: -(-len(F) // SOME)], axis=0)
        self.unit = _unit(max(_largest(F[rows] - self.centre) for rows in pieces(len(F))))
        self.blocks = self._in_float32(F)

    def nearest(
        self,
        F: np.ndarray,
        count: int,
        among: str = "all",
        places: np.ndarray | None = None,
        tick: Tick = no_tick,
    ) -> np.ndarray:
        """The `count` rows nearest to each of these points, nearest first, padded with -1 if there are fewer.

        `places` are the indices of the points among the rows, ascending, for "others" and "earlier".
        """
        found = np.empty((len(F), count), dtype=np.int32)
        left, right = self._in_float32(F), self.blocks
        places = np.ascontiguousarray(np.arange(len(F)) if places is None else places, dtype=np.int32)
        panels, work = -(-len(F) // ROWS), ROWS * right.shape[0] * BLOCK * (1.0 + F.shape[1] / 8.0)
        most, how = max(self.threads, int(WORK_PER_CALL / work)), (self.rows, AMONG[among], found)
        for first, last in paced(panels, most, tick, self.threads):
            _tiles.search(left, right, places, *how, first, last, self.threads)
        return found

    def _in_float32(self, F: np.ndarray) -> np.ndarray:
        if len(F) <= ROWS_AT_ONCE:
            return self._block(F)
        out = np.empty((-(-len(F) // BLOCK), F.shape[1], BLOCK), dtype=np.float32)
        for rows in pieces(len(F)):  # whole blocks
            out[rows.start // BLOCK : -(-rows.stop // BLOCK)] = self._block(F[rows])
        return out

    def _block(self, F: np.ndarray) -> np.ndarray:
        G = F - self.centre
        if self.unit != 1.0 or _largest(G) > FARTHEST:
            G = np.clip(self.unit * G, -FARTHEST, FARTHEST)
        return blocks(G, np.dtype("float32"))


def _largest(F: np.ndarray) -> float:
    return float(max(F.max(initial=0.0), -F.min(initial=0.0)))  # without a copy of all of it


def _unit(largest: float) -> float:
    """A power of two that brings squares of the largest coordinate into the range of float32."""
    if not largest or 1.0 / FARTHEST < largest < FARTHEST:
        return 1.0
    return float(np.ldexp(1.0, min(1000, -int(np.frexp(largest)[1]))))


def most_informative(
    parts: list[Leaf],
    X0: np.ndarray,
    X1: np.ndarray,
    N: np.ndarray,
    J: np.ndarray,
    count: int,
    threads: int,
    tick: Tick,
) -> np.ndarray:
    """See `Engine.most_informative`, for a sum of these leaves."""
    (points, sizes), (F, _) = features(parts, X0), features(parts, X1)
    as_terms = terms(parts, sizes)
    J, chosen = np.ascontiguousarray(J, dtype=np.int32), np.empty((len(X0), count), dtype=np.int32)
    work = J.shape[1] * count * (F.shape[1] + count / 2.0 + 20.0)
    threads = at_once(threads, work * len(X0))
    for first, last in paced(len(X0), threads * max(1, int(WORK_PER_CALL / work)), tick, threads):
        _tiles.most_informative(
            *as_terms, points, F, N, J, LEAST_VARIANCE, LEAST_GAIN, TIE, chosen, first, last, threads
        )
    return chosen


def features(parts: list[Leaf], X: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The features of all terms side by side, and how many each has."""
    of_terms = [leaf.features(X) for leaf in parts if not leaf.constant]
    F = of_terms[0] if len(of_terms) == 1 else np.concatenate([np.zeros((len(X), 0)), *of_terms], axis=1)
    return np.ascontiguousarray(F), [part.shape[1] for part in of_terms]


def terms(parts: list[Leaf], sizes: list[int]) -> tuple[Any, ...]:
    """The leaves as the native code takes them, with so many features each."""
    profiles = [leaf for leaf in parts if not leaf.constant]
    return (
        sizes,
        [leaf.kind for leaf in profiles],
        [leaf.height for leaf in profiles],
        [leaf.alpha for leaf in profiles],
        sum(leaf.term.weight * leaf.kernel.value for leaf in parts if leaf.constant),
    )


def _less(of: tuple[Any, ...], features: int) -> tuple[Any, ...]:
    """The terms, less the inner products of some more features, which are given."""
    sizes, kinds, weights, alphas, constant = of
    return [*sizes, features], [*kinds, _tiles.FIXED], [*weights, -1.0], [*alphas, 0.0], constant


def likelihood(
    parts: list[Leaf], noise: float, given: Conditionals, threads: int, tick: Tick
) -> tuple[np.ndarray, Slopes, float]:
    """See `Engine.likelihood`, for a sum of these leaves."""
    F = scaled_inputs(parts, given.X)
    values, sums = summands(parts, F, noise, given, threads, tick)
    return values, *slopes(parts, given.X.shape[1], in_batches(sums, CHUNK), given.less is not None)


def scaled_inputs(parts: list[Leaf], X: np.ndarray) -> np.ndarray:
    """The features of all terms side by side, as multiples of the inputs."""
    d, profiles = X.shape[1], [leaf for leaf in parts if not leaf.constant]
    mean = X.mean(axis=0)

    def scaled(rows: slice) -> np.ndarray:
        some, centred = X[rows], X[rows] - mean  # of which linear parts would notice
        of_terms = [
            (some if leaf.linear else centred)[:, leaf.columns(d)] * leaf.rate(d) for leaf in profiles
        ]
        return np.concatenate([np.zeros((len(some), 0)), *of_terms], axis=1)

    return by_pieces(scaled, len(X))


def summands(
    parts: list[Leaf], F: np.ndarray, noise: float, given: Conditionals, threads: int, tick: Tick = no_tick
) -> tuple[np.ndarray, np.ndarray]:
    """-log p(y_i | y_J) of each row, and the sums that gradients are made of, CHUNK rows at a time."""
    J, rows, d = given.J, given.rows, given.X.shape[1]
    as_terms = terms(parts, [len(leaf.columns(d)) for leaf in parts if not leaf.constant])
    if given.less is not None:
        F, as_terms = np.concatenate([F, given.less], axis=1), _less(as_terms, given.less.shape[1])
    data = F, np.ascontiguousarray(given.y), noise * given.share, given.share, rows, J
    values, chunks = np.empty(len(rows)), -(-len(rows) // CHUNK)
    sums = np.zeros((chunks, 2 * len(as_terms[0]) + F.shape[1] + 2))
    work = CHUNK * (J.shape[1] + 1.0) ** 2 * (F.shape[1] + J.shape[1] / 3.0 + 20.0)
    into, evaluate = (values, sums), _tiles.likelihood
    if given.weights is not None:
        into, evaluate = (*into, *vars(given.weights).values()), _tiles.likelihood_weights
    for first, last in paced(chunks, threads * max(1, int(WORK_PER_CALL / work)), tick, threads):
        evaluate(*as_terms, *data, *into, first, last, threads)
    return values, sums


def slopes(parts: list[Leaf], d: int, total: np.ndarray, less: bool = False) -> tuple[Slopes, float]:
    """The gradients in the parameters and in the noise, from the sum of all `summands`."""
    profiles = [leaf for leaf in parts if not leaf.constant]
    constants = [leaf for leaf in parts if leaf.constant]
    sizes = [len(leaf.columns(d)) for leaf in profiles]
    squares = np.split(total[2 * (len(profiles) + less) : -2], np.cumsum(sizes))
    found = [
        (leaf, total[2 * k], total[2 * k + 1], by_feature if leaf.lengthscale.ndim else by_feature.sum())
        for k, (leaf, by_feature) in enumerate(zip(profiles, squares, strict=False))
    ]
    return slopes_of(found, constants, total[-2]), float(total[-1])

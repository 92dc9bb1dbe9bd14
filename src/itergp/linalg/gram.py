"""Gram: the kernel matrix K = k(X, X) of a data set, as an operator to multiply with. It contains no noise.

All kernel values at or near the data are computed here. If k is stationary, inputs are shifted to a point
among the data, because far from the origin coordinates would lose their differences to rounding. That point
is private.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import get_ident

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError, KernelError
from itergp.limits import FLOAT32_ROWS
from itergp.linalg.blas import blas_threads
from itergp.linalg.compute import Compute, require_bytes
from itergp.linalg.engines import Conditionals, Engine, Tick, TileCache, Weights, choose, no_tick
from itergp.linalg.index import Index, Once
from itergp.linalg.libraries import require_working_room
from itergp.linalg.local import Neighbourhoods, factor
from itergp.linalg.neighbours import TREE_FEATURES, coordinates, distinct
from itergp.linalg.pieces import ROWS, by_pieces
from itergp.prior.kernel import Kernel, without_linear
from itergp.prior.parameters import Slopes, added, no_slopes, parameters
from itergp.prior.rounding import Shifted
from itergp.prior.stationary import rounded_by_pieces
from itergp.validate import as_float64, finite, inputs

# Rounding of K q for a unit vector q, over u (|K q| + k0 amplification sqrt(rows)): the first part because
# errors of exp are biased to one side, so K is scaled a little; the second because the rest is incoherent.
# Calibrated by measurement at n = 2,000, 10,000 and 50,000: `benchmarks/rounding.py`, `docs/reliability.md`.
ROUNDING = 4.0
UNIT = {"float32": float(np.finfo(np.float32).eps) / 2, "float64": float(np.finfo(np.float64).eps) / 2}
FLOAT32_SHARE = 0.1  # float32 tiles are used if their rounding stays below this share of the noise
GRADIENT_ROWS = 2048  # rows of a low-rank gradient between two ticks
# rows that search among so many: fewer are as fast by brute force, as trees must be built first
TREES = (20_000, 200_000)
ONCE_ROWS = 100_000  # up to here a tree for a few hundred points
# points per batch when searching for the most correlated rows; fewer where their covariances with all rows
# would be more bytes than this
SEARCHED, SEARCHED_BYTES = 256, 2**27
ORIGIN_ROWS = 32  # the first rows, so that the origin stays the same when data are appended


Seen = tuple[np.ndarray, np.ndarray]  # W of the points and H of the rows: what shared actions know of them


def origin(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """A point among the data that inputs are shifted by; 0 if k is not stationary."""
    return X[:ORIGIN_ROWS].mean(axis=0) if kernel.stationary else np.zeros(X.shape[1])


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept for a Gram of the same data with more rows, with finer tiles, or from a file."""

    origin: np.ndarray
    passes: int = 0
    entries: int = 0


class Work:
    """Passes and entries, counted per thread: threads that share a Gram each have their own counts."""

    def __init__(self, passes: int = 0, entries: int = 0) -> None:
        self.by_thread = {0: (passes, entries)}  # a thread id that no thread has

    def add(self, passes: int, entries: int) -> None:
        before = self.mine
        self.by_thread[get_ident()] = (before[0] + passes, before[1] + entries)

    @property
    def mine(self) -> tuple[int, int]:
        """The counts of the calling thread."""
        return self.by_thread.get(get_ident(), (0, 0))

    @property
    def total(self) -> tuple[int, int]:
        counts = list(self.by_thread.values())
        return sum(passes for passes, _ in counts), sum(entries for _, entries in counts)


class Gram:
    """`gram @ V` is K V; `passes` and `entries` count what was evaluated so far."""

    def __init__(
        self, kernel: Kernel, X: ArrayLike, compute: Compute = Compute(), record: Record | None = None
    ) -> None:
        X = inputs("X", X)
        kernel.check_features(X.shape[1])
        dtype = compute.dtype
        if dtype == "auto":
            dtype = "float32" if X.shape[0] > FLOAT32_ROWS else "float64"
        self.kernel, self.X, self.compute = kernel, X, compute
        self.dtype = np.dtype(dtype)
        self.engine, self.engine_reason = choose(compute, kernel, *X.shape)
        require_working_room()
        self.cache = TileCache(compute.cache_bytes())
        record = Record(origin(kernel, X)) if record is None else record
        self._origin, self.work = record.origin, Work(record.passes, record.entries)
        self._diagonal = _alike(self._checked(np.array(kernel.diagonal(X), dtype=np.float64)))
        self._local = without_linear(kernel)  # what near rows say more about than others
        self._rounded = {"float32": self.engine.in_tiles(kernel), "float64": kernel}  # by precision
        largest = _largest_so_far(self._diagonal)
        self._k0 = {dtype: self._largest(part, largest) for dtype, part in self._rounded.items()}
        # (rows, value) by precision: the last one requested
        self._amplification: dict[str, tuple[int, float]] = {}
        self._index: Once[Index] = Once()

    @staticmethod
    def for_noise(kernel: Kernel, X: ArrayLike, N: np.ndarray, compute: Compute = Compute()) -> "Gram":
        """Tiles in the precision that the noise requires, unless it was given."""
        if compute.dtype != "auto":
            return Gram(kernel, X, compute)
        if len(N) > FLOAT32_ROWS:
            return Gram(kernel, X, replace(compute, dtype="float32")).fine_enough(N, compute)
        return Gram(kernel, X, replace(compute, dtype="float64"))

    def fine_enough(self, N: np.ndarray, compute: Compute) -> "Gram":
        """Use float64 tiles from now on, if float32 was not requested and no longer far below the noise."""
        if compute.dtype != "auto" or self.dtype != np.float32:
            return self
        held = np.isfinite(self._amplified(self.n, "float32"))
        return self if held and self.rounding(self.n) <= FLOAT32_SHARE * N.min() else self.in_float64()

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def record(self) -> Record:
        return Record(self._origin, self.passes, self.entries)

    @property
    def passes(self) -> int:
        return self.work.total[0]

    @property
    def entries(self) -> int:
        return self.work.total[1]

    def __matmul__(self, V: ArrayLike) -> np.ndarray:
        V = finite("V", as_float64("V", V))
        if V.ndim not in (1, 2) or V.shape[0] != self.n:
            raise InputError(
                f"V has shape {V.shape}; expected ({self.n},) or ({self.n}, columns): one row per row of X."
            )
        return self.multiply(V[:, None])[:, 0] if V.ndim == 1 else self.multiply(V)

    def multiply(self, V: np.ndarray, tick: Tick = no_tick) -> np.ndarray:
        """K V for a block of columns: one pass."""
        out = self._symmetric(V, 0, tick)
        self.work.add(1, 0)
        return out

    def multiply_rows(self, V: np.ndarray, first: int, tick: Tick = no_tick) -> np.ndarray:
        """(K V)[first:], bitwise equal to `multiply` on those rows."""
        return self._symmetric(V, first, tick)[first:]

    def multiply_in_float64(self, V: np.ndarray, tick: Tick = no_tick) -> np.ndarray:
        """K V with float64 tiles, whatever the dtype, where its rounding would matter: one pass."""
        double = np.dtype("float64")
        out = self._symmetric(V, 0, tick, double, self.cache if self.dtype == double else TileCache(0))
        self.work.add(1, 0)
        return out

    def _symmetric(
        self,
        V: np.ndarray,
        first: int,
        tick: Tick,
        dtype: np.dtype | None = None,
        cache: TileCache | None = None,
    ) -> np.ndarray:
        with blas_threads(self.compute.threads):
            X, dtype, cache = (
                self._centred(self.X),
                self.dtype if dtype is None else dtype,
                self.cache if cache is None else cache,
            )
            out = self.engine.symmetric(self.kernel, X, V, dtype, cache, first, tick)
        self.work.add(0, (self.n * (self.n + 1) - first * (first + 1)) // 2)
        return self._checked(out)

    def columns(self, indices: ArrayLike) -> np.ndarray:
        """K[:, indices], in float64: there are few, and they are the actions' own products."""
        rows = np.asarray(indices, dtype=np.intp)
        require_bytes(8.0 * self.n * rows.size, f"{rows.size} columns of K", "Ask for fewer at once.")
        return self.dense(self.X, self.X[rows])

    def dense(self, X0: np.ndarray, X1: np.ndarray, part: Kernel | None = None) -> np.ndarray:
        """k(X0, X1), or a part of it, in float64 for any points; all kernel entries are computed here, on
        centred inputs."""
        kernel = self.kernel if part is None else part
        with blas_threads(self.compute.threads):
            out = self.engine.dense(kernel, self._centred(X0), self._centred(X1), np.dtype("float64"))
        self.work.add(0, out.size)
        return self._checked(np.asarray(out, dtype=np.float64))

    def multiply_columns(
        self, indices: np.ndarray, W: np.ndarray, first: int = 0, tick: Tick = no_tick
    ) -> np.ndarray:
        """K[first:, indices] @ W in float64, without storing those columns."""
        return self._cross(self.X[first:], self.X[indices], W, tick)

    def cross(
        self, X0: np.ndarray, V: np.ndarray, support: np.ndarray | None = None, tick: Tick = no_tick
    ) -> np.ndarray:
        """k(X0, X) @ V in float64, for predictions; `support` lists the rows where V is not zero, if few."""
        return (
            self._cross(X0, self.X, V, tick)
            if support is None
            else self.multiply_points(X0, support, V[support], tick)
        )

    def multiply_points(
        self, X0: np.ndarray, support: np.ndarray, W: np.ndarray, tick: Tick = no_tick
    ) -> np.ndarray:
        """k(X0, X[support]) @ W in float64."""
        return self._cross(X0, self.X[support], W, tick)

    def between_rows_and(self, X0: np.ndarray) -> tuple[Kernel, np.ndarray, np.ndarray]:
        """The kernel, rows and points as passed to an engine, for who evaluates k(X, X0) elsewhere."""
        self.work.add(0, self.n * X0.shape[0])
        return self.kernel, self._centred(self.X), self._centred(X0)

    def cross_transposed(self, X0: np.ndarray, V: np.ndarray, tick: Tick = no_tick) -> np.ndarray:
        """k(X, X0) @ V in float64."""
        return self._cross(self.X, X0, V, tick)

    def _cross(self, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, tick: Tick) -> np.ndarray:
        with blas_threads(self.compute.threads):
            X0, X1 = self._centred(X0), self._centred(X1)
            out = self.engine.product(self.kernel, X0, X1, np.ascontiguousarray(V), np.dtype("float64"), tick)
        self.work.add(0, X0.shape[0] * X1.shape[0])
        return self._checked(out)

    def batch(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """k(A[p], B[p]) in float64 for each p, (p, a, b): many small matrices."""
        return self.engine.batch(self.kernel, self._centred(A), self._centred(B))

    # Gradients of weighted sums of k in the parameters: every objective's gradient reduces to these.

    def low_rank_gradient(self, A: np.ndarray, B: np.ndarray, tick: Tick = no_tick) -> Slopes:
        """Of sum_ij (A B^T)_ij k(x_i, x_j); each pair is evaluated once, with weights A B^T + B A^T."""
        slopes = no_slopes(self.kernel)
        for i in range(0, self.n, GRADIENT_ROWS):
            here, after = slice(i, i + GRADIENT_ROWS), slice(i + GRADIENT_ROWS, None)
            tick()
            slopes = added(slopes, self._gradient(self.X[here], self.X[here], A[here], B[here]))
            if i + GRADIENT_ROWS < self.n:
                tick()
                left, right = np.hstack([A[here], B[here]]), np.hstack([B[after], A[after]])
                slopes = added(slopes, self._gradient(self.X[here], self.X[after], left, right))
        return slopes

    def low_rank_columns_gradient(
        self, columns: np.ndarray, A: np.ndarray, B: np.ndarray, tick: Tick = no_tick
    ) -> Slopes:
        """Of sum_ij (A B^T)_ij k(x_i, x_{columns[j]}), for weights on some columns only."""
        slopes = no_slopes(self.kernel)
        for i in range(0, self.n, GRADIENT_ROWS):
            tick()
            here = slice(i, i + GRADIENT_ROWS)
            slopes = added(slopes, self._gradient(self.X[here], self.X[columns], A[here], B))
        return slopes

    def _gradient(self, X0: np.ndarray, X1: np.ndarray, A: np.ndarray, B: np.ndarray) -> Slopes:
        return parameters(self.engine.gradient(self.kernel, self._centred(X0), self._centred(X1), A, B)[0])

    def weighted_gradient(self, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> tuple[Slopes, np.ndarray]:
        """Of sum_ij W_ij k(x_i, x'_j) at any points, for dense weights; also in X0."""
        return self.engine.weighted(self.kernel, self._centred(X0), self._centred(X1), W)

    def input_gradient(self, X0: np.ndarray, X1: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Of sum_ij W_ij k(x_i, x'_j) in X0, at any points."""
        with blas_threads(self.compute.threads):
            out = self.engine.in_inputs(self.kernel, self._centred(X0), self._centred(X1), W)
        self.work.add(0, W.size)
        return self._checked(out)

    def symmetric_gradient(self, W: np.ndarray, tick: Tick = no_tick) -> Slopes:
        """Of sum_ij W_ij k(x_i, x_j), for a symmetric W of which the lower half is read."""
        return self.engine.weighted_symmetric(self.kernel, self._centred(self.X), W, tick)

    def diagonal_gradient(self, w: np.ndarray) -> Slopes:
        """Of sum_i w_i k(x_i, x_i)."""
        return self.engine.weighted_diagonal(self.kernel, self._centred(self.X), w)

    # Distances and features.

    def embedding(self, X: np.ndarray) -> np.ndarray | None:
        """Coordinates in which k, without its linear parts, decreases with Euclidean distance (the kernel's
        own metric), or None."""

        def of(rows: slice) -> np.ndarray | None:
            return self._local.embedding(self._centred(X[rows]))

        return of(slice(None)) if len(X) <= ROWS or of(slice(1)) is None else by_pieces(of, len(X))

    def features(self, map: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        """The same features of the kernel, for inputs as given."""
        return lambda X: map(self._centred(X))

    def earlier(self, order: np.ndarray, count: int, chosen: np.ndarray, tick: Tick = no_tick) -> "Earlier":
        """The rows in another order, and the `count` nearest earlier rows of the `chosen` ones."""
        J = self._nearest_earlier(order, count, chosen, tick)
        return self._given(order, chosen, J)

    def earlier_of_few(
        self, order: np.ndarray, count: int, chosen: np.ndarray, tick: Tick = no_tick
    ) -> "Earlier":
        """The same, with those of the rows alone that are chosen or near to such a row."""
        J = self._nearest_earlier(order, count, chosen, tick)
        rows, near = distinct(np.concatenate([J, chosen[:, None]], axis=1), self.n)
        return self._given(order[rows], near[:, -1], near[:, :-1])

    def _nearest_earlier(self, order: np.ndarray, count: int, chosen: np.ndarray, tick: Tick) -> np.ndarray:
        def in_order(rows: slice) -> np.ndarray:
            return coordinates(self._local, self._centred(self.X[order[rows]]))

        F, threads = by_pieces(in_order, len(order), tick), self.compute.threads
        by_trees = 0 < F.shape[1] <= TREE_FEATURES and chosen.size >= TREES[0] and self.n >= TREES[1]
        return self.engine.earlier(F, count, chosen, by_trees, threads, tick)

    def _given(self, rows: np.ndarray, chosen: np.ndarray, J: np.ndarray) -> "Earlier":
        X = by_pieces(lambda some: self._centred(self.X[rows[some]]), len(rows))
        chosen, J = (np.ascontiguousarray(part, dtype=np.int32) for part in (chosen, J))
        return Earlier(self.engine, X, chosen, J, rows, self.compute.threads)

    def nearest(self, X: np.ndarray, count: int) -> np.ndarray:
        """The rows nearest to each point in the kernel's own metric, (points, count), nearest first; the most
        correlated rows if it has none. The search index is built once."""
        F = self.embedding(X)
        return self._most_correlated(X, count) if F is None else self._index.get(self._rows).nearest(F, count)

    def nearest_once(self, X: np.ndarray, count: int) -> np.ndarray:
        """The same for a few points and no others: of many rows, to build a tree takes longer than to compare
        with all of them."""
        if self.n <= ONCE_ROWS:
            return self.nearest(X, count)
        F, rows = self.embedding(X), self.embedding(self.X)
        if F is None or rows is None:
            return self.nearest(X, count)
        return self.engine.nearest(F, rows, count, threads=self.compute.threads)

    def most_informative(
        self, X: np.ndarray, J: np.ndarray, N: np.ndarray, count: int, tick: Tick = no_tick
    ) -> np.ndarray:
        """For each point, `count` of its candidates J (rows, nearest first), with noise N: those that lower
        the variance there the most, one by one; of k without its linear parts, as for `nearest`."""
        if not 0 < count < J.shape[1]:
            return J[:, :count]
        rows, near = distinct(J, self.n)
        X0, X1 = self._centred(X), self._centred(self.X[rows])
        found = self.engine.most_informative(
            self._local, X0, X1, N[rows], near, count, self.compute.threads, tick
        )
        return rows[found] if (J >= 0).all() else np.where(found < 0, -1, rows[found])

    # Local actions.

    def around(
        self, X: np.ndarray, rows: np.ndarray, J: np.ndarray, N: np.ndarray, seen: Seen, jitter: float
    ) -> Neighbourhoods:
        """Points, each with its neighbours J among some rows, as passed to the engine; N is of all rows."""
        X0, X1 = self._centred(X), self._centred(self.X[rows])
        return Neighbourhoods(X0, X1, N[rows], J, *seen, jitter)

    def act_locally(
        self, given: Neighbourhoods, residual: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        """Update means and variances by actions on each point's neighbours (`Engine.local_actions`)."""
        threads = self.compute.threads
        self.engine.local_actions(self.kernel, given, residual, mean, variance, threads)

    def local_factor(self, given: Neighbourhoods, some: slice) -> tuple[np.ndarray, np.ndarray]:
        """L_J, and what is left of k_J, for some of the points (`itergp.linalg.local`)."""
        return factor(partial(self.engine.batch, self.kernel), given, some)

    def solve_lower(self, L: np.ndarray, B: np.ndarray) -> np.ndarray:
        """L^{-1} b for each row b of B."""
        return self.engine.solve_lower(L, B, self.compute.threads)

    def _rows(self) -> Index:
        F = self.embedding(self.X)
        assert F is not None  # used for other points before
        return Index(F, self.engine, self.compute.threads)

    def _most_correlated(self, X: np.ndarray, count: int) -> np.ndarray:
        out, scale = [], np.sqrt(np.maximum(self._local.diagonal(self.X), 1e-300))
        size = max(1, min(SEARCHED, SEARCHED_BYTES // (8 * self.n)))
        for start in range(0, len(X), size):
            less = np.abs(self.dense(X[start : start + size], self.X, self._local))
            less /= -scale  # the most correlated first
            top = np.argpartition(less, count - 1, axis=1)[:, :count]
            order = np.argsort(np.take_along_axis(less, top, axis=1), axis=1, kind="stable")
            out.append(np.take_along_axis(top, order, axis=1))
        return np.concatenate(out)

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def rounding(
        self, rows: int, product_norm: float | np.ndarray = 0.0, dtype: str | None = None
    ) -> float | np.ndarray:
        """tau: a bound on the rounding error of K q for a unit vector q supported on the first `rows` rows.

        `product_norm` is |K q|. Other rows do not enter, so that appending them changes nothing.
        """
        rows, dtype = max(1, rows), dtype or self.dtype.name
        tau = UNIT[dtype] * (product_norm + self._incoherent(rows, dtype))
        if self._rounded[dtype] is not self.kernel:  # the rest is added in float64
            tau = tau + UNIT["float64"] * self._incoherent(rows, "float64")
        # engines may take terms and sums below the smallest normal number for 0
        return ROUNDING * (tau + 2.0 * float(np.finfo(dtype).tiny) * rows**1.5)

    def _incoherent(self, rows: int, dtype: str) -> float:
        """The part of the rounding error that grows with the square root of the rows, in units of u."""
        amplification = self._amplified(rows, dtype)
        if np.isinf(amplification):
            raise KernelError(
                f"dtype is float32, which cannot hold the squared distances of {type(self.kernel).__name__}: "
                "its lengthscale is far below the size of the inputs. Give dtype='float64' or 'auto'."
            )
        return float(self._k0[dtype][rows - 1]) * amplification * rows**0.5

    def _largest(self, part: Kernel, of_kernel: np.ndarray) -> np.ndarray:
        """The largest variance of this part among the first rows, for each number of rows."""
        return of_kernel if part is self.kernel else _largest_so_far(_alike(part.diagonal(self.X)))

    def _amplified(self, rows: int, dtype: str) -> float:
        last = self._amplification.get(dtype)  # read once: another thread may request other rows
        if last is None or last[0] != rows:
            part, X = self._rounded[dtype], self.X[:rows]
            shifted = Shifted(X, self._origin) if rounded_by_pieces(part) else self._centred(X)
            last = rows, part.amplification(shifted, dtype)  # type: ignore[arg-type]
            self._amplification[dtype] = last
        return last[1]

    def extended(self, X: np.ndarray) -> "Gram":
        """The Gram of the same data with more rows: counts continue, complete stored tiles are kept."""
        new = Gram(self.kernel, np.concatenate([self.X, X]), self.compute_fixed(), self.record)
        if self.engine is new.engine:
            new.cache = self.cache.branch()
        return new

    def in_float64(self) -> "Gram":
        """The Gram of the same data with finer tiles: counts continue, stored tiles are dropped."""
        return Gram(self.kernel, self.X, replace(self.compute_fixed(), dtype="float64"), self.record)

    def compute_fixed(self) -> Compute:
        """The Compute that reproduces this Gram exactly, with nothing left to auto-detection."""
        engine = self.engine.name if isinstance(self.compute.engine, str) else self.compute.engine
        return replace(self.compute, dtype=self.dtype.name, engine=engine)

    def _centred(self, X: np.ndarray) -> np.ndarray:
        """Inputs as passed to the engine."""
        return X - self._origin

    def _checked(self, out: np.ndarray) -> np.ndarray:
        if not np.isfinite(out).all():
            raise KernelError(
                f"The kernel {type(self.kernel).__name__} returned values that are not finite for these "
                "inputs; expected finite numbers. Check its formula, and the scale of the inputs against its "
                "lengthscale."
            )
        return out


def _alike(diagonal: np.ndarray) -> np.ndarray:
    """One number for all rows, where that is what they have, as with all stationary kernels."""
    same = diagonal.size > 1 and bool((diagonal == diagonal[0]).all())
    return np.broadcast_to(diagonal[0], diagonal.shape) if same else diagonal


def _largest_so_far(diagonal: np.ndarray) -> np.ndarray:
    return diagonal if diagonal.strides == (0,) else np.maximum.accumulate(diagonal)


@dataclass(frozen=True, eq=False)
class Earlier:
    """Rows in an order, and the nearest earlier rows of some of them."""

    engine: Engine
    X: np.ndarray
    chosen: np.ndarray
    J: np.ndarray  # padded with -1
    rows: np.ndarray  # the rows of the data that these are, in their order
    threads: int | None

    def of(
        self,
        y: np.ndarray,
        share: np.ndarray,
        less: np.ndarray | None = None,
        weights: Weights | None = None,
    ) -> Conditionals:
        """The chosen rows given their neighbours, for these targets; see `Conditionals`."""
        return Conditionals(self.X, y, share, self.chosen, self.J, less, weights)

    def likelihood(
        self, kernel: Kernel, noise: float, given: Conditionals, tick: Tick = no_tick
    ) -> tuple[float, Slopes, float]:
        """The sum of -log p(y_i | y_J) over the chosen rows, and its gradients. An engine may keep what it
        reads of `given` for as long as that lives."""
        return self.engine.summed_likelihood(kernel, noise, given, self.threads, tick)

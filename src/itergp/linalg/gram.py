"""Gram: the kernel matrix K = k(X, X) of a data set, as something to multiply with. No noise in it."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError, KernelError
from itergp.linalg.blas import blas_threads
from itergp.linalg.compute import Compute, require_bytes
from itergp.linalg.engines import SMALL, Tick, TileCache, choose, no_tick
from itergp.linalg.libraries import require_working_room
from itergp.prior.kernel import Kernel
from itergp.validate import as_float64, finite, inputs

# Rounding of K q for a unit vector q, over u (|K q| + k0 amplification sqrt(rows)): the first part because
# errors of exp lean to one side, so K is scaled a little; the second because the rest is incoherent.
# Calibrated by measurement at n = 2,000, 10,000 and 50,000: `benchmarks/rounding.py`, `docs/reliability.md`.
ROUNDING = 4.0
UNIT = {"float32": float(np.finfo(np.float32).eps) / 2, "float64": float(np.finfo(np.float64).eps) / 2}


class Gram:
    """`gram @ V` is K V; `passes` and `entries` count what was evaluated so far."""

    def __init__(self, kernel: Kernel, X: ArrayLike, compute: Compute = Compute()) -> None:
        X = inputs("X", X)
        kernel.check_features(X.shape[1])
        dtype = (
            ("float32" if X.shape[0] > 2 * SMALL else "float64") if compute.dtype == "auto" else compute.dtype
        )
        self.kernel, self.X, self.compute = kernel, X, compute
        self.dtype = np.dtype(dtype)
        self.engine, self.engine_reason = choose(compute, kernel, *X.shape)
        require_working_room()
        self.cache = TileCache(compute.cache_bytes())
        # a point among the data, from which inputs are counted; of the first rows only, so that it stays
        self.origin = X[:32].mean(axis=0) if kernel.stationary else np.zeros(X.shape[1])
        self.passes = 0
        self.entries = 0
        self._diagonal = self._checked(np.array(kernel.diagonal(X), dtype=np.float64))
        self._k0 = np.maximum.accumulate(self._diagonal)
        self._amplification = (0, 0.0)  # (rows, value): the last one asked for

    @property
    def n(self) -> int:
        return self.X.shape[0]

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
        self.passes += 1
        return out

    def multiply_rows(self, V: np.ndarray, first: int, tick: Tick = no_tick) -> np.ndarray:
        """(K V)[first:], to the bit what `multiply` gives for those rows."""
        return self._symmetric(V, first, tick)[first:]

    def multiply_in_float64(self, V: np.ndarray, tick: Tick = no_tick) -> np.ndarray:
        """K V by tiles in float64, whatever the others are, for what must not carry their rounding: one
        pass."""
        double = np.dtype("float64")
        out = self._symmetric(V, 0, tick, double, self.cache if self.dtype == double else TileCache(0))
        self.passes += 1
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
                self.centred(self.X),
                self.dtype if dtype is None else dtype,
                self.cache if cache is None else cache,
            )
            out = self.engine.symmetric(self.kernel, X, V, dtype, cache, first, tick)
        self.entries += (self.n * (self.n + 1) - first * (first + 1)) // 2
        return self._checked(out)

    def columns(self, indices: ArrayLike) -> np.ndarray:
        """K[:, indices], in float64: these are few, and they are the actions' own products."""
        rows = np.asarray(indices, dtype=np.intp)
        require_bytes(8.0 * self.n * rows.size, f"{rows.size} columns of K", "Ask for fewer at once.")
        return self.dense(self.X, self.X[rows])

    def dense(self, X0: np.ndarray, X1: np.ndarray) -> np.ndarray:
        """k(X0, X1) in float64, for any points: whoever needs entries of a kernel asks here, where inputs
        are centred."""
        with blas_threads(self.compute.threads):
            out = self.engine.dense(self.kernel, self.centred(X0), self.centred(X1), np.dtype("float64"))
        self.entries += out.size
        return self._checked(np.asarray(out, dtype=np.float64))

    def multiply_columns(
        self, indices: np.ndarray, W: np.ndarray, first: int = 0, tick: Tick = no_tick
    ) -> np.ndarray:
        """K[first:, indices] @ W in float64, without storing those columns."""
        return self._cross(self.X[first:], self.X[indices], W, tick)

    def cross(
        self, X0: np.ndarray, V: np.ndarray, support: np.ndarray | None = None, tick: Tick = no_tick
    ) -> np.ndarray:
        """k(X0, X) @ V in float64, for predictions; `support` lists the rows where V is not zero, if they
        are few."""
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

    def cross_transposed(self, X0: np.ndarray, V: np.ndarray, tick: Tick = no_tick) -> np.ndarray:
        """k(X, X0) @ V in float64."""
        return self._cross(self.X, X0, V, tick)

    def _cross(self, X0: np.ndarray, X1: np.ndarray, V: np.ndarray, tick: Tick) -> np.ndarray:
        with blas_threads(self.compute.threads):
            X0, X1 = self.centred(X0), self.centred(X1)
            out = self.engine.product(self.kernel, X0, X1, np.ascontiguousarray(V), np.dtype("float64"), tick)
        self.entries += X0.shape[0] * X1.shape[0]
        return self._checked(out)

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def rounding(
        self, rows: int, product_norm: float | np.ndarray = 0.0, dtype: str | None = None
    ) -> float | np.ndarray:
        """tau: a bound on the rounding error of K q for a unit vector q that reaches the first `rows` rows.

        `product_norm` is |K q|. Other rows play no part, so that appending them changes nothing.
        """
        rows = max(1, rows)
        if self._amplification[0] != rows:
            self._amplification = (rows, self.kernel.amplification(self.centred(self.X[:rows])))
        incoherent = float(self._k0[rows - 1]) * self._amplification[1] * rows**0.5
        return ROUNDING * UNIT[dtype or self.dtype.name] * (product_norm + incoherent)

    def extended(self, X: np.ndarray) -> "Gram":
        """The Gram of the same data with more rows: counts go on, whole stored tiles stay."""
        new = Gram(self.kernel, np.concatenate([self.X, X]), self.compute_fixed())
        new.origin = self.origin
        new.passes, new.entries, new.cache = self.passes, self.entries, self.cache.branch()
        if self.engine is not new.engine:
            new.cache = TileCache(self.compute.cache_bytes())
        return new

    def in_float64(self) -> "Gram":
        """The Gram of the same data with finer tiles: counts go on, what was stored does not."""
        new = Gram(self.kernel, self.X, replace(self.compute_fixed(), dtype="float64"))
        new.origin, new.passes, new.entries = self.origin, self.passes, self.entries
        return new

    def compute_fixed(self) -> Compute:
        """The Compute that gives this very Gram again, with nothing left to choose by size."""
        engine = self.engine.name if isinstance(self.compute.engine, str) else self.compute.engine
        return Compute(self.dtype.name, self.compute.cache, engine, self.compute.threads)

    def centred(self, X: np.ndarray) -> np.ndarray:
        """Inputs as differences to a point among the data: far from the origin, coordinates would round
        before they differ."""
        return X - self.origin

    def _checked(self, out: np.ndarray) -> np.ndarray:
        if not np.isfinite(out).all():
            raise KernelError(
                f"The kernel {type(self.kernel).__name__} returned values that are not finite for these "
                "inputs; expected "
                "finite numbers. Check its formula, and the scale of the inputs against its lengthscale."
            )
        return out

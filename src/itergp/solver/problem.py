"""What is to be computed: the prior, the data, and K, N, b = y - mu(X)."""

import warnings
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError, KernelError, PrecisionWarning
from itergp.linalg.compute import Compute
from itergp.linalg.gram import Gram, origin
from itergp.prior.gp import Prior
from itergp.prior.kernel import Kernel
from itergp.prior.means import MeanOfTarget
from itergp.validate import inputs, noise_variance, targets

LARGEST = 1e150  # k(x, x'): squares of sums over K must fit in float64


def check_kernel_values(kernel: Kernel, X: np.ndarray) -> None:
    """Reject an invalid kernel, on a few rows, before any long work."""
    name, rows = type(kernel).__name__, X[np.unique(np.linspace(0, X.shape[0] - 1, 64).astype(int))]
    rows = rows - origin(kernel, X)
    K = np.asarray(kernel(rows, rows), dtype=np.float64)
    if K.shape != (len(rows), len(rows)):
        raise KernelError(
            f"kernel {name} returned shape {K.shape} for {len(rows)} points; expected ({len(rows)}, "
            f"{len(rows)})."
        )
    if not np.isfinite(K).all():
        raise KernelError(
            f"kernel {name} returned values that are not finite on the training inputs; expected finite "
            "numbers."
        )
    diagonal, size = np.asarray(kernel.diagonal(rows), dtype=np.float64), np.abs(K).max()
    if size > LARGEST:
        raise KernelError(
            f"kernel {name} has values up to {size:.1g}, whose squares overflow float64; expected at most "
            f"{LARGEST:.0e}. Rescale y, and the kernel and the noise with it."
        )
    if diagonal.shape != (len(rows),) or not np.allclose(diagonal, np.diag(K), rtol=1e-6, atol=1e-9 * size):
        raise KernelError(
            f"kernel {name}.diagonal(X) is not the diagonal of {name}(X, X); correct it or leave it out."
        )
    if np.abs(K - K.T).max() > 1e-8 * size:
        raise KernelError(
            f"kernel {name} is not symmetric: k(x, x') differs from k(x', x) by {np.abs(K - K.T).max():.2g}."
        )
    lowest = float(np.linalg.eigvalsh((K + K.T) / 2)[0])
    if lowest < -1e-7 * size * len(rows):
        raise KernelError(
            f"kernel {name} is not positive semi-definite: its matrix on {len(rows)} training inputs has the "
            f"eigenvalue {lowest:.3g}. No Gaussian process has this covariance; correct the formula."
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """K_hat v* = b, with K_hat = K + N: the system that Algorithm 1 solves."""

    prior: Prior
    X: Any
    y: Any
    noise: Any  # the variance: a number, or one value per row
    compute: Compute = field(default_factory=Compute)
    gram: Gram = field(init=False, repr=False)
    b: np.ndarray = field(init=False, repr=False)  # (n, t)
    N: np.ndarray = field(init=False, repr=False)  # (n,)

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise InputError(f"prior is {self.prior!r}; expected Prior(kernel=..., mean=...).")
        if not isinstance(self.compute, Compute):
            raise InputError(f"compute is {self.compute!r}; expected Compute(...).")
        X = inputs("X", self.X).copy()  # copied, so that later changes by the caller have no effect here
        self._set_up(X, targets("y", self.y, X.shape[0]).copy(), self.noise)

    @staticmethod
    def of(prior: Prior, X: np.ndarray, y: np.ndarray, noise: Any, compute: Compute) -> "Problem":
        """The problem of float64 arrays that nobody will change: they are not copied."""
        new = object.__new__(Problem)
        new._set(prior=prior, compute=compute)
        X = inputs("X", X)
        new._set_up(X, targets("y", y, X.shape[0]), noise)
        return new

    def _set_up(self, X: np.ndarray, y: np.ndarray, noise: Any) -> None:
        noise = copy(noise_variance("noise", noise, X.shape[0]))
        self.prior.kernel.check_features(X.shape[1])
        check_kernel_values(self.prior.kernel, X)
        N = np.broadcast_to(np.asarray(noise, dtype=np.float64), X.shape[:1])
        self._set(
            X=X,
            y=y,
            noise=noise,
            N=N,
            b=centred(self.prior, X, y),
            gram=Gram.for_noise(self.prior.kernel, X, N, self.compute),
        )

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_information"}

    def __repr__(self) -> str:
        return brief.lines(f"Problem: {self.size}", **self.described)

    @property
    def size(self) -> str:
        """In words."""
        counts = (self.n, "row"), (self.X.shape[1], "feature"), (self.targets, "target")
        return ", ".join(brief.counted(*one) for one in counts)

    @property
    def described(self) -> dict[str, str]:
        """The prior and the noise as text, by name."""
        mean, noise = brief.value(self.prior.mean_function), brief.value(self.noise)
        return {"kernel": repr(self.prior.kernel), "mean": mean, "noise": noise}

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def targets(self) -> int:
        return self.b.shape[1]

    @property
    def noise_differs(self) -> bool:
        """Whether A = Q^T N Q is more than a multiple of the identity; unused if a row has no noise."""
        return bool(np.ndim(self.noise) and self.N.min() > 0)

    def variance_floor(self, k0: np.ndarray) -> np.ndarray:
        """k_* >= k0 / (1 + k_x^T N^{-1} k_x / k0) >= k0 / (1 + sum_j k_jj / N_j): n copies of x say most."""
        return k0 / (1.0 + self._information)

    @cached_property
    def _information(self) -> float:
        """sum_j k_jj / N_j: over all rows, so once, as every prediction asks for it."""
        diagonal = self.gram.diagonal()
        with np.errstate(divide="ignore", over="ignore"):
            positive = diagonal > 0
            ratios = np.divide(diagonal, self.N, out=diagonal, where=positive)
        return float(np.multiply(ratios, positive, out=ratios).sum())

    def above_floor(self, variance: np.ndarray, k0: np.ndarray) -> np.ndarray:
        """Raise variances that rounding left below the least possible value to it, with a warning."""
        floor = self.variance_floor(k0)
        low = variance < floor - 1e-12 * k0
        if low.any():
            warnings.warn(
                f"{int(low.sum())} variances fell below the least possible value by rounding and were raised "
                "to it. Use Compute(dtype='float64') or more noise.",
                PrecisionWarning,
                stacklevel=5,
            )
        return np.maximum(variance, floor)

    def with_prior_mean(self, X: np.ndarray, update: np.ndarray) -> np.ndarray:
        """mu(x) + update, in the shape of y: (m,) or (m, t)."""
        mean = self.prior.mean(X)
        if self.y.ndim == 1:
            return mean + update[:, 0]
        return (mean[:, None] if mean.ndim == 1 else mean) + update

    def K_hat(self) -> np.ndarray:
        """The dense K + N: for exact results at small n, and for tests."""
        K = self.gram.columns(np.arange(self.n))
        K = (K + K.T) / 2
        K[np.diag_indices(self.n)] += self.N
        return K

    def extended(self, X: ArrayLike, y: ArrayLike, noise: ArrayLike | None) -> "Problem":
        """The problem with more rows appended; the noise of the new rows is the same number unless given."""
        X = inputs("X", X, self.X.shape[1])
        y = targets("y", y, X.shape[0])
        if y.shape[1:] != self.y.shape[1:]:
            raise InputError(
                f"y has shape {y.shape}; expected ({X.shape[0]}, *{self.y.shape[1:]}), as in the first data."
            )
        if noise is None and np.ndim(self.noise):
            raise InputError(
                "noise is missing: the training noise is one value per row, so pass that of the new rows."
            )
        more = self.noise if noise is None else noise_variance("noise", noise, X.shape[0])
        check_kernel_values(self.prior.kernel, X)
        same = np.ndim(self.noise) == 0 and np.ndim(more) == 0 and more == self.noise
        N = np.concatenate([self.N, np.broadcast_to(np.asarray(more, dtype=np.float64), X.shape[:1])])
        new = object.__new__(Problem)
        new._set(
            prior=self.prior,
            X=np.concatenate([self.X, X]),
            y=np.concatenate([self.y, y]),
            noise=self.noise if same else N,
            compute=self.compute,
            gram=self.gram.extended(X).fine_enough(N, self.compute),
            b=np.concatenate([self.b, centred(self.prior, X, y)]),
            N=N,
        )
        return new

    def reweighted(self, noise: ArrayLike, y: ArrayLike) -> "Problem":
        """The same inputs with other noise and targets, as when rows merge; K is kept, finer if needed."""
        y = targets("y", y, self.n).copy()
        if y.shape != self.y.shape:
            raise InputError(f"y has shape {y.shape}; expected {self.y.shape}, as in the first data.")
        noise = copy(noise_variance("noise", noise, self.n))
        N = np.broadcast_to(np.asarray(noise, dtype=np.float64), (self.n,))
        new = object.__new__(Problem)
        new._set(**{name: getattr(self, name) for name in ("prior", "X", "compute")})
        new._set(
            gram=self.gram.fine_enough(N, self.compute),
            y=y,
            noise=noise,
            N=N,
            b=centred(self.prior, self.X, y),
        )
        return new

    def of_target(self, target: int, noise: ArrayLike) -> "Problem":
        """One of several targets alone, with its own noise; K is kept, finer if this noise needs it."""
        prior, b = (
            Prior(self.prior.kernel, MeanOfTarget(self.prior.mean_function, target)),
            self.b[:, [target]],
        )
        # files may lack y
        y = self.y[:, target].copy() if isinstance(self.y, np.ndarray) else prior.mean(self.X) + b[:, 0]
        noise = copy(noise_variance("noise", noise, self.n))
        N = np.broadcast_to(np.asarray(noise, dtype=np.float64), (self.n,))
        new = object.__new__(Problem)
        new._set(X=self.X, compute=self.compute, gram=self.gram.fine_enough(N, self.compute))
        new._set(prior=prior, y=y, b=b, noise=noise, N=N)
        return new

    def with_targets(self, b: np.ndarray) -> "Problem":
        """The same K_hat with other right-hand sides (for probes)."""
        new = object.__new__(Problem)
        new._set(
            **{name: getattr(self, name) for name in ("prior", "X", "y", "noise", "compute", "gram", "N")},
            b=b,
        )
        return new


def centred(prior: Prior, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y - mu(X), as (n, t)."""
    mean = prior.mean(X)
    if mean.shape != y.shape and not (mean.ndim == 1 and y.ndim == 2):
        raise InputError(
            f"the prior mean has shape {mean.shape} for y of shape {y.shape}; expected one mean per target."
        )
    if not np.isfinite(mean).all():
        raise InputError("the prior mean is not finite on the training inputs; expected finite numbers.")
    b = y - (mean[:, None] if mean.ndim < y.ndim else mean)
    return b[:, None] if b.ndim == 1 else b

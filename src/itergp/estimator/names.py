"""Translates names and scikit-learn kernels into kernels and means of this library."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from itergp.data.spread import centre_and_spread
from itergp.errors import InputError
from itergp.fitted.fit import Free
from itergp.learning.candidates import FIRST, PROFILES, start_of
from itergp.prior.kernel import Kernel
from itergp.prior.linear import Linear
from itergp.prior.means import ConstantMean, LinearMean, Mean, Zero
from itergp.prior.stationary import RBF, Constant, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from itergp.validate import Array, choice

KERNELS: dict[str, type] = PROFILES | {"linear": Linear}
AUTO = "auto"  # chosen by the data
MEANS = ("constant", "zero", "linear")
HETEROSCEDASTIC, ROBUST = "heteroscedastic", "robust"
LEARNED_NOISE = ("learn", HETEROSCEDASTIC, ROBUST)
EXPECTED = (
    f"'auto', one of {', '.join(map(repr, KERNELS))}, an itergp kernel such as 1.0 * Matern32(0.5), or a "
    "scikit-learn kernel made of "
    "RBF, Matern (nu 0.5, 1.5, 2.5 or inf), RationalQuadratic, ExpSineSquared (one feature), DotProduct, "
    "ConstantKernel, "
    "WhiteKernel, sums and products"
)


@dataclass(frozen=True, eq=False)
class Translated:
    """The requested kernel, the noise that came with it (a WhiteKernel), and what must not be learned."""

    kernel: Kernel
    noise: float | None = None
    fixed: tuple[bool, ...] = ()  # which of the kernel's hyper-parameters have "fixed" bounds
    fixed_noise: tuple[bool, ...] = ()
    chosen: bool = False  # whether the data choose the kernel; this one is the start
    held: tuple[str, ...] = ()  # the paths of the fixed ones, if some are fixed and some are not

    def keeps_kernel(self) -> bool:
        """Whether the whole kernel is fixed."""
        return bool(self.fixed) and all(self.fixed)

    def keeps_noise(self) -> bool:
        if any(self.fixed_noise) and not all(self.fixed_noise):
            raise InputError(
                "kernel: some noise levels are fixed and some are not; fix all or none, or use learn=False."
            )
        return any(self.fixed_noise)


def is_learned(noise: Any) -> bool:
    return isinstance(noise, str) and noise in LEARNED_NOISE


def free(start: Translated, learns: bool, noise: Any) -> Free:
    """What may be learned, given the requested kernel and noise."""
    kernel = learns and not start.keeps_kernel()
    return Free(kernel, kernel and is_learned(noise) and not start.keeps_noise())


def in_units_of_inputs(kernel: Any) -> bool:
    """Whether its lengthscales and periods are in the units of X: it is an object, not a name."""
    return not isinstance(kernel, str)


def translate_kernel(kernel: Any, features: int) -> Translated:
    """A name (then with one lengthscale per feature: ARD), an itergp kernel as it is, or a scikit-learn
    kernel."""
    if isinstance(kernel, str) and kernel == AUTO:
        return Translated(start_of(FIRST, features), chosen=True)
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise InputError(f"kernel is {kernel!r}; expected {EXPECTED}.")
        # standardised points lie about sqrt(2 d) apart, so this is neither white noise nor a constant
        return Translated(1.0 * KERNELS[kernel](lengthscale=np.full(features, features**0.5)))
    if isinstance(kernel, Kernel):
        kernel.check_features(features)
        return Translated(kernel)
    from sklearn.gaussian_process import kernels as skl

    if not isinstance(kernel, skl.Kernel):
        raise InputError(f"kernel is {kernel!r}; expected {EXPECTED}.")
    terms = _terms(kernel, features)
    signal = [part for part in terms if part.kernel is not None]
    if not signal:
        raise InputError(
            f"kernel is {kernel!r}, which is only noise; expected a kernel of the inputs added to it."
        )
    white = [part for part in terms if part.kernel is None]
    translated, held = _sum(part.scaled() for part in signal)
    translated.check_features(features)
    return Translated(
        translated,
        sum(part.scale for part in white) if white else None,
        tuple(flag for part in signal for flag in part.fixed),
        tuple(flag for part in white for flag in part.fixed),
        held=held,
    )


def translate_mean(mean: Any, X: Array, y: Array, weights: Array | None = None) -> Mean:
    """Zero, the best-fitting constant or plane, or the given mean function; X, y in the units of the fit."""
    if not isinstance(mean, str) and callable(mean):
        return mean
    choice("mean", mean, MEANS)
    if mean == "zero":
        return Zero()
    if mean == "constant":
        return ConstantMean(y.mean(axis=0) if weights is None else np.average(y, axis=0, weights=weights))
    unit = np.exp2(np.rint(np.log2(centre_and_spread(X)[1])))  # least squares drop what is 1e-13 of the rest
    A = np.column_stack([X / unit, np.ones(len(X))])
    if weights is not None:
        root = np.sqrt(weights / weights.max())
        A, y = root[:, None] * A, (root * y.T).T
    plane = np.linalg.lstsq(A, y, rcond=None)[0]
    return LinearMean((plane[:-1].T / unit).T, plane[-1])


# scikit-learn's kernels, as sums of terms.

OUR_NAMES = {"length_scale": "lengthscale", "alpha": "alpha", "periodicity": "period"}


@dataclass(frozen=True, eq=False)
class _Term:
    """scale * kernel, or white noise with variance `scale` if there is no kernel."""

    scale: float
    kernel: Kernel | None
    fixed: tuple[bool, ...]  # of the hyper-parameters in it
    held: tuple[str, ...] = ()  # the paths of fixed ones in the kernel
    scales: tuple[bool, ...] = ()  # whether each constant that makes up the scale is fixed

    def scaled(self, alone: bool = True) -> tuple[Kernel, tuple[str, ...]]:
        """scale * kernel, and the paths of what is fixed in it. A kernel without a constant has a scale of
        its own to learn, unless it does not stand `alone`."""
        assert self.kernel is not None
        whole = all(self.scales) and bool(self.scales or not alone)
        if isinstance(self.kernel, _One):
            return Constant(self.scale), ("value",) * whole
        return self.scale * self.kernel, _below("kernel.", self.held) + ("scale",) * whole


class _One(Constant):
    """The constant 1 that a ConstantKernel scales."""


def _sum(parts: Iterable[tuple[Kernel, tuple[str, ...]]]) -> tuple[Kernel, tuple[str, ...]]:
    """Kernels with the paths of what is fixed in them, added up."""
    return reduce(
        lambda left, right: (left[0] + right[0], _below("left.", left[1]) + _below("right.", right[1])), parts
    )


def _below(name: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name + path for path in paths)


def _terms(kernel: Any, features: int) -> list[_Term]:
    from sklearn.gaussian_process import kernels as skl

    if type(kernel) is skl.Sum:
        return _terms(kernel.k1, features) + _terms(kernel.k2, features)
    if type(kernel) is skl.Product:
        left, right = (_inseparable(_terms(factor, features)) for factor in (kernel.k1, kernel.k2))
        return [_product(a, b, kernel) for a in left for b in right]
    fixed = tuple(parameter.fixed for parameter in kernel.hyperparameters)
    if type(kernel) is skl.ConstantKernel:
        return [_Term(float(kernel.constant_value), _One(), fixed, scales=fixed)]
    if type(kernel) is skl.WhiteKernel:
        if not 0 <= kernel.noise_level < np.inf:
            raise InputError(
                f"kernel contains {kernel!r} with variance {kernel.noise_level}; expected a "
                "finite number >= 0."
            )
        return [_Term(float(kernel.noise_level), None, fixed)]
    if type(kernel) is skl.DotProduct:
        offset = [_Term(float(kernel.sigma_0) ** 2, _One(), fixed, scales=fixed)] if kernel.sigma_0 else []
        return [*offset, _Term(1.0, Linear(1.0), fixed, ("lengthscale",) * all(fixed), fixed * all(fixed))]
    held = tuple(OUR_NAMES[parameter.name] for parameter in kernel.hyperparameters if parameter.fixed)
    return [_Term(1.0, _simple(kernel, features), fixed, held)]


def _inseparable(terms: list[_Term]) -> list[_Term]:
    """Terms of a sum that is a factor: one term, if multiplying it out would set free what is fixed there, as
    the 2 of C * (RBF + 2 * Matern)."""
    signal = [term for term in terms if term.kernel is not None]
    if len(signal) < 2 or not any(any(term.scales) for term in signal):
        return terms
    kernel, held = _sum(term.scaled(alone=False) for term in signal)
    fixed = tuple(flag for term in signal for flag in term.fixed)
    return [_Term(1.0, kernel, fixed, held), *(term for term in terms if term.kernel is None)]


def _product(a: _Term, b: _Term, whole: Any) -> _Term:
    """A product of two terms; noise may only be scaled, since noise times a kernel is noise that differs
    between rows."""
    fixed, scales = a.fixed + b.fixed, a.scales + b.scales
    if isinstance(a.kernel, _One):
        a, b = b, a
    if isinstance(b.kernel, _One):
        return _Term(a.scale * b.scale, a.kernel, fixed, a.held, scales)
    if a.kernel is None or b.kernel is None:
        raise InputError(
            f"kernel is {whole!r}: a WhiteKernel times another kernel is not supported; add it instead."
        )
    held = _below("left.", a.held) + _below("right.", b.held)
    return _Term(a.scale * b.scale, a.kernel * b.kernel, fixed, held, scales)


def _simple(kernel: Any, features: int) -> Kernel:
    from sklearn.gaussian_process import kernels as skl

    matern: dict[float, Callable[[Any], Kernel]] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52, np.inf: RBF}
    if type(kernel) is skl.RBF:
        return RBF(kernel.length_scale)
    if type(kernel) is skl.Matern and kernel.nu in matern:
        return matern[kernel.nu](kernel.length_scale)
    if type(kernel) is skl.RationalQuadratic:
        return RationalQuadratic(kernel.length_scale, kernel.alpha)
    # its distance is Euclidean; ours is feature by feature
    if type(kernel) is skl.ExpSineSquared and features == 1:
        return Periodic(kernel.length_scale, kernel.periodicity)
    raise InputError(f"kernel {kernel!r} has no counterpart in itergp; expected {EXPECTED}.")


def remote(engine: Any) -> bool:
    """Whether it is the address of a cluster, or an object: not a name that a file can keep."""
    return not isinstance(engine, str) or "://" in engine


def translate_engine(engine: Any) -> Any:
    """A name or an engine, as `Compute` takes them; an address is one of a cluster."""
    if not isinstance(engine, str) or not remote(engine):
        return engine
    from itergp.linalg.engines.dask import DaskEngine

    return DaskEngine(engine)

"""What is learned, as a vector of logarithms: the kernel's parameters and the noise, with bounds and weak
priors.

Without bounds, likelihoods run off to lengthscales of 1e4 and zero noise, and the next factorisation fails.
So every parameter has a range, in units of the data, and a prior so wide that a few hundred rows outweigh it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from itergp.data.rows import Rows
from itergp.prior.kernel import Kernel, OnColumns
from itergp.prior.linear import Linear
from itergp.prior.parameters import parameters, with_parameters
from itergp.prior.stationary import Periodic

SCALE_RANGE = (1e-4, 1e4)  # relative to the targets' variance
OTHER_RANGE = (1e-3, 1e3)
LINEAR_MIDDLE = 30.0  # a linear part has a thousandth of the variance: it is absent as easily as present
PRIOR_WIDTH = 3.0  # standard deviations of the log-normal priors
# of the parameters of a composite kernel: the units of the data suit none of its parts in particular
COMPOSITE_WIDTH = 30.0


@dataclass(frozen=True)
class Ranges:
    """Of the noise, relative to the targets' variance; of lengthscales, relative to a feature's spread: its
    standard deviation without a few outliers."""

    noise: tuple[float, float] = (1e-6, 10.0)
    length: tuple[float, float] = (1e-3, 1e3)


RANGES = Ranges()
# for data without noise: about what double precision carries; at 1e3, irrelevant features still add 1e-6
NOISE_FREE = Ranges((1e-12, 10.0), (1e-3, 1e5))


@dataclass(frozen=True)
class Evaluation:
    """An objective in nats per observation (lower is better), with its gradient in the kernel's parameters
    and the noise."""

    value: float
    kernel: dict[str, Any]  # by path, as `itergp.prior.parameters.parameters` names them
    noise: Any  # a number, or one per target


Objective = Callable[[Kernel, Any], Evaluation]


@dataclass(frozen=True, eq=False)
class Space:
    """The map between (kernel, noise) and the vector theta of logarithms that an optimiser changes."""

    kernel: Kernel
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    lower: np.ndarray
    upper: np.ndarray
    centre: np.ndarray
    width: np.ndarray
    learn_noise: bool
    noise: Any  # its starting value: one for all targets, or one per target
    observations: float
    # where parameters are tied: the logarithm of parameter p is theta[index[p]] + offset[p]
    index: np.ndarray | None = None
    offset: np.ndarray | float = 0.0

    @staticmethod
    def of(
        kernel: Kernel,
        noise: Any,
        rows: "Rows",
        learn_noise: bool = True,
        own_units: "dict[str, Unit] | None" = None,
        ranges: Ranges = RANGES,
        fixed: Collection[str] = (),
    ) -> "Space":
        """The space for these data, the same whether they are merged or not; ranges widen to include given
        values.

        `own_units` are those of parameters that are not in the units of the columns. The parameters whose
        paths are `fixed` are not part of it.
        """
        variance = max(rows.variance, 1e-300)
        units = _units(kernel, rows.spread, variance, ranges) | (own_units or {})
        low, high, centre, paths, sizes = [], [], [], [], []
        for path, value in parameters(kernel).items():
            if path in fixed:
                continue
            unit, (least, most), middle = units[path]
            value = np.atleast_1d(np.asarray(value, dtype=np.float64))
            unit = (
                np.broadcast_to(unit, value.shape)
                if np.size(unit) == value.size
                else np.full(value.shape, np.mean(unit))
            )
            paths.append(path)
            sizes.append(value.size)
            low.append(np.log(np.minimum(least * unit, value)))
            high.append(np.log(np.maximum(most * unit, value)))
            centre.append(np.log(middle * unit))
        if learn_noise:
            least, most = ranges.noise
            given = np.atleast_1d(np.asarray(noise, dtype=np.float64))
            own = np.maximum(
                [rows.variance] if np.ndim(noise) == 0 else rows.variances,
                1e-300,
            )
            low.append(np.log(np.where(given > 0, np.minimum(least * own, given), least * own)))
            high.append(np.log(np.maximum(most * own, given)))
            centre.append(np.log(1e-2 * own))
        lower, upper, middles = (np.concatenate([np.zeros(0), *part]) for part in (low, high, centre))
        width = np.full(lower.size, PRIOR_WIDTH)
        if is_composite(kernel):
            width[: sum(sizes)] = COMPOSITE_WIDTH
        return Space(
            kernel, tuple(paths), tuple(sizes), lower, upper, middles, width, learn_noise, noise, rows.total
        )

    def tied(self, features: np.ndarray, factors: np.ndarray) -> "Space":
        """The same, where columns of one feature share a lengthscale, times the factor of each column."""
        index, offset, first = [], [], 0
        for path, size in zip((*self.paths, "noise"), (*self.sizes, None), strict=True):
            size = self.lower.size - sum(self.sizes) if size is None else size
            tied = path.endswith("lengthscale") and size == features.size
            index.append(first + (features if tied else np.arange(size)))
            offset.append(np.log(factors) if tied else np.zeros(size))
            first = int(index[-1].max(initial=first - 1)) + 1
        of, shift = np.concatenate(index), np.concatenate(offset)
        parts = [_means(of, part - shift) for part in (self.lower, self.upper, self.centre)]
        lower, upper, centre = parts
        width = _means(of, self.width)
        return replace(self, lower=lower, upper=upper, centre=centre, width=width, index=of, offset=shift)

    def _each(self, theta: np.ndarray) -> np.ndarray:
        """The logarithm of every parameter."""
        return theta if self.index is None else theta[self.index] + self.offset

    @property
    def whole(self) -> bool:
        """Whether all parameters of the kernel are learned."""
        return len(self.paths) == len(parameters(self.kernel))

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return list(zip(self.lower, self.upper, strict=True))

    def vector(self, kernel: Kernel, noise: Any) -> np.ndarray:
        found = parameters(kernel)
        values = [np.atleast_1d(np.asarray(found[path], dtype=np.float64)) for path in self.paths]
        if self.learn_noise:
            values.append(np.maximum(np.atleast_1d(noise), 1e-300))
        theta = np.log(np.concatenate(values)) if values else np.zeros(0)
        theta = theta if self.index is None else _means(self.index, theta - self.offset)
        return np.clip(theta, self.lower, self.upper)

    def values(self, theta: np.ndarray) -> tuple[Kernel, Any]:
        exp, found, start = np.exp(self._each(theta)), parameters(self.kernel), 0
        changes: dict[str, Any] = {}
        for path, size in zip(self.paths, self.sizes, strict=True):
            part = exp[start : start + size]
            changes[path] = part.copy() if np.ndim(found[path]) else float(part[0])
            start += size
        kernel = with_parameters(self.kernel, changes)
        if not self.learn_noise:
            return kernel, self.noise
        return kernel, float(exp[-1]) if np.ndim(self.noise) == 0 else exp[start:]

    def slope(self, evaluation: Evaluation, theta: np.ndarray) -> np.ndarray:
        """The gradient in theta: d/d log p = p d/dp."""
        parts = [np.atleast_1d(np.asarray(evaluation.kernel[path], dtype=np.float64)) for path in self.paths]
        if self.learn_noise:
            parts.append(np.atleast_1d(evaluation.noise))
        slopes = np.exp(self._each(theta)) * np.concatenate(parts) if parts else np.zeros(0)
        return slopes if self.index is None else np.bincount(self.index, slopes)

    def prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """- log p(theta) per observation, up to a constant, and its gradient."""
        z = (theta - self.centre) / self.width
        return 0.5 * float(z @ z) / self.observations, z / self.width / self.observations

    @property
    def noise_names(self) -> list[str]:
        return ["noise"] if np.ndim(self.noise) == 0 else [f"noise[{j}]" for j in range(np.size(self.noise))]

    def at_bounds(self, theta: np.ndarray) -> tuple[str, ...]:
        """The names of the parameters that ended at the edge of their range."""
        edge = (theta <= self.lower + 1e-6) | (theta >= self.upper - 1e-6)
        names = [
            f"{path}[{i}]" if size > 1 else path
            for path, size in zip(self.paths, self.sizes, strict=True)
            for i in range(size)
        ]
        names += self.noise_names if self.learn_noise else []
        edge = edge if self.index is None else edge[self.index]
        return tuple(name for name, hit in zip(names, edge, strict=True) if hit)


def _means(index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of the values with each index."""
    return np.bincount(index, values) / np.bincount(index)


def is_composite(kernel: Kernel) -> bool:
    """Whether several parts compete for the same data, or there is a period to be found.

    Linear and constant parts do not count: a few functions are no competition.
    """
    parts = [term.kernel for term in kernel.terms() if term.kernel.finite_features() is None]
    return len(parts) > 1 or any(isinstance(part, Periodic) for part in parts)


# unit of a parameter in these data; its range and the middle of its prior, in this unit
Unit = tuple[Any, tuple[float, float], float]


def _units(
    kernel: Kernel, spread: np.ndarray, variance: float, ranges: Ranges, prefix: str = ""
) -> dict[str, Unit]:
    """Units by parameter path: each kernel in the units of the columns that it is evaluated on."""
    if isinstance(kernel, OnColumns):
        spread = spread[list(kernel.columns)]
    found: dict[str, Unit] = {}
    for part in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, part.name)
        if isinstance(value, Kernel):
            found |= _units(value, spread, variance, ranges, f"{prefix}{part.name}.")
        else:
            found[prefix + part.name] = _unit(kernel, part.name, spread, variance, ranges.length)
    return found


def _unit(
    kernel: Kernel, name: str, spread: np.ndarray, variance: float, length: tuple[float, float]
) -> Unit:
    if name == "period":
        return spread, length, 1.0
    if name == "lengthscale":  # for Periodic: on circles of radius 1, whatever the units of x
        middle = float(np.sqrt(spread.size)) * (LINEAR_MIDDLE if isinstance(kernel, Linear) else 1.0)
        return 1.0 if isinstance(kernel, Periodic) else spread, length, middle
    if name in ("scale", "value", "variance"):
        return variance, SCALE_RANGE, 1.0
    return 1.0, OTHER_RANGE, 1.0

"""The answers of several targets, side by side: targets come last."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp import brief
from itergp.errors import InputError
from itergp.posterior.joint import LocalSamples
from itergp.posterior.sampling import SampleFunction


def beside(found: Sequence[np.ndarray]) -> np.ndarray:
    """Stack the arrays of all targets; targets come last."""
    return np.stack(found, axis=-1)


def each_field(found: list[Any]) -> Any:
    """Combine one record of arrays per target into one; other fields are those of the least exact target."""
    columns = {part.name: [getattr(one, part.name) for one in found] for part in fields(found[0])}
    least = min(range(len(found)), key=lambda i: getattr(found[i], "exact", True))
    return type(found[0])(
        **{
            name: beside(values) if isinstance(values[0], np.ndarray) else values[least]
            for name, values in columns.items()
        }
    )


def of_targets(noise: ArrayLike, targets: int) -> np.ndarray:
    values = np.asarray(noise, dtype=np.float64)
    if values.shape not in ((), (targets,)) or not ((values >= 0) & (values < np.inf)).all():
        raise InputError(
            f"noise is {noise!r}; expected a variance, or one for each of {targets} targets: finite and >= 0."
        )
    return np.broadcast_to(values, (targets,))


def draws(processes: Sequence[Any], X: ArrayLike, size: int, seed: int) -> np.ndarray:
    """Joint draws of one process per target at X: (size, m, t)."""
    seeds = zip(processes, _seeds(seed, len(processes)), strict=True)
    return beside([one.sample(X, size, own) for one, own in seeds])


def pulled_each(
    processes: Sequence[Any], X: ArrayLike, mean: ArrayLike | None, cov: ArrayLike | None
) -> np.ndarray:
    """The sum of the pullbacks of one process per target; targets come last in the slopes."""
    found = []
    for t, one in enumerate(processes):
        some = [None if slopes is None else np.asarray(slopes)[..., t] for slopes in (mean, cov)]
        found.append(one.pullback(X, *some))
    return np.sum(found, axis=0)


def _seeds(seed: int, targets: int) -> list[int]:
    """Targets are independent given the hyper-parameters."""
    return np.random.default_rng(seed).integers(2**53, size=targets).tolist()


@dataclass(frozen=True, eq=False)
class TargetSamples:
    """Draws of the targets as functions: call it at any X for (size, m, t)."""

    each: Sequence[SampleFunction | LocalSamples]

    __repr__ = brief.call

    @staticmethod
    def of(processes: Sequence[Any], size: int, seed: int, features: int) -> "TargetSamples":
        seeds = zip(processes, _seeds(seed, len(processes)), strict=True)
        return TargetSamples([one.sample_function(size, own, features) for one, own in seeds])

    @property
    def exact(self) -> bool:
        return all(one.exact for one in self.each)

    @property
    def rests_on(self) -> str:
        """As for one target, but per target: their noise differs, and so does the accuracy of the draws."""
        if self.exact:
            return self.each[0].rests_on
        return "\n".join(f"target {i}: {one.rests_on}" for i, one in enumerate(self.each))

    def var(self, X: ArrayLike) -> np.ndarray:
        """The variance of these draws at X given the features, (m, t)."""
        return beside([one.var(X) for one in self.each])

    def __call__(self, X: ArrayLike) -> np.ndarray:
        return beside([one(X) for one in self.each])

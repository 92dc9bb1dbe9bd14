"""The rows that an objective is about: duplicates merged into one row each, and what merging leaves of the
likelihood."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.data.rows import mean_square
from itergp.data.spread import centre_and_spread
from itergp.errors import InputError, KernelError
from itergp.learning.parameters import Evaluation, Objective
from itergp.linalg.gram import origin
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes, no_slopes
from itergp.validate import finite, inputs, targets

WORST = 1e10  # nats per observation where nothing could be computed: finite, so that an optimiser steps back


@dataclass(frozen=True, eq=False)
class Rows:
    """u rows that stand for `total` observations: row i is the mean of counts[i] of them, so its noise is
    noise / counts[i]."""

    X: np.ndarray  # (u, d)
    y: np.ndarray  # (u, t), centred
    counts: np.ndarray  # (u,)
    # squared deviations from the rows' means, summed over observations: one sum per target, or over targets
    # too
    scatter: Any

    @staticmethod
    def of(X: ArrayLike, y: ArrayLike, counts: ArrayLike | None = None, scatter: ArrayLike = 0.0) -> "Rows":
        X = inputs("X", X)
        y = targets("y", y, len(X))
        counts = np.ones(len(X)) if counts is None else finite("counts", np.asarray(counts, dtype=np.float64))
        if counts.shape != (len(X),) or not (counts >= 1).all():
            raise InputError(
                f"counts has shape {counts.shape}; expected ({len(X)},), each at least 1: one per row of X."
            )
        y = y[:, None] if y.ndim == 1 else y
        squares = np.asarray(scatter, dtype=np.float64)
        if squares.shape not in ((), y.shape[1:]) or not ((squares >= 0) & (squares < np.inf)).all():
            raise InputError(
                f"scatter is {scatter!r}; expected a sum of squares, finite and >= 0, or one per target."
            )
        return Rows(X, y, counts, float(squares) if squares.ndim == 0 else squares)

    def each(self) -> list["Rows"]:
        """Each target for itself."""
        scatter = np.asarray(self.scatter)
        if self.t > 1 and scatter.ndim == 0 and scatter:
            raise InputError(
                f"scatter is one number for {self.t} targets; expected one per target, as each "
                "has its own noise."
            )
        return [
            Rows(self.X, self.y[:, [j]], self.counts, float(of_target))
            for j, of_target in enumerate(np.broadcast_to(scatter, self.t))
        ]

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def t(self) -> int:
        return self.y.shape[1]

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def variance(self) -> float:
        """The mean square of the observations, deviations inside rows included: they are centred by the
        prior mean."""
        return mean_square(self.y, self.counts, self.scatter)

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of each feature over the observations, but for a few values far from all
        others; 1 where it is constant."""
        return centre_and_spread(np.repeat(self.X, np.rint(self.counts).astype(np.intp), axis=0))[1]

    def N(self, noise: float) -> np.ndarray:
        return noise / self.counts

    def origin(self, kernel: Kernel) -> np.ndarray:
        """From which inputs are counted where an objective evaluates k without a Gram."""
        return origin(kernel, self.X)

    def within(self, noise: float) -> tuple[float, float]:
        """- log density of the deviations from the rows' means, and its slope in the noise.

        A group of c observations has the density of its mean, N(.; f, noise / c), times
        (2 pi noise)^(-(c - 1) / 2) c^(-1/2) exp(-deviations / (2 noise)).
        """
        lost, scatter = self.t * (self.total - self.n), float(np.sum(self.scatter))
        if lost == 0.0 and scatter == 0.0:
            return 0.0, 0.0
        value = 0.5 * (
            scatter / noise + lost * np.log(2.0 * np.pi * noise) + self.t * float(np.log(self.counts).sum())
        )
        return float(value), 0.5 * (lost - scatter / noise) / noise

    def some(self, chosen: np.ndarray) -> "Rows":
        """Some of the rows; of the scatter, the share that their deviations have in all."""
        lost = self.total - self.n
        share = float((self.counts[chosen] - 1.0).sum()) / lost if lost > 0 else 0.0
        return Rows(self.X[chosen], self.y[chosen], self.counts[chosen], share * self.scatter)

    def evaluation(self, noise: float, value: float, slopes: Slopes, slope: float) -> Evaluation:
        """- log likelihood of the means with its gradients, as nats per observation with the deviations in
        it."""
        within, within_slope = self.within(noise)
        per = 1.0 / self.total
        return Evaluation(
            per * (value + within),
            {path: per * np.asarray(part, dtype=np.float64) for path, part in slopes.items()},
            per * (float(slope) + within_slope),
        )


def sound(kernel: Kernel, evaluate: Callable[[], Evaluation]) -> Evaluation:
    """What `evaluate` returns, where that is finite; else WORST without a slope. Nothing else leaves an
    objective."""
    try:
        with np.errstate(all="ignore"):
            found = evaluate()
    except (np.linalg.LinAlgError, ArithmeticError, KernelError):
        return Evaluation(WORST, no_slopes(kernel), 0.0)
    numbers: list[Any] = [found.value, found.noise, *found.kernel.values()]
    if not all(np.isfinite(number).all() for number in numbers):
        return Evaluation(WORST, no_slopes(kernel), 0.0)
    return found


def over_targets(objectives: Sequence[Objective]) -> Objective:
    """The sum over targets, each with an objective and a noise of its own; the kernel is the same."""

    def objective(kernel: Kernel, noise: Any) -> Evaluation:
        found = [one(kernel, float(of_target)) for one, of_target in zip(objectives, noise, strict=True)]
        slopes = {path: sum(part.kernel[path] for part in found) for path in found[0].kernel}
        return Evaluation(sum(part.value for part in found), slopes, np.array([part.noise for part in found]))

    return objective

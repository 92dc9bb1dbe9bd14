"""Which part of the variance at some points is computational."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from itergp.errors import InputError
from itergp.fitted.fit import Fit
from itergp.fitted.formats import counted, percent
from itergp.fitted.points import Points
from itergp.fitted.price import affordable_passes
from itergp.limits import DENSE_ROWS
from itergp.posterior.combined import Posterior
from itergp.posterior.uncertainty import (
    Decomposition,
    Shares,
    dense_factor,
    half_width,
    is_exact,
    more_neighbours,
    ratio,
    taken_apart,
)

FEW = 40  # points of an estimate
GUESSED = (
    "In new rows with missing values, what these could be counts as mathematical, and changes with the "
    "predictions: `refine` can change their variance by more than the computational part."
)


def changing(fit: Fit) -> str | None:
    """What more actions change beside the computational part, if anything can be missing."""
    return GUESSED if fit.donors is not None and not is_exact(fit.shared) else None


@dataclass(frozen=True)
class Share:
    """The computational share of the variance, as much as is known of it: the value, half of a 95 % interval
    for the choice of the points, and bounds; exact, or by a few passes over K or more neighbours."""

    value: float
    error: float
    lower: float
    upper: float
    method: str  # "exact", "estimate" or "neighbours"
    points: int  # at which it was measured
    neighbours: int  # for each of them, where it is no exact value
    passes: int
    by_target: tuple[float, ...] = ()  # of each target that has variances of its own

    @property
    def amount(self) -> str:
        return amount(self.value, self.error, self.upper, self.method, self.points)


def amount(value: float, error: float, upper: float, method: str, points: int) -> str:
    """A share in words, as much as is known of it."""
    said = f"{percent(value)} ± {percent(error)}" if error > 0 else percent(value)
    if method == "exact":
        return said
    if method == "neighbours":
        return f"At least {said}"
    low, high, where = percent(value), percent(upper), f"at {counted(points, 'point')}"
    return f"About {said} ({where if high == low else f'between {low} and {high} {where}'})"


def share_of(found: Shares, of: int, passes: int = 0) -> Share:
    """The computational share of these variances, at a random subset of `of` points."""
    value, error = ratio(found.computational, found.combined, of)
    m, (lower, upper) = len(found.combined), found.share_bounds
    return Share(value, half_width(error, m), lower, upper, found.method, m, found.neighbours, passes)


@dataclass(frozen=True, eq=False)
class Parts:
    """Latent variances at some points, in scaled units: those of the model as it predicts, taken apart."""

    points: Points
    chosen: np.ndarray  # which of all points
    decomposition: Decomposition
    of: int  # all points that the chosen ones stand for
    passes: int = 0  # over K, that were made for it

    @property
    def combined(self) -> np.ndarray:
        return self.decomposition.combined

    @property
    def mathematical(self) -> np.ndarray:
        return self.decomposition.mathematical

    @property
    def computational(self) -> np.ndarray:
        return self.decomposition.computational

    @property
    def error(self) -> float:
        """Half the width of a 95 % interval: the choice of points, where not all were looked at.

        Targets share their points, so what was chosen at random are points, each with the sum over its
        targets.
        """
        targets = len(self.points.posteriors)
        computational, combined = (
            a.reshape(targets, -1).sum(axis=0) for a in (self.computational, self.combined)
        )
        return half_width(ratio(computational, combined, self.of / targets)[1], len(combined))

    @property
    def by_target(self) -> list[float]:
        """The share of each target that has a posterior of its own: a large variance of one hides the
        share of another."""
        targets = len(self.points.posteriors)
        parts, wholes = (a.reshape(targets, -1) for a in (self.computational, self.combined))
        return [ratio(part, whole)[0] for part, whole in zip(parts, wholes, strict=True)]

    @property
    def share(self) -> "Share":
        found = self.decomposition
        lower, upper = found.share_bounds
        about = (found.method, len(found.combined), found.neighbours, self.passes)
        return Share(found.share, self.error, lower, upper, *about, tuple(self.by_target))

    def of_variances(self, variance: np.ndarray) -> "Parts":
        """Other variances at all points, taken apart as these were: the exact process is the same."""
        found = self.decomposition
        bounds = found.combined - found.computational_upper, found.mathematical
        again = taken_apart(variance[self.chosen], *bounds, found.method, found.neighbours)
        return replace(self, decomposition=again)


def mathematical_factors(posteriors: Sequence[Posterior]) -> list[np.ndarray] | None:
    """L L^T = K_hat of each, where that is affordable, possible, and not known already; None else."""
    if posteriors[0].problem.n > DENSE_ROWS or all(is_exact(posterior) for posterior in posteriors):
        return None
    try:
        return [dense_factor(posterior) for posterior in posteriors]
    except InputError:  # singular to rounding
        return None


def parts(
    points: Points,
    variance: np.ndarray,
    neighbours: int,
    factors: Sequence[np.ndarray] | None,
    seconds: float,
) -> Parts:
    """The variance of the model at the points, taken apart: exactly, or between bounds at a few of the
    points."""
    posterior, m = points.posterior, len(variance)
    everything = np.arange(m)
    if all(is_exact(one) for one in points.posteriors):
        return Parts(points, everything, taken_apart(variance, variance, variance), m)
    if factors is not None:
        exact = points.exact(factors)
        return Parts(points, everything, taken_apart(variance, exact, exact), m)
    chosen = points.few(FEW)
    few, wide = points.some(chosen), more_neighbours(posterior, neighbours, FEW)
    targets = len(points.posteriors)  # each has passes of its own
    passes = affordable_passes(posterior, len(chosen) // targets, seconds / targets)
    if passes:
        bounds = few.bounds(wide, passes)
        found = taken_apart(variance[chosen], bounds.lower, bounds.upper, "estimate", wide)
        return Parts(few, chosen, found, m, passes)
    upper = few.local(wide)[1]
    found = taken_apart(variance[chosen], np.zeros_like(upper), upper, "neighbours", wide)
    return Parts(few, chosen, found, m)

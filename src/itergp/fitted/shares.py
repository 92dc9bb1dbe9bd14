"""Which part of the variance is computational, and what more compute would buy: measured, with what it
rests on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.fitted.formats import percent, roughly
from itergp.fitted.points import Points
from itergp.fitted.price import affordable_passes
from itergp.limits import DENSE_ROWS
from itergp.posterior.combined import Posterior
from itergp.posterior.holdout import prefix
from itergp.posterior.uncertainty import (
    Decomposition,
    dense_factor,
    half_width,
    is_exact,
    more_neighbours,
    ratio,
    taken_apart,
)

FEW = 40  # points of an estimate
SHOWN = 200  # points of a decomposition
SEEN = 1e-4  # of the variance: a smaller share is none
LEAST_ACTIONS = 8  # below, the path says nothing about its future
PRICE = "Seconds are those of the later half of the actions, by their number."


@dataclass(frozen=True, eq=False)
class Parts:
    """Latent variances at some points, in scaled units: those of the model as it predicts, taken apart."""

    points: Points
    chosen: np.ndarray  # which of all points
    decomposition: Decomposition
    of: int  # all points that the chosen ones stand for

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
    def share(self) -> float:
        return self.decomposition.share

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


def mathematical_factors(posteriors: Sequence[Posterior]) -> list[np.ndarray] | None:
    """L L^T = K_hat of each, where that is affordable, possible, and not known already; None else."""
    if posteriors[0].problem.n > DENSE_ROWS or all(is_exact(posterior) for posterior in posteriors):
        return None
    try:
        return [dense_factor(posterior) for posterior in posteriors]
    except InputError:  # singular to rounding
        return None


def parts(points: Points, variance: np.ndarray, neighbours: int, L: Any, seconds: float) -> Parts:
    """The variance of the model at the points, taken apart: exactly, or between bounds at a few of the
    points."""
    posterior, m = points.posterior, len(variance)
    everything = np.arange(m)
    if all(is_exact(one) for one in points.posteriors):
        return Parts(points, everything, taken_apart(variance, variance, variance), m)
    if L is not None:
        exact = points.exact(L)
        return Parts(points, everything, taken_apart(variance, exact, exact), m)
    chosen = points.few(FEW)
    few, wide = points.some(chosen), more_neighbours(posterior, neighbours, FEW)
    targets = len(points.posteriors)  # each has passes of its own
    passes = affordable_passes(posterior, len(chosen) // targets, seconds / targets)
    if passes:
        bounds = few.bounds(wide, passes)
        return Parts(
            few, chosen, taken_apart(variance[chosen], bounds.lower, bounds.upper, "estimate", wide), m
        )
    upper = few.local(wide)[1]
    return Parts(
        few, chosen, taken_apart(variance[chosen], np.zeros_like(upper), upper, "neighbours", wide), m
    )


ABOUT = {
    "exact": "Computed exactly, at every point.",
    "estimate": (
        "Between bounds at {points} of the points, which a few passes over the kernel matrix gave: the value "
        "is the lower one. "
        "The error is half of a 95 % interval, for the choice of the points."
    ),
    "neighbours": (
        "At least this, at {points} of the points: it is what {neighbours} neighbours for each of them would "
        "take away. Bounds "
        "from passes over the kernel matrix would have taken too long. The error is half of a 95 % interval, "
        "for the choice of "
        "the points."
    ),
}


def share_value(looked_at: Parts) -> dict[str, Any]:
    found, posterior = looked_at.decomposition, looked_at.points.posterior
    about = ABOUT[found.method].format(points=len(found.combined), neighbours=found.neighbours)
    if all(is_exact(one) for one in looked_at.points.posteriors):
        about = (
            "As many actions as rows: exact inference for these hyper-parameters, so no action is left "
            "to take."
        )
    elif posterior.rank == posterior.problem.n:
        about += (
            " There are as many actions as rows: what is computational is the rounding of products in "
            "float32."
        )
    lower, upper = found.share_bounds
    return {
        "value": found.share,
        "error": looked_at.error,
        "lower": lower,
        "upper": upper,
        "method": found.method,
        "points": len(found.combined),
        "about": about,
        "by_target": looked_at.by_target,
    }


def along(found: Parts, variances: np.ndarray) -> list[float]:
    """The computational share at each position; variances are (K, m) at all points."""
    some = np.maximum(variances[:, found.chosen], found.mathematical)
    totals = some.sum(axis=1)
    return [1.0 - float(found.mathematical.sum()) / float(total) if total > 0 else 0.0 for total in totals]


def more(found: Parts, neighbours: int, trace: Any) -> dict[str, Any]:
    """What twice as many actions would buy: the computational part falls once more as it did over the last
    doubling."""
    posterior = found.points.posterior
    r, n = posterior.rank, posterior.problem.n
    if r == n:
        return _nothing("More actions change nothing: inference is exact for these hyper-parameters.")
    if r < LEAST_ACTIONS:
        return _nothing(f"What more compute would buy cannot be told from {r} actions.")
    total = float(found.combined.sum())
    if found.share < SEEN:
        return _nothing(
            f"More compute would lower the variance by less than {percent(SEEN)}, as far as "
            "could be measured here."
        )
    if 2 * r >= n:
        return _the_rest(n - r, seconds_of_actions(trace, r, n - r))
    earlier = found.points.seen_by(prefix(posterior, r // 2))
    before = earlier.path(np.array([r // 2]), neighbours)[1][-1]
    computational = float(found.computational.sum())
    fell = computational / max(
        float(np.maximum(before, found.mathematical).sum()) - (total - computational), computational
    )
    left = computational * fell
    share = left / (total - computational + left)
    seconds = seconds_of_actions(trace, r, r)
    cost = "" if seconds is None else f", {roughly(seconds)} on the machine of the fit"
    hardly = (
        " It is not global actions that are missing here: more neighbours would help more."
        if fell > 0.95 and neighbours
        else ""
    )
    return {
        "sentence": f"Twice the actions ({r:,} more{cost}) should bring that share to "
        f"{percent(share)}.{hardly}",
        "seconds": seconds,
        "share": share,
        "from": (
            f"The last doubling, from {r // 2:,} to {r:,} actions, left {percent(fell)} of the computational "
            "variance at these "
            f"points; the next one is assumed to leave as much of it. {PRICE}"
        ),
    }


def _the_rest(actions: int, seconds: float | None) -> dict[str, Any]:
    """Fewer actions than another doubling has are left: nothing has to be foretold but their price."""
    which = f"The remaining {actions:,} actions" if actions > 1 else "The one remaining action"
    paid = "" if seconds is None else f" ({roughly(seconds)} on the machine of the fit)"
    return {
        "sentence": f"{which}{paid} would make it the exact Gaussian process: nothing of that share would be "
        "left.",
        "seconds": seconds,
        "share": 0.0,
        "from": f"As many actions as different rows are the exact Gaussian process. {PRICE}",
    }


def _nothing(reason: str) -> dict[str, Any]:
    return {"sentence": reason, "seconds": None, "share": None, "from": None}


def seconds_of_actions(trace: Any, rank: int, more: int) -> float | None:
    """So many more actions after the first ones, each at the price of those of the later half, as the
    trace has it."""
    ends = [(0, 0.0), *((step.actions, step.seconds) for step in trace)]
    if len(ends) < 2 or ends[-1][0] <= 0:
        return None
    earlier = [end for end in ends if end[0] <= rank // 2][-1]
    actions, seconds = ends[-1][0] - earlier[0], ends[-1][1] - earlier[1]
    return more * seconds / actions if actions > 0 and seconds > 0 else None

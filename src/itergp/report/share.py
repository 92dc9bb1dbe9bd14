"""Which part of the variance is computational, and what more compute would buy: measured, with what it rests on."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.posterior.combined import Posterior
from itergp.posterior.holdout import prefix
from itergp.posterior.uncertainty import EXACT_ROWS, dense_factor
from itergp.report.points import Points
from itergp.report.words import percent, roughly

FEW, WIDE = 40, 384  # points and neighbours of an estimate
SHOWN = 200  # points of a decomposition
SEEN = 1e-4  # of the variance: a smaller share is none
LEAST_ACTIONS = 8  # below, the path says nothing about its future
PRICE = "Seconds are those of the later half of the actions, by their number."


@dataclass(frozen=True, eq=False)
class Parts:
    """Latent variances at some points, in scaled units: of the model as it predicts, and the mathematical part of them.

    Exact, or the most that the mathematical part can be: what is left with `wide` neighbours for each point.
    """

    points: Points
    chosen: np.ndarray  # which of all points
    combined: np.ndarray
    mathematical: np.ndarray
    gap: float  # how much of the combined variance the last doubling of the neighbours took away; 0 where exact
    wide: int | None  # None where exact
    of: int  # all points that the chosen ones stand for

    @property
    def computational(self) -> np.ndarray:
        return self.combined - self.mathematical

    @property
    def share(self) -> float:
        total = float(self.combined.sum())
        return float(self.computational.sum()) / total if total > 0 else 0.0

    @property
    def error(self) -> float:
        """One standard error: the choice of points where not all were looked at, and what more neighbours might still take."""
        m, total = len(self.combined), float(self.combined.sum())
        if self.wide is None or not total > 0:
            return 0.0
        spread = float(((self.computational - self.share * self.combined) ** 2).sum()) / max(1, m - 1)
        return math.hypot(math.sqrt(spread * m * max(0.0, 1.0 - m / self.of)) / total, self.gap / total)


def mathematical_factor(posterior: Posterior) -> np.ndarray | None:
    """L L^T = K_hat where that is affordable and possible; None else."""
    if posterior.problem.n > EXACT_ROWS or posterior.rank == posterior.problem.n:
        return None
    try:
        return dense_factor(posterior)
    except InputError:  # singular to rounding
        return None


def parts(points: Points, variance: np.ndarray, neighbours: int, L: np.ndarray | None) -> Parts:
    """The variance of the model at the points, taken apart: exactly, or by many more neighbours at a few of the points."""
    posterior, m = points.posterior, len(variance)
    everything = np.arange(m)
    if posterior.rank == posterior.problem.n:
        return Parts(points, everything, variance, variance, 0.0, None, m)
    if L is not None:
        exact = np.minimum(points.exact(L), variance)  # beyond only by rounding
        return Parts(points, everything, variance, exact, 0.0, None, m)
    chosen = points.few(FEW)
    few, wide = points.some(chosen), max(WIDE, 4 * neighbours)
    combined = variance[chosen]
    half, least = (np.minimum(few.local(number)[1], combined) for number in (wide // 2, wide))
    least = np.minimum(least, half)
    return Parts(few, chosen, combined, least, float((half - least).sum()), wide, m)


def share_value(found: Parts) -> dict[str, Any]:
    method, about = "exact", "Computed exactly, at every point."
    if found.wide is not None:
        method = "estimated"
        about = (
            f"Estimated at {len(found.combined)} of the points: what {found.wide} neighbours for each of them would take away, "
            "so at least this much. The error is one standard error: the choice of the points, and what the last doubling of "
            "these neighbours still took away."
        )
    elif found.points.posterior.rank == found.points.posterior.problem.n:
        about = "As many actions as rows: this is the exact Gaussian process, and nothing is left to compute."
    return {"value": found.share, "error": found.error, "method": method, "points": len(found.combined), "about": about}


def along(found: Parts, variances: np.ndarray) -> list[float]:
    """The computational share at each position; variances are (K, m) at all points."""
    some = np.maximum(variances[:, found.chosen], found.mathematical)
    totals = some.sum(axis=1)
    return [1.0 - float(found.mathematical.sum()) / float(total) if total > 0 else 0.0 for total in totals]


def more(found: Parts, neighbours: int, trace: Any) -> dict[str, Any]:
    """What twice as many actions would buy: the computational part falls once more as it did over the last doubling."""
    posterior = found.points.posterior
    r, n = posterior.rank, posterior.problem.n
    if r == n:
        return _nothing("More compute buys nothing: this is the exact Gaussian process for these hyper-parameters.")
    if r < LEAST_ACTIONS:
        return _nothing(f"What more compute would buy cannot be told from {r} actions.")
    total = float(found.combined.sum())
    if found.share < SEEN:
        return _nothing(f"More compute would lower the variance by less than {percent(SEEN)}, as far as could be measured here.")
    if 2 * r >= n:
        return _the_rest(n - r, seconds_of_actions(trace, r, n - r))
    earlier = found.points.seen_by(prefix(posterior, r // 2))
    before = earlier.path(np.array([r // 2]), neighbours)[1][-1]
    computational = float(found.computational.sum())
    fell = computational / max(float(np.maximum(before, found.mathematical).sum()) - (total - computational), computational)
    left = computational * fell
    share = left / (total - computational + left)
    seconds = seconds_of_actions(trace, r, r)
    cost = "" if seconds is None else f", {roughly(seconds)} on the machine of the fit"
    hardly = (
        " It is not global actions that are missing here: more neighbours would help more." if fell > 0.95 and neighbours else ""
    )
    return {
        "sentence": f"Twice the actions ({r:,} more{cost}) should bring that share to {percent(share)}.{hardly}",
        "seconds": seconds,
        "share": share,
        "from": (
            f"The last doubling, from {r // 2:,} to {r:,} actions, left {percent(fell)} of the computational variance at these "
            f"points; the next one is assumed to leave as much of it. {PRICE}"
        ),
    }


def _the_rest(actions: int, seconds: float | None) -> dict[str, Any]:
    """Fewer actions than another doubling has are left: nothing has to be foretold but their price."""
    which = f"The remaining {actions:,} actions" if actions > 1 else "The one remaining action"
    paid = "" if seconds is None else f" ({roughly(seconds)} on the machine of the fit)"
    return {
        "sentence": f"{which}{paid} would make it the exact Gaussian process: nothing of that share would be left.",
        "seconds": seconds,
        "share": 0.0,
        "from": f"As many actions as different rows are the exact Gaussian process. {PRICE}",
    }


def _nothing(reason: str) -> dict[str, Any]:
    return {"sentence": reason, "seconds": None, "share": None, "from": None}


def seconds_of_actions(trace: Any, rank: int, more: int) -> float | None:
    """So many more actions after the first ones, each at the price of those of the later half, as the trace has it."""
    ends = [(0, 0.0), *((step.actions, step.seconds) for step in trace)]
    if len(ends) < 2 or ends[-1][0] <= 0:
        return None
    earlier = [end for end in ends if end[0] <= rank // 2][-1]
    actions, seconds = ends[-1][0] - earlier[0], ends[-1][1] - earlier[1]
    return more * seconds / actions if actions > 0 and seconds > 0 else None

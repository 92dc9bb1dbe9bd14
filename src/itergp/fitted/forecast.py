"""What more compute would buy: extrapolated from the last actions."""

from dataclasses import dataclass

import numpy as np

from itergp.fitted.formats import percent, roughly
from itergp.fitted.price import seconds_of_actions
from itergp.fitted.shares import Parts
from itergp.posterior.holdout import prefix

SEEN = 1e-4  # of the variance: a smaller share is none
LEAST_ACTIONS = 8  # below, the path says nothing about its future
PRICE = "Seconds are those of the later half of the actions, by their number."


@dataclass(frozen=True)
class Forecast:
    """A sentence, its numbers if any, and what they are based on."""

    sentence: str
    seconds: float | None = None
    share: float | None = None
    rests_on: str | None = None


def forecast(found: Parts, neighbours: int) -> Forecast:
    """Twice as many actions: the computational part falls once more as it did over the last doubling."""
    posterior = found.points.posterior
    r, n = posterior.rank, posterior.problem.n
    if r == n:
        return Forecast("More actions change nothing: inference is exact for these hyper-parameters.")
    if r < LEAST_ACTIONS:
        return Forecast(f"What more compute would buy cannot be estimated from {r} actions.")
    if found.decomposition.share < SEEN:
        return Forecast(
            f"More compute would lower the variance by less than {percent(SEEN)}, as far as could be "
            "measured here."
        )
    if 2 * r >= n:
        return _the_rest(n - r, seconds_of_actions(posterior.trace, r, n - r))
    fell = _fell(found, neighbours)
    mathematical, left = float(found.mathematical.sum()), float(found.computational.sum()) * fell
    share, seconds = left / (mathematical + left), seconds_of_actions(posterior.trace, r, r)
    cost = "" if seconds is None else f", {roughly(seconds)} on the machine of the fit"
    hardly = (
        " More neighbours would help more than more global actions." if fell > 0.95 and neighbours else ""
    )
    return Forecast(
        f"Twice the actions ({r:,} more{cost}) should reduce this share to {percent(share)}.{hardly}",
        seconds,
        share,
        f"The last doubling, from {r // 2:,} to {r:,} actions, left {percent(fell)} of the computational "
        f"variance at these points; the next one is assumed to leave the same fraction. {PRICE}",
    )


def _fell(found: Parts, neighbours: int) -> float:
    """What the last doubling of the actions left of the computational variance."""
    half = found.points.posterior.rank // 2
    earlier = found.points.seen_by(prefix(found.points.posterior, half))
    before = earlier.path(np.array([half]), neighbours)[1][-1]
    now, mathematical = float(found.computational.sum()), float(found.mathematical.sum())
    return now / max(float(np.maximum(before, found.mathematical).sum()) - mathematical, now)


def _the_rest(actions: int, seconds: float | None) -> Forecast:
    """Fewer actions are left than another doubling: only their cost has to be estimated."""
    which = f"The remaining {actions:,} actions" if actions > 1 else "The one remaining action"
    paid = "" if seconds is None else f" ({roughly(seconds)} on the machine of the fit)"
    return Forecast(
        f"{which}{paid} would make it the exact Gaussian process, with no computational share left.",
        seconds,
        0.0,
        f"With as many actions as distinct rows, the Gaussian process is exact. {PRICE}",
    )

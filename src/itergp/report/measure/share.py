"""The computational share, what more compute would buy, and what each position of the slider had cost."""

import numpy as np

from itergp.fitted.formats import percent
from itergp.fitted.shares import changing
from itergp.posterior.uncertainty import is_exact
from itergp.report.measure.subject import Subject, Target
from itergp.report.page.text import Json
from itergp.solver.state import Status

SHOWN = 200  # points of a decomposition
ABOUT = {
    "exact": "Computed exactly, at every point.",
    "estimate": (
        "Bounds at {points} of the points, from a few passes over the kernel matrix; the value is the lower "
        "bound. The error is half the width of a 95 % interval for the choice of points."
    ),
    "neighbours": (
        "A lower bound at {points} of the points: what {neighbours} neighbours per point would remove. "
        "Bounds from passes over the kernel matrix would have taken too long. The error is half the width "
        "of a 95 % interval for the choice of points."
    ),
}


def share(subject: Subject) -> Json:
    found, posterior = subject.seen.share, subject.posterior
    about = ABOUT[found.method].format(points=found.points, neighbours=found.neighbours)
    if all(is_exact(one) for one in subject.seen.posteriors):
        about = (
            "There are as many actions as rows: inference is exact for these hyper-parameters, and no action "
            "is left."
        )
    elif posterior.rank == posterior.problem.n:
        about += (
            " There are as many actions as rows: the computational part is due to rounding in float32 "
            "products."
        )
    else:
        about = " ".join(filter(None, [about, changing(subject.fit)]))
    return {
        "value": found.value,
        "error": found.error,
        "lower": found.lower,
        "upper": found.upper,
        "method": found.method,
        "points": found.points,
        "about": about,
        "by_target": found.by_target,
    }


def more(subject: Subject) -> Json:
    found = subject.seen.forecast
    return {
        "sentence": found.sentence,
        "seconds": found.seconds,
        "share": found.share,
        "from": found.rests_on,
    }


def path(subject: Subject) -> Json:
    """A prefix of a block costs what its block cost."""
    posterior, neighbours, ranks = subject.posterior, subject.fit.neighbours, subject.seen.ranks.tolist()
    labels, actions, passes, seconds = [], ranks, [], []
    for rank in ranks:
        step = next((step for step in posterior.trace if step.actions >= rank), None) if rank else None
        labels.append("no computation" if not rank else "1 action" if rank == 1 else f"{rank:,} actions")
        passes.append(0 if not rank else posterior.state.progress.passes if step is None else step.passes)
        seconds.append(0.0 if not rank else None if step is None else step.seconds)
    if posterior.status is Status.EXACT:
        labels[-1] = f"all {posterior.rank:,} actions: exact"
    if neighbours:
        labels.append(f"with {neighbours} local actions")
        actions, passes, seconds = ([*column, column[-1]] for column in (actions, passes, seconds))
    shares = subject.seen.share_along()
    return {"labels": labels, "actions": actions, "passes": passes, "seconds": seconds, "share": shares}


def decomposition(target: Target) -> Json:
    """At most 200 points, by their combined variance; where there are more, at even steps of this order."""
    parts, own, unit = target.subject.seen.parts, target.own, target.unit
    inside = np.flatnonzero((parts.chosen >= own.start) & (parts.chosen < own.stop))
    order = inside[np.argsort(parts.combined[inside], kind="stable")]
    if order.size > SHOWN:
        order = order[np.linspace(0, order.size - 1, SHOWN).astype(int)]
    found = parts.decomposition
    about = (
        "Exact."
        if found.exact
        else "The computational part is at least this; over all points it is at most "
        f"{percent(found.share_bounds[1])}."
    )
    return {
        "mathematical": unit**2 * parts.mathematical[order],
        "computational": unit**2 * parts.computational[order],
        "noise": target.noise,
        "about": f"Variances of the latent function at {order.size} of {own.stop - own.start:,} points, "
        f"smallest first. {about}",
    }

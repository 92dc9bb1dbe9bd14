"""What a summary says, as plain values for JSON: all of it read off the model or measured, nothing
extrapolated."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from itergp.fitted import predictions as predicted
from itergp.fitted.fit import Fit
from itergp.fitted.price import affordable_passes, seconds_for
from itergp.fitted.units import Parts
from itergp.limits import DENSE_ROWS
from itergp.posterior.bounds import batches
from itergp.posterior.uncertainty import PASSES, Shares, half_width, is_exact, ratio, taken_apart
from itergp.prior.parameters import parameters
from itergp.report.measure.fitted import formula
from itergp.solver.state import Status
from itergp.tables import Layout

POINTS, FEWEST = 256, 32  # training inputs that a summary looks at
EXTRA = 0.1  # of the seconds of a fit, that a summary may take for the computational share
ARRAYS = ("mathematical", "computational", "noise", "computational_lower", "computational_upper")

Values = dict[str, Any]


# What was learned, and what the budget bought.


def described(fit: Fit, layout: Layout, path: Path) -> Values:
    posterior, done, budget = fit.posterior, fit.posterior.state.progress, fit.asked["budget"]
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "target": None if layout.target is None else layout.target.name,
        "rows": fit.rows,
        "distinct_rows": posterior.problem.n,
        "learned": _learned(fit, layout),
        "budget": {
            "asked": budget if isinstance(budget, str | None) else str(budget),
            "actions": posterior.rank,
            "passes": done.passes,
            "seconds": {name: round(seconds, 3) for name, seconds in fit.timings.items()},
            "status": fit.status.value,
            "advice": fit.status.advice,
        },
        "learning": {
            "ended": fit.learning.ended.value,
            "iterations": fit.learning.iterations,
            "advice": fit.learning.advice,
        },
    }


def _learned(fit: Fit, layout: Layout) -> Values:
    y_scale = float(fit.scaling.y_scale)
    values = {path: np.asarray(value).tolist() for path, value in parameters(fit.kernel).items()}
    return {
        "kernel": formula(fit.kernel),
        "parameters": values,
        "noise_std": math.sqrt(fit.noise) * y_scale,
        "noise_share": fit.noise * y_scale**2 / max(_variance(fit), np.finfo(float).tiny),
        "features": _relevances(fit, layout.inputs, values),
    }


def _relevances(fit: Fit, names: list[str], values: Values) -> list[Values]:
    """Lengthscales in each feature's own units, and 1 / lengthscale in its standard deviations; the most
    relevant first."""
    scales = [
        value
        for path, value in values.items()
        if path.endswith("lengthscale") and np.size(value) == len(names)
    ]
    if len(scales) != 1:
        return []
    lengthscales = np.atleast_1d(np.asarray(scales[0]))
    rows = [
        {"name": name, "lengthscale": float(length * unit), "relevance": float(1.0 / length)}
        for name, length, unit in zip(names, lengthscales, fit.scaling.x_scale, strict=True)
    ]
    return sorted(rows, key=lambda row: -row["relevance"])


def _variance(fit: Fit) -> float:
    """Of all targets of the fit, in units of y squared: the scaled ones, with the spread of merged rows."""
    y, counts = fit.posterior.problem.y, fit.counts
    total = counts.sum()
    mean = (counts * y).sum() / total
    return float(((counts * (y - mean) ** 2).sum() + fit.scatter) / total * fit.scaling.y_scale**2)


# Predictions.


def computational(fit: Fit, X: np.ndarray, passes: int) -> Parts:
    """The latent variance at X taken apart, in units of y squared, in batches that fit the memory."""
    size = predicted.batch(fit)
    parts = [predicted.decompose(fit, X[i : i + size], passes) for i in range(0, len(X), size)]
    joined: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return replace(parts[0], **joined)


def affordable(fit: Fit, points: int) -> int:
    """How many passes for an estimate at so many points take no more than a part of the fit's time."""
    posterior = fit.shared
    if posterior.problem.n <= DENSE_ROWS or is_exact(posterior):
        return PASSES  # none will be needed
    blocks = batches(points, posterior.problem.n)
    seconds = seconds_for(fit, EXTRA) / len(blocks)
    return affordable_passes(posterior, blocks[0].stop, seconds)


def predictions(fit: Fit, X: np.ndarray, level: float) -> tuple[dict[str, np.ndarray], Values]:
    """Columns, in the units of the target and in the order of the rows; and a few words about them."""
    mean, std = predicted.mean_and_std(fit, X)
    noise = fit.noise * float(fit.scaling.y_scale) ** 2
    parts, reach = computational(fit, X, affordable(fit, len(X))), float(ndtri(0.5 + level / 2)) * std
    columns = {
        "mean": mean,
        "std": std,
        "computational_std": np.sqrt(parts.computational),
        "lower": mean - reach,
        "upper": mean + reach,
    }
    about = {"rows": len(X), "mean_std": float(std.mean()), "noise_std": math.sqrt(noise), "level": level}
    return columns, about | {"computational_share": share_values(parts, len(X))}


# What is missing, and what more would buy.


def measured(fit: Fit) -> Values:
    """The computational share of the variance at some training inputs, and how fast it still fell."""
    X, passes = _sample(fit)
    return {
        "computational_share": _share(fit, X, passes),
        "more_budget": {"acting": _acting(fit, X), "learning": _learning(fit)},
    }


def _sample(fit: Fit) -> tuple[np.ndarray, int]:
    """Some training inputs, in units of the scaled data: as many as all passes of an estimate are
    affordable for."""
    X, points = fit.posterior.problem.X, POINTS
    passes = affordable(fit, points)
    while passes < PASSES and points > FEWEST:
        points //= 2
        passes = affordable(fit, points)
    points = points if passes else POINTS
    return X[np.sort(np.random.default_rng(0).permutation(len(X))[:points])], passes


def share_values(parts: Shares, n: int) -> Values:
    """The share, its bounds, and half the width of its 95 % interval where these points stand for n of
    them."""
    share, error = ratio(parts.computational, parts.combined, n)
    lower, upper = parts.share_bounds
    found = {"share": share, "lower": lower, "upper": upper, "error": half_width(error, len(parts.combined))}
    return found | {"kind": parts.method, "by_neighbours": parts.neighbours, "points": len(parts.combined)}


def _share(fit: Fit, X: np.ndarray, passes: int) -> Values:
    """Of what `predict` gives; and, where it uses neighbours, of what the actions alone give that all
    predictions share."""
    parts, neighbours = computational(fit, fit.scaling.original(X), passes), fit.neighbours
    n = fit.posterior.problem.n
    found = share_values(parts, n) | {
        "passes": passes if parts.method == "estimate" else 0,
        "neighbours": neighbours,
    }
    if not neighbours:
        return found | {"global_actions": None}
    # the exact process is the same for both, and so are the bounds on it
    combined = fit.scaling.variance(fit.posterior.var(X))
    before = taken_apart(
        combined,
        parts.combined - parts.computational_upper,
        parts.mathematical,
        parts.method,
        parts.neighbours,
    )
    return found | {"global_actions": share_values(before, n)}


def _acting(fit: Fit, X: np.ndarray) -> Values | None:
    """How the mean variance fell over the last half of the actions: from a prefix of the same computation."""
    rank = fit.posterior.rank
    if rank < 2 or fit.status is Status.EXACT:
        return None
    half, whole = fit.scaling.variance(fit.posterior.path(X, [rank // 2, rank]).var).mean(axis=1).tolist()
    return {
        "from": rank // 2,
        "to": rank,
        "variance_from": half,
        "variance_to": whole,
        "fell_by": 1.0 - whole / half,
    }


def _learning(fit: Fit) -> Values | None:
    """What the last half of the iterations of the last stage still gained, in nats per row."""
    records = [record for record in fit.trace.learning if record.stage == fit.trace.learning[-1].stage]
    if len(records) < 2:
        return None
    half, last = records[len(records) // 2 - 1], records[-1]
    return {
        "iterations": len(fit.trace.learning),
        "over_the_last": len(records) - len(records) // 2,
        "gained": half.objective - last.objective,
    }

"""What a summary says, as plain values for JSON: all of it read off the model or measured, nothing
extrapolated."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from itergp.estimator.regressor import BATCH_BYTES, NEIGHBOURS, IterGPRegressor
from itergp.fitted.units import Parts
from itergp.posterior.bounds import batches
from itergp.posterior.uncertainty import EXACT_ROWS, PASSES, Shares, half_width, is_exact, ratio, taken_apart
from itergp.prior.parameters import parameters
from itergp.report.measure.fitted import formula
from itergp.report.measure.price import affordable_passes, seconds_for
from itergp.solver.state import Status
from itergp.tables import Layout

POINTS, FEWEST = 256, 32  # training inputs that a summary looks at
EXTRA = 0.1  # of the seconds of a fit, that a summary may take for the computational share
ARRAYS = ("mathematical", "computational", "noise", "computational_lower", "computational_upper")

Values = dict[str, Any]


# What was learned, and what the budget bought.


def described(model: IterGPRegressor, layout: Layout, path: Path) -> Values:
    posterior, done = model.posterior_, model.posterior_.state.progress
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "target": None if layout.target is None else layout.target.name,
        "rows": int(model.row_counts_.sum()),
        "distinct_rows": posterior.problem.n,
        "learned": _learned(model, layout),
        "budget": {
            "asked": model.budget if isinstance(model.budget, str | None) else str(model.budget),
            "actions": posterior.rank,
            "passes": done.passes,
            "seconds": {name: round(seconds, 3) for name, seconds in model.timings_.items()},
            "status": model.status_.value,
            "advice": model.status_.advice,
        },
        "learning": {
            "ended": model.learning_.ended.value,
            "iterations": model.learning_.iterations,
            "advice": model.learning_.advice,
        },
    }


def _learned(model: IterGPRegressor, layout: Layout) -> Values:
    y_scale = float(model.scaling_.y_scale)
    values = {path: np.asarray(value).tolist() for path, value in parameters(model.kernel_).items()}
    return {
        "kernel": formula(model.kernel_),
        "parameters": values,
        "noise_std": math.sqrt(model.noise_) * y_scale,
        "noise_share": model.noise_ * y_scale**2 / max(_variance(model), np.finfo(float).tiny),
        "features": _relevances(model, layout.inputs, values),
    }


def _relevances(model: IterGPRegressor, names: list[str], values: Values) -> list[Values]:
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
        for name, length, unit in zip(names, lengthscales, model.scaling_.x_scale, strict=True)
    ]
    return sorted(rows, key=lambda row: -row["relevance"])


def _variance(model: IterGPRegressor) -> float:
    """Of all targets of the fit, in units of y squared: the scaled ones, with the spread of merged rows."""
    y, counts = model.posterior_.problem.y, model.row_counts_
    total = counts.sum()
    mean = (counts * y).sum() / total
    return float(((counts * (y - mean) ** 2).sum() + model.scatter_) / total * model.scaling_.y_scale**2)


# Predictions.


def computational(model: IterGPRegressor, X: np.ndarray, passes: int) -> Parts:
    """The latent variance at X taken apart, in units of y squared, in batches that fit the memory."""
    size = max(256, BATCH_BYTES // (24 * max(1, model.posterior_.rank)))
    parts = [model.decompose(X[i : i + size], passes=passes) for i in range(0, len(X), size)]
    joined: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return replace(parts[0], **joined)


def affordable(model: IterGPRegressor, points: int) -> int:
    """How many passes for an estimate at so many points take no more than a part of the fit's time."""
    posterior = model.posterior_
    if posterior.problem.n <= EXACT_ROWS or is_exact(posterior):
        return PASSES  # none will be needed
    blocks = batches(points, posterior.problem.n)
    seconds = seconds_for(model, EXTRA) / len(blocks)
    return affordable_passes(posterior, blocks[0].stop, seconds)


def predictions(model: IterGPRegressor, X: np.ndarray, level: float) -> tuple[dict[str, np.ndarray], Values]:
    """Columns, in the units of the target and in the order of the rows; and a few words about them."""
    mean, std = model.predict(X, return_std=True)
    noise = model.noise_ * float(model.scaling_.y_scale) ** 2
    parts, reach = computational(model, X, affordable(model, len(X))), float(ndtri(0.5 + level / 2)) * std
    columns = {
        "mean": mean,
        "std": std,
        "computational_std": np.sqrt(parts.computational),
        "lower": mean - reach,
        "upper": mean + reach,
    }
    about = {"rows": len(X), "mean_std": float(std.mean()), "noise_std": math.sqrt(noise), "level": level}
    return columns, about | {"computational_share": share_values(parts, len(X))}


def neighbours_of(model: IterGPRegressor) -> int:
    """How many neighbours each prediction uses."""
    if model.neighbours != "auto":
        return int(model.neighbours)
    return 0 if model.status_ is Status.EXACT else min(NEIGHBOURS, model.posterior_.problem.n)


# What is missing, and what more would buy.


def measured(model: IterGPRegressor) -> Values:
    """The computational share of the variance at some training inputs, and how fast it still fell."""
    X, passes = _sample(model)
    return {
        "computational_share": _share(model, X, passes),
        "more_budget": {"acting": _acting(model, X), "learning": _learning(model)},
    }


def _sample(model: IterGPRegressor) -> tuple[np.ndarray, int]:
    """Some training inputs, in units of the scaled data: as many as all passes of an estimate are
    affordable for."""
    X, points = model.posterior_.problem.X, POINTS
    passes = affordable(model, points)
    while passes < PASSES and points > FEWEST:
        points //= 2
        passes = affordable(model, points)
    points = points if passes else POINTS
    return X[np.sort(np.random.default_rng(0).permutation(len(X))[:points])], passes


def share_values(parts: Shares, n: int) -> Values:
    """The share, its bounds, and half the width of its 95 % interval where these points stand for n of
    them."""
    share, error = ratio(parts.computational, parts.combined, n)
    lower, upper = parts.share_bounds
    found = {"share": share, "lower": lower, "upper": upper, "error": half_width(error, len(parts.combined))}
    return found | {"kind": parts.method, "by_neighbours": parts.neighbours, "points": len(parts.combined)}


def _share(model: IterGPRegressor, X: np.ndarray, passes: int) -> Values:
    """Of what `predict` gives; and, where it uses neighbours, of what the actions alone give that all
    predictions share."""
    parts, neighbours = computational(model, model.scaling_.original(X), passes), neighbours_of(model)
    n = model.posterior_.problem.n
    found = share_values(parts, n) | {
        "passes": passes if parts.method == "estimate" else 0,
        "neighbours": neighbours,
    }
    if not neighbours:
        return found | {"global_actions": None}
    # the exact process is the same for both, and so are the bounds on it
    combined = model.scaling_.variance(model.posterior_.var(X))
    before = taken_apart(
        combined,
        parts.combined - parts.computational_upper,
        parts.mathematical,
        parts.method,
        parts.neighbours,
    )
    return found | {"global_actions": share_values(before, n)}


def _acting(model: IterGPRegressor, X: np.ndarray) -> Values | None:
    """How the mean variance fell over the last half of the actions: from a prefix of the same computation."""
    rank = model.posterior_.rank
    if rank < 2 or model.status_ is Status.EXACT:
        return None
    half, whole = (
        model.scaling_.variance(model.posterior_.path(X, [rank // 2, rank]).var).mean(axis=1).tolist()
    )
    return {
        "from": rank // 2,
        "to": rank,
        "variance_from": half,
        "variance_to": whole,
        "fell_by": 1.0 - whole / half,
    }


def _learning(model: IterGPRegressor) -> Values | None:
    """What the last half of the iterations of the last stage still gained, in nats per row."""
    records = [record for record in model.trace_.learning if record.stage == model.trace_.learning[-1].stage]
    if len(records) < 2:
        return None
    half, last = records[len(records) // 2 - 1], records[-1]
    return {
        "iterations": len(model.trace_.learning),
        "over_the_last": len(records) - len(records) // 2,
        "gained": half.objective - last.objective,
    }

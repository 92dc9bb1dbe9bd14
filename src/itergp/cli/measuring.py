"""What a summary says, as plain values for JSON: all of it read off the model or measured, nothing extrapolated."""

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from itergp.errors import InputError
from itergp.estimator import BATCH_BYTES, NEIGHBOURS, IterGPRegressor
from itergp.posterior.uncertainty import EXACT_ROWS
from itergp.prior.kernels import parameters
from itergp.report.fitted import formula
from itergp.solver.state import Status
from itergp.tables import Layout

POINTS = 256  # training inputs that a summary looks at
PASSES = 10  # of an estimate of the computational share, at most
EXTRA = 0.1  # of the seconds of a fit, that a summary may take for it
WIDER, MUCH_WIDER = 2, 4  # times the neighbours, to see what they would still take away: at all rows, and at a few

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
    """Lengthscales in each feature's own units, and 1 / lengthscale in its standard deviations; the most relevant first."""
    scales = [value for path, value in values.items() if path.endswith("lengthscale") and np.size(value) == len(names)]
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


@dataclass(frozen=True, eq=False)
class Computational:
    """The part of a latent variance that more computation would remove, per row, in units of y squared.

    Exact, or what `by` neighbours for each point would remove: then guaranteed not to be too much.
    """

    variance: np.ndarray
    by: int | None = None

    @property
    def kind(self) -> str:
        return "exact" if self.by is None else "at least"


def computational(model: IterGPRegressor, X: np.ndarray, latent: np.ndarray, wider: int) -> Computational:
    """Of these latent variances, at X: exact where the exact GP can be computed, else by `wider` times the neighbours."""
    if model.posterior_.problem.n <= EXACT_ROWS or model.status_ is Status.EXACT:
        size = max(256, BATCH_BYTES // (24 * max(1, model.posterior_.rank)))
        try:
            parts = [model.decompose(X[i : i + size]).computational for i in range(0, len(X), size)]
            return Computational(np.concatenate(parts))
        except InputError:  # K + noise is singular to rounding
            pass
    more = copy.copy(model)
    more.neighbours = by = min(wider * (neighbours_of(model) or NEIGHBOURS), int(model.posterior_.problem.n))
    return Computational(np.clip(latent - latent_variance(more, X), 0.0, latent), by)


def predictions(model: IterGPRegressor, X: np.ndarray, level: float) -> tuple[dict[str, np.ndarray], Values]:
    """Columns, in the units of the target and in the order of the rows; and a few words about them."""
    mean, std = model.predict(X, return_std=True)
    noise = model.noise_ * float(model.scaling_.y_scale) ** 2
    latent = np.maximum(std**2 - noise, 0.0)
    part, reach = computational(model, X, latent, WIDER), float(ndtri(0.5 + level / 2)) * std
    columns = {
        "mean": mean,
        "std": std,
        "computational_std": np.sqrt(part.variance),
        "lower": mean - reach,
        "upper": mean + reach,
    }
    share, _ = ratio(part.variance, latent, len(X))
    about = {"rows": len(X), "mean_std": float(std.mean()), "noise_std": math.sqrt(noise), "level": level}
    return columns, about | {"computational_share": share, "kind": part.kind, "by_neighbours": part.by}


def neighbours_of(model: IterGPRegressor) -> int:
    """How many neighbours each prediction uses."""
    if model.neighbours != "auto":
        return int(model.neighbours)
    return 0 if model.status_ is Status.EXACT else min(NEIGHBOURS, model.posterior_.problem.n)


def latent_variance(model: IterGPRegressor, X: np.ndarray) -> np.ndarray:
    return model.predict(X, return_std=True, include_noise=False)[1] ** 2


# What is missing, and what more would buy.


def measured(model: IterGPRegressor) -> Values:
    """The computational share of the variance at some training inputs, and how fast it still fell."""
    X = _sample(model)
    return {"computational_share": _share(model, X), "more_budget": {"acting": _acting(model, X), "learning": _learning(model)}}


def _sample(model: IterGPRegressor) -> np.ndarray:
    """Some training inputs, in units of the scaled data."""
    X = model.posterior_.problem.X
    return X[np.sort(np.random.default_rng(0).permutation(len(X))[:POINTS])]


def _share(model: IterGPRegressor, X: np.ndarray) -> Values:
    """Of what `predict` gives; and, where it uses neighbours, of what the actions alone give that all predictions share."""
    inputs = model.scaling_.original(X)
    latent = latent_variance(model, inputs)
    part, neighbours = computational(model, inputs, latent, MUCH_WIDER), neighbours_of(model)
    share, error = ratio(part.variance, latent, model.posterior_.problem.n)
    found = {"share": share, "error": error, "kind": part.kind, "by_neighbours": part.by, "points": len(X)}
    before = _global_share(model, X, part.kind == "exact") if neighbours else None
    return found | {"neighbours": neighbours, "global_actions": before}


def ratio(parts: np.ndarray, wholes: np.ndarray, n: int) -> tuple[float, float]:
    """sum(parts) / sum(wholes), and its standard error as that of n rows of which these are a random choice."""
    m, total = len(wholes), float(wholes.sum())
    if not total > 0:
        return 0.0, 0.0
    share = float(parts.sum()) / total
    spread = float(((parts - share * wholes) ** 2).sum()) / max(1, m - 1)
    return share, math.sqrt(spread * m * max(0.0, 1.0 - m / n)) / total


def _global_share(model: IterGPRegressor, X: np.ndarray, exact: bool) -> Values | None:
    """Exact, or an estimate, if its passes take no more than a part of the fit's time."""
    posterior, done = model.posterior_, model.posterior_.state.progress
    if exact:
        parts = posterior.decompose(X)
        return {"share": float(parts.computational.sum() / parts.combined.sum()), "error": 0.0, "kind": "exact"}
    seconds = max(1.0, EXTRA * model.timings_.get("total", 0.0))
    passes = min(PASSES, int(seconds * done.passes / max(done.seconds, 1e-6)))  # by what a pass took so far
    if passes < 1:
        return None
    share = posterior.computational_share(X, passes=passes)
    found = {"share": share.estimate, "error": float(share.error), "bias_bound": _finite(share.bias_bound)}
    return found | {"kind": "estimate", "passes": passes}


def _acting(model: IterGPRegressor, X: np.ndarray) -> Values | None:
    """How the mean variance fell over the last half of the actions: from a prefix of the same computation."""
    rank = model.posterior_.rank
    if rank < 2 or model.status_ is Status.EXACT:
        return None
    half, whole = model.scaling_.variance(model.posterior_.path(X, [rank // 2, rank]).var).mean(axis=1).tolist()
    return {"from": rank // 2, "to": rank, "variance_from": half, "variance_to": whole, "fell_by": 1.0 - whole / half}


def _learning(model: IterGPRegressor) -> Values | None:
    """What the last half of the iterations of the last stage still gained, in nats per row."""
    records = [record for record in model.trace_.learning if record.stage == model.trace_.learning[-1].stage]
    if len(records) < 2:
        return None
    half, last = records[len(records) // 2 - 1], records[-1]
    return {"iterations": len(model.trace_.learning), "over_the_last": len(records) - len(records) // 2,
            "gained": half.objective - last.objective}  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""The contents of a summary as plain values for JSON: read from the model or measured, never
extrapolated."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from itergp.data.spread import CONSTANT
from itergp.fitted import choice, predictions as predicted
from itergp.fitted.calibration import LEVELS, Calibration, sentence
from itergp.fitted.filling import lacking
from itergp.fitted.fit import Fit
from itergp.fitted.price import affordable_passes, seconds_for
from itergp.fitted.regime import regime
from itergp.fitted.relevance import relevances
from itergp.fitted.seen import Seen, look
from itergp.fitted.shares import Share, changing
from itergp.fitted.units import Parts
from itergp.limits import DENSE_ROWS
from itergp.posterior.bounds import batches
from itergp.posterior.uncertainty import PASSES, is_exact
from itergp.prior.parameters import parameters
from itergp.report.measure.fitted import formula
from itergp.tables import Layout

EXTRA = 0.1  # fraction of the fit's seconds that predictions may spend on their computational part
ROUNDING = 1e-9  # by which the noise of rows may differ, and be the same
SUMMED = ("combined", "computational", "computational_lower", "computational_upper")

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
            "regime": regime(fit),
            "cluster": posterior.problem.gram.engine.activity() or None,
        },
        "calibration": None if fit.calibration is None else _calibration(fit.calibration, fit.learned),
        "learning": {
            "ended": fit.learning.ended.value,
            "iterations": fit.learning.iterations,
            "advice": fit.learning.advice,
        },
    }


def _calibration(calibration: Calibration, learned: bool) -> Values:
    return {
        "units": calibration.units,
        "grouped": calibration.grouped,
        "factor": float(calibration.factor),
        "coverage": {str(level): float(calibration.coverage(level)) for level in LEVELS},
        "sentence": sentence(calibration, learned),
    }


def _learned(fit: Fit, layout: Layout) -> Values:
    y_scale = float(fit.scaling.y_scale)
    values = {path: np.asarray(value).tolist() for path, value in parameters(fit.kernel).items()}
    return {
        "mean": fit.mean_words,
        "kernel": formula(fit.kernel),
        "candidates": choice.rows(fit.trace.candidates),
        "parameters": values,
        "noise_std": math.sqrt(fit.noise) * y_scale,
        "noise_asked": fit.asked["noise"] if isinstance(fit.asked["noise"], str) else None,
        "noise_varies": fit.noise_function is not None,
        "noise_share": _noise_share(fit),
        "features": _relevances(fit, layout.inputs),
    }


def _relevances(fit: Fit, names: list[str]) -> list[Values]:
    """Lengthscales in each feature's own units, and 1 / lengthscale in its standard deviations; most
    relevant first. Where the kernel has no such lengthscales: None, and a relevance of at most 1."""
    return [
        {
            "name": names[row.feature],
            "lengthscale": row.own_lengthscale,
            "relevance": row.value if row.inverse is None else row.inverse,
        }
        for row in relevances(fit)
    ]


def _noise_share(fit: Fit) -> float | None:
    """Of the variance of the training targets; None where that is only rounding, as of equal ones."""
    variance, y = _variance(fit), fit.scaling.mean(fit.data.y)
    varies = math.sqrt(variance) * float(fit.scaling.y_scale) > CONSTANT * float(np.abs(y).max())
    return float(fit.noise) / variance if varies else None


def _variance(fit: Fit) -> float:
    """Variance of the training targets in scaled units, including the scatter within merged rows:
    each row counts once, however much noise it has."""
    rows = fit.data
    mean = np.average(rows.y, weights=rows.counts)
    merged = rows.counts - 1  # the scatter has their squares over their noise, as far as it is not the same
    noise = np.average(rows.counts / rows.precision, weights=merged) if merged.any() else 1.0
    alike = replace(rows, y=rows.y - mean, weights=None, log_weights=None, scatter=rows.scatter * noise)
    return alike.variance


# Predictions.


def affordable(fit: Fit, points: int) -> int:
    """Number of passes for an estimate at the given number of points within a fraction of the fit's time."""
    posterior = fit.shared
    if posterior.problem.n <= DENSE_ROWS or is_exact(posterior):
        return PASSES  # none will be needed
    blocks = batches(points, posterior.problem.n)
    seconds = seconds_for(fit, EXTRA) / len(blocks)
    return affordable_passes(posterior, blocks[0].stop, seconds)


def predictions(fit: Fit, X: np.ndarray, level: float) -> tuple[dict[str, np.ndarray], Values]:
    """Prediction columns, in the units of the target and in row order; and a summary of them."""
    predicting = Predicting(fit, level, len(X), share=True)
    return predicting(X), predicting.summary()


class Predicting:
    """Predictions block by block, and a summary of all of them: only sums are kept. The computational `share`
    is measured if asked, and where that is free."""

    def __init__(
        self,
        fit: Fit,
        level: float,
        rows: int,
        interval: str = "gaussian",
        share: bool = False,
        quantiles: Sequence[float] = (),
    ) -> None:
        fit, scores = predicted.score_quantiles(fit, np.array(quantiles), interval, "--quantiles")
        self.quantiles = {f"q{level!r}": z for level, z in zip(quantiles, scores.tolist(), strict=True)}
        self.fit, self.level, self.rows, self.interval = fit, level, rows, interval  # rows in all
        self.ends, self.share = _ends(fit, level, interval), share
        self.passes = affordable(fit, rows) if share else 0
        self.factor = predicted.exact_factor(fit) if share else None  # for all blocks
        self.sums = dict.fromkeys(("std", "noise_std", *SUMMED), 0.0)
        self.noise = math.inf, -math.inf  # the least and the most standard deviation of any row
        self.predicted = 0  # rows
        self.lacking = False  # whether any of them lacks a value
        self.parts: Parts | None = None  # of the first block, for how they were found

    @property
    def parts_too(self) -> bool:
        """Whether parts are measured: as asked, or where nothing is left to measure."""
        return self.share or is_exact(self.fit.shared)

    @property
    def spread(self) -> bool:
        """Whether many rows at once go to the workers of a cluster; parts are measured in this process."""
        return self._engine.spreads(self.rows) and not self.parts_too

    @property
    def _engine(self) -> Any:
        return self.fit.posterior.problem.gram.engine

    @property
    def columns(self) -> tuple[str, ...]:
        return ("mean", "std", *["computational_std"] * self.share, "lower", "upper", *self.quantiles)

    def __call__(self, X: np.ndarray) -> dict[str, np.ndarray]:
        if self.parts_too:
            mean, std, parts = predicted.mean_std_and_parts(self.fit, X, self.passes, self.factor)
            self._add(parts)
            noise = np.sqrt(parts.noise)
        else:
            (mean, std, noise), parts = predicted.mean_std_and_noise(self.fit, X), None
        low, high = self.ends
        found = {"mean": mean, "std": std, "lower": mean + low * std, "upper": mean + high * std}
        found |= {name: mean + z * std for name, z in self.quantiles.items()}
        if parts is not None:
            found["computational_std"] = np.sqrt(parts.computational)
        self.sums["std"] += float(std.sum())
        self.sums["noise_std"] += float(noise.sum())
        least, most = self.noise
        self.noise = min(least, float(noise.min())), max(most, float(noise.max()))
        self.predicted += len(X)
        self.lacking |= lacking(self.fit, X)
        return {name: found[name] for name in self.columns}

    def _add(self, parts: Parts) -> None:
        self.parts = self.parts or parts
        for name in SUMMED:
            self.sums[name] += float(getattr(parts, name).sum())

    def summary(self) -> Values:
        least, most = self.noise
        return {
            "rows": self.rows,
            "empty_rows": self.rows - self.predicted,
            "mean_std": self._mean("std"),
            "noise_std": self._mean("noise_std"),
            "same_noise_in_every_row": most <= (1 + ROUNDING) * least if self.predicted else None,
            "level": self.level,
            "interval": {"method": self.interval, "ends_in_std": list(self.ends)},
            "cluster": self._engine.activity() or None,
            "computational_share": None if self.parts is None else self._share(self.parts),
        }

    def _mean(self, name: str) -> float | None:
        return self.sums[name] / self.predicted if self.predicted else None

    def _share(self, parts: Parts) -> Values:
        """Of all rows, so that no choice of them adds an error."""
        total = self.sums["combined"]
        value, lower, upper = (self.sums[name] / total if total > 0 else 0.0 for name in SUMMED[1:])
        found = Share(value, 0.0, lower, upper, parts.method, self.predicted, parts.neighbours, 0)
        return share_values(found) | {"beside": changing(self.fit) if self.lacking else None}


def _ends(fit: Fit, level: float, interval: str) -> tuple[float, float]:
    """Of an interval, in standard deviations from the mean."""
    if interval == "gaussian":
        reach = float(ndtri(0.5 + level / 2))
        return -reach, reach
    low, high = predicted.conformal_ends(fit, level, "--level")[1]
    return float(low), float(high)


def share_values(share: Share) -> Values:
    return {
        "share": share.value,
        "lower": share.lower,
        "upper": share.upper,
        "error": share.error,
        "kind": share.method,
        "by_neighbours": share.neighbours,
        "points": share.points,
    }


# What is missing, and what more would buy.


def measured(fit: Fit) -> Values:
    """The computational share of the variance at held-out rows, and how fast it was still falling."""
    seen = look(fit)
    before = seen.shared_share
    share = share_values(seen.share) | {
        "held_out": int(seen.points.rows.size),
        "passes": seen.share.passes,
        "neighbours": fit.neighbours,
        "beside": changing(fit),
        "global_actions": None if before is None else share_values(before),
    }
    return {
        "computational_share": share,
        "more_budget": {"acting": _acting(seen), "learning": _learning(fit)},
    }


def _acting(seen: Seen) -> Values | None:
    """How the mean variance fell over the last half of the actions, from a prefix of the same computation."""
    rank = seen.posterior.rank
    if rank < 2 or rank == seen.posterior.problem.n:
        return None
    variances = seen.points.path(np.array([rank // 2, rank]), 0)[1]
    half, whole = seen.fit.scaling.variance(variances).mean(axis=1).tolist()
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

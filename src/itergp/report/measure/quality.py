"""How good predictions are: metrics along the path, calibration, residuals, the worst points. In the units
of y."""

import numpy as np
from scipy.special import ndtr, ndtri

from itergp import metrics as scores
from itergp.fitted.calibration import LEVELS, Calibration, needed
from itergp.fitted.formats import UNKNOWN
from itergp.report.measure.columns import MISSING, Column
from itergp.report.measure.rounding import Table
from itergp.report.measure.subject import Subject, Target
from itergp.report.page.text import Json

BINS, SPREAD = 24, 4.0
PIT_EDGES = np.linspace(0.0, 1.0, 11)
WORST = 20
SHOWN = 5  # features of each of them
DRAWN = 500  # points of a picture


def metrics(target: Target) -> Json:
    """R2, RMSE, NLL, 95 % coverage and CRPS at each position."""
    y, pairs = target.y, _along(target)
    return {
        "r2": [_r2(y, mean) for mean, _ in pairs],
        "rmse": [scores.rmse(y, mean) for mean, _ in pairs],
        "nll": [scores.nll(y, mean, var) for mean, var in pairs],
        "coverage": [scores.coverage(y, mean, var) for mean, var in pairs],
        "crps": [scores.crps(y, mean, var) for mean, var in pairs],
    }


def _r2(y: np.ndarray, mean: np.ndarray) -> float | None:
    """The share of the variance of y that the means explain; None where y does not vary."""
    spread = float(np.mean((y - y.mean()) ** 2))
    return 1.0 - float(np.mean((y - mean) ** 2)) / spread if spread > 0 else None


def baseline(target: Target) -> float:
    """The RMSE of predicting the mean of the training rows everywhere."""
    known = np.average(target.training_y, weights=target.subject.fit.counts)
    return scores.rmse(target.y, np.full(target.y.shape, float(target.back(known))))


def predicted(target: Target) -> Json:
    """What was observed at some of the points, and what the model predicts there."""
    some = np.arange(len(target.y))[:: max(1, len(target.y) // DRAWN)]
    return {"observed": target.y[some], "mean": target.means[-1][some]}


def calibration(target: Target) -> Json:
    observed = [scores.calibration_curve(target.y, mean, var) for mean, var in _along(target)]
    return {"levels": list(scores.LEVELS), "observed": observed}


def intervals(target: Target) -> Json:
    """Gaussian and conformal intervals: where they end, in standard deviations, and the share of points
    inside. Conformal ones hold by construction where they were learned, so only at test data."""
    found, at_test_data = target.subject.calibration, target.subject.seen.points.source == "test data"
    mean, std, levels = target.means[-1], np.sqrt(target.variances[-1]), list(LEVELS)
    ends = [None if found is None else _ends(found, level, target.number) for level in levels]
    return {
        "levels": levels,
        "gaussian": [float(ndtri(0.5 + level / 2)) for level in levels],
        "coverage": scores.calibration_curve(target.y, mean, std**2, levels),
        "conformal": ends,
        "conformal_coverage": [
            None
            if not at_test_data or end is None
            else float(np.mean((mean + end[0] * std <= target.y) & (target.y <= mean + end[1] * std)))
            for end in ends
        ],
        "factor": None if found is None else float(np.atleast_1d(found.factor)[target.number]),
        "units": 0 if found is None else found.units,
        "grouped": found is not None and found.grouped,
    }


def _ends(calibration: Calibration, level: float, target: int) -> list[float] | None:
    """None where there are too few rows for the level."""
    if calibration.units < needed(level):
        return None
    return [float(np.atleast_1d(end)[target]) for end in calibration.reach(level)]


def pit(target: Target) -> Json:
    """Histograms of F(y): flat, if predictions are honest."""
    counts = [
        np.histogram(ndtr(standardised(target.y, mean, var)), PIT_EDGES)[0] for mean, var in _along(target)
    ]
    return {"edges": PIT_EDGES, "counts": counts}


def residuals(target: Target) -> Json:
    """How many points lie where, by predicted mean and standardised residual; those beyond four are in the
    last bin."""
    mean, z = target.means[-1], np.clip(_last(target), -SPREAD, SPREAD)
    low, high = float(mean.min()), float(mean.max())
    margin = 0.0 if high > low else max(1.0, abs(low)) * 1e-3
    edges = np.linspace(low - margin, high + margin, BINS + 1), np.linspace(-SPREAD, SPREAD, BINS + 1)
    counts = np.histogram2d(np.clip(mean, edges[0][0], edges[0][-1]), z, edges)[0].astype(int)
    return {"x_edges": edges[0], "y_edges": edges[1], "counts": counts}


def worst(target: Target) -> Table:
    """The points whose observation the model believed least; with the values of the most relevant
    features."""
    subject, z = target.subject, _last(target)
    points = subject.seen.points
    X = subject.fit.scaling.original(points.X)
    columns = subject.columns[:SHOWN]
    return Table(
        {
            "row": int(points.rows[i]),
            "place": None if subject.places is None else int(subject.places.numbers[points.rows[i]]),
            "y": float(target.y[i]),
            "mean": float(target.means[-1, i]),
            "std": float(np.sqrt(target.variances[-1, i])),
            "z": float(z[i]),
            "features": {column.name: _value(subject, column, i, X[i]) for column in columns},
        }
        for i in np.argsort(-np.abs(z), kind="stable")[:WORST]
    )


def numbered(subject: Subject) -> Json:
    """What the number of a point counts: its place in the file of the test data, where that is known."""
    if subject.places is not None:
        unit = subject.places.unit
        counted = "as an editor counts them" if unit == "line" else "counted from 1"
        return {
            "unit": unit,
            "about": f"{unit.capitalize()}s are those of the file with the test data, {counted}.",
        }
    if subject.seen.points.source == "test data":
        return {"unit": "row", "about": "Rows are counted from 0, as in the test data that were given."}
    merged = (subject.fit.counts > 1).any()
    once = "; rows with the same inputs are one, and count where the first of them is" if merged else ""
    return {
        "unit": "row",
        "about": f"Rows are counted from 0 among those of the fit, in the order of the data{once}. Rows that "
        "were left out before the fit, such as those without a target, are not counted.",
    }


def _value(subject: Subject, column: Column, i: int, x: np.ndarray) -> float | str:
    """What a column is at a point; not what stands for it where it is missing."""
    if subject.seen.lacks is None or column.hole is None:
        return column.value(x)
    found, perhaps = (part[i, column.hole] for part in subject.seen.lacks)
    return MISSING if found else UNKNOWN if perhaps else column.value(x)


def standardised(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return (y - mean) / np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))


def _last(target: Target) -> np.ndarray:
    """Standardised residuals of the model as it predicts."""
    return standardised(target.y, target.means[-1], target.variances[-1])


def _along(target: Target) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(target.means, target.variances, strict=True))

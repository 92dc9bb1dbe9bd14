"""How good predictions are: metrics along the path, calibration, residuals, the worst points. In the units
of y."""

from typing import Any

import numpy as np
from scipy.special import ndtr

from itergp import metrics

BINS, SPREAD = 24, 4.0
PIT_EDGES = np.linspace(0.0, 1.0, 11)
WORST = 20


def metrics_along(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> dict[str, list[float]]:
    """RMSE, NLL, 95 % coverage and CRPS at each position; means and variances are (K, m)."""
    pairs = list(zip(means, variances, strict=True))
    return {
        "rmse": [metrics.rmse(y, mean) for mean, _ in pairs],
        "nll": [metrics.nll(y, mean, var) for mean, var in pairs],
        "coverage": [metrics.coverage(y, mean, var) for mean, var in pairs],
        "crps": [metrics.crps(y, mean, var) for mean, var in pairs],
    }


def calibration(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> dict[str, Any]:
    observed = [metrics.calibration_curve(y, mean, var) for mean, var in zip(means, variances, strict=True)]
    return {"levels": list(metrics.LEVELS), "observed": observed}


def pit(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> dict[str, Any]:
    """Histograms of F(y): flat, if predictions are honest."""
    counts = [
        np.histogram(ndtr(standardised(y, m, v)), PIT_EDGES)[0] for m, v in zip(means, variances, strict=True)
    ]
    return {"edges": PIT_EDGES, "counts": counts}


def residuals(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
    """How many points lie where, by predicted mean and standardised residual; those beyond four are in the
    last bin."""
    z = np.clip(standardised(y, mean, variance), -SPREAD, SPREAD)
    low, high = float(mean.min()), float(mean.max())
    margin = 0.0 if high > low else max(1.0, abs(low)) * 1e-3
    edges = np.linspace(low - margin, high + margin, BINS + 1), np.linspace(-SPREAD, SPREAD, BINS + 1)
    counts = np.histogram2d(np.clip(mean, edges[0][0], edges[0][-1]), z, edges)[0].astype(int)
    return {"x_edges": edges[0], "y_edges": edges[1], "counts": counts}


def worst(
    y: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    rows: np.ndarray,
    X: np.ndarray,
    names: list[str],
    order: np.ndarray,
) -> list[dict[str, Any]]:
    """The points whose observation the model believed least; with the values of the most relevant
    features."""
    z = standardised(y, mean, variance)
    return [
        {
            "row": int(rows[i]),
            "y": float(y[i]),
            "mean": float(mean[i]),
            "std": float(np.sqrt(variance[i])),
            "z": float(z[i]),
            "features": {names[j]: float(X[i, j]) for j in order[:5]},
        }
        for i in np.argsort(-np.abs(z), kind="stable")[:WORST]
    ]


def standardised(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return (y - mean) / np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))

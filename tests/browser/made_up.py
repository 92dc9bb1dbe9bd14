"""Numbers of a report, made up by its schema from small Gaussian processes, so that pictures look like
pictures."""

import math
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

Json = dict[str, Any]


def _gp_path(rng: np.random.Generator, points: int, positions: int, grid: np.ndarray) -> Json:
    """A one-dimensional GP after more and more of its rows: means and variances along a line, and its
    observations."""
    X = np.sort(rng.uniform(grid[0], grid[-1], points))
    truth = np.sin(3 * X) + 0.4 * np.sin(11 * X)
    y = truth + 0.15 * rng.standard_normal(points)

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = math.sqrt(3) * np.abs(a[:, None] - b) / 0.45
        return (1 + r) * np.exp(-r)

    order, means, variances = rng.permutation(points), [], []
    for count in np.linspace(0, points, positions).astype(int):
        J = order[:count]
        K, k = kernel(X[J], X[J]) + 0.0225 * np.eye(count), kernel(grid, X[J])
        means.append(k @ np.linalg.solve(K, y[J]))
        variances.append(1 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T)))
    mathematical = 0.55 * variances[-1]
    return {
        "x": grid,
        "mean": means,
        "combined": variances,
        "mathematical": mathematical,
        "near": {"x": X, "y": y},
    }


def _target(
    rng: np.random.Generator, name: str, names: list[str], positions: int, points: int, slices: int
) -> Json:
    spread = np.geomspace(1.0, 0.12, positions)
    z = [rng.standard_normal(points) * (1.06 - 0.5 * s) for s in spread]
    levels = np.linspace(0.05, 0.95, 19)
    inside = [[float(np.mean(np.abs(zk) <= ndtri(0.5 + level / 2))) for level in levels] for zk in z]
    counts = [np.histogram(ndtr(zk), bins=np.linspace(0, 1, 21))[0] for zk in z]
    mean = rng.normal(0, 0.9, points)
    density, x_edges, y_edges = np.histogram2d(
        mean, np.clip(z[-1], -4.9, 4.9), bins=(36, 24), range=((-3, 3), (-5, 5))
    )
    worst = np.argsort(-np.abs(z[-1]))[:20]
    parts = np.sort(rng.gamma(2.0, 0.004, min(200, points))), np.sort(rng.gamma(1.2, 0.006, min(200, points)))
    shown = [_gp_path(rng, 60, positions, np.linspace(0, 2, 120)) for _ in range(slices)]
    return {
        "name": name,
        "unit_sd": 0.83,
        "baseline": 0.85,
        "predicted": {"observed": mean + 0.1 * z[-1], "mean": mean},
        "metrics": {
            "r2": (1.0 - (0.1 + 0.7 * spread**1.5) ** 2 / 0.7).tolist(),
            "rmse": (0.1 + 0.7 * spread**1.5).tolist(),
            "nll": (-0.9 + 2.0 * spread).tolist(),
            "coverage": [float(np.mean(np.abs(zk) < 1.96)) for zk in z],
            "crps": (0.05 + 0.4 * spread**1.5).tolist(),
        },
        "slices": [
            {
                "feature": feature,
                **line,
                "noise": 0.0225,
                "held_at": "the others at their medians",
                "sd_units": False,
            }
            for feature, line in zip(names, shown, strict=False)
        ],
        "decomposition": {
            "mathematical": parts[0],
            "computational": parts[1],
            "noise": 0.0225,
            "about": f"{len(parts[0])} quantiles of {points:,} test points.",
        },
        "calibration": {"levels": levels, "observed": inside},
        "pit": {"edges": np.linspace(0, 1, 21), "counts": counts},
        "residuals": {"x_edges": x_edges, "y_edges": y_edges, "counts": density},
        "worst": [
            {
                "row": int(i),
                "y": float(mean[i] + 0.2 * z[-1][i]),
                "mean": float(mean[i]),
                "std": 0.2,
                "z": float(z[-1][i]),
                "features": {feature: float(rng.normal()) for feature in names[:5]},
            }
            for i in worst
        ],
    }


def made_up(
    positions: int = 12,
    targets: tuple[str, ...] = ("strength",),
    names: tuple[str, ...] = ("cement", "age", "water", "slag"),
    points: int = 2000,
    title: str = "Concrete",
) -> Json:
    """A whole report, as JSON values; the same arguments give the same numbers."""
    rng = np.random.default_rng([positions, points, len(targets)])
    actions = np.linspace(0, 512, positions).astype(int)
    share = np.geomspace(1.0, 0.18, positions)
    numbers = {
        "format": "itergp-report/1",
        "title": title,
        "versions": {"itergp": "0.1.0", "numpy": np.__version__},
        "fitted": {
            "rows": 57247,
            "distinct_rows": 51003,
            "features": len(names),
            "feature_names": list(names),
            "targets": list(targets),
            "kernel": "1.31 * Matern32(lengthscale=[0.42, 0.77, 1.3, 2.9])",
            "noise": [0.0225] * len(targets),
            "policy": "BlockKrylov(block=64)",
            "budget": "60s",
            "learn": "vecchia",
            "neighbours": 60,
            "engine": "native (avx2)",
            "status": "BUDGET",
            "ended": "The time budget of 60 s was used up after 512 actions.",
            "actions": 512,
            "passes": 8.0,
            "seconds": {"learn": 21.3, "act": 38.4, "total": 59.7},
            "memory_bytes": 1480000000,
        },
        "points": {
            "source": "test data",
            "count": points,
            "note": f"{points:,} rows that the model has not seen.",
        },
        "verdict": [
            "The predictions are off by 0.100 (RMSE), 12 % of the spread of strength, and the intervals hold "
            "what they promise: 94.8 % of the test points lie in their 95 % interval.",
            "18 ± 1 % of the variance at your points is computational: it is there because the computation "
            "stopped, not because data are missing.",
            "The fit took 59.7 s and 1.48 GB; it ended because the time budget was used up.",
        ],
        "share": {"value": 0.18, "error": 0.011, "method": "estimated", "points": min(points, 500)},
        "more": {
            "sentence": "Twice the budget, about 38 s more, should bring the computational share from 18 % "
            "to about 11 %.",
            "seconds": 38.4,
            "share": 0.11,
            "from": "This follows a power law through the last half of the measured path.",
        },
        "path": {
            "labels": ["no computation"] * (positions > 1)
            + [f"{i} actions" for i in actions[1:-1]]
            + ["with 60 local actions"],
            "actions": actions,
            "passes": actions / 64,
            "seconds": 38.4 * actions / 512,
            "share": share,
        },
        "targets": [
            _target(rng, target, list(names), positions, points, min(4, len(names))) for target in targets
        ],
        "hyperparameters": [
            {
                "name": "outputscale",
                "value": 1.31,
                "low": 0.01,
                "high": 100.0,
                "at_bound": False,
                "words": "the variance of f",
            },
            {
                "name": "noise",
                "value": 0.0225,
                "low": 1e-4,
                "high": 1.0,
                "at_bound": False,
                "words": "of an observation",
            },
            {
                "name": "lengthscale 4",
                "value": 100.0,
                "low": 0.01,
                "high": 100.0,
                "at_bound": True,
                "words": "of slag",
            },
        ],
        "relevance": [
            {"feature": feature, "relevance": 0.7**i, "lengthscale": 0.42 / 0.7**i}
            for i, feature in enumerate(names)
        ],
        "warnings": ["The lengthscale of slag is at its upper bound: the feature could be dropped."],
        "learning": [
            {
                "seconds": 0.1 * i,
                "objective": 1.4 * math.exp(-i / 12) - 0.1 * (i > 60),
                "stage": ["batch", "all rows"][i >= 60],
            }
            for i in range(120)
        ],
        "convergence": [
            {
                "actions": 4 * i,
                "passes": i / 16,
                "seconds": 0.3 * i,
                "residual": 10 ** (-i / 60) * (1 + 0.3 * math.sin(i)),
            }
            for i in range(1, 129)
        ],
        "data": {
            "scaled": "Features and targets were standardised; all numbers here are in their own units.",
            "merged": "6,244 rows had the inputs of another row; they were merged, which changes no "
            "prediction.",
            "dropped": None,
        },
    }
    return plain(numbers)


def plain(value: Any) -> Any:
    """The same with NumPy's arrays and scalars as lists and Python's numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def emptied(value: Any, key: str = "") -> Any:
    """The same shape with every number null and every list of numbers kept in length: what a report may be
    at worst."""
    if isinstance(value, dict):
        return {name: emptied(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [emptied(item, key) for item in value]
    return value if isinstance(value, str) else None

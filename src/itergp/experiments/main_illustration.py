"""Fig. 1: SVGP against IterGP-PI on the same inducing points. Only one of them accounts for missing
computation.

SVGP may be more certain than the exact GP; IterGP-PI never is, and its excess variance is the computational
uncertainty. The figure shows one data set; the table counts over many, with random inducing points, for
growing numbers of them.
"""

from typing import Any

import numpy as np

from itergp.baselines import exact, svgp
from itergp.experiments import style
from itergp.experiments.illustrations import LEFT, NOISE, PRIOR, RIGHT, Line, line, rounded, truth
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.posterior.combined import condition
from itergp.prior.gp import GaussianProcess
from itergp.solver.policies import PseudoInput
from itergp.solver.stopping import MaxActions

METHODS = ("SVGP", "IterGP-PI")
NUMBERS = (2, 4, 8, 12)
DRAWN = np.array([[-1.15], [-0.6], [0.0], [0.6], [1.15]])  # between the data and next to them


def cells(options: Options) -> list[Cell]:
    repetitions = 3 if options.quick else 50
    counted = [Cell({"inducing points": m, "repetition": i}) for m in NUMBERS for i in range(repetitions)]
    return [Cell({"inducing points": "as drawn", "repetition": 0}), *counted]


def run(cell: Cell, options: Options) -> list[Record]:
    m, i = cell.key["inducing points"], cell.key["repetition"]
    if m == "as drawn":
        return drawn(line(points=301))
    data = line(n=48, seed=i, points=121)
    Z = np.random.default_rng([1, i, m]).uniform(-1.0, 1.0, (m, 1))
    whole = exact(PRIOR, data.X, data.y, NOISE)
    mean, variance = whole.mean(data.grid), whole.var(data.grid)
    return [
        {"method": method, "m": m} | compared(model, data, mean, variance)
        for method, model in models(data, Z).items()
    ]


def models(data: Line, Z: np.ndarray) -> dict[str, GaussianProcess]:
    """Both methods on the same data and inducing points."""
    return {
        "SVGP": svgp(PRIOR, data.X, data.y, NOISE, Z),
        "IterGP-PI": condition(PRIOR, data.X, data.y, NOISE, PseudoInput(Z), MaxActions(len(Z))),
    }


def compared(model: GaussianProcess, data: Line, mean: np.ndarray, variance: np.ndarray) -> Record:
    """Against the exact GP, on the grid."""
    ratio = model.var(data.grid) / variance
    return {
        "below": (ratio < 1 - 1e-9).mean(),  # where it is more certain than the exact GP
        "ratio": ratio.min(),
        "mean_error": np.sqrt(np.mean((model.mean(data.grid) - mean) ** 2)),
    }


def drawn(data: Line) -> list[Record]:
    whole = exact(PRIOR, data.X, data.y, NOISE)
    common = {
        "x": rounded(data.X),
        "y": rounded(data.y),
        "Z": rounded(DRAWN),
        "t": rounded(data.t),
        "exact_mean": rounded(whole.mean(data.grid)),
        "exact": rounded(whole.var(data.grid)),
    }
    found = models(data, DRAWN).items()
    return [
        {"method": method, "mean": rounded(model.mean(data.grid)), "variance": rounded(model.var(data.grid))}
        | common
        for method, model in found
    ]


def table(records: list[Record]) -> Table:
    header = [
        "inducing points",
        "method",
        "variance below the exact one at",
        "smallest ratio to it",
        "rms distance to the exact mean",
    ]
    rows = []
    for m in NUMBERS:
        for method in METHODS:
            some = [record for record in records if record.get("m") == m and record["method"] == method]
            if some:
                below, error = (
                    np.mean([record[name] for record in some]) for name in ("below", "mean_error")
                )
                rows.append(
                    [m, method, f"{100 * below:.1f} % of x", min(record["ratio"] for record in some), error]
                )
    return header, rows


def figure(records: list[Record], options: Options) -> Any:
    figure = style.new_figure(10.0, 6.0)
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 2))
    for (top, bottom), record in zip(axes.T, (record for record in records if "t" in record), strict=True):
        _posterior(top, record)
        _variance(bottom, record)
        top.set_title(f"{record['method']}, {len(record['Z'])} inducing points")
        bottom.set_xlabel("x")
    axes[0, 0].set_ylabel("f(x)")
    axes[1, 0].set_ylabel("variance")
    axes[1, 0].set(ylim=(1e-3, 2.0), yscale="log", xlim=(LEFT, RIGHT))
    style.legend_below(figure, axes.ravel(), columns=5)
    return figure


def _posterior(axis: Any, record: Record) -> None:
    t, mean, exact_mean = np.array(record["t"]), np.array(record["mean"]), np.array(record["exact_mean"])
    half, exact_half = 2 * np.sqrt(record["variance"]), 2 * np.sqrt(record["exact"])
    if record["method"] == "SVGP":
        style.band(axis, t, mean, half, style.CLASSICAL, "SVGP")
    else:
        style.band(axis, t, mean, exact_half, style.MATHEMATICAL, "mathematical", alpha=0.35)
        style.ring(axis, t, mean, exact_half, half, style.COMPUTATIONAL, "computational", alpha=0.35)
    axis.plot(t, mean, color=style.of_method(record["method"]), lw=1.6)
    for sign in (-1, 1):
        axis.plot(
            t,
            exact_mean + sign * exact_half,
            color=style.EXACT,
            lw=0.9,
            ls="--",
            label="exact GP" if sign > 0 else None,
        )
    axis.plot(t, truth(t), color=style.TRUTH, lw=0.9, ls=":", label="truth")
    axis.scatter(record["x"], record["y"], s=9, color=style.TRUTH, zorder=3, label="data")
    for z in record["Z"]:
        axis.axvline(
            z, 0.0, 0.04, color=style.ACTION, lw=2, label="inducing points" if z == record["Z"][0] else None
        )


def _variance(axis: Any, record: Record) -> None:
    t, variance, exact_variance = (
        np.array(record["t"]),
        np.array(record["variance"]),
        np.array(record["exact"]),
    )
    axis.plot(
        t,
        variance,
        color=style.of_method(record["method"]),
        lw=1.6,
        label="combined" if record["method"] != "SVGP" else None,
    )
    axis.plot(t, exact_variance, color=style.EXACT, lw=0.9, ls="--")
    low = variance < exact_variance
    axis.fill_between(
        t,
        variance,
        exact_variance,
        where=low,
        interpolate=True,
        color=style.RED,
        alpha=0.35,
        lw=0,
        label="too certain",
    )
    for z in record["Z"]:
        axis.axvline(z, 0.0, 0.05, color=style.ACTION, lw=2)


EXPERIMENT = Experiment(
    "main-illustration",
    "Fig. 1",
    "SVGP against IterGP-PI on the same inducing points: which variance can be below the exact one",
    cells,
    run,
    table,
    figure,
)

"""Fig. 2: four policies after four iterations; the combined variance is mathematical plus computational."""

from typing import Any

import numpy as np

from itergp.experiments import style
from itergp.experiments.illustrations import NOISE, POLICIES, PRIOR, line, rounded
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.plots.drawing import plot_line
from itergp.posterior.combined import condition
from itergp.solver.stopping import MaxActions

ITERATIONS = 4


def cells(options: Options) -> list[Cell]:
    return [Cell({"policy": policy}) for policy in POLICIES]


def run(cell: Cell, options: Options) -> list[Record]:
    policy, data = cell.key["policy"], line(points=91 if options.quick else 181)
    whole = condition(PRIOR, data.X, data.y, NOISE)
    posterior = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(ITERATIONS))
    parts, path = posterior.decompose(data.grid), posterior.path(data.grid)
    Q = posterior.actions.toarray() if hasattr(posterior.actions, "toarray") else posterior.actions
    return [
        {
            "policy": policy,
            "iterations": posterior.rank,
            "x": rounded(data.X),
            "y": rounded(data.y),
            # how much of e_j the actions span, in any basis
            "targeted": rounded(np.linalg.norm(Q, axis=1)),
            "t": rounded(data.t),
            "mean": rounded(posterior.mean(data.grid)),
            "exact_mean": rounded(whole.mean(data.grid)),
            "mathematical": parts.mathematical,
            "computational": parts.computational,
            "path": [rounded(variance) for variance in path.var],
            "exact": whole.var(data.grid),  # computed independently: the mathematical part must equal this
        }
    ]


def table(records: list[Record]) -> Table:
    header = [
        "policy",
        *(f"combined, i = {i}" for i in range(ITERATIONS + 1)),
        "= computational",
        "+ mathematical",
    ]
    rows = []
    for record in records:
        combined = [float(np.mean(variance)) for variance in record["path"]]
        rows.append(
            [record["policy"], *combined, np.mean(record["computational"]), np.mean(record["mathematical"])]
        )
    return header, rows


def figure(records: list[Record], options: Options) -> Any:
    figure = style.new_figure(12.0, 5.6)
    axes = figure.subplots(2, len(records), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 2))
    for (top, bottom), record in zip(axes.T, records, strict=True):
        _posterior(top, record)
        style.variances(
            bottom, np.array(record["t"]), np.array(record["mathematical"]), np.array(record["computational"])
        )
        for i, variance in enumerate(record["path"][1:-1]):
            bottom.plot(
                record["t"],
                variance,
                color=style.COMBINED,
                lw=0.8,
                ls=":",
                label=None if i else "at i = 1, 2, 3",
            )
        top.set_title(f"{record['policy']}, i = {record['iterations']}")
        bottom.set_xlabel("x")
    axes[0, 0].set_ylabel("f(x)")
    axes[1, 0].set_ylabel("variance")
    axes[1, 0].set_ylim(0.0, None)
    style.legend_below(figure, axes[:, 0], columns=8)
    return figure


def _posterior(axis: Any, record: Record) -> None:
    t, mean = np.array(record["t"]), np.array(record["mean"])
    mathematical, computational = np.array(record["mathematical"]), np.array(record["computational"])
    plot_line(axis, t, mean, mathematical + computational, mathematical)
    axis.plot(t, record["exact_mean"], color=style.EXACT, lw=1.2, ls="--", label="exact mean")
    axis.scatter(record["x"], record["y"], s=9, color=style.TRUTH, zorder=3, label="data")
    sizes = 120.0 * np.array(record["targeted"])
    axis.scatter(
        record["x"],
        record["y"],
        s=sizes,
        facecolors="none",
        edgecolors=style.ACTION,
        lw=1.1,
        zorder=4,
        label="targeted",
    )


EXPERIMENT = Experiment(
    "uncertainty-decomposition",
    "Fig. 2",
    "combined = mathematical + computational variance: four policies after four iterations",
    cells,
    run,
    table,
    figure,
)

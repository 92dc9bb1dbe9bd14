"""Fig. 4 and its supplement: CGGP (means by CG, variances by LOVE, as in GPyTorch) and IterGP-CG over
iterations.

The two means are the same in exact arithmetic. In floating point CG loses its orthogonality, IterGP does not,
and the means diverge where that happens: the number of iterations until then is recorded. Products are
float64 in both.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.baselines import CGGP, cggp
from itergp.experiments import panels, style
from itergp.experiments.records import grouped
from itergp.experiments.regression import (
    KERNELS,
    REAL,
    Part,
    distinct,
    learn_once,
    learned,
    learning_cell,
    measured,
    methods_of,
    part,
    rows_in_words,
    size,
    splits,
)
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.linalg.compute import Compute
from itergp.metrics import mean_and_interval, nll, rmse
from itergp.posterior.combined import Path, condition
from itergp.prior.gp import Prior
from itergp.solver.policies import ConjugateGradient
from itergp.solver.stopping import MaxActions

NAME = "cggp"
DATA = ("synthetic", *REAL)
METHODS = {"CGGP": style.CLASSICAL, "IterGP-CG": style.ITERGP}
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # iterations that are recorded
ITERATIONS, ITERATIONS_LARGE, ITERATIONS_QUICK = 256, 128, 32
FEW = 10_000  # rows: up to this number, all iterations
SHOWN = (16, 64, 128, 256)  # iterations in the table
# sqrt(u): semi-orthogonality, with which Krylov methods are still accurate (Simon 1984)
ORTHOGONAL = 2.0**-26
COMPUTE = Compute(dtype="float64")
COSTS = {"passes": "passes", "seconds": "seconds", "processor": "CPU s"}  # what is recorded, and its name


def cells(options: Options) -> list[Cell]:
    """Costs are roughly processor seconds."""
    found = []
    for dataset in options.datasets:
        n, products = distinct(dataset, options), 3 * iterations(dataset, options)
        for kernel in KERNELS:
            found.append(learning_cell(dataset, kernel, "auto", cost=0.5 + 1e-3 * n))
            cost = 0.3 + n * n * (0.5e-9 * products + 20e-9)
            found += [
                Cell({"dataset": dataset, "kernel": kernel, "split": i}, cost)
                for i in range(splits(dataset, options))
            ]
    return found


def iterations(dataset: str, options: Options) -> int:
    if options.quick:
        return ITERATIONS_QUICK
    return ITERATIONS if size(dataset) <= FEW else ITERATIONS_LARGE


def run(cell: Cell, options: Options) -> list[Record]:
    """Both methods on one split, after every number of iterations up to the last."""
    if "learn" in cell.key:
        return learn_once(cell, options)
    split, r = cell.key["split"], iterations(cell.key["dataset"], options)
    prior, noise = learned(NAME, cell, options)
    data = part(cell.key["dataset"], split, options)
    found = {"CGGP": with_cggp(prior, noise, data, r, split), "IterGP-CG": with_itergp(prior, noise, data, r)}
    steps = [i for i in GRID if i <= r]
    scores = {name: scored(outcome.path, noise, data) for name, outcome in found.items()}
    record = {"noise": noise, "iterations": steps, **data.about, **compared(scores, found["CGGP"].orthogonal)}
    for j, metric in enumerate(("nll", "rmse")):
        record[metric] = {name: values[j][steps] for name, values in scores.items()}
    costs = {
        what: {name: getattr(outcome, what) for name, outcome in found.items()} for what in (*COSTS, "rank")
    }
    return [cell.key | record | costs]


@dataclass(frozen=True, eq=False)
class Outcome:
    path: Path  # at the test points, after 0, 1, 2, ... iterations
    passes: int
    seconds: float
    processor: float  # processor seconds: comparable even if the machine is shared
    rank: int
    orthogonal: int


def with_cggp(prior: Prior, noise: float, data: Part, r: int, seed: int) -> Outcome:
    begun, processor = time.perf_counter(), time.process_time()
    model = cggp(prior, data.rows.X, data.rows.y, data.rows.noise(noise), r, compute=COMPUTE, seed=seed)
    spent = time.perf_counter() - begun, time.process_time() - processor
    return Outcome(model.path(data.X_test), model.passes, *spent, model.rank, orthogonal_until(model))


def with_itergp(prior: Prior, noise: float, data: Part, r: int) -> Outcome:
    begun, processor, N = time.perf_counter(), time.process_time(), data.rows.noise(noise)
    posterior = condition(prior, data.rows.X, data.rows.y, N, ConjugateGradient(), MaxActions(r), COMPUTE)
    spent = time.perf_counter() - begun, time.process_time() - processor
    ranks = np.minimum(np.arange(r + 1), posterior.rank)  # fewer only if rounding hides the rest
    path = posterior.path(data.X_test, ranks.tolist())
    return Outcome(path, posterior.state.progress.passes, *spent, posterior.rank, posterior.rank)


def orthogonal_until(model: CGGP) -> int:
    """Iterations for which CG's directions were conjugate up to sqrt(u): max |p_i^T K_hat p_j| for unit p."""
    P = model.steps[:, :, 0].T
    G = P.T @ (model.problem.gram.multiply(P) + model.problem.N[:, None] * P)
    lengths = np.sqrt(np.maximum(np.diag(G), 1e-300))
    lost = np.flatnonzero(np.abs(np.tril(G, -1) / lengths / lengths[:, None]).max(axis=1) > ORTHOGONAL)
    return int(lost[0]) if lost.size else len(G)


def scored(path: Path, noise: float, data: Part) -> tuple[np.ndarray, np.ndarray]:
    """NLL and RMSE after each number of iterations."""
    y, means, variances = data.y_test, path.mean, path.var + noise
    return np.array([nll(y, *one) for one in zip(means, variances, strict=True)]), np.array(
        [rmse(y, mean) for mean in means]
    )


def compared(scores: dict[str, tuple[np.ndarray, np.ndarray]], orthogonal: int) -> Record:
    """The relative difference between the two RMSEs, while CG is orthogonal."""
    ours, theirs = (scores[name][1][: orthogonal + 1] for name in ("IterGP-CG", "CGGP"))
    return {"orthogonal": orthogonal, "apart_while": np.max(np.abs(ours - theirs) / theirs)}


def ratios_after(record: Record) -> np.ndarray:
    """CGGP's RMSE over that of IterGP-CG, at the recorded iterations after CG has lost its orthogonality."""
    after = np.array(record["iterations"]) > record["orthogonal"]
    return np.array(record["rmse"]["CGGP"])[after] / np.array(record["rmse"]["IterGP-CG"])[after]


def table(records: list[Record]) -> Table:
    header = [
        "data",
        "kernel",
        "rows",
        "splits",
        "test points",
        "noise",
        "hyper-parameters",
        "iterations",
        "NLL CGGP",
        "± 95 %",
        "NLL IterGP-CG",
        "± 95 %",
        "RMSE CGGP",
        "± 95 %",
        "RMSE IterGP-CG",
        "± 95 %",
        "CG orthogonal for, at least",
        "RMSE apart until there, relative",
        "RMSE CGGP / IterGP-CG after, least",
        "most",
        *(f"{what} {name}" for what in COSTS.values() for name in METHODS),
    ]
    how, rows = methods_of(records), []
    for (dataset, kernel), some in grouped(measured(records), "dataset", "kernel").items():
        steps = some[0]["iterations"]
        about = [dataset, kernel, rows_in_words(some[0]), len(some), some[0]["test_points"], some[0]["noise"]]
        for i in sorted({*SHOWN, steps[-1]} & set(steps)):
            line = [*about, how[dataset, kernel], i]
            for metric in ("nll", "rmse"):
                for name in METHODS:
                    line += mean_and_interval([record[metric][name][steps.index(i)] for record in some])
            rows.append([*line, *(_of_whole_runs(some) if i == steps[-1] else [None] * 10)])
    return header, rows


def _of_whole_runs(some: list[Record]) -> list[Any]:
    """Orthogonality, the difference between the two, and their costs."""
    ratios = np.concatenate([ratios_after(record) for record in some])
    extremes = [float(ratios.min()), float(ratios.max())] if ratios.size else [None, None]
    found = [
        min(record["orthogonal"] for record in some),
        max(record["apart_while"] for record in some),
        *extremes,
    ]
    return found + [
        float(np.mean([record[what][name] for record in some])) for what in COSTS for name in METHODS
    ]


def figure(records: list[Record], options: Options) -> Any:
    found = grouped(measured(records), "dataset", "kernel")
    datasets = list(dict.fromkeys(dataset for dataset, _ in found))
    kernels = [kernel for kernel in KERNELS if any(kernel == of for _, of in found)]
    labels = [f"{kernel}\n{metric}" for kernel in kernels for metric in ("NLL", "RMSE")]
    figure, axes = panels.grid([*labels, "cost\n(CGGP = 1)"], datasets)
    for column, dataset in zip(axes.T, datasets, strict=True):
        some = [found.get((dataset, kernel), []) for kernel in kernels]
        theirs, ours = _curves(column[:-1:2], "nll", some)
        panels.share_nats(column[:-1:2], [*ours, *theirs])
        theirs, ours = _curves(column[1:-1:2], "rmse", some)
        panels.share_logarithms(column[1:-1:2], [*ours, *theirs])
        column[-2].set_xlabel("iterations")
        _costs(column[-1], [record for of_kernel in some for record in of_kernel])
    for axis in axes[-1]:
        axis.set_ylim(0.0, max(other.get_ylim()[1] for other in axes[-1]))
    style.legend_below(figure, axes.ravel(), columns=3)
    return figure


def _curves(axes: Any, metric: str, kernels: list[list[Record]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """A panel per kernel, with all curves of CGGP and of IterGP-CG. A line marks where a split's CG first
    loses orthogonality."""
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in METHODS}
    for axis, some in zip(axes, kernels, strict=True):
        for name, colour in METHODS.items() if some else ():
            steps, line = some[0]["iterations"], "o--" if name == "CGGP" else "-"
            drawn[name].append(
                panels.curve(axis, steps, [record[metric][name] for record in some], colour, name, line)
            )
        ends = min((record["orthogonal"] for record in some), default=0)
        if some and ends < some[0]["iterations"][-1]:
            axis.axvline(
                ends,
                color=style.GREY,
                lw=0.9,
                ls=":",
                label="CG loses its orthogonality, in the first split that does",
            )
        panels.powers_of_two(axis) if some else axis.set_axis_off()
    return drawn["CGGP"], drawn["IterGP-CG"]


def _costs(axis: Any, some: list[Record]) -> None:
    """The cost of both relative to CGGP, averaged over kernels and splits; the numbers are absolute."""
    for j, what in enumerate(COSTS):
        mean = {name: float(np.mean([record[what][name] for record in some])) for name in METHODS}
        for k, (name, colour) in enumerate(METHODS.items()):
            share = mean[name] / mean["CGGP"]
            axis.bar(j + 0.4 * k - 0.2, share, 0.36, color=colour)
            axis.annotate(
                f"{mean[name]:.3g}", (j + 0.4 * k - 0.2, share), ha="center", va="bottom", fontsize=8
            )
    axis.set(ylim=(0.0, max(1.25, 1.25 * axis.dataLim.y1)), xlabel=f"{some[0]['iterations'][-1]} iterations")
    axis.set_xticks(range(len(COSTS)), COSTS.values())


EXPERIMENT = Experiment(
    NAME,
    "Fig. 4, S4",
    "CGGP and IterGP-CG over iterations: the same mean, as good a variance, half the passes",
    cells,
    run,
    table,
    figure,
    datasets=DATA,
)

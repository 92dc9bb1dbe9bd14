"""Beyond the paper: every policy and the default schedule, with and without local actions, against the exact
GP.

NLL against passes over K and against seconds: those of the actions, and those of the predictions at the test
points in addition. Each policy runs to 1,024 actions or until its time is used up. Hyper-parameters are those
of the likelihood (Matern 3/2), duplicates are merged, and tiles are the library's choice. The exact GP is
included up to WITH_EXACT_ROWS rows.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from itergp.baselines import exact
from itergp.estimator.budgets import Budget
from itergp.estimator.schedules import EARLY, default_schedule
from itergp.experiments import panels, style
from itergp.experiments.records import grouped
from itergp.experiments.regression import (
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
    splits,
)
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.metrics import mean_and_interval, nll, rmse
from itergp.posterior.combined import Posterior, condition
from itergp.prior.gp import Prior
from itergp.solver.policies import (
    BlockKrylov,
    ConjugateGradient,
    Eigenvector,
    PseudoInput,
    RandomAction,
    SparseBlock,
    UnitVector,
)
from itergp.solver.schedule import blocks_and_residuals
from itergp.solver.state import Status
from itergp.solver.stopping import MaxActions, TimeBudget

NAME, KERNEL = "beyond", "Matern 3/2"
LOCAL, LOCAL_QUICK = 60, 10  # local actions per test point
BLOCK, SECONDS = 128, 60.0
# numbers of actions after which a policy is measured
CHECKS, CHECKS_QUICK = (128, 256, 512, 1024), (16, 32, 64)
FIRST_CHECKS = (8, 32)  # and before, if every action is a pass
WITH_EXACT_ROWS = 20_000  # n^3 / 3 in two minutes, n^2 in 6 GB
NONE, EXACT, SCHEDULE, CLOCK = (
    "no global actions",
    "exact GP",
    "default schedule",
    "default schedule for a clock",
)

POLICIES: dict[str, Callable[[int], Any]] = {  # as a function of the number of rows
    "CG": lambda n: ConjugateGradient(),
    "unit vectors": lambda n: UnitVector("random", block_size=BLOCK),
    "unit vectors, pivoted": lambda n: UnitVector("pivoted", block_size=BLOCK),
    "sparse blocks": lambda n: SparseBlock(groups=min(n, CHECKS[-1]), block_size=BLOCK),
    "pseudo-inputs": lambda n: PseudoInput(block_size=BLOCK),
    "eigenvectors": lambda n: Eigenvector(block_size=BLOCK),
    "random": lambda n: RandomAction(block_size=BLOCK),
    "block Krylov": lambda n: BlockKrylov(BLOCK),
    SCHEDULE: lambda n: default_schedule(n, Budget(stop=MaxActions(CHECKS[-1]))),
    CLOCK: lambda n: blocks_and_residuals(BLOCK, EARLY),
}
COLOURS = {
    "CG": style.POLICY["IterGP-CG"],
    "unit vectors": style.POLICY["IterGP-Chol"],
    "unit vectors, pivoted": style.GREEN,
    "sparse blocks": style.ORANGE,
    "pseudo-inputs": style.POLICY["IterGP-PI"],
    "eigenvectors": style.POLICY["IterGP-PBR"],
    "random": style.POLICY["IterGP-random"],
    "block Krylov": style.GREY,
    SCHEDULE: style.ITERGP,
    CLOCK: style.LILAC,
    NONE: style.BLACK,
    EXACT: style.EXACT,
}


def cells(options: Options) -> list[Cell]:
    """Costs are roughly processor seconds."""
    found = []
    for dataset in options.datasets:
        n = distinct(dataset, options)
        found.append(learning_cell(dataset, KERNEL, "auto", cost=0.5 + 2e-3 * n))
        key = {"dataset": dataset, "kernel": KERNEL}
        for i in range(splits(dataset, options)):
            found += [
                Cell(key | {"split": i, "policy": policy}, _cost(policy, n))
                for policy in (NONE, *POLICIES, EXACT)
            ]
    return found


def _cost(policy: str, n: int) -> float:
    if policy == EXACT:
        return 0.2 + (2e-11 * n**3 if n <= WITH_EXACT_ROWS else 0.0)
    predictions = 0.2 + 4e-4 * n
    return predictions + (0.0 if policy == NONE else min(SECONDS, 40e-9 * n**2 + 2e-3 * n))


def run(cell: Cell, options: Options) -> list[Record]:
    """One policy on one split, measured after each number of actions."""
    if "learn" in cell.key:
        return learn_once(cell, options)
    policy, split = cell.key["policy"], cell.key["split"]
    prior, noise = learned(NAME, cell, options)
    data = part(cell.key["dataset"], split, options)
    about = cell.key | data.about | {"noise": noise}
    if policy == EXACT:
        return [about | with_exact(prior, noise, data)] if len(data.rows.X) <= WITH_EXACT_ROWS else []
    problem = partial(condition, prior, data.rows.X, data.rows.y, data.rows.noise(noise), seed=split)
    local = LOCAL_QUICK if options.quick else LOCAL
    score = partial(scores, noise=noise, X_test=data.X_test, y_test=data.y_test, neighbours=local)
    if policy == NONE:
        nothing = problem(policy=ConjugateGradient(), stop=MaxActions(0))
        return [about | {"actions": 0, "passes": 0, "seconds": 0.0} | score(nothing)]
    checks = CHECKS_QUICK if options.quick else ((*FIRST_CHECKS, *CHECKS) if policy == "CG" else CHECKS)
    found, status = follow(POLICIES[policy](len(data.rows.X)), problem, score, checks, SECONDS)
    return [about | record | {"status": status if record is found[-1] else None} for record in found]


def with_exact(prior: Prior, noise: float, data: Part) -> Record:
    begun = time.perf_counter()
    model = exact(prior, data.rows.X, data.rows.y, data.rows.noise(noise))
    seconds = time.perf_counter() - begun
    mean, variance = model.mean(data.X_test), model.var(data.X_test)
    predicting = time.perf_counter() - begun - seconds
    quality = _quality("", data.y_test, mean, variance + noise, predicting)
    return {"actions": len(data.rows.X), "passes": 0, "seconds": seconds, "jitter": model.jitter} | quality


def follow(
    policy: Any,
    problem: Callable[..., Posterior],
    score: Callable[[Posterior], Record],
    checks: tuple[int, ...],
    limit: float,
) -> tuple[list[Record], str]:
    """What a policy reached after each number of actions, within the time limit; and how it ended."""
    seconds, posterior, found = 0.0, None, []
    for target in checks:
        begun = time.perf_counter()
        if posterior is None:
            posterior = problem(policy=policy, stop=MaxActions(target) | TimeBudget(limit))
        else:
            posterior = posterior.refine(
                stop=MaxActions(target - posterior.rank) | TimeBudget(limit - seconds)
            )
        seconds += time.perf_counter() - begun
        done = {"actions": posterior.rank, "passes": posterior.state.progress.passes, "seconds": seconds}
        found.append(done | score(posterior))
        if posterior.status is not Status.BUDGET or seconds >= 0.9 * limit:
            break
    assert posterior is not None
    return found, posterior.status.name


def scores(
    posterior: Posterior, noise: float, X_test: np.ndarray, y_test: np.ndarray, neighbours: int = LOCAL
) -> Record:
    """NLL and RMSE of the global actions, and with local ones; and the seconds that predictions took."""
    begun = time.perf_counter()
    mean, variance = posterior.mean(X_test), posterior.var(X_test)
    after = time.perf_counter()
    local_mean, local_variance = posterior.local(neighbours).marginals(X_test)
    last = time.perf_counter()
    return _quality("", y_test, mean, variance + noise, after - begun) | _quality(
        "local_", y_test, local_mean, local_variance + noise, last - after
    )


def _quality(prefix: str, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, seconds: float) -> Record:
    found = {"nll": nll(y, mean, variance), "rmse": rmse(y, mean), "predict_seconds": seconds}
    return {prefix + name: value for name, value in found.items()}


def table(records: list[Record]) -> Table:
    """One row per policy: its final result."""
    header = [
        "data",
        "policy",
        "rows",
        "splits",
        "test points",
        "noise",
        "hyper-parameters",
        "actions",
        "passes",
        "seconds",
        "NLL",
        "± 95 %",
        "RMSE",
        "± 95 %",
        "NLL, local",
        "± 95 %",
        "RMSE, local",
        "± 95 %",
        "predictions, s",
        "predictions, local, s",
    ]
    how, rows = methods_of(records), []
    for (dataset, policy), runs in groups(records).items():
        ends = [of_split[-1] for of_split in runs]
        about = [dataset, policy, rows_in_words(ends[0]), len(ends), ends[0]["test_points"], ends[0]["noise"]]
        line = [
            *about,
            how[dataset, KERNEL],
            *(_mean(ends, name) for name in ("actions", "passes", "seconds")),
        ]
        for metric in ("nll", "rmse", "local_nll", "local_rmse"):
            known = [record[metric] for record in ends if metric in record]
            line += mean_and_interval(known) if known else (None, None)
        rows.append([*line, _mean(ends, "predict_seconds"), _mean(ends, "local_predict_seconds")])
    return header, rows


def _mean(records: list[Record], name: str) -> float | None:
    known = [record[name] for record in records if name in record]
    return float(np.mean(known)) if known else None


def groups(records: list[Record]) -> dict[tuple[str, str], list[list[Record]]]:
    """By data set and policy: for each split its records, in the order of actions."""
    found = grouped(measured(records), "dataset", "policy")
    return {key: list(grouped(some, "split").values()) for key, some in found.items()}


def figure(records: list[Record], options: Options) -> Any:
    found = groups(records)
    datasets = list(dict.fromkeys(dataset for dataset, _ in found))
    labels = [f"{actions}\nNLL" for actions in ("global actions,", "with local ones,")]
    figure, axes = panels.grid([label for label in labels for _ in (1, 2)], datasets, width=3.0, height=2.3)
    for column, dataset in zip(axes.T, datasets, strict=True):
        runs = {policy: found[dataset, policy] for policy in COLOURS if (dataset, policy) in found}
        for j, prefix in enumerate(("", "local_")):
            _curves(column[2 * j], runs, prefix, "passes")
            _curves(column[2 * j + 1], runs, prefix, "seconds")
        _frame(column, runs)
    style.legend_below(figure, axes.ravel(), columns=4 if len(datasets) == 1 else 6)
    return figure


def _curves(axis: Any, runs: dict[str, list[list[Record]]], prefix: str, against: str) -> None:
    """Mean NLL over splits, and its interval as a bar, at each check that all splits reached or were stopped
    on the way to."""
    for policy, of_splits in runs.items():
        colour = COLOURS[policy]
        if policy == EXACT:
            label = "exact GP" if against == "passes" else None
            axis.axhline(
                np.mean([one[0]["nll"] for one in of_splits]), color=colour, lw=1.2, ls="--", label=label
            )
            continue
        steps = [[one[j] for one in of_splits] for j in range(min(len(one) for one in of_splits))]
        x = [np.mean([_spent(record, prefix, against) for record in some]) for some in steps]
        mean, half = mean_and_interval(
            [[record[f"{prefix}nll"] for record in some] for some in steps], axis=1
        )
        width = 2.2 if policy in (SCHEDULE, CLOCK) else 1.2
        bars = np.nan_to_num(half)
        axis.errorbar(x, mean, bars, fmt="o-", ms=3.5, lw=width, elinewidth=0.8, color=colour, label=policy)


def _spent(record: Record, prefix: str, against: str) -> float:
    return record["passes"] if against == "passes" else record["seconds"] + record[f"{prefix}predict_seconds"]


def _frame(column: Any, runs: dict[str, list[list[Record]]]) -> None:
    """The same scales for all panels of a data set: NLL, passes, seconds."""
    records = [record for of_splits in runs.values() for one in of_splits for record in one]
    panels.share_nats(
        column,
        [np.array([record[name] for record in records if name in record]) for name in ("nll", "local_nll")],
    )
    acted = [record for record in records if record["actions"] and "local_nll" in record]
    spent = [_spent(record, prefix, "seconds") for record in acted for prefix in ("", "local_")]
    for passes, seconds in zip(column[::2], column[1::2], strict=True):
        passes.set_xscale("symlog", linthresh=1.0)
        passes.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1,000"])
        passes.set(xlim=(-0.1, 1100), xlabel="passes over K")
        seconds.set(xscale="log", xlabel="seconds, with predictions")
        style.plain_ticks(seconds.xaxis, (0.001, 0.01, 0.1, 1, 10, 100))
        seconds.set_xlim(0.7 * min(spent, default=0.1), 1.4 * max(spent, default=10.0))


EXPERIMENT = Experiment(
    NAME,
    "beyond it",
    "NLL against passes and seconds: all policies and the default schedule, with and without local actions",
    cells,
    run,
    table,
    figure,
    datasets=REAL,
)

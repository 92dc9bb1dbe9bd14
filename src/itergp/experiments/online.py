"""Thm. S7 and Remark S2: streaming data. The same posterior as from a fresh start, at lower cost.

There are three streams. One unit vector per arriving point is the exact GP at every step. Residual actions
and pseudo-inputs spend two actions on each batch of points; there the fresh start is a run on all data with
the same actions, zero on the rows that had not arrived when they were taken. Pseudo-inputs are known in
advance, so a fresh start takes them all in one pass: there a stream saves algebra, but hardly any kernel
entries.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from itergp.baselines import exact
from itergp.datasets import synthetic
from itergp.experiments import style
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.posterior.combined import Posterior, condition
from itergp.prior.gp import Prior
from itergp.prior.stationary import Matern32
from itergp.solver.policies import ConjugateGradient, PseudoInput, UnitVector
from itergp.solver.stopping import MaxActions

NOISE = 0.01
PRIOR = Prior(1.0 * Matern32(lengthscale=0.6))
BATCH, ACTIONS = 10, 2
FIRST = 20  # points before the stream begins, with the actions that the stream would have spent on them
TEST = 200

# Points per batch, actions per batch, and the policy for the new points: the last `new` rows of X.
Act = Callable[[np.ndarray, int], Any]
STREAMS: dict[str, tuple[int, int, Act]] = {
    "IterGP-Chol": (1, 1, lambda X, new: UnitVector(np.arange(len(X) - new, len(X)))),
    "IterGP-CG": (BATCH, ACTIONS, lambda X, new: ConjugateGradient()),
    "IterGP-PI": (BATCH, ACTIONS, lambda X, new: PseudoInput(X[-(new * ACTIONS // BATCH) :])),
}


def cells(options: Options) -> list[Cell]:
    return [Cell({"stream": stream}, cost=3.0 if stream == "IterGP-Chol" else 1.0) for stream in STREAMS]


def run(cell: Cell, options: Options) -> list[Record]:
    """A stream of n points, measured whenever the data have grown by a quarter."""
    stream, n = cell.key["stream"], 120 if options.quick else 1000
    points, actions, act = STREAMS[stream]
    X, y = synthetic(n + TEST, 2, NOISE)
    X, y, X_test = X[:n], y[:n], X[n:]
    posterior = condition(
        PRIOR, X[:FIRST], y[:FIRST], NOISE, act(X[:FIRST], FIRST), MaxActions(FIRST * actions // points)
    )
    records, due = [], FIRST
    for start in range(FIRST, n, points):
        entries, passes = cost(posterior)
        posterior = posterior.append(X[start : start + points], y[start : start + points])
        posterior = posterior.refine(act(posterior.problem.X, points), MaxActions(actions))
        more_entries, more_passes = cost(posterior)
        if posterior.problem.n >= min(due, n):
            due = int(1.25 * posterior.problem.n)
            spent = {
                "entries_per_point": (more_entries - entries) / points,
                "passes_per_point": (more_passes - passes) / points,
            }
            records.append({"stream": stream, "points": points} | spent | compared(posterior, X_test, stream))
    return records


def cost(posterior: Posterior) -> tuple[int, int]:
    """Kernel entries and passes over K so far, for this posterior and those it was extended from."""
    return posterior.problem.gram.entries, posterior.problem.gram.passes


def compared(posterior: Posterior, X_test: np.ndarray, stream: str) -> Record:
    """The stream compared with a fresh start on the same data, and what that start would have cost."""
    problem = posterior.problem
    known_ahead = stream != "IterGP-CG"  # residuals are not: each needs a pass of its own
    again = taken(posterior, posterior.rank if known_ahead else 1)
    fresh = condition(PRIOR, problem.X, problem.y, NOISE, again, MaxActions(posterior.rank))
    entries, passes = cost(fresh)
    mathematical = exact(PRIOR, problem.X, problem.y, NOISE)
    same: Any = mathematical if stream == "IterGP-Chol" else fresh
    return {
        "n": problem.n,
        "actions": posterior.rank,
        "mean_difference": np.abs(posterior.mean(X_test) - same.mean(X_test)).max(),
        "variance_difference": np.abs(posterior.var(X_test) - same.var(X_test)).max(),
        "fresh_entries": entries,
        "fresh_passes": passes,
        "variance": posterior.var(X_test).mean(),
        "exact_variance": mathematical.var(X_test).mean(),
    }


def taken(posterior: Posterior, block_size: int) -> Callable[[Any], Any]:
    """The policy that repeats the actions of this posterior, `block_size` at a time."""
    Q = posterior.actions
    return lambda state: (
        Q[:, state.proposed : state.proposed + block_size] if state.proposed < Q.shape[1] else None
    )


def table(records: list[Record]) -> Table:
    """The end of each stream. Each batch of points would need a fresh start, and share its cost."""
    header = [
        "stream",
        "n",
        "actions",
        "mean differs by",
        "variance differs by",
        "entries per point",
        "entries, starting over",
        "passes per point",
        "passes, starting over",
    ]
    rows = []
    for stream, last in {record["stream"]: record for record in records}.items():
        values = [last[name] for name in ("n", "actions", "mean_difference", "variance_difference")]
        entries = [last["entries_per_point"], last["fresh_entries"] / last["points"]]
        passes = [last["passes_per_point"], last["fresh_passes"] / last["points"]]
        rows.append([stream, *values, *entries, *passes])
    return header, rows


def figure(records: list[Record], options: Options) -> Any:
    figure = style.new_figure(12.0, 4.2)
    left, middle, right = figure.subplots(1, 3)
    for stream in STREAMS:
        colour = style.POLICY[stream]
        some = [record for record in records if record["stream"] == stream]
        n = [record["n"] for record in some]
        worst = [max(record["mean_difference"], record["variance_difference"], 1e-17) for record in some]
        left.plot(n, worst, "o-", ms=4, color=colour, label=stream)
        middle.plot(n, [record["entries_per_point"] for record in some], "o-", ms=4, color=colour)
        anew = [record["fresh_entries"] / record["points"] for record in some]
        middle.plot(n, anew, "--", color=colour, label=f"{stream}, starting over each time")
        right.plot(n, [record["variance"] for record in some], "o-", ms=4, color=colour)
        if stream == "IterGP-Chol":
            right.plot(
                n,
                [record["exact_variance"] for record in some],
                "s",
                ms=7,
                mfc="none",
                color=style.EXACT,
                label="exact GP",
            )
    titles = ("largest difference to a fresh start", "kernel entries per point", "mean latent variance")
    for axis, title in zip((left, middle, right), titles, strict=True):
        axis.set(title=title, xlabel="points so far", xscale="log", yscale="log")
        style.plain_ticks(axis.xaxis, (20, 50, 100, 200, 500, 1000))
    style.legend_below(figure, [left, middle, right], columns=4)
    return figure


EXPERIMENT = Experiment(
    "online",
    "Thm. S7",
    "streaming data: the posterior of a fresh start at every step, and the cost of each point",
    cells,
    run,
    table,
    figure,
)

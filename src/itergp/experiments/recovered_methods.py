"""Fig. S3: the classical methods of Table 1 and their IterGP analogues.

Partial Cholesky is the exact GP on the chosen points, a truncated eigendecomposition is the projected Bayes
regressor, CGGP has CG's mean with LOVE's variance, and SVGP has inducing points. The first two are recovered
exactly (Thms. S3, S4), of CGGP the mean (Thm. S5), of SVGP neither (Thm. S6: its mean is that of another
kernel).
"""

from typing import Any

import numpy as np

from itergp.baselines import cggp, exact, svgp
from itergp.experiments import style
from itergp.experiments.illustrations import INDUCING_POINTS, NOISE, POLICIES, PRIOR, Line, line, rounded
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.posterior.combined import Posterior, condition
from itergp.solver.stopping import MaxActions

ITERATIONS = 4
CLASSICS = {
    "IterGP-Chol": "partial Cholesky",
    "IterGP-PBR": "truncated EVD",
    "IterGP-CG": "CGGP",
    "IterGP-PI": "SVGP",
}

Curve = tuple[np.ndarray, np.ndarray]  # mean and latent variance


def cells(options: Options) -> list[Cell]:
    return [Cell({"policy": policy}) for policy in POLICIES]


def run(cell: Cell, options: Options) -> list[Record]:
    policy, data = cell.key["policy"], line(points=61 if options.quick else 181)
    posterior = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(ITERATIONS))
    whole = exact(PRIOR, data.X, data.y, NOISE)
    exact_mean, exact_variance = whole.mean(data.grid), whole.var(data.grid)
    record = {
        "policy": policy,
        "x": rounded(data.X),
        "y": rounded(data.y),
        "t": rounded(data.t),
        "exact_mean": rounded(exact_mean),
        "exact": rounded(exact_variance),
    }
    ours, theirs = (posterior.mean(data.grid), posterior.var(data.grid)), classical(policy, posterior, data)
    for name, (mean, variance) in (("itergp", ours), ("classical", theirs)):
        record |= {
            f"{name}_mean": rounded(mean),
            f"{name}_variance": rounded(variance),
            f"{name}_mean_error": np.sqrt(np.mean((mean - exact_mean) ** 2)),
            f"{name}_variance_error": np.mean(np.abs(variance - exact_variance)),
            f"{name}_below": np.mean(variance < exact_variance - 1e-9),
        }
    differences = {
        part: np.abs(a - b).max() for part, a, b in zip(("mean", "variance"), ours, theirs, strict=True)
    }
    return [record | {f"{part}_difference": value for part, value in differences.items()}]


def classical(policy: str, posterior: Posterior, data: Line) -> Curve:
    """The classical method after the same number of iterations, by its own formulas."""
    if policy == "IterGP-PBR":
        return truncated(data)
    if policy == "IterGP-CG":
        model: Any = cggp(PRIOR, data.X, data.y, NOISE, ITERATIONS)
    elif policy == "IterGP-PI":
        model = svgp(PRIOR, data.X, data.y, NOISE, INDUCING_POINTS)
    else:
        pivots = np.flatnonzero(posterior.state.basis.spanned_rows())
        model = exact(PRIOR, data.X[pivots], data.y[pivots], NOISE)
    return model.mean(data.grid), model.var(data.grid)


def truncated(data: Line) -> Curve:
    """K_hat^{-1} replaced by U Lambda^{-1} U^T of the largest eigenvalues."""
    eigenvalues, U = np.linalg.eigh(PRIOR.cov(data.X) + NOISE * np.eye(len(data.y)))
    U, k_x = U[:, -ITERATIONS:] / np.sqrt(eigenvalues[-ITERATIONS:]), PRIOR.cov(data.grid, data.X)
    return k_x @ (U @ (U.T @ data.y)), PRIOR.var(data.grid) - ((k_x @ U) ** 2).sum(axis=1)


def table(records: list[Record]) -> Table:
    parts = ("mean error", "variance error", "below exact variance")
    header = ["classical", "IterGP", "means differ by", "variances differ by"]
    header += [f"{part}, {name}" for part in parts for name in ("classical", "IterGP")]
    rows = []
    for record in records:
        errors = [
            record[f"{name}_{part}_error"]
            for part in ("mean", "variance")
            for name in ("classical", "itergp")
        ]
        below = [f"{100 * record[f'{name}_below']:.0f} % of x" for name in ("classical", "itergp")]
        differences = [record["mean_difference"], record["variance_difference"]]
        rows.append([CLASSICS[record["policy"]], record["policy"], *differences, *errors, *below])
    return header, rows


def figure(records: list[Record], options: Options) -> Any:
    figure = style.new_figure(12.0, 8.0)
    axes = figure.subplots(3, len(records), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 3, 2))
    for (top, middle, bottom), record in zip(axes.T, records, strict=True):
        _posterior(top, record, "classical", style.CLASSICAL)
        _posterior(middle, record, "itergp", style.ITERGP)
        t = record["t"]
        bottom.plot(t, record["exact"], color=style.EXACT, lw=1.0, ls="--")
        bottom.plot(t, record["itergp_variance"], color=style.ITERGP, lw=2.4, alpha=0.6)
        bottom.plot(t, record["classical_variance"], color=style.CLASSICAL, lw=1.2)
        top.set_title(f"{CLASSICS[record['policy']]}, i = {ITERATIONS}")
        middle.set_title(f"{record['policy']}, i = {ITERATIONS}")
        bottom.set_xlabel("x")
    for axis, label in zip(axes[:, 0], ("f(x)", "f(x)", "variance"), strict=True):
        axis.set_ylabel(label)
    limits = np.array([axis.get_ylim() for axis in axes[:2, 0]])
    for axis in axes[:2, 0]:
        axis.set_ylim(limits.min(), limits.max())
    axes[2, 0].set_ylim(0.0, None)
    style.legend_below(figure, axes[:, 0])
    return figure


def _posterior(axis: Any, record: Record, name: str, colour: str) -> None:
    t, mean, variance = (np.array(record[part]) for part in ("t", f"{name}_mean", f"{name}_variance"))
    exact_mean, exact_half = np.array(record["exact_mean"]), 2 * np.sqrt(record["exact"])
    label = "classical method" if name == "classical" else "IterGP analogue"
    style.band(axis, t, mean, 2 * np.sqrt(variance), colour, label)
    axis.plot(t, mean, color=colour, lw=1.6)
    for sign in (-1, 1):
        axis.plot(
            t,
            exact_mean + sign * exact_half,
            color=style.EXACT,
            lw=0.9,
            ls="--",
            label="exact GP" if sign > 0 else None,
        )
    axis.scatter(record["x"], record["y"], s=9, color=style.TRUTH, zorder=3, label="data")


EXPERIMENT = Experiment(
    "recovered-methods",
    "Fig. S3",
    "each classical method beside its IterGP analogue: Cholesky, eigenvectors, CG, inducing points",
    cells,
    run,
    table,
    figure,
)

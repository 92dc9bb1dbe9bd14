"""Fig. 3: the uncertainties as worst-case errors (Thm. 2, Cor. 1), which SVGP's is not.

A posterior mean is linear in y for given actions: mu_i(x) = w_x^T y. Over all functions h with unit norm in
the RKHS of k + sigma^2 delta and y = h(X), the largest |h(x) - mu_i(x)| is therefore sqrt(k(x, x) + sigma^2 -
2 w_x^T k_x + w_x^T K_hat w_x) and the largest |mu_*(x) - mu_i(x)| is |v_x - w_x| in the norm of K_hat, with
v_x = K_hat^{-1} k_x. Thm. 2 says that these are sqrt(k_i + sigma^2) and sqrt(k_comp), and random functions
stay below. None of these computations uses the theorem.
"""

from typing import Any

import numpy as np

from itergp.baselines import exact, svgp
from itergp.experiments import style
from itergp.experiments.illustrations import INDUCING_POINTS, NOISE, POLICIES, PRIOR, line, rounded
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.posterior.combined import condition
from itergp.solver.stopping import MaxActions

METHODS = ("IterGP-Chol", "IterGP-CG", "IterGP-PI", "SVGP")
ITERATIONS = 4
PARTS = ("combined", "computational")
DRAWN = 8  # functions whose errors are drawn


def cells(options: Options) -> list[Cell]:
    return [Cell({"method": method}) for method in METHODS]


def run(cell: Cell, options: Options) -> list[Record]:
    method, data = cell.key["method"], line(points=61 if options.quick else 181)
    X, grid, n = data.X, data.grid, len(data.y)
    H, norms = unit_functions(X, grid, 100 if options.quick else 2000)
    whole = exact(PRIOR, X, np.eye(n), NOISE)  # of all unit vectors as targets: its mean at x is v_x
    v, mathematical = whole.mean(grid), whole.var(grid)
    w, combined = means_and_variance(method, X, H[0, :n], grid)
    K_hat, k_x = PRIOR.cov(X) + NOISE * np.eye(n), PRIOR.cov(grid, X)
    worst = np.sqrt(PRIOR.var(grid) + NOISE - 2 * (w * k_x).sum(axis=1) + ((w @ K_hat) * w).sum(axis=1))
    worst_apart = np.sqrt(np.maximum((((v - w) @ K_hat) * (v - w)).sum(axis=1), 0.0))
    errors, apart = np.abs(H[:, n:] - H[:, :n] @ w.T), np.abs(H[:, :n] @ (v - w).T)
    record = {
        "method": method,
        "functions": len(H),
        "variance_below_exact": np.mean(combined < mathematical - 1e-10),
    }
    record |= against("combined", np.sqrt(combined + NOISE), worst, errors)
    if method != "SVGP":  # for which no such part is defined
        seen = combined - mathematical > 1e-8
        bound = np.sqrt(combined[seen] - mathematical[seen])
        record |= against("computational", bound, worst_apart[seen], apart[:, seen])
    h, norm = H[0], norms[0]
    curves = {
        "t": data.t,
        "x": X,
        "y": norm * h[:n],
        "h": norm * h[n:],
        "mean": norm * w @ h[:n],
        "exact_mean": norm * v @ h[:n],
        "combined": combined,
        "exact": mathematical,
        "worst_curve": worst,
        "worst_apart_curve": worst_apart,
    }
    drawn = {
        "errors": [rounded(e) for e in errors[:DRAWN]],
        "errors_apart": [rounded(e) for e in apart[:DRAWN]],
    }
    return [record | {"norm": norm} | {name: rounded(values) for name, values in curves.items()} | drawn]


def against(part: str, bound: np.ndarray, worst: np.ndarray, errors: np.ndarray) -> Record:
    """Errors over the bound: of the worst function at each x, largest and smallest over x, and the largest of
    random ones."""
    found = {"worst": (worst / bound).max(), "least": (worst / bound).min(), "random": (errors / bound).max()}
    return {f"{part}_{name}": value for name, value in found.items()}


def unit_functions(X: np.ndarray, grid: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Functions of the RKHS of k + sigma^2 delta at (X, grid), scaled to unit norm, one in each row; and
    their norms before.

    h = sum_j a_j k^sigma(., p_j) with a few centres p_j among the points: h = K^sigma a, and its squared
    norm is a^T h.
    """
    points = np.concatenate([X, grid])
    K_sigma = PRIOR.cov(points) + NOISE * np.eye(len(points))
    rng = np.random.default_rng(3)
    a = np.zeros((size, len(points)))
    for row in a:
        row[rng.choice(len(points), rng.integers(1, 9), replace=False)] = 1.0
    a *= rng.standard_normal(a.shape)
    h = a @ K_sigma
    norms = np.sqrt((a * h).sum(axis=1))
    return h / norms[:, None], norms


def means_and_variance(
    method: str, X: np.ndarray, y: np.ndarray, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """w_x for each point of the grid, from all unit vectors as targets; and the latent variance."""
    unit = np.eye(len(y))
    if method == "SVGP":
        model = svgp(PRIOR, X, unit, NOISE, INDUCING_POINTS)
        return model.mean(grid), model.var(grid)
    Q = condition(PRIOR, X, y, NOISE, POLICIES[method](), MaxActions(ITERATIONS)).actions  # CG's: those for y
    posterior = condition(
        PRIOR, X, unit, NOISE, lambda state: None if state.proposed else Q, MaxActions(ITERATIONS)
    )
    return posterior.mean(grid), posterior.var(grid)


def table(records: list[Record]) -> Table:
    """Errors over bounds; 1 is an attained bound, and above 1 it is not a bound."""
    header = ["method", "variance below exact at", "functions"]
    names = {"worst": "worst function, at most", "least": "at least", "random": "random functions, at most"}
    header += [f"{part}: {text}" for part in PARTS for text in names.values()]
    rows = []
    for record in records:
        start = [record["method"], f"{100 * record['variance_below_exact']:.0f} % of x", record["functions"]]
        rows.append([*start, *(record.get(f"{part}_{name}") for part in PARTS for name in names)])
    return header, rows


def figure(records: list[Record], options: Options) -> Any:
    figure = style.new_figure(12.0, 8.0)
    axes = figure.subplots(3, len(records), sharex=True, sharey="row", squeeze=False, height_ratios=(4, 3, 3))
    for column, record in zip(axes.T, records, strict=True):
        _function(column[0], record)
        _errors(column[1], record)
        _computational(column[2], record)
        column[0].set_title(f"{record['method']}, i = {ITERATIONS}")
        column[2].set_xlabel("x")
    for axis, label in zip(
        axes[:, 0], ("h(x)", "|h - mean|\n/ |h|", "|exact mean - mean|\n/ |h|"), strict=True
    ):
        axis.set_ylabel(label)
    for axis in axes[1:, 0]:
        axis.set_ylim(0.0, None)
    style.legend_below(figure, axes.ravel(), columns=4)
    return figure


def _arrays(record: Record, *names: str) -> list[np.ndarray]:
    return [np.array(record[name]) for name in names]


def _function(axis: Any, record: Record) -> None:
    """One function, the two means, and the bounds around them in units of its norm."""
    t, mean, combined, exact_variance = _arrays(record, "t", "mean", "combined", "exact")
    norm = record["norm"]
    half = norm * np.sqrt(combined + NOISE)
    if record["method"] == "SVGP":
        style.band(axis, t, mean, half, style.CLASSICAL, "SVGP, its band", alpha=0.25)
    else:
        style.band(axis, t, mean, half, style.COMBINED, "bound on |h - mean|", alpha=0.25)
        inner = norm * np.sqrt(np.maximum(combined - exact_variance, 0.0))
        style.band(axis, t, mean, inner, style.COMPUTATIONAL, "bound on |exact mean - mean|", alpha=0.45)
    axis.plot(t, record["exact_mean"], color=style.EXACT, lw=1.2, ls="--", label="exact mean")
    axis.plot(t, mean, color=style.of_method(record["method"]), lw=1.5)
    axis.plot(t, record["h"], color=style.TRUTH, lw=1.0, label="h")
    axis.scatter(record["x"], record["y"], s=9, color=style.TRUTH, zorder=3, label="data")


def _errors(axis: Any, record: Record) -> None:
    t, combined, worst = _arrays(record, "t", "combined", "worst_curve")
    for i, errors in enumerate(record["errors"]):
        axis.plot(t, errors, color=style.GREY, lw=0.7, label=None if i else "random functions")
    label = f"{'SVGP, ' if record['method'] == 'SVGP' else ''}sqrt(variance + noise)"
    axis.plot(
        t, np.sqrt(combined + NOISE), color=style.of_method(record["method"]), lw=2.2, alpha=0.7, label=label
    )
    axis.plot(t, worst, color=style.TRUTH, lw=1.2, ls=":", label="worst error")


def _computational(axis: Any, record: Record) -> None:
    t, combined, exact_variance, worst = _arrays(record, "t", "combined", "exact", "worst_apart_curve")
    for errors in record["errors_apart"]:
        axis.plot(t, errors, color=style.GREY, lw=0.7)
    if record["method"] != "SVGP":
        bound = np.sqrt(np.maximum(combined - exact_variance, 0.0))
        axis.plot(
            t, bound, color=style.COMPUTATIONAL, lw=2.2, alpha=0.7, label="sqrt(computational variance)"
        )
    axis.plot(t, worst, color=style.TRUTH, lw=1.2, ls=":")


EXPERIMENT = Experiment(
    "worst-case",
    "Fig. 3",
    "combined and computational uncertainty as worst-case errors; SVGP's variance is no such bound",
    cells,
    run,
    table,
    figure,
)

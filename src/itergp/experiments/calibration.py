"""Is the computational uncertainty calibrated? The distance to the exact posterior mean against sqrt(k_comp),
per policy.

If y is a draw from the prior and the actions do not depend on it, mu_*(x) - mu_i(x) ~ N(0, k_comp(x, x)):
standardised distances are standard normal, at every x and after every number of actions. Residual actions
(CG) depend on y, and real data are not a draw from the prior, so there this is measured, not guaranteed. The
computational uncertainty as a single number is |v* - v_i|^2 in the norm of K_hat, which is then chi-squared
with n - i degrees of freedom, over n - i.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from itergp.baselines import exact
from itergp.datasets import load, synthetic
from itergp.experiments import style
from itergp.experiments.illustrations import rounded
from itergp.experiments.records import grouped
from itergp.experiments.running import Cell, Experiment, Options, Record, Table
from itergp.metrics import calibration_curve, mean_and_interval
from itergp.posterior.combined import condition
from itergp.prior.gp import Prior
from itergp.prior.stationary import Matern32
from itergp.solver.policies import ConjugateGradient, Eigenvector, PseudoInput, RandomAction, UnitVector
from itergp.solver.stopping import MaxActions

POLICIES: dict[str, Callable[[], Any]] = {
    "IterGP-Chol": lambda: UnitVector("random", block_size=64),
    "IterGP-PBR": lambda: Eigenvector(block_size=64),
    "IterGP-PI": lambda: PseudoInput(block_size=64),
    "IterGP-random": lambda: RandomAction(block_size=64),
    "IterGP-CG": lambda: ConjugateGradient(),
}
PRIOR_DRAWS, DRAWS_NOISE = "prior draws", 0.01
DRAWS_PRIOR = Prior(1.0 * Matern32(lengthscale=0.25))
BUDGETS, SHOWN = (16, 64, 256), 64
LOWEST = 5e-3  # of the rms in the figure; what is below is marked there
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
BINS = 8
# share of the prior variance: below, k_comp is a difference of rounding errors, and the point is excluded
RESOLVED = 1e-8

Setting = tuple[Prior, float, np.ndarray, np.ndarray, np.ndarray]  # prior, noise, X, y, X_test


def cells(options: Options) -> list[Cell]:
    draws, splits = (3, 1) if options.quick else (20, 5)
    found = [Cell({"data": PRIOR_DRAWS, "repetition": i}) for i in range(draws)]
    return found + [
        Cell({"data": name, "repetition": i}, cost=10.0) for name in options.datasets for i in range(splits)
    ]


def run(cell: Cell, options: Options) -> list[Record]:
    """All policies on one draw, or on one split with its own hyper-parameters."""
    name, i = cell.key["data"], cell.key["repetition"]
    prior, noise, X, y, X_test = drawn(i, options) if name == PRIOR_DRAWS else real(name, i, options)
    whole = exact(prior, X, y, noise)
    mean, variance, k0 = whole.mean(X_test), whole.var(X_test), prior.var(X_test)
    energy = float(y @ whole.representer_weights[:, 0])  # |v*|^2 in the norm of K_hat
    records = []
    for policy, make in POLICIES.items():
        posterior = condition(prior, X, y, noise, make(), MaxActions(BUDGETS[-1]), seed=i)
        path = posterior.path(X_test, BUDGETS)
        for rank, mu, k in zip(BUDGETS, path.mean, path.var, strict=True):
            left = (energy - float((posterior.state.z[:rank] ** 2).sum())) / (len(y) - rank)
            record = {
                "data": name,
                "policy": policy,
                "n": len(y),
                "noise": noise,
                "prior_variance": k0.mean(),
                "actions": rank,
            }
            records.append(record | {"weights": left} | distances(mean - mu, k - variance, k0))
    return records


def drawn(i: int, options: Options) -> Setting:
    """y ~ N(0, K_hat) at random inputs in a square."""
    n, m = (400, 100) if options.quick else (800, 300)
    rng = np.random.default_rng([9, i])
    X = rng.uniform(-1.0, 1.0, (n + m, 2))
    y = DRAWS_PRIOR.sample(X[:n], seed=i)[0] + np.sqrt(DRAWS_NOISE) * rng.standard_normal(n)
    return DRAWS_PRIOR, DRAWS_NOISE, X[:n], y, X[n:]


def real(name: str, i: int, options: Options) -> Setting:
    """Random rows of a data set, with hyper-parameters learned from the same rows."""
    from itergp.learning import learn

    n, m = (400, 100) if options.quick else (1500, 500)
    if name == "synthetic":
        X, y = synthetic(n + m, 2, 0.01, seed=i)
        X, y, X_test = X[:n], y[:n], X[n:]
    else:
        split = load(name).split(i)
        some = np.random.default_rng([9, i]).permutation(len(split.y))[:n]
        X, y, X_test = split.X[some], split.y[some], split.X_test[:m]
    start = 1.0 * Matern32(lengthscale=np.full(X.shape[1], np.sqrt(X.shape[1])))
    learned = learn(X, y, start, 0.1, method="neighbours", seed=i)
    return Prior(learned.kernel), learned.noise, X, y, X_test


def distances(distance: np.ndarray, computational: np.ndarray, k0: np.ndarray) -> Record:
    """Distances to the exact mean, next to what the computational uncertainty predicts, and in its units."""
    seen = computational > RESOLVED * k0
    d, k = distance[seen], computational[seen]
    if d.size < BINS:  # no uncertainty is left
        return {
            "points": int(d.size),
            "rms": None,
            "quantiles": None,
            "curve": None,
            "expected": None,
            "observed": None,
        }
    z = d / np.sqrt(k)
    bins = np.array_split(np.argsort(k, kind="stable"), BINS)
    return {
        "points": int(d.size),
        "rms": float(np.sqrt(np.mean(z**2))),
        "quantiles": rounded(np.quantile(np.abs(z), (0.5, 0.95, 1.0))),
        "curve": rounded(calibration_curve(z, np.zeros_like(z), np.ones_like(z), LEVELS)),
        "expected": rounded(np.array([np.sqrt(k[some].mean()) for some in bins])),
        "observed": rounded(np.array([np.sqrt(np.mean(d[some] ** 2)) for some in bins])),
    }


def groups(records: list[Record]) -> dict[tuple[str, str, int], list[Record]]:
    """All repetitions together, where some uncertainty was left."""
    return grouped([record for record in records if record["rms"] is not None], "data", "policy", "actions")


def table(records: list[Record]) -> Table:
    header = [
        "data",
        "policy",
        "n",
        "actions",
        "rms distance / sqrt(k_comp)",
        "± 95 %",
        "median (0.67)",
        "95 % quantile (1.96)",
        "largest",
        "inside 50 %",
        "inside 95 %",
        "|v* - v_i|^2 / (n - i)",
        "prior variance",
        "repetitions",
    ]
    rows = []
    for (data, policy, actions), some in groups(records).items():
        rms, half = mean_and_interval([record["rms"] for record in some])
        median, q95, _ = np.mean([record["quantiles"] for record in some], axis=0)
        largest = max(record["quantiles"][2] for record in some)
        curve = np.mean([record["curve"] for record in some], axis=0)
        inside = [curve[LEVELS.index(0.5)], curve[LEVELS.index(0.95)]]
        means = [np.mean([record[name] for record in some]) for name in ("weights", "prior_variance")]
        rows.append(
            [data, policy, some[0]["n"], actions, rms, half, median, q95, largest, *inside, *means, len(some)]
        )
    return header, rows


def figure(records: list[Record], options: Options) -> Any:
    found = groups(records)
    names = list(dict.fromkeys(data for data, _, _ in found))
    figure = style.new_figure(12.0, 0.6 + 3.6 * len(names))
    axes = figure.subplots(len(names), 3, squeeze=False, sharex="col", sharey="col")
    for name, row in zip(names, axes, strict=True):
        for policy in POLICIES:
            colour = style.POLICY[policy]
            shown = found.get((name, policy, SHOWN), [])
            if shown:
                _bins(row[0], shown, policy, colour)
                row[1].plot(
                    LEVELS,
                    np.mean([record["curve"] for record in shown], axis=0),
                    "o-",
                    ms=3,
                    lw=1.2,
                    color=colour,
                )
            known = {
                actions: found[name, policy, actions]
                for actions in BUDGETS
                if (name, policy, actions) in found
            }
            rms = [np.mean([record["rms"] for record in some]) for some in known.values()]
            row[2].plot(list(known), rms, "o-", ms=4, lw=1.2, color=colour)
            below = [actions for actions, value in zip(known, rms, strict=True) if value < LOWEST]
            row[2].plot(below, [1.1 * LOWEST] * len(below), "v", ms=6, color=colour)
        _frames(row, name)
    style.legend_below(figure, axes.ravel(), columns=7)
    return figure


def _bins(axis: Any, some: list[Record], policy: str, colour: str) -> None:
    """Points in bins of equal size by k_comp: the expected distance, and the observed one."""
    expected, observed = (
        np.sqrt(np.mean([np.square(record[part]) for record in some], axis=0))
        for part in ("expected", "observed")
    )
    axis.plot(expected, observed, "o-", ms=4, lw=1.2, color=colour, label=policy)


def _frames(row: Any, name: str) -> None:
    for axis in row:
        axis.tick_params(labelbottom=True)
    bins, curve, growth = row
    bins.set(
        xscale="log",
        yscale="log",
        xlabel="expected: root mean k_comp",
        ylabel="observed distance to exact mean",
    )
    bins.axline((1e-2, 1e-2), (1.0, 1.0), color=style.GREY, lw=1.0, ls="--", label="honest")
    bins.set_title(f"{name}, {SHOWN} actions")
    curve.plot([0, 1], [0, 1], color=style.GREY, lw=1.0, ls="--")
    curve.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="level of the interval",
        ylabel="share inside",
        title=f"{name}, {SHOWN} actions",
    )
    growth.axhline(1.0, color=style.GREY, lw=1.0, ls="--")
    growth.set(
        xscale="log",
        yscale="log",
        xlabel="actions",
        ylabel="rms distance / sqrt(k_comp)",
        title=name,
        ylim=(LOWEST, 5.0),
    )
    style.plain_ticks(growth.xaxis, BUDGETS)


EXPERIMENT = Experiment(
    "calibration",
    "Cor. 1",
    "is the computational uncertainty honest? distance to the exact mean against sqrt(k_comp)",
    cells,
    run,
    table,
    figure,
    datasets=("parkinsons",),
)

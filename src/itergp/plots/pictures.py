"""The four plots: a posterior, its parts, a run, and calibration."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.plots.drawing import (
    BLUE,
    GREEN,
    GREY,
    POLICY_COLOURS,
    PURPLE,
    add_legend,
    axis_for,
    band_labels,
    plot_line,
)
from itergp.plots.slices import column, data_for, feature_index, feature_name, scatter, slices_for
from itergp.prior.gp import Marginals
from itergp.validate import as_float64, choice, count, inputs, noise_variance, targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes


QUANTITIES = {
    "residual": ("residual_norm", "norm of the residual", "log"),
    "variance": ("mean_training_variance", "mean variance at the training inputs", "log"),
    "elbo": ("elbo", "evidence lower bound", "linear"),
    "energy": ("energy", "energy $b^T v$", "linear"),
}
COSTS = {
    "actions": "actions",
    "passes": "passes over K",
    "entries": "kernel evaluations",
    "seconds": "seconds",
}


# What to look at.


def plot_posterior(
    process: Marginals,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    feature: int | str | None = None,
    at: ArrayLike | None = None,
    limits: tuple[float, float] | None = None,
    points: int = 200,
    target: int = 0,
    noise: ArrayLike | Callable[[np.ndarray], ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    axis: "Axes | None" = None,
) -> "Axes":
    """The mean with its bands along one feature: mathematical inside, computational around it, if known.

    X and y are the data to draw; by default those the process was conditioned on. With several features the
    plot is a slice: along `feature` (a number, or one of `names`; by default the one along which the mean
    changes most), with the others fixed `at` a point (by default the median of the data). `noise`, a variance
    or one per target, or a function of X, adds the limits of a new observation.
    """
    data = data_for(process, X, y)
    slices = slices_for(process, data, at, limits)
    number = (
        slices.most_changing(process, target)
        if feature is None
        else feature_index(feature, names, slices.at.size)
    )
    line = slices.along(number, count("points", points, least=2))
    mean, combined, mathematical, exact = _bands(process, line.X, target)
    axis = axis_for(axis)
    plot_line(axis, line.t, mean, combined, mathematical, exact)
    if noise is not None:
        there = column(np.asarray(noise(line.X)), target) if callable(noise) else _of_target(noise, target)
        half = 2 * np.sqrt(combined + there)
        for side, label in ((mean - half, "new observation"), (mean + half, None)):
            axis.plot(line.t, side, color=GREY, lw=0.9, ls="--", label=label)
    if data is not None and data.y is not None:
        scatter(axis, data, line, target)
    others = (
        ""
        if line.at.size == 1
        else ", the others at their medians"
        if at is None
        else ", the others as given"
    )
    axis.set_xlabel(feature_name(names, line.feature, line.at.size) + others)
    axis.margins(x=0.0)
    add_legend(axis)
    return axis


def plot_decomposition(
    process: Marginals, X: ArrayLike, *, target: int = 0, axis: "Axes | None" = None
) -> "Axes":
    """The variance at the points X, sorted: the mathematical part, and the computational part on top of it.

    If the parts are not exact, the computational one is at least as large as drawn, and a line shows a
    guaranteed, often loose lower bound of the mathematical one.
    """
    if not hasattr(process, "decompose"):
        raise InputError(
            f"process is a {type(process).__name__}, whose variance has no parts; expected a posterior of "
            "itergp.condition or posterior.local(60)."
        )
    parts = process.decompose(X)
    combined, mathematical = column(parts.combined, target), column(parts.mathematical, target)
    order = np.argsort(combined, kind="stable")
    edges, share = np.arange(combined.size + 1), 1.0 - mathematical.sum() / combined.sum()
    inner, outer = band_labels(parts.exact)
    axis = axis_for(axis)
    for values, base, colour, label in (
        (mathematical[order], 0.0, BLUE, f"{inner}, {100 * (1 - share):.3g} %"),
        (combined[order], mathematical[order], GREEN, f"{outer}, {100 * share:.3g} %"),
    ):
        axis.stairs(values, edges, baseline=base, fill=True, color=colour, alpha=0.35, lw=0, label=label)
    axis.stairs(combined[order], edges, baseline=None, color=PURPLE, lw=1.2, label="combined")
    if not parts.exact:
        least = (combined - column(parts.computational_upper, target))[order]
        axis.stairs(
            least, edges, baseline=None, color=BLUE, lw=0.9, ls="--", label="mathematical, guaranteed"
        )
    axis.set(xlabel="points, by their variance", ylabel="variance", xlim=(0, combined.size), ylim=(0.0, None))
    add_legend(axis)
    return axis


def plot_trace(
    process: Any,
    quantity: str = "residual",
    over: str = "actions",
    *,
    label: str | None = None,
    axis: "Axes | None" = None,
) -> "Axes":
    """The progress of the computation, step by step: what is left or what is known, over its cost.

    `quantity` is "residual", "variance" (mean over the training inputs), "elbo" or "energy"; `over` is
    "actions", "passes", "entries" or "seconds". Several on the same axis are distinguished by their `label`.
    """
    name, title, scale = QUANTITIES[choice("quantity", quantity, tuple(QUANTITIES))]
    steps = getattr(getattr(process, "posterior", process), "trace", ())
    if not steps:
        raise InputError(
            f"process is a {type(process).__name__} without a trace; expected a posterior after a "
            "computation."
        )
    cost, value = (
        [getattr(step, which) for step in steps] for which in (choice("over", over, tuple(COSTS)), name)
    )
    axis = axis_for(axis)
    colour = POLICY_COLOURS[len(axis.lines) % len(POLICY_COLOURS)]
    axis.plot(cost, value, "o-" if len(steps) <= 40 else "-", color=colour, lw=1.5, ms=3, label=label)
    axis.set(xlabel=COSTS[over], ylabel=title, yscale=scale)
    if label is not None:
        add_legend(axis)
    return axis


def plot_calibration(
    process: Marginals,
    X: ArrayLike,
    y: ArrayLike,
    *,
    noise: ArrayLike | None = None,
    levels: ArrayLike | None = None,
    target: int = 0,
    label: str | None = None,
    axis: "Axes | None" = None,
) -> "Axes":
    """The share of observations y inside the central interval of each level: equal to the level, if
    calibrated.

    The grey band contains 95 of 100 calibrated forecasts, by the binomial distribution for this number of
    points; it assumes independent errors, and is too narrow if they are not. `noise` is by default that of
    the process.
    """
    from scipy.stats import binom

    # not at the top: the command line imports this module without SciPy
    from itergp.metrics import LEVELS, calibration_curve

    X = inputs("X", X)
    observed = column(targets("y", y, len(X)), target)
    mean, variance = (
        column(process.mean(X), target),
        column(_predictive_variance(process, X, noise), target),
    )
    levels = np.sort(as_float64("levels", LEVELS if levels is None else levels))
    share = calibration_curve(observed, mean, variance, levels)
    axis = axis_for(axis)
    if not axis.lines:  # the first of those that are compared
        fine = np.linspace(0.005, 0.995, 199)
        low, high = (binom.ppf(tail, len(X), fine) / len(X) for tail in (0.025, 0.975))
        axis.fill_between(fine, low, high, color=GREY, alpha=0.2, lw=0, label="95 % of calibrated forecasts")
        axis.plot([0, 1], [0, 1], color=GREY, lw=1.0, ls="--")
    colour = POLICY_COLOURS[max(0, len(axis.lines) - 1) % len(POLICY_COLOURS)]
    axis.plot(levels, share, "o-", color=colour, lw=1.5, ms=4, label="observed" if label is None else label)
    axis.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    add_legend(axis)
    return axis


# What plots are made of.


def _of_target(noise: ArrayLike, target: int) -> float:
    """The noise variance of one target."""
    values = np.atleast_1d(noise_variance("noise", noise, np.size(noise)))
    return float(values[0] if values.size == 1 else column(values[None], target)[0])


def _bands(
    process: Any, X: np.ndarray, target: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, bool]:
    """Mean, combined and mathematical variance (None if there are no parts), and whether these are exact."""
    mean = column(process.mean(X), target)
    if not hasattr(process, "decompose"):
        return mean, column(process.var(X), target), None, True
    parts = process.decompose(X)
    return mean, column(parts.combined, target), column(parts.mathematical, target), parts.exact


def _predictive_variance(process: Any, X: np.ndarray, noise: ArrayLike | None) -> np.ndarray:
    if noise is None and hasattr(process, "predictive_var"):
        return process.predictive_var(X)
    noise = getattr(getattr(process, "problem", None), "noise", None) if noise is None else noise
    if noise is None:
        raise InputError(
            f"noise is missing, and a {type(process).__name__} has none; expected a variance, as y are "
            "observations: noise=0.01."
        )
    return process.var(X) + noise_variance("noise", noise, len(X))


# Slices, and the data beside them.

"""Pictures of Gaussian processes, in matplotlib and in the paper's colours: functions of anything with a
mean and a variance.

Each function draws on the `axis` it is given and returns it. Without one it makes a figure: pyplot's where
pyplot is loaded, so that `plt.show()` and notebooks show it, and elsewhere one that leaves nothing behind
(`axis.figure.savefig(path)`). Variances are those of the latent function, bands are two standard
deviations wide on either side.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from itergp.errors import InputError
from itergp.prior.gp import GaussianProcess
from itergp.validate import as_float64, choice, count, finite, inputs, noise_variance, targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, GREEN, PURPLE = "#1f77b4", "#2ca02c", "#9467bd"  # mathematical, computational, combined
GREY, BLACK = "#7f7f7f", "#000000"
# where several policies share axes
POLICY_COLOURS = ("#9467bd", "#d62728", "#8c564b", "#e377c2", "#17becf", "#bcbd22")

DRAWN = 1000  # points of the data, at most
NEAREST = 300  # of them beside a slice
COARSE = 25  # points along each feature, to find the one along which the mean changes most
MARGIN = 0.1  # of the data's range, on either side
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
    process: GaussianProcess,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    feature: int | str | None = None,
    at: ArrayLike | None = None,
    limits: tuple[float, float] | None = None,
    points: int = 200,
    target: int = 0,
    noise: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    axis: "Axes | None" = None,
) -> "Axes":
    """The mean with its bands along one feature: mathematical inside, computational around it, where they
    can be told apart.

    X and y are the data to draw; those the process was conditioned on, unless given. With several features
    the picture is a slice: along `feature` (a number, or one of `names`; unless given, the one along which
    the mean changes most), with the others `at` a point (the median of the data, unless given). `noise`, a
    variance or one for each target, adds the limits of a new observation.
    """
    data = _data(process, X, y)
    slices = _slices(process, data, at, limits)
    number = (
        slices.most_changing(process, target) if feature is None else _index(feature, names, slices.at.size)
    )
    line = slices.along(number, count("points", points, least=2))
    mean, combined, mathematical, exact = _bands(process, line.X, target)
    axis = _axis(axis)
    plot_line(axis, line.t, mean, combined, mathematical, exact)
    if noise is not None:
        half = 2 * np.sqrt(combined + _of_target(noise, target))
        for side, label in ((mean - half, "new observation"), (mean + half, None)):
            axis.plot(line.t, side, color=GREY, lw=0.9, ls="--", label=label)
    if data is not None and data.y is not None:
        _scatter(axis, data, line, target)
    others = (
        ""
        if line.at.size == 1
        else ", the others at their medians"
        if at is None
        else ", the others as given"
    )
    axis.set_xlabel(_name(names, line.feature, line.at.size) + others)
    axis.margins(x=0.0)
    _legend(axis)
    return axis


def plot_decomposition(
    process: GaussianProcess, X: ArrayLike, *, target: int = 0, axis: "Axes | None" = None
) -> "Axes":
    """The variance at the points X, sorted: the mathematical part, and the computational part on top of it.

    Where the parts are not exact, the computational one is at least as large as drawn, and a line shows
    how small the mathematical one may be: guaranteed, and often far from it.
    """
    if not hasattr(process, "decompose"):
        raise InputError(
            f"process is a {type(process).__name__}, whose variance has no parts; expected a posterior of "
            "itergp.condition or "
            "posterior.local(60)."
        )
    parts = process.decompose(X)
    combined, mathematical = _column(parts.combined, target), _column(parts.mathematical, target)
    order = np.argsort(combined, kind="stable")
    edges, share = np.arange(combined.size + 1), 1.0 - mathematical.sum() / combined.sum()
    inner, outer = _labels(parts.exact)
    axis = _axis(axis)
    for values, base, colour, label in (
        (mathematical[order], 0.0, BLUE, f"{inner}, {100 * (1 - share):.3g} %"),
        (combined[order], mathematical[order], GREEN, f"{outer}, {100 * share:.3g} %"),
    ):
        axis.stairs(values, edges, baseline=base, fill=True, color=colour, alpha=0.35, lw=0, label=label)
    axis.stairs(combined[order], edges, baseline=None, color=PURPLE, lw=1.2, label="combined")
    if not parts.exact:
        least = (combined - _column(parts.computational_upper, target))[order]
        axis.stairs(
            least, edges, baseline=None, color=BLUE, lw=0.9, ls="--", label="mathematical, guaranteed"
        )
    axis.set(xlabel="points, by their variance", ylabel="variance", xlim=(0, combined.size), ylim=(0.0, None))
    _legend(axis)
    return axis


def plot_trace(
    process: Any,
    quantity: str = "residual",
    over: str = "actions",
    *,
    label: str | None = None,
    axis: "Axes | None" = None,
) -> "Axes":
    """How the computation went, step by step: what is left or what is known, over what it cost.

    `quantity` is "residual", "variance" (mean over the training inputs), "elbo" or "energy"; `over` is
    "actions", "passes", "entries" or "seconds". Several on the same axis are told apart by their `label`.
    """
    name, title, scale = QUANTITIES[choice("quantity", quantity, tuple(QUANTITIES))]
    steps = getattr(getattr(process, "posterior", process), "trace", ())
    if not steps:
        raise InputError(
            f"process is a {type(process).__name__} without a trace; expected a posterior after "
            "a computation."
        )
    cost, value = (
        [getattr(step, which) for step in steps] for which in (choice("over", over, tuple(COSTS)), name)
    )
    axis = _axis(axis)
    colour = POLICY_COLOURS[len(axis.lines) % len(POLICY_COLOURS)]
    axis.plot(cost, value, "o-" if len(steps) <= 40 else "-", color=colour, lw=1.5, ms=3, label=label)
    axis.set(xlabel=COSTS[over], ylabel=title, yscale=scale)
    if label is not None:
        _legend(axis)
    return axis


def plot_calibration(
    process: GaussianProcess,
    X: ArrayLike,
    y: ArrayLike,
    *,
    noise: ArrayLike | None = None,
    levels: ArrayLike | None = None,
    target: int = 0,
    label: str | None = None,
    axis: "Axes | None" = None,
) -> "Axes":
    """How many of the observations y lie inside the central interval of each level: as many as it says, if
    it is honest.

    The grey band is where 95 of 100 honest forecasts lie, by the binomial law of as many points; it takes
    their errors to be independent, and is too narrow where they are not. `noise` is that of the process,
    unless given.
    """
    from scipy.stats import binom

    # not at the top: the command line imports this room, and no SciPy
    from itergp.metrics import LEVELS, calibration_curve

    X = inputs("X", X)
    observed = _column(targets("y", y, len(X)), target)
    mean, variance = (
        _column(process.mean(X), target),
        _column(_predictive_variance(process, X, noise), target),
    )
    levels = np.sort(as_float64("levels", LEVELS if levels is None else levels))
    share = calibration_curve(observed, mean, variance, levels)
    axis = _axis(axis)
    if not axis.lines:  # the first of those that are compared
        fine = np.linspace(0.005, 0.995, 199)
        low, high = (binom.ppf(tail, len(X), fine) / len(X) for tail in (0.025, 0.975))
        axis.fill_between(fine, low, high, color=GREY, alpha=0.2, lw=0, label="95 % of honest forecasts")
        axis.plot([0, 1], [0, 1], color=GREY, lw=1.0, ls="--")
    colour = POLICY_COLOURS[max(0, len(axis.lines) - 1) % len(POLICY_COLOURS)]
    axis.plot(levels, share, "o-", color=colour, lw=1.5, ms=4, label="observed" if label is None else label)
    axis.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _legend(axis)
    return axis


# What pictures are made of.


def plot_line(
    axis: Any,
    t: np.ndarray,
    mean: np.ndarray,
    combined: np.ndarray,
    mathematical: np.ndarray | None = None,
    exact: bool = True,
) -> None:
    """Mean and bands along any line through the inputs, at positions t; one band where the mathematical
    part is not known."""
    if mathematical is None:
        band(axis, t, mean, 2 * np.sqrt(combined), PURPLE, "two standard deviations", alpha=0.25)
    else:
        inside, around = _labels(exact)
        inner, outer = 2 * np.sqrt(mathematical), 2 * np.sqrt(combined)
        band(axis, t, mean, inner, BLUE, inside, alpha=0.35)
        ring(axis, t, mean, inner, outer, GREEN, around, alpha=0.35)
    axis.plot(t, mean, color=PURPLE, lw=1.6, label="mean" if mathematical is None else "posterior mean")


def band(
    axis: Any,
    t: np.ndarray,
    mean: np.ndarray,
    half: np.ndarray,
    colour: str,
    label: str | None,
    alpha: float = 0.3,
) -> None:
    """mean +- half"""
    axis.fill_between(t, mean - half, mean + half, color=colour, alpha=alpha, lw=0, label=label)


def ring(
    axis: Any,
    t: np.ndarray,
    mean: np.ndarray,
    inner: np.ndarray,
    outer: np.ndarray,
    colour: str,
    label: str | None,
    alpha: float = 0.3,
) -> None:
    """What lies between mean +- inner and mean +- outer"""
    axis.fill_between(t, mean + inner, mean + outer, color=colour, alpha=alpha, lw=0, label=label)
    axis.fill_between(t, mean - outer, mean - inner, color=colour, alpha=alpha, lw=0)


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches, with no global state and no display. Ten inches fill a page's width."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def require_matplotlib() -> None:
    """Before any work, not after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "pictures need matplotlib, which is not installed. Run pip install 'itergp[plots]'."
        ) from None


def save_line_plots(panels: list[dict[str, Any]], path: Path) -> Path:
    """One panel beside the other, on the same scale: each has t, mean, combined, mathematical, exact,
    truth, title."""
    figure = new_figure(4.4 * len(panels), 3.4)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        plot_line(axis, panel["t"], panel["mean"], panel["combined"], panel["mathematical"], panel["exact"])
        axis.plot(panel["t"], panel["truth"], color=BLACK, lw=1, ls=":", label="truth")
        axis.set_title(panel["title"], fontsize=10)
        axis.set_xlabel("position along the diagonal of the cube")
    axes[0].set_ylabel("f(x)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)
    return path


def _axis(axis: Any) -> Any:
    """The axis that was given, or that of a new figure."""
    require_matplotlib()
    if axis is None:
        pyplot = sys.modules.get("matplotlib.pyplot")
        figure = (
            new_figure(6.4, 4.0)
            if pyplot is None
            else pyplot.figure(figsize=(6.4, 4.0), layout="constrained")
        )
        axis = figure.add_subplot()
        axis.spines[["top", "right"]].set_visible(False)
    if not hasattr(axis, "fill_between"):
        raise InputError(
            f"axis is {type(axis).__name__}; expected one matplotlib Axes, such as plt.subplots()[1]."
        )
    return axis


def _legend(axis: Any) -> None:
    """Where there is most room, and readable over what is drawn."""
    axis.legend(loc="best", framealpha=0.8, edgecolor="none", fontsize="small")


def _labels(exact: bool) -> tuple[str, str]:
    """Of the inner and the outer part: where they are not exact, which way they err."""
    return (
        ("mathematical", "computational") if exact else ("mathematical, at most", "computational, at least")
    )


def _column(values: np.ndarray, target: int) -> np.ndarray:
    """One target of (m, t); values that all targets share as they are."""
    values = np.asarray(values)
    if values.ndim == 1:
        return values
    if count("target", target, least=0) >= values.shape[1]:
        raise InputError(
            f"target is {target}; expected a number from 0 to {values.shape[1] - 1}, one of the targets."
        )
    return values[:, target]


def _of_target(noise: ArrayLike, target: int) -> float:
    """The noise variance of one target."""
    values = np.atleast_1d(noise_variance("noise", noise, np.size(noise)))
    return float(values[0] if values.size == 1 else _column(values[None], target)[0])


def _bands(
    process: Any, X: np.ndarray, target: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, bool]:
    """Mean, combined and mathematical variance (None where the process has no parts), and whether the
    parts are exact."""
    mean = _column(process.mean(X), target)
    if not hasattr(process, "decompose"):
        return mean, _column(process.var(X), target), None, True
    parts = process.decompose(X)
    return mean, _column(parts.combined, target), _column(parts.mathematical, target), parts.exact


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


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs (n, d), and targets where they are known."""

    X: np.ndarray
    y: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Slice:
    """A line through the inputs: the feature runs through t, the others stay `at` a point (d,)."""

    feature: int
    t: np.ndarray
    at: np.ndarray

    @property
    def X(self) -> np.ndarray:
        X = np.tile(self.at, (self.t.size, 1))
        X[:, self.feature] = self.t
        return X


def training_data(process: Any) -> Data | None:
    """What a posterior or a baseline was conditioned on; without the targets where a file did not keep
    them."""
    problem = getattr(getattr(process, "posterior", process), "problem", None)
    if problem is None:
        return None
    return Data(problem.X, problem.y if isinstance(problem.y, np.ndarray) else None)


def _data(process: Any, X: ArrayLike | None, y: ArrayLike | None) -> Data | None:
    """What was given, or what the process was conditioned on, if anything."""
    if X is not None:
        X = inputs("X", X)
        return Data(X, None if y is None else targets("y", y, len(X)))
    if y is not None:
        raise InputError("y is given without X; expected both, or neither: then the training data are drawn.")
    return process.training_data() if hasattr(process, "training_data") else training_data(process)


@dataclass(frozen=True, eq=False)
class Slices:
    """All slices through a point `at` (d,): each as long as the limits that were given, or as the data."""

    at: np.ndarray
    data: Data | None
    limits: tuple[float, float] | None

    def along(self, feature: int, points: int) -> Slice:
        low, high = (
            _range(self.data.X[:, feature])
            if self.limits is None and self.data is not None
            else _checked(self.limits)
        )
        return Slice(feature, np.linspace(low, high, points), self.at)

    def most_changing(self, process: Any, target: int) -> int:
        """The feature along which the mean changes most, by its standard deviation on a coarse slice."""
        if self.at.size == 1:
            return 0
        slices = [self.along(j, COARSE) for j in range(self.at.size)]
        return int(np.argmax([np.std(_column(process.mean(line.X), target)) for line in slices]))


def _slices(
    process: Any, data: Data | None, at: ArrayLike | None, limits: tuple[float, float] | None
) -> Slices:
    if data is None and limits is None:
        raise InputError(
            f"limits is missing, and a {type(process).__name__} without data has no range; give "
            "limits=(-1, 1)."
        )
    if at is None:
        return Slices(np.zeros(1) if data is None else np.median(data.X, axis=0), data, limits)
    here = finite("at", np.atleast_1d(as_float64("at", at)))
    if here.ndim != 1 or (data is not None and here.size != data.X.shape[1]):
        expected = "(features,)" if data is None else f"({data.X.shape[1]},)"
        raise InputError(f"at has shape {here.shape}; expected {expected}: one value for each feature.")
    return Slices(here, data, limits)


def _index(feature: int | str, names: Sequence[str] | None, features: int) -> int:
    if isinstance(feature, str):
        names = [str(name) for name in (() if names is None else names)]
        return names.index(choice("feature", feature, tuple(names)))
    if count("feature", feature, least=0) >= features:
        raise InputError(
            f"feature is {feature}; expected a number from 0 to {features - 1}, one of the features."
        )
    return int(feature)


def _range(x: np.ndarray) -> tuple[float, float]:
    """A little beyond the data on either side."""
    low, high = float(x.min()), float(x.max())
    margin = MARGIN * (high - low) if high > low else 0.5
    return low - margin, high + margin


def _checked(limits: Any) -> tuple[float, float]:
    pair = as_float64("limits", limits)
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair[0] < pair[1]:
        raise InputError(
            f"limits is {limits!r}; expected two finite numbers, the lower one first, such as (-1, 1)."
        )
    return float(pair[0]), float(pair[1])


def _scatter(axis: Any, data: Data, line: Slice, target: int) -> None:
    """The data; beside a slice only those that are nearest to it, in standard deviations of the other
    features."""
    n, features = data.X.shape
    assert data.y is not None
    if features > 1:
        scale = np.where(data.X.std(axis=0) > 0, data.X.std(axis=0), 1.0)
        away = (data.X - line.at) / scale
        away[:, line.feature] = 0.0
        rows = np.argsort((away**2).sum(axis=1), kind="stable")[: min(NEAREST, max(20, n // 10))]
        label = f"the {rows.size} nearest data" if rows.size < n else "data"
    else:
        rows = np.arange(n) if n <= DRAWN else np.random.default_rng(0).choice(n, DRAWN, replace=False)
        label = "data" if n <= DRAWN else f"{DRAWN:,} of {n:,} data"
    x, y = data.X[rows, line.feature], _column(data.y, target)[rows]
    inside = (x >= line.t[0]) & (x <= line.t[-1])
    axis.scatter(x[inside], y[inside], s=9, color=BLACK, lw=0, alpha=0.7, zorder=3, label=label)


def _name(names: Sequence[str] | None, feature: int, features: int) -> str:
    if names is not None:
        return str(names[feature])
    return "x" if features == 1 else f"feature {feature}"

"""Building blocks of all plots: figures, lines, bands and rings."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from itergp.errors import InputError

BLUE, GREEN, PURPLE = "#1f77b4", "#2ca02c", "#9467bd"  # mathematical, computational, combined
GREY, BLACK = "#7f7f7f", "#000000"
# if several policies share axes
POLICY_COLOURS = ("#9467bd", "#d62728", "#8c564b", "#e377c2", "#17becf", "#bcbd22")


def plot_line(
    axis: Any,
    t: np.ndarray,
    mean: np.ndarray,
    combined: np.ndarray,
    mathematical: np.ndarray | None = None,
    exact: bool = True,
) -> None:
    """Mean and bands along a line through the inputs, at positions t; one band if the parts are unknown."""
    if mathematical is None:
        band(axis, t, mean, 2 * np.sqrt(combined), PURPLE, "two standard deviations", alpha=0.25)
    else:
        inside, around = band_labels(exact)
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
    """The area between mean +- inner and mean +- outer"""
    axis.fill_between(t, mean + inner, mean + outer, color=colour, alpha=alpha, lw=0, label=label)
    axis.fill_between(t, mean - outer, mean - inner, color=colour, alpha=alpha, lw=0)


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches, with no global state and no display. Ten inches fill a page."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def require_matplotlib() -> None:
    """Checked before any work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "pictures need matplotlib, which is not installed. Run pip install matplotlib."
        ) from None


def save_line_plots(panels: list[dict[str, Any]], path: Path) -> Path:
    """Panels side by side, on one scale: each has t, mean, combined, mathematical, exact, truth, title."""
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


def axis_for(axis: Any) -> Any:
    """The given axis, or that of a new figure."""
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


def add_legend(axis: Any) -> None:
    """In the emptiest corner, and readable over what is drawn."""
    axis.legend(loc="best", framealpha=0.8, edgecolor="none", fontsize="small")


def band_labels(exact: bool) -> tuple[str, str]:
    """Labels of the inner and the outer part; if they are not exact, with the direction of their error."""
    return (
        ("mathematical", "computational") if exact else ("mathematical, at most", "computational, at least")
    )

"""Pictures of Gaussian processes, in matplotlib and in the paper's colours."""

from pathlib import Path
from typing import Any

import numpy as np

BLUE, GREEN, PURPLE = "#1f77b4", "#2ca02c", "#9467bd"  # mathematical, computational, combined


def plot_line(t: np.ndarray, mean: np.ndarray, combined: np.ndarray, mathematical: np.ndarray, axis: Any) -> None:
    """Mean and two-standard-deviation bands along a line: mathematical inside, computational around it."""
    inner, outer = 2 * np.sqrt(mathematical), 2 * np.sqrt(combined)
    axis.fill_between(t, mean - inner, mean + inner, color=BLUE, alpha=0.35, lw=0, label="mathematical")
    axis.fill_between(t, mean + inner, mean + outer, color=GREEN, alpha=0.35, lw=0, label="computational")
    axis.fill_between(t, mean - outer, mean - inner, color=GREEN, alpha=0.35, lw=0)
    axis.plot(t, mean, color=PURPLE, lw=1.5, label="posterior mean")


def save_line_plots(panels: list[dict[str, Any]], path: Path) -> Path:
    """One panel beside the other, on the same scale: each has t, mean, combined, mathematical, truth and title."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # no global state, no display
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * len(panels), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        plot_line(panel["t"], panel["mean"], panel["combined"], panel["mathematical"], axis)
        axis.plot(panel["t"], panel["truth"], color="black", lw=1, ls=":", label="truth")
        axis.set_title(panel["title"], fontsize=10)
        axis.set_xlabel("position along the diagonal of the cube")
    axes[0].set_ylabel("f(x)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)
    return path

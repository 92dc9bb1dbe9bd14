"""The style of figures: the paper's colours, one colour per concept in all of them, and readable text."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from itergp.plots.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY as GREY,
    POLICY_COLOURS,
    PURPLE,
    band as band,
    new_figure as new_figure,
    ring as ring,
)

ORANGE, LILAC = "#ff7f0e", "#c5b0d5"
_, RED, BROWN, PINK, CYAN, OLIVE = POLICY_COLOURS

MATHEMATICAL, COMPUTATIONAL, COMBINED = BLUE, GREEN, PURPLE
ITERGP, EXACT, TRUTH, ACTION = PURPLE, BLUE, BLACK, RED
CLASSICAL = ORANGE  # the paper's baselines: SVGP, CGGP and the like
POLICY = {
    "IterGP-Chol": CYAN,
    "IterGP-CG": RED,
    "IterGP-PI": BROWN,
    "IterGP-PBR": PINK,
    "IterGP-random": OLIVE,
}

LETTERS: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "itergp",  # the same records give the same file
}


def of_method(name: str) -> str:
    return CLASSICAL if name == "SVGP" else COMBINED


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Used while a figure is drawn and saved; afterwards matplotlib's settings are restored."""
    import matplotlib

    with matplotlib.rc_context(LETTERS):
        yield


def legend_below(figure: Any, axes: Sequence[Any], columns: int = 6) -> None:
    """One legend for all axes, outside of them; each name once."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns, frameon=False)


def plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """Ticks of a logarithmic axis as plain numbers: those of `values` within the data."""
    low, high = axis.get_data_interval()
    inside = [value for value in values if 0.9 * low <= value <= 1.1 * high]
    axis.set_ticks(inside, [f"{value:,g}" for value in inside])
    axis.set_ticks([], minor=True)


def variances(axis: Any, t: np.ndarray, mathematical: np.ndarray, computational: np.ndarray) -> None:
    """The decomposition of the variance, stacked; the line is the sum."""
    combined = mathematical + computational
    axis.fill_between(t, 0.0, mathematical, color=MATHEMATICAL, alpha=0.35, lw=0, label="mathematical")
    axis.fill_between(t, mathematical, combined, color=COMPUTATIONAL, alpha=0.35, lw=0, label="computational")
    axis.plot(t, combined, color=COMBINED, lw=1.2, label="combined")

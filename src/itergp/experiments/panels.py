"""Grids of panels: one column per data set, one row per metric, means with 95 % intervals over splits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from itergp.experiments import style
from itergp.metrics import mean_and_interval

POWERS = (1, 4, 16, 64, 256, 1024)
LINEAR = 10.0  # nats


def grid(
    rows: Sequence[str], columns: Sequence[str], width: float = 2.6, height: float = 1.9
) -> tuple[Any, Any]:
    """A figure and its axes, one row per label and one column per title; never narrower than its legend."""
    figure = style.new_figure(max(7.5, 1.0 + width * len(columns)), 1.0 + height * len(rows))
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for axis, name in zip(axes[0], columns, strict=True):
        axis.set_title(name)
    for axis, label in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(label)
    figure.align_ylabels(axes[:, 0])
    return figure, axes


def curve(
    axis: Any, x: Sequence[float], values: Any, colour: str, label: str | None, line: str = "-"
) -> np.ndarray:
    """Plot the mean over splits (the first axis of `values`) against x, with its interval if there are
    several; returns it."""
    mean, half = mean_and_interval(np.array(values, dtype=float))
    if np.isfinite(half).all():
        style.band(axis, np.asarray(x), mean, half, colour, None, alpha=0.2)
    axis.plot(x, mean, line, color=colour, lw=1.5, ms=3, label=label)
    return mean


def share_nats(axes: Sequence[Any], means: Sequence[np.ndarray]) -> None:
    """One scale for several panels of NLL: linear up to LINEAR nats, logarithmic beyond."""
    every = np.concatenate([np.zeros(0), *means])
    if not every.size:
        return
    low, high = float(every.min()), float(every.max())
    span = max(min(high, LINEAR) - low, 0.02)
    step = next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if span / step < 7), 10.0)
    linear = step * np.arange(np.ceil(low / step), np.floor(min(high, LINEAR) / step) + 1)
    beyond = (20.0, 50.0) if high < 70.0 else (30.0, 100.0, 1e3, 1e4, 1e5, 1e6)
    ticks = [*(linear[linear < LINEAR] + 0.0), *beyond] if high > LINEAR else [*(linear + 0.0)]
    for axis in axes:
        if high > LINEAR:
            axis.set_yscale("symlog", linthresh=LINEAR, linscale=3)
        axis.set_yticks(ticks, [f"{tick:,.6g}" for tick in ticks])
        axis.set_yticks([], minor=True)
        axis.set_ylim(low - 0.06 * span, high * 1.2 if high > LINEAR else high + 0.06 * span)


def share_logarithms(axes: Sequence[Any], means: Sequence[np.ndarray]) -> None:
    """One logarithmic scale for several panels of errors; intervals may exceed it, means do not."""
    every = np.concatenate([np.zeros(0), *means])
    if every.size:
        low, high = every.min(), every.max()
        margin = max(high / low, 1.1) ** 0.06
        for axis in axes:
            axis.set_yscale("log")
            axis.set_ylim(low / margin, high * margin)
            _few_ticks(axis.yaxis, low / margin, high * margin)


def _few_ticks(axis: Any, low: float, high: float) -> None:
    """Plain numbers: powers of ten, with others between them if they fit; evenly spaced if none is one."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    steps = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    ticks = [tick for tick in np.multiply.outer(decades, steps).ravel() if low <= tick <= high]
    if len(ticks) < 3:
        from matplotlib.ticker import MaxNLocator

        ticks = [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    axis.set_ticks(ticks, [f"{tick:.6g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def powers_of_two(axis: Any) -> None:
    """Numbers of iterations or points, on a logarithmic scale."""
    axis.set_xscale("log")
    style.plain_ticks(axis.xaxis, POWERS)

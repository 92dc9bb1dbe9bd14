"""The idea in one picture: the same data and model after 3, 7 and 40 actions. Writes idea.svg beside this
file.

python docs/figures/idea.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from itergp import Matern32, MaxActions, Prior, UnitVector, condition

# GREY is read on light and on dark pages
BLUE, GREEN, PURPLE, GREY = "#1f77b4", "#2ca02c", "#9467bd", "#8a8a8a"
STYLE = {
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def main():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-1.0, -0.2, 26), rng.uniform(0.25, 1.0, 14)])
    y = np.sin(np.pi * x) + 0.1 * rng.standard_normal(40)
    grid = np.linspace(-1.4, 1.4, 160)
    prior = Prior(1.0 * Matern32(lengthscale=0.5))
    with matplotlib.rc_context(
        STYLE | {"svg.hashsalt": "itergp", "svg.fonttype": "none", "font.family": "sans-serif"}
    ):
        figure = Figure(figsize=(9.6, 3.3), layout="constrained")
        axes = figure.subplots(1, 3, sharey=True)
        for axis, actions in zip(axes, (3, 7, 40), strict=True):
            posterior = condition(
                prior, x[:, None], y, 0.01, UnitVector("random"), MaxActions(actions), seed=5
            )
            draw(axis, posterior, x, y, grid)
        axes[0].set_ylabel("f(x)")
        axes[2].set_title("40 actions on 40 rows: exact", fontsize=10)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
        figure.savefig(Path(__file__).with_suffix(".svg"), transparent=True, metadata={"Date": None})


def draw(axis, posterior, x, y, grid):
    mean, parts = posterior.mean(grid[:, None]), posterior.decompose(grid[:, None])
    inner, outer = 2 * np.sqrt(parts.mathematical), 2 * np.sqrt(parts.combined)
    axis.fill_between(
        grid, mean - inner, mean + inner, color=BLUE, alpha=0.4, lw=0, label="mathematical: few data"
    )
    axis.fill_between(
        grid, mean + inner, mean + outer, color=GREEN, alpha=0.4, lw=0, label="computational: little compute"
    )
    axis.fill_between(grid, mean - outer, mean - inner, color=GREEN, alpha=0.4, lw=0)
    axis.plot(grid, mean, color=PURPLE, lw=1.6, label="mean")
    axis.plot(x, y, ".", color=GREY, ms=5, label="data")
    rows = np.asarray(posterior.actions.sum(axis=1)).ravel() > 0
    axis.plot(x[rows], y[rows], "o", mfc="none", mec="#d62728", ms=8, label="acted on")
    axis.set(title=f"{posterior.rank} actions", xlabel="x", ylim=(-2.6, 2.6), xlim=(-1.4, 1.4))
    axis.title.set_fontsize(10)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()

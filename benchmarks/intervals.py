"""Claim: conformal intervals contain the share of new observations that they say, on all sets whose new rows
are exchangeable with the known ones; Gaussian intervals do not.

Coverage and mean width of 50, 80, 95 and 99 % intervals at up to 4,000 test rows, on twelve made sets and
the seven real ones (interval_problems.py; 2,000 training rows of each at random, 5,000 of KEGG), three splits
each. Widths are in standard deviations of y. Levels for which there are too few rows are left out.

    python benchmarks/intervals.py [--names bike skewed] [--splits 3] [--records intervals.jsonl]
                                   [--figure intervals.png]

Records are appended to the file, and those that are there are not run again.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import interval_problems as problems
from common import print_table
from itergp import IterGPRegressor
from itergp.fitted.calibration import needed
from itergp.metrics import mean_and_interval

LEVELS = (0.5, 0.8, 0.95, 0.99)
METHODS = ("gaussian", "conformal")
WITHIN = 0.015
TICKS = (-50, -20, -5, -2.5, 0, 2.5, 5, 20, 50)  # of the figure, in %


def measure(data):
    """Coverage and width of each method and level, from one fit; None where a level has too few rows."""
    begun = time.perf_counter()
    model = IterGPRegressor(**data.settings).fit(data.X, data.y, data.groups)
    fitted = time.perf_counter()
    calibration = model.calibration_
    calibrated = time.perf_counter()
    mean, std = model.predict(data.X_new, return_std=True)  # once, for all intervals
    z, unit = (data.y_new - mean) / std, float(std.mean() / data.y.std())
    found = {"factor": float(calibration.factor), "units": calibration.units, "rank": model.posterior_.rank}
    for method in METHODS:
        for level in LEVELS:
            low, high = ends(calibration, level, method)
            found[f"{method} {level}"] = (
                None if low is None else [float(np.mean((low <= z) & (z <= high))), float(high - low) * unit]
            )
    return found | {"fit_seconds": fitted - begun, "calibration_seconds": calibrated - fitted}


def ends(calibration, level, method):
    """Of an interval, in standard deviations."""
    if method == "gaussian":
        return ndtri(0.5 - level / 2), ndtri(0.5 + level / 2)
    return calibration.reach(level) if calibration.units >= needed(level) else (None, None)


def record(name, split):
    """The mean over the draws of a cell."""
    found = [measure(data) for data in problems.draws(name, split)]
    mean = {
        key: None if value is None else np.mean([one[key] for one in found], axis=0).tolist()
        for key, value in found[0].items()
    }
    return {"name": name, "split": split, "draws": len(found)} | mean


def recorded(path):
    if path is None or not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {(r["name"], r["split"]): r for r in records}


def run_all(names, splits, path):
    records = recorded(path)
    for name, split in [(name, split) for split in range(splits) for name in names]:
        if (name, split) not in records:
            records[name, split] = record(name, split)
            print(json.dumps(records[name, split]), flush=True)
            if path is not None:
                with path.open("a") as file:
                    file.write(json.dumps(records[name, split]) + "\n")
    return [records[name, split] for name in names for split in range(splits) if (name, split) in records]


def summary(records, name):
    """For each method and level: mean coverage over splits, half its 95 % interval, and mean width."""
    found = {}
    for key in [f"{method} {level}" for method in METHODS for level in LEVELS]:
        values = [r[key] for r in records if r["name"] == name and r[key] is not None]
        if values:
            mean, half = mean_and_interval(np.array(values), axis=0)
            found[key] = mean[0], half[0], mean[1]
    return found


def row(records, name):
    """Coverages in %, widths of 95 and 99 % intervals, and by how much standard deviations are off."""
    found, own = summary(records, name), [r for r in records if r["name"] == name]

    def listed(method, part, levels):
        values = [found.get(f"{method} {level}") for level in levels]
        return ["" if value is None else part(value) for value in values]

    coverage = [
        ", ".join(listed(method, lambda value: f"{100 * value[0]:.1f}", LEVELS)) for method in METHODS
    ]
    widths = [", ".join(listed(method, lambda value: f"{value[2]:.2g}", LEVELS[2:])) for method in METHODS]
    mark = " *" if name in problems.NOT_EXCHANGEABLE else ""
    return [name + mark, len(own), *coverage, *widths, f"{np.mean([r['factor'] for r in own]):.2f}"]


def worst(records, names, method):
    """How far coverage is from its level at most, over all exchangeable sets."""
    gaps = {
        f"{name}, {level}": abs(found[key][0] - level)
        for name in names
        if name not in problems.NOT_EXCHANGEABLE
        for level in LEVELS
        if (key := f"{method} {level}") in (found := summary(records, name))
    }
    return max(gaps, key=gaps.get), max(gaps.values()), sum(gap <= WITHIN for gap in gaps.values()), len(gaps)


def draw(records, names, path):
    """Coverage less its level, for each set: Gaussian beside conformal."""
    import matplotlib.pyplot as plt

    colours = dict(zip(LEVELS, plt.get_cmap("viridis")([0.05, 0.35, 0.6, 0.85]), strict=True))
    figure, panels = plt.subplots(1, 2, sharey=True, sharex=True, figsize=(9, 0.28 * len(names) + 1.4))
    for panel, method in zip(panels, METHODS, strict=True):
        for y, name in enumerate(names):
            found = summary(records, name)
            for k, level in enumerate(LEVELS):
                if f"{method} {level}" in found:
                    gap = 100 * (found[f"{method} {level}"][0] - level)
                    label = f"{100 * level:g} %" if y == 0 else None
                    panel.plot(gap, y + 0.12 * (k - 1.5), "o", ms=4, color=colours[level], label=label)
        panel.axvspan(-100 * WITHIN, 100 * WITHIN, color="0.9", zorder=0)
        panel.axvline(0, color="0.5", lw=0.8, zorder=0)
        panel.set(title=method.capitalize(), xlabel="coverage less its level, in %")
        panel.set_xscale("symlog", linthresh=5)
        panel.set_xlim(-60, 60)
        panel.set_xticks(TICKS, [f"{tick:+g}" if tick else "0" for tick in TICKS])
        panel.minorticks_off()
    marks = [f"{name} *" if name in problems.NOT_EXCHANGEABLE else name for name in names]
    panels[0].set_yticks(range(len(names)), marks)
    panels[0].invert_yaxis()
    panels[1].legend(title="level", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--names", nargs="+", default=problems.NAMES)
    arguments.add_argument("--splits", type=int, default=3)
    arguments.add_argument("--records", type=Path)
    arguments.add_argument("--figure", type=Path)
    options = arguments.parse_args()
    records = run_all(options.names, options.splits, options.records)
    heads = ["Gaussian 50, 80, 95, 99 %", "conformal", "width of Gaussian 95, 99 %", "of conformal", "factor"]
    print_table(["set", "splits", *heads], [row(records, name) for name in options.names])
    for method in METHODS:
        where, gap, right, total = worst(records, options.names, method)
        print(f"{method}: within {WITHIN:.1%} at {right} of {total}; at most {gap:.1%} off ({where})")
    share = [r["calibration_seconds"] / r["fit_seconds"] for r in records]
    print(
        f"calibration takes {np.median(share):.1%} of the seconds of a fit (median), at most {max(share):.0%}"
    )
    if options.figure:
        draw(records, options.names, options.figure)


if __name__ == "__main__":
    main()

"""The results of an experiment, made from its records: a table, a figure, and their provenance."""

import csv
import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itergp import __version__
from itergp.experiments.records import Line, plain
from itergp.plots.drawing import require_matplotlib as require_matplotlib

if TYPE_CHECKING:
    from itergp.experiments.running import Experiment, Options

PACKAGES = ("numpy", "scipy", "jax", "matplotlib")
BAR = "\\|"  # in a cell of a Markdown table


def versions() -> dict[str, str]:
    found = {"itergp": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_outputs(folder: Path, experiment: "Experiment", options: "Options", lines: Sequence[Line]) -> None:
    records = [record for line in lines for record in line["records"]]
    header, rows = experiment.table(records)
    (folder / "table.md").write_text(markdown(header, rows), encoding="utf-8")
    with open(folder / "table.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *(plain(list(row)) for row in rows)])
    _draw(folder, experiment, options, records)
    about = json.dumps(_about(experiment, options, lines), indent=2, ensure_ascii=False)
    (folder / "about.json").write_text(about + "\n", encoding="utf-8")


def _draw(folder: Path, experiment: "Experiment", options: "Options", records: list[dict[str, Any]]) -> None:
    from itergp.experiments.style import readable

    with readable():
        figure = experiment.figure(records, options)
        figure.savefig(folder / "figure.png", dpi=130)
        figure.savefig(folder / "figure.svg", metadata={"Date": None})


def _about(experiment: "Experiment", options: "Options", lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "figure of the paper": experiment.figure_of_paper,
        "title": experiment.title,
        "command": command(experiment, options),
        "quick": options.quick,
        "cells": len(lines),
        "seconds": round(sum(line["seconds"] for line in lines), 1),
        "processor seconds": round(sum(line.get("processor_seconds", 0.0) for line in lines), 1),
        "finished": time.strftime("%Y-%m-%d %H:%M %z"),
        "machine": platform.machine(),
        "versions": versions(),
    }


def command(experiment: "Experiment", options: "Options") -> str:
    """The command for these results, without the output folder."""
    quick = " --quick" if options.quick else ""
    datasets = f" --datasets {','.join(options.datasets)}" if options.datasets != experiment.datasets else ""
    return f"itergp experiment run {experiment.name}{quick}{datasets}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for reading: four digits, and no exponents for counts."""
    lines = [header, ["---"] * len(header), *([_short(value) for value in plain(list(row))] for row in rows)]
    return "".join(f"| {' | '.join(text.replace('|', BAR) for text in line)} |\n" for line in lines)


def _short(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:,}" if type(value) is int else str(value)

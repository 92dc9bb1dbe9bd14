"""Mean and bands along the most relevant inputs, the others at their median."""

import numpy as np

from itergp.fitted.formats import beside
from itergp.report.measure.columns import Column
from itergp.report.measure.subject import Target
from itergp.report.page.text import Json

NAMED = 6  # features whose median is told


def slices(target: Target) -> list[Json]:
    """The lines in the units of the data."""
    subject, number = target.subject, target.number
    found, several = subject.lines, len(subject.seen.posteriors) > 1
    if not found:
        return []
    there = subject.along[number if several else 0]
    means = there.means[..., 0 if several else number]
    scaling, X = subject.fit.scaling, subject.posterior.problem.X
    spreads = scaling.x_scale * np.std(X, axis=0)
    values, start = [], 0
    for line in found:
        j, some, start = line.j, slice(start, start + len(line.X)), start + len(line.X)
        back, mathematical = scaling.original(line.X), there.mathematical
        values.append(
            {
                "feature": subject.names[j],
                "x": back[:, j],
                "mean": target.back(means[:, some]),
                "combined": target.unit**2 * there.variances[:, some],
                "mathematical": None if mathematical is None else target.unit**2 * mathematical[some],
                "noise": target.noise_at(line.X),
                "held_at": held_at(subject.columns, back[0], spreads, j),
                "near": {
                    "x": scaling.x_mean[j] + scaling.x_scale[j] * X[line.rows, j],
                    "y": target.back(target.training_y[line.rows]),
                },
                "sd_units": False,
            }
        )
    return values


def held_at(columns: list[Column], x: np.ndarray, spreads: np.ndarray, j: int) -> str:
    """Where the other features are held: numbers at their median, categories as in most rows."""
    others = [column for column in columns if j not in column.numbers]
    if not others:
        return ""
    kinds = ", categories as in most rows" if any(column.category for column in others) else ""
    told = ", ".join(f"{column.name} = {_text(column, x, spreads)}" for column in others[:NAMED])
    left = len(others) - NAMED
    return f"Other features at their median{kinds}: {told}" + (f" and {left} more." if left > 0 else ".")


def _text(column: Column, x: np.ndarray, spreads: np.ndarray) -> str:
    value = column.value(x)
    return value if isinstance(value, str) else beside(value, spreads[column.numbers[0]])

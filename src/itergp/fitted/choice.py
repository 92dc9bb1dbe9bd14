"""Which kernel was chosen, and by how much: the same values and words on the page and on the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

from itergp.fitted.formats import UNKNOWN, column, finite, fixed_percent, with_error
from itergp.learning.candidates import ONE, Considered

HEAD = ("kernel", "log density", "difference", "95 % coverage")
HELP = (
    "Log density: the mean of held-out rows, in nats, with the target scaled; higher is better. "
    "Difference: to the chosen kernel, ± its standard error. A dash: held-out rows were not predicted, "
    "because the kernel was not among the best few on a small part of the rows, time was short, or the "
    "computation failed."
)
NONE = "\N{EN DASH}"
Row = Mapping[str, Any]


def rows(candidates: Sequence[Considered]) -> list[dict[str, Any]]:
    """One for each candidate, the chosen one first; empty if the kernel was given."""
    best = candidates[0].score if candidates else None
    return [
        {
            "name": words(one.name),
            "log_density": one.score,
            "difference": None if one.score is None or best is None else one.score - best,
            "error": one.error,
            "coverage": one.coverage,
            "objective": one.objective,
            "chosen": one.chosen,
        }
        for one in candidates
    ]


def words(name: str) -> str:
    return name.replace(ONE, " (one lengthscale)")


def sentence(found: Sequence[Row]) -> str:
    """The chosen kernel and the next best one, in a line; empty if the kernel was given."""
    if not found:
        return ""
    chosen, *others = found
    if not others:
        return f"{chosen.get('name')}; there was no time to compare it with others"
    of = f"{chosen.get('name')}, chosen among {len(found)}"
    scored = _compared(found)
    if scored:
        return f"{of}; next best {scored[0].get('name')}, {_worse(scored[0])}"
    alone = f"{of} by the likelihood alone"
    if finite(chosen.get("log_density")) is None:
        return f"{alone}, without held-out rows"
    return f"{alone}; held-out rows were then predicted with it, and not compared with others"


def _compared(found: Sequence[Row]) -> list[Row]:
    """Those that held-out rows compared with the chosen one."""
    return [one for one in found[1:] if finite(one.get("difference")) is not None]


def _worse(one: Row) -> str:
    difference, error = one["difference"], finite(one.get("error"))
    by = f"{with_error(abs(difference), error)} nats per held-out row"
    if difference <= 0:
        return f"{by} worse"
    return f"{by} better" + (", within the error" if error is not None and difference <= error else "")


def cells(found: Sequence[Row]) -> list[list[str]]:
    """The table of candidates as text, under `HEAD`; empty where none was compared with the chosen one, as it
    would say nothing that the sentence does not."""
    if not _compared(found):
        return []
    columns = (
        [str(one.get("name")) for one in found],
        column([one.get("log_density") for one in found]),
        [
            "chosen" if one.get("chosen") else with_error(one.get("difference"), one.get("error"))
            for one in found
        ],
        [fixed_percent(one.get("coverage")) for one in found],
    )
    return [[NONE if cell == UNKNOWN else cell for cell in row] for row in zip(*columns, strict=True)]

"""Numbers as a reader meets them on the page: each is formatted here, once, and the browser only shows the
text."""

import math
from typing import Any

from itergp.fitted.formats import MINUS, PERCENT, UNKNOWN, count, duration, finite, fixed_percent, number
from itergp.validate import unseen

FORMAT = "itergp-report/1"
Json = dict[str, Any]


def harmless(value: Any) -> Any:
    """The same numbers, with what their texts hide (terminal codes, marks that turn the text around them)
    made visible."""
    if isinstance(value, dict):
        return {harmless(str(key)): harmless(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [harmless(item) for item in value]
    if not isinstance(value, str) or (value.isascii() and value.isprintable()):
        return value
    return "".join("\N{REPLACEMENT CHARACTER}" if unseen(letter) else letter for letter in value)


def at(values: Any, position: int) -> Any:
    """The value at a position of the slider, None where there is none."""
    return values[position] if isinstance(values, list) and position < len(values) else None


def part(numbers: Any, *names: str) -> Any:
    """`numbers[name][name]...`, None where something on the way is missing or null."""
    for name in names:
        if not isinstance(numbers, dict):
            return None
        numbers = numbers.get(name)
    return numbers


def is_exact(numbers: Json) -> bool:
    """Whether nothing of the variance is left to computation: then few readers ask for its steps."""
    nothing = not (finite(part(numbers, "share", "value")) or 0.0) > 0
    return part(numbers, "fitted", "status") == "EXACT" and nothing


def tiles(numbers: Json, target: Json, position: int) -> dict[str, list[str]]:
    """Value and note of every tile that moves with the slider, as they were after that much of the
    computation."""
    metrics, path = part(target, "metrics") or {}, part(numbers, "path") or {}
    baseline = finite(target.get("baseline"))
    beside = "" if baseline is None else f"; predicting the mean: {number(baseline)}"
    return {
        "r2": [_decimals(at(metrics.get("r2"), position)), "1 is perfect, 0 is predicting the mean"],
        "rmse": [number(at(metrics.get("rmse"), position)), f"in units of y{beside}"],
        "nll": [number(at(metrics.get("nll"), position)), "nats per point; lower is better"],
        "coverage": [
            fixed_percent(at(metrics.get("coverage"), position)),
            _chance(part(numbers, "points", "count")),
        ],
        "crps": [number(at(metrics.get("crps"), position)), "in units of y; lower is better"],
        "share": _share(numbers, position),
        "time": _time(numbers, position),
        "passes": [count(at(path.get("passes"), position)), _actions(at(path.get("actions"), position))],
    }


def _decimals(value: Any) -> str:
    v = finite(value)
    return UNKNOWN if v is None else f"{v:.3f}".replace("-", MINUS)


def _chance(points: Any) -> str:
    n = finite(points)
    if not n:
        return f"should be 95{PERCENT}"
    return f"should be 95{PERCENT}, ± {196 * math.sqrt(0.95 * 0.05 / n):.1f} by chance"


def _actions(actions: Any) -> str:
    return (
        "over the kernel matrix"
        if finite(actions) is None
        else f"over the kernel matrix, {count(actions)} actions"
    )


def _share(numbers: Json, position: int) -> list[str]:
    """With its error bar for the model as it predicts; along the path, the value alone."""
    share, path = part(numbers, "share") or {}, part(numbers, "path", "share")
    last = position == positions(numbers) - 1
    value = finite(share.get("value")) if last else None
    if value is None:
        return [fixed_percent(at(path, position), 0), "of the variance of f at the points"]
    error, method = finite(share.get("error")) or 0.0, share.get("method") or "exact"
    note = {"estimate": "between bounds", "neighbours": "at least"}.get(method, method)
    if error == 0:
        shown = fixed_percent(value, 1) if value == 0 or value >= 0.0005 else f"below 0.1{PERCENT}"
        return [shown, f"of the variance of f, {note}{_most(share, 1)}"]
    decimals = 1 if error < 0.01 else 0
    text = f"{100 * value:.{decimals}f} ± {100 * error:.{decimals}f}{PERCENT}"
    where = f"at {count(share.get('points'))} points, ± 95{PERCENT} interval"
    return [text, f"of the variance of f, {note}{_most(share, decimals)} {where}"]


def _most(share: Json, decimals: int) -> str:
    """How much it is at most, where that is known to be less than all."""
    upper = finite(share.get("upper")) if share.get("method") == "estimate" else None
    return "" if upper is None else f": at most {fixed_percent(upper, decimals)}"


def _time(numbers: Json, position: int) -> list[str]:
    """Of the whole fit; before its end, of the actions so far."""
    seconds = part(numbers, "fitted", "seconds") or {}
    if position == positions(numbers) - 1:
        return [
            duration(seconds.get("total")),
            f"learning {duration(seconds.get('learn'))}, actions {duration(seconds.get('act'))}",
        ]
    return [
        duration(at(part(numbers, "path", "seconds"), position)),
        f"of actions so far, after {duration(seconds.get('learn'))} of learning",
    ]


def positions(numbers: Json) -> int:
    """How many positions the slider has."""
    return max(1, len(part(numbers, "path", "labels") or []))


def label(numbers: Json, position: int) -> str:
    return str(at(part(numbers, "path", "labels"), position) or "the model as it predicts")


def spoken(numbers: Json, position: int) -> str:
    """What stands beside the slider: its label, and what that much computation had cost."""
    path = part(numbers, "path") or {}
    facts = [label(numbers, position)]
    passes, seconds = finite(at(path.get("passes"), position)), finite(at(path.get("seconds"), position))
    if passes is not None:
        facts.append(f"{count(passes)} pass{'' if passes == 1 else 'es'}")
    if seconds is not None:
        facts.append(duration(seconds))
    return " · ".join(facts)

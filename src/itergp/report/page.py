"""The page of a fit: one HTML file with everything in it, from the numbers of its JSON twin.

Verdict, tiles and tables are static HTML; figures and the slider are drawn by a script from the numbers, which lie in the page
as data. The content security policy allows this style and this script by their digests, and nothing else: the page loads
nothing, and text from the data can do nothing.
"""

import base64
import hashlib
import json
import math
from importlib import resources
from string import Template
from typing import Any

from itergp.errors import InputError
from itergp.report import page_parts as parts
from itergp.report.page_text import FORMAT, Json, finite, harmless, label, positions, spoken, tiles

SCRIPTS = ("draw.js", "figures.js", "page.js")  # joined in this order
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'"
HYPER = "On a logarithmic scale between the bounds of the search; at a bound, the data may have asked for more."
RELEVANCE = "One over the lengthscale, relative to the largest: along a relevant feature the function changes quickly."
SLICES = 12  # in the whole page: many targets have fewer each, which keeps the page small


def render(numbers: Json) -> str:
    """The page as text; `numbers` is what `itergp.report.numbers` makes, of format "itergp-report/1"."""
    if not isinstance(numbers, dict) or numbers.get("format") != FORMAT:
        came = numbers.get("format") if isinstance(numbers, dict) else type(numbers).__name__
        raise InputError(f"numbers must be a report's dictionary of format {FORMAT!r}, got {came!r}; make it with this version.")
    numbers = harmless(numbers)
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in SCRIPTS)
    last = positions(numbers) - 1
    return Template(_asset("page.html")).substitute(
        policy=f"{NOTHING}; script-src '{_digest(script)}'; style-src '{_digest(style)}'",
        style=style,
        script=script,
        numbers=_data(_for_the_browser(numbers)),
        title=parts.text(numbers.get("title") or "A fit"),
        summary=_summary(numbers),
        verdict=parts.verdict(numbers),
        warnings=parts.warnings(numbers),
        tiles=parts.tile_grid(numbers),
        last=str(last),
        label=parts.text(label(numbers, last)),
        spoken=parts.text(spoken(numbers, last)),
        targets=parts.metrics_table(numbers),
        options=_options(numbers),
        dots="data nearest to the line" if _features(numbers) > 1 else "data",
        worst=parts.worst_tables(numbers),
        hyperparameters=parts.section("Hyper-parameters", parts.hyperparameters(numbers), "hyper", HYPER),
        relevance=parts.section("Relevance of the features", parts.relevance(numbers), "relevance", RELEVANCE),
        fitted=parts.fitted(numbers),
        about=parts.prose(_about(numbers)),
    )


def _asset(name: str) -> str:
    return resources.files("itergp.report").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def _data(value: Any) -> str:
    """JSON that no HTML parser can take for anything else."""
    compact = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return compact.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _summary(numbers: Json) -> str:
    fitted = numbers.get("fitted") or {}
    facts = [f"{parts.count(fitted.get(key))} {key if fitted.get(key) != 1 else key[:-1]}" for key in ("rows", "features")]
    facts += [f"{key} {parts.name(fitted[key])}" for key in ("kernel", "budget") if fitted.get(key)]
    return " · ".join(facts)


def _features(numbers: Json) -> float:
    return finite((numbers.get("fitted") or {}).get("features")) or 0.0


def _options(numbers: Json) -> str:
    targets = enumerate(numbers.get("targets") or [])
    return "".join(f'<option value="{i}">{parts.text(target.get("name"))}</option>' for i, target in targets)


def _about(numbers: Json) -> str:
    points = numbers.get("points") or {}
    return f"Measured on {points.get('source') or 'points'}. {points.get('note') or ''}"


def _for_the_browser(numbers: Json) -> Json:
    """What the figures need, with no more digits than a picture can show; the texts of the tiles at every position."""
    targets, count = numbers.get("targets") or [], positions(numbers)
    each = max(1, SLICES // max(1, len(targets)))
    return {
        "path": {"labels": [label(numbers, k) for k in range(count)], "spoken": [spoken(numbers, k) for k in range(count)]}
        | {key: _short((numbers.get("path") or {}).get(key)) for key in ("actions", "share")},
        "targets": [
            {
                "name": str(target.get("name")),
                "tiles": [tiles(numbers, target, k) for k in range(count)],
                "metrics": _short(target.get("metrics")),
                "slices": [_slice(line) for line in (target.get("slices") or [])[: each if i < SLICES else 0]],
            }
            | {key: _short(target.get(key)) for key in ("decomposition", "calibration", "pit")}
            | {"residuals": _residuals(target.get("residuals"))}
            for i, target in enumerate(targets)
        ],
        "share": _short(numbers.get("share")),
        "learning": _short(numbers.get("learning")),
        "convergence": _short(numbers.get("convergence")),
    }


def _slice(line: Json) -> Json:
    """Means to a fraction of the scale of the picture, all else to five digits."""
    near = line.get("near") or {}
    return {key: _short(value) for key, value in line.items()} | {
        "x": _even(line.get("x")),
        "mean": _even(line.get("mean")),
        "near": {"x": _even(near.get("x")), "y": _even(near.get("y"))},
    }


def _residuals(found: Any) -> Any:
    """Edges along the mean are evenly spaced, however far from zero."""
    return _short(found) | {"x_edges": _even(found.get("x_edges"))} if isinstance(found, dict) else None


def _short(value: Any, digits: int = 5) -> Any:
    """Lists and dictionaries with their floats to so many significant digits; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _short(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def _even(value: Any) -> Any:
    """Nested lists of floats, rounded to one part in 10^5 of their spread: many digits only where values differ by little."""
    flat = [v for v in map(finite, _flat(value)) if v is not None]
    spread = max(flat) - min(flat) if flat else 0.0
    decimals = 5 - math.floor(math.log10(spread)) if spread > 0 else 15
    return _rounded(value, min(decimals, 300))


def _flat(value: Any) -> list[Any]:
    return [v for item in value for v in _flat(item)] if isinstance(value, (list, tuple)) else [value]


def _rounded(value: Any, decimals: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_rounded(item, decimals) for item in value]
    v = finite(value)
    return None if v is None else round(v, decimals)

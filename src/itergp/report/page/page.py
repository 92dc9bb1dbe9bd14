"""The page of a fit: one HTML file with everything in it, from the numbers of its JSON twin.

Verdict, tiles and tables are static HTML; figures and the slider are drawn by a script from the numbers,
which lie in the page as data. The content security policy allows this style and this script by their
digests, and nothing else: the page loads nothing, and text from the data can do nothing.
"""

import base64
import hashlib
import json
from importlib import resources
from string import Template
from typing import Any

from itergp.errors import InputError
from itergp.fitted.formats import finite
from itergp.report.measure.rounding import rounded
from itergp.report.page import parts
from itergp.report.page.text import FORMAT, Json, harmless, label, positions, spoken, tiles

SCRIPTS = ("draw.js", "figures.js", "page.js")  # joined in this order
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'"
HYPER = (
    "On a logarithmic scale between the bounds of the search; at a bound, the data may have asked for more."
)
RELEVANCE = (
    "One over the lengthscale, relative to the largest: along a relevant feature the function "
    "changes quickly."
)
SLICES = 12  # in the whole page: many targets have fewer each, which keeps the page small


def render(numbers: Json) -> str:
    """The page as text; `numbers` is what `itergp.report.numbers` makes, of format "itergp-report/1"."""
    if not isinstance(numbers, dict) or numbers.get("format") != FORMAT:
        came = numbers.get("format") if isinstance(numbers, dict) else type(numbers).__name__
        raise InputError(
            f"numbers must be a report's dictionary of format {FORMAT!r}, got {came!r}; make it "
            "with this version."
        )
    numbers = harmless(numbers)
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in SCRIPTS)
    last = positions(numbers) - 1
    return Template(_asset("page.html")).substitute(
        policy=f"{NOTHING}; script-src '{_digest(script)}'; style-src '{_digest(style)}'",
        style=style,
        script=script,
        numbers=_data(rounded(_for_the_browser(numbers))),
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
        relevance=parts.section(
            "Relevance of the features", parts.relevance(numbers), "relevance", RELEVANCE
        ),
        fitted=parts.fitted(numbers),
        about=parts.prose(_about(numbers)),
    )


def _asset(name: str) -> str:
    return resources.files("itergp.report.page").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def _data(value: Any) -> str:
    """JSON that no HTML parser can take for anything else."""
    compact = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return compact.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _summary(numbers: Json) -> str:
    fitted = numbers.get("fitted") or {}
    facts = [
        f"{parts.count(fitted.get(key))} {key if fitted.get(key) != 1 else key[:-1]}"
        for key in ("rows", "features")
    ]
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
    """What the figures need, and the texts of the tiles at every position."""
    targets, count = numbers.get("targets") or [], positions(numbers)
    each = max(1, SLICES // max(1, len(targets)))
    path = numbers.get("path") or {}
    return {
        "path": {
            "labels": [label(numbers, k) for k in range(count)],
            "spoken": [spoken(numbers, k) for k in range(count)],
        }
        | {key: path.get(key) for key in ("actions", "share")},
        "targets": [
            {
                "name": str(target.get("name")),
                "tiles": [tiles(numbers, target, k) for k in range(count)],
                "slices": (target.get("slices") or [])[: each if i < SLICES else 0],
            }
            | {
                key: target.get(key)
                for key in ("metrics", "decomposition", "calibration", "pit", "residuals")
            }
            for i, target in enumerate(targets)
        ],
    } | {key: numbers.get(key) for key in ("share", "learning", "convergence")}

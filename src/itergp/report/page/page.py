"""The page of a fit: one HTML file with everything in it, from the numbers of its JSON twin.

Verdict, tiles and tables are static HTML; figures and the slider are drawn by a script from the numbers,
which lie in the page as data. The content security policy allows this style and this script by their
digests, and nothing else: the page loads nothing, and text from the data can do nothing.
"""

import base64
import hashlib
import json
import math
from importlib import resources
from string import Template
from typing import Any

from itergp.errors import InputError
from itergp.report.page import parts
from itergp.report.page.text import FORMAT, Json, harmless, is_exact, label, part, positions, spoken, tiles
from itergp.report.sections import SECTIONS

SCRIPTS = ("draw.js", "figures.js", "page.js")  # joined in this order
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'"
SLICES = 12  # in the whole page: many targets have fewer each, which keeps the page small


def render(numbers: Json) -> str:
    """The page as text; `numbers` is what `itergp.report.numbers` makes, of format "itergp-report/1"."""
    if not isinstance(numbers, dict) or numbers.get("format") != FORMAT:
        came = numbers.get("format") if isinstance(numbers, dict) else type(numbers).__name__
        raise InputError(
            f"numbers must be a report's dictionary of format {FORMAT!r}, got {came!r}; create it "
            "with this version."
        )
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
        options=_options(numbers),
        steps="" if is_exact(numbers) else " open",
        sections="\n".join(
            parts.section(one.title, one.draw(numbers), one.key, one.help, one.folded(numbers))
            for one in SECTIONS
        ),
        about=parts.prose(_about(numbers)),
    )


def _asset(name: str) -> str:
    return resources.files("itergp.report.page").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def _data(value: Any) -> str:
    """JSON that no HTML parser can take for anything else; null where a number is not finite."""
    compact = json.dumps(_known(value), allow_nan=False, separators=(",", ":"))
    return compact.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _summary(numbers: Json) -> str:
    fitted = numbers.get("fitted") or {}
    facts = [
        f"{parts.count(fitted.get(key))} {key if fitted.get(key) != 1 else key[:-1]}"
        for key in ("rows", "features")
    ]
    facts += [f"{key} {parts.name(fitted[key])}" for key in ("kernel", "budget") if fitted.get(key)]
    return " · ".join(facts)


def _options(numbers: Json) -> str:
    targets = enumerate(numbers.get("targets") or [])
    return "".join(f'<option value="{i}">{parts.text(target.get("name"))}</option>' for i, target in targets)


def _about(numbers: Json) -> str:
    points = numbers.get("points") or {}
    return f"Measured on {points.get('source') or 'points'}. {points.get('note') or ''}"


def _unlearned(numbers: Json) -> str:
    """What to say where there is no trace of learning."""
    if part(numbers, "fitted", "learned", "ended") == "NOT_ASKED":
        return "Kernel and noise were given: nothing was learned."
    advice = part(numbers, "fitted", "learned", "advice") or ""
    return f"{advice} Model files do not keep the steps in between.".strip()


def _for_the_browser(numbers: Json) -> Json:
    """What the figures need, and the texts of the tiles at every position."""
    targets, count, path = numbers.get("targets") or [], positions(numbers), numbers.get("path") or {}
    drawn = [section for section in SECTIONS if section.in_browser]
    once = [name for section in drawn for name in section.numbers]
    of_target = ["metrics", *(name for section in drawn for name in section.of_target)]
    each = max(1, SLICES // max(1, len(targets)))
    return {
        "path": {
            "labels": [label(numbers, k) for k in range(count)],
            "spoken": [spoken(numbers, k) for k in range(count)],
            "actions": path.get("actions"),
            "share": path.get("share"),
        },
        "targets": [
            {key: target.get(key) for key in of_target}
            | {
                "name": str(target.get("name")),
                "tiles": [tiles(numbers, target, k) for k in range(count)],
                "slices": (target.get("slices") or [])[: each if i < SLICES else 0],
            }
            for i, target in enumerate(targets)
        ],
        "share": numbers.get("share"),
        "unlearned": _unlearned(numbers),
    } | {key: numbers.get(key) for key in once}

"""The parts of the page that need no JavaScript: verdict, tiles and tables as static HTML. All text goes
through `text`."""

import html
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from itergp.fitted import choice
from itergp.fitted.formats import MINUS, column, count, duration, finite, fixed_percent, memory, number
from itergp.report.page.text import Json, at, is_exact, part, positions, tiles

LARGE = 1e7  # whole numbers from here on may be due to rounding
LISTED = 20  # rows of a table before the rest is folded away
TILES = (
    ("r2", "R\N{SUPERSCRIPT TWO}"),
    ("rmse", "Typical error (RMSE)"),
    ("coverage", "95 % coverage"),
    ("crps", "CRPS"),
    ("nll", "NLL"),
    ("share", "Computational share"),
    ("time", "Time"),
    ("passes", "Passes"),
)


OF_COMPUTATION = ("share", "passes")  # tiles that say nothing where the fit is exact


def text(value: object) -> str:
    """Anything as text of an HTML page."""
    return html.escape(str(value), quote=True)


def prose(sentence: object) -> str:
    """A sentence in which a number stays on the line of its unit, and what stands in backticks is code."""
    kept = re.sub(r"(?<=\d) (?=(?:%|±|(?:s|ms|min|h|MB|GB)\b))", "\N{NO-BREAK SPACE}", text(sentence))
    return re.sub(r"`([^`<>]{1,60})`", r"<code>\1</code>", kept)


def name(value: object) -> str:
    """A name from the data: kept apart from the direction of the text around it, and cut in height where
    it is endless."""
    return f'<bdi class="name">{text(value)}</bdi>'


def verdict(numbers: Json) -> str:
    first, *others = numbers.get("verdict") or ["There is no verdict: the numbers say too little."]
    lines = [f'<p class="verdict">{prose(first)}</p>', *(f"<p>{prose(sentence)}</p>" for sentence in others)]
    return "\n".join([*lines, _more(numbers)])


def _more(numbers: Json) -> str:
    """What more compute would buy, unless the verdict has said it, and where that comes from."""
    if is_exact(numbers):
        return ""
    said = " ".join(map(str, numbers.get("verdict") or []))
    sentences = [str(part(numbers, "more", key) or "") for key in ("sentence", "from")]
    left = [prose(sentence) for sentence in sentences if sentence and sentence not in said]
    return f'<p class="more"><strong>More compute.</strong> {" ".join(left)}</p>' if left else ""


def warnings(numbers: Json) -> str:
    found = numbers.get("warnings") or []
    if not found:
        return ""
    items = "".join(f"<li>{prose(warning)}</li>" for warning in found)
    return (
        '<section class="warnings" aria-labelledby="h-warnings"><h2 '
        f'id="h-warnings">Warnings</h2><ul>{items}</ul></section>'
    )


def tile_grid(numbers: Json) -> str:
    """The tiles of the first target for the model as it predicts; the browser changes those that the
    slider moves."""
    first = (numbers.get("targets") or [{}])[0]
    shown = tiles(numbers, first, positions(numbers) - 1)
    moving = [
        f'<div class="tile" id="tile-{key}"><dt>{label}</dt><dd><span '
        f'class="value">{text(shown[key][0])}</span>'
        '<span class="spark" aria-hidden="true"></span><span '
        f'class="note">{text(shown[key][1])}</span></dd></div>'
        for key, label in TILES
        if not (is_exact(numbers) and key in OF_COMPUTATION)
    ]
    fitted = part(numbers, "fitted") or {}
    held = finite(fitted.get("memory_bytes"))
    # a file does not say what the process that fitted the model held
    fixed = "" if held is None else _tile("memory", "Memory", memory(held), "peak of the process")
    ended = _tile("ended", "How it ended", fitted.get("ended") or "not known", "")
    return f'<dl class="tiles">{"".join(moving)}{fixed}{ended}</dl>'


def _tile(key: str, label: str, value: str, note: str) -> str:
    below = f'<span class="note">{text(note)}</span>' if note else ""
    return (
        f'<div class="tile" id="tile-{key}"><dt>{label}</dt><dd><span '
        f'class="value">{prose(value)}</span>{below}</dd></div>'
    )


def all_targets(numbers: Json) -> str:
    """All targets at a glance; nothing where there is one."""
    targets = numbers.get("targets") or []
    if len(targets) < 2:
        return ""
    last = positions(numbers) - 1
    rows = [(target, tiles(numbers, target, last)) for target in targets]
    keys = ("r2", "rmse", "coverage", "crps", "nll")
    body = [[name(target.get("name")), *(text(shown[key][0]) for key in keys)] for target, shown in rows]
    return table("All targets", ["target", "R2", "RMSE", "95 % coverage", "CRPS", "NLL"], body)


# Figures: the script of the page draws into them, by their names.


@dataclass(frozen=True)
class Figure:
    name: str  # as the script knows it
    help: str
    title: str = ""
    legend: str = ""

    def html(self) -> str:
        title = f"<h3>{self.title}</h3>" if self.title else ""
        caption = f'<figcaption>{title}<p class="help">{self.help}</p>{self.legend}</figcaption>'
        return f'<figure id="{self.name}">\n{caption}\n<div class="panels"></div>\n</figure>'


def figures(*shown: Figure) -> Callable[[Json], str]:
    """One figure, or several beside each other."""
    together = "\n".join(figure.html() for figure in shown)
    content = together if len(shown) == 1 else f'<div class="pair">\n{together}\n</div>'
    return lambda numbers: content


BANDS = (
    "The band shows two standard deviations on each side. Blue is due to finite data, hatched green to "
    "finite computation; more compute removes only the green."
)
LEGEND = (
    ("26", '<path class="mean" d="M0 7H26"/>', "mean"),
    ("26", '<rect class="mathematical" width="26" height="14"/>', "mathematical"),
    ("26", '<rect class="computational" width="26" height="14"/>', "computational"),
    ("26", '<path class="noise" d="M0 7H26"/>', "with noise: a new observation"),
)
POINT = ("14", '<circle class="point" cx="7" cy="7" r="3"/>')


def bands(numbers: Json) -> str:
    """The function along lines, with a legend of what is drawn there."""
    near = (finite(part(numbers, "fitted", "features")) or 0.0) > 1
    marks = [*LEGEND, (*POINT, "data nearest to the line" if near else "data")]
    items = [
        f'<li><svg width="{width}" height="14" aria-hidden="true">{mark}</svg> {words}</li>'
        for width, mark, words in marks
    ]
    legend = '<ul class="legend">' + "\n".join(items) + "</ul>"
    return Figure("slices", BANDS, legend=legend).html()


def noise(numbers: Json) -> str:
    """What squared errors say about the noise, for each target; nothing where points are too few."""
    found = [
        (target.get("name"), part(target, "noise", "sentences")) for target in numbers.get("targets") or []
    ]
    several = len(found) > 1
    return "".join(
        (f"<h3>{name(of)}</h3>" if several else "") + "".join(f"<p>{prose(one)}</p>" for one in sentences)
        for of, sentences in found
        if sentences
    )


def interval_tables(numbers: Json) -> str:
    """For each target what Gaussian and conformal intervals contain; the browser shows the chosen one."""
    return "\n".join(_intervals(target, i, numbers) for i, target in enumerate(numbers.get("targets") or []))


def _intervals(target: Json, index: int, numbers: Json) -> str:
    found = part(target, "intervals") or {}
    tested = part(numbers, "points", "source") == "test data"
    head = ["level", "Gaussian holds", "Gaussian ends", "conformal ends", *["conformal holds"] * tested]
    levels = found.get("levels") or []
    body = [
        [
            fixed_percent(level, 0),
            fixed_percent(at(found.get("coverage"), k), 1),
            _ends(symmetric(at(found.get("gaussian"), k))),
            _ends(at(found.get("conformal"), k)),
            *[_share_or_dash(at(found.get("conformal_coverage"), k))] * tested,
        ]
        for k, level in enumerate(levels)
    ]
    if not body:
        return ""
    several = len(numbers.get("targets") or []) > 1
    title = f"<h3>{name(target.get('name'))}</h3>" if several else ""
    content = table("Intervals that hold", head, body) + f"<p>{prose(_factor(found))}</p>"
    return f'<div class="of-target" data-target="{index}">{title}{content}</div>'


def _factor(intervals: Json) -> str:
    """What held-out rows say about the standard deviations."""
    if finite(intervals.get("factor")) is None:
        return "There are no conformal intervals: the model's file does not say what holding out rows needs."
    units = f"{count(intervals.get('units'))} {'groups' if intervals.get('grouped') else 'rows'}"
    return (
        f"At {units} of the training data, held out, errors were {number(intervals.get('factor'), 3)} times "
        f"the predicted standard deviations (root mean square).{_too_few(intervals)}"
    )


def _too_few(intervals: Json) -> str:
    return " A dash: too few of them for the level." if None in (intervals.get("conformal") or []) else ""


def symmetric(reach: object) -> list[float] | None:
    value = finite(reach)
    return None if value is None else [-value, value]


def _ends(ends: Any) -> str:
    values = [finite(end) for end in ends] if isinstance(ends, list) and len(ends) == 2 else [None]
    if None in values:
        return choice.NONE
    return " to ".join(f"{value:+.2f}".replace("-", MINUS) for value in values)


def _share_or_dash(share: object) -> str:
    return choice.NONE if finite(share) is None else fixed_percent(share, 1)


def worst_tables(numbers: Json) -> str:
    """For each target the points that surprised the model most; the browser shows those of the chosen one."""
    about = part(numbers, "numbered", "about")
    shown = [_worst(target, i, numbers) for i, target in enumerate(numbers.get("targets") or [])]
    said = f'<p class="help">{prose(about)}</p>' if about and shown else ""
    return said + "\n".join(shown)


def _worst(target: Json, index: int, numbers: Json) -> str:
    worst = target.get("worst") or []
    features = list(dict.fromkeys(feature for point in worst for feature in (part(point, "features") or {})))
    head = [
        text(part(numbers, "numbered", "unit") or "row"),
        "observed",
        "predicted",
        "its sd",
        "error in sd",
        *map(name, features),
    ]
    # one scale for both, to compare them
    observed = column([point.get(key) for key in ("y", "mean") for point in worst])
    columns = [
        [count(_place(point)) for point in worst],
        observed[: len(worst)],
        observed[len(worst) :],
        [number(point.get("std")) for point in worst],
        [number(point.get("z"), 3) for point in worst],
        *(_feature([part(point, "features", feature) for point in worst]) for feature in features),
    ]
    body = [list(row) for row in zip(*columns, strict=True)]
    several = len(numbers.get("targets") or []) > 1
    title = f"<h3>{name(target.get('name'))}</h3>" if several else ""
    content = (
        table("The worst points", head, body) if worst else '<p class="quiet">No points were recorded.</p>'
    )
    return f'<div class="of-target" data-target="{index}">{title}{content}</div>'


def _place(point: Json) -> object:
    """In the file, if that is known."""
    return point.get("row") if point.get("place") is None else point.get("place")


def _feature(values: list[Any]) -> list[str]:
    """Numbers that are all whole, such as weekdays, have no decimals."""
    numbers = [None if isinstance(value, str) else value for value in values]
    whole = all(v == int(v) and abs(v) < LARGE for v in map(finite, numbers) if v is not None)
    shown = [count(value) for value in numbers] if whole else column(numbers)
    return [
        name(value) if isinstance(value, str) else text for value, text in zip(values, shown, strict=True)
    ]


def candidates(numbers: Json) -> str:
    """Which kernel was chosen, and among which; nothing where it was given."""
    found = numbers.get("candidates") or []
    if not found:
        return ""
    body = [list(map(text, row)) for row in choice.cells(found)]
    said = f"<p>Kernel: {prose(choice.sentence(found))}.</p>"
    if not body:
        return said
    reading = f'<p class="help">{choice.HELP}</p>'
    return reading + said + table("How the kernel was chosen", list(choice.HEAD), body)


def hyperparameters(numbers: Json) -> str:
    body = [
        [name(p.get("name")), number(p.get("value")), _range(p), _bound(p) + text(p.get("words") or "")]
        for p in numbers.get("hyperparameters") or []
    ]
    return (
        table("Hyper-parameters", ["name", "value", "within its range", "what it means"], body, "t-words")
        if body
        else ""
    )


def _bound(parameter: Json) -> str:
    return '<strong class="flag">at its bound</strong> ' if parameter.get("at_bound") else ""


def _range(parameter: Json) -> str:
    """A value between its bounds as a mark on a line, with the bounds at its ends."""
    low, value, high = (finite(parameter.get(key)) for key in ("low", "value", "high"))
    if low is None or high is None or value is None or not 0 < low < high or value <= 0:
        return ""
    x = 4 + 112 * min(1.0, max(0.0, math.log(value / low) / math.log(high / low)))
    return (
        f'<span class="range"><span class="quiet">{number(low, 2)}</span>'
        '<svg width="120" height="16" viewBox="0 0 120 16" aria-hidden="true"><path class="rule" d="M4 '
        '8H116M4 4V12M116 4V12"/>'
        f'<circle class="mark" cx="{x:.1f}" cy="8" r="4"/></svg><span '
        f'class="quiet">{number(high, 2)}</span></span>'
    )


def relevance(numbers: Json) -> str:
    rows = sorted(numbers.get("relevance") or [], key=lambda row: -(finite(row.get("relevance")) or 0.0))
    lengthscales = [row.get("lengthscale") for row in rows]
    some = any(finite(one) is not None for one in lengthscales)
    body = [
        [name(row.get("feature")), _bar(row.get("relevance")), *[_or_dash(one)] * some]
        for row, one in zip(rows, lengthscales, strict=True)
    ]
    head = ["feature", "relevance", *["lengthscale, in its units"] * some]
    if not body:
        return ""
    rest = len(body) - LISTED
    folded = (
        f"<details><summary>{rest} more "
        f"features</summary>{table('More features', head, body[LISTED:], 't-bars')}</details>"
    )
    return table("Relevance of the features", head, body[:LISTED], "t-bars") + (folded if rest > 0 else "")


def _or_dash(lengthscale: object) -> str:
    return choice.NONE if finite(lengthscale) is None else number(lengthscale, 3)


def _bar(share: object) -> str:
    v = min(1.0, max(0.0, finite(share) or 0.0))
    rail = '<rect class="rail" width="160" height="12" rx="2"/>'
    fill = f'<rect class="fill" width="{160 * v:.1f}" height="12" rx="2"/>'
    drawn = f'<svg width="160" height="12" viewBox="0 0 160 12" aria-hidden="true">{rail}{fill}</svg>'
    return f'<span class="bar">{drawn}<span>{fixed_percent(share, 0)}</span></span>'


def fitted(numbers: Json) -> str:
    """What was fitted and how, and what was done to the data, as a list of terms."""
    f = part(numbers, "fitted") or {}
    noise = [number(v, 3) for v in f.get("noise") or []]
    spent = {key: duration(part(f, "seconds", key)) for key in ("learn", "act", "total")}
    facts = [
        ("Rows", f"{count(f.get('rows'))}, of which {count(f.get('distinct_rows'))} have distinct inputs"),
        ("Features", count(f.get("features"))),
        ("Targets", ", ".join(map(str, f.get("targets") or []))),
        ("Prior mean", f.get("mean")),
        ("Kernel", f.get("kernel")),
        ("Noise variance", f"{', '.join(noise)} (in units of y squared)" if noise else None),
        ("Policy", f.get("policy")),
        ("Budget", f.get("budget")),
        ("Learning", f.get("learn")),
        ("Local actions per prediction", count(f.get("neighbours"))),
        ("Engine", f.get("engine")),
        ("Seconds", f"{spent['learn']} learning, {spent['act']} acting, {spent['total']} in all"),
        ("Points of this report", _points(numbers)),
        ("Scaled", part(numbers, "data", "scaled")),
        ("Merged", part(numbers, "data", "merged")),
        ("Dropped", part(numbers, "data", "dropped") or "Nothing."),
        ("Versions", ", ".join(f"{key} {value}" for key, value in (numbers.get("versions") or {}).items())),
    ]
    return (
        '<dl class="facts">'
        + "".join(f"<dt>{term}</dt><dd>{name(said)}</dd>" for term, said in facts if said)
        + "</dl>"
    )


def _points(numbers: Json) -> str:
    points = part(numbers, "points") or {}
    return (
        f"{count(points.get('count'))} from {points.get('source') or 'an unknown source'}. "
        f"{points.get('note') or ''}"
    )


def table(caption: str, head: list[str], body: list[list[str]], kind: str = "t-figures") -> str:
    """A table that scrolls by itself where the page is narrow; cells are HTML already."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
    whole = f'<table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll" role="region" aria-label="{text(caption)}" tabindex="0">{whole}</div>'


def section(title: str, content: str, key: str, help_text: str = "", folded: bool = False) -> str:
    """A titled part of the page; nothing where it has no content."""
    if not content:
        return ""
    reading = f'<p class="help">{help_text}</p>' if help_text else ""
    head = f'<h2 id="h-{key}">{title}</h2>'
    inner = (
        f"<details><summary>{head}</summary>{reading}{content}</details>"
        if folded
        else f"{head}{reading}{content}"
    )
    return f'<section class="block" aria-labelledby="h-{key}">{inner}</section>'

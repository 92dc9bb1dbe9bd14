"""Numbers as tables write them: decimal commas, thousands separators, percent signs.

`1,234` is 1234 where decimals are written with a point, and 1.234 where they are written with a comma. What a
file does is found in its first rows (`decimal_of`); where these do not tell, such a cell is no number.
"""

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from itergp.tables.cells import BOOLEANS, Cells, Text, is_no_value, is_number

POINT, COMMA = ".", ","
DECIMALS = (POINT, COMMA)
_SPACES = " '\u2019\u00a0\u202f"  # between thousands, as in 1 234 and 1'234
_DIGITS = "0123456789.,+-" + _SPACES
_END = r"(?:[eE][+-]?\d+)?"
_GROUPED = {
    POINT: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:([,{_SPACES}])\d{{3}})(?:\1\d{{3}})*(?:\.\d*)?"),
    COMMA: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:([.{_SPACES}])\d{{3}})(?:\1\d{{3}})*(?:,\d*)?"),
}
_WITH_COMMA = re.compile(rf"[+-]?(?:\d+(?:,\d*)?|,\d+){_END}")
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # a decimal, or thousands
_SHORT = re.compile(r"[+-]?\d{1,3}")  # written in the same way with thousands separators and without
MEANINGS = {
    "thousands": "thousands separators: {cell} is read as {value}",
    "truth": "truth values: {cell} is read as {value}",
    "percent": "percent signs: {cell} is read as {value}",
    "day first": "dates with the day first: {cell} is read as {value}",
    "offset": "times with an offset from UTC: they are converted to UTC",
}


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column as float64: NaN where a value is missing, infinite where a cell is no finite number."""

    values: np.ndarray
    foreign: tuple[int, str] | None = None  # the first row that has no number, and its cell
    unusual: dict[str, str] = field(default_factory=dict)  # how numbers are written, and what it means
    plain: str = ""  # the first number that is not 0 and has no percent sign


def numbers_of(cells: Cells, decimal: str | None = None) -> Numbers:
    """Cells as numbers. `decimal` is "." or ",", or None if it is not known."""
    unclear = decimal is None and mixes_thousands(cells)
    values = None if unclear else _all_numbers(cells, decimal)
    if values is not None:
        return Numbers(values, plain=_nonzero(*values[values != 0][:1]))
    values, foreign, unusual, plain = np.full(len(cells), np.nan), None, {}, ""
    for i, cell in enumerate(cells):
        undecided = unclear and is_undecided(cell)
        if not undecided and decimal != COMMA and _is_finite(cell):  # as most of them
            values[i] = float(cell)
            plain = plain or _nonzero(values[i])
            continue
        found = None if undecided else number(cell, decimal)
        if found is not None:
            values[i], how = found
            plain = plain or _nonzero(values[i]) * (how not in ("percent", "truth"))
            if how and how not in unusual:
                unusual[how] = MEANINGS[how].format(cell=cell.strip(), value=f"{values[i]:.15g}")
        elif not is_no_value(cell):
            values[i] = math.inf
            foreign = foreign or (i, cell.strip())
    return Numbers(values, foreign, unusual, plain)


def _nonzero(value: float = 0.0) -> str:
    return f"{value:.15g}" if value else ""


def number(cell: str, decimal: str | None) -> tuple[float, str] | None:
    """The finite number in a cell, and what is unusual about it; None if there is none."""
    text = cell.strip()
    if text.endswith("%"):
        found = number(text[:-1], decimal)
        # divided as decimals are, so that 12.5 % is 0.125 to the bit
        return None if found is None or text[:-1].endswith("%") else (found[0] / 100.0, "percent")
    value, how = math.nan, ""
    if text.lower() in BOOLEANS:
        return float(BOOLEANS[text.lower()]), "truth"
    if decimal == COMMA:
        if _WITH_COMMA.fullmatch(text):
            value = float(text.replace(",", "."))
    elif is_number(text):
        value = float(text)
    if math.isnan(value) and is_grouped(text, decimal):
        digits = re.sub(rf"[{'.' if decimal == COMMA else ','}{_SPACES}]", "", text)
        value, how = float(digits.replace(",", ".")), "thousands"
    return (value, how) if math.isfinite(value) else None


def is_grouped(text: str, decimal: str | None) -> bool:
    """Whether it has thousands separators."""
    if decimal is None and _EITHER.fullmatch(text):
        return False
    return _GROUPED[decimal or POINT].fullmatch(text) is not None


def is_undecided(cell: str) -> bool:
    """Whether it is a number with a comma or a point that may be a decimal one, or separate thousands."""
    return _EITHER.fullmatch(_bare(cell)) is not None


def mixes_thousands(cells: Cells) -> bool:
    """Whether points may be decimal ones for some cells and thousands beside others: all have three digits
    after them, as in 170.154 and 9.200, and there are cells such as 950 without. Where all cells have three
    digits after a point, a wrong reading only scales the column."""
    short = False
    pointed = False
    for cell in cells:
        text = _bare(cell)
        if "." not in text:
            short = short or _SHORT.fullmatch(text) is not None
        elif _EITHER.fullmatch(text):
            pointed = True
        elif is_number(text):
            return False
    return short and pointed


def _bare(cell: str) -> str:
    return cell.strip().rstrip("% ")


def _is_finite(cell: str) -> bool:
    return is_number(cell) and math.isfinite(float(cell))


def unit_of(cell: str) -> str:
    """What stands before or after a number, as in $5, -$5, 5 EUR or 5 kg; "" if that is nothing. Letters
    beside digits are no unit: A12 is a name."""
    text = cell.strip()
    unit = text.strip(_DIGITS)
    before, _, after = text.partition(unit) if unit else ("", "", "")
    rest = before.strip(_SPACES) + after.strip(_SPACES)
    apart = before.endswith(tuple(_SPACES)) or after.startswith(tuple(_SPACES))
    if (before.strip("+-" + _SPACES) and after) or not (apart or _has_sign(unit)):
        return ""
    known = ("," in rest and is_undecided(rest)) or any(
        number(rest, decimal) is not None for decimal in DECIMALS
    )
    return unit if known else ""


def _has_sign(text: str) -> bool:
    """Of a currency."""
    return any(unicodedata.category(letter) == "Sc" for letter in text)


def decimal_of(columns: Iterable[Cells], otherwise: str | None = None) -> str | None:
    """How decimals are written in a file, by columns of its first rows that hold nothing but numbers; None if
    these do not tell, unless there is something to assume `otherwise`."""
    votes = {vote for cells in columns for vote in _votes(cells)}
    if POINT in votes:
        return POINT
    return COMMA if COMMA in votes else otherwise


def _votes(cells: Cells) -> set[str]:
    """What cells of a column of numbers say, if all of them are numbers in one way of writing."""
    known = [cell.strip() for cell in cells if not is_no_value(cell)]
    if not any("," in cell or "." in cell for cell in known):
        return set()
    possible = {d for d in DECIMALS if all(number(cell, d) is not None for cell in known)}
    return possible if len(possible) == 1 else set()


def _all_numbers(cells: Cells, decimal: str | None) -> np.ndarray | None:
    """All at once, or None; Python reads 1_000 as a number, which tables do not mean."""
    if not isinstance(cells, Text):
        if decimal == COMMA:
            if any("." in cell for cell in cells):
                return None
            cells = [cell.replace(",", ".") for cell in cells]
    elif decimal == COMMA:
        return None
    try:
        values = cells.numbers() if isinstance(cells, Text) else np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() and "_" not in "".join(cells) else None

"""Dates as numbers: days since 1970 while a table is read, then the parts of them that a model uses.

ISO dates and times (2024-01-31, 2024-01-31T12:30:05.25+01:00) are dates. 31.01.2024 and 31/01/2024 are, where
a column shows that the day comes first: some day is above 12, and nothing in the place of the month is.
"""

import itertools
import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.tables.cells import Cells, is_no_value
from itergp.tables.numbers import MEANINGS, Numbers

DAY = 86_400_000_000  # microseconds
EPOCH = datetime(1970, 1, 1).toordinal()
AUTO = "auto"
PARTS = {
    "days": "days since {origin}",
    "yearday": "day of year",
    "weekday": "weekday",
    "hour": "hour",
}
MONTHS = 12
YEAR, FORTNIGHT = 366, 14  # days that dates must span before a part of them says something new
_ISO = re.compile(
    r"\d{4}([-/])\d{2}\1\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
_DAY_FIRST = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})([T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)?")
_DATE_LIKE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*")
_MONTH = r"(?:jan|feb|m[aä]r|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zé]*\.?"
_WITH_MONTH = re.compile(
    rf"(?:\w+,? )?(?:{_MONTH} \d{{1,2}},? |\d{{1,2}}\.?[ -]{_MONTH}[ -])\d{{2,4}}\b.*", re.IGNORECASE
)


@dataclass(frozen=True)
class Dates:
    """What a column of dates becomes: parts of each date, one input each."""

    parts: tuple[str, ...]
    origin: int  # the day from which days are counted, in days since 1970
    day_first: bool = False  # whether 01.02.2024 is in February

    def names(self, column: str) -> list[str]:
        return [f"{column}: {PARTS[part].format(origin=day(self.origin))}" for part in self.parts]

    def fill(self, out: np.ndarray, days: np.ndarray) -> None:
        """`out` is (rows, parts)."""
        for k, part in enumerate(self.parts):
            out[:, k] = _PART[part](days, self.origin)


def days_of(cells: Cells, day_first: bool = False) -> Numbers:
    """Cells as days since 1970."""
    values, foreign, unusual = np.full(len(cells), np.nan), None, {}
    known: dict[str, float | None] = {}
    for i, cell in enumerate(cells):
        if cell not in known:
            known[cell] = days(cell, day_first)
        found = known[cell]
        if found is not None:
            values[i] = found
        elif not is_no_value(cell):
            values[i] = math.inf
            foreign = foreign or (i, cell.strip())
    if any(found is not None and _has_offset(cell) for cell, found in known.items()):
        unusual["offset"] = MEANINGS["offset"]
    if day_first:
        turned = ((cell, found) for cell, found in known.items() if found is not None and days(cell) is None)
        for cell, found in itertools.islice(turned, 1):
            value = day(math.floor(found))
            unusual["day first"] = MEANINGS["day first"].format(cell=cell.strip(), value=value)
    return Numbers(values, foreign, unusual)


def days(cell: str, day_first: bool = False) -> float | None:
    """Days since 1970 in UTC, to the microsecond; None if it is no date."""
    text = cell.strip()
    parts = _DAY_FIRST.fullmatch(text) if day_first else None
    if parts is not None:
        text = f"{parts[4]}-{parts[3]:0>2}-{parts[1]:0>2}{parts[5] or ''}"
    if not _ISO.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:  # the 31st of February
        return None
    offset = moment.utcoffset()
    if offset is not None:
        moment = moment.replace(tzinfo=None) - offset
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return ((moment.toordinal() - EPOCH) * DAY + seconds * 1_000_000 + moment.microsecond) / DAY


def are_dates(cells: Cells, day_first: bool = False) -> bool:
    """Whether most of these cells of a column are dates; then those that are none are errors in it."""
    known = [cell for cell in cells if not is_no_value(cell)]
    return 2 * sum(days(cell, day_first) is not None for cell in known) > len(known)


def have_day_first(cells: Cells) -> bool:
    """Whether these are dates that can only be read with the day first."""
    parts = [found for found in (_DAY_FIRST.fullmatch(cell.strip()) for cell in cells) if found is not None]
    first, second = (max((int(one[k]) for one in parts), default=0) for k in (1, 3))
    return first > MONTHS >= second and are_dates(cells, day_first=True)


def is_date_like(cell: str) -> bool:
    return any(form.fullmatch(cell) for form in (_DATE_LIKE, _WITH_MONTH))


def day(number: int) -> str:
    """As 2024-01-31."""
    return str(np.datetime64(number, "D"))


def chosen(days: np.ndarray, asked: str = AUTO, day_first: bool = False) -> Dates:
    """The parts that were asked for, or those that can say something about these days."""
    known = days[np.isfinite(days)]
    origin = int(np.floor(known.min()))
    if asked != AUTO:
        return Dates(parts_of(asked), origin, day_first)
    span, times = known.max() - known.min(), known - np.floor(known)
    says = {
        "days": True,
        "yearday": span >= YEAR,
        "weekday": span >= FORTNIGHT and len(np.unique(_weekday(known, 0))) > 1,
        "hour": bool((times != times[0]).any()),
    }
    return Dates(tuple(part for part in PARTS if says[part]), origin, day_first)


def parts_of(asked: str) -> tuple[str, ...]:
    """The parts named by an option, checked."""
    found = tuple(dict.fromkeys(part.strip() for part in asked.split(",")))
    for part in found:
        if part not in PARTS:
            raise InputError(
                f"--dates is {asked!r}; expected {AUTO}, or some of {', '.join(PARTS)}, separated by commas. "
                "--drop leaves a column out."
            )
    return found


def from_json(value: Any) -> Dates | None:
    """Checked; KeyError, TypeError or ValueError if it is not what was stored."""
    if value is None:
        return None
    parts, origin = tuple(value["parts"]), value["origin"]
    if not parts or not set(parts) <= set(PARTS) or not isinstance(origin, int) or abs(origin) > 10**7:
        raise ValueError(f"dates {value!r}")
    return Dates(parts, origin, value.get("day_first", False) is True)


def _has_offset(cell: str) -> bool:
    return re.search(r":\d{2}.*(Z|[+-]\d{2}:?(\d{2})?)$", cell.strip()) is not None


def _since(days: np.ndarray, origin: int) -> np.ndarray:
    return days - origin


def _yearday(days: np.ndarray, origin: int) -> np.ndarray:
    whole = np.floor(days).astype("datetime64[D]")
    return (whole - whole.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64) + 1.0


def _weekday(days: np.ndarray, origin: int) -> np.ndarray:
    """Monday is 1, Sunday is 7; 1970 began with a Thursday."""
    return (np.floor(days) + 3.0) % 7.0 + 1.0


def _hour(days: np.ndarray, origin: int) -> np.ndarray:
    """With its fraction, to a few milliseconds: the same time on two days is the same number."""
    return np.round((days - np.floor(days)) * 24.0, 6)


_PART = {"days": _since, "yearday": _yearday, "weekday": _weekday, "hour": _hour}


def arrow_days(pa: Any, column: Any) -> np.ndarray:
    """Of a Parquet column of dates or times, to the microsecond; those with a time zone are in UTC."""
    moments = column.cast(pa.timestamp("us"), safe=False).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / DAY)


def is_arrow_date(pa: Any, kind: Any) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)

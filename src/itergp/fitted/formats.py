"""Numbers as text: in sentences, on the page of a report, on the command line. All of them are here."""

import math
from collections.abc import Sequence

MINUS = "\N{MINUS SIGN}"
PERCENT = "\N{NO-BREAK SPACE}%"
UNKNOWN = "not known"


# In sentences: as many digits as say something.


def percent(share: float) -> str:
    """97 %, 1.3 %, 0.02 %."""
    value = 100.0 * share
    if 0 < abs(value) < 0.01:
        return "below 0.01 %"
    digits = 0 if value == 0 or abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    return f"{value:.{digits}f} %"


def brief(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def beside(value: float, spread: float) -> str:
    """Four digits, or as many as it takes to a thousandth of the spread of its like."""
    close = math.floor(math.log10(abs(value))) - math.floor(math.log10(spread)) if value and spread > 0 else 0
    return f"{value:.{min(15, 4 + max(0, close))}g}"


def counted(number: int, one: str, several: str | None = None) -> str:
    """1 pass, 2,000 passes."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def passes(number: int) -> str:
    return counted(number, "pass", "passes")


def roughly(seconds: float) -> str:
    """An approximate duration, in words."""
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"


# In tiles and tables, where numbers stand below each other: fixed decimals, and "not known" where there is
# no number.


def finite(value: object) -> float | None:
    """The value as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def column(values: Sequence[object], digits: int = 4) -> list[str]:
    """Numbers that are compared: with more digits where they differ by little, as years do."""
    found = [v for v in map(finite, values) if v is not None]
    largest, spread = max(map(abs, found), default=0.0), max(found, default=0.0) - min(found, default=0.0)
    close = (
        math.floor(math.log10(largest)) - math.floor(math.log10(spread))
        if largest > 0 and 0 < spread < math.inf
        else 0
    )
    return [number(value, min(15, digits + max(0, close - 1))) for value in values]


def number(value: object, digits: int = 4) -> str:
    """With `digits` significant digits, thousands separated; a power of ten below 0.001, and where digits
    end above 10^6."""
    v = finite(value)
    if v is None:
        return UNKNOWN
    if v == 0:
        return "0"
    v = float(f"{v:.{digits - 1}e}")  # which decides how it is written: 0.00099999 is 0.0010
    if not 1e-3 <= abs(v) < max(1e6, 10.0**digits):
        return (
            f"{v:.{digits - 1}e}".replace("e-0", "e-")
            .replace("e+0", "e")
            .replace("e+", "e")
            .replace("-", MINUS)
        )
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(v))))
    return f"{v:,.{decimals}f}".replace("-", MINUS)


def count(value: object) -> str:
    """A whole number where it is one, with thousands separated."""
    v = finite(value)
    if v is None:
        return UNKNOWN
    return f"{int(v):,}".replace("-", MINUS) if v == int(v) else number(v, 3)


def with_error(value: object, error: object) -> str:
    """0.013 ± 0.004: to the first digit of its error."""
    v, e = finite(value), finite(error)
    if v is None or e is None or not 0 < e < math.inf:
        return number(v, 2)
    decimals = max(0, -math.floor(math.log10(e)))
    return f"{v:,.{decimals}f} ± {e:,.{decimals}f}".replace("-", MINUS)


def fixed_percent(value: object, decimals: int = 1) -> str:
    v = finite(value)
    return UNKNOWN if v is None else f"{100 * v:.{decimals}f}{PERCENT}".replace("-", MINUS)


def duration(seconds: object) -> str:
    v = finite(seconds)
    if v is None:
        return UNKNOWN
    if v < 100:
        return f"{v:.1f} s" if v >= 0.1 or v == 0 else f"{1000 * v:.1f} ms"
    minutes, rest = divmod(round(v), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def memory(size: object) -> str:
    v = finite(size)
    if v is None:
        return UNKNOWN
    return f"{v / 1e9:.2f} GB" if v >= 1e9 else f"{v / 1e6:.0f} MB"

"""Numbers with the digits that say something: five of each, and five beyond the spread of those that stand
together."""

import math
from typing import Any

import numpy as np

DIGITS = 5
ALL = 330  # decimals: no number has more


def rounded(value: Any) -> Any:
    """Plain JSON values: null where a number is not finite, text as it is.

    A number by itself has five digits. Those of an array, or of a column of a table (a list of
    dictionaries of single values), have as many as it takes to tell them apart: years, or pressures around
    101,325, differ in their last digits only.
    """
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        if _is_table(value):
            columns = {str(key): rounded([row[key] for row in value]) for key in value[0]}
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return _each(value, decimals(value))
    return _plain(value, None)


def decimals(values: Any) -> int:
    """How many it takes to write the values to 10^-5 of their spread, which is that of their middle half:
    one outlier does not count. All of them where nothing is spread."""
    found = np.array([v for v in _flat(values) if isinstance(v, float) and math.isfinite(v)])
    if not found.size:
        return ALL
    low, high = np.quantile(found, [0.25, 0.75], method="lower")
    spread = float(high - low) or float(np.ptp(found))
    return DIGITS - math.floor(math.log10(spread)) if 0 < spread < math.inf else ALL


def _each(value: Any, places: int | None) -> Any:
    if isinstance(value, list | tuple):
        return [_each(part, places) for part in value]
    if isinstance(value, dict | np.ndarray):
        return rounded(value)
    return _plain(value, places)


def _plain(value: Any, places: int | None) -> Any:
    """The finer of five digits and so many decimals."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    own = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
    return float(f"{value:.{DIGITS}g}") if places is None or own >= places else round(value, places)


def _flat(value: Any) -> list[Any]:
    return [v for item in value for v in _flat(item)] if isinstance(value, list | tuple) else [value]


def _is_table(value: Any) -> bool:
    """Several dictionaries of the same keys, with single values, or dictionaries of such."""
    rows = [row for row in value if isinstance(row, dict)]
    if len(rows) < max(1, len(value)) or any(row.keys() != rows[0].keys() for row in rows):
        return False
    cells = [cell for row in rows for cell in row.values()]
    singles = [c for cell in cells for c in (cell.values() if isinstance(cell, dict) else [cell])]
    return not any(isinstance(cell, dict | list | tuple | np.ndarray) for cell in singles)

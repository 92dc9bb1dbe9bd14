"""Numbers with the digits that say something: five of each, and five beyond the spread of those that stand
together."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

DIGITS = 5
ALL = 330  # decimals: no number has more


class Table(list[dict[str, Any]]):
    """Rows with the same keys: the numbers of a column stand together, not those of a row."""


def rounded(value: Any) -> Any:
    """Plain JSON values: null where a number is not finite, text as it is.

    A number by itself has five digits. Those of an array, a list, or a column of a `Table`, have as many as
    it takes to tell them apart: years, or pressures around 101,325, differ in their last digits only.
    """
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, Table):
        return _by_column(value)
    if isinstance(value, np.ndarray | list | tuple):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return _each(items, decimals(items))
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


def _by_column(table: Table) -> list[dict[str, Any]]:
    names = list(table[0]) if table else []
    cells = {name: [row[name] for row in table] for name in names}
    columns = {
        name: _by_column(Table(cells[name])) if isinstance(cells[name][0], dict) else rounded(cells[name])
        for name in names
    }
    return [{str(name): columns[name][i] for name in names} for i in range(len(table))]


def _each(value: Any, places: int | None) -> Any:
    if isinstance(value, list | tuple) and not isinstance(value, Table):
        return [_each(part, places) for part in value]
    if isinstance(value, dict | Table | np.ndarray):
        return rounded(value)
    return _plain(value, places)


def _plain(value: Any, places: int | None) -> Any:
    """The finer of five digits and the given number of decimals."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    own = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
    return float(f"{value:.{DIGITS}g}") if places is None or own >= places else round(value, places)


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value

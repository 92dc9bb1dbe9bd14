"""Data frames of pandas, polars or Arrow as tables: a model that was fitted to a file knows what to do with
them."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.tables.cells import Column, Plain
from itergp.tables.dates import DAY
from itergp.tables.layout import Layout
from itergp.tables.numbers import COMMA, POINT
from itergp.tables.table import ANY_DATES, NUMBERS, TEXT, Head, Table

NONE = ("NAType", "NaTType", "NoneType")  # of pandas, whose names are known without importing it


def frame_inputs(layout: Layout, frame: Any, name: str = "X") -> np.ndarray:
    """The model's inputs from a data frame with the columns of the table; rows that have none are refused."""
    names = tuple(map(str, frame_columns(frame)))
    head = Head(Path(name), names, True, "row", decimal=layout.decimal)
    used = layout.columns(head)
    columns = tuple(
        _cells(frame[column], used[j], layout.decimal) if j in used else []
        for j, column in enumerate(frame_columns(frame))
    )
    rows = max(map(len, columns), default=0)
    table = Table(**vars(head), columns=columns, lines=range(rows))
    X, missing, _ = layout.rows(table, "It was one in the fit.")
    if missing.any():
        raise InputError(
            f"{name} has missing values in {missing.sum()} rows, the first is row {missing.argmax()}; the "
            "model was fitted with --missing drop, so drop these rows too."
        )
    return X


def frame_columns(frame: Any) -> list[Any]:
    """Arrow's, or a frame's."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def is_frame(X: Any) -> bool:
    return hasattr(X, "column_names") or (hasattr(X, "columns") and hasattr(X, "__getitem__"))


def _cells(series: Any, use: str, decimal: str | None) -> Column:
    """Numbers as such, dates as days since 1970; all that is not what it is used as, as text. Long integers
    that are categories stay what they are."""
    array = np.asarray(series)
    kind = array.dtype.kind
    if kind == "M" and use in ANY_DATES:
        moments = array.astype("datetime64[us]")
        return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / DAY)
    if (kind in "iuf" and use == NUMBERS) or (kind == "f" and use == TEXT):
        return array.astype(np.float64)
    if kind == "M":
        return [str(value) for value in array]
    values, comma = array.tolist(), decimal == COMMA and use == NUMBERS
    if not any(isinstance(value, str) for value in values):  # numbers as objects
        return Plain(_text(value, comma=False) for value in values)
    return [_text(value, comma) for value in values]


def _text(value: Any, comma: bool) -> str:
    """What is no text yet is written as the text of the fit was: 1.234 would else be read as 1234."""
    absent = type(value).__name__ in NONE or (isinstance(value, float) and math.isnan(value))
    if absent or isinstance(value, str):
        return "" if absent else value
    return str(value).replace(POINT, COMMA) if comma else str(value)

"""Values as text that fits a screen: the `repr` of everything that holds arrays."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

FEW = 6  # numbers of a list that are shown
MOST = 240  # characters of a value inside another one


def number(value: float) -> str:
    """365.25 as it is; 2.2496396829 with four digits."""
    exact = f"{value:.6g}"
    return exact if float(exact) == value else f"{value:.4g}"


def values(array: Any) -> str:
    """A number, a few of them, or where they lie: [0.3, 1.5], <300 x 2 numbers from -3.1 to 2.9>."""
    found = np.asarray(array)
    if found.dtype.kind not in "fiu":
        return f"<{_shape(found)} values>" if found.size > FEW else str(found.tolist())
    if found.ndim == 0:
        return number(float(found))
    if found.ndim == 1 and found.size <= FEW:
        return f"[{', '.join(number(float(x)) for x in found)}]"
    ends = f" from {number(float(found.min()))} to {number(float(found.max()))}" if found.size else ""
    return f"<{_shape(found)} numbers{ends}>"


def value(any_value: Any) -> str:
    """Whatever it is, in a line or two."""
    if isinstance(any_value, np.ndarray | np.generic):
        return values(any_value)
    if isinstance(any_value, float):
        return number(any_value)
    if isinstance(any_value, tuple | list | dict) and len(any_value) > FEW:
        return f"<{len(any_value):,} values>"
    if isinstance(any_value, tuple | list):
        opened, closed = "()" if isinstance(any_value, tuple) else "[]"
        return opened + ", ".join(map(value, any_value)) + closed
    text = repr(any_value)
    if "\n" in text:  # of what takes several lines, its title
        text = f"<{text.splitlines()[0]}>"
    return text if len(text) <= MOST else text[: MOST - 4] + " ..."


def call(instance: Any) -> str:
    """A dataclass as it is called, each value in brief: Matern32(lengthscale=0.3)."""
    shown = [f for f in fields(instance) if f.repr] if is_dataclass(instance) else []
    given = ", ".join(f"{f.name}={value(getattr(instance, f.name, None))}" for f in shown)
    return f"{type(instance).__name__}({given})"


def lines(title: str, **parts: str) -> str:
    """A title, and one indented line for each part."""
    width = max(map(len, parts), default=0)
    return "\n".join([title, *(f"  {name:{width}}  {text}" for name, text in parts.items())])


def counted(n: int, one: str) -> str:
    """1 row, 2,000 rows."""
    return f"{n:,} {one if n == 1 else one + ('es' if one.endswith('s') else 's')}"


def keep_repr(cls: type) -> None:
    """Of a class derived from one with a `repr`: that, where `@dataclass` would write another."""
    if "__repr__" not in vars(cls):
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]


def _shape(found: np.ndarray) -> str:
    return " x ".join(f"{size:,}" for size in found.shape)

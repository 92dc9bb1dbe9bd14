"""The parameters of a kernel by path, gradients by path, and copies of a kernel with other parameters."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from itergp.prior.kernel import Kernel

Slopes = dict[str, Any]  # a gradient, by parameter path


def parameters(kernel: Kernel, prefix: str = "") -> dict[str, Any]:
    """Every parameter by its path, such as {"kernel.lengthscale": 0.3, "scale": 2.0}."""
    found: dict[str, Any] = {}
    for part in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, part.name)
        if isinstance(value, Kernel):
            found |= parameters(value, f"{prefix}{part.name}.")
        elif not part.metadata.get("static"):
            found[prefix + part.name] = value
    return found


def with_parameters(kernel: Kernel, values: dict[str, Any], check: bool = True) -> Kernel:
    """The kernel with some parameters replaced; `check=False` accepts any values, such as gradients."""
    changes: dict[str, Any] = {}
    for part in fields(kernel):  # type: ignore[arg-type]
        inner = {path.partition(".")[2]: v for path, v in values.items() if path.startswith(part.name + ".")}
        if inner:
            changes[part.name] = with_parameters(getattr(kernel, part.name), inner, check)
        elif part.name in values:
            changes[part.name] = values[part.name]
    if check:
        return replace(kernel, **changes)  # type: ignore[type-var]
    copy = object.__new__(type(kernel))
    for part in fields(kernel):  # type: ignore[arg-type]
        object.__setattr__(copy, part.name, changes.get(part.name, getattr(kernel, part.name)))
    return copy


def no_slopes(kernel: Kernel) -> Slopes:
    return {path: np.zeros(np.shape(value)) for path, value in parameters(kernel).items()}


def added(*all_slopes: Slopes) -> Slopes:
    """Sum of gradients."""
    return {path: sum(slopes[path] for slopes in all_slopes) for path in all_slopes[0]}

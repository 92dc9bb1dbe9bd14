"""Kernels, means and policies as trees of names and numbers, and back by a table of classes: no code."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.linalg.low_rank import DiagonalPlusLowRank
from itergp.prior import kernel, linear, means, stationary
from itergp.solver import policies, schedule, stopping
from itergp.storage.files import Malformed, Tensors, array_digest

Put = Callable[[np.ndarray, str], Any]  # stores an array under a name, and returns what to write in its place
SMALL = 64  # larger arrays are not written out in descriptions


def _classes(module: ModuleType, base: type) -> dict[str, type]:
    own = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base)
    }
    return {name: value for name, value in own.items() if value.__module__ == module.__name__}


# Every class of these modules, by name: a class added there can be stored.
LIBRARY: dict[str, type] = {
    **_classes(kernel, kernel.Kernel),
    **_classes(stationary, kernel.Kernel),
    **_classes(linear, kernel.Kernel),
    **_classes(means, means.Mean),
    **_classes(policies, policies.Policy),
    **_classes(schedule, policies.Policy),
    **_classes(stopping, stopping.StoppingCriterion),
    "DiagonalPlusLowRank": DiagonalPlusLowRank,
}


def table(own: Iterable[type] = ()) -> dict[str, type]:
    """The classes that a file may name: the library's and the caller's own."""
    known = dict(LIBRARY)
    for cls in own:
        if not (isinstance(cls, type) and is_dataclass(cls)):
            raise InputError(f"classes has {cls!r}; expected dataclasses, such as your own kernels.")
        if cls.__name__ in LIBRARY and LIBRARY[cls.__name__] is not cls:
            raise InputError(
                f"classes has a class named {cls.__name__}, which is a name of this library; rename it."
            )
        known[cls.__name__] = cls
    return known


def putting(tensors: Tensors) -> Put:
    """Arrays go into `tensors`, under the names of their fields, such as "kernel.lengthscale"."""

    def put(array: np.ndarray, name: str) -> str:
        tensors[name] = array
        return name

    return put


def encode(value: Any, put: Put, name: str) -> Any:
    """`value` as JSON; `put` stores its arrays. InputError, with its path, for what cannot be stored."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), put, name)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, list | tuple):
        return _encode_sequence(value, put, name)
    if isinstance(value, dict):
        pairs = [
            [encode(key, put, name), encode(item, put, f"{name}[{key!r}]")] for key, item in value.items()
        ]
        return {"dict": pairs}
    if is_dataclass(value) and not isinstance(value, type):
        inside = {
            part.name: encode(getattr(value, part.name), put, f"{name}.{part.name}")
            for part in fields(value)
            if part.init
        }
        return {"type": _class_name(type(value), name), "fields": inside}
    if hasattr(value, "__array__"):
        return _encode_array(np.asarray(value), put, name)
    what = getattr(value, "__qualname__", getattr(value, "__name__", type(value).__qualname__))
    raise InputError(
        f"{name} is {what}, which cannot be stored: files hold numbers, names and dataclasses of them, but "
        "no code. Write it as a class of its own, a frozen dataclass, and give that class to load(path, "
        "classes=[...])."
    )


def _class_name(cls: type, name: str) -> str:
    if LIBRARY.get(cls.__name__, cls) is not cls:
        raise InputError(
            f"{name} is of a class named {cls.__name__}, which is a name of this library; rename the class."
        )
    return cls.__name__


def _encode_array(array: np.ndarray, put: Put, name: str) -> Any:
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise InputError(
            f"{name} is an array of dtype {array.dtype}, which cannot be stored; expected real numbers."
        )
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        # the memory order affects how products round
        return {"array": put(array.T, name), "transposed": True}
    return {"array": put(array, name)}


def _encode_sequence(value: list | tuple, put: Put, name: str) -> Any:
    kind = "list" if isinstance(value, list) else "tuple"
    if value and all(isinstance(item, np.ndarray) and item.ndim == 1 for item in value):
        dtypes = {item.dtype for item in value}
        if len(dtypes) == 1:  # groups of rows: two arrays instead of thousands
            lengths = np.array([item.size for item in value])
            return {
                kind: _encode_array(np.concatenate(value), put, name),
                "lengths": _encode_array(lengths, put, f"{name}.lengths"),
            }
    return {kind: [encode(item, put, f"{name}[{i}]") for i, item in enumerate(value)]}


def decode(spec: Any, tensors: Tensors, known: dict[str, type]) -> Any:
    """The value that `encode` was given."""
    if not isinstance(spec, dict):
        return spec
    if "float" in spec:
        return float(spec["float"])
    if "array" in spec:
        array = tensors[spec["array"]]
        return array.T if spec.get("transposed") else array
    if "dict" in spec:
        return {decode(key, tensors, known): decode(item, tensors, known) for key, item in spec["dict"]}
    if "type" in spec:
        return _decode_object(spec, tensors, known)
    kind = "list" if "list" in spec else "tuple"
    if "lengths" in spec:
        items = _pieces(decode(spec[kind], tensors, known), decode(spec["lengths"], tensors, known))
    else:
        items = [decode(item, tensors, known) for item in spec[kind]]
    return items if kind == "list" else tuple(items)


def _pieces(whole: np.ndarray, lengths: np.ndarray) -> list[Any]:
    """Split the array into pieces of these lengths. Shorter integers could request far more pieces than the
    file has bytes."""
    if lengths.dtype != np.int64 or lengths.ndim != 1 or whole.ndim != 1:
        raise Malformed(
            f"a list has lengths of dtype {lengths.dtype}, with {lengths.ndim} axes; expected int64, one "
            "axis."
        )
    ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    if lengths.min(initial=0) < 0 or ends[-1] != whole.size:
        raise Malformed(f"a list of {whole.size} numbers has lengths that add up to {ends[-1]}.")
    return [whole[a:b] for a, b in pairwise(ends)]


def _decode_object(spec: Any, tensors: Tensors, known: dict[str, type]) -> Any:
    name, inside = spec["type"], {key: decode(item, tensors, known) for key, item in spec["fields"].items()}
    if name not in known:
        raise Malformed(
            f"the file needs the class {name}, which is not part of this library; use load(path, "
            f"classes=[{name}])."
        )
    if known[name] is schedule.Schedule:
        return schedule.Schedule(*inside["entries"])
    return known[name](**inside)


def describe(value: Any, name: str) -> Any:
    """`value` as JSON for comparison: small arrays as numbers, others by their digest; functions by name."""

    def put(array: np.ndarray, _: str) -> Any:
        return array.tolist() if array.size <= SMALL and np.isfinite(array).all() else array_digest(array)

    try:
        return encode(value, put, name)
    except InputError:
        return {"function": getattr(value, "__qualname__", type(value).__qualname__)}


def json_value(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """`value` itself, if it survives a round trip through JSON."""
    try:
        same = isinstance(value, dict) and json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} cannot be written as JSON ({error}); expected text, finite numbers, lists, dictionaries."
        ) from None
    if not same:
        raise InputError(
            f"{name} changes in a round trip through JSON; expected a dictionary with text keys, no tuples."
        )
    return value

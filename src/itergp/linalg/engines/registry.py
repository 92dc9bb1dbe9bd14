"""Which engines exist, how they are loaded, and which one is used."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from itergp.errors import InputError, KernelError, MemoryLimitError
from itergp.limits import COMPILED_ROWS
from itergp.linalg.libraries import require_jax

if TYPE_CHECKING:
    from itergp.linalg.compute import Compute
    from itergp.linalg.engines.base import Engine, Tick, TileCache
    from itergp.prior.kernel import Kernel


@dataclass(frozen=True)
class Entry:
    """Where an engine is defined (its module has it as ENGINE), and from how many rows "auto" uses it."""

    module: str
    beyond: int = 0
    require: Callable[[], None] = lambda: None  # raises if it cannot be loaded safely


# In the order in which "auto" tries them. The last one supports any kernel.
ENGINES = {
    "native": Entry("itergp.linalg.engines.native.engine"),
    "jax": Entry("itergp.linalg.engines.jax", beyond=COMPILED_ROWS, require=require_jax),
    "numpy": Entry("itergp.linalg.engines.numpy"),
}


def get(name: str) -> Any:
    """The engine of that name, loaded on first use. ImportError if it is not installed."""
    if name not in ENGINES:
        raise InputError(f"engine is {name!r}; expected one of {', '.join(ENGINES)}.")
    ENGINES[name].require()
    return importlib.import_module(ENGINES[name].module).ENGINE


def native() -> Any:
    """The native engine, or None if it was not built."""
    try:
        return get("native")
    except ImportError:
        return None


def autodiff(kernel: "Kernel", d: int) -> Any:
    """The engine that differentiates any formula it can trace; None if it cannot trace this one."""
    engine = get("jax")
    return None if engine.supports(kernel, d) else engine


def choose(compute: "Compute", kernel: "Kernel", n: int, d: int) -> tuple["Engine", str]:
    """The engine for this work, and the reason for the choice."""
    if not isinstance(compute.engine, str):
        return _supporting(compute.engine, repr(compute.engine), kernel, d), "given by the caller"
    if compute.engine != "auto":
        return _asked_for(compute, kernel, d), "asked for"
    reasons = []
    for name, entry in ENGINES.items():
        if n <= entry.beyond:
            reasons.append(f"n = {n} is small")
            continue
        try:
            engine = get(name)
        except (ImportError, MemoryLimitError) as error:
            reasons.append(f"{name} is missing ({error})")
            continue
        reason = engine.supports(kernel, d)
        if not reason:
            return engine.with_threads(compute.threads), "; ".join(reasons) or "tiles in C++"
        reasons.append(f"{name}: {reason}")
    raise KernelError(f"no engine supports this kernel: {'; '.join(reasons)}.")


def _asked_for(compute: "Compute", kernel: "Kernel", d: int) -> "Engine":
    try:
        engine = get(compute.engine)
    except ImportError as error:
        raise InputError(
            f"Compute.engine={compute.engine!r} is not available here ({error}); use engine='auto'."
        ) from None
    if compute.devices is not None:
        engine = importlib.import_module("itergp.linalg.engines.jax_devices").on_devices(compute.devices)
    return _supporting(engine, repr(compute.engine), kernel, d).with_threads(compute.threads)


def _supporting(engine: "Engine", name: str, kernel: "Kernel", d: int) -> "Engine":
    reason = engine.supports(kernel, d)
    if reason:
        raise KernelError(f"Compute.engine={name} does not support this kernel: {reason}. Use engine='auto'.")
    return engine


def from_function(
    product: Callable[["Kernel", np.ndarray, np.ndarray, np.ndarray], np.ndarray], name: str = "user"
) -> "Engine":
    """An engine from a plain function `product(kernel, X0, X1, V) -> k(X0, X1) @ V`; the rest is the
    reference engine's."""
    reference = type(get("numpy"))

    def cross(
        self: Any,
        kernel: "Kernel",
        X0: np.ndarray,
        X1: np.ndarray,
        V: np.ndarray,
        dtype: np.dtype,
        tick: "Tick",
    ) -> np.ndarray:
        tick()
        return np.asarray(product(kernel, X0, X1, V), dtype=np.float64)

    def symmetric(
        self: Any,
        kernel: "Kernel",
        X: np.ndarray,
        V: np.ndarray,
        dtype: np.dtype,
        cache: "TileCache",
        first: int,
        tick: "Tick",
    ) -> np.ndarray:
        return cross(self, kernel, X, X, V, dtype, tick)

    return type("FunctionEngine", (reference,), {"name": name, "product": cross, "symmetric": symmetric})()

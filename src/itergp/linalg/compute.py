"""How to compute: one frozen value, passed down."""

import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.errors import InputError, MemoryLimitError
from itergp.linalg.columns import Columns, InMemory
from itergp.linalg.engines.base import Engine
from itergp.linalg.engines.registry import ENGINES
from itergp.linalg.memory import available_bytes
from itergp.validate import choice, count

_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}


def parse_bytes(name: str, value: Any) -> int:
    """A number of bytes, or text such as "4GB", "500 MB", "2GiB"."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0:
        return int(value)
    match = (
        re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]I?|)B?\s*", value.upper())
        if isinstance(value, str)
        else None
    )
    if match is None:
        raise InputError(
            f"{name} is {value!r}; expected 'auto', a number of bytes >= 0, or text such as '4GB'."
        )
    return int(float(match[1]) * _UNITS[match[2]])


def peak_bytes() -> int | None:
    """Peak memory of this process so far, if the system reports it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def require_bytes(needed: float, what: str, remedy: str) -> None:
    """Raise MemoryLimitError before starting work that does not fit."""
    available = available_bytes()
    if needed > available:
        raise MemoryLimitError(
            f"{what} needs about {_gigabytes(needed)}; {_gigabytes(available)} are available. {remedy}"
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e9:.2g} GB"


def fitting(bytes_each: float) -> int:
    """How many things of this size fit in the available memory: for messages."""
    return int(available_bytes() / bytes_each)


@dataclass(frozen=True)
class Compute:
    """dtype of kernel tiles, bytes for stored tiles, engine, threads.

    `dtype="auto"` uses float32 if its rounding stays far below the noise, else float64; it switches to
    float64 when later data lower the noise. `cache="auto"` stores tiles in at most a quarter of the available
    memory; 0 stores none. `engine` is a name, or an instance of a subclass of `itergp.linalg.engines.Engine`.
    `threads` is a number, capped at the number of cores of the process; None uses all cores, or fewer if
    ITERGP_NUM_THREADS or OMP_NUM_THREADS is set. `devices`, with engine="jax", is the number of JAX devices,
    or "all", on which passes run and n x r numbers live; None computes as ever.
    """

    dtype: str = "auto"
    cache: int | str = "auto"
    engine: Any = "auto"
    threads: int | None = None
    devices: int | str | None = None

    def __post_init__(self) -> None:
        choice("Compute.dtype", self.dtype, ("auto", "float64", "float32"))
        if self.cache != "auto":
            object.__setattr__(self, "cache", parse_bytes("Compute.cache", self.cache))
        if isinstance(self.engine, str):
            choice("Compute.engine", self.engine, ("auto", *ENGINES))
        elif not isinstance(self.engine, Engine):
            raise InputError(
                f"Compute.engine is {self.engine!r}; expected a name, or an instance of a subclass of "
                "itergp.linalg.engines.Engine."
            )
        if self.threads is not None:
            object.__setattr__(self, "threads", count("Compute.threads", self.threads))
        if self.devices is not None:
            self._check_devices()

    def _check_devices(self) -> None:
        if self.engine != "jax":
            raise InputError(
                f"Compute.devices is {self.devices!r} with engine={self.engine!r}; expected engine='jax'."
            )
        if self.devices != "all":
            object.__setattr__(self, "devices", count("Compute.devices", self.devices))

    def cache_bytes(self) -> int:
        return available_bytes() // 4 if self.cache == "auto" else int(self.cache)

    def columns(self, n: int) -> Columns:
        """Where the n x r numbers of a run would live, before it begins."""
        return InMemory(n) if isinstance(self.engine, str) else self.engine.columns(n)

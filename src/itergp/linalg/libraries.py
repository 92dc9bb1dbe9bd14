"""Checks, before loading libraries, that they get the memory and threads they need: otherwise some abort.

JAX hangs in a forked child, because its threads stay in the parent. Under a limit of address space (`ulimit
-v`) JAX crashes, and OpenBLAS aborts or hangs. The sizes were measured with Linux on x86-64: they are mapped
sizes, far larger than what is used. Nothing is imported here: a process that never uses a library never pays
for it.
"""

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator

from itergp.errors import ForkError, MemoryLimitError
from itergp.linalg.memory import address_space, cores

MB = 10**6
LOADED = {  # and for each further thread of BLAS; scikit-learn loads the last two if they are installed
    "numpy": (90 * MB, 42 * MB),
    "scipy.linalg": (95 * MB, 42 * MB),
    "sklearn": (120 * MB, 0),
    "pandas": (50 * MB, 0),
    "pyarrow": (170 * MB, 0),
}
BUFFERS = 80 * MB  # mapped by the first product of each BLAS
THREAD = 72 * MB  # mapped by a thread: its stack, and 64 MB for its allocations
# below this there is not enough for the smallest work: buffers, a thread or two, and the arrays
WORKING = 128 * MB
JAX, JAX_THREADS = 350 * MB, 13  # JAX itself, and its threads in addition to two per core

_left_behind = False


def require_libraries() -> None:
    """Raise if the address space limit is too low to load NumPy, SciPy and scikit-learn."""
    if address_space() is None:
        return
    missing = [
        name
        for name in LOADED
        if name not in sys.modules and importlib.util.find_spec(name.partition(".")[0])
    ]
    threads = _blas_threads()
    needed = sum(size + (threads - 1) * per_thread for size, per_thread in (LOADED[name] for name in missing))
    if missing:
        remedy = "Raise the limit (ulimit -v), or set OMP_NUM_THREADS=1."
        _require(needed + BUFFERS, "To load NumPy, SciPy and scikit-learn", remedy)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Report a library that could not be mapped as a MemoryLimitError, whichever it was."""
    try:
        yield
    except ImportError as error:
        if address_space() is None or "failed to map" not in str(error):
            raise
        raise MemoryLimitError(
            f"A library does not fit in the address space of this process ({error}). Raise the limit (ulimit "
            "-v)."
        ) from error


@functools.cache
def require_working_room() -> None:
    """Raise if the address space limit leaves too little to work with; checked until it first succeeds."""
    _require(WORKING, "To compute anything", "Raise the limit (ulimit -v).")


def workers(asked: int | None, each: float) -> int:
    """How many threads may call BLAS at once, each with its own memory, within cores and address space."""
    most, room = min(asked or cores(), cores()), address_space()
    return most if room is None else max(1, min(most, int(room / 2 // (THREAD + BUFFERS + each))))


def require_jax() -> None:
    """Raise if using JAX would hang or crash."""
    if _left_behind:
        raise ForkError(
            "JAX was used before this process was forked, and would hang here. Start workers with 'spawn' or "
            "'forkserver', such as multiprocessing.get_context('spawn').Pool(), or use joblib, which does "
            "this. Or avoid JAX in the workers: use a sum of stationary kernels, Compute(engine='native'), "
            "and learn='neighbours' or learn=False."
        )
    if not _jax_has_started():
        needed = THREAD * (JAX_THREADS + 2 * cores()) + (0 if "jax" in sys.modules else JAX)
        remedy = (
            "Raise the limit (ulimit -v), or avoid JAX: use a sum of stationary kernels, and "
            "learn='neighbours' or learn=False."
        )
        _require(needed, "To start JAX", remedy)


def _require(needed: int, what: str, remedy: str) -> None:
    room = address_space()
    if room is not None and needed > room:
        raise MemoryLimitError(
            f"{what} takes about {needed // MB} MB of address space; the limit of this process leaves "
            f"{max(0, room) // MB} MB. {remedy}"
        )


def _blas_threads() -> int:
    """Threads that BLAS starts when it is loaded."""
    asked = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return min(int(asked), cores()) if asked.isdecimal() and int(asked) > 0 else cores()


def _jax_has_started() -> bool:
    """Whether JAX has started its threads: that happens with its first array, not on import."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(getattr(bridge, "_backends", True))


def _after_fork() -> None:
    global _left_behind
    _left_behind = _left_behind or _jax_has_started()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""What a forked child cannot do: JAX's threads stay in the parent, and a child that calls JAX would wait for them for ever.

Nothing is imported here for that: a process that never uses JAX never pays for it, and its children may.
"""

import os
import sys

from itergp.errors import ForkError

_left_behind = False


def require_jax() -> None:
    """Refuse to use JAX where that would never end."""
    if _left_behind:
        raise ForkError(
            "JAX was used before this process was forked, and would wait here for ever. Start workers by 'spawn' or "
            "'forkserver', such as multiprocessing.get_context('spawn').Pool(), or by joblib, which does. Or keep JAX out of "
            "the workers: with a sum of stationary kernels, Compute(engine='native'), and learn='neighbours' or learn=False."
        )


def _started() -> bool:
    """Whether JAX has threads by now: they come with its first array, not with the import."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(getattr(bridge, "_backends", True))


def _after_fork() -> None:
    global _left_behind
    _left_behind = _left_behind or _started()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

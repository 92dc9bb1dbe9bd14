"""How many threads BLAS may use, where more would hurt.

OpenBLAS's threads go on spinning for some 25 ms after a call, on the cores that the next kernel product
needs: in 100 CG actions at n = 15,642 that took longer than the products.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.linalg  # (the controller knows the libraries that are loaded when it is made)
from threadpoolctl import ThreadpoolController

from itergp.linalg.memory import address_space, cores

NARROW = 8  # columns, up to which n x r products wait for memory, not for arithmetic


def blas_threads(number: int | None) -> AbstractContextManager[Any]:
    """Within it, BLAS uses at most so many threads; None leaves it as it is."""
    return contextlib.nullcontext() if number is None else _LIMITS.held(min(number, cores()))


class Limits:
    """BLAS has one number of threads for the whole process: while limits of several Python threads
    overlap, the smallest of them holds; when the last has ended, BLAS has again what it had before the
    first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: dict[object, tuple[int, int]] = {}  # Python thread, number
        self.before: list[tuple[Any, int]] = []  # library, number

    @contextlib.contextmanager
    def held(self, number: int) -> Iterator[None]:
        holder = object()
        try:
            with self.lock:
                if not self.holders:
                    self.before = [(library, library.get_num_threads()) for library in _libraries()]
                self.holders[holder] = threading.get_ident(), number
                self._apply()
            yield
        finally:
            with self.lock:
                if self.holders.pop(holder, None):
                    self._apply()

    def _apply(self) -> None:
        least = min((number for _, number in self.holders.values()), default=None)
        for library, before in self.before:
            library.set_num_threads(before if least is None else least)

    def after_fork(self) -> None:
        """In a child only the thread that forked goes on: what others held, the lock too, nobody would let
        go."""
        self.lock = threading.Lock()
        others = [holder for holder, (thread, _) in self.holders.items() if thread != threading.get_ident()]
        for holder in others:
            del self.holders[holder]
        if others:
            self._apply()


_LIMITS = Limits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMITS.after_fork)


@functools.cache
def _libraries() -> list[Any]:
    """Looked for once: that takes a millisecond, to limit them some microseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


# OpenBLAS ends the program where it finds no room for its buffers: so it takes them now
if address_space() is not None:
    _square = np.ones((256, 256))
    scipy.linalg.blas.dgemm(1.0, _square @ _square, _square)

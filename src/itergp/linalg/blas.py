"""Limits the threads of BLAS where more would hurt.

OpenBLAS's threads keep spinning for some 25 ms after a call, on the cores that the next kernel product needs:
in 100 CG actions at n = 15,642 this took longer than the products.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.linalg  # (the controller knows the libraries that are loaded when it is created)
from threadpoolctl import ThreadpoolController

from itergp.linalg.memory import address_space, cores

# rows of a dense matrix, up to which a second thread gains little, and loses much if cores are busy: threads
# wait for each other in a loop, many times in each factorisation
SMALL = 1500
NARROW = 8  # columns, up to which n x r products are limited by memory, not by arithmetic


def blas_threads(number: int | None) -> AbstractContextManager[Any]:
    """Context manager that limits the threads of BLAS; None leaves them as they are."""
    return contextlib.nullcontext() if number is None else _LIMITS.held(min(number, cores()))


def dense_threads(rows: int, number: int | None = None) -> AbstractContextManager[Any]:
    """The same for factorisations of a dense matrix of so many rows: one thread if it is small."""
    return blas_threads(1 if rows <= SMALL else number)


class Limits:
    """The number of BLAS threads is global to the process. While limits of several Python threads overlap,
    the smallest applies; when the last one ends, the original number is restored."""

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
        """In a forked child only the forking thread continues: release what other threads held."""
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
    """Looked up once: that takes a millisecond, setting a limit some microseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


# OpenBLAS aborts the program if it cannot allocate its buffers: so allocate them now
if address_space() is not None:
    _square = np.ones((256, 256))
    scipy.linalg.blas.dgemm(1.0, _square @ _square, _square)

"""How many threads BLAS may use, where more would hurt.

OpenBLAS's threads go on spinning for some 25 ms after a call, on the cores that the next kernel product needs: in 100 CG
actions at n = 15,642 that took longer than the products.
"""

import contextlib
import functools
from contextlib import AbstractContextManager
from typing import Any

import scipy.linalg  # noqa: F401 (the controller knows the libraries that are loaded when it is made)
from threadpoolctl import ThreadpoolController

NARROW = 8  # columns, up to which n x r products wait for memory, not for arithmetic


def blas_threads(number: int | None) -> AbstractContextManager[Any]:
    """Within it, BLAS uses at most so many threads; None leaves it as it is."""
    return contextlib.nullcontext() if number is None else _controller().limit(limits=number)


@functools.cache
def _controller() -> ThreadpoolController:
    """Made once: to look for libraries takes a millisecond, to limit them some microseconds."""
    return ThreadpoolController()

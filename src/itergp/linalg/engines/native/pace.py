"""Long native work in calls of a fraction of a second, so that interrupts and budgets take effect."""

import time
from collections.abc import Iterator

from itergp.linalg.engines.base import Tick

SECONDS = 0.1  # of a call
FIRST = 8  # the first call is so much shorter than is thought right


def paced(parts: int, most: int, tick: Tick, multiple: int = 1) -> Iterator[tuple[int, int]]:
    """Ranges of the parts, with a tick before each: at most so many at once, and as many as the last range
    says take SECONDS. Work that touches new memory, or shares its cores, is many times slower than other.

    Results must not depend on where ranges end. They are whole multiples, but for the last one.
    """
    most = max(1, most // multiple)
    first, step = 0, max(1, most // FIRST)
    while first < parts:
        tick()
        began, last = time.perf_counter(), min(first + multiple * step, parts)
        yield first, last
        taken = max(time.perf_counter() - began, 1e-9)
        first, step = last, max(1, min(most, 2 * step, int(step * SECONDS / taken)))

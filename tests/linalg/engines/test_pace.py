import numpy as np
import pytest

from itergp import Matern32
from itergp.linalg.compute import Compute
from itergp.linalg.gram import Gram

engine = pytest.importorskip("itergp.linalg.engines.native.engine")
pace = pytest.importorskip("itergp.linalg.engines.native.pace")


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    return clock


@pytest.mark.parametrize(("parts", "most", "multiple"), [(0, 5, 1), (1, 5, 2), (100, 7, 3), (1000, 64, 2)])
def test_ranges_cover_all_parts_once_in_order_with_a_tick_before_each(clock, parts, most, multiple):
    ticks, covered = [], []
    for first, last in pace.paced(parts, most, lambda: ticks.append(1), multiple):
        assert first % multiple == 0
        assert 0 < last - first <= max(most, multiple)
        covered.extend(range(first, last))
        clock.now += 1e-4 * (last - first)
        assert len(ticks) * max(most, multiple) >= len(covered)
    assert covered == list(range(parts))


def test_slow_work_comes_in_short_calls_and_fast_work_in_long_ones(clock):
    def calls(seconds):
        sizes = []
        for first, last in pace.paced(10_000, 800, lambda: None):
            sizes.append(last - first)
            clock.now += seconds * (last - first)
        return sizes

    slow, fast = calls(0.01), calls(1e-6)
    assert slow[0] == 100  # an eighth of what is thought right
    assert set(slow[1:-1]) <= {9, 10}  # a tenth of a second
    assert fast[:5] == [100, 200, 400, 800, 800]


def test_products_are_the_same_to_the_bit_however_slow_the_machine_is(monkeypatch):
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((3000, 3)), rng.standard_normal((3000, 5))

    def product(work, seconds):
        monkeypatch.setattr(engine, "WORK_PER_CALL", work)
        monkeypatch.setattr(pace, "SECONDS", seconds)
        gram = Gram(Matern32(0.7), X, Compute("float32", threads=2))
        return [gram.multiply(V), gram.multiply(V), gram.cross(X[:1000], V)]

    for one, other in zip(product(3e8, 0.1), product(3e6, 1e-5), strict=True):
        assert np.array_equal(one, other)

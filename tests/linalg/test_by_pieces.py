"""Of many rows some are computed at a time: the same bits, less memory, and the clock is asked in between."""

import tracemalloc

import numpy as np
import pytest

from itergp import RBF, Constant, Linear, Matern12, Matern32, Periodic, RationalQuadratic
from itergp.linalg import pieces
from itergp.linalg.compute import Compute
from itergp.linalg.engines import registry
from itergp.linalg.gram import Gram
from itergp.linalg.pieces import by_pieces
from itergp.prior import stationary

native = pytest.importorskip(
    "itergp.linalg.engines.native.neighbours", reason="the native engine was not built"
)

ROWS, D = 1000, 3
KERNELS = {
    "one": 1.5 * Matern32(np.array([0.5, 1.0, 2.0])),
    "sum": 1.0 * RBF(0.7) + 0.3 * Matern12(2.0) + Constant(0.1),
    "product": RBF(0.7) * RationalQuadratic(1.0, 2.0),
    "periodic": 2.0 * Periodic(1.0, 3.0),
    "with a linear part": 1.0 * Matern32(1.0) + 0.2 * Linear(1.0),
    "on some columns": (1.0 * Matern32(1.0)).on([0, 2]),
}


@pytest.fixture
def small(monkeypatch):
    """Call it to have so few rows in a piece that there are several."""

    def begin():
        monkeypatch.setattr(pieces, "ROWS", 256)
        monkeypatch.setattr(native, "ROWS_AT_ONCE", 256)
        monkeypatch.setattr("itergp.linalg.gram.ROWS", 256)
        monkeypatch.setattr(stationary, "AT_ONCE", 100)

    return begin


def inputs(n=ROWS, far=0.0):
    return far + np.random.default_rng([n, 1]).standard_normal((n, D))


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
def test_pieces_are_all_rows_in_order_and_the_clock_is_asked_before_each(n, small):
    small()
    X, ticks = inputs(n), []
    np.testing.assert_array_equal(by_pieces(lambda rows: 2.0 * X[rows], n, lambda: ticks.append(1)), 2.0 * X)
    assert len(ticks) == (0 if n <= 256 else -(-n // 256))


def all_of(kernel, X):
    """What a Gram makes of many rows, one part after the other."""
    gram, some = Gram(kernel, X, Compute(dtype="float32")), inputs(7)
    order, chosen = np.random.default_rng(3).permutation(len(X)), np.arange(5, len(X), 7)
    found = gram.earlier(order, 6, chosen)
    few = gram.earlier_of_few(order, 6, chosen[:9])
    near = None if gram.embedding(some) is None else gram.nearest(some, 11)
    parts = [found.X, found.J, few.X, few.J, gram.diagonal(), gram.nearest_once(some, 11)]
    parts += [gram.embedding(X), near, np.array([gram.rounding(len(X)), gram.rounding(300, 2.0, "float64")])]
    return [part for part in parts if part is not None]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_no_bit_depends_on_the_pieces(kernel, far, small):
    X = inputs(far=far)
    whole = all_of(kernel, X)
    small()
    parts = all_of(kernel, X)
    assert len(whole) == len(parts)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_searches_by_brute_force_have_the_same_blocks(small, monkeypatch):
    monkeypatch.setattr("itergp.linalg.gram.ONCE_ROWS", 10)
    engine, X = registry.native(), inputs()
    for far in (1.0, 1e20):  # which float32 cannot square, so that there is another unit
        X[3] *= far
        whole = engine.scan(X)
        small()
        assert whole.unit == engine.scan(X).unit
        np.testing.assert_array_equal(whole.blocks, engine.scan(X).blocks)


@pytest.mark.parametrize("kernel", ["one", "sum"])
def test_rows_that_are_all_alike_take_no_numbers_and_rounding_no_copies(kernel):
    X = inputs(200_000)
    tracemalloc.start()
    gram = Gram(KERNELS[kernel], X, Compute(dtype="float32"))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    gram.rounding(len(X), 1.0, "float64")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept < 0.1 * X.nbytes
    assert peak < kept + 1.6 * X.nbytes / D + 2**16 * D * 8 * 3  # a number for each row, and pieces


def test_the_most_correlated_rows_are_found_a_few_points_at_a_time(monkeypatch):
    """The same rows, in the memory that is allowed: covariances of all points would be 24 MB."""
    X, at = inputs(20_000), inputs(150, far=0.1)
    gram = Gram(1.0 * RBF(0.7) + 0.3 * Periodic(1.0, 3.0), X)
    expected = np.argsort(-gram.dense(at, X), axis=1, kind="stable")[:, :9]
    monkeypatch.setattr("itergp.linalg.gram.SEARCHED_BYTES", 2**20)
    tracemalloc.start()
    found = gram.nearest(at, 9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found, expected)
    assert peak < 12e6

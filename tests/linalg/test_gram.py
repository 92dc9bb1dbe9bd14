"""Gram: K as something to multiply with, the same for every engine, dtype, cache and size."""

import functools

import numpy as np
import pytest

from helpers import KERNELS
from itergp import RBF, Compute, InputError, Linear, Matern32
from itergp.linalg import engines
from itergp.linalg.engines import registry
from itergp.linalg.gram import Gram

SIZES = (1, 63, 64, 65, 511, 513, 1025)
FLAVOURS = [(engine, dtype) for engine in ("numpy", "jax") for dtype in ("float64", "float32")]
try:
    NATIVE = [name for name in KERNELS if not engines.get("native").supports(KERNELS[name], 2)]
except ImportError:  # optional: not everywhere is it built
    NATIVE = []


@functools.cache
def inputs(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1, 1, (n, 2))


@functools.cache
def block(n: int) -> np.ndarray:
    """Three unit columns."""
    V = np.random.default_rng([n, 1]).standard_normal((n, 3))
    return V / np.linalg.norm(V, axis=0)


@functools.cache
def dense(kernel: str, n: int) -> np.ndarray:
    return KERNELS[kernel](inputs(n), inputs(n))


def caches(engine: str, dtype: str, n: int) -> tuple[int, ...]:
    """None; and where there is a whole tile to store, room for all and for two of them."""
    if engine == "native":
        return (0, 10**9, n * n * np.dtype(dtype).itemsize // 4)
    tile = engines.get(engine).tile_size
    return (0, 10**9, 2 * tile**2 * np.dtype(dtype).itemsize) if n > tile else (0,)


@pytest.mark.parametrize(
    ("kernel", "engine", "dtype"),
    [(kernel, engine, dtype) for kernel in KERNELS for engine, dtype in FLAVOURS]
    + [(kernel, "native", dtype) for kernel in NATIVE for dtype in ("float64", "float32")],
)
def test_products_are_those_of_the_dense_matrix(kernel, engine, dtype):
    for n in SIZES:
        exact, V = dense(kernel, n) @ block(n), block(n)
        for cache in caches(engine, dtype, n):
            gram = Gram(KERNELS[kernel], inputs(n), Compute(dtype, cache, engine))
            first, second = gram @ V, gram @ V
            assert np.array_equal(first, second)  # stored tiles change nothing
            error = np.linalg.norm(first - exact, axis=0)
            size = np.linalg.norm(dense(kernel, n), 2) if n == 1 else np.linalg.norm(exact, axis=0)
            assert (
                error <= np.maximum(1e-13 * size, gram.rounding(n, size) * (1 if dtype == "float32" else 10))
            ).all(), (
                n,
                cache,
            )


@pytest.mark.parametrize(("engine", "dtype"), FLAVOURS)
def test_a_cache_holds_what_it_may_and_no_more(engine, dtype):
    tile = engines.get(engine).tile_size ** 2 * np.dtype(dtype).itemsize
    for budget, stored in ((0, 0), (tile - 1, 0), (tile, 1)):
        gram = Gram(KERNELS["rbf"], inputs(1025), Compute(dtype, budget, engine))
        gram @ block(1025)
        assert gram.cache.bytes == stored * tile


@pytest.mark.parametrize("engine", ["numpy", "jax"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_columns_cross_products_and_the_diagonal_are_float64(engine, dtype):
    X, K = inputs(65), dense("product", 65)
    gram = Gram(KERNELS["product"], X, Compute(dtype, engine=engine))
    rows, W = np.array([64, 3, 3]), np.arange(6.0).reshape(3, 2)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    close(gram.columns(rows), K[:, rows])
    close(gram.multiply_columns(rows, W), K[:, rows] @ W)
    close(gram.multiply_columns(rows, W, first=60), K[60:, rows] @ W)
    close(gram.cross(X[:5], block(65)), K[:5] @ block(65))
    sparse = np.zeros((65, 2))
    sparse[[7, 9]] = 1.0
    close(gram.cross(X[:5], sparse, np.array([7, 9])), K[:5] @ sparse)
    close(gram.cross_transposed(X[:5], W[:1].repeat(5, axis=0)), K[:, :5] @ W[:1].repeat(5, axis=0))
    close(gram.diagonal(), np.diag(K))


def test_passes_and_entries_count_what_was_evaluated():
    gram = Gram(KERNELS["rbf"], inputs(65))
    assert (gram.passes, gram.entries) == (0, 0)
    gram @ block(65)
    gram @ block(65)[:, 0]
    assert (gram.passes, gram.entries) == (2, 2 * 65 * 66 // 2)
    gram.columns(np.array([1, 2]))
    gram.multiply_columns(np.array([1, 2]), np.ones((2, 1)), first=60)
    gram.cross(inputs(7), block(65))
    assert (gram.passes, gram.entries) == (2, 65 * 66 + 130 + 10 + 7 * 65)
    gram.multiply_rows(block(65), 60)
    assert (gram.passes, gram.entries) == (2, 65 * 66 + 130 + 10 + 7 * 65 + (65 * 66 - 60 * 61) // 2)


def test_a_vector_gives_a_vector():
    gram = Gram(KERNELS["rbf"], inputs(65))
    np.testing.assert_array_equal(gram @ block(65)[:, 1], (gram @ block(65)[:, 1:2])[:, 0])


@pytest.mark.parametrize(
    "V", [np.ones(64), np.ones((64, 2)), np.ones((65, 2, 1)), np.full(65, np.nan), "text"]
)
def test_a_wrong_right_hand_side_is_refused(V):
    gram = Gram(KERNELS["rbf"], inputs(65))
    with pytest.raises(InputError, match="V "):
        gram @ V
    assert gram.passes == 0


@pytest.mark.parametrize(
    ("engine", "dtype"), FLAVOURS + [("native", dtype) for dtype in ("float64", "float32") if NATIVE]
)
@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("kernel", ["matern32", "linear-plus-constant"])
def test_more_rows_change_no_bit_of_the_products_of_the_old_ones(engine, dtype, kernel, columns):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1200, 2))
    for old, new in ((1, 1), (40, 30), (200, 200), (320, 400), (513, 511), (700, 500)):
        V = rng.standard_normal((old, columns))
        gram = Gram(KERNELS[kernel], X[:old], Compute(dtype, engine=engine))
        grown = gram.extended(X[old : old + new])
        before, padded = gram @ V, np.concatenate([V, np.zeros((new, columns))])
        assert np.array_equal((grown @ padded)[:old], before), (old, new)
        assert np.array_equal(grown.multiply_rows(padded, old), (grown @ padded)[old:]), (old, new)
        assert np.array_equal(grown.cross(X[:9], padded), gram.cross(X[:9], V)), (old, new)
        assert np.array_equal(gram @ V, before), (old, new)  # the parent is as it was
        assert grown.passes == 2


def test_two_gram_matrices_that_grew_from_one_do_not_share_their_tiles():
    X = np.random.default_rng(0).uniform(-1, 1, (900, 2))
    gram = Gram(KERNELS["rbf"], X[:300])
    left, right = gram.extended(X[300:600]), gram.extended(X[600:])
    for grown, rows in ((left, np.r_[0:600]), (right, np.r_[0:300, 600:900])):
        np.testing.assert_allclose(
            grown @ np.ones(600), KERNELS["rbf"](X[rows], X[rows]).sum(axis=1), rtol=1e-12
        )
    np.testing.assert_allclose(gram @ np.ones(300), KERNELS["rbf"](X[:300], X[:300]).sum(axis=1), rtol=1e-12)


def test_more_rows_keep_the_dtype_and_the_engine_that_were_chosen_by_size():
    X = np.random.default_rng(0).uniform(-1, 1, (2500, 1))
    gram = Gram(RBF(), X[:100])
    grown = gram.extended(X[100:])
    assert (grown.engine.name, grown.dtype.name) == (gram.engine.name, "float64")


def without(monkeypatch, *missing):
    """As if these engines had not been built."""
    get = registry.get

    def some(name):
        if name in missing:
            raise ImportError(f"no {name}")
        return get(name)

    monkeypatch.setattr(registry, "get", some)


def test_the_engine_is_chosen_by_size_and_says_why(monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, (2100, 1))
    without(monkeypatch, "native")
    small, large = Gram(RBF(), X[:2048]), Gram(RBF(), X)
    assert (small.engine.name, large.engine.name) == ("numpy", "jax")
    assert "n = 2048 is small" in small.engine_reason
    assert large.engine_reason
    without(monkeypatch, "native", "jax")
    assert Gram(RBF(), X).engine.name == "numpy"
    with pytest.raises(InputError, match=r"Compute.engine='native' is not available.*engine='auto'"):
        Gram(RBF(), X, Compute(engine="native"))


def test_far_from_the_origin_float32_products_stay_accurate():
    X = inputs(200) + 1e4
    gram = Gram(Matern32(lengthscale=0.3), X, Compute("float32"))
    exact = Matern32(lengthscale=0.3)(X, X) @ block(200)
    assert np.linalg.norm(gram @ block(200) - exact, axis=0).max() < 1e-5


def test_rounding_depends_on_the_rows_reached_alone():
    X = inputs(65)
    gram, more = (
        Gram(Linear(), X, Compute("float32")),
        Gram(Linear(), np.concatenate([X, 100 * X]), Compute("float32")),
    )
    assert gram.rounding(65) == more.rounding(65)
    assert more.rounding(130) > more.rounding(65)
    assert gram.rounding(65, 0.0, "float64") < 1e-8 * gram.rounding(65)


@pytest.mark.parametrize("linear", [Linear(0.1), 3.0 * Linear([0.2, 5.0]) + Linear(0.5).on([1])])
@pytest.mark.parametrize("engine", ["numpy", "jax", "native"])
def test_near_rows_are_near_in_the_metric_of_the_part_that_is_not_linear(engine, linear):
    """A linear part correlates rows that lie far away in the same direction."""
    if engine == "native" and not NATIVE:
        pytest.skip("the native engine was not built")
    X, X_new, metric = inputs(511), inputs(63), np.array([0.3, 2.0])
    gram = Gram(linear + 0.5 * Matern32(metric), X, Compute(engine=engine))
    squares = (((X_new[:, None] - X[None]) / metric) ** 2).sum(axis=2)
    assert np.array_equal(gram.nearest(X_new, 7), np.argsort(squares, axis=1)[:, :7])
    several = Gram(RBF(metric) + linear + 0.5 * Matern32(metric), X, Compute(engine=engine))
    assert np.array_equal(several.nearest(X_new, 7), np.argsort(squares, axis=1)[:, :7])
    earlier = gram.earlier(np.arange(511), 3, np.arange(511)).J
    among = np.tril(np.ones((511, 511), bool), -1)
    apart = np.where(among, (((X[:, None] - X[None]) / metric) ** 2).sum(axis=2), np.inf)
    assert np.array_equal(earlier[3:], np.argsort(apart, axis=1)[3:, :3])


def test_threads_are_limited_only_while_it_works():
    gram = Gram(KERNELS["rbf"], inputs(65), Compute(threads=1))
    np.testing.assert_allclose(gram @ block(65), dense("rbf", 65) @ block(65), rtol=1e-12)

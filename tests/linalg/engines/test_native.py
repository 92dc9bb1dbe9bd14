"""The native engine: stated errors, every shape, every instruction set, the same bits for the same number
of threads."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

from itergp import RBF, Compute, Constant, Linear, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from itergp.linalg.engines import TileCache, no_tick
from itergp.linalg.gram import Gram

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")
tiles = native._tiles

KERNELS = {
    "rbf": 1.3 * RBF(0.8),
    "matern12": Matern12(0.7),
    "matern32": 2.0 * Matern32(0.6),
    "matern52": Matern52(0.9),
    "rational-quadratic": RationalQuadratic(0.5, alpha=1.5),
    "periodic": Periodic(0.9, period=1.7),
    "sum": Matern32(0.5) + 0.5 * RBF(1.5) + Constant(0.3),
    "on-columns": Matern32(0.4).on([0]) + RBF(0.3),
    "linear": 1.5 * Matern32(0.6) + 0.7 * Linear(0.5) + 0.2 * Linear(2.0).on([0]),
}
TOLERANCE = {"float32": 3e-6, "float64": 2e-14}


@pytest.fixture(params=tiles.instruction_sets())
def instruction_set(request):
    before = tiles.instruction_set()
    tiles.choose(request.param)
    yield request.param
    tiles.choose(before)


@pytest.mark.parametrize("bits", [32, 64])
def test_exp_and_square_root_err_by_less_than_four_units_in_the_last_place(instruction_set, bits):
    dtype = np.dtype(f"float{bits}")
    rng = np.random.default_rng(bits)
    x = np.concatenate(
        [rng.uniform(0, 1, 50_000), rng.uniform(0, 80, 50_000), 10.0 ** rng.uniform(-12, 0, 10_000), [0.0]]
    ).astype(dtype)
    for name, exact in (
        ("exp_minus", np.exp(-x.astype(np.longdouble))),
        ("square_root", np.sqrt(x.astype(np.longdouble))),
    ):
        result = np.empty_like(x)
        getattr(tiles, f"{name}{bits}")(x, result)
        unit = np.spacing(np.abs(exact).astype(dtype)).astype(np.longdouble)
        assert float((np.abs(result - exact) / unit).max()) < 4.0, name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_products_agree_with_the_formula_for_every_shape(instruction_set, kernel, dtype):
    rng = np.random.default_rng(0)
    for n, d, columns in [
        (1, 1, 1),
        (2, 3, 512),
        (63, 2, 10),
        (64, 100, 2),
        (65, 5, 25),
        (257, 1, 13),
        (700, 17, 1),
        (530, 4, 40),
    ]:
        X, X_new = rng.standard_normal((n, d)) / np.sqrt(d), rng.standard_normal((77, d)) / np.sqrt(d)
        V = rng.standard_normal((n, columns))
        K, K_new = kernel(X, X), kernel(X_new, X)
        scale = float((np.abs(K) @ np.abs(V)).max())
        cache = TileCache(int(rng.choice([0, 300_000, 10**8])))  # none, some, all tiles stored
        for _ in range(2):  # the second time from what is stored
            out = native.ENGINE.symmetric(kernel, X, V, np.dtype(dtype), cache, 0, no_tick)
            assert np.abs(out - K @ V).max() <= TOLERANCE[dtype] * scale
        cross = native.ENGINE.product(kernel, X_new, X, V, np.dtype(dtype), no_tick)
        assert np.abs(cross - K_new @ V).max() <= TOLERANCE[dtype] * scale
        assert (
            np.abs(native.ENGINE.dense(kernel, X_new, X, np.dtype(dtype)) - K_new).max()
            <= TOLERANCE[dtype] * K.max()
        )


def test_the_same_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(1)
    X, V = rng.standard_normal((3000, 4)), rng.standard_normal((3000, 5))
    for threads in (1, 2, 3):
        products = [
            Gram(Matern32(1.0), X, Compute("float32", threads=threads, cache=0)) @ V for _ in range(3)
        ]
        assert np.array_equal(products[0], products[1])
        assert np.array_equal(products[0], products[2])


def test_stored_tiles_give_the_bits_of_fresh_ones():
    rng = np.random.default_rng(2)
    X, V = rng.standard_normal((1500, 4)), rng.standard_normal((1500, 1))
    fresh = Gram(Matern32(1.0), X, Compute("float32", cache=0)) @ V
    stored = Gram(Matern32(1.0), X, Compute("float32", cache="100MB"))
    assert np.array_equal(stored @ V, fresh)
    assert np.array_equal(stored @ V, fresh)
    assert 0 < stored.cache.bytes < 0.65 * 4 * 1536**2  # the upper half, by tiles


def test_threads_follow_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert native.default_threads() == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.delenv("ITERGP_NUM_THREADS", raising=False)
    assert native.default_threads() == len(os.sched_getaffinity(0))


def test_kernels_that_are_no_sum_with_stationary_ones_are_left_to_other_engines():
    assert "stationary" in native.ENGINE.supports(Linear(1.0), 2)
    assert "stationary" in native.ENGINE.supports(RBF(1.0) * RBF(2.0), 2)
    assert "stationary" in native.ENGINE.supports(RBF(1.0) + RBF(2.0) * Linear(1.0), 2)
    assert Gram(RBF(1.0) + Linear(1.0), np.ones((3, 2))).engine.name == "native"


def test_linear_parts_are_exact_to_double_precision_beside_float32_tiles():
    """With a stationary part of weight 1e-12, float32 tiles leave no trace in products and matrices."""
    rng = np.random.default_rng(4)
    X, V = rng.standard_normal((1500, 3)) + 50.0, rng.standard_normal((1500, 7))
    kernel = 1e-12 * Matern32(1.0) + 2.0 * Linear([1.0, 0.3, 5.0])
    K, single = kernel(X, X), np.dtype("float32")
    out = native.ENGINE.symmetric(kernel, X, V, single, TileCache(0), 0, no_tick)
    cross = native.ENGINE.product(kernel, X[:9], X, V, single, no_tick)
    scale = np.abs(K) @ np.abs(V)
    assert (np.abs(out - K @ V) <= 1e-14 * scale).all()
    assert (np.abs(cross - K[:9] @ V) <= 1e-14 * scale[:9]).all()


def test_tau_covers_the_rounding_of_a_sum_with_a_linear_part_and_knows_that_it_is_added_in_float64():
    """Linear variances of 1e4 in float32 would cost 1e4 times the rounding of the stationary part."""
    rng = np.random.default_rng(5)
    X = 100.0 * rng.standard_normal((2000, 2))
    kernel, alone = Matern32(20.0) + Linear(1.0), Gram(Matern32(20.0), X, Compute("float32"))
    gram, numpy = (Gram(kernel, X, Compute("float32", engine=engine)) for engine in ("native", "numpy"))
    assert gram.rounding(2000) < 2.0 * alone.rounding(2000)
    assert numpy.rounding(2000) > 1e3 * gram.rounding(2000)
    Q = np.linalg.qr(rng.standard_normal((2000, 8)))[0]
    exact = kernel(X, X) @ Q
    error, size = np.linalg.norm(gram @ Q - exact, axis=0), np.linalg.norm(exact, axis=0)
    assert (error <= gram.rounding(2000, size)).all()


def test_linear_parts_need_memory_linear_in_the_rows():
    rng = np.random.default_rng(6)
    V, kernel, most = rng.standard_normal((20_000, 4)), Matern32(1.0) + Linear(1.0), []
    for n in (10_000, 20_000):
        X = rng.standard_normal((n, 2))
        tracemalloc.start()
        native.ENGINE.symmetric(kernel, X, V[:n], np.dtype("float32"), TileCache(0), 0, no_tick)
        native.ENGINE.product(kernel, X, X, V[:n], np.dtype("float32"), no_tick)
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 2.2 * most[0]
    assert most[1] < 8 * 20_000 * 100


def test_a_product_stops_when_asked():
    class EnoughError(Exception):
        pass

    calls = []

    def tick():
        calls.append(1)
        if len(calls) > 2:
            raise EnoughError

    X = np.random.default_rng(3).standard_normal((20_000, 2))
    with pytest.raises(EnoughError):
        native.ENGINE.symmetric(
            RBF(1.0), X, np.ones((20_000, 64)), np.dtype("float32"), TileCache(0), 0, tick
        )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda K, V, out: (K, V.astype(np.float64), out),
        lambda K, V, out: (K, V[:-1], out),
        lambda K, V, out: (K, np.asfortranarray(np.ones((256, 8), np.float32)), np.zeros((1, 256, 8))),
        lambda K, V, out: (K, V, out[:, :-1]),
        lambda K, V, out: (tiles.Kernel32(), V, out),
        lambda K, V, out: (K, np.ones((256, 3), np.float32), np.zeros((1, 256, 3))),
    ],
    ids=["dtype", "rows", "layout", "out", "no parts", "columns"],
)
def test_wrong_arrays_are_refused_at_the_binding(spoil):
    K = tiles.Kernel32()
    features = np.zeros((1, 2, 256), np.float32)
    K.add(features, features, 0, 1.0, 0.0)
    V, out = np.ones((256, 1), np.float32), np.zeros((1, 256, 1))
    nothing, offsets = np.zeros(0, np.float32), np.zeros(1, np.int64)
    tiles.symmetric32(K, V, out, 0, 4, 0, nothing, offsets, False)
    assert np.allclose(out, 256.0)
    with pytest.raises((TypeError, ValueError)):
        tiles.symmetric32(*spoil(K, V, out), 0, 4, 0, nothing, offsets, False)


def test_joblib_workers_share_the_cores_between_them(monkeypatch):
    """Two workers with as many threads each as there are cores would be twice too many."""
    for name in ("ITERGP_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    joblib = pytest.importorskip("joblib")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = joblib.Parallel(n_jobs=2)(joblib.delayed(native.default_threads)() for _ in range(4))
    assert max(threads) <= max(1, cores // 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_multiplies_as_its_parent_did():
    program = (
        "import os, sys\n"
        "import numpy as np\n"
        "from itergp import RBF, Compute\n"
        "from itergp.linalg.gram import Gram\n"
        "X, v = np.random.default_rng(0).standard_normal((1500, 3)), np.ones(1500)\n"
        "gram = Gram(RBF(1.0), X, Compute('float32', cache=0, engine='native', threads=2))\n"
        "expected = gram @ v\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if np.array_equal(gram @ v, expected) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_control_c_is_answered_while_a_product_runs():
    """Ctrl-C while the first of many products runs: KeyboardInterrupt, and no product is finished."""
    program = (
        "import numpy as np\n"
        "from itergp import RBF, Compute\n"
        "from itergp.linalg.gram import Gram\n"
        "X = np.random.default_rng(0).standard_normal((200_000, 10))\n"
        "gram = Gram(RBF(1.0), X, Compute('float32', cache=0))\n"
        "print('ready', flush=True)\n"
        "for _ in range(100): gram @ X, print('done', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().strip() == "ready"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    finished, messages = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in messages
    assert finished == ""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 3, 20])
def test_products_of_rows_far_apart_are_zero_and_not_denormal(instruction_set, dtype, columns):
    """Denormal numbers take processors a hundred times as long, and whole tiles of a time series are."""
    x = np.repeat([0.0, 1e4], 600)
    V = np.where(x[:, None] == 0.0, 1e-6, 0.0) * np.ones(columns)
    far = (Gram(Matern12(1.0), x[:, None], Compute(dtype, engine="native", cache=0)) @ V)[600:]
    smallest = np.finfo(dtype).tiny
    assert ((far == 0.0) | (np.abs(far) >= smallest)).all()
    assert (np.abs(far) < 1e-30).all()


def test_only_products_take_denormal_numbers_for_zero(instruction_set):
    """The thread that asks for a product computes with them before and after, as NumPy does."""
    tiny = np.full(8, 1e-310)
    X = np.linspace(0, 1, 300)[:, None]
    for threads in (1, 2):
        Gram(Matern32(1.0), X, Compute("float32", engine="native", threads=threads)) @ np.ones(300)
        assert (tiny * 0.5 > 0.0).all()


@pytest.mark.parametrize("scale", [1e-36, 1e-33, 1e-30, 1e-20])
def test_the_bound_on_rounding_holds_where_terms_are_below_the_smallest_number(scale):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 300, 3000))[:, None]
    q = np.abs(rng.standard_normal((3000, 5)))
    q /= np.linalg.norm(q, axis=0)
    gram = Gram(scale * Matern32(1.0), X, Compute("float32", engine="native"))
    exact = Gram(Matern32(1.0), X, Compute("float64", engine="numpy")) @ q * scale
    errors = np.linalg.norm(gram @ q - exact, axis=0)
    assert (errors <= gram.rounding(3000, np.linalg.norm(exact, axis=0))).all()

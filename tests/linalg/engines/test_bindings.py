"""The C++ functions, called directly: they check what they are given, and no number of threads ends the
process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from itergp.linalg.engines import TileCache, no_tick
from itergp.prior.stationary import RBF

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")
tiles = native._tiles
PANEL, BLOCK = tiles.PANEL, tiles.BLOCK
LIMITS = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="limits of address space are kept on Linux, where no sanitizer maps all of it",
)


def run(program: str, timeout: float = 120.0) -> str:
    """What a program prints, in a process of its own that must end well."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def features(blocks: int, d: int = 2, dtype=np.float64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((blocks, d, BLOCK)).astype(dtype)


def kernel64(blocks: int = 1):
    K = tiles.Kernel64()
    K.add(features(blocks), features(blocks), 0, 1.0, 0.0)
    return K


def symmetric(**changed):
    given = {
        "kernel": kernel64(),
        "V": np.ones((BLOCK, 1)),
        "out": np.zeros((2, BLOCK, 1)),
        "first": 0,
        "last": BLOCK // PANEL,
        "from_block": 0,
        "store": np.zeros(4 * PANEL * BLOCK),
        "offsets": np.arange(2) * PANEL * BLOCK,
        "filled": False,
    }
    tiles.symmetric64(*(given | changed).values())


def rectangle(**changed):
    given = {
        "kernel": kernel64(),
        "left": np.ones((BLOCK, 1)),
        "right": np.ones((BLOCK, 1)),
        "left_out": np.zeros((BLOCK, 1)),
        "right_out": np.zeros((BLOCK, 1)),
        "after": 0,
        "left_from": 0,
        "right_from": 0,
        "store": np.zeros(4 * PANEL * BLOCK),
        "offsets": np.arange(2) * PANEL * BLOCK,
        "filled": False,
    }
    tiles.rectangle64(*(given | changed).values())


def cross(**changed):
    given = {
        "kernel": kernel64(),
        "V": np.ones((BLOCK, 1)),
        "out": np.zeros((BLOCK, 1)),
        "first": 0,
        "last": 4,
        "threads": 2,
    }
    tiles.cross64(*(given | changed).values())


def dense(**changed):
    given = {"kernel": kernel64(), "out": np.zeros((BLOCK, BLOCK)), "first": 0, "last": 4, "threads": 2}
    tiles.dense64(*(given | changed).values())


def search(**changed):
    given = {
        "left": features(1, dtype=np.float32),
        "right": features(1, dtype=np.float32),
        "places": np.arange(100, dtype=np.int32),
        "right_rows": 100,
        "among": 1,
        "found": np.zeros((100, 3), dtype=np.int32),
        "first": 0,
        "last": 25,
        "threads": 2,
    }
    tiles.search(*(given | changed).values())


def likelihood(**changed):
    n, m = 70, 3
    given = {
        "sizes": [2],
        "kinds": [0],
        "weights": [1.0],
        "alphas": [0.0],
        "constant": 0.0,
        "F": np.random.default_rng(0).standard_normal((n, 2)),
        "y": np.ones((n, 1)),
        "N": np.ones(n),
        "share": np.ones(n),
        "rows": np.arange(n, dtype=np.int32),
        "neighbours": np.arange(n * m, dtype=np.int32).reshape(n, m) % n,
        "values": np.zeros(n),
        "sums": np.zeros((2, 2 + 2 + 2)),
        "first": 0,
        "last": 2,
        "threads": 2,
    }
    tiles.likelihood(*(given | changed).values())


def most_informative(**changed):
    n, c, m = 70, 5, 3
    given = {
        "sizes": [2],
        "kinds": [0],
        "weights": [1.0],
        "alphas": [0.0],
        "constant": 0.0,
        "points": np.random.default_rng(1).standard_normal((4, 2)),
        "F": np.random.default_rng(0).standard_normal((n, 2)),
        "N": np.ones(n),
        "candidates": np.arange(4 * c, dtype=np.int32).reshape(4, c),
        "least_variance": 1e-13,
        "least_gain": 1e-14,
        "tie": 1e-6,
        "found": np.zeros((4, m), dtype=np.int32),
        "first": 0,
        "last": 4,
        "threads": 2,
    }
    tiles.most_informative(*(given | changed).values())


HUGE = 2**62
WRONG = {
    "rectangle: V of another height": (rectangle, {"left": np.ones((2 * BLOCK, 1))}),
    "rectangle: other columns": (rectangle, {"right": np.ones((BLOCK, 2))}),
    "rectangle: sums of another height": (rectangle, {"right_out": np.zeros((2 * BLOCK, 1))}),
    "rectangle: a block before the first": (rectangle, {"left_from": -1}),
    "rectangle: from two blocks on": (rectangle, {"after": 2}),
    "rectangle: a store too small": (rectangle, {"store": np.zeros(PANEL * BLOCK - 1)}),
    "rectangle: tiles that there are not": (rectangle, {"after": 1}),
    "rectangle: one sum for two": (rectangle, dict.fromkeys(("left_out", "right_out"), np.zeros((BLOCK, 1)))),
    "symmetric: no thread": (symmetric, {"out": np.zeros((0, BLOCK, 1))}),
    "symmetric: a first offset above 0": (
        symmetric,
        {"offsets": np.array([PANEL * BLOCK, 2 * PANEL * BLOCK])},
    ),
    "symmetric: a first offset below 0": (symmetric, {"offsets": np.array([-PANEL * BLOCK, 0])}),
    "symmetric: one offset below 0": (symmetric, {"offsets": np.array([-PANEL * BLOCK])}),
    "symmetric: no offset": (symmetric, {"offsets": np.zeros(0, dtype=np.int64)}),
    "symmetric: more stored panels than panels": (
        symmetric,
        {"offsets": np.cumsum([0, *[PANEL * BLOCK] * 4, 0])},
    ),
    "symmetric: a store too small": (symmetric, {"store": np.zeros(PANEL * BLOCK - 1)}),
    "symmetric: panels beyond the last": (symmetric, {"last": HUGE}),
    "symmetric: panels before the first": (symmetric, {"first": -1}),
    "cross: no thread": (cross, {"threads": 0}),
    "cross: panels beyond the last": (cross, {"last": 5}),
    "dense: fewer threads than none": (dense, {"threads": -1}),
    "dense: more rows than points": (dense, {"out": np.zeros((BLOCK + 1, BLOCK))}),
    "search: no thread": (search, {"threads": 0}),
    "search: panels beyond the last": (search, {"last": 26}),
    "search: panels far beyond the last": (search, {"first": HUGE, "last": HUGE}),
    "search: a place beyond the rows": (search, {"places": np.arange(1, 101, dtype=np.int32)}),
    "search: a place before the rows": (search, {"places": np.arange(-1, 99, dtype=np.int32)}),
    "search: rows beyond the points": (search, {"right_rows": BLOCK + 1}),
    "likelihood: no thread": (likelihood, {"threads": 0}),
    "likelihood: a row beyond the points": (likelihood, {"rows": np.arange(1, 71, dtype=np.int32)}),
    "likelihood: a neighbour beyond the points": (
        likelihood,
        {"neighbours": np.full((70, 3), 70, dtype=np.int32)},
    ),
    "likelihood: a neighbour before none": (likelihood, {"neighbours": np.full((70, 3), -2, dtype=np.int32)}),
    "likelihood: more neighbours than can be counted": (
        likelihood,
        {"neighbours": np.full((70, 70_000), -1, dtype=np.int32)},
    ),
    "most informative: no thread": (most_informative, {"threads": 0}),
    "most informative: a candidate beyond the rows": (
        most_informative,
        {"candidates": np.full((4, 5), 70, dtype=np.int32)},
    ),
    "most informative: a candidate before none": (
        most_informative,
        {"candidates": np.full((4, 5), -2, dtype=np.int32)},
    ),
    "most informative: more than candidates": (most_informative, {"found": np.zeros((4, 6), dtype=np.int32)}),
    "most informative: fewer found than points": (
        most_informative,
        {"found": np.zeros((3, 3), dtype=np.int32)},
    ),
    "most informative: points beyond the last": (most_informative, {"last": 5}),
    "most informative: fewer features than terms": (most_informative, {"points": np.zeros((4, 1))}),
    "most informative: no noise": (most_informative, {"N": np.ones(69)}),
    "likelihood: chunks beyond the last": (likelihood, {"sums": np.zeros((3, 6)), "last": 3}),
}


@pytest.mark.parametrize("call", [symmetric, rectangle, cross, dense, search, likelihood, most_informative])
def test_what_is_right_is_taken(call):
    call()


@pytest.mark.parametrize(("call", "wrong"), WRONG.values(), ids=WRONG)
def test_what_would_divide_by_zero_or_reach_out_of_bounds_is_refused(call, wrong):
    with pytest.raises((ValueError, IndexError)):
        call(**wrong)


@pytest.mark.parametrize("size", [0, 1, -4])
def test_groups_of_other_numbers_than_float32_and_float64_are_refused(size):
    with pytest.raises(ValueError, match="bytes"):
        tiles.group_width(size)


def test_the_sums_of_threads_are_those_of_their_panels_however_many_run():
    """Share t holds the panels p with p % shares == t: also where a call starts in the middle, and for
    shares without panels."""
    K, V, panels = kernel64(3), np.random.default_rng(1).standard_normal((3 * BLOCK, 1)), 3 * BLOCK // PANEL
    nothing = np.zeros(0), np.zeros(1, dtype=np.int64)
    alone = [np.zeros((1, 3 * BLOCK, 1)) for _ in range(panels)]
    for p, out in enumerate(alone):
        tiles.symmetric64(K, V, out, p, p + 1, 0, *nothing, False)
    for shares in (2, 3, 5, 40):
        out = np.zeros((shares, 3 * BLOCK, 1))
        for first, last in ((0, 4), (4, 5), (5, panels)):
            tiles.symmetric64(K, V, out, first, last, 0, *nothing, False)
        for t in range(shares):
            expected = np.zeros((3 * BLOCK, 1))
            for p in range(t, panels, shares):
                expected += alone[p][0]
            np.testing.assert_allclose(out[t], expected, rtol=1e-13, atol=1e-13)


def test_more_threads_than_panels_give_the_bits_of_as_many():
    X, V = np.random.default_rng(2).standard_normal((300, 2)), np.ones((300, 3))
    engine, out = native.NativeEngine(10**30), []
    for cores in (8, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "cores", lambda cores=cores: cores)
            out.append(engine.symmetric(RBF(1.0), X, V, np.dtype("float64"), TileCache(0), 0, no_tick))
    assert np.array_equal(*out)


def test_forty_thousand_threads_are_a_number_like_any_other(tmp_path):
    """Of an estimator, of a model's file, and of the functions themselves."""
    program = f"""
import numpy as np, itergp
from itergp.linalg.engines.native import _tiles
X = np.random.default_rng(0).standard_normal((300, 2))
model = itergp.IterGPRegressor(threads=40_000, noise=0.1, learn=False, budget="20 actions").fit(X, X[:, 0])
model.save({str(tmp_path / "model.itergp")!r})
loaded = itergp.IterGPRegressor.load({str(tmp_path / "model.itergp")!r})
assert np.array_equal(loaded.predict(X), model.predict(X))
F = np.zeros((4000, 1, {BLOCK}), dtype=np.float32)
found = np.zeros((len(F) * {BLOCK}, 1), dtype=np.int32)
places = np.arange(len(found), dtype=np.int32)
_tiles.search(F, F[:1], places, 1, 0, found, 0, len(found) // 4, 40_000)
assert not found.any()
print("done")
"""
    assert run(program) == "done"


@LIMITS
def test_where_no_thread_can_be_started_the_caller_does_the_work():
    """With room for 2 MB and no stack, all calls give the bits that they give with threads."""
    program = f"""
import resource
import numpy as np
from itergp.linalg.engines.native import _tiles
rng = np.random.default_rng(0)
F, V = rng.standard_normal((4, 2, {BLOCK})), rng.standard_normal((4 * {BLOCK}, 1))
K = _tiles.Kernel64()
K.add(F, F, 0, 1.0, 0.0)
nothing, outs = (np.zeros(0), np.zeros(1, dtype=np.int64)), [np.zeros((3, 4 * {BLOCK}, 1)) for _ in range(2)]
def fill(out):
    _tiles.symmetric64(K, V, out, 0, 16, 0, *nothing, False)
with open("/proc/self/statm") as sizes:
    mapped = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2 * 2**20, resource.RLIM_INFINITY))
fill(outs[0])
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
fill(outs[1])
assert outs[0].any() and np.array_equal(*outs)
print("done")
"""
    assert run(program) == "done"


@LIMITS
def test_where_there_is_no_memory_for_the_work_itself_there_is_an_error():
    """10,000 neighbours need 800 MB for one group of likelihoods: MemoryError, from whichever thread meets
    it."""
    program = """
import resource
import numpy as np
from itergp.linalg.engines.native import _tiles
n, m = 130, 10_000
given = [1], [0], [1.0], [0.0], 0.0, np.ones((n, 1)), np.ones((n, 1)), np.ones(n), np.ones(n)
rows, J = np.arange(n, dtype=np.int32), np.full((n, m), -1, np.int32)
values, sums = np.zeros(n), np.zeros((3, 5))
with open("/proc/self/statm") as sizes:
    mapped = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 100 * 2**20, resource.RLIM_INFINITY))
try:
    _tiles.likelihood(*given, rows, J, values, sums, 0, 3, 3)
except MemoryError:
    print("refused")
"""
    assert run(program) == "refused"

"""Neighbours that say most: each lowers the variance at its point as much as any candidate does, given those
before it."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import helpers
from itergp import RBF, Compute, Constant, Linear, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from itergp.linalg.engines import get, registry
from itergp.linalg.gram import Gram
from itergp.linalg.neighbours import TIE

native = pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")

KERNELS = {
    "ard": 1.7 * Matern32([0.5, 1.0, 2.0]),
    "rbf": 2.0 * RBF(0.7),
    "sum": Matern12(1.0) + 0.5 * Matern52([1.0, 2.0, 3.0]),
    "rational-quadratic-and-constant": 3.0 * RationalQuadratic(1.0, alpha=0.7) + 2.0 * Constant(0.4),
    "on-columns": Matern32(0.7).on([0]) + 1.3 * RBF(1.0).on([1, 2]),
    "periodic": Periodic(1.0, period=2.0),
}
OTHERS = {"product": Matern32(1.0) * RBF(2.0), "linear": Linear(1.0) + RBF(1.0)}


@pytest.fixture(params=native._tiles.instruction_sets())
def instruction_set(request):
    before = native._tiles.instruction_set()
    native._tiles.choose(request.param)
    yield request.param
    native._tiles.choose(before)


@pytest.fixture
def in_numpy(monkeypatch):
    """The choice by the reference engine, without the native code."""
    monkeypatch.setattr(registry, "native", lambda: None)
    return get("numpy").most_informative


def nearest(X, x, c):
    return np.argsort(((X - x[:, None]) ** 2).sum(axis=2), axis=1, kind="stable")[:, :c]


def problem(n=90, points=5, c=70, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X, x = rng.standard_normal((n, d)), rng.standard_normal((points, d))
    return X, x, rng.uniform(0.01, 0.3, n), nearest(X, x, c)


def check_greedy(kernel, x, X, N, candidates, chosen):
    """Each is the best, given those before, and no nearer candidate is as good; down to where rounding could
    decide."""
    for i, row in enumerate(chosen):
        free = candidates[~np.isin(candidates, chosen[:i])]
        gain = helpers.gains(kernel, x, X, N, free, chosen[:i])
        if gain.max() < 1e-6:
            return
        place = int(np.flatnonzero(free == row)[0])
        assert gain[place] >= (1.0 - 2.0 * TIE) * gain.max()
        assert (gain[:place] < (1.0 - 0.5 * TIE) * gain.max()).all()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_choice_is_that_of_dense_formulas(instruction_set, kernel):
    X, x, N, J = problem()
    found = native.ENGINE.most_informative(kernel, x, X, N, J, 13)
    for p in range(len(x)):
        assert np.array_equal(found[p], helpers.most_informative(kernel, x[p], X, N, J[p], 13))


@pytest.mark.parametrize("kernel", (KERNELS | OTHERS).values(), ids=KERNELS | OTHERS)
def test_without_the_native_code_numpy_chooses_the_same(in_numpy, kernel):
    X, x, N, J = problem(points=70)
    found = in_numpy(kernel, x, X, N, J, 13)
    for p in range(0, len(x), 7):
        assert np.array_equal(found[p], helpers.most_informative(kernel, x[p], X, N, J[p], 13))
    if kernel in KERNELS.values():
        assert np.array_equal(found, native.ENGINE.most_informative(kernel, x, X, N, J, 13))


@pytest.mark.parametrize("engine", ["numpy", "jax", "native"])
def test_all_engines_agree(engine):
    X, x, N, J = problem()
    for name, kernel in (KERNELS | OTHERS).items():
        if not get(engine).supports(kernel, 3):
            found = get(engine).most_informative(kernel, x, X, N, J, 9)
            assert np.array_equal(found[1], helpers.most_informative(kernel, x[1], X, N, J[1], 9)), name


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    c=st.integers(2, 75),
    share=st.floats(0.05, 1.0),
    noise=st.floats(-5.0, 1.0),
    scale=st.floats(-0.5, 1.0),
    lines=st.booleans(),
)
def test_every_step_is_the_best_one(seed, d, c, share, noise, scale, lines):
    rng = np.random.default_rng(seed)
    X, x, kernel = rng.uniform(-1, 1, (80, d)), rng.uniform(-1, 1, (2, d)), 1.3 * Matern32(10.0**scale)
    if lines:
        X[:, 1:] = X[rng.integers(4, size=80), 1:]
    N, J, count = 10.0**noise * rng.uniform(0.5, 2.0, 80), nearest(X, x, c), max(1, int(share * c))
    found = native.ENGINE.most_informative(kernel, x, X, N, J, count)
    for p in range(2):
        assert len(set(found[p])) == count
        check_greedy(kernel, x[p], X, N, J[p], found[p])


@pytest.mark.parametrize("by", ["native", "numpy"])
def test_fewer_are_the_first_of_more(by, in_numpy):
    X, x, N, J = problem()
    choose = in_numpy if by == "numpy" else native.ENGINE.most_informative
    most = choose(KERNELS["rbf"], x, X, N, J, 70)
    for count in (1, 8, 33):
        assert np.array_equal(choose(KERNELS["rbf"], x, X, N, J, count), most[:, :count])


@pytest.mark.parametrize("by", ["native", "numpy"])
def test_of_candidates_that_say_the_same_the_nearest_comes_first(by, in_numpy):
    """On both sides of a point, at the same distance: whichever the order has first."""
    choose = in_numpy if by == "numpy" else native.ENGINE.most_informative
    X, x = np.array([[1.0], [-1.0], [2.0], [-2.0], [0.3]]), np.zeros((2, 1))
    J = np.array([[0, 1, 2, 3], [1, 0, 3, 2]], dtype=np.int32)
    found = choose(Matern32(1.0), x, X, np.full(5, 0.1), J, 2)
    assert np.array_equal(found, [[0, 1], [1, 0]])


@pytest.mark.parametrize("by", ["native", "numpy"])
def test_copies_without_noise_come_last(by, in_numpy):
    """A copy of a chosen row says nothing: every place is taken once before any is taken twice."""
    choose = in_numpy if by == "numpy" else native.ENGINE.most_informative
    places = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    X, x = np.repeat(places, 4, axis=0), np.random.default_rng(1).uniform(-1, 1, (3, 2))
    J = nearest(X, x, 36)
    found = choose(Matern12(0.5), x, X, np.zeros(36), J, 20)
    for p in range(3):
        assert len(set(found[p] // 4)) == len(set(found[p, :9] // 4)) == 9
        assert len(set(found[p])) == 20
        rest = [j for j in J[p] if j not in found[p, :9]]
        assert np.array_equal(found[p, 9:], rest[:11])  # the nearest that are left


@pytest.mark.parametrize("by", ["native", "numpy"])
def test_a_point_at_a_row_without_noise_is_known_and_gets_its_nearest_rows(by, in_numpy):
    choose = in_numpy if by == "numpy" else native.ENGINE.most_informative
    X, _, _, _ = problem()
    J = nearest(X, X[:3], 40)
    assert np.array_equal(choose(KERNELS["ard"], X[:3], X, np.zeros(90), J, 10), J[:, :10])


@pytest.mark.parametrize("by", ["native", "numpy"])
def test_where_there_are_too_few_candidates_all_are_chosen(by, in_numpy):
    choose = in_numpy if by == "numpy" else native.ENGINE.most_informative
    X, x, N, J = problem(c=12)
    J = J.astype(np.int32)
    J[0, 4:], J[1, :] = -1, -1
    found = choose(KERNELS["ard"], x, X, N, J, 8)
    assert set(found[0, :4]) == set(J[0, :4])
    assert (found[0, 4:] == -1).all()
    assert (found[1] == -1).all()
    assert (found[2:] >= 0).all()


def test_only_the_columns_of_chosen_rows_are_evaluated(in_numpy):
    """c (m + 1) entries of each point, not c^2."""
    evaluated = []

    class Counted(Matern32):
        def __call__(self, X0, X1):
            evaluated.append(len(X0) * len(X1))
            return super().__call__(X0, X1)

    X, x, N, J = problem()
    in_numpy(Counted(1.0), x, X, N, J, 6)
    assert sum(evaluated) == len(x) * 70 * (6 + 1)


def test_the_same_rows_for_any_number_of_threads_and_between_ticks(monkeypatch):
    X, x, N, J = problem(n=300, points=200)
    once = native.ENGINE.most_informative(KERNELS["ard"], x, X, N, J, 20, 1)
    monkeypatch.setattr(native.neighbours, "WORK_PER_CALL", 1e5)
    for threads in (1, 2, 3):
        ticks = []
        found = native.ENGINE.most_informative(
            KERNELS["ard"], x, X, N, J, 20, threads, lambda ticks=ticks: ticks.append(1)
        )
        assert np.array_equal(found, once)
        assert len(ticks) > 10


@pytest.mark.parametrize("offset", [0.0, 1e6, 1.7e12])
@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_far_from_the_origin_the_same_rows_are_chosen(engine, offset):
    rng = np.random.default_rng(0)
    X, x = (np.round(rng.uniform(0, 4, (n, 2)) * 1024) / 1024 for n in (150, 20))
    N, how = np.full(150, 0.01), Compute(engine=engine)
    for kernel in (Matern32([0.4, 0.9]), RBF(0.7) + Matern12(1.0).on([1])):
        near, far = Gram(kernel, X, how), Gram(kernel, X + offset, how)
        expected = near.most_informative(x, near.nearest(x, 80), N, 12)
        found = far.most_informative(x + offset, far.nearest(x + offset, 80), N, 12)
        assert np.array_equal(found, expected)


def test_as_many_as_there_are_candidates_need_no_choice():
    X, x, N, J = problem()
    for count in (0, 70, 80):
        assert np.array_equal(Gram(KERNELS["ard"], X).most_informative(x, J, N, count), J[:, :count])

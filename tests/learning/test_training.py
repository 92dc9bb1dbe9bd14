"""Learning: ends near what made the data, keeps its time, returns the best point whatever ends it, and
repeats exactly."""

import numpy as np
import pytest

from helpers import FakeClock
from itergp import RBF, InputError, Matern32, Periodic
from itergp.data.rows import Rows
from itergp.learning import learn, stages
from itergp.learning.exact import exact
from itergp.learning.parameters import RANGES, Space
from itergp.prior.parameters import parameters


def drawn(n=400, d=2, lengthscale=(0.3, 3.0), noise=0.05, seed=0):
    """Data from a Gaussian process whose second input hardly matters."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    K = Matern32(np.array(lengthscale))(X, X)
    return X, np.linalg.cholesky(K + noise * np.eye(n)) @ rng.standard_normal(n)


START = 1.0 * Matern32([1.4, 1.4])


@pytest.mark.parametrize("method", ["exact", "neighbours"])
def test_it_ends_within_a_factor_of_two_of_what_made_the_data(method):
    X, y = drawn()
    learned = learn(X, y, START, 0.5, method=method)
    lengthscale = learned.kernel.kernel.lengthscale
    assert 0.15 < lengthscale[0] < 0.6  # a factor of two
    assert lengthscale[1] > 4 * lengthscale[0]
    assert 0.025 < learned.noise < 0.1


def test_neighbours_end_where_the_exact_likelihood_is_almost_as_high_as_it_gets():
    X, y = drawn()
    objective = exact(Rows.of(X, y))
    best, near = learn(X, y, START, 0.5, method="exact"), learn(X, y, START, 0.5, method="neighbours")
    start = objective(START, 0.5).value
    lost = objective(near.kernel, near.noise).value - objective(best.kernel, best.noise).value
    assert -1e-6 < lost < 0.05 * (start - objective(best.kernel, best.noise).value)


def test_small_data_take_the_exact_likelihood_and_large_ones_their_neighbours():
    X, y = drawn(200)
    assert learn(X, y, START, 0.5).stages == ("exact",)
    X, y = np.random.default_rng(0).standard_normal((4000, 2)), np.random.default_rng(1).standard_normal(4000)
    assert all("neighbours" in stage for stage in learn(X, y, START, 0.5, seconds=3.0).stages)


def test_the_same_data_give_the_same_bits():
    X, y = drawn()
    first, second = (learn(X, y, START, 0.5, method="neighbours", seed=3) for _ in range(2))
    assert first.noise == second.noise
    assert np.array_equal(first.kernel.kernel.lengthscale, second.kernel.kernel.lengthscale)


def test_the_objective_falls_within_a_stage_and_the_trace_says_so():
    X, y = drawn()
    trace = learn(X, y, START, 0.5, method="exact").trace
    assert len(trace) > 3
    assert (np.diff([record.objective for record in trace]) <= 0).all()
    assert (np.diff([record.seconds for record in trace]) >= 0).all()


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_a_time_limit_is_kept_and_what_was_found_is_returned(monkeypatch, seconds):
    """On a clock that moves by 20 ms whenever it is read, learning reads it until the time is over, and then
    only to say how long it took."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 6))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(5000)
    clock = FakeClock(monkeypatch, step=0.02)
    learned = learn(X, y, 1.0 * Matern32(np.full(6, 2.5)), 0.5, seconds=seconds)
    assert 0.8 * seconds <= clock.readings * clock.step <= seconds + 10 * clock.step
    assert np.isfinite(learned.noise)


def test_no_time_at_all_gives_back_the_start():
    X, y = drawn(100)
    learned = learn(X, y, START, 0.5, seconds=1e-9)
    assert np.isclose(learned.noise, 0.5)
    assert np.allclose(learned.kernel.kernel.lengthscale, 1.4)


def test_control_c_returns_the_best_so_far():
    X, y = drawn()

    def callback(record):
        if record.iteration == 4:
            raise KeyboardInterrupt

    learned = learn(X, y, START, 0.5, method="exact", callback=callback)
    assert learned.interrupted
    assert learned.objective <= learned.trace[-1].objective < learned.trace[0].objective


def test_a_callback_may_end_it():
    X, y = drawn()
    learned = learn(X, y, START, 0.5, method="exact", callback=lambda record: record.iteration >= 2)
    assert len(learned.trace) == 3
    assert not learned.interrupted


@pytest.mark.parametrize("method", ["subset", "iterative", "sgpr", "elbo"])
def test_every_method_raises_the_exact_likelihood(method):
    X, y = drawn(150)
    objective = exact(Rows.of(X, y))
    learned = learn(X, y, START, 0.5, method=method)
    assert objective(learned.kernel, learned.noise).value < objective(START, 0.5).value - 0.1


def test_noise_that_is_given_stays():
    X, y = drawn(200)
    assert learn(X, y, START, 0.123, learn_noise=False).noise == 0.123


def test_targets_without_noise_reach_the_floor_and_the_result_says_so():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    learned = learn(X, np.sin(3 * X[:, 0]), 1.0 * RBF([1.0]), 0.1)
    variance = np.mean(np.sin(3 * X[:, 0]) ** 2)
    assert learned.noise < 3 * RANGES.noise[0] * variance
    assert any("noise" in name for name in learned.at_bounds) == (
        learned.noise <= 1.001 * RANGES.noise[0] * variance
    )


@pytest.mark.parametrize(
    "y",
    [np.zeros(50), np.full(50, 3.0), 1e-12 * np.arange(50.0), 1e12 * np.arange(50.0)],
    ids=["zero", "equal", "tiny", "huge"],
)
def test_odd_targets_leave_finite_parameters(y):
    X = np.random.default_rng(0).standard_normal((50, 2))
    learned = learn(X, y, START, 0.1)
    assert np.isfinite(learned.noise)
    assert all(np.isfinite(value).all() for value in parameters(learned.kernel).values())


def test_parameters_and_vectors_of_logarithms_are_two_views_of_the_same():
    X, y = drawn(50)
    space = Space.of(START, 0.3, Rows.of(X, y))
    kernel, noise = space.values(space.vector(START, 0.3))
    assert np.isclose(noise, 0.3)
    assert all(np.allclose(parameters(kernel)[path], value) for path, value in parameters(START).items())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"method": "magic"}, "method"),
        ({"noise": -1.0}, "noise"),
        ({"X": [[np.nan]]}, "X"),
        ({"y": [1.0]}, "y"),
        ({"counts": [0] * 50}, "counts"),
    ],
)
def test_bad_input_is_named(change, named):
    X, y = drawn(50)
    arguments = {"X": X, "y": y, "kernel": START, "noise": 0.1} | change
    with pytest.raises(InputError, match=named):
        learn(**arguments)


def ranges(kernel, X, noise=0.1):
    """By name: where each parameter is sought, and the middle of its prior."""
    space = Space.of(kernel, noise, Rows.of(X, np.ones(len(X))))
    starts = np.cumsum([0, *space.sizes])
    parts = np.exp([space.lower, space.upper, space.centre])
    return {path: parts[:, a:b] for path, a, b in zip(space.paths, starts, starts[1:], strict=False)}


X_UNITS = np.random.default_rng(0).standard_normal((500, 3)) * [1e-4, 1.0, 1e6]


@pytest.mark.parametrize(
    "wrap",
    [lambda k: k, lambda k: 2.0 * k, lambda k: RBF(1.0) + k, lambda k: (RBF(1.0) * (3.0 * k)).on([0, 1, 2])],
    ids=["alone", "scaled", "sum", "nested"],
)
@pytest.mark.parametrize("columns", [[0], [2], [1, 2], [2, 0]])
def test_lengthscales_on_some_columns_are_sought_in_the_units_of_these(columns, wrap):
    """As a kernel of data with these columns alone."""
    inner = Matern32(np.ones(len(columns)))
    alone, found = ranges(inner, X_UNITS[:, columns])["lengthscale"], ranges(wrap(inner.on(columns)), X_UNITS)
    path = next(
        path
        for path, values in found.items()
        if path.endswith("kernel.lengthscale") and values.shape[1] == len(columns)
    )
    np.testing.assert_allclose(found[path], alone)
    least, most, middle = alone / X_UNITS[:, columns].std(axis=0)
    assert (least < middle).all()
    assert (middle < most).all()


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e6])
def test_a_periodic_lengthscale_has_no_unit_and_its_period_that_of_x(unit):
    found, scaled = (ranges(Periodic(1.0, 1.0 * u), u * X_UNITS[:, 1:2]) for u in (1.0, unit))
    np.testing.assert_allclose(scaled["lengthscale"], found["lengthscale"])
    np.testing.assert_allclose(scaled["period"], unit * found["period"])


def test_the_unit_of_a_column_does_not_change_what_is_learned_on_another():
    """Unscaled data, with a column of timestamps beside one of order 1: the same fit as with both of order
    1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 2))
    y = np.sin(6 * X[:, 0]) + 0.5 * np.cos(4 * X[:, 1]) + 0.1 * rng.standard_normal(120)
    fits = [
        learn(X * [1.0, u], y, 1.0 * RBF(0.5).on([0]) + 1.0 * RBF(0.5 * u).on([1]), 0.1, method="exact")
        for u in (1.0, 1e7)
    ]
    assert fits[1].noise == pytest.approx(fits[0].noise, rel=1e-3)
    for path, value in parameters(fits[0].kernel).items():
        unit = 1e7 if path == "right.kernel.kernel.lengthscale" else 1.0
        assert parameters(fits[1].kernel)[path] == pytest.approx(unit * value, rel=1e-2), path


def test_of_very_many_rows_a_random_part_is_learned_from(monkeypatch):
    """What is learned is what `learn` finds from those rows alone; their groups go with them."""
    monkeypatch.setattr(stages, "MOST", 250)
    X, y = drawn()
    rows, groups = Rows.of(X, y), np.arange(len(X)) // 4
    some, of_some = stages.a_sample(rows, 3, groups)
    where = np.array([np.flatnonzero((x == X).all(axis=1))[0] for x in some.X])
    assert some.n == np.unique(where).size == 250
    assert np.array_equal(of_some, groups[where])
    assert np.array_equal(some.y[:, 0] if some.y.ndim > 1 else some.y, y[where])
    found, alone = (learn(*data, START, 0.5, seed=3) for data in ((X, y), (X[where], y[where])))
    assert found.noise == alone.noise
    assert np.array_equal(found.kernel.kernel.lengthscale, alone.kernel.kernel.lengthscale)

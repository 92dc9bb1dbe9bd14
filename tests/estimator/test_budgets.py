"""Budgets: as people write them, kept by the clock, and counted so that fits repeat."""

import time

import numpy as np
import pytest

from helpers import make_data
from itergp import (
    InputError,
    IterGPRegressor,
    Matern32,
    MaxActions,
    MaxPasses,
    Prior,
    ResidualNorm,
    Status,
    condition,
)
from itergp.datasets import synthetic
from itergp.estimator.budgets import Budget, FromTheStart, Until, actions_in_memory
from itergp.estimator.schedules import (
    COLUMN,
    EARLY,
    PAIR,
    Machine,
    affordable_block,
    default_schedule,
    learning_seconds,
    policy_by_the_clock,
    reaches_exact,
)
from itergp.learning import Learned
from itergp.metrics import rmse
from itergp.solver.schedule import blocks_and_residuals
from itergp.solver.state import Progress, State, Step

GOOD = {
    "30s": 30.0,
    "5m": 300.0,
    "1h": 3600.0,
    "1.5 min": 90.0,
    " 2 Minutes ": 120.0,
    "0.5 seconds": 0.5,
    "10sec": 10.0,
    "3 hours": 10800.0,
    "500ms": 0.5,
    "250 milliseconds": 0.25,
    "2 hrs": 7200.0,
}
COUNTED = {
    "200 actions": MaxActions(200),
    "1 action": MaxActions(1),
    "0 actions": MaxActions(0),
    "3 passes": MaxPasses(3),
}
BAD = [
    "\u0663s",
    "\uff15s",
    "30",
    "",
    "s",
    "-3s",
    "0s",
    "3 days",
    "1e3s",
    "5 m s",
    "ten actions",
    "3 ss",
    "3 mss",
    "3 hss",
    "3 passe",
    "3 actionss",
    "3 us",
    "3 µs",
    "9999999999s",
    "1" * 23 + " actions",
    "1.5 actions",
    "nan s",
    "infs",
    30,
    30.0,
    True,
    ["30s"],
]


@pytest.mark.parametrize("text", GOOD)
def test_texts_with_a_unit_of_time(text):
    assert Budget.parse(text) == Budget(seconds=GOOD[text])


@pytest.mark.parametrize("text", COUNTED)
def test_texts_that_count(text):
    assert Budget.parse(text) == Budget(stop=COUNTED[text])


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_anything_else_is_refused_with_the_units_and_examples(value):
    with pytest.raises(
        InputError,
        match=r"budget is .*expected a number and a unit \(ms, s, m .*passes\), "
        r"such as '30s'",
    ):
        Budget.parse(value)


def test_a_criterion_or_none_stays():
    criterion = MaxActions(3) | ResidualNorm(1e-3)
    assert Budget.parse(criterion) == Budget(stop=criterion)
    assert Budget.parse(None) == Budget()


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by 10 ms whenever somebody looks: the same on any machine. Seconds proper:
    benchmarks/budgets.py."""
    now = [0.0]

    def look():
        now[0] += 0.01
        return now[0]

    monkeypatch.setattr(time, "perf_counter", look)
    return look


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize("policy", ["cg", "auto"])
def test_seconds_are_those_of_the_whole_fit(n, policy, clock):
    data = make_data(n)
    model = IterGPRegressor(learn=False, noise=0.01, budget="1s", policy=policy)
    began = clock()
    model.fit(data.X, data.y)
    assert clock() - began < 1.1
    assert model.timings_["total"] < 1.1
    rank = model.posterior_.rank
    began = clock()
    model.refine("0.5s")
    assert clock() - began < 0.6
    assert model.posterior_.rank >= rank
    assert model.score(data.X, data.y) > 0.9


def test_learning_gets_its_share_of_the_seconds_and_the_inference_the_rest(clock, monkeypatch):
    asked = []

    def learn(rows, kernel, noise, *what, seconds, **how):
        asked.append(seconds)
        return Learned(kernel, noise, 0.0)

    monkeypatch.setattr("itergp.estimator.hyperparameters.learn_rows", learn)
    data = make_data(300)
    began = clock()
    model = IterGPRegressor(kernel="matern32", budget="10s", policy="cg").fit(data.X, data.y)
    assert asked[0] == pytest.approx(6.0, abs=0.3)
    assert clock() - began < 11.0
    assert model.status_ in (Status.BUDGET, Status.ACTIONS_EXHAUSTED, Status.PRECISION_LIMIT)
    IterGPRegressor(kernel="matern32", budget="10 actions").fit(data.X, data.y)
    assert asked[1] is None


def test_learning_gets_more_where_actions_that_need_no_pass_leave_it():
    """A hundred thousand rows are acted on in seconds, three million are not."""
    assert learning_seconds("auto", 50_000, 60.0) == pytest.approx(36.0)
    assert 42.0 < learning_seconds("auto", 70_000, 60.0) < 60.0
    assert 48.0 < learning_seconds("auto", 200_000, 60.0) < 58.0
    assert learning_seconds("auto", 3_000_000, 60.0) == pytest.approx(36.0)
    assert learning_seconds("auto", 200_000, 5.0) == pytest.approx(3.0)


def test_whoever_chose_a_policy_knows_what_it_needs():
    assert learning_seconds("cg", 200_000, 60.0) == pytest.approx(36.0)


def test_a_budget_that_is_over_at_once_leaves_a_model():
    data = make_data(3000)
    model = IterGPRegressor(learn=False, noise=0.01, budget="0.001s").fit(data.X, data.y)
    assert np.isfinite(model.predict(data.X_new, return_std=True)).all()


def test_criteria_end_the_inference():
    data = make_data(200)
    model = IterGPRegressor(learn=False, noise=0.1, budget=ResidualNorm(1e-2), policy="cg").fit(
        data.X, data.y
    )
    assert model.status_ is Status.CONVERGED
    assert model.posterior_.rank < 200


@pytest.mark.slow
def test_without_a_budget_small_data_are_exact_and_large_data_get_512_actions():
    small, large = make_data(300), make_data(2500)
    assert IterGPRegressor(learn=False, noise=0.1).fit(small.X, small.y).status_ is Status.EXACT
    model = IterGPRegressor(learn=False, noise=0.1).fit(large.X, large.y)
    assert (model.status_, model.posterior_.rank) == (Status.BUDGET, 512)


def test_the_exact_process_is_aimed_at_where_the_budget_allows_it():
    assert reaches_exact(4000, Budget.parse("20s"))
    assert not reaches_exact(4000, Budget.parse("5s"))
    assert default_schedule(4000, Budget.parse("20s")).order == "random"
    assert not reaches_exact(100_000, Budget.parse("60s"))
    assert reaches_exact(500, Budget.parse("500 actions"))
    assert not reaches_exact(500, Budget.parse("499 actions"))
    assert type(default_schedule(500, Budget())).__name__ == "UnitVector"
    assert type(default_schedule(50_000, Budget())).__name__ == "Schedule"


class Measured:
    """A machine on which the exact process takes so long, and passes so many times what is expected."""

    def __init__(self, exact, slowness=1.0, spent=0.0):
        self.exact_seconds, self.slowness = (lambda most: exact), (lambda most: slowness)
        self.spent = spent


def test_a_budget_that_suffices_for_the_exact_process_on_this_machine_takes_it():
    """By what is measured: with a guess alone, 5 s made 1,481 actions and took them all, where 10 s were
    exact after 2."""
    fast, slow = Measured(0.9), Measured(60.0)
    assert not reaches_exact(2300, Budget(seconds=2.0))
    assert reaches_exact(2300, Budget(seconds=2.0), fast)
    assert reaches_exact(3500, Budget(seconds=20.0))
    assert not reaches_exact(3500, Budget(seconds=20.0), slow)
    for n in (600, 2300, 9000, 30_000):
        reached = [
            reaches_exact(n, Budget(seconds=s), Measured(n**3 / 2e10)) for s in np.geomspace(0.01, 1e4, 50)
        ]
        assert reached == sorted(reached)  # a larger budget is exact where a smaller one is


def test_nothing_is_measured_where_no_machine_could_make_a_difference():
    class Never:
        def exact_seconds(self, most):
            raise AssertionError("measured")

    assert reaches_exact(300, Budget(seconds=1.0), Never())
    assert not reaches_exact(100_000, Budget(seconds=60.0), Never())


def test_the_seconds_of_the_exact_process_are_scaled_up_from_a_few_rows(monkeypatch):
    import itergp.estimator.schedules as schedules

    lines, squares, cubes = 0.3, 0.7, 0.16  # seconds of 512 rows, by how they grow
    half, whole = lines / 2 + squares / 4 + cubes / 8, lines + squares + cubes
    taken = iter([0.5, cubes, half, whole])  # two products, of which the first wakes threads; then few rows
    monkeypatch.setattr(schedules, "_seconds", lambda work: (work(), next(taken))[1])
    data = make_data(2048)
    problem = condition(Prior(1.0 * Matern32(0.3)), data.X, data.y, 0.1, stop=MaxActions(0)).problem
    assert Machine(problem).exact_seconds() == pytest.approx(lines * 4 + squares * 4**2 + cubes * 4**3)


def test_on_a_slow_machine_the_first_pass_is_narrower_so_that_it_is_not_cut(monkeypatch):
    def width(n, seconds, slowness):
        policy = default_schedule(n, Budget(seconds=seconds), Measured(1e9, slowness))
        return policy.entries[0][0].block_size if hasattr(policy, "entries") else 0

    assert [width(15_000, 4.0, slowness) for slowness in (1.0, 3.0, 30.0)] == [128, 48, 0]
    import itergp.estimator.schedules as schedules

    taken = iter([9.0, 0.01, 3.0 * 2048**2 * (PAIR + 16 * COLUMN)])
    monkeypatch.setattr(schedules, "_seconds", lambda work: (work(), next(taken))[1])
    data = make_data(3000)
    problem = condition(Prior(1.0 * Matern32(0.3)), data.X, data.y, 0.1, stop=MaxActions(0)).problem
    assert Machine(problem).slowness() == pytest.approx(3.0)


def test_what_measuring_takes_is_time_that_is_gone():
    assert reaches_exact(2300, Budget(seconds=2.0), Measured(2.9))
    assert not reaches_exact(2300, Budget(seconds=2.0), Measured(2.9, spent=0.5))
    policies = [
        default_schedule(15_000, Budget(seconds=4.0), Measured(1e9, spent=spent)) for spent in (0.0, 3.9)
    ]
    assert [type(policy).__name__ for policy in policies] == ["Schedule", "UnitVector"]


def test_measuring_ends_early_where_it_would_take_the_time_itself(monkeypatch):
    """A few rows of a wide table tell enough."""
    import itergp.estimator.schedules as schedules

    asked = []

    def seconds(work):
        asked.append(work)
        return 0.5

    monkeypatch.setattr(schedules, "_seconds", seconds)
    data = make_data(2048)
    problem = condition(Prior(1.0 * Matern32(0.3)), data.X, data.y, 0.1, stop=MaxActions(0)).problem
    machine = Machine(problem)
    assert machine.slowness(most=1.0) == pytest.approx(0.5 / (256**2 * (PAIR + 16 * COLUMN)))
    assert (len(asked), machine.spent) == (2, 1.0)
    assert machine.exact_seconds(most=3.0) == pytest.approx(0.5 * 2048 / 256)
    assert len(asked) == 2 + 3  # two products of matrices, and the half of the rows


def test_time_that_learning_leaves_over_decides_and_a_fit_that_resumes_goes_on_as_it_began(
    monkeypatch, tmp_path
):
    asked = []

    def seconds(machine, most):
        asked.append(machine.problem.n)
        return takes

    monkeypatch.setattr(Machine, "exact_seconds", seconds)
    data, how = make_data(600), {"learn": False, "noise": 0.1, "budget": "40s"}
    # more than the share of the time that is kept for inference where learning takes all that it may
    takes = 30.0
    assert IterGPRegressor(**how).fit(data.X, data.y).status_ is Status.EXACT
    takes = 90.0
    begun = IterGPRegressor(**how | {"budget": "3s"}, checkpoint=tmp_path / "fit").fit(data.X, data.y)
    assert type(begun.posterior_.policy).__name__ == "Schedule"
    takes, asked[:] = 1e-3, []
    again = IterGPRegressor(**how | {"budget": "3s"}, checkpoint=tmp_path / "fit").fit(data.X, data.y)
    assert not asked
    assert repr(again.posterior_.policy) == repr(begun.posterior_.policy)
    assert again.trace_.resumed_from == begun.posterior_.rank


def test_a_short_time_begins_with_columns_of_the_kernel_matrix_and_measures_nothing(monkeypatch):
    """A first pass that the clock cuts is lost: 1 s bought no action where 0.5 s bought 80."""
    monkeypatch.setattr(Machine, "exact_seconds", lambda machine: pytest.fail("measured"))
    monkeypatch.setattr(Machine, "slowness", lambda machine: pytest.fail("measured"))
    data = make_data(3000)
    problem = condition(Prior(1.0 * Matern32(0.3)), data.X, data.y, 0.1, stop=MaxActions(0)).problem
    (first, actions), (second, _), *_ = policy_by_the_clock(problem, Budget(seconds=0.3)).entries
    assert type(first).__name__ == "UnitVector"
    assert type(second).__name__ == "PseudoInput"
    assert actions == MaxActions(first.block_size)
    assert first.order == "random"
    assert first.block_size <= 64
    small = condition(Prior(1.0 * Matern32(0.3)), data.X[:600], data.y[:600], 0.1, stop=MaxActions(0)).problem
    # exact, as far as one can guess
    assert type(policy_by_the_clock(small, Budget(seconds=1.0))).__name__ == "UnitVector"


def test_blocks_without_a_pass_are_as_wide_as_a_part_of_the_time_allows():
    widths = [default_schedule(57_000, Budget(seconds=s)).block_size for s in (0.1, 0.5, 1.0)]
    assert widths[0] == 16
    assert widths == sorted(widths)
    assert default_schedule(300_000, Budget(seconds=20.0)).block_size == 128
    assert default_schedule(57_000, Budget.parse("1s")).block_size == 16


def test_the_first_pass_is_as_wide_as_the_time_allows():
    assert affordable_block(50_000, Budget()) == affordable_block(15_000, Budget.parse("8s")) == 128
    widths = [affordable_block(57_000, Budget(seconds=s)) for s in (1, 8, 15, 24, 60, 600)]
    assert widths[0] == 0
    assert widths == sorted(widths)
    assert widths[-1] == 128
    quick = default_schedule(57_000, Budget.parse("1s"))
    assert type(quick).__name__ == "UnitVector"  # columns of K only


def test_with_a_clock_residuals_come_before_the_second_block_so_that_it_may_end_there():
    """The one residual of a Krylov block can make the mean worse than pseudo-inputs had it."""
    timed, counted = default_schedule(20_000, Budget.parse("60s")), default_schedule(20_000, Budget())
    assert [type(policy).__name__ for policy, _ in timed.entries][:3] == [
        "PseudoInput",
        "ConjugateGradient",
        "BlockKrylov",
    ]
    assert [type(policy).__name__ for policy, _ in counted.entries][:2] == ["PseudoInput", "BlockKrylov"]
    X, y = synthetic(800, 2, 0.1, seed=0)
    problem = (Prior(1.0 * Matern32(0.3)), X[:600], y[:600], 0.1)

    def errors(schedule, checks):
        return [
            rmse(y[600:], condition(*problem, schedule, MaxActions(actions)).mean(X[600:]))
            for actions in checks
        ]

    pseudo_inputs, block = errors(blocks_and_residuals(16), (16, 32))
    assert block > 1.2 * pseudo_inputs
    for error in errors(blocks_and_residuals(16, EARLY), (48, 64, 80)):
        assert error < 0.9 * pseudo_inputs


def test_memory_limits_the_actions_of_a_long_time(monkeypatch):
    import itergp.estimator.budgets as budgets

    monkeypatch.setattr(budgets, "available_bytes", lambda: 2**30)
    r = actions_in_memory(100_000)
    assert 100 < r < 400
    assert 8 * (2 * 100_000 * r + 2 * r * r) <= 2**29
    assert actions_in_memory(100) == 100


def test_until_is_a_moment_and_from_the_start_counts_what_was_before():
    data = make_data(50)
    state = (
        IterGPRegressor(learn=False, noise=0.1, policy="cg", budget="4 actions")
        .fit(data.X, data.y)
        .posterior_.state
    )
    assert Until(time.perf_counter() - 1.0).reached(state.progress, state)
    assert not Until(time.perf_counter() + 9.0).reached(state.progress, state)
    last = {**vars(state.trace[-1]), "seconds": state.trace[-1].seconds + 100.0}
    long = State(state.belief, progress=state.progress, trace=(*state.trace, Step(**last)))
    # a step took 100 s: another one would be cut
    assert Until(time.perf_counter() + 9.0).reached(Progress(), long)
    assert not Until(time.perf_counter() + 60.0).reached(Progress(), long)
    assert not Until(time.perf_counter() + 9.0).reached(long.trace[-1], long)  # not in this run
    assert MaxActions(6).allowance(state.progress, state) == 6
    assert FromTheStart(MaxActions(6)).allowance(state.progress, state) == 2
    assert FromTheStart(MaxActions(4)).reached(state.progress, state)
    assert FromTheStart(ResidualNorm()).reads_residual

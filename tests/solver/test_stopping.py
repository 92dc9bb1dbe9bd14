"""When a run stops, and how it says that it did."""

import numpy as np
import pytest

from helpers import KERNELS, FakeClock, exact, make_data
from itergp import (
    Compute,
    ConjugateGradient,
    Eigenvector,
    MarginalVariance,
    Matern32,
    MaxActions,
    MaxPasses,
    PrecisionWarning,
    Prior,
    RandomAction,
    ResidualNorm,
    Schedule,
    Status,
    StoppingCriterion,
    TimeBudget,
    UnitVector,
    condition,
)
from itergp.linalg.engines import from_function
from itergp.linalg.engines.numpy import NumpyEngine

PRIOR, DATA, NOISE = Prior(KERNELS["matern32"]), make_data(60), 0.05


def run(stop, policy=None, **how):
    return condition(PRIOR, DATA.X, DATA.y, NOISE, policy or ConjugateGradient(), stop, **how)


def test_actions_are_counted_from_where_the_call_began():
    posterior = run(MaxActions(4))
    assert (posterior.rank, posterior.status) == (4, Status.BUDGET)
    assert posterior.refine(stop=MaxActions(3)).rank == 7
    assert posterior.refine(stop=MaxActions(0)).rank == 4


def test_passes_are_counted_from_where_the_call_began():
    posterior = run(MaxPasses(3), RandomAction(block_size=5))
    assert (posterior.rank, posterior.problem.gram.passes, posterior.status) == (15, 3, Status.BUDGET)
    assert posterior.refine(stop=MaxPasses(2)).rank == 25
    assert run(MaxPasses(0)).rank == 0


@pytest.mark.parametrize("stop", [ResidualNorm(rtol=1e-3), ResidualNorm(rtol=0.0, atol=1e-2)])
def test_a_small_residual_is_convergence_by_the_true_residual(stop):
    posterior = run(stop)
    oracle = exact(PRIOR, DATA.X, DATA.y, NOISE, DATA.X_new)
    true = np.linalg.norm(oracle.b - oracle.K_hat @ posterior.state.representer_weights[:, 0])
    assert posterior.status is Status.CONVERGED
    assert true <= max(stop.rtol * np.linalg.norm(oracle.b), stop.atol) * 1.01
    assert posterior.problem.gram.passes == posterior.rank + 1
    assert posterior.state.progress.entries == posterior.problem.gram.entries


def test_a_residual_that_only_looks_small_is_a_precision_limit():
    """Products with the actions, which have unit length, err; so the recursive residual falls and the true
    one does not."""

    def product(kernel, X0, X1, V):
        return kernel(X0, X1) @ V * (1.001 if np.allclose(np.linalg.norm(V, axis=0), 1.0) else 1.0)

    posterior = run(ResidualNorm(rtol=1e-6), compute=Compute(engine=from_function(product)))
    assert posterior.status is Status.PRECISION_LIMIT
    assert posterior.trace[-1].residual_norm <= 1e-6 * np.linalg.norm(DATA.y)


def test_every_target_must_converge():
    data = make_data(60, targets=3)
    posterior = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(), ResidualNorm(rtol=1e-3))
    norms = np.linalg.norm(posterior.state.residual, axis=0) / np.linalg.norm(data.y, axis=0)
    assert posterior.status is Status.CONVERGED
    assert (norms <= 1e-3).all()


def test_a_small_variance_at_the_data_is_convergence():
    posterior = run(MarginalVariance(ratio=1.0), UnitVector("pivoted"))
    assert posterior.status is Status.CONVERGED
    assert posterior.var(DATA.X).mean() <= NOISE * 1.0001
    shorter = run(MaxActions(posterior.rank - 1), UnitVector("pivoted"))
    assert shorter.var(DATA.X).mean() > NOISE


def test_nothing_to_explain_has_converged_before_it_began():
    posterior = condition(PRIOR, DATA.X, np.zeros(60), NOISE, ConjugateGradient(), ResidualNorm())
    assert (posterior.rank, posterior.status, posterior.problem.gram.passes) == (0, Status.CONVERGED, 0)


@pytest.mark.parametrize(
    ("stop", "rank", "status"),
    [
        (MaxActions(5) | MaxActions(3), 3, Status.BUDGET),
        (MaxActions(5) & MaxActions(3), 5, Status.BUDGET),
        (MaxActions(5) | ResidualNorm(rtol=1e-30), 5, Status.BUDGET),
        (MaxActions(5) | ResidualNorm(rtol=1.0), 0, Status.CONVERGED),
        (MaxActions(5) & ResidualNorm(rtol=2.0), 5, Status.CONVERGED),
        (MaxActions(5) & (MaxPasses(2) | MaxPasses(9)), 5, Status.BUDGET),
        (MaxActions(2) & MaxPasses(4), 4, Status.BUDGET),
        (MaxActions(3) | TimeBudget(1000), 3, Status.BUDGET),
        (MaxActions(3) & TimeBudget(1e-9), 3, Status.BUDGET),
    ],
)
def test_criteria_combine(stop, rank, status):
    posterior = run(stop)
    assert (posterior.rank, posterior.status) == (rank, status)


def test_a_criterion_of_the_users_own_is_a_class_with_reached():
    class SmallError(StoppingCriterion):
        status = Status.CONVERGED

        def reached(self, begun, state):
            return abs(state.residual).max() < 0.1

    posterior = run(SmallError() | MaxActions(50))
    assert posterior.status is Status.CONVERGED
    assert abs(posterior.state.residual).max() < 0.1


class Timed(NumpyEngine):
    """An engine whose tiles take a given time, on a clock that only they move."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.tiles = clock, seconds, 0

    def dense(self, kernel, X0, X1, dtype):
        self.clock.now += self.seconds
        self.tiles += 1
        return super().dense(kernel, X0, X1, dtype)


def test_a_time_budget_gives_a_valid_posterior_in_that_time(monkeypatch):
    data, clock = make_data(1500), FakeClock(monkeypatch)  # 6 tiles a pass, 3 for each of the rows' halves
    compute, began = Compute("float64", 0, Timed(clock, 0.01)), clock.now
    posterior = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(), TimeBudget(0.2), compute)
    assert clock.now - began <= 0.2 + 0.01 + 1e-9  # at most the tile that was under way
    assert posterior.status is Status.BUDGET
    assert 0 < posterior.rank < 1500
    assert posterior.state.progress.seconds <= 0.2
    assert (posterior.var(data.X_new) <= PRIOR.var(data.X_new)).all()
    assert posterior.refine(stop=MaxActions(2)).rank == posterior.rank + 2


def test_a_time_budget_stops_a_long_product_and_keeps_what_was_before(monkeypatch):
    data, clock = make_data(2100), FakeClock(monkeypatch)
    engine = Timed(clock, 0.0)
    compute = Compute("float64", 0, engine)
    start = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(), MaxActions(1), compute)
    a_pass, engine.tiles, engine.seconds = engine.tiles, 0, 0.05
    posterior = start.refine(stop=TimeBudget(0.2))
    assert engine.tiles <= 5 < a_pass
    assert (posterior.rank, posterior.status) == (1, Status.BUDGET)
    assert np.array_equal(posterior.mean(data.X_new), start.mean(data.X_new))


def test_a_time_budget_ends_what_a_policy_prepares_and_keeps_what_was_before():
    data = make_data(2100)
    start = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(), MaxActions(2))
    posterior = start.refine(Eigenvector(rank=4, passes=100_000), TimeBudget(0.2))
    assert (posterior.rank, posterior.status) == (2, Status.BUDGET)
    assert posterior.problem.gram.passes < 50_000
    assert np.array_equal(posterior.mean(data.X_new), start.mean(data.X_new))
    assert posterior.refine(ConjugateGradient(), MaxActions(1)).rank == 3  # the clock is not carried on


def test_a_time_budget_or_a_tolerance_is_not_refused_for_actions_it_may_never_take(monkeypatch):
    monkeypatch.setattr("itergp.linalg.compute.available_bytes", lambda: 10_000)
    assert run(TimeBudget(0.05), compute=Compute(cache=0)).rank > 0
    assert run(ResidualNorm(rtol=0.1), compute=Compute(cache=0)).status is Status.CONVERGED


def test_statuses_have_advice():
    assert {status.name for status in Status} == {
        "CONVERGED",
        "BUDGET",
        "EXACT",
        "ACTIONS_EXHAUSTED",
        "PRECISION_LIMIT",
        "INTERRUPTED",
    }
    for status in Status:
        assert status.advice.endswith(".")
        assert len(status.advice) > 20


def test_a_policy_without_new_directions_is_exhausted():
    s = np.random.default_rng(0).standard_normal(60)
    posterior = run(MaxActions(9), lambda state: s)
    assert (posterior.rank, posterior.status, posterior.state.progress.dropped) == (
        1,
        Status.ACTIONS_EXHAUSTED,
        2,
    )
    assert run(MaxActions(9), lambda state: None).status is Status.ACTIONS_EXHAUSTED


def test_products_with_an_indefinite_matrix_end_at_the_precision_limit():
    product = lambda kernel, X0, X1, V: kernel(X0, X1) @ V - (1e-2 * V if X0 is X1 else 0.0)  # noqa: E731
    prior, compute = Prior(Matern32(lengthscale=100.0)), Compute(engine=from_function(product))
    posterior = condition(prior, DATA.X, DATA.y, 1e-4, RandomAction(block_size=4), MaxActions(60), compute)
    assert posterior.status is Status.PRECISION_LIMIT
    assert posterior.rank < 60
    with pytest.warns(PrecisionWarning, match="raised to it"):
        assert (posterior.var(DATA.X_new) > 0).all()


def test_a_schedule_that_is_over_used_its_budget():
    posterior = run(MaxActions(50), Schedule((ConjugateGradient(), 3), (UnitVector(), 2)))
    assert (posterior.rank, posterior.status) == (5, Status.BUDGET)

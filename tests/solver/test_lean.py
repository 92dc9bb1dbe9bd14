"""Runs whose products are not stored give what stored ones give: for every use of a belief. The reference is
the same run with K Q stored, whose own tests compare with dense oracles."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import KERNELS, make_data
from itergp import (
    BlockKrylov,
    Compute,
    ConjugateGradient,
    MaxActions,
    MemoryLimitError,
    Prior,
    Problem,
    PseudoInput,
    Schedule,
    SparseBlock,
    State,
    Status,
    TimeBudget,
    UnitVector,
    condition,
    solve,
)
from itergp.linalg import products
from itergp.linalg.gram import Gram
from itergp.solver.more_data import extend, reweighted, target_beliefs

ROWS = 60
CLOSE = {"rtol": 1e-9, "atol": 1e-10}
PAIRS = np.random.default_rng(5).permutation(ROWS).reshape(-1, 2).tolist()


def overlapping(state):
    """A sparse action that earlier ones are not orthogonal to: it becomes dense."""
    s = np.zeros(ROWS)
    s[[3 + state.counter, 20, 41]] = 1.0, -0.5, 0.25
    return sp.csc_array(s[:, None])


LEAN = {
    "unit": lambda: UnitVector("random", block_size=5),
    "pivoted": lambda: UnitVector("pivoted", block_size=3),
    "pairs": lambda: SparseBlock(PAIRS, "random", block_size=4),
    "residual pairs": lambda: SparseBlock(PAIRS, block_size=4),
}
MIXED = {
    "then cg": lambda: Schedule((UnitVector("random", block_size=5), 7), (ConjugateGradient(), None)),
    "then krylov": lambda: Schedule((UnitVector("random", block_size=5), 10), (BlockKrylov(4), None)),
    "then pseudo-inputs and units": lambda: Schedule(
        (UnitVector(block_size=4), 6), (PseudoInput(block_size=4), 6), (UnitVector("random"), None)
    ),
    "self-preconditioned": lambda: Schedule(
        (UnitVector("random", block_size=5), 10), (ConjugateGradient("self"), None)
    ),
    "then conjugate": lambda: Schedule(
        (UnitVector(block_size=5), 10), (ConjugateGradient(form="conjugate"), None)
    ),
    "overlapping": lambda: Schedule((UnitVector(block_size=7), 28), (overlapping, None)),
    "wide blocks": lambda: Schedule((SparseBlock(4), 4), (UnitVector("random", block_size=4), None)),
}


@pytest.fixture
def lean(monkeypatch):
    """Call it to store no products from now on."""
    monkeypatch.setattr(products, "LEAST", 16)
    monkeypatch.setattr(products, "ENTRIES", 1)
    return lambda rows=0: monkeypatch.setattr(products, "LEAN_ROWS", rows)


def problem(noise=0.05, targets=None, n=ROWS, dtype="float64"):
    data = make_data(n) if targets is None else make_data(n, targets=targets)
    return Problem(Prior(KERNELS["matern32"]), data.X, data.y, noise, Compute(dtype)), data


def run(policy, number, **what):
    return solve(problem(**what)[0], policy, MaxActions(number), seed=2)


def assert_same_belief(lean, stored, **close):
    close = {**CLOSE, **close}
    assert lean.rank == stored.rank
    assert lean.blocks == stored.blocks
    for name in ("representer_weights", "residual", "training_variance", "z", "L"):
        np.testing.assert_allclose(getattr(lean, name), getattr(stored, name), err_msg=name, **close)
    assert lean.elbo == pytest.approx(stored.elbo, rel=1e-8)
    assert lean.belief.trace_GA == pytest.approx(stored.belief.trace_GA, rel=1e-8)


@pytest.mark.parametrize("noise", [0.05, np.linspace(0.02, 0.1, ROWS)], ids=["scalar", "per row"])
@pytest.mark.parametrize("policy", LEAN)
@pytest.mark.parametrize("targets", [None, 3])
def test_a_lean_run_is_the_stored_run(policy, noise, targets, lean):
    stored = run(LEAN[policy](), 17, noise=noise, targets=targets)
    lean()
    found = run(LEAN[policy](), 17, noise=noise, targets=targets)
    assert found.basis.lean
    assert not stored.basis.lean
    assert_same_belief(found, stored)
    assert found.progress.passes == 0
    # computed anew, from the actions alone: `replace` hands over nothing of what the loop knew
    fresh = replace(found.belief)
    for name in ("representer_weights", "residual", "training_variance", "trace_GA"):
        np.testing.assert_allclose(getattr(fresh, name), getattr(stored.belief, name), err_msg=name, **CLOSE)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("policy", MIXED)
def test_dense_actions_may_follow_lean_ones(policy, dtype, lean):
    stored = run(MIXED[policy](), 31, dtype=dtype)
    lean()
    found = run(MIXED[policy](), 31, dtype=dtype)
    assert not found.basis.lean
    # CG amplifies what rounding there is
    close = {"float64": 1e-6, "float32": 2e-3}[dtype]
    assert_same_belief(found, stored, rtol=close, atol=close)
    first = found.blocks[1]
    assert_same_belief(
        State(found.belief.prefix(first)), State(stored.belief.prefix(first)), rtol=close, atol=close
    )


@pytest.mark.parametrize("policy", [*LEAN, *MIXED])
@pytest.mark.parametrize("cuts", [(7, 10), (1, 3, 13), (5, 5, 5, 2)])
def test_refining_in_pieces_is_one_longer_run_bit_for_bit(policy, cuts, lean):
    lean()
    make = {**LEAN, **MIXED}[policy]
    whole, (p, _) = run(make(), 17), problem()
    acting = make()
    state = None
    for number in cuts:
        state = solve(p, acting, MaxActions(number), state, seed=2)
    for name in ("representer_weights", "residual", "training_variance", "z", "tau", "L"):
        assert np.array_equal(getattr(state, name), getattr(whole, name)), name
    assert state.elbo == whole.elbo


@pytest.mark.parametrize("policy", LEAN)
@pytest.mark.parametrize("crossing", [False, True])
def test_more_rows_for_the_same_actions(policy, crossing, lean):
    """Also where the rows become so many that products are no longer stored."""
    data = make_data(75)
    X, y = data.X[ROWS:], data.y[ROWS:]
    stored = extend(run(LEAN[policy](), 12), X, y)
    lean(ROWS if crossing else 0)
    before = run(LEAN[policy](), 12)
    assert before.basis.lean is not crossing
    found = extend(before, X, y)
    assert found.basis.lean
    assert_same_belief(found, stored)
    more = UnitVector("random", block_size=4)
    assert_same_belief(
        solve(found.problem, more, MaxActions(9), found), solve(stored.problem, more, MaxActions(9), stored)
    )


@pytest.mark.parametrize("policy", [*LEAN, "then cg"])
def test_other_noise_and_other_targets_for_the_same_actions(policy, lean):
    noise, y = np.linspace(0.01, 0.2, ROWS), np.cos(np.arange(ROWS))
    make = {**LEAN, **MIXED}[policy]
    stored = reweighted(run(make(), 14), noise, y)
    lean()
    assert_same_belief(reweighted(run(make(), 14), noise, y), stored, rtol=1e-6, atol=1e-7)


def test_targets_with_noises_of_their_own(lean):
    stored = target_beliefs(run(LEAN["unit"](), 14, targets=2).belief, [0.05, 0.3])
    lean()
    found = target_beliefs(run(LEAN["unit"](), 14, targets=2).belief, [0.05, 0.3])
    for a, b in zip(found, stored, strict=True):
        assert_same_belief(State(a), State(b))


def test_earlier_blocks_are_made_for_policies_that_ask_for_them(lean):
    stored = run(LEAN["unit"](), 10)
    lean()
    found = run(LEAN["unit"](), 10)
    np.testing.assert_allclose(found.last_products(), stored.last_products(), **CLOSE)
    np.testing.assert_allclose(found.search_products(2, 7), stored.search_products(2, 7), **CLOSE)
    np.testing.assert_allclose(found.preconditioner().U, stored.preconditioner().U, **CLOSE)
    np.testing.assert_allclose(found.precision(), stored.precision(), **CLOSE)


def test_tau_still_bounds_the_rounding_and_appended_rows_do_not_change_it(lean):
    stored = run(LEAN["unit"](), 20)
    lean()
    p, data = problem(n=2 * ROWS)
    few = Problem(p.prior, data.X[:ROWS], data.y[:ROWS], 0.05, p.compute)
    found, longer = (solve(one, UnitVector(block_size=5), MaxActions(20)) for one in (few, p))
    assert (run(LEAN["unit"](), 20).tau >= stored.tau).all()
    assert (run(LEAN["unit"](), 20).tau <= 10 * stored.tau).all()
    assert np.array_equal(found.tau, longer.tau)


def test_a_time_budget_and_ctrl_c_end_a_sweep_and_keep_what_was_accepted(lean, monkeypatch):
    lean()
    p, _ = problem()
    before, calls = Gram.multiply_points, []

    def stop(self, *what, **how):
        calls.append(len(calls))
        if len(calls) == 6:  # in the second sweep
            raise KeyboardInterrupt
        return before(self, *what, **how)

    monkeypatch.setattr(Gram, "multiply_points", stop)
    state = solve(p, UnitVector(block_size=5), MaxActions(20))
    assert (state.status, state.rank) == (Status.INTERRUPTED, 5)
    monkeypatch.setattr(Gram, "multiply_points", before)
    whole, continued = (
        run(UnitVector(block_size=5), 20),
        solve(p, UnitVector(block_size=5), MaxActions(15), state),
    )
    np.testing.assert_allclose(continued.residual, whole.residual, **CLOSE)
    # the clock is read between slabs
    ticks = []
    monkeypatch.setattr("itergp.solver.run.deadline", lambda left: lambda: ticks.append(1))
    solve(p, UnitVector(block_size=5), MaxActions(10) | TimeBudget(100.0))
    assert len(ticks) >= 2 * (ROWS // 16)


def test_acting_on_200_000_rows_takes_memory_for_a_few_vectors_only():
    """Stored, K Q alone would be 200,000 x 64 numbers: 102 MB."""
    n, rng = 200_000, np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.sin(3 * X[:, 0])
    p = Problem(Prior(KERNELS["matern32"]), X, y, 0.1)
    tracemalloc.start()
    state = solve(p, UnitVector("random", block_size=32), MaxActions(64))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    vector = 8 * n
    assert state.basis.lean
    assert state.rank == 64
    assert kept < 8 * vector
    assert peak < 20 * vector + 40e6  # and a slab


def test_unit_vectors_on_many_rows_fit_where_dense_actions_are_refused_with_what_would_fit(monkeypatch):
    n, rng = 150_000, np.random.default_rng(0)
    p = Problem(Prior(KERNELS["rbf"]), rng.uniform(-1, 1, (n, 2)), rng.standard_normal(n), 0.1)
    monkeypatch.setattr("itergp.linalg.compute.available_bytes", lambda: 10**8)
    with pytest.raises(
        MemoryLimitError, match=r"about 41 would fit, or more of policy=UnitVector\('random'\)"
    ):
        solve(p, ConjugateGradient(), MaxActions(512))
    assert solve(p, UnitVector("random"), MaxActions(2)).rank == 2
    with pytest.raises(MemoryLimitError, match="about 2500 would fit"):
        solve(p, UnitVector("random"), MaxActions(100_000))
    few = condition(p.prior, p.X[:100], p.y[:100], 0.1, UnitVector(), MaxActions(3))
    assert few.rank == 3

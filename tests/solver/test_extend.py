"""More data: appending alone changes no bit of any prediction; actions on the new rows do the rest (Thm.
S7)."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers import KERNELS, POLICIES, exact, make_data, row_noise
from itergp import (
    Compute,
    ConjugateGradient,
    InputError,
    MaxActions,
    Prior,
    PseudoInput,
    RandomAction,
    SparseBlock,
    UnitVector,
    condition,
)

PRIOR, NOISE = Prior(KERNELS["matern32"]), 0.05
DATA = make_data(1200)
AT = DATA.X_new


def start(policy, n, number=9, noise=NOISE, **how):
    noise = noise[:n] if np.ndim(noise) else noise
    return condition(PRIOR, DATA.X[:n], DATA.y[:n], noise, policy, MaxActions(number), Compute(**how))


def rows(a, b):
    return DATA.X[a:b], DATA.y[a:b]


def assert_same_bits(a, b):
    assert np.array_equal(a.mean(AT), b.mean(AT))
    assert np.array_equal(a.var(AT), b.var(AT))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "policy",
    [
        RandomAction(block_size=4),
        ConjugateGradient(),
        SparseBlock(groups=9, block_size=3),
        UnitVector("pivoted"),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_appending_rows_changes_no_bit_at_any_size(policy, dtype):
    for old in (1, 40, 64, 65, 200, 320, 400, 511, 513, 600):
        posterior = start(policy, old, dtype=dtype)
        for new in (1, 7, 64, 130, 400):
            extended = posterior.extend(*rows(old, old + new), policy=False)
            assert extended.rank == posterior.rank
            assert extended.problem.n == old + new
            assert_same_bits(posterior, extended)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_appending_rows_changes_no_bit_for_any_policy(policy, engine):
    posterior = start(POLICIES[policy](), 33, number=6, engine=engine)
    assert_same_bits(posterior, posterior.extend(*rows(33, 50), policy=False))


@pytest.mark.parametrize("policy", POLICIES)
def test_appending_in_pieces_is_appending_at_once(policy):
    posterior = start(POLICIES[policy](), 30, number=6)
    pieces = posterior.extend(*rows(30, 31), policy=False).extend(*rows(31, 45), policy=False)
    once = posterior.extend(*rows(30, 45), policy=False)
    assert_same_bits(pieces, once)
    np.testing.assert_allclose(pieces.state.residual, once.state.residual, atol=1e-12)
    np.testing.assert_allclose(pieces.state.training_variance, once.state.training_variance, atol=1e-12)


@pytest.mark.parametrize("end", [33, 45], ids=["few rows", "more rows"])
@pytest.mark.parametrize("policy", POLICIES)
def test_residual_and_training_variance_of_the_new_rows_are_right(policy, end):
    extended = start(POLICIES[policy](), 30, number=6).extend(*rows(30, end), policy=False)
    oracle = exact(PRIOR, *rows(0, end), NOISE, AT)
    np.testing.assert_allclose(
        extended.state.residual[:, 0],
        oracle.b - oracle.K_hat @ extended.state.representer_weights[:, 0],
        atol=1e-9,
    )
    np.testing.assert_allclose(extended.state.training_variance, extended.var(DATA.X[:end]), atol=1e-9)
    assert np.isfinite(extended.state.elbo)


# Those that are left out repeat, on more rows, directions that are known.
@pytest.mark.parametrize(
    "policy", [name for name in POLICIES if name not in ("unit-listed", "adversarial", "callable")]
)
@pytest.mark.parametrize("act", [False, None], ids=["append only", "act on the new rows"])
def test_a_run_goes_on_after_new_data(policy, act):
    extended = start(POLICIES[policy](), 30, number=6).extend(*rows(30, 45), policy=act)
    refined = extended.refine(stop=MaxActions(2))
    oracle = exact(PRIOR, *rows(0, 45), NOISE, AT)
    assert refined.rank == extended.rank + 2
    assert (refined.var(AT) <= extended.var(AT)).all()
    assert (refined.var(AT) >= oracle.var - 1e-10).all()
    assert np.abs(refined.actions.T @ refined.actions - np.eye(refined.rank)).max() < 1e-12


def test_columns_that_wait_are_extended_too():
    posterior = start(RandomAction(block_size=8), 30, number=5)
    extended = posterior.extend(*rows(30, 45), policy=False)
    assert_same_bits(posterior.refine(stop=MaxActions(3)), extended.refine(stop=MaxActions(3)))


def test_by_default_each_new_row_is_acted_on():
    posterior = start(UnitVector(), 30, number=30)
    extended = posterior.extend(*rows(30, 45))
    oracle = exact(PRIOR, *rows(0, 45), NOISE, AT)
    assert (extended.rank, extended.problem.gram.passes) == (45, 0)
    np.testing.assert_allclose(extended.mean(AT), oracle.mean, atol=1e-9)
    np.testing.assert_allclose(extended.var(AT), oracle.var, atol=1e-9)
    assert extended.policy is posterior.policy


def test_by_default_many_new_rows_are_acted_on_at_random(monkeypatch):
    monkeypatch.setattr("itergp.posterior.combined.NEW_ROWS", 10)
    extended = start(UnitVector(), 30, number=30).extend(*rows(30, 80))
    assert extended.rank == 40


@pytest.mark.parametrize("before", ["scalar", "per-row"])
@pytest.mark.parametrize("more", [None, 0.2, "per-row", 0.0])
def test_noise_of_the_new_rows_may_differ(before, more):
    old = row_noise(30) if before == "per-row" else NOISE
    new = row_noise(15, seed=1) if more == "per-row" else more
    posterior = start(ConjugateGradient(), 30, number=6, noise=old)
    if before == "per-row" and more is None:
        with pytest.raises(InputError, match="noise is missing"):
            posterior.extend(*rows(30, 45))
        return
    extended = posterior.extend(*rows(30, 45), noise=new).refine(UnitVector(), MaxActions(60))
    N = np.concatenate([np.broadcast_to(old, 30), np.broadcast_to(NOISE if new is None else new, 15)])
    oracle = exact(PRIOR, *rows(0, 45), N, AT)
    assert extended.rank == 45
    np.testing.assert_allclose(extended.mean(AT), oracle.mean, atol=1e-7)
    np.testing.assert_allclose(extended.var(AT), oracle.var, atol=1e-7)
    if more != 0.0:
        np.testing.assert_allclose(extended.state.elbo, oracle.log_likelihood, rtol=1e-7)


def test_several_targets_and_a_prior_mean_are_extended():
    data = make_data(40, targets=2)
    prior = Prior(KERNELS["matern32"], lambda X: X[:, 0])
    extended = condition(prior, data.X[:30], data.y[:30], NOISE).extend(data.X[30:], data.y[30:])
    whole = condition(prior, data.X, data.y, NOISE)
    np.testing.assert_allclose(extended.mean(AT), whole.mean(AT), atol=1e-9)
    with pytest.raises(InputError, match="y has shape"):
        extended.extend(data.X[30:], data.y[30:, 0])


def test_two_extensions_of_one_posterior_disturb_neither_each_other_nor_their_parent():
    parent = start(RandomAction(block_size=3), 300)
    before = parent.mean(AT), parent.var(AT)
    left, right = parent.extend(*rows(300, 700), policy=False), parent.extend(*rows(700, 1100), policy=False)
    for posterior, used in ((left, np.r_[0:700]), (right, np.r_[0:300, 700:1100])):
        refined = posterior.refine(ConjugateGradient(), MaxActions(3))
        oracle = exact(PRIOR, DATA.X[used], DATA.y[used], NOISE, AT)
        true = oracle.b - oracle.K_hat @ refined.state.representer_weights[:, 0]
        np.testing.assert_allclose(refined.state.residual[:, 0], true, atol=1e-8)
    assert np.array_equal(parent.mean(AT), before[0])
    assert np.array_equal(parent.var(AT), before[1])
    assert parent.refine(stop=MaxActions(3)).rank == 12


@pytest.mark.parametrize("policy", [None, "given"])
def test_new_rows_are_acted_on_even_where_a_block_still_waits(policy):
    """A budget that cut a block leaves paid columns; they must not use up the actions meant for the new
    rows."""
    rng = np.random.default_rng(3)
    X, X_new = rng.uniform(0, 1, (300, 2)), rng.uniform(2, 3, (50, 2))
    y = np.sin(6 * X.sum(axis=1))
    prior = Prior(1.0 * KERNELS["matern32"])
    cut = condition(prior, X, y, 0.0025, PseudoInput(block_size=128), MaxActions(40))
    assert cut.state.basis.size - cut.rank >= 50, "nothing waits: the test shows nothing"
    how = {} if policy is None else {"policy": UnitVector(order=np.arange(300, 350)), "stop": MaxActions(50)}
    after = cut.extend(X_new, np.full(50, 5.0), **how)
    actions = after.state.basis.dense(0, after.rank)
    # every new row is in the span of the actions
    assert np.linalg.norm(actions[300:], axis=1).min() > 1 - 1e-6
    A = after.state.basis.dense(0, after.rank)
    K = prior.kernel(after.problem.X, after.problem.X)
    G = A.T @ (K + np.diag(after.problem.N)) @ A
    oracle = prior.kernel(X_new, after.problem.X) @ A @ np.linalg.solve(G, A.T @ after.problem.y)
    np.testing.assert_allclose(after.mean(X_new), oracle, atol=1e-8)
    assert np.abs(after.mean(X_new) - 5.0).max() < 0.1


def test_appending_alone_accepts_nothing_that_waits():
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 1, (100, 2))
    cut = condition(PRIOR, X, X[:, 0], NOISE, PseudoInput(block_size=64), MaxActions(10))
    assert cut.extend(X + 2.0, X[:, 0], policy=False).rank == cut.rank


# Rows one at a time.


def streamed(posterior, first, last, step=1):
    for i in range(first, last, step):
        posterior = posterior.extend(*rows(i, min(i + step, last)))
    return posterior


@pytest.mark.parametrize(
    "policy", [UnitVector(block_size=64), RandomAction(block_size=4)], ids=["unit", "dense"]
)
def test_rows_in_place_give_the_bits_of_rows_that_are_copied(policy, monkeypatch):
    begun = start(policy, 100, number=100 if isinstance(policy, UnitVector) else 8)
    there = streamed(begun, 100, 300)
    monkeypatch.setattr("itergp.linalg.columns.ROOM", 10**9)  # none: the whole matrix moves with each row
    again = streamed(begun, 100, 300)
    assert there.rank == again.rank == begun.rank + 200
    assert_same_bits(there, again)
    for name in ("residual", "training_variance", "representer_weights", "z", "L"):
        assert np.array_equal(getattr(there.state, name), getattr(again.state, name)), name


def test_two_streams_from_one_posterior_disturb_neither_each_other_nor_any_earlier_one():
    """They take turns, so that both want the same memory; every posterior on the way keeps its bits."""
    parent = streamed(start(UnitVector(), 60, number=60), 60, 70)
    left = right = parent
    along = [(parent, parent.mean(AT), parent.var(AT))]
    for i in range(40):
        left, right = left.extend(*rows(70 + i, 71 + i)), right.extend(*rows(200 + i, 201 + i))
        along += [(posterior, posterior.mean(AT), posterior.var(AT)) for posterior in (left, right)]
    for posterior, mean, var in along:
        assert np.array_equal(posterior.mean(AT), mean)
        assert np.array_equal(posterior.var(AT), var)
    for posterior, used in ((left, np.r_[0:110]), (right, np.r_[0:70, 200:240])):
        oracle = exact(PRIOR, DATA.X[used], DATA.y[used], NOISE, AT)
        np.testing.assert_allclose(posterior.mean(AT), oracle.mean, atol=1e-9)
        np.testing.assert_allclose(posterior.var(AT), oracle.var, atol=1e-9)


def test_a_row_costs_two_columns_of_the_kernel_and_no_matrix():
    """Kernel entries: the new row against the actions, and its own column. Memory: vectors, and now and
    then a larger chunk."""
    posterior, entries, peaks = start(UnitVector(block_size=512), 700, number=700), [], []
    for i in range(700, 730):
        before = posterior.problem.gram.entries
        tracemalloc.start()
        posterior = posterior.extend(*rows(i, i + 1))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        entries.append(posterior.problem.gram.entries - before - 2 * i)
    assert set(entries) == {1}
    assert np.median(peaks) < 0.25 * 8 * 700**2


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 80), st.booleans())
@settings(max_examples=25, deadline=None)
def test_rows_in_any_batches_are_the_exact_gp(sizes, first, by_row):
    data = make_data(first + sum(sizes))
    N = row_noise(len(data.X)) if by_row else NOISE
    of = lambda a, b: N[a:b] if by_row else N  # noqa: E731
    posterior, end = condition(PRIOR, data.X[:first], data.y[:first], of(0, first)), first
    for size in sizes:
        posterior = posterior.extend(data.X[end : end + size], data.y[end : end + size], of(end, end + size))
        end += size
    oracle = exact(PRIOR, data.X, data.y, N, AT)
    np.testing.assert_allclose(posterior.mean(AT), oracle.mean, atol=1e-9)
    np.testing.assert_allclose(posterior.var(AT), oracle.var, atol=1e-9)
    assert (posterior.rank, posterior.problem.gram.passes) == (end, 0)
    true = oracle.b - oracle.K_hat @ posterior.state.representer_weights[:, 0]
    np.testing.assert_allclose(posterior.state.residual[:, 0], true, atol=1e-9)

"""Policies: what they cost in passes over K, how many actions they take, and that awkward data do no harm."""

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import KERNELS, POLICIES, combined, exact, make_data
from itergp import (
    Adversarial,
    BlockKrylov,
    ConjugateGradient,
    ConstantMean,
    Eigenvector,
    InputError,
    Linear,
    LinearMean,
    Matern12,
    MaxActions,
    MaxPasses,
    Prior,
    Problem,
    PseudoInput,
    RandomAction,
    ResidualNorm,
    Schedule,
    SparseBlock,
    Status,
    UnitVector,
    condition,
    iterate,
)
from itergp.solver.schedule import default_actions, default_policy

PRIOR, NOISE = Prior(KERNELS["matern32"]), 0.05
LARGE = make_data(600)


NEED_NOISE = ("adversarial", "schedule")  # one needs v*, the other preconditions itself


def dense(Q):
    return Q.toarray() if sp.issparse(Q) else Q


def large(policy, stop):
    return condition(Prior(Matern12(lengthscale=0.2)), LARGE.X, LARGE.y, 0.01, policy, stop)


# Passes over K.


@pytest.mark.parametrize("form", ["residual", "conjugate"])
def test_conjugate_gradients_make_one_product_per_action(form):
    posterior = large(ConjugateGradient(form=form), MaxActions(100))
    assert (posterior.rank, posterior.problem.gram.passes, posterior.trace[-1].passes) == (100, 100, 100)


def test_conjugate_gradients_make_one_more_to_check_the_true_residual():
    posterior = large(ConjugateGradient(), ResidualNorm(rtol=0.02))
    assert posterior.status is Status.CONVERGED
    assert posterior.problem.gram.passes == posterior.state.progress.passes == posterior.rank + 1


@pytest.mark.parametrize("make", [PseudoInput, RandomAction, BlockKrylov])
def test_block_policies_make_one_product_per_block(make):
    policy = make(block_size=64)
    posterior = large(policy, MaxActions(512))
    assert posterior.rank == 512
    assert posterior.problem.gram.passes <= 512 / 64


@pytest.mark.parametrize(
    "policy",
    [
        UnitVector(),
        UnitVector("random", 32),
        UnitVector("pivoted"),
        UnitVector([5, 3, 9]),
        SparseBlock(30),
        SparseBlock(30, "ones"),
    ],
    ids=lambda policy: f"{type(policy).__name__}",
)
def test_sparse_policies_make_no_product(policy):
    posterior = large(policy, MaxActions(30))
    assert posterior.problem.gram.passes == 0
    assert sp.issparse(posterior.actions)


def test_unit_vectors_evaluate_their_columns_alone():
    posterior = large(UnitVector(block_size=7), MaxActions(21))
    assert posterior.trace[-1].entries == 21 * 600


# How many actions.


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("number", [0, 1, 5, 8])
def test_a_number_of_actions_is_met_exactly(policy, number):
    data = make_data(40)
    posterior = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(number))
    assert posterior.rank == number
    assert posterior.status is Status.BUDGET
    assert posterior.actions.shape == (40, number)


@pytest.mark.parametrize("policy", POLICIES)
def test_all_the_actions_there_are_lead_to_the_exact_process_or_a_clean_end(policy):
    data = make_data(30)
    posterior = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(100))
    oracle = exact(PRIOR, data.X, data.y, NOISE, data.X_new)
    if posterior.rank == 30:
        assert posterior.status is Status.EXACT
        np.testing.assert_allclose(posterior.mean(data.X_new), oracle.mean, atol=1e-8)
        np.testing.assert_allclose(posterior.var(data.X_new), oracle.var, atol=1e-8)
    else:
        assert policy in ("unit-listed", "sparse-block", "callable")
        assert posterior.status is Status.ACTIONS_EXHAUSTED
    assert (posterior.var(data.X_new) >= oracle.var - 1e-10).all()


def test_a_schedule_truncates_at_its_numbers_and_moves_on():
    data = make_data(40)
    schedule = Schedule(
        (PseudoInput(block_size=4), 6), (ConjugateGradient(), MaxPasses(3)), (UnitVector(block_size=5), 7)
    )
    posterior = condition(PRIOR, data.X, data.y, NOISE, schedule, MaxActions(100))
    assert [step.actions for step in posterior.trace] == [4, 6, 7, 8, 9, 14, 16, 16]
    assert [step.passes for step in posterior.trace][:5] == [1, 2, 3, 4, 5]
    assert posterior.status is Status.BUDGET


def test_a_schedule_moves_on_when_an_entry_has_no_more_to_offer():
    data = make_data(40)
    schedule = Schedule((PseudoInput(3), None), (UnitVector([4, 4, 4]), 10), (ConjugateGradient(), None))
    posterior = condition(PRIOR, data.X, data.y, NOISE, schedule, MaxActions(12))
    assert posterior.rank == 12
    assert posterior.status is Status.BUDGET


@pytest.mark.parametrize("order", ["sequential", "random", "pivoted", list(range(40))])
@pytest.mark.parametrize("first", [ConjugateGradient(), RandomAction(block_size=3), UnitVector([3, 30])])
def test_unit_vectors_after_other_actions_go_all_the_way(order, first):
    data = make_data(40)
    start = condition(PRIOR, data.X, data.y, NOISE, first, MaxActions(2))
    posterior = start.refine(UnitVector(order, block_size=3), MaxActions(100))
    assert (posterior.rank, posterior.status) == (40, Status.EXACT)


def test_the_same_unit_vector_twice_counts_once():
    data = make_data(40)
    posterior = condition(
        PRIOR, data.X, data.y, NOISE, UnitVector([1, 2, 1, 3, 2, 4], block_size=4), MaxActions(10)
    )
    assert (posterior.rank, posterior.state.progress.dropped) == (4, 2)


def test_pivots_follow_the_largest_variance():
    data = make_data(40)
    posterior = condition(
        Prior(Linear() + KERNELS["rbf"]), data.X, data.y, NOISE, UnitVector("pivoted"), MaxActions(5)
    )
    rows, K = [], Linear()(data.X, data.X) + KERNELS["rbf"](data.X, data.X)
    for _ in range(5):
        S = np.eye(40)[:, rows]
        C = S @ np.linalg.solve(S.T @ (K + NOISE * np.eye(40)) @ S, S.T) if rows else np.zeros((40, 40))
        variance = np.diag(K - K @ C @ K).copy()
        variance[rows] = -1.0
        rows.append(int(variance.argmax()))
    assert posterior.actions.indices.tolist() == rows


# Every policy is its formula.


def proposals(policy, n=12, targets=None):
    data = make_data(n, targets=targets)
    problem = Problem(PRIOR, data.X, data.y, NOISE)
    return problem, list(iterate(problem, policy))


def test_pseudo_inputs_act_with_kernel_columns():
    Z = make_data(5).X
    problem, states = proposals(PseudoInput(Z, block_size=2))
    K_z = PRIOR.kernel(problem.X, Z)
    Q = dense(states[-1].basis.actions(5))
    np.testing.assert_allclose(Q @ (Q.T @ K_z), K_z, atol=1e-12)
    assert [state.rank for state in states] == [2, 4, 5, 5]


def test_eigenvectors_come_largest_first():
    problem, states = proposals(Eigenvector(block_size=5))
    U = np.linalg.eigh(problem.K_hat())[1][:, ::-1]
    np.testing.assert_allclose(np.abs(np.diag(U.T @ states[-1].basis.dense(0, 12))), 1.0, atol=1e-10)


def test_leading_eigenvectors_are_found_by_blocks_where_n_is_large(monkeypatch):
    monkeypatch.setattr("itergp.solver.policies.DENSE_ROWS", 100)
    posterior = condition(PRIOR, LARGE.X, LARGE.y, 0.01, Eigenvector(rank=8, passes=6), MaxActions(4))
    U = np.linalg.eigh(posterior.problem.K_hat())[1][:, ::-1][:, :4]
    np.testing.assert_allclose(np.linalg.svd(U.T @ posterior.actions)[1], 1.0, atol=1e-3)


def test_sparse_blocks_take_their_values_where_told():
    _, states = proposals(SparseBlock([[0, 1], [5, 7, 9]], values=np.arange(1.0, 13.0)))
    Q = dense(states[-1].basis.actions(2))
    np.testing.assert_allclose(Q[[0, 1], 0], np.array([1, 2]) / np.sqrt(5))
    np.testing.assert_allclose(Q[[5, 7, 9], 1], np.array([6, 8, 10]) / np.sqrt(200))
    assert np.count_nonzero(Q) == 5


def test_overlapping_sparse_blocks_are_made_orthonormal():
    _, states = proposals(SparseBlock([[0, 1, 2], [2, 3], [1, 3]], values="ones"))
    Q = dense(states[-1].basis.actions(3))
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-12)


def test_nothing_is_learned_before_the_last_adversarial_action():
    _, states = proposals(Adversarial())
    assert max(state.energy for state in states if state.rank < 12) < 1e-18
    assert states[-1].energy > 1.0


def test_a_given_preconditioner_is_used():
    data = make_data(40)
    start = condition(PRIOR, data.X, data.y, NOISE, PseudoInput(20, block_size=20), MaxActions(20))
    plain = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(), MaxActions(6))
    aided = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(start.preconditioner()), MaxActions(6))
    assert aided.trace[-1].residual_norm < 0.5 * plain.trace[-1].residual_norm


# Awkward data.


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "adversarial"])
def test_several_targets_share_the_actions(policy):
    data = make_data(30, targets=3)
    posterior = condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(7))
    prior = Prior(PRIOR.kernel, ConstantMean([0.0] * 3))
    _, mean, cov = combined(
        exact(prior, data.X, data.y, NOISE, data.X_new), prior, posterior.actions, data.X_new
    )
    assert posterior.rank == 7
    np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-9)
    np.testing.assert_allclose(posterior.var(data.X_new), np.diag(cov), atol=1e-9)


def test_residuals_of_several_targets_act_together():
    data = make_data(30, targets=3)
    posterior = condition(PRIOR, data.X, data.y, NOISE, ConjugateGradient(), MaxPasses(2))
    assert (posterior.rank, posterior.problem.gram.passes) == (6, 2)


def test_the_adversary_is_for_one_target():
    data = make_data(30, targets=3)
    with pytest.raises(InputError, match="one target"):
        condition(PRIOR, data.X, data.y, NOISE, Adversarial(), MaxActions(7))


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "unit-listed"])
def test_one_row_is_enough(policy):
    posterior = condition(PRIOR, [[0.3, 0.4]], [2.0], 0.5, POLICIES[policy](), MaxActions(5))
    assert (posterior.rank, posterior.status) == (1, Status.EXACT)
    np.testing.assert_allclose(posterior.mean([[0.3, 0.4]]), 2.0 * 2.0 / 2.5)
    np.testing.assert_allclose(posterior.var([[0.3, 0.4]]), 2.0 * 0.5 / 2.5)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [1e-8, 0.0, 0.1])
def test_duplicated_rows_do_no_harm(policy, noise):
    data = make_data(8)
    X, y = np.repeat(data.X, 4, axis=0), np.repeat(data.y, 4)
    if noise == 0.0 and policy in NEED_NOISE:
        with pytest.raises(InputError, match="noise"):
            condition(PRIOR, X, y, noise, POLICIES[policy](), MaxActions(32))
        return
    posterior = condition(PRIOR, X, y, noise, POLICIES[policy](), MaxActions(32))
    distinct = exact(PRIOR, data.X, data.y, max(noise, 1e-12) / 4, data.X_new)
    assert np.isfinite(posterior.mean(data.X_new)).all()
    assert (posterior.var(data.X_new) >= distinct.var - 1e-7).all()
    assert (posterior.var(data.X_new) <= PRIOR.var(data.X_new)).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_where_the_mean_explains_everything_only_the_variance_falls(policy):
    data = make_data(30)
    prior = Prior(PRIOR.kernel, ConstantMean(1.5))
    posterior = condition(prior, data.X, np.full(30, 1.5), NOISE, POLICIES[policy](), MaxActions(6))
    np.testing.assert_allclose(posterior.mean(data.X_new), 1.5, atol=1e-12)
    if policy in ("cg", "cg-conjugate", "adversarial"):  # nothing left to act on
        assert (posterior.rank, posterior.status) == (0, Status.ACTIONS_EXHAUSTED)
        np.testing.assert_array_equal(posterior.var(data.X_new), prior.var(data.X_new))
    else:
        assert posterior.rank == 6


@pytest.mark.parametrize("noise", ["per-row", "none", "some rows none"])
@pytest.mark.parametrize("policy", POLICIES)
def test_any_noise_and_a_prior_mean_give_the_batch_formula(policy, noise):
    # its seventh action is preconditioned by the noise
    data, number = make_data(25), 6 if policy == "schedule" else 7
    prior = Prior(Matern12(lengthscale=0.5), LinearMean([0.5, -1.0], 0.3))
    N = {
        "per-row": np.linspace(0.01, 0.5, 25),
        "none": 0.0,
        "some rows none": np.where(np.arange(25) % 3, 0.1, 0.0),
    }[noise]
    posterior = condition(prior, data.X, data.y, N, POLICIES[policy](), MaxActions(number))
    oracle = exact(prior, data.X, data.y, N, data.X_new)
    _, mean, cov = combined(oracle, prior, posterior.actions, data.X_new)
    assert posterior.rank == number
    np.testing.assert_allclose(posterior.mean(data.X_new), mean, atol=1e-8)
    np.testing.assert_allclose(posterior.var(data.X_new), np.diag(cov), atol=1e-8)
    np.testing.assert_allclose(
        posterior.state.residual[:, 0],
        oracle.b - oracle.K_hat @ posterior.state.representer_weights[:, 0],
        atol=1e-8,
    )


@pytest.mark.parametrize(
    "policy", [PseudoInput(block_size=4), BlockKrylov(4), UnitVector(), ConjugateGradient()]
)
def test_rows_at_which_the_kernel_is_zero_are_no_actions(policy):
    data = make_data(20)
    X = data.X.copy()
    X[:10] = 0.0
    posterior = condition(Prior(Linear()), X, data.y, 0.1, policy, MaxActions(40))
    oracle = exact(Prior(Linear()), X, data.y, 0.1, data.X_new)
    np.testing.assert_allclose(posterior.mean(data.X_new), oracle.mean, atol=1e-9)
    np.testing.assert_allclose(posterior.var(data.X_new), oracle.var, atol=1e-9)
    nothing = condition(Prior(Linear()), 0 * X, data.y, 0.1, policy, MaxActions(5))
    np.testing.assert_array_equal(nothing.var(data.X_new), Prior(Linear()).var(data.X_new))


def test_huge_and_tiny_actions_are_scaled():
    data = make_data(12)
    scales = [1e300, 1e-300, 1.0]
    act = lambda state: np.eye(12)[state.proposed] * scales[state.proposed] if state.proposed < 3 else None  # noqa: E731
    posterior = condition(PRIOR, data.X, data.y, NOISE, act, MaxActions(3))
    np.testing.assert_allclose(np.abs(posterior.actions), np.eye(12)[:, :3])


def test_the_default_is_everything_for_small_data_and_a_schedule_beyond():
    data = make_data(30)
    posterior = condition(PRIOR, data.X, data.y, NOISE)
    assert (posterior.rank, posterior.status, posterior.problem.gram.passes) == (30, Status.EXACT, 0)
    assert isinstance(default_policy(2048), UnitVector)
    assert isinstance(default_policy(2049), Schedule)
    assert (default_actions(2048), default_actions(2049)) == (2048, 512)


@pytest.mark.parametrize("policy", ["unit-random", "pseudo-input", "random", "block-krylov", "schedule"])
def test_seeds_repeat_and_differ(policy):
    data = make_data(40)
    runs = [
        condition(PRIOR, data.X, data.y, NOISE, POLICIES[policy](), MaxActions(7), seed=seed)
        for seed in (1, 1, 2)
    ]
    means = [posterior.mean(data.X_new) for posterior in runs]
    assert np.array_equal(means[0], means[1])
    assert not np.array_equal(means[0], means[2])

"""Joint answers with local actions: k_* <= k_joint <= k_local as matrices, and one mean and one variance."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings, strategies as st

from helpers import KERNELS, POLICIES, combined, exact, make_data, row_noise
from itergp import (
    Compute,
    ConjugateGradient,
    Constant,
    GaussianProcess,
    InputError,
    Linear,
    MaxActions,
    Prior,
    condition,
)
from itergp.posterior.targets import TargetPosterior, common_noise
from itergp.testing import check_gp

PRIOR, DATA, NOISE = Prior(KERNELS["matern32"]), make_data(60), 0.05
AT, OTHERS = DATA.X_new, make_data(60, seed=3, new=5).X_new
FINITE = Linear(lengthscale=1.2) + 0.5 * Constant(1.0)  # its features are exact
BOTH = pytest.mark.parametrize(
    "make", [lambda p: p.local(4), lambda p: p.around(AT, 4)], ids=["local", "around"]
)


def after(number, policy=None, noise=NOISE, data=DATA, prior=PRIOR, **how):
    return condition(
        prior, data.X, data.y, noise, policy or ConjugateGradient(), MaxActions(number), Compute(**how)
    )


def dense(Q):
    return Q.toarray() if hasattr(Q, "toarray") else Q


def own_rows(posterior, X, neighbours):
    return posterior.at(X).local(neighbours).J


def with_rows(posterior, rows):
    """An orthonormal basis of the global actions and these rows; some may be dependent."""
    S = np.concatenate([dense(posterior.actions), np.eye(posterior.problem.n)[:, rows]], axis=1)
    return scipy.linalg.orth(S, rcond=1e-9)


def errors_of_estimates(oracle, prior, posterior, X, neighbours):
    """cov(f(x) - c_x^T b, f(x') - c_x'^T b), where c_x are the weights for each point's own actions."""
    C = np.zeros((len(X), posterior.problem.n))
    for p, J in enumerate(own_rows(posterior, X, neighbours)):
        S = with_rows(posterior, J)
        C[p] = S @ np.linalg.solve(S.T @ oracle.K_hat @ S, S.T @ oracle.k_new[:, p])
    between = C @ oracle.k_new
    return prior.cov(X) - between - between.T + C @ oracle.K_hat @ C.T


def lowest(A):
    return np.linalg.eigvalsh((A + A.T) / 2)[0]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [NOISE, row_noise(60)], ids=["scalar", "per-row"])
def test_around_is_the_posterior_for_the_global_actions_and_the_rows_near_all_points(policy, noise):
    posterior = after(6, POLICIES[policy](), noise)
    process = posterior.around(AT, neighbours=3)
    rows = np.unique(own_rows(posterior, AT, 3))
    np.testing.assert_array_equal(process.rows, rows)
    oracle = exact(PRIOR, DATA.X, DATA.y, noise, AT)
    _, mean, cov = combined(oracle, PRIOR, with_rows(posterior, rows), AT)
    np.testing.assert_allclose(process.mean(AT), mean, atol=1e-7)
    np.testing.assert_allclose(process.cov(AT), cov, atol=1e-7)
    np.testing.assert_allclose(process.var(AT), np.diag(cov), atol=1e-7)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [NOISE, row_noise(60)], ids=["scalar", "per-row"])
def test_the_local_covariance_is_that_of_the_errors_of_local_means(policy, noise):
    posterior = after(6, POLICIES[policy](), noise)
    process, oracle = posterior.local(4), exact(PRIOR, DATA.X, DATA.y, noise, AT)
    expected = errors_of_estimates(oracle, PRIOR, posterior, AT, 4)
    np.testing.assert_allclose(process.cov(AT), expected, atol=1e-7)
    np.testing.assert_array_equal(np.diag(process.cov(AT)), process.var(AT))


@BOTH
def test_both_are_gaussian_processes(make):
    process = make(after(6))
    assert isinstance(process, GaussianProcess)
    check_gp(process)
    joint = process.cov(np.concatenate([AT, OTHERS]))
    np.testing.assert_allclose(process.cov(AT, OTHERS), joint[: len(AT), len(AT) :], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    kernel=st.sampled_from(sorted(KERNELS)),
    dtype=st.sampled_from(["float64", "float32"]),
    noise=st.floats(-6, 0).map(lambda e: 10.0**e),
    copies=st.integers(1, 4),
    neighbours=st.integers(1, 12),
    actions=st.integers(0, 20),
    seed=st.integers(0, 99),
)
def test_the_joint_covariance_lies_between_the_exact_and_the_local_one(
    policy, kernel, dtype, noise, copies, neighbours, actions, seed
):
    data, prior = make_data(60, seed=seed), Prior(KERNELS[kernel])
    X, y = np.repeat(data.X[: 60 // copies], copies, axis=0), data.y[: 60 // copies * copies]
    posterior = condition(prior, X, y, noise, POLICIES[policy](), MaxActions(actions), Compute(dtype))
    at = np.concatenate([data.X_new, X[:3]])
    star, joint, local = (
        exact(prior, X, y, noise, at).cov,
        posterior.around(at, neighbours).cov(at),
        posterior.local(neighbours).cov(at),
    )
    slack = 1e-8 if dtype == "float64" else 1e-5
    assert lowest(joint - star) >= -slack
    assert lowest(local - joint) >= -slack


def test_a_single_point_or_the_same_neighbourhood_gives_the_local_answer():
    posterior = after(6)
    for X in (AT[:1], np.repeat(AT[:1], 3, axis=0)):
        process, local = posterior.around(X, 5), posterior.local(5)
        np.testing.assert_allclose(process.mean(X), local.mean(X), rtol=1e-11)
        np.testing.assert_allclose(process.var(X), local.var(X), rtol=1e-11)
        np.testing.assert_allclose(process.cov(X), local.cov(X), rtol=1e-10)


def test_the_difference_of_the_means_has_the_variance_by_which_the_variances_differ():
    """mu_joint is the best estimate from more, so mu_joint - mu_local is not correlated with its error."""
    posterior = after(6)
    local, joint = posterior.local(4), posterior.around(AT, 4)
    a, b = local.estimates(AT), joint.estimates(AT)
    L, Q = posterior.state.L, dense(posterior.actions)
    of = lambda found: np.linalg.solve(L.T, found.w).T @ Q.T + found.of_rows(60).toarray()  # noqa: E731
    between = of(a) - of(b)
    spread = np.einsum("pi,ij,pj->p", between, posterior.problem.K_hat(), between)
    np.testing.assert_allclose(spread, local.var(AT) - joint.var(AT), atol=1e-10)


@BOTH
def test_draws_have_the_mean_and_the_covariance_of_the_process(make):
    process, size = make(after(6, prior=Prior(FINITE))), 20_000
    deviations = np.sqrt(process.var(AT))
    for draws in (process.sample(AT, size, seed=1), process.sample_function(size, seed=2)(AT)):
        assert draws.shape == (size, len(AT))
        shift = (draws.mean(axis=0) - process.mean(AT)) / deviations
        assert np.abs(shift).max() < 5 / size**0.5
        correlation = (np.cov(draws.T) - process.cov(AT)) / np.outer(deviations, deviations)
        assert np.abs(correlation).max() < 8 / size**0.5


@BOTH
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_draws_from_exact_features_have_the_variance_of_the_process(make, dtype):
    process = make(after(6, prior=Prior(FINITE), dtype=dtype))
    draws = process.sample_function(1, seed=0)
    assert draws.exact
    # products in float32 differ from those with K, by which these draws are made
    np.testing.assert_allclose(draws.var(AT), process.var(AT), rtol=1e-8 if dtype == "float64" else 1e-5)


@BOTH
def test_draws_from_random_features_have_about_the_variance_of_the_process(make):
    process = make(after(6))
    draws = process.sample_function(1, seed=0)
    np.testing.assert_allclose(draws.var(AT), process.var(AT), rtol=0.1)


@BOTH
def test_at_many_points_draws_are_functions(make, monkeypatch):
    for module in ("local", "around"):
        monkeypatch.setattr(f"itergp.posterior.{module}.JOINT_POINTS", 5)
    monkeypatch.setattr("itergp.posterior.joint.POINTS", 5)  # in batches
    process = make(after(6))
    np.testing.assert_allclose(process.sample(AT, 2, seed=3), process.sample_function(2, seed=3)(AT))


def test_draws_are_the_same_function_in_every_evaluation():
    process = after(6).local(4)
    draws = process.sample_function(3, seed=0, features=64)
    np.testing.assert_allclose(draws(AT)[:, 2:5], draws(AT[2:5]), atol=1e-12)
    assert "64 random features" in draws.rests_on
    assert not draws.exact


def test_several_targets_have_joint_answers_of_their_own():
    data = make_data(60, targets=2)
    noise = np.array([0.05, 0.2])
    shared = after(6, data=data, noise=common_noise(noise))
    posterior = TargetPosterior(shared, noise)
    for process, limit in ((posterior.local(4), None), (posterior.around(AT, 4), posterior.local(4))):
        cov = process.cov(AT)
        assert cov.shape == (12, 12, 2)
        for j, one in enumerate(posterior.each):
            own = one.local(4) if limit is None else one.around(AT, 4)
            np.testing.assert_allclose(cov[..., j], own.cov(AT), atol=1e-12)
            np.testing.assert_allclose(process.mean(AT)[:, j], own.mean(AT), atol=1e-12)
        np.testing.assert_allclose(np.einsum("iit->it", cov), process.var(AT), atol=1e-14)
        np.testing.assert_allclose(
            process.cov(AT, OTHERS), np.swapaxes(process.cov(OTHERS, AT), 0, 1), atol=1e-12
        )
        assert process.sample(AT, 5, seed=0).shape == (5, 12, 2)
        assert process.sample_function(5, seed=0, features=32)(AT).shape == (5, 12, 2)
        np.testing.assert_allclose(process.predictive_var(AT) - process.var(AT), np.tile(noise, (12, 1)))
        if limit is not None:
            assert (process.var(AT) <= limit.var(AT) + 1e-12).all()


def test_targets_with_one_noise_share_a_covariance():
    posterior = after(6, data=make_data(60, targets=3))
    for process in (posterior.local(4), posterior.around(AT, 4)):
        assert process.mean(AT).shape == (12, 3)
        assert process.cov(AT).shape == (12, 12)
        assert process.sample(AT, 5, seed=0).shape == (5, 12, 3)
        assert process.sample_function(5, seed=0, features=32)(AT).shape == (5, 12, 3)


def test_no_pass_over_the_kernel_matrix_is_made_for_joint_answers():
    posterior = after(6)
    before = posterior.problem.gram.passes
    for process in (posterior.local(5), posterior.around(AT, 5)):
        process.mean(AT), process.cov(AT), process.sample(AT), process.sample_function(2, features=32)(AT)
    assert posterior.problem.gram.passes == before


def test_a_limit_takes_what_says_most_about_each_point_first_and_says_what_is_left_out():
    posterior = after(6)
    every, J = posterior.around(AT, 8), own_rows(posterior, AT, 8)
    few = posterior.around(AT, 8, limit=15)
    assert every.left_out == 0
    assert few.rows.size == 15
    assert few.left_out == every.rows.size - 15
    assert set(J[:, 0]) <= set(few.rows)
    assert "15 rows" in repr(few)
    assert f"{few.left_out} left out" in repr(few)
    assert "left out" not in repr(every)
    assert lowest(few.cov(AT) - every.cov(AT)) >= -1e-9


def test_actions_that_a_budget_cut_off_do_not_count():
    posterior = after(5, POLICIES["block-krylov"]())
    assert posterior.state.basis.size > posterior.rank
    process, X = posterior.around(AT[:1], 5), AT[:1]
    np.testing.assert_allclose(process.var(X), posterior.local(5).var(X), rtol=1e-11)


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.around(AT, neighbours=0),
        lambda p: p.around(AT, limit=0),
        lambda p: p.around(AT, limit=2.5),
        lambda p: p.around(AT[:, :1]),
        lambda p: p.around(AT).cov(AT, AT[:, :1]),
        lambda p: p.local(5).cov(AT, np.full((2, 2), np.nan)),
        lambda p: p.local(5).sample(AT, 0),
        lambda p: p.local(5).sample_function(1, seed=-1),
        lambda p: p.around(AT).sample(AT, seed=None),
    ],
)
def test_what_cannot_be_asked_for_is_named(ask):
    with pytest.raises(InputError, match=r"neighbours|limit|X|size|seed"):
        ask(after(3))

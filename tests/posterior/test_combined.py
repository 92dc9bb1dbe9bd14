"""The combined posterior: shapes, consistency of mean, variance, covariance and path (Eq. 6)."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, combined, exact, make_data, row_noise
from itergp import (
    Compute,
    ConjugateGradient,
    ConstantMean,
    GaussianProcess,
    InputError,
    LinearMean,
    Matern32,
    MaxActions,
    Posterior,
    Prior,
    Problem,
    RandomAction,
    State,
    Status,
    UnitVector,
    condition,
)
from itergp.testing import check_gp

PRIOR, DATA, NOISE = Prior(KERNELS["matern32"]), make_data(40), 0.05
AT = DATA.X_new


def after(number, policy=None, noise=NOISE, data=DATA, prior=PRIOR, **how):
    return condition(
        prior, data.X, data.y, noise, policy or RandomAction(block_size=3), MaxActions(number), Compute(**how)
    )


@pytest.mark.parametrize("targets", [None, 1, 3])
def test_shapes_follow_the_targets(targets):
    posterior = after(7, data=make_data(40, targets=targets))
    mean = (12,) if targets is None else (12, targets)
    assert posterior.mean(AT).shape == mean
    assert (
        posterior.var(AT).shape
        == posterior.predictive_var(AT).shape
        == posterior.worst_case_error(AT).shape
        == (12,)
    )
    assert posterior.cov(AT).shape == (12, 12)
    assert posterior.cov(AT, AT[:5]).shape == (12, 5)
    assert posterior.path(AT).mean.shape == (8, *mean)
    assert posterior.path(AT).var.shape == (8, 12)
    assert posterior.sample(AT, 4).shape == (4, *mean)
    assert posterior.sample_function(4)(AT).shape == (4, *mean)
    assert posterior.local(5).mean(AT).shape == mean
    assert posterior.decompose(AT).computational.shape == posterior.certify(AT).mean_error.shape == (12,)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_posterior_is_a_gaussian_process_again(policy):
    posterior = after(7, POLICIES[policy]())
    assert isinstance(posterior, GaussianProcess)
    check_gp(posterior)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("how", [{}, {"dtype": "float32"}, {"engine": "jax"}], ids=str)
def test_mean_and_covariance_are_the_batch_formula(kernel, how):
    prior = Prior(KERNELS[kernel], LinearMean([0.2, 0.3], 0.1))
    posterior = after(7, prior=prior, **how)
    oracle = exact(prior, DATA.X, DATA.y, NOISE, AT)
    _, mean, cov = combined(oracle, prior, posterior.actions, AT)
    tolerance = 1e-9 + posterior.state.tau.max() / NOISE  # tau is as if that much noise were added
    np.testing.assert_allclose(posterior.mean(AT), mean, atol=tolerance)
    np.testing.assert_allclose(posterior.cov(AT), cov, atol=tolerance)
    np.testing.assert_allclose(posterior.var(AT), np.diag(cov), atol=tolerance)
    np.testing.assert_allclose(posterior.cov(AT, AT[3:5]), cov[:, 3:5], atol=tolerance)


def test_the_diagonal_of_the_covariance_is_the_variance_to_the_bit():
    posterior = after(9)
    assert np.array_equal(np.diag(posterior.cov(AT)), posterior.var(AT))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_path_is_the_posterior_after_each_prefix(policy):
    posterior = after(7, POLICIES[policy]())
    path = posterior.path(AT)
    np.testing.assert_array_equal(path.ranks, np.arange(8))
    assert np.array_equal(path.var[-1], posterior.var(AT))
    np.testing.assert_allclose(path.mean[-1], posterior.mean(AT), atol=1e-10)
    assert (np.diff(path.var, axis=0) <= 0).all()
    for number in (0, 3, 5):
        shorter = after(number, POLICIES[policy]())
        np.testing.assert_allclose(path.mean[number], shorter.mean(AT), atol=1e-10)
        np.testing.assert_allclose(path.var[number], shorter.var(AT), atol=1e-10)


def test_a_path_gives_the_ranks_that_are_asked_for_in_their_order():
    posterior = after(7)
    some, all_ = posterior.path(AT, [5, 0, 5]), posterior.path(AT)
    np.testing.assert_array_equal(some.ranks, [5, 0, 5])
    np.testing.assert_array_equal(some.var, all_.var[[5, 0, 5]])
    np.testing.assert_array_equal(some.mean, all_.mean[[5, 0, 5]])


@pytest.mark.parametrize("ranks", [[8], [-1], [0.5], [[1]], "all"])
def test_ranks_beyond_what_was_computed_are_refused(ranks):
    with pytest.raises(InputError, match="ranks"):
        after(7).path(AT, ranks)


def test_noise_is_added_for_new_observations():
    posterior = after(7)
    np.testing.assert_allclose(posterior.predictive_var(AT), posterior.var(AT) + NOISE)
    np.testing.assert_allclose(posterior.predictive_var(AT, 0.5), posterior.var(AT) + 0.5)
    np.testing.assert_allclose(
        posterior.predictive_var(AT, np.arange(12.0)), posterior.var(AT) + np.arange(12.0)
    )
    np.testing.assert_allclose(posterior.worst_case_error(AT) ** 2, posterior.predictive_var(AT))


def test_noise_per_row_must_be_given_for_new_observations():
    posterior = after(7, noise=row_noise(40))
    for ask in (posterior.predictive_var, posterior.worst_case_error, posterior.local(5).predictive_var):
        with pytest.raises(InputError, match="noise is missing"):
            ask(AT)
        assert ask(AT, 0.1).shape == (12,)
    with pytest.raises(InputError, match="noise has shape"):
        posterior.predictive_var(AT, np.ones(5))


def test_no_computation_gives_back_the_prior():
    posterior = after(0)
    assert posterior.rank == 0
    np.testing.assert_array_equal(posterior.var(AT), PRIOR.var(AT))
    np.testing.assert_array_equal(posterior.mean(AT), PRIOR.mean(AT))
    np.testing.assert_allclose(posterior.cov(AT), PRIOR.cov(AT), rtol=1e-14)
    assert posterior.actions.shape == (40, 0)
    assert posterior.path(AT).var.shape == (1, 12)


def test_a_state_from_anywhere_makes_a_posterior():
    problem = Problem(PRIOR, DATA.X, DATA.y, NOISE)
    posterior = Posterior(problem, State.start(problem))
    assert posterior.status is Status.BUDGET
    refined = posterior.refine()
    assert refined.status is Status.EXACT


def test_predictions_from_unit_vectors_need_their_rows_alone():
    posterior = after(5, UnitVector("pivoted"))
    rows = posterior.actions.indices
    oracle = exact(PRIOR, DATA.X[rows], DATA.y[rows], NOISE, AT)
    before = posterior.problem.gram.entries
    np.testing.assert_allclose(posterior.mean(AT), oracle.mean, atol=1e-10)
    np.testing.assert_allclose(posterior.var(AT), oracle.var, atol=1e-10)
    assert posterior.problem.gram.entries - before == 2 * 5 * 12


def test_inputs_may_be_lists_vectors_integers_and_non_contiguous():
    data = make_data(30, d=1)
    posterior = condition(PRIOR_1D, data.X[:, 0], data.y.tolist(), NOISE)
    np.testing.assert_array_equal(posterior.mean(data.X_new[:, 0]), posterior.mean(data.X_new))
    np.testing.assert_array_equal(posterior.mean([0, 1]), posterior.mean([[0.0], [1.0]]))
    wide = np.asfortranarray(np.repeat(data.X_new, 2, axis=1))[:, ::2]
    np.testing.assert_array_equal(posterior.mean(wide), posterior.mean(data.X_new))


PRIOR_1D = Prior(KERNELS["rbf"])


def test_inputs_are_copied_nowhere_that_a_later_change_could_reach():
    X, y, noise, lengthscale = DATA.X.copy(), DATA.y.copy(), row_noise(40), np.array([0.5, 0.7])
    posterior = condition(Prior(Matern32(lengthscale)), X, y, noise, RandomAction(), MaxActions(4))
    before = posterior.mean(AT), posterior.refine(stop=MaxActions(2)).mean(AT)
    for array in (X, y, noise, lengthscale):
        array[:] = 1.0
    np.testing.assert_array_equal(posterior.mean(AT), before[0])
    np.testing.assert_array_equal(posterior.refine(stop=MaxActions(2)).mean(AT), before[1])


def test_the_preconditioner_is_made_of_by_products():
    posterior = after(20, ConjugateGradient())
    P, K_hat = posterior.preconditioner(), posterior.problem.K_hat()
    spectrum = np.linalg.eigvals(P.solve(K_hat)).real
    plain = np.linalg.cond(K_hat)
    assert spectrum.max() / spectrum.min() < 0.2 * plain


def test_a_prior_mean_per_target_is_used():
    data = make_data(40, targets=2)
    prior = Prior(PRIOR.kernel, ConstantMean([5.0, -5.0]))
    np.testing.assert_array_equal(after(0, data=data, prior=prior).mean(AT), np.tile([5.0, -5.0], (12, 1)))

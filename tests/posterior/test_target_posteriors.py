"""Several targets with noises of their own: K and the actions are shared, each target's belief is that of
its own run."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, combined, dense, exact, given, make_data, row_noise
from itergp import (
    Compute,
    InputError,
    LinearMean,
    MaxActions,
    Prior,
    Status,
    condition,
    storage,
)
from itergp.posterior.targets import TargetPosterior, common_noise

T = 3
DATA = make_data(40, seed=4, targets=T)
AT = DATA.X_new
KERNEL, WEIGHTS = KERNELS["matern32"], np.random.default_rng(0).standard_normal((2, T))
PRIOR = Prior(KERNEL, LinearMean(WEIGHTS, [0.1, 0.2, 0.3]))
OWN = [Prior(KERNEL, LinearMean(WEIGHTS[:, j], 0.1 * (j + 1))) for j in range(T)]
NOISES = {
    "numbers": np.array([1e-4, 1.0, 0.05]),
    "per-row": np.array([0.01, 5.0, 1.0])[:, None] * row_noise(40),
}
FLOAT64 = Compute(dtype="float64")


def posterior(policy="block-krylov", noise="numbers", actions=11, n=40):
    values = NOISES[noise][..., :n] if noise == "per-row" else NOISES[noise]
    shared = condition(
        PRIOR, DATA.X[:n], DATA.y[:n], common_noise(values), POLICIES[policy](), MaxActions(actions), FLOAT64
    )
    return TargetPosterior(shared, values)


def alone(found, j):
    """The same actions for one target, in a run of its own."""
    Q, problem = dense(found.actions), found.problem
    return condition(
        OWN[j], problem.X, problem.y[:, j], found.noise[j], given(Q, 7), MaxActions(Q.shape[1]), FLOAT64
    )


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "adversarial"])
def test_each_target_is_a_run_of_its_own_over_the_same_actions(policy, noise):
    found = posterior(policy, noise)
    passes = found.problem.gram.passes
    mean, var, cov = found.mean(AT), found.var(AT), found.cov(AT)
    assert found.problem.gram.passes == passes
    assert (mean.shape, var.shape, cov.shape) == ((12, T), (12, T), (12, 12, T))
    for j in range(T):
        one = alone(found, j)
        assert one.rank == found.rank
        oracle = exact(OWN[j], DATA.X, DATA.y[:, j], found.noise[j], AT)
        _, mean_j, cov_j = combined(oracle, OWN[j], dense(found.actions), AT)
        for got, expected in ((mean[:, j], mean_j), (cov[..., j], cov_j), (var[:, j], np.diag(cov_j))):
            np.testing.assert_allclose(got, expected, atol=1e-8)
        np.testing.assert_allclose(mean[:, j], one.mean(AT), atol=1e-8)
        np.testing.assert_allclose(var[:, j], one.var(AT), atol=1e-8)


@pytest.mark.parametrize("noise", NOISES)
def test_everything_else_is_each_targets_own(noise):
    found = posterior(noise=noise)
    parts, certificate, path, near = (
        found.decompose(AT),
        found.certify(AT),
        found.path(AT, [0, 5, 11]),
        found.local(6),
    )
    local_mean, local_var = near.marginals(AT)
    np.testing.assert_array_equal(near.mean(AT), local_mean)
    local_parts, local_certificate = near.decompose(AT), near.certify(AT)
    assert parts.exact
    assert local_parts.exact
    elbo = 0.0
    for j in range(T):
        one = alone(found, j)
        elbo += one.state.elbo
        pairs = [
            (local_mean, one.local(6).mean(AT)),
            (local_var, one.local(6).var(AT)),
            (parts.computational, one.decompose(AT).computational),
            (local_parts.computational, one.local(6).decompose(AT).computational),
            (certificate.mean_error, one.certify(AT).mean_error),
            (local_certificate.variance_lower, one.local(6).certify(AT).variance_lower),
            (path.mean, one.path(AT, [0, 5, 11]).mean),
            (path.var, one.path(AT, [0, 5, 11]).var),
        ]
        for got, expected in pairs:
            np.testing.assert_allclose(got[..., j], expected, rtol=1e-6, atol=1e-8)
    assert found.elbo == pytest.approx(elbo, rel=1e-8)


def test_where_the_run_is_exact_each_target_is_the_exact_gaussian_process():
    found = posterior("unit-sequential", actions=40)
    assert found.status is Status.EXACT
    for j in range(T):
        oracle = exact(OWN[j], DATA.X, DATA.y[:, j], found.noise[j], AT)
        np.testing.assert_allclose(found.mean(AT)[:, j], oracle.mean, atol=1e-8)
        np.testing.assert_allclose(found.cov(AT)[..., j], oracle.cov, atol=1e-8)


def test_draws_have_each_targets_own_moments_and_are_independent_between_targets():
    found = posterior(noise="numbers")
    draws = found.sample(AT, 20_000, seed=1)
    assert draws.shape == (20_000, 12, T)
    np.testing.assert_allclose(draws.mean(axis=0), found.mean(AT), atol=0.05)
    np.testing.assert_allclose(draws.var(axis=0), found.var(AT), rtol=0.05, atol=1e-6)
    between = [np.corrcoef(draws[:, i, 0], draws[:, i, 1])[0, 1] for i in range(12)]
    assert np.abs(between).max() < 0.05
    function = found.sample_function(5, seed=2)
    assert function(AT).shape == (5, 12, T)
    np.testing.assert_allclose(function(AT[:3]), function(AT)[:, :3], rtol=1e-10)
    assert not function.exact
    assert [line.partition(":")[0] for line in function.rests_on.splitlines()] == [
        f"target {i}" for i in range(T)
    ]
    np.testing.assert_allclose(function.var(AT), found.var(AT), rtol=0.15, atol=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_more_computation_goes_on_with_the_shared_run(noise):
    found = posterior(noise=noise)
    more = found.refine(stop=MaxActions(9))
    assert (more.rank, found.rank) == (20, 11)
    whole = posterior(noise=noise, actions=20)
    np.testing.assert_array_equal(more.mean(AT), whole.mean(AT))
    np.testing.assert_array_equal(more.var(AT), whole.var(AT))


@pytest.mark.parametrize("more", [None, np.array([0.2, 0.3, 0.4])], ids=["as before", "another noise"])
def test_more_data_are_those_of_each_target(more):
    found = posterior("unit-sequential", actions=30, n=30)
    grown = found.extend(DATA.X[30:], DATA.y[30:], more)
    assert (grown.problem.n, grown.rank) == (40, 40)
    for j in range(T):
        noise = np.repeat([found.noise[j], found.noise[j] if more is None else more[j]], [30, 10])
        oracle = exact(OWN[j], DATA.X, DATA.y[:, j], noise, AT)
        np.testing.assert_allclose(grown.mean(AT)[:, j], oracle.mean, atol=1e-8)
        np.testing.assert_allclose(grown.var(AT)[:, j], oracle.var, atol=1e-8)


@pytest.mark.parametrize("actions", [11, 40])
@pytest.mark.parametrize("noise", NOISES)
def test_files_keep_every_bit(noise, actions, tmp_path):
    found = posterior("block-krylov" if actions == 11 else "unit-sequential", noise, actions)
    storage.save(tmp_path / "whole.itergp", found)
    whole, _ = storage.load(tmp_path / "whole.itergp")
    storage.save(tmp_path / "small.itergp", found, refinable=False)
    small, _ = storage.load(tmp_path / "small.itergp")
    for ask in (lambda p: p.mean(AT), lambda p: p.var(AT), lambda p: p.cov(AT), lambda p: p.local(5).var(AT)):
        np.testing.assert_array_equal(ask(whole), ask(found))
        np.testing.assert_allclose(ask(small), ask(found), atol=1e-10)
    if actions == 11:
        np.testing.assert_array_equal(
            whole.refine(stop=MaxActions(4)).var(AT), found.refine(stop=MaxActions(4)).var(AT)
        )
        with pytest.raises(InputError, match="refinable=False"):
            small.refine(stop=MaxActions(4))


def test_the_noise_of_an_observation_is_each_targets_own():
    found = posterior()
    np.testing.assert_allclose(
        found.predictive_var(AT) - found.var(AT), np.tile(found.noise, (12, 1)), atol=1e-12
    )
    np.testing.assert_allclose(found.local(3).predictive_var(AT, 0.5) - found.local(3).var(AT), 0.5)
    np.testing.assert_allclose(found.worst_case_error(AT) ** 2, found.predictive_var(AT))
    with pytest.raises(InputError, match="noise is missing"):
        posterior(noise="per-row").predictive_var(AT)


def test_what_does_not_fit_is_refused():
    shared = posterior().shared
    for bad in (np.ones(2), np.ones((2, 40)), 0.1):
        with pytest.raises(InputError, match="noise has shape"):
            TargetPosterior(shared, bad)
    with pytest.raises(InputError, match="one for each of 3 targets"):
        posterior().predictive_var(AT, [0.1, 0.2])

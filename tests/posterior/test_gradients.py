"""Gradients of posteriors in their inputs, against autodiff of a dense oracle and central differences."""

import jax
import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, make_data
from itergp import (
    ConstantMean,
    InputError,
    LinearMean,
    Matern32,
    Matern52,
    MaxActions,
    Prior,
    PseudoInput,
    UnitVector,
    condition,
)
from itergp.linalg.engines import registry
from itergp.posterior.joint import covariance
from itergp.posterior.local import LocalPosterior
from itergp.posterior.targets import TargetPosterior
from itergp.prior.linear import Linear

NOISE = 0.05
ACTIONS = {
    "global": lambda posterior, X: posterior,
    "local": lambda posterior, X: posterior.local(7),
    "around": lambda posterior, X: posterior.around(X, 5),
}
RUNS = {"dense": PseudoInput(block_size=6), "sparse": UnitVector("pivoted")}


def fitted(kernel, policy="dense", targets=None, actions=6, mean=None):
    data = make_data(30, targets=targets, new=6)
    prior = Prior(kernel, LinearMean([0.3, -0.7], 0.2) if mean is None else mean)
    return condition(prior, data.X, data.y, NOISE, RUNS[policy], MaxActions(actions)), data


def dense_oracle(posterior, S):
    """Mean and covariance with these actions as functions of X, for autodiff: mu + k_x^T P b and k - k_x^T P
    k_x', with P = S (S^T K_hat S)^{-1} S^T. A difference of equal inputs has no slope in a norm, so that a
    kernel may be asked at its own points."""
    problem = posterior.problem
    P = S @ np.linalg.solve(S.T @ problem.K_hat() @ S, S.T)
    kernel, mean = problem.prior.kernel, problem.prior.mean_function

    def both(X):
        k = kernel(X, jax.numpy.asarray(problem.X))
        return X @ mean.weights + mean.intercept + k @ (P @ problem.b[:, 0]), kernel(X, X) - k @ P @ k.T

    return both


def shared_actions(process, posterior):
    Q = posterior.actions
    Q = Q if isinstance(Q, np.ndarray) else Q.toarray()
    rows = getattr(process, "rows", np.zeros(0, dtype=int))
    return scipy.linalg.orth(np.hstack([Q, np.eye(posterior.problem.n)[:, rows]]))  # some may be in both


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("way", ["global", "around"])
@pytest.mark.parametrize("policy", RUNS)
def test_pullbacks_are_those_of_autodiff_through_the_dense_formula(kernel, way, policy):
    """Means and covariances together, for every kernel, with actions on all rows or on a few."""
    posterior, data = fitted(KERNELS[kernel], policy)
    process = ACTIONS[way](posterior, data.X_new)
    rng = np.random.default_rng(3)
    slopes = rng.standard_normal(6), rng.standard_normal((6, 6))
    with jax.enable_x64(True):
        both = dense_oracle(posterior, shared_actions(process, posterior))
        expected = np.asarray(jax.vjp(both, jax.numpy.asarray(data.X_new))[1](slopes)[0])
    found = process.pullback(data.X_new, *slopes)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def answers(process, X):
    """Mean, variance and covariance as functions of where they are asked, with the neighbours that X has."""
    if not isinstance(process, LocalPosterior):
        return lambda Z: (process.mean(Z), process.var(Z), process.cov(Z))
    J = process.at(X).J

    def local(Z):
        at = process.at(Z).knowing(J=J)
        return at.mean, at.var, covariance(at)

    return local


def differences(function, X, h=1e-5):
    """Central differences of each value of a function in each input."""
    out = [np.zeros((*np.shape(value), *X.shape)) for value in function(X)]
    for i, f in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[i, f] = h
        for total, high, low in zip(out, function(X + step), function(X - step), strict=True):
            total[..., i, f] = (high - low) / (2 * h)
    return out


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("way", ACTIONS)
def test_gradients_are_those_of_central_differences(kernel, way):
    """Of mean, variance and covariance, for every kernel, with neighbours held."""
    posterior, data = fitted(KERNELS[kernel])
    process = ACTIONS[way](posterior, data.X_new)
    X = data.X_new[:4]
    mean, var, cov = differences(answers(process, X), X)
    found, each = process.gradients(X), np.arange(4)
    size = np.abs(mean).max(), np.abs(var).max() + 1e-3, np.abs(cov).max()
    np.testing.assert_allclose(found.mean, mean[each, each], atol=2e-7 * size[0])
    np.testing.assert_allclose(found.var, var[each, each], atol=2e-6 * size[1])
    slopes = np.random.default_rng(0).standard_normal((4, 4))
    expected = np.einsum("ij,ijmf->mf", slopes, cov)
    np.testing.assert_allclose(process.pullback(X, cov=slopes), expected, atol=5e-6 * size[2])


@pytest.mark.parametrize("way", ACTIONS)
def test_a_gradient_at_a_row_of_the_data_is_right(way):
    """Distances are 0 there. Kernels that are smooth at 0 have the gradient of central differences; those
    that are not, as Matern12, a finite one."""
    for kernel in (1.5 * Matern52(0.6), Matern32([0.5, 0.9]), Linear(0.8) + 0.5 * Matern52(0.4)):
        posterior, data = fitted(kernel, actions=10)
        process = ACTIONS[way](posterior, data.X[:3])
        X = data.X[:3].copy()
        mean, var, _ = differences(answers(process, X), X, 1e-6)
        found, each = process.gradients(X), np.arange(3)
        np.testing.assert_allclose(found.mean, mean[each, each], atol=2e-5 * np.abs(mean).max())
        np.testing.assert_allclose(found.var, var[each, each], atol=2e-5 * (np.abs(var).max() + 0.1))
    posterior, data = fitted(KERNELS["matern12"])
    found = ACTIONS[way](posterior, data.X[:3]).gradients(data.X[:3])
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.var).all()


@pytest.mark.parametrize("way", ACTIONS)
def test_groups_of_points_are_pulled_back_as_each_alone(way):
    """b groups of q points are b pullbacks; points of one group may be equal."""
    posterior, data = fitted(KERNELS["sum"])
    X = np.stack([data.X_new[:3], data.X_new[3:]])
    X[1, 2] = X[1, 1]
    process = ACTIONS[way](posterior, X.reshape(-1, 2))
    rng = np.random.default_rng(1)
    mean, cov = rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 3))
    found = process.pullback(X, mean, cov)
    for group in range(2):
        alone = process.pullback(X[group], mean[group], cov[group])
        np.testing.assert_allclose(found[group], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("way", ACTIONS)
def test_several_targets_have_one_gradient_each(way):
    """With one noise for all, (m, d, t) for the mean and (m, d) for the variance; with their own, (m, d, t)
    for both. Each column is that of the target alone."""
    posterior, data = fitted(KERNELS["matern52"], targets=3, mean=ConstantMean([0.1, 0.2, 0.3]))
    X, rng = data.X_new, np.random.default_rng(2)
    each = TargetPosterior(posterior, np.array([0.05, 0.1, 0.2]))
    for process, targets in ((posterior, 0), (each, 3)):
        process = ACTIONS[way](process, X)
        found = process.gradients(X)
        mean, var = differences(lambda Z, process=process: (process.mean(Z), process.var(Z)), X)
        at = np.arange(len(X))
        np.testing.assert_allclose(found.mean, mean[at, :, at].swapaxes(1, 2), atol=1e-6)
        expected = var[at, :, at].swapaxes(1, 2) if targets else var[at, at]
        np.testing.assert_allclose(found.var, expected, atol=1e-6)
        slopes = rng.standard_normal((len(X), 3)), rng.standard_normal((len(X), len(X), *[3] * bool(targets)))
        mean, cov = differences(lambda Z, process=process: (process.mean(Z), process.cov(Z)), X)
        total = np.einsum("mt,mtif->if", slopes[0], mean)
        total += np.einsum("mnt,mntif->if" if targets else "mn,mnif->if", slopes[1], cov)
        np.testing.assert_allclose(process.pullback(X, *slopes), total, atol=2e-5)


def test_far_inputs_have_the_gradient_of_the_prior():
    """Far from all data nothing is known, and the slope is that of the prior mean."""
    posterior, data = fitted(KERNELS["rbf"])
    far = data.X_new + 1e4
    found = posterior.gradients(far)
    np.testing.assert_allclose(found.mean, np.broadcast_to([0.3, -0.7], far.shape), atol=1e-12)
    np.testing.assert_allclose(found.var, 0.0, atol=1e-12)


def test_a_mean_function_without_a_formula_is_differentiated_by_differences():
    data = make_data(20, new=5)
    prior = Prior(Matern52(0.7), lambda X: np.sin(X[:, 0]) * X[:, 1])
    process = condition(prior, data.X, data.y, NOISE)
    (mean,) = differences(lambda Z: (process.mean(Z),), data.X_new)
    each = np.arange(5)
    np.testing.assert_allclose(process.gradients(data.X_new).mean, mean[each, each], atol=1e-7)


@pytest.mark.skipif(not registry.native(), reason="the native engine was not built")
@pytest.mark.parametrize(
    "kernel", ["matern12", "matern52", "rational-quadratic", "linear-plus-constant", "sum"]
)
def test_native_slopes_in_the_inputs_are_those_of_jax(kernel):
    """More rows than a group, and some of X0 among X1, at distance 0."""
    rng = np.random.default_rng(5)
    X0, X1 = rng.uniform(-1, 1, (70, 2)), rng.uniform(-1, 1, (90, 2))
    X1[:10], W = X0[:10], rng.standard_normal((70, 90))
    native = registry.native().in_inputs(KERNELS[kernel], X0, X1, W)
    np.testing.assert_allclose(
        native, registry.get("jax").weighted(KERNELS[kernel], X0, X1, W)[1], atol=1e-10
    )


def test_slopes_of_the_wrong_shape_are_named():
    posterior, data = fitted(KERNELS["rbf"])
    with pytest.raises(InputError, match=r"cov has shape \(6,\); expected \(6, 6\)"):
        posterior.pullback(data.X_new, cov=np.ones(6))
    with pytest.raises(InputError, match="features; expected 2"):
        posterior.pullback(np.ones((2, 3, 4)), mean=np.ones((2, 3)))
    with pytest.raises(InputError, match="not finite"):
        posterior.gradients(np.full((1, 2), np.nan))


@pytest.mark.parametrize("way", ACTIONS)
@pytest.mark.parametrize("targets", [None, 2])
def test_draws_are_functions_with_a_gradient(way, targets):
    """Of each draw at each point, against central differences; neighbours do not change over the step."""
    posterior, data = fitted(1.3 * Matern52(0.6), targets=targets, mean=ConstantMean(0.2))
    draws = ACTIONS[way](posterior, data.X_new).sample_function(3, seed=1, features=256)
    X = data.X_new[:4]
    (values,) = differences(lambda Z: (draws(Z),), X, h=1e-4)
    slopes = np.random.default_rng(0).standard_normal((3, 4, *[targets] * bool(targets)))
    expected = np.tensordot(slopes, values, axes=slopes.ndim)
    np.testing.assert_allclose(draws.pullback(X, slopes), expected, atol=2e-5 * np.abs(expected).max())
    with pytest.raises(InputError, match="that of the draws"):
        draws.pullback(X, slopes[:2])

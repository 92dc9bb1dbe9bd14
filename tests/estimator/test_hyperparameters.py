"""Hyper-parameters as the estimator has them learned: what is given stays, what is learned explains the
data."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as skl

from helpers import make_data
from itergp import InputError, IterGPRegressor, Matern32, Prior, condition
from itergp.estimator.names import translate_kernel
from itergp.prior.parameters import parameters

NOISE = 0.1**2


def noisy(n=120, d=2, seed=0):
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1, 1, (n, d))
    return X, 20.0 + 5.0 * (np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(n))


def likelihood(model, X, y):
    """The log marginal likelihood of all rows at what was learned: the ELBO at rank n."""
    scaling = model.scaling_
    posterior = condition(Prior(model.kernel_), scaling.inputs(X), scaling.targets(y), model.noise_)
    return posterior.state.elbo


def test_kernel_and_noise_are_learned_in_units_of_the_scaled_data():
    X, y = noisy()
    model = IterGPRegressor().fit(X, y)
    assert model.noise_ * y.var() == pytest.approx(25.0 * NOISE, rel=0.4)
    lengthscales = model.kernel_.kernel.lengthscale
    assert lengthscales[1] > 3 * lengthscales[0]  # the second feature plays no part: ARD
    assert len(model.trace_.learning) > 3
    assert model.timings_["learn"] > 0
    start = IterGPRegressor(learn=False, noise=0.1).fit(X, y)
    assert likelihood(model, X, y) > likelihood(start, X, y) + 10


def test_small_data_reach_the_likelihood_that_scikit_learn_reaches():
    X, y = noisy(80)
    model = IterGPRegressor(normalize=False, mean="zero").fit(
        (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    )
    kernel = 1.0 * skl.Matern([1.0, 1.0], length_scale_bounds=(1e-2, 1e3), nu=1.5) + skl.WhiteKernel(
        0.1, (1e-6, 10.0)
    )
    peer = GaussianProcessRegressor(kernel, alpha=1e-12, n_restarts_optimizer=2, random_state=0)
    peer.fit((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std())
    ours = likelihood(model, (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std())
    assert ours > peer.log_marginal_likelihood_value_ - 1.0  # a weak prior on the parameters costs a little


def test_merged_rows_teach_the_same_as_all_of_them():
    """The likelihoods are equal, so their maxima are."""
    rng = np.random.default_rng(1)
    X, y = noisy(60)
    rows = np.concatenate([np.arange(60), rng.integers(0, 60, 90)])
    X, y = X[rows], y[rows] + 0.3 * rng.standard_normal(150)
    merged, whole = (IterGPRegressor(merge_duplicates=merge).fit(X, y) for merge in (True, False))
    assert (merged.posterior_.problem.n, whole.posterior_.problem.n) == (60, 150)
    assert merged.noise_ == pytest.approx(whole.noise_, rel=0.02)
    assert likelihood(merged, X, y) == pytest.approx(likelihood(whole, X, y), abs=0.05)
    at = np.random.default_rng(2).uniform(-1, 1, (20, 2))
    np.testing.assert_allclose(merged.predict(at), whole.predict(at), atol=0.01 * y.std())


def test_a_given_noise_stays_while_the_kernel_is_learned():
    X, y = noisy(60)
    model = IterGPRegressor(noise=0.3).fit(X, y)
    assert model.noise_ == 0.3
    assert not np.allclose(model.kernel_.kernel.lengthscale, 2.0**0.5)


def test_a_given_kernel_is_where_learning_starts_and_keeps_its_form():
    X, y = noisy(60)
    model = IterGPRegressor(1.0 * Matern32(0.7)).fit(X, y)
    assert np.ndim(model.kernel_.kernel.lengthscale) == 0
    assert model.kernel_.kernel.lengthscale != 0.7
    sum_of_two = skl.ConstantKernel(0.5) * skl.RBF([1.0, 2.0]) + skl.WhiteKernel(0.1)
    learned = IterGPRegressor(sum_of_two).fit(X, y)
    assert learned.kernel_.kernel.lengthscale.shape == (2,)
    assert learned.noise_ != 0.1


def test_fixed_bounds_of_scikit_learn_are_kept_or_refused():
    X, y = noisy(40)
    fixed = skl.RBF(0.7, "fixed") + skl.WhiteKernel(0.1, "fixed")
    model = IterGPRegressor(fixed).fit(X, y)
    assert (model.kernel_.scale, model.kernel_.kernel.lengthscale, model.noise_) == (1.0, 0.7, 0.1)
    model = IterGPRegressor(skl.RBF(0.7) + skl.WhiteKernel(0.1, "fixed")).fit(X, y)
    assert model.noise_ == 0.1
    assert model.kernel_.kernel.lengthscale != 0.7
    with pytest.raises(InputError, match="some noise levels are fixed"):
        IterGPRegressor(skl.RBF(0.7) + skl.WhiteKernel(0.1, "fixed") + skl.WhiteKernel(0.1)).fit(X, y)
    with pytest.raises(InputError, match=r"noise is not; set noise=<number>"):
        IterGPRegressor(skl.RBF(0.7, "fixed")).fit(X, y)
    assert (
        IterGPRegressor(skl.ConstantKernel(1.0, "fixed") * skl.RBF(0.7), learn=False, noise=0.1)
        .fit(X, y)
        .noise_
        == 0.1
    )


def test_fixed_and_free_hyperparameters_of_scikit_learn_in_one_kernel():
    """Each fixed one keeps its value, wherever it stands; every other one is learned."""
    X, y = noisy(40)
    X = X[:, :1]
    kernel = (
        skl.ConstantKernel(1.5, "fixed") * skl.RBF(0.7)
        + skl.RBF(3.0, "fixed") * (0.4 * skl.ExpSineSquared(1.1, 0.9, periodicity_bounds="fixed"))
        + skl.ConstantKernel(0.3, "fixed")
        + skl.RationalQuadratic(0.8, 2.0, alpha_bounds="fixed")
        + skl.WhiteKernel(0.1)
    )
    before, found = (
        parameters(translate_kernel(kernel, 1).kernel),
        parameters(IterGPRegressor(kernel).fit(X, y).kernel_),
    )
    kept = {path for path, value in found.items() if value == before[path]}
    season = "left.left.right.kernel."
    assert kept == {
        "left.left.left.scale",
        f"{season}left.lengthscale",
        f"{season}right.period",
        "left.right.value",
        "right.kernel.alpha",
    }


@pytest.mark.parametrize(
    "factor",
    [
        skl.DotProduct(0.8, "fixed"),
        skl.RBF(1.0) + skl.ConstantKernel(0.1, "fixed") * skl.Matern(0.3, nu=0.5),
        skl.RBF(1.0) + skl.ConstantKernel(0.2, "fixed") + skl.WhiteKernel(0.1),
    ],
    ids=str,
)
def test_a_free_constant_scales_what_is_fixed_in_a_sum_as_a_whole(factor):
    """The oracle is scikit-learn's kernel at the values that were learned: up to a factor, it is the same."""
    X, y = noisy(40)
    kernel = skl.ConstantKernel(0.7) * factor
    if "White" not in str(factor):
        kernel += skl.WhiteKernel(0.1)
    ours = IterGPRegressor(kernel, normalize=False, mean="zero").fit(X, y).kernel_
    found = parameters(ours)
    assert found["scale"] != 0.7
    signal = factor.k1 if "White" in str(factor) else factor
    lengthscales = [value for path, value in found.items() if path.endswith("lengthscale")]
    theirs = signal.clone_with_theta(np.log(lengthscales)) if signal.theta.size else signal
    np.testing.assert_allclose(ours(X, X), found["scale"] * theirs(X), rtol=1e-10)


def test_learning_repeats_to_the_bit_without_a_clock():
    X, y = noisy(60)
    first, second = (IterGPRegressor().fit(X, y) for _ in range(2))
    assert first.noise_ == second.noise_
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize(
    "strange",
    [
        lambda X, y: (X[:1], y[:1]),
        lambda X, y: (X[:2], y[:2]),
        lambda X, y: (np.repeat(X[:1], 20, axis=0), y[:20]),
        lambda X, y: (X, np.full(len(y), 3.0)),
        lambda X, y: (np.column_stack([X, np.ones(len(X))]), y),
        lambda X, y: (X, np.where(np.arange(len(y)) == 7, 1e6, 0.0)),
        lambda X, y: (X, X[:, 0]),
        lambda X, y: (1e-12 * X, 1e12 * y),
        lambda X, y: (X[:5].repeat(4, axis=0), y[:20]),
        lambda X, y: (np.random.default_rng(0).standard_normal((8, 30)), y[:8]),
    ],
    ids="one-row two-rows one-place constant-y constant-x outlier noise-free tiny-units places wide".split(),  # noqa: SIM905
)
def test_strange_data_end_in_a_model_with_finite_answers(strange):
    X, y = strange(*noisy(40))
    model = IterGPRegressor().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(std).all()
    assert np.abs(mean - y).max() <= np.ptp(y) + 1e-6


def test_several_targets_are_learned_together():
    data = make_data(60, targets=2)
    model = IterGPRegressor().fit(data.X, data.y)
    assert model.noise_.shape == (2,)
    assert model.score(data.X, data.y) > 0.9

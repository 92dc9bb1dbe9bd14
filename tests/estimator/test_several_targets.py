"""Several targets, each with its own noise: learned, predicted with, saved, updated and refined. The
kernel is shared."""

import numpy as np
import pytest

from helpers import combined, dense, exact
from itergp import InputError, IterGPRegressor, Matern32, Prior, Status
from itergp.metrics import coverage

LEARNS = "itergp.estimator.hyperparameters.learn_rows"

TRUE = Matern32(np.array([0.8, 1.5]))


def drawn(n, sds, seed=0, repeats=1, new=1000):
    """Draws of one Gaussian process, each observed with a noise of its own; training inputs come `repeats`
    times."""
    rng = np.random.default_rng([seed, n, len(sds)])
    X = rng.uniform(-2, 2, (n // repeats + new, 2))
    root = np.linalg.cholesky(TRUE(X, X) + 1e-10 * np.eye(len(X)))
    f = 5.0 + np.array([1.0, 3.0, 0.5])[: len(sds)] * (root @ rng.standard_normal((len(X), len(sds))))
    rows = np.concatenate([np.repeat(np.arange(n // repeats), repeats), np.arange(n // repeats, len(X))])
    X, y = X[rows], f[rows] + np.asarray(sds) * rng.standard_normal((len(rows), len(sds)))
    return X[:-new], y[:-new], X[-new:], y[-new:]


TWO, THREE = (0.01, 1.0), (0.01, 1.0, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "repeats", "budget", "sds"),
    [(500, 1, None, TWO), (800, 2, None, THREE), (1300, 1, None, THREE), (2400, 2, "400 actions", TWO)],
)
def test_each_noise_is_learned_within_a_factor_of_two_and_intervals_hold_what_they_say(
    n, repeats, budget, sds
):
    X, y, X_new, y_new = drawn(n, sds, repeats=repeats)
    model = IterGPRegressor(budget=budget).fit(X, y)
    assert model.posterior_.problem.n == n // repeats
    learned = np.sqrt(model.noise_) * model.scaling_.y_scale
    assert (learned > np.array(sds) / 2).all(), learned
    assert (learned < np.array(sds) * 2).all(), learned
    mean, std = model.predict(X_new, return_std=True)
    assert mean.shape == std.shape == y_new.shape
    low, high = model.interval(X_new)
    for j in range(len(sds)):
        held = coverage(y_new[:, j], mean[:, j], std[:, j] ** 2)
        assert 0.92 <= held <= 0.98, (j, held)
        assert held == np.mean((low[:, j] <= y_new[:, j]) & (y_new[:, j] <= high[:, j]))


def small(n=150, sds=(0.05, 1.0, 0.3), seed=1, **parameters):
    """A model that learned, some of its inputs twice, beside the data."""
    X, y, X_new, _ = drawn(n, sds, seed=seed, new=40)
    X[-10:] = X[:10]
    parameters = {"budget": "40 actions", "neighbours": 0} | parameters
    return IterGPRegressor(**parameters).fit(X, y), X, y, X_new


def oracle(model, X, y, X_new, j):
    """Mean and covariance of one target alone, in its units: dense, for all rows as they came and the
    model's actions."""
    scaling, problem = model.scaling_, model.posterior_.problem
    Z, w, Z_new = scaling.inputs(X), (y[:, j] - scaling.y_mean[j]) / scaling.y_scale[j], scaling.inputs(X_new)
    group = np.array([np.flatnonzero((z == problem.X).all(axis=1))[0] for z in Z])
    counts = np.bincount(group)
    means = np.bincount(group, w) / counts
    prior = Prior(model.kernel_)
    alone = exact(prior, problem.X, means, model.noise_[j] / counts, Z_new)
    _, mean, covariance = combined(alone, prior, dense(model.posterior_.actions), Z_new)
    return scaling.y_mean[j] + scaling.y_scale[j] * mean, scaling.y_scale[j] ** 2 * covariance


def assert_is_the_oracles(model, X, y, X_new):
    mean, covariance = model.predict(X_new, return_cov=True, include_noise=False)
    _, std = model.predict(X_new, return_std=True)
    parts = model.decompose(X_new)
    assert covariance.shape == (len(X_new), len(X_new), 3)
    for j in range(3):
        expected, spread = oracle(model, X, y, X_new, j)
        np.testing.assert_allclose(mean[:, j], expected, atol=1e-8)
        np.testing.assert_allclose(covariance[..., j], spread, atol=1e-8)
        noise = model.noise_[j] * model.scaling_.y_scale[j] ** 2
        np.testing.assert_allclose(std[:, j] ** 2, np.diag(spread) + noise, atol=1e-8)
        np.testing.assert_allclose(parts.noise[:, j], noise, rtol=1e-12)
        np.testing.assert_allclose(parts.combined[:, j], np.diag(spread), atol=1e-8)


def test_predictions_are_each_targets_own():
    model, X, y, X_new = small()
    assert model.noise_.shape == (3,)
    assert model.posterior_.rank == 40
    assert_is_the_oracles(model, X, y, X_new)


def test_more_data_and_more_computation_are_each_targets_own():
    """Some of the new rows are known, some are not."""
    model, X, y, X_new = small()
    _, X_more, y_more, _ = small(n=60, seed=2)
    X_more[:20] = X[20:40]
    noise = model.noise_
    model.partial_fit(X_more, y_more)
    X, y = np.concatenate([X, X_more]), np.concatenate([y, y_more])
    assert_is_the_oracles(model, X, y, X_new)
    rank = model.posterior_.rank
    model.refine("10 actions")
    assert model.posterior_.rank == rank + 10 < model.posterior_.problem.n
    assert model.noise_ is noise
    assert_is_the_oracles(model, X, y, X_new)


def test_refining_twice_is_one_longer_run_bit_for_bit():
    twice, *_, X_new = small(policy="block-krylov")
    twice.refine("13 actions").refine("30 actions")
    once = small(policy="block-krylov")[0].refine("43 actions")
    np.testing.assert_array_equal(twice.predict(X_new, return_std=True), once.predict(X_new, return_std=True))


@pytest.mark.parametrize("budget", [None, "40 actions"])
def test_what_was_saved_predicts_and_goes_on_to_the_same_bits(tmp_path, budget):
    model, X, y, X_new = small(budget=budget, neighbours="auto")
    model.partial_fit(X[:5] + 0.01, y[:5])
    model.save(tmp_path / "model.itergp")
    loaded = IterGPRegressor.load(tmp_path / "model.itergp")
    np.testing.assert_array_equal(loaded.noise_, model.noise_)
    np.testing.assert_array_equal(loaded.scatter_, model.scatter_)
    assert loaded.scatter_.shape == (3,)
    for ask in (
        lambda m: m.predict(X_new, return_std=True),
        lambda m: m.predict(X_new, return_cov=True)[1],
        lambda m: m.sample_y(X_new, 3),
        lambda m: m.decompose(X_new).computational,
        lambda m: m.certify(X_new).mean_error,
        lambda m: m.refine("4 actions").predict(X_new),
        lambda m: m.partial_fit(X[:3] + 0.02, y[:3]).predict(X_new, return_std=True),
    ):
        np.testing.assert_array_equal(ask(loaded), ask(model))
    model.save(tmp_path / "small.itergp", refinable=False)
    small_one = IterGPRegressor.load(tmp_path / "small.itergp")
    np.testing.assert_allclose(
        small_one.predict(X_new, return_std=True), model.predict(X_new, return_std=True), atol=1e-9
    )
    with pytest.raises(InputError, match="refinable=False"):
        small_one.partial_fit(X_new, np.zeros((len(X_new), 3)))


def test_files_with_one_scatter_for_all_targets_still_load(tmp_path):
    """They were written with one noise for all targets."""
    from itergp import storage
    from itergp.estimator.files import about

    model, X, y, X_new = small(noise=0.1, learn=False)
    assert model.noise_ == 0.1
    said = about(model.fit_) | {"scatter": float(model.scatter_.sum())}
    storage.save(tmp_path / "old.itergp", model.posterior_, said)
    loaded = IterGPRegressor.load(tmp_path / "old.itergp")
    np.testing.assert_array_equal(
        loaded.predict(X_new, return_std=True), model.predict(X_new, return_std=True)
    )
    assert loaded.scatter_.sum() == pytest.approx(model.scatter_.sum(), rel=1e-12)
    loaded.partial_fit(X[:3], y[:3])
    model.partial_fit(X[:3], y[:3])
    assert loaded.scatter_.sum() == pytest.approx(model.scatter_.sum(), rel=1e-12)


def test_a_checkpoint_keeps_what_was_learned(tmp_path, monkeypatch):
    model, X, y, X_new = small(checkpoint=tmp_path / "fit")
    monkeypatch.setattr(LEARNS, lambda *a, **k: pytest.fail("learned again"))
    again = IterGPRegressor(**model.get_params()).fit(X, y)
    np.testing.assert_array_equal(again.noise_, model.noise_)
    np.testing.assert_array_equal(
        again.predict(X_new, return_std=True), model.predict(X_new, return_std=True)
    )


def test_one_noise_for_each_target_may_be_given():
    given = [0.01, 0.5, 0.1]
    model, X, y, X_new = small(noise=given, learn=False)
    np.testing.assert_array_equal(model.noise_, given)
    assert_is_the_oracles(model, X, y, X_new)
    learned = small(noise=given)[0]
    np.testing.assert_array_equal(learned.noise_, given)
    assert learned.kernel_.scale != 1.0


def test_a_number_is_the_noise_of_all_targets():
    model, *_, X_new = small(noise=0.1)
    assert model.noise_ == 0.1
    assert np.isscalar(model.noise_)
    parts = model.decompose(X_new)
    np.testing.assert_allclose(parts.noise, np.tile(0.1 * model.scaling_.y_scale**2, (40, 1)))


def test_noises_that_do_not_fit_are_refused():
    X, y, _, _ = drawn(30, (0.1, 0.2), new=10)
    for noise in ([0.1], [0.1, 0.2, 0.3], [[0.1, 0.2]], [0.1, "a"], [[0.1], 2]):
        with pytest.raises(InputError, match="noise"):
            IterGPRegressor(noise=noise).fit(X, y)
    for noise in ([0.1, -0.2], [0.1, np.nan]):
        with pytest.raises(InputError, match="finite number >= 0"):
            IterGPRegressor(noise=noise).fit(X, y)
    with pytest.raises(InputError, match="noise"):
        IterGPRegressor(noise=[0.1]).fit(X, y[:, 0])


def test_one_column_is_one_target_with_one_noise():
    X, y, X_new, _ = drawn(80, (0.1, 0.2), new=10)
    column, vector = IterGPRegressor().fit(X, y[:, :1]), IterGPRegressor().fit(X, y[:, 0])
    assert column.noise_ == vector.noise_
    assert column.predict(X_new).shape == (10, 1)
    np.testing.assert_array_equal(column.predict(X_new)[:, 0], vector.predict(X_new))


def test_draws_have_each_targets_own_noise():
    model, *_, X_new = small()
    draws = model.sample_y(X_new[:6], 20_000)
    assert draws.shape == (6, 3, 20_000)
    mean, covariance = model.predict(X_new[:6], return_cov=True)
    np.testing.assert_allclose(draws.mean(axis=-1), mean, atol=0.1)
    np.testing.assert_allclose(draws.var(axis=-1), np.einsum("iit->it", covariance), rtol=0.06)


def test_an_interrupted_learning_leaves_a_model_of_each_target(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LEARNS, interrupted)
    model, *_, X_new = small()
    assert model.noise_.shape == (3,)
    assert model.status_ in (Status.BUDGET, Status.INTERRUPTED)
    assert model.predict(X_new, return_std=True)[1].shape == (40, 3)


def test_pictures_show_the_band_of_their_target():
    model, X, y, _ = small()
    axis = model.plot(X, y, feature=0, target=1)
    bands = [line.get_ydata() for line in axis.lines if line.get_linestyle() == "--"]
    assert len(bands) == 2
    half = (bands[1] - bands[0]).min() / 2
    assert half >= 2 * np.sqrt(model.noise_[1]) * model.scaling_.y_scale[1] * 0.999

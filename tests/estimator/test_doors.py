"""What comes in at the door: answers for any scale that float64 can hold, and errors of this library for
all else."""

import warnings

import numpy as np
import pytest

from itergp import (
    RBF,
    Compute,
    InputError,
    IterGPRegressor,
    KernelError,
    MaxActions,
    MemoryLimitError,
    Periodic,
    PrecisionWarning,
    Prior,
    condition,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (50, 2))
Y = np.sin(5 * X.sum(axis=1))
BEYOND = 10**400  # an integer that no float64 holds


def predicted(X_, y):
    model = IterGPRegressor(kernel="rbf", noise=0.01, learn=False, budget="20 actions").fit(X_, y)
    return model.predict(X_[:5], return_std=True)


@pytest.mark.parametrize("power", [-1020, -700, -530, 300])
def test_the_unit_of_the_targets_is_only_a_unit(power):
    """Powers of two change no digit, so that every prediction is the same but for the unit."""
    unit = 2.0**power
    mean, std = predicted(X, Y)
    scaled_mean, scaled_std = predicted(X, Y * unit)
    np.testing.assert_allclose(scaled_mean / unit, mean, rtol=1e-9)
    np.testing.assert_allclose(scaled_std / unit, std, rtol=1e-9)


@pytest.mark.parametrize("power", [-1020, -700, -550, 300])
def test_the_unit_of_the_inputs_is_only_a_unit(power):
    unit = 2.0**power
    for found, expected in zip(predicted(X * unit, Y), predicted(X, Y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_ordinary_data_keep_the_bits_of_their_mean_and_deviation():
    from itergp.fitted.units import Scaling

    scaling = Scaling.of(X, Y)
    assert np.array_equal(scaling.x_mean, X.mean(axis=0))
    assert np.array_equal(scaling.x_scale, X.std(axis=0))
    assert scaling.y_scale == Y.std()


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("scale", [1e151, 1e161, 1e300])
def test_a_kernel_whose_squares_overflow_is_refused(scale, engine):
    with pytest.raises(KernelError, match="Rescale y"):
        condition(Prior(scale * RBF(0.5)), X, Y, 0.01, compute=Compute(engine=engine))


def test_the_largest_kernel_that_is_taken_gives_the_right_mean():
    mean = condition(Prior(1e149 * RBF(0.5)), X, Y, 0.01).mean(X)
    np.testing.assert_allclose(mean, Y, atol=1e-6)


@pytest.mark.parametrize("period", [1e-20, 1e-300])
def test_a_period_whose_phase_nobody_knows_is_refused(period):
    with pytest.raises(KernelError, match="period"):
        condition(Prior(Periodic(1.0, period=period)), X, Y, 0.01)


@pytest.mark.parametrize(
    "call",
    [
        lambda: IterGPRegressor().fit([[BEYOND, 1]] * 50, Y),
        lambda: IterGPRegressor().fit(X, [BEYOND] * 50),
        lambda: IterGPRegressor(noise=BEYOND).fit(X, Y),
        lambda: condition(Prior(RBF()), X, [BEYOND] * 50, 0.1),
        lambda: RBF(BEYOND),
        lambda: RBF() * BEYOND,
    ],
)
def test_integers_beyond_float64_are_refused(call):
    with pytest.raises(InputError):
        call()


@pytest.mark.parametrize(
    "value", [object(), {}, set(), lambda x: x, b"x", 1j, RBF()], ids=lambda v: type(v).__name__
)
def test_a_parameter_of_a_kernel_is_a_number(value):
    with pytest.raises(InputError, match=r"RBF\.lengthscale"):
        RBF(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: MaxActions(10**23),
        lambda: IterGPRegressor(budget="99999999999999999999999 actions").fit(X, Y),
        lambda: IterGPRegressor(neighbours=10**23).fit(X, Y),
        lambda: IterGPRegressor(random_state=10**30).fit(X, Y),
    ],
)
def test_counts_that_nobody_can_count_are_refused(call):
    with pytest.raises(InputError):
        call()


def test_an_interval_that_float64_cannot_tell_from_everything_is_refused():
    model = IterGPRegressor(noise=0.01, learn=False).fit(X, Y)
    with pytest.raises(InputError, match="level"):
        model.interval(X, level=1 - 1e-16)
    low, high = model.interval(X, level=1 - 1e-15)
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()


@pytest.mark.parametrize("seed", [-1, "a", 1.5])
def test_a_seed_is_a_count(seed):
    posterior = condition(Prior(RBF()), X, Y, 0.1)
    with pytest.raises(InputError, match="seed"):
        posterior.sample(X, 1, seed=seed)
    with pytest.raises(InputError, match="seed"):
        posterior.sample_function(1, seed=seed)


@pytest.mark.parametrize("kind", ["table", "record_batch"])
def test_arrow_tables_are_tables(kind):
    pa = pytest.importorskip("pyarrow")
    make = getattr(pa, kind)
    table = make({"a": X[:, 0], "b": X[:, 1]})
    plain = IterGPRegressor(noise=0.01, learn=False).fit(X, Y)
    model = IterGPRegressor(noise=0.01, learn=False).fit(table, pa.chunked_array([Y]))
    assert list(model.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(model.predict(table), plain.predict(X))
    with pytest.raises(InputError, match="text"):
        IterGPRegressor().fit(make({"a": ["x"] * 50, "b": X[:, 1]}), Y)
    for other in ({"b": X[:, 1], "a": X[:, 0]}, {"a": X[:, 0], "c": X[:, 1]}):
        for call in (model.predict, model.decompose, lambda X: model.partial_fit(X, Y)):
            with pytest.raises(InputError, match="feature names"):
                call(make(other))


def test_draws_that_no_memory_holds_are_refused_with_the_number():
    model = IterGPRegressor(noise=0.01, learn=False).fit(X, Y)
    for call in (
        lambda: model.sample_y(X, n_samples=10**12),
        lambda: model.posterior_.sample(X, 10**12),
        lambda: model.posterior_.sample_function(10**12),
        lambda: model.posterior_.sample_function(1, features=10**12),
    ):
        with pytest.raises(MemoryLimitError, match="GB are available"):
            call()


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_a_checkpoint_has_a_name_that_the_system_can_have(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="checkpoint"):
        IterGPRegressor(noise=0.01, learn=False, checkpoint=path).fit(X, Y)
    assert not list(tmp_path.iterdir())


# Sizes of y.


@pytest.mark.parametrize("size", [1e-147, 1e-154, 1e-200, 1e-300])
def test_targets_whose_squares_are_not_in_float64_are_refused_without_scaling(size):
    with pytest.raises(InputError, match=r"y is at most .* normalize is False.*normalize=True"):
        IterGPRegressor(normalize=False).fit(X, size * Y)
    with pytest.raises(InputError, match="normalize=True"):
        IterGPRegressor(normalize=False).fit(X, np.column_stack([Y, size * Y]))


def test_without_scaling_the_smallest_targets_are_fitted_as_any(recwarn):
    plain, small = (IterGPRegressor(normalize=False).fit(X, size * Y) for size in (1.0, 1e-144))
    for one, other in zip(plain.predict(X, return_std=True), small.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(other / 1e-144, one, rtol=0.05, atol=0.01)
    IterGPRegressor(normalize=False, learn=False, noise=0.1).fit(X, 0.0 * Y)  # nothing to lose
    small.partial_fit(X[:1] + 0.5, [0.0])
    small.partial_fit(X[:1] + 0.6, [1e-300])


@pytest.mark.parametrize("size", [1e-158, 1e-160, 1e-200, 1e-300])
def test_variances_that_vanish_in_units_of_y_squared_are_told(size):
    model = IterGPRegressor(noise=1e-4, learn=False).fit(X, size * Y)
    plain = IterGPRegressor(noise=1e-4, learn=False).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, std = model.predict(X, return_std=True)
        model.interval(X)
    np.testing.assert_allclose(std / size, plain.predict(X, return_std=True)[1], rtol=1e-6)
    for call in (model.decompose, model.certify, lambda X: model.predict(X, return_cov=True)):
        with pytest.warns(PrecisionWarning, match="units of y squared"):
            call(X[:5])


def test_small_targets_whose_variances_are_in_float64_pass_without_a_word():
    model = IterGPRegressor(noise=0.1, learn=False).fit(X, 1e-148 * Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.decompose(X)
        model.predict(X, return_cov=True)


@pytest.mark.parametrize("kind", [np.longdouble, np.float64, np.float32, np.float16])
def test_a_level_is_any_float(kind):
    model = IterGPRegressor(noise=0.01, learn=False).fit(X, Y)
    np.testing.assert_array_equal(model.interval(X, kind(0.5)), model.interval(X, 0.5))


def test_what_scikit_learn_says_of_names_moves_no_terminal():
    pd = pytest.importorskip("pandas")
    names = ["\x1b[31mred", "\u202eevil"]
    model = IterGPRegressor(noise=0.01, learn=False).fit(pd.DataFrame(X, columns=names), Y)
    with pytest.raises(InputError, match="feature names") as told:
        model.predict(pd.DataFrame(X, columns=["\x1b[2J", "\u200bx"]))
    for hidden in "\x1b\u202e\u200b":
        assert hidden not in str(told.value)
    assert r"\x1b[2J" in str(told.value)

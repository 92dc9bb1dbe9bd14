"""The amplification of a kernel bounds what its entries err by in single precision, whoever wrote it."""

import numpy as np
import pytest

from itergp import Compute, KernelError, MaxActions, Prior, PseudoInput, condition
from itergp.limits import FLOAT32_ROWS
from itergp.linalg.gram import Gram
from itergp.prior.distances import distance
from itergp.prior.kernel import Kernel
from itergp.prior.stationary import RBF, Matern12, Matern32, Matern52, Periodic, RationalQuadratic, Stationary

UNIT = float(np.finfo(np.float32).eps) / 2


class Steep(Stationary):
    """Matern 1/2 with a lengthscale of 1/500 in its formula."""

    def profile(self, s):
        return s.__array_namespace__().exp(-500.0 * distance(s))


class Wave(Stationary):
    """In one dimension, a frequency of 300 under a Gaussian: as steep far from 0 as near it."""

    def profile(self, s):
        xp = s.__array_namespace__()
        return xp.cos(300.0 * distance(s)) * xp.exp(-0.5 * s)


class Cancelling(Stationary):
    """A rational quadratic by a formula that cancels."""

    def profile(self, s):
        return (s + 1e3) - s - 999.0 - s / (1.0 + s)


class Plain(Kernel):
    """A kernel of two points, with nothing known about it."""

    def __call__(self, X0, X1):
        return X0.__array_namespace__().exp(-200.0 * abs(X0[:, :1] - X1[:, :1].T))


def pairs(rng, d):
    """Pairs of points at distances from 1e-6 to 1."""
    X = rng.uniform(-1.0, 1.0, (200, d))
    Z = np.concatenate(
        [X + step * rng.standard_normal(X.shape) for step in 10.0 ** -np.arange(0.0, 6.5, 0.5)]
    )
    return X, Z


COMPOSED = {
    "itself": lambda k: k,
    "scaled": lambda k: 3.0 * k,
    "sum": lambda k: k + RBF(0.5),
    "product": lambda k: k * RBF(0.5),
    "on a column": lambda k: k.on([0]),
}


@pytest.mark.parametrize("composed", COMPOSED)
@pytest.mark.parametrize("kernel", [Steep(), Steep(0.1), Wave(), Cancelling(), Plain()])
def test_errors_at_all_distances_are_within_the_amplification(kernel, composed):
    kernel, (X, Z) = COMPOSED[composed](kernel), pairs(np.random.default_rng(3), 1)
    exact, rounded = kernel(X, Z), kernel(X.astype(np.float32), Z.astype(np.float32))
    error = (
        np.abs(np.asarray(rounded, dtype=np.float64) - exact).max() / UNIT / float(kernel.diagonal(X).max())
    )
    assert error <= kernel.amplification(X)


def test_appended_rows_change_what_was_measured_only_by_how_far_away_they_are():
    rng = np.random.default_rng(1)
    X = rng.choice([-1.0, 1.0], (400, 2))  # all coordinates of the same size
    assert Steep().amplification(X) == Steep().amplification(np.concatenate([X, X[:90]]))


@pytest.mark.parametrize("kind", [RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic])
def test_the_librarys_own_profiles_keep_what_was_derived_for_them(kind):
    X = np.random.default_rng(2).standard_normal((50, 3))
    size = (1.0 + 2.0 * np.pi * np.abs(X)) / 0.3 if kind is Periodic else X / 0.3
    assert kind(0.3).amplification(X) == 4.0 + 2.0 * float(np.sqrt((size**2).sum(axis=1).mean()))


@pytest.mark.parametrize("seed", range(4))
def test_a_steep_profile_in_single_precision_never_claims_less_than_the_exact_variance(seed):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-1.0, 1.0, (300, 1)), axis=0)
    X[1::2] = X[::2] + 10.0 ** rng.uniform(-6, -3, (150, 1))  # pairs where the profile is steep
    y, noise, kernel = rng.standard_normal(300), 1e-5, 1.0 * Steep()
    posterior = condition(
        Prior(kernel), X, y, noise, PseudoInput(block_size=150), MaxActions(300), Compute("float32")
    )
    K = kernel(X, X)
    exact = 1.0 - np.einsum("ij,ij->j", K, np.linalg.solve(K + noise * np.eye(300), K))
    assert (posterior.var(X) >= exact * (1.0 - 1e-9)).all()


# Lengthscales far below the size of the inputs.

STATIONARY = [RBF, Matern12, Matern32, Matern52, RationalQuadratic]
PROFILES = {
    RBF: lambda r: np.exp(-r * r / 2),
    Matern12: lambda r: np.exp(-r),
    Matern32: lambda r: (1 + np.sqrt(np.longdouble(3)) * r) * np.exp(-np.sqrt(np.longdouble(3)) * r),
    Matern52: lambda r: (
        (1 + np.sqrt(np.longdouble(5)) * r + 5 * r * r / 3) * np.exp(-np.sqrt(np.longdouble(5)) * r)
    ),
    RationalQuadratic: lambda r: 1 / (1 + r * r / 2),
}


@pytest.mark.parametrize("lengthscale", [1e-6, 1e-9, 1e-12, 1e-15, 1e-30, 1e-100, 1e-145])
@pytest.mark.parametrize("kind", STATIONARY)
def test_rows_that_are_very_many_lengthscales_apart_are_independent(kind, lengthscale):
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((50, 2)), 0.1
    y = np.sin(X[:, 0])
    for d in (1, 2):
        posterior = condition(Prior(kind(lengthscale)), X[:, :d], y, noise)
        np.testing.assert_allclose(posterior.mean(X[:, :d]), y / (1 + noise), rtol=1e-7)
        np.testing.assert_allclose(posterior.var(X[:, :d]), noise / (1 + noise), rtol=1e-7)


@pytest.mark.parametrize("apart", [0.0, 1e-2, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("lengthscale", [1e-9, 1e-11, 1e-13])
@pytest.mark.parametrize("kind", STATIONARY)
def test_where_some_rows_are_close_in_lengthscales_rounding_is_within_its_bound(kind, lengthscale, apart):
    """Against the same formula with eleven more bits. Pairs at a distance of `apart` lengthscales."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (80, 1))
    X[:20] = X[20:40] + apart * lengthscale
    Z = X.astype(np.longdouble) / np.longdouble(lengthscale)
    exact = PROFILES[kind](np.abs(Z - Z.T))
    gram = Gram(kind(lengthscale), X, Compute(dtype="float64", engine="numpy"))
    gram._origin = np.zeros(1)  # so that coordinates are as large as they are
    error = np.linalg.norm(np.asarray(gram.columns(np.arange(80)) - exact, dtype=np.float64), axis=0)
    assert (error <= gram.rounding(80, np.linalg.norm(exact.astype(np.float64), axis=0))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", STATIONARY)
@pytest.mark.parametrize("lengthscale", [1e-147, 1e-154, 1e-200, [1.0, 1e-200]])
def test_squared_distances_beyond_float64_are_refused(kind, lengthscale):
    X = np.random.default_rng(5).standard_normal((30, 2))
    with pytest.raises(KernelError, match=r"lengthscale|not finite"):
        condition(Prior(kind(lengthscale)), X, X[:, 0], 0.1)


def test_float32_that_cannot_hold_squared_distances_gives_way_or_is_refused():
    X = np.random.default_rng(6).standard_normal((FLOAT32_ROWS + 1, 2))
    prior, policy, stop = Prior(RBF(1e-25)), PseudoInput(X[:8]), MaxActions(8)
    posterior = condition(prior, X, X[:, 0], 0.1, policy, stop, Compute(dtype="auto"))
    assert posterior.problem.gram.dtype == np.float64
    np.testing.assert_allclose(posterior.var(X[:8]), 0.1 / 1.1, rtol=1e-6)
    with pytest.raises(KernelError, match=r"float32.*dtype='float64'"):
        condition(prior, X, X[:, 0], 0.1, policy, stop, Compute(dtype="float32"))
    coarse = condition(Prior(RBF(1e-12)), X[:500], X[:500, 0], 0.1, compute=Compute(dtype="float32"))
    np.testing.assert_allclose(coarse.var(X[:8]), 0.1 / 1.1, rtol=1e-3)

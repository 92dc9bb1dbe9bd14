"""The amplification of a kernel bounds what its entries err by in single precision, whoever wrote it."""

import numpy as np
import pytest

from itergp import Compute, MaxActions, Prior, PseudoInput, condition
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

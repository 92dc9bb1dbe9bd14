"""Radii and weights of spectral densities, against SciPy's distributions and against the kernels they
belong to."""

import numpy as np
import pytest
from scipy import stats

from itergp import RBF, Matern12, Matern32, Matern52, Periodic, RationalQuadratic
from itergp.prior import spectra

PROBABILITIES = np.array([0.99, 0.7, 0.3, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12])
DIMENSIONS = [1, 2, 5, 30]


@pytest.mark.parametrize("d", DIMENSIONS)
def test_radii_of_normal_and_t_densities_are_quantiles(d):
    np.testing.assert_allclose(
        stats.chi2.sf(spectra.gaussian(d)(PROBABILITIES) ** 2, d), PROBABILITIES, rtol=1e-10
    )
    for degrees in (1.0, 3.0, 5.0):
        r = spectra.student(d, degrees)(PROBABILITIES)
        np.testing.assert_allclose(stats.f.sf(r**2 / d, d, degrees), PROBABILITIES, rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_radii_of_the_mixture_are_quantiles(d, alpha):
    """P(|omega| > r) = E[P(chi2_d > r^2 / g)] over g, gamma distributed: here summed over the logarithm of
    g."""
    log_g = np.linspace(-120.0, 8.0, 20_001)
    log_density = stats.gamma.logpdf(np.exp(log_g), alpha, scale=1.0 / alpha) + log_g
    for u, r in zip(PROBABILITIES, spectra.gaussian_mixture(d, alpha)(PROBABILITIES), strict=True):
        with np.errstate(over="ignore"):
            tail = np.exp(log_density + stats.chi2.logsf(r**2 * np.exp(-log_g), d))
        assert np.trapezoid(tail, log_g) == pytest.approx(u, rel=5e-3)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(),
        Matern12(),
        Matern32(),
        Matern52(),
        RationalQuadratic(1.0, 0.3),
        RationalQuadratic(1.0, 5.0),
        Periodic(),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_weighted_frequencies_give_the_kernel(kernel, d):
    """Of one draw, not on average: 20,000 weighted frequencies are a sum for the integral of Bochner's
    theorem."""
    X = np.random.default_rng(d).uniform(-1.5, 1.5, (12, d))
    Phi = kernel.random_features(np.random.default_rng(7), 20_000, d)(X)
    np.testing.assert_allclose((Phi @ Phi.conj().T).real, kernel(X, X), atol=0.03)


def test_frequencies_reach_the_tail_and_weigh_what_the_density_gives_it():
    """Each power of ten of the tail has as many frequencies as the next, and their weights add up to its
    probability."""
    omega, weights = Matern32().frequencies(np.random.default_rng(0), 4096, 1)
    u = stats.t.sf(np.abs(omega[:, 0]), 3) * 2
    for power in range(1, 12):
        inside = (u > 10.0 ** -(power + 1)) & (u <= 10.0**-power)
        assert inside.sum() >= 160
        assert weights[inside].sum() == pytest.approx(0.9 * 10.0**-power, rel=0.02)


@pytest.mark.parametrize("size", [1, 2, 7, 130])
@pytest.mark.parametrize("d", [1, 3, 100])
def test_any_number_of_frequencies_in_any_dimension(size, d):
    omega, weights = RBF().frequencies(np.random.default_rng(0), size, d)
    assert omega.shape == (size, d)
    assert weights.shape == (size,)
    assert np.isfinite(omega).all()
    assert (weights > 0).all()


def test_directions_are_uniform_and_neighbours_are_at_right_angles():
    directions = spectra._directions(np.random.default_rng(0), 30_000, 3)
    blocks = directions.reshape(-1, 3, 3)
    np.testing.assert_allclose(
        blocks @ blocks.swapaxes(1, 2), np.broadcast_to(np.eye(3), blocks.shape), atol=1e-12
    )
    assert np.abs(directions.mean(axis=0)).max() < 5 / np.sqrt(3 * 30_000)
    # uniform on the sphere in three dimensions: each coordinate is uniform on [-1, 1]
    for axis in directions.T:
        assert stats.kstest(axis, stats.uniform(-1, 2).cdf).pvalue > 1e-4

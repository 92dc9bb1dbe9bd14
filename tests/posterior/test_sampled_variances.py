"""Draws that are functions vary as much as the posterior does: at the data, between them, and far away.

Where little variance is left, it lies at frequencies that are rare in the kernel's spectral density. All
here is compared with dense NumPy in float64: given its features, the variance of a draw is known exactly,
without drawing any.
"""

import re

import numpy as np
import pytest

from itergp import (
    RBF,
    Compute,
    ConjugateGradient,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    MaxActions,
    Periodic,
    Prior,
    PseudoInput,
    RationalQuadratic,
    Stationary,
    UnitVector,
    condition,
)

N, PLACES = (
    250,
    {
        "at the data": slice(0, 20),
        "between": slice(20, 40),
        "at the edge": slice(40, 50),
        "far away": slice(50, 54),
    },
)
NOISES = [1e-8, 1e-5, 1e-2, 1.0]
LENGTHSCALE = {1: 0.3, 2: 0.3, 5: 1.0, 12: 2.0}
STATIONARY = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational-quadratic-0.3": lambda scale: RationalQuadratic(scale, alpha=0.3),
    "rational-quadratic-2": lambda scale: RationalQuadratic(scale, alpha=2.0),
    "rational-quadratic-10": lambda scale: RationalQuadratic(scale, alpha=10.0),
    "periodic": lambda scale: Periodic(1.5 * scale, period=1.3),
}
COMPOSED = {
    "one relevant column": lambda scale, d: Matern32(np.r_[scale, np.full(d - 1, 50.0)]),
    "sum": lambda scale, d: RBF(2 * scale) + 0.1 * Matern12(scale),
    "product": lambda scale, d: Matern32(scale) * Matern52(2 * scale),
    "separable": lambda scale, d: Matern32(scale).on([0]) * RBF(scale).on([d - 1]),
    "almost periodic": lambda scale, d: Matern52(3 * scale) * Periodic(1.5 * scale, period=1.3),
    "product of sums": lambda scale, d: (RBF(scale) + Constant(0.5)) * (2.0 * Matern32(scale) + Linear(2.0)),
}


def problem(d, n=N, seed=3):
    rng = np.random.default_rng([seed, d])
    X, y = rng.uniform(0, 1, (n, d)), rng.standard_normal(n)
    T = np.concatenate(
        [X[:20], rng.uniform(0.05, 0.95, (20, d)), rng.uniform(1.0, 1.4, (10, d)), rng.uniform(5, 9, (4, d))]
    )
    return X, y, T


def exactly(kernel, X, y, noise, policy=None, number=None):
    policy = UnitVector(block_size=256) if policy is None else policy
    return condition(
        Prior(kernel), X, y, noise, policy, MaxActions(number or len(X)), compute=Compute(dtype="float64")
    )


def dense(kernel, X, T, noise, S=None):
    """a = S (S^T K_hat S)^{-1} S^T k(X, T), and the variance that is left: of the exact GP unless actions
    S are given."""
    K_hat, k = kernel(X, X) + noise * np.eye(len(X)), kernel(X, T)
    S = np.eye(len(X)) if S is None else S
    a = S @ np.linalg.solve(S.T @ K_hat @ S, S.T @ k)
    return a, kernel.diagonal(T) - (k * a).sum(axis=0)


def variance_given_features(Phi_T, Phi_X, a, noise):
    """Of Phi(x) w - a^T (Phi(X) w + noise)."""
    left = Phi_T - a.T @ Phi_X
    return (np.abs(left) ** 2).sum(axis=1) + noise * (a**2).sum(axis=0)


def ratios(kernel, d, seeds=3, n=N):
    """Variance of the draws over k_*, for each seed, noise and point."""
    X, y, T = problem(d, n)
    posterior = exactly(kernel, X, y, 1.0, number=1)
    exact, found = [dense(kernel, X, T, noise) for noise in NOISES], []
    for seed in range(seeds):
        Phi = posterior.sample_function(1, seed=seed).features
        Phi_T, Phi_X = Phi(T), Phi(X)
        found.append(
            [
                variance_given_features(Phi_T, Phi_X, a, noise) / var
                for noise, (a, var) in zip(NOISES, exact, strict=True)
            ]
        )
    return np.array(found)


@pytest.mark.parametrize("d", LENGTHSCALE)
@pytest.mark.parametrize("name", STATIONARY)
def test_stationary_kernels_keep_their_variance_from_noise_1e_minus_8_to_1(name, d):
    ratio = ratios(STATIONARY[name](LENGTHSCALE[d]), d)
    for place, points in PLACES.items():
        assert ratio[..., points].min() > 0.8, place
        assert ratio[..., points].max() < 1.2, place
        assert (np.abs(ratio[..., points].mean(axis=-1) - 1.0) < 0.1).all(), place


@pytest.mark.parametrize("d", [1, 12])
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern52", "rational-quadratic-10"])
def test_so_they_do_where_many_rows_leave_little(name, d):
    """In 12 dimensions, directions are many for 4,096 frequencies: single points are further off."""
    ratio = ratios(STATIONARY[name](LENGTHSCALE[d]), d, seeds=1, n=1500)
    assert np.quantile(ratio, 0.05) > 0.85
    assert np.quantile(ratio, 0.95) < 1.15
    assert ratio.min() > 0.65
    assert ratio.max() < 1.55


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("name", COMPOSED)
def test_sums_and_products_keep_their_variance(name, d):
    ratio = ratios(COMPOSED[name](LENGTHSCALE[d], d), d)
    for place, points in PLACES.items():
        assert ratio[..., points].min() > 0.75, place
        assert ratio[..., points].max() < 1.3, place
        assert (np.abs(ratio[..., points].mean(axis=-1) - 1.0) < 0.1).all(), place


@pytest.mark.parametrize(
    ("kernel", "d"),
    [(Matern12(0.3), 1), (Matern32(0.3), 1), (Matern52(0.3), 1), (RationalQuadratic(0.3, alpha=0.3), 2)],
    ids=str,
)
def test_draws_at_many_points_vary_as_the_posterior_does(kernel, d):
    """By drawing: 400 draws at more points than exact joint draws are made for."""
    X, y, _ = problem(d, n=600)
    posterior, rng = exactly(kernel, X, y, 1e-6), np.random.default_rng(0)
    at = {
        "at the data": X,
        "between": rng.uniform(0.1, 0.9, (1500, d)),
        "far away": rng.uniform(4.0, 60.0, (300, d)),
    }
    points = np.concatenate(list(at.values()))
    draws = posterior.sample(points, 400, seed=1)
    mean, var = posterior.mean(points), posterior.var(points)
    assert (np.abs(draws.mean(axis=0) - mean) <= 5.5 * np.sqrt(1.2 * var / 400)).all()
    ratio, first = ((draws - mean) ** 2).mean(axis=0) / var, 0
    for place, some in at.items():
        part, first = ratio[first : first + len(some)], first + len(some)
        assert 0.9 < part.mean() < 1.1, place
        assert part.min() > 0.55, place  # 400 draws: a standard error of 7 %, and 2,400 points
        assert part.max() < 1.6, place


@pytest.mark.parametrize(
    "policy", [ConjugateGradient(), PseudoInput(block_size=8), UnitVector("random", block_size=4)], ids=str
)
@pytest.mark.parametrize("name", ["matern12", "matern32", "rbf", "rational-quadratic-0.3"])
def test_the_variance_that_draws_report_is_theirs_after_any_actions(name, policy):
    X, y, T = problem(2, n=120)
    kernel = STATIONARY[name](0.3)
    posterior = exactly(kernel, X, y, 1e-3, policy, 24)
    draw = posterior.sample_function(3000, seed=5)
    S = posterior.actions.toarray() if hasattr(posterior.actions, "toarray") else posterior.actions
    a, var = dense(kernel, X, T, 1e-3, S)
    np.testing.assert_allclose(
        draw.var(T), variance_given_features(draw.features(T), draw.features(X), a, 1e-3), rtol=1e-6
    )
    assert (np.abs(draw.var(T) / var - 1.0) < 0.2).all()
    values = draw(T)
    error = values.std(axis=0) / np.sqrt(3000)
    assert (np.abs(values.mean(axis=0) - posterior.mean(T)) <= 5 * error).all()
    assert (
        np.abs(((values - posterior.mean(T)) ** 2).mean(axis=0) / draw.var(T) - 1.0) <= 5 * np.sqrt(2 / 3000)
    ).all()


def test_draws_vary_as_the_posterior_does_far_from_the_origin():
    """At 2^42, where ten binary digits are left behind the point, and inputs use eight of them."""
    far = 2.0**42
    X, y, T = (np.round(256 * part) / 256 for part in problem(1, n=200))
    posterior = exactly(Matern32(0.1), X + far, y, 1e-7)
    draw, var = posterior.sample_function(1000, seed=2), posterior.var(T + far)
    np.testing.assert_allclose(draw.var(T + far), var, rtol=0.1)
    np.testing.assert_allclose(draw(T + far).var(axis=0), var, rtol=5 * np.sqrt(2 / 1000) + 0.1)


class Plain(Stationary):
    """Matern 3/2 by someone who gives a profile, and draws from the spectral density without weights."""

    profile = Matern32.profile

    def frequencies(self, rng, size, dimension):
        return rng.standard_normal((size, dimension)) / np.sqrt(rng.chisquare(3.0, (size, 1)) / 3.0)


class Thin(RBF):
    """Its own profile on top of another kernel's: what it says of its frequencies counts, not what the
    other one says."""

    def profile(self, s):
        return RBF.profile(self, 4.0 * s)

    def frequencies(self, rng, size, dimension):
        return 2.0 * rng.standard_normal((size, dimension))


def test_a_kernel_with_frequencies_of_its_own_needs_no_weights():
    X = np.random.default_rng(0).uniform(0, 1, (8, 2))
    for kernel in (Plain(0.5), Thin(0.5)):
        Phi = kernel.random_features(np.random.default_rng(1), 20_000, 2)(X)
        np.testing.assert_allclose((Phi @ Phi.conj().T).real, kernel(X, X), atol=0.03)


def stated(draw):
    number, least, most = re.match(
        r"(\d+) random features; .* is ([\d.]+) to ([\d.]+) "
        r"times",
        draw.rests_on,
    ).groups()
    return int(number), float(least), float(most)


def test_draws_say_on_what_they_rest_and_how_good_they_are():
    X, y, _ = problem(2)
    number, least, most = stated(exactly(Matern32(0.3), X, y, 1e-6).sample_function(1))
    assert number == 4096
    assert 0.9 < least <= most < 1.1
    _, least, most = stated(exactly(Matern32(0.3), X, y, 1e-6).sample_function(1, features=64))
    assert most - least > 0.3  # too few, and they say so
    _, least, most = stated(exactly(Plain(0.3), X, y, 1e-6).sample_function(1))
    assert least < 0.7  # plain draws from the density hardly reach the frequencies that are left
    assert stated(exactly(RBF(0.3) + Matern32(0.3), X, y, 1e-2).sample_function(1, features=100))[0] == 200
    # no variance at some rows
    assert stated(exactly(RBF(0.3), X, y, 0.0, number=3).sample_function(1))[1] > 0.9

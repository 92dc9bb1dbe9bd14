"""Frequencies of stationary kernels (Bochner's theorem), for samples that are functions.

A kernel is the mean of exp(i omega^T (x - x')) over its spectral density. Where data leave little variance,
the remainder lies at frequencies that are rare in the density: a few thousand draws contain one or two of
them, or none, and samples vary far too much or far too little. So half of the frequencies are drawn from the
density itself, and half such that every power of ten of its tail has equally many. Weights correct for this
(the balance heuristic of importance sampling), so the mean is unchanged.

A density is given by its radius: |omega| exceeds `radius(u)` with probability u.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

Radius = Callable[[np.ndarray], np.ndarray]
Frequencies = tuple[np.ndarray, np.ndarray]  # omega, (size, dimension), and their weights, (size,)

RAREST = 1e-12  # the share of the prior variance down to which the tail is covered
ORTHOGONAL = 64  # mutually orthogonal directions per batch


def isotropic(rng: np.random.Generator, size: int, dimension: int, radius: Radius) -> Frequencies:
    """`size` frequencies and weights; E[sum_j w_j exp(i omega_j^T (x - x'))] is the kernel."""
    u, weights = tail_probabilities(rng, size)
    return radius(u)[:, None] * _directions(rng, size, dimension), weights


def gaussian(dimension: int) -> Radius:
    """Spectral radius of exp(-s / 2): standard normal."""
    return lambda u: np.sqrt(2.0 * special.gammainccinv(dimension / 2, u))


def student(dimension: int, degrees: float) -> Radius:
    """Spectral radius of a Matern kernel of order nu: a multivariate t with 2 nu degrees of freedom."""

    def radius(u: np.ndarray) -> np.ndarray:
        # degrees / (degrees + r^2) has a beta distribution
        b = special.betaincinv(degrees / 2, dimension / 2, u)
        return np.sqrt(degrees * (1.0 - b) / b)

    return radius


def gaussian_mixture(dimension: int, alpha: float) -> Radius:
    """Spectral radius of (1 + s / (2 alpha))^(-alpha): normal, with a gamma-distributed precision.

    So alpha r^2 / 2 is a product of two gamma variables, with shapes d / 2 and alpha. Its tail is tabulated
    by integrating the tail of one over the logarithm of the other, the one with the larger shape.
    """
    from scipy.interpolate import PchipInterpolator  # imported here: nothing else needs it

    wide, narrow = sorted((dimension / 2, alpha))
    lowest, highest = (
        np.log(np.maximum(np.array(q), 1e-26)) for q in zip(_range(wide), _range(narrow), strict=True)
    )
    t = np.linspace(lowest[1], highest[1], 400)
    density = np.exp(narrow * t - np.exp(t) - special.gammaln(narrow)) * (t[1] - t[0])
    s = np.linspace(lowest.sum(), highest.sum(), 400)  # log(alpha r^2 / 2)
    tail = special.gammaincc(wide, np.exp(s[:, None] - t)) @ density
    known = tail < 1.0 - 1e-9  # radii that nearly all draws exceed count as zero
    table = PchipInterpolator(-np.log(tail[known]), s[known])
    return lambda u: np.sqrt(2.0 / alpha * np.exp(table(np.maximum(-np.log(u), table.x[0]))))


def _range(shape: float) -> tuple[float, float]:
    """The range of a gamma distribution, up to negligible probability."""
    rare = RAREST * 1e-8
    return float(special.gammaincinv(shape, rare)), float(special.gammainccinv(shape, rare))


def tail_probabilities(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Half uniform on (0, 1], half log-uniform, each stratified; and their weights."""
    half = size - size // 2
    even = (np.arange(half) + 1.0 - rng.random(half)) / half
    rare = RAREST ** ((np.arange(size - half) + rng.random(size - half)) / (size - half))
    u = np.concatenate([even, rare])
    return u, 1.0 / (half + np.where(u >= RAREST, (size - half) / (u * -np.log(RAREST)), 0.0))


def _directions(rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
    """Uniform on the sphere, with orthogonal neighbours: similar radii cover all directions."""
    at_once = min(dimension, ORTHOGONAL)
    Q, R = np.linalg.qr(rng.standard_normal((-(-size // at_once), dimension, at_once)))
    Q *= np.sign(np.einsum("bii->bi", R[:, :at_once]))[:, None]  # removes LAPACK's sign convention
    return Q.swapaxes(1, 2).reshape(-1, dimension)[:size]

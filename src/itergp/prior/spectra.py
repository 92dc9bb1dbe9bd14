"""Frequencies of stationary kernels (Bochner's theorem): for samples that are functions.

A kernel is the mean of exp(i omega^T (x - x')) over its spectral density. Where data leave little
variance, what is left lies at frequencies that are rare in the density: among a few thousand draws from it
there are one or two of them, or none, and samples vary far too much or far too little. So half of the
frequencies are drawn from the density itself, and half so that every power of ten of its tail has as many
as the next. Weights make up for it (the balance heuristic of importance sampling): the mean stays what it
was.

A density is given by its radius: |omega| is beyond `radius(u)` with probability u.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

Radius = Callable[[np.ndarray], np.ndarray]
Frequencies = tuple[np.ndarray, np.ndarray]  # omega, (size, dimension), and what each of them weighs, (size,)

RAREST = 1e-12  # the part of the prior variance down to which the tail is covered
ORTHOGONAL = 64  # directions at right angles to one another, at once


def isotropic(rng: np.random.Generator, size: int, dimension: int, radius: Radius) -> Frequencies:
    """`size` frequencies with their weights: sum_j w_j exp(i omega_j^T (x - x')) has the kernel as its
    mean."""
    u, weights = tail_probabilities(rng, size)
    return radius(u)[:, None] * _directions(rng, size, dimension), weights


def gaussian(dimension: int) -> Radius:
    """Of exp(-s / 2): standard normal."""
    return lambda u: np.sqrt(2.0 * special.gammainccinv(dimension / 2, u))


def student(dimension: int, degrees: float) -> Radius:
    """Of a Matern kernel of order nu: a multivariate t with 2 nu degrees of freedom."""

    def radius(u: np.ndarray) -> np.ndarray:
        # degrees / (degrees + r^2) has a beta distribution
        b = special.betaincinv(degrees / 2, dimension / 2, u)
        return np.sqrt(degrees * (1.0 - b) / b)

    return radius


def gaussian_mixture(dimension: int, alpha: float) -> Radius:
    """Of (1 + s / (2 alpha))^(-alpha): normal, with a precision that has a gamma distribution.

    So alpha r^2 / 2 is a product of two gamma variables, with shapes d / 2 and alpha. Its tail is
    tabulated: the integral, over the logarithm of the one with the larger shape, of what the other one
    leaves.
    """
    from scipy.interpolate import PchipInterpolator  # here: nothing else needs it

    wide, narrow = sorted((dimension / 2, alpha))
    lowest, highest = (
        np.log(np.maximum(np.array(q), 1e-26)) for q in zip(_range(wide), _range(narrow), strict=True)
    )
    t = np.linspace(lowest[1], highest[1], 400)
    density = np.exp(narrow * t - np.exp(t) - special.gammaln(narrow)) * (t[1] - t[0])
    s = np.linspace(lowest.sum(), highest.sum(), 400)  # log(alpha r^2 / 2)
    tail = special.gammaincc(wide, np.exp(s[:, None] - t)) @ density
    known = tail < 1.0 - 1e-9  # radii that nearly all exceed are nothing
    table = PchipInterpolator(-np.log(tail[known]), s[known])
    return lambda u: np.sqrt(2.0 / alpha * np.exp(table(np.maximum(-np.log(u), table.x[0]))))


def _range(shape: float) -> tuple[float, float]:
    """Where all of a gamma distribution lies, but for what is too rare to count."""
    rare = RAREST * 1e-8
    return float(special.gammaincinv(shape, rare)), float(special.gammainccinv(shape, rare))


def tail_probabilities(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of them uniform on (0, 1], half with uniform logarithms, both one in each stratum; and their
    weights."""
    half = size - size // 2
    even = (np.arange(half) + 1.0 - rng.random(half)) / half
    rare = RAREST ** ((np.arange(size - half) + rng.random(size - half)) / (size - half))
    u = np.concatenate([even, rare])
    return u, 1.0 / (half + np.where(u >= RAREST, (size - half) / (u * -np.log(RAREST)), 0.0))


def _directions(rng: np.random.Generator, size: int, dimension: int) -> np.ndarray:
    """Uniform on the sphere, neighbours at right angles: frequencies of about the same radius look all
    ways."""
    at_once = min(dimension, ORTHOGONAL)
    Q, R = np.linalg.qr(rng.standard_normal((-(-size // at_once), dimension, at_once)))
    Q *= np.sign(np.einsum("bii->bi", R[:, :at_once]))[:, None]  # without it, LAPACK's signs would show
    return Q.swapaxes(1, 2).reshape(-1, dimension)[:size]

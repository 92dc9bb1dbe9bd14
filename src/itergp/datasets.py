"""Data sets for demonstrations and experiments."""

import numpy as np


def synthetic(n: int, d: int, noise: float = 0.01, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's synthetic set: x uniform on [-1, 1]^d, y = sin(pi x^T 1) + N(0, noise)."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, np.sin(np.pi * X.sum(axis=1)) + np.sqrt(noise) * rng.standard_normal(n)

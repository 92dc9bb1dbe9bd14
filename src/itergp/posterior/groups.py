"""Many small batches at once: means, and the covariances within each group of points."""

from typing import TYPE_CHECKING

import numpy as np

from itergp.posterior.local import LocalPosterior

if TYPE_CHECKING:
    from itergp.posterior.around import JointPosterior
    from itergp.posterior.combined import Posterior

POINTS = 512  # at once


def grouped(
    process: "Posterior | LocalPosterior | JointPosterior", X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means (b, q), or (b, q, t), and covariances (b, q, q) of b groups of q points, X (b, q, d)."""
    b, q = X.shape[:2]
    step = max(1, POINTS // q)
    found = [_some(process, X[start : start + step]) for start in range(0, b, step)]
    means, covariances = zip(*found, strict=True)
    return np.concatenate(means), np.concatenate(covariances)


def _some(
    process: "Posterior | LocalPosterior | JointPosterior", X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    (b, q), points = X.shape[:2], X.reshape(-1, X.shape[2])
    if isinstance(process, LocalPosterior):
        mean, var = process.marginals(points)
        each = [process.cov(group) for group in X] if q > 1 else var[:, None, None]
        return mean.reshape(b, q, *mean.shape[1:]), np.asarray(each)
    mean, var, W = process.moments(points)
    mean = mean.reshape(b, q, *mean.shape[1:])
    if q == 1:
        return mean, var[:, None, None]
    here, K = np.arange(b), process.posterior.problem.gram.dense(points, points)
    covariance = K.reshape(b, q, b, q)[here, :, here, :]
    each = W.T.reshape(b, q, -1)
    covariance = covariance - each @ each.swapaxes(1, 2)
    covariance[:, np.arange(q), np.arange(q)] = var.reshape(b, q)
    return mean, (covariance + covariance.swapaxes(1, 2)) / 2

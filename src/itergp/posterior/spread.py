"""Means and variances at many points, batch by batch: points do not depend on each other, so an engine with
several machines has them computed there, by the posterior that was sent once."""

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from itergp.errors import ClusterError, MemoryLimitError

if TYPE_CHECKING:
    from itergp.posterior.combined import Posterior

POINTS = 2048  # in a batch that is sent, and
BYTES = 2**20  # of its inputs, at most; but
FEWEST = 256  # points at least

Found = tuple[np.ndarray, np.ndarray | None]


def marginals(process: Any, X: np.ndarray, size: int | None = None, with_variance: bool = True) -> Found:
    """Of a posterior or a local one: means, and variances if asked, `size` points at once (None: all).

    With sparse actions no bit depends on where they are computed; with dense ones that is rounding.
    """
    posterior, neighbours = getattr(process, "posterior", process), getattr(process, "neighbours", 0)
    engine, basis = posterior.problem.gram.engine, getattr(posterior, "shared", posterior).state.basis
    if engine.spreads(len(X)) and not basis.elsewhere:  # it would come here first, and then go to each worker
        number = int(min(POINTS, max(FEWEST, BYTES // (8 * X.shape[1]))))
        pieces = [X[i : i + number] for i in range(0, len(X), number)]
        try:
            return _joined(engine.each(partial(at, neighbours, with_variance), posterior.as_sent, pieces))
        except (MemoryLimitError, ClusterError) as error:  # this process holds the posterior already
            warnings.warn(
                f"Predictions are computed in this process, since the cluster cannot: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
    size = max(1, len(X) if size is None else size)
    pieces = [X[i : i + size] for i in range(0, max(1, len(X)), size)]
    return _joined([_answers(process.at(piece), with_variance) for piece in pieces])


def at(neighbours: int, with_variance: bool, posterior: Any, X: np.ndarray) -> Found:
    """On a worker."""
    process = posterior.local(neighbours) if neighbours else posterior
    return _answers(process.at(X), with_variance)


def as_sent(posterior: "Posterior") -> "Posterior":
    """What predictions read, without the run. Values that follow from it by products of large matrices are
    computed here, once: elsewhere they might be rounded differently."""
    state = posterior.state
    known = {"representer_weights": state.representer_weights, "residual": state.residual}
    belief = replace(state.belief).knowing(**known)
    bare = replace(state, belief=belief, policy=None, stage=None, trace=())
    return type(posterior)(posterior.problem, bare)


def _answers(at: Any, with_variance: bool) -> Found:
    return at.marginals if with_variance else (at.mean, None)


def _joined(found: list[Found]) -> Found:
    means, variances = zip(*found, strict=True)
    return np.concatenate(means), None if variances[0] is None else np.concatenate(variances)

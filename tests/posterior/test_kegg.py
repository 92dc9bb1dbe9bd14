"""Where the paper reports numerical instability: KEGG undirected, of whose rows 71 % are exact duplicates."""

import numpy as np
import pytest

from helpers import load_split
from itergp import Compute, Matern32, MaxActions, Prior, PseudoInput, condition
from itergp.metrics import nll

ROWS = 8000  # the whole set, three splits: benchmarks/kegg.py


@pytest.mark.data
def test_pseudo_input_actions_on_duplicates_in_float32_stay_positive_and_informative():
    X, y, X_test, y_test = load_split("keggundirected", 0)
    X, y, X_test, y_test = X[:ROWS], y[:ROWS], X_test[:1000], y_test[:1000]
    prior = Prior(1.0 * Matern32(np.sqrt(X.shape[1])))
    posterior = condition(prior, X, y, 0.05, PseudoInput(block_size=64), MaxActions(256), Compute("float32"))
    assert posterior.rank == 256
    of_the_mean = nll(y_test, np.full(1000, y.mean()), np.full(1000, y.var()))
    path = posterior.path(X_test, [128, 192, 256])
    assert (path.var > 0).all()
    assert (np.diff(path.var, axis=0) <= 0).all()
    for mean, var in zip(path.mean, path.var, strict=True):
        assert nll(y_test, mean, var + 0.05) < of_the_mean
    local = posterior.local(60)
    assert (local.var(X_test) > 0).all()
    assert nll(y_test, local.mean(X_test), local.predictive_var(X_test)) < nll(
        y_test, path.mean[-1], path.var[-1] + 0.05
    )

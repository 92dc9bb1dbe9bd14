"""Serving for long: predictions keep nothing, and of a model that takes more rows only the last one stays."""

import gc
import pickle
import tracemalloc

import numpy as np

from itergp import IterGPRegressor
from itergp.datasets import synthetic
from itergp.linalg.gram import Gram
from itergp.linalg.index import Index
from itergp.posterior.combined import Posterior
from itergp.posterior.prepared import Prepared
from itergp.solver.state import State

KINDS = (Posterior, State, Gram, Index, Prepared)


def alive():
    gc.collect()
    objects = gc.get_objects()
    return [sum(isinstance(one, kind) for one in objects) for kind in KINDS]


def fitted(d):
    X, y = synthetic(700, d)
    model = IterGPRegressor(kernel="matern32", learn=False, noise=0.1, budget="20 actions")
    return model.fit(X[:600], y[:600]), X[600:], y[600:]


def test_predictions_keep_nothing():
    for d in (3, 10):  # neighbours by a tree, and by comparing with all rows
        model, X, _ = fitted(d)
        model.predict(X, return_std=True)  # makes what all predictions share
        tracemalloc.start()
        try:
            sizes = []
            for i in range(140):
                model.predict(X[i % 90 : i % 90 + 1 + i % 5], return_std=bool(i % 2))
                if i in (40, 139):
                    gc.collect()
                    sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert sizes[1] < sizes[0] + 20_000  # 200 bytes for each prediction


def test_of_a_growing_model_only_the_last_one_stays():
    model, X, y = fitted(3)
    counts, size = [], []
    for i in range(40):
        row = i if i % 2 else 5  # new rows, and one that comes again
        model.partial_fit(X[row : row + 1], y[row : row + 1])
        model.predict(X[:3], return_std=True)
        if i in (3, 39):
            counts.append(alive())
            size.append(len(pickle.dumps(model)))
    assert counts[0] == counts[1]
    n, r = model.posterior_.problem.n, model.posterior_.rank
    assert size[1] - size[0] < 8 * 40 * (3 * n + 6 * r)  # what 40 actions take: K Q, Q and r x r factors
    assert np.isfinite(model.predict(X)).all()

"""Files of a version, for later versions to read: run with that version, and then never again."""

import json
from pathlib import Path

import numpy as np

from itergp import IterGPRegressor

HERE = Path(__file__).parent


def data(targets):
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (20, 2))
    X = np.concatenate([X, X[:5]])
    Y = np.stack(
        [np.sin(3 * X[:, 0]), 10 + X[:, 1] ** 2, X.sum(axis=1)], axis=1
    ) + 0.05 * rng.standard_normal((25, 3))
    return X, Y[:, 0] if targets is None else Y[:, :targets]


expected = {}
for name, targets, refinable in (("one", None, True), ("three", 3, True), ("fixed", None, False)):
    X, y = data(targets)
    model = IterGPRegressor(budget="12 actions", policy="pseudo-input", learn=False, noise=0.02).fit(X, y)
    model.save(HERE / f"{name}.itergp", refinable=refinable)
    X_new = np.random.default_rng(8).uniform(-1, 1, (6, 2))
    mean, std = model.predict(X_new, return_std=True)
    more = [] if not refinable else model.refine("4 actions").predict(X_new).tolist()
    expected[name] = {"X": X_new.tolist(), "mean": mean.tolist(), "std": std.tolist(), "refined": more}
(HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")

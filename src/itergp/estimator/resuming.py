"""Checkpoints of a fit: what was learned before an interruption is not learned again."""

from dataclasses import asdict
from typing import Any

import numpy as np

from itergp.errors import StorageError
from itergp.estimator.files import (
    candidates_of,
    function_of,
    function_value,
    learning_of,
    learning_value,
    noise_of_targets,
)
from itergp.estimator.hyperparameters import Hyperparameters, Plan
from itergp.learning.candidates import start_of
from itergp.prior.parameters import parameters, with_parameters
from itergp.storage import Checkpoint
from itergp.storage.checks import array_of
from itergp.storage.files import Malformed, array_digest
from itergp.storage.specs import describe


def open_checkpoint(path: Any, plan: Plan) -> tuple[Checkpoint | None, Hyperparameters | None]:
    """The checkpoint of this fit, with its manifest written immediately, and what was learned before the
    interruption."""
    if path is None:
        return None, None
    asked = {
        name: describe(getattr(plan, name), name) for name in ("mean", "noise", "learn", "policy", "seed")
    }
    data = {
        "X": array_digest(plan.data.X),
        "y": array_digest(plan.data.y),
        "counts": array_digest(plan.data.counts),
    }
    if plan.data.weights is not None:
        data["weights"] = array_digest(plan.data.weights)
    compute = {"dtype": plan.compute.dtype, "threads": plan.compute.threads}
    kernel: Any = "auto" if plan.start.chosen else describe(plan.start.kernel, "kernel")
    groups = None if plan.groups is None else array_digest(plan.groups)
    checkpoint = Checkpoint(path, {**data, "kernel": kernel, "groups": groups, **asked, **compute})
    if checkpoint.read_manifest() is None:
        checkpoint.note({})
    learned = checkpoint.about.get("learned")
    if learned is None:
        return checkpoint, None
    try:
        values = {
            path: np.asarray(value) if isinstance(value, list) else value
            for path, value in learned["parameters"].items()
        }
        candidates = candidates_of(learned.get("candidates", []))
        start = start_of(candidates[0].name, plan.data.X.shape[1]) if candidates else plan.start.kernel
        kernel, noise = (
            with_parameters(start, values),
            noise_of_targets(learned["noise"], plan.data.y.shape[1:]),
        )
        how = learning_of(learned.get("how"))
        function = function_of(learned.get("function"), plan.data.X.shape[1])
        return checkpoint, Hyperparameters(
            kernel,
            noise,
            learning=how,
            candidates=candidates,
            function=function,
            outliers=_outliers(learned.get("outliers"), int(plan.data.counts.sum())),
        )
    except (KeyError, TypeError, ValueError, Malformed) as error:
        checkpoint.close()
        raise StorageError(
            f"checkpoint {path} has no valid record of what was learned ({error}); delete it to start over."
        ) from None


def _outliers(value: Any, n: int) -> np.ndarray | None:
    """The factor on the noise of each of n observations; None if there are no outliers."""
    if value is None:
        return None
    count, g = len(value["rows"]), np.ones(n)
    rows = array_of(value["rows"], "rows of outliers", count, least=0, whole=True)
    if not (rows < n).all():
        raise Malformed(f"rows of outliers are not below {n}, the number of rows.")
    g[rows] = array_of(value["factors"], "factors of outliers", count, least=1.0)
    return g


def note_learned(checkpoint: Checkpoint | None, found: Hyperparameters) -> None:
    """Record what was learned, so that a resumed fit need not learn again."""
    if checkpoint is not None:
        values = {path: np.asarray(value).tolist() for path, value in parameters(found.kernel).items()}
        noise, how = np.asarray(found.noise).tolist(), learning_value(found.learning)
        candidates = [asdict(candidate) for candidate in found.candidates]
        learned = {"parameters": values, "noise": noise, "how": how, "candidates": candidates}
        if found.outliers is not None:
            rows = np.flatnonzero(found.outliers > 1)
            learned["outliers"] = {"rows": rows.tolist(), "factors": found.outliers[rows].tolist()}
        checkpoint.note({"learned": learned | {"function": function_value(found.function)}})

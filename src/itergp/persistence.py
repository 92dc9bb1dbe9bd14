"""What files say about an estimator: its parameters, scaling and names in a model; what it learned in a checkpoint."""

from typing import Any

import numpy as np

from itergp.endings import Ending, Learning
from itergp.errors import InputError, StorageError
from itergp.fitting import Hyperparameters, Plan
from itergp.incoming import FirstRows
from itergp.posterior.combined import Posterior
from itergp.posterior.targets import TargetPosterior
from itergp.prior.kernels import parameters, with_parameters
from itergp.scaling import Scaling
from itergp.solver.stopping import StoppingCriterion
from itergp.storage import Checkpoint
from itergp.storage.files import Tensors, array_digest
from itergp.storage.specs import decode, describe, encode, table

FIRST_ROWS = ("X", "y", "fitted", "told")
SCALING = ("x_mean", "x_scale", "y_mean", "y_scale")


def about(estimator: Any, refinable: bool = True) -> dict[str, Any]:
    """A fitted estimator beside its posterior, for JSON. Objects among the parameters are in the posterior itself."""
    names, first = getattr(estimator, "feature_names_in_", None), estimator.first_rows_ if refinable else None
    return {
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        "noise": np.asarray(estimator.noise_).tolist(),
        "scaling": {name: getattr(estimator.scaling_, name).tolist() for name in SCALING},
        "row_counts": None if (estimator.row_counts_ == 1).all() else estimator.row_counts_.tolist(),
        "scatter": np.asarray(estimator.scatter_).tolist(),
        "first_rows": None if first is None else {name: np.asarray(getattr(first, name)).tolist() for name in FIRST_ROWS},
        "feature_names": None if names is None else [str(name) for name in names],
        "timings": estimator.timings_,
        "resumed_from": estimator.trace_.resumed_from,
        "learning": _learning_value(estimator.learning_),
    }


def constructor_parameters(posterior: Posterior | TargetPosterior, about: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the estimator that was saved; those that were objects, as the posterior has them."""
    prior = posterior.problem.prior
    objects = {"kernel": prior.kernel, "mean": prior.mean_function, "policy": posterior.policy, "noise": about["noise"]}
    return {
        name: objects.get(name) if value == _OBJECT else decode(value, Tensors(), table())
        for name, value in about["parameters"].items()
    }


def fitted_attributes(posterior: Posterior | TargetPosterior, about: dict[str, Any]) -> dict[str, Any]:
    """What `fit` had set, but for the trace."""
    n, counts = posterior.problem.n, about["row_counts"]
    attributes = {
        "posterior_": posterior,
        "kernel_": posterior.problem.prior.kernel,
        "noise_": _numbers(about["noise"]),
        "status_": posterior.status,
        "scaling_": Scaling(**{name: np.asarray(about["scaling"][name], dtype=np.float64) for name in SCALING}),
        "row_counts_": np.ones(n, dtype=np.intp) if counts is None else np.asarray(counts, dtype=np.intp),
        "scatter_": _scatter(about["scatter"], posterior.problem.y.shape[1:]),
        "first_rows_": _first_rows(about.get("first_rows")),
        "timings_": dict(about["timings"]),
        "learning_": _learning(about.get("learning"), about["parameters"].get("learn")),
        "n_features_in_": posterior.problem.X.shape[1],
    }
    if about["feature_names"] is not None:
        attributes["feature_names_in_"] = np.asarray(about["feature_names"], dtype=object)
    return attributes


def _numbers(value: Any) -> Any:
    """A number, or an array of one for each target."""
    return np.asarray(value, dtype=np.float64) if isinstance(value, list) else float(value)


def _scatter(value: Any, targets: tuple[int, ...]) -> Any:
    """One number for each target. Early files have the sum over targets, which then share one noise: all that it enters."""
    return np.full(targets, float(value) / targets[0]) if targets and not isinstance(value, list) else _numbers(value)


def _first_rows(said: dict[str, Any] | None) -> FirstRows | None:
    if said is None:
        return None
    X, y = (np.asarray(said[name], dtype=np.float64) for name in ("X", "y"))
    return FirstRows(X, y, int(said["fitted"]), bool(said["told"]))


def _learning_value(learning: Learning) -> dict[str, Any]:
    return {"ended": learning.ended.name, "iterations": learning.iterations}


def _learning(value: dict[str, Any] | None, asked: Any = None) -> Learning:
    """How learning ended. Early files do not say; but they say where nothing was learned."""
    if value is None:
        return Learning(Ending.NOT_ASKED if asked in (False, "none") else Ending.UNKNOWN)
    return Learning(Ending[value["ended"]], int(value["iterations"]))


_OBJECT = {"object": True}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, StoppingCriterion):
        return encode(value, _no_arrays, "budget")
    return str(value) if hasattr(value, "__fspath__") else _OBJECT


def _no_arrays(array: np.ndarray, name: str) -> Any:
    raise InputError(f"{name} has an array in it, which the model's file does not keep; set another budget before saving.")


def open_checkpoint(path: Any, plan: Plan) -> tuple[Checkpoint | None, Hyperparameters | None]:
    """The checkpoint of this fit, with its manifest written at once, and what was learned before it was cut off."""
    if path is None:
        return None, None
    asked = {name: describe(getattr(plan, name), name) for name in ("mean", "noise", "learn", "policy", "seed")}
    data = {"X": array_digest(plan.data.X), "y": array_digest(plan.data.y), "counts": array_digest(plan.data.counts)}
    compute = {"dtype": plan.compute.dtype, "threads": plan.compute.threads}
    checkpoint = Checkpoint(path, {**data, "kernel": describe(plan.start.kernel, "kernel"), **asked, **compute})
    if checkpoint.read_manifest() is None:
        checkpoint.note({})
    learned = checkpoint.about.get("learned")
    if learned is None:
        return checkpoint, None
    try:
        values = {path: np.asarray(value) if isinstance(value, list) else value for path, value in learned["parameters"].items()}
        kernel = with_parameters(plan.start.kernel, values)
        return checkpoint, Hyperparameters(kernel, _numbers(learned["noise"]), learning=_learning(learned.get("how")))
    except (KeyError, TypeError, ValueError) as error:
        checkpoint.close()
        raise StorageError(f"checkpoint {path} does not say what was learned ({error}); delete it to start anew.") from None


def note_learned(checkpoint: Checkpoint | None, found: Hyperparameters) -> None:
    """So that a fit that resumes need not learn again."""
    if checkpoint is not None:
        values = {path: np.asarray(value).tolist() for path, value in parameters(found.kernel).items()}
        noise, how = np.asarray(found.noise).tolist(), _learning_value(found.learning)
        checkpoint.note({"learned": {"parameters": values, "noise": noise, "how": how}})

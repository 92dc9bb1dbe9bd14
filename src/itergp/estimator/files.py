"""The estimator in files: parameters, scaling and names in a model; learned values in a checkpoint."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from itergp.data.donors import Donors
from itergp.data.holes import Hole, Holes
from itergp.errors import InputError, StorageError
from itergp.estimator.names import free, remote, translate_engine, translate_kernel
from itergp.fitted.calibration import Calibration
from itergp.fitted.first_rows import FirstRows, constant
from itergp.fitted.fit import Fit, Noise, Trace
from itergp.fitted.observed import Observed, Sample
from itergp.fitted.units import Scaling
from itergp.learning.candidates import Considered, names
from itergp.learning.endings import Ending, Learning
from itergp.learning.varying import NoiseFunction
from itergp.posterior.combined import Posterior
from itergp.posterior.targets import TargetPosterior
from itergp.prior.kernel import Kernel
from itergp.solver.stopping import StoppingCriterion
from itergp.storage import load
from itergp.storage.checks import array_of, counted, number
from itergp.storage.files import Malformed, Tensors
from itergp.storage.specs import decode, encode, table
from itergp.tables.layout import Layout
from itergp.validate import choice

MOST_GROUPED = 10**6  # rows whose groups a file has
# of parameters that an early file lacks: those of IterGPRegressor, whose class needs scikit-learn
DEFAULTS: dict[str, Any] = {
    "kernel": "auto",
    "mean": "constant",
    "noise": "learn",
    "learn": "auto",
    "policy": "auto",
    "neighbours": "auto",
    "budget": None,
    "dtype": "auto",
    "cache": "auto",
    "threads": None,
    "normalize": True,
    "merge_duplicates": True,
    "checkpoint": None,
    "random_state": 0,
    "verbose": 0,
    "engine": "auto",
}
SCALING = ("x_mean", "x_scale", "y_mean", "y_scale")


def about(fit: Fit, refinable: bool = True) -> dict[str, Any]:
    """The fit without its posterior, for JSON. Parameters that are objects are stored with the posterior."""
    first = fit.first_rows if refinable else None
    return {
        "parameters": {name: _plain(value) for name, value in fit.asked.items() if _kept(name, value)},
        "noise": np.asarray(fit.noise).tolist(),
        "noise_function": function_value(fit.noise_function),
        "scaling": {name: getattr(fit.scaling, name).tolist() for name in SCALING},
        "row_counts": None if (fit.counts == 1).all() else fit.counts.tolist(),
        "row_weights": None if fit.weights is None else fit.weights.tolist(),
        "scatter": np.asarray(fit.scatter).tolist(),
        "first_rows": None if first is None else _first_rows_value(first),
        "feature_names": None if fit.names is None else list(fit.names),
        "timings": fit.timings,
        "resumed_from": fit.trace.resumed_from,
        "learning": learning_value(fit.learning),
        "candidates": [asdict(candidate) for candidate in fit.trace.candidates],
        "observed": _observed_value(fit.observed) if refinable else None,
        "calibration": None if fit.calibration is None else _calibration_value(fit.calibration),
        "donors": None if fit.donors is None else _donors_value(fit.donors),
    }


def load_fit(
    path: str | PathLike[str], classes: Iterable[type] = (), engine: Any = None
) -> tuple[Fit, Layout | None]:
    """The fit in a model file, perhaps on another engine, and the columns of the table that it was made from.
    What only looks at a fit need not import scikit-learn, which takes longer than to read the file."""
    posterior, said = load(path, classes, translate_engine(engine))
    with restoring(path):
        asked = DEFAULTS | parameters_of(posterior, said)
        fit = restored(posterior, said, asked if engine is None else asked | {"engine": engine})
        return fit, table_of(said, fit.features)


def parameters_of(posterior: Posterior | TargetPosterior, about: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the saved estimator; those that are objects come from the posterior."""
    prior = posterior.problem.prior
    objects = {
        "kernel": prior.kernel,
        "mean": prior.mean_function,
        "policy": posterior.policy,
        "noise": about["noise"],
    }
    return {
        name: objects.get(name) if value == _OBJECT else decode(value, Tensors(), table())
        for name, value in about["parameters"].items()
    }


def restored(posterior: Posterior | TargetPosterior, about: dict[str, Any], asked: Mapping[str, Any]) -> Fit:
    """The saved fit, without its learning trace; `asked` are all parameters, including those missing from
    the file."""
    (n, d), targets, counts = posterior.problem.X.shape, posterior.problem.y.shape[1:], about["row_counts"]
    learns, timings = str(asked["learn"]) not in ("none", "False"), about["timings"]
    return Fit(
        posterior=posterior,
        noise=_noise_of(posterior, about["noise"], targets),
        scaling=_scaling(about["scaling"], d, targets),
        counts=np.ones(n, dtype=np.intp)
        if counts is None
        else array_of(counts, "row_counts", n, least=1, whole=True),
        scatter=_scatter(about["scatter"], targets),
        learning=learning_of(about.get("learning"), asked["learn"]),
        free=free(translate_kernel(asked["kernel"], d), learns, asked["noise"]),
        asked=asked,
        names=_names(about["feature_names"], d),
        first_rows=_first_rows(about.get("first_rows"), d, targets),
        trace=Trace(
            steps=posterior.trace,
            resumed_from=int(about["resumed_from"]),
            candidates=candidates_of(about.get("candidates", [])),
        ),
        weights=_weights(about.get("row_weights"), n),
        noise_function=function_of(about.get("noise_function"), d),
        timings={name: number(seconds, f"timings {name!r}", least=0.0) for name, seconds in timings.items()},
        observed=_observed(about.get("observed"), n, targets),
        calibration=_calibration(about.get("calibration"), targets),
        donors=_donors(about.get("donors"), d),
    )


def table_of(about: dict[str, Any], features: int) -> Layout | None:
    """The columns of the table that the command line fitted the model to; None for models of Python."""
    if about.get("table") is None:
        return None
    layout = Layout.from_json(about["table"])
    if len(layout.inputs) != features:
        raise Malformed(f"its table makes {len(layout.inputs)} inputs, but it has {features}.")
    return layout


def _names(names: Any, d: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != d or not all(isinstance(name, str) for name in names):
        raise Malformed(f"feature_names are not {d} names.")
    return tuple(names)


@contextlib.contextmanager
def restoring(path: Any) -> Iterator[None]:
    """Raise StorageError if a file does not describe a valid estimator."""
    try:
        yield
    except Malformed as error:
        raise StorageError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(
            f"{path} contains a posterior, but not an IterGPRegressor ({error!r}); use itergp.storage.load."
        ) from None


def noise_of_targets(value: Any, targets: tuple[int, ...]) -> Noise:
    """A number, or an array with one number per target."""
    return (
        array_of(value, "noise", *targets, least=0.0)
        if isinstance(value, list)
        else number(value, "noise", least=0.0)
    )


def _noise_of(posterior: Posterior | TargetPosterior, value: Any, targets: tuple[int, ...]) -> Noise:
    """The noise: one value, or one per target if the posterior has one per target."""
    if isinstance(value, list) != isinstance(posterior, TargetPosterior):
        raise Malformed("noise is given both as one number and per target; expected one form.")
    return noise_of_targets(value, targets)


def _scaling(value: Any, d: int, targets: tuple[int, ...]) -> Scaling:
    found = {
        name: array_of(value[name], f"scaling {name}", *((d,) if name[0] == "x" else targets))
        for name in SCALING
    }
    for name in ("x_scale", "y_scale"):
        if not (found[name] > 0).all():
            raise Malformed(f"scaling {name} has the value {found[name].min():.3g}; expected numbers > 0.")
    return Scaling(**found)


def _scatter(value: Any, targets: tuple[int, ...]) -> Noise:
    """One number per target. Early files have the sum over targets, which is sufficient since they share
    one noise."""
    if isinstance(value, list):
        return array_of(value, "scatter", *targets, least=0.0)
    total = number(value, "scatter", least=0.0)
    return np.full(targets, total / targets[0]) if targets else total


def function_value(function: NoiseFunction | None) -> Any:
    """How noise varies, as JSON: its arrays are written out."""
    if function is None:
        return None
    arrays: dict[str, Any] = {}

    def put(array: np.ndarray, name: str) -> str:
        arrays[name] = array.tolist()
        return name

    return {"spec": encode(function, put, "noise_function"), "arrays": arrays}


def function_of(value: Any, d: int) -> NoiseFunction | None:
    """How noise varies; early files have constant noise."""
    if value is None:
        return None
    arrays = {name: np.asarray(part, dtype=np.float64) for name, part in value["arrays"].items()}
    found = decode(value["spec"], arrays, table([NoiseFunction]))
    if not isinstance(found, NoiseFunction) or not isinstance(found.kernel, Kernel):
        raise Malformed("noise_function is not a function of the inputs; expected its kernel, X and weights.")
    found.kernel.check_features(d)
    m = len(found.X)
    X, weights = array_of(found.X.tolist(), "noise_function X", m, d), found.weights.tolist()
    return NoiseFunction(
        found.kernel,
        X,
        array_of(weights, "noise_function weights", m),
        number(found.constant, "noise_function constant"),
    )


def _weights(value: Any, n: int, name: str = "row_weights") -> np.ndarray | None:
    """Of each row; early files have none."""
    if value is None:
        return None
    weights = array_of(value, name, n)
    if not (weights > 0).all():
        raise Malformed(f"{name} has the value {weights.min():.3g}; expected numbers > 0.")
    return weights


def _first_rows_value(first: FirstRows) -> dict[str, Any]:
    rows = {
        name: None if value is None else value.tolist()
        for name, value in (
            ("X", first.X),
            ("y", first.y),
            ("weights", first.weights),
            ("groups", first.groups),
        )
    }
    flags = {name: np.flatnonzero(getattr(first, name)).tolist() for name in ("late", "told")}
    return rows | flags | {"fitted": first.fitted.tolist()}


def _first_rows(said: dict[str, Any] | None, d: int, targets: tuple[int, ...]) -> FirstRows | None:
    if said is None:
        return None
    X, y, t = said["X"], said["y"], targets[0] if targets else 1
    if (X is None) != (y is None):
        raise Malformed("first rows have only one of X and y; expected both.")
    if X is not None:
        X, y = array_of(X, "first rows X", len(X), d), array_of(y, "first rows y", len(X), *targets)
    if "late" not in said:  # early files have all rows, and one count and one flag for all targets
        fitted, of_all = counted(said["fitted"], "first rows fitted"), bool(said["told"])
        return FirstRows(X, y, constant(X), np.array([*[fitted] * t, 0]), np.full(t, of_all)).bounded()
    late, told = _flags(said["late"], "first rows late", d), _flags(said["told"], "first rows told", t)
    counts = array_of(said["fitted"], "first rows fitted", t + 1, least=-1, whole=True)
    weights = None if X is None else _weights(said.get("weights"), len(X), "first rows weights")
    groups = None if X is None else said.get("groups")
    if groups is not None:
        groups = array_of(groups, "first rows groups", len(X), least=0, whole=True)
    return FirstRows(X, y, late, counts, told, weights, groups)


def _flags(places: Any, name: str, size: int) -> np.ndarray:
    """True at these places."""
    flags = np.zeros(size, dtype=bool)
    for place in places:
        if counted(place, name) >= size:
            raise Malformed(f"{name} has the index {place}; expected less than {size}.")
        flags[place] = True
    return flags


def learning_value(learning: Learning) -> dict[str, Any]:
    return {"ended": learning.ended.name, "iterations": learning.iterations}


def learning_of(value: dict[str, Any] | None, asked: Any = None) -> Learning:
    """How learning ended. Early files do not record it, except whether anything was learned."""
    if value is None:
        return Learning(Ending.NOT_ASKED if asked in (False, "none") else Ending.UNKNOWN)
    return Learning(Ending[value["ended"]], counted(value["iterations"], "iterations of learning"))


def candidates_of(value: Any) -> tuple[Considered, ...]:
    """The candidates for the kernel; early files have none."""
    found = []
    for said in value:
        name = choice("candidate", said["name"], names())
        numbers = {
            key: None if said[key] is None else number(said[key], f"{key} of a candidate")
            for key in ("objective", "score", "error", "coverage")
        }
        found.append(Considered(name, chosen=said["chosen"] is True, **numbers))
    return tuple(found)


def _observed_value(observed: Observed | None) -> dict[str, Any] | None:
    """Nothing where the groups of too many rows would fill the text of the file."""
    if observed is None or (observed.groups is not None and observed.groups.size > MOST_GROUPED):
        return None
    groups, sample = observed.groups, observed.sample
    return {
        "groups": None if groups is None else groups.tolist(),
        "sample": None
        if sample is None
        else {
            **{name: getattr(sample, name).tolist() for name in ("rows", "y", "order")},
            "weights": None if sample.weights is None else sample.weights.tolist(),
            "factors": None if sample.factors is None else sample.factors.tolist(),
        },
    }


def _observed(value: Any, n: int, targets: tuple[int, ...]) -> Observed | None:
    """Missing in early files, and in those that are not refinable."""
    if value is None:
        return None
    groups, sample = value["groups"], value["sample"]
    if groups is not None:
        groups = array_of(groups, "groups", n, least=0, whole=True)
    if sample is None:
        return Observed(groups)
    m = len(sample["rows"])
    rows = array_of(sample["rows"], "rows of the sample", m, least=0, whole=True)
    if rows.max() >= n:
        raise Malformed(f"the sample of observations has rows beyond the {n} of the model.")
    y, order = array_of(sample["y"], "y of the sample", m, *targets), sample["order"]
    weights = _weights(sample.get("weights"), m, "weights of the sample")  # early files have none
    factors = sample.get("factors")
    if factors is not None:
        factors = array_of(factors, "factors of the sample", m, least=1.0)
    order = array_of(order, "order of the sample", m, least=0.0)
    return Observed(groups, Sample(rows, y, order, weights, factors))


def _calibration_value(calibration: Calibration) -> dict[str, Any]:
    return {
        "scores": calibration.scores.tolist(),
        "weights": calibration.weights.tolist(),
        "units": calibration.units,
        "grouped": calibration.grouped,
    }


def _calibration(value: Any, targets: tuple[int, ...]) -> Calibration | None:
    """Missing unless it was asked for before the model was saved."""
    if value is None:
        return None
    m, units = len(value["scores"]), counted(value["units"], "units of the calibration", least=1)
    scores = array_of(value["scores"], "scores of the calibration", m, *targets)
    weights = array_of(value["weights"], "weights of the calibration", m, *targets, least=0.0)
    if units > m or (np.diff(scores, axis=0) < 0).any() or (np.abs(weights.sum(axis=0) - 1.0) > 1e-6).any():
        raise Malformed("the calibration has scores that are not sorted, or weights that do not sum to 1.")
    return Calibration(scores, weights, units, value["grouped"] is True)


def _donors_value(donors: Donors) -> dict[str, Any]:
    """null where a value is missing."""
    rows = [[None if x != x else x for x in row] for row in donors.X.tolist()]
    holes = [asdict(hole) | {"values": list(hole.values)} for hole in donors.holes.columns]
    return {"holes": holes, "X": rows}


def _donors(value: Any, d: int) -> Donors | None:
    """Rows whose values stand for missing ones; models of Python, and early ones, have none."""
    if value is None:
        return None
    holes: list[Hole] = []
    places: set[int] = set()
    for hole in value["holes"]:
        values = tuple(counted(j, "inputs of a hole") for j in hole["values"])
        factor = number(hole["factor"], "factor of a hole", least=1.0)
        flag = None if hole["flag"] is None else counted(hole["flag"], "flag of a hole")
        held_out = counted(hole.get("held_out", 0), "held-out rows of a hole")
        squares = number(hole.get("squares", 0.0), "squared errors of a hole", least=0.0)
        about = (hole["category"] is True, hole["told"] is True, factor, held_out, squares)
        holes.append(Hole(values, flag, *about))
        own = [*values, *([] if flag is None else [flag])]
        if not values or max(own) >= d or places & {*own} or len({*own}) < len(own):
            raise Malformed(f"holes are not among {d} inputs, or overlap.")
        places |= {*own}
    X = value["X"]
    if not X or any(len(row) != d for row in X):
        raise Malformed(f"donors are not rows of {d} inputs.")
    known = array_of([[0.0 if x is None else x for x in row] for row in X], "donors", len(X), d)
    missing = np.array([[x is None for x in row] for row in X])
    if np.delete(missing, [j for hole in holes for j in hole.values], axis=1).any():
        raise Malformed("donors lack inputs that cannot be missing.")
    return Donors(Holes(tuple(holes)), np.where(missing, np.nan, known))


_OBJECT = {"object": True}


def _kept(name: str, value: Any) -> bool:
    """A cluster is not part of a model: it may be gone, and the model goes on without it."""
    return name != "engine" or not remote(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, StoppingCriterion):
        return encode(value, _no_arrays, "budget")
    return str(value) if hasattr(value, "__fspath__") else _OBJECT


def _no_arrays(array: np.ndarray, name: str) -> Any:
    raise InputError(
        f"{name} contains an array, which the model file cannot store; set another budget before saving."
    )

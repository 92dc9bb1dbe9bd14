"""A model in one file: `save` and `load`."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from itergp.errors import InputError, StorageError
from itergp.posterior.combined import Posterior
from itergp.posterior.targets import TargetPosterior
from itergp.posterior.uncertainty import is_exact
from itergp.storage.checks import numbers
from itergp.storage.files import Tensors, array_sizes, read, reading, write
from itergp.storage.replacing import file_path
from itergp.storage.specs import decode, encode, json_value, putting, table
from itergp.storage.states import (
    NotStored,
    columns,
    head_value,
    problem_value,
    restored_problem,
    restored_state,
)

KIND = "model"


def save(
    path: str | PathLike[str],
    posterior: Posterior | TargetPosterior,
    about: dict[str, Any] | None = None,
    refinable: bool = True,
) -> None:
    """Write a posterior to one file; `about` is for the caller, anything that JSON can hold.

    The loaded model gives bitwise equal predictions (with the same engine, threads and linear algebra), also
    after `refine`. A policy that is a function is not stored: `refine(policy=...)` then needs one.

    With `refinable=False` the file has no targets, nothing of the policy, and no K Q if the posterior is
    exact. The loaded model still has `mean`, `var`, `predictive_var`, `cov`, `path`, `sample` at up to 2,000
    points, `decompose`, `local`, `around` and `certify` (except if it is exact, where local actions, bounds
    and certificates add nothing). Everything else needs the targets or the random state, and raises
    InputError: `refine`, `extend`, `sample_function`, `computational_share`. Files are smaller, but nothing
    is hidden: the targets follow from the representer weights.

    If each target has its own noise, the file has their shared run and these noises. The belief of each
    target is recomputed from K Q, which is therefore kept.
    """
    tensors = Tensors()
    own = posterior.noise if isinstance(posterior, TargetPosterior) else None
    # K Q is needed at rank n too, if rounding adds to the variance
    products = refinable or isinstance(posterior, TargetPosterior) or not is_exact(posterior)
    state = posterior.state
    value = {
        "about": json_value("about", {} if about is None else about),
        "refinable": refinable,
        "problem": problem_value(posterior.problem, tensors, refinable),
        "policy": _policy_value(posterior, tensors) if refinable else None,
        "state": head_value(state, tensors, refinable),
    }
    if own is not None:
        value["target_noise"] = True
        tensors |= {"target_noise": own, "b": posterior.problem.b}
    tensors |= columns(state.belief, 0, state.basis.size, refinable, products)
    try:
        write(file_path(path), KIND, value, tensors)
    except (OSError, ValueError) as error:  # ValueError: not a valid file name
        raise StorageError(
            f"{path} cannot be written: {getattr(error, 'strerror', None) or error}."
        ) from error


def load(
    path: str | PathLike[str], classes: Iterable[type] = (), engine: Any = None
) -> tuple[Any, dict[str, Any]]:
    """The posterior in a file, and its `about`. `classes` are your own kernels, means and policies; `engine`
    is as in `Compute`, and by default that of the file, or the best one here."""
    path, known = Path(path), table(classes)
    value, tensors, _ = read(path, KIND)
    with reading(path):
        problem = restored_problem(value["problem"], tensors, known, engine)
        policy, acting, memory = _restored_policy(value["policy"], tensors, known)
        state = restored_state(
            problem,
            value["state"],
            tensors,
            [tensors] if value["state"]["blocks"][1:] else [],
            acting,
            memory,
        )
        posterior = Posterior(problem, state, policy)
        if value.get("target_noise"):
            noise = numbers(tensors["target_noise"], "array target_noise", least=0.0)
            return TargetPosterior(posterior, noise), value["about"]
        return posterior, value["about"]


def sizes(path: str | PathLike[str]) -> dict[str, int]:
    """What takes the room in a model file: bytes by the names of its arrays, the largest first."""
    return array_sizes(Path(path))


def _policy_value(posterior: Posterior | TargetPosterior, tensors: Tensors) -> Any:
    """The policy, and what it prepared if it is the one acting; or the reason why it is not stored."""
    policy, state = posterior.policy, posterior.state
    if policy is None:
        return None
    stored = Tensors()
    put = putting(stored)
    try:
        acts = state.policy is policy
        value = {
            "spec": encode(policy, put, "policy"),
            "acts": acts,
            "memory": acts and encode(state.memory, put, "memory"),
        }
    except InputError as error:
        return {"missing": str(error)}
    tensors |= stored
    return value


def _restored_policy(value: Any, tensors: Tensors, known: dict[str, type]) -> tuple[Any, Any, Any]:
    """The policy, the same again if it is the one acting, and what it prepared."""
    if value is None:
        return None, None, None
    if "missing" in value:
        return NotStored(f"{value['missing']} Use refine(policy=...)"), None, None
    policy = decode(value["spec"], tensors, known)
    return (
        (policy, policy, decode(value["memory"], tensors, known)) if value["acts"] else (policy, None, None)
    )

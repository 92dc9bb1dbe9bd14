"""Converts a problem and its state to JSON values and arrays, and back: the same bits, also after any further
step.

The columns of a state (actions, their products, rows of the factors) never change once computed, so they are
written in segments of whole blocks; what changes with each step is its head. A model file has one segment, a
checkpoint many. Blocks are appended in the same way as in the loop, so that the memory layout, which affects
how products round, is the same. Products that are made again when needed are not written: the head has their
number.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import astuple, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from itergp.errors import InputError
from itergp.linalg import engines
from itergp.linalg.basis import Basis, Factor
from itergp.linalg.columns import CHUNK, Columns
from itergp.linalg.compute import Compute
from itergp.linalg.gram import Gram, Record
from itergp.linalg.products import Products, Remade
from itergp.linalg.shards import Here, Sharded
from itergp.prior.gp import Prior
from itergp.solver.belief import Belief
from itergp.solver.policies import Policy
from itergp.solver.problem import Problem
from itergp.solver.schedule import turns
from itergp.solver.state import Progress, Stage, State, Status, Step
from itergp.storage.checks import (
    counted,
    lower_factor,
    number,
    numbers,
    of_unit_length,
    shaped,
    sparse_columns,
)
from itergp.storage.files import Malformed, Pieces, Tensors, array_digest
from itergp.storage.specs import decode, encode, putting

CHECKED_ROWS = 8  # points at which kernel and mean must give the same numbers again
AGREEMENT = 1e-9


class NotStored:
    """Placeholder for what a file did not store: it may know its shape, and raises an error that says why
    when used."""

    __array_ufunc__ = None  # array operators defer to those below

    def __init__(self, why: str, **known: Any) -> None:
        self.__dict__.update(known, _why=why)

    def _missing(self, *_: Any, **__: Any) -> Any:
        raise InputError(f"{self._why}.")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = __truediv__ = (
        _missing
    )
    __array__ = __getitem__ = __len__ = __iter__ = __float__ = __index__ = _missing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols, such as copying, probe for optional methods
            raise AttributeError(name)
        return self._missing()

    def __repr__(self) -> str:
        return f"not stored: {self._why}"


def not_refinable(what: str, **known: Any) -> Any:
    return NotStored(
        f"this model was saved with refinable=False, without {what}: it can predict, but more computation or "
        "more data need a model saved with refinable=True",
        **known,
    )


# Problems.


def problem_value(problem: Problem, tensors: Tensors, refinable: bool) -> dict[str, Any]:
    """What is to be computed, and how; without the targets if it is not refinable."""
    put, gram, prior = putting(tensors), problem.gram, problem.prior
    tensors["X"], tensors["origin"] = problem.X, gram.record.origin
    if refinable:
        tensors["y"], tensors["b"] = np.asarray(problem.y), problem.b
    if problem.N.strides != (0,):
        tensors["N"] = problem.N
    some = problem.X[:CHECKED_ROWS]
    tensors["check/kernel"] = prior.cov(some - gram.record.origin)
    tensors["check/mean"] = prior.mean(some)
    compute = problem.compute
    return {
        "kernel": encode(prior.kernel, put, "kernel"),
        "mean": encode(prior.mean_function, put, "mean"),
        "noise": encode(problem.noise, put, "noise"),
        "targets": list(problem.y.shape[1:]),
        "compute": {
            "cache": compute.cache,
            "threads": compute.threads,
            "dtype": gram.dtype.name,
            "asked": compute.dtype,
            "engine": gram.engine.name,
        },
        "passes": gram.passes,
        "entries": gram.entries,
        "data": {name: array_digest(tensors[name]) for name in ("X", "y") if name in tensors},
    }


def restored_problem(value: Any, tensors: Tensors, known: dict[str, type], engine: Any = None) -> Problem:
    """The same problem; with another engine than that of the file if one is given."""
    prior = Prior(decode(value["kernel"], tensors, known), decode(value["mean"], tensors, known))
    n, d = tensors["X"].shape
    X, shape = shaped(tensors, "X", n, d), (n, *(counted(t, "targets", least=1) for t in value["targets"]))
    if not n or len(shape) > 2:
        raise Malformed(
            f"X has shape {X.shape} and y shape {shape}; expected rows, and at most one axis of targets."
        )
    _check_prior(prior, X, shaped(tensors, "origin", d), tensors)
    noise, N = _noise(decode(value["noise"], tensors, known), tensors, n)
    columns = shape[1] if len(shape) == 2 else 1
    compute = _compute(value["compute"], engine)
    counts = counted(value["passes"], "passes"), counted(value["entries"], "entries")
    gram = Gram(prior.kernel, X, compute, Record(shaped(tensors, "origin", d), *counts))
    y, b = (
        shaped(tensors, name, *s) if name in tensors else not_refinable("the targets", shape=s, ndim=len(s))
        for name, s in (("y", shape), ("b", (n, columns)))
    )
    problem = object.__new__(Problem)
    # "auto" also considers the noise of later data
    compute = replace(compute, dtype=value["compute"].get("asked", compute.dtype))
    problem._set(prior=prior, X=X, y=y, noise=noise, compute=compute, gram=gram, b=b, N=N)
    return problem


def _noise(noise: Any, tensors: Tensors, n: int) -> tuple[Any, np.ndarray]:
    """The noise, a number or one per row, and its diagonal N."""
    if not isinstance(noise, np.ndarray):
        noise = number(noise, "noise", least=0.0)
    elif noise.shape != (n,) or noise.dtype != np.float64:
        raise Malformed(
            f"noise is {noise.dtype} of shape {noise.shape}; expected a number, or float64 of shape ({n},)."
        )
    given = np.broadcast_to(numbers(np.asarray(noise), "noise", least=0.0), (n,))
    N = shaped(tensors, "N", n, least=0.0) if "N" in tensors else given
    if not np.array_equal(N, given):
        raise Malformed("noise and array N are not the same.")
    return noise, N


def _compute(value: Any, engine: Any) -> Compute:
    """The same Compute, unless an engine is given; with the best available one if its engine is missing."""
    if engine is None:
        try:
            engines.get(value["engine"])
            engine = value["engine"]
        except (ImportError, InputError):
            engine = "auto"
    return Compute(value["dtype"], value["cache"], engine, value["threads"])


def _check_prior(prior: Prior, X: np.ndarray, origin: np.ndarray, tensors: Tensors) -> None:
    """The classes named in the file must still give the same numbers."""
    some = X[:CHECKED_ROWS]
    # the first files have k at inputs as given
    covariances = (lambda: prior.cov(some - origin), lambda: prior.cov(some))
    for what, values, then in (
        (prior.kernel, covariances, tensors["check/kernel"]),
        (prior.mean_function, (lambda: prior.mean(some),), tensors["check/mean"]),
    ):
        if not any(_agree(now(), then) for now in values):
            raise Malformed(
                f"the class {type(what).__name__} gives other numbers than when the model was saved."
            )


def _agree(now: np.ndarray, then: np.ndarray) -> bool:
    size = AGREEMENT * np.abs(now).max(initial=0.0)
    return now.shape == then.shape and np.allclose(now, then, rtol=AGREEMENT, atol=size)


# States.


def head_value(state: State, tensors: Tensors, refinable: bool = True) -> dict[str, Any]:
    """What changes with every step; if not refinable, without what only further computation needs."""
    belief, stage = state.belief, state.stage if refinable else None
    tensors["representer_weights"], tensors["residual"] = belief.representer_weights, belief.residual
    if refinable and not isinstance(belief.training_variance, NotStored):
        tensors["training_variance"] = belief.training_variance
    counted = refinable and not isinstance(state.counter, NotStored)
    return {
        "blocks": list(belief.blocks),
        "rank": belief.rank,
        "trace_GA": _numbers([belief.trace_GA])[0],
        "seed": int(state.seed),
        "counter": state.counter if counted else None,
        "idle": state.idle,
        "progress": _numbers(astuple(state.progress)),
        "trace": [_numbers(astuple(step)) for step in state.trace],
        "status": None if state.status is None else state.status.name,
        "entered": refinable and state.policy is not None,
        "stage": stage
        and {"proposed": stage.proposed, "index": stage.index, "begun": _numbers(astuple(stage.begun))},
        "row_noise": refinable and belief.factor_A is not None,
        **({"remade": belief.basis.remade.size} if belief.basis.KQ.lean else {}),
        **({"sharded": True} if belief.basis.sharded else {}),
    }


def _numbers(values: Any) -> list[Any]:
    return [encode(value, _no_arrays, "a number") for value in values]


def _no_arrays(array: np.ndarray, _: str) -> Any:
    raise InputError(f"a number was expected, not an array of shape {array.shape}.")


def columns(belief: Belief, start: int, stop: int, refinable: bool = True, products: bool = True) -> Tensors:
    """The columns from start to stop: actions, products, rows of the factors, and their data.

    Waiting columns are kept too: they are few, and products with all columns round differently from products
    with some.
    """
    tensors = Tensors(L=belief.factor.L(stop)[start:], z=belief.z[start:stop], tau=belief.tau[start:stop])
    stored = max(start, belief.basis.remade.size) if belief.basis.KQ.lean else start
    if products and stored < stop and not isinstance(belief.basis.KQ, NotStored):
        tensors["KQ"] = _transposed(belief.basis.KQ, stored, stop)
    if refinable and belief.factor_A is not None:
        tensors["A"] = belief.factor_A.L(stop)[start:]
    first = 0
    for part in belief.basis.parts:
        size = _width(part)
        a, b = max(start - first, 0), min(stop - first, size)
        if b > a:
            tensors |= _actions(part, a, b, f"Q/{first + a}")
        first += size
    return tensors


def _width(part: Columns | sp.csc_array) -> int:
    return part.size if isinstance(part, Columns) else part.shape[1]


def _transposed(matrix: Columns | Products, start: int, stop: int) -> Pieces:
    """Some columns as rows. Where they live elsewhere, this process never has all of them."""
    blocks = matrix.blocks(start, stop, CHUNK)
    return Pieces((stop - start, matrix.n), (block.T for block in blocks))


def _actions(part: Columns | sp.csc_array, a: int, b: int, name: str) -> Tensors:
    if isinstance(part, Columns):
        return {name: _transposed(part, a, b)}
    some = part[:, a:b]
    return {f"{name}/data": some.data, f"{name}/indices": some.indices, f"{name}/indptr": some.indptr}


def restored_state(
    problem: Problem, value: Any, head: Tensors, segments: Iterable[Tensors], policy: Any, memory: Any
) -> State:
    """Rebuild a state; `policy` is the one acting, None if there was none."""
    n, t, blocks = problem.n, problem.b.shape[1], tuple(counted(block, "blocks") for block in value["blocks"])
    rank, status = (
        counted(value["rank"], "rank"),
        None if value["status"] is None else Status[value["status"]],
    )
    if blocks[0] != 0 or any(a >= b for a, b in pairwise(blocks)) or not 0 <= rank <= min(blocks[-1], n):
        raise Malformed(f"{len(blocks) - 1} blocks of {blocks[-1]} columns do not match rank {rank}.")
    if rank < blocks[-2:][0]:
        raise Malformed(f"rank {rank} lies before the last block, from {blocks[-2]} to {blocks[-1]}.")
    if status is Status.EXACT and rank < n:
        raise Malformed(f"its status is EXACT with {rank} of {n} actions.")
    remade = counted(value.get("remade", 0), "remade")  # earlier versions stored all products
    if remade not in blocks:
        raise Malformed(f"products are made again until column {remade}, within a block.")
    row_noise = bool(value["row_noise"])
    basis, factor, factor_A, z, tau = _append_all(
        problem, blocks, segments, row_noise, remade, _columns(problem, bool(value.get("sharded")))
    )
    if rank < n and isinstance(basis.KQ, NotStored):
        raise Malformed(f"K Q is missing, which is only valid with {n} actions.")
    counter, variance = value["counter"], not_refinable("the training variance")
    if "training_variance" in head:
        variance = shaped(head, "training_variance", n, least=0.0)
    stage = None if value["stage"] is None else _restored_stage(value["stage"], policy, memory, problem)
    belief = Belief(problem, basis, blocks, factor, factor_A, z, tau, rank)
    return State(
        belief.knowing(
            representer_weights=shaped(head, "representer_weights", n, t),
            residual=shaped(head, "residual", n, t),
            training_variance=variance,
            trace_GA=number(value["trace_GA"], "trace_GA"),
        ),
        seed=counted(value["seed"], "seed"),
        counter=not_refinable("the random state") if counter is None else counted(counter, "counter"),
        policy=policy,
        stage=stage,
        idle=counted(value["idle"], "idle"),
        progress=_record(Progress, value["progress"]),
        trace=tuple(_record(Step, step) for step in value["trace"]),
        status=status,
    )


def _columns(problem: Problem, sharded: bool) -> Columns:
    """Where the columns will live. Those that had the sums of shards still do, here if not elsewhere."""
    columns = problem.gram.engine.columns(problem.n)
    return Sharded.start(problem.n, Here()) if sharded and not columns.sharded else columns


def _append_all(
    problem: Problem,
    blocks: tuple[int, ...],
    segments: Iterable[Tensors],
    row_noise: bool,
    remade: int,
    none: Columns,
) -> tuple[Basis, Factor, Factor | None, np.ndarray, np.ndarray]:
    n, t = problem.n, problem.b.shape[1]
    basis, factor = Basis.empty(n, none), Factor.empty()
    factor_A = Factor.empty() if row_noise else None
    lacking = False  # products that are neither stored nor made again
    zs, taus, bounds = [np.zeros((0, t))], [np.zeros(0)], deque(pairwise(blocks))
    for tensors in segments:
        start, width = basis.size, tensors["tau"].shape[0]
        stop = start + width
        zs.append(shaped(tensors, "z", width, t))
        taus.append(shaped(tensors, "tau", width, least=0.0))
        L = shaped(tensors, "L", width, stop)
        A = shaped(tensors, "A", width, stop) if row_noise else L
        first = max(start, min(remade, stop))  # whose product is stored
        KQ, lacking = _restored_products(tensors, n, stop - first), lacking or _lacks(tensors, stop, remade)
        Q = _restored_actions(tensors, n)
        while bounds and bounds[0][1] <= stop:
            a, b = bounds.popleft()
            rows = slice(a - start, b - start)
            Q_b = _between(Q, a, b)
            KQ_b = KQ[:, a - first : b - first] if a >= first else _made_again(problem.gram, Q_b)
            basis = basis.append(Q_b, KQ_b)
            factor = factor.append(L[rows, :a].T, lower_factor(L[rows, a:b], "L"))
            factor_A = factor_A and factor_A.append(A[rows, :a].T, lower_factor(A[rows, a:b], "A"))
        if basis.size != stop:
            raise Malformed(f"a segment ends after {stop} columns, within a block.")
    if bounds:
        raise Malformed(f"there are {basis.size} columns; expected {blocks[-1]}.")
    if lacking:
        nothing_new = "K Q, as local actions and certificates add nothing to an exact posterior"
        basis = Basis(n, basis.parts, not_refinable(nothing_new, size=basis.size, lean=False))
    return basis, factor, factor_A, np.concatenate(zs), np.concatenate(taus)


def _lacks(tensors: Tensors, stop: int, remade: int) -> bool:
    return stop > remade and "KQ" not in tensors


def _restored_products(tensors: Tensors, n: int, width: int) -> np.ndarray:
    """K Q of the last columns of a segment, n x width; of an exact posterior it may be missing."""
    return shaped(tensors, "KQ", width, n).T if "KQ" in tensors else np.broadcast_to(np.nan, (n, width))


def _made_again(gram: Gram, Q: np.ndarray | sp.csc_array) -> Remade:
    if not sp.issparse(Q):
        raise Malformed("it has dense actions without their products.")
    return Remade(gram, Q)


def _restored_actions(tensors: Tensors, n: int) -> list[tuple[int, np.ndarray | sp.csc_array]]:
    """The parts of Q in a segment, each with the number of its first column."""
    parts = []
    for first in sorted({int(name.split("/")[1]) for name in tensors if name.startswith("Q/")}):
        if f"Q/{first}" in tensors:
            Q: Any = shaped(tensors, f"Q/{first}", len(tensors[f"Q/{first}"]), n).T
        else:
            Q = sparse_columns(tensors, f"Q/{first}", n)
        of_unit_length(Q, f"Q/{first}")
        parts.append((first, Q))
    return parts


def _between(parts: list[tuple[int, np.ndarray | sp.csc_array]], a: int, b: int) -> np.ndarray | sp.csc_array:
    """Columns a to b of Q, which are in one part: blocks never span two."""
    for first, Q in parts:
        if first <= a and b <= first + Q.shape[1]:
            return Q[:, a - first : b - first]
    raise Malformed(f"some of the actions {a} to {b} are missing.")


def _restored_stage(value: Any, policy: Any, memory: Any, problem: Problem) -> Stage | None:
    if not isinstance(value, dict):
        raise Malformed("the stage of its policy is not a dictionary.")
    if policy is None:
        return None
    index = counted(value["index"], "index of the stage")
    acting, limit = turns(policy)[index]
    # what a user's policy prepares is not checked
    own = acting if isinstance(acting, Policy) and type(acting).__module__ == Policy.__module__ else None
    if own is not None and not own.prepared(memory, problem):
        name = type(acting).__name__
        raise Malformed(f"{name}.prepared refused what the file says that {name}.start prepared.")
    proposed, begun = counted(value["proposed"], "proposed"), _record(Progress, value["begun"])
    return Stage(acting, limit, memory, proposed, index, begun)


def _record(cls: type, values: Any) -> Any:
    """Counts are integers, the others any number: nothing is computed from them."""
    found: dict[str, Any] = {}
    for part, value in zip(fields(cls), values, strict=True):
        found[part.name] = counted(value, part.name) if part.type is int else float(decode(value, {}, {}))
    return cls(**found)

"""The steps of a fit: scale, merge, learn, act. Values in, a `Fit` out."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from itergp.data.rows import Rows, first_places, merge_rows, places, unmerged
from itergp.errors import InputError
from itergp.estimator.budgets import Budget, FromTheStart, Until, actions_in_memory
from itergp.estimator.clock import Clock
from itergp.estimator.hyperparameters import Hyperparameters, Plan, hyperparameters
from itergp.estimator.inputs import check_flags, seed_of
from itergp.estimator.names import translate_engine, translate_kernel, translate_mean
from itergp.estimator.outliers import Each, without_outliers
from itergp.estimator.placing import place
from itergp.estimator.progress import Interrupts, Watch
from itergp.estimator.resuming import note_learned, open_checkpoint
from itergp.estimator.schedules import (
    default_schedule,
    default_stop,
    policy_by_the_clock,
    policy_for,
    without_passes,
)
from itergp.estimator.units import equally_spread, scaling_for
from itergp.estimator.varying import varying
from itergp.fitted.first_rows import KEPT, FirstRows, constant, telling
from itergp.fitted.fit import Fit, Noise, Trace
from itergp.fitted.observed import Observed
from itergp.learning.heldout import blocks
from itergp.learning.stages import MOST
from itergp.limits import LEAN_ROWS
from itergp.linalg.basis import Basis
from itergp.linalg.compute import Compute, fitting, peak_bytes, require_bytes
from itergp.linalg.products import large
from itergp.posterior.combined import NEW_ROWS, Posterior
from itergp.posterior.targets import TargetPosterior
from itergp.prior.gp import Prior
from itergp.solver.loop import accept_waiting
from itergp.solver.more_data import extend, reweighted
from itergp.solver.policies import UnitVector
from itergp.solver.problem import Problem, centred
from itergp.solver.run import require_actions, solve
from itergp.solver.schedule import default_actions
from itergp.solver.state import State, Status
from itergp.solver.stopping import MaxActions, StoppingCriterion
from itergp.storage import Checkpoint
from itergp.validate import Array

Report = Callable[[State], bool]  # after each step; True asks to stop
FEW = 128  # actions after Ctrl-C during learning: columns of K only, no pass


# A fit, and what may follow it.


def fit_rows(
    asked: Mapping[str, Any],
    names: tuple[str, ...] | None,
    X: Array,
    y: Array,
    clock: Clock,
    watch: Watch,
    checkpoint: str | PathLike[str] | None = None,
    before: FirstRows | None = None,
    groups: Array | str | None = None,
    weights: Array | None = None,
    owned: bool = False,
) -> Fit:
    """Scale, learn and act, regardless of any earlier fit. X may be overwritten where it is `owned`."""
    check_flags(asked)
    _require_room(*X.shape)
    scaling = scaling_for(asked, X, y, weights)
    in_place = owned and len(X) > KEPT and not constant(X).any()  # otherwise it is needed as it came
    inputs = scaling.inputs_in_place(X) if in_place else scaling.inputs(X)
    targets = scaling.targets(y)
    given = None if isinstance(groups, str) else groups  # blocks are made of places, and cannot cross one
    plan = planned(asked, inputs, targets, clock.budget, weights, given)
    if clock.budget.actions is not None:  # before learning, which may take long
        basis = Basis.empty(plan.data.n, plan.compute.columns(plan.data.n))
        require_actions(basis, plan.policy, min(clock.budget.actions, plan.data.n))
    residual = scaling.y_scale * centred(Prior(plan.start.kernel, plan.mean), inputs, targets)
    plan = replace(
        plan,
        learnable=telling(residual, y) > 0,
        varied=not constant(X).all(),
        groups=of_rows(asked, groups, inputs, plan.data),
    )
    each = in_blocks(plan, inputs) if isinstance(groups, str) else groups
    first = FirstRows.of(X, y, residual, plan.learns, before, weights, each)
    del residual  # which would be kept as long as the fit runs

    def reweighted_rows(g: Array) -> Rows:
        """The rows of the problem if noise is larger by these factors."""
        return _rows_of(asked, inputs, targets, (1.0 if weights is None else weights) / g, given)

    def without(g: Array) -> Plan:
        """The plan if the noise of outliers is larger by these factors: they do not set the mean either."""
        w = (1.0 if weights is None else weights) / g
        mean = translate_mean(asked["mean"], inputs, targets, w) if (g > 1).any() else plan.mean
        return replace(plan, data=reweighted_rows(g), mean=mean)

    watch.checkpoint, found = open_checkpoint(checkpoint, plan)
    clock.lap("prepare")
    with watch:
        place(plan, clock.budget, watch)
        if found is None:
            with watch.task("learning" if plan.learns and np.any(plan.learnable) else None):
                found = hyperparameters(plan, clock, watch)
                every = unmerged(inputs, targets, weights)
                if plan.varies:
                    found = varying(plan, found, every, reweighted_rows, clock, watch)
                if plan.robust:
                    where = None if plan.data.n == len(inputs) else places(inputs, given)
                    found = without_outliers(plan, found, Each(every, where, without), clock, watch)
            note_learned(None if watch.interrupts.asked else watch.checkpoint, found)
        g = found.outliers if found.function is None else found.function(inputs)
        if g is not None:
            plan = (
                replace(plan, data=reweighted_rows(g)) if found.outliers is None else without(found.outliers)
            )
            weights = (1.0 if weights is None else weights) / g
        observed = Observed.of(plan.data, inputs, targets, plan.groups, given, weights, found.outliers)
        clock.lap("learn")

        def fitted(posterior: Posterior) -> Fit:
            """As if the fit ended here."""
            return Fit(
                posterior=believed(posterior, found.noise, plan.data.precision),
                noise=found.noise,
                scaling=scaling,
                counts=plan.data.counts,
                scatter=plan.data.scatter,
                learning=found.learning,
                free=plan.free,
                asked=asked,
                names=names,
                first_rows=first,
                weights=plan.data.weights,
                noise_function=found.function,
                observed=observed,
            )

        with watch.task("acting"):
            posterior, resumed = infer(plan, found, clock, reporter(watch, fitted, watch.checkpoint), watch)
        clock.lap("act")
        learned = () if found.learned is None else tuple(found.learned.trace)
        trace = Trace(learned, posterior.trace, resumed, peak_bytes(), found.candidates)
        return replace(fitted(posterior), trace=trace, timings=clock.total())


def _require_room(n: int, d: int) -> None:
    """Refuse before any work what does not fit: inputs in scaled units, and what there is for each row beside
    them; and of rows that are learned from, their coordinates and a search tree with its coarse copy."""
    acted, learned = 8.0 * (d + 12), 8.0 * (2.5 * d + 3)
    most = fitting(acted + learned)
    if most > MOST:
        most = fitting(acted) - int(MOST * learned / acted)
    needed = n * acted + min(n, MOST) * learned
    remedy = f"Fit a random part of the rows: about {most:,} would fit."
    require_bytes(needed, f"a fit of {n:,} rows of {d:,} features", remedy)


def with_rows(fit: Fit, X: Array, y: Array, clock: Clock, watch: Watch, weights: Array | None = None) -> Fit:
    """Add rows. Scaling and hyper-parameters are kept, unless the first rows were too few for them."""
    if y.shape[1:] != fit.scaling.y_mean.shape:
        raise InputError(
            f"y has shape {y.shape}; expected {len(y)} rows of {fit.targets} targets, as in fit."
        )
    first = fit.first_rows
    if first is not None:
        first = first.joined(X, y, fit.observations, weights, _with_one_more(_of_first_rows(fit), len(X)))
    if first is not None and first.due:
        assert first.X is not None
        assert first.y is not None
        again = fit_rows(
            fit.asked,
            fit.names,
            first.X,
            first.y,
            clock,
            watch,
            before=first,
            groups=first.groups,
            weights=first.weights,
        )
        return replace(again, timings=clock.total(fit.timings))
    X, y, old = fit.scaling.inputs(X), fit.scaling.targets(y), fit.data
    # with groups, new rows are one more of them, and merge among themselves alone
    groups = None if fit.observed is None else _with_one_more(fit.observed.groups, len(X))
    W = fit.weights_at(X, weights)
    more = old.absorb(X, y, W, groups) if fit.asked["merge_duplicates"] else old.append(X, y, W)
    watch.engine = fit.shared.problem.gram.engine
    with watch:
        posterior = update(fit.posterior, old, more, fit.noise, clock, reporter(watch), watch.interrupts)
    first = None if first is None else first.bounded()
    observed = None if fit.observed is None else fit.observed.after(old, X, y, more, groups, W)
    fit = replace(
        fit,
        counts=more.counts,
        scatter=more.scatter,
        first_rows=first,
        weights=more.weights,
        observed=observed,
    )
    return _acted_on(fit, posterior, clock)


def _of_first_rows(fit: Fit) -> Array | None:
    """The groups of the first rows, as they are there or as the model has them."""
    groups, first = None if fit.observed is None else fit.observed.groups, fit.first_rows
    if groups is None or first is None:
        return None
    if first.X is None:
        return np.repeat(groups, fit.counts)
    if first.groups is None and len(groups) < len(first.X):  # early files, where all equal inputs were merged
        return groups[places(fit.scaling.inputs(first.X))]
    return groups if first.groups is None else first.groups


def _with_one_more(groups: Array | None, rows: int) -> Array | None:
    """So many more rows, which are a group of their own."""
    return None if groups is None else np.concatenate([groups, np.full(rows, groups.max() + 1)])


def refine(fit: Fit, clock: Clock, watch: Watch) -> Fit:
    """Continue the computation."""
    before, n = fit.posterior, fit.posterior.problem.n
    watch.engine = before.problem.gram.engine
    with watch:
        policy = policy_for("auto", n, clock.budget) if before.policy is None else before.policy
        state = solved(before.state, policy, stopping(clock, n, policy), reporter(watch), watch.interrupts)
    return _acted_on(fit, Posterior(before.problem, state, policy), clock)


def _acted_on(fit: Fit, posterior: Posterior, clock: Clock) -> Fit:
    peak = fit.trace.peak_bytes and max(fit.trace.peak_bytes, peak_bytes() or 0)
    return replace(
        fit,
        posterior=believed(posterior, fit.noise, fit.data.precision),
        trace=replace(fit.trace, steps=posterior.trace, peak_bytes=peak),
        timings=clock.after(fit.timings),
        calibration=None,
    )


def planned(
    asked: Mapping[str, Any],
    X: Array,
    y: Array,
    budget: Budget,
    weights: Array | None = None,
    groups: Array | None = None,
) -> Plan:
    """Check everything before learning begins. X and y are in scaled units."""
    data, policy = _rows_of(asked, X, y, weights, groups), asked["policy"]
    by_the_clock = isinstance(policy, str) and policy == "auto" and budget.seconds is not None
    return Plan(
        data=data,
        start=translate_kernel(asked["kernel"], X.shape[1]),
        mean=translate_mean(asked["mean"], X, y, weights),
        noise=asked["noise"],
        learn=asked["learn"],
        policy="auto" if by_the_clock else policy_for(policy, len(data.X), budget),
        compute=Compute(asked["dtype"], asked["cache"], translate_engine(asked["engine"]), asked["threads"]),
        seed=seed_of(asked["random_state"]),
    )


def _rows_of(
    asked: Mapping[str, Any], X: Array, y: Array, weights: Array | None, groups: Array | None
) -> Rows:
    return merge_rows(X, y, weights, groups) if asked["merge_duplicates"] else unmerged(X, y, weights)


# Its parts.


def of_rows(asked: Mapping[str, Any], groups: Array | str | None, X: Array, data: Rows) -> Array | None:
    """The group of each row of the problem; rows are merged within groups alone."""
    if groups is None:
        return None
    if isinstance(groups, str):
        return blocks(equally_spread(asked, data.X))
    return groups if len(data.X) == len(X) else groups[first_places(X, groups)]


def in_blocks(plan: Plan, X: Array) -> Array | None:
    """The block of each row of the data, whether rows were merged or not."""
    return plan.groups if plan.groups is None or plan.data.n == len(X) else plan.groups[places(X)]


def believed(posterior: Posterior, noise: Noise, precision: np.ndarray) -> Posterior | TargetPosterior:
    """The posterior; if each target has its own noise, one per target from the same actions."""
    if np.ndim(noise) == 0:
        return posterior
    each = np.asarray(noise)
    return TargetPosterior(posterior, each if (precision == 1).all() else np.divide.outer(each, precision))


def reporter(
    watch: Watch, fitted: Callable[[Posterior], Fit] | None = None, checkpoint: Checkpoint | None = None
) -> Report:
    """The callback of the solver after each step."""

    def report(state: State) -> bool:
        if checkpoint is not None:
            checkpoint.write(state)
        if fitted is None:
            return watch.acted(state)
        return watch.acted(state, lambda: fitted(Posterior(state.problem, state, state.policy)))

    return report


def infer(
    plan: Plan, found: Hyperparameters, clock: Clock, report: Report, watch: Watch
) -> tuple[Posterior, int]:
    """The posterior that the budget allows, and the action from which it resumed. After Ctrl-C: a few
    actions, no pass."""
    data, seed, checkpoint, interrupts = plan.data, plan.seed, watch.checkpoint, watch.interrupts
    noise = data.noise(float(np.min(found.noise)))
    problem = Problem.of(Prior(found.kernel, plan.mean), data.X, data.y, noise, plan.compute)
    policy = plan.policy
    if isinstance(policy, str):
        hurry = interrupts.asked and (checkpoint is None or "policy" not in checkpoint.about)
        policy = (
            default_schedule(problem.n, clock.budget)
            if hurry
            else policy_by_the_clock(problem, clock.left(), checkpoint)
        )
    state = None if checkpoint is None else checkpoint.resume(problem, policy)
    resumed = 0 if state is None else state.rank
    if interrupts.asked:
        return _in_a_hurry(problem, policy, state, seed, interrupts), resumed
    stop = FromTheStart(stopping(clock, problem.n, policy))
    # the first state has no name here: whoever holds it, holds numbers for each row
    state = solved(State.start(problem, seed) if state is None else state, policy, stop, report, interrupts)
    if checkpoint is not None:
        checkpoint.write_now(state)
    return Posterior(problem, state, policy), resumed


def solved(
    state: State, policy: Any, stop: StoppingCriterion, report: Report | None, interrupts: Interrupts
) -> State:
    """`solve`, but returns the last reported state if Ctrl-C arrives just outside its loop."""
    latest = state
    del state  # which would be kept until the end

    def remember(now: State) -> bool:
        nonlocal latest
        latest = now
        return report is not None and report(now)

    try:
        with interrupts.raised():
            return solve(latest.problem, policy, stop, latest, callback=remember)
    except KeyboardInterrupt:
        return latest.ended(Status.INTERRUPTED)


def stopping(clock: Clock, n: int, policy: Any) -> StoppingCriterion:
    """The stopping criterion of inference: the clock and the memory, or a count."""
    if clock.deadline is None:
        return default_stop(n, clock.budget)
    most = default_actions(n) if without_passes(n, clock.budget) else n
    stored = not (getattr(policy, "few_rows", False) and large(n))
    return Until(clock.deadline) | MaxActions(min(most, actions_in_memory(n)) if stored else most)


def _in_a_hurry(
    problem: Problem, policy: Any, state: State | None, seed: int, interrupts: Interrupts
) -> Posterior:
    """After Ctrl-C: a few unit vectors, which need no pass over K."""
    if state is None:
        # of many rows, fewer at once: a block of 128 would take longer than the second that it has
        block = max(1, min(FEW, FEW * LEAN_ROWS // problem.n))
        few, stop = UnitVector("random", block_size=block), MaxActions(FEW) | Until(time.perf_counter() + 1.0)
        state = solved(State.start(problem, seed), few, stop, None, interrupts)
    return Posterior(
        problem, state if state.status is Status.EXACT else state.ended(Status.INTERRUPTED), policy
    )


def update(
    posterior: Posterior | TargetPosterior,
    old: Rows,
    new: Rows,
    noise: Noise,
    clock: Clock,
    report: Report,
    interrupts: Interrupts,
) -> Posterior:
    """More data: update mean and noise of known rows, append the others, and act on all of these."""
    n, state, variances = len(old.X), posterior.state, new.noise(float(np.min(noise)))
    before, after = (variances, variances) if isinstance(variances, float) else (variances[:n], variances[n:])
    changed = np.flatnonzero(new.precision[:n] != old.precision)
    if changed.size:
        state = reweighted(state, before, new.y[:n])
    if len(new.X) > n:
        state = extend(state, new.X[n:], new.y[n:], after)
    state = accept_waiting(state)
    rows = np.concatenate([changed, np.arange(n, len(new.X))])
    rows = rows[~state.basis.spanned_rows()[rows]]
    if not rows.size:
        return Posterior(state.problem, state, posterior.policy)
    stop: StoppingCriterion = MaxActions(min(rows.size, NEW_ROWS))
    if clock.budget != Budget():
        stop = stopping(clock, state.problem.n, UnitVector()) | MaxActions(rows.size)
    room = int(min(stop.allowance(state.progress, state), rows.size))
    if room < rows.size or clock.deadline is not None:  # perhaps not all: then any of them
        rows = np.random.default_rng([state.seed, state.counter]).permutation(rows)
    policy = UnitVector(order=rows, block_size=max(1, min(room, 64)))
    return Posterior(state.problem, solved(state, policy, stop, report, interrupts), posterior.policy)

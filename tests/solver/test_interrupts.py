"""Whatever ends a run, a valid posterior is left; what does not fit in memory is refused before it starts."""

import warnings

import numpy as np
import pytest

import itergp.linalg.compute as compute
from helpers import KERNELS, POLICIES, make_data
from itergp import (
    Compute,
    ConjugateGradient,
    InterruptedWarning,
    MaxActions,
    MemoryLimitError,
    PolicyError,
    Prior,
    Problem,
    RandomAction,
    State,
    Status,
    UnitVector,
    condition,
    solve,
)

PRIOR, DATA, NOISE = Prior(KERNELS["matern32"]), make_data(40), 0.05


def failing(error, after=3):
    """A policy of random actions that raises once there are so many."""
    act = RandomAction()

    def policy(state):
        if state.rank == after:
            raise error
        return act(state)

    return policy


def assert_as_after_three(posterior):
    reference = condition(PRIOR, DATA.X, DATA.y, NOISE, failing(None), MaxActions(3))
    assert (posterior.rank, posterior.status) == (3, Status.INTERRUPTED)
    assert np.array_equal(posterior.mean(DATA.X_new), reference.mean(DATA.X_new))
    assert np.array_equal(posterior.var(DATA.X_new), reference.var(DATA.X_new))
    assert posterior.refine(RandomAction(), MaxActions(2)).rank == 5


def test_control_c_in_a_policy_leaves_a_valid_posterior():
    assert_as_after_three(
        condition(PRIOR, DATA.X, DATA.y, NOISE, failing(KeyboardInterrupt()), MaxActions(9))
    )


def test_control_c_in_a_product_leaves_a_valid_posterior():
    from itergp.linalg.engines.numpy import NumpyEngine

    class Interrupted(NumpyEngine):
        def symmetric(self, kernel, X, V, dtype, cache, first, tick):
            if gram.passes == 3:
                raise KeyboardInterrupt
            return super().symmetric(kernel, X, V, dtype, cache, first, tick)

    problem = Problem(PRIOR, DATA.X, DATA.y, NOISE, Compute(engine=Interrupted()))
    gram = problem.gram
    state = solve(problem, ConjugateGradient(), MaxActions(9))
    assert (state.rank, state.status) == (3, Status.INTERRUPTED)


def test_control_c_in_a_callback_leaves_a_valid_posterior():
    def callback(state):
        if state.rank == 3:
            raise KeyboardInterrupt

    assert_as_after_three(
        condition(PRIOR, DATA.X, DATA.y, NOISE, failing(None, 99), MaxActions(9), callback=callback)
    )


def test_lack_of_memory_in_the_middle_keeps_what_was_computed():
    with pytest.warns(InterruptedWarning, match="Out of memory after 3 actions"):
        posterior = condition(PRIOR, DATA.X, DATA.y, NOISE, failing(MemoryError()), MaxActions(9))
    assert_as_after_three(posterior)


def test_a_failing_callback_warns_and_keeps():
    def callback(state):
        if state.rank == 3:
            raise ZeroDivisionError("no luck")

    with pytest.warns(InterruptedWarning, match="ZeroDivisionError: no luck.*3 actions are kept"):
        posterior = condition(
            PRIOR, DATA.X, DATA.y, NOISE, failing(None, 99), MaxActions(9), callback=callback
        )
    assert_as_after_three(posterior)


def test_a_callback_sees_every_step_and_may_ask_to_stop():
    seen = []

    def callback(state):
        seen.append(state.rank)
        return state.rank >= 3

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = condition(
            PRIOR, DATA.X, DATA.y, NOISE, failing(None, 99), MaxActions(9), callback=callback
        )
    assert seen == [1, 2, 3]
    assert_as_after_three(posterior)


def test_an_error_of_the_method_carries_the_state_before_it():
    with pytest.raises(PolicyError) as caught:
        condition(
            PRIOR,
            DATA.X,
            DATA.y,
            NOISE,
            lambda state: np.eye(40)[state.rank] * (state.rank < 3),
            MaxActions(9),
        )
    assert isinstance(caught.value.state, State)
    assert caught.value.state.rank == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_actions_that_do_not_fit_are_refused_before_any_work(policy, monkeypatch):
    problem = Problem(PRIOR, DATA.X, DATA.y, NOISE, Compute(cache=0))
    before = problem.gram.entries
    monkeypatch.setattr(compute, "available_bytes", lambda: 1000)
    with pytest.raises(
        MemoryLimitError,
        match=r"8 actions on 40 rows needs about .* GB; .* Ask for fewer "
        r"actions",
    ):
        solve(problem, POLICIES[policy](), MaxActions(8))
    assert (problem.gram.passes, problem.gram.entries) == (0, before)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda p: p.cov(DATA.X), "covariance"),
        (lambda p: p.var(DATA.X), "weights"),
        (lambda p: p.local(20).var(DATA.X), "weights"),
        (lambda p: p.decompose(DATA.X, "exact"), "weights|exact GP"),
        (lambda p: p.problem.gram.columns(np.arange(40)), "columns of K"),
    ],
)
def test_predictions_that_do_not_fit_are_refused_and_the_posterior_stays_usable(ask, words, monkeypatch):
    posterior = condition(PRIOR, DATA.X, DATA.y, NOISE, RandomAction(), MaxActions(8))
    before = posterior.var(DATA.X_new)
    with monkeypatch.context() as patch:
        patch.setattr(compute, "available_bytes", lambda: 100)
        with pytest.raises(MemoryLimitError, match=words):
            ask(posterior)
    assert np.array_equal(posterior.var(DATA.X_new), before)


def test_what_is_refused_leaves_a_posterior_that_can_be_refined(monkeypatch):
    posterior = condition(PRIOR, DATA.X, DATA.y, NOISE, UnitVector(), MaxActions(3))
    with monkeypatch.context() as patch:
        patch.setattr(compute, "available_bytes", lambda: 100)
        with pytest.raises(MemoryLimitError):
            posterior.refine(stop=MaxActions(30))
    assert posterior.refine(stop=MaxActions(30)).rank == 33

"""Which policy: by name, or by size and budget."""

from collections.abc import Callable
from typing import Any

from itergp.budgets import Budget, actions_in_memory
from itergp.errors import InputError
from itergp.solver.policies import (
    BlockKrylov,
    ConjugateGradient,
    Eigenvector,
    Policy,
    PseudoInput,
    RandomAction,
    UnitVector,
    blocks_and_residuals,
    default_actions,
)
from itergp.solver.stopping import MaxActions, StoppingCriterion

EXACT_ROWS = 2048  # up to here the exact GP costs about a second
ROWS_CUBED = 5e9  # rows^3 per second on the way to the exact GP: measured at 2,048 rows on one slow core
PAIR, COLUMN = 0.6e-9, 0.03e-9  # seconds of a pass over K, by n^2: to evaluate, and for each column (float64, two slow cores)
FIRST_PASS = 0.4  # of the time for the inference; a pass that the clock cuts is lost
BLOCK = 128
EARLY = 32  # residuals before the second block, where the clock may end it there
POLICIES: dict[str, Callable[[], Policy]] = {
    "cg": lambda: ConjugateGradient(),
    "cholesky": lambda: UnitVector(block_size=512),
    "pseudo-input": lambda: PseudoInput(block_size=128),
    "eigenvector": lambda: Eigenvector(),
    "random": lambda: RandomAction(block_size=64),
    "block-krylov": lambda: BlockKrylov(block_size=128),
}


def policy_for(policy: Any, n: int, budget: Budget) -> Any:
    """The policy of that name, the one for this size and budget where it is "auto", or the object itself."""
    if not isinstance(policy, str):
        if not callable(policy):
            raise InputError(f"policy is {policy!r}; expected {_expected()}.")
        return policy
    if policy == "auto":
        return default_schedule(n, budget)
    if policy not in POLICIES:
        raise InputError(f"policy is {policy!r}; expected {_expected()}.")
    return POLICIES[policy]()


def default_schedule(n: int, budget: Budget) -> Policy:
    """The exact GP where the budget allows it; else what is best for the variance, for the mean, and for the variance again.

    `budget.seconds` are those that are left for the inference.
    """
    if reaches_exact(n, budget):  # by the clock, it may be cut after all: then any rows, not the first ones
        return UnitVector("sequential" if budget.seconds is None else "random", block_size=512)
    b = affordable_block(n, budget)
    if not b:
        return UnitVector("random", block_size=BLOCK)  # columns of K only: no pass
    return blocks_and_residuals(b, early=0 if budget.seconds is None else EARLY)


def affordable_block(n: int, budget: Budget) -> int:
    """How many columns the first pass over K may have: 128, or what the time allows, or 0 where it allows no pass."""
    if budget.seconds is None:
        return BLOCK
    columns = (FIRST_PASS * budget.seconds / n**2 - PAIR) / COLUMN
    return int(min(BLOCK, max(0.0, columns)) // 16 * 16)


def reaches_exact(n: int, budget: Budget) -> bool:
    """Whether n actions fit the budget and the memory."""
    if budget.seconds is not None:
        return n**3 / ROWS_CUBED < 0.8 * budget.seconds and actions_in_memory(n) >= n
    if budget.actions is not None:
        return budget.actions >= n
    return n <= EXACT_ROWS


def default_stop(n: int, budget: Budget) -> StoppingCriterion:
    """How much inference, where the budget names no criterion: counted in actions, so that fits repeat exactly."""
    return MaxActions(default_actions(n)) if budget.stop is None else budget.stop


def _expected() -> str:
    return f"'auto', one of {', '.join(map(repr, POLICIES))}, or a policy such as ConjugateGradient()"

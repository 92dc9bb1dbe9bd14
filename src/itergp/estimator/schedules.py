"""Choice of the policy: by name, or from data size, budget and the speed of this machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from itergp.errors import InputError
from itergp.estimator.budgets import LEARNING_SHARE, Budget, actions_in_memory
from itergp.fitted.price import COLUMN, PAIR
from itergp.limits import EXACT_ROWS, PASS_ROWS
from itergp.linalg.blas import blas_threads
from itergp.linalg.gram import Gram
from itergp.linalg.products import large
from itergp.solver.policies import BY_NAME, Policy, UnitVector
from itergp.solver.problem import Problem
from itergp.solver.run import solve
from itergp.solver.schedule import Schedule, blocks_and_residuals, default_actions
from itergp.solver.stopping import MaxActions, StoppingCriterion
from itergp.storage import Checkpoint
from itergp.storage.files import Tensors
from itergp.storage.specs import decode, encode, putting, table

# rows^3 per second on the way to the exact GP, by which it is guessed: at 2,048 rows on one slow core
ROWS_CUBED = 5e9
FASTER = 30.0  # times the guess: no machine is so much faster that it need be measured
SHORT = 2.0  # seconds, below which measuring would take too much of them
PROBE, PASS = 512, 2048  # rows of the exact GP, and of the pass over K, that are timed before
# rows of two passes before that one: the first compiles and wakes threads, the second tells whether there is
# time
FIRST = 256
HOPE = 1.5  # times the seconds there are, what it may seem to take: measurements on a busy machine are high
ROW = 0.17e-6  # seconds of an action that needs no pass, by n
LEAN_ROW = 0.05e-6  # the same where its product is not stored: in blocks of 128, one slow core
PROBING = 0.1  # of the time for the inference, for the pass that is timed before
FIRST_PASS = 0.4  # of the time for the inference; a pass that the clock cuts is lost
WITHOUT_PASS = 0.1  # the same for a block without one, of which there are many
SPARE = 2.0  # times the seconds that actions without a pass should take: a machine may be busy
BLOCK = 128
EARLY = 32  # residuals before the second block, where the clock may end it there


def policy_for(policy: Any, n: int, budget: Budget) -> Any:
    """The policy of that name, the default for this size and budget if "auto", or the object itself."""
    if not isinstance(policy, str):
        if not callable(policy):
            raise InputError(f"policy is {policy!r}; expected {_expected()}.")
        return policy
    if policy == "auto":
        return default_schedule(n, budget)
    if policy not in BY_NAME:
        raise InputError(f"policy is {policy!r}; expected {_expected()}.")
    return BY_NAME[policy]()


def policy_by_the_clock(problem: Problem, left: Budget, checkpoint: Checkpoint | None = None) -> Policy:
    """The default schedule for the remaining seconds on this machine. A resumed fit keeps its policy."""
    if checkpoint is not None and "policy" in checkpoint.about:
        return decode(checkpoint.about["policy"], Tensors(), table())
    hurried = left.seconds is not None and left.seconds < SHORT  # too little time to measure anything
    policy = default_schedule(problem.n, left, None if hurried else Machine(problem))
    policy = policy if left.seconds is None else _cheap_first(policy, problem.n, left)
    if checkpoint is not None:
        checkpoint.note({**checkpoint.about, "policy": encode(policy, putting(Tensors()), "policy")})
    return policy


def _cheap_first(policy: Policy, n: int, left: Budget) -> Policy:
    """Some cheap columns of K before a pass, which the clock may cut off: then these are what there is."""
    first = _columns_of_K(n, left, BLOCK)
    return Schedule((first, first.block_size), *policy.entries) if isinstance(policy, Schedule) else policy


def default_schedule(n: int, budget: Budget, machine: "Machine | None" = None) -> Policy:
    """The exact GP if the budget allows it; otherwise what is best for the variance, then for the mean, then
    for the variance again.

    `budget.seconds` is the time left for inference; without a measured `machine`, the speed of the
    reference machine is assumed.
    """
    if reaches_exact(n, budget, machine):
        return _columns_of_K(n, budget, 512)
    if without_passes(n, budget):
        return _random_rows(n, budget)
    if machine is not None and budget.seconds is not None:
        slowness = machine.slowness(PROBING * budget.seconds)
        budget = Budget(seconds=max(1e-3, budget.seconds - machine.spent))  # measuring took some of it
        b = affordable_block(n, budget, slowness)
    else:
        b = affordable_block(n, budget)
    if not b:
        return _columns_of_K(n, budget, BLOCK)
    return blocks_and_residuals(b, early=0 if budget.seconds is None else EARLY)


def without_passes(n: int, budget: Budget) -> bool:
    """Whether a fit of so many rows acts on some of them only: no pass over K, linear in n. So also where the
    budget is a number of actions; one of passes, or another criterion, asks for passes."""
    return n > PASS_ROWS and (budget.stop is None or budget.actions is not None)


def learning_seconds(policy: Any, n: int, seconds: float) -> float:
    """Of the seconds of a fit, those for learning: a share, or more where inference will need less."""
    if policy != "auto" or not without_passes(n, Budget(seconds=seconds)):
        return LEARNING_SHARE * seconds
    row = LEAN_ROW if large(n) else ROW
    return max(LEARNING_SHARE * seconds, seconds - SPARE * row * n * default_actions(n))


def _random_rows(n: int, budget: Budget) -> UnitVector:
    """In blocks of 128, or smaller where the clock would cut off the first ones of so many rows."""
    if budget.seconds is None or not large(n):
        return _columns_of_K(n, Budget(seconds=np.inf), BLOCK)
    columns = int(min(BLOCK, WITHOUT_PASS * budget.seconds / (LEAN_ROW * n)))
    return UnitVector("random", block_size=max(16, columns // 16 * 16))


def _columns_of_K(n: int, budget: Budget, most: int) -> UnitVector:
    """Actions without a pass. If the clock may cut them off: random rows in small blocks."""
    if budget.seconds is None:
        return UnitVector(block_size=most)
    columns = int(min(most, WITHOUT_PASS * budget.seconds / (ROW * n)))
    return UnitVector("random", block_size=min(most, max(16, columns // 16 * 16)))


def affordable_block(n: int, budget: Budget, slowness: float = 1.0) -> int:
    """Number of columns in the first pass over K: 128, or what the time allows, or 0 if it allows no pass."""
    if budget.seconds is None:
        return BLOCK
    columns = (FIRST_PASS * budget.seconds / (slowness * n**2) - PAIR) / COLUMN
    return int(min(BLOCK, max(0.0, columns)) // 16 * 16)


def reaches_exact(n: int, budget: Budget, machine: "Machine | None" = None) -> bool:
    """Whether n actions fit in the budget and in memory. A run that is cut off has most of its rows anyway:
    the last ones cost most."""
    if budget.seconds is not None:
        guess = n**3 / ROWS_CUBED
        if machine is None or n <= PROBE or guess > FASTER * budget.seconds:
            return guess <= budget.seconds and actions_in_memory(n) >= n
        taken = machine.exact_seconds(HOPE * budget.seconds) if actions_in_memory(n) >= n else np.inf
        return taken <= HOPE * (budget.seconds - machine.spent)
    if budget.actions is not None:
        return budget.actions >= n
    return n <= EXACT_ROWS


@dataclass(eq=False)
class Machine:
    """Measures the current speed of this machine on some rows of this problem."""

    problem: Problem
    spent: float = 0.0  # seconds, on measuring so far

    def exact_seconds(self, most: float = np.inf) -> float:
        """How long n unit vectors take: by some rows and half of them, where what grows as n, n^2 and n^3
        is scaled up.

        On one thread: matrices as small as theirs are no faster on more, and far slower where others work
        too. Where the half says that it takes more than `most`, even if time only grew as n, that is the
        answer.
        """
        n, m, threads = self.problem.n, min(PROBE, self.problem.n), self.problem.compute.threads
        A = np.ones((m, m))
        with blas_threads(threads):
            cubes = min(self._timed(lambda: A @ A) for _ in range(2))  # the first one wakes threads
        with blas_threads(1):
            half = self._timed(partial(self._act, m // 2))
            if half * n / (m // 2) > most:
                return half * n / (m // 2)
            whole = self._timed(partial(self._act, m))
        squares = max(0.0, 2.0 * (whole - cubes - 2.0 * (half - cubes / 8.0)))
        lines = max(0.0, whole - cubes - squares)
        return lines * (n / m) + squares * (n / m) ** 2 + cubes * (n / m) ** 3

    def slowness(self, most: float = np.inf) -> float:
        """How many times as long a pass over K takes as PAIR and COLUMN say, by as many rows as take
        `most` seconds."""
        taken, rows = 0.0, 0
        for m in (min(FIRST, self.problem.n), min(FIRST, self.problem.n), min(PASS, self.problem.n)):
            if m > rows > 0 and taken * (m / rows) ** 2 > most:
                break
            few, rows = (
                Gram(self.problem.gram.kernel, self.problem.X[:m], self.problem.gram.compute_fixed()),
                m,
            )
            # tiles are stored, as in the pass that it stands for
            taken = self._timed(partial(few.multiply, np.ones((m, 16))))
        return taken / (rows**2 * (PAIR + 16 * COLUMN)) / self._speedup(few)

    def _speedup(self, few: Gram) -> float:
        """Of the machines that will make the passes, if that is not only this one."""
        if not few.engine.activity():  # nobody else works
            return 1.0
        found: list[float] = []
        X = few.X - few.X.mean(axis=0)
        self._timed(lambda: found.append(few.engine.speedup(few.kernel, X, few.dtype)))
        return found[0]

    def _act(self, rows: int) -> None:
        whole = self.problem
        few = Problem(
            whole.prior, whole.X[:rows], whole.y[:rows], whole.N[:rows], replace(whole.compute, cache=0)
        )
        solve(few, UnitVector(block_size=rows), MaxActions(rows))

    def _timed(self, work: Callable[[], object]) -> float:
        taken = _seconds(work)
        self.spent += taken
        return taken


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def default_stop(n: int, budget: Budget) -> StoppingCriterion:
    """The default limit of inference if the budget has no criterion: a number of actions, so that fits are
    reproducible."""
    return MaxActions(default_actions(n)) if budget.stop is None else budget.stop


def _expected() -> str:
    return f"'auto', one of {', '.join(map(repr, BY_NAME))}, or a policy such as ConjugateGradient()"

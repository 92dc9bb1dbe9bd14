"""What further passes over K cost, by what they cost the fit; and so how many a summary may make.

Nothing is timed here: the same fit has the same answer today and tomorrow, here and on another machine.
"""

from collections.abc import Sequence

import numpy as np

from itergp.fitted.fit import Fit
from itergp.posterior.combined import Posterior
from itergp.posterior.uncertainty import PASSES
from itergp.solver.state import Progress

# seconds of a pass over K, by n^2: to evaluate, and for each column (float64, two slow cores)
PAIR, COLUMN = 0.6e-9, 0.03e-9
CHECK = 2.0  # what a product in float64 costs beside one in float32: measured 1.3 to 3.2
LEAST = 1.0  # seconds that a summary may always take


def seconds_for(fit: Fit, share: float) -> float:
    """A fraction of the fit's time, in seconds."""
    return max(LEAST, share * float(fit.timings.get("total") or 0.0))


def affordable_passes(posterior: Posterior, points: int, seconds: float) -> int:
    """At most those that `decompose` makes, and none where not even one could improve what the last one
    checks."""
    price = seconds_of_pass(posterior, points)
    check = CHECK * price if posterior.problem.gram.dtype == np.float32 else price
    passes = 1 + int((seconds - check) / price)
    return 0 if passes < 2 else min(passes, PASSES)


def seconds_of_pass(posterior: Posterior, points: int) -> float:
    """A product of K with a column for each point, and the algebra on these columns."""
    n = posterior.problem.n
    product = slowness(posterior.trace, n) * n**2 * (PAIR + COLUMN * points)
    return product * (1.0 + 2.0 * (posterior.rank + points) / n)


def slowness(trace: Sequence[Progress], n: int) -> float:
    """How many times as long as PAIR and COLUMN say the quickest step with a pass took: the others waited
    for something else, too. 1 where there was none."""
    found = []
    for before, after in zip([Progress(), *trace], trace, strict=False):
        passes, columns = after.passes - before.passes, after.actions - before.actions
        if passes > 0 and after.seconds > before.seconds:
            expected = n**2 * (passes * PAIR + columns * COLUMN)
            found.append((after.seconds - before.seconds) / expected)
    return min(found, default=1.0)


def seconds_of_actions(trace: Sequence[Progress], rank: int, more: int) -> float | None:
    """So many more actions after the first ones, each at the price of those of the later half, as the
    trace has it."""
    ends = [(0, 0.0), *((step.actions, step.seconds) for step in trace)]
    if len(ends) < 2 or ends[-1][0] <= 0:
        return None
    earlier = [end for end in ends if end[0] <= rank // 2][-1]
    actions, seconds = ends[-1][0] - earlier[0], ends[-1][1] - earlier[1]
    return more * seconds / actions if actions > 0 and seconds > 0 else None

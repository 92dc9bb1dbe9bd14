"""What further passes over K would cost here and now, and so how many a summary may make."""

import time
from dataclasses import replace

import numpy as np

from itergp.fitted.fit import Fit
from itergp.linalg.gram import Gram
from itergp.posterior.combined import Posterior
from itergp.posterior.uncertainty import PASSES

ROWS = 2048  # on which a product is timed
CHECK = 2.0  # what a product in float64 costs beside one in float32: measured 1.3 to 3.2
LEAST = 1.0  # seconds that a summary may always take


def seconds_for(fit: Fit, share: float) -> float:
    """So much of the time of the fit."""
    return max(LEAST, share * float(fit.timings.get("total") or 0.0))


def affordable_passes(posterior: Posterior, points: int, seconds: float) -> int:
    """At most those that `decompose` makes, and none where not even one could improve what the last one
    checks."""
    price = seconds_of_pass(posterior, points)
    check = CHECK * price if posterior.problem.gram.dtype == np.float32 else price
    passes = 1 + int((seconds - check) / price)
    return 0 if passes < 2 else min(passes, PASSES)


def seconds_of_pass(posterior: Posterior, points: int) -> float:
    """A product of K with a column for each point, by one on some of the rows; and the algebra on these
    columns."""
    problem, gram = posterior.problem, posterior.problem.gram
    few = Gram(gram.kernel, problem.X[:ROWS], replace(gram.compute_fixed(), cache=0))
    V = np.ones((few.n, points))
    for _ in range(2):  # what the first one takes may be compilation
        begun = time.perf_counter()
        few.multiply(V)
        seconds = time.perf_counter() - begun
    return seconds * (problem.n / few.n) ** 2 * (1.0 + 2.0 * (posterior.rank + points) / problem.n)

"""How many points are predicted at once."""

from itergp.fitted.fit import Fit

BATCH_BYTES = 2**29  # of weights at test points, at once
MOST = 2**15  # test points at once: the rows near them take 30 MB, and Ctrl-C takes effect in between


def batch(fit: Fit) -> int:
    """So many that their weights fit in memory."""
    return min(MOST, max(256, BATCH_BYTES // (24 * max(1, fit.posterior.rank))))

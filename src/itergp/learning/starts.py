"""Where else to start when a composite kernel is learned: its likelihood has many optima, above all in
periods."""

from collections.abc import Iterator

import numpy as np

from itergp.data.rows import Rows
from itergp.learning.parameters import Space
from itergp.prior.stationary import Periodic

CANDIDATES = 24  # points at which the likelihood is evaluated once
STARTS, ITERATIONS = 4, 15  # the best of them, from which an optimiser takes its first steps
MOST_ITERATIONS = 500  # for the given values, and for the best of these
TOLERANCE = 1e-10  # of an optimiser: parts that trade off have narrow, flat valleys
SPREAD = 1.0  # standard deviation of draws, in logarithms
PEAKS = 4  # of a periodogram
OVERSAMPLING = 4  # frequencies per frequency that n rows can tell apart


def candidates(space: Space, given: np.ndarray, rows: Rows, seed: int) -> Iterator[np.ndarray]:
    """Points around the given values and around those that suit the data's units, in turn, with each period
    as given or at a peak of the periodogram. The first ones take every period in order; the rest are drawn.
    """
    rng, periods = np.random.default_rng([seed, rows.n]), _periods(space, given, rows)
    for i in range(1, CANDIDATES + 1):  # the 0th are the given values themselves
        start, drawn = (given, space.centre)[i % 2].copy(), i >= 2 * (PEAKS + 1)
        if drawn:
            start += SPREAD * rng.standard_normal(start.size)
        for place, values in periods.items():
            start[place] = values[rng.integers(values.size) if drawn else (i // 2) % values.size]
        yield np.clip(start, space.lower, space.upper)


def _periods(space: Space, given: np.ndarray, rows: Rows) -> dict[int, np.ndarray]:
    """For the place of each period in theta: the logarithms of its given value and of its column's peaks."""
    places = dict(zip(space.paths, np.cumsum([0, *space.sizes[:-1]]).tolist(), strict=True))
    found = {}
    for term in space.kernel.terms():
        place, x = places.get(f"{term.path}period"), term.of(rows.X)
        if isinstance(term.kernel, Periodic) and place is not None and x.shape[1] == 1:
            found[place] = np.log([period := np.exp(given[place]), *peaks(x[:, 0], rows.Y, period)])
    return found


def peaks(x: np.ndarray, Y: np.ndarray, known: float) -> np.ndarray:
    """The periods of the strongest peaks of the periodogram (Lomb and Scargle's) of y without a trend, apart
    from a known one."""
    from scipy.signal import find_peaks, lombscargle

    length = float(np.ptp(x))
    if not length > 0.0 or len(x) < 8:
        return np.zeros(0)
    z = (x - x.min()) / length
    trend = np.polynomial.legendre.legvander(2.0 * z - 1.0, 3)
    residuals = Y - trend @ np.linalg.lstsq(trend, Y, rcond=None)[0]
    # fewer than two periods say little, and n rows cannot tell more than n / 2 from fewer
    cycles = np.arange(2.0, 0.5 * len(x) + 1.0, 1.0 / OVERSAMPLING)
    power = sum(lombscargle(z, of_target, 2.0 * np.pi * cycles) for of_target in residuals.T)
    found = find_peaks(power)[0]
    found = found[np.abs(cycles[found] - length / known) > 0.5]
    return length / cycles[found[np.argsort(-power[found], kind="stable")][:PEAKS]]

"""The scale of a feature: its standard deviation, unless a few outliers dominate it. What an outlier is."""

import numpy as np

FEW = 0.01  # at most this share of the values are outliers
ROWS = 20  # with fewer values nothing counts as an outlier
DOMINATED = 10.0  # times the standard deviation of the other values
AT_ONCE = 10**5  # rows: of more, one feature after the other, as copies of all of them take memory and time
CONSTANT = 1e-12  # a column that varies by less than this share of its size is constant


def centre_and_spread(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation of each column, without a few outliers if these dominate it.

    Lengthscales are learned from about one standard deviation down to a thousandth of it, so a single value
    of 1e6 among standard normal ones would hide all the others. Values are not outliers just because the
    distribution is not normal: where most values are equal (one-hot, binary, mostly zero) the rare ones carry
    the information, and heavy tails are kept.
    """
    if len(A) > AT_ONCE and A.ndim == 2 and A.shape[1] > 1:
        each = [centre_and_spread(A[:, [j]]) for j in range(A.shape[1])]
        return np.concatenate([one for one, _ in each]), np.concatenate([one for _, one in each])
    unit = binary_unit(A)
    A = A / unit
    centre, spread, largest = A.mean(axis=0), A.std(axis=0), np.abs(A).max(axis=0)
    share = max(1, int(FEW * len(A))) / max(len(A), ROWS)
    reach = ((1.0 - DOMINATED**-2) / (share + (share / (1.0 - share)) ** 2)) ** 0.5
    # otherwise no few values can dominate
    for j in np.flatnonzero(np.abs(A - centre).max(axis=0) > reach * spread):
        near = _near(A[:, j], float(spread[j]))
        if near is not None:
            centre[j], spread[j], largest[j] = near.mean(), near.std(), np.abs(near).max()
    return unit * centre, np.where(spread > CONSTANT * largest, unit * spread, 1.0)


def fences(x: np.ndarray) -> tuple[float, float]:
    """Values beyond these are gross outliers, at most a few at each end: they are farther from all others
    than these are from each other. Where nearly all are equal there are none: the rare ones say most."""
    few = max(1, int(FEW * x.size))
    if x.size < ROWS:
        return -np.inf, np.inf
    others = np.partition(x, (few, x.size - 1 - few))
    low, high = float(others[few]), float(others[x.size - 1 - few])
    return (low - (high - low), high + (high - low)) if high > low else (-np.inf, np.inf)


def binary_unit(A: np.ndarray) -> np.ndarray:
    """The power of two just above each column's largest value: squares in this unit neither underflow nor
    overflow, and no bit of the result changes."""
    largest = np.abs(A).max(axis=0)
    return np.where(largest > 0, np.ldexp(1.0, np.maximum(np.frexp(largest)[1], -1021)), 1.0)


def _near(x: np.ndarray, spread: float) -> np.ndarray | None:
    """The values without a few outliers, if these dominate the spread."""
    telling = np.flatnonzero(x != np.median(x))
    if 2 * telling.size > x.size:  # unless most are equal, all are informative
        telling = np.arange(x.size)
    if telling.size < ROWS:
        return None
    few, values = max(1, int(FEW * telling.size)), x[telling]
    order = np.argpartition(np.abs(values - np.median(values)), telling.size - few)
    others, near = values[order[:-few]], np.delete(x, telling[order[-few:]])
    # the others are all equal, so the rare ones are not outliers
    if others.std() <= CONSTANT * np.abs(others).max():
        return None
    return near if spread > DOMINATED * near.std() and values.std() > DOMINATED * others.std() else None

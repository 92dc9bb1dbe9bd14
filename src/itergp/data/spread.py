"""The unit of a feature: its standard deviation, unless that is the work of a few values far from all
others."""

import numpy as np

FEW = 0.01  # of the values, at most, are far from all others
ROWS = 20  # fewer values have no others to be far from
DOMINATED = 10.0  # times the standard deviation of the others
CONSTANT = 1e-12  # a column that varies by less than this share of its size is constant


def centre_and_spread(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation of each column; where a few values dominate the latter, those of the
    other values.

    Lengthscales are learned from about one such deviation on, and down to a thousandth of it: one value of
    1e6 among standard normal ones would hide what all others say. What is not normal is not far away for
    that: where most values are equal (one-hot, binary, mostly zero) the rare ones are what the column
    says, and a tail is part of it.
    """
    unit = binary_unit(A)
    A = A / unit
    centre, spread, largest = A.mean(axis=0), A.std(axis=0), np.abs(A).max(axis=0)
    share = max(1, int(FEW * len(A))) / max(len(A), ROWS)
    reach = ((1.0 - DOMINATED**-2) / (share + (share / (1.0 - share)) ** 2)) ** 0.5
    # or else no few values can dominate
    for j in np.flatnonzero(np.abs(A - centre).max(axis=0) > reach * spread):
        near = _near(A[:, j], float(spread[j]))
        if near is not None:
            centre[j], spread[j], largest[j] = near.mean(), near.std(), np.abs(near).max()
    return unit * centre, np.where(spread > CONSTANT * largest, unit * spread, 1.0)


def binary_unit(A: np.ndarray) -> np.ndarray:
    """The power of two just above each column's largest value: in this unit squares neither vanish nor
    overflow, and no bit of the result changes."""
    largest = np.abs(A).max(axis=0)
    return np.where(largest > 0, np.ldexp(1.0, np.maximum(np.frexp(largest)[1], -1021)), 1.0)


def _near(x: np.ndarray, spread: float) -> np.ndarray | None:
    """The values but for a few far from all others, where these make the spread."""
    telling = np.flatnonzero(x != np.median(x))
    if 2 * telling.size > x.size:  # unless most are equal, all tell something
        telling = np.arange(x.size)
    if telling.size < ROWS:
        return None
    few, values = max(1, int(FEW * telling.size)), x[telling]
    order = np.argpartition(np.abs(values - np.median(values)), telling.size - few)
    others, near = values[order[:-few]], np.delete(x, telling[order[-few:]])
    # equal among themselves: so the rare ones are no outliers
    if others.std() <= CONSTANT * np.abs(others).max():
        return None
    return near if spread > DOMINATED * near.std() and values.std() > DOMINATED * others.std() else None

"""Data on which intervals are tried: made ones of twelve kinds, and the real sets.

In all but two, new rows are exchangeable with the known ones: the competition's MODIS has its test rows under
clouds, and the magnetic survey on flight lines of their own.
"""

from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from common import load_raw_split

NEW = 4000  # test rows
ROWS = 2000  # of most made sets
TRAINING = 2000  # rows of a real set, at random
LARGER = {"keggdirected": 5000, "keggundirected": 5000}  # with local actions


@dataclass(frozen=True, eq=False)
class Data:
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    groups: object = None
    settings: dict = field(default_factory=dict)  # of the estimator


def smooth(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2]


def parted(X, y, n, **more):
    return Data(X[:n], y[:n], X[n:], y[n:], **more)


def with_errors(draw, n=ROWS):
    """A smooth function of three features, and errors from a distribution."""

    def make(rng):
        X = rng.uniform(-1, 1, (n + NEW, 3))
        return parted(X, smooth(X) + 0.3 * draw(rng, X), n)

    return make


def with_outliers(rng, X):
    """One in fifty is off by about twenty standard deviations."""
    e = rng.standard_normal(len(X))
    return np.where(rng.random(len(X)) < 0.02, 20 * e, e)


def rough(rng):
    """Matern 1/2 in one feature, learned with a kernel that is far too smooth."""
    x = np.sort(rng.uniform(0, 40, ROWS + NEW))
    a = np.exp(-np.diff(x))
    f, steps = np.empty(len(x)), rng.standard_normal(len(x))
    f[0] = steps[0]
    for i in range(1, len(x)):  # the Ornstein-Uhlenbeck process
        f[i] = a[i - 1] * f[i - 1] + np.sqrt(1 - a[i - 1] ** 2) * steps[i]
    order = rng.permutation(len(x))
    y = f + 0.1 * rng.standard_normal(len(x))
    return parted(x[order, None], y[order], ROWS, settings={"kernel": "rbf"})


def steps(rng):
    """A function that jumps, which no candidate for the kernel does."""
    X = rng.uniform(-1, 1, (ROWS + NEW, 2))
    y = np.floor(3 * X[:, 0]) - np.sign(X[:, 1] - X[:, 0]) + 0.05 * rng.standard_normal(len(X))
    return parted(X, y, ROWS)


def clusters(rng):
    centres = rng.uniform(-1, 1, (60, 3))
    X = centres[rng.integers(60, size=ROWS + NEW)] + 0.02 * rng.standard_normal((ROWS + NEW, 3))
    return parted(X, smooth(2 * X) + 0.2 * rng.standard_t(4, len(X)), ROWS)


def new_groups(rng):
    """Patients with a level of their own, 500 known ones with four rows each; the test rows are of others."""
    patient = np.concatenate([np.repeat(np.arange(500), 4), 500 + np.arange(NEW)])
    X = rng.uniform(-1, 1, (len(patient), 3))
    own = rng.standard_t(4, 500 + NEW)[patient]
    y = smooth(X) + 0.4 * own + 0.2 * rng.standard_normal(len(X))
    return parted(X, y, ROWS, groups=patient[:ROWS])


def wide(rng):
    X = rng.standard_normal((400 + NEW, 60))
    return parted(X, np.tanh(X[:, 0]) + X[:, 1] + 0.5 * rng.standard_t(5, len(X)), 400)


def repeated(rng):
    """A grid of 400 places, most of which are measured several times."""
    places = rng.uniform(-1, 1, (400, 3))
    X = places[rng.integers(400, size=ROWS + NEW)]
    return parted(X, smooth(X) + 0.3 * (rng.exponential(1.0, len(X)) - 1), ROWS)


def varying(rng, X):
    """Errors between a tenth and twice as large."""
    return rng.standard_normal(len(X)) * (0.1 + 0.95 * (1 + X[:, 0]))


MADE = {
    "gaussian": with_errors(lambda rng, X: rng.standard_normal(len(X))),
    "Student t, 3 degrees": with_errors(lambda rng, X: rng.standard_t(3, len(X)), 4000),
    "skewed": with_errors(lambda rng, X: rng.exponential(1.0, len(X)) - 1),
    "varying noise": with_errors(varying),
    "2 % outliers": with_errors(with_outliers),
    "rough, kernel smooth": rough,
    "jumps": steps,
    "clusters": clusters,
    "new groups": new_groups,
    "100 rows": with_errors(lambda rng, X: rng.standard_normal(len(X)), 100),
    "wide, 400 x 60": wide,
    "repeated inputs": repeated,
}
REPEATS = {"100 rows": 30, "wide, 400 x 60": 4}  # draws for each split, where few rows scatter
REAL = ("parkinsons", "bike", "protein", "keggdirected", "keggundirected", "modis", "magnetic")
BLOCKS = ("modis", "magnetic")  # also with groups="blocks"
NAMES = (*MADE, *REAL, *(f"{name}, blocks" for name in BLOCKS))
NOT_EXCHANGEABLE = tuple(name for name in NAMES if name.startswith(BLOCKS))


def made(name, split, repeat=0):
    return MADE[name](np.random.default_rng([crc32(name.encode()), split, repeat]))


def real(name, split):
    """Some training rows at random, and some test rows, in the units of the data."""
    name, _, blocks = name.partition(", ")
    X, y, X_new, y_new = load_raw_split(name, 0 if name == "modis" else split, NEW)
    some = np.random.default_rng([split, 1]).permutation(len(X))[: LARGER.get(name, TRAINING)]
    return Data(X[some], y[some], X_new, y_new, "blocks" if blocks else None)


def draws(name, split):
    """The data of a cell: one draw, or several."""
    if name in MADE:
        return (made(name, split, repeat) for repeat in range(REPEATS.get(name, 1)))
    return iter([real(name, split)])

"""Whether 95 % intervals hold 95 % of the rows with missing values, and of those without, for `--missing
impute`: by shapes of data, rates and sizes.

    python benchmarks/missing.py            # all; a line for each, then the least and the mean
    python benchmarks/missing.py --rows 200 --rates 0.3 --shapes additive shift
"""

import argparse
import csv
import tempfile
import warnings
from pathlib import Path

import numpy as np

from itergp import IterGPRegressor
from itergp.tables import Layout, read_table, training

TEST = 1000
NAMES = ("a", "b", "c", "d")


def inputs(shape: str, n: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, len(NAMES)))
    if shape.startswith("correlated"):
        X[:, 1] = X[:, 0] + 0.3 * rng.standard_normal(n)
    if shape == "skewed":
        X[:, 0] = np.exp(1.2 * X[:, 0])
    if shape == "category":
        X[:, 0] = rng.integers(0, 5, n)
    return X


def function(shape: str, X: np.ndarray) -> np.ndarray:
    a, b, c, _ = X.T
    wave = np.sin(2 * b) + 0.5 * c**2
    return {
        "interaction": 2 * a * b + c,
        "other columns": a * np.exp(b) + c,
        "correlated": 2 * a + c,
        "correlated, both": 2 * a + c,
        "square": 2 * a**2 + b,
        "skewed": a + np.sin(2 * b),
        "steps": 3 * np.sign(a) + b,
        "category": np.array([0.0, 3.0, -2.0, 1.0, 5.0])[a.astype(int) % 5] + wave,
    }.get(shape, 1.5 * a + wave)


def missing(shape: str, X: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    lost, chance = np.zeros(X.shape, dtype=bool), np.full(X.shape, rate)
    if shape == "other columns":
        chance[:, 0] = 2 * rate / (1 + np.exp(-2 * X[:, 1]))
    if shape == "itself":
        chance[:, 0] = 2 * rate / (1 + np.exp(-2 * X[:, 0]))
    columns = {"several": [0, 1, 2, 3], "correlated, both": [0, 1], "useless": [3]}.get(shape, [0])
    lost[:, columns] = (rng.random(X.shape) < chance)[:, columns]
    return lost


SHAPES = (
    "additive",
    "interaction",
    "other columns",
    "itself",
    "shift",
    "correlated",
    "correlated, both",
    "several",
    "square",
    "steps",
    "skewed",
    "category",
    "useless",
    "only new rows",
)


def table(shape: str, n: int, rate: float, noise: float, seed: int) -> tuple[list[list[str]], np.ndarray]:
    """Cells of n rows and TEST more, and which of them lack something."""
    rng = np.random.default_rng(seed)
    X = inputs(shape, n + TEST, rng)
    f, lost = function(shape, X), missing(shape, X, rate, rng)
    f = f / f.std() + 2.0 * (shape == "shift") * lost[:, 0]
    y = f + noise * rng.standard_normal(len(f))
    if shape == "only new rows":
        lost[:n] = False
    cells = [
        ["" if gone else f"k{value:.0f}" if shape == "category" and j == 0 else repr(float(value))
         for j, (value, gone) in enumerate(zip(row, holes, strict=True))]
        for row, holes in zip(X, lost, strict=True)
    ]  # fmt: skip
    return [[*row, repr(float(target))] for row, target in zip(cells, y, strict=True)], lost.any(axis=1)


def covered(shape: str, n: int, rate: float, noise: float, seed: int, folder: Path) -> list[float]:
    """The share of rows inside 95 % intervals: with missing values, and without; and the mean width of the
    former in standard deviations of y."""
    rows, lacking = table(shape, n, rate, noise, seed)
    for name, some in (("train.csv", rows[:n]), ("test.csv", rows[n:])):
        with open(folder / name, "w", newline="") as file:
            csv.writer(file).writerows([[*NAMES, "y"], *some])
    read = read_table(folder / "train.csv")
    categorical = ["a"] if shape == "category" else []
    layout = Layout.of(read, "y", categorical=categorical, missing="impute")
    found = training(read, layout)
    model = IterGPRegressor().fit(found.X, found.y, table=layout)
    test = training(read_table(folder / "test.csv"), layout)
    low, high = model.interval(test.X)
    inside, lacking = (low <= test.y) & (test.y <= high), lacking[n:]
    width = (high - low)[lacking].mean() / test.y.std()
    return [inside[lacking].mean(), inside[~lacking].mean(), width]


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    asked.add_argument("--rates", type=float, nargs="+", default=[0.05, 0.3, 0.5])
    asked.add_argument("--noises", type=float, nargs="+", default=[0.1, 0.5])
    asked.add_argument("--shapes", nargs="+", default=SHAPES, choices=SHAPES)
    asked.add_argument("--seeds", type=int, default=3)
    options = asked.parse_args()
    warnings.simplefilter("ignore")
    every = []
    print(f"{'shape':18}{'rows':>6}{'rate':>6}{'noise':>6} | lacking  whole  width", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for shape in options.shapes:
            for n in options.rows:
                for rate in options.rates:
                    for noise in options.noises:
                        each = [
                            covered(shape, n, rate, noise, seed, Path(folder))
                            for seed in range(options.seeds)
                        ]
                        every.append(np.nanmean(each, axis=0))
                        numbers = "  ".join(f"{value:6.3f}" for value in every[-1])
                        print(f"{shape:18}{n:6}{rate:6}{noise:6} | {numbers}", flush=True)
    least, mean = np.min(every, axis=0), np.mean(every, axis=0)
    print(f"rows with missing values: least {least[0]:.3f}, mean {mean[0]:.3f}")
    print(f"rows without:             least {least[1]:.3f}, mean {mean[1]:.3f}")


if __name__ == "__main__":
    main()

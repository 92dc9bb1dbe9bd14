"""Shared by the experiments on data sets: splits with merged duplicates, and hyper-parameters learned once.

Hyper-parameters are a cell of their own, the first of each data set and kernel: learned on split 0, stored in
the records, and read from there by the cells of all splits. Rows with identical inputs are merged, which does
not change the exact posterior.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from itergp.data.rows import Rows, merge_rows, unmerged
from itergp.datasets import DATASETS, Split, load, synthetic
from itergp.errors import InputError
from itergp.experiments.records import read_lines
from itergp.experiments.running import Cell, Options, Record
from itergp.prior.gp import Prior
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import parameters, with_parameters
from itergp.prior.stationary import RBF, Matern12, Matern32

KERNELS: dict[str, Callable[[Any], Kernel]] = {"Matern 1/2": Matern12, "RBF": RBF, "Matern 3/2": Matern32}
REAL = ("parkinsons", "bike", "protein", "keggdirected", "keggundirected")
LARGE = 20_000  # rows: above, three splits instead of ten
# rows, if there are fewer distinct ones: for costs
DISTINCT = {"protein": 43_972, "keggdirected": 15_811, "keggundirected": 18_451}
SYNTHETIC_ROWS, SYNTHETIC_FEATURES, SYNTHETIC_NOISE = 6000, 3, 0.01
QUICK_ROWS = 150  # of the training part, and a third as many for tests
TEST_POINTS = 2000


@dataclass(frozen=True, eq=False)
class Part:
    """One split: merged training rows, and at most TEST_POINTS test points, chosen at random once."""

    rows: Rows
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def about(self) -> Record:
        """Sizes, for records."""
        return {
            "n": int(self.rows.counts.sum()),
            "distinct": len(self.rows.X),
            "test_points": len(self.y_test),
        }


def part(dataset: str, split: int, options: Options, merge: bool = True) -> Part:
    whole = _synthetic(split) if dataset == "synthetic" else load(dataset).split(split)
    train, test = np.random.default_rng([5, split]), np.random.default_rng([50, split])
    rows = np.sort(train.permutation(len(whole.y))[:QUICK_ROWS]) if options.quick else np.arange(len(whole.y))
    some = np.sort(test.permutation(len(whole.y_test))[: QUICK_ROWS // 3 if options.quick else TEST_POINTS])
    X, y = whole.X[rows], whole.y[rows]
    return Part(merge_rows(X, y) if merge else unmerged(X, y), whole.X_test[some], whole.y_test[some])


def _synthetic(split: int) -> Split:
    """A separate draw for each split."""
    X, y = synthetic(SYNTHETIC_ROWS, SYNTHETIC_FEATURES, SYNTHETIC_NOISE, seed=split)
    test = SYNTHETIC_ROWS // 10
    return Split(X[test:], y[test:], X[:test], y[:test])


def size(dataset: str) -> int:
    """Rows of the training and test part together."""
    if dataset == "synthetic":
        return SYNTHETIC_ROWS
    return DATASETS[dataset].rows if dataset in DATASETS else len(load(dataset).y)


def distinct(dataset: str, options: Options) -> int:
    """Approximate number of training rows after merging duplicates, for costs."""
    return QUICK_ROWS if options.quick else int(0.9 * DISTINCT.get(dataset, size(dataset)))


def splits(dataset: str, options: Options) -> int:
    return 3 if options.quick else 10 if size(dataset) <= LARGE else 3


# Hyper-parameters.


def learning_cell(dataset: str, kernel: str, method: str, cost: float) -> Cell:
    return Cell({"dataset": dataset, "kernel": kernel, "learn": method}, cost)


def learn_once(cell: Cell, options: Options) -> list[Record]:
    """For a zero-mean prior with one lengthscale per feature, on split 0: targets are standardised."""
    from itergp.learning import learn

    dataset, kernel, method = cell.key["dataset"], cell.key["kernel"], cell.key["learn"]
    rows = part(dataset, 0, options).rows
    begun = time.perf_counter()
    found = learn(
        rows.X,
        rows.y,
        start(kernel, rows.X.shape[1]),
        0.1,
        counts=rows.counts,
        scatter=rows.scatter,
        method=method,
    )
    seconds = time.perf_counter() - begun
    values = {"parameters": parameters(found.kernel), "noise": found.noise, "features": rows.X.shape[1]}
    return [cell.key | values | {"stages": found.stages, "at_bounds": found.at_bounds, "seconds": seconds}]


def start(kernel: str, d: int) -> Kernel:
    """Variance 1, and lengthscales at which standardised points are about one apart."""
    return 1.0 * KERNELS[kernel](np.full(d, np.sqrt(d)))


def learned(experiment: str, cell: Cell, options: Options) -> tuple[Prior, float]:
    """The prior and the noise stored in the records by the last learning cell of this data set and kernel."""
    lines = reversed(read_lines(options.out / experiment / "records.jsonl"))
    for record in (record for line in lines if "learn" in line["cell"] for record in line["records"]):
        if all(record[name] == cell.key[name] for name in ("dataset", "kernel")):
            values: dict[str, Any] = {name: _value(value) for name, value in record["parameters"].items()}
            return Prior(with_parameters(start(record["kernel"], record["features"]), values)), record[
                "noise"
            ]
    raise InputError(
        f"{options.out / experiment} has no hyper-parameters for {cell.key}; expected those of its learning "
        "cell."
    )


def _value(value: Any) -> Any:
    return np.array(value) if isinstance(value, list) else value


def measured(records: list[Record]) -> list[Record]:
    """The records of splits, without those of learning."""
    return [record for record in records if "learn" not in record]


def methods_of(records: list[Record]) -> dict[tuple[str, str], str]:
    """How the hyper-parameters were learned, for each data set and kernel, in a few words for tables."""
    return {(record["dataset"], record["kernel"]): _method(record) for record in records if "learn" in record}


def _method(record: Record) -> str:
    """Such as: likelihood by neighbours, split 0; at bounds: 16 lengthscales, noise."""
    if record["learn"] == "sgpr":
        words = "SGPR's bound"
    else:
        words = "likelihood" + (" by neighbours" if record["stages"][-1].startswith("neighbours") else "")
    lengthscales = sum("lengthscale" in name for name in record["at_bounds"])
    others = [name for name in record["at_bounds"] if "lengthscale" not in name]
    bounds = [*([f"{lengthscales} lengthscales"] if lengthscales else []), *others]
    return f"{words}, split 0" + (f"; at bounds: {', '.join(bounds)}" if bounds else "")


def rows_in_words(record: Record) -> str:
    """For tables: 57,247 (16,602 distinct)."""
    return f"{record['n']:,}" + (
        "" if record["distinct"] == record["n"] else f" ({record['distinct']:,} distinct)"
    )

"""A slice of benchmarks/learning_grid.py: on draws from known Gaussian processes, `kernel="auto"` finds the
smoothness, its intervals hold, and its log density is that of the exact GP with the true hyper-parameters.

Eight of the sixty problems: each smoothness and each noise twice, half of them in clusters.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import learning_grid as grid
import learning_problems as problems

pytestmark = pytest.mark.slow

SLICE = (
    "matern12-noise1-d5-n200-clusters",
    "rbf-noise0.01-d8-n200-uniform",
    "matern52-noise0.1-d3-n200-clusters",
    "matern32-noise0-d3-n400-uniform",
    "matern32-noise1-d2-n400-uniform",
    "rbf-noise0.1-d40-n400-clusters",
    "matern52-noise0-d12-n800-clusters",
    "matern12-noise0.01-d8-n800-uniform",
)


@pytest.fixture(scope="module")
def records():
    cells = {cell.name: cell for cell in problems.cells()}
    return [grid.measure(cells[name], problems.draw(cells[name]), kernel="auto") for name in SLICE]


def test_the_true_smoothness_or_its_neighbour_is_chosen(records):
    wrong = [r["cell"] for r in records if not grid.is_neighbour(r["smoothness"], r["chosen"])]
    assert len(wrong) <= 1, [(r["cell"], r["chosen"]) for r in records]


def test_intervals_hold(records):
    """Over the test rows of all problems together; the oracle's do, too, so that it is no fault of theirs."""
    for of in ("coverage", "oracle_coverage"):
        low, high = grid.COVERED
        assert low <= np.mean([r[of] for r in records]) <= high, [(r["cell"], r[of]) for r in records]


def test_the_log_density_is_that_of_the_exact_gp_with_the_true_hyper_parameters(records):
    gaps = {r["cell"]: r["nll"] - r["oracle_nll"] for r in records}
    assert np.mean(list(gaps.values())) < grid.NLL_GAP, gaps
    assert max(gaps.values()) < 3 * grid.NLL_GAP, gaps

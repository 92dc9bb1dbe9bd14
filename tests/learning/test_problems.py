"""The problems of benchmarks/learning_grid.py: what they are said to be, and their oracle."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import learning_grid as grid
import learning_problems as problems
from common import kernel_names
from itergp import Linear, Matern12, RationalQuadratic

SKLEARN = {"matern12": Matern(nu=0.5), "matern32": Matern(nu=1.5), "matern52": Matern(nu=2.5), "rbf": RBF()}


def test_the_sixty_problems_differ_and_cover_each_factor_as_stated():
    cells = problems.cells()
    assert len({cell.name for cell in cells}) == 60
    for factor, counts in problems.LEVELS.items():
        assert Counter(getattr(cell, factor) for cell in cells) == counts
    assert all(cell.n >= problems.ROWS_PER_FEATURE * cell.d for cell in cells)
    for noise in problems.LEVELS["noise"]:  # pairs of levels meet about as often: 3.75 times
        met = Counter(cell.smoothness for cell in cells if cell.noise == noise)
        assert all(3 <= met[smoothness] <= 5 for smoothness in problems.PROFILES)


@pytest.mark.parametrize("smoothness", problems.PROFILES)
@pytest.mark.parametrize(("noise", "clustered"), [(0.0, False), (0.1, True)])
def test_the_oracle_is_the_exact_gp_with_the_true_hyper_parameters(smoothness, noise, clustered):
    """Against scikit-learn, from X, y and the hyper-parameters alone. Without noise K_hat has a condition
    number of up to 1e12, so that four digits of a standard deviation are left."""
    cell = problems.Cell(smoothness, noise, 4, 150, clustered)
    problem = problems.draw(cell)
    rng = np.random.default_rng(problems.seed(cell))
    features, lengthscales = problems.hyperparameters(cell, rng)
    gp = GaussianProcessRegressor(SKLEARN[smoothness], alpha=cell.variance, optimizer=None)
    gp.fit(problem.X[:, features] / lengthscales, problem.y)
    mean, std = gp.predict(problem.X_new[:, features] / lengthscales, return_std=True)
    expected = np.sqrt(std**2 + cell.variance)  # of observations
    np.testing.assert_allclose(problem.variance**0.5, expected, rtol=1e-3)
    assert np.max(np.abs(problem.mean - mean) / expected) < 1e-3


def test_a_draw_is_standard_normal_under_its_own_law():
    """Whitened by the covariance of its rows, which are fewer than those it was drawn with."""
    cell = problems.Cell("matern52", 0.1, 3, 1000, False)
    problem = problems.draw(cell)
    features, lengthscales = problems.hyperparameters(cell, np.random.default_rng(problems.seed(cell)))
    L = np.linalg.cholesky(problems.covariance(cell, problem.X[:, features] / lengthscales))
    z = np.linalg.solve(L, problem.y)
    assert abs(z.mean()) < 4 / 1000**0.5
    assert abs(np.mean(z**2) - 1) < 4 * (2 / 1000) ** 0.5


def test_a_problem_that_was_kept_is_the_one_that_was_drawn(tmp_path):
    cell = problems.Cell("matern12", 0.01, 2, 100, True)
    first, second = problems.load(cell, tmp_path), problems.load(cell, tmp_path)
    for name, value in vars(problems.draw(cell)).items():
        np.testing.assert_array_equal(getattr(first, name), value)
        np.testing.assert_array_equal(getattr(second, name), value)


def test_the_rational_quadratic_is_next_to_the_two_smoothest():
    near = {name: [true for true in problems.PROFILES if grid.is_neighbour(true, name)] for name in KNOWN}
    assert near == KNOWN
    assert not any(grid.is_neighbour(true, "linear") for true in problems.PROFILES)


KNOWN = {
    "matern12": ["matern12", "matern32"],
    "matern32": ["matern12", "matern32", "matern52"],
    "matern52": ["matern32", "matern52", "rbf"],
    "rbf": ["matern52", "rbf"],
    "rationalquadratic": ["matern52", "rbf"],
}


def test_records_are_reused_for_the_same_kernel_only(tmp_path):
    """Also where it is the default, which may change; a fit that failed is run again."""
    path, mine = tmp_path / "records.jsonl", grid.named_settings(None, None)
    kept = [{"cell": "a", **mine}, {"cell": "b", "kernel": "other"}, {"cell": "c"}]
    kept += [{"cell": "d", **mine, "failed": "why"}, {"cell": "e", **mine, "budget": "9s"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in kept))
    assert list(grid.recorded(path, mine)) == ["a"]
    assert list(grid.recorded(path, grid.named_settings("other", None))) == ["b"]


def test_kernels_are_named_by_their_parts():
    assert kernel_names(2.0 * Matern12(0.3) + Linear(1.0)) == ["matern12", "linear"]
    assert kernel_names(RationalQuadratic(1.0)) == ["rationalquadratic"]

"""The examples run, and show what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from itergp import Status

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def run(monkeypatch, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    import matplotlib.pyplot as plt

    def run(name):
        found = runpy.run_path(str(EXAMPLES / f"plot_{name}.py"))
        assert plt.get_fignums(), "nothing was drawn"
        return found

    yield run
    plt.close("all")


def test_measuring_where_local_actions_leave_most_variance_beats_the_global_ones_and_chance(run):
    errors = {name: course for name, (_, course) in run("active_learning")["found"].items()}
    assert errors["local actions"][-1] < 0.85 * errors["global actions alone"][-1]
    assert errors["global actions alone"][-1] < 0.85 * errors["at random"][-1]


def test_draws_with_local_actions_find_the_minimum(run):
    regret = {name: above for name, (_, above) in run("bayesian_optimisation")["found"].items()}
    assert regret["local actions"].min() < 0.05 < regret["global actions alone"].min()
    assert regret["local actions"].mean() < 0.2 * regret["global actions alone"].mean()


def test_the_parts_of_the_first_fit_add_up_and_more_compute_removes_the_computational_one(run):
    found = run("first_fit")
    parts = found["parts"]
    np.testing.assert_allclose(parts.mathematical + parts.computational + parts.noise, found["std"] ** 2)
    assert found["share"] > 0.5
    after = found["model"].decompose(found["grid"][:, None])
    assert after.computational.sum() < 0.05 * parts.computational.sum()
    np.testing.assert_allclose(after.mathematical, parts.mathematical, rtol=1e-6)


def test_each_doubling_of_the_budget_lowers_the_computational_share(run):
    found = run("budgets")
    assert (np.diff(found["shares"]) < 0).all()
    assert found["errors"][-1] < 0.12 < found["errors"][0]
    assert found["by_residual"].status is Status.CONVERGED


def test_a_stream_knows_more_with_each_day_and_stays_exact(run):
    found = run("streaming")
    assert (np.diff([std.mean() for _, std in found["courses"]]) < 0).all()
    assert found["model"].status_ is Status.EXACT
    assert found["model"].posterior_.problem.n == 600


def test_what_is_defined_in_the_example_works_together(run):
    found = run("extending")
    posterior = found["posterior"]
    assert posterior.status is Status.CONVERGED
    assert abs(posterior.state.residual).max() < 0.15


def test_a_season_of_one_year_stays_one_year_and_gaps_are_within_their_intervals(run):
    pytest.importorskip("statsmodels")
    found = run("time_series")
    parts = [term.kernel for term in found["model"].kernel_.terms()]
    assert [part.period for part in parts if hasattr(part, "period")] == [1.0]
    rmse, coverage = found["scores"]["in the gaps"]
    assert rmse < 0.7  # ppm, of a series that rises by 50 and swings by 6
    assert coverage > 0.85


def test_a_table_with_holes_and_categories_is_predicted_far_better_than_by_its_mean(run):
    pytest.importorskip("palmerpenguins")
    found = run("messy_table")
    assert found["rmse"] < 0.45 * found["baseline"]
    assert 0.88 < found["coverage"] <= 1.0

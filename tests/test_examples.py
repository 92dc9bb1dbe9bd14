"""The examples run, and show what they say."""

import runpy
from pathlib import Path

import pytest

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


def test_measuring_where_the_variance_is_largest_beats_measuring_at_random(run):
    found = run("active_learning")
    assert found["active_errors"][-1] < 0.85 * found["random_errors"][-1]


def test_thompsons_rule_finds_the_minimum(run):
    found = run("bayesian_optimisation")
    assert found["found"][-1] - 0.397887 < 0.05 < found["at_random"][-1] - 0.397887

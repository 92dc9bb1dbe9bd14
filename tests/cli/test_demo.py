"""The demo on small data: its table is that of the library, and it ends with a report."""

import numpy as np

from itergp import Matern32, MaxActions, Prior, PseudoInput, condition
from itergp.cli.demonstration import FEATURES, NOISE, run
from itergp.datasets import synthetic


def test_the_demo_measures_what_the_library_computes_and_writes_a_report(tmp_path):
    rows, picture = run(400, budgets=(20, 50), page=tmp_path / "demo.html")
    assert picture is None
    X, y = synthetic(2400, FEATURES, NOISE)
    policy = PseudoInput(block_size=128)
    posterior = condition(Prior(1.0 * Matern32(0.7)), X[:400], y[:400], NOISE, policy, MaxActions(20))
    posterior = posterior.refine(stop=MaxActions(30))
    assert [row.actions for row in rows] == [20, 50]
    np.testing.assert_allclose(rows[-1].combined, posterior.var(X[400:]).mean(), rtol=1e-12)
    np.testing.assert_allclose(
        rows[-1].rmse, np.sqrt(np.mean((posterior.mean(X[400:]) - y[400:]) ** 2)), rtol=1e-12
    )
    assert "test points" in (tmp_path / "demo.html").read_text()

"""A section of the report is a measure, a drawing and one row of a table."""

import numpy as np

from itergp import IterGPRegressor
from itergp.fitted import predictions
from itergp.report import numbers, sections
from itergp.report.measure import numbers as measure
from itergp.report.measure.rounding import Table, rounded
from itergp.report.page import page, parts
from itergp.report.page.page import render
from itergp.report.sections import SECTIONS, Section

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (60, 2))
Y = X.sum(axis=1) + 0.1 * RNG.standard_normal(60)


def largest(subject):
    return {"x": np.abs(subject.posterior.problem.X).max(axis=0)}


def above(target):
    return float((target.y > target.means[-1]).mean())


def drawn(values):
    rows = [[parts.name(one["name"]), parts.number(one["above"])] for one in values["targets"]]
    return parts.table("Above", ["target", "above its mean"], rows)


def test_one_row_of_the_table_is_a_section(monkeypatch):
    row = Section(
        "above", "Above the mean", drawn, "Should be a half.", {"largest": largest}, {"above": above}
    )
    for module in (measure, page, sections):
        monkeypatch.setattr(module, "SECTIONS", (*SECTIONS, row))
    fit = IterGPRegressor(noise=0.05, learn=False, budget="9 actions").fit(X[:40], Y[:40]).fit_
    values = numbers(fit, X[40:], Y[40:])
    assert len(values["largest"]["x"]) == 2
    assert values["targets"][0]["above"] == np.mean(Y[40:] > predictions.mean(fit, X[40:]))
    text = render(values)
    assert '<h2 id="h-above">Above the mean</h2><p class="help">Should be a half.</p>' in text
    assert "above its mean" in text
    assert '"largest"' not in text  # no figure needs it


def test_sections_have_names_of_their_own():
    keys = [section.key for section in SECTIONS]
    names = [name for section in SECTIONS for name in (*section.numbers, *section.of_target)]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)


def test_only_a_table_is_rounded_by_column():
    rows = [{"year": 2001.25, "size": 1e-7}, {"year": 2001.5, "size": 2e-7}]
    assert rounded(Table(rows)) == rows
    assert rounded(rows) == [{"year": 2001.2, "size": 1e-7}, {"year": 2001.5, "size": 2e-7}]
    nested = Table({"at": {"x": 101325.25 + i}} for i in range(3))
    assert [row["at"]["x"] for row in rounded(nested)] == [101325.25, 101326.25, 101327.25]

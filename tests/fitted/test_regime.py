"""A fit says in one sentence which computation was chosen, and why."""

import pytest

from helpers import make_data
from itergp import IterGPRegressor
from itergp.fitted.regime import regime
from itergp.report.page.card import facts

DATA = make_data(60)


def fitted(**how):
    return IterGPRegressor("matern32", learn=False, noise=0.05, **how).fit(DATA.X, DATA.y)


@pytest.mark.parametrize(
    ("how", "start"),
    [
        ({}, "All 60 rows were acted on"),
        ({"budget": "7 actions"}, "Blocks of actions, each by a pass over all pairs of rows: 60 rows"),
        ({"budget": "0 actions"}, "No action was taken"),
        ({"policy": "cg", "budget": "7 actions"}, "The actions are those of the policy that was given."),
    ],
)
def test_the_sentence_says_what_was_done(how, start):
    model = fitted(**how)
    assert model.regime_.startswith(start)
    assert model.regime_.endswith(".")
    assert any(model.regime_ in text for _, text in facts(model.fit_))


def test_beyond_some_rows_it_is_unit_vectors_and_why(monkeypatch):
    for module in ("itergp.estimator.schedules", "itergp.fitted.regime"):
        monkeypatch.setattr(f"{module}.PASS_ROWS", 50)
    for module in ("itergp.estimator.schedules", "itergp.solver.schedule"):
        monkeypatch.setattr(f"{module}.EXACT_ROWS", 10)
    monkeypatch.setattr("itergp.solver.schedule.default_actions", lambda n: 16)
    monkeypatch.setattr("itergp.estimator.schedules.default_actions", lambda n: 16)
    model = fitted()
    assert regime(model.fit_) == (
        "Unit vectors of 16 random rows, in time and memory linear in the number of rows: of more than 50 "
        "rows, a pass over all pairs takes longer than it is worth."
    )
    assert model.posterior_.state.progress.passes == 0

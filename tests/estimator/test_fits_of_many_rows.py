"""An estimator with more rows than products are stored for does all that others do."""

import re
import tracemalloc

import numpy as np
import pytest

import itergp.linalg.compute
from helpers import make_data
from itergp import IterGPRegressor, MemoryLimitError, UnitVector
from itergp.estimator.budgets import Budget
from itergp.estimator.clock import Clock
from itergp.estimator.fitting import _require_room, stopping
from itergp.estimator.schedules import default_schedule
from itergp.linalg import products

ROWS, ACTIONS = 120, 24


@pytest.fixture
def many(monkeypatch):
    """So few rows count as many: more than passes are made over. Call it to store no products either."""
    monkeypatch.setattr("itergp.estimator.schedules.PASS_ROWS", 100)
    for module in ("itergp.estimator.schedules", "itergp.solver.schedule"):
        monkeypatch.setattr(f"{module}.EXACT_ROWS", 10)
    for module in ("itergp.estimator.schedules", "itergp.estimator.fitting"):
        monkeypatch.setattr(f"{module}.default_actions", lambda n: ACTIONS)

    def lean():
        monkeypatch.setattr(products, "LEAN_ROWS", 100)
        monkeypatch.setattr(products, "LEAST", 32)
        monkeypatch.setattr(products, "ENTRIES", 1)

    return lean


def fitted(y=None, X=None, **how):
    data = make_data(ROWS)
    X, y = data.X if X is None else X, data.y if y is None else y
    return IterGPRegressor("matern32", learn=False, noise=0.05, neighbours=5, **how).fit(X, y)


def everything(tmp_path):
    """Fits, and what may follow them: means and standard deviations of each."""
    data, out = make_data(ROWS), {}
    new = make_data(ROWS, seed=3)
    model = fitted()
    out["fit"] = model
    model.save(tmp_path / "m")
    out["loaded"] = IterGPRegressor.load(tmp_path / "m")
    out["more rows"] = IterGPRegressor.load(tmp_path / "m").partial_fit(new.X[:9], new.y[:9])
    out["known rows again"] = IterGPRegressor.load(tmp_path / "m").partial_fit(data.X[:9], new.y[:9])
    out["refined"] = IterGPRegressor.load(tmp_path / "m").refine("8 actions")
    out["with residuals"] = fitted(policy="cg", budget="6 actions")
    out["merged"] = fitted(np.tile(data.y, 2) + np.repeat([0.1, -0.1], ROWS), np.tile(data.X, (2, 1)))
    out["targets"] = fitted(np.stack([data.y, data.y**2], axis=1))
    out["checkpointed"] = fitted(checkpoint=tmp_path / "c")
    out["resumed"] = fitted(checkpoint=tmp_path / "c")
    return {name: (one, one.predict(data.X_new, return_std=True)) for name, one in out.items()}


def test_the_same_answers_as_with_stored_products(many, tmp_path):
    (tmp_path / "stored").mkdir()
    (tmp_path / "lean").mkdir()
    stored = everything(tmp_path / "stored")
    many()
    lean = everything(tmp_path / "lean")
    for name, (model, found) in lean.items():
        assert model.posterior_.state.basis.lean is (name != "with residuals"), name
        for one, other in zip(found, stored[name][1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7, err_msg=name)
    assert lean["resumed"][0].trace_.resumed_from == ACTIONS
    assert "KQ" not in (tmp_path / "lean" / "m").read_bytes()[:20_000].decode(errors="replace")


def test_blocks_of_many_rows_are_as_wide_as_the_clock_allows():
    assert default_schedule(10**7, Budget()).block_size == 128
    widths = [default_schedule(10**7, Budget(seconds=s)).block_size for s in (10.0, 120.0, 300.0, 3600.0)]
    assert widths[0] == 16
    assert widths[-1] == 128
    assert widths == sorted(widths)
    assert default_schedule(10**7, Budget(seconds=10.0)).order == "random"


def test_memory_does_not_limit_unit_vectors_of_many_rows(monkeypatch):
    monkeypatch.setattr("itergp.estimator.budgets.available_bytes", lambda: 2**30)
    clock = Clock(Budget(seconds=60.0))
    allowed = [
        stopping(clock, 10**7, policy).right.number  # type: ignore[attr-defined]
        for policy in (UnitVector("random"), "a dense one")
    ]
    assert allowed[0] == 512
    assert allowed[1] < 8


def test_rows_that_do_not_fit_are_refused_before_any_work_with_how_many_would(monkeypatch):
    monkeypatch.setattr(itergp.linalg.compute, "available_bytes", lambda: 10_000)
    with pytest.raises(MemoryLimitError, match=r"a fit of 120 rows of 2 features .* about 56 would fit"):
        fitted()


@pytest.mark.parametrize("available", [2e9, 8e9])
def test_as_many_rows_as_are_said_to_fit_are_not_refused(available, monkeypatch):
    """Also of more rows than are learned from."""
    monkeypatch.setattr(itergp.linalg.compute, "available_bytes", lambda: int(available))
    with pytest.raises(MemoryLimitError) as refused:
        _require_room(10**8, 5)
    most = int(re.search(r"about ([\d,]+) would fit", str(refused.value))[1].replace(",", ""))
    _require_room(most - 1, 5)
    with pytest.raises(MemoryLimitError, match="GB are available"):
        _require_room(most + 10, 5)


def test_what_was_seen_to_run_out_of_memory_is_refused_and_what_fits_is_not(monkeypatch):
    """Measured under `ulimit -v`: learning ended in a MemoryError with 0.345 GB, and the fit in a model with
    0.389 GB."""
    monkeypatch.setattr(itergp.linalg.compute, "available_bytes", lambda: 345_000_000)
    with pytest.raises(MemoryLimitError, match="a fit of 400,000 rows of 30 features"):
        _require_room(400_000, 30)
    monkeypatch.setattr(itergp.linalg.compute, "available_bytes", lambda: 389_000_000)
    _require_room(400_000, 30)


def test_a_number_of_actions_is_no_reason_for_passes(many):
    """Of many rows each pass would take minutes; who asks for passes, or names a policy, gets them."""
    by_count = fitted(budget="7 actions")
    assert (by_count.posterior_.rank, by_count.posterior_.state.progress.passes) == (7, 0)
    assert fitted(budget="1 pass").posterior_.state.progress.passes == 1
    assert fitted(policy="cg", budget="3 actions").posterior_.state.progress.passes == 3


def test_actions_that_do_not_fit_are_refused_before_learning(monkeypatch):
    monkeypatch.setattr(itergp.linalg.compute, "available_bytes", lambda: 100_000)
    monkeypatch.setattr("itergp.estimator.fitting.hyperparameters", lambda *_: pytest.fail("it learns"))
    with pytest.raises(MemoryLimitError, match=r"100 actions on 120 rows needs .*about \d+ would fit"):
        IterGPRegressor(budget="100 actions").fit(make_data(ROWS).X, make_data(ROWS).y)


def test_inputs_that_nobody_needs_are_scaled_in_place_to_the_same_bits():
    rng = np.random.default_rng(5)
    X, y = 3.0 + 2.0 * rng.standard_normal((1500, 3)), rng.standard_normal(1500)

    def fitted_to(X, overwrites):
        model = IterGPRegressor("matern32", learn=False, noise=0.1, budget="16 actions", neighbours=5)
        model._overwrites = overwrites
        return model.fit(X, y)

    own = X.copy()
    whole, in_place = fitted_to(X, False), fitted_to(own, True)
    for one, other in zip(*(m.predict(X[:50], return_std=True) for m in (whole, in_place)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.shares_memory(in_place.posterior_.problem.X, own)
    assert not np.shares_memory(whole.posterior_.problem.X, X)
    constant = np.column_stack([X, np.ones(len(X))])  # what `partial_fit` may need as it came
    fitted_to(constant, True)
    np.testing.assert_array_equal(constant[:, :3], X)


@pytest.mark.parametrize(("overwrites", "copies"), [(False, 2.9), (True, 2.0)])
def test_a_fit_of_many_rows_takes_few_copies_of_its_numbers(overwrites, copies, monkeypatch):
    """Beside the data: inputs in other units, and for each row targets, weights, residual and variance, which
    are there twice during a step."""
    monkeypatch.setattr(products, "LEAN_ROWS", 1000)
    monkeypatch.setattr(products, "ENTRIES", 2**12)
    monkeypatch.setattr("itergp.linalg.pieces.ROWS", 2**12)
    monkeypatch.setattr("itergp.data.spread.AT_ONCE", 2**12)
    monkeypatch.setattr("itergp.data.rows.AT_ONCE", 2**12)
    monkeypatch.setattr("itergp.prior.stationary.AT_ONCE", 2**12)
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((200_000, 5)), rng.standard_normal(200_000)
    model = IterGPRegressor(
        "matern32", learn=False, noise=0.1, policy=UnitVector("random", block_size=4), budget="8 actions"
    )
    model._overwrites = overwrites
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < copies * (X.nbytes + y.nbytes)

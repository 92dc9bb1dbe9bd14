"""`refine` and `partial_fit`: more computation and more data, without starting over."""

import numpy as np
import pytest

from helpers import make_data
from itergp import (
    RBF,
    BlockKrylov,
    InputError,
    IterGPRegressor,
    Linear,
    MaxActions,
    Prior,
    Status,
    UnitVector,
    condition,
)

DATA = make_data(200, seed=5)
AT = DATA.X_new


def given(**parameters):
    return IterGPRegressor(**{"noise": 0.05, "learn": False} | parameters)


def pieces(n, number=10):
    return np.array_split(np.arange(n), number)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", ["auto", "cg", "cholesky", "pseudo-input", "eigenvector", "random", "block-krylov"]
)
@pytest.mark.parametrize("n", [150, 2500], ids=["small", "large"])
def test_refining_twice_is_one_longer_run_bit_for_bit(policy, n):
    data = make_data(n)
    start = {"policy": policy, "neighbours": 3}
    twice = given(budget="20 actions", **start).fit(data.X, data.y).refine("13 actions").refine("30 actions")
    once = given(budget="20 actions", **start).fit(data.X, data.y).refine("43 actions")
    whole = given(budget="63 actions", **start).fit(data.X, data.y)
    assert twice.posterior_.rank == once.posterior_.rank == whole.posterior_.rank > 40
    for model in (once, whole):
        np.testing.assert_array_equal(twice.predict(AT, return_std=True), model.predict(AT, return_std=True))
        np.testing.assert_array_equal(
            twice.predict(AT, return_cov=True)[1], model.predict(AT, return_cov=True)[1]
        )


def test_refining_says_what_it_did():
    model = given(policy="cg", budget="5 actions").fit(DATA.X, DATA.y).refine("7 actions")
    assert len(model.trace_.steps) == 12
    assert model.status_ is Status.BUDGET
    assert model.timings_["total"] > 0
    exact = given().fit(DATA.X, DATA.y).refine()
    assert exact.status_ is Status.EXACT


def test_ten_pieces_are_one_batch_for_the_same_actions():
    """Each piece acts on its own rows: the unit vectors, in their order. So does one batch with all of
    them."""
    first, *rest = pieces(200)
    model = given(policy="cholesky").fit(DATA.X[first], DATA.y[first])
    for rows in rest:
        model.partial_fit(DATA.X[rows], DATA.y[rows])
    assert (model.posterior_.problem.n, model.posterior_.rank, model.status_) == (200, 200, Status.EXACT)
    scaling = model.scaling_
    batch = condition(
        Prior(model.kernel_),
        scaling.inputs(DATA.X),
        scaling.targets(DATA.y),
        0.05,
        UnitVector(block_size=64),
        MaxActions(200),
    )
    Z = scaling.inputs(AT)
    mean, std = model.predict(AT, return_std=True)
    np.testing.assert_allclose(mean, scaling.mean(batch.mean(Z)), atol=1e-9)
    np.testing.assert_allclose(std**2, scaling.variance(batch.var(Z) + 0.05), atol=1e-9)
    np.testing.assert_allclose(
        model.predict(AT, return_cov=True)[1], scaling.variance(batch.cov(Z) + 0.05 * np.eye(12)), atol=1e-9
    )


def test_ten_pieces_are_one_batch_where_the_first_acts_otherwise_and_not_on_everything():
    """The same actions: a few of the first piece's policy, then unit vectors of the rows that came later."""
    first, *rest = pieces(200)
    start = given(policy=BlockKrylov(7), budget="7 actions", neighbours=0).fit(DATA.X[first], DATA.y[first])
    actions = start.posterior_.actions
    start.budget = None
    for rows in rest:
        start.partial_fit(DATA.X[rows], DATA.y[rows])
    assert start.posterior_.rank == 7 + 180
    padded = np.zeros((200, 187))
    padded[:20, :7] = actions
    padded[np.arange(20, 200), np.arange(7, 187)] = 1.0
    batch = condition(
        Prior(start.kernel_),
        start.scaling_.inputs(DATA.X),
        start.scaling_.targets(DATA.y),
        0.05,
        lambda state: padded if state.proposed == 0 else None,
        MaxActions(187),
    )
    Z = start.scaling_.inputs(AT)
    mean, std = start.predict(AT, return_std=True)
    np.testing.assert_allclose(mean, start.scaling_.mean(batch.mean(Z)), atol=1e-8)
    np.testing.assert_allclose(std**2, start.scaling_.variance(batch.var(Z) + 0.05), atol=1e-8)


@pytest.mark.parametrize("targets", [None, 2])
def test_rows_that_are_known_merge_into_the_old_ones(targets):
    """Pieces in which rows repeat, within and across pieces: the exact GP on all rows, unmerged."""
    data = make_data(60, targets=targets)
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.arange(30), rng.integers(0, 60, 90)])
    X, y = data.X[rows], data.y[rows] + 0.1 * rng.standard_normal(data.y[rows].shape)
    model = given().fit(X[:30], y[:30])
    for piece in np.array_split(np.arange(30, 120), 9):
        model.partial_fit(X[piece], y[piece])
    assert model.posterior_.problem.n == len(np.unique(rows))
    assert model.row_counts_.sum() == 120
    assert model.status_ is Status.EXACT
    whole = condition(Prior(model.kernel_), model.scaling_.inputs(X), model.scaling_.targets(y), 0.05)
    Z = model.scaling_.inputs(AT)
    mean, std = model.predict(AT, return_std=True)
    np.testing.assert_allclose(mean, model.scaling_.mean(whole.mean(Z)), atol=1e-8)
    np.testing.assert_allclose(std**2, model.scaling_.variance(whole.var(Z) + 0.05), atol=1e-8)


def test_a_known_row_acts_again_where_it_had_no_action_of_its_own():
    model = given(policy="cg", budget="3 actions", neighbours=0).fit(DATA.X, DATA.y)
    before = model.predict(DATA.X[:1])
    model.partial_fit(DATA.X[:1], np.array([50.0]))
    assert model.posterior_.rank == 4
    assert model.posterior_.problem.n == 200
    np.testing.assert_array_equal(model.row_counts_[:3], [2, 1, 1])
    assert model.predict(DATA.X[:1]) > before + 1.0
    np.testing.assert_allclose(model.posterior_.problem.N[:2], [0.025, 0.05])


def test_without_merging_rows_are_appended_as_they_come():
    model = given(merge_duplicates=False).fit(DATA.X[:50], DATA.y[:50]).partial_fit(DATA.X[:20], DATA.y[:20])
    assert model.posterior_.problem.n == 70


def test_what_waits_of_a_block_does_not_take_the_place_of_the_new_rows():
    model = given(policy=BlockKrylov(12), budget="7 actions", neighbours=0).fit(DATA.X[:100], DATA.y[:100])
    assert model.posterior_.state.basis.size == 12
    model.partial_fit(DATA.X[100:107], DATA.y[100:107])
    assert model.posterior_.rank == 12 + 7
    assert model.posterior_.state.basis.spanned_rows()[100:].all()


def test_later_pieces_keep_scaling_and_hyperparameters():
    model = given().fit(DATA.X[:50], DATA.y[:50])
    kernel, scaling = model.kernel_, model.scaling_
    model.partial_fit(100 * DATA.X[50:], 100 * DATA.y[50:])
    assert model.kernel_ is kernel
    assert model.scaling_ is scaling


def test_the_budget_is_that_of_each_call():
    model = given(policy="cg", budget="10 actions").partial_fit(DATA.X[:50], DATA.y[:50])
    assert model.posterior_.rank == 10
    model.partial_fit(DATA.X[50:100], DATA.y[50:100])
    assert model.posterior_.rank == 20
    model.budget = "5s"
    model.partial_fit(DATA.X[100:], DATA.y[100:])
    assert model.posterior_.rank == 120
    assert model.refine("3 actions").posterior_.rank == 123


def test_nothing_compiles_after_the_first_pieces():
    """A kernel that only JAX's tiles serve, at a size where they are taken."""
    from itergp.linalg.engines import jax as _jax

    data = make_data(2600)
    model = given(kernel=RBF(0.5) * Linear(1.0) + RBF(0.3), budget="4 actions", policy="cg", neighbours=0)
    rows = pieces(2600, 13)
    model.fit(data.X[:2200], data.y[:2200])
    assert model.posterior_.problem.gram.engine.name == "jax"
    compiled = None
    for i, piece in enumerate(rows[11:] + pieces(2600, 26)[:6]):
        model.partial_fit(data.X[piece] + 1e-3 * (i + 1), data.y[piece])
        model.predict(AT)
        compiled = _jax._tile._cache_size() if i == 1 else compiled
    assert _jax._tile._cache_size() == compiled


def test_bad_pieces_leave_the_model_as_it_was():
    model = given().fit(DATA.X[:50], DATA.y[:50])
    mean, before = model.predict(AT), dict(vars(model))
    for X, y, what in (
        (DATA.X[50:, :1], DATA.y[50:], "features"),
        (DATA.X[50:] * np.nan, DATA.y[50:], "NaN"),
        (DATA.X[50:], DATA.y[50:-1], "inconsistent"),
        (DATA.X[50:], np.stack([DATA.y[50:]] * 2, axis=1), "targets"),
    ):
        with pytest.raises(InputError, match=what):
            model.partial_fit(X, y)
        assert dict(vars(model)) == before
    np.testing.assert_array_equal(model.predict(AT), mean)

"""A posterior at points: predictions there share one product with the test kernel, and one index of rows."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, dense, make_data
from itergp import (
    Compute,
    ConjugateGradient,
    InputError,
    IterGPRegressor,
    MaxActions,
    Prior,
    UnitVector,
    condition,
)
from itergp.linalg import gram
from itergp.linalg.engines import get
from itergp.posterior.at import At
from itergp.posterior.targets import TargetPosterior

DATA = make_data(60)
AT = DATA.X_new


class Counting(type(get("numpy"))):
    """The reference engine; counts products with the kernel between points and data."""

    def __init__(self):
        self.products = 0

    def product(self, kernel, X0, X1, *more):
        self.products += len(X0) == len(AT)
        return super().product(kernel, X0, X1, *more)


def after(number, policy=None, kernel="matern32", data=DATA, engine=None):
    policy, compute = policy or ConjugateGradient(), Compute(engine=engine or Counting())
    return condition(Prior(KERNELS[kernel]), data.X, data.y, 0.05, policy, MaxActions(number), compute)


def products(posterior, ask):
    """With the actions, for the weights, and with anything else: sparse actions need none of the engine."""
    engine, original, asked = posterior.problem.gram.engine, At.inner_products, 0

    def weights(at):
        nonlocal asked
        before, found = engine.products, original(at)
        assert engine.products - before <= 1
        engine.products, asked = before, asked + 1
        return found

    engine.products = 0
    with mock.patch.object(At, "inner_products", weights):
        ask(posterior)
    return engine.products + asked


@pytest.fixture
def trees(monkeypatch):
    """How many indices of rows were built so far."""
    built, index = [], gram.Index
    monkeypatch.setattr(gram, "Index", lambda F, *how: [built.append(F), index(F, *how)][1])
    return built


@pytest.mark.parametrize("policy", [ConjugateGradient(), UnitVector()], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.local(8).decompose(AT, "exact"),
        lambda p: p.local(8).decompose(AT, "estimate"),
        lambda p: p.local(8).decompose(AT, "estimate", 0),
        lambda p: p.local(8).decompose(AT, "certificate"),
        lambda p: p.decompose(AT, "estimate", 0),
        lambda p: p.certify(AT),
        lambda p: p.local(8).marginals(AT),
        lambda p: p.path(AT),
        lambda p: p.cov(AT),
        lambda p: p.var(AT),
    ],
)
def test_weights_at_points_are_computed_once(policy, ask):
    assert products(after(10, policy), ask) == 1


def test_what_is_asked_of_one_at_shares_its_weights():
    posterior = after(10)

    def everything(posterior):
        at = posterior.at(AT)
        at.var, at.path([1, 5]), at.local(5).var, at.local(20).decompose("estimate"), at.certify()

    assert products(posterior, everything) == 1


def test_mean_and_variance_of_one_local_at_cost_one_product():
    posterior = after(10)
    at = posterior.local(8).at(AT)
    assert products(posterior, lambda p: (at.mean, at.var, at.mean)) == 1
    at = posterior.at(AT)
    assert products(posterior, lambda p: (at.var, at.var, at.local(8).mean, at.path())) == 1
    assert products(posterior, lambda p: (at.mean, at.mean)) == 1  # with one column, the representer weights


@pytest.mark.parametrize(("neighbours", "expected"), [(8, 1), (0, 2)])
def test_the_estimator_predicts_from_one_at(neighbours, expected, trees):
    """Local means come from the weights; global ones from a product with one column."""
    how = {"noise": 0.05, "learn": False, "budget": "10 actions", "neighbours": neighbours}
    model = IterGPRegressor(kernel=KERNELS["matern32"], **how)
    K = model.fit(DATA.X, DATA.y).posterior_.problem.gram
    before = K.entries
    model.predict(AT, return_std=True)
    assert K.entries == before + expected * len(AT) * len(DATA.X)
    model.predict(AT, return_std=True)
    assert len(trees) == (neighbours > 0)


def test_targets_with_noises_of_their_own_share_the_products():
    data = make_data(60, targets=3)
    posterior = TargetPosterior(after(10, data=data), np.array([0.05, 0.1, 0.4]))
    assert products(posterior, lambda p: p.decompose(AT, "certificate")) == 1
    assert products(posterior, lambda p: p.local(8).decompose(AT, "estimate", 0)) == 1
    assert products(posterior, lambda p: p.path(AT)) == 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kernel", ["matern32", "sum", "linear-plus-constant"])
def test_weights_are_those_of_the_formula(policy, kernel):
    posterior = after(8, POLICIES[policy](), kernel)
    Q, problem = dense(posterior.actions), posterior.problem
    K = np.asarray(problem.prior.kernel(DATA.X, DATA.X))
    L = np.linalg.cholesky(Q.T @ (K + 0.05 * np.eye(60)) @ Q)
    expected = np.linalg.solve(L, Q.T @ np.asarray(problem.prior.kernel(DATA.X, AT)))
    at = posterior.at(AT)
    np.testing.assert_allclose(at.W, expected, atol=1e-7)
    np.testing.assert_array_equal(at.k0, problem.prior.var(AT))


def test_answers_do_not_depend_on_what_was_asked_before():
    """To the bit: mean and variance of one `at`, in any order, are those of the methods of the posterior."""
    posterior = after(10)
    for first in ("mean", "var", "marginals"):
        at = posterior.at(AT)
        getattr(at, first), at.local(7).var, at.certify()
        np.testing.assert_array_equal(at.mean, posterior.mean(AT))
        np.testing.assert_array_equal(at.var, posterior.var(AT))
        np.testing.assert_array_equal(at.local(7).mean, posterior.local(7).mean(AT))
        np.testing.assert_array_equal(at.path([10]).var[0], posterior.path(AT, [10]).var[0])
        np.testing.assert_array_equal(at.some(slice(3, 6)).var, posterior.var(AT)[3:6])


def test_inputs_are_checked_when_the_points_are_given():
    with pytest.raises(InputError, match="X has 1 features"):
        after(3).at(AT[:, :1])


def test_one_index_serves_all_searches_of_a_posterior(trees):
    posterior = after(6)
    assert not trees  # none before it is needed
    posterior.local(5).mean(AT)
    posterior.local(9).decompose(AT, "estimate")
    posterior.local(9).certify(AT)
    posterior.refine(stop=MaxActions(3)).local(4).var(AT)
    assert len(trees) == 1


def test_threads_share_one_index(trees):
    posterior = after(6)
    alone = after(6).local(5).var(AT)
    built = len(trees)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: posterior.local(5).var(AT), range(8)))
    assert len(trees) == built + 1
    assert all(np.array_equal(one, alone) for one in found)


def test_the_index_is_not_copied_to_other_processes(trees):
    posterior = after(6, engine="numpy")
    before = len(pickle.dumps(posterior))
    expected = posterior.local(5).var(AT)
    assert len(pickle.dumps(posterior)) == before
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.local(5).var(AT), expected)
    assert len(trees) == 2


def test_more_rows_have_an_index_of_their_own(trees):
    posterior = after(6)
    posterior.local(5).mean(AT)
    more = posterior.extend(AT[:4], DATA.y[:4])
    np.testing.assert_array_equal(more.local(1).at(AT[:4]).J[:, 0], np.arange(60, 64))
    assert len(trees) == 2

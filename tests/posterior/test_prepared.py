"""What predictions read of a posterior alone: right, made once, and left out of pickles."""

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import KERNELS, POLICIES, dense, make_data, row_noise
from itergp import Compute, ConjugateGradient, MaxActions, PrecisionWarning, Prior, UnitVector, condition
from itergp.linalg.gram import Gram
from itergp.posterior.at import At
from itergp.posterior.prepared import entries
from itergp.solver.problem import Problem

DATA = make_data(60)
AT = DATA.X_new
MIXED = UnitVector(order=np.array([3, 50, 17, 8]), block_size=2)


def after(number, policy, noise=0.05, **how):
    prior = Prior(KERNELS["matern32"])
    return condition(prior, DATA.X, DATA.y, noise, policy, MaxActions(number), Compute(**how))


def mixed(noise=0.05):
    """Sparse actions, then dense ones, and a column that waits."""
    return after(4, MIXED, noise).refine(ConjugateGradient(), MaxActions(3)).refine(MIXED, MaxActions(1))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [0.05, row_noise(60)], ids=["scalar", "per-row"])
def test_rows_of_the_products_are_those_of_the_whole_matrix(policy, noise):
    rows = np.array([0, 3, 8, 17, 59])
    for posterior in (after(6, POLICIES[policy](), noise), mixed(noise)):
        K_hat_Q = posterior.problem.K_hat() @ dense(posterior.actions)
        np.testing.assert_allclose(posterior._prepared.K_hat_Q(rows), K_hat_Q[rows], atol=1e-12)


def test_entries_of_rows_are_those_of_the_matrix():
    """Rows without entries, rows that come twice, and none at all."""
    Q = sp.random_array((40, 9), density=0.15, rng=np.random.default_rng(0), format="csr")
    for rows in (np.array([5, 0, 39, 5, 12]), np.arange(40), np.array([], dtype=np.intp)):
        out = np.zeros((rows.size, 9))
        where, column, entry = entries(Q, rows)
        out[where, column] = entry
        np.testing.assert_array_equal(out, Q.toarray()[rows])


@pytest.mark.parametrize("policy", POLICIES)
def test_weights_of_few_points_are_those_of_many(policy):
    posterior = after(6, POLICIES[policy]())
    X = np.random.default_rng(1).uniform(-1, 1, (69, 2))
    many, few = posterior.at(X).W, posterior.at(X[:32]).W
    np.testing.assert_allclose(few, many[:, :32], atol=1e-13)


def test_one_row_is_the_same_row_in_a_batch():
    """To the bit, for sparse actions and for none, with local ones and without."""
    X = np.random.default_rng(2).uniform(-1, 1, (300, 2))
    for number in (0, 6):
        for process in (after(number, MIXED), after(number, MIXED).local(9)):
            mean, variance = process.at(X).marginals
            for p in (0, 7, 299):
                alone = process.at(X[p : p + 1]).marginals
                assert alone[0][0] == mean[p]
                assert alone[1][0] == variance[p]


def test_a_mean_alone_computes_no_variance(monkeypatch):
    posterior = after(6, ConjugateGradient())
    expected = posterior.local(5).at(AT).marginals[0]

    def none(*_):
        raise AssertionError("a variance was computed")

    monkeypatch.setattr(At, "var", property(none))
    monkeypatch.setattr(Problem, "above_floor", none)
    np.testing.assert_array_equal(posterior.local(5).mean(AT), expected)
    with pytest.raises(AssertionError, match="a variance"):
        posterior.local(5).var(AT)


@pytest.mark.parametrize("kept", [0, 2**28], ids=["dropped", "kept"])
def test_weights_at_training_rows_are_those_of_the_formula_and_kept_if_they_are_small(monkeypatch, kept):
    """Rows that were asked for before are not solved for again, unless they were not kept; no bit differs."""
    monkeypatch.setattr("itergp.posterior.prepared.KEPT", kept)
    posterior, solved = mixed(), []
    solve = Gram.solve_lower
    monkeypatch.setattr(Gram, "solve_lower", lambda K, L, B: [solved.append(len(B)), solve(K, L, B)][1])
    rows, more = np.array([0, 3, 8, 17]), np.array([3, 4, 8, 59])
    first, second = posterior._prepared.weights(rows), posterior._prepared.weights(more)
    assert solved == ([4, 2] if kept else [4, 4])
    K_hat_Q = posterior.problem.K_hat() @ dense(posterior.actions)
    np.testing.assert_allclose(first @ posterior.state.L.T, K_hat_Q[rows], atol=1e-12)
    np.testing.assert_array_equal(second[[0, 2]], first[[1, 2]])
    np.testing.assert_array_equal(posterior._prepared.weights(rows), first)
    np.testing.assert_array_equal(mixed()._prepared.weights(more), second)


def test_the_least_possible_variance_is_summed_once(monkeypatch):
    """Also after a turn through a pickle, which does not hold it; and values below it are still raised."""
    problem = after(2, MIXED, row_noise(60)).problem
    k0 = np.full(3, 2.0)
    before = len(pickle.dumps(problem))
    expected = k0 / (1.0 + (problem.gram.diagonal() / row_noise(60)).sum())
    np.testing.assert_allclose(problem.variance_floor(k0), expected, rtol=1e-12)
    assert len(pickle.dumps(problem)) == before
    again = pickle.loads(pickle.dumps(problem))
    monkeypatch.setattr(type(problem.gram), "diagonal", None)
    np.testing.assert_array_equal(problem.variance_floor(k0), problem.variance_floor(k0))
    monkeypatch.undo()
    with pytest.warns(PrecisionWarning, match="3 variances"):
        np.testing.assert_allclose(again.above_floor(np.zeros(3), k0), expected, rtol=1e-12)


def test_what_is_prepared_is_left_out_of_pickles():
    posterior = mixed()
    before = pickle.dumps(posterior)
    expected = posterior.local(5).at(AT).marginals
    assert len(pickle.dumps(posterior)) == len(before)
    again = pickle.loads(pickle.dumps(posterior)).local(5).at(AT).marginals
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("policy", [MIXED, ConjugateGradient()], ids=["sparse", "dense"])
def test_threads_that_predict_at_once_find_what_one_finds(policy):
    expected = after(4, policy).local(7).at(AT).marginals
    posterior = after(4, policy)  # with nothing prepared yet
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: posterior.local(7).at(AT).marginals, range(40)))
    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_memory_does_not_grow_with_predictions():
    posterior = mixed()
    rng, process = np.random.default_rng(3), posterior.local(9)
    for _ in range(5):
        process.at(rng.uniform(-1, 1, (50, 2))).marginals  # noqa: B018 (computed, and dropped)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            process.at(rng.uniform(-1, 1, (50, 2))).marginals  # noqa: B018
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 50 * 9 * 8 * 8  # less than a hundredth of what these predictions held in turn

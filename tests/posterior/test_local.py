"""Local actions: each point has its own, on top of the global ones; k_* <= k_local <= k_i."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, POLICIES, combined, exact, make_data, most_informative, row_noise
from itergp import (
    RBF,
    Compute,
    ConjugateGradient,
    Constant,
    ConstantMean,
    InputError,
    Matern32,
    MaxActions,
    Prior,
    RandomAction,
    UnitVector,
    condition,
)
from itergp.linalg import index
from itergp.posterior import local

PRIOR, DATA, NOISE = Prior(KERNELS["matern32"]), make_data(60), 0.05
AT = DATA.X_new


def after(number, policy=None, noise=NOISE, data=DATA, prior=PRIOR, **how):
    return condition(
        prior, data.X, data.y, noise, policy or ConjugateGradient(), MaxActions(number), Compute(**how)
    )


def chosen(at, count, noise=NOISE):
    """The rows that say most about each point: all 60 are candidates."""
    N = np.broadcast_to(noise, 60)
    by_distance = [np.argsort(-PRIOR.cov(x[None], DATA.X)[0], kind="stable") for x in at]
    return [
        most_informative(PRIOR.kernel, x, DATA.X, N, J, count) for x, J in zip(at, by_distance, strict=True)
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [NOISE, row_noise(60)], ids=["scalar", "per-row"])
def test_marginals_are_the_posterior_for_the_points_own_actions(policy, noise):
    posterior = after(6, POLICIES[policy](), noise)
    mean, variance = posterior.local(5).marginals(AT)
    oracle = exact(PRIOR, DATA.X, DATA.y, noise, AT)
    Q, J = posterior.actions, chosen(AT, 5, noise)
    Q = Q.toarray() if hasattr(Q, "toarray") else Q
    for p in range(12):
        # some may be dependent
        actions = scipy.linalg.orth(np.concatenate([Q, np.eye(60)[:, J[p]]], axis=1), rcond=1e-9)
        _, expected, cov = combined(oracle, PRIOR, actions, AT)
        np.testing.assert_allclose(mean[p], expected[p], atol=1e-7)
        np.testing.assert_allclose(variance[p], cov[p, p], atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_local_variances_lie_between_exact_and_global_and_fall_with_neighbours(kernel, dtype):
    prior = Prior(KERNELS[kernel])
    posterior, oracle = after(6, prior=prior, dtype=dtype), exact(prior, DATA.X, DATA.y, NOISE, AT)
    slack = 1e-9 if dtype == "float64" else 1e-6
    previous = posterior.var(AT)
    for neighbours in (1, 5, 20, 60):
        variance = posterior.local(neighbours).var(AT)
        assert (variance <= previous + slack).all()
        assert (variance >= oracle.var - slack).all()
        previous = variance
    everything = posterior.local(1000)
    tolerance = 1e-7 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(everything.var(AT), oracle.var, atol=tolerance)
    np.testing.assert_allclose(everything.mean(AT), oracle.mean, atol=tolerance)


def test_without_global_actions_it_is_the_process_of_the_neighbours():
    marginals = after(0).local(4)
    for p, J in enumerate(chosen(AT, 4)):
        oracle = exact(PRIOR, DATA.X[J], DATA.y[J], NOISE, AT[p : p + 1])
        np.testing.assert_allclose(marginals.mean(AT[p : p + 1]), oracle.mean, atol=1e-9)
        np.testing.assert_allclose(marginals.var(AT[p : p + 1]), oracle.var, atol=1e-9)


def test_neighbours_are_the_same_by_tree_by_brute_force_and_by_correlation(monkeypatch):
    posterior = after(3, prior=Prior(2.0 * KERNELS["matern52"]))
    tree = posterior.problem.gram.nearest(AT, 7)
    monkeypatch.setattr(index, "TREE_FEATURES", 0)
    brute = after(3, prior=posterior.problem.prior).problem.gram.nearest(AT, 7)
    correlated = posterior.problem.gram._most_correlated(AT, 7)
    np.testing.assert_array_equal(tree, brute)
    np.testing.assert_array_equal(tree, correlated)


def test_neighbours_of_a_sum_in_one_metric_are_found_by_a_tree(monkeypatch):
    """The most correlated rows are the nearest ones, and not all rows are compared with."""
    posterior = after(3, prior=Prior(0.7 * Matern32(0.5) + 0.3 * RBF(0.4) + Constant(0.2)))
    correlated = posterior.problem.gram._most_correlated(AT, 7)
    monkeypatch.setattr(type(posterior.problem.gram), "_most_correlated", None)
    np.testing.assert_array_equal(posterior.problem.gram.nearest(AT, 7), correlated)


def test_kernels_without_a_metric_take_the_most_correlated_rows():
    prior = Prior(KERNELS["product"])
    posterior = after(3, prior=prior)
    J = posterior.problem.gram.nearest(AT, 7)
    correlation = np.abs(prior.cov(AT, DATA.X)) / np.sqrt(prior.var(DATA.X))
    np.testing.assert_array_equal(J, np.argsort(-correlation, axis=1, kind="stable")[:, :7])


def test_several_targets_have_local_means():
    data = make_data(60, targets=3)
    prior = Prior(PRIOR.kernel, ConstantMean([1.0, 2.0, 3.0]))
    posterior = after(6, data=data, prior=prior)
    np.testing.assert_allclose(
        posterior.local(60).mean(AT), exact(prior, data.X, data.y, NOISE, AT).mean, atol=1e-7
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("noise", [1e-6, 0.05])
def test_duplicates_and_points_at_the_data_do_no_harm(dtype, noise):
    X, y = np.repeat(DATA.X[:15], 4, axis=0), np.repeat(DATA.y[:15], 4)
    posterior = condition(PRIOR, X, y, noise, RandomAction(block_size=4), MaxActions(8), Compute(dtype))
    at = np.concatenate([X[:3], AT])
    mean, variance = posterior.local(10).marginals(at)
    oracle = exact(PRIOR, X, y, noise, at)
    assert np.isfinite(mean).all()
    assert (variance >= oracle.var - 1e-7).all()
    assert (variance <= posterior.var(at) + 1e-9).all()


def test_no_pass_over_the_kernel_matrix_is_made():
    posterior = after(6)
    before = posterior.problem.gram.passes
    posterior.local(10).marginals(AT)
    assert posterior.problem.gram.passes == before


def test_many_points_are_handled_in_batches(monkeypatch):
    marginals = after(6).local(5)
    mean, variance = marginals.marginals(AT)
    monkeypatch.setattr("itergp.posterior.at.WEIGHTS", 1)
    monkeypatch.setattr("itergp.posterior.at.LEAST", 5)
    assert len(marginals.at(AT)._batches()) == 3
    again = marginals.marginals(AT)
    np.testing.assert_array_equal(again[0], mean)
    np.testing.assert_array_equal(again[1], variance)


def test_decomposition_and_certificate_hold_for_local_marginals(monkeypatch):
    posterior = after(6)
    marginals, oracle = posterior.local(8), exact(PRIOR, DATA.X, DATA.y, NOISE, AT)
    truth = marginals.var(AT) - oracle.var
    np.testing.assert_allclose(marginals.decompose(AT).computational, truth, atol=1e-9)
    for method in ("estimate", "certificate"):
        parts = marginals.decompose(AT, method)
        np.testing.assert_array_equal(parts.combined, marginals.var(AT))
        assert (parts.computational_lower <= truth + 1e-9).all()
        assert (parts.computational_upper >= truth - 1e-9).all()
    certificate = marginals.certify(AT)
    assert (certificate.variance_lower <= oracle.var + 1e-10).all()
    assert (certificate.variance_upper >= oracle.var - 1e-10).all()
    assert (np.abs(marginals.mean(AT) - oracle.mean) <= certificate.mean_error + 1e-10).all()
    with pytest.raises(InputError, match="method"):
        marginals.decompose(AT, "guess")


def test_local_actions_on_unit_vectors_that_are_taken_change_nothing():
    posterior = after(60, UnitVector())
    marginals = posterior.local(9)
    np.testing.assert_allclose(marginals.var(AT), posterior.var(AT), atol=1e-9)
    np.testing.assert_allclose(marginals.mean(AT), posterior.mean(AT), atol=1e-7)


def test_rows_are_chosen_among_the_nearest_ones(monkeypatch):
    """With as many candidates as neighbours they are the nearest; with more, others that say more."""
    posterior, m = after(3), 7
    nearest = posterior.problem.gram.nearest(AT, 25)
    monkeypatch.setattr(local, "CANDIDATES", 25)
    of_25 = posterior.local(m).at(AT)
    for p in range(len(AT)):
        J = most_informative(PRIOR.kernel, AT[p], DATA.X, np.full(60, NOISE), nearest[p], m)
        np.testing.assert_array_equal(of_25.J[p], J)
    monkeypatch.setattr(local, "CANDIDATES", m)
    np.testing.assert_array_equal(posterior.local(m).at(AT).J, nearest[:, :m])


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_between_lines_neighbours_come_from_both_sides(engine, monkeypatch):
    """The nearest rows of a point between flight lines lie on one of them; those chosen lie on several, and
    lower the variance more."""
    if engine == "native":
        pytest.importorskip("itergp.linalg.engines.native.engine", reason="the native engine was not built")
    rng = np.random.default_rng(0)
    line, along = rng.integers(6, size=3000), rng.uniform(0, 2, 3000)
    X, at = np.column_stack([along, 0.2 * line]), np.column_stack([rng.uniform(0, 2, 20), np.full(20, 0.47)])
    posterior = condition(
        Prior(KERNELS["matern32"]),
        X,
        np.sin(X.sum(axis=1)),
        1e-4,
        UnitVector(),
        MaxActions(4),
        Compute(engine=engine),
    )
    chosen = posterior.local(30).at(at)
    assert min(len(set(line[J])) for J in chosen.J) >= 2
    monkeypatch.setattr(local, "CANDIDATES", 30)
    nearest = posterior.local(30).at(at)
    assert max(len(set(line[J])) for J in nearest.J) == 1
    assert (chosen.var < nearest.var).all()
    assert chosen.var.sum() < 0.5 * nearest.var.sum()


def test_more_neighbours_contain_fewer_also_beyond_the_candidates(monkeypatch):
    monkeypatch.setattr(local, "CANDIDATES", 20)
    posterior, before = after(3), [set() for _ in AT]
    for m in (1, 5, 19, 20, 21, 40, 60):
        rows = [set(J) for J in posterior.local(m).at(AT).J]
        assert all(len(found) == m and found >= fewer for found, fewer in zip(rows, before, strict=True))
        before = rows

"""Rows with identical inputs become one: the same Gaussian process, likelihood included."""

import numpy as np
import pytest

from helpers import KERNELS, data_folder, exact
from itergp import IterGPRegressor, LinearMean, MaxActions, Prior, UnitVector, condition
from itergp.data.rows import _digests, merge_rows, unmerged

NOISE = 0.07


def repeated(n=60, distinct=17, targets=None, seed=0):
    """Rows that repeat, at random; the first column says which they are, and some are zero in both signs."""
    rng = np.random.default_rng([seed, n])
    places = rng.uniform(-1, 1, (distinct, 2))
    places[0] = 0.0
    X = places[rng.integers(0, distinct, n)]
    X[X == 0.0] *= rng.choice([-1.0, 1.0], (X == 0.0).sum())
    y = (
        np.sin(3 * X.sum(axis=1))
        if targets is None
        else np.outer(np.sin(3 * X.sum(axis=1)), np.arange(1, targets + 1))
    )
    return X, y + 0.3 * rng.standard_normal(y.shape), rng.uniform(-1, 1, (9, 2))


@pytest.mark.parametrize("kernel", ["matern32", "rbf", "product"])
def test_the_merged_process_is_the_unmerged_one_likelihood_included(kernel):
    X, y, X_new = repeated()
    prior = Prior(KERNELS[kernel], LinearMean([0.3, -0.2], 0.1))
    merged = merge_rows(X, y)
    assert len(merged.X) < len(X)
    oracle = exact(prior, X, y, NOISE, X_new)
    posterior = condition(
        prior, merged.X, merged.y, merged.noise(NOISE), UnitVector(block_size=8), MaxActions(len(X))
    )
    np.testing.assert_allclose(posterior.mean(X_new), oracle.mean, atol=1e-9)
    np.testing.assert_allclose(posterior.cov(X_new), oracle.cov, atol=1e-9)
    # the ELBO is the log likelihood at rank n
    assert posterior.state.elbo - merged.within(NOISE)[0] == pytest.approx(oracle.log_likelihood, rel=1e-9)


def test_several_targets_share_the_groups():
    X, y, X_new = repeated(targets=2)
    prior = Prior(KERNELS["matern32"])
    merged = merge_rows(X, y)
    oracles = [exact(prior, X, y[:, j], NOISE, X_new) for j in (0, 1)]
    posterior = condition(prior, merged.X, merged.y, merged.noise(NOISE))
    np.testing.assert_allclose(
        posterior.mean(X_new), np.stack([oracle.mean for oracle in oracles], axis=1), atol=1e-9
    )
    likelihood = sum(oracle.log_likelihood for oracle in oracles)
    assert posterior.state.elbo - merged.within(NOISE)[0] == pytest.approx(likelihood, rel=1e-9)


def test_the_estimator_predicts_the_same_merged_or_not():
    X, y, X_new = repeated()
    models = [
        IterGPRegressor(learn=False, noise=NOISE, merge_duplicates=merge).fit(X, y) for merge in (True, False)
    ]
    (mean, std), (expected, expected_std) = (model.predict(X_new, return_std=True) for model in models)
    np.testing.assert_allclose(mean, expected, atol=1e-9)
    np.testing.assert_allclose(std, expected_std, atol=1e-9)
    assert [model.posterior_.problem.n for model in models] == [17, 60]


def test_groups_are_in_the_order_of_first_appearance_and_zero_has_no_sign():
    X = np.array([[2.0], [0.0], [2.0], [1.0], [-0.0]])
    y = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    merged = merge_rows(X, y)
    np.testing.assert_array_equal(merged.X, [[2.0], [0.0], [1.0]])
    np.testing.assert_array_equal(merged.y, [2.0, 4.0, 4.0])
    np.testing.assert_array_equal(merged.counts, [2, 2, 1])
    assert merged.scatter == 2.0 + 8.0


def test_rows_that_arrive_later_merge_as_if_they_had_come_together():
    X, y, _ = repeated(targets=2, seed=3)
    together, merged = merge_rows(X, y), merge_rows(X[:20], y[:20])
    for start in (20, 30, 45):
        stop = {20: 30, 30: 45, 45: 60}[start]
        before, merged = merged, merged.absorb(X[start:stop], y[start:stop])
        alone = merged.counts[: len(before.X)] == before.counts
        np.testing.assert_array_equal(merged.y[: len(before.X)][alone], before.y[alone])  # to the bit
    np.testing.assert_array_equal(merged.X, together.X)
    np.testing.assert_array_equal(merged.counts, together.counts)
    np.testing.assert_allclose(merged.y, together.y, rtol=1e-12)
    assert merged.scatter == pytest.approx(together.scatter, rel=1e-12)


def test_distinct_rows_stay_as_they_are():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    merged = merge_rows(X, y)
    assert merged.scatter == 0.0
    assert merged.noise(0.3) == 0.3
    np.testing.assert_array_equal(merged.X, X)
    np.testing.assert_array_equal(merged.y, y)
    assert merged.within(0.3) == (0.0, 0.0)
    assert len(unmerged(X[[0, 0]], y[[0, 0]]).X) == 2


@pytest.mark.data
def test_on_kegg_undirected_it_removes_71_percent_of_the_rows():
    table = np.loadtxt(data_folder() / "keggundirected.csv.gz", delimiter=",")
    merged = merge_rows(table[:, :-1], table[:, -1])
    assert 1.0 - len(merged.X) / len(table) == pytest.approx(0.71, abs=0.005)


def test_rows_whose_digests_are_the_same_by_chance_stay_apart(monkeypatch):
    X, y, _ = repeated()
    expected = merge_rows(X, y)
    monkeypatch.setattr("itergp.data.rows._digests", lambda X: np.zeros(len(X), dtype=np.uint64))
    found = merge_rows(X, y)
    for name in ("X", "y", "counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize(
    "values", [[0.0, 1.0], [-1.0, 0.0, 0.5, 3.0], np.arange(30.0), 1e6 + np.arange(40.0)], ids=len
)
def test_digests_of_rows_on_a_grid_hardly_ever_agree(values):
    d = {2: 14, 4: 7, 30: 3, 40: 3}[len(values)]
    X = np.stack(np.meshgrid(*[values] * d), axis=-1).reshape(-1, d)
    assert len(np.unique(_digests(X))) == len(X)


def test_copies_of_records_are_learned_from_once():
    """Inputs and targets are equal: entered twice, or without noise."""
    X, y, _ = repeated()
    once = merge_rows(X, y)
    again = merge_rows(np.concatenate([X, X[:1] + 5.0, X[:1] + 5.0]), np.append(y, [0.4, 0.4]))
    np.testing.assert_array_equal(np.flatnonzero(again.copied), [once.n])
    assert again.counts[-1] == 2  # predictions count both
    learned = again.to_learn_from()
    np.testing.assert_array_equal(learned.counts, [*once.counts, 1])
    assert learned.within(NOISE) == pytest.approx(once.within(NOISE))
    # a third record at that place, with another target: there is scatter, so they are no copies
    more = merge_rows(np.concatenate([X, np.repeat(X[:1] + 5.0, 3, axis=0)]), np.append(y, [0.4, 0.4, 0.9]))
    assert more.copied is None


def test_observations_that_agree_by_rounding_say_no_more_than_their_rounding():
    """Where y takes few values, they are no copies: deviations have the variance of noise and rounding."""
    X, y, _ = repeated(n=600, distinct=150)
    rows = merge_rows(np.concatenate([X, X[:9]]), np.rint(2 * np.append(y, y[:9])) / 2)
    assert rows.copied is None
    assert rows.resolution == pytest.approx(0.5**2 / 12)
    best = min(np.geomspace(1e-9, 1.0, 400), key=lambda noise: rows.within(noise)[0])
    assert best == pytest.approx(rows.scatter / (rows.total - rows.n) - 0.5**2 / 12, rel=0.05)
    step = 1e-6
    slope = (rows.within(0.1 + step)[0] - rows.within(0.1 - step)[0]) / (2 * step)
    assert rows.within(0.1)[1] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("kind", ["continuous", "binary", "four times each"])
def test_records_that_were_entered_again_do_not_change_the_noise(kind):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (150, 4))
    signal = np.sin(3 * X[:, 0])
    y = (rng.uniform(size=150) < 1 / (1 + np.exp(-3 * signal))) * 1.0 if kind == "binary" else signal
    y = y if kind == "binary" else y + 0.7 * rng.standard_normal(150)
    copies = np.repeat(np.arange(150), 4) if kind == "four times each" else np.r_[np.arange(150), :5]
    clean = IterGPRegressor().fit(X, y)
    again = IterGPRegressor().fit(X[copies], y[copies])
    assert again.noise_ == pytest.approx(clean.noise_, rel=0.5)

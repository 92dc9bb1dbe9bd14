"""Held-out rows: predicted as by dense formulas, and what they say about variances is cautious."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

from itergp.data.rows import Rows
from itergp.learning.heldout import FEW, MANY, HeldOut, LeaveOut, Scores, blocks
from itergp.learning.run import OutOfTime
from itergp.prior.stationary import RBF, Matern32

KERNEL = 1.3 * Matern32(np.array([0.7, 1.4]))


def some_rows(n, seed=0, targets=1, counts=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, [0]]) + 0.3 * rng.standard_normal((n, targets))
    return Rows.of(X, y[:, 0] if targets == 1 else y, rng.integers(1, 4, n) if counts else None)


def exact(known, held, noise):
    """Mean and variance of new observations, by dense formulas."""
    K = KERNEL(known.X, known.X) + np.diag(noise / known.counts)
    k = KERNEL(known.X, held.X)
    variance = KERNEL.diagonal(held.X) - np.einsum("ij,ij->j", k, np.linalg.solve(K, k))
    return k.T @ np.linalg.solve(K, known.Y), variance + noise / held.counts


def test_few_rows_are_predicted_by_the_exact_gp_of_the_others():
    held = HeldOut.split(some_rows(120, counts=True), None, seed=3, compute=HeldOut.compute)
    assert held.rows.n == 24
    mean, variance = exact(held.known, held.rows, 0.2)
    found = held.scores(KERNEL, 0.2)
    np.testing.assert_allclose(found.errors, held.rows.Y - mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.variances[:, 0], variance, rtol=1e-6)


def test_each_target_is_predicted_with_its_own_noise():
    held = HeldOut.split(some_rows(80, targets=2), None, seed=3, compute=HeldOut.compute)
    found = held.scores(KERNEL, np.array([0.1, 0.4]))
    for j, noise in enumerate((0.1, 0.4)):
        mean, variance = exact(held.known, held.rows, noise)
        np.testing.assert_allclose(found.errors[:, j], (held.rows.Y - mean)[:, j], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.variances[:, j], variance, rtol=1e-6)


def test_many_rows_are_predicted_by_some_global_actions_and_the_nearest_rows(monkeypatch):
    """With unit vectors as actions, that is the exact GP of the rows acted on, point by point."""
    rows = some_rows(400)
    some = HeldOut.split(rows, None, seed=1, compute=HeldOut.compute)
    held = HeldOut(some.known, some.rows, some.compute, some.seed, actions=30)
    all_of_them = some.scores(KERNEL, 0.2)
    monkeypatch.setattr("itergp.learning.heldout.EXACT_ROWS", 100)
    monkeypatch.setattr("itergp.posterior.local.CANDIDATES", 10)  # so that the nearest are chosen
    found = held.scores(KERNEL, 0.2, neighbours=10)
    assert (found.variances >= all_of_them.variances - 1e-9).all()
    scale = np.array([0.7, 1.4])
    acted = np.sort(np.random.default_rng([some.seed, 2]).permutation(some.known.n)[:30])
    for i in range(5):
        near = np.argsort((((some.known.X - some.rows.X[i]) / scale) ** 2).sum(axis=1))[:10]
        mean, variance = exact(some.known.some(np.union1d(acted, near)), some.rows.some(np.array([i])), 0.2)
        assert found.errors[i, 0] == pytest.approx(some.rows.Y[i, 0] - mean[0, 0], rel=1e-5, abs=1e-7)
        assert found.variances[i, 0] == pytest.approx(variance[0], rel=1e-5)


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(8), 5)])
def test_rows_left_out_in_turn_are_predicted_as_by_a_refit_without_them(groups):
    rows = some_rows(40, counts=True)  # too few for blocks
    found = LeaveOut(rows, groups).scores(KERNEL, 0.2)
    for i in range(rows.n):
        out = np.array([i]) if groups is None else np.flatnonzero(groups == groups[i])
        known = rows.some(np.setdiff1d(np.arange(rows.n), out))
        mean, variance = exact(known, rows.some(np.array([i])), 0.2)
        assert found.errors[i, 0] == pytest.approx(rows.Y[i, 0] - mean[0, 0], rel=1e-7, abs=1e-9)
        assert found.variances[i, 0] == pytest.approx(variance[0], rel=1e-7)


def test_groups_are_held_out_as_a_whole_and_never_all_of_them():
    groups = np.repeat(np.arange(7), [300, 5, 5, 5, 5, 40, 40])
    rows = some_rows(400)
    for seed in range(10):
        held = HeldOut.split(rows, groups, seed, HeldOut.compute)
        of = [
            groups[np.flatnonzero((rows.X[:, None] == part.X).all(axis=2).any(axis=1))]
            for part in (held.known, held.rows)
        ]
        assert set(of[1]).isdisjoint(of[0])
        assert of[0].size
        assert of[1].size


def test_blocks_are_rows_that_are_near_each_other():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    X = np.repeat(centres, 50, axis=0) + rng.standard_normal((200, 2))
    found = blocks(X)
    assert len(np.unique(found)) == 4
    assert all(len(np.unique(found[i : i + 50])) == 1 for i in range(0, 200, 50))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 600), st.floats(0.01, 100.0), st.integers(0, 10**6))
def test_intervals_hold_after_rescaling_and_variances_never_shrink(n, size, seed):
    errors = size * np.random.default_rng(seed).standard_normal((n, 1))
    scores = Scores(errors, np.ones((n, 1)))
    factor = scores.factor
    assert factor >= 1.0
    if n < FEW:
        assert factor == 1.0
    else:
        doubt = 0.0 if n >= MANY else (0.95 * 0.05 / n) ** 0.5
        assert scores.rescaled(factor).coverage >= 0.95 - doubt - 1.0 / n


def test_an_interval_that_ends_at_a_count_has_it_inside():
    """Of 200 rows 20 have the count 1, all others 0: it ended at 0.99999999, and held 84 % of new rows."""
    errors = np.where(np.arange(200) < 20, 1.0, 0.0)[:, None] - 0.05
    found = Scores(errors, np.full((200, 1), 0.01))
    after = found.rescaled(found.factor)
    assert norm.ppf(0.975) * after.variances[0, 0] ** 0.5 > 0.95
    assert norm.ppf(0.975) * after.variances[0, 0] ** 0.5 < 0.9501


def test_right_variances_stay_about_as_they_are():
    factors = [
        Scores(np.random.default_rng(seed).standard_normal((500, 1)), np.ones((500, 1))).factor
        for seed in range(50)
    ]
    assert np.median(factors) < 1.1
    assert max(factors) < 1.4


def test_the_worst_of_several_right_targets_widens_no_more_than_a_single_one():
    def widened(targets):
        draws = (np.random.default_rng([seed, targets]).standard_normal((400, targets)) for seed in range(80))
        return float(np.median([Scores(z, np.ones(z.shape)).factor for z in draws]))

    assert widened(5) <= widened(1) + 0.03


def test_a_prediction_that_is_not_finite_has_the_worst_density():
    scores = Scores(np.array([[1.0], [np.nan]]), np.ones((2, 1)))
    assert scores.densities[1] < -1e9
    assert scores.factor == 1.0


def test_densities_are_those_of_the_normal_distribution():
    from scipy.stats import norm

    scores = Scores(np.array([[0.3, -2.0]]), np.array([[0.5, 4.0]]))
    expected = norm.logpdf(0.3, scale=0.5**0.5) + norm.logpdf(-2.0, scale=2.0)
    assert scores.densities[0] == pytest.approx(expected)
    assert HeldOut.split(some_rows(50), None, 0, HeldOut.compute).scores(
        1.0 * RBF(1.0), 0.1
    ).densities.shape == (10,)


def test_in_space_half_of_the_held_out_rows_lie_in_gaps():
    """They are farther from the known rows than single ones; with more features there are none."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (3000, 2))
    held = HeldOut.split(Rows.of(X, X[:, 0]), None, 0, HeldOut.compute)
    distance = np.sort(((held.rows.X[:, None] - held.known.X) ** 2).sum(axis=2).min(axis=1) ** 0.5)
    assert held.rows.n == 600
    assert np.median(distance[300:]) > 3 * np.median(distance[:300])
    wide = HeldOut.split(Rows.of(rng.uniform(0, 1, (3000, 4)), X[:, 0]), None, 0, HeldOut.compute)
    assert wide.known.n == 2400


def test_beyond_a_hundred_thousand_rows_more_are_held_out():
    """A difference of log densities with heavy tails is seen by thousands of rows, not by hundreds. In space
    they would be of the same gaps."""
    X = np.random.default_rng(0).standard_normal((100_001, 4))
    few, many, in_space = (
        HeldOut.split(Rows.of(of, of[:, 0]), None, 0, HeldOut.compute) for of in (X[1:], X, X[:, :3])
    )
    assert (few.rows.n, many.rows.n, many.known.n) == (500, 2000, 98_001)
    assert in_space.rows.n == 500


def test_rows_of_a_gap_count_as_one_in_standard_errors():
    rng = np.random.default_rng(0)
    clusters = np.concatenate([np.full(40, -1), np.repeat(np.arange(30), 20)])

    def draw():
        return np.concatenate([rng.standard_normal(40), np.repeat(rng.standard_normal(30), 20)])

    means, values = [draw().mean() for _ in range(4000)], draw()
    found = Scores(np.ones((640, 1)), np.ones((640, 1)), clusters).error(values)
    assert found == pytest.approx(np.std(means), rel=0.3)
    assert Scores(np.ones((640, 1)), np.ones((640, 1))).error(values) < 0.5 * found


def test_in_space_rows_are_left_out_alone_and_in_blocks():
    rows = some_rows(120)
    both, groups = LeaveOut(rows).scores(KERNEL, 0.2), blocks(rows.X)
    apart = LeaveOut(rows, groups).scores(KERNEL, 0.2)
    np.testing.assert_allclose(both.variances[120:], apart.variances)
    assert (both.variances[120:] >= both.variances[:120] - 1e-12).all()


def test_predictions_of_held_out_rows_ask_the_clock_between_blocks_of_actions():
    """One factorisation for each noise takes seconds at 2,000 rows: the clock ends it within 512 actions."""
    rng = np.random.default_rng(0)
    rows = Rows.of(rng.uniform(-1, 1, (1500, 2)), rng.standard_normal((1500, 2)))
    asked = 0

    def tick():
        nonlocal asked
        asked += 1
        if asked == 3:
            raise OutOfTime

    held = replace(HeldOut.split(rows, None, 0, HeldOut.compute), tick=tick)
    with pytest.raises(OutOfTime):
        held.scores(KERNEL, np.array([0.1, 0.2]))
    asked = 3
    held.scores(KERNEL, np.array([0.1, 0.2]))
    assert asked - 3 >= 2 * held.known.n // 512

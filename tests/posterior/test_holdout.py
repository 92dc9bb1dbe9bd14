"""Held-out predictions without a refit are those of a posterior that never had the rows of the fold."""

import numpy as np
import pytest

from helpers import KERNELS, POLICIES, dense, make_data, most_informative, row_noise
from itergp import RBF, Compute, LinearMean, Matern32, MaxActions, Prior, UnitVector, condition
from itergp.data.rows import merge_rows
from itergp.linalg.columns import Columns
from itergp.posterior import holdout
from itergp.posterior.holdout import (
    WithoutFold,
    exact_variance_without,
    exact_without,
    prefix,
    products,
    with_targets,
)
from itergp.posterior.uncertainty import dense_factor
from itergp.storage import load, save

N, RANK = 36, 12
F = np.array([3, 10, 11, 29])
OUTSIDE = np.setdiff1d(np.arange(N), F)
MEAN = LinearMean([0.3, -0.2], 0.1)


def without(prior, X, y, noise, S, F):
    """The batch formula (Prop. S3) on the rows outside F, for the actions S without their rows F: mean,
    variance at F."""
    rest = np.setdiff1d(np.arange(len(X)), F)
    noise = np.broadcast_to(noise, len(X))
    K = np.asarray(prior.kernel(X, X))
    S = S[rest]
    C = (
        S
        @ np.linalg.pinv(
            S.T @ (K[np.ix_(rest, rest)] + np.diag(noise[rest])) @ S, rcond=1e-11, hermitian=True
        )
        @ S.T
    )
    k = K[np.ix_(rest, F)]
    b = y[rest] - prior.mean(X)[rest] if y.ndim == 1 else y[rest] - prior.mean(X)[rest, None]
    mean = prior.mean(X)[F] if y.ndim == 1 else prior.mean(X)[F, None]
    return mean + k.T @ (C @ b), np.diag(K)[F] - np.einsum("nf,nm,mf->f", k, C, k)


@pytest.mark.parametrize("kernel", ["matern32", "sum", "linear-plus-constant"])
@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("noise", [0.05, row_noise(N)], ids=["one noise", "noise per row"])
def test_the_path_is_that_of_the_actions_with_the_rows_of_the_fold_set_to_zero(kernel, policy, noise):
    data, prior = make_data(N), Prior(KERNELS[kernel], MEAN)
    posterior = condition(prior, data.X, data.y, noise, POLICIES[policy](), MaxActions(RANK))
    found = WithoutFold.of(posterior, F).path(np.array([0, 1, 5, posterior.rank]))
    for i, rank in enumerate((0, 1, 5, posterior.rank)):
        mean, variance = without(prior, data.X, data.y, noise, dense(posterior.actions)[:, :rank], F)
        np.testing.assert_allclose(found.mean[i], mean, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(found.var[i], variance, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("policy", ["unit-sequential", "cg", "pseudo-input", "schedule"])
@pytest.mark.parametrize("targets", [None, 2])
def test_local_actions_are_unit_vectors_of_the_rows_outside_the_fold_that_say_most(policy, targets):
    data, prior, noise = make_data(N, targets=targets), Prior(KERNELS["matern52"], MEAN), row_noise(N)
    posterior = (
        condition(prior, data.X, data.y, noise, POLICIES[policy](), MaxActions(RANK))
        if targets is None
        else condition(
            Prior(KERNELS["matern52"]), data.X, data.y, noise, POLICIES[policy](), MaxActions(RANK)
        )
    )
    prior = posterior.problem.prior
    mean, variance = WithoutFold.of(posterior, F).local(5)
    metric = np.array([0.5, 0.9])
    for i, row in enumerate(F):
        distance = (((data.X[OUTSIDE] - data.X[row]) / metric) ** 2).sum(axis=1)
        J = most_informative(
            prior.kernel, data.X[row], data.X, posterior.problem.N, OUTSIDE[np.argsort(distance)], 5
        )
        S = np.column_stack([dense(posterior.actions), np.eye(N)[:, J]])
        expected, spread = without(prior, data.X, data.y, noise, S, F)
        np.testing.assert_allclose(mean[i], expected[i], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(variance[i], spread[i], rtol=1e-6, atol=1e-6)


def test_merged_duplicates_are_held_out_together():
    data, prior, noise = make_data(N), Prior(Matern32(0.6), MEAN), 0.05
    X, y = (
        np.concatenate([data.X, data.X[:20], data.X[:6]]),
        np.concatenate([data.y, data.y[:20] + 0.1, data.y[:6] - 0.2]),
    )
    merged = merge_rows(X, y)
    posterior = condition(
        prior, merged.X, merged.y, merged.noise(noise), POLICIES["pseudo-input"](), MaxActions(RANK)
    )
    found = WithoutFold.of(posterior, F).path(np.array([RANK]))
    # the same actions on all rows: each copy has its share of the action on the row that stands for it
    group = np.array([np.flatnonzero((x == merged.X).all(axis=1))[0] for x in X])
    S = dense(posterior.actions)[group] / merged.counts[group][:, None]
    copies = np.flatnonzero(np.isin(group, F))
    mean, variance = without(prior, X, y, noise, S, copies)
    first = [np.flatnonzero(group[copies] == row)[0] for row in F]
    np.testing.assert_allclose(found.mean[0], mean[first], rtol=1e-7)
    np.testing.assert_allclose(found.var[0], variance[first], rtol=1e-7)


@pytest.mark.parametrize("policy", ["unit-random", "cg", "pseudo-input", "random"])
def test_nearly_as_many_actions_as_rows_leave_some_of_them_dependent(policy):
    data, prior = make_data(N), Prior(KERNELS["matern12"], MEAN)
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES[policy](), MaxActions(N - 2))
    fold = WithoutFold.of(posterior, F)
    mean, variance = without(prior, data.X, data.y, 0.05, dense(posterior.actions), F)
    found = fold.path(np.array([posterior.rank]))
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.var[0], variance, rtol=1e-5, atol=1e-6)
    assert posterior.rank > N - F.size  # so at least two of them are


@pytest.mark.parametrize("noise", [0.05, row_noise(N)], ids=["one noise", "noise per row"])
def test_the_exact_gaussian_process_without_the_fold(noise):
    data, prior = make_data(N), Prior(KERNELS["matern32"], MEAN)
    expected, spread = without(prior, data.X, data.y, noise, np.eye(N), F)
    exact = condition(prior, data.X, data.y, noise)
    mean, variance = exact_without(exact, F)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    np.testing.assert_allclose(variance, spread, rtol=1e-9)
    partial = condition(prior, data.X, data.y, noise, POLICIES["cg"](), MaxActions(4))
    np.testing.assert_allclose(exact_variance_without(partial, dense_factor(partial), F), spread, rtol=1e-9)


def test_every_row_but_one_can_be_held_out():
    data, prior = make_data(N), Prior(KERNELS["matern32"], MEAN)
    posterior = condition(prior, data.X, data.y, 0.05, POLICIES["pseudo-input"](), MaxActions(RANK))
    fold = WithoutFold.of(posterior, np.arange(1, N))
    mean, variance = without(prior, data.X, data.y, 0.05, np.eye(N), np.arange(1, N))  # one row, one action
    np.testing.assert_allclose(fold.path(np.array([RANK])).mean[0], mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(fold.local(60)[1], variance, rtol=1e-6)


def test_without_actions_it_is_the_prior():
    data, prior = make_data(N), Prior(KERNELS["matern32"], MEAN)
    posterior = condition(prior, data.X, data.y, 0.05, stop=MaxActions(0))
    found = WithoutFold.of(posterior, F).path(np.array([0]))
    np.testing.assert_array_equal(found.mean[0], prior.mean(data.X[F]))
    np.testing.assert_array_equal(found.var[0], prior.var(data.X[F]))


def test_single_precision_products_change_held_out_predictions_by_no_more_than_the_others():
    data, prior = make_data(400), Prior(KERNELS["matern32"], MEAN)
    rows = np.arange(0, 400, 9)
    both = []
    for dtype in ("float32", "float64"):
        posterior = condition(
            prior, data.X, data.y, 0.05, POLICIES["pseudo-input"](), MaxActions(40), Compute(dtype)
        )
        both.append(WithoutFold.of(posterior, rows).path(np.array([40])))
    np.testing.assert_allclose(both[0].mean, both[1].mean, atol=2e-3)
    np.testing.assert_allclose(both[0].var, both[1].var, atol=2e-3)


@pytest.mark.parametrize("policy", ["cg", "pseudo-input", "unit-random"])
def test_a_prefix_is_the_posterior_with_so_many_actions(policy):
    data, prior = make_data(N), Prior(KERNELS["matern32"], MEAN)
    whole = condition(prior, data.X, data.y, row_noise(N), POLICIES[policy](), MaxActions(RANK))
    short = condition(prior, data.X, data.y, row_noise(N), POLICIES[policy](), MaxActions(5))
    cut = prefix(whole, 5)
    for found, expected in ((cut, short), (cut.local(4), short.local(4))):
        np.testing.assert_allclose(found.mean(data.X_new), expected.mean(data.X_new), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.var(data.X_new), expected.var(data.X_new), rtol=1e-9)


@pytest.mark.parametrize("rank", [N, N - 2])  # without and with K Q
def test_targets_follow_from_what_a_file_keeps_for_predictions(rank, tmp_path):
    data, prior = make_data(N, targets=2), Prior(KERNELS["matern32"])
    posterior = condition(prior, data.X, data.y, row_noise(N), UnitVector(block_size=5), MaxActions(rank))
    save(tmp_path / "model", posterior, refinable=False)
    lost = load(tmp_path / "model")[0]
    assert isinstance(lost.state.basis.KQ, Columns) == (rank < N)
    found = with_targets(lost)
    np.testing.assert_allclose(found.problem.b, data.y, atol=1e-12)
    np.testing.assert_allclose(found.problem.y, data.y, atol=1e-12)
    np.testing.assert_allclose(products(found, F), products(posterior, F), atol=1e-12)
    assert found.status is posterior.status
    assert with_targets(posterior) is posterior


def dependent_together(n, r, F, rng):
    """r orthonormal actions whose parts outside F are dependent together, though hardly one by one."""
    towards = 0.6 ** (np.arange(r) / 2.0) * rng.choice([-1.0, 1.0], (F.size, r))
    inside = np.linalg.qr(towards.T)[0].T  # orthonormal rows: all of e_F is in the span
    outside = np.linalg.svd(inside)[2][F.size :]
    Q = np.zeros((n, r))
    Q[F] = inside
    Q[np.setdiff1d(np.arange(n), F)] = (
        np.linalg.qr(rng.standard_normal((n - F.size, r - F.size)))[0] @ outside
    )
    return Q


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize(("rank", "fold"), [(70, 5), (70, 1), (95, 10)])
@pytest.mark.parametrize("kernel", [RBF(3.0), RBF(0.5), Matern32(0.3)], ids=["smooth", "rbf", "matern32"])
def test_actions_that_the_fold_makes_dependent_together_do_not_move_the_mean(
    kernel, rank, fold, noise, dtype
):
    """The refit from the rows outside, with the actions' rows F zero and directions without length left
    out; same tau."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(100, 2))
    K = kernel(X, X)
    y = np.linalg.cholesky(K + 1e-9 * np.eye(100)) @ rng.standard_normal(
        100
    ) + 3 * noise**0.5 * rng.standard_normal(100)
    F = np.sort(rng.permutation(100)[:fold])
    rest, S = np.setdiff1d(np.arange(100), F), dependent_together(100, rank, F, rng)
    policy = lambda state: S[:, state.proposed : state.proposed + 10]  # noqa: E731
    posterior = condition(Prior(1.0 * kernel), X, y, noise, policy, MaxActions(rank), Compute(dtype))
    Q = dense(posterior.actions)
    lengths, directions = np.linalg.svd(Q[rest], full_matrices=False)[1:]
    assert lengths[-1] < 1e-6
    B = directions[lengths > 1e-3].T
    S = (Q[rest] @ B).astype(np.longdouble)
    G = S.T @ (K[np.ix_(rest, rest)] + noise * np.eye(rest.size)) @ S + B.T @ (
        posterior.state.tau[: posterior.rank, None] * B
    )
    k, b = S.T @ K[np.ix_(rest, F)], S.T @ y[rest]
    weights = np.linalg.solve(G.astype(np.float64), k.astype(np.float64))
    mean, variance = weights.T @ b.astype(np.float64), 1.0 - (weights * k).sum(axis=0).astype(np.float64)
    found = WithoutFold.of(posterior, F).path(np.array([posterior.rank]))
    np.testing.assert_array_less(np.abs(found.mean[0] - mean), np.sqrt(variance + noise))
    np.testing.assert_allclose(found.var[0] + noise, variance + noise, rtol=0.1)


def test_folds_share_the_rows_of_products_that_their_points_are_near_to(monkeypatch):
    """Each row is multiplied out once, and every fold predicts as it does alone."""
    data, folds = make_data(200), np.array_split(np.random.default_rng(5).permutation(200), 10)
    posterior = condition(Prior(Matern32(0.5)), data.X, data.y, 0.05, POLICIES["cg"](), MaxActions(RANK))
    folds = [np.sort(F) for F in folds]
    alone = [WithoutFold.of(posterior, F).local(20) for F in folds]
    made, real = [], holdout.products
    monkeypatch.setattr(holdout, "products", lambda p, rows: made.append(rows) or real(p, rows))
    near = [fold.local(20) for fold in holdout.without_folds(posterior, folds)]
    near_rows = np.concatenate([rows for rows in made if not any(np.array_equal(rows, F) for F in folds)])
    assert np.unique(near_rows).size == near_rows.size > 150
    for one, together in zip(alone, near, strict=True):
        np.testing.assert_array_equal(one, together)


def test_folds_of_large_problems_keep_nothing_and_predict_the_same(monkeypatch):
    data = make_data(N)
    posterior = condition(Prior(Matern32(0.5)), data.X, data.y, 0.05, POLICIES["cg"](), MaxActions(RANK))
    kept = WithoutFold.of(posterior, F).local(8)
    monkeypatch.setattr(holdout, "KEPT", 0)
    np.testing.assert_array_equal(WithoutFold.of(posterior, F).local(8), kept)

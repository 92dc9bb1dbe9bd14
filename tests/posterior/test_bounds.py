"""Bounds on the exact GP's variance from a few passes: they hold whatever the tiles, the actions and the
budget are."""

import numpy as np
import pytest
import scipy.linalg

from helpers import KERNELS, PAIRS, POLICIES, exact, make_data, row_noise
from itergp import (
    RBF,
    Compute,
    ConjugateGradient,
    InputError,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    RandomAction,
    Status,
    UnitVector,
    condition,
)
from itergp.posterior import bounds, uncertainty
from itergp.posterior.holdout import WithoutFold
from itergp.posterior.local import LocalPosterior

PRIOR, NOISE = Prior(KERNELS["matern32"]), 0.05
DATA = make_data(60)
AT = DATA.X_new


@pytest.fixture(autouse=True)
def beyond_the_exact_gp(monkeypatch):
    """So that all data count as too many for a dense factorisation."""
    monkeypatch.setattr(uncertainty, "DENSE_ROWS", 10)


def after(number, policy=None, noise=NOISE, data=DATA, prior=PRIOR, **how):
    return condition(
        prior, data.X, data.y, noise, policy or ConjugateGradient(), MaxActions(number), Compute(**how)
    )


def holds(parts, truth, slack):
    assert not parts.exact
    assert (parts.computational_lower <= truth + slack).all()
    assert (truth <= parts.computational_upper + slack).all()
    np.testing.assert_array_equal(parts.computational, parts.computational_lower)
    np.testing.assert_allclose(parts.mathematical + parts.computational, parts.combined, rtol=1e-12)


@pytest.mark.parametrize(
    ("noise", "dtype"),
    [(1e-4, "float32"), (NOISE, "float64"), (row_noise(60), "float32")],
    ids=["little", "scalar", "per-row"],
)
@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_the_truth_lies_between_the_bounds_at_every_point(kernel, policy, noise, dtype):
    """For the global and for local posteriors, few actions and many, and any number of passes; tiles in
    either precision."""
    prior = Prior(KERNELS[kernel])
    oracle = exact(prior, DATA.X, DATA.y, noise, AT)
    slack = 1e-15 * np.linalg.cond(oracle.K_hat)  # to which the oracle itself is known
    for actions in (0, 8, 40):
        posterior = after(actions, POLICIES[policy](), noise, prior=prior, dtype=dtype)
        for process in (posterior, posterior.local(4)):
            truth = process.var(AT) - oracle.var
            for passes in (0, 1, 4):
                holds(process.decompose(AT, passes=passes), truth, slack)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "shape", [("rbf", 0.01, 30), ("matern12", 0.05, 60), ("matern32", 1e-3, 60), ("periodic", 0.01, 20)]
)
def test_a_few_passes_show_nearly_all_of_the_computational_part(shape, dtype):
    kernel, noise, actions = shape
    data, prior = make_data(600, new=40), Prior(KERNELS[kernel])
    posterior = condition(
        prior, data.X, data.y, noise, RandomAction(block_size=actions), MaxActions(actions), Compute(dtype)
    )
    truth = posterior.var(data.X_new) - exact(prior, data.X, data.y, noise, data.X_new).var
    parts = posterior.decompose(data.X_new)
    assert 0.98 * truth.sum() < parts.computational.sum()
    assert parts.computational_upper.sum() < 1.1 * truth.sum()
    assert np.corrcoef(parts.computational, truth)[0, 1] > 0.998


def test_more_passes_give_closer_bounds():
    data = make_data(600, new=40)
    process = condition(PRIOR, data.X, data.y, 0.01, RandomAction(block_size=20), MaxActions(20)).local(3)
    found = [process.decompose(data.X_new, passes=passes) for passes in (2, 4, 8)]
    lower, upper = zip(*(parts.share_bounds for parts in found), strict=True)
    assert list(lower) == sorted(lower)
    assert list(upper) == sorted(upper, reverse=True)
    assert upper[-1] - lower[-1] < 0.1 * (upper[0] - lower[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_points_share_the_passes_that_were_asked_for(dtype, monkeypatch):
    posterior = after(8, dtype=dtype)
    gram = posterior.problem.gram
    for passes in (0, 1, 3):
        before = gram.passes
        posterior.decompose(AT, passes=passes)
        assert gram.passes - before == passes
    monkeypatch.setattr(bounds, "POINTS", 5)  # 12 points are 3 blocks then
    before = gram.passes
    parts = posterior.decompose(AT, passes=3)
    assert gram.passes - before == 9
    holds(parts, parts.combined - exact(PRIOR, DATA.X, DATA.y, NOISE, AT).var, 1e-9)


def test_bounds_rest_on_the_last_product_alone(monkeypatch):
    """Tiles that are wrong by far more than their precision make the bounds wider, not wrong."""
    posterior = after(8, dtype="float32")
    oracle = exact(PRIOR, DATA.X, DATA.y, NOISE, AT)
    multiply = posterior.problem.gram.multiply
    monkeypatch.setattr(posterior.problem.gram, "multiply", lambda V: 1.05 * multiply(V))
    holds(posterior.decompose(AT, passes=4), posterior.var(AT) - oracle.var, 1e-9)


def test_without_noise_only_the_lower_bound_says_something():
    posterior = after(8, noise=0.0)
    truth = posterior.var(AT) - exact(PRIOR, DATA.X, DATA.y, 1e-12, AT).var
    parts = posterior.decompose(AT, passes=8)
    np.testing.assert_allclose(parts.computational_upper, parts.combined)
    assert (parts.computational_lower <= truth + 1e-6).all()
    assert parts.computational.sum() > 0.5 * truth.sum()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_duplicates_without_noise_do_no_harm(dtype):
    """K is singular: there is no exact GP to be had, and what is said is still no more than what can be
    removed."""
    X, y = np.repeat(DATA.X[:15], 4, axis=0), np.repeat(DATA.y[:15], 4)
    posterior = condition(PRIOR, X, y, 0.0, RandomAction(block_size=4), MaxActions(8), Compute(dtype))
    truth = posterior.var(AT) - exact(PRIOR, X[::4], y[::4], 1e-10, AT).var
    for process in (posterior, posterior.local(10)):
        parts = process.decompose(AT, passes=10)
        assert (parts.computational_lower <= truth + 1e-6).all()
        assert (parts.mathematical >= 0).all()


def test_the_share_and_its_bounds_are_sums_over_the_points():
    parts = after(8).decompose(AT, passes=2)
    total = parts.combined.sum()
    assert parts.share == pytest.approx(parts.computational.sum() / total)
    assert parts.share_bounds == pytest.approx(
        (parts.computational_lower.sum() / total, parts.computational_upper.sum() / total)
    )


@pytest.mark.parametrize("passes", ["1", -1, 2.5])
def test_passes_are_counted(passes):
    with pytest.raises(InputError, match="passes is"):
        after(8).decompose(AT, passes=passes)


# Rounding is computational.


@pytest.mark.parametrize("rows", [4096, 10], ids=["exact", "between bounds"])
def test_rounding_is_reported_where_there_are_as_many_actions_as_rows(rows, monkeypatch):
    """With float32 products a posterior of rank n is still above the exact GP: that is the computational
    part."""
    monkeypatch.setattr(uncertainty, "DENSE_ROWS", rows)
    noise, prior, at = 1e-4, Prior(RBF(1.0)), np.random.default_rng(3).uniform(-1, 1, (12, 2))
    posterior = after(60, RandomAction(block_size=20), noise, prior=prior, dtype="float32")
    assert posterior.status is Status.EXACT
    truth = posterior.var(at) - exact(prior, DATA.X, DATA.y, noise, at).var
    assert truth.sum() > 0.02 * posterior.var(at).sum()
    parts = posterior.decompose(at)
    assert parts.exact == (rows > 60)
    np.testing.assert_allclose(parts.computational.sum(), truth.sum(), rtol=0.02)
    assert (parts.computational_lower <= truth + 1e-10).all()
    assert (truth <= parts.computational_upper + 1e-10).all()
    share = posterior.computational_share(at, probes=100)
    assert (
        abs(share.estimate - truth.sum() / posterior.var(at).sum())
        <= share.half_width(0.999) + share.bias_bound
    )
    assert share.estimate > 0.01


def test_in_float64_as_many_actions_as_rows_leave_nothing_and_cost_nothing():
    posterior = after(60)
    entries, before = posterior.problem.gram.entries, posterior.var(AT)
    used = posterior.problem.gram.entries - entries
    parts = posterior.decompose(AT)
    assert posterior.problem.gram.entries == entries + 2 * used  # those of the variance
    assert parts.exact
    np.testing.assert_array_equal(parts.computational, np.zeros(12))
    np.testing.assert_array_equal(parts.mathematical, before)


# Rows held out.


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("policy", ["cg", "unit-pivoted", "pseudo-input", "schedule"])
def test_bounds_hold_for_rows_outside_a_fold(policy, dtype):
    posterior = after(12, POLICIES[policy](), dtype=dtype)
    F = np.arange(3, 60, 7)
    outside, which = np.setdiff1d(np.arange(60), F), np.array([0, 2, 5, 6])
    truth = exact(PRIOR, DATA.X[outside], DATA.y[outside], NOISE, DATA.X[F[which]]).var
    fold, gaps = WithoutFold.of(posterior, F), []
    for neighbours, passes in ((0, 1), (4, 1), (4, 4), (60, 1)):
        found = fold.variance_bounds(neighbours, passes, which)
        assert (found.lower <= truth + 1e-10).all()
        assert (truth <= found.upper + 1e-10).all()
        gaps.append((found.upper - found.lower).sum())
    assert gaps[2] < 0.5 * gaps[1]
    np.testing.assert_allclose(fold.variance_bounds(4, 1, which).upper, fold.local(4, which)[1], atol=1e-4)
    np.testing.assert_allclose(fold.variance_bounds(60, 1, which).upper, truth, atol=1e-4)


def test_weights_of_local_posteriors_give_their_means():
    posterior = after(8)
    for neighbours in (0, 5):
        process = posterior.local(neighbours) if neighbours else LocalPosterior(posterior, 0)
        g, J, g_J = process.at(AT).weights()
        C = np.asarray(posterior.actions) @ g
        C[J, np.arange(12)[:, None]] += g_J
        expected = process.mean(AT) if neighbours else posterior.mean(AT)
        np.testing.assert_allclose(C.T @ DATA.y, expected, atol=1e-9)


# The sizes for which this is made.


def test_beyond_the_rows_of_a_dense_factorisation(monkeypatch):
    """4,200 rows, all defaults, so tiles in float32; the exact GP by LAPACK on a matrix of NumPy."""
    monkeypatch.undo()
    n, length, noise = 4200, 0.7, 0.003
    rng = np.random.default_rng(0)
    X, T = rng.uniform(-1, 1, (n, 3)), rng.uniform(-1, 1, (40, 3))
    y = np.sin(3 * X.sum(axis=1))
    posterior = condition(
        Prior(1.0 * Matern32(length)), X, y, noise, PseudoInput(block_size=300), MaxActions(300)
    )
    assert posterior.problem.gram.dtype == np.float32

    def kernel(A, B):
        r = np.sqrt(3 * ((A[:, None] - B[None]) ** 2).sum(axis=2)) / length
        return (1 + r) * np.exp(-r)

    K_hat = np.concatenate([kernel(X[i : i + 300], X) for i in range(0, n, 300)])
    K_hat[np.diag_indices(n)] += noise
    L = scipy.linalg.cholesky(K_hat, lower=True, overwrite_a=True)
    variance = 1.0 - (scipy.linalg.solve_triangular(L, kernel(X, T), lower=True) ** 2).sum(axis=0)
    for process in (posterior, posterior.local(10)):
        truth = process.var(T) - variance
        parts = process.decompose(T)
        holds(parts, truth, 1e-9)
        assert parts.computational.sum() > 0.95 * truth.sum()
        assert parts.computational_upper.sum() < 1.3 * truth.sum()
    true = 1.0 - variance.sum() / posterior.var(T).sum()
    share = posterior.computational_share(T, probes=16)
    assert abs(share.estimate - true) <= share.half_width(0.999) + share.bias_bound
    assert share.half_width() < 0.1 * true


def test_unit_vectors_have_no_rounding_to_report():
    """Their products are in float64 whatever the tiles are."""
    posterior = after(60, UnitVector(), dtype="float32")
    parts = posterior.decompose(AT)
    assert parts.exact
    np.testing.assert_array_equal(parts.computational, np.zeros(12))

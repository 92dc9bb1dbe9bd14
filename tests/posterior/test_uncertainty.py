"""How far from the exact Gaussian process: exactly, estimated, or certified; never mixed up."""

import numpy as np
import pytest
import scipy.stats

from helpers import KERNELS, POLICIES, exact, make_data, row_noise
from itergp import (
    BlockKrylov,
    Compute,
    ConjugateGradient,
    InputError,
    MaxActions,
    Prior,
    PseudoInput,
    RandomAction,
    Status,
    condition,
)
from itergp.posterior import uncertainty

PRIOR, DATA, NOISE = Prior(KERNELS["matern32"]), make_data(60), 0.05
AT = DATA.X_new


def after(number, policy=None, noise=NOISE, data=DATA, **how):
    return condition(
        PRIOR, data.X, data.y, noise, policy or ConjugateGradient(), MaxActions(number), Compute(**how)
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [NOISE, row_noise(60)], ids=["scalar", "per-row"])
def test_the_parts_add_up_and_bounds_hold_the_truth(policy, noise):
    posterior = after(8, POLICIES[policy](), noise)
    truth = posterior.var(AT) - exact(PRIOR, DATA.X, DATA.y, noise, AT).var
    for method in ("exact", "estimate", "certificate"):
        parts = posterior.decompose(AT, method)
        assert parts.exact == (method == "exact")
        np.testing.assert_array_equal(parts.combined, posterior.var(AT))
        np.testing.assert_allclose(parts.mathematical + parts.computational, parts.combined, rtol=1e-14)
        assert (parts.computational >= 0).all()
        assert (parts.mathematical > 0).all()
        assert (parts.computational_lower <= truth + 1e-9).all()
        assert (parts.computational_upper >= truth - 1e-9).all()
    np.testing.assert_allclose(posterior.decompose(AT, "exact").computational, truth, atol=1e-9)
    estimate, certificate = posterior.decompose(AT, "estimate"), posterior.decompose(AT, "certificate")
    assert (estimate.computational_lower >= certificate.computational_lower).all()


def test_the_automatic_method_is_exact_for_small_data_and_an_estimate_beyond(monkeypatch):
    posterior = after(8)
    assert posterior.decompose(AT).exact
    monkeypatch.setattr(uncertainty, "DENSE_ROWS", 10)
    assert not posterior.decompose(AT).exact
    whole = after(60)
    assert whole.status is Status.EXACT
    assert whole.decompose(AT).exact
    np.testing.assert_array_equal(whole.decompose(AT).computational, np.zeros(12))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("noise", [1e-4, 0.05, 1.0])
@pytest.mark.parametrize("targets", [None, 3])
def test_certificates_hold_the_exact_process(dtype, noise, targets):
    data = make_data(60, targets=targets)
    zero = Prior(PRIOR.kernel, lambda X: np.zeros(len(X)) if targets is None else np.zeros((len(X), targets)))
    oracle = exact(zero, data.X, data.y, noise, AT)
    for number in (0, 5, 20, 60):
        posterior = after(number, BlockKrylov(7), noise, data, dtype=dtype)
        certificate = posterior.certify(AT)
        error = np.abs(posterior.mean(AT) - oracle.mean)
        error = error if targets is None else error.max(axis=1)
        assert (certificate.variance_lower <= oracle.var + 1e-10).all()
        assert (certificate.variance_upper >= oracle.var - 1e-10).all()
        assert (error <= certificate.mean_error + 1e-10).all()


def test_certificates_tighten_as_computation_goes_on():
    gaps = [np.mean(after(number).certify(AT).mean_error) for number in (5, 15, 30)]
    assert gaps[0] > gaps[1] > gaps[2]
    whole = after(60).certify(AT)
    np.testing.assert_allclose(whole.variance_lower, whole.variance_upper, atol=1e-9)
    assert whole.mean_error.max() < 1e-8


def test_without_noise_nothing_is_certified():
    certificate = after(5, noise=0.0).certify(AT)
    assert np.isinf(certificate.mean_error).all()
    np.testing.assert_array_equal(certificate.variance_lower, np.zeros(12))


@pytest.mark.parametrize(
    "policy",
    [ConjugateGradient(), BlockKrylov(16), PseudoInput(block_size=10)],
    ids=lambda p: type(p).__name__,
)
def test_the_share_is_close_to_the_truth_within_its_error_bars(policy):
    """Also when columns of a block still wait."""
    deviations = []
    for seed in range(12):
        data = make_data(60, seed=seed, new=40)
        posterior = condition(PRIOR, data.X, data.y, NOISE, policy, MaxActions(18), seed=seed)
        share = posterior.computational_share(data.X_new, probes=16, passes=30)
        parts = posterior.decompose(data.X_new, "exact")
        truth = parts.computational.sum() / parts.combined.sum()
        deviations.append((share.estimate - truth) / (share.half_width() + share.bias_bound))
    assert np.abs(deviations).max() < 2.0
    assert abs(np.mean(deviations)) < 0.5


@pytest.mark.parametrize(("actions", "noise"), [(2, 0.01), (12, 0.05)], ids=["nearly all", "some"])
def test_the_interval_of_the_share_holds_the_truth_as_often_as_it_says(actions, noise):
    """Nineteen times of twenty, by Student's t over eight probes; and no share is more than all of the
    variance."""
    data = make_data(60, new=50)
    inside = []
    for seed in range(200):
        posterior = condition(
            PRIOR, data.X, data.y, noise, RandomAction(block_size=actions), MaxActions(actions), seed=seed
        )
        share, truth = (
            posterior.computational_share(data.X_new, passes=12),
            posterior.decompose(data.X_new, "exact").share,
        )
        assert 0.0 <= share.estimate <= 1.0
        inside.append(abs(share.estimate - truth) <= share.half_width() + share.bias_bound)
    assert np.mean(inside) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_the_interval_is_students():
    share = uncertainty.Share(0.5, 0.01, 0.0, 8)
    assert share.half_width() == pytest.approx(0.01 * scipy.stats.t.ppf(0.975, 7))
    assert share.half_width(0.5) == pytest.approx(0.01 * scipy.stats.t.ppf(0.75, 7))


def test_the_error_of_a_ratio_is_how_much_it_varies():
    rng = np.random.default_rng(1)
    wholes = rng.uniform(1, 2, 400)
    parts = wholes * rng.uniform(0, 0.5, 400)
    chosen = [rng.permutation(400)[:100] for _ in range(2000)]
    ratios, errors = zip(*(uncertainty.ratio(parts[rows], wholes[rows], 400) for rows in chosen), strict=True)
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.1)
    assert uncertainty.ratio(parts, wholes, 400)[1] == 0.0


def test_the_share_says_how_much_it_may_miss():
    data = make_data(200, new=40)
    posterior = condition(PRIOR, data.X, data.y, NOISE, RandomAction(block_size=5), MaxActions(5))
    rough, fine = (posterior.computational_share(data.X_new, probes=8, passes=passes) for passes in (2, 20))
    assert rough.bias_bound > fine.bias_bound
    assert rough.estimate <= fine.estimate
    assert fine.estimate <= rough.estimate + rough.bias_bound


def test_an_exact_process_has_no_computational_share():
    share = after(60).computational_share(AT)
    assert (share.estimate, share.half_width(), share.bias_bound) == (0.0, 0.0, 0.0)


def test_the_error_in_the_rkhs_falls_to_zero():
    errors = [uncertainty.rkhs_error(after(number))[0] for number in (0, 10, 30, 60)]
    assert errors[0] == uncertainty.rkhs_error(after(0))[1]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-8


def test_the_error_in_the_rkhs_is_for_small_data(monkeypatch):
    monkeypatch.setattr(uncertainty, "DENSE_ROWS", 10)
    with pytest.raises(InputError, match="at most 10 rows"):
        uncertainty.rkhs_error(after(5))


def test_a_singular_matrix_has_no_exact_process_and_says_so():
    X = np.repeat(DATA.X[:5], 3, axis=0)
    posterior = condition(PRIOR, X, np.ones(15), 0.0, RandomAction(), MaxActions(3))
    with pytest.raises(InputError, match="more noise"):
        posterior.decompose(AT, "exact")
    assert np.isfinite(posterior.var(AT)).all()

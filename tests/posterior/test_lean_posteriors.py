"""Posteriors whose products are not stored predict, certify, decompose and hold out as stored ones do."""

import numpy as np
import pytest

from helpers import KERNELS, make_data
from itergp import ConjugateGradient, MaxActions, Prior, UnitVector, condition
from itergp.linalg import products
from itergp.posterior.holdout import WithoutFold, prefix
from itergp.posterior.targets import TargetPosterior

ROWS, RANK = 80, 20
CLOSE = {"rtol": 1e-7, "atol": 1e-8}
DATA = make_data(ROWS)
FOLD = np.array([3, 11, 40, 41, 79])

ANSWERS = {
    "mean": lambda p: p.mean(DATA.X_new),
    "var": lambda p: p.var(DATA.X_new),
    "cov": lambda p: p.cov(DATA.X_new),
    "path": lambda p: p.path(DATA.X_new).var,
    "local": lambda p: np.concatenate(p.local(7).marginals(DATA.X_new)),
    "local cov": lambda p: p.local(7).cov(DATA.X_new),
    "local sample functions": lambda p: p.local(7).sample_function(2, seed=1)(DATA.X_new),
    "around": lambda p: p.around(DATA.X_new, 7).cov(DATA.X_new),
    "around, sample functions": lambda p: p.around(DATA.X_new, 7).sample_function(2, seed=1)(DATA.X_new),
    "certificate": lambda p: np.concatenate(
        [p.certify(DATA.X_new).variance_lower, p.certify(DATA.X_new).mean_error]
    ),
    "local certificate": lambda p: p.local(7).certify(DATA.X_new).variance_lower,
    "decompose": lambda p: p.decompose(DATA.X_new).computational,
    "decompose by passes": lambda p: p.decompose(DATA.X_new, "estimate", 3).computational_upper,
    "decompose by neighbours": lambda p: p.decompose(DATA.X_new, "estimate", 0).computational_upper,
    "share": lambda p: p.computational_share(DATA.X_new).estimate,
    "samples": lambda p: p.sample(DATA.X_new[:5], 2, seed=1),
    "sample functions": lambda p: p.sample_function(2, seed=1)(DATA.X_new),
    "preconditioner": lambda p: p.preconditioner().solve(DATA.X),
    "prefix": lambda p: prefix(p, 9).var(DATA.X_new),
    "prefix, local": lambda p: prefix(p, 9).local(5).mean(DATA.X_new),
    "prefix, training": lambda p: prefix(p, 9).state.training_variance,
    "held out": lambda p: WithoutFold.of(p, FOLD).path(np.array([0, 7, RANK])).mean,
    "held out, local": lambda p: np.concatenate(WithoutFold.of(p, FOLD).local(6)),
    "held out, bounds": lambda p: WithoutFold.of(p, FOLD).variance_bounds(6, 2, np.arange(3)).upper,
    "appended": lambda p: p.append(DATA.X_new[:9], DATA.y[:9]).local(5).var(DATA.X_new),
    "extended": lambda p: p.extend(DATA.X_new[:9], DATA.y[:9]).mean(DATA.X_new),
    "refined": lambda p: p.refine(ConjugateGradient(), MaxActions(4)).mean(DATA.X_new),
}


@pytest.fixture
def lean(monkeypatch):
    """Call it to store no products from now on, and to make them in small slabs."""

    def begin():
        monkeypatch.setattr(products, "LEAN_ROWS", 0)
        monkeypatch.setattr(products, "LEAST", 32)
        monkeypatch.setattr(products, "ENTRIES", 1)

    return begin


def posterior(noise=0.05, y=DATA.y):
    policy = UnitVector("random", block_size=8)
    return condition(Prior(KERNELS["matern52"]), DATA.X, y, noise, policy, MaxActions(RANK), seed=1)


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_is_that_of_stored_products(answer, lean):
    expected = ANSWERS[answer](posterior())
    lean()
    found = posterior()
    assert found.state.basis.lean
    np.testing.assert_allclose(ANSWERS[answer](found), expected, **CLOSE)


@pytest.mark.parametrize("answer", ["var", "local", "certificate", "held out, local"])
def test_the_same_with_a_noise_for_each_row(answer, lean):
    noise = np.linspace(0.02, 0.2, ROWS)
    expected = ANSWERS[answer](posterior(noise))
    lean()
    np.testing.assert_allclose(ANSWERS[answer](posterior(noise)), expected, **CLOSE)


def test_the_same_with_a_noise_for_each_target(lean):
    Y = np.stack([DATA.y, np.cos(DATA.y)], axis=1)
    noise = np.array([0.05, 0.4])

    def both():
        targets = TargetPosterior(posterior(0.05, Y), noise)
        return [targets.mean(DATA.X_new), targets.var(DATA.X_new), targets.local(6).var(DATA.X_new)]

    expected = both()
    lean()
    for a, b in zip(both(), expected, strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)


def test_certificates_of_lean_posteriors_hold(lean):
    """Against a dense Cholesky factorisation."""
    lean()
    at = posterior().at(DATA.X_new)
    certificate, K = at.certify(), KERNELS["matern52"](DATA.X, DATA.X) + 0.05 * np.eye(ROWS)
    k_x = KERNELS["matern52"](DATA.X, DATA.X_new)
    exact = at.k0 - np.einsum("nm,nm->m", k_x, np.linalg.solve(K, k_x))
    mean = k_x.T @ np.linalg.solve(K, DATA.y)
    assert (certificate.variance_lower <= exact + 1e-12).all()
    assert (np.abs(at.mean - mean) <= certificate.mean_error).all()

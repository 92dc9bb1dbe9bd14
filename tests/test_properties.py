"""For any small problem: variances lie between exact and prior, fall along the path, and certificates
hold."""

import warnings

import numpy as np
import scipy.linalg
from hypothesis import HealthCheck, given, settings, strategies as st

from helpers import KERNELS, POLICIES
from itergp import (
    RBF,
    Compute,
    Constant,
    InputError,
    Linear,
    Matern12,
    Matern32,
    MaxActions,
    Periodic,
    PrecisionWarning,
    Prior,
    condition,
)

ANY_WIDTH = {
    "rbf": RBF(0.4),
    "matern12": 2.0 * Matern12(0.7),
    "matern32": Matern32(0.3),
    "periodic": Periodic(0.8, 1.3),
    "polynomial": Linear() * Linear() + Constant(0.5),
    "sum": 0.5 * RBF(2.0) + 0.1 * Matern12(0.2),
}


@st.composite
def problems(draw):
    d = draw(st.integers(1, 3))
    kernels = (ANY_WIDTH | KERNELS) if d == 2 else ANY_WIDTH
    n, rng = draw(st.integers(1, 40)), np.random.default_rng(draw(st.integers(0, 2**16)))
    X = rng.uniform(-1, 1, (n, d))
    if draw(st.booleans()):
        X = np.round(X, 1)  # duplicates, and zeros
    noise = 10.0 ** draw(st.floats(-6, 0))
    noise = noise * rng.uniform(0.5, 2.0, n) if draw(st.booleans()) else noise
    return {
        "prior": Prior(kernels[draw(st.sampled_from(sorted(kernels)))]),
        "X": X,
        "y": np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(n),
        "noise": noise,
        "policy": draw(st.sampled_from(sorted(POLICIES))),
        "actions": draw(st.integers(0, 45)),
        "dtype": draw(st.sampled_from(["float64", "float32"])),
        "X_new": np.concatenate([rng.uniform(-1.5, 1.5, (5, d)), X[:3]]),
    }


def exact_process(problem):
    prior, X, X_new = problem["prior"], problem["X"], problem["X_new"]
    K_hat = prior.cov(X) + np.diag(np.broadcast_to(problem["noise"], len(X)))
    factor, k = scipy.linalg.cho_factor(K_hat, lower=True), prior.cov(X, X_new)
    var = prior.var(X_new) - (scipy.linalg.solve_triangular(factor[0], k, lower=True) ** 2).sum(axis=0)
    return k.T @ scipy.linalg.cho_solve(factor, problem["y"]), var, np.linalg.cond(K_hat)


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problems())
def test_variances_and_certificates_of_any_problem(problem):
    X_new, prior = problem["X_new"], problem["prior"]
    try:
        posterior = condition(
            prior,
            problem["X"],
            problem["y"],
            problem["noise"],
            POLICIES[problem["policy"]](),
            MaxActions(problem["actions"]),
            Compute(problem["dtype"]),
            seed=1,
        )
    except InputError:
        assert problem["policy"] == "unit-listed"
        assert len(problem["X"]) < 8
        return
    mean, variance, condition_number = exact_process(problem)
    k0 = prior.var(X_new)
    rounding = 1e-14 * condition_number * np.maximum(k0, 1.0)  # of the oracle itself
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        path, certificate = posterior.path(X_new), posterior.certify(X_new)
    assert (path.var[0] == k0).all()
    assert (np.diff(path.var, axis=0) <= 0).all()
    assert (path.var >= variance - rounding).all()
    assert (path.var >= 0).all()
    assert (posterior.var(X_new) <= k0).all()
    assert (certificate.variance_lower <= variance + rounding).all()
    assert (certificate.variance_upper >= variance - rounding).all()
    scale = rounding * (1.0 + np.abs(problem["y"]).max() / np.sqrt(np.min(problem["noise"])))
    assert (np.abs(posterior.mean(X_new) - mean) <= certificate.mean_error + scale).all()

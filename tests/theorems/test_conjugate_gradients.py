"""Residual actions and conjugate actions are (preconditioned) conjugate gradients (Thm. S5, Cor. S2)."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse.linalg

from helpers import KERNELS, exact, make_data, row_noise, textbook_cg
from itergp import (
    RBF,
    ConjugateGradient,
    LinearMean,
    Matern12,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    condition,
)
from itergp.solver.loop import propose

n, STEPS = 60, 20  # a textbook CG keeps its orthogonality about so long (errata, slip 8)
DIAGONAL = np.linspace(0.5, 2.0, n)
PRECONDITIONERS = {
    "none": lambda posterior: None,
    "diagonal": lambda posterior: SimpleNamespace(solve=lambda V: (V.T / DIAGONAL).T),
    "by-products": lambda posterior: posterior.preconditioner(),
}


def scipy_iterates(K_hat, b, preconditioner):
    iterates, M = [], None
    if preconditioner is not None:
        M = scipy.sparse.linalg.LinearOperator(
            (n, n), matvec=lambda v: preconditioner.solve(v.reshape(n, 1))[:, 0]
        )
    callback = lambda v: iterates.append(v.copy())  # noqa: E731
    scipy.sparse.linalg.cg(K_hat, b, rtol=0.0, atol=0.0, maxiter=STEPS, M=M, callback=callback)
    return np.array(iterates)


def k_hat_norm(errors, K_hat):
    return np.sqrt(np.einsum("...j,jk,...k->...", errors, K_hat, errors))


def iterates_of(posterior):
    D, z = posterior.state.search_directions(), posterior.state.z[:, 0]
    return np.array([D[:, :i] @ z[:i] for i in range(1, posterior.rank + 1)])


@pytest.mark.parametrize("form", ["residual", "conjugate"])
@pytest.mark.parametrize("preconditioner", PRECONDITIONERS)
@pytest.mark.parametrize(
    "kernel", [Matern12(0.15), Matern32(0.12), RBF(0.12)], ids=["matern12", "matern32", "rbf"]
)
def test_representer_weights_are_the_first_20_iterates_of_scipy(kernel, preconditioner, form):
    """Short lengthscales: no eigenvalue stands out, so SciPy's CG keeps its conjugacy for 20 steps and
    still has some to go."""
    data, prior, noise = make_data(n), Prior(kernel, LinearMean([0.2, 0.4])), 0.1
    oracle = exact(prior, data.X, data.y, noise, data.X_new)
    few = condition(prior, data.X, data.y, noise, PseudoInput(data.X[:5]), MaxActions(5))
    P = PRECONDITIONERS[preconditioner](few)
    iterates = scipy_iterates(oracle.K_hat, oracle.b, P)
    posterior = condition(prior, data.X, data.y, noise, ConjugateGradient(P, form), MaxActions(STEPS))
    assert len(iterates) == posterior.rank == STEPS
    size = k_hat_norm(oracle.v, oracle.K_hat)
    assert k_hat_norm(iterates - iterates_of(posterior), oracle.K_hat).max() < 1e-9 * size
    assert k_hat_norm(iterates[-1] - oracle.v, oracle.K_hat) > 1e-7 * size


@pytest.mark.parametrize("form", ["residual", "conjugate"])
@pytest.mark.parametrize("preconditioner", PRECONDITIONERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_representer_weights_are_the_iterates_of_cg_in_50_digits(kernel, preconditioner, form):
    """For every kernel of the table, also where CG in float64 loses its conjugacy within ten steps: ours
    does not."""
    data, prior, noise = make_data(n), Prior(KERNELS[kernel], LinearMean([0.2, 0.4])), 0.1
    oracle = exact(prior, data.X, data.y, noise, data.X_new)
    few = condition(prior, data.X, data.y, noise, PseudoInput(data.X[:5]), MaxActions(5))
    P = PRECONDITIONERS[preconditioner](few)
    M_inv = np.eye(n) if P is None else P.solve(np.eye(n))
    M_inv = (M_inv + M_inv.T) / 2  # symmetric to the last digit, as the recurrence assumes
    iterates, directions = textbook_cg(oracle.K_hat, oracle.b, M_inv, np.zeros((n, 0)), STEPS)
    posterior = condition(prior, data.X, data.y, noise, ConjugateGradient(P, form), MaxActions(STEPS))
    size = k_hat_norm(oracle.v, oracle.K_hat)
    assert k_hat_norm(iterates[1:] - iterates_of(posterior), oracle.K_hat).max() < 1e-9 * size
    D = posterior.state.search_directions()
    np.testing.assert_allclose(D[:, :5].T, directions[:5], atol=1e-9)  # s_i = d_i, scaled to unit K_hat norm


@pytest.mark.parametrize("preconditioner", ["none", "diagonal"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_conjugate_actions_are_the_search_directions_themselves(kernel, preconditioner):
    """Thm. S5: s_i = d_i = the textbook's direction, before anything is done to it; residual actions are
    P^{-1} r_{i-1}."""
    data, prior = make_data(n), Prior(KERNELS[kernel])
    oracle = exact(prior, data.X, data.y, 0.1, data.X_new)
    P = PRECONDITIONERS[preconditioner](None)
    M_inv = np.eye(n) if P is None else np.diag(1 / DIAGONAL)
    directions = textbook_cg(oracle.K_hat, oracle.b, M_inv, np.zeros((n, 0)), 6)[1]
    for i in range(6):
        conjugate, residual = (ConjugateGradient(P, form) for form in ("conjugate", "residual"))
        state = propose(condition(prior, data.X, data.y, 0.1, conjugate, MaxActions(i)).state, conjugate)[0]
        action, gradient = conjugate(state), residual(state)[:, 0]
        expected = M_inv @ state.residual[:, 0]
        np.testing.assert_allclose(
            gradient / np.linalg.norm(gradient), expected / np.linalg.norm(expected), atol=1e-12
        )
        np.testing.assert_allclose(
            action[:, 0] / k_hat_norm(action[:, 0], oracle.K_hat), directions[i], atol=1e-8
        )


@pytest.mark.parametrize("preconditioner", ["none", "diagonal"])
def test_both_forms_give_the_same_posterior(preconditioner):
    data, prior, noise = make_data(n), Prior(KERNELS["matern12"]), row_noise(n)
    P = PRECONDITIONERS[preconditioner](None)
    one, two = (
        condition(prior, data.X, data.y, noise, ConjugateGradient(P, form), MaxActions(12))
        for form in ("residual", "conjugate")
    )
    np.testing.assert_allclose(one.mean(data.X_new), two.mean(data.X_new), atol=1e-10)
    np.testing.assert_allclose(one.cov(data.X_new), two.cov(data.X_new), atol=1e-10)


def test_several_targets_act_together_at_least_as_well_as_alone():
    """A block of residuals spans each target's own Krylov space, so each error is at most that of its own
    CG."""
    data, prior = make_data(n, targets=2), Prior(KERNELS["matern32"])
    y = data.y + np.random.default_rng(0).standard_normal((n, 2))
    together = condition(prior, data.X, y, 0.1, ConjugateGradient(), MaxActions(12))
    for t in range(2):
        oracle = exact(prior, data.X, y[:, t], 0.1, data.X_new)
        alone = condition(prior, data.X, y[:, t], 0.1, ConjugateGradient(), MaxActions(6))
        error = lambda v, o=oracle: (o.v - v) @ o.K_hat @ (o.v - v)  # noqa: E731
        assert error(together.state.representer_weights[:, t]) <= error(
            alone.state.representer_weights[:, 0]
        ) * (1 + 1e-9)

"""The computation-aware ELBO and the projected-data likelihood as objectives, for the actions of every
policy."""

import numpy as np
import pytest
from oracles import assert_slopes, negative_log_density, repeated

from helpers import KERNELS, PAIRS, POLICIES, dense, make_data
from itergp import (
    Compute,
    ConjugateGradient,
    InputError,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    UnitVector,
    condition,
)
from itergp.data.rows import Rows
from itergp.learning.actions import elbo, projected
from itergp.learning.exact import exact


def run(kernel, policy, data, actions=8, noise=0.05):
    y = data.y[:, :1] if policy == "adversarial" else data.y
    posterior = condition(
        Prior(KERNELS[kernel]), data.X, y, noise / data.counts, POLICIES[policy](), MaxActions(actions)
    )
    return posterior, y


def within(data, y, noise):
    """- log density of the observations around the means of their rows."""
    lost = len(data.X_all) - len(data.X)
    return 0.5 * (
        data.scatter / noise + y.shape[1] * (lost * np.log(2 * np.pi * noise) + np.log(data.counts).sum())
    )


@pytest.mark.parametrize(("kernel", "policy"), PAIRS)
def test_the_values_are_those_of_the_state(kernel, policy):
    data = repeated()
    posterior, y = run(kernel, policy, data)
    for objective, expected in (
        (elbo, posterior.state.elbo),
        (projected, posterior.state.projected_log_likelihood),
    ):
        value = objective(Rows.of(data.X, y, **data.merged), posterior.actions)(KERNELS[kernel], 0.05).value
        assert value * len(data.X_all) - within(data, y, 0.05) == pytest.approx(-expected, rel=1e-8, abs=1e-7)


@pytest.mark.parametrize("objective", [elbo, projected])
@pytest.mark.parametrize(("kernel", "policy"), PAIRS[::2])
def test_the_gradients_are_those_of_differences(kernel, policy, objective):
    """Every policy's actions, held fixed."""
    data = repeated()
    posterior, y = run(kernel, policy, data)
    assert_slopes(objective(Rows.of(data.X, y, **data.merged), posterior.actions), KERNELS[kernel])


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_all_actions_both_are_the_likelihood_of_the_observations_before_merging(kernel):
    """At rank n; the projected likelihood is that of Q^T y, the same density for an orthonormal Q."""
    data, k, n = repeated(), KERNELS[kernel], len(repeated().X_all)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 24)))[0]
    expected = negative_log_density(k(data.X_all, data.X_all) + 0.05 * np.eye(n), data.y_all) / n
    for objective in (elbo, projected):
        assert objective(data.rows, Q)(k, 0.05).value == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("policy", ["cg", "pseudo-input", "sparse-block"])
def test_the_bound_holds_at_other_parameters_with_actions_held_fixed(policy):
    data = repeated()
    posterior, _ = run("matern32", policy, data)
    bound, target = (
        elbo(data.rows, posterior.actions),
        exact(data.rows),
    )
    for k, noise in ((Matern32(0.2), 0.05), (5.0 * Matern32(1.5), 0.01), (KERNELS["rbf"], 0.5)):
        assert bound(k, noise).value >= target(k, noise).value


def test_the_bound_does_not_depend_on_the_basis_of_the_actions():
    data = repeated()
    S = np.random.default_rng(0).standard_normal((24, 5))
    values = [elbo(data.rows, Q)(KERNELS["sum"], 0.05).value for Q in (S, np.linalg.qr(S)[0])]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_sparse_actions_are_as_dense_ones_and_take_no_pass():
    data = repeated()
    posterior = condition(Prior(KERNELS["sum"]), data.X, data.y, 0.05, UnitVector(), MaxActions(6))
    for objective in (elbo, projected):
        found = [
            objective(data.rows, Q)(KERNELS["sum"], 0.05)
            for Q in (posterior.actions, dense(posterior.actions))
        ]
        assert found[0].value == pytest.approx(found[1].value, rel=1e-10)
        assert found[0].noise == pytest.approx(found[1].noise, rel=1e-8)
        for path in found[0].kernel:
            assert found[0].kernel[path] == pytest.approx(found[1].kernel[path], rel=1e-7)


def test_single_precision_tiles_are_near():
    data, k = make_data(300), KERNELS["matern32"]
    posterior = condition(Prior(k), data.X, data.y, 0.05, PseudoInput(), MaxActions(30))
    exactly, nearly = (
        elbo(Rows.of(data.X, data.y), posterior.actions, compute=Compute(dtype))(k, 0.05)
        for dtype in ("float64", "float32")
    )
    assert exactly.value != nearly.value
    # tau, the bound on rounding, costs a little
    assert nearly.value == pytest.approx(exactly.value, abs=1e-3)
    assert nearly.noise == pytest.approx(exactly.noise, rel=1e-2)


def test_minimising_the_bound_raises_the_elbo_of_a_new_run():
    """What the objective is for: a step down its gradient is a step up for the posterior that has the same
    actions."""
    data, k, noise = make_data(60), 1.0 * Matern32(0.2), 0.3
    posterior = condition(Prior(k), data.X, data.y, noise, ConjugateGradient(), MaxActions(6))
    found = elbo(Rows.of(data.X, data.y), posterior.actions)(k, noise)
    better = Matern32(0.2 - 1e-3 * np.sign(found.kernel["kernel.lengthscale"]))
    Q = posterior.actions
    again = condition(
        Prior(better), data.X, data.y, noise, lambda state: None if state.rank else Q, MaxActions(6)
    )
    assert again.state.elbo > posterior.state.elbo


def test_a_product_under_way_hears_its_tick():
    class LateError(Exception):
        pass

    def late():
        raise LateError

    data = repeated()
    for Q in (np.eye(24)[:, :3], UnitVector):
        actions = (
            Q
            if isinstance(Q, np.ndarray)
            else condition(Prior(KERNELS["rbf"]), data.X, data.y, 0.1, Q()).actions
        )
        with pytest.raises(LateError):
            elbo(Rows.of(data.X, data.y), actions, tick=late)(KERNELS["rbf"], 0.1)


def test_bad_actions_are_named():
    data = repeated()
    for bad in (np.ones(24), np.ones((23, 2)), np.ones((24, 0)), np.full((24, 1), np.nan)):
        with pytest.raises(InputError, match="actions"):
            elbo(Rows.of(data.X, data.y), bad)

"""dtype="auto" looks at the noise again when data arrive: float32 tiles give way to float64 ones, what was
computed stays."""

import numpy as np
import pytest
import scipy.linalg

from itergp import (
    Compute,
    ConjugateGradient,
    IterGPRegressor,
    Matern32,
    MaxActions,
    Posterior,
    Prior,
    Problem,
    PseudoInput,
    RandomAction,
    UnitVector,
    condition,
)
from itergp.limits import FLOAT32_ROWS
from itergp.solver.more_data import extend, reweighted

NOISE, LITTLE = 0.01, 1e-5
KERNEL = 1.0 * Matern32(0.05)
N = FLOAT32_ROWS + 100
RNG = np.random.default_rng(0)
X, T = RNG.uniform(0, 1, (N, 1)), RNG.uniform(0, 1, (40, 1))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.standard_normal(N)
ROW_NOISE = np.where(np.arange(N) == 7, LITTLE, NOISE)


@pytest.fixture(scope="module")
def K():
    return KERNEL(X, X)


@pytest.fixture(scope="module")
def begun():
    posterior = condition(Prior(KERNEL), X, Y, NOISE, RandomAction(block_size=30), MaxActions(30))
    assert posterior.problem.gram.dtype == np.float32
    assert posterior.rank == posterior.state.basis.size == 30
    return posterior


@pytest.fixture(scope="module")
def truth(K):
    """The exact variance at T with one row of little noise."""
    L = scipy.linalg.cholesky(K + np.diag(ROW_NOISE), lower=True)
    return KERNEL.diagonal(T) - (scipy.linalg.solve_triangular(L, KERNEL(X, T), lower=True) ** 2).sum(axis=0)


@pytest.mark.parametrize("noise", [NOISE, 0.5 * NOISE, LITTLE])
@pytest.mark.parametrize("change", ["reweighted", "extended"])
def test_the_dtype_is_that_of_a_problem_with_all_data(begun, change, noise):
    if change == "reweighted":
        found = reweighted(begun.state, np.where(np.arange(N) == 7, noise, NOISE), Y).problem
    else:
        found = extend(begun.state, [[2.0]], [1.0], noise).problem
    fresh = Problem(Prior(KERNEL), found.X, found.y, found.noise)
    assert found.gram.dtype == fresh.gram.dtype == (np.float64 if noise == LITTLE else np.float32)


def test_what_somebody_asked_for_stays():
    asked = condition(Prior(KERNEL), X, Y, NOISE, UnitVector(), MaxActions(1), Compute(dtype="float32"))
    assert reweighted(asked.state, ROW_NOISE, Y).problem.gram.dtype == np.float32


def test_where_the_noise_stays_large_enough_nothing_changes(begun):
    gram = reweighted(begun.state, 0.5 * NOISE, Y).problem.gram
    assert gram is begun.problem.gram


@pytest.mark.parametrize(
    "policy",
    [PseudoInput(block_size=20), UnitVector("random", block_size=20), ConjugateGradient()],
    ids=lambda policy: type(policy).__name__,
)
def test_later_actions_have_the_finer_products_and_stay_above_the_exact_gp(begun, policy, K, truth):
    state = reweighted(begun.state, ROW_NOISE, Y)
    later = Posterior(state.problem, state).refine(policy, MaxActions(20))
    old, size = begun.rank, later.state.basis.size
    assert size >= old + 20
    np.testing.assert_array_equal(later.state.tau[:old], begun.state.tau)
    errors = np.linalg.norm(
        later.state.basis.KQ.between(0, size) - K @ later.state.basis.dense(0, size), axis=0
    )
    assert (errors <= later.state.tau).all()
    if not isinstance(policy, UnitVector):
        assert (later.state.tau[old:] < 1e-6 * begun.state.tau.min()).all()
    for variance in (later.var(T), later.local(10).var(T)):
        assert (variance >= truth - 1e-11).all()


def test_rows_that_come_with_little_noise_are_seen_in_float64(begun):
    state = extend(begun.state, T[:5], np.ones(5), LITTLE)
    later = Posterior(state.problem, state).refine(PseudoInput(block_size=20), MaxActions(20))
    products = later.state.basis.KQ.between(0, later.state.basis.size)[N:]
    errors = np.linalg.norm(
        products - KERNEL(T[:5], later.problem.X) @ later.state.basis.dense(0, later.state.basis.size), axis=0
    )
    assert (errors < 1e-10).all()


def test_a_row_that_arrives_a_thousand_times_and_a_file_in_between(tmp_path):
    model = IterGPRegressor(
        kernel=KERNEL, noise=NOISE, learn=False, policy="pseudo-input", budget="30 actions", normalize=False
    )
    model.fit(X, Y).save(tmp_path / "model.itergp")
    model = IterGPRegressor.load(tmp_path / "model.itergp")
    assert model.posterior_.problem.gram.dtype == np.float32
    model.partial_fit(np.repeat(X[:1], 1000, axis=0), np.repeat(Y[:1], 1000))
    assert model.posterior_.problem.gram.dtype == np.float64

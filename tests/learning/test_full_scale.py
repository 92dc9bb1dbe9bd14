"""The full-scale likelihood: rows given some rows of all the data and their nearest earlier ones."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itergp import RBF, Linear, Matern12, Matern32, RationalQuadratic
from itergp.data.rows import Rows
from itergp.learning.exact import exact
from itergp.learning.full_scale import FullScaleLikelihood
from itergp.learning.training import learn
from itergp.linalg.compute import Compute
from itergp.linalg.engines import get
from itergp.prior.parameters import parameters, with_parameters

NOISE = 0.05
KERNELS = {
    "matern32": 1.3 * Matern32([0.5, 0.9, 2.0]),
    "one lengthscale": 0.8 * Matern12(0.7),
    "alpha": 1.1 * RationalQuadratic([0.8, 1.1, 0.9], 0.7),
    "linear": 1.3 * RBF([0.5, 0.9, 2.0]) + 0.2 * Linear(1.5),
}


def data(n=120, targets=1, seed=0):
    rng = np.random.default_rng([seed, n, targets])
    X = rng.uniform(-1, 1, (n, 3))
    y = np.sin(3 * X.sum(axis=1))[:, None] * np.arange(1, targets + 1) + 0.2 * rng.standard_normal(
        (n, targets)
    )
    return Rows.of(
        X, y - y.mean(axis=0), rng.integers(1, 4, n), 0.5 if targets == 1 else np.full(targets, 0.5)
    )


def dense(likelihood, kernel):
    """The product of conditional densities, each from a joint normal density of all that it involves."""
    rows, size = likelihood.rows, likelihood.size
    C, y = kernel(rows.X, rows.X) + np.diag(NOISE / rows.counts), rows.Y[:, 0]

    def log_density(points):
        return multivariate_normal(np.zeros(len(points)), C[np.ix_(points, points)]).logpdf(y[points])

    first = list(range(size))
    total = log_density(first)
    for i, J in zip(likelihood.given.chosen, likelihood.given.J, strict=True):
        known = first + [int(j) for j in J if j >= 0]
        total += log_density([*known, int(i)]) - log_density(known)
    return (rows.within(NOISE)[0] - total) / rows.total


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_the_product_of_conditional_densities(name):
    found = FullScaleLikelihood.at(KERNELS[name], data(), neighbours=5, size=12)
    assert found(KERNELS[name], NOISE).value == pytest.approx(dense(found, KERNELS[name]), rel=1e-7)


@pytest.mark.parametrize(("neighbours", "size"), [(120, 7), (3, 119), (3, 120)])
def test_with_all_rows_it_is_the_log_marginal_likelihood(neighbours, size):
    rows, kernel = data(targets=2), KERNELS["matern32"]
    found = FullScaleLikelihood.at(kernel, rows, neighbours, size)(kernel, NOISE)
    expected = exact(rows)(kernel, NOISE)
    assert found.value == pytest.approx(expected.value, rel=1e-7)
    assert found.noise == pytest.approx(expected.noise, rel=1e-5)
    np.testing.assert_allclose(
        found.kernel["kernel.lengthscale"], expected.kernel["kernel.lengthscale"], rtol=1e-5
    )


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("targets", "batch"), [(1, None), (2, 50)])
def test_gradients_are_those_of_differences(name, targets, batch, engine, monkeypatch):
    if engine == "native":
        pytest.importorskip("itergp.linalg.engines.native._tiles")
    else:
        monkeypatch.setattr("itergp.linalg.engines.registry.native", lambda: None)
    rows, kernel = data(targets=targets), KERNELS[name]
    compute = Compute(engine=engine)
    assert get(engine)
    objective = FullScaleLikelihood.at(kernel, rows, 6, 20, batch, compute=compute)
    found = objective(kernel, NOISE)

    def slope(of):
        return (of(1e-5) - of(-1e-5)) / 2e-5

    for path, value in parameters(kernel).items():
        value, own = np.atleast_1d(value), np.atleast_1d(found.kernel[path])
        for i in range(value.size):

            def moved(step, path=path, value=value, i=i):
                changed = value.copy()
                changed[i] *= 1.0 + step
                one = changed if np.ndim(parameters(kernel)[path]) else float(changed[0])
                return objective(with_parameters(kernel, {path: one}), NOISE).value

            assert value[i] * own[i] == pytest.approx(slope(moved), rel=1e-5, abs=1e-8)
    in_noise = slope(lambda step: objective(kernel, NOISE * (1.0 + step)).value)
    assert NOISE * found.noise == pytest.approx(in_noise, rel=1e-5)


def test_a_batch_is_right_on_average():
    rows, kernel = data(), KERNELS["matern32"]
    whole = FullScaleLikelihood.at(kernel, rows, 6, 20)(kernel, NOISE).value
    # all parts of a partition weigh the same
    found = FullScaleLikelihood.at(kernel, rows, 6, 20)
    parts = np.array_split(np.random.default_rng(0).permutation(found.batch), 5)
    from dataclasses import replace

    def some(part):
        given = replace(found.given, chosen=found.given.chosen[part], J=found.given.J[part])
        return replace(found, given=given)(kernel, NOISE).value

    assert np.mean([some(part) for part in parts]) == pytest.approx(whole, rel=1e-9)


def test_learning_by_name_finds_a_likelihood_as_high_as_the_exact_one():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (400, 2))
    K = 1.5 * Matern32([0.4, 0.8])(X, X)
    y = np.linalg.cholesky(K + 0.1 * np.eye(400)) @ rng.standard_normal(400)
    start = 1.0 * Matern32([1.0, 1.0])
    found, best = (learn(X, y, start, 0.3, method=method) for method in ("full-scale", "exact"))
    objective = exact(Rows.of(X, y))
    assert objective(found.kernel, found.noise).value < objective(best.kernel, best.noise).value + 0.01

"""What `repr` says: formulas of kernels, and everything on one screen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from itergp import (
    RBF,
    ConstantMean,
    IterGPRegressor,
    Kernel,
    Linear,
    LinearMean,
    Matern32,
    MaxActions,
    Periodic,
    Prior,
    PseudoInput,
    Schedule,
    SparseBlock,
    UnitVector,
    baselines,
    brief,
    condition,
    storage,
)
from itergp.posterior.targets import TargetPosterior

LINES, CHARACTERS = 24, 1600  # a screen


@dataclass(frozen=True, eq=False)
class Own(Kernel):
    """A user's kernel: a frozen dataclass, without a `repr` of its own."""

    offset: Any = 1.0

    def __call__(self, X0, X1):
        return self.offset + X0 @ X1.T


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (1.4300000123 * Matern32(0.3), "1.43 * Matern32(lengthscale=0.3)"),
        (Periodic(1.0, period=365.25), "Periodic(lengthscale=1, period=365.25)"),
        (Linear(2.0) + RBF(0.5), "Linear(lengthscale=2) + RBF(lengthscale=0.5)"),
        (2.0 * (Linear() + RBF()), "2 * (Linear(lengthscale=1) + RBF(lengthscale=1))"),
        ((Linear() + RBF()) * Own(3.0), "(Linear(lengthscale=1) + RBF(lengthscale=1)) * Own(offset=3)"),
        (RBF([0.5, 2.0]).on([0, 3]), "RBF(lengthscale=[0.5, 2]).on([0, 3])"),
        ((2.0 * RBF()).on([1]), "(2 * RBF(lengthscale=1)).on([1])"),
        (RBF(np.linspace(0.1, 9.0, 136)), "RBF(lengthscale=<136 numbers from 0.1 to 9>)"),
        (RBF().on(range(40)), "RBF(lengthscale=1).on(<40 columns>)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_kernel_is_its_formula(kernel, formula):
    assert repr(kernel) == formula


def test_a_formula_that_python_can_read_is_the_same_kernel():
    """Where no digit and no value was left out."""
    kernel = 2.5 * (Matern32([0.5, 2.0]) + Linear(3.0)).on([0, 1]) * Periodic(1.0, 7.0).on([1])
    X = np.random.default_rng(0).normal(size=(20, 2))
    names = {"Matern32": Matern32, "Linear": Linear, "Periodic": Periodic}
    np.testing.assert_allclose(eval(repr(kernel), names)(X, X), kernel(X, X), rtol=1e-12)


def fitted():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 30))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    prior = Prior(1.0 * Matern32(np.full(30, 5.0)), LinearMean(np.ones(30)))
    policy = Schedule((PseudoInput(X[:50]), 50), (UnitVector("random"), 10))
    posterior = condition(prior, X, y, np.full(400, 0.01), policy, MaxActions(60))
    pair = condition(Prior(1.0 * Matern32(5.0), ConstantMean([0.0, 1.0])), X, np.c_[y, y], 0.01)
    both = TargetPosterior(pair, np.array([0.01, 0.02]))
    return X, posterior, both


def test_everything_that_holds_arrays_prints_on_one_screen(tmp_path):
    """Posteriors, their parts and what they return, global and local, of one and of several targets."""
    X, posterior, both = fitted()
    problem, state = posterior.problem, posterior.state
    groups = SparseBlock([np.arange(i, i + 10) for i in range(0, 400, 10)])
    storage.save(tmp_path / "lean.igp", posterior, refinable=False)
    things = [
        *(problem.prior, problem, state, state.belief, state.basis, state.belief.factor, posterior, both),
        *(posterior.policy, groups, state.stage, problem.prior.mean_function),
        *(posterior.local(20), both.local(20), posterior.at(X), posterior.local(20).at(X), both.at(X)),
        *(both.around(X[:3]), posterior.around(X[:3]), posterior.path(X), posterior.decompose(X)),
        *(posterior.certify(X), posterior.sample_function(2), posterior.local(5).sample_function(2)),
        *(both.sample_function(2), baselines.exact(problem.prior, problem.X, problem.y, 0.01)),
        storage.load(tmp_path / "lean.igp")[0],
    ]
    for thing in things:
        text = repr(thing)
        assert len(text) <= CHARACTERS, text[:300]
        assert text.count("\n") < LINES, text
        assert type(thing).__name__ in text


def test_a_posterior_says_what_it_is_of():
    _, posterior, _ = fitted()
    title, kernel, mean, noise, policy = repr(posterior).splitlines()
    assert title.startswith("Posterior: 400 rows, 30 features, 1 target; 60 actions in 1 pass over K")
    assert title.endswith("ended by: budget")
    assert "1 * Matern32(lengthscale=<30 numbers from 5 to 5>)" in kernel
    assert "LinearMean(weights=<30 numbers from 1 to 1>" in mean
    assert "<400 numbers from 0.01 to 0.01>" in noise
    assert "Schedule((PseudoInput(inducing_points=<50 x 30 numbers from" in policy


def test_the_parts_of_an_estimator_print_on_one_screen():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 8))
    y = np.c_[X[:, 0], X[:, 1]] + 0.1 * rng.normal(size=(60, 2))
    model = IterGPRegressor(kernel="matern32", noise="heteroscedastic").fit(X, y[:, 0])
    several = IterGPRegressor(kernel=2.0 * Matern32(0.5), learn=False, noise=0.1).fit(X, y)
    assert "kernel=2 * Matern32(lengthscale=0.5)" in repr(several)
    for one in (model, several):
        parts = [one, one.fit_, one.scaling_, one.trace_, one.noise_function_, one.first_rows_]
        for part in (*parts, one.fit_.observed, one.fit_.data, one.calibration_, one.decompose(X)):
            assert len(repr(part)) <= CHARACTERS, repr(part)[:300]
            assert repr(part).count("\n") < LINES


def test_numbers_are_exact_where_they_are_short():
    shown = [brief.value(x) for x in (365.25, 1e-6, 1 / 3, 12345678.0, 0.1, np.float32(0.1), np.arange(3))]
    assert shown == ["365.25", "1e-06", "0.3333", "1.235e+07", "0.1", "0.1", "[0, 1, 2]"]

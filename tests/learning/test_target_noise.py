"""A noise for each target: the objective is the sum of each target's own, and learning finds the noise of
each."""

import numpy as np
import pytest
from oracles import negative_log_density

from itergp import InputError, Matern32
from itergp.data.rows import Rows, merge_rows
from itergp.learning import learn
from itergp.learning.parameters import RANGES, Evaluation, Space
from itergp.learning.run import Run
from itergp.learning.stages import stages
from itergp.linalg.compute import Compute
from itergp.prior.parameters import parameters, with_parameters

START = 1.0 * Matern32([1.4, 1.4])


def drawn(n=300, noises=(1e-4, 1.0), seed=0, repeats=1):
    """Draws of one Gaussian process, each observed with a noise of its own; every input `repeats` times."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1, 1, (n // repeats, 2))
    root = np.linalg.cholesky(Matern32(np.array([0.6, 2.0]))(X, X) + 1e-10 * np.eye(len(X)))
    f = np.repeat(root @ rng.standard_normal((len(X), len(noises))), repeats, axis=0)
    return np.repeat(X, repeats, axis=0), f + np.sqrt(noises) * rng.standard_normal(f.shape)


def objective(method, rows, noise):
    """That of the last of a method's stages at the start."""
    space = Space.of(START, noise, rows)
    run = Run(space, space.vector(START, noise), None, None)
    found = []
    for stage in stages(method, rows, run, 0, Compute()):
        found.append(stage[1])
        run.objective = 0.0  # settled at once
    return found[-1]


@pytest.mark.parametrize("method", ["exact", "neighbours"])
def test_it_is_the_density_of_the_data_before_merging(method):
    """Neighbours: as many as rows, so that it is the density itself."""
    X, y = drawn(48, repeats=2)
    data, noise = merge_rows(X, y), np.array([0.02, 0.7])
    rows = Rows.of(data.X, data.y, data.counts, data.scatter)
    found = objective(method, rows, noise)(START, noise)
    K = START(X, X)
    expected = sum(
        negative_log_density(K + v * np.eye(len(X)), y[:, [j]]) for j, v in enumerate(noise)
    ) / len(X)
    assert found.value == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("method", ["exact", "subset", "neighbours", "sgpr", "elbo"])
def test_its_gradient_is_the_central_difference_of_its_value(method):
    X, y = drawn(60, (0.01, 0.4, 1.0), repeats=2)
    data, noise = merge_rows(X, y), np.array([0.02, 0.7, 0.3])
    ask = objective(method, Rows.of(data.X, data.y, data.counts, data.scatter), noise)
    found, h = ask(START, noise), 1e-5
    for j in range(3):
        step = np.exp(h * (np.arange(3) == j))
        slope = (ask(START, noise * step).value - ask(START, noise / step).value) / (2 * h)
        assert found.noise[j] * noise[j] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    for path, value in parameters(START).items():
        ends = [
            ask(with_parameters(START, parameters(START) | {path: value * np.exp(s)}), noise).value
            for s in (h, -h)
        ]
        assert np.sum(found.kernel[path] * value) == pytest.approx(
            (ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-7
        )


@pytest.mark.parametrize("noises", [(1e-4, 1.0), (1e-4, 1.0, 0.04)], ids=["two", "three"])
@pytest.mark.parametrize(("n", "repeats"), [(400, 1), (400, 2), (1300, 1), (2400, 2)])
def test_each_noise_is_found_within_a_factor_of_two(n, repeats, noises):
    X, y = drawn(n, noises, repeats=repeats)
    data = merge_rows(X, y)
    learned = learn(
        data.X, data.y, START, np.full(len(noises), 0.1), counts=data.counts, scatter=data.scatter
    )
    assert all(("exact" if len(data.X) <= 1000 else "neighbours") in stage for stage in learned.stages)
    ratio = learned.noise / np.array(noises)
    assert (ratio > 0.5).all(), learned.noise
    assert (ratio < 2.0).all(), learned.noise


def test_equal_noises_have_the_objective_of_one_noise():
    X, y = drawn(40)
    rows = Rows.of(X, y)
    shared, own = (objective("exact", rows, noise)(START, noise) for noise in (0.1, np.array([0.1, 0.1])))
    assert own.value == pytest.approx(shared.value, rel=1e-12)
    assert own.noise.sum() == pytest.approx(shared.noise, rel=1e-9)
    for path in shared.kernel:
        np.testing.assert_allclose(own.kernel[path], shared.kernel[path], rtol=1e-9)


def test_ranges_are_in_units_of_each_target():
    X, y = drawn(30)
    y = y / np.sqrt((y**2).mean(axis=0)) * [1.0, 100.0]
    space = Space.of(START, np.array([0.1, 0.1]), Rows.of(X, y))
    np.testing.assert_allclose(np.exp(space.lower[-2:]), RANGES.noise[0] * np.array([1.0, 1e4]), rtol=1e-9)
    kernel, noise = space.values(space.vector(START, np.array([0.2, 300.0])))
    np.testing.assert_allclose(noise, [0.2, 300.0])
    assert space.at_bounds(space.vector(START, np.array([0.2, 1e-9]))) == ("noise[1]",)
    evaluation = Evaluation(
        0.0, {path: 0.0 * np.asarray(v) for path, v in parameters(kernel).items()}, np.array([2.0, 3.0])
    )
    theta = space.vector(START, np.array([0.2, 300.0]))
    np.testing.assert_allclose(space.slope(evaluation, theta)[-2:], [0.4, 900.0])


def test_bad_noises_and_scatter_are_refused():
    X, y = drawn(30)
    with pytest.raises(InputError, match="each of 2 targets"):
        learn(X, y, START, np.ones(3))
    with pytest.raises(InputError, match="scatter is one number for 2 targets"):
        learn(X, y, START, np.ones(2), counts=np.full(30, 2.0), scatter=1.0)
    with pytest.raises(InputError, match="scatter is"):
        learn(X, y, START, np.ones(2), counts=np.full(30, 2.0), scatter=[1.0, -1.0])

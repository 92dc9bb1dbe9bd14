"""Tables with more features than their rows can tell apart: one shared lengthscale, and the few features
that matter."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from oracles import assert_slopes, repeated

from itergp import RBF, IterGPRegressor, Matern12, Matern32, Matern52, RationalQuadratic
from itergp.data.rows import Rows
from itergp.learning import learn, run as running, wide
from itergp.learning.endings import Ending
from itergp.learning.exact import exact
from itergp.learning.parameters import Evaluation
from itergp.learning.wide import Shared, SharedLikelihood, is_wide
from itergp.prior.parameters import parameters

LEAVES = [RBF, Matern12, Matern32, Matern52, RationalQuadratic]


def sparse(n, d, relevant=3, seed=0, noise=0.1):
    """Some features matter, one of them by its square; the others are there."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = np.sin(X[:, 0]) + 0.7 * (X[:, 1] ** 2 - 1.0) + X[:, 2:relevant].sum(axis=1)
    return X, f + noise * rng.standard_normal(n)


def ard(d, leaf=Matern32):
    return 1.0 * leaf(np.full(d, d**0.5))


def reduced(kernel, d, chosen=(), lengthscales=(1.0,)):
    shared = Shared(kernel, d, chosen)
    return shared, shared.reduced(kernel, np.array(lengthscales))


@pytest.mark.parametrize("leaf", LEAVES)
def test_it_is_the_exact_likelihood_of_the_expanded_kernel(leaf):
    data, d = repeated(), 70
    X = np.random.default_rng(1).standard_normal((len(data.X), d))
    shared, kernel = reduced(2.0 * (1.5 * leaf(np.linspace(5.0, 9.0, d))), d, (4, 60), (1.3, 0.2, 0.4))
    found = SharedLikelihood.of(shared, Rows.of(X, data.y, **data.merged))(kernel, 0.05)
    expected = exact(Rows.of(X, data.y, **data.merged))(shared.expanded(kernel), 0.05)
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    assert found.noise == pytest.approx(expected.noise, rel=1e-7)


def test_inputs_far_from_the_origin_have_the_likelihood_of_their_differences():
    """Also for the features that have a lengthscale of their own: at 2^40 coordinates would round before
    they differ."""
    d, rng = 70, np.random.default_rng(3)
    # so that shifting is exact
    X, y = np.round(rng.standard_normal((60, d)) * 2**10) / 2**10, rng.standard_normal(60)
    shared, kernel = reduced(Matern32(np.linspace(5.0, 9.0, d)), d, (4, 60), (1.3, 0.2, 0.4))
    near, far = (
        SharedLikelihood.of(shared, Rows.of(X + offset, y))(kernel, 1e-4).value for offset in (0.0, 2.0**40)
    )
    assert far == pytest.approx(near, rel=1e-9)


@pytest.mark.parametrize("leaf", LEAVES)
def test_its_gradient_is_that_of_differences(monkeypatch, leaf):
    monkeypatch.setattr(wide, "STRIP", 10)  # several strips, the last one not whole
    data, d = repeated(), 70
    X = np.random.default_rng(1).standard_normal((len(data.X), d))
    shared, kernel = reduced(2.0 * leaf(np.full(d, 8.0)), d, (4, 60), (1.3, 0.2, 0.4))
    assert_slopes(SharedLikelihood.of(shared, Rows.of(X, data.y, **data.merged)), kernel)


def test_gains_are_those_of_a_kernel_that_is_multiplied():
    """By 1 + e h h^T, for the best of four h: differences of the dense density say the same."""
    X, y = sparse(40, 70)
    rows, noise = Rows.of(X, y), 0.1
    shared, kernel = reduced(1.5 * Matern32(np.full(70, 8.0)), 70)
    gains = SharedLikelihood.of(shared, rows).gains(kernel, noise)
    K = shared.expanded(kernel)(X, X)

    def density(M):
        C = M + noise * np.eye(len(M))
        return -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1])

    for c in (0, 1, 33):
        places = (1.0 + np.argsort(np.argsort(X[:, c]))) / len(X)
        best = -np.inf
        for v in (X[:, c], *(np.cos(np.pi * k * places) for k in (2, 3, 4))):
            v = (v - v.mean()) / v.std()
            up, down = (density(K * (1.0 + sign * 1e-5 * np.outer(v, v))) for sign in (1.0, -1.0))
            best = max(best, (up - down) / 2e-5)
        # `gains` are of k / scale: all of one table are in the same units
        assert 1.5 * gains[c] == pytest.approx(best, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "d", "expected"),
    [(50, 8, False), (50, 9, True), (179, 9, True), (180, 9, False), (1299, 65, True), (1300, 65, False)],
)
def test_a_table_is_wide_where_rows_are_few_for_its_features(n, d, expected):
    rows = Rows.of(np.random.default_rng(0).standard_normal((n, d)), np.zeros(n))
    assert is_wide(ard(d), rows) is expected
    assert is_wide(ard(d) + ard(d), rows) is False  # a sum has no single lengthscale


@pytest.mark.parametrize(("n", "d"), [(100, 20), (200, 40), (300, 64), (300, 65)])
@pytest.mark.parametrize("kind", ["normal", "binary"])
def test_intervals_hold_where_rows_are_few_for_the_features(n, d, kind):
    """With a lengthscale for each feature they held 80 to 90 %: noise was explained away."""
    held = []
    for seed in range(4):
        rng = np.random.default_rng([seed, n, d])
        X = rng.standard_normal((n + 400, d)) if kind == "normal" else (rng.random((n + 400, d)) < 0.3) * 1.0
        y = np.tanh(X[:, :5] @ rng.standard_normal(5)) + 0.5 * rng.standard_normal(n + 400)
        lower, upper = IterGPRegressor().fit(X[:n], y[:n]).interval(X[n:])
        held.append(np.mean((lower <= y[n:]) & (y[n:] <= upper)))
    assert np.mean(held) > 0.915
    assert min(held) > 0.86


def test_the_features_that_matter_get_lengthscales_of_their_own_and_all_others_share_one():
    X, y = sparse(200, 100)
    found = learn(X, y - y.mean(), ard(100), 0.1)
    lengthscales = found.kernel.kernel.lengthscale
    assert lengthscales.shape == (100,)
    assert set(np.argsort(lengthscales)[:3]) == {0, 1, 2}
    assert np.unique(lengthscales).size == 1 + 3
    assert lengthscales[3:].max() > 10 * lengthscales[:3].max()


@pytest.mark.parametrize("seed", [0, 1])
def test_features_that_came_in_a_batch_and_say_nothing_are_left_out_again(seed):
    X, y = sparse(200, 20, noise=0.0, seed=seed)
    lengthscales = learn(X, y - y.mean(), ard(20), 0.1).kernel.kernel.lengthscale
    assert set(np.argsort(lengthscales)[:3]) == {0, 1, 2}
    assert np.unique(lengthscales).size == 1 + 3


def test_chance_chooses_no_feature():
    rng = np.random.default_rng(3)
    for d in (80, 400):
        found = learn(rng.standard_normal((100, d)), rng.standard_normal(100), ard(d), 0.1)
        assert np.unique(found.kernel.kernel.lengthscale).size == 1


def test_a_choice_that_does_not_pay_leaves_all_as_it_was(monkeypatch):
    X, y = sparse(120, 70)
    monkeypatch.setattr(wide, "FIRST", 0)
    shared = learn(X, y - y.mean(), ard(70), 0.1)
    monkeypatch.setattr(wide, "FIRST", 2)
    monkeypatch.setattr(running.Run, "attempt", _priceless(running.Run.attempt))
    attempted = learn(X, y - y.mean(), ard(70), 0.1)
    assert any("apart" in stage for stage in attempted.stages)
    np.testing.assert_array_equal(attempted.kernel.kernel.lengthscale, shared.kernel.kernel.lengthscale)
    assert (attempted.noise, attempted.objective) == (shared.noise, shared.objective)


def _priceless(attempt):
    return lambda run, shared, kernel, noise, rows, price: attempt(run, shared, kernel, noise, rows, np.inf)


def test_one_lengthscale_that_was_asked_for_stays_one():
    X, y = sparse(100, 80)
    found = learn(X, y - y.mean(), 1.0 * Matern32(9.0), 0.1)
    assert isinstance(found.kernel.kernel.lengthscale, float)
    assert found.kernel.kernel.lengthscale != 9.0


def test_given_lengthscales_keep_their_ratios():
    X, y = sparse(100, 80)
    units = np.linspace(1.0, 3.0, 80)
    found = learn(X * units, y - y.mean(), 1.0 * Matern32(9.0 * units), 0.1)
    plain = learn(X, y - y.mean(), ard(80), 0.1)
    # as rates: where features do not matter, the likelihood is flat in their lengthscales
    np.testing.assert_allclose(
        units / found.kernel.kernel.lengthscale, 1.0 / plain.kernel.kernel.lengthscale, rtol=2e-2, atol=5e-3
    )


def test_each_target_may_have_its_own_noise():
    X, y = sparse(80, 70)
    Y = np.stack([y, y + np.random.default_rng(5).standard_normal(80)], axis=1)
    found = learn(X, Y - Y.mean(axis=0), ard(70), np.array([0.1, 0.1]))
    assert found.noise.shape == (2,)
    assert found.noise[1] > 3 * found.noise[0]


def test_an_evaluation_looks_at_the_clock():
    X, y = sparse(300, 70)
    ticks = []
    shared, kernel = reduced(ard(70), 70)
    likelihood = SharedLikelihood.of(shared, Rows.of(X, y), lambda: ticks.append(1))
    assert len(ticks) == -(-300 // wide.STRIP)
    ticks.clear()
    likelihood(kernel, 0.1)
    assert len(ticks) >= 2 * -(-300 // wide.STRIP)
    ticks.clear()
    exact(Rows.of(X, y), tick=lambda: ticks.append(1))(ard(70), 0.1)
    assert len(ticks) >= 4


@pytest.mark.parametrize("limit", [3.0, 40.0, 400.0, 4000.0])
def test_a_limit_is_kept_and_what_was_learned_before_it_stays(monkeypatch, limit):
    """Each tick takes a second: the work ends with the tick after the limit, wherever that is."""
    now = [0.0]

    def tick(run):
        now[0] += 1.0
        if run.left <= 0:
            raise running.OutOfTime

    monkeypatch.setattr(running.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(running.Run, "tick", tick)
    X, y = sparse(400, 100)
    found = learn(X, y - y.mean(), ard(100), 0.1, seconds=limit)
    assert now[0] <= limit + 1.0 or found.ended is not Ending.BUDGET
    assert found.kernel.kernel.lengthscale.shape == (100,)
    value = exact(Rows.of(X, y - y.mean()))
    assert value(found.kernel, found.noise).value <= value(ard(100), 0.1).value + 1e-9
    if limit == 3.0:
        assert found.ended is Ending.BUDGET
        assert not found.trace


def test_an_attempt_that_the_clock_cuts_is_taken_back(monkeypatch):
    X, y = sparse(150, 80)
    whole = wide.SharedLikelihood.__call__

    def evaluate(self, kernel, noise):
        if len(self.shared.chosen):
            raise running.OutOfTime
        return whole(self, kernel, noise)

    monkeypatch.setattr(wide.SharedLikelihood, "__call__", evaluate)
    found = learn(X, y - y.mean(), ard(80), 0.1)
    assert found.ended is Ending.BUDGET
    assert "apart" in found.stages[-1]
    assert np.unique(found.kernel.kernel.lengthscale).size == 1


def test_parameters_at_the_edge_have_the_names_of_the_kernel():
    shared = Shared(ard(70), 70, (7, 61))
    assert shared.name("kernel.lengthscale[0]") == "kernel.lengthscale"
    assert shared.name("kernel.lengthscale[2]") == "kernel.lengthscale[61]"
    assert shared.name("scale") == "scale"
    assert replace(shared, chosen=()).name("kernel.lengthscale") == "kernel.lengthscale"


def test_the_number_of_free_parameters_does_not_grow_with_the_features(monkeypatch):
    sizes = []

    def evaluate(self, kernel, noise):
        sizes.append(np.size(parameters(kernel)["kernel.lengthscale"]))
        return Evaluation(
            0.0, {path: np.zeros(np.shape(value)) for path, value in parameters(kernel).items()}, 0.0
        )

    monkeypatch.setattr(wide.SharedLikelihood, "__call__", evaluate)
    for d in (70, 700):
        X, y = sparse(60, d)
        learn(X, y, ard(d), 0.1)
        assert max(sizes) <= 1 + wide.FIRST
        sizes.clear()


def test_a_wide_fit_needs_no_jax():
    code = (
        "import sys, numpy as np, itergp; r = np.random.default_rng(0); X = r.standard_normal((60, 90));m = "
        "itergp.IterGPRegressor().fit(X, X[:, 0]); m.predict(X, return_std=True); print('jax' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )


def test_intervals_hold_and_few_features_among_many_are_better_than_one_lengthscale():
    X, y = sparse(550, 150, relevant=4, noise=0.3)
    errors = {}
    for name, kernel in {"chosen": "matern32", "shared": 1.0 * Matern32(150**0.5)}.items():
        mean, std = IterGPRegressor(kernel=kernel).fit(X[:150], y[:150]).predict(X[150:], return_std=True)
        errors[name] = np.sqrt(((mean - y[150:]) ** 2).mean())
        assert 0.88 <= (np.abs(mean - y[150:]) < 1.96 * std).mean() <= 0.99, name
    assert errors["chosen"] < 0.6 * errors["shared"]

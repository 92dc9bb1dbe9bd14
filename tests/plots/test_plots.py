"""Pictures show the numbers of the process: every test reads what was drawn, and compares it with what was
asked for."""

import builtins
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from itergp import (
    InputError,
    IterGPRegressor,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    UnitVector,
    condition,
)
from itergp.baselines import exact, svgp
from itergp.metrics import LEVELS
from itergp.solver.policies import ConjugateGradient

matplotlib = pytest.importorskip("matplotlib")

from itergp.plots import (  # noqa: E402 (where matplotlib is)
    plot_calibration,
    plot_decomposition,
    plot_posterior,
    plot_trace,
)
from itergp.plots.drawing import new_figure  # noqa: E402
from itergp.plots.slices import DRAWN  # noqa: E402

NOISE = 0.01
PRIOR = Prior(1.0 * Matern32(lengthscale=0.4))


@pytest.fixture
def axis():
    return new_figure(5.0, 4.0).add_subplot()


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1, 1, 30))
    return x, np.sin(3 * x) + 0.1 * rng.standard_normal(30)


@pytest.fixture(scope="module")
def posterior(line):
    return condition(PRIOR, *line, NOISE, ConjugateGradient(), MaxActions(4))


@pytest.fixture(scope="module")
def cube():
    """Three features of different size, of which the second matters most; and its posterior after 20
    actions."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (200, 3)) * [1.0, 2.0, 30.0] + [0.0, 5.0, -7.0]
    y = np.sin(X[:, 1]) + 0.2 * X[:, 0] + 0.1 * rng.standard_normal(200)
    kernel = 1.0 * Matern32(lengthscale=[2.0, 1.0, 60.0])
    return X, y, condition(Prior(kernel), X, y, NOISE, PseudoInput(block_size=10), MaxActions(20))


def drawn(axis):
    """What is on the axis, by its label: polygons, lines and points."""
    found = {}
    for artist in (*axis.collections, *axis.lines, *axis.patches):
        found.setdefault(artist.get_label(), artist)
    return found


def edges(area, t):
    """The lower and the upper edge of what fill_between drew, at the positions t."""
    vertices = area.get_paths()[0].vertices
    low, high = (np.array([pick(vertices[vertices[:, 0] == x, 1]) for x in t]) for pick in (min, max))
    return low, high


def test_bands_are_two_standard_deviations_mathematical_inside_and_computational_around(
    posterior, line, axis
):
    assert plot_posterior(posterior, axis=axis, points=50) is axis
    shown = drawn(axis)
    t, mean = shown["posterior mean"].get_data()
    truth = exact(PRIOR, *line, NOISE)
    np.testing.assert_allclose(mean, posterior.mean(t), atol=1e-12)
    low, high = edges(shown["mathematical"], t)
    np.testing.assert_allclose(high - low, 4 * np.sqrt(truth.var(t)), rtol=1e-6)
    np.testing.assert_allclose((high + low) / 2, mean, atol=1e-12)
    above = edges(shown["computational"], t)
    below = edges(axis.collections[2], t)
    np.testing.assert_allclose(above[1] - below[0], 4 * np.sqrt(posterior.var(t)), rtol=1e-9)
    np.testing.assert_allclose([above[0], below[1]], [high, low], atol=1e-12)  # no gap, no overlap
    x, y = shown["data"].get_offsets().T
    np.testing.assert_array_equal([x, y], line)
    assert t[0] < line[0].min() < line[0].max() < t[-1]


@pytest.mark.parametrize("name", ["prior", "svgp", "exact"])
def test_what_has_no_parts_is_drawn_with_one_band(name, line, axis):
    x, y = line
    process = {
        "prior": lambda: PRIOR,
        "svgp": lambda: svgp(PRIOR, x, y, NOISE, x[::5]),
        "exact": lambda: exact(PRIOR, x, y, NOISE),
    }
    process = process[name]()
    plot_posterior(process, limits=(-2, 2), points=21, axis=axis)
    shown = drawn(axis)
    t, mean = shown["mean"].get_data()
    np.testing.assert_allclose(mean, process.mean(t), atol=1e-12)
    np.testing.assert_allclose(t, np.linspace(-2, 2, 21))
    low, high = edges(shown["two standard deviations"], t)
    half = 2 * np.sqrt(process.var(t))
    np.testing.assert_allclose([low, high], [process.mean(t) - half, process.mean(t) + half], atol=1e-12)
    assert "mathematical" not in shown
    assert ("data" in shown) == (name != "prior")


def test_a_local_posterior_has_parts_too(posterior, axis):
    local = posterior.local(5)
    plot_posterior(local, points=30, axis=axis)
    t, mean = drawn(axis)["posterior mean"].get_data()
    np.testing.assert_allclose(mean, local.mean(t), atol=1e-12)
    low, high = edges(drawn(axis)["mathematical"], t)
    np.testing.assert_allclose(high - low, 4 * np.sqrt(local.decompose(t).mathematical), rtol=1e-9)


def test_noise_adds_the_limits_of_a_new_observation(posterior, axis):
    plot_posterior(posterior, noise=NOISE, points=30, axis=axis)
    lower = drawn(axis)["new observation"]
    t = lower.get_xdata()
    half = 2 * np.sqrt(posterior.predictive_var(t))
    np.testing.assert_allclose(lower.get_ydata(), posterior.mean(t) - half, atol=1e-12)
    np.testing.assert_allclose(axis.lines[-1].get_ydata(), posterior.mean(t) + half, atol=1e-12)


def test_a_slice_runs_along_the_feature_that_matters_with_the_others_at_their_medians(cube, axis):
    X, _, posterior = cube
    plot_posterior(posterior, points=40, axis=axis)
    t, mean = drawn(axis)["posterior mean"].get_data()
    rows = np.tile(np.median(X, axis=0), (40, 1))
    rows[:, 1] = t
    np.testing.assert_allclose(mean, posterior.mean(rows), atol=1e-12)
    assert axis.get_xlabel() == "feature 1, the others at their medians"
    margin = 0.1 * np.ptp(X[:, 1])
    np.testing.assert_allclose([t[0], t[-1]], [X[:, 1].min() - margin, X[:, 1].max() + margin])


def test_a_slice_may_be_asked_for_by_number_name_and_point(cube, axis):
    *_, posterior = cube
    at = np.array([0.5, 4.0, 0.0])
    plot_posterior(
        posterior, feature="c", names=["a", "b", "c"], at=at, limits=(-20, 10), points=40, axis=axis
    )
    t, mean = drawn(axis)["posterior mean"].get_data()
    np.testing.assert_allclose(t, np.linspace(-20, 10, 40))
    rows = np.tile(at, (40, 1))
    rows[:, 2] = t
    np.testing.assert_allclose(mean, posterior.mean(rows), atol=1e-12)
    assert axis.get_xlabel() == "c, the others as given"
    plot_posterior(posterior, feature=2, at=at, limits=(-20, 10), points=40, axis=axis)
    np.testing.assert_array_equal(axis.lines[0].get_ydata(), axis.lines[1].get_ydata())


def test_beside_a_slice_only_the_nearest_data_are_drawn(cube, axis):
    X, y, posterior = cube
    plot_posterior(posterior, feature=1, axis=axis)
    points = np.asarray(drawn(axis)["the 20 nearest data"].get_offsets())
    away = (X - np.median(X, axis=0)) / X.std(axis=0)
    nearest = np.argsort(np.hypot(away[:, 0], away[:, 2]))[:20]
    np.testing.assert_array_equal(
        np.sort(points, axis=0), np.sort(np.column_stack([X[nearest, 1], y[nearest]]), axis=0)
    )


def test_of_many_data_some_are_drawn_and_the_label_says_so(posterior, axis):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 3000)
    plot_posterior(posterior, x, np.sin(x), axis=axis)
    points = np.asarray(drawn(axis)["1,000 of 3,000 data"].get_offsets())
    assert len(np.unique(points[:, 0])) == DRAWN
    np.testing.assert_allclose(points[:, 1], np.sin(points[:, 0]))


def test_each_target_has_a_picture_of_its_own(line, axis):
    x, y = line
    both = condition(PRIOR, x, np.column_stack([y, 5 - y]), NOISE, UnitVector("pivoted"), MaxActions(6))
    plot_posterior(both, target=1, points=30, axis=axis)
    t, mean = drawn(axis)["posterior mean"].get_data()
    np.testing.assert_allclose(mean, both.mean(t)[:, 1], atol=1e-12)
    np.testing.assert_array_equal(np.asarray(drawn(axis)["data"].get_offsets())[:, 1], 5 - y)
    with pytest.raises(InputError, match="target is 2; expected a number from 0 to 1"):
        plot_posterior(both, target=2, axis=axis)


def test_the_decomposition_is_stacked_and_sorted(posterior, axis):
    X = np.random.default_rng(3).uniform(-1.5, 1.5, 40)
    plot_decomposition(posterior, X, axis=axis)
    parts = posterior.decompose(X)
    order = np.argsort(parts.combined)
    inner, outer, top = axis.patches
    assert (np.diff(top.get_data().values) >= 0).all()
    np.testing.assert_array_equal(inner.get_data().values, parts.mathematical[order])
    np.testing.assert_array_equal(outer.get_data().baseline, inner.get_data().values)
    np.testing.assert_allclose(outer.get_data().values, (parts.mathematical + parts.computational)[order])
    share = 100 * parts.computational.sum() / parts.combined.sum()
    assert outer.get_label() == f"computational, {share:.3g} %"


def test_parts_that_are_not_exact_are_called_so(axis):
    class Estimated:
        """As a posterior of many rows answers."""

        def __init__(self, posterior):
            self.posterior, self.mean, self.var = posterior, posterior.mean, posterior.var

        def decompose(self, X):
            return self.posterior.decompose(X, "estimate")

    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (60, 2))
    process = Estimated(condition(PRIOR, X, X[:, 0], NOISE, UnitVector(), MaxActions(5)))
    plot_decomposition(process, X, axis=axis)
    parts = process.decompose(X)
    order = np.argsort(parts.combined, kind="stable")
    assert axis.patches[1].get_label().startswith("computational, at least")
    least = next(patch for patch in axis.patches if patch.get_label() == "mathematical, guaranteed")
    np.testing.assert_array_equal(
        least.get_data().values, (parts.combined - parts.computational_upper)[order]
    )


@pytest.mark.parametrize(
    ("quantity", "over", "names"),
    [
        ("residual", "actions", ("residual_norm", "actions")),
        ("variance", "passes", ("mean_training_variance", "passes")),
        ("elbo", "seconds", ("elbo", "seconds")),
        ("energy", "entries", ("energy", "entries")),
    ],
)
def test_the_trace_is_that_of_the_steps(posterior, axis, quantity, over, names):
    value, cost = names
    plot_trace(posterior, quantity, over, axis=axis)
    x, y = axis.lines[0].get_data()
    np.testing.assert_array_equal(x, [getattr(step, cost) for step in posterior.trace])
    np.testing.assert_array_equal(y, [getattr(step, value) for step in posterior.trace])
    assert len(x) == 4


def test_traces_on_one_axis_differ_in_colour_and_are_named(posterior, axis):
    plot_trace(posterior, label="CG", axis=axis)
    plot_trace(posterior.local(3), label="the same, local", axis=axis)
    first, second = axis.lines
    assert first.get_color() != second.get_color()
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["CG", "the same, local"]


def test_calibration_counts_observations_inside_intervals(posterior, axis):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, 80)
    y = np.sin(3 * X) + 0.1 * rng.standard_normal(80)
    plot_calibration(posterior, X, y, axis=axis)
    levels, share = drawn(axis)["observed"].get_data()
    std = np.sqrt(posterior.var(X) + NOISE)
    inside = [
        np.mean(np.abs(y - posterior.mean(X)) <= scipy.stats.norm.ppf(0.5 + level / 2) * std)
        for level in LEVELS
    ]
    np.testing.assert_array_equal(levels, LEVELS)
    np.testing.assert_allclose(share, inside)


def test_the_grey_band_holds_ninety_five_of_a_hundred_honest_forecasts(posterior, axis):
    rng = np.random.default_rng(6)
    points = 80
    plot_calibration(posterior, np.zeros(points), np.zeros(points), axis=axis)
    vertices = drawn(axis)["95 % of calibrated forecasts"].get_paths()[0].vertices
    at = vertices[np.argmin(np.abs(vertices[:, 0] - 0.8)), 0]
    low, high = (pick(vertices[vertices[:, 0] == at, 1]) for pick in (min, max))
    shares = rng.binomial(points, at, 20_000) / points
    assert 0.95 <= np.mean((shares >= low) & (shares <= high)) < 0.98  # discrete: a little above


def test_calibration_asks_for_the_noise_where_there_is_none(line, axis):
    x, y = line
    with pytest.raises(InputError, match="noise is missing, and a Prior has none"):
        plot_calibration(PRIOR, x, y, axis=axis)
    plot_calibration(exact(PRIOR, x, y, NOISE), x, y, axis=axis)  # its own noise
    plot_calibration(exact(PRIOR, x, y, NOISE), x, y, noise=NOISE, axis=axis)
    np.testing.assert_array_equal(axis.lines[1].get_ydata(), axis.lines[2].get_ydata())


def test_the_estimator_draws_in_the_units_of_the_data(axis):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"speed": 100 + 10 * rng.uniform(-1, 1, 120), "<age>": rng.uniform(0, 1, 120)})
    y = 1000 + 50 * np.sin(0.3 * frame["speed"].to_numpy()) + rng.standard_normal(120)
    model = IterGPRegressor(
        Matern32(0.5), noise=0.01, learn=False, budget="20 actions", policy="cg", neighbours=5
    ).fit(frame, y)
    assert model.plot(axis=axis) is axis
    shown = drawn(axis)
    t, mean = shown["posterior mean"].get_data()
    rows = pd.DataFrame({"speed": t, "<age>": frame["<age>"].median()})
    np.testing.assert_allclose(mean, model.predict(rows), rtol=1e-9)
    low, high = edges(shown["mathematical"], t)
    np.testing.assert_allclose(high - low, 4 * np.sqrt(model.decompose(rows).mathematical), rtol=1e-6)
    std = model.predict(rows, return_std=True)[1]
    np.testing.assert_allclose(shown["new observation"].get_ydata(), mean - 2 * std, rtol=1e-9)
    points = np.asarray(shown["the 20 nearest data"].get_offsets())
    assert set(np.round(points[:, 1], 6)) <= set(np.round(y, 6))
    assert axis.get_xlabel() == "speed, the others at their medians"
    model.plot(frame[:50], y[:50], feature="<age>", axis=axis.figure.add_subplot())
    with pytest.raises(InputError, match="feature is 'height'; expected one of 'speed', '<age>'"):
        model.plot(feature="height", axis=axis)


def test_a_model_without_its_targets_is_drawn_without_data(tmp_path, line, axis):
    model = IterGPRegressor(Matern32(0.5), noise=0.01, learn=False, budget="5 actions").fit(
        line[0][:, None], line[1]
    )
    model.save(tmp_path / "model.itergp", refinable=False)
    IterGPRegressor.load(tmp_path / "model.itergp").plot(axis=axis)
    assert "posterior mean" in drawn(axis)
    assert "data" not in drawn(axis)


BAD = {
    "axis is ndarray; expected one": lambda p: plot_posterior(p, axis=np.zeros(2)),
    "y is given without X": lambda p: plot_posterior(p, y=np.zeros(3)),
    "feature is 1; expected a number from 0 to 0": lambda p: plot_posterior(p, feature=1),
    "feature is 'x'; expected one of": lambda p: plot_posterior(p, feature="x"),
    r"at has shape \(2,\); expected \(1,\)": lambda p: plot_posterior(p, at=[0.0, 1.0]),
    r"limits is \(1, 0\); expected two": lambda p: plot_posterior(p, limits=(1, 0)),
    "limits is missing, and a Prior without data": lambda p: plot_posterior(PRIOR),
    "process is a Prior, whose variance has no parts": lambda p: plot_decomposition(PRIOR, [0.0]),
    "process is a Prior without a trace": lambda p: plot_trace(PRIOR),
    "quantity is 'loss'; expected one of 'residual'": lambda p: plot_trace(p, "loss"),
    "over is 'hours'; expected one of 'actions'": lambda p: plot_trace(p, over="hours"),
    "points is 1; expected an integer of at least 2": lambda p: plot_posterior(p, points=1),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(posterior, message):
    with pytest.raises(InputError, match=message):
        BAD[message](posterior)


def test_without_matplotlib_the_error_names_the_package(posterior, monkeypatch):
    original = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="pip install matplotlib"):
        plot_posterior(posterior)


def test_a_new_figure_is_pyplots_only_where_pyplot_is_loaded():
    code = """
import sys, numpy as np, itergp
x = np.linspace(0, 1, 9)
p = itergp.condition(itergp.Prior(itergp.RBF(0.3)), x, x, 0.1)
assert "matplotlib" not in sys.modules
axis = itergp.plots.plot_posterior(p)
assert "matplotlib.pyplot" not in sys.modules
axis.figure.savefig("/dev/null", format="png")
import matplotlib.pyplot as plt
assert plt.get_fignums() == []
assert itergp.plots.plot_trace(p).figure is plt.gcf()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"MPLBACKEND": "Agg"}
    )
    assert done.stdout.strip() == "fine", done.stderr

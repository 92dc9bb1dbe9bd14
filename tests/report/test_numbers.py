"""Every number of a report is what an independent computation gives."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as skl
from sklearn.metrics import r2_score, root_mean_squared_error

from itergp import RBF, IterGPRegressor, MaxActions, Status, metrics
from itergp.errors import InputError
from itergp.fitted import points, shares as share
from itergp.fitted.calibration import sentence
from itergp.fitted.seen import positions
from itergp.learning.parameters import NOISE_FREE, RANGES
from itergp.posterior.uncertainty import taken_apart
from itergp.report import numbers
from itergp.report.page.card import card
from itergp.report.page.page import render

N, TEST, ACTIONS, NEAR = 90, 40, 24, 5
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N + TEST, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 3.0]
Y = 40 + 7 * np.sin(4 * X[:, 0]) + 0.5 * X[:, 1] + RNG.standard_normal(N + TEST)
X_TEST, Y_TEST = X[N:], Y[N:]
LENGTHS = np.array([0.5, 1.5, 9.0])  # in standard deviations
UNITS = X[:N].std(axis=0)


def fitted(budget=f"{ACTIONS} actions", neighbours=NEAR, y=Y, rows=N, **more):
    from itergp import Matern32

    kernel = more.pop("kernel", 1.5 * Matern32(LENGTHS * UNITS))
    return IterGPRegressor(
        kernel=kernel, noise=0.05, learn=False, budget=budget, neighbours=neighbours, **more
    ).fit(X[:rows], y[:rows])


def exact_gp(model, rows):
    """scikit-learn's GP with the same hyper-parameters on some of the training rows, in the model's scaled
    units."""
    kernel = skl.ConstantKernel(1.5, "fixed") * skl.Matern(LENGTHS * UNITS, "fixed", nu=1.5)
    inputs, targets = model.scaling_.inputs(X[rows]), model.scaling_.targets(Y[rows])
    return GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(inputs, targets)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def tested(model):
    return numbers(model.fit_, X_TEST, Y_TEST)


def close(found, expected, digits=7e-5):
    """As far as five digits tell."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=digits, atol=1e-9 + 1e-6 * np.abs(expected).max())


# At test data.


def test_the_last_position_is_the_model_as_it_predicts(model, tested):
    mean, std = model.predict(X_TEST, return_std=True)
    found = tested["targets"][0]["metrics"]
    close(found["rmse"][-1], root_mean_squared_error(Y_TEST, mean))
    close(found["r2"][-1], r2_score(Y_TEST, mean))
    close(tested["targets"][0]["baseline"], root_mean_squared_error(Y_TEST, np.full(TEST, Y[:N].mean())))
    close(tested["targets"][0]["predicted"]["mean"], mean)
    close(tested["targets"][0]["predicted"]["observed"], Y_TEST)
    assert tested["verdict"][0].startswith(f"R2 {found['r2'][-1]:.3f}: the typical error")
    close(found["nll"][-1], -norm.logpdf(Y_TEST, mean, std).mean())
    close(found["coverage"][-1], (np.abs(Y_TEST - mean) < norm.ppf(0.975) * std).mean())
    close(found["crps"][-1], metrics.crps(Y_TEST, mean, std**2))
    assert tested["path"]["labels"][-1] == f"with {NEAR} local actions"
    assert tested["points"] == {
        "source": "test data",
        "count": TEST,
        "note": f"All {TEST} rows of the test data.",
        "learned_from": False,
    }


def test_intervals_are_called_too_wide_only_by_rows_that_taught_nothing():
    """One error in a hundred is gross, so 95 % intervals hold about 99 %; but rows from which the kernel was
    learned hold more often than new ones do."""
    rng = np.random.default_rng(3)
    inputs = rng.uniform(-1, 1, (1200, 1))
    y = np.sin(3 * inputs[:, 0]) + 0.1 * rng.standard_normal(1200) + 5.0 * (np.arange(1200) % 100 == 7)
    learned = IterGPRegressor(kernel="matern52").fit(inputs[:600], y[:600])
    given = IterGPRegressor(kernel=learned.kernel_, noise=learned.noise_, learn=False)
    given.fit(inputs[:600], y[:600])
    wide, optimistic = "They are wider than needed.", "the kernel was learned from them too"
    for model, data, said in (
        (learned, (inputs[600:], y[600:]), wide),
        (given, (), wide),
        (learned, (), optimistic),
    ):
        values = numbers(model.fit_, *data)
        assert values["targets"][0]["metrics"]["coverage"][-1] > 0.98
        assert said in values["verdict"][0]
        assert (wide in values["verdict"][0]) == (said == wide)
        assert values["points"]["learned_from"] == (said == optimistic)
        assert (optimistic in sentence(model.calibration_, model.fit_.learned)) == (model is learned)
        assert (optimistic in card(model.fit_)) == (model is learned)


def test_a_position_is_a_model_with_so_many_actions(tested):
    for k in (0, 1, 10, len(tested["path"]["actions"]) - 2):
        actions = tested["path"]["actions"][k]
        mean, std = fitted(f"{actions} actions", neighbours=0).predict(X_TEST, return_std=True)
        close(tested["targets"][0]["metrics"]["rmse"][k], root_mean_squared_error(Y_TEST, mean))
        close(tested["targets"][0]["metrics"]["nll"][k], -norm.logpdf(Y_TEST, mean, std).mean())


def test_calibration_and_pit_count_the_observations(model, tested):
    mean, std = model.predict(X_TEST, return_std=True)
    target, u = tested["targets"][0], norm.cdf(Y_TEST, *model.predict(X_TEST, return_std=True))
    levels = np.array(target["calibration"]["levels"])
    inside = np.abs(Y_TEST - mean)[:, None] <= norm.ppf(0.5 + levels / 2) * std[:, None]
    close(target["calibration"]["observed"][-1], inside.mean(axis=0))
    np.testing.assert_array_equal(target["pit"]["counts"][-1], np.histogram(u, 10, (0, 1))[0])


def test_residuals_and_worst_points(model, tested):
    mean, std = model.predict(X_TEST, return_std=True)
    z, target = (Y_TEST - mean) / std, tested["targets"][0]
    counts = np.array(target["residuals"]["counts"])
    assert counts.sum() == TEST
    expected = np.histogram(np.clip(z, -4, 4), target["residuals"]["y_edges"])[0]
    np.testing.assert_array_equal(counts.sum(axis=0), expected)
    order = np.argsort(-np.abs(z))[:20]
    assert [row["row"] for row in target["worst"]] == order.tolist()
    close([row["z"] for row in target["worst"]], z[order])
    close([row["mean"] for row in target["worst"]], mean[order])
    close([row["std"] for row in target["worst"]], std[order])
    worst = target["worst"][0]
    assert list(worst["features"]) == ["x1", "x2", "x3"]  # by relevance: the shortest lengthscale first
    close(list(worst["features"].values()), X_TEST[order[0]])


def test_the_share_and_the_decomposition_are_those_of_decompose(model, tested):
    parts = model.decompose(X_TEST)
    assert tested["share"]["method"] == "exact"
    close(tested["share"]["value"], parts.computational.sum() / parts.combined.sum())
    close(tested["path"]["share"][-1], tested["share"]["value"])
    order = np.argsort(parts.combined)
    close(tested["targets"][0]["decomposition"]["mathematical"], parts.mathematical[order])
    close(tested["targets"][0]["decomposition"]["computational"], parts.computational[order])
    close(tested["targets"][0]["decomposition"]["noise"], parts.noise[0])
    first = fitted("11 actions", neighbours=0).decompose(X_TEST)
    k = tested["path"]["actions"].index(11)
    close(tested["path"]["share"][k], first.computational.sum() / first.combined.sum())


def test_what_more_compute_would_buy_follows_from_the_last_doubling(model, tested):
    now, half = (m.decompose(X_TEST).computational.sum() for m in (model, fitted(f"{ACTIONS // 2} actions")))
    exact = model.decompose(X_TEST).mathematical.sum()
    left = now * now / half
    close(tested["more"]["share"], left / (exact + left), 1e-3)
    first, last = (model.posterior_.trace[i] for i in (0, -1))
    assert first.actions == last.actions == ACTIONS  # one block, so all of it is the price of a doubling
    close(tested["more"]["seconds"], last.seconds)


def test_beyond_half_of_all_actions_the_rest_makes_it_exact():
    model = fitted("60 actions", policy="cg")
    more, trace = numbers(model.fit_, X_TEST, Y_TEST)["more"], model.posterior_.trace
    assert [step.actions for step in trace] == list(range(1, 61))
    assert more["sentence"].startswith("The remaining 30 actions (")
    assert "would make it the exact Gaussian process" in more["sentence"]
    assert more["share"] == 0.0
    close(more["seconds"], trace[59].seconds - trace[29].seconds)


def test_where_next_to_nothing_is_computational_nothing_is_foretold():
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (120, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(120)
    settings = {"noise": 0.01, "learn": False, "policy": "pseudo-input", "neighbours": 0, "dtype": "float64"}
    found = numbers(IterGPRegressor(1.0 * RBF(0.8), budget="10 actions", **settings).fit(x, y).fit_)
    assert 0 < found["share"]["value"] < 1e-4
    assert found["more"]["share"] is None
    assert "less than 0.01 %" in found["more"]["sentence"]


def test_slices_are_predictions_along_each_feature(model, tested):
    slices = tested["targets"][0]["slices"]
    assert [s["feature"] for s in slices] == ["x1", "x2", "x3"]
    exact = exact_gp(model, np.arange(N))
    for j, s in enumerate(slices):
        grid = np.tile(np.median(X[:N], axis=0), (len(s["x"]), 1))
        grid[:, j] = s["x"]
        mean, std = model.predict(grid, return_std=True, include_noise=False)
        close(s["mean"][-1], mean, 1e-3)  # the x of a slice has five digits
        close(s["combined"][-1], std**2, 2e-3)
        scaled = exact.predict(model.scaling_.inputs(grid), return_std=True)[1] ** 2
        close(s["mathematical"], scaled * model.scaling_.y_scale**2, 2e-3)
        close(s["noise"], 0.05 * model.scaling_.y_scale**2)
        apart = np.abs(np.array(s["near"]["x"])[:, None] - X[:N, j]).min(axis=1)
        assert apart.max() < 1e-5 * np.ptp(X[:N, j])
    early = fitted("11 actions", neighbours=0)
    grid[:, 2] = slices[2]["x"]
    mean, std = early.predict(grid, return_std=True, include_noise=False)
    k = tested["path"]["actions"].index(11)
    close(slices[2]["mean"][k], mean, 1e-3)
    close(slices[2]["combined"][k], std**2, 1e-3)


# By held-out folds.


def test_held_out_folds_of_an_exact_model_are_refits_without_the_fold():
    model = fitted(budget=None)
    found = numbers(model.fit_)
    held = points.from_folds(model.posterior_, model.row_counts_, 0, False)
    mean, variance = np.empty(N), np.empty(N)
    for fold in held.folds:
        rest = np.setdiff1d(np.arange(N), fold.F)
        gp = exact_gp(model, rest)
        constant = model.posterior_.problem.prior.mean(model.scaling_.inputs(X[fold.F]))
        # the mean of scaled targets, so scikit-learn's zero mean is the same
        assert np.abs(constant).max() < 1e-12
        mean[fold.F], std = gp.predict(model.scaling_.inputs(X[fold.F]), return_std=True)
        variance[fold.F] = std**2 + 0.05
    mean, variance = model.scaling_.mean(mean), model.scaling_.variance(variance)
    close(found["targets"][0]["metrics"]["rmse"][-1], root_mean_squared_error(Y[:N], mean))
    close(found["targets"][0]["metrics"]["nll"][-1], -norm.logpdf(Y[:N], mean, np.sqrt(variance)).mean())
    assert found["points"]["count"] == N
    assert (found["share"]["value"], found["share"]["error"], found["more"]["share"]) == (0.0, 0.0, None)
    assert "exact" in found["verdict"][1]


def test_the_share_of_held_out_rows_is_against_the_exact_gp_without_their_fold(model):
    found = numbers(model.fit_)
    held = points.from_folds(model.posterior_, model.row_counts_, NEAR, False)
    combined = held.local(NEAR)[1]
    exact = np.empty(N)
    for fold in held.folds:
        gp = exact_gp(model, np.setdiff1d(np.arange(N), fold.F))
        exact[fold.F] = gp.predict(model.scaling_.inputs(X[fold.F]), return_std=True)[1] ** 2
    close(found["share"]["value"], 1 - exact.sum() / combined.sum(), 1e-4)
    assert "optimistic: the actions were chosen" in found["points"]["note"]


@pytest.mark.parametrize(
    ("passes", "method", "said"), [(4, "estimate", "About "), (0, "neighbours", "At least ")]
)
@pytest.mark.parametrize("held_out", [False, True], ids=["test data", "held-out folds"])
def test_without_the_exact_gp_the_share_lies_between_bounds(
    model, monkeypatch, passes, method, said, held_out
):
    data = () if held_out else (X_TEST, Y_TEST)
    exact = numbers(model.fit_, *data)["share"]["value"]
    monkeypatch.setattr(share, "DENSE_ROWS", 0)
    monkeypatch.setattr(share, "FEW", N + TEST)
    monkeypatch.setattr(share, "affordable_passes", lambda *_: passes)
    values = numbers(model.fit_, *data)
    found = values["share"]
    assert (found["method"], found["error"]) == (method, 0.0)  # at all points
    assert 0 < found["value"] == found["lower"] <= exact + 1e-6
    assert exact - 1e-6 <= found["upper"]
    if passes:
        assert found["upper"] - found["lower"] < 0.1 * exact
    assert values["targets"][0]["slices"][0]["mathematical"] is None
    assert values["verdict"][1].startswith(said)


@pytest.mark.parametrize("rows", [4096, 0], ids=["exact", "between bounds"])
@pytest.mark.parametrize("held_out", [False, True], ids=["test data", "held-out folds"])
def test_the_rounding_of_a_model_with_as_many_actions_as_rows_is_reported(rows, held_out, monkeypatch):
    """Products in float32, little noise: what they hide is the computational share, and the verdict says
    what it is."""
    monkeypatch.setattr(share, "DENSE_ROWS", rows)
    monkeypatch.setattr(share, "affordable_passes", lambda *_: 6)
    monkeypatch.setattr(share, "FEW", N + TEST)
    kernel, noise = RBF(lengthscale=2.0 * UNITS), 1e-4
    how = {"kernel": kernel, "noise": noise, "learn": False, "policy": "random", "budget": f"{N} actions"}
    rough, fine = (IterGPRegressor(**how, dtype=dtype).fit(X[:N], Y[:N]) for dtype in ("float32", "float64"))
    assert rough.status_ is fine.status_ is Status.EXACT
    data = () if held_out else (X_TEST, Y_TEST)
    values = numbers(rough.fit_, *data)
    assert numbers(fine.fit_, *data)["share"]["value"] == 0.0
    if not held_out:
        truth = 1 - (fine.decompose(X_TEST).combined.sum() / rough.decompose(X_TEST).combined.sum())
        assert values["share"]["lower"] - 1e-3 <= truth <= values["share"]["upper"] + 1e-3
    assert 0.005 < values["share"]["value"] < 0.5
    assert "rounding" in values["verdict"][1]


def test_the_error_of_an_estimate_is_that_of_the_choice_of_points(model, monkeypatch):
    monkeypatch.setattr(share, "DENSE_ROWS", 0)
    monkeypatch.setattr(share, "FEW", 10)
    test = points.from_test_data(
        model.posterior_, model.scaling_.inputs(X_TEST), model.scaling_.targets(Y_TEST), 0.05
    )
    found = share.parts(test, test.local(NEAR)[1], NEAR, None, seconds=1e6)
    parts = model.decompose(X_TEST[found.chosen])
    close(found.share.value, parts.share, 1e-2)
    whole, rng, inside = model.decompose(X_TEST), np.random.default_rng(0), []
    for _ in range(200):
        rows = rng.permutation(TEST)[:20]
        mathematical, combined = whole.mathematical[rows], whole.combined[rows]
        some = share.Parts(test, rows, taken_apart(combined, mathematical, mathematical), TEST)
        inside.append(abs(some.share.value - whole.share) <= some.error)
    assert 0.88 < np.mean(inside) < 0.99


# Every kind of model.


def strict(values):
    """As JSON for machines: no NaN, no infinity, nothing that is not JSON; and a page can be made of it."""
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert len(render(values)) < 2e6
    return values


def shape(value):
    """The keys of a report, without the names of features and seconds."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items() if key != "features"}
    return [shape(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else None


def test_the_example_has_the_keys_of_a_report(tested):
    example = json.loads((Path(__file__).parent / "example.json").read_text())
    learned = numbers(IterGPRegressor(budget="5 actions").fit(X[:20, :1], Y[:20]).fit_)
    assert shape(example) == shape(learned)


def test_positions_are_few_and_end_with_the_model():
    for actions in (0, 1, 5, 60):
        model = fitted(f"{actions} actions")
        ranks = positions(model.posterior_)
        assert ranks[0] == 0
        assert ranks[-1] == actions
        assert len(ranks) <= 26
        assert (np.diff(ranks) > 0).all()


@pytest.mark.parametrize("neighbours", [0, NEAR])
def test_a_model_without_any_action_is_reported_too(neighbours):
    values = strict(numbers(fitted("0 actions", neighbours).fit_))
    assert values["path"]["labels"][0] == "no computation"
    assert values["more"]["share"] is None
    assert "0 actions" in values["more"]["sentence"]
    assert len(values["path"]["labels"]) == 1 + (neighbours > 0)


def test_several_targets_have_each_their_own_units():
    y = np.stack([Y, 1000 * Y[::-1]], axis=1)
    model = fitted(y=y)
    values = strict(numbers(model.fit_, X_TEST, y[N:], target_names=["a", "b"]))
    mean, std = model.predict(X_TEST, return_std=True)
    for t, name in enumerate("ab"):
        target = values["targets"][t]
        assert target["name"] == name
        close(target["metrics"]["rmse"][-1], root_mean_squared_error(y[N:, t], mean[:, t]))
        close(target["metrics"]["nll"][-1], -norm.logpdf(y[N:, t], mean[:, t], std[:, t]).mean())
        close(target["unit_sd"], y[:N, t].std())
        close(values["fitted"]["noise"][t], 0.05 * y[:N, t].var())
    assert len(numbers(model.fit_)["targets"]) == 2


def test_many_targets_keep_the_page_small():
    y = np.tile(Y[:, None], (1, 12)) + RNG.standard_normal((N + TEST, 12))
    values = strict(numbers(fitted(y=y).fit_))
    assert len(values["targets"]) == 8
    assert len(values["fitted"]["targets"]) == 12
    assert any("first 8 of 12 targets" in text for text in values["warnings"])
    assert len(json.dumps(values)) < 1e6


def test_one_feature_is_the_classic_picture():
    model = IterGPRegressor(noise=0.01, learn=False, budget="12 actions").fit(X[:N, :1], Y[:N])
    values = strict(numbers(model.fit_))
    (line,) = values["targets"][0]["slices"]
    assert len(line["x"]) == 120
    assert line["held_at"] == ""
    assert min(line["x"]) < X[:N, 0].min() < X[:N, 0].max() < max(line["x"])
    close(sorted(line["near"]["y"]), sorted(Y[:N]))


HOSTILE = ["</script><script>alert(1)</script>", '" onload="x', "{{7*7}}\u2028\x00"]


def test_hostile_names_pass_through_as_text(model):
    values = strict(
        numbers(model.fit_, X_TEST, Y_TEST, feature_names=HOSTILE, target_names=["<b>"], dropped=["<i>"])
    )
    assert values["fitted"]["feature_names"] == HOSTILE
    assert list(values["targets"][0]["worst"][0]["features"]) == HOSTILE
    assert "<i>" in values["data"]["dropped"]


def test_a_model_from_a_file_says_the_same_but_for_what_no_file_keeps(model, tmp_path):
    expected = numbers(model.fit_)
    for refinable in (True, False):
        model.save(tmp_path / "m.itergp", refinable)
        found = strict(numbers(IterGPRegressor.load(tmp_path / "m.itergp").fit_))
        assert found["fitted"]["memory_bytes"] is None
        assert found["learning"] == []
        for key in ("rmse", "nll", "coverage", "crps"):
            close(found["targets"][0]["metrics"][key], expected["targets"][0]["metrics"][key], 1e-4)
        close(found["share"]["value"], expected["share"]["value"], 1e-4)
        assert found["convergence"] == expected["convergence"]
        assert found["hyperparameters"] == expected["hyperparameters"]


def test_an_exact_model_that_cannot_be_refined(tmp_path):
    model = fitted(budget=None, neighbours=NEAR)
    expected = numbers(model.fit_)
    model.save(tmp_path / "m.itergp", refinable=False)
    found = strict(numbers(IterGPRegressor.load(tmp_path / "m.itergp").fit_))
    close(found["targets"][0]["metrics"]["rmse"], expected["targets"][0]["metrics"]["rmse"], 1e-4)
    assert found["fitted"]["status"] == "EXACT"
    assert found["path"]["labels"][-1] == f"all {N} actions: exact"


def test_duplicates_are_told_and_held_out_together():
    twice = np.concatenate([np.arange(N), np.arange(30)])
    model = IterGPRegressor(noise=0.05, learn=False, budget="30 actions").fit(X[twice], Y[twice])
    values = strict(numbers(model.fit_))
    assert (values["fitted"]["rows"], values["fitted"]["distinct_rows"], values["points"]["count"]) == (
        N + 30,
        N,
        N,
    )
    assert "held out together" in values["points"]["note"]
    assert "120 rows have 90 distinct inputs" in values["data"]["merged"]
    assert numbers(model.fit_, X_TEST, Y_TEST)["points"]["count"] == TEST


def test_features_of_kernels_without_a_lengthscale_for_each_are_ranked_by_how_far_the_mean_moves():
    """Only the third feature can move it."""
    from itergp import RBF, Linear

    kernel = RBF(0.3).on([2]) + 1e-9 * RBF(5.0).on([0]) + 1e-9 * Linear(5.0)
    values = strict(numbers(fitted(kernel=kernel).fit_))
    assert values["relevance"][0] == {"feature": "x3", "relevance": 1.0, "lengthscale": None}
    assert all(row["relevance"] < 0.01 for row in values["relevance"][1:])
    assert values["targets"][0]["slices"][0]["feature"] == "x3"


def test_a_feature_that_does_not_vary_has_no_slice():
    Z = np.column_stack([X[:N, :2], np.ones(N)])
    values = strict(numbers(IterGPRegressor(noise=0.05, learn=False, budget="9 actions").fit(Z, Y[:N]).fit_))
    assert sorted(s["feature"] for s in values["targets"][0]["slices"]) == ["x1", "x2"]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_handful_of_rows(rows):
    model = IterGPRegressor(noise=0.05, learn=False).fit(X[:rows], Y[:rows])
    values = strict(numbers(model.fit_, X_TEST, Y_TEST))
    assert values["points"]["count"] == TEST
    assert strict(numbers(model.fit_))["points"]["count"] == rows


def test_targets_that_are_all_the_same():
    model = IterGPRegressor(noise=0.05, learn=False, budget="5 actions").fit(X[:N], np.full(N, 3.0))
    values = strict(numbers(model.fit_))
    close(values["targets"][0]["metrics"]["rmse"], 0.0)


# What was learned.


def test_hyperparameters_are_told_with_the_bounds_they_ran_into(monkeypatch):
    # too short for a feature that says nothing
    monkeypatch.setitem(vars(RANGES), "length", (1e-3, 2.0))
    model = IterGPRegressor(kernel="rbf", budget=MaxActions(9)).fit(X[:60], Y[:60])
    values = strict(numbers(model.fit_, feature_names=["a", "b", "c"]))
    by_name = {row["name"]: row for row in values["hyperparameters"]}
    assert list(by_name) == [*(f"kernel.lengthscale[{i}]" for i in range(3)), "scale", "noise"]
    assert by_name["kernel.lengthscale[1]"]["words"].startswith("the lengthscale of b")
    for i in range(3):
        close(by_name[f"kernel.lengthscale[{i}]"]["value"], model.kernel_.kernel.lengthscale[i])
        close(
            (by_name[f"kernel.lengthscale[{i}]"]["low"], by_name[f"kernel.lengthscale[{i}]"]["high"]),
            (1e-3, 2.0),
        )
    hit = {row["name"] for row in values["hyperparameters"] if row["at_bound"]}
    edge = {
        name for name, row in by_name.items() if not 1.0001 * row["low"] < row["value"] < row["high"] / 1.0001
    }
    assert hit == edge
    assert hit
    assert len(values["warnings"]) >= len(hit)
    assert len(values["learning"]) == len(model.trace_.learning) > 0
    close(values["learning"][-1]["objective"], model.trace_.learning[-1].objective)
    assert values["fitted"]["memory_bytes"] > 1e7


def test_a_noise_that_was_sought_in_wider_ranges_is_told_with_those():
    """Data without noise: learning goes on below the usual range, and ends between the bounds told."""
    model = IterGPRegressor().fit(X[:100, :2], np.sin(X[:100, 0]) + X[:100, 1] ** 2)
    assert model.noise_ < 0.5 * RANGES.noise[0]
    told = {row["name"]: row for row in strict(numbers(model.fit_))["hyperparameters"]}["noise"]
    assert told["low"] == pytest.approx(NOISE_FREE.noise[0], rel=1e-2, abs=0.0)
    assert told["at_bound"] == (model.noise_ <= 1.01 * told["low"])


def test_given_hyperparameters_have_no_bounds(tested, model):
    assert all(row["low"] is None and not row["at_bound"] for row in tested["hyperparameters"])
    close([row["lengthscale"] for row in tested["relevance"]], LENGTHS * X[:N].std(axis=0))
    close([row["relevance"] for row in tested["relevance"]], LENGTHS[0] / LENGTHS)
    assert tested["learning"] == []


def test_a_kernel_with_fixed_bounds_was_not_learned():
    kernel = skl.ConstantKernel(1.5, "fixed") * skl.Matern(LENGTHS * UNITS, "fixed", nu=1.5)
    values = numbers(IterGPRegressor(kernel=kernel, noise=0.05, budget="9 actions").fit(X[:60], Y[:60]).fit_)
    assert all(
        row["low"] is None and "given, not learned" in row["words"] for row in values["hyperparameters"]
    )
    assert "hyper-parameters" not in values["points"]["note"]


def test_convergence_is_the_residual_beside_that_of_the_start(model, tested):
    problem, state = model.posterior_.problem, model.posterior_.state
    K_hat = np.asarray(problem.prior.kernel(problem.X, problem.X)) + 0.05 * np.eye(N)
    residual = problem.b - K_hat @ state.representer_weights
    close(tested["convergence"][-1]["residual"], np.linalg.norm(residual) / np.linalg.norm(problem.b))


# What is wrong is said.


def test_test_data_must_be_whole_and_fit_the_model(model):
    for arguments, message in (
        ((X_TEST, None), "X_test is given and y_test is not"),
        ((None, Y_TEST), "y_test is given and X_test is not"),
        ((X_TEST, Y_TEST[:3]), r"y_test has shape \(3,\); expected \(40,\)"),
        ((X_TEST, np.stack([Y_TEST, Y_TEST], axis=1)), r"y_test has shape \(40, 2\)"),
        ((X_TEST, np.where(Y_TEST > 40, np.nan, Y_TEST)), "y_test"),
        ((X_TEST[:, :2], Y_TEST), r"X_test has shape \(40, 2\); expected \(m, 3\)"),
    ):
        with pytest.raises(InputError, match=message):
            numbers(model.fit_, *arguments)
    with pytest.raises(InputError, match="feature_names has 2 names; expected 3"):
        numbers(model.fit_, feature_names=["a", "b"])
    with pytest.raises(InputError, match="target_names has 2 names; expected 1"):
        numbers(model.fit_, target_names=["a", "b"])

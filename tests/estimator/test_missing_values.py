"""Tables with missing values, `--missing impute`: intervals of rows that lack a value are as wide as they
must be, by every door."""

import json
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from itergp import InputError, InterruptedWarning, IterGPRegressor, Status
from itergp.data import donors as donors_module
from itergp.data.holes import Hole, Holes
from itergp.estimator import filling, fitting, regressor
from itergp.estimator.budgets import Budget
from itergp.estimator.clock import Clock
from itergp.estimator.progress import Interrupts, Watch
from itergp.fitted.seen import look
from itergp.learning import Ending, Learned
from itergp.report import numbers
from itergp.tables import Layout, read_table, training

NAMES = ("a", "b", "c")


def columns(n, seed, shift=0.0, rate=0.3):
    """y depends on a most; a is missing at random, and y is larger by `shift` there."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    lost = rng.random(n) < rate
    y = 1.5 * X[:, 0] + np.sin(2 * X[:, 1]) + shift * lost + 0.1 * rng.standard_normal(n)
    X[lost, 0] = np.nan
    return X, y, lost


def table(path, X, y):
    cells = [
        ["" if np.isnan(x) else repr(float(x)) for x in (*row, target)]
        for row, target in zip(X, y, strict=True)
    ]
    path.write_text("\n".join(map(",".join, [[*NAMES, "y"], *cells])) + "\n")
    return read_table(path)


def fitted(path, X, y, **how):
    read = table(path, X, y)
    layout = Layout.of(read, "y", missing="impute")
    found = training(read, layout)
    return IterGPRegressor(**how).fit(found.X, found.y, table=layout)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("model") / "t.csv", *columns(150, seed=1)[:2], kernel="matern52")


def inside(model, X, y):
    low, high = model.interval(X)
    return (low <= y) & (y <= high)


def encoded(X, lost):
    """As the table's layout has it."""
    return np.column_stack([X[:, :1], lost, X[:, 1:]])


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_intervals_hold_what_they_say_with_missing_values_and_without(shift, tmp_path):
    """Also where y differs by whether a value is missing. With the median in its place they held 80 %."""
    X, y, _ = columns(400, seed=2, shift=shift)
    model = fitted(tmp_path / "t.csv", X, y, kernel="matern52")
    new, target, lost = columns(2000, seed=3, shift=shift)
    held = inside(model, encoded(new, lost), target)
    assert 0.92 <= held[lost].mean() <= 0.99
    assert 0.92 <= held[~lost].mean() <= 0.99


def test_a_value_that_was_never_missing_in_the_fit_may_be_in_new_rows(tmp_path):
    """Nothing tells how such rows are, so intervals are wider than if they were like all others, by a known
    factor."""
    X, y, _ = columns(400, seed=4, rate=0.0)
    model = fitted(tmp_path / "t.csv", X, y, kernel="matern52")
    new, target, lost = columns(2000, seed=5, rate=0.5)
    assert inside(model, new, target)[lost].mean() > 0.92
    factor = model.fit_.donors.holes.columns[0].factor
    assert factor == pytest.approx((stats.t.ppf(0.975, 2) / stats.norm.ppf(0.975)) ** 2, rel=0.05)
    mean, std = model.predict(new, return_std=True)
    held = np.abs(target - mean) < stats.norm.ppf(0.975) * std / np.sqrt(factor)
    assert 0.92 <= held[lost].mean() <= 0.99
    plain = IterGPRegressor(kernel="matern52").fit(X, y)
    np.testing.assert_array_equal(plain.predict(new[~lost]), model.predict(new[~lost]))


def test_one_gross_outlier_in_a_column_that_lacked_nothing_changes_no_stand_ins(tmp_path):
    """b tells a, and one a is 99999: errors were twice as large, and intervals too."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((1300, 3))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    y = 1.5 * X[:, 0] + X[:, 2] + 0.3 * rng.standard_normal(1300)
    found, new = [], np.where([True, False, False], np.nan, X[300:])
    for value in (X[5, 0], 99999.0):
        X[5, 0] = value
        model = fitted(tmp_path / "t.csv", X[:300], y[:300], kernel="matern52")
        mean, std = model.predict(new, return_std=True)
        found.append((np.sqrt(np.mean((y[300:] - mean) ** 2)), np.median(std)))
        assert inside(model, new, y[300:]).mean() > 0.95
    np.testing.assert_allclose(found[1], found[0], rtol=0.1)


def columns_of_which_one_says_nothing(n, seed):
    """y does not depend on a, but is larger where that is missing: donors cannot tell it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    lost = np.arange(n) % 16 == 0
    y = np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] + 2.0 * lost + 0.2 * rng.standard_normal(n)
    X[lost, 0] = np.nan
    return X, y, lost


def test_a_few_rows_whose_y_differs_make_intervals_wide(tmp_path):
    """Too few to be told of it. While only what donors add was made larger, intervals held 2 %."""
    held = []
    for seed in range(40, 44):
        X, y, lost = columns_of_which_one_says_nothing(80, seed)
        assert lost.sum() == 5
        model = fitted(tmp_path / "t.csv", X, y, kernel="matern52")
        assert not model.fit_.donors.holes.columns[0].told
        new, target, lost = columns_of_which_one_says_nothing(2000, seed + 10)
        held.append(inside(model, encoded(new, lost), target)[lost].mean())
    assert np.mean(held) > 0.92


def test_with_few_rows_intervals_are_wider_rather_than_narrower(tmp_path):
    """Over several tables of 40 rows: few are held out, and all of them were learned from."""
    held = []
    for seed in range(60, 66):
        model = fitted(tmp_path / "t.csv", *columns(40, seed)[:2], kernel="matern52")
        new, target, lost = columns(1000, seed + 10)
        held.append(inside(model, encoded(new, lost), target)[lost].mean())
    assert np.mean(held) > 0.95
    assert min(held) > 0.85


def test_rows_with_missing_values_weigh_less_in_the_fit(model):
    _, _, lost = columns(150, seed=1)
    weights = model.row_weights_
    np.testing.assert_array_equal(weights[~lost], 1.0)
    assert weights[lost].max() < 0.1


def test_all_doors_have_the_same_uncertainty(model, tmp_path):
    pd = pytest.importorskip("pandas")
    new, _, lost = columns(12, seed=6)
    X = encoded(new, lost)
    mean, std = model.predict(X, return_std=True)
    assert (std[lost] > 4 * std[~lost].max()).all()
    frame = pd.DataFrame(new, columns=NAMES)
    np.testing.assert_array_equal(model.predict(frame, return_std=True)[1], std)
    np.testing.assert_array_equal(model.predict(frame), mean)
    both, covariance = model.predict(X, return_cov=True)
    np.testing.assert_allclose(both, mean)
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
    parts = model.decompose(X)
    np.testing.assert_allclose(parts.mathematical + parts.computational + parts.noise, std**2, rtol=1e-9)
    draws = model.sample_y(X, 4000, random_state=0)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.1)
    # without noise, a missing value is still missing
    assert (model.predict(X, return_std=True, include_noise=False)[1][lost] > 0.9 * std[lost]).all()
    model.save(tmp_path / "m.itergp")
    again = IterGPRegressor.load(tmp_path / "m.itergp")
    np.testing.assert_array_equal(again.predict(frame, return_std=True)[1], std)


@pytest.mark.parametrize("how", ["exact", "12 actions", "heteroscedastic", "told"])
def test_what_a_missing_value_could_be_is_mathematical_by_every_door(how, tmp_path):
    """mathematical + computational + noise is the variance of an observation, without noise that of the
    latent function; noise is what it is in the same rows if nothing is missing. From a file."""
    pd = pytest.importorskip("pandas")
    X, y, lost = columns(150, seed=1, shift=3.0 * (how == "told"))
    named = {"noise": how} if how == "heteroscedastic" else {}
    budget = {"budget": how} if how == "12 actions" else {}
    fitted(tmp_path / "t.csv", X, y, kernel="matern32", **named, **budget).save(tmp_path / "m.itergp")
    model = IterGPRegressor.load(tmp_path / "m.itergp")
    assert model.fit_.donors.holes.columns[0].told == (how == "told")
    new, target, lost = columns(40, seed=9)
    frame = pd.DataFrame(new, columns=NAMES)
    parts, certificate = model.decompose(frame), model.certify(frame)
    std, latent = (model.predict(frame, return_std=True, include_noise=noisy)[1] for noisy in (True, False))
    np.testing.assert_allclose(parts.mathematical + parts.computational + parts.noise, std**2, rtol=1e-10)
    np.testing.assert_allclose(parts.mathematical + parts.computational, latent**2, rtol=1e-10)
    assert parts.mathematical[lost].min() > 10 * parts.mathematical[~lost].mean()
    if how != "heteroscedastic":
        np.testing.assert_allclose(parts.noise, parts.noise[~lost][0], rtol=1e-10)
    assert (certificate.variance_lower <= parts.mathematical * (1 + 1e-9)).all()
    assert (certificate.variance_upper >= parts.mathematical * (1 - 1e-9)).all()
    assert 0.0 <= parts.share <= (0.0 if how != "12 actions" else 1.0)

    layout_inputs = encoded(new, lost)
    report = numbers(model.fit_, layout_inputs, target)
    drawn, worst = report["targets"][0]["decomposition"], report["targets"][0]["worst"]
    np.testing.assert_allclose(
        np.sort(parts.combined), np.add(drawn["mathematical"], drawn["computational"]), rtol=1e-3
    )
    np.testing.assert_allclose([row["std"] for row in worst], std[[row["row"] for row in worst]], rtol=1e-3)
    np.testing.assert_allclose(report["share"]["value"], parts.share, atol=1e-3)


def test_held_out_rows_of_a_report_say_the_same(model):
    """Of training rows that lack a value, the latent part is as large as in new ones; the noise of an
    observation is that of the model."""
    points = look(model.fit_).points
    _, _, lost = columns(150, seed=1)
    np.testing.assert_allclose(points.noise, model.fit_.noise, rtol=1e-9)
    held = points.local(0)[1]
    assert held[lost[points.rows]].min() > 10 * np.median(held[~lost[points.rows]])
    np.testing.assert_allclose(
        held + points.noise, model.fit_.posterior.problem.N[points.rows] + _without_holes(points)
    )


def _without_holes(points):
    """Held-out latent variances, as if nothing were missing."""
    return replace(points, extras=np.zeros_like(points.extras)).local(0)[1]


def test_rows_that_are_added_weigh_less_too(model, tmp_path):
    pd = pytest.importorskip("pandas")
    model.save(tmp_path / "m.itergp")
    model, before = IterGPRegressor.load(tmp_path / "m.itergp"), model.row_weights_.size
    new, y, lost = columns(30, seed=7)
    model.partial_fit(pd.DataFrame(new, columns=NAMES), y)
    weights = model.row_weights_[before:]
    np.testing.assert_array_equal(weights[~lost], 1.0)
    assert weights[lost].max() < 0.1


def test_rows_that_are_added_are_donors_too_and_tell_how_wide_intervals_are(tmp_path):
    """Where they say that y differs in rows that lack a value. From a file it is the same, to the bit."""
    pd = pytest.importorskip("pandas")
    X, y, _ = columns_of_which_one_says_nothing(120, seed=20)
    y = y[~np.isnan(X[:, 0])]
    model = fitted(tmp_path / "t.csv", X[~np.isnan(X[:, 0])], y, kernel="matern52")
    before = model.fit_.donors.holes.columns[0]
    assert before.held_out == 0
    model.save(tmp_path / "m.itergp")
    again = IterGPRegressor.load(tmp_path / "m.itergp")
    new, target, lost = columns_of_which_one_says_nothing(300, seed=21)
    frame = pd.DataFrame(new, columns=NAMES)
    for one in (model, again):
        one.partial_fit(frame, target)
    donors, hole = model.fit_.donors, model.fit_.donors.holes.columns[0]
    assert len(donors.X) == len(y) + 300
    assert np.isin(new[~lost, 0], donors.X[:, 0]).all()
    assert hole.held_out == lost.sum()
    assert hole.squares > 10 * lost.sum()
    assert hole.factor > before.factor
    rows, truth, lost = columns_of_which_one_says_nothing(2000, seed=22)
    frame = pd.DataFrame(rows, columns=NAMES)
    mean, std = model.predict(frame, return_std=True)
    assert (np.abs(truth - mean) < 1.96 * std)[lost].mean() > 0.92
    for one, other in zip((mean, std), again.predict(frame, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [2000, 8000])
def test_work_before_a_fit_is_counted(n, monkeypatch):
    """However many rows lack values: a few thousand have donors of their own, at which the function is asked
    for, and the others are filled like these."""
    asked, belief = [], filling.belief

    def counting(fit):
        def counted(of):
            def count(X):
                asked.append(len(X))
                return of(X)

            return count

        return tuple(counted(of) for of in belief(fit))

    monkeypatch.setattr(filling, "belief", counting)
    monkeypatch.setattr(donors_module, "LOOKED", 300)
    rng = np.random.default_rng(30)
    X = rng.standard_normal((n, 3))
    X[:, 0] = 0.9 * X[:, 1] + 0.1 * X[:, 0]
    y, a, lost = X[:, 0] + 0.1 * rng.standard_normal(n), X[:, 0].copy(), rng.random(n) < 0.5
    X[lost, 0] = np.nan
    estimator, holes = IterGPRegressor(kernel="matern52"), Holes((Hole((0,)),))
    watch, clock = Watch(estimator, Interrupts()), Clock(Budget())
    Z, W, _ = filling.filled_rows(estimator.get_params(), X, y, None, holes, clock, watch)
    donors = donors_module.DONORS
    assert sum(asked) <= 300 * (donors + 1 + donors_module.FEW + 1 + 2)
    np.testing.assert_array_equal(Z[~lost], X[~lost])
    each = donors_module.filled(X[lost], donors_module.Donors.among(holes, X))[0]
    own, like = (np.sqrt(np.mean((some - a[lost]) ** 2)) for some in (each[:, 0], Z[lost, 0]))
    assert like < 1.2 * own
    assert (W[lost] < 0.9).all()
    np.testing.assert_array_equal(W[~lost], 1.0)


def test_the_report_of_test_rows_knows_what_is_missing(model):
    from itergp.report import numbers

    new, y, lost = columns(400, seed=8)
    values = numbers(model.fit_, encoded(new, lost), y)
    mean, std = model.predict(encoded(new, lost), return_std=True)
    expected = np.mean(np.abs(y - mean) < 1.959963984540054 * std)
    assert values["targets"][0]["metrics"]["coverage"][-1] == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be_missing_is_refused(model):
    X, y, lost = columns(60, seed=9)
    with pytest.raises(InputError, match="NaN in row 0 where no value can be missing"):
        model.predict(np.array([[0.0, np.nan, 0.0, 0.0]]))
    with pytest.raises(InputError, match="noise is 0, so rows with missing values"):
        IterGPRegressor(noise=0.0).fit(encoded(X, lost), y, table=model.table_)
    with pytest.raises(InputError, match="NaN"):
        IterGPRegressor().fit(np.array([[0.0], [np.nan]]), [1.0, 2.0])


def test_the_report_has_columns_and_no_lines_along_inputs_that_say_what_is_missing(tmp_path):
    """Such an input is listed by its relevance, as one of those that are counted; lines are drawn through
    rows that lack nothing, even where most do, and nobody takes for known what was missing from one of
    the worst points."""
    X, y, lost = columns(200, seed=8, shift=3.0, rate=0.6)
    model = fitted(tmp_path / "t.csv", X, y, kernel="matern52")
    a, flag, b, c = 1.0 / model.kernel_.kernel.lengthscale
    assert b > flag > a  # so it matters what the column counts with
    assert np.median(model.posterior_.problem.X[:, 1]) > 0  # most rows lack a
    values = numbers(model.fit_, feature_names=model.table_.inputs)
    found = {row["feature"]: row["relevance"] for row in values["relevance"]}
    expected = np.array([a, flag, b, c])
    names = model.table_.inputs
    np.testing.assert_allclose([found.pop(name) for name in names], expected / expected.max(), rtol=1e-3)
    assert not found
    slices = values["targets"][0]["slices"]
    assert [one["feature"] for one in slices] == ["b", "a", "c"]
    assert {one["feature"] for one in slices} == set(NAMES)
    assert not any("missing" in one["held_at"] for one in slices)
    at_median = np.median(model.scaling_.original(model.posterior_.problem.X), axis=0) * [1, 0, 1, 1]
    along_a = next(one for one in slices if one["feature"] == "a")
    there = np.tile(at_median, (len(along_a["x"]), 1))
    there[:, 0] = along_a["x"]
    np.testing.assert_allclose(along_a["mean"][-1], model.predict(there), rtol=1e-3, atol=1e-3)
    worst = values["targets"][0]["worst"]
    assert [one["features"]["a"] == "missing" for one in worst] == [bool(lost[one["row"]]) for one in worst]
    assert any(one["features"]["a"] == "missing" for one in worst)


def test_the_report_shows_no_made_up_values_where_the_model_is_not_told_what_is_missing(model):
    """What stands for a value looks like one, in rows of the fit and in test rows; and a picture of the data
    has no dots there."""
    old, _, lost_old = columns(150, seed=1)  # as those of the model
    assert not model.fit_.donors.holes.columns[0].told
    new, y_new, lost_new = columns(60, seed=9)
    for values, X, lost in (
        (numbers(model.fit_, feature_names=model.table_.inputs), old, lost_old),
        (
            numbers(model.fit_, encoded(new, lost_new), y_new, feature_names=model.table_.inputs),
            new,
            lost_new,
        ),
    ):
        worst = values["targets"][0]["worst"]
        assert any(lost[one["row"]] for one in worst)
        assert not all(lost[one["row"]] for one in worst)
        for one in worst:
            shown, true = one["features"]["a"], X[one["row"], 0]
            assert shown == "missing" if np.isnan(true) else shown == pytest.approx(true, rel=1e-4)
        along_a = next(line for line in values["targets"][0]["slices"] if line["feature"] == "a")
        apart = np.abs(np.array(along_a["near"]["x"])[:, None] - old[~lost_old, 0]).min(axis=1)
        assert apart.max() < 1e-4


def test_the_report_says_where_it_does_not_know_whether_a_value_is_missing(monkeypatch, tmp_path):
    """Of large tables a model keeps a part as it was. Of other rows it is only known that they lack
    something, so no value is shown that may be made up."""
    monkeypatch.setattr(donors_module, "MOST", 40)
    X, y, lost = columns(150, seed=1)
    model = fitted(tmp_path / "t.csv", X, y, kernel="matern52")
    assert len(model.fit_.donors.X) < len(X)
    worst = numbers(model.fit_, feature_names=model.table_.inputs)["targets"][0]["worst"]
    assert any(lost[one["row"]] for one in worst)
    for one in worst:
        row, shown = X[one["row"]], one["features"]
        expected = "not known" if np.isnan(row[0]) else pytest.approx(row[0], rel=1e-4)
        assert shown["a"] == expected
        assert shown["b"] == pytest.approx(row[1], rel=1e-4)  # which is never missing


def test_a_category_that_may_be_missing_has_its_name_in_the_report(tmp_path):
    """Also where rows that lack it are a category of their own; a line is not through these, even if they are
    the most."""
    rng = np.random.default_rng(3)
    x, kind = rng.standard_normal(160), rng.permutation(np.repeat(["red", "green", ""], [55, 45, 60]))
    y = x + 4.0 * (kind == "") + 0.1 * rng.standard_normal(160)
    rows = [f"{a!r},{k},{t!r}" for a, k, t in zip(x.tolist(), kind, y.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,colour,y", *rows]) + "\n")
    read = read_table(tmp_path / "t.csv")
    layout = Layout.of(read, "y", categorical=["colour"], missing="impute")
    found = training(read, layout)
    model = IterGPRegressor(kernel="matern52").fit(found.X, found.y, table=layout)
    assert model.fit_.donors.holes.columns[1].own
    target = numbers(model.fit_, feature_names=layout.inputs)["targets"][0]
    assert target["slices"][0]["held_at"].endswith(": colour = red.")
    for one in target["worst"]:
        assert one["features"]["colour"] == (kind[one["row"]] or "missing")


def test_hyper_parameters_of_inputs_that_say_nothing_are_marked(model):
    """An input that says what is missing is always 0 where that tells nothing, so its lengthscale is not
    learned."""
    assert not model.posterior_.problem.X[:, 1].any()
    rows = numbers(model.fit_, feature_names=model.table_.inputs)["hyperparameters"]
    idle = [row["words"] for row in rows if "of no effect" in row["words"]]
    assert idle == ["the lengthscale of a is missing; of no effect, since that input is 0 in every row"]


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_an_input_that_is_zero_in_every_row_is_no_feature(shift, tmp_path):
    """Three columns, of which one may be missing: a fourth input counts where held-out errors ask for it."""
    from typer.testing import CliRunner

    from itergp.cli.commands import app
    from itergp.cli.files import save_model

    model = fitted(tmp_path / "t.csv", *columns(150, seed=1, shift=shift)[:2], kernel="matern32")
    told = bool(model.posterior_.problem.X[:, 1].any())
    assert told == bool(shift)
    values = numbers(model.fit_, feature_names=model.table_.inputs)
    expected = ["a", "a is missing", "b", "c"] if told else ["a", "b", "c"]
    assert values["fitted"]["feature_names"] == expected
    assert values["fitted"]["features"] == len(expected)
    assert values["title"].endswith(f"by {len(expected)} features")
    assert sorted(row["feature"] for row in values["relevance"]) == expected
    save_model(tmp_path / "m.itergp", model.fit_, model.table_)
    as_json = json.loads(CliRunner().invoke(app, ["info", str(tmp_path / "m.itergp"), "--json"]).stdout)
    assert sorted(row["name"] for row in as_json["learned"]["features"]) == expected
    said = " ".join(CliRunner().invoke(app, ["info", str(tmp_path / "m.itergp")]).output.split())
    assert f", {len(expected)} inputs" in said
    assert ("inputs that say where: 'a is missing'" if told else "no input says where") in said


def test_lengthscales_on_the_command_line_are_those_of_columns_too(model, tmp_path):
    from itergp.cli.measuring import described

    model.save(tmp_path / "m.itergp")
    features = described(model.fit_, model.table_, tmp_path / "m.itergp")["learned"]["features"]
    assert sorted(row["name"] for row in features) == sorted(NAMES)


class Stopped:
    """A clock that stands still until time is spent."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_check_of_missing_values_is_within_the_budget(monkeypatch, tmp_path):
    """A twentieth of the seconds is left to it. Where that is not enough, it ends with the piece of work in
    which the time is over, and the intervals are as wide as the first fit says: wider than unchecked ones."""
    clock, seconds, piece, pieces, said = Stopped(), 60.0, 1.1, [], {}
    monkeypatch.setattr(time, "perf_counter", clock)
    fit_rows, filled_rows, filled = fitting.fit_rows, regressor.filled_rows, filling.filled

    def until_the_end(asked, names, X, y, given, *rest, **how):
        found = fit_rows(asked, names, X, y, given, *rest, **how)
        said["deadline"] = clock.now = given.deadline
        return found

    def first(*arguments):
        said["first"] = filled_rows(*arguments)
        monkeypatch.setattr(filling, "filled", slow)
        return said["first"]

    def slow(X, *rest):
        pieces.append(len(X))
        clock.now += piece
        return filled(X, *rest)

    monkeypatch.setattr(fitting, "fit_rows", until_the_end)
    monkeypatch.setattr(regressor, "filled_rows", first)
    X, y, lost = columns(700, seed=9, shift=1.0, rate=0.7)
    model = fitted(tmp_path / "t.csv", X, y, kernel="matern52", budget=f"{seconds:.0f}s")
    reserved = 0.05 * seconds
    assert said["deadline"] == pytest.approx(seconds - 0.2 - reserved)
    assert len(pieces) == np.ceil(reserved / piece) < np.ceil(lost.sum() / filling.AT_ONCE)
    assert clock.now < seconds + piece
    assert model.timings_["total"] == pytest.approx(clock.now)
    factors = [hole.factor for hole in model.fit_.donors.holes.columns]
    assert factors == [hole.factor for hole in said["first"][2].holes.columns]
    assert factors[0] > 1.0


@pytest.mark.parametrize("rate", [0.3, 0.9], ids=["complete rows", "next to none"])
def test_control_c_in_the_first_fit_leaves_a_valid_model(rate, monkeypatch, tmp_path):
    """And intervals of rows that lack a value hold at least what they say: the first fit was poor."""
    learns = []

    def interrupted(rows, kernel, noise, *what, **how):
        learns.append(rows.n)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return Learned(kernel, noise, 0.0, ended=Ending.INTERRUPTED)

    monkeypatch.setattr("itergp.estimator.hyperparameters.learn_rows", interrupted)
    X, y, _ = columns(200, seed=10, rate=rate)
    with pytest.warns(InterruptedWarning, match="The model is valid"):
        model = fitted(tmp_path / "t.csv", X, y, kernel="matern52")
    assert len(learns) == 1  # the fit itself learns no more
    assert model.status_ is Status.INTERRUPTED
    new, target, lost = columns(2000, seed=11, rate=rate)
    assert inside(model, encoded(new, lost), target)[lost].mean() > 0.92
    model.save(tmp_path / "m.itergp")
    assert np.isfinite(IterGPRegressor.load(tmp_path / "m.itergp").predict(encoded(new, lost))).all()

"""The experiments on data sets: quick by the command line, and on small data what the paper claims of
each."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers import combined, data_folder, exact, load_split, textbook_cg
from itergp import Matern32, Prior
from itergp.baselines import cggp as fit_cggp, svgp as fit_svgp
from itergp.cli.commands import app
from itergp.data.rows import merge_rows, unmerged
from itergp.datasets import synthetic
from itergp.errors import InputError
from itergp.experiments import EXPERIMENTS, Cell, Options, beyond, cggp, regression, svgp
from itergp.experiments.records import append_line
from itergp.metrics import nll, rmse

PRIOR, NOISE = Prior(1.2 * Matern32(0.8)), 0.02


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Runs an experiment once, quick, so on the synthetic set, without any files; gives its records and
    its folder."""
    out, known = tmp_path_factory.mktemp("results"), {}

    def run(name):
        if name not in known:
            arguments = ["experiment", "run", name, "--quick", "--out", str(out)]
            result = CliRunner().invoke(app, arguments, env={"ITERGP_DATA": str(out / "nothing")})
            assert result.exit_code == 0, result.output
            lines = (out / name / "records.jsonl").read_text().splitlines()
            known[name] = [record for line in lines for record in json.loads(line)["records"]]
        return known[name], out / name

    return run


def small(n=60, copies=1, merge=True, seed=0):
    """A part with each training row so many times, with targets of its own each time."""
    X, y = synthetic(n + 20, 2, NOISE, seed)
    rng = np.random.default_rng(seed)
    rows = np.tile(np.arange(n), copies)
    X_all, y_all = X[rows], y[rows] + 0.1 * rng.standard_normal(rows.size)
    return regression.Part((merge_rows if merge else unmerged)(X_all, y_all), X[n:], y[n:]), X_all, y_all


def by_kernel(records):
    return {record["kernel"]: record for record in records if "learn" in record}


@pytest.mark.slow
def test_quick_cggp_both_means_are_the_same_while_cg_is_orthogonal_for_half_the_passes(results):
    records, folder = results("cggp")
    runs, learned = regression.measured(records), by_kernel(records)
    assert [(run["kernel"], run["split"]) for run in runs] == [
        (k, i) for k in regression.KERNELS for i in range(3)
    ]
    for run in runs:
        assert run["noise"] == learned[run["kernel"]]["noise"]
        assert run["orthogonal"] >= 4
        assert run["apart_while"] < 1e-6
        assert run["passes"] == {"IterGP-CG": 32, "CGGP": 64}
        early = [i for i, steps in enumerate(run["iterations"]) if steps <= run["orthogonal"]]
        ours, theirs = (np.array(run["rmse"][name])[early] for name in ("IterGP-CG", "CGGP"))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    header, *rows = (folder / "table.csv").read_text().splitlines()
    assert "passes IterGP-CG" in header
    assert len(rows) == 3 * 2  # after 16 iterations, and at the end


def test_both_means_are_those_of_conjugate_gradients_in_fifty_digits():
    data, X, y = small()
    K_hat = PRIOR.cov(X) + NOISE * np.eye(60)
    iterates, _ = textbook_cg(K_hat, y, np.eye(60), np.zeros((60, 0)), 20)
    errors = [rmse(data.y_test, PRIOR.cov(data.X_test, X) @ v) for v in iterates]
    theirs, ours = cggp.with_cggp(PRIOR, NOISE, data, 20, 0), cggp.with_itergp(PRIOR, NOISE, data, 20)
    lasts = theirs.orthogonal
    assert 8 <= lasts < 20  # sooner or later rounding wins
    np.testing.assert_allclose(
        cggp.scored(theirs.path, NOISE, data)[1][: lasts + 1], errors[: lasts + 1], rtol=1e-6
    )
    # to the end: it orthogonalises
    np.testing.assert_allclose(cggp.scored(ours.path, NOISE, data)[1], errors, rtol=1e-6)
    assert (ours.passes, theirs.passes) == (20, 40)


def test_orthogonality_is_said_to_end_where_directions_stop_being_conjugate():
    _, X, y = small()
    K = PRIOR.cov(X)
    for noise, iterations, everywhere in ((10.0, 5, True), (1e-4, 16, False)):
        model = fit_cggp(PRIOR, X, y, noise, iterations, compute=cggp.COMPUTE)
        P, last = model.steps[:, :, 0], cggp.orthogonal_until(model)
        cosines = P @ (K + noise * np.eye(60)) @ P.T
        cosines = np.abs(cosines) / np.sqrt(np.outer(np.diag(cosines), np.diag(cosines))) - np.eye(iterations)
        assert cosines[:last, :last].max() <= 2.0**-26 * (1 + 1e-3)
        assert (last == iterations) is everywhere
        assert everywhere or cosines[: last + 1, : last + 1].max() > 2.0**-26 * (1 - 1e-3)


@pytest.mark.slow
def test_quick_svgp_compares_the_two_at_equal_inducing_points(results):
    records, folder = results("svgp")
    runs, learned = regression.measured(records), by_kernel(records)
    assert {record["learn"] for record in learned.values()} == {"sgpr"}
    assert len(runs) == 3 * 3 * len(svgp.SIZES_QUICK)
    for run in runs:
        assert run["IterGP-PI"]["rank"] == run["inducing_points"]
        assert run["IterGP-PI"]["lowest_variance"] > 0
    most = [run for run in runs if run["inducing_points"] == svgp.SIZES_QUICK[-1]]
    for metric in ("nll", "rmse"):
        assert np.mean([run["IterGP-PI"][metric] for run in most]) < np.mean(
            [run["SVGP"][metric] for run in most]
        )
    assert "better NLL" in (folder / "table.md").read_text()


def test_on_merged_rows_both_methods_are_what_they_are_on_all_rows():
    data, X, y = small(copies=3)
    assert data.about == {"n": 180, "distinct": 60, "test_points": 20}
    Z = svgp.inducing_points(data, 16, 0)
    _, mean, covariance = combined(
        exact(PRIOR, X, y, NOISE, data.X_test), PRIOR, PRIOR.cov(X, Z), data.X_test
    )
    ours = svgp.with_itergp(PRIOR, NOISE, data, Z, (4, 16))[1]
    expected = (nll(data.y_test, mean, np.diag(covariance) + NOISE), rmse(data.y_test, mean))
    np.testing.assert_allclose((ours["nll"], ours["rmse"]), expected, rtol=1e-6)
    theirs, model = svgp.with_svgp(PRIOR, NOISE, data, Z, (4, 16))[1], fit_svgp(PRIOR, X, y, NOISE, Z)
    expected = (
        nll(data.y_test, model.mean(data.X_test), model.var(data.X_test) + NOISE),
        model.var(data.X_test).min(),
    )
    np.testing.assert_allclose((theirs["nll"], theirs["lowest_variance"]), expected, rtol=1e-6)


def test_inducing_points_among_duplicates_are_dropped_and_do_no_harm():
    data, X, y = small(n=40, copies=4, merge=False)
    Z = svgp.inducing_points(data, 64, 0)
    distinct = np.unique(Z, axis=0)
    assert len(distinct) < 40
    last = svgp.with_itergp(PRIOR, NOISE, data, Z, (8, 32, 64))[-1]
    assert last["rank"] == len(distinct)
    assert last["dropped"] == 64 - len(distinct)
    _, mean, covariance = combined(
        exact(PRIOR, X, y, NOISE, data.X_test), PRIOR, PRIOR.cov(X, distinct), data.X_test
    )
    np.testing.assert_allclose(last["nll"], nll(data.y_test, mean, np.diag(covariance) + NOISE), rtol=1e-5)
    np.testing.assert_allclose(last["lowest_variance"], np.diag(covariance).min(), rtol=1e-5)


def column(table, name, after=0):
    """The values of a column in all rows; or of the one so many places after it."""
    header, rows = table
    return [row[list(header).index(name) + after] for row in rows]


ABOUT = {"dataset": "bike", "kernel": "RBF", "n": 90, "distinct": 90, "test_points": 10, "noise": 0.1}
LEARNED = {"dataset": "bike", "kernel": "RBF", "learn": "auto", "stages": ["neighbours, all rows"]}
LEARNED["at_bounds"] = ["kernel.lengthscale[0]", "kernel.lengthscale[2]", "noise"]


def test_the_table_of_svgp_has_means_and_intervals_of_what_splits_gave_and_says_which_is_lower():
    theirs, ours = (
        {"nll": [1.0, 2.0, 3.0], "rmse": [0.3, 0.1, 0.2]},
        {"nll": [0.5, 1.4, 2.6], "rmse": [0.1, 0.2, 0.3]},
    )
    records = [LEARNED | {"learn": "sgpr"}]
    for i in range(3):
        both = {
            name: {metric: v[i] for metric, v in of.items()}
            for name, of in (("SVGP", theirs), ("IterGP-PI", ours))
        }
        both = {
            name: values | {"seconds": 1.0 + i, "lowest_variance": 0.1, "rank": 16 - i}
            for name, values in both.items()
        }
        records.append(ABOUT | {"split": i, "rows": svgp.MERGED, "inducing_points": 16} | both)
    table = svgp.table(records)
    half = 4.302652729749464  # Student's t with two degrees of freedom, 97.5 %
    assert column(table, "NLL SVGP") == [pytest.approx(2.0)]
    assert column(table, "NLL SVGP", 1) == [pytest.approx(half / np.sqrt(3))]
    assert column(table, "NLL IterGP-PI") == [pytest.approx(1.5)]
    assert column(table, "NLL difference") == [pytest.approx(-0.5)]
    assert column(table, "NLL difference", 1) == [pytest.approx(0.1 * half / np.sqrt(3))]
    assert (column(table, "better NLL"), column(table, "better RMSE")) == (["IterGP-PI"], ["neither"])
    assert column(table, "independent actions") == [14]
    assert column(table, "hyper-parameters") == ["SGPR's bound, split 0; at bounds: 2 lengthscales, noise"]


def test_the_table_of_cggp_says_who_is_ahead_after_orthogonality_is_lost():
    records = [LEARNED]
    for i in range(2):
        rmse = {"CGGP": [1.0, 0.5, 0.4 + 0.4 * i], "IterGP-CG": [1.0, 0.5 + 0.5 * i, 0.1]}
        nll = {"CGGP": [3.0, 2.0, 1.0 + i], "IterGP-CG": [3.0, 2.0, -1.0 - i]}
        costs = {what: {"CGGP": 2.0 * (1 + i), "IterGP-CG": 1.0 + i} for what in cggp.COSTS}
        found = {
            "iterations": [1, 8, 16],
            "orthogonal": 4 + i,
            "apart_while": 10.0 ** (i - 9),
            "rmse": rmse,
            "nll": nll,
        }
        records.append(ABOUT | {"split": i} | found | costs)
    np.testing.assert_allclose(cggp.ratios_after(records[2]), [0.5, 8.0])
    table = cggp.table(records)
    assert column(table, "iterations") == [16]
    assert (column(table, "NLL CGGP"), column(table, "NLL IterGP-CG")) == (
        [pytest.approx(1.5)],
        [pytest.approx(-1.5)],
    )
    assert column(table, "CG orthogonal for, at least") == [4]
    assert column(table, "RMSE apart until there, relative") == [1e-8]
    least, most = (column(table, "RMSE CGGP / IterGP-CG after, least", after)[0] for after in (0, 1))
    assert (least, most) == (pytest.approx(0.5), pytest.approx(8.0))
    assert (column(table, "passes CGGP"), column(table, "passes IterGP-CG")) == ([3.0], [1.5])
    assert column(table, "hyper-parameters") == [
        "likelihood by neighbours, split 0; at bounds: 2 lengthscales, noise"
    ]


def test_the_table_of_beyond_has_where_each_split_ended():
    records = [LEARNED | {"at_bounds": [], "stages": ["exact"], "kernel": beyond.KERNEL}]
    about = ABOUT | {"kernel": beyond.KERNEL, "policy": "CG", "rmse": 0.3, "predict_seconds": 0.5}
    for i in range(2):
        for actions in (8, 32 + 2 * i):
            spent = {"actions": actions, "passes": actions, "seconds": 0.1 * actions}
            records.append(about | {"split": i, "nll": 40.0 - actions, "local_nll": -actions} | spent)
    table = beyond.table(records)
    assert column(table, "actions") == [33.0]
    assert column(table, "NLL") == [pytest.approx(7.0)]
    assert column(table, "NLL, local") == [pytest.approx(-33.0)]
    assert column(table, "RMSE, local") == [None]
    assert column(table, "hyper-parameters") == ["likelihood, split 0"]


@pytest.mark.parametrize(
    ("difference", "half", "better"),
    [(-1.0, 0.5, "IterGP-PI"), (1.0, 0.5, "SVGP"), (-0.3, 0.5, "neither"), (-1.0, np.nan, "")],
)
def test_one_of_two_is_better_only_if_the_interval_says_so(difference, half, better):
    assert svgp.verdict(difference, half) == better


def test_the_rows_of_kegg_are_also_taken_as_they_are_where_the_paper_saw_instability():
    keys = [cell.key for cell in svgp.cells(Options(datasets=("keggdirected", "keggundirected")))]
    taken = [key for key in keys if key.get("rows") == svgp.ALL]
    assert taken == [
        {"dataset": "keggundirected", "kernel": "Matern 3/2", "rows": "all", "split": i} for i in range(3)
    ]


@pytest.mark.slow
def test_quick_beyond_counts_passes_and_has_the_exact_gp_as_its_floor(results):
    records, folder = results("beyond")
    runs = regression.measured(records)
    assert {run["policy"] for run in runs} == {*beyond.POLICIES, beyond.NONE, beyond.EXACT}
    for run in runs:
        passes = {
            "CG": run["actions"],
            "random": 1,
            "pseudo-inputs": 1,
            "block Krylov": 1,
            "eigenvectors": 1,
            beyond.CLOCK: 1,
        }
        if run["policy"] != beyond.EXACT:
            assert run["passes"] == passes.get(run["policy"], 0)
            assert run["actions"] in (0, *beyond.CHECKS_QUICK)
    options = Options(quick=True, datasets=("synthetic",), out=folder.parent)
    cell = next(cell for cell in beyond.cells(options) if cell.key.get("policy") == beyond.EXACT)
    prior, noise = regression.learned("beyond", cell, options)
    data = regression.part("synthetic", 0, options)
    oracle = exact(prior, data.rows.X, data.rows.y, noise, data.X_test)
    found = next(run for run in runs if run["policy"] == beyond.EXACT)
    assert found["nll"] == pytest.approx(nll(data.y_test, oracle.mean, oracle.var + noise), rel=1e-6)
    assert found["rmse"] == pytest.approx(rmse(data.y_test, oracle.mean), rel=1e-6)
    nothing = next(run for run in runs if run["policy"] == beyond.NONE)
    assert nothing["nll"] == pytest.approx(nll(data.y_test, np.zeros(50), prior.var(data.X_test) + noise))
    assert nothing["local_nll"] < nothing["nll"]


def test_hyper_parameters_come_from_the_records_bit_for_bit(results):
    _, folder = results("beyond")
    options = Options(quick=True, datasets=("synthetic",), out=folder.parent)
    again = regression.learn_once(beyond.cells(options)[0], options)[0]
    prior, noise = regression.learned("beyond", beyond.cells(options)[1], options)
    assert noise == again["noise"]
    assert prior.kernel.scale == again["parameters"]["scale"]
    np.testing.assert_array_equal(prior.kernel.kernel.lengthscale, again["parameters"]["kernel.lengthscale"])
    with pytest.raises(InputError, match=r"no hyper-parameters for .*; expected those of its learning cell"):
        regression.learned("cggp", beyond.cells(options)[1], Options(out=folder))


def test_hyper_parameters_are_those_that_were_learned_last(tmp_path):
    key = {"dataset": "synthetic", "kernel": "RBF"}
    for noise in (0.5, 0.25):
        found = {"parameters": {"scale": 2.0, "kernel.lengthscale": [0.3]}, "noise": noise, "features": 1}
        line = {"cell": key | {"learn": "auto"}, "quick": False, "seconds": 1.0, "records": [key | found]}
        (tmp_path / "cggp").mkdir(exist_ok=True)
        append_line(tmp_path / "cggp" / "records.jsonl", line)
    prior, noise = regression.learned("cggp", Cell(key), Options(out=tmp_path))
    assert (prior.kernel.scale, noise) == (2.0, 0.25)


def test_learning_comes_first_and_large_sets_have_three_splits_and_half_the_iterations():
    for name in ("cggp", "svgp", "beyond"):
        experiment = EXPERIMENTS[name]
        cells = experiment.cells(Options(datasets=("bike", "protein")))
        for dataset, splits in (("bike", 10), ("protein", 3)):
            keys = [cell.key for cell in cells if cell.key["dataset"] == dataset]
            assert "learn" in keys[0]
            assert {key["split"] for key in keys if "split" in key} == set(range(splits))
    assert [cggp.iterations(dataset, Options()) for dataset in ("parkinsons", "bike")] == [256, 128]


@pytest.mark.data
def test_splits_are_the_fixed_ones_with_few_test_points(monkeypatch):
    monkeypatch.setenv("ITERGP_DATA", str(data_folder()))
    X, y, X_test, y_test = load_split("bike", 1)
    data = regression.part("bike", 1, Options())
    np.testing.assert_array_equal(data.rows.X, X)
    np.testing.assert_array_equal(data.rows.y, y)
    assert len(y_test) < regression.TEST_POINTS  # so all of them
    np.testing.assert_array_equal(data.y_test, y_test)
    quick = regression.part("bike", 1, Options(quick=True))
    assert {tuple(row) for row in quick.X_test} <= {tuple(row) for row in X_test}
    assert quick.about == {"n": 150, "distinct": 150, "test_points": 50}

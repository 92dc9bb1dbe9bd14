"""The comparison: its scores, a cell from end to end, and the page that is made from records."""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

import compare
import compare_page
from compare_methods import COSTLY, METHODS
from compare_scores import LEVELS, Gaussian, Quantiles, scores
from itergp import metrics


def test_quantiles_of_a_gaussian_have_its_scores():
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(300), rng.uniform(0.1, 2.0, 300)
    y = mean + 1.5 * std * rng.standard_normal(300)
    quantiles = Quantiles(mean, mean[:, None] + std[:, None] * ndtri(LEVELS))
    found, expected = scores(y, quantiles), scores(y, Gaussian(mean, std**2))
    assert found["coverage"] == expected["coverage"] == metrics.coverage(y, mean, std**2)
    np.testing.assert_allclose(found["crps"], metrics.crps(y, mean, std**2), rtol=2e-3)
    np.testing.assert_allclose(found["nll"], metrics.nll(y, mean, std**2), atol=5e-3)


def test_the_crps_of_quantiles_is_the_integral_over_their_distribution_function():
    """CRPS = the integral of (F(x) - [y <= x])^2, by quadrature; F is the inverse of the interpolated Q."""
    values = np.array([-1.0, -0.4, -0.3, -0.1, 0.0, 0.3, 0.8, 0.9, 2.0, 4.0, 9.0])
    known = ndtri(LEVELS)

    def score(x):  # linear between the known quantiles, and beyond them as before
        j = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
        return known[j - 1] + (x - values[j - 1]) * (known[j] - known[j - 1]) / (values[j] - values[j - 1])

    for y in (-3.0, 0.1, 7.0):
        below = quad(lambda x: ndtr(score(x)) ** 2, -12, y, points=values[values < y], limit=500)[0]
        above = quad(lambda x: ndtr(-score(x)) ** 2, y, 60, points=values[values > y], limit=500)[0]
        found = Quantiles(np.zeros(1), values[None, :]).crps(np.array([y]))
        np.testing.assert_allclose(found, below + above, rtol=5e-3)


def test_quantiles_that_cross_are_sorted_and_equal_ones_have_a_density():
    crossing = Quantiles(np.zeros(1), np.arange(11.0)[::-1][None, :])
    assert crossing.interval == (0.0, 10.0)
    same = scores(np.zeros(2), Quantiles(np.zeros(2), np.zeros((2, 11))))
    assert same["coverage"] == 1.0
    assert np.isfinite(same["nll"])


def test_every_cell_appears_once_and_budgets_by_the_clock_come_after_what_they_are_compared_with():
    names = [cell.name for cell in compare.cells()]
    assert len(set(names)) == len(names)
    places = {name: i for i, name in enumerate(names)}
    for cell in compare.cells():
        if cell.budget != "default":
            assert places[cell.name] > places[f"{cell.set}/{cell.split}/itergp/default"]


@pytest.mark.slow
def test_a_cell_has_the_scores_of_its_method_and_is_not_run_again(tmp_path, monkeypatch):
    """The linear model and itergp on a small set; the oracle is scikit-learn on the same rows."""
    from sklearn.linear_model import BayesianRidge

    monkeypatch.setenv("ITERGP_DATA", str(tmp_path))  # these cells need none
    cell, records = compare.Cell("diabetes", 0, "linear"), tmp_path / "records.jsonl"
    options = argparse.Namespace(
        records=records, only=[cell.name], again=[], limit=compare.LIMIT, memory=compare.MEMORY
    )
    compare.run_all(options)
    compare.run_all(options)
    (record,) = map(json.loads, records.read_text().splitlines())
    data = compare.problem("diabetes", 0)
    mean, std = BayesianRidge().fit(data.X, data.y).predict(data.X_new, return_std=True)
    assert record["status"] == "done"
    np.testing.assert_allclose(record["rmse"], metrics.rmse(data.y_new, mean), rtol=1e-9)
    np.testing.assert_allclose(record["nll"], metrics.nll(data.y_new, mean, std**2), rtol=1e-9)
    assert record["memory"] > 1e7
    assert record["fit_processor"] > 0
    ours = compare.run(compare.Cell("diabetes", 0, "itergp", "1s"))
    assert ours["status"] == "done"
    assert ours["rmse"] < 1.0
    assert ours["about"]["kernel"]
    assert "quantiles" not in ours["about"]  # a budget in seconds does not pay for them
    quantiles = compare.run(compare.Cell("diabetes", 0, "itergp"))["about"]["quantiles"]
    assert 0.3 < quantiles["crps"] < 0.5
    assert quantiles["coverage"] > 0.7


@pytest.mark.slow
def test_a_cell_that_takes_too_much_time_or_memory_is_ended_and_recorded():
    cell = compare.Cell("diabetes", 0, "itergp")
    assert compare.run(cell, limit=0.1)["status"] == "timeout"
    assert compare.run(cell, memory=1e6)["status"] == "out of memory"


def test_a_cell_that_a_signal_ended_is_not_recorded(tmp_path, monkeypatch):
    """Whoever ended it says nothing of the method: the next run has it again."""
    monkeypatch.setenv("ITERGP_DATA", str(tmp_path))
    records = tmp_path / "records.jsonl"
    ended = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"]
    popen = compare.subprocess.Popen
    monkeypatch.setattr(compare.subprocess, "Popen", lambda command, **pipes: popen(ended, **pipes))
    compare.run_all(
        argparse.Namespace(records=records, only=["cars/0/linear/*"], again=[], limit=9, memory=1e9)
    )
    assert not records.exists()


def test_what_took_too_much_is_not_asked_for_on_other_splits(tmp_path, monkeypatch):
    monkeypatch.setenv("ITERGP_DATA", str(tmp_path))
    monkeypatch.setattr(compare, "run", lambda cell, *limits: pytest.fail(f"{cell.name} was run"))
    records = tmp_path / "records.jsonl"
    ended = [record("cars", "gpr", status="timeout"), record("cars", "sgpr", status="out of memory")]
    records.write_text("".join(json.dumps(line) + "\n" for line in ended))
    only = ["cars/?/gpr/*", "cars/?/sgpr/*"]
    compare.run_all(argparse.Namespace(records=records, only=only, again=[], limit=9, memory=1e9))
    found = compare.read(records)
    assert {name: line["status"] for name, line in found.items()} == {
        f"cars/{split}/{method}/default": status
        for method, status in (("gpr", "timeout"), ("sgpr", "out of memory"))
        for split in range(3)
    }
    assert found["cars/2/gpr/default"]["as_split"] == 0


def test_more_rows_than_a_method_is_asked_for_are_not_fitted():
    data = compare.problem("diabetes", 0)
    many = type(data)(np.zeros((4000, 2)), np.zeros(4000), data.X_new, data.y_new, 1.0)
    assert compare.measure(compare.Cell("diabetes", 0, "gpr"), many)["status"] == "too many rows"


def record(name, method, split=0, budget="default", **values):
    common = {"rows": 90, "features": 2, "test_rows": 10, "unit": 2.0, "load": 1.0, "status": "done"}
    found = {"rmse": 0.5, "nll": 1.0, "nll_error": 0.1, "crps": 0.3, "coverage": 0.95, "memory": 1e8}
    spent = {f"{part}_{clock}": 1.0 for part in ("fit", "predict") for clock in ("seconds", "processor")}
    return {"set": name, "split": split, "method": method, "budget": budget} | common | found | spent | values


def stored():
    """One set with all methods in two splits: itergp is second by CRPS, one method was too slow."""
    crps = dict(zip(METHODS, np.linspace(0.2, 0.6, len(METHODS)), strict=True)) | {"forest": 0.1}
    return [
        record("cars", method, split, crps=crps[method] + 0.01 * split)
        if method != "svgp"
        else record("cars", method, split, status="timeout")
        for method in METHODS
        for split in (0, 1)
    ]


def test_the_page_is_made_from_records_and_names_what_is_missing(tmp_path):
    """Means over splits, the best in bold, ranks, losses, and every cell that is not there."""
    names = [cell.name for cell in compare.cells()]
    compare_page.write(stored(), names, tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert "| cars | 2 | 0.205 |" in text
    assert "**0.105**" in text
    assert f"18 of {len(names)} cells have been run." in text
    assert "To be run, split 2, budget default, with the number of cells: cars (9)" in text
    assert 'Ended with "timeout": `cars/0/svgp/default`, `cars/1/svgp/default`.' in text
    assert "| cars | 2 | forest, quantiles | +95.2 % |  | +0.0 % |" in text
    assert "| itergp | 1 of 1 | 4.5 | 2.0 |" in text
    assert "| SVGP (GPyTorch) | 1 of 1 | 9.0 | 9.0 |" in text  # too slow: the last
    assert "{{" not in text
    assert (tmp_path / "figures" / "comparison.png").stat().st_size > 10_000


def test_methods_are_compared_on_the_splits_that_they_share():
    """A third split of the quick methods counts among these, and not where the slow ones stand, too."""
    quick = [method for method in METHODS if method not in COSTLY]
    third = [record("cars", method, 2, crps=0.79 if method == "itergp" else 0.4) for method in quick]
    table = compare_page.Table([*stored(), *third])
    pairs = table.asked("cars", quick)
    assert table.splits("cars") == [0, 1]
    assert table.splits("cars", pairs) == [0, 1, 2]
    np.testing.assert_allclose(table.value("crps", "cars", "itergp"), 0.205)
    np.testing.assert_allclose(table.value("crps", "cars", "itergp", beside=pairs), 0.4)
    method, ours, other = compare_page.ahead(table, "cars", "crps")
    assert method == "forest"
    np.testing.assert_allclose([ours, other], [1.2 / 3, 0.61 / 3])
    assert f"| {METHODS['itergp'].label} | 1 of 1 | 3.5 | 4.0 |" in compare_page.ranks_of(table, quick)
    assert "| cars | 3 | forest, quantiles | +96.7 % |" in compare_page.losses(table, [])


def test_what_a_method_lost_by_the_other_score_is_said_too():
    """Better by CRPS and worse by NLL is a loss; the error is that of both."""
    ours, other = (
        record("cars", "itergp", crps=0.1, nll=1.5),
        record("cars", "catboost", nll=1.25, nll_error=0.2),
    )
    found = compare_page.losses(compare_page.Table([ours, other]), [])
    assert "| cars | 1 |  |  |  |  | CatBoost, Gaussian | +0.25 ± 0.22 |" in found


def test_quantiles_of_itergp_stand_beside_it_and_are_not_ranked():
    about = {"quantiles": {"crps": 0.25, "coverage": 0.9, "width": 1.0}}
    records = [record("cars", "itergp", about=about), record("cars", "forest", crps=0.2)]
    table = compare_page.Table(records)
    header, _, line = compare_page.BLOCKS["crps"](table, []).splitlines()
    assert header == "| set | splits | itergp | itergp, quantiles | forest, quantiles |"
    assert line == "| cars | 1 | 0.300 | 0.250 | **0.200** |"
    assert compare_page.BLOCKS["coverage"](table, []).splitlines()[-1] == "| cars | 1 | 95.0 | 90.0 | 95.0 |"
    assert "| forest, quantiles | +50.0 % | +25.0 % | +0.0 % |" in compare_page.losses(table, [])
    assert compare_page.ranks_of(table, ("itergp", "forest")).count("itergp") == 1


def test_a_failure_of_itergp_is_a_loss_and_the_last_rank():
    records = [record("cars", m, split) for m in ("itergp", "linear", "forest") for split in (0, 1)]
    records[1]["status"] = "failed"
    table = compare_page.Table(records)
    assert "| cars |  | no result |" in compare_page.losses(table, [])
    assert "| itergp | 1 of 1 | 3.0 | 3.0 | 3.0 |" in compare_page.ranks_of(table, table.methods)


def test_a_method_that_is_not_asked_on_all_sets_is_not_above_those_that_are():
    methods = ("itergp", "linear", "gpr")
    records = [
        record(name, m, crps=0.2 + 0.1 * i) for i, m in enumerate(methods) for name in ("cars", "quakes")
    ]
    records[4] |= {"crps": 0.1}  # GPR on one set: the best
    records[5] |= {"status": "too many rows"}
    lines = compare_page.ranks_of(compare_page.Table(records), methods).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| itergp", "| linear", "| GPR (scikit-learn)"]
    assert "1 of 2" in lines[-1]


def test_budgets_stand_beside_the_default_of_the_same_splits():
    records = [record("cars", "itergp", split, nll=1.0 + 2.0 * split) for split in (0, 1)]
    records += [record("cars", "itergp", 0, budget, nll=1.0) for budget in ("10s", "60s")]
    line = compare_page.budgets(compare_page.Table(records), []).splitlines()[-1]
    assert line == "| cars | 1 | 1.00 (1 s) | 1 | 1.00 (1 s) | 1 | 1.00 (1 s) | 1 |"


def test_sets_that_were_looked_at_are_left_out_of_the_second_table():
    records = [record(name, m, crps=0.1) for name in ("cars", "bike") for m in ("itergp", "linear")]
    table = compare_page.Table(records)
    assert "2 of 2" in compare_page.ranks_of_quick(table, [])
    assert "1 of 1" in compare_page.ranks_of_new(table, [])


def test_seconds_from_a_busy_machine_have_a_star():
    records = [record("cars", "itergp", load=1.0), record("cars", "linear", load=5.0)]
    table = compare_page.Table(records)
    assert (
        compare_page.BLOCKS["processor"](table, []).splitlines()[-1] == "| cars | 1 | **2.0** | **2.0**\\* |"
    )
    assert compare_page.loads(table, []) == "itergp 1.0, linear 5.0"


def test_the_pages_say_of_the_comparison_what_its_records_say():
    """docs/comparison.md is made from them, and so is what stands between marks on the first pages."""
    table, names = (
        compare_page.Table(compare.read(compare.RECORDS).values()),
        [c.name for c in compare.cells()],
    )
    made = compare_page.filled(compare_page.TEMPLATE.read_text(), table, names)
    assert (compare.ROOT / "docs" / "comparison.md").read_text() == made, "run: benchmarks/compare.py page"
    sentence = compare_page.in_short(table, names)
    for page in ("README.md", "docs/index.md"):
        text = (compare.ROOT / page).read_text()
        assert f"{compare_page.MARK}{sentence}{compare_page.MARK_END}" in text
        assert compare_page.cited(text, "x") == text.replace(sentence, "x")


def test_a_page_with_one_record_says_what_it_lacks(tmp_path):
    compare_page.write(
        [record("cars", "linear")], ["cars/0/linear/default", "cars/0/itergp/default"], tmp_path
    )
    text = (tmp_path / "comparison.md").read_text()
    assert "1 of 2 cells have been run." in text
    assert "On no set that has been measured." in text


def test_the_pareto_front_has_what_no_other_beats():
    assert compare_page.front([(3.0, 1.0), (1.0, 2.0), (2.0, 2.5), (4.0, 1.0)]) == [(1.0, 2.0), (3.0, 1.0)]


def test_reasons_are_for_sets_that_exist():
    assert set(compare_page.why()) <= set(compare.SETS)

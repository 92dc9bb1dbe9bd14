"""The page of a fit in a real browser: it loads nothing, the slider shows the twin's numbers, and hostile
text does nothing."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up import emptied, made_up

from itergp.report.page.page import render

HOSTILE = (
    "</script><img src=x onerror=\"window.hacked=1\"><svg onload='window.hacked=1'> $title ${7*7} <!-- ]]> & "
    "\u202eabc\u2028"
)
PHONE = 390


@pytest.fixture
def show(open_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Renders numbers into a file and opens it."""

    def show(numbers: dict, **how: Any) -> Any:
        path = tmp_path / "fit.html"
        path.write_text(render(numbers), encoding="utf-8")
        return open_page(path, **how)

    return show


def numeral(text: str) -> float:
    """What a reader reads."""
    return float(re.sub(r"[^0-9.e\-]", "", text.replace("\N{MINUS SIGN}", "-")))


def tile(page: Any, key: str) -> str:
    return page.locator(f"#tile-{key} .value").inner_text()


def ticks(page: Any, figure: str) -> list[str]:
    return page.locator(f"{figure} .axis text").all_text_contents()


def vertical_axis(page: Any, panel: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Pixels of a panel to data, from the labels of its axis: as a reader would."""
    rows = panel.locator(".axis text[text-anchor=end]").evaluate_all(
        "nodes => nodes.map(n => [+n.getAttribute('y') - 4, n.textContent])"
    )
    pixels, values = np.array([row[0] for row in rows]), np.array([numeral(row[1]) for row in rows])
    slope, offset = np.polyfit(pixels, values, 1)
    return lambda y: slope * y + offset


def drawn(panel: Any, layer: str) -> np.ndarray:
    """The points of a path, in pixels."""
    d = panel.locator(f"path.{layer}").get_attribute("d")
    return np.array([[float(v) for v in pair.split()] for pair in re.findall(r"[-\d.]+ [-\d.]+", d)])


def test_the_page_loads_without_errors_without_requests_and_within_its_policy(show):
    visit = show(made_up())
    assert visit.page.locator("h1").inner_text() == "Concrete"
    assert visit.page.locator("svg.plot").count() == 4 + 7  # slices and the other figures
    assert (visit.troubles, visit.requests, visit.violations()) == ([], [], [])
    policy = visit.page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_policy_stops_scripts_styles_and_requests_that_are_not_the_pages_own(show):
    visit = show(made_up(positions=3))
    stopped = visit.page.evaluate(
        """() => new Promise(resolve => {
            const seen = [];
            document.addEventListener("securitypolicyviolation", event => {
                seen.push(event.effectiveDirective);
                if (seen.length === 3) resolve(seen);
            });
            for (const [name, fill] of [["script", e => { e.textContent = "window.hacked = 1" }],
                                        ["style", e => { e.textContent = "body { display: none }" }],
                                        ["img", e => { e.src = "http://example.org/x.png" }]]) {
                const element = document.createElement(name);
                fill(element);
                document.body.append(element);
            }
        })"""
    )
    assert sorted(stopped) == ["img-src", "script-src-elem", "style-src-elem"]
    assert visit.page.evaluate("window.hacked") is None
    visit.troubles.clear()  # the browser reports what it stopped
    visit.requests.clear()


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_the_slider_shows_by_keyboard_what_the_twin_says_at_its_position(show, steps):
    numbers = made_up()
    page = show(numbers).page
    scale = ticks(page, "#slices"), ticks(page, "#pit"), ticks(page, "#calibration")
    slider = page.get_by_label("Computation", exact=True)
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(steps):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == numbers["path"]["labels"][steps]
    target = numbers["targets"][0]
    for key in ("rmse", "nll", "crps"):
        assert numeral(tile(page, key)) == float(f"{target['metrics'][key][steps]:.4g}")
    assert (
        tile(page, "coverage").replace("\N{NO-BREAK SPACE}", " ")
        == f"{100 * target['metrics']['coverage'][steps]:.1f} %"
    )
    assert numeral(tile(page, "share")) == round(100 * numbers["path"]["share"][steps])
    for panel, line in zip(page.locator("#slices .panel").all(), target["slices"], strict=True):
        read = vertical_axis(page, panel)
        mean, band = read(drawn(panel, "mean")[:, 1]), read(drawn(panel, "computational")[:, 1])
        sd = np.sqrt(line["combined"][steps])
        np.testing.assert_allclose(mean, line["mean"][steps], atol=0.02)
        assert band.max() == pytest.approx(np.max(line["mean"][steps] + 2 * sd), abs=0.02)
        assert band.min() == pytest.approx(np.min(line["mean"][steps] - 2 * sd), abs=0.02)
    calibration = page.locator("#calibration")
    observed = vertical_axis(page, calibration)(drawn(calibration, "curve")[:, 1]) / 100
    np.testing.assert_allclose(observed, target["calibration"]["observed"][steps], atol=0.005)
    # the axes do not jump
    assert scale == (ticks(page, "#slices"), ticks(page, "#pit"), ticks(page, "#calibration"))


def test_the_histogram_of_the_pit_has_the_twins_counts_and_says_where_a_bar_leaves_the_picture(show):
    numbers = made_up(positions=3, points=400)
    target = numbers["targets"][0]
    target["pit"]["counts"][0] = [0] * 10 + [400] + [0] * 9  # twenty times the uniform density
    page = show(numbers).page
    figure = page.locator("#pit")
    d = figure.locator("path.bars").get_attribute("d")
    tops = vertical_axis(page, figure)(np.array([float(v) for v in re.findall(r"V([-\d.]+)", d)]))
    np.testing.assert_allclose(tops * 400 / 20, target["pit"]["counts"][-1], atol=0.5)
    page.locator("#budget").fill("0")
    assert figure.locator(".beyond text").all_text_contents() == ["\u219120"]


def test_the_pointer_reads_the_twins_numbers_along_a_slice(show):
    numbers = made_up(positions=4)
    page = show(numbers).page
    page.locator("#budget").fill("1")
    panel, line = page.locator("#slices .panel").first, numbers["targets"][0]["slices"][0]
    panel.locator("svg").hover()
    said = panel.locator(".readout").inner_text().replace("\N{MINUS SIGN}", "-")
    x, mean, mathematical, computational = map(float, re.findall(r" (-?[\d.]+)", said))
    i = int(np.argmin(np.abs(np.array(line["x"]) - x)))
    assert mean == pytest.approx(line["mean"][1][i], abs=1e-3)
    assert mathematical == pytest.approx(line["mathematical"][i] ** 0.5, rel=1e-3)
    assert computational == pytest.approx((line["combined"][1][i] - line["mathematical"][i]) ** 0.5, rel=1e-3)


def test_the_residuals_lie_over_the_predicted_mean(show):
    numbers = made_up(positions=2)
    counts = [[0] * 24 for _ in range(36)]
    counts[0][23] = 7  # the smallest mean, the largest residual: the cell at the upper left
    numbers["targets"][0]["residuals"]["counts"] = counts
    figure = show(numbers).page.locator("#residuals .plot")
    cell, frame = drawn(figure, "density"), figure.locator("clipPath rect")
    assert cell[0, 0] == pytest.approx(float(frame.get_attribute("x")), abs=0.1)
    assert cell[0, 1] < float(frame.get_attribute("y")) + float(frame.get_attribute("height")) / 12


def test_play_runs_through_the_computation_to_its_end(show):
    page = show(made_up(positions=3)).page
    page.get_by_role("button", name="Play").click()
    assert page.locator("body").get_attribute("data-position") == "0"
    page.get_by_role("button", name="Pause").wait_for()
    page.locator("body[data-position='2']").wait_for()
    page.get_by_role("button", name="Play").wait_for()


def hostile(value: Any) -> Any:
    """The same numbers with every text and every name hostile."""
    if isinstance(value, dict):
        return {hostile(key) if key in NAMES else key: hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return HOSTILE + value if isinstance(value, str) and value != "itergp-report/1" else value


NAMES = ("cement", "age", "water", "slag")


@pytest.mark.parametrize("endless", [False, True], ids=["markup", "10,000 characters"])
def test_hostile_text_does_nothing_and_is_shown_as_text(show, endless):
    numbers = hostile(made_up(positions=3, targets=("strength", "cost")))
    if endless:
        numbers["title"] = "W" * 10_000
        for target in numbers["targets"]:
            target["name"] = "\U0001f600" * 5_000
            target["slices"][0]["feature"] = target["slices"][0]["held_at"] = "W" * 10_000
            target["worst"][0]["features"] = {"W" * 10_000: 1.0}
        numbers["relevance"][0]["feature"] = "W" * 10_000
    visit = show(numbers, width=PHONE)
    page = visit.page
    page.locator("#target").select_option("1")
    page.locator("#budget").fill("0")
    # what would turn the text around it, or end a line, is made visible
    numbers = json.loads(json.dumps(numbers).replace("\\u202e", "\\ufffd").replace("\\u2028", "\\ufffd"))
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, object, svg[onload], [onerror]").count() == 0
    assert page.locator("h1").text_content() == numbers["title"]
    assert page.locator(".verdict").text_content().replace("\N{NO-BREAK SPACE}", " ") == numbers["verdict"][0]
    assert page.locator(".warnings li").text_content() == numbers["warnings"][0]
    assert page.locator("#target option").first.text_content() == numbers["targets"][0]["name"]
    assert page.locator("#budget").get_attribute("aria-valuetext") == numbers["path"]["labels"][0]
    assert (
        numbers["relevance"][0]["feature"]
        in page.locator("[aria-labelledby=h-relevance] td").all_text_contents()
    )
    held = page.locator("#slices .panel").first.locator(".held")
    assert held.text_content() == numbers["targets"][1]["slices"][0]["held_at"]
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    assert visit.violations() == []


@pytest.mark.parametrize("several", [False, True], ids=["one target", "two targets"])
def test_a_phone_shows_the_page_without_sideways_scrolling_and_redraws_when_turned(show, several):
    page = show(made_up(targets=("strength", "cost")[: 1 + several]), width=PHONE, height=844).page
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    page.set_viewport_size({"width": 844, "height": PHONE})
    page.locator("#decomposition svg[viewBox^='0 0 788 ']").wait_for()  # 844 without the margins of the page
    assert page.evaluate("document.documentElement.scrollWidth") == 844


DATED = (
    "day: day of year",
    "day: days since 2023-01-02",
    "floor area",
    "day: weekday",
    "temperature outside °C",
)
CUT = "all => all.filter(node => node.scrollHeight > node.clientHeight + 1).map(node => node.textContent)"


@pytest.mark.parametrize("width", [PHONE, 1280])
def test_names_of_columns_of_a_table_with_dates_are_not_cut(show, width):
    """Neither above the worst points nor where a line is held, where six of them stand."""
    numbers = made_up(positions=3)
    target = numbers["targets"][0]
    held = ", ".join(f"{name} = 12.289" for name in (*DATED, "city"))
    for line in target["slices"]:
        line["held_at"] = f"Other features at their median, categories as in most rows: {held}."
    for point in target["worst"]:
        point["features"] = dict.fromkeys(DATED, 1.25)
    page = show(numbers, width=width).page
    assert page.locator("[aria-labelledby=h-worst] th .name").evaluate_all(CUT) == []
    assert page.locator("#slices .held").evaluate_all(CUT) == []


CONTRASTS = """() => {
    const channels = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = node => {
        for (let at = node; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (channels(colour)[3] !== 0) return channels(colour);
        }
        return [255, 255, 255];
    };
    const found = {};
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
        if (!own || ["SCRIPT", "NOSCRIPT", "OPTION", "title"].includes(node.tagName) || !node.getClientRects().length) continue;
        const style = getComputedStyle(node), ink = channels(node.tagName === "text" ? style.fill : style.color);
        const [a, b] = [light(ink), light(ground(node))].sort((x, y) => y - x);
        found[`${node.tagName}.${node.getAttribute("class")}`] = (a + 0.05) / (b + 0.05);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_light_and_dark(show, scheme):
    page = show(made_up(targets=("strength", "cost")), scheme=scheme).page
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", ground)[0]) < 60) == (scheme == "dark")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 15
    assert {kind: contrast for kind, contrast in contrasts.items() if contrast < 4.5} == {}


def test_print_is_white_without_controls_and_says_which_state_is_shown(show):
    numbers = made_up(positions=5)
    page = show(numbers, scheme="dark").page
    page.locator("#budget").fill("2")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#controls").is_visible()
    assert page.locator(".frozen").inner_text() == f"Shown: {numbers['path']['labels'][2]}."
    assert page.evaluate("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"
    assert page.pdf().startswith(b"%PDF")


def test_several_targets_are_chosen_and_each_has_its_own_numbers_picture_and_table(show):
    numbers = made_up(positions=4, targets=("strength", "cost"))
    numbers["targets"][1]["metrics"]["rmse"][-1] = 123.4
    page = show(numbers).page
    before = page.locator("#slices .panel path.mean").first.get_attribute("d")
    page.get_by_role("combobox", name="Target").select_option(label="cost")
    assert tile(page, "rmse") == "123.4"
    assert page.locator("#slices .panel path.mean").first.get_attribute("d") != before
    assert page.locator(".of-target:visible").get_attribute("data-target") == "1"
    row = page.locator("[aria-labelledby=h-targets] tbody tr").nth(1).locator("td").all_inner_texts()
    assert (row[0], row[2]) == ("cost", "123.4")


def test_without_javascript_verdict_tiles_and_tables_are_there_and_the_page_says_what_is_not(show):
    numbers = made_up(positions=4, targets=("strength", "cost"))
    page = show(numbers, javascript=False).page
    assert page.locator(".verdict").is_visible()
    assert numeral(tile(page, "rmse")) == float(f"{numbers['targets'][0]['metrics']['rmse'][-1]:.4g}")
    assert page.locator(".of-target:visible tbody tr").count() == 40
    assert page.locator(".noscript").is_visible()
    assert not page.locator("#controls").is_visible()


def test_every_figure_has_a_title_a_help_and_an_accessible_name(show):
    page = show(made_up(positions=3)).page
    for figure in page.locator("figure").all():
        assert figure.locator(".help").first.text_content()
        assert figure.locator("svg[role=img]").first.get_attribute("aria-label")
        assert figure.locator("xpath=ancestor::section[1]//h2").inner_text()


def test_of_an_exact_fit_the_steps_of_the_computation_are_folded_away_and_can_be_opened(show):
    """Nothing of the variance is computational: no slider, no passes, and print without what is folded."""
    numbers = made_up(positions=5)
    numbers["fitted"] |= {"status": "EXACT", "memory_bytes": None}
    numbers["share"] |= {"value": 0.0, "error": 0.0}
    visit = show(numbers)
    page = visit.page
    assert not page.locator("#budget").is_visible()
    assert page.locator("#tile-passes, #tile-share, #tile-memory").count() == 0
    assert not page.locator("#decomposition").is_visible()
    page.get_by_text("Step through the computation").click()
    page.locator("#budget").press("Home")
    assert page.locator("body").get_attribute("data-position") == "0"
    page.get_by_text("Where the variance comes from").click()
    # it is drawn again when it is opened, so it may be another one a moment later
    width = "document.querySelector('#decomposition svg.plot')?.getBoundingClientRect().width"
    page.wait_for_function(f"() => {width} > 300", timeout=10_000)
    assert visit.troubles == []


def test_the_slider_of_a_fit_with_a_budget_is_open(show):
    page = show(made_up(positions=5)).page
    assert page.locator("#budget").is_visible()
    assert page.locator("#tile-passes").is_visible()


def one_point() -> dict:
    numbers = made_up(positions=2, points=1, names=("age",))
    target = numbers["targets"][0]
    line = target["slices"][0]
    for key in ("x", "mathematical"):
        line[key] = line[key][:1]
    for key in ("mean", "combined"):
        line[key] = [row[:1] for row in line[key]]
    line["near"] = {"x": [0.5], "y": [1.0]}
    target["decomposition"] |= {"mathematical": [0.1], "computational": [0.0]}
    numbers["learning"], numbers["convergence"] = numbers["learning"][:1], numbers["convergence"][:1]
    return numbers


def no_variance() -> dict:
    numbers = made_up(positions=2)
    for target in numbers["targets"]:
        target["decomposition"] |= {"mathematical": [0.0] * 5, "computational": [0.0] * 5, "noise": 0.0}
        target["unit_sd"] = 0.0
        for line in target["slices"]:
            line |= {
                "mean": [[1.0] * 120] * 2,
                "combined": [[0.0] * 120] * 2,
                "mathematical": [0.0] * 120,
                "noise": 0.0,
            }
            line["near"] = {"x": [], "y": []}
    return numbers


def bare() -> dict:
    numbers = {"format": "itergp-report/1", "title": None, "targets": [{"name": None}]}
    return dict.fromkeys(made_up(positions=2)) | numbers


def far_away() -> dict:
    numbers = made_up(positions=3)
    for line in numbers["targets"][0]["slices"]:
        line["mean"] = [[1e9 + v for v in row] for row in line["mean"]]
        line["near"]["y"] = [1e9 + v for v in line["near"]["y"]]
        line["mathematical"] = None
    numbers["hyperparameters"][0]["value"] = 1e300
    return numbers


def test_the_page_of_a_real_fit_loads_without_errors(show):
    numbers = json.loads((Path(__file__).parents[1] / "report" / "example.json").read_text(encoding="utf-8"))
    visit = show(numbers)
    assert visit.page.locator("#slices svg.plot").count() == len(numbers["targets"][0]["slices"])
    assert numeral(tile(visit.page, "rmse")) == float(f"{numbers['targets'][0]['metrics']['rmse'][-1]:.4g}")
    assert visit.page.locator("[d*=NaN], [d*=Infinity], [d*=undefined]").count() == 0


DEGENERATE = {
    "every number null": lambda: emptied(made_up(positions=3)),
    "nothing but a format": bare,
    "one point": one_point,
    "no variance": no_variance,
    "one position": lambda: made_up(positions=1),
    "far from zero": far_away,
    "empty lists": lambda: (
        made_up(positions=2) | {"targets": [], "relevance": [], "hyperparameters": [], "learning": []}
    ),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_numbers_make_a_page_without_errors(show, case):
    visit = show(DEGENERATE[case](), width=PHONE)
    assert visit.page.locator(".verdict").is_visible()
    assert visit.page.locator("body.drawn").count() == 1
    assert visit.page.evaluate("document.documentElement.scrollWidth") == PHONE
    drawn_badly = visit.page.locator("[d*=NaN], [d*=Infinity], [d*=undefined]").count()
    assert (visit.troubles, drawn_badly) == ([], 0)
    assert not re.search(r"\b(NaN|undefined|Infinity|None|null)\b", visit.page.locator("body").inner_text())

"""The page as a file: what is in it, that nothing can be in it, and that it is small. The browser's part
is tests/browser."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from itergp.errors import InputError
from itergp.fitted import formats
from itergp.report.measure.rounding import rounded
from itergp.report.page import parts
from itergp.report.page.page import SCRIPTS, render
from itergp.report.page.text import tiles

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from made_up import made_up  # noqa: E402

ASSETS = {"page.html", "page.css", *SCRIPTS}


def digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def test_the_policy_names_the_digests_of_the_style_and_the_script_and_nothing_else():
    page = render(made_up(positions=3))
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == {digest(style), digest(script)}
    assert page.count("<script") == 2  # the numbers and the script
    assert not re.search(
        r"\b(src|href|style|on\w+)=", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    )
    # the name of SVG is not an address to load
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--<script>", "&lt;", "\ud800", "\x00", "$title ${x} $$"]
)
def test_any_text_leaves_one_block_of_numbers_that_still_parses(text):
    page = render(made_up(positions=2, targets=(text,), names=(text, "b"), title=text))
    page.encode("utf-8")
    blocks = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', page, re.S)
    assert len(blocks) == 1
    assert not set(blocks[0]) & set("<>&")
    assert json.loads(blocks[0])["targets"][0]["name"] == re.sub("[\ud800\x00]", "\ufffd", text)


def test_no_control_character_reaches_the_page():
    """Neither in its text nor escaped in its numbers: ESC moves a terminal's cursor, BEL rings, NUL ends a
    text."""
    control = "".join(map(chr, (*range(9), 0x0B, 0x0C, *range(0x0D, 0x20), *range(0x7F, 0xA0))))
    page = render(
        made_up(positions=2, targets=(f"y{control}",), names=(f"a{control}", "b"), title=f"t{control}")
    )
    assert not set(page) & set(control)
    numbers = page.partition('id="numbers">')[2].partition("<")[0]
    assert not re.search(r"\\u00(0[0-8bcdef]|1[0-9a-f]|7f|[89][0-9a-f])|\\[bfr]", numbers)
    assert f"a{chr(0xFFFD) * len(control)}" in page


def test_marks_that_turn_the_text_around_them_are_made_visible_and_hebrew_is_left_alone():
    page = render(
        made_up(positions=2, names=("\u202e21\u202c", "\u05d0\u05d1", "c\u200f\u061c"), title="\u2066t\u200e")
    )
    assert not re.search(
        "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\\\\u(20(0[ef]|2[a-e]|6[6-9])|061c)", page
    )
    assert '<bdi class="name">\ufffd21\ufffd</bdi>' in page
    assert '<bdi class="name">\u05d0\u05d1</bdi>' in page


def test_the_largest_report_makes_a_page_below_two_megabytes():
    largest = made_up(
        positions=40,
        targets=tuple(f"y{t}" for t in range(8)),
        names=tuple(f"feature {j}" for j in range(400)),
    )
    assert len(render(rounded(largest)).encode()) < 2_000_000  # as `numbers` gives them


def test_the_numbers_of_the_page_are_the_twins_to_what_a_picture_can_show():
    numbers = made_up(positions=5)
    line = numbers["targets"][0]["slices"][0]
    line["mean"] = [[1e7 + v for v in row] for row in line["mean"]]
    shown = json.loads(re.search(r'id="numbers">(.*?)</script>', render(numbers), re.S)[1])["targets"][0][
        "slices"
    ][0]
    spread = max(map(max, line["mean"])) - min(map(min, line["mean"]))
    for row, expected in zip(shown["mean"], line["mean"], strict=True):
        assert row == pytest.approx(expected, rel=0, abs=1e-5 * spread)
    for row, expected in zip(shown["combined"], line["combined"], strict=True):
        assert row == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("numbers", [{}, {"format": "itergp-report/2"}, None])
def test_numbers_of_another_format_are_refused(numbers):
    with pytest.raises(InputError, match=r"numbers must be .* 'itergp-report/1'"):
        render(numbers)


def test_numbers_that_are_not_finite_become_unknown():
    numbers = made_up(positions=2)
    numbers["targets"][0]["metrics"]["rmse"] = [float("nan"), float("inf")]
    numbers["targets"][0]["slices"][0]["combined"][0][0] = float("nan")
    page = render(numbers)
    assert '<span class="value">not known</span>' in page
    assert "NaN" not in re.search(r'id="numbers">(.*?)</script>', page, re.S)[1]


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.61, 0.04, "61 ± 4 %"),
        (0.18, 0.0052, "18.0 ± 0.5 %"),
        (0.0513, 0.0, "5.1 %"),
        (1e-5, 0.0, "below 0.1 %"),
        (0.0, 0.0, "0.0 %"),
    ],
)
def test_the_computational_share_is_written_with_its_error_bar(value, error, expected):
    numbers = made_up(positions=3) | {
        "share": {"value": value, "error": error, "method": "exact", "points": 100}
    }
    shown = tiles(numbers, numbers["targets"][0], 2)["share"][0]
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == expected


TEXTS = [
    (formats.number, 0.12345678, "0.1235"),
    (formats.number, -1234.5678, "\N{MINUS SIGN}1,235"),
    (formats.number, 0.0, "0"),
    (formats.number, 1.5e-7, "1.500e\N{MINUS SIGN}7"),
    (formats.number, 2e12, "2.000e12"),
    (formats.number, 0.00099999999, "0.001000"),  # as 0.001
    (formats.number, 9.99999, "10.00"),
    (formats.number, None, "not known"),
    (formats.number, True, "not known"),
    (formats.count, 57247, "57,247"),
    (formats.count, 2.25, "2.25"),
    (formats.duration, 0.012, "12.0 ms"),
    (formats.duration, 59.94, "59.9 s"),
    (formats.duration, 3725.0, "1 h 2 min"),
    (formats.duration, 150.2, "2 min 30 s"),
    (formats.memory, 1.48e9, "1.48 GB"),
    (formats.memory, 213e6, "213 MB"),
    (formats.fixed_percent, 0.948, "94.8\N{NO-BREAK SPACE}%"),
]


@pytest.mark.parametrize(("write", "value", "expected"), TEXTS)
def test_numbers_are_written_for_readers(write, value, expected):
    assert write(value) == expected


def test_whole_numbers_among_the_worst_points_have_no_decimals():
    """Weekdays do not; of a column that has them, all numbers do."""
    points = [
        {"row": 0, "features": {"weekday": 4.0, "area": 12.0}},
        {"row": 7, "features": {"weekday": "missing", "area": 3.25}},
    ]
    table = parts.worst_tables({"targets": [{"worst": points}]})
    cells = re.findall(r"<td>(.*?)</td>", table)
    assert (cells[5], cells[6]) == ("4", "12.00")
    assert (cells[12], cells[13]) == ('<bdi class="name">missing</bdi>', "3.250")


def test_lengthscales_are_a_column_only_where_there_are_some():
    rows = [{"feature": "a", "relevance": 1.0, "lengthscale": None}, {"feature": "b", "relevance": 0.5}]
    assert "lengthscale" not in parts.relevance({"relevance": rows})
    some = parts.relevance({"relevance": [{**rows[0], "lengthscale": 2.0}, rows[1]]})
    assert "lengthscale" in some
    assert ">2.00<" in some


def test_the_wheel_contains_what_the_page_is_made_of(tmp_path):
    pytest.importorskip("scikit_build_core", reason="building a wheel needs `pip install scikit-build-core`")
    code = (
        "import sys; from scikit_build_core.build import build_wheel as b; b(sys.argv[1], {'wheel.cmake': "
        "'false'})"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = {Path(name).name for name in wheel.namelist() if name.startswith("itergp/report/")}
    assert held >= ASSETS

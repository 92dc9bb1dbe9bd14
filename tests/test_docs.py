"""What README and docs show works: their code runs and prints what they say, their commands parse, what
they name exists."""

import contextlib
import importlib
import importlib.util
import io
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import itergp
from itergp.cli.commands import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = [*PAGES, *sorted((ROOT / "docs" / "results").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
COMMAND = typer.main.get_command(app)
SHORT = "20 actions"  # in the place of budgets, where commands are executed


def name(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    """Fenced blocks in their order: language, text, and whether it is what the block before it prints."""
    text, end, found = page.read_text(), None, []
    for match in FENCE.finditer(text):
        printed = match[1] == "text" and end is not None and not text[end : match.start()].strip()
        found.append((match[1], match[2], printed))
        end = match.end() if match[1] == "python" else None
    return found


def spans(page):
    """Texts in single backticks, outside of blocks."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", page.read_text()))


def run(page, leave_out=""):
    """Execute the Python blocks of a page one after the other, in one namespace. What they print is what
    is said next to them."""
    names, printed = {"__name__": "page"}, ""
    for number, (language, text, is_output) in enumerate(blocks(page)):
        if language == "python" and not (leave_out and leave_out in text):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, f"{name(page)}, block {number}", "exec"), names)
            printed = out.getvalue()
        elif is_output:
            assert_prints(printed, text)
    return names


def assert_prints(printed, expected):
    """The same words; numbers to 5 %, or to one unit of the last digit that is shown."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
    for numbers in zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True):
        got, said = (float(number.replace(",", "")) for number in numbers)
        unit = 10.0 ** -len(numbers[1].partition(".")[2])
        assert abs(got - said) <= max(1.01 * unit, 0.05 * abs(got)), f"{got} is printed, the page says {said}"


def check_estimator(names):
    parts, y = names["parts"], names["y"][500:]
    np.testing.assert_allclose(parts.mathematical + parts.computational + parts.noise, names["std"] ** 2)
    assert 0.8 < ((names["lower"] <= y) & (y <= names["upper"])).mean() <= 0.98
    assert names["model"].posterior_.problem.n == 600
    np.testing.assert_allclose(names["noise_std"], [0.01, 1.0], rtol=0.2)
    np.testing.assert_allclose(names["stds"].mean(axis=0), [0.01, 1.0], rtol=0.3)


def check_quickstart(names):
    parts = names["parts"]
    np.testing.assert_allclose(parts.mathematical + parts.computational, names["variance"])
    assert names["better"].rank == 128
    assert Path("model.itergp").exists()


CHECKS = {"estimator.md": check_estimator, "quickstart.md": check_quickstart}
WITH_CODE = [page for page in PAGES if any(language == "python" for language, *_ in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch = any("torch" in text for language, text, _ in blocks(page) if language == "python")
    names = run(page, leave_out="torch" if torch else "")
    CHECKS.get(page.name, lambda names: None)(names)


def test_the_code_for_gpytorch_runs_beside_ours(tmp_path, monkeypatch):
    for module in ("torch", "gpytorch"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install '.[bench]'")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that CG terminated, as it should with so few iterations
        names = run(ROOT / "docs" / "from-gpytorch.md")
    np.testing.assert_allclose(names["their_mean"], names["our_mean"], atol=1e-5)


def test_the_code_for_botorch_finds_the_optimum(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[botorch]'")
    pytest.importorskip("botorch", reason="BoTorch is not installed: pip install '.[botorch]'")
    monkeypatch.chdir(tmp_path)
    before = torch.get_default_dtype()
    try:
        names = run(ROOT / "docs" / "botorch.md")
    finally:
        torch.set_default_dtype(before)
    assert names["regret"] < 0.5


def test_a_page_that_prints_something_else_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page = tmp_path / "page.md"
    for said, agrees in (
        ("3 rows, 0.43", True),
        ("3 rows, 0.44", True),
        ("3 rows, 0.48", False),
        ("3 lines, 0.43", False),
    ):
        page.write_text(f'```python\nprint("3 rows,", 0.43)\n```\n\n```text\n{said}\n```\n')
        with contextlib.nullcontext() if agrees else pytest.raises(AssertionError):
            run(page)


# Commands.


def commands(page):
    """Lines in blocks that begin with `itergp `, as lists of words."""
    lines = [line for language, text, _ in blocks(page) if language != "python" for line in text.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("itergp ")]


def resolve(words):
    """The command that these words name, and the words that are left for it."""
    command = COMMAND
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", [page for page in TEXTS if commands(page)], ids=name)
def test_every_command_line_of_a_page_is_understood(page):
    for words in commands(page):
        command, rest = resolve(words)
        command.make_context(command.name, list(rest))  # raises where an option or a value is wrong


def test_commands_in_the_text_exist_and_have_the_options_that_are_named():
    for page in TEXTS:
        for span in spans(page):
            if span.startswith("itergp ") and "|" not in span:
                command, rest = resolve(shlex.split(span)[1:])
                known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
                assert {word for word in rest if word.startswith("--")} <= known, f"{name(page)}: {span}"


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "quickstart.md"], ids=name)
def test_the_commands_for_tables_do_their_work(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(np.random.default_rng(0))
    executed = [
        words
        for words in commands(page)
        if words[0] in ("fit", "predict", "refine", "update", "info", "report")
    ]
    assert len(executed) >= 5
    for words in executed:
        words = [
            SHORT if before == "--budget" else word for before, word in zip(["", *words], words, strict=False)
        ]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"itergp {shlex.join(words)}: {result.output}"
    assert len(Path("pred.csv").read_text().splitlines()) == 1 + 9


def test_the_page_about_tables_shows_what_its_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tables.md"
    run(page)  # which writes the table
    texts = [text for _, text, _ in blocks(page)]
    (said,) = (text for text in texts if text.startswith("Note: "))
    (piped,) = (text.partition("| itergp ")[2] for text in texts if text.startswith("zcat shop.csv.gz |"))
    fit, predict = commands(page)
    result = CliRunner().invoke(app, fit)
    assert result.exit_code == 0, result.output
    assert [line for line in result.stderr.splitlines() if line.startswith("Note: ")] == said.splitlines()
    for words, given in ((predict, None), (shlex.split(piped), Path("shop.csv").read_bytes())):
        result = CliRunner().invoke(app, words, input=given)
        assert result.exit_code == 0, result.output
    assert Path("sales.csv").read_text().startswith("id,")


def write_tables(rng):
    """Tables to learn from, to predict, with more rows, and to test with; the colour is a number, which
    may be a category too."""
    for file, rows in (("train.csv", 60), ("new.csv", 9), ("more.csv", 8), ("test.csv", 12)):
        a, colour = rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)
        y = np.sin(3 * a) + colour + 0.1 * rng.standard_normal(rows)
        lines = [f"{i},{a[i]},{colour[i]},{y[i]}" for i in range(rows)]
        Path(file).write_text("\n".join(["id,a,colour,y", *lines]) + "\n")


# What is named exists.


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_every_relative_link_leads_somewhere(page):
    text = FENCE.sub(lambda block: block[0] if block[0].startswith("```{") else "", page.read_text())
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text) + re.findall(
        r"^```\{(?:image|include)\} "
        r"(\S+)",
        text,
        re.MULTILINE,
    )
    for link in links:
        if re.match(r"\w+:", link):
            continue
        target = (page.parent / link).resolve()
        if target.parent == ROOT / "docs" / "gallery":  # made from the examples
            target = ROOT / "examples" / target.with_suffix(".py").name
        assert target.exists(), f"{name(page)} links to {link}, which is not there"


def test_files_folders_and_make_targets_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in TEXTS:
        for span in spans(page):
            path = re.fullmatch(
                r"(?:python )?((?:docs|tests|benchmarks|examples|src)/[\w./-]+)(?: "
                r".*)?",
                span,
            )
            if path and not path[1].startswith("docs/results"):
                assert (ROOT / path[1]).exists(), f"{name(page)} names {path[1]}"
        for target in re.findall(r"(?:^|`)make (\w+)", page.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{name(page)} names make {target}"


def test_names_of_the_library_exist():
    checked = 0
    for page in TEXTS:
        for span in spans(page):
            dotted = re.fullmatch(r"(itergp(?:\.[A-Za-z_]\w*)+)(?:\(.*\))?", span)
            if dotted:
                assert exists(dotted[1]), f"{name(page)} names {dotted[1]}"
                checked += 1
    assert checked > 30


def exists(dotted):
    thing, words = itergp, dotted.split(".")[1:]
    if words[0] == "botorch" and importlib.util.find_spec("torch") is None:  # which this environment lacks
        return words[1:2] == [] or f'"{words[1]}"' in (ROOT / "src/itergp/botorch/__init__.py").read_text()
    for i, word in enumerate(words):
        if not hasattr(thing, word):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(["itergp", *words[: i + 1]]))
        if not hasattr(thing, word):
            return word in getattr(thing, "__dataclass_fields__", ())
        thing = getattr(thing, word)
    return True


def test_the_reference_lists_every_public_name_and_all_of_them_exist(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    sections = importlib.import_module("reference").page().split("currentmodule:: ")[1:]
    listed = [
        f"{section.partition(chr(10))[0]}.{entry}"
        for section in sections
        for entry in re.findall(r"^   ([\w.]+)$", section, re.MULTILINE)
    ]
    assert {f"itergp.{public}" for public in itergp.__all__} <= set(listed)
    assert len(set(listed)) == len(listed)
    assert all(exists(entry) for entry in listed)


def test_every_page_is_in_the_contents():
    contents = re.findall(r"<([\w/-]+)>$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= set(contents)

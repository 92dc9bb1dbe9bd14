"""What the README shows works."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_python_snippet_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})


def test_the_two_commands_of_the_readme_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

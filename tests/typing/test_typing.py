"""The package is typed (`py.typed`): a program of a user passes `mypy --strict`, and runs."""

import runpy
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program.py")


def checked(path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """By mypy without the settings of this project, as in another folder."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cache, check=False)


def test_the_package_says_that_it_is_typed():
    assert resources.files("itergp").joinpath("py.typed").is_file()


@pytest.mark.slow
def test_a_program_passes_the_strict_type_checker(tmp_path):
    run = checked(PROGRAM, tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_the_type_checker_sees_wrong_arguments(tmp_path):
    """Types are known, not Any: what is wrong in a program is found."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from itergp import IterGPRegressor, MaxActions, Prior\n"
        "IterGPRegressor(budgets='5s')\n"
        "MaxActions('many')\n"
        "Prior(kernel=3)\n"
        "IterGPRegressor().save(5)\n"
    )
    run = checked(wrong, tmp_path)
    found = [line.split(":")[1] for line in run.stdout.splitlines() if ": error:" in line]
    assert found == ["2", "3", "4", "5"]


def test_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(PROGRAM), run_name="__main__")

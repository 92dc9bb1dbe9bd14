"""`make test-oldest` runs with the lowest versions that pyproject.toml promises, and with no others."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# what these say changes from version to version
TOOLS = {"itergp", "ruff", "mypy", "playwright", "scikit-build-core"}


def test_every_lower_bound_is_in_the_constraints():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    promised = dict(
        re.match(r"([\w-]+).*?>=([\d.]+)$", bound).groups()
        for bound in (
            *project["dependencies"],
            *extras["plots"],
            *extras["data"],
            *extras["dask"],
            *extras["test"],
        )
        if ">=" in bound and not bound.startswith(tuple(TOOLS))
    )
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert tested.pop("jaxlib") == tested["jax"]  # they come together
    number = lambda version: [*map(int, version.split(".")), 0, 0][:3]  # noqa: E731
    assert {name: number(version) for name, version in tested.items()} == {
        name: number(version) for name, version in promised.items()
    }

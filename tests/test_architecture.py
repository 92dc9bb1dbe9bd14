"""One direction of imports, and JAX behind its doors."""

import ast
import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import itergp
from itergp.linalg.engines import registry

SOURCE = Path(itergp.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
ROOMS = (
    "brief",
    "errors",
    "limits",
    "validate",
    "data",
    "prior",
    "linalg",
    "solver",
    "posterior",
    "learning",
    "baselines",
    "metrics",
    "storage",
    "tables",
    "plots",
    "fitted",
    "report",
    "estimator",
    "botorch",
    "datasets",
    "testing",
    "experiments",
    "cli",
)


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def imported(path: Path) -> list[str]:
    """Every module that a file imports, at the top or inside functions; also by importlib, where the name
    is a literal."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)} imports relatively"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith("itergp.")
        ):
            found.append(node.value.partition(" ")[0])
    return found


def inner(modules: list[str]) -> set[str]:
    """The rooms of this library among the modules."""
    return {
        module.split(".")[1]
        for module in modules
        if module.startswith("itergp.") and module.split(".")[1] in ROOMS
    }


def test_every_module_belongs_to_a_room():
    assert {room(path) for path in MODULES} - {"__init__", "__main__"} <= set(ROOMS)


@pytest.mark.parametrize("path", [path for path in MODULES if room(path) in ROOMS], ids=name)
def test_a_module_imports_only_rooms_above_its_own(path):
    below = {other for other in inner(imported(path)) if ROOMS.index(other) > ROOMS.index(room(path))}
    assert not below, f"{name(path)} imports from {sorted(below)}, which stand below it"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_jax_stays_behind_its_doors_and_nothing_is_pickled(path):
    tops = {module.partition(".")[0] for module in imported(path)}
    assert "jax" not in tops or room(path) in ("linalg", "learning"), f"{name(path)} imports jax"
    assert not tops & {"pickle", "cPickle", "dill", "cloudpickle", "joblib"}, f"{name(path)} pickles"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_torch_stays_in_its_room(path):
    """Nothing imports it but `itergp.botorch`, which nothing imports."""
    modules = imported(path)
    tops = {module.partition(".")[0] for module in modules}
    assert room(path) == "botorch" or not tops & {"torch", "botorch", "gpytorch", "linear_operator"}
    assert room(path) == "botorch" or "botorch" not in inner(modules)


def test_every_public_name_exists_once():
    assert len(set(itergp.__all__)) == len(itergp.__all__)
    for public in itergp.__all__:
        assert getattr(itergp, public) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = itergp.no_such_name


# Imported before the library, so that each of its modules is imported alone but these not 150 times.
BELOW = (
    "numpy, scipy.linalg, scipy.optimize, scipy.sparse, scipy.special, scipy.stats, sklearn.base, rich, typer"
)
ALONE = f"""
import os, sys, traceback, {BELOW}
for module in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            __import__(module)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(module)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_every_module_can_be_imported_first():
    """No module relies on another having been imported: each is the first of the library in a process."""
    modules = [".".join(("itergp", *path.relative_to(SOURCE).with_suffix("").parts)) for path in MODULES]
    modules = [module.removesuffix(".__init__") for module in modules if not module.endswith("__main__")]
    if not registry.native():  # not everywhere is it built
        modules = [module for module in modules if "native" not in module]
    if not getattr(importlib.util.find_spec("botorch"), "origin", None):  # an extra; tests/botorch has none
        modules = [module for module in modules if not module.startswith("itergp.botorch")]
    run = subprocess.run([sys.executable, "-c", ALONE, *modules], capture_output=True, text=True, check=True)
    failed = [line for line in run.stdout.splitlines() if line in modules]  # other libraries print, too
    assert not failed, f"cannot be imported first: {failed}\n{run.stderr}"


def in_a_new_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_library_does_not_import_jax_nor_plots():
    code = (
        "import sys, itergp; itergp.condition, itergp.Matern32; print(sorted({'jax', 'matplotlib', 'torch'} "
        "& set(sys.modules)))"
    )
    assert in_a_new_process(code) == "[]"


@pytest.mark.slow
def test_importing_the_estimator_takes_half_as_long_as_what_it_stands_on_at_most():
    """Its own modules against the libraries that it needs in any case, in one process."""
    code = (
        "import time; t = time.perf_counter(); import scipy.linalg, scipy.optimize, "
        "scipy.stats,sklearn.base, sklearn.utils.validation; s = time.perf_counter(); from itergp import "
        "IterGPRegressor;print((time.perf_counter() - s) / (s - t))"
    )
    assert min(float(in_a_new_process(code)) for _ in range(3)) < 0.5


def test_small_data_need_no_jax():
    code = (
        "import sys, numpy as np, itergp as g; X = np.linspace(0, 1, 50);p = "
        "g.condition(g.Prior(g.RBF(0.3)), X, X, 0.1); p.mean(X), p.decompose(X); print('jax' in sys.modules)"
    )
    assert in_a_new_process(code) == "False"


def test_the_import_graph_in_the_docs_is_that_of_the_sources(monkeypatch):
    monkeypatch.syspath_prepend(SOURCE.parents[1] / "docs")
    drawn = importlib.import_module("rooms").drawing()
    kept = (SOURCE.parents[1] / "docs" / "figures" / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == kept, "run python docs/rooms.py"

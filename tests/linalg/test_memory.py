"""Memory within the limits of the machine, of control groups and of the process; libraries that would
crash are not started."""

import os
import subprocess
import sys

import numpy as np
import pytest

import itergp.linalg.local as local
from itergp import RBF, Compute, MaxActions, MemoryLimitError, Prior, condition
from itergp.linalg import engines, libraries, memory

LINUX = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of address space are kept on Linux"
)
GB = 10**9


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine with 100 GB, no limit of the process, and the files that a test writes."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    monkeypatch.setattr(memory, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(memory, "CGROUPS", str(tmp_path / "cgroup"))
    monkeypatch.setattr(memory, "_process", lambda: iter(()))
    write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable:   {100 * GB // 1024} kB\nBuffers: 3 kB\n")
    return write


def version_2(write, folder, limit, used, idle=0):
    write(f"cgroup/{folder}memory.max", f"{limit}\n")
    write(f"cgroup/{folder}memory.current", f"{used}\n")
    write(f"cgroup/{folder}memory.stat", f"anon 5\ninactive_anon 7\ninactive_file {idle}\nactive_file 9\n")


def version_1(write, folder, limit, used, idle=0):
    write(f"cgroup/memory/{folder}memory.limit_in_bytes", f"{limit}\n")
    write(f"cgroup/memory/{folder}memory.usage_in_bytes", f"{used}\n")
    write(f"cgroup/memory/{folder}memory.stat", f"inactive_file 1\ntotal_inactive_file {idle}\n")


def test_without_groups_the_machine_decides(system):
    assert memory.available_bytes() == 100 * GB // 1024 * 1024


def test_the_groups_around_the_own_one_count_too(system):
    """Version 2, nested: a limit of the group itself, of one around it, or of both, where the least is
    left."""
    system("proc/self/cgroup", "0::/machine/job/step\n")
    version_2(system, "machine/job/step/", "max", 3 * GB)
    version_2(system, "machine/job/", 10 * GB, 4 * GB)
    version_2(system, "machine/", 50 * GB, 49 * GB + GB // 2)
    assert memory.available_bytes() == GB // 2
    version_2(system, "machine/", "max", 49 * GB)
    assert memory.available_bytes() == 6 * GB
    version_2(system, "machine/job/step/", 4 * GB, 3 * GB)
    assert memory.available_bytes() == GB


def test_file_caches_that_lie_idle_are_available(system):
    system("proc/self/cgroup", "0::/job\n")
    version_2(system, "job/", 4 * GB, 4 * GB - 5, idle=GB)
    assert memory.available_bytes() == GB + 5


@pytest.mark.parametrize("path", ["/docker/0123", "/"], ids=["names of outside", "a name space of its own"])
def test_in_a_container_the_mounted_root_counts(system, path):
    system("proc/self/cgroup", f"0::{path}\n")
    version_2(system, "", 2 * GB, GB)
    assert memory.available_bytes() == GB


def test_groups_of_version_1_are_read(system):
    system("proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job/step\n0::/\n")
    version_1(system, "", 2**63 - 4096, 60 * GB)
    version_1(system, "job/", 8 * GB, 7 * GB, idle=2 * GB)
    version_1(system, "job/step/", 2**63 - 4096, 5 * GB)
    assert memory.available_bytes() == 3 * GB


def test_a_group_that_has_taken_more_than_its_limit_leaves_nothing(system):
    system("proc/self/cgroup", "0::/\n")
    version_2(system, "", GB, 2 * GB)
    assert memory.available_bytes() == 0


@pytest.mark.parametrize("text", ["", "max", "-1", "much", "12 34"])
def test_what_is_no_number_is_no_limit(system, text):
    system("proc/self/cgroup", "0::/\n")
    version_2(system, "", text, GB)
    assert memory.available_bytes() == 100 * GB // 1024 * 1024


def test_without_a_limit_little_is_read(system, monkeypatch):
    """One file for the machine, one for each group: asked thousands of times, it must stay cheap."""
    system("proc/self/cgroup", "0::/a/b\n")
    for folder in ("", "a/", "a/b/"):
        version_2(system, folder, "max", GB)
    memory.available_bytes()
    read, files = memory._read, []
    monkeypatch.setattr(memory, "_read", lambda path: [files.append(path), read(path)][1])
    memory.available_bytes()
    assert len(files) == 4


def run(program: str, megabytes: int | None = None) -> subprocess.CompletedProcess:
    """A program under a limit of address space that holds from its start."""
    begin = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({megabytes} * 2**20,) * 2)\n"
        if megabytes
        else ""
    )
    command, few = (
        [sys.executable, "-W", "ignore", "-c", begin + program],
        os.environ | {"OMP_NUM_THREADS": "2"},
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=few)


@LINUX
@pytest.mark.parametrize(("limit", "field"), [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)])
def test_limits_of_the_process_count_less_what_it_has_mapped(limit, field):
    program = f"""
import resource
import numpy as np
from itergp.linalg.memory import available_bytes
hold = np.ones(3 * 10**7)
resource.setrlimit(resource.{limit}, (2 * 10**9,) * 2)
with open("/proc/self/statm") as sizes:
    mapped = int(sizes.read().split()[{field}]) * resource.getpagesize()
assert mapped > hold.nbytes
left = available_bytes()
assert abs(2 * 10**9 - mapped - left) < 10**6, (mapped, left)
np.empty(left - 10**7, dtype=np.uint8)
try:
    np.empty(left + 10**7, dtype=np.uint8)
except MemoryError:
    print("done")
"""
    done = run(program)
    assert done.stdout.strip() == "done", done.stderr[-2000:]


@LINUX
@pytest.mark.parametrize("megabytes", [60, 150, 300])
def test_libraries_that_do_not_fit_are_not_loaded(megabytes):
    """Where OpenBLAS would end the program or hang, and imports would fail half way."""
    program = (
        "import itergp\n"
        "try:\n"
        "    itergp.IterGPRegressor\n"
        "except itergp.MemoryLimitError as error:\n"
        "    print(error)"
    )
    done = run(program, megabytes)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "address space" in done.stdout


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize(
    ("n", "megabytes"), [(500, 80), (500, 1500), (3000, 500), (3000, 650), (3000, 850), (3000, 2000)]
)
def test_a_fit_under_a_limit_ends_well_or_says_that_it_needs_more(n, megabytes, tmp_path):
    """Never by a signal, never in the words of another library. 500 rows learn by JAX, 3,000 without it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    table = np.column_stack([X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)])
    np.savetxt(tmp_path / "train.csv", table, delimiter=",", header="a,b,c,y", comments="")
    asked = [
        "fit",
        str(tmp_path / "train.csv"),
        "--target",
        "y",
        "--budget",
        "20 actions",
        "--out",
        str(tmp_path / "m.itergp"),
    ]
    done = run(
        f"import sys\nsys.argv = ['itergp', *{asked!r}]\nfrom itergp.cli import main\nmain()", megabytes
    )
    if done.returncode:
        assert done.returncode == 1, done.stderr[-2000:]
        assert "address space" in done.stderr
        assert "Raise the limit" in done.stderr
        assert not (tmp_path / "m.itergp").exists()
        assert megabytes < 2000
    else:
        assert (tmp_path / "m.itergp").exists()


def test_where_jax_has_no_room_other_engines_serve_and_whoever_asks_for_it_is_told(monkeypatch):
    monkeypatch.setattr(libraries, "_jax_has_started", lambda: False)
    monkeypatch.setattr(libraries, "address_space", lambda: 10**9)
    product, X = RBF(1.0) * RBF(2.0), np.zeros((3000, 2))
    engine, why = engines.choose(Compute(), product, *X.shape)
    assert (engine.name, "address space" in why) == ("numpy", True)
    with pytest.raises(MemoryLimitError, match=r"To start JAX takes about .* leaves 1000 MB"):
        engines.choose(Compute(engine="jax"), product, *X.shape)


@pytest.mark.parametrize(("limit", "expected"), [(10**9, MemoryLimitError), (None, ImportError)])
def test_any_library_that_could_not_be_mapped_is_told_as_a_limit_where_there_is_one(
    monkeypatch, limit, expected
):
    monkeypatch.setattr(libraries, "address_space", lambda: limit)
    with pytest.raises(expected, match="libthis"), libraries.loading():
        raise ImportError("libthis.so: failed to map segment from shared object")
    with pytest.raises(ModuleNotFoundError), libraries.loading():
        raise ModuleNotFoundError("No module named 'this'")


def test_without_a_limit_of_address_space_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(libraries, "address_space", lambda: None)
    monkeypatch.setattr(libraries, "_jax_has_started", lambda: False)
    libraries.require_jax()
    libraries.require_libraries()
    assert libraries.workers(10**9, 1e15) == memory.cores()


def test_little_memory_means_small_batches_of_local_actions_and_the_same_predictions(monkeypatch):
    rng = np.random.default_rng(0)
    X, X_new = rng.standard_normal((400, 2)), rng.standard_normal((600, 2))
    posterior = condition(Prior(RBF(1.0)), X, np.sin(X[:, 0]), 0.1, stop=MaxActions(10)).local(20)
    native = engines.registry.native()
    if native is not None:  # whose matrices are small
        monkeypatch.setattr(type(native), "acts_locally", lambda *what: False)
    mean, variance = posterior.marginals(X_new)
    sizes, factor = [], local.factor
    monkeypatch.setattr(
        local,
        "factor",
        lambda batch, given, some: [sizes.append(len(given.X0[some])), factor(batch, given, some)][1],
    )
    monkeypatch.setattr(local, "available_bytes", lambda: 10**6)
    few = posterior.marginals(X_new)
    assert max(sizes) < 30
    assert sum(sizes) == 600
    assert np.array_equal(few[0], mean)
    assert np.array_equal(few[1], variance)

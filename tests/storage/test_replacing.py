"""The one function that replaces files: only ordinary files, with mode, owner and links as they were, and
nothing left behind."""

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from itergp import IterGPRegressor, StorageError
from itergp.report import numbers, write_page
from itergp.storage.replacing import replacing
from itergp.tables import write_table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (30, 2))


@pytest.fixture(scope="module")
def model():
    return IterGPRegressor(noise=0.05, learn=False, budget="6 actions").fit(X, X[:, 0])


def write(path, content=b"new"):
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def save(model, path):
    model.save(path)


def page(model, path):
    write_page(path, numbers(model.fit_))


def table(model, path):
    write_table(path.with_suffix(".csv"), {"mean": np.ones(3)})


def make_device(path):
    """A node in a temporary folder that stands for no device: 0:0 is none."""
    if not ROOT:
        pytest.skip("needs root")
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    except OSError as error:
        pytest.skip(f"no nodes here: {error}")


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


NODES = {"a named pipe": os.mkfifo, "a device": make_device, "a socket": make_socket, "a folder": os.mkdir}


@pytest.mark.parametrize("what", NODES)
@pytest.mark.parametrize("through", ["", "a link to "])
@pytest.mark.parametrize("writer", [save, page, table])
def test_what_is_no_ordinary_file_is_refused_and_stays(writer, through, what, model, tmp_path):
    node = tmp_path / ("node" if through else "out.csv")
    NODES[what](node)
    if through:
        (tmp_path / "out.csv").symlink_to(node)
    before, names = os.lstat(node), sorted(os.listdir(tmp_path))
    with pytest.raises(StorageError, match=f"out.csv cannot be written: it is {what}, .*another name"):
        writer(model, tmp_path / "out.csv")
    after = os.lstat(node)
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)
    assert sorted(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
@pytest.mark.parametrize("writer", [save, page, table])
def test_the_mode_of_what_was_there_is_kept(writer, mode, model, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(mode)
    writer(model, path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_open_would_give_it(mask, model, tmp_path):
    before = os.umask(mask)
    try:
        save(model, tmp_path / "model")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o666 & ~mask


def test_nobody_else_can_read_a_private_file_while_it_is_written(tmp_path):
    path = tmp_path / "private"
    path.touch(0o600)
    with replacing(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        temporary.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_the_owner_of_what_was_there_is_kept(model, tmp_path):
    path = tmp_path / "model"
    path.touch(0o640)
    os.chown(path, 65533, 65532)
    save(model, path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65533, 65532, 0o640)


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_who_may_write_but_not_give_away_becomes_the_owner_and_the_group_stays():
    script = (
        "import os, pathlib, sys; from itergp.storage.replacing import replacing\n"
        "os.setgroups([65532]); os.setgid(65531); os.setuid(65530)\n"
        "with replacing(pathlib.Path(sys.argv[1])) as t: t.write_text('new')"
    )
    with tempfile.TemporaryDirectory() as folder:  # one that others can reach
        os.chmod(folder, 0o777)
        path = Path(folder) / "shared"
        path.write_text("old")
        path.chmod(0o664)
        os.chown(path, 65533, 65532)
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        found = path.stat()
        assert path.read_text() == "new"
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65530, 65532, 0o664)


def test_links_stay_links_and_the_real_file_is_replaced_beside_itself(model, tmp_path):
    (tmp_path / "real").mkdir()
    real, link, far = tmp_path / "real" / "model", tmp_path / "link", tmp_path / "far"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to("real/model")  # relative
    far.symlink_to(link)
    for path in (link, far):
        real.write_text("old")
        save(model, path)
        assert IterGPRegressor.load(real).posterior_.rank == 6
        assert stat.S_IMODE(real.stat().st_mode) == 0o600
        assert (os.readlink(link), os.readlink(far)) == ("real/model", str(link))
    assert sorted(os.listdir(tmp_path)) == ["far", "link", "real"]
    assert os.listdir(tmp_path / "real") == ["model"]


def test_a_link_to_nothing_makes_the_file_and_a_circle_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("new")
    write(tmp_path / "link")
    assert (tmp_path / "new").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "round")


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o000])
@pytest.mark.parametrize("writer", [save, page, table])
def test_a_read_only_file_is_refused_also_for_root(writer, mode, model, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(mode)
    with pytest.raises(
        StorageError,
        match=r"out.csv cannot be written: it is read-only .*chmod "
        r"u\+w.*another name",
    ):
        writer(model, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o600)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.csv"]


# What killed runs left behind.

KILLED = """
import os, pathlib, signal, sys
from itergp.storage.replacing import replacing
with replacing(pathlib.Path(sys.argv[1])) as temporary:
    temporary.write_text("half of it")
    print(temporary, flush=True)
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def start(path, how):
    command = [sys.executable, "-c", KILLED, str(path), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_what_a_killed_run_left_is_swept_by_the_next_one_and_what_is_being_written_is_not(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    for how in ("dies", "waits"):
        with_a_process, temporary = start(path, how)
        try:
            if how == "dies":
                with_a_process.wait()
            assert os.path.exists(temporary)
            write(path)
            assert os.path.exists(temporary) is (how == "waits")
        finally:
            with_a_process.communicate()
    assert os.listdir(tmp_path) == ["model"]


def test_only_what_is_certainly_its_own_is_swept(tmp_path):
    path, (process, dead) = tmp_path / "model", start(tmp_path / "model", "dies")
    process.communicate()
    name, pid = os.path.basename(dead), process.pid
    assert name.startswith(f".model.{pid}.")
    strangers = [
        name.replace("model", "model2"),
        name.replace(".model", "model"),
        name.replace(f".{pid}.", f".{os.getppid()}."),
        name.replace(f".{pid}.", "."),
        name + ".tmp",
        f".model.{pid}.tmp",
        f".model.{pid}.notes.tmp",
        f".mxdel.{pid}.01234567.tmp",
    ]
    for stranger in strangers:
        (tmp_path / stranger).write_text("the user's own")
    (tmp_path / f".model.{pid}.00000000.tmp").symlink_to(tmp_path / strangers[0])
    write(path)
    assert sorted(os.listdir(tmp_path)) == sorted([*strangers, f".model.{pid}.00000000.tmp", "model"])


def test_what_an_earlier_process_of_the_same_number_left_is_swept(tmp_path):
    """In a container every process has the number 1. What this one writes, in another thread, stays."""
    path = tmp_path / "model"
    left = tmp_path / f".model.{os.getpid()}.00000000.tmp"
    with replacing(path) as temporary:
        drawn = temporary.name.split(".")[3][:4]
        if left.name.split(".")[3].startswith(drawn):
            left = left.with_name(f".model.{os.getpid()}.ffffffff.tmp")
        left.write_text("half of it")
        temporary.write_text("first")
        write(path)
        assert sorted(os.listdir(tmp_path)) == sorted([temporary.name, "model"])
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["model"]


def test_what_another_machine_writes_under_the_same_number_stays(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path, there = tmp_path / "model", tmp_path / f".model.{os.getpid()}.00000000.tmp"
    with there.open("w") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        write(path)
    assert sorted(os.listdir(tmp_path)) == [there.name, "model"]


def test_without_locks_nothing_is_swept(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def flock(*_):
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    process, temporary = start(tmp_path / "model", "dies")
    process.communicate()
    write(tmp_path / "model")
    assert os.path.exists(temporary)


def test_names_with_letters_of_patterns(tmp_path):
    path = tmp_path / "m[1]*.(x"
    process, temporary = start(path, "dies")
    process.communicate()
    assert os.path.exists(temporary)
    write(path)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("letter", ["x", "\u00fc"])
@pytest.mark.parametrize("size", [99, 101, 240, 255])
def test_a_name_may_be_as_long_as_the_system_allows(size, letter, model, tmp_path):
    name = letter * (size // len(letter.encode()))
    process, temporary = start(tmp_path / name, "dies")
    process.communicate()
    assert os.path.exists(temporary)
    save(model, tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert IterGPRegressor.load(tmp_path / name).posterior_.rank == 6


@pytest.mark.parametrize("ending", ["/", "/.", "/.."])
def test_the_name_of_a_folder_is_no_name_of_a_file(ending, model, tmp_path):
    for call in (model.save, model.report):
        with pytest.raises(StorageError, match="name of a folder"):
            call(f"{tmp_path}/new{ending}")
    assert not os.listdir(tmp_path)

"""Two fits and one checkpoint: the second is refused by the number of the first; only what is a fit's own
is deleted."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from helpers import KERNELS, make_data
from itergp import (
    IterGPRegressor,
    MaxActions,
    Prior,
    Problem,
    RandomAction,
    StorageError,
    StorageWarning,
    solve,
)
from itergp.storage import Checkpoint, files as storage_files, fingerprint

MANIFEST, LOCK = "manifest.json", ".itergp-lock"
LEARNS = "itergp.estimator.hyperparameters.choose_rows"
DATA = make_data(30)
POLICY = RandomAction(2)
HOLDER = """
import sys
from itergp.storage import Checkpoint
with Checkpoint(sys.argv[1], {"name": "mine"}) as checkpoint:
    checkpoint.note({})
    print("held", flush=True)
    sys.stdin.read()
"""


def problem_of():
    return Problem(Prior(KERNELS["matern52"]), DATA.X, DATA.y, 0.03)


def fit(folder, actions=8):
    """A checkpointed fit, from where the last one ended: its state, and the action at which it resumed."""
    problem = problem_of()
    with Checkpoint(folder, fingerprint(problem, POLICY), every=0.0) as checkpoint:
        state = checkpoint.resume(problem, POLICY)
        left = MaxActions(actions - (0 if state is None else state.rank))
        return solve(problem, POLICY, left, state, callback=checkpoint.write), checkpoint.resumed_at


def manifest(folder):
    return json.loads((folder / MANIFEST).read_text())["value"]


def named_in(folder):
    value = manifest(folder)
    return {entry["file"] for entry in (*value["segments"], value["state"], value["memory"]) if entry}


@pytest.fixture
def holder(tmp_path):
    """Another process that has the checkpoint."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "fit")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_fit_is_refused_by_the_number_of_the_first_until_that_one_ends(holder, tmp_path):
    before = {path.name: path.read_bytes() for path in (tmp_path / "fit").iterdir()}
    for attempt in (
        lambda c: c.read_manifest(),
        lambda c: c.note({"a": 1}),
        lambda c: c.resume(problem_of(), POLICY),
    ):
        checkpoint = Checkpoint(tmp_path / "fit", {"name": "mine"})
        with pytest.raises(
            StorageError,
            match=rf"in use by another fit, in process {holder.pid}\..*or give "
            r"another folder",
        ):
            attempt(checkpoint)
    assert {path.name: path.read_bytes() for path in (tmp_path / "fit").iterdir()} == before
    holder.communicate()
    with Checkpoint(tmp_path / "fit", {"name": "mine"}) as checkpoint:
        assert checkpoint.read_manifest()["about"] == {}


def test_the_lock_dies_with_its_process(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with Checkpoint(tmp_path / "fit", {"name": "mine"}) as checkpoint:
        assert checkpoint.read_manifest() is not None
        assert (tmp_path / "fit" / LOCK).read_text().split()[0] == str(os.getpid())


def test_the_estimator_refuses_before_it_learns_and_frees_the_folder_whatever_happens(
    holder, tmp_path, monkeypatch
):
    model = IterGPRegressor(checkpoint=tmp_path / "fit", budget="6 actions")
    with monkeypatch.context() as patch:
        patch.setattr(LEARNS, lambda *a, **k: pytest.fail("it learned"))
        with pytest.raises(StorageError, match=f"in use by another fit, in process {holder.pid}"):
            model.fit(DATA.X, DATA.y)
    holder.communicate()
    shutil.rmtree(tmp_path / "fit")

    def bug(*arguments, **more):
        raise RuntimeError("somewhere")

    with monkeypatch.context() as patch:
        patch.setattr(LEARNS, bug)
        with pytest.raises(RuntimeError, match="somewhere"):
            model.fit(DATA.X, DATA.y)
    for _ in range(2):
        model.fit(DATA.X, DATA.y)
    other = IterGPRegressor(checkpoint=tmp_path / "fit", budget="6 actions")
    for _ in range(2):
        with pytest.raises(StorageError, match="another fit: its X differs") as kept:
            other.fit(DATA.X + 1.0 * (DATA.X > 0), DATA.y)
        assert kept  # with the traceback, and whatever is in it
    assert model.fit(DATA.X, DATA.y).trace_.resumed_from == 6


def test_two_fits_in_one_process_are_two_fits(tmp_path):
    first, second = (Checkpoint(tmp_path, {"name": "mine"}) for _ in range(2))
    first.note({})
    with pytest.raises(StorageError, match=r"in use by another fit, in this process.*close\(\)"):
        second.note({})
    first.close()
    second.note({"now": "mine"})
    assert manifest(tmp_path)["about"] == {"now": "mine"}


@pytest.mark.slow
def test_of_fits_that_begin_at_once_one_is_done_and_resumes(tmp_path):
    """Without a lock, each deletes what the other has written."""
    script = (
        "import sys, numpy as np; from itergp import IterGPRegressor, StorageError\n"
        "rng = np.random.default_rng(0); X = rng.uniform(-1, 1, (400, 2)); y = np.sin(3 * X).sum(axis=1)\n"
        "model = IterGPRegressor(noise=0.1, learn=False, policy='cg', budget='60 actions', "
        "checkpoint=sys.argv[1])\n"
        "sys.stdin.readline()\n"
        "try: print(model.fit(X, y).trace_.resumed_from)\n"
        "except StorageError as error: print(error)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "fit")]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].strip() for process in both]
    assert all(text in ("0", "60") or "in use by another fit, in process" in text for text in said), said
    assert "0" in said
    again = subprocess.run(command, input="go\n", capture_output=True, text=True, check=True)
    assert again.stdout.strip() == "60"
    assert set(os.listdir(tmp_path / "fit")) == {MANIFEST, LOCK, *named_in(tmp_path / "fit")}


def test_a_folder_that_is_deleted_and_used_by_another_meanwhile_is_that_ones(tmp_path):
    folder, problem = tmp_path / "fit", problem_of()
    marks = fingerprint(problem, POLICY)
    with Checkpoint(folder, marks, every=0.0) as old:
        state = solve(problem, POLICY, MaxActions(4), callback=old.write)
        shutil.rmtree(folder)
        with Checkpoint(folder, marks, every=0.0) as new:
            new.note({"mine": True})
            with pytest.warns(StorageWarning, match="in use by another fit, in this process"):
                solve(problem, POLICY, MaxActions(4), state, callback=old.write)
            assert manifest(folder)["about"] == {"mine": True}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
@pytest.mark.parametrize("what", ["link", "hard link", "folder", "pipe"])
def test_what_has_the_name_of_the_lock_but_is_none_stays_as_it_is(what, tmp_path):
    thesis, folder = tmp_path / "thesis.txt", tmp_path / "fit"
    thesis.write_text("precious\n" * 100)
    folder.mkdir()
    made = {
        "link": lambda: (folder / LOCK).symlink_to("../thesis.txt"),
        "hard link": lambda: (folder / LOCK).hardlink_to(thesis),
        "folder": (folder / LOCK).mkdir,
        "pipe": lambda: os.mkfifo(folder / LOCK),
    }
    made[what]()
    model = IterGPRegressor(noise=0.1, learn=False, checkpoint=folder, budget="6 actions")
    with pytest.raises(StorageError, match=rf"{LOCK} in it is .*Move it away, or give another folder"):
        model.fit(DATA.X, DATA.y)
    assert thesis.read_text() == "precious\n" * 100
    assert os.listdir(folder) == [LOCK]


FORKS = """
import os, sys, time
from itergp.storage import Checkpoint
checkpoint = Checkpoint(sys.argv[1], {"name": "mine"})
checkpoint.note({})
child = os.fork()
if child == 0:
    with open(sys.argv[2], "w") as other:  # gets the number of the descriptor that was closed
        if sys.argv[3] == "closes":
            checkpoint.close()  # which is not its own
        other.write("whole")
    print("ready", os.getpid(), flush=True)
    os.close(1)
    time.sleep(60)
    os._exit(0)
if sys.stdin.readline() == "close\\n":
    checkpoint.close()
    print("closed", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("child_does", ["closes", "nothing"])
def test_a_lock_ends_with_the_process_that_took_it_though_its_child_lives(child_does, how, tmp_path):
    folder = tmp_path / "fit"
    command = [sys.executable, "-c", FORKS, str(folder), str(tmp_path / "other"), child_does]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ready, child = parent.stdout.readline().split()
    try:
        assert ready == "ready"
        assert (tmp_path / "other").read_text() == "whole"
        with pytest.raises(StorageError, match=f"in use by another fit, in process {parent.pid}"):
            Checkpoint(folder, {"name": "mine"}).note({})
        if how == "killed":
            parent.kill()
            parent.wait()
        else:
            parent.stdin.write("close\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "closed\n"
        with Checkpoint(folder, {"name": "mine"}) as free:
            free.note({"now": "free"})
        assert manifest(folder)["about"] == {"now": "free"}
        os.kill(int(child), 0)  # it lives
    finally:
        os.kill(int(child), signal.SIGKILL)
        parent.communicate()


# Files.


@pytest.mark.parametrize("kind", ["columns", "state", "memory"])
def test_a_checkpoint_with_missing_files_starts_anew_with_a_warning(kind, tmp_path):
    whole, _ = fit(tmp_path)
    lost = sorted(name for name in named_in(tmp_path) if name.startswith(kind))[0]
    (tmp_path / lost).unlink()
    with pytest.warns(StorageWarning, match=rf"lacks 1 of its files, such as {lost}.*starts over"):
        state, resumed_at = fit(tmp_path)
    assert resumed_at is None
    assert np.array_equal(state.representer_weights, whole.representer_weights)
    assert set(os.listdir(tmp_path)) == {MANIFEST, LOCK, *named_in(tmp_path)}
    assert fit(tmp_path)[1] == 8


@pytest.mark.parametrize("how", ["empty", "another", "folder"])
@pytest.mark.parametrize("kind", ["columns", "state", "memory", "manifest"])
def test_a_checkpoint_with_files_of_something_else_is_refused_with_what_to_do(kind, how, tmp_path):
    fit(tmp_path)
    names = sorted(named_in(tmp_path))
    spoiled = tmp_path / next(name for name in [*names, MANIFEST] if name.startswith(kind))
    other = next(name for name in names if not name.startswith(kind))
    spoiled.unlink()
    {
        "empty": spoiled.touch,
        "another": lambda: shutil.copy(tmp_path / other, spoiled),
        "folder": spoiled.mkdir,
    }[how]()
    with pytest.raises(StorageError, match=rf"from the beginning, delete the folder {tmp_path}\."):
        fit(tmp_path)


def test_files_of_others_stay_and_what_a_killed_fit_left_goes(tmp_path):
    fit(tmp_path, 4)
    own = manifest(tmp_path)["number"]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    others = {
        "state-0123456789abcdef.safetensors",
        "columns-0123456789abcdef-01234567.safetensors",
        f".state-0123456789abcdef-01234567.safetensors.{dead.pid}.01234567.tmp",
        f".state-{own}-01234567.safetensors.{os.getppid()}.01234567.tmp",
        ".x.01234567.tmp",
        f"state-{own}.safetensors",
        f"notes-{own}-01234567.safetensors",
    }
    left = {
        f"state-{own}-01234567.safetensors",
        f".columns-{own}-76543210.safetensors.{dead.pid}.01234567.tmp",
    }
    for name in others | left:
        (tmp_path / name).write_text("content")
    fit(tmp_path, 8)
    assert set(os.listdir(tmp_path)) == {MANIFEST, LOCK, *named_in(tmp_path), *others}


@pytest.mark.parametrize(
    "name", ["../model", "/model", "model", "state-0123456789abcdef.safetensors/../../model"]
)
def test_a_forged_manifest_deletes_nothing(name, tmp_path):
    folder = tmp_path / "fit"
    fit(folder, 4)
    for path in (tmp_path / "model", folder / "model"):
        path.write_text("precious")
    value = storage_files.read_text(folder / MANIFEST, "checkpoint")
    value["state"]["file"] = name
    storage_files.write_text(folder / MANIFEST, "checkpoint", value)
    with pytest.raises(StorageError, match=r"lists the file .*not a checkpoint file"):
        fit(folder)
    value["state"]["file"], value["number"] = next(iter(os.listdir(folder))), "....|.*"
    storage_files.write_text(folder / MANIFEST, "checkpoint", value)
    with pytest.raises(StorageError):
        fit(folder)
    assert (tmp_path / "model").read_text() == (folder / "model").read_text() == "precious"


def test_a_checkpoint_of_an_earlier_version_resumes_and_its_files_go(tmp_path):
    """Earlier manifests have no number, and earlier names none of it."""
    whole, _ = fit(tmp_path / "whole")
    folder = tmp_path / "fit"
    fit(folder, 4)
    value = storage_files.read_text(folder / MANIFEST, "checkpoint")
    del value["number"]
    for i, entry in enumerate((*value["segments"], value["state"], value["memory"])):
        old = f"{entry['file'].partition('-')[0]}-{i:016x}.safetensors"
        (folder / entry["file"]).rename(folder / old)
        entry["file"] = old
    storage_files.write_text(folder / MANIFEST, "checkpoint", value)
    state, resumed_at = fit(folder)
    assert resumed_at == 4
    assert np.array_equal(state.representer_weights, whole.representer_weights)
    assert set(os.listdir(folder)) == {MANIFEST, LOCK, *named_in(folder)}
    assert value["state"]["file"] not in os.listdir(folder)

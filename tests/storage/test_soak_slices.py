"""A slice of `make soak`: killed fits, damaged files, full disks, read-only folders, and streams."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import soak
import soak_doors
import soak_estimator
from itergp import StorageError
from itergp.storage import load, save


@pytest.mark.slow
def test_a_killed_fit_resumes_to_the_same_bits():
    tally = soak.kill(2, n=300, actions=120)
    assert not tally.violations()
    assert tally["resumed to the same bits"] == 2


@pytest.mark.slow
def test_a_killed_fit_of_the_estimator_resumes_to_the_same_bits():
    tally = soak_estimator.kill(2, job={"n": 400, "d": 2, "budget": "120 actions"})
    assert not tally.violations()
    assert tally["resumed to the same bits"] == 2


def test_a_stream_of_single_rows_ends_at_the_exact_gp():
    tally = soak_estimator.stream(150, firsts=(100, 0))
    assert not tally.violations()
    assert tally["the exact GP in the end"] == 2


@pytest.mark.slow
def test_damaged_models_and_checkpoints_are_refused_or_give_what_was_written(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    tally = soak.mutate(800, seed=1)
    assert not tally.violations()
    assert tally["refused"] > 500
    assert tally["forged: refused"] > 10


def test_fits_go_on_where_nothing_can_be_written(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    tally = soak.disk(10, seed=2)
    assert not tally.violations()
    assert tally["full disk: fit went on, with a warning"] > 0
    assert tally["full disk: a checkpoint stayed"] > 0
    assert tally["read-only folder: fit went on, with a warning"] == 10


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.itergp"
    save(path, soak.fit(None, "random", 9, 4)[0])
    return path


def test_every_single_bit_counts(model):
    data, rng = model.read_bytes(), np.random.default_rng(0)
    for i in (*range(100), *rng.permutation(len(data))[:1500]):
        model.write_bytes(data[:i] + bytes([data[i] ^ (1 << int(rng.integers(8)))]) + data[i + 1 :])
        with pytest.raises(StorageError):
            load(model)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not written by this library"),
        (b"PK\x03\x04" + bytes(100), "not written by this library"),
        (b'{"digest":"' + b"0" * 64 + b'"}', "not written by this library"),
        (
            (40).to_bytes(8, "little") + json.dumps({"__metadata__": {"format": "pt"}}).ljust(40).encode(),
            "not written by this",
        ),
        (b"\xff" * 1000, "not written by this library"),
    ],
    ids=["empty", "zip", "json", "safetensors of others", "garbage"],
)
def test_files_of_others_are_refused(content, message, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(StorageError, match=message):
        load(tmp_path / "m")


def forged(path, change):
    """The file with its JSON text changed and its digest renewed."""

    def edit(content, _):
        change(content)

    original, soak._edit = soak._edit, edit
    try:
        path.write_bytes(soak.forge(path.read_bytes(), np.random.default_rng(0)))
    finally:
        soak._edit = original


def test_a_file_of_a_later_format_is_refused_with_advice(model):
    forged(model, lambda content: content.update(format=2, itergp="9.1"))
    with pytest.raises(StorageError, match=r"format 2, written by itergp 9\.1.*formats up to 1\. Upgrade"):
        load(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(kind="columns"), "holds a columns; expected a model"),
        (lambda c: c["value"]["state"].update(rank=9), "do not match rank"),
        (lambda c: c["value"]["state"].update(rank=7), "do not match rank"),
        (lambda c: c["value"]["state"].update(blocks=[0, 3, 3, 6]), "do not match rank"),
        (lambda c: c["value"]["state"].update(blocks=[0, 3, 7]), "within a block"),
        (lambda c: c["value"]["problem"].update(targets=[3]), "array y"),
        (lambda c: c["value"]["problem"]["kernel"].update(type="Popen"), "needs the class Popen"),
        (lambda c: c["value"]["problem"]["kernel"]["fields"].update(scale=-1.0), "cannot be understood"),
        (lambda c: c["value"]["problem"]["kernel"]["fields"].update(scale=2.0), "gives other numbers"),
        (lambda c: c["value"].pop("policy"), "KeyError"),
    ],
)
def test_a_file_that_says_nonsense_with_a_right_digest_is_refused(change, message, model):
    forged(model, change)
    with pytest.raises(StorageError, match=message):
        load(model)


def test_what_is_no_file_is_refused(tmp_path):
    for path, message in ((tmp_path / "missing", "does not exist"), (tmp_path, "cannot be read")):
        with pytest.raises(StorageError, match=message):
            load(path)
    os.mkfifo(tmp_path / "pipe")
    # and nobody waits for a writer
    with pytest.raises(StorageError, match="pipe cannot be read: it is a named pipe"):
        load(tmp_path / "pipe")
    (tmp_path / "pipe").unlink()
    posterior = soak.fit(None, "random", 9, 4)[0]
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    for path in (tmp_path / "folder", tmp_path / "missing" / "m", "", "\0"):
        with pytest.raises(StorageError, match="cannot be written"):
            save(path, posterior)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_the_parts_of_a_checkpoint_are_no_models(tmp_path):
    soak.fit(tmp_path, "random", 9, 6)
    for path in tmp_path.iterdir():
        with pytest.raises(StorageError, match=r"expected a model|not written by this library"):
            load(path)


def test_a_model_that_was_there_stays_when_the_new_one_cannot_be_written(model, monkeypatch):
    before, other = model.read_bytes(), soak.fit(None, "cg", 9, 4)[0]

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="cannot be written: No space left on device"):
        save(model, other)
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == [model.name]
    monkeypatch.undo()
    save(model, other)
    assert soak.same(load(model)[0], other)
    assert model.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_is_no_ordinary_file_is_refused_and_links_and_modes_stay():
    tally = soak_doors.places(21)
    assert not tally.violations()
    assert tally["device: refused"] == tally["link: written, as it was"] == 3


@pytest.mark.slow
def test_a_killed_command_leaves_the_old_file_or_the_new_one():
    tally = soak_doors.kill(2, n=200)
    assert not tally.violations()
    assert sum(number for key, number in tally.items() if key.endswith("file")) == 2


@pytest.mark.slow
def test_a_fit_with_little_memory_is_done_or_refused():
    assert not soak_doors.memory(2, seed=3).violations()


def test_predictions_stay_the_same_and_keep_no_memory():
    assert not soak_doors.predict(100, n=300).violations()

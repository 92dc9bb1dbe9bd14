"""Checkpoints: wherever a fit is cut, it resumes to the same bits; what is not its own checkpoint is
refused by name."""

import itertools
import json
import os
import stat
import time
import warnings

import numpy as np
import pytest
from safetensors import safe_open

from helpers import KERNELS, POLICIES, make_data, row_noise
from itergp import (
    ConjugateGradient,
    ConstantMean,
    InputError,
    Matern32,
    MaxActions,
    MaxPasses,
    Posterior,
    Prior,
    Problem,
    PseudoInput,
    RandomAction,
    Schedule,
    State,
    Status,
    StorageError,
    StorageWarning,
    UnitVector,
    solve,
)
from itergp.linalg.compute import Compute
from itergp.storage import Checkpoint, files as storage_files, fingerprint

AT = make_data(30).X_new
MANIFEST, LOCK = "manifest.json", ".itergp-lock"


@pytest.fixture(autouse=True)
def _disks_that_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def problem_of(noise=0.03, targets=None, n=30, kernel="matern52", mean=None, data_seed=0, **how):
    data = make_data(n, targets=targets, seed=data_seed)
    return Problem(Prior(KERNELS[kernel], mean), data.X, data.y, noise, Compute(**how))


def fit(folder, policy, actions, problem=None, every=0.0, seed=3, cut=None):
    """A checkpointed fit; with `cut`, one that is stopped after so many steps."""
    problem, steps = problem_of() if problem is None else problem, []

    def after_a_step(state):
        checkpoint.write(state)
        steps.append(state)
        return len(steps) == cut

    with Checkpoint(folder, fingerprint(problem, policy, seed), every) as checkpoint:
        state = checkpoint.resume(problem, policy)
        left = actions - (0 if state is None else state.rank)
        state = solve(problem, policy, MaxActions(left), state, seed, after_a_step)
        if cut is None:
            checkpoint.write_now(state)
    return Posterior(problem, state, policy), checkpoint


def resumed(folder, marks, problem, policy):
    """The state that another fit would find."""
    with Checkpoint(folder, marks) as checkpoint:
        return checkpoint.resume(problem, policy)


def assert_same(a, b):
    assert (a.rank, a.state.blocks, a.state.counter) == (b.rank, b.state.blocks, b.state.counter)
    for name in ("z", "tau", "representer_weights", "residual", "training_variance", "L"):
        assert np.array_equal(getattr(a.state, name), getattr(b.state, name)), name
    assert np.array_equal(a.mean(AT), b.mean(AT))
    assert np.array_equal(a.var(AT), b.var(AT))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", ["one target", "noise per row", "several targets"])
def test_a_fit_that_is_cut_anywhere_resumes_to_the_same_bits(policy, case, tmp_path):
    if policy == "adversarial" and case == "several targets":
        pytest.skip("Adversarial is defined for one target")
    how = {
        "noise": row_noise(30) if case == "noise per row" else 0.03,
        "targets": 3 if case == "several targets" else None,
    }
    whole = Posterior(
        problem := problem_of(**how),
        solve(problem, acting := POLICIES[policy](), MaxActions(14), seed=3),
        acting,
    )
    for cut in (1, 2, 3):
        folder = tmp_path / str(cut)
        fit(folder, POLICIES[policy](), 14, problem_of(**how), cut=cut)
        again, checkpoint = fit(folder, POLICIES[policy](), 14, problem_of(**how))
        assert checkpoint.resumed_at == whole.trace[cut - 1].actions
        assert_same(again, whole)
        assert again.status is whole.status
        assert [step.energy for step in again.trace] == [step.energy for step in whole.trace]


@pytest.mark.parametrize("policy", ["cg", "schedule", "unit-random", "block-krylov"])
def test_a_fit_in_many_pieces_is_one_run(policy, tmp_path):
    problem = problem_of(n=150)
    whole = Posterior(problem, solve(problem, acting := POLICIES[policy](), MaxActions(90), seed=3), acting)
    for actions in (1, 5, 60, 66, 70, 90):
        pieces, _ = fit(tmp_path, POLICIES[policy](), actions, problem_of(n=150))
    assert_same(pieces, whole)


def test_a_schedule_that_is_through_stays_through(tmp_path):
    policy = Schedule((RandomAction(2), 4), (ConjugateGradient(), MaxPasses(2)))
    first, _ = fit(tmp_path, policy, 20)
    second, checkpoint = fit(tmp_path, policy, 20)
    assert (first.rank, second.rank, checkpoint.resumed_at, second.status) == (6, 6, 6, Status.BUDGET)


class Cut(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("function", ["replace", "fsync", "unlink"])
def test_wherever_a_checkpoint_is_cut_the_one_before_it_or_it_is_there(function, tmp_path, monkeypatch):
    policy, total = PseudoInput(block_size=4), 16
    whole = Posterior(problem := problem_of(), solve(problem, policy, MaxActions(total), seed=3), policy)
    original, calls = getattr(os, function), [0]

    def cutting(*arguments, **options):
        calls[0] -= 1
        if calls[0] == 0:
            raise Cut
        return original(*arguments, **options)

    monkeypatch.setattr(os, function, cutting)
    ends = []
    for call in range(1, 40):
        folder, calls[0] = tmp_path / str(call), call
        try:
            fit(folder, policy, total)
            break
        except Cut:
            calls[0] = 0
            named = (folder / MANIFEST).exists() and json.loads((folder / MANIFEST).read_text())["value"][
                "state"
            ] is not None
            again, checkpoint = fit(folder, policy, total)
            assert (checkpoint.resumed_at is not None) == named
            assert_same(again, whole)
            ends.append(checkpoint.resumed_at)
            assert set(os.listdir(folder)) == {MANIFEST, LOCK, *named_in(folder)}
    assert {4, 8, 12} <= set(ends)
    assert call < 39


# When and what is written.


def test_the_first_checkpoint_comes_after_the_first_step_then_every_few_seconds(tmp_path, monkeypatch):
    now, problem, written = [100.0], problem_of(), []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    checkpoint = Checkpoint(tmp_path / "new" / "folder", fingerprint(problem, RandomAction(), 0), every=3.0)

    def after_a_step(state):
        now[0] += 1.0
        checkpoint.write(state)
        written.append(json.loads((checkpoint.path / MANIFEST).read_text())["value"]["state"]["digest"])

    solve(problem, RandomAction(), MaxActions(8), callback=after_a_step)
    assert [a != b for a, b in itertools.pairwise(written)] == [False, False, True, False, False, True, False]


def test_slow_disks_are_written_to_less_often(tmp_path, monkeypatch):
    now, problem = [100.0], problem_of()
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    write = storage_files.write

    def slow_write(*arguments):
        now[0] += 10.0
        return write(*arguments)

    monkeypatch.setattr("itergp.storage.checkpoints.write", slow_write)
    checkpoint = Checkpoint(tmp_path, fingerprint(problem, RandomAction(), 0))
    solve(problem, RandomAction(), MaxActions(1), callback=checkpoint.write)
    assert checkpoint._next == 130.0 + 5 * 30.0  # three files


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in (MANIFEST, LOCK)}


def named_in(folder):
    """The files that the manifest names."""
    value = json.loads((folder / MANIFEST).read_text())["value"]
    return {entry["file"] for entry in (*value["segments"], value["state"], value["memory"]) if entry}


def test_blocks_are_written_once_and_what_was_named_before_goes_away(tmp_path):
    policy, problem = PseudoInput(block_size=4), problem_of()
    (tmp_path / "notes.txt").write_text("the user's own")
    checkpoint, seen = Checkpoint(tmp_path, fingerprint(problem, policy, 0), 0.0), []

    def after_a_step(state):
        checkpoint.write(state)
        seen.append(contents(tmp_path))

    solve(problem, policy, MaxActions(16), callback=after_a_step)
    for before, after in itertools.pairwise(seen):
        kept = {name for name in before if not name.startswith("state-")}
        assert kept <= set(after)
        assert all(before[name] == after[name] for name in kept)
    names = sorted(name.partition("-")[0] for name in seen[-1])
    assert names == ["columns"] * 4 + ["memory", "notes.txt", "state"]
    widths = []
    for name in seen[-1]:
        if name.startswith("columns"):
            with safe_open(tmp_path / name, framework="np") as file:
                widths.append(file.get_tensor("KQ").shape)
    assert widths == [(4, 30)] * 4


def test_another_fit_in_the_same_object_starts_anew(tmp_path):
    policy, problem = RandomAction(2), problem_of()
    checkpoint = Checkpoint(tmp_path, fingerprint(problem, policy, 0))
    one = solve(problem, policy, MaxActions(4), seed=0)
    left = solve(problem, policy, MaxActions(4), one)
    right = solve(problem, ConjugateGradient(), MaxActions(6), one)
    for state in (one, left, right, one, right, State.start(problem), right):
        checkpoint.write_now(state)
        checkpoint.close()
        again = resumed(tmp_path, fingerprint(problem, policy, 0), problem, state.policy)
        assert np.array_equal(again.z, state.z)
        assert np.array_equal(again.basis.dense(0, again.basis.size), state.basis.dense(0, state.basis.size))


def test_what_is_noted_is_there_before_the_first_step_and_stays(tmp_path):
    policy, problem = RandomAction(2), problem_of()
    marks = fingerprint(problem, policy, 0, scaling={"mean": 0.5}, learned=Matern32([0.3, 0.2]))
    with Checkpoint(tmp_path, marks) as checkpoint:
        checkpoint.note({"lengthscale": [0.3, 0.2]})
    checkpoint = Checkpoint(tmp_path, marks)
    assert checkpoint.about == {}
    assert checkpoint.resume(problem, policy) is None
    assert checkpoint.about == {"lengthscale": [0.3, 0.2]}
    solve(problem, policy, MaxActions(4), callback=checkpoint.write)
    checkpoint.close()
    last = Checkpoint(tmp_path, marks)
    assert last.read_manifest()["about"] == {"lengthscale": [0.3, 0.2]}
    last.note({"another": 1})
    assert last.resume(problem, policy).rank == 2
    assert last.about == {"another": 1}
    with pytest.raises(InputError, match="about changes"):
        last.note({"a": (1,)})


# What is refused.


def test_where_there_is_no_manifest_there_is_nothing_to_resume(tmp_path):
    problem = problem_of()
    for folder in (tmp_path, tmp_path / "missing"):
        checkpoint = Checkpoint(folder, fingerprint(problem, RandomAction(), 0))
        assert checkpoint.resume(problem, RandomAction()) is None
        assert checkpoint.resumed_at is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="is a file; expected a folder"):
        Checkpoint(tmp_path / "file", {})


def other_data(change):
    data = make_data(30)
    X, y = data.X.copy(), data.y.copy()
    change(X, y)
    return Problem(Prior(KERNELS["matern52"]), X, y, 0.03)


DIFFERENT = {
    "X": lambda: (other_data(lambda X, y: X.__setitem__((3, 1), 0.1)), RandomAction(2), 0),
    "y": lambda: (other_data(lambda X, y: y.__setitem__(3, 0.1)), RandomAction(2), 0),
    "noise": lambda: (problem_of(noise=0.031), RandomAction(2), 0),
    "kernel": lambda: (problem_of(kernel="rbf"), RandomAction(2), 0),
    "mean": lambda: (problem_of(mean=ConstantMean(0.1)), RandomAction(2), 0),
    "policy": lambda: (problem_of(), RandomAction(3), 0),
    "seed": lambda: (problem_of(), RandomAction(2), 1),
    "dtype": lambda: (problem_of(dtype="float32"), RandomAction(2), 0),
    "engine": lambda: (problem_of(engine="jax"), RandomAction(2), 0),
}


@pytest.mark.parametrize("field", DIFFERENT)
def test_a_checkpoint_of_another_fit_is_refused_by_the_field_that_differs(field, tmp_path):
    policy, problem = RandomAction(2), problem_of(engine="numpy")
    with Checkpoint(tmp_path, fingerprint(problem, policy, 0)) as checkpoint:
        checkpoint.write_now(solve(problem, policy, MaxActions(4)))
    before = contents(tmp_path)
    other, acting, seed = DIFFERENT[field]()
    if field != "engine":
        other = Problem(
            other.prior, other.X, other.y, other.noise, Compute(engine="numpy", dtype=other.gram.dtype.name)
        )
    with pytest.raises(StorageError, match=f"another fit: its {field} differs"):
        resumed(tmp_path, fingerprint(other, acting, seed), other, acting)
    with pytest.raises(StorageError, match="another fit: its scaling differs"):
        resumed(tmp_path, fingerprint(problem, policy, 0, scaling=[1.0]), problem, policy)
    assert contents(tmp_path) == before
    assert resumed(tmp_path, fingerprint(problem, policy, 0), problem, policy).rank == 4


@pytest.mark.parametrize("field", ["X", "y", "noise", "kernel", "mean", "policy"])
def test_a_state_is_not_given_to_another_problem_whatever_the_fingerprint_says(field, tmp_path):
    policy, problem = RandomAction(2), problem_of()
    with Checkpoint(tmp_path, {"name": "mine"}) as checkpoint:
        checkpoint.write_now(solve(problem, policy, MaxActions(4)))
    other, acting, _ = DIFFERENT[field]()
    with pytest.raises(StorageError, match=f"another fit: its {field} differs"):
        resumed(tmp_path, {"name": "mine"}, other, acting)
    checkpoint.write_now(solve(other, acting, MaxActions(4)))
    checkpoint.close()
    assert resumed(tmp_path, {"name": "mine"}, other, acting).rank == 4


def test_policies_are_told_apart_by_all_they_hold():
    problem, rng = problem_of(), np.random.default_rng(0)
    policies = [
        PseudoInput(rng.uniform(size=(100, 2))),
        PseudoInput(rng.uniform(size=(100, 2))),
        PseudoInput(rng.uniform(size=(3, 2))),
        UnitVector([1, 2]),
        UnitVector([2, 1]),
        Schedule((RandomAction(), 3)),
        Schedule((RandomAction(), MaxPasses(3))),
        POLICIES["callable"](),
        np.cos,
    ]
    texts = {json.dumps(fingerprint(problem, policy, 0)["policy"]) for policy in policies}
    assert len(texts) == len(policies)
    assert fingerprint(problem, policies[0], 0) == fingerprint(
        problem_of(), PseudoInput(policies[0].inducing_points.copy()), 0
    )


@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "exchanged", "of another fit", "no json", "later format"]
)
@pytest.mark.parametrize("which", ["manifest", "columns", "state", "memory"])
def test_a_damaged_checkpoint_is_refused_and_left_as_it_is(which, damage, tmp_path):
    policy = PseudoInput(block_size=4)
    fit(tmp_path / "a", policy, 12)
    fit(tmp_path / "b", policy, 12, problem_of(data_seed=1))
    path, other = (sorted((tmp_path / name).glob(f"{which}*"))[0] for name in "ab")
    data = path.read_bytes()
    if damage == "exchanged":
        wrong = (
            sorted((tmp_path / "a").glob("columns*"))[1]
            if which == "columns"
            else sorted((tmp_path / "a").glob("columns*"))[0]
        )
        path.write_bytes(wrong.read_bytes())
    elif damage == "later format":
        path.write_bytes(data.replace(b'"format":1', b'"format":2').replace(b'"format\\":1', b'"format\\":2'))
    else:
        i = len(data) // 2
        path.write_bytes(
            {
                "cut": data[:i],
                "flipped": data[:i] + bytes([data[i] ^ 4]) + data[i + 1 :],
                "of another fit": other.read_bytes(),
                "no json": b"nothing",
            }[damage]
        )
    before = contents(tmp_path / "a")
    with pytest.raises(StorageError):
        fit(tmp_path / "a", policy, 12)
    assert contents(tmp_path / "a") == before


# Where nothing can be written.


def test_a_fit_goes_on_where_its_checkpoint_cannot_be_written_and_warns_once(tmp_path, monkeypatch):
    policy, problem = RandomAction(2), problem_of()
    whole = solve(problem, policy, MaxActions(14))
    fit(tmp_path, policy, 4, seed=0)
    before = contents(tmp_path)
    checkpoint = Checkpoint(tmp_path, fingerprint(problem, policy, 0), 0.0)
    state, write_text = checkpoint.resume(problem, policy), storage_files.write_text

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("itergp.storage.checkpoints.write_text", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = solve(problem, policy, MaxActions(8), state, callback=checkpoint.write)
    (warning,) = caught
    assert issubclass(warning.category, StorageWarning)
    assert "No space left on device" in str(warning.message)
    assert str(tmp_path) in str(warning.message)
    assert contents(tmp_path) == before  # the old checkpoint, and nothing else
    monkeypatch.setattr("itergp.storage.checkpoints.write_text", write_text)
    state = solve(problem, policy, MaxActions(2), state, callback=checkpoint.write)  # there is room again
    checkpoint.close()
    again = resumed(tmp_path, fingerprint(problem, policy, 0), problem, policy)
    assert again.rank == 14
    assert_same(Posterior(problem, again), Posterior(problem, whole))


def test_a_folder_that_cannot_be_synchronised_is_none_the_worse(tmp_path, monkeypatch):
    def refuse(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    fit(tmp_path, RandomAction(2), 8, cut=2)
    again, checkpoint = fit(tmp_path, RandomAction(2), 8)
    assert (checkpoint.resumed_at, again.rank) == (4, 8)


def test_a_policy_whose_memory_cannot_be_stored_has_no_checkpoint_and_the_fit_says_so(tmp_path):
    class Closed:
        def start(self, state):
            return {"function": np.cos}

        def __call__(self, state):
            return state.rng().standard_normal(state.problem.n)

    with pytest.warns(StorageWarning, match=r"state\.memory\['function'\] is cos"):
        posterior, _ = fit(tmp_path, Closed(), 4)
    assert posterior.rank == 4
    assert not contents(tmp_path)

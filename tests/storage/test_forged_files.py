"""Files that are well-formed, with right digests, but say what no fit has said: refused with the reason,
or harmless."""

import math
import tracemalloc
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers import make_data, row_noise
from itergp import (
    Adversarial,
    BlockKrylov,
    ConjugateGradient,
    Eigenvector,
    InputError,
    IterGPRegressor,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    RandomAction,
    Schedule,
    SparseBlock,
    StorageError,
    UnitVector,
    condition,
)
from itergp.cli.commands import app
from itergp.solver.state import Progress
from itergp.storage import Checkpoint, files, fingerprint, load, save

DATA = make_data(24)
NAN, INF = math.nan, math.inf


def forged(path, change):
    """The file with other content, as the library itself would write it."""
    value, tensors, _ = files.read(path, "model")
    tensors = {name: array.copy() for name, array in tensors.items()}
    change(value, tensors)
    files.write(path, "model", value, tensors)
    return path


def model(path, noise=0.05, policy=None, **more):
    save(
        path,
        condition(
            Prior(Matern32(0.5)), DATA.X, DATA.y, noise, policy or PseudoInput(block_size=4), MaxActions(8)
        ),
        **more,
    )
    return path


def put(name, value, index=0):
    """Another number in an array."""

    def change(_, tensors):
        tensors[name].reshape(-1)[index] = value

    return change


ARRAYS = (
    "X",
    "y",
    "b",
    "origin",
    "z",
    "KQ",
    "tau",
    "residual",
    "representer_weights",
    "training_variance",
    "L",
    "Q/0",
)


@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e308, -1e308])
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_not_finite_is_refused_by_name(name, value, tmp_path):
    path = forged(model(tmp_path / "m"), put(name, value, -1))
    with pytest.raises(
        StorageError,
        match=rf"m: (array {name} has values that are not finite, or larger than 1e.200|the class .* gives "
        r"other numbers)",
    ):
        load(path)


@pytest.mark.parametrize("name", ["N", "A", "noise"])
def test_noise_of_rows_that_is_not_finite_is_refused(name, tmp_path):
    path = forged(model(tmp_path / "m", row_noise(24)), put(name, NAN, -1))
    with pytest.raises(StorageError, match=r"not finite|not the same"):
        load(path)


def test_sparse_actions_that_are_not_finite_are_refused(tmp_path):
    path = model(tmp_path / "m", policy=UnitVector(block_size=3))
    with pytest.raises(StorageError, match="array Q/0/data has values that are not finite"):
        load(forged(path, put("Q/0/data", NAN)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("Q/0/indptr", -1, -1), "is not valid for columns of"),  # scipy would read the memory of others
        (put("Q/0/indptr", 10**9, -1), "is not valid for columns of"),
        (put("Q/0/indptr", 10**9, 1), "is not valid for columns of"),
        (put("Q/0/indptr", 1, 0), "is not valid for columns of"),
        (put("Q/0/indices", -1), "has row numbers outside the 24 rows"),
        (put("Q/0/indices", 24), "has row numbers outside the 24 rows"),
        (lambda _, t: t.update({"Q/0/indices": t["Q/0/indices"][:-1]}), "is not valid for columns of"),
        (lambda _, t: t.update({"Q/0/indices": t["Q/0/data"]}), "not made of whole numbers"),
        (lambda _, t: t.update({"Q/0/indptr": t["Q/0/indptr"][:0]}), "is not valid for columns of"),
    ],
)
def test_sparse_actions_that_reach_beyond_their_memory_are_refused(change, message, tmp_path):
    path = model(tmp_path / "m", policy=SparseBlock(groups=6))
    with pytest.raises(StorageError, match=message):
        load(forged(path, change))


def both_noises(_, tensors):
    tensors["N"][3] = tensors["noise"][3] = -1e-3


@pytest.mark.parametrize(
    ("change", "message", "noise"),
    [
        (put("tau", -1.0), "array tau has the value -1; expected at least 0", 0.05),
        (put("training_variance", -1.0), "array training_variance has the value -1", 0.05),
        (both_noises, "noise has the value -0.001; expected at least 0", row_noise(24)),
        (put("N", 1.0), "noise and array N are not the same", row_noise(24)),
        (put("L", 0.0), "array L is not a Cholesky factor: its diagonal", 0.05),
        (put("L", -1.0), "array L is not a Cholesky factor: its diagonal", 0.05),
        (put("L", 1e-3, 1), "array L is not a Cholesky factor: it has values above", 0.05),
        (put("A", 1e-3, 1), "array A is not a Cholesky factor: it has values above", row_noise(24)),
        (
            lambda _, t: t.update(L=np.ascontiguousarray(t["L"].T)),
            "array L is not a Cholesky factor: it has values above",
            0.05,
        ),
        (lambda _, t: t.update(z=t["z"][:-1]), "array z is float64 of shape", 0.05),
        (lambda _, t: t.update(tau=t["tau"].astype(np.float32)), "array tau is float32", 0.05),
        (lambda _, t: t.update(X=t["X"][:0]), "expected rows|gives other numbers", 0.05),
        (lambda _, t: t.pop("KQ"), "K Q is missing", 0.05),
    ],
)
def test_signs_shapes_and_triangles(change, message, noise, tmp_path):
    with pytest.raises(StorageError, match=message):
        load(forged(model(tmp_path / "m", noise), change))


def say(place, new):
    """Another value in the text, by the keys that lead to it."""

    def change(value, _):
        *outer, last = place.split(".")
        for key in outer:
            value = value[key]
        value[last] = new

    return change


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        ("problem.noise", -0.1, "noise is -0.1; expected a finite number >= 0"),
        ("problem.noise", {"float": "nan"}, "noise is nan"),
        ("problem.noise", {"float": "inf"}, "noise is inf"),
        ("problem.noise", "0.1", "noise is '0.1'"),
        ("problem.targets", [10**12], "array y|array b"),
        ("problem.targets", [1, 1], "at most one axis of targets"),
        ("problem.passes", -1, "passes is -1"),
        ("state.rank", 3.5, "rank is 3.5; expected a whole number"),
        ("state.rank", True, "rank is True"),
        ("state.seed", -1, "seed is -1"),
        ("state.counter", "x" * 999, "counter is 'xxx.*; expected a whole number"),
        ("state.trace_GA", {"float": "nan"}, "trace_GA is"),
        ("state.status", "EXACT", "status is EXACT with 8 of 24 actions"),
        ("state.blocks", [0, 4, 8.0], "blocks is 8.0"),
        ("state.progress", [1, -2, 3, 4, 5.0], "dropped is -2"),
    ],
)
def test_numbers_of_the_text(place, new, message, tmp_path):
    with pytest.raises(StorageError, match=message):
        load(forged(model(tmp_path / "m"), say(place, new)))


def test_numbers_that_json_does_not_know_are_refused(tmp_path):
    path = model(tmp_path / "m", about={"a": 0.25})
    with_text(path, b"0.25", b" NaN")
    with pytest.raises(StorageError, match="it says NaN, which is not a valid JSON number"):
        load(path)


# What the estimator says about itself.


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Files of estimators with one target and with two, whose rows are merged; as bytes."""
    folder, X = tmp_path_factory.mktemp("models"), np.concatenate([DATA.X, DATA.X[:4]])
    found = {}
    for t, y in ((1, X[:, 0]), (2, np.stack([X[:, 0], X[:, 1] ** 2], axis=1))):
        IterGPRegressor(noise=0.05, learn=False, budget="6 actions").fit(X, y).save(folder / "m")
        found[t] = (folder / "m").read_bytes()
    return found


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        ("about.noise", -0.1, "noise is -0.1"),
        ("about.noise", [0.1, 0.1, 0.1], "noise"),
        ("about.noise", None, "noise is None"),
        ("about.scaling.x_mean", [0.0], "scaling x_mean has 1 values; expected 2"),
        ("about.scaling.x_scale", [1.0, 0.0], "scaling x_scale has the value 0; expected numbers > 0"),
        ("about.scaling.x_scale", [1.0, -1.0], "scaling x_scale has the value -1"),
        ("about.scaling.x_scale", [1.0, "a"], "scaling x_scale is not made of numbers"),
        ("about.scaling.y_scale", 0.0, "scaling y_scale"),
        ("about.scaling.y_mean", [1.0, 2.0, 3.0], "scaling y_mean"),
        ("about.row_counts", [1] * 23, "row_counts has 23 values; expected 24"),
        ("about.row_counts", [1] * 25, "row_counts has 25 values; expected 24"),
        ("about.row_counts", [0] * 24, "row_counts has the value 0; expected at least 1"),
        ("about.row_counts", [1.5] * 24, "row_counts is not made of whole numbers"),
        ("about.row_counts", [10**30] * 24, "row_counts is not made of whole numbers"),
        ("about.scatter", -1.0, "scatter is -1"),
        ("about.feature_names", ["a"], "feature_names are not 2 names"),
        ("about.feature_names", [1, 2], "feature_names are not 2 names"),
        ("about.timings", {"total": -1}, "timings 'total' is -1"),
        ("about.timings", 3, "not an IterGPRegressor"),
        ("about.resumed_from", "x", "not an IterGPRegressor"),
        ("about.scaling", None, "not an IterGPRegressor"),
    ],
)
def test_an_estimator_that_says_nonsense_is_refused(place, new, message, targets, written, tmp_path):
    (tmp_path / "m").write_bytes(written[targets])
    IterGPRegressor.load(tmp_path / "m")
    with pytest.raises(StorageError, match=message):
        IterGPRegressor.load(forged(tmp_path / "m", say(place, new)))


def test_an_infinite_number_in_a_list_is_refused(written, tmp_path):
    """JSON has no infinity, but 1e999 is one to Python."""
    (tmp_path / "m").write_bytes(written[1])
    path = forged(tmp_path / "m", say("about.scaling.x_mean", [0.0, 123456789.125]))
    with_text(path, b"123456789.125", b"1e999")
    with pytest.raises(StorageError, match="scaling x_mean has values that are not finite"):
        IterGPRegressor.load(path)


def test_what_the_estimator_learned_is_checked_when_a_fit_resumes(tmp_path):
    fit = lambda: IterGPRegressor(budget="4 actions", checkpoint=tmp_path / "fit").fit(DATA.X, DATA.y)  # noqa: E731
    fit()
    path = tmp_path / "fit" / "manifest.json"
    whole = files.read_text(path, "checkpoint")
    for noise in (-1.0, None, [1.0], "0.1"):
        whole["about"]["learned"]["noise"] = noise
        files.write_text(path, "checkpoint", whole)
        with pytest.raises(StorageError, match="no valid record of what was learned"):
            fit()


def test_a_checkpoint_whose_state_is_not_finite_is_refused(tmp_path):
    from itergp import Problem, solve

    problem, policy = Problem(Prior(Matern32(0.5)), DATA.X, DATA.y, 0.05), PseudoInput(block_size=4)
    with Checkpoint(tmp_path, fingerprint(problem, policy)) as checkpoint:
        checkpoint.write_now(solve(problem, policy, MaxActions(8)))
    manifest = files.read_text(tmp_path / "manifest.json", "checkpoint")
    entry = manifest["state"]
    value, tensors, _ = files.read(tmp_path / entry["file"], "state")
    tensors = {name: array.copy() for name, array in tensors.items()}
    tensors["residual"][2] = NAN
    entry["digest"] = files.write(tmp_path / entry["file"], "state", value, tensors)
    files.write_text(tmp_path / "manifest.json", "checkpoint", manifest)
    with pytest.raises(StorageError, match="array residual has values that are not finite"):
        Checkpoint(tmp_path, fingerprint(problem, policy)).resume(problem, policy)


# Predictions are numbers, or the command fails.


@pytest.mark.parametrize("name", ["z", "KQ", "tau", "residual", "representer_weights", "L"])
def test_the_command_line_predicts_no_nan(name, written, tmp_path):
    (tmp_path / "m").write_bytes(written[1])
    (tmp_path / "new.csv").write_text("0.1,0.2\n0.3,0.4\n")
    arguments = ["predict", str(tmp_path / "m"), str(tmp_path / "new.csv")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    forged(tmp_path / "m", put(name, NAN))
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"array {name} has values that are not finite" in result.stderr


def test_numbers_that_overflow_only_in_predictions_are_no_predictions(written, tmp_path):
    (tmp_path / "m").write_bytes(written[1])
    (tmp_path / "new.csv").write_text("0.1,0.2\n0.3,0.4\n")

    def change(_, tensors):
        for name in ("representer_weights", "residual", "z"):
            tensors[name][:] = 1e199

    forged(forged(tmp_path / "m", change), say("about.scaling.y_scale", 1e120))
    with np.errstate(all="ignore"):
        result = CliRunner().invoke(app, ["predict", str(tmp_path / "m"), str(tmp_path / "new.csv")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not finite" in result.stderr


# Small files that ask for much.


@pytest.mark.parametrize("dtype", ["int8", "int64"])
@pytest.mark.parametrize("value", [0, 1])
def test_lists_of_arrays_take_no_more_than_a_small_multiple_of_the_file(dtype, value, tmp_path):
    path = model(tmp_path / "m", policy=SparseBlock([[0, 3], [1, 2, 5]]))
    size = 400_000

    def change(content, tensors):
        groups = content["policy"]["spec"]["fields"]["groups"]
        tensors[groups["lengths"]["array"]] = np.full(size // np.dtype(dtype).itemsize, value, dtype=dtype)
        tensors[groups["tuple"]["array"]] = np.zeros(value * size // np.dtype(dtype).itemsize, dtype=np.int8)

    forged(path, change)
    tracemalloc.start()
    try:
        load(path)
    except (StorageError, InputError):
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 40 * Path(path).stat().st_size


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2], "add up to 3"),
        ([-1, 6], "add up to 5"),
        ([2, 2**62, -(2**62) + 3], "add up to 5"),
        ([[2, 3]], "2 axes"),
    ],
)
def test_lengths_belong_to_their_list(lengths, message, tmp_path):
    path = model(tmp_path / "m", policy=SparseBlock([[0, 3], [1, 2, 5]]))
    with pytest.raises(StorageError, match=message):
        load(forged(path, lambda _, tensors: tensors.update({"policy.groups.lengths": np.array(lengths)})))


def with_text(path, old, new):
    """The header with other letters in it, and a right digest."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(old, new)
    place = header.index(files._MARK_IN_HEADER) + len(files._MARK_IN_HEADER)
    header = header[:place] + b"0" * 64 + header[place + 64 :]
    whole = len(header).to_bytes(8, "little") + header + data[8 + length :]
    digest = files.hashlib.sha256(whole).hexdigest().encode()
    path.write_bytes(whole[: 8 + place] + digest + whole[8 + place + 64 :])


def test_deep_text_is_refused(tmp_path):
    path = model(tmp_path / "m", about={"a": "here"})
    with_text(path, b'\\"here\\"', b"[" * 50_000 + b"]" * 50_000)
    with pytest.raises(StorageError, match="cannot be understood"):
        load(path)


def test_text_with_millions_of_entries_is_refused_before_they_are_made(tmp_path):
    path = model(tmp_path / "m", about={"a": "here"})
    with_text(path, b'\\"here\\"', b"[" + b"[]," * 1_500_000 + b"[]]")
    tracemalloc.start()
    with pytest.raises(StorageError, match=r"its text has 1,500,\d\d\d entries; expected at most 1,0"):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * path.stat().st_size


# What loads must serve.


POLICIES = {
    "cg": ConjugateGradient(),
    "preconditioned": ConjugateGradient(preconditioner="self"),
    "pseudo-inputs": PseudoInput(block_size=4),
    "rows": UnitVector("random", block_size=4),
    "groups": SparseBlock(12, block_size=4),
    "eigenvectors": Eigenvector(4),
    "adversarial": Adversarial(),
    "random": RandomAction(4),
    "krylov": BlockKrylov(4),
    "schedule": Schedule((PseudoInput(block_size=4), 4), (ConjugateGradient(), None)),
}


@pytest.mark.parametrize("memory", [0, 1.5, 10**30, "", "x", True, [1], {"float": "nan"}], ids=repr)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_that_prepared_something_else_is_refused(policy, memory, tmp_path):
    path = model(tmp_path / "m", policy=POLICIES[policy])
    before = load(path)[0].refine(stop=MaxActions(3))  # as it is, it goes on
    assert before.rank == 11
    with pytest.raises(StorageError):
        load(forged(path, say("policy.memory", memory)))


@pytest.mark.parametrize("stage", [{}, 0, "", False, [], 1, "x", {"index": 0}], ids=repr)
def test_a_stage_that_is_none_is_refused(stage, tmp_path):
    with pytest.raises(StorageError):
        load(forged(model(tmp_path / "m"), say("state.stage", stage)))


@pytest.mark.parametrize("rank", [0, 3, 9])
def test_a_rank_outside_the_last_block_is_refused(rank, tmp_path):
    with pytest.raises(StorageError, match="rank"):
        load(forged(model(tmp_path / "m"), say("state.rank", rank)))


def progress(field, new):
    def change(value, _):
        value["state"]["progress"][field] = new

    return change


@pytest.mark.parametrize("field", range(len(fields(Progress))))
def test_counts_beyond_all_counting_are_refused(field, tmp_path):
    with pytest.raises(StorageError):
        load(forged(model(tmp_path / "m"), progress(field, 10**400)))
    if fields(Progress)[field].type is int:
        with pytest.raises(StorageError, match="whole number"):
            load(forged(model(tmp_path / "m"), progress(field, 10**30)))


@pytest.mark.parametrize("name", ["L", "A"])
def test_a_factor_with_next_to_nothing_on_its_diagonal_is_refused(name, tmp_path):
    path = model(tmp_path / "m", noise=row_noise(24))
    change = lambda _, tensors: tensors.update({name: 1e-310 * tensors[name]})  # noqa: E731
    with pytest.raises(StorageError, match="Cholesky"):
        load(forged(path, change))


@pytest.mark.parametrize("size", [0.0, 1e-310, 0.9, 1e9])
@pytest.mark.parametrize("policy", ["pseudo-inputs", "rows"])
def test_actions_of_another_length_are_refused(policy, size, tmp_path):
    name = "Q/0/data" if policy == "rows" else "Q/0"
    change = lambda _, tensors: tensors.update({name: size * tensors[name]})  # noqa: E731
    with pytest.raises(StorageError, match="length 1"):
        load(forged(model(tmp_path / "m", policy=POLICIES[policy]), change))


def several(path, noise):
    y = np.column_stack([DATA.y, DATA.y**2])
    IterGPRegressor(noise=noise, learn=False, budget="6 actions").fit(DATA.X, y).save(path)
    return path


def test_noise_of_each_target_and_of_all_is_refused(tmp_path):
    path = several(tmp_path / "m", [0.05, 0.1])
    IterGPRegressor.load(path)
    for value in (None, False):
        with pytest.raises(StorageError, match="noise"):
            IterGPRegressor.load(forged(several(path, [0.05, 0.1]), say("target_noise", value)))
    with pytest.raises(StorageError, match="noise"):
        IterGPRegressor.load(forged(several(path, [0.05, 0.1]), say("about.noise", 0.05)))
    with pytest.raises(StorageError, match="noise"):
        IterGPRegressor.load(forged(several(path, 0.05), say("about.noise", [0.05, 0.1])))


@pytest.mark.parametrize("lost", ["X", "y"])
def test_first_rows_without_a_half_are_refused(lost, tmp_path):
    path = tmp_path / "m"
    IterGPRegressor(noise=0.05).fit(DATA.X, DATA.y).save(path)
    IterGPRegressor.load(path)
    with pytest.raises(StorageError, match=r"first rows|first_rows"):
        IterGPRegressor.load(forged(path, say(f"about.first_rows.{lost}", None)))


def sample(**changed):
    return {"rows": [0], "y": [1.0], "order": [0.5]} | changed


def scored(**changed):
    return {"scores": [-1.0, 1.0], "weights": [0.5, 0.5], "units": 2, "grouped": False} | changed


@pytest.mark.parametrize(
    ("name", "new", "words"),
    [
        ("about.observed", {"groups": [0] * 23, "sample": None}, "groups has 23 values; expected 24"),
        ("about.observed", {"groups": [-1] * 24, "sample": None}, "groups has the value -1"),
        ("about.observed", {"groups": None, "sample": sample(rows=[24])}, "has rows beyond the 24"),
        (
            "about.observed",
            {"groups": None, "sample": sample(rows=[])},
            "rows of the sample is not made of whole",
        ),
        ("about.observed", {"groups": None, "sample": sample(y=[1.0, 2.0])}, "y of the sample has 2 values"),
        ("about.observed", {"groups": None, "sample": sample(order=[-1.0])}, "order of the sample"),
        (
            "about.observed",
            {"groups": None, "sample": sample(weights=[0.0])},
            "weights of the sample has the",
        ),
        (
            "about.observed",
            {"groups": None, "sample": sample(weights=[1.0] * 2)},
            "weights of the sample has 2",
        ),
        ("about.observed", 3, "not an IterGPRegressor"),
        ("about.calibration", scored(scores=[1.0, 0.5]), "scores that are not sorted"),
        ("about.calibration", scored(scores=[1.0, None]), "scores of the calibration is not made of numbers"),
        ("about.calibration", scored(weights=[0.5, 0.4]), "weights that do not sum to 1"),
        ("about.calibration", scored(weights=[-0.5, 1.5]), "weights of the calibration has the value -0.5"),
        ("about.calibration", scored(units=3), "the calibration has"),
        ("about.calibration", scored(units=0), "units of the calibration is 0"),
    ],
)
def test_what_held_out_rows_need_and_say_is_checked(name, new, words, tmp_path):
    path = tmp_path / "m"
    IterGPRegressor(noise=0.05, learn=False).fit(DATA.X, DATA.y).save(path)
    with pytest.raises(StorageError, match=words):
        IterGPRegressor.load(forged(path, say(name, new)))

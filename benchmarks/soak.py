"""Files under fire: kill -9, mutated files, full disks and read-only folders.

    python benchmarks/soak.py kill --count 50 a checkpointed fit is killed at a random moment, and resumed
    python benchmarks/soak.py mutate --count 100000 models and checkpoints are damaged or forged in every
    way, and read python benchmarks/soak.py disk --count 50 fits and models are written where there is no
    room, or no permission

Each prints what it did and a line VIOLATION for whatever went wrong, and fails if there was any.
"""

import argparse
import collections
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from itergp import (
    BlockKrylov,
    ConjugateGradient,
    Eigenvector,
    Matern32,
    MaxActions,
    Posterior,
    Prior,
    Problem,
    PseudoInput,
    RandomAction,
    Schedule,
    SparseBlock,
    StorageError,
    StorageWarning,
    UnitVector,
    solve,
)
from itergp.storage import Checkpoint, files, fingerprint, load, save

POLICIES = {
    "schedule": lambda: Schedule(
        (PseudoInput(block_size=16), 32), (BlockKrylov(16), 64), (ConjugateGradient(), None)
    ),
    "cg": lambda: ConjugateGradient(),
    "random": lambda: RandomAction(3),
    "pivoted": lambda: UnitVector("pivoted", block_size=2),
    "eigenvector": lambda: Eigenvector(block_size=5),
}


def make_problem(n, seed=0, noise=0.02):
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1, 1, (n, 3))
    return Problem(
        Prior(1.3 * Matern32(0.4)), X, np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(n), noise
    )


def fit(folder, policy, n, actions, seed=0, every=0.0):
    """A checkpointed fit, from where the last one in that folder ended: the posterior, and the action it
    resumed at."""
    problem, policy = make_problem(n, seed), POLICIES[policy]()
    if folder is None:
        return Posterior(problem, solve(problem, policy, MaxActions(actions), seed=seed), policy), None
    with Checkpoint(folder, fingerprint(problem, policy, seed), every) as checkpoint:
        state = checkpoint.resume(problem, policy)
        left = actions - (0 if state is None else state.rank)
        state = solve(problem, policy, MaxActions(left), state, seed, checkpoint.write)
        checkpoint.write_now(state)
    return Posterior(problem, state, policy), checkpoint.resumed_at


def same(a, b):
    """Whether two posteriors agree to the bit, also in what they have done so far."""
    X = np.random.default_rng(1).uniform(-1, 1, (20, a.problem.X.shape[1]))

    def numbers(p):
        return p.mean(X), p.var(X), p.state.residual, p.state.representer_weights, p.state.z, p.state.tau

    return a.rank == b.rank and all(np.array_equal(x, y) for x, y in zip(numbers(a), numbers(b), strict=True))


class Tally(collections.Counter):
    """How often what happened; a key that begins with VIOLATION is one."""

    def violations(self):
        return {key: number for key, number in self.items() if key.startswith("VIOLATION")}


# kill -9.


def kill(count, n=1200, actions=300, seed=0):
    """Kill a fit in another process at a random moment after its first checkpoint, until it is through;
    then compare."""
    tally, rng = Tally(), np.random.default_rng(seed)
    for i in range(count):
        policy = list(POLICIES)[i % len(POLICIES)]
        begun = time.perf_counter()
        whole, _ = fit(None, policy, n, actions, seed + i)
        lasts = time.perf_counter() - begun
        with tempfile.TemporaryDirectory() as folder:
            found = _killed_fit(folder, policy, n, actions, seed + i, rng.uniform(0, lasts))
            resumed, at = fit(folder, policy, n, actions, seed + i)
            kept = at is not None and at > 0
            good = kept and same(whole, resumed)
            tally[
                "resumed to the same bits" if good else f"VIOLATION {policy}, fit {seed + i}, resumed at {at}"
            ] += 1
            tally["killed before its end" if kept and at < actions else "was through already"] += 1
            tally["left a file half written"] += found
    return tally


def _killed_fit(folder, policy, n, actions, seed, moment):
    """True when the killed process left a file that was being written."""
    arguments = [sys.executable, __file__, "child", folder, policy, *map(str, (n, actions, seed))]
    with subprocess.Popen(arguments, env={**os.environ, "PYTHONWARNINGS": "ignore"}) as child:
        while not _has_state(os.path.join(folder, "manifest.json")) and child.poll() is None:
            time.sleep(0.001)
        time.sleep(moment)
        child.send_signal(signal.SIGKILL)
    return any(name.endswith(".tmp") for name in os.listdir(folder))


def _has_state(manifest):
    """A first manifest may be there before anything was computed."""
    return os.path.exists(manifest) and json.loads(Path(manifest).read_text())["value"]["state"] is not None


# Mutations.


def flip(data, rng):
    i = int(rng.integers(len(data)))
    return data[:i] + bytes([data[i] ^ (1 << int(rng.integers(8)))]) + data[i + 1 :]


def truncate(data, rng):
    return data[: int(rng.integers(len(data)))]


def insert(data, rng):
    i = int(rng.integers(len(data) + 1))
    return data[:i] + rng.bytes(int(rng.integers(1, 20))) + data[i:]


def remove(data, rng):
    i = int(rng.integers(len(data)))
    return data[:i] + data[i + int(rng.integers(1, 20)) :]


def exchange(data, rng):
    """Two stretches of the file change places, such as two arrays."""
    a, b, c, d = sorted(int(i) for i in rng.integers(0, len(data) + 1, 4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def blank(data, rng):
    """Zeros, as a lost page of the disk."""
    i, size = int(rng.integers(len(data))), int(rng.integers(1, 600))
    return data[:i] + bytes(len(data[i : i + size])) + data[i + size :]


def another_number(data, rng):
    """A digit of the JSON text is another one."""
    end = len(data) if data.startswith(b"{") else 8 + int.from_bytes(data[:8], "little")
    digits = [i for i in range(8, end) if data[i : i + 1].isdigit()]
    i = int(rng.choice(digits))
    return data[:i] + str((int(data[i : i + 1]) + int(rng.integers(1, 10))) % 10).encode() + data[i + 1 :]


def garbage(data, rng):
    return rng.bytes(int(rng.integers(0, 400)))


MUTATIONS = (
    flip,
    flip,
    flip,
    truncate,
    insert,
    remove,
    exchange,
    blank,
    another_number,
    another_number,
    garbage,
)


def forge(data, rng):
    """The JSON text is edited by somebody who renews the digest."""
    plain = data.startswith(b"{")
    length = 0 if plain else int.from_bytes(data[:8], "little")
    header = None if plain else json.loads(data[8 : 8 + length])
    content = json.loads(data if plain else header["__metadata__"][files.KEY])
    _edit(content, rng)
    text = json.dumps({**content, "digest": "0" * 64}, sort_keys=True, separators=(",", ":"))
    if plain:
        whole = text.encode()
        mark = files._MARK
    else:
        header["__metadata__"][files.KEY] = text
        new = json.dumps(header, separators=(",", ":")).encode()
        whole, mark = len(new).to_bytes(8, "little") + new + data[8 + length :], files._MARK_IN_HEADER
    digest = files.hashlib.sha256(whole).hexdigest().encode()
    place = whole.find(mark) + len(mark)
    return whole[:place] + digest + whole[place + 64 :] if place >= len(mark) else whole


STRANGE = (
    None,
    True,
    -1,
    0,
    3,
    10**12,
    0.5,
    "",
    "x",
    [],
    {},
    [1, 2],
    {"type": "RBF"},
    {"array": "X"},
    "../model",
)


def _edit(tree, rng):
    """Somewhere in the tree, a value goes, or becomes something strange."""
    place = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.1:
            break
        place = inner
    if rng.random() < 0.2:
        del place[key]
    else:
        place[key] = STRANGE[int(rng.integers(len(STRANGE)))]


def make_models(folder):
    """A few models of every make: the paths, and what each must give."""
    made, problem = [], make_problem(12)
    policies = (
        *(make() for make in POLICIES.values()),
        SparseBlock([[0, 3], [1, 2, 5]]),
        lambda s: np.ones(12),
    )
    for i, policy in enumerate(policies):
        posterior = Posterior(problem, solve(problem, policy, MaxActions(5), seed=i), policy)
        for refinable in (True, False):
            path = Path(folder) / f"model-{i}-{refinable}"
            save(path, posterior, {"number": i, "text": "0.25 and more"}, refinable)
            made.append((path, posterior))
    return made


def mutate_models(count, seed=0):
    """Every damaged model is refused by StorageError, or gives what was saved."""
    tally, rng = Tally(), np.random.default_rng([seed, 1])
    with tempfile.TemporaryDirectory() as folder:
        made = [(path.read_bytes(), posterior) for path, posterior in make_models(folder)]
        path = Path(folder) / "mutant"
        for i in range(count):
            data, posterior = made[i % len(made)]
            mutation = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
            mutant = mutation(data, rng)
            path.write_bytes(mutant)
            _judge(
                tally,
                f"model {mutation.__name__}",
                lambda posterior=posterior: same(load(path)[0], posterior),
                mutant == data,
            )
    return tally


def _judge(tally, what, reads_the_same, unchanged):
    """`reads_the_same()` must be true, or raise StorageError."""
    try:
        good = reads_the_same()
    except StorageError:
        tally["VIOLATION a whole file was refused" if unchanged else "refused"] += 1
    except Exception as error:
        tally[f"VIOLATION {what}: {type(error).__name__}: {error}"] += 1
    else:
        tally["gave what was written" if good else f"VIOLATION {what}: silently wrong"] += 1
        tally["gave what was written although it was changed"] += good and not unchanged


def forge_models(count, seed=0):
    """Whatever a model with a right digest says, it is refused by StorageError, or predicts numbers."""
    tally, rng = Tally(), np.random.default_rng([seed, 2])
    with tempfile.TemporaryDirectory() as folder:
        made = [(path, path.read_bytes()) for path, _ in make_models(folder)]
        path = Path(folder) / "forged"
        for i in range(count):
            original, data = made[i % len(made)]
            if i % 2:
                path.write_bytes(forge(data, rng))
            else:
                forge_arrays(original, path, rng)
            _judge_forged(tally, lambda: _predicts(load(path)[0]))
    return tally


NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 1e-300, 1e150, 1e308, -1e308)


def forge_arrays(original, path, rng):
    """An array is edited, cut, turned or exchanged for another by somebody who writes files as the library
    does."""
    value, tensors, _ = files.read(original, "model")
    tensors = {name: np.array(array) for name, array in tensors.items()}
    name, other = (sorted(tensors)[int(i)] for i in rng.integers(0, len(tensors), 2))
    array, kind = tensors[name], rng.random()
    if kind < 0.6 and array.size:
        number = (
            NUMBERS[int(rng.integers(len(NUMBERS)))]
            if array.dtype.kind == "f"
            else int(rng.choice([-1, 0, 10**9]))
        )
        array.reshape(-1)[int(rng.integers(array.size))] = number
    elif kind < 0.7:
        tensors[name] = np.ascontiguousarray(array[:-1])
    elif kind < 0.8:
        tensors[name] = np.ascontiguousarray(array.T)
    elif kind < 0.9:
        tensors[name] = tensors[other]
    else:
        del tensors[name]
    files.write(path, "model", value, tensors)


def _predicts(posterior):
    """A model that is read gives means that are numbers, and variances that are not negative."""
    X = np.random.default_rng(1).uniform(-1, 1, (3, posterior.problem.X.shape[1]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, variance = posterior.mean(X), posterior.var(X)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all()):
        raise AssertionError(f"mean {mean.tolist()}, variance {variance.tolist()}")


def _judge_forged(tally, reads):
    try:
        reads()
        tally["forged: read"] += 1
    except StorageError:
        tally["forged: refused"] += 1
    except Exception as error:
        tally[f"VIOLATION forged: {type(error).__name__}: {error}"] += 1


class _Checkpoints:
    """Two checkpoints of the same fit with other seeds, to be damaged and mended."""

    def __init__(self, folder, policy):
        self.policy, self.folder = policy, Path(folder) / "damaged"
        self.whole, self.other, self.read = (Path(folder) / name for name in ("whole", "other", "read"))
        for seed, path in ((0, self.whole), (1, self.other)):
            for actions in (4, 7, 9):
                fit(path, policy, 14, actions, seed)
        self.posterior = fit(None, policy, 14, 9)[0]
        self.files, self.others = (
            # all but the lock
            {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}
            for folder in (self.whole, self.other)
        )

    def damage(self, rng):
        """The name of what was done, and whether anything is other than before."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.whole, self.folder)
        names = sorted(self.files)
        name = "manifest.json" if rng.random() < 0.3 else names[int(rng.integers(len(names)))]
        kind = rng.random()
        if kind < 0.05:
            (self.folder / name).unlink()
            return "missing file", name == "manifest.json"  # then there is nothing to resume
        if kind < 0.15:  # a file of the same fit under the name of another
            content = self.files[names[int(rng.integers(len(names)))]]
            what = "swapped files"
        elif kind < 0.3:
            content = self.others[sorted(self.others)[int(rng.integers(len(self.others)))]]
            what = "file of another fit"
        else:
            mutation = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
            what, content = mutation.__name__, mutation(self.files[name], rng)
        (self.folder / name).write_bytes(content)
        return what, content == self.files[name]

    def forge(self, rng):
        """A file is forged, and the manifest vouches for it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.whole, self.folder)
        names = sorted(self.files)
        name = names[int(rng.integers(len(names)))]
        forged = forge(self.files[name], rng)
        (self.folder / name).write_bytes(forged)
        place = forged.find(files._MARK_IN_HEADER) + len(files._MARK_IN_HEADER)
        if name != "manifest.json" and place >= len(files._MARK_IN_HEADER):
            manifest = files.read_text(self.folder / "manifest.json", "checkpoint")
            for entry in (*manifest["segments"], manifest["state"], manifest["memory"]):
                entry["digest"] = (
                    forged[place : place + 64].decode() if entry["file"] == name else entry["digest"]
                )
            files.write_text(self.folder / "manifest.json", "checkpoint", manifest)

    def resume(self):
        problem, policy = make_problem(14), POLICIES[self.policy]()
        with (
            Checkpoint(self.folder, fingerprint(problem, policy, 0)) as checkpoint,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", StorageWarning)  # where files are missing it starts anew
            state = checkpoint.resume(problem, policy)
        return state and Posterior(problem, state, policy)

    def resumes_the_same(self):
        found = self.resume()
        return found is None or same(found, self.posterior)


def mutate_checkpoints(count, seed=0):
    """Every damaged checkpoint is refused by StorageError, or resumes to what was written."""
    tally, rng = Tally(), np.random.default_rng([seed, 3])
    for i, policy in enumerate(POLICIES):
        with tempfile.TemporaryDirectory() as folder:
            checkpoints = _Checkpoints(folder, policy)
            for _ in range(count // len(POLICIES) + (i < count % len(POLICIES))):
                what, unchanged = checkpoints.damage(rng)
                _judge(tally, f"checkpoint of {policy}, {what}", checkpoints.resumes_the_same, unchanged)
    return tally


def forge_checkpoints(count, seed=0):
    """Whatever a checkpoint with right digests says, it is read, or refused by StorageError."""
    tally, rng = Tally(), np.random.default_rng([seed, 5])
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = _Checkpoints(folder, "schedule")
        for _ in range(count):
            checkpoints.forge(rng)
            _judge_forged(tally, checkpoints.resume)
    return tally


def mutate(count, seed=0):
    """Of ten files, four are damaged models, three damaged checkpoints, two forged models, and one a
    forged checkpoint."""
    tally, tenth = Tally(), count // 10
    tally.update(mutate_models(count - 6 * tenth, seed))
    tally.update(mutate_checkpoints(3 * tenth, seed))
    tally.update(forge_models(2 * tenth, seed))
    tally.update(forge_checkpoints(tenth, seed))
    return tally


# Full disks and read-only folders.


@contextlib.contextmanager
def no_room(folder, size):
    """Files in `folder` cannot grow beyond `size`; on a small disk of its own where this may be made."""
    small = Path(folder) / "disk"
    small.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], capture_output=True
        ).returncode
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if not mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        yield small
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if mounted:
            subprocess.run(["umount", str(small)], check=True)


@contextlib.contextmanager
def read_only(folder):
    """Nothing can be written into `folder`, also by root, who writes as nobody meanwhile."""
    user, mode = os.geteuid(), os.stat(folder).st_mode
    os.chmod(folder, 0o555)
    os.chmod(Path(folder).parent, 0o755)  # for nobody to pass
    try:
        if user == 0:
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(user)
        os.chmod(folder, mode)


def disk(count, seed=0, n=60, actions=40):
    tally, rng = Tally(), np.random.default_rng([seed, 4])
    for i in range(count):
        policy = list(POLICIES)[i % len(POLICIES)]
        whole, _ = fit(None, policy, n, actions, i)
        with (
            tempfile.TemporaryDirectory() as folder,
            no_room(folder, int(rng.integers(3, 30)) * 4096) as small,
        ):
            _must_go_on(tally, f"full disk, {policy}", small / "fit", policy, n, actions, i, whole)
            _must_keep(tally, f"full disk, {policy}", small / "model", whole)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fit"
            path.mkdir()
            if i % 2:
                fit(path, policy, n, actions // 2, i)  # something to keep
            save(path / "model", whole)
            with read_only(path):
                _must_go_on(tally, f"read-only folder, {policy}", path, policy, n, actions, i, whole)
                _must_keep(tally, f"read-only folder, {policy}", path / "model", whole)
    return tally


def _must_go_on(tally, what, path, policy, n, actions, seed, whole):
    """The fit goes on with one warning at most, and what it left behind is a checkpoint, or none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        through, _ = fit(path, policy, n, actions, seed)
    warned = [str(w.message) for w in caught if issubclass(w.category, StorageWarning)]
    tally[f"{what.partition(',')[0]}: fit went on{', with a warning' if warned else ''}"] += 1
    if not same(through, whole) or len(warned) > 1:
        tally[f"VIOLATION {what}: {len(warned)} warnings, rank {through.rank}"] += 1
    problem, actor = make_problem(n, seed), POLICIES[policy]()
    with Checkpoint(path, fingerprint(problem, actor, seed)) as checkpoint:
        state = checkpoint.resume(problem, actor)
    if state is not None:
        tally[f"{what.partition(',')[0]}: a checkpoint stayed"] += 1
        rest = solve(problem, actor, MaxActions(actions - state.rank), state)
        if not same(Posterior(problem, rest, actor), whole):
            tally[f"VIOLATION {what}: the checkpoint that stayed is not the fit's"] += 1


def _must_keep(tally, what, path, posterior):
    """A model that cannot be written is an error, nothing is left of it, and the model that was there
    stays."""
    problem = make_problem(3)
    small = Posterior(problem, solve(problem, UnitVector(), MaxActions(2)))
    with contextlib.suppress(StorageError):
        if not path.exists():
            save(path, small)
    before = path.read_bytes() if path.exists() else None
    try:
        save(path, posterior)
        tally[f"{what.partition(',')[0]}: model written"] += 1
        load(path)
    except StorageError:
        tally[f"{what.partition(',')[0]}: model refused"] += 1
        if (path.read_bytes() if path.exists() else None) != before:
            tally[f"VIOLATION {what}: the model that was there is another"] += 1
    if path.parent.exists() and any(name.endswith(".tmp") for name in os.listdir(path.parent)):
        tally[f"VIOLATION {what}: a temporary file was left"] += 1


COMMANDS = {"kill": (kill, 50), "mutate": (mutate, 100000), "disk": (disk, 50)}


def run(commands, about):
    """The command line of a soak: {name: (function of a count and a seed, how often by default)}."""
    arguments = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("command", choices=[*commands, "all"])
    arguments.add_argument("--count", type=int, help="how often; by default as above")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    violations = 0
    for name in commands if options.command == "all" else [options.command]:
        function, count = commands[name]
        begun, count = time.time(), options.count or count
        tally = function(count, seed=options.seed)
        print(f"{name}, {count} times, {time.time() - begun:.0f} s")
        for key, number in sorted(tally.items()):
            print(f"  {number:6d}  {key}", flush=True)
        violations += sum(tally.violations().values())
    raise SystemExit(1 if violations else 0)


def main():
    if sys.argv[1:2] == ["child"]:
        folder, policy, n, actions, seed = sys.argv[2:]
        fit(folder, policy, int(n), int(actions), int(seed))
        return
    run(COMMANDS, __doc__)


if __name__ == "__main__":
    main()

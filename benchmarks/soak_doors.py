"""The command line and the doors of the library under fire, in folders of their own.

    python benchmarks/soak_doors.py kill --count 160 update, refine, report and predict are killed; every
    file is old or new python benchmarks/soak_doors.py signal --count 40 SIGTERM and SIGHUP during a fit: a
    valid model, or none python benchmarks/soak_doors.py together --count 40 two fits on one checkpoint:
    one is done, and resumes python benchmarks/soak_doors.py places --count 200 pipes, devices, sockets,
    links and permissions where files should go python benchmarks/soak_doors.py memory --count 60 fits
    under RLIMIT_AS: done, or MemoryLimitError python benchmarks/soak_doors.py predict --count 10000 the
    same answers, and no memory lost

Each prints what it did and a line VIOLATION for whatever went wrong, and fails if there was any.
"""

import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from itergp import IterGPRegressor, StorageError
from itergp.datasets import synthetic
from itergp.report import numbers, write_page
from itergp.tables import write_table
from soak import Tally, run

ITERGP = [sys.executable, "-m", "itergp.cli"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def itergp(*arguments, **more):
    return subprocess.run(
        [*ITERGP, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, **more
    )


def write_rows(path, n, seed=0, d=3):
    X, y = synthetic(n, d, seed=seed)
    write_table(path, {**{f"x{j}": X[:, j] for j in range(d)}, "y": y})


def temporary_files(folder):
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


# kill -9 at any moment of a command that replaces a file.


def kill(count, seed=0, n=1500):
    """After a kill the file is the old one or the new one, to the byte where it is a model; and the same
    command then works."""
    tally, rng = Tally(), np.random.default_rng([seed, 6])
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        whole.mkdir()
        write_rows(whole / "train.csv", n)
        write_rows(whole / "more.csv", n // 5, seed=1)
        made = itergp("fit", "train.csv", "--target", "y", "--budget", "100 actions", cwd=whole)
        if made.returncode:
            raise RuntimeError(made.stderr)
        (whole / "model.itergp").chmod(0o600)
        for i in range(count):
            name, (arguments, out) = list(KILLED.items())[i % len(KILLED)]
            _kill_one(tally, rng, name, arguments, out, whole, Path(folder) / "killed")
    return tally


KILLED = {
    "update": (("update", "model.itergp", "more.csv", "--budget", "50 actions"), "model.itergp"),
    "refine": (("refine", "model.itergp", "--budget", "50 actions"), "model.itergp"),
    "report": (("report", "model.itergp", "--data", "more.csv"), "model.html"),
    "predict": (("predict", "model.itergp", "more.csv", "--out", "predicted.csv"), "predicted.csv"),
}
_EXPECTED = {}  # what each command leaves when nobody kills it, and how long it takes


def _kill_one(tally, rng, name, arguments, out, whole, folder):
    if name not in _EXPECTED:
        shutil.copytree(whole, folder)
        begun = time.perf_counter()
        found = itergp(*arguments, cwd=folder)
        _EXPECTED[name] = _meaning(folder / out), time.perf_counter() - begun
        if found.returncode:
            raise RuntimeError(found.stderr)
        shutil.rmtree(folder)
    new, lasts = _EXPECTED[name]
    shutil.copytree(whole, folder)
    old = _meaning(folder / out)
    with subprocess.Popen(
        [*ITERGP, *arguments], cwd=folder, env=ENVIRONMENT, stdout=-3, stderr=-3
    ) as process:
        time.sleep(rng.uniform(0.3, 1.05) * lasts)
        process.send_signal(signal.SIGKILL)
    found = _meaning(folder / out)
    tally[
        f"{name}: the {'new' if found == new else 'old'} file"
        if found in (old, new)
        else f"VIOLATION {name}: another file"
    ] += 1
    tally[f"{name}: a temporary file was left"] += bool(temporary_files(folder))
    if (folder / "model.itergp").stat().st_mode & 0o777 != 0o600:
        tally[f"VIOLATION {name}: others may read the model"] += 1
    if found == old:
        again = itergp(*arguments, cwd=folder)
        if again.returncode or _meaning(folder / out) != new or temporary_files(folder):
            tally[
                f"VIOLATION {name}: afterwards {again.returncode}, {again.stderr[-200:]}, "
                f"{temporary_files(folder)}"
            ] += 1
    shutil.rmtree(folder)


def _meaning(path):
    """What a file says: predictions of a model, the text of others without the time of day."""
    if not path.exists():
        return None
    if path.suffix == ".itergp":
        X, _ = synthetic(20, 3, seed=2)
        mean, std = IterGPRegressor.load(path).predict(X, return_std=True)
        return mean.tobytes() + std.tobytes()
    return (
        path.suffix
        if path.suffix == ".html" and path.read_text().rstrip().endswith("</html>")
        else path.read_bytes()
    )


# Signals that ask a program to end.


def signal_fit(count, seed=0, n=6000, longest=9.0):
    """SIGTERM or SIGHUP: the exit code says so, and the model is one that predicts, or the one that was
    there before."""
    tally, rng = Tally(), np.random.default_rng([seed, 7])
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_rows(folder / "train.csv", n)
        for i in range(count):
            number = (signal.SIGTERM, signal.SIGHUP)[i % 2]
            (folder / "model.itergp").write_text("old")
            command = [*ITERGP, "fit", "train.csv", "--target", "y", "--budget", "3000 actions"]
            with subprocess.Popen(
                command, cwd=folder, env=ENVIRONMENT, stdout=-1, stderr=-2, text=True
            ) as process:
                time.sleep(rng.uniform(0.1, longest))
                process.send_signal(number)
                asked = time.perf_counter()
                said, _ = process.communicate()
            waited = time.perf_counter() - asked
            content = (folder / "model.itergp").read_bytes()
            what = f"{number.name}: {'the old file stays' if content == b'old' else 'a model that predicts'}"
            try:
                good = content == b"old" or np.isfinite(
                    IterGPRegressor.load(folder / "model.itergp").predict(np.zeros((1, 3)))
                )
            except Exception as error:
                good, said = False, f"{type(error).__name__}: {error}"
            # before there was anything to save
            early = content == b"old" and process.returncode in (-number, 128 + number, 130)
            good = bool(good) and "Traceback" not in said and (early or content != b"old") and waited < 10
            tally[
                what
                if good
                else f"VIOLATION {what}, exit code {process.returncode}, {waited:.1f} s: {said[-200:]}"
            ] += 1
    return tally


# Two fits on one checkpoint.

BOTH = """
import sys
from itergp import IterGPRegressor, StorageError
from itergp.datasets import synthetic
X, y = synthetic(800, 2)
model = IterGPRegressor(noise=0.1, learn=False, policy="cg", budget="80 actions", checkpoint=sys.argv[1])
sys.stdin.readline()
try:
    print(model.fit(X, y).trace_.resumed_from)
except StorageError as error:
    print("refused" if "in use by another fit, in process" in str(error) else error)
"""


def together(count, seed=0):
    """Both begin at once: each is done, or refused by the number of the other; a third one resumes at the
    end."""
    tally = Tally()
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", BOTH, str(Path(folder) / "fit")]
            both = [
                subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=ENVIRONMENT) for _ in range(2)
            ]
            for process in both:
                process.stdin.write("go\n")
                process.stdin.flush()
            said = sorted(process.communicate()[0].strip() for process in both)
            again = subprocess.run(
                command, input="go\n", capture_output=True, text=True, env=ENVIRONMENT
            ).stdout.strip()
        good = again == "80" and said in (["0", "refused"], ["0", "80"])
        tally[
            f"the fits said {' and '.join(said)}, the third resumed"
            if good
            else f"VIOLATION {said}, then {again}"
        ] += 1
    return tally


# What may stand where a file should go.


def _pipe(path):
    os.mkfifo(path)


def _device(path):
    """A node that stands for no device (0:0 is none), in a folder of our own."""
    if os.geteuid() == 0:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    else:
        os.mkfifo(path)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


def _link(path):
    real = path.with_name("real" + path.suffix)
    real.write_bytes(b"old")
    real.chmod(0o640)
    path.symlink_to(real.name)


def _private(path):
    path.write_bytes(b"old")
    path.chmod(0o600)


def _locked(path):
    path.write_bytes(b"old")
    path.chmod(0o444)


PLACES = {
    "pipe": _pipe,
    "device": _device,
    "socket": _socket,
    "folder": Path.mkdir,
    "link": _link,
    "private": _private,
}
PLACES["locked"] = _locked
DOORS = {
    "save": lambda model, path: model.save(path),
    "report": lambda model, path: write_page(path, numbers(model.fit_)),
    "table": lambda model, path: write_table(path, {"mean": np.ones(3)}),
}


def places(count, seed=0):
    """Only ordinary files are replaced, where one may write; links stay links, and files keep mode and
    owner."""
    tally = Tally()
    X, y = synthetic(40, 2)
    model = IterGPRegressor(noise=0.05, learn=False, budget="6 actions").fit(X, y)
    for i in range(count):
        place = list(PLACES)[i % len(PLACES)]
        door = list(DOORS)[i // len(PLACES) % len(DOORS)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("out.csv" if door == "table" else "out")
            PLACES[place](path)
            before = os.lstat(path), os.stat(path)
            try:
                DOORS[door](model, path)
                done = True
            except (StorageError, OSError):
                done = False
            after = os.lstat(path), os.stat(path)
            same = all(
                (a.st_mode, a.st_uid, a.st_gid, a.st_rdev) == (b.st_mode, b.st_uid, b.st_gid, b.st_rdev)
                for a, b in zip(before, after, strict=True)
            )
            good = same and done == (place in ("link", "private")) and not temporary_files(folder)
        what = f"{place}: {'written, as it was' if done else 'refused'}"
        tally[what if good else f"VIOLATION {door} to {place}: {what}, same {same}"] += 1
    return tally


# Little memory.

LIMITED = """
import resource, sys
size = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (size, size))
import json, warnings
warnings.simplefilter("ignore")
try:
    from itergp import IterGPRegressor, MemoryLimitError
    from itergp.datasets import synthetic
except (ImportError, MemoryError) as error:  # libraries that do not fit
    print(json.dumps("no room for the libraries"))
    sys.exit()
X, y = synthetic(int(sys.argv[2]), 5)
try:
    model = IterGPRegressor(budget="200 actions").fit(X, y)
    ok = bool((model.predict(X[:10], return_std=True)[1] > 0).all())
    print(json.dumps("fitted" if ok else "VIOLATION"))
except MemoryLimitError as error:
    print(json.dumps("MemoryLimitError"))
"""


def memory(count, seed=0):
    """From 300 MB of addresses to 6 GB: a fit is done, or ends in MemoryLimitError; no signal, no foreign
    error."""
    tally, rng = Tally(), np.random.default_rng([seed, 8])
    for _ in range(count):
        size, n = int(3e8 * 20 ** rng.uniform()), int(rng.choice([500, 3000, 20000]))
        arguments = [sys.executable, "-c", LIMITED, str(size), str(n)]
        found = subprocess.run(arguments, capture_output=True, text=True, env=ENVIRONMENT)
        try:
            what = json.loads(found.stdout)
        except ValueError:
            what = (
                f"VIOLATION {size / 1e6:.0f} MB, n = {n}: exit code {found.returncode}, {found.stderr[-300:]}"
            )
        tally[what] += 1
    return tally


# Predictions, one after the other.


def predict(count, seed=0, n=3000):
    """A model that serves: the same bits for the same rows, and resident memory that does not grow."""
    tally, rng = Tally(), np.random.default_rng([seed, 9])
    X, y = synthetic(n + 500, 4)
    model = IterGPRegressor(budget="100 actions").fit(X[:n], y[:n])
    expected = [a.tobytes() for a in model.predict(X[n : n + 1], return_std=True)]
    model.predict(X[n:], return_std=True)
    sizes, seconds = [], []
    for i in range(count):
        rows = X[n : n + 1] if i % 2 else X[n + rng.integers(0, 500, int(rng.integers(1, 50)))]
        begun = time.perf_counter()
        found = model.predict(rows, return_std=True)
        seconds.append(time.perf_counter() - begun)
        if i % 2 and [a.tobytes() for a in found] != expected:
            tally["VIOLATION other bits"] += 1
        tally["predicted"] += 1
        if i % max(1, count // 10) == 0:
            sizes.append(resident())
    first, last = np.median(seconds[: count // 10]), np.median(seconds[-count // 10 :])
    tally[
        f"(RSS {sizes[0] / 1e6:.0f} MB, then {sizes[-1] / 1e6:.0f} MB; {1e3 * first:.1f} ms a call, then "
        f"{1e3 * last:.1f} ms)"
    ] = count
    if sizes[-1] > sizes[len(sizes) // 5] + 50e6:
        tally[f"VIOLATION memory grows: {[round(size / 1e6) for size in sizes]} MB"] += 1
    return tally


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


COMMANDS = {
    "kill": (kill, 160),
    "signal": (signal_fit, 40),
    "together": (together, 40),
    "places": (places, 200),
    "memory": (memory, 60),
    "predict": (predict, 10000),
}

if __name__ == "__main__":
    run(COMMANDS, __doc__)

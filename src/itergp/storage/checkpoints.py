"""Checkpoints of a fit in progress: immutable files, and a manifest that lists them and is replaced
atomically.

Whenever the process ends, the manifest lists complete files, and the next one starts from them. A lock that
ends with its process keeps out a second fit. Files of others are not touched: a deleted file was listed in
the manifest, or carries the random number that the manifest has for this checkpoint.
"""

import contextlib
import json
import os
import re
import secrets
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from itergp.errors import ItergpError, StorageError, StorageWarning
from itergp.solver.problem import Problem
from itergp.solver.state import State
from itergp.storage.files import Malformed, Tensors, array_digest, read, read_text, reading, write, write_text
from itergp.storage.locks import Busy, Foreign, Held, hold
from itergp.storage.replacing import sweep
from itergp.storage.specs import decode, describe, encode, json_value, putting, table
from itergp.storage.states import columns, head_value, restored_state

MANIFEST = "manifest.json"
SECONDS = 3.0  # between two checkpoints
SHARE = 5  # and at least this multiple of the time the last one took
LOCK = ".itergp-lock"
_FIELDS = ("segments", "state", "memory", "problem")  # fields of a manifest, in addition to the caller's
_FILE = re.compile(r"(columns|state|memory)-[0-9a-f]{16}(-[0-9a-f]{8})?\.safetensors")


class NotOurs(StorageError):  # noqa: N818 (a kind of it, for `_attempt`)
    """A checkpoint that is in use by another fit, belongs to another fit, or has an invalid lock."""


def fingerprint(problem: Problem, policy: Any, seed: int = 0, **more: Any) -> dict[str, Any]:
    """The identity of a fit, field by field; `more` are further fields, anything that can be stored."""
    return {
        **_identity(problem, policy),
        "seed": int(seed),
        "dtype": problem.gram.dtype.name,
        "engine": problem.gram.engine.name,
        **{name: describe(value, name) for name, value in more.items()},
    }


def _identity(problem: Problem, policy: Any) -> dict[str, Any]:
    """What a state must match, or results computed from it would be wrong."""
    return {
        "X": array_digest(problem.X),
        "y": array_digest(problem.y),
        "noise": describe(problem.noise, "noise"),
        "kernel": describe(problem.prior.kernel, "kernel"),
        "mean": describe(problem.prior.mean_function, "mean"),
        "policy": describe(policy, "policy"),
    }


class Checkpoint:
    """A folder in which a fit stores what it has computed. One folder serves one fit at a time.

        with Checkpoint("folder", fingerprint(problem, policy, seed)) as checkpoint:
            state = checkpoint.resume(problem, policy)  # None if there is nothing to resume
            state = solve(problem, policy, stop, state, seed, callback=checkpoint.write)
            checkpoint.write_now(state)

    From its first read or write until `close`, the end of the `with` block or the end of the process, the
    folder is locked: another fit that tries to use it gets a StorageError that names this process.

    `write` is cheap to call after every step: it writes after the first one, and then every few seconds (with
    `every=0` always). If it cannot, because the disk is full or the folder is read-only, it warns once, the
    fit continues, and the last checkpoint is kept. `resumed_at` is the number of actions found. What is
    passed to `note`, such as hyper-parameters learned before the first step, is stored in the manifest too,
    and is available as `about` after `resume`.
    """

    def __init__(
        self, path: str | PathLike[str], fingerprint: dict[str, Any], every: float = SECONDS
    ) -> None:
        self.path, self.every = Path(path), every
        self.fingerprint: dict[str, Any] = json_value("fingerprint", fingerprint)
        self.about: dict[str, Any] = {}
        self.resumed_at: int | None = None
        # the last one
        self._manifest: dict[str, Any] = {"segments": [], "state": None, "memory": None, "problem": None}
        self._last: State | None = None  # the state in it, if this object wrote or read it
        self._next = 0.0  # when the next one is due
        self._warned = False
        self._number = secrets.token_hex(8)  # in the names of all new files; stored in the manifest
        self._lock: Held | None = None
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"checkpoint {self.path} is a file; expected a folder, or an unused name.")

    # One fit at a time.

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder, so that another fit may use it."""
        if self._lock is not None:
            self._lock.release()

    def _hold(self) -> None:
        """Lock the folder; NotOurs if another fit holds it, OSError if it cannot be locked."""
        path = self.path / LOCK
        if self._lock is not None and self._lock.is_at(path):
            return
        try:
            held = hold(path)
        except Foreign as what:
            raise NotOurs(
                f"checkpoint {self.path} cannot be locked: {LOCK} in it is {what}, not a lock of this "
                "library. Move it away, or give another folder."
            ) from None
        except Busy as holder:
            raise NotOurs(
                f"checkpoint {self.path} is in use by another fit, in {holder}. Wait until that one ends, "
                "end it, or give another folder. (In a program of your own: close() its Checkpoint.)"
            ) from None
        self.close()  # a lock on a folder that was deleted
        self._lock = held
        weakref.finalize(self, held.release)

    def _hold_if_possible(self) -> None:
        """What cannot be locked, such as a read-only folder, cannot be written either, but it can be read."""
        try:
            self._hold()
        except NotOurs:
            raise
        except OSError:
            pass

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Errors say what to do, and release the folder: a kept traceback keeps this object alive."""
        try:
            with reading(self.path / MANIFEST):
                yield
        except BaseException as error:
            self.close()
            if isinstance(error, StorageError) and not isinstance(error, NotOurs):
                raise StorageError(
                    f"{error} To start from the beginning, delete the folder {self.path}."
                ) from error.__cause__
            raise

    # Writing.

    def write(self, state: State) -> None:
        """After a step: write a checkpoint if one is due; never for a step without a usable action."""
        if state.idle == 0 and time.perf_counter() >= self._next:
            self.write_now(state)

    def write_now(self, state: State) -> None:
        """Write a checkpoint of this state."""
        begun = time.perf_counter()
        if self._attempt(lambda new: self._put_state(state, new)):
            self._last = state
        now = time.perf_counter()
        self._next = now + max(self.every, SHARE * (now - begun)) if self.every else now

    def note(self, about: dict[str, Any]) -> None:
        """Store this in the manifest from now on: what a fit knows before its first step."""
        self.about = json_value("about", about)
        self._attempt(lambda new: self._manifest)

    def _attempt(self, put: Callable[[list[str]], dict[str, Any]]) -> bool:
        """Write new files, then the manifest that lists them, then delete the old ones. True on success."""
        new: list[str] = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._hold()
            # so that files without a manifest can be recognised as ours if this process is killed
            if not (self.path / MANIFEST).exists():
                self._write_manifest(self._manifest)
            before, manifest = self._manifest, put(new)
            self._write_manifest(manifest)
        except (OSError, MemoryError, ItergpError) as error:
            if isinstance(error, NotOurs) and self._lock is None:  # at the start; later the fit continues
                raise
            self._remove(new)
            self._warn(error)
            return False
        ours = re.compile(rf"(?:columns|state|memory)-{self._number}-[0-9a-f]{{8}}\.safetensors")
        found = {name for name in os.listdir(self.path) if ours.fullmatch(name)}
        self._remove(sorted((found | _named(before)) - _named(manifest)))
        sweep(self.path, ours.pattern)
        return True

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        own = {"fingerprint": self.fingerprint, "about": self.about, "number": self._number}
        write_text(self.path / MANIFEST, "checkpoint", {**manifest, **own})
        self._manifest = manifest

    def _put_state(self, state: State, new: list[str]) -> dict[str, Any]:
        old = self._manifest if self._continues(state) else {"segments": [], "memory": None, "problem": None}
        segments, start, stop = (
            list(old["segments"]),
            sum(entry["columns"] for entry in old["segments"]),
            state.basis.size,
        )
        if stop > start:
            segments.append(
                {
                    **self._put("columns", None, columns(state.belief, start, stop), new),
                    "columns": stop - start,
                }
            )
        memory = old["memory"]
        if self._last is None or memory is None or state.memory is not self._last.memory:
            tensors = Tensors()
            memory = self._put("memory", encode(state.memory, putting(tensors), "state.memory"), tensors, new)
        tensors = Tensors()
        head = self._put("state", head_value(state, tensors), tensors, new)
        problem = old["problem"] if self._last and self._last.policy is state.policy else None
        return {
            "segments": segments,
            "state": head,
            "memory": memory,
            "problem": problem or _identity(state.problem, state.policy),
        }

    def _continues(self, state: State) -> bool:
        """Whether the files on disk are a prefix of this state."""
        old = self._last
        if old is None or old.problem is not state.problem or old.basis.size > state.basis.size:
            return False
        size = old.basis.size
        return np.array_equal(old.z, state.z[:size]) and np.array_equal(old.tau, state.tau[:size])

    def _put(self, kind: str, value: Any, tensors: Tensors, new: list[str]) -> dict[str, Any]:
        name = f"{kind}-{self._number}-{secrets.token_hex(4)}.safetensors"
        new.append(name)
        return {"file": name, "digest": write(self.path / name, kind, value, tensors)}

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # an extra file does no harm
                (self.path / name).unlink(missing_ok=True)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            reason = getattr(error, "strerror", None) or error
            warnings.warn(
                f"The checkpoint in {self.path} cannot be written ({reason}). The fit continues, and the "
                "last one, if any, is kept; further failures are not reported.",
                StorageWarning,
                stacklevel=4,
            )

    # Reading.

    def resume(self, problem: Problem, policy: Any) -> State | None:
        """The state to continue from, or None if there is none; StorageError if it belongs to another fit, is
        damaged, or is in use.

        None, with a warning, also if files listed in the manifest are missing.
        """
        manifest = self.read_manifest()
        if manifest is None or manifest["state"] is None or self._lacks_files():
            return None
        with self._reading():
            value, head = self._get("state", manifest["state"])
            acting = policy if value["entered"] else None
            self._check(manifest["problem"], _identity(problem, acting))
            spec, memory = self._get("memory", manifest["memory"])
            segments = (self._get("columns", entry)[1] for entry in manifest["segments"])  # one at a time
            state = restored_state(problem, value, head, segments, acting, decode(spec, memory, table()))
        self._last, self.resumed_at = state, state.rank
        return state

    def read_manifest(self) -> dict[str, Any] | None:
        """The manifest, if there is one and it belongs to this fit; `about` is then what was noted."""
        path = self.path / MANIFEST
        if self.path.is_dir():
            self._hold_if_possible()
        if not path.exists():
            return None
        with self._reading():
            manifest = read_text(path, "checkpoint")
            self._check(manifest["fingerprint"], self.fingerprint)
            found = {name: manifest[name] for name in _FIELDS}
            for name in _named(found):
                if not _FILE.fullmatch(name):
                    raise Malformed(f"it lists the file {name!r}, which is not a checkpoint file.")
            number = str(manifest.get("number", self._number))  # earlier versions had none
            if not re.fullmatch("[0-9a-f]{16}", number):
                raise Malformed(f"its number is {number!r}; expected 16 digits.")
            self.about, self._manifest, self._number = manifest["about"], found, number
        return manifest

    def _lacks_files(self) -> bool:
        missing = sorted(name for name in _named(self._manifest) if not (self.path / name).exists())
        if missing:
            warnings.warn(
                f"The checkpoint in {self.path} lacks {len(missing)} of its files, such as {missing[0]}: "
                "they were deleted, or two fits of an earlier version wrote into it at once. The fit starts "
                "over.",
                StorageWarning,
                stacklevel=3,
            )
        return bool(missing)

    def _get(self, kind: str, entry: Any) -> tuple[Any, Tensors]:
        value, tensors, digest = read(self.path / entry["file"], kind)
        if digest != entry["digest"]:
            raise Malformed(f"the file {entry['file']} is not the one that was written.")
        return value, tensors

    def _check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        for field in sorted(there.keys() | here.keys()):
            if there.get(field) != here.get(field):
                raise NotOurs(
                    f"checkpoint {self.path} belongs to another fit: its {field} differs "
                    f"({_short(there.get(field))} there, {_short(here.get(field))} here). Give another "
                    "folder, or delete this one to start over."
                )


def _named(manifest: dict[str, Any]) -> set[str]:
    """The files listed in a manifest."""
    return {
        entry["file"] for entry in (*manifest["segments"], manifest["state"], manifest["memory"]) if entry
    }


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}..."

"""Checkpoints of a fit under way: immutable files of what was computed, and a manifest that names them, replaced at once.

Whenever the process ends, the manifest that is there names files that are whole; the next one starts from them.
"""

import contextlib
import json
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from itergp.errors import ItergpError, StorageError, StorageWarning
from itergp.solver.problem import Problem
from itergp.solver.state import State
from itergp.storage.files import Malformed, Tensors, array_digest, read, read_text, reading, write, write_text
from itergp.storage.specs import decode, describe, encode, json_value, putting, table
from itergp.storage.states import columns, head_value, restored_state

MANIFEST = "manifest.json"
SECONDS = 3.0  # between two checkpoints
SHARE = 5  # and at least so many times what the last one took
_OWN_FILES = re.compile(r"(columns|state|memory)-[0-9a-f]{16}\.safetensors|\..*\.[0-9a-f]{8}\.tmp")


_FIELDS = ("segments", "state", "memory", "problem")  # of a manifest, beside those of the caller


def fingerprint(problem: Problem, policy: Any, seed: int = 0, **more: Any) -> dict[str, Any]:
    """What makes a fit this fit and no other, field by field; `more` are further fields, anything that can be stored."""
    return {
        **_identity(problem, policy),
        "seed": int(seed),
        "dtype": problem.gram.dtype.name,
        "engine": problem.gram.engine.name,
        **{name: describe(value, name) for name, value in more.items()},
    }


def _identity(problem: Problem, policy: Any) -> dict[str, Any]:
    """What a state must belong to, or what follows from it would be wrong."""
    return {
        "X": array_digest(problem.X),
        "y": array_digest(problem.y),
        "noise": describe(problem.noise, "noise"),
        "kernel": describe(problem.prior.kernel, "kernel"),
        "mean": describe(problem.prior.mean_function, "mean"),
        "policy": describe(policy, "policy"),
    }


class Checkpoint:
    """A folder in which a fit keeps what it has computed. One folder serves one fit at a time.

        checkpoint = Checkpoint("folder", fingerprint(problem, policy, seed))
        state = checkpoint.resume(problem, policy)  # None where there is nothing to resume
        state = solve(problem, policy, stop, state, seed, callback=checkpoint.write)
        checkpoint.write_now(state)

    `write` is cheap to call after every step: it writes after the first one, and then every few seconds (with `every=0`
    always). When it cannot, because the disk is full or the folder read-only, it warns once, the fit goes on, and the last
    checkpoint stays. `resumed_at` is the number of actions that were found. What `note` is given, such as hyper-parameters
    that were learned before the first step, is kept in the manifest too, and is found in `about` after `resume`.
    """

    def __init__(self, path: str | PathLike[str], fingerprint: dict[str, Any], every: float = SECONDS) -> None:
        self.path, self.every = Path(path), every
        self.fingerprint: dict[str, Any] = json_value("fingerprint", fingerprint)
        self.about: dict[str, Any] = {}
        self.resumed_at: int | None = None
        self._manifest: dict[str, Any] = {"segments": [], "state": None, "memory": None, "problem": None}  # the last one
        self._last: State | None = None  # the state in it, where this object wrote or read it
        self._next = 0.0  # when it is time again
        self._warned = False
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"checkpoint {self.path} is a file; expected a folder, or a name that is free.")

    # Writing.

    def write(self, state: State) -> None:
        """After a step: a checkpoint, if it is time. A step of which nothing could be used is left to the next one."""
        if state.idle == 0 and time.monotonic() >= self._next:
            self.write_now(state)

    def write_now(self, state: State) -> None:
        """A checkpoint of this state."""
        begun = time.monotonic()
        if self._attempt(lambda new: self._put_state(state, new)):
            self._last = state
        now = time.monotonic()
        self._next = now + max(self.every, SHARE * (now - begun)) if self.every else now

    def note(self, about: dict[str, Any]) -> None:
        """Keep this in the manifest from now on: what a fit knows before its first step, such as what it learned."""
        self.about = json_value("about", about)
        self._attempt(lambda new: self._manifest)

    def _attempt(self, put: Callable[[list[str]], dict[str, Any]]) -> bool:
        """New files, then the manifest that names them, then away with what no manifest names. True when all went well."""
        new: list[str] = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            manifest = put(new)
            write_text(self.path / MANIFEST, "checkpoint", {**manifest, "fingerprint": self.fingerprint, "about": self.about})
            self._manifest = manifest
        except (OSError, MemoryError, ItergpError) as error:
            self._remove(new)
            self._warn(error)
            return False
        named = {entry["file"] for entry in (*manifest["segments"], manifest["state"], manifest["memory"]) if entry}
        self._remove([name for name in os.listdir(self.path) if _OWN_FILES.fullmatch(name) and name not in named])
        return True

    def _put_state(self, state: State, new: list[str]) -> dict[str, Any]:
        old = self._manifest if self._continues(state) else {"segments": [], "memory": None, "problem": None}
        segments, start, stop = list(old["segments"]), sum(entry["columns"] for entry in old["segments"]), state.basis.size
        if stop > start:
            segments.append({**self._put("columns", None, columns(state, start, stop), new), "columns": stop - start})
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
        """Whether what is on the disk is the beginning of this state."""
        old = self._last
        if old is None or old.problem is not state.problem or old.basis.size > state.basis.size:
            return False
        size = old.basis.size
        return np.array_equal(old.z, state.z[:size]) and np.array_equal(old.tau, state.tau[:size])

    def _put(self, kind: str, value: Any, tensors: Tensors, new: list[str]) -> dict[str, Any]:
        name = f"{kind}-{secrets.token_hex(8)}.safetensors"
        new.append(name)
        return {"file": name, "digest": write(self.path / name, kind, value, tensors)}

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # a file too many does no harm
                (self.path / name).unlink(missing_ok=True)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            reason = getattr(error, "strerror", None) or error
            warnings.warn(
                f"The checkpoint in {self.path} cannot be written ({reason}). The fit goes on, and the last checkpoint, if there "
                "is one, stays; further failures are not reported.",
                StorageWarning,
                stacklevel=4,
            )

    # Reading.

    def resume(self, problem: Problem, policy: Any) -> State | None:
        """The state to go on from, or None where there is none; StorageError where it is another fit's, or damaged."""
        manifest = self.read_manifest()
        if manifest is None or manifest["state"] is None:
            return None
        with reading(self.path / MANIFEST):
            value, head = self._get("state", manifest["state"])
            acting = policy if value["entered"] else None
            self._check(manifest["problem"], _identity(problem, acting))
            spec, memory = self._get("memory", manifest["memory"])
            segments = [self._get("columns", entry)[1] for entry in manifest["segments"]]
            state = restored_state(problem, value, head, segments, acting, decode(spec, memory, table()))
        self._last, self.resumed_at = state, state.rank
        return state

    def read_manifest(self) -> dict[str, Any] | None:
        """What the manifest says, if there is one and it is of this fit; `about` is then what was noted."""
        path = self.path / MANIFEST
        if not path.exists():
            return None
        manifest = read_text(path, "checkpoint")
        with reading(path):
            self._check(manifest["fingerprint"], self.fingerprint)
            self.about, self._manifest = manifest["about"], {name: manifest[name] for name in _FIELDS}
        return manifest

    def _get(self, kind: str, entry: Any) -> tuple[Any, Tensors]:
        value, tensors, digest = read(self.path / entry["file"], kind)
        if digest != entry["digest"]:
            raise Malformed(f"the file {entry['file']} is not the one that was written.")
        return value, tensors

    def _check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        for field in sorted(there.keys() | here.keys()):
            if there.get(field) != here.get(field):
                raise StorageError(
                    f"checkpoint {self.path} belongs to another fit: its {field} differs ({_short(there.get(field))} there, "
                    f"{_short(here.get(field))} here). Give another folder, or delete this one to start anew."
                )


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}..."

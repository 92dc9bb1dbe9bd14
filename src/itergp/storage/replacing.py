"""The one function that replaces files: completely or not at all, and only files that may be replaced.

The new file is written next to the old one, which it replaces at the end: readers see either one or the
other. To behave like writing into the old file, links are followed, mode and owner are kept, and a read-only
file is rejected. Anything that is not an ordinary file, such as a device, is rejected too.
"""

import contextlib
import errno
import hashlib
import itertools
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from itergp.storage.locks import Held, alive, lock

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# of a temporary file: the process that writes it, its random number, and that of the file
_ENDING = r"\.(?P<pid>[1-9]\d{0,9})\.(?P<drawn>[0-9a-f]{4})[0-9a-f]{4}\.tmp"
LONGEST_STEM = 100  # bytes
_DRAWN, _FILES = secrets.token_hex(2), itertools.count()


def irregular(path: Path) -> str | None:
    """A description of what is there, if it is not an ordinary file; None if it is. OSError if nothing is
    there.

    Call this before opening a file: opening a named pipe waits for a writer, possibly forever.
    """
    mode = os.stat(path).st_mode
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something else")


def refusal(path: Path) -> str | None:
    """Why this name cannot be replaced by a new file; None if it can, or if nothing is there."""
    try:
        kind, mode = irregular(path), stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None
    if kind is not None:
        return f"it is {kind}, not an ordinary file. Give another name"
    if not mode & 0o222:  # root could write it nevertheless, but it was made read-only on purpose
        return f"it is read-only (mode {mode:03o}). Make it writable with chmod u+w, or give another name"
    if not os.access(path, os.W_OK):
        return f"you have no permission to write it (mode {mode:03o}). Give another name"
    return None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new, empty file next to `path`, which replaces it on success, and is removed on failure."""
    reason = refusal(path)
    if reason is not None:
        raise OSError(errno.EACCES, reason)
    path = Path(os.path.realpath(path))
    stem = _stem(path.name)
    sweep(path.parent, re.escape(stem))
    temporary = path.with_name(f".{stem}.{os.getpid()}.{_DRAWN}{next(_FILES) % 65536:04x}.tmp")
    held = Held(_created_like(path, temporary))
    try:
        lock(held.descriptor)  # so that cleaners find it
        yield temporary
        held.release()
        os.replace(temporary, path)
        _folder_to_disk(path.parent)
    finally:
        held.release()
        temporary.unlink(missing_ok=True)


def _stem(name: str) -> str:
    """The part of the name used for a temporary file: all of it, unless that would be too long."""
    text = os.fsencode(name)
    return name if len(text) <= LONGEST_STEM else hashlib.sha256(text).hexdigest()[:32]


def file_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file; OSError for the name of a folder, which `Path` would turn into that of a file."""
    if os.path.basename(os.fspath(path)) in ("", os.curdir, os.pardir) and os.fspath(path):
        raise OSError(errno.EISDIR, "it is the name of a folder. Give that of a file")
    return Path(path)


def _created_like(path: Path, temporary: Path) -> int:
    """An empty file with the mode and owner of the one at `path`, set before there is any content."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return os.open(temporary, flags, 0o666)
    descriptor = os.open(temporary, flags, 0o600)
    if hasattr(os, "fchown"):
        # if ownership cannot be transferred, we become the owner, if possible in the same group
        for owner in (old.st_uid, -1):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, owner, old.st_gid)
                break
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
    return descriptor


def sweep(folder: Path, name: str) -> None:
    """Remove files of this pattern left by killed processes, if the name proves it and nobody writes them."""
    own = re.compile(rf"\.(?:{name}){_ENDING}")
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            found = own.fullmatch(entry.name)
            if found and _is_dead(int(found["pid"]), found["drawn"]) and entry.is_file(follow_symlinks=False):
                _remove_unless_locked(entry.path)


def _is_dead(pid: int, drawn: str) -> bool:
    """Whether no process here writes files with these numbers. One with our own process id died before us,
    unless it drew the same number: in a container all have the id 1."""
    return drawn != _DRAWN if pid == os.getpid() else not alive(pid)


def _remove_unless_locked(path: str) -> None:
    """In folders shared by several machines, a process id may be that of another machine's. On a file system
    without locks this cannot be decided, so the file is kept."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if lock(descriptor, without_locks=False):
                os.unlink(path)
        finally:
            os.close(descriptor)


def _folder_to_disk(folder: Path) -> None:
    """Make the new name itself survive a power failure, if supported; the file is already in place."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""Locks on open files. They belong to one process and end with it, however it ends and whatever it forked."""

import contextlib
import os
import platform
import re
import stat
import sys
import weakref
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a byte beyond the end of any file: a locked byte cannot be read

    def lock(descriptor: int, without_locks: bool = True) -> bool:
        """Take the lock of an open file, without waiting; False if another process holds it."""
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)
        return True

    def _unlock(descriptor: int) -> None:
        pass  # released when the file is closed: nothing forks here

else:
    import fcntl

    def lock(descriptor: int, without_locks: bool = True) -> bool:
        """Take the lock of an open file, without waiting; False if another process holds it, and
        `without_locks` on a file system without locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return without_locks
        return True

    def _unlock(descriptor: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def alive(pid: int) -> bool:
    """Whether a process with this id may exist."""
    if sys.platform == "win32":
        return True  # asking would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or not a valid id
        return True
    return True


class Busy(Exception):  # noqa: N818 (a fact, which an error tells)
    """Another process holds the lock; the message says which, as far as is known."""


class Foreign(Exception):  # noqa: N818
    """The file with the lock's name is not one of our locks; the message says what it is."""


class Held:
    """An open file held by this process alone.

    A POSIX lock belongs to the open file, which forked children share: it would live as long as they do. So
    children close theirs, and here it is released explicitly, whatever copies exist.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        _ALL.add(self)

    def release(self) -> None:
        """Unlock and close; does nothing if that was done before, or if a parent holds it."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            _unlock(descriptor)
            os.close(descriptor)

    def is_at(self, path: Path) -> bool:
        """Whether the locked file still has that name: folders may be deleted while in use."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.lstat(path))
        except OSError:
            return False


_ALL: weakref.WeakSet[Held] = weakref.WeakSet()


def _close_in_child() -> None:
    for held in list(_ALL):
        descriptor, held.descriptor = held.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)  # unlocking would release the parent's lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


_WRITTEN = re.compile(rb"(\d+( [^\n]*\n?)?)?")  # the content of a lock file, possibly incomplete


def hold(path: Path) -> Held:
    """Open a file of this name, lock it, and write its holder into it. Busy if another process holds it,
    Foreign if it is something else, which is left unchanged; OSError if that fails."""
    descriptor = _opened(path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Foreign("no ordinary file")
        free, text = lock(descriptor), os.read(descriptor, 500)
        if not free:
            raise Busy(_holder(text.decode(errors="replace")))
        if not _WRITTEN.fullmatch(text):  # also if it is another name of a file elsewhere
            raise Foreign("a file of something else")
    except BaseException:
        os.close(descriptor)
        raise
    with contextlib.suppress(OSError):  # on a full disk the lock is held all the same
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid()} {platform.node()}\n".encode())
    return Held(descriptor)


def _opened(path: Path) -> int:
    """Symbolic links are not followed: whoever can place one would have its target overwritten."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, flags, 0o666)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                raise Foreign("a link") from None
            if not stat.S_ISREG(mode):
                raise Foreign("no ordinary file") from None
        raise


def _holder(text: str) -> str:
    pid, _, machine = text.strip().partition(" ")
    if not pid.isdecimal():
        return "another process"
    where = "" if machine in ("", platform.node()) else f" on {machine}"
    return "this process" if int(pid) == os.getpid() and not where else f"process {pid}{where}"

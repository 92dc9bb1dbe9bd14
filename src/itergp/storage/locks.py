"""Locks on open files. They belong to the process and end with it, however it ends."""

import contextlib
import os
import platform
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a byte that no file has: what is locked cannot be read

    def lock(descriptor: int) -> bool:
        """Take the lock of an open file, without waiting; False where somebody else holds it."""
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)
        return True

else:
    import fcntl

    def lock(descriptor: int) -> bool:
        """Take the lock of an open file, without waiting; False where somebody else holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: as before there were any
            return True
        return True


def alive(pid: int) -> bool:
    """Whether a process of this number may exist."""
    if sys.platform == "win32":
        return True  # asking would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's, or no such number
        return True
    return True


class Busy(Exception):  # noqa: N818 (a fact, which an error tells)
    """Somebody else holds the lock; says who, as far as is known."""


def hold(path: Path) -> int:
    """Open a file of this name, lock it, and write into it who holds it. Busy where another does; OSError
    where that fails."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not lock(descriptor):
            raise Busy(_holder(os.read(descriptor, 200).decode(errors="replace")))
    except BaseException:
        os.close(descriptor)
        raise
    with contextlib.suppress(OSError):  # on a full disk it is held all the same
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {platform.node()}\n".encode())
    return descriptor


def _holder(text: str) -> str:
    pid, _, machine = text.strip().partition(" ")
    if not pid.isdecimal():
        return "another process"
    where = "" if machine in ("", platform.node()) else f" on {machine}"
    return "this process" if int(pid) == os.getpid() and not where else f"process {pid}{where}"


def still_held(descriptor: int, path: Path) -> bool:
    """Whether the locked file still has that name: folders may be deleted while they are in use."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False

"""Locks on open files. They belong to the process and end with it, however it ends."""

import os
import sys

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

"""What there is to compute with: cores, and memory within what the machine has, its containers allow, and
this process may map.

Asked thousands of times in small runs: so files are read by the system's calls, and where they are is
found out once.
"""

import functools
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

UNKNOWN = 4 * 2**30  # what is assumed where the system tells nothing
PROC, CGROUPS = "/proc", "/sys/fs/cgroup"


class Group(NamedTuple):
    """The files of one control group; `idle` is the line of `stat` with the file cache that the kernel
    gives back first."""

    limit: str
    used: str
    stat: str
    idle: bytes


def available_bytes() -> int:
    """Memory that a new allocation may take: free memory and caches, within the limits of containers and
    of this process."""
    rooms = [
        room for room in (_machine(), *_process(), *map(_room, _groups(PROC, CGROUPS))) if room is not None
    ]
    return max(0, min(rooms, default=UNKNOWN))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def address_space() -> int | None:
    """What this process may still map; None where nothing limits it (`ulimit -v`, RLIMIT_AS)."""
    return min((room for room in _process() if room is not None), default=None)


def _machine() -> int | None:
    lines = _read(f"{PROC}/meminfo")
    if lines is not None:
        found = _value(lines, b"MemAvailable:")
        return None if found is None else found * 1024
    if not hasattr(os, "sysconf"):  # Windows
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):  # macOS
        return None


def _process() -> Iterator[int | None]:
    """Under RLIMIT_AS and RLIMIT_DATA: the limit, less what is mapped."""
    if sys.platform == "win32":
        return
    import resource

    limits = [
        (resource.getrlimit(resource.RLIMIT_AS)[0], 0),
        (resource.getrlimit(resource.RLIMIT_DATA)[0], 5),
    ]
    if all(limit == resource.RLIM_INFINITY for limit, _ in limits):
        return
    sizes = _read(f"{PROC}/self/statm")  # pages: all of them first, data and stack as the sixth
    for limit, place in limits:
        if sizes is not None and limit != resource.RLIM_INFINITY:
            yield limit - int(sizes.split()[place]) * resource.getpagesize()


def _room(group: Group) -> int | None:
    """Of a control group that has a limit: what it has not taken, and the caches that would be given back
    first."""
    limit = _number(group.limit)
    if limit is None or limit >= 2**62:  # without a limit, version 1 writes a number near 2^63
        return None
    used = _number(group.used)
    return None if used is None else limit - used + (_value(_read(group.stat) or b"", group.idle) or 0)


@functools.cache
def _groups(proc: str, cgroups: str) -> tuple[Group, ...]:
    """The control groups of this process that keep account of memory, and those around them, of versions 1
    and 2.

    A container may see the names that its groups have outside of it; then only the mounted root is there.
    """
    found = []
    for line in (_read(f"{proc}/self/cgroup") or b"").decode(errors="replace").splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            mounts, names = (
                ["memory"],
                ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
            )
        elif number == "0":
            mounts, names = ["", "unified"], ("memory.max", "memory.current", b"inactive_file")
        else:
            continue
        for mount in mounts:
            for folder in _upwards(os.path.join(cgroups, mount), path):
                if os.path.exists(f"{folder}/{names[0]}"):
                    found.append(
                        Group(
                            f"{folder}/{names[0]}", f"{folder}/{names[1]}", f"{folder}/memory.stat", names[2]
                        )
                    )
    return tuple(found)


def _upwards(mount: str, path: str) -> Iterator[str]:
    """The folder of a group, those around it, and the mounted root."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        yield "/".join([mount.rstrip("/"), *parts[:depth]])


def _read(path: str) -> bytes | None:
    """The start of a file of the kernel, which is made when it is read: several times faster than `open`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    try:
        return os.read(descriptor, 1 << 14)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _number(path: str) -> int | None:
    text = (_read(path) or b"").strip()
    return int(text) if text.isdigit() else None


def _value(lines: bytes, name: bytes) -> int | None:
    """The number behind a name at the start of a line."""
    words = (b"\n" + lines).partition(b"\n" + name + b" ")[2].split(maxsplit=1)
    return int(words[0]) if words and words[0].isdigit() else None

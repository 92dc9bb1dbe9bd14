"""Available resources: cores, and memory within the limits of the machine, its containers and this process.

Queried thousands of times in small runs: so files are read by system calls, and their paths are looked up
once.
"""

import functools
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

UNKNOWN = 4 * 2**30  # assumed if the system reports nothing
PROC, CGROUPS = "/proc", "/sys/fs/cgroup"


class Group(NamedTuple):
    """The files of one control group; `idle` is the line of `stat` with the file cache reclaimed first."""

    limit: str
    used: str
    stat: str
    idle: bytes


def available_bytes() -> int:
    """Memory available to a new allocation: free memory and caches, within container and process limits."""
    rooms = [
        room for room in (_machine(), *_process(), *map(_room, _groups(PROC, CGROUPS))) if room is not None
    ]
    return max(0, min(rooms, default=UNKNOWN))


def cores() -> int:
    """The number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def address_space() -> int | None:
    """Address space that this process may still map; None without a limit (`ulimit -v`, RLIMIT_AS)."""
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
    """Under RLIMIT_AS and RLIMIT_DATA: the limit minus what is mapped."""
    if sys.platform == "win32":
        return
    import resource

    limits = [
        (resource.getrlimit(resource.RLIMIT_AS)[0], 0),
        (resource.getrlimit(resource.RLIMIT_DATA)[0], 5),
    ]
    if all(limit == resource.RLIM_INFINITY for limit, _ in limits):
        return
    sizes = _read(f"{PROC}/self/statm")  # in pages: total size first, data and stack sixth
    for limit, place in limits:
        if sizes is not None and limit != resource.RLIM_INFINITY:
            yield limit - int(sizes.split()[place]) * resource.getpagesize()


def _room(group: Group) -> int | None:
    """For a control group with a limit: what is unused, and the caches that would be reclaimed first."""
    limit = _number(group.limit)
    if limit is None or limit >= 2**62:  # without a limit, version 1 writes a number near 2^63
        return None
    used = _number(group.used)
    return None if used is None else limit - used + (_value(_read(group.stat) or b"", group.idle) or 0)


@functools.cache
def _groups(proc: str, cgroups: str) -> tuple[Group, ...]:
    """The control groups of this process that account for memory, and their parents, of versions 1 and 2.

    A container may see the names that its groups have outside of it; then only the mounted root exists.
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
    """The folder of a group, its parents, and the mounted root."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        yield "/".join([mount.rstrip("/"), *parts[:depth]])


def _read(path: str) -> bytes | None:
    """The start of a kernel file, which is generated when read: several times faster than `open`."""
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
    """The number after a name at the start of a line."""
    words = (b"\n" + lines).partition(b"\n" + name + b" ")[2].split(maxsplit=1)
    return int(words[0]) if words and words[0].isdigit() else None

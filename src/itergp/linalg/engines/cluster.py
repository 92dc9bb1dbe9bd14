"""A Dask cluster: how to reach or start one, who works there, and whether they can work together.

Of Dask only `submit`, `scatter`, `result`, `add_done_callback`, `cancel` and `scheduler_info` are used. It is
an extra, loaded when a cluster is first asked for.
"""

import contextlib
import logging
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import itergp
from itergp.errors import ClusterError, InputError
from itergp.linalg.engines import registry
from itergp.linalg.engines.base import Tick, no_tick
from itergp.linalg.memory import cores

CONNECT = 10.0  # seconds until an address counts as unreachable
POLL = 0.1  # seconds between two ticks
ANSWER = 60.0  # seconds for a worker to say what it is: it imports this library first
INSTRUCTIONS = ("baseline", "avx2", "avx512")  # the least first
EXPECTED = "expected a dask.distributed Client, or the address of a scheduler such as 'tcp://host:8786'"

_clients: dict[str, Any] = {}  # by address: one connection for all engines of this process


def require_dask() -> None:
    """Raise if Dask is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError(
            "a cluster needs Dask's package distributed, which is not installed. Run pip install "
            "distributed, here and on all workers."
        ) from None


def client_of(given: Any) -> Any:
    """The client itself, or one connected to this address."""
    require_dask()
    from distributed import Client

    if isinstance(given, Client):
        if given.asynchronous:
            raise InputError(
                "client is asynchronous; expected one made with Client(..., asynchronous=False)."
            )
        return given
    if not isinstance(given, str) or not re.fullmatch(r"\w+://\S+", given):
        raise InputError(f"client is {given!r}; {EXPECTED}.")
    if given not in _clients or _clients[given].status != "running":
        _clients[given] = _connected(given)
    return _clients[given]


def _connected(address: str) -> Any:
    from distributed import Client

    try:
        return Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({error}). Start one with `dask scheduler`, and give "
            "the address that it prints."
        ) from None


@contextlib.contextmanager
def local_cluster(workers: int | None = None) -> Iterator[Any]:
    """A client of some processes on this machine, one thread each; they and their files end with it."""
    require_dask()
    import dask
    from distributed import Client, LocalCluster

    log = logging.getLogger("distributed")
    with _ended_by_signals() as deaf, contextlib.ExitStack() as stack:
        stack.callback(log.setLevel, log.level)
        folder = stack.enter_context(TemporaryDirectory(prefix="itergp-", ignore_cleanup_errors=True))
        with _unheard_by_children(), dask.config.set({"temporary-directory": folder}):
            started = LocalCluster(
                n_workers=workers or cores(),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,  # workers would write about every task that is cancelled
            )
        stack.enter_context(started)
        client = stack.enter_context(Client(started, set_as_default=False))
        stack.callback(deaf)
        try:
            yield client
        finally:  # a model may outlive its cluster: Dask would warn of data that go with the last worker
            log.setLevel(logging.CRITICAL)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[Callable[[], None]]:
    """SIGTERM and SIGHUP, which end a process at once, first end the block as Ctrl-C does, with all that it
    has started. Yields a function after whose call no signal is heard, so that nothing is left half ended."""
    main, heard = threading.current_thread() is threading.main_thread(), list[int]()
    found = {
        name: getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP", "SIGINT")
    }  # Windows lacks one
    before = {number: signal.getsignal(number) for number in found.values() if main and number is not None}
    default = [number for number, handler in before.items() if handler is signal.SIG_DFL]

    def end(number: int, _: Any) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    def deaf() -> None:
        for number, handler in before.items():
            if number in default or callable(handler):
                signal.signal(number, lambda *_: None)

    try:
        for number in default:
            signal.signal(number, end)
        yield deaf
    except KeyboardInterrupt:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        raise
    finally:
        for number, handler in before.items():
            if number in default or callable(handler):
                signal.signal(number, handler)


@contextlib.contextmanager
def cluster(text: str) -> Iterator[Any]:
    """A client for "local", "local:4" or an address; what was started here ends with the block."""
    match = re.fullmatch(r"local(?::([1-9]\d*))?", text)
    if match:
        with local_cluster(int(match[1]) if match[1] else None) as client:
            yield client
    else:
        yield client_of(text)


@contextlib.contextmanager
def _unheard_by_children() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C, which a terminal sends to all: it is for this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


# Who works there.


@dataclass(frozen=True)
class Worker:
    """A worker as the scheduler knows it, and what it says about itself."""

    address: str
    threads: int
    memory: int  # its limit in bytes; 0 if it has none
    versions: dict[str, str]
    instructions: str  # of its processor, the best that the native code knows; empty if that was not built


def workers(client: Any) -> dict[str, dict[str, Any]]:
    """What the scheduler knows of each worker, by address, in a fixed order.

    Asked again if not all are there: Dask itself asks now and then for none of them, and its answer may come
    between ours and us.
    """
    while True:
        if client.status != "running":
            raise lost_scheduler(client, "")
        try:
            told = client.scheduler_info(n_workers=-1)
            found = told["workers"]
        except (OSError, RuntimeError, TypeError, KeyError) as error:
            raise lost_scheduler(client, error) from None
        if len(found) == told.get("n_workers", len(found)):
            return dict(sorted(found.items()))


def awaited(future: Any, seconds: float, tick: Tick = no_tick) -> Any:
    """Its result, with ticks while it is not there; TimeoutError after some seconds."""
    end = time.monotonic() + seconds
    settled(future, seconds, tick)
    return fetched(future.result, end - time.monotonic(), tick)


def fetched(fetch: Callable[[], Any], seconds: float, tick: Tick = no_tick) -> Any:
    """What another thread fetches, with ticks meanwhile; TimeoutError after some seconds.

    A result whose worker dies before it has come is made again, or never, if nobody else may make it: Dask
    waits for that without an end, so we do not wait for Dask.
    """
    box: list[tuple[Any, BaseException | None]] = []
    done, end = threading.Event(), time.monotonic() + seconds

    def run() -> None:
        try:
            box.append((fetch(), None))
        except BaseException as error:
            box.append((None, error))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    while not done.wait(POLL):
        tick()
        if time.monotonic() > end:
            raise TimeoutError(f"no result after {seconds:.0f} s")
    found, error = box[0]
    if error is not None:
        raise error
    return found


def settled(future: Any, seconds: float, tick: Tick = no_tick) -> None:
    """Wait until it is done, or has failed, with ticks meanwhile; TimeoutError after some seconds.

    Not by `result(timeout=...)`, which fails in Dask itself if the result comes as the time ends.
    """
    done, end = threading.Event(), time.monotonic() + seconds
    future.add_done_callback(lambda _: done.set())
    while not done.wait(POLL):
        tick()
        if time.monotonic() > end:
            raise TimeoutError(f"no result after {seconds:.0f} s")


def lost_scheduler(client: Any, error: object) -> ClusterError:
    reason = next(iter(str(error or client.status).splitlines()), "")
    return ClusterError(
        f"The Dask scheduler has gone ({reason}). What was computed before is in the last "
        "checkpoint, if there is one: fit again with the same checkpoint, here or on another cluster."
    )


def here() -> dict[str, str]:
    """What this process is: run on each worker."""
    native = registry.native()
    instructions = ""
    if native:
        from itergp.linalg.engines.native import _tiles

        instructions = _tiles.instruction_sets()[0]
    return {
        "itergp": itergp.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "instructions": instructions,
    }


def described(client: Any, known: dict[str, Worker], tick: Tick = no_tick) -> dict[str, Worker]:
    """All workers of now; those that are not known yet are asked what they are."""
    found = workers(client)
    asked = {
        address: client.submit(here, workers=[address], pure=False)
        for address in found
        if address not in known
    }
    told = {address: known[address] for address in found if address in known}
    for address, future in asked.items():
        worker = _answer(client, found[address] | {"address": address}, future, tick)
        if worker:
            told[address] = worker
    return dict(sorted(told.items()))


def _answer(client: Any, known: dict[str, Any], future: Any, tick: Tick) -> Worker | None:
    """A worker with what it says; None if it has gone meanwhile, when nobody else may answer for it."""
    address = known["address"]

    def there() -> None:
        tick()
        if address not in workers(client):
            raise CancelledError

    try:
        said = awaited(future, ANSWER, there)
    except ImportError as error:
        raise ClusterError(
            f"Worker {address} cannot load this library ({error}). Install the same version there: pip "
            f"install 'itergp[dask]=={itergp.__version__}'."
        ) from None
    except TimeoutError:
        raise ClusterError(
            f"Worker {address} has not answered for {ANSWER:.0f} s. End what else runs there, or remove it."
        ) from None
    except (CancelledError, OSError):
        return None
    instructions = said.pop("instructions")
    return Worker(address, int(known["nthreads"]), int(known.get("memory_limit") or 0), said, instructions)


def mismatches(found: dict[str, Worker]) -> list[str]:
    """What keeps workers from working together with this process: sentences."""
    own, out = here(), []
    for worker in found.values():
        for name, exact in (("itergp", True), ("python", False)):
            theirs, ours = worker.versions[name], own[name]
            short = (lambda v: v) if exact else (lambda v: v.rpartition(".")[0])
            if short(theirs) != short(ours):
                out.append(f"worker {worker.address} has {name} {theirs}, and this process {ours}")
        if not worker.instructions:
            out.append(f"worker {worker.address} has no native engine: reinstall with a C++ compiler there")
    return out


def differences(found: dict[str, Worker]) -> list[str]:
    """What differs but does no harm: sentences."""
    out = []
    sets = sorted({worker.instructions for worker in found.values()})
    if len(sets) > 1:
        out.append(f"processors differ ({', '.join(sets)}): all use {lowest(found)}")
    numpys = sorted({here()["numpy"], *(worker.versions["numpy"] for worker in found.values())})
    if len(numpys) > 1:
        out.append(f"numpy differs ({', '.join(numpys)}): last digits may depend on who computes")
    return out


def lowest(found: dict[str, Worker]) -> str:
    """The instructions that all workers have."""
    return min((worker.instructions for worker in found.values()), key=INSTRUCTIONS.index)


def checked(client: Any, known: dict[str, Worker], tick: Tick = no_tick) -> dict[str, Worker]:
    """All workers of now; ClusterError if there are none, or if they cannot work together."""
    return matching(described(client, known, tick))


def matching(found: dict[str, Worker]) -> dict[str, Worker]:
    """The same workers; ClusterError if there are none, or if they cannot work together."""
    if not found:
        raise ClusterError("The cluster has no workers. Start some with `dask worker ADDRESS`.")
    wrong = mismatches(found)
    if wrong:
        raise ClusterError(f"The cluster does not match: {'; '.join(wrong)}. Install the same versions.")
    return found

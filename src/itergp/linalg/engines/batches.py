"""Independent batches of work on the workers of a cluster.

What all batches read is sent once, and then lies on each worker under a key of that worker: of several copies
under one key Dask's memory manager soon drops all but one. Which batches there are does not depend on the
workers, results come in the order of the batches, and sums are added in that order: so who computes what, and
when, changes no bit. What a dead worker had is made again; if all copies are lost, they are sent again.
"""

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from itergp.errors import ClusterError, MemoryLimitError
from itergp.linalg.engines import cluster
from itergp.linalg.engines.base import Tick
from itergp.linalg.engines.placement import ROOM, size
from itergp.linalg.engines.sums import in_order

TRIES = 5  # of work whose data were lost with a worker
AHEAD = 256  # batches that are sent at once


class Held:
    """A value on a worker, with its size in bytes as it was sent."""

    def __init__(self, value: Any, nbytes: int) -> None:
        self.value, self.nbytes = value, nbytes

    @staticmethod
    def of(value: Any) -> "Held":
        from distributed.protocol import serialize

        return Held(value, sum(memoryview(frame).nbytes for frame in serialize(value)[1]))

    def __sizeof__(self) -> int:
        return self.nbytes  # as Dask asks, before it moves work to where the data are not

    def copy(self) -> "Held":
        """Under another key; the value is shared where both lie on one worker."""
        return Held(self.value, self.nbytes)


# On a worker.


def called(function: Callable[[Any, Any], Any], shared: Held, piece: np.ndarray, instructions: str) -> Any:
    _choose(instructions)
    return function(shared.value, piece)


def summed_part(shared: Held, asked: Any, piece: tuple[np.ndarray, ...], instructions: str) -> np.ndarray:
    _choose(instructions)
    return shared.value.sums(asked, *piece)


def added(*parts: np.ndarray) -> np.ndarray:
    return in_order(parts)


def together(*values: Any) -> tuple[Any, ...]:
    return values


def _choose(instructions: str) -> None:
    """All workers of a cluster use the same instructions."""
    from itergp.linalg.engines.native import _tiles

    if _tiles.instruction_set() != instructions:
        _tiles.choose(instructions)


# In this process.


@dataclass
class Traffic:
    """Bytes of data between this process and the workers: without Dask's own messages."""

    sent: int = 0
    received: int = 0


Making = Callable[[], tuple[Any, list[tuple[np.ndarray, ...]]]]


@dataclass(eq=False)
class Copies:
    """A value on each worker, and pieces of data, each on one of them; gone with the last reference."""

    sent: Any
    slots: list[str]  # the workers, each as often as it has threads
    by_worker: dict[str, Any]
    pieces: list[Any]

    def in_turn(self, count: int) -> list[tuple[str, Any]]:
        """For each of so many batches its worker, and the copy there."""
        homes = [self.slots[i % len(self.slots)] for i in range(count)]
        return [(home, self.by_worker[home]) for home in homes]


@dataclass(eq=False)
class Batches:
    """What an engine has spread over its cluster. `engine` has a client, knows its workers and waits."""

    engine: Any
    traffic: Traffic = field(default_factory=Traffic)
    kept: "weakref.WeakKeyDictionary[Any, Copies]" = field(default_factory=weakref.WeakKeyDictionary)

    def each(
        self, function: Callable[[Any, Any], Any], shared: Any, pieces: Sequence[np.ndarray], tick: Tick
    ) -> list[Any]:
        """function(shared, piece) for each piece, in their order. What was found before a loss is kept."""
        found: list[Any] = [None] * len(pieces)
        left = list(range(len(pieces)))

        def some() -> None:
            copies, now = self._copies(shared, lambda: (shared, []), tick), left[:AHEAD]
            with _Submitting(self.engine.client) as submit:
                made = {
                    i: submit(called, function, copy, pieces[i], self.engine.instructions, where=home)
                    for i, (home, copy) in zip(now, copies.in_turn(len(now)), strict=True)
                }
                self.traffic.sent += sum(pieces[i].nbytes for i in now)
                for i, future in made.items():
                    found[i] = self._received(future, tick)
                    left.remove(i)

        while left:
            self._persistently(some, shared)
        return found

    def summed(self, key: Any, make: Making, asked: tuple[Any, ...], tick: Tick) -> np.ndarray:
        """shared.sums(asked, *piece) over all pieces, in their order. What `make` returns, shared and the
        pieces, is sent once, and stays there as long as `key` lives."""

        def total() -> np.ndarray:
            copies = self._copies(key, make, tick)
            with _Submitting(self.engine.client) as submit:
                question, homes = submit(together, *asked), copies.in_turn(len(copies.pieces))
                parts = [
                    submit(summed_part, copy, question, piece, self.engine.instructions, where=home)
                    for piece, (home, copy) in zip(copies.pieces, homes, strict=True)
                ]
                return self._received(submit(added, *parts), tick)

        return self._persistently(total, key)

    def _persistently(self, attempt: Callable[[], Any], key: Any) -> Any:
        """Begun again, a few times, if what held data that were sent has gone."""
        for number in range(1, TRIES + 1):
            try:
                return attempt()
            except (CancelledError, KeyError, OSError) as error:
                self.kept.pop(key, None)
                client = self.engine.client
                if client.status != "running":
                    raise cluster.lost_scheduler(client, error) from None
                if number == TRIES:
                    raise ClusterError(
                        f"Work was begun {TRIES} times, and each time a worker was lost ({error}). Look into "
                        "the workers' logs; if they ran out of memory, give them more, or fewer threads."
                    ) from None
        raise AssertionError

    def _copies(self, key: Any, make: Making, tick: Tick) -> Copies:
        """What is kept for this key, on the workers of now: those that came get a copy, and pieces move."""
        found = self.engine.workers_now(tick)
        slots = [address for address, worker in found.items() for _ in range(worker.threads)]
        kept = self.kept.get(key)
        if kept is not None and kept.slots == slots:
            return kept
        client, (shared, pieces) = self.engine.client, make()
        if kept is None:
            held = Held.of(shared)
            _require_room(held.nbytes + _bytes(pieces) // len(slots), found)
            sent, before = client.scatter(held, hash=False), {}
            self.traffic.sent += held.nbytes
        else:
            sent, before = kept.sent, kept.by_worker
        where = {"allow_other_workers": True, "pure": False}
        by_worker = {
            address: before.get(address) or client.submit(Held.copy, sent, workers=[address], **where)
            for address in found
        }
        self.kept[key] = Copies(sent, slots, by_worker, self._dealt_out(pieces, slots))
        return self.kept[key]

    def _dealt_out(self, pieces: list[tuple[np.ndarray, ...]], slots: list[str]) -> list[Any]:
        """Each piece on the worker that will read it."""
        out: list[Any] = [None] * len(pieces)
        for s, address in enumerate(slots):
            own = pieces[s :: len(slots)]
            if own:
                out[s :: len(slots)] = self.engine.client.scatter(own, workers=[address], hash=False)
        self.traffic.sent += _bytes(pieces)
        return out

    def _received(self, future: Any, tick: Tick) -> Any:
        try:
            found = self.engine._awaited(future, tick)
        except (CancelledError, KeyError, OSError) as error:
            if future.status == "error":  # in the work itself: it would fail again
                raise ClusterError(f"Work failed on a worker: {type(error).__name__}: {error}.") from error
            raise
        self.traffic.received += _bytes(found)
        return found


def _require_room(needed: int, found: dict[str, cluster.Worker]) -> None:
    for worker in found.values():
        if worker.memory and needed > ROOM * worker.memory:
            raise MemoryLimitError(
                f"Data of {size(needed)} would lie on worker {worker.address}, which has "
                f"{size(worker.memory)}. Give workers more memory."
            )


class _Submitting:
    """Tasks of a block: if it ends early (the time is over, Ctrl-C), those that have not begun do not."""

    def __init__(self, client: Any) -> None:
        self.client, self.made = client, []  # type: ignore[var-annotated]

    def __enter__(self) -> "_Submitting":
        return self

    def __call__(self, function: Callable[..., Any], *what: Any, where: str | None = None) -> Any:
        home = {} if where is None else {"workers": [where], "allow_other_workers": True}
        self.made.append(self.client.submit(function, *what, pure=False, **home))
        return self.made[-1]

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None and self.client.status == "running":
            self.client.cancel(self.made, force=True)


def _bytes(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(map(_bytes, value))
    return int(getattr(value, "nbytes", 0))

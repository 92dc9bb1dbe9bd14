"""Shards on the workers of a Dask cluster, each on two of them.

A shard is a value of Dask, and there is another one like it under a key of its own on another worker: Dask's
own copies of a key are undone by its memory manager. What a dead worker had is copied again from the other
one, before the next use. Of what is sent, only n x b blocks and r x b numbers cross. All tasks are functions
of what they are given, so whatever is begun again gives the same bits.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from itergp.errors import ClusterError, MemoryLimitError
from itergp.linalg.engines import cluster
from itergp.linalg.engines.base import Tick, no_tick
from itergp.linalg.shards import Place, Shard, in_pairs

if TYPE_CHECKING:
    from itergp.linalg.engines.dask import DaskEngine

COPIES = 2
TRIES = 5  # of work whose data were lost with a worker
SHARDS = 4  # at least, for each worker, so that what a dead one had is spread over the others
FEW = 64  # shards whose sums are added here
FULL = 0.93  # of a worker's memory that shards may bring it to
POLL = 0.001, 0.05  # seconds between two looks at tasks: at first, and at most
LOOK = 0.5  # seconds between two looks at who is there
PAUSED = 60.0  # seconds that a worker may be paused
TOLD = 3  # more looks at the memory of workers, a second apart: what a pass took may not be free yet

Result = TypeVar("Result")
Info = dict[str, dict[str, Any]]  # what the scheduler knows of each worker, by address


@dataclass(eq=False)
class Copies:
    """One shard: its values of Dask, each with the worker that it was meant for.

    Lost ones are replaced here, all at once, since another thread may read them.
    """

    pairs: tuple[tuple[Any, str], ...]

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        return iter(self.pairs)

    @property
    def values(self) -> list[Any]:
        return [value for value, _ in self.pairs]

    @property
    def homes(self) -> list[str]:
        return [home for _, home in self.pairs]


class Workers(Place):
    """The workers of the cluster of an engine."""

    def __init__(self, engine: "DaskEngine") -> None:
        self.engine = engine

    def leaves(self, leaves: int) -> int:
        together, shards = 1, SHARDS * len(self._info())
        while 2 * together * shards <= leaves:
            together *= 2
        return together

    def put(self, shards: Sequence[Shard]) -> tuple[Copies, ...]:
        return self._surely((), lambda: self._put(shards))

    def _put(self, shards: Sequence[Shard]) -> tuple[Copies, ...]:
        info, client = self._info(), self.engine.client
        copies = min(COPIES, len(info))
        self._require_room(info, copies * sum(shard.__sizeof__() for shard in shards) / len(info))
        homes = _dealt_out(list(info), len(shards))
        values: dict[tuple[int, str], Any] = {}
        for home in info:
            its = [i for i, two in enumerate(homes) if home in two]
            sent = client.scatter([shards[i] for i in its], workers=[home], hash=False) if its else []
            values |= {(i, home): value for i, value in zip(its, sent, strict=True)}
        return tuple(Copies(tuple((values[i, home], home) for home in two)) for i, two in enumerate(homes))

    def changed(
        self, held: Sequence[Copies], change: Callable[..., Shard], given: Sequence[Any]
    ) -> tuple[Copies, ...]:
        def work() -> tuple[Copies, ...]:
            self._require_room(self._info(), _most_added(held, given))
            new = [
                Copies(tuple((self._submit(change, *which, some), which[1]) for which in copies))
                for copies, some in zip(held, self._sent(given), strict=True)
            ]
            self._settled([value for copies in new for value in copies.values], held)
            return tuple(new)

        return self._surely(held, work)

    def each(self, held: Sequence[Copies], ask: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
        def work() -> list[Any]:
            jobs = self._asked(held, ask, given)
            self._settled(jobs, held)
            return list(self._fetched(partial(self.engine.client.gather, jobs), held))

        return self._surely(held, work)

    def total(self, held: Sequence[Copies], ask: Callable[..., Any], given: Sequence[Any]) -> np.ndarray:
        if len(held) <= FEW:
            return in_pairs(self.each(held, ask, given), np.add)
        add = partial(self.engine.client.submit, np.add, pure=False)  # on the workers

        def work() -> np.ndarray:
            total = in_pairs(self._asked(held, ask, given), add)
            self._settled([total], held)
            return np.asarray(self._fetched(total.result, held))

        return self._surely(held, work)

    def _asked(self, held: Sequence[Copies], ask: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
        firsts = [next(iter(copies)) for copies in held]
        return [
            self._submit(ask, *which, some) for which, some in zip(firsts, self._sent(given), strict=True)
        ]

    def _submit(self, task: Callable[..., Any], value: Any, home: str, given: Any) -> Any:
        """On the worker that has the shard, and on no other: shards stay where they are."""
        return self.engine.client.submit(task, value, given, workers=[home], pure=False)

    def _sent(self, given: Sequence[Any]) -> list[Any]:
        """What is large is sent once, and does not become a part of tasks, which the scheduler keeps."""
        different = {id(some): some for some in given if _has_arrays(some)}
        values = self.engine.client.scatter(list(different.values()), hash=False) if different else []
        there = dict(zip(different, values, strict=True))
        return [there.get(id(some), some) for some in given]

    # What can go wrong.

    def _surely(self, held: Sequence[Copies], work: Callable[[], Result]) -> Result:
        """The result of some work, begun again if a worker was lost meanwhile."""
        lost: object = None
        for _ in range(TRIES):
            try:
                self._copied_again(held)
                return work()
            except (CancelledError, KeyError, OSError) as error:
                lost = error
                if self.engine.client.status != "running":
                    raise cluster.lost_scheduler(self.engine.client, error) from None
                time.sleep(cluster.POLL)  # until this process has heard of all that was lost
        raise ClusterError(
            f"Work on the basis was begun {TRIES} times, and each time a worker was lost ({lost}). Look into "
            "the workers' logs; if they ran out of memory, give them more."
        )

    def _copied_again(self, held: Sequence[Copies]) -> None:
        """Each shard is on two workers again, or on all, if they are fewer."""
        info, load, new = self._info(), Counter(home for copies in held for home in copies.homes), []
        for copies in held:
            living = {home: value for value, home in copies if value.status in ("finished", "pending")}
            if not living:
                raise self._all_lost()
            kept = {home: value for home, value in living.items() if home in info}
            source = next(iter((kept or living).values()))
            while len(kept) < min(COPIES, len(info)):
                home = min(info.keys() - kept.keys(), key=lambda home: (load[home], home))
                load[home] += 1
                kept[home] = self._submit(_same, source, home, None)
                new.append(kept[home])
            copies.pairs = tuple((value, home) for home, value in kept.items())
        self._settled(new, held)

    def _all_lost(self) -> ClusterError:
        if self.engine.client.status != "running":  # it forgets all values when it loses the scheduler
            return cluster.lost_scheduler(self.engine.client, "")
        return ClusterError(
            "All copies of a part of the basis were lost, with the workers that had them. What was computed "
            "before is in the last checkpoint, if there is one: fit again with the same checkpoint."
        )

    def _info(self) -> Info:
        """All workers of now; waits for one, for some time, if there are none."""
        watched, info = self.engine.watch(no_tick), cluster.workers(self.engine.client)
        while not info:
            time.sleep(cluster.POLL)
            watched()
            info = cluster.workers(self.engine.client)
        return info

    def _require_room(self, info: Info, more: float) -> None:
        """Raise if so many more bytes do not fit on some worker, and that stays so."""
        full = _full(info, more)
        for _ in range(TOLD):
            if full is None:
                return
            time.sleep(1.0)
            full = _full(self._info(), more)
        if full is not None:
            address, used, limit = full
            raise MemoryLimitError(
                f"Worker {address} uses {used / 1e9:.2g} of {limit / 1e9:.2g} GB, and {more / 1e9:.2g} GB "
                "more of the basis do not fit. Add workers and fit again, with the same checkpoint if there "
                "is one; or ask for fewer actions."
            )

    def _settled(self, values: Sequence[Any], held: Sequence[Copies]) -> None:
        """Wait until all of them are there; they stay there."""
        watched, pause = self._watched(held), POLL[0]
        while not all(value.done() for value in values):  # one callback for each would take longer
            time.sleep(pause)
            pause = min(2 * pause, POLL[1])
            watched()
        for value in values:
            if value.status != "finished":
                self._raise(value)

    def _fetched(self, fetch: Callable[[], Any], held: Sequence[Copies]) -> Any:
        """What is there now; unless its worker dies before it has come."""
        return cluster.fetched(fetch, np.inf, self._watched(held))

    def _raise(self, value: Any) -> None:
        """What went wrong with it."""
        from distributed.scheduler import KilledWorker

        try:
            value.result()
        except KilledWorker as error:
            raise ClusterError(
                f"Workers died again and again on the same part of the basis ({error}). Look into their "
                "logs; if they ran out of memory, give them more."
            ) from None

    def _watched(self, held: Sequence[Copies]) -> Tick:
        """Raises if a worker with a copy has gone: a task that is meant for it alone would wait for ever."""
        watched, began = self.engine.watch(no_tick), time.monotonic()
        homes, looked = {home for copies in held for home in copies.homes}, began

        def tick() -> None:
            nonlocal looked
            watched()
            now = time.monotonic()
            if now - looked < LOOK:
                return
            looked, info = now, cluster.workers(self.engine.client)
            if homes - info.keys():
                raise ConnectionError(f"{min(homes - info.keys())} has gone")
            paused = [home for home in homes if info[home].get("status") == "paused"]
            if paused and now - began > PAUSED:
                raise ClusterError(
                    f"Worker {min(paused)} was paused by Dask: it has hardly any memory left. Give workers "
                    "more of it, or add some and fit again, with the same checkpoint if there is one."
                )

        return tick


def _dealt_out(workers: list[str], shards: int) -> list[list[str]]:
    """Two workers for each shard: as many shards for each worker, and with many others."""
    load, homes = Counter[str](), []
    for i in range(shards):
        order = np.random.default_rng(i).permutation(len(workers))
        homes.append(sorted([workers[j] for j in order], key=lambda home: load[home])[:COPIES])
        load.update(homes[-1])
    return homes


def _full(info: Info, more: float) -> tuple[str, float, float] | None:
    """A worker on which so many more bytes do not fit, with what it uses and may use, as it last told."""
    for address, worker in info.items():
        limit, used = worker.get("memory_limit") or np.inf, worker.get("metrics", {}).get("memory", 0)
        if used + more > FULL * limit:
            return address, used, limit
    return None


def _most_added(held: Sequence[Copies], given: Sequence[np.ndarray]) -> int:
    """The bytes that some worker gets."""
    added = Counter[str]()
    for copies, block in zip(held, given, strict=True):
        added.update(dict.fromkeys(copies.homes, block.nbytes))
    return max(added.values())


def _has_arrays(given: Any) -> bool:
    return any(isinstance(some, np.ndarray) for some in (given if isinstance(given, tuple) else [given]))


def _same(shard: Shard, _: None) -> Shard:
    """A copy, on the worker that it was sent to."""
    return shard

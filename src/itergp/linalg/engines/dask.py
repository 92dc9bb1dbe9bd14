"""Passes over K, learning by neighbours and predictions on a Dask cluster, with the native engine on its
workers.

Each pass sends V once, has one task for each share of K (`native/shares.py`), and adds their parts on the
workers, in a fixed order. So the bits depend on the number of shares alone: not on the number of workers, on
their threads, or on who was fastest. Likelihoods, searches for neighbours and predictions go there in batches
of rows (`batches.py`), whose bits are those of this process. What a dead worker had is made again by others.
All other work, and what is so small that messages would take longer, stay with the native engine of this
process.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from itergp.errors import ClusterError, InputError
from itergp.linalg.columns import Columns
from itergp.linalg.compute import parse_bytes
from itergp.linalg.engines import cluster, registry
from itergp.linalg.engines.base import Tick, TileCache, no_tick
from itergp.linalg.engines.batches import Batches, Traffic
from itergp.linalg.engines.conditionals import Conditionals
from itergp.linalg.engines.dask_shards import Workers
from itergp.linalg.engines.here import NativeHere
from itergp.linalg.engines.placement import (
    Inputs,
    Placement,
    of_learning,
    of_pass,
    of_tiles,
    require_room,
    require_room_for_tiles,
    sentence,
)
from itergp.linalg.engines.sums import ROWS, batches
from itergp.linalg.memory import available_bytes
from itergp.linalg.shards import Here, Sharded
from itergp.prior.kernel import Kernel
from itergp.prior.parameters import Slopes
from itergp.validate import choice, count

if TYPE_CHECKING:
    from itergp.linalg.engines.native.shares import Groups

SHARES = 16
LOCAL_ROWS = 4096  # up to here a pass is faster than its messages
TRIES = 5  # of a pass whose data were lost with a worker
LOCAL_LIKELIHOOD = 32768  # rows, up to which the same holds for an evaluation of their likelihood,
LOCAL_SEARCH = 2e8  # for a search that compares so many pairs of rows,
LOCAL_POINTS = 4096  # and for the predictions of points
PIECES = 4  # of a search, for each thread of the cluster
PATIENCE = 60.0  # seconds without any worker
HERE = {"auto": 2**29, "here": np.inf, "workers": 0}  # bytes of Q, and of K Q, up to which it lives here


class DaskEngine(NativeHere):
    """Products with K on a Dask cluster: `Compute(engine=DaskEngine(client))`.

    `client` is a `distributed.Client`, or the address of a scheduler; None computes the same bits in this
    process, so that a checkpoint can go on without a cluster. `shares` is the largest number of tasks of a
    pass, at least some for each thread of the cluster: results depend on it, in their last digits, and on
    nothing else of the cluster. `cache` is what each worker may use for stored tiles; "auto" is a quarter of
    its memory. `basis` says where the n x r numbers of a run live: "here", on the "workers", or, with "auto",
    on the workers from 1 GB on. Results do not depend on it.
    """

    name = "dask"

    def __init__(
        self, client: Any, shares: int = SHARES, cache: int | str = "auto", basis: str = "auto"
    ) -> None:
        self.shares = count("DaskEngine.shares", shares)
        self.basis = choice("DaskEngine.basis", basis, tuple(HERE))
        self.cache = cache if cache == "auto" else parse_bytes("DaskEngine.cache", cache)
        try:
            self._native: Any = registry.get("native")
        except ImportError as error:
            raise InputError(f"DaskEngine needs the native engine ({error}).") from None
        self._client: Any = client if client is None else cluster.client_of(client)
        self.address = "" if self._client is None else str(self._client.scheduler.address)
        self._workers = cluster.checked(self._client, {}) if self.address else {}
        self._batches = Batches(self)

    @property
    def client(self) -> Any:
        """The connection; a copy in another process makes its own when it is first used."""
        if self._client is None:
            self._client = cluster.client_of(self.address)
        return self._client

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None, "_native": None, "_workers": {}, "_batches": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_native": registry.get("native"), "_batches": Batches(self)})

    def __deepcopy__(self, memo: dict[int, Any]) -> "DaskEngine":
        return self  # as scikit-learn's `clone` asks for: a connection is not copied

    def __repr__(self) -> str:
        return f"DaskEngine({self.address or None!r}, shares={self.shares})"

    # On the cluster.

    def columns(self, n: int) -> Columns:
        """In this process while they are few, then in shards on the workers: the same bits in both places."""
        return Sharded.start(n, Here(HERE[self.basis], Workers(self) if self.address else None))

    def symmetric(
        self,
        kernel: Kernel,
        X: np.ndarray,
        V: np.ndarray,
        dtype: np.dtype,
        cache: TileCache,
        first: int,
        tick: Tick,
    ) -> np.ndarray:
        from itergp.linalg.engines.native import linear
        from itergp.linalg.engines.native.leaves import leaves

        work = Pass(kernel, X, V, np.dtype(dtype), cache, first, tick)
        out = self._there(work) if self.address and len(X) > LOCAL_ROWS else self._here(work)
        linear.add_product(leaves(kernel) or [], X, X, V, out)
        return out

    def _here(self, work: "Pass") -> np.ndarray:
        """The same shares, added in the same order, in this process: the same bits."""
        from itergp.linalg.engines.native import _tiles
        from itergp.linalg.engines.native.shares import Groups, Rows, Share, column_groups

        placed, X, cache, dtype = work.placed, work.X, work.cache, work.dtype.name
        if placed is None:
            groups = Groups.of(len(X), self.shares)
            rows = Rows(work.kernel, X, dtype, _tiles.instruction_set(), groups.p)
            shares = [Share(*pair, cache.budget // len(groups.shares)) for pair in groups.shares]
            placed = cache.native = Placed(work.kernel, len(X), dtype, groups, rows, shares)
        groups, out = placed.groups, np.empty(work.V.shape)
        for columns in column_groups(work.V.shape[1]):
            V, sums = placed.by_group(work.V[:, columns]), dict.fromkeys(groups.filled, 0.0)
            for share, pair in zip(placed.shares, groups.shares, strict=True):
                work.tick()
                parts = share.multiply(placed.rows, *(V[group] for group in pair), work.first)
                for group, part in zip(pair, parts, strict=False):  # one part, if it is one group
                    sums[group] += part
            for group, total in sums.items():
                out[groups.rows(group), columns] = placed.rows.unpadded(group, total, V[group].shape[1])
        return out

    def _there(self, work: "Pass") -> np.ndarray:
        """Begun again, a few times, if what held data that were sent has gone."""
        attempt = 0
        while True:
            attempt += 1
            work.tick()
            try:
                placed, workers = work.placed, list(cluster.workers(self.client))
                if placed is None or placed.workers != workers:  # shares move when workers come or go
                    placed = work.cache.native = self._place(work)
                return self._pass(placed, work.V, work.first, work.tick)
            except (CancelledError, KeyError, OSError) as error:
                work.cache.native = None
                if self.client.status != "running":
                    raise cluster.lost_scheduler(self.client, error) from None
                if attempt == TRIES:
                    raise ClusterError(
                        f"A pass was begun {TRIES} times, and each time a worker was lost ({error}). Look "
                        "into the workers' logs; if they ran out of memory, give them more, or fewer threads."
                    ) from None

    def _place(self, work: "Pass") -> "Placed":
        """The data, and which worker keeps the tiles of which share."""
        from itergp.linalg.engines.native.shares import Groups, Rows, Share

        kernel, X, dtype, cache = work.kernel, work.X, work.dtype, work.cache
        groups = Groups.of(len(X), self.shares)
        found = self.workers_now(work.tick)
        tiles = self._tiles_per_worker(found) if cache.budget else 0
        for worker in found.values():
            _require_room(worker, work, groups.p, len(found), tiles)
        client, instructions = self.client, cluster.lowest(found)
        sent = client.scatter(X, hash=False)
        self.traffic.sent += X.nbytes
        rows = {  # a key for each worker: of copies under one key, Dask drops all but one
            address: client.submit(
                Rows,
                kernel,
                sent,
                dtype.name,
                instructions,
                groups.p,
                workers=[address],
                allow_other_workers=True,
                pure=False,
            )
            for address in found
        }
        slots = [address for address, worker in found.items() for _ in range(worker.threads)]
        homes = [[slots[place]] for place in groups.homes(len(slots))]
        each = tiles * len(found) // len(homes)
        shares = [
            client.submit(Share, *pair, each, workers=home, allow_other_workers=True, pure=False)
            for pair, home in zip(groups.shares, homes, strict=True)
        ]
        return Placed(kernel, len(X), dtype.name, groups, rows, shares, homes, list(found))

    def _tiles_per_worker(self, found: dict[str, cluster.Worker]) -> int:
        if self.cache != "auto":
            return int(self.cache)
        unlimited = available_bytes() // len(found)  # if all of them are on this machine, say
        return min(worker.memory or unlimited for worker in found.values()) // 4

    def _pass(self, placed: "Placed", V: np.ndarray, first: int, tick: Tick) -> np.ndarray:
        from itergp.linalg.engines.native.shares import Rows, Share, column_groups

        client, groups, out = self.client, placed.groups, np.empty(V.shape)
        pairs = list(zip(groups.shares, placed.shares, placed.homes, strict=True))
        blocks = column_groups(V.shape[1])
        under_way, later = deque[list[Any]](), iter(blocks)

        def submit(home: list[str], function: Callable[..., Any], *what: Any) -> Any:
            where = {"workers": home, "allow_other_workers": True, "pure": False}
            return client.submit(function, *what, **where)

        def multiplied(V: np.ndarray) -> list[Any]:
            """For each group its rows of the product, added where its share with itself is."""
            some = client.scatter(placed.by_group(V), hash=False)
            self.traffic.sent += V.size * np.dtype(placed.dtype).itemsize
            parts = [
                submit(home, Share.multiply, share, placed.rows[home[0]], some[i], some[j], first)
                for (i, j), share, home in pairs
            ]
            own = [[k for k, (pair, *_) in enumerate(pairs) if group in pair] for group in groups.filled]
            homes = [placed.homes[which[group]] for group, which in enumerate(own)]
            return [
                submit(home, Rows.total, placed.rows[home[0]], group, V.shape[1], *(parts[k] for k in which))
                for group, (which, home) in enumerate(zip(own, homes, strict=True))
            ]

        def begin_next() -> None:
            under_way.extend(multiplied(V[:, some]) for some in islice(later, 1))

        try:
            begin_next()
            for (
                columns
            ) in blocks:  # while one is waited for, the next is under way, and no more: a block that
                begin_next()  # has come goes, with its parts, of which only the scheduler knows
                for group, total in enumerate(under_way[0]):
                    found = self._awaited(total, tick)
                    self.traffic.received += found.nbytes
                    out[groups.rows(group), columns] = found
                under_way.popleft()
            return out
        except BaseException:  # the time is over, or Ctrl-C: what has not begun does not begin
            if client.status == "running":  # without a scheduler nobody would hear of it
                client.cancel([total for block in under_way for total in block], force=True)
            raise

    def watch(self, tick: Tick) -> Tick:
        """A tick that also raises if the scheduler has gone, or all workers for some time."""
        began = last = time.monotonic()  # when there was a worker, and when that was last looked at

        def watched() -> None:
            nonlocal began, last
            tick()
            if self.client.status != "running":
                raise cluster.lost_scheduler(self.client, "")
            now = time.monotonic()
            if now - last > PATIENCE / 10:
                last, began = now, now if cluster.workers(self.client) else began
                if now - began > PATIENCE:
                    raise ClusterError(f"The cluster has had no workers for {PATIENCE:.0f} s. Start some.")

        return watched

    def _awaited(self, future: Any, tick: Tick) -> np.ndarray:
        from distributed.scheduler import KilledWorker

        tick()
        try:
            return cluster.awaited(future, np.inf, self.watch(tick))
        except KilledWorker as error:
            raise ClusterError(
                f"Workers died again and again on the same task ({error}). Look into their logs; if they "
                "ran out of memory, give them more, or fewer threads."
            ) from None

    # In batches of rows.

    @property
    def traffic(self) -> Traffic:
        """Bytes that this process has sent to the workers, and received, so far."""
        return self._batches.traffic

    @property
    def instructions(self) -> str:
        return cluster.lowest(self._workers)

    def workers_now(self, tick: Tick) -> dict[str, cluster.Worker]:
        """Those that there are; the first of them, after all died, is waited for."""
        end = time.monotonic() + PATIENCE
        while not (found := cluster.described(self.client, self._workers, tick)) and time.monotonic() < end:
            tick()
            time.sleep(cluster.POLL)
        self._workers = cluster.matching(found)
        return self._workers

    def earlier(
        self,
        F: np.ndarray,
        count: int,
        chosen: np.ndarray,
        by_trees: bool,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> np.ndarray:
        from itergp.linalg.engines.native import kept

        if not self.address or chosen.size * len(F) <= LOCAL_SEARCH:
            return self._native.earlier(F, count, chosen, by_trees, threads, tick)
        slots = sum(worker.threads for worker in self.workers_now(tick).values())
        pieces = np.array_split(chosen, max(PIECES * slots, chosen.size // ROWS))
        rows = kept.Searched(F, count, by_trees)
        return np.concatenate(self._batches.each(kept.earlier, rows, pieces, tick))

    def summed_likelihood(
        self,
        kernel: Kernel,
        noise: float,
        given: Conditionals,
        threads: int | None = None,
        tick: Tick = no_tick,
    ) -> tuple[float, Slopes, float]:
        from itergp.linalg.engines.native import kept, neighbours
        from itergp.linalg.engines.native.leaves import differentiable_leaves

        parts, whole = differentiable_leaves(kernel), given.less is None and given.weights is None
        if not self.address or parts is None or not whole or len(given.rows) <= LOCAL_LIKELIHOOD:
            return self._native.summed_likelihood(kernel, noise, given, threads, tick)

        def placed() -> tuple[Any, list[tuple[np.ndarray, ...]]]:
            rows, m = Inputs.of(given.X.shape, kernel), given.J.shape[1]
            for worker in self._workers.values():
                needed = of_learning(rows, given.y.shape[1], m, len(self._workers))
                require_room(worker, f"Learning from {rows.n:,} rows", needed)
            pieces: list[tuple[np.ndarray, ...]]
            pieces = [(given.rows[some], given.J[some]) for some in batches(len(given.rows))]
            return kept.Observations(given.X, given.y, given.share), pieces

        total = self._batches.summed(given, placed, (kernel, noise), tick)
        return float(total[0]), *neighbours.slopes(parts, given.X.shape[1], total[1:])

    def spreads(self, points: int) -> bool:
        return bool(self.address) and points > LOCAL_POINTS

    def each(
        self,
        function: Callable[[Any, np.ndarray], Any],
        shared: Any,
        pieces: Sequence[np.ndarray],
        tick: Tick = no_tick,
    ) -> list[Any]:
        return self._batches.each(function, shared, pieces, tick)

    def speedup(self, kernel: Kernel, X: np.ndarray, dtype: np.dtype) -> float:
        """All threads of the cluster make the same passes at once; none of them is faster for being idle."""
        from itergp.linalg.engines.native import kept

        if not self.address:
            return 1.0
        slots = sum(worker.threads for worker in self.workers_now(no_tick).values())
        rows = kept.Timed(kernel, X, np.dtype(dtype).name)
        there = self._batches.each(kept.passes_per_second, rows, slots * [np.zeros(0)], no_tick)
        return sum(there) / kept.passes_per_second(rows)

    def placement(self, n: int, d: int, targets: int, columns: int, kernel: Kernel | None = None) -> str:
        if not self.address:
            return ""
        from itergp.linalg.engines.native.shares import Groups

        found, p = self.workers_now(no_tick), Groups.of(n, self.shares).p
        tiles = self._tiles_per_worker(found)
        rows = Inputs.of((n, d), kernel)
        each = [Placement.on(one, rows, targets, columns, len(found), p, tiles) for one in found.values()]
        for one in each:
            one.check(n)
        return sentence(each)

    def activity(self) -> str:
        if not self.address:
            return ""
        moved = self.traffic.sent + self.traffic.received
        return f"{len(self._workers)} workers · {moved / 1e6:,.1f} MB moved"


@dataclass(frozen=True, eq=False)
class Placed:
    """Rows and shares of one matrix, here or as futures; kept by the cache of its Gram, and gone with it."""

    kernel: Kernel
    n: int
    dtype: str
    groups: "Groups"
    rows: Any  # here; or a future for each worker
    shares: list[Any]
    homes: list[list[str]] = field(default_factory=list)  # where each share is, as long as that worker lives
    workers: list[str] = field(default_factory=list)

    def by_group(self, V: np.ndarray) -> list[np.ndarray]:
        """The rows of each group, as they are multiplied."""
        return [V[self.groups.rows(group)].astype(self.dtype) for group in self.groups.filled]


@dataclass(frozen=True, eq=False)
class Pass:
    """A product K V, as `Engine.symmetric` is asked for it."""

    kernel: Kernel
    X: np.ndarray
    V: np.ndarray
    dtype: np.dtype
    cache: TileCache
    first: int
    tick: Tick

    @property
    def placed(self) -> Placed | None:
        """What its cache has placed, if it is of the same matrix: a Gram has one kernel and one X."""
        placed = self.cache.native
        same = isinstance(placed, Placed) and placed.kernel is self.kernel
        return placed if same and (placed.n, placed.dtype) == (len(self.X), self.dtype.name) else None


def _require_room(worker: cluster.Worker, work: Pass, groups: int, workers: int, cache: int) -> None:
    from itergp.linalg.engines.native.shares import COLUMNS

    rows, columns, itemsize = Inputs.of(work.X.shape, work.kernel), work.V.shape[1], work.dtype.itemsize
    needed = of_pass(rows, min(columns, COLUMNS), itemsize, worker.threads, groups / workers)
    require_room(worker, f"A pass over {rows.n:,} rows", needed)
    require_room_for_tiles(worker, needed, of_tiles(rows.n, itemsize, cache, workers))

"""`--cluster`: where passes over the kernel matrix, learning and predictions run."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from itergp.cli.app import console, say
from itergp.errors import InputError
from itergp.limits import PASS_ROWS

ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Where large work runs: the address of a Dask scheduler, or local or local:N for processes "
        "on this machine.",
        metavar="tcp://HOST:PORT|local[:N]",
    ),
]


def check_cluster(text: str | None) -> None:
    """Validate the option before any file is read."""
    if text is not None and not re.fullmatch(r"\w+://\S+|local(:[1-9]\d*)?", text):
        raise InputError(
            f"--cluster is {text!r}; expected an address of a Dask scheduler such as tcp://host:8786, local, "
            "or, for four processes on this machine, local:4."
        )
    if text is not None:
        from itergp.linalg.engines.cluster import require_dask

        require_dask()


@contextlib.contextmanager
def engine_of(text: str | None) -> Iterator[Any]:
    """The engine for `--cluster`, None without one; processes that it starts end with the block."""
    if text is None:
        yield None
        return
    from itergp.linalg.engines.cluster import cluster
    from itergp.linalg.engines.dask import DaskEngine

    with cluster(text) as client:
        yield DaskEngine(client)


def say_placement(engine: Any, n: int, d: int) -> None:
    """What each worker will hold, before the fit begins; it is refused if that does not fit."""
    if engine is not None:
        columns = 0 if n > PASS_ROWS else 1
        say(f"Cluster: {engine.placement(n, d, 1, columns)}.")


def show_cluster(text: str, as_json: bool) -> None:
    """Who works there, and what does not match; exit code 1 if something does not."""
    from itergp.linalg.engines.cluster import cluster, described, differences, mismatches

    check_cluster(text)
    with cluster(text) as client:
        found, address = described(client, {}), client.scheduler.address
    wrong, notes = mismatches(found), differences(found)
    if not found:
        wrong.append("there are no workers; start some with `dask worker ADDRESS`")
    workers = list(found.values())
    if as_json:
        each = [vars(worker) for worker in workers]
        typer.echo(json.dumps({"cluster": address, "workers": each, "wrong": wrong, "notes": notes}))
    else:
        threads = sum(worker.threads for worker in workers)
        console.print(f"cluster {address}: workers: {len(workers)}, threads: {threads}")
        for worker in workers:
            memory = f"{worker.memory / 1e9:.1f} GB" if worker.memory else "memory without a limit"
            versions = ", ".join(f"{name} {number}" for name, number in worker.versions.items())
            console.print(
                f"{worker.address}: {worker.threads} threads, {memory}, {versions}, "
                f"{worker.instructions or 'no native engine'}",
                soft_wrap=True,
            )
        for line in notes:
            console.print(f"note: {line}")
        for line in wrong:
            console.print(f"does not match: {line}")
    if wrong:
        raise typer.Exit(1)

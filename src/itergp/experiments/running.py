"""Experiments as tables of cells: run the missing cells, store the result of each, then plot.

An experiment is five plain functions in a file of its own, and one line in the dictionary of
`itergp.experiments`:

    def cells(options):                  # what there is to run, as JSON values, with relative costs
        splits = range(1 if options.quick else 10)
        return [Cell({"policy": name, "split": i}, cost=2.0) for name in POLICIES for i in splits]

    def run(cell, options):              # one cell: a list of records, JSON values (NumPy is accepted)
        return [{"policy": cell.key["policy"], "nll": ...}]

    def table(records):                  # the records of all finished cells, flat, in the order of `cells`
        return ["policy", "NLL"], [[record["policy"], record["nll"]] for record in records]

    def figure(records, options):        # a matplotlib Figure; `style.new_figure` makes one
        ...

    EXPERIMENT = Experiment("name", "Fig. 1", "what it shows", cells, run, table, figure)

`run_experiment` appends one line to OUT/NAME/records.jsonl for each finished cell, {"cell", "quick",
"seconds", "processor_seconds", "versions", "records"}, and skips cells that are already there, so an
interrupted run continues where it ended. A cell is recorded completely or not at all, and Ctrl-C inside one
(which solvers and learning turn into a valid early end) never records it. Then it writes table.md, table.csv,
figure.png, figure.svg and about.json from everything in the file. So cells should be small (minutes), their
randomness should come from their key alone, and a key should name everything that distinguishes a cell (data
set, split, kernel); what is the same for all cells belongs in the code. Delete the folder after a change of
code.

A folder holds quick or full results: a full run drops quick ones, and a quick run refuses to touch full ones.
`Experiment.datasets` lists the default data sets, which `--datasets` overrides ("synthetic", names of
`itergp.datasets`, paths); a quick run uses the synthetic set instead, which needs no files. In `cells` and
`run`, `options.datasets` is what is to be run. An experiment without `datasets` makes its own data, and
`--datasets` is rejected.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itergp.datasets import DATASETS, data_folder, load
from itergp.errors import InputError
from itergp.experiments.outputs import require_matplotlib, versions, write_outputs
from itergp.experiments.records import (
    Line,
    append_line,
    drop_torn_line,
    identity,
    keep_lines,
    one_of_each,
    read_lines,
)
from itergp.linalg.blas import blas_threads

if TYPE_CHECKING:
    from itergp.estimator.progress import Interrupts

Record = dict[str, Any]
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]  # the header, and rows of texts and numbers


@dataclass(frozen=True)
class Options:
    """How an experiment is run: as a quick test or in full, on which data sets, and where results go."""

    quick: bool = False
    datasets: tuple[str, ...] = ()
    out: Path = Path("results")


@dataclass(frozen=True)
class Cell:
    """A part of an experiment: `key` (JSON values) identifies it, `cost` is its relative duration."""

    key: dict[str, Any]
    cost: float = 1.0


@dataclass(frozen=True)
class Experiment:
    """What to run, how to present it, and which figure of the paper it is."""

    name: str
    figure_of_paper: str
    title: str
    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Options], list[Record]]
    table: Callable[[list[Record]], Table]
    figure: Callable[[list[Record], Options], Any]
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Standing:
    """The progress of a run, reported before each cell and at the end."""

    cell: Cell | None  # what is about to run; None at the end
    finished: int
    cells: int
    seconds_left: float | None  # estimated from the finished cells and the costs; None until there is one
    share: float  # share of the cost that is done


Progress = Callable[[Standing], Any]


def run_experiment(
    experiment: Experiment, options: Options, progress: Progress = lambda standing: None
) -> Path:
    """Run the missing cells, write tables and figures, and return their folder."""
    from itergp.estimator.progress import watching_interrupts  # imports scikit-learn, which takes a second

    options = replace(options, datasets=_datasets(experiment, options))
    require_matplotlib()
    folder = options.out / experiment.name
    cells = experiment.cells(options)
    # between cells Ctrl-C waits until finished cells are on disk
    with watching_interrupts() as interrupts:
        done = {identity(line["cell"]): line["seconds"] for line in _begin(folder, options)}
        for cell in cells:
            if identity(cell.key) not in done:
                progress(_standing(cells, done, cell))
                line = _run(experiment, cell, options, interrupts)
                append_line(folder / "records.jsonl", line)
                done[identity(cell.key)] = line["seconds"]
        progress(_standing(cells, done, None))
        _check(interrupts)
    write_outputs(folder, experiment, options, _in_order(cells, read_lines(folder / "records.jsonl")))
    return folder


def _datasets(experiment: Experiment, options: Options) -> tuple[str, ...]:
    """The requested data sets, if they exist, or else the experiment's own; checked before any work."""
    if options.datasets and not experiment.datasets:
        raise InputError(
            f"datasets is {', '.join(options.datasets)}; but {experiment.name} makes its own data. Leave it "
            "out."
        )
    known = ("synthetic", *DATASETS)
    for name in options.datasets:
        if name not in known and not Path(name).is_file():
            raise InputError(
                f"datasets names {name!r}; expected some of {', '.join(known)}, or existing files."
            )
    # quick runs need no files
    usual = ("synthetic",) if options.quick and experiment.datasets else experiment.datasets
    chosen = options.datasets or usual
    for name in chosen:
        if name in DATASETS and not (data_folder() / f"{name}.csv.gz").exists():
            load(name)  # which raises if files are missing, and says where to put them
    return chosen


def _begin(folder: Path, options: Options) -> list[Line]:
    """The finished cells of this kind of run, in a file that is ready for more."""
    path = folder / "records.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be created: {error.strerror or error}. Give another folder for the results."
        ) from None
    drop_torn_line(path)
    lines = read_lines(path)
    if options.quick and not all(line["quick"] for line in lines):
        raise InputError(
            f"{folder} holds the results of a full run, which a quick one would replace; give another folder."
        )
    if not options.quick and any(line["quick"] for line in lines):
        lines = [line for line in lines if not line["quick"]]
        keep_lines(path, lines)
    return lines


def _run(experiment: Experiment, cell: Cell, options: Options, interrupts: "Interrupts") -> Line:
    """One cell. After Ctrl-C it is discarded: solvers then end early, with less than the cell requires."""
    _check(interrupts)
    began, processor = time.perf_counter(), time.process_time()
    try:
        # threads of small matrices wait for each other
        with interrupts.raised(), blas_threads(1 if options.quick else None):
            records = experiment.run(cell, options)
    except Exception as error:
        error.add_note(f"in the cell {identity(cell.key)} of {experiment.name}")
        raise
    _check(interrupts)
    return {
        "cell": cell.key,
        "quick": options.quick,
        "seconds": round(time.perf_counter() - began, 3),
        "processor_seconds": round(time.process_time() - processor, 3),
        "versions": versions(),
        "records": records,
    }


def _check(interrupts: "Interrupts") -> None:
    if interrupts.asked:
        raise KeyboardInterrupt


def _standing(cells: list[Cell], done: dict[str, float], cell: Cell | None) -> Standing:
    finished = [one for one in cells if identity(one.key) in done]
    cost, total = sum(one.cost for one in finished), sum(one.cost for one in cells)
    seconds = sum(done[identity(one.key)] for one in finished)
    left = seconds / cost * (total - cost) if cost else None
    return Standing(cell, len(finished), len(cells), left, cost / total if total else 1.0)


def _in_order(cells: list[Cell], lines: list[Line]) -> list[Line]:
    """Each cell once, in the order of the cells; those of data sets requested earlier come last."""
    place = {identity(cell.key): i for i, cell in enumerate(cells)}
    return sorted(one_of_each(lines), key=lambda line: place.get(identity(line["cell"]), len(place)))

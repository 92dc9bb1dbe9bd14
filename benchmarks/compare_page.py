"""The page of the comparison, from records alone: docs/comparison.md and docs/figures/comparison.png.

Words are those of benchmarks/comparison.template.md, numbers those of the records. In the template,
`{{name}}` is one of BLOCKS, and `{{nll itergp bike}}` a score of a method on a set, the mean over its splits.
Lines after WHY, `set: sentence`, are the last column of the table of losses.
"""

import re
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from compare_data import SETS
from compare_methods import COSTLY, METHODS

TEMPLATE = Path(__file__).with_name("comparison.template.md")
WHY = "\n---- why\n"
OURS = "itergp"
NOT_YET = "(not measured yet)"
MARKS = {"timeout": "time", "out of memory": "memory", "too many rows": "n", "failed": "error"}
COLOURS = dict(zip(METHODS, ("#9467bd", *(f"C{i}" for i in (7, 2, 8, 1, 3, 5, 0, 9))), strict=True))
BUSY = 3.5  # load average from which two cores had more to do than a cell, and one beside it
ABOVE = 1.5  # nats above the best at which the figure ends; what is worse is drawn on its edge


class Table:
    """Records by cell, and what the page asks of them."""

    def __init__(self, records):
        self.by = {(r["set"], r["split"], r["method"], r["budget"]): r for r in records}
        self.methods = [m for m in METHODS if any(key[2] == m for key in self.by)]
        self.sets = [s for s in SETS if any(key[0] == s for key in self.by)]

    def splits(self, name, methods=tuple(METHODS)):
        """Those in which each of these methods has had its turn; the first, if there is none."""
        complete = [
            split
            for split in range(SETS[name].splits)
            if all((name, split, method, "default") in self.by for method in methods)
        ]
        return complete or [0]

    def complete(self, name, methods):
        return all((name, 0, method, "default") in self.by for method in methods)

    def records(self, name, method, budget="default", beside=tuple(METHODS)):
        """Those of a method, in the splits that it shares with the methods that it stands beside."""
        keys = [(name, split, method, budget) for split in self.splits(name, beside)]
        return [self.by[key] for key in keys if key in self.by]

    def value(self, key, name, method, budget="default", beside=tuple(METHODS)):
        """The mean over these splits; None if one of them did not end well."""
        found = self.records(name, method, budget, beside)
        if not found or any(record["status"] != "done" for record in found):
            return None
        return float(np.mean([KEYS.get(key, lambda r, key=key: r[key])(record) for record in found]))

    def mark(self, name, method, budget="default"):
        """Why there is no value: a word, or nothing where the cell has not been run."""
        ended = [r["status"] for r in self.records(name, method, budget) if r["status"] != "done"]
        return MARKS.get(ended[0], ended[0]) if ended else ""

    def busy(self, name, method):
        """Whether the machine had other work when one of these cells began."""
        return any(record.get("load", 0.0) >= BUSY for record in self.records(name, method))


KEYS = {  # what is made of several fields of a record
    "processor": lambda r: r["fit_processor"] + r["predict_processor"],
    "seconds": lambda r: r["fit_seconds"] + r["predict_seconds"],
    "predict_ms": lambda r: 1e3 * r["predict_processor"] / r["test_rows"],
    "megabytes": lambda r: r["memory"] / 1e6,
    "percent": lambda r: 100 * r["coverage"],
    "nll_square_error": lambda r: r["nll_error"] ** 2,
    "rmse_units": lambda r: r["rmse"] * r["unit"],
}


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def scores_table(key, digits, best=min, timed=False):
    """Sets by methods, the best in bold type; seconds from a busy machine have a star."""

    def make(table, names):
        rows = []
        for name in table.sets:
            values = {method: table.value(key, name, method) for method in table.methods}
            known = [value for value in values.values() if value is not None]
            texts = [
                table.mark(name, method)
                if value is None
                else shown(value, digits, known, best) + "\\*" * (timed and table.busy(name, method))
                for method, value in values.items()
            ]
            rows.append([name, *texts])
        return markdown(["set", *(METHODS[m].label for m in table.methods)], rows)

    return make


def shown(value, digits, known, best):
    text = f"{value:.{digits}f}"
    return f"**{text}**" if best is not None and text == f"{best(known):.{digits}f}" else text


def ranks(table, names):
    """Mean ranks over the sets on which every method has had its turn."""
    return ranks_of(table, table.methods)


def ranks_of_quick(table, names):
    """The same for methods that take seconds to a minute, and have had their turn on more sets."""
    return ranks_of(table, [method for method in table.methods if method not in COSTLY])


def ranks_of(table, methods):
    sets = [name for name in table.sets if table.complete(name, methods)]
    if not sets:
        return NOT_YET
    found = {key: {m: [] for m in methods} for key in ("nll", "crps", "rmse", "processor")}
    for key, lists in found.items():
        for name in sets:
            values = {m: v for m in methods if (v := table.value(key, name, m, beside=methods)) is not None}
            for method, rank in zip(values, rankdata(list(values.values())), strict=True):
                lists[method].append(rank)

    def row(method):
        lists = [found[key][method] for key in found]
        texts = [f"{np.mean(ranks):.1f}" if ranks else "" for ranks in lists]
        best = [f"{sum(rank == 1 for rank in ranks)}" for ranks in lists[:3]]
        return [METHODS[method].label, f"{len(lists[0])} of {len(sets)}", *texts, ", ".join(best)]

    order = sorted(methods, key=lambda m: np.mean(found["crps"][m]) if found["crps"][m] else np.inf)
    header = ["method", "sets with a result", "rank by NLL", "by CRPS", "by RMSE", "by processor seconds"]
    return markdown([*header, "sets where best: NLL, CRPS, RMSE"], [row(method) for method in order])


def losses(table, names):
    """Sets on which another method has the lower CRPS, by how much; the worst first."""
    reasons, rows = why(), []
    for name in table.sets:
        worse = {m: gap for m in table.methods if m != OURS and (gap := behind(table, name, m)) is not None}
        if not worse or max(worse.values()) <= 0:
            continue
        best = max(worse, key=worse.get)
        pair = (OURS, best)
        rmse, nll = ([table.value(key, name, m, beside=pair) for m in pair] for key in ("rmse", "nll"))
        records = table.records(name, OURS, beside=pair)
        error = np.sqrt(table.value("nll_square_error", name, OURS, beside=pair) / len(records))
        texts = [
            f"{100 * worse[best]:+.1f} %",
            f"{100 * (rmse[0] / rmse[1] - 1):+.1f} %",
            f"{nll[0] - nll[1]:+.2f} ± {error:.2f}",
        ]
        line = [name, METHODS[best].label, len(records), *texts, reasons.get(name, "")]
        rows.append((worse[best], line))
    if not rows:
        return "On no set that has been measured."
    header = [
        "set",
        "furthest ahead by CRPS",
        "splits",
        "CRPS of itergp, more by",
        "RMSE",
        "NLL, in nats",
        "why",
    ]
    return markdown(header, [row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def behind(table, name, method):
    """By how much the CRPS of itergp is larger, on the splits that both have; None where one has none."""
    ours, other = (table.value("crps", name, m, beside=(OURS, method)) for m in (OURS, method))
    return None if ours is None or other is None else ours / other - 1


def why():
    lines = TEMPLATE.read_text().partition(WHY)[2].strip().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def budgets(table, names):
    """itergp by the clock, beside its default; and how busy the machine was."""
    rows = []
    for name in table.sets:
        texts = []
        for budget in ("10s", "60s", "default"):
            nll, seconds = (table.value(key, name, OURS, budget) for key in ("nll", "fit_seconds"))
            load = max((r["load"] for r in table.records(name, OURS, budget)), default=None)
            texts.append(table.mark(name, OURS, budget) if nll is None else f"{nll:.2f} ({seconds:.0f} s)")
            texts.append("" if load is None else f"{load:.0f}")
        rows.append([name, *texts])
    return markdown(["set", "10 s", "load", "60 s", "load", "default", "load"], rows)


def sets(table, names):
    rows = []
    for name in table.sets:
        records = [record for key, record in table.by.items() if key[0] == name and "rows" in record]
        size = [f"{records[0][key]:,}" for key in ("rows", "features", "test_rows")] if records else [""] * 3
        done = [split for split in range(SETS[name].splits) if (name, split, OURS, "default") in table.by]
        rows.append([name, SETS[name].about, *size, f"{len(done)} of {SETS[name].splits}"])
    return markdown(["set", "what", "training rows", "features", "test rows", "splits so far"], rows)


def settings(table, names):
    return markdown(["method", "settings"], [[METHODS[m].label, METHODS[m].settings] for m in METHODS])


def to_be_run(table, names):
    known = {"/".join(map(str, key)) for key in table.by}
    return [name for name in names if name not in known]


def count(table, names):
    return f"{len(names) - len(to_be_run(table, names))} of {len(names)} cells have been run."


def missing(table, names):
    """Cells that were not run, and those that did not end well, in words."""
    groups, ended, parts = {}, {}, []
    for name in to_be_run(table, names):
        data, split, _, budget = name.split("/")
        groups.setdefault(f"split {split}, budget {budget}", {}).setdefault(data, []).append(name)
    for group, of in groups.items():
        listed = ", ".join(f"{data} ({len(cells)})" for data, cells in of.items())
        parts.append(f"To be run, {group}, with the number of cells: {listed}.")
    for key, record in table.by.items():
        if record["status"] not in ("done", "too many rows") and "as_split" not in record:
            reason = record.get("error", record["status"]).replace("|", "/").replace("`", "'")
            ended.setdefault(reason, []).append("/".join(map(str, key)))
    for reason, cells in ended.items():
        parts.append(f'Ended with "{reason}": ' + ", ".join(f"`{cell}`" for cell in cells) + ".")
    return "\n\n".join(parts) or "Nothing: all cells have been run, and ended well."


def versions(table, names):
    found = {}
    for record in table.by.values():
        for package, version in record.get("versions", {}).items():
            found.setdefault(package, set()).add(version)
    return ", ".join(f"{package} {' and '.join(sorted(found[package]))}" for package in sorted(found))


def loads(table, names):
    values = [record["load"] for record in table.by.values() if "load" in record]
    if not values:
        return NOT_YET
    return f"{np.median(values):.1f} (median; from {min(values):.1f} to {max(values):.1f})"


BLOCKS = {
    "nll": scores_table("nll", 2),
    "crps": scores_table("crps", 4),
    "rmse": scores_table("rmse", 4),
    "coverage": scores_table("percent", 1, best=None),
    "processor": scores_table("processor", 1, timed=True),
    "seconds": scores_table("fit_seconds", 1, timed=True),
    "predict": scores_table("predict_ms", 2, timed=True),
    "memory": scores_table("megabytes", 0),
    "ranks": ranks,
    "ranks_of_quick": ranks_of_quick,
    "losses": losses,
    "budgets": budgets,
    "sets": sets,
    "settings": settings,
    "count": count,
    "missing": missing,
    "versions": versions,
    "loads": loads,
}


def filled(template, table, names):
    def put(match):
        words = match[1].split()
        if len(words) == 1:
            return BLOCKS[words[0]](table, names)
        key, method, name = words
        value = table.value(key, name, method)
        return NOT_YET if value is None else f"{value:.3g}"

    return re.sub(r"\{\{([^}]+)\}\}", put, template.partition(WHY)[0])


def front(points):
    """Of (seconds, nll): those that no other point beats in both, by seconds."""
    kept = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def draw(table, path):
    """NLL over seconds of the processor, one panel for each set."""
    import matplotlib.pyplot as plt

    columns = min(5, max(3, len(table.sets)))
    rows = -(-len(table.sets) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.9 * columns, 2.4 * rows + 0.7), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(table.sets) :]:
        ax.set_visible(False)
    for ax, name in zip(axes.flat, table.sets, strict=False):
        panel(ax, table, name)
    figure.supxlabel("processor seconds of fit and prediction", fontsize="medium")
    figure.supylabel("NLL", fontsize="medium")
    marks = [plt.Line2D([], [], color=COLOURS[m], marker=marker(m), ls="") for m in table.methods]
    labels = [METHODS[m].label for m in table.methods]
    figure.legend(marks, labels, loc="outside upper center", ncols=5, frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def marker(method):
    return "*" if method == OURS else "o"


def panel(ax, table, name):
    points = {}
    for method, budget in [*((m, "default") for m in table.methods), (OURS, "10s"), (OURS, "60s")]:
        seconds, nll = (table.value(key, name, method, budget) for key in ("processor", "nll"))
        if nll is not None:
            points[method, budget] = seconds, nll
    ax.set(xscale="log", title=name)
    ax.grid(alpha=0.3)
    if not points:
        return
    low = min(nll for _, nll in points.values())
    edge = low + ABOVE
    for (method, budget), (seconds, nll) in points.items():
        shape = "^" if nll > edge else marker(method)
        size = 11 if shape == "*" and budget == "default" else 6
        ax.plot(seconds, min(nll, edge), shape, color=COLOURS[method], ms=size)
    steps = front(points.values())
    ax.step(*zip(*steps, strict=True), where="post", color="0.7", lw=1, zorder=0)
    ax.set_ylim(low - 0.08 * ABOVE, min(edge, max(nll for _, nll in points.values())) + 0.08 * ABOVE)


def write(records, names, docs):
    table = Table(records)
    (docs / "comparison.md").write_text(filled(TEMPLATE.read_text(), table, names))
    (docs / "figures").mkdir(exist_ok=True)
    draw(table, docs / "figures" / "comparison.png")

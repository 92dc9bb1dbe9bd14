"""The page of the comparison, from records alone: docs/comparison.md and docs/figures/comparison.png.

Words are those of benchmarks/comparison.template.md, numbers those of the records. In the template,
`{{name}}` is one of BLOCKS, and `{{nll itergp bike}}` a score of a method on a set, the mean over its splits.
Lines after WHY, `set: sentence`, are the last column of the table of losses. What README.md and docs/index.md
say of the comparison, between two marks, is written from the records too.
"""

import re
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from compare_data import SETS
from compare_methods import COSTLY, METHODS

TEMPLATE = Path(__file__).with_name("comparison.template.md")
WHY = "\n---- why\n"
MARK, MARK_END = "<!-- comparison -->", "<!-- end -->"
OURS = "itergp"
NOT_YET, NOT_ASKED = "(not measured yet)", "too many rows"
MARKS = {"timeout": "time", "out of memory": "memory", NOT_ASKED: "n", "failed": "error"}
COLOURS = dict(zip(METHODS, ("#9467bd", *(f"C{i}" for i in (7, 2, 8, 1, 3, 5, 0, 9))), strict=True))
BUSY = 3.5  # load average from which two cores had more to do than a cell, and one beside it
ABOVE = 1.5  # nats above the best at which the figure ends; what is worse is drawn on its edge


class Table:
    """Records by cell, and what the page asks of them.

    What stands side by side is compared on the same splits: those in which all of `beside`, pairs of a method
    and a budget, have had their turn. Without `beside` these are the methods that had theirs on the first
    split of the set.
    """

    def __init__(self, records):
        self.by = {(r["set"], r["split"], r["method"], r["budget"]): r for r in records}
        self.methods = [m for m in METHODS if any(key[2] == m for key in self.by)]
        self.sets = [s for s in SETS if any(key[0] == s for key in self.by)]

    def asked(self, name, methods=tuple(METHODS), budgets=("default",)):
        pairs = [(method, budget) for method in methods for budget in budgets]
        return [pair for pair in pairs if (name, 0, *pair) in self.by]

    def splits(self, name, beside=None):
        beside = self.asked(name) if beside is None else beside
        all_of = range(SETS[name].splits)
        return [split for split in all_of if all((name, split, *pair) in self.by for pair in beside)] or [0]

    def complete(self, name, methods):
        return len(self.asked(name, methods)) == len(methods)

    def records(self, name, method, budget="default", beside=None):
        keys = [(name, split, method, budget) for split in self.splits(name, beside)]
        return [self.by[key] for key in keys if key in self.by]

    def value(self, key, name, method, budget="default", beside=None):
        """The mean over these splits; None if one of them did not end well."""
        found = self.records(name, method, budget, beside)
        if not found or any(record["status"] != "done" for record in found):
            return None
        values = [KEYS.get(key, lambda r, key=key: r[key])(record) for record in found]
        return None if None in values else float(np.mean(values))

    def failed(self, name, method, beside=None):
        """Whether a method was asked, and one of its cells did not end well."""
        return any(r["status"] not in ("done", NOT_ASKED) for r in self.records(name, method, beside=beside))

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
    "crps_of_quantiles": lambda r: of_quantiles(r, "crps"),
    "percent_in_quantiles": lambda r: None if (c := of_quantiles(r, "coverage")) is None else 100 * c,
}


def of_quantiles(record, key):
    """A score of the quantiles of itergp; None for other methods, and where they were not asked for."""
    return record.get("about", {}).get("quantiles", {}).get(key)


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def scores_table(key, digits, best=min, timed=False, quantiles=None):
    """Sets by methods, the best in bold type; seconds from a busy machine have a star. `quantiles` is the
    same score of those of itergp, beside its own."""

    def make(table, names):
        columns = [(method, key, METHODS[method].label) for method in table.methods]
        if quantiles and OURS in table.methods:
            columns.insert(1, (OURS, quantiles, f"{OURS}, quantiles"))
        rows = []
        for name in table.sets:
            values = [table.value(of, name, method) for method, of, _ in columns]
            known = [value for value in values if value is not None]
            texts = [
                table.mark(name, method)
                if value is None
                else shown(value, digits, known, best) + "\\*" * (timed and table.busy(name, method))
                for value, (method, *_) in zip(values, columns, strict=True)
            ]
            rows.append([name, len(table.splits(name)), *texts])
        return markdown(["set", "splits", *(label for *_, label in columns)], rows)

    return make


def shown(value, digits, known, best):
    """A format, such as ".2f", or for small numbers of any size "#.3g"."""
    text = format(value, digits)
    return f"**{text}**" if best is not None and text == format(best(known), digits) else text


def ranks(table, names):
    """Mean ranks over the sets on which every method has had its turn."""
    return ranks_of(table, table.methods)


def ranks_of_quick(table, names):
    """The same for methods that take seconds to a minute, and have had their turn on more sets."""
    return ranks_of(table, quick(table))


def ranks_of_new(table, names):
    """The same on the sets that were not looked at while the defaults of itergp were made."""
    return ranks_of(table, quick(table), [name for name in table.sets if not SETS[name].looked_at])


def quick(table):
    return [method for method in table.methods if method not in COSTLY]


def ranks_of(table, methods, sets=None):
    """A method that did not end well is the last; one that is not asked for so many rows has no rank."""
    sets = [name for name in (table.sets if sets is None else sets) if table.complete(name, methods)]
    if not sets:
        return NOT_YET
    found = {key: {m: [] for m in methods} for key in ("nll", "crps", "rmse", "processor")}
    for key, lists in found.items():
        for name in sets:
            beside = table.asked(name, methods)
            values = {m: table.value(key, name, m, beside=beside) for m in methods}
            values |= {m: np.inf for m in methods if table.failed(name, m, beside)}
            values = {m: value for m, value in values.items() if value is not None}
            for method, rank in zip(values, rankdata(list(values.values())), strict=True):
                lists[method].append(rank)

    def row(method):
        lists = [found[key][method] for key in found]
        texts = [f"{np.mean(ranks):.1f}" if ranks else "" for ranks in lists]
        best = [f"{sum(rank == 1 for rank in ranks)}" for ranks in lists[:3]]
        return [METHODS[method].label, f"{len(lists[0])} of {len(sets)}", *texts, ", ".join(best)]

    def order(method):  # one that was asked on some sets only has ranks among other numbers of methods
        ranks = found["crps"][method]
        return len(ranks) < len(sets), np.mean(ranks) if ranks else np.inf

    header = ["method", "asked on", "rank by NLL", "by CRPS", "by RMSE", "by processor seconds"]
    rows = [row(method) for method in sorted(methods, key=order)]
    return markdown([*header, "sets where best: NLL, CRPS, RMSE"], rows)


def losses(table, names):
    """Sets on which another method is better by CRPS or NLL, by how much; the worst CRPS first."""
    reasons, rows = why(), []
    for name in table.sets:
        if table.failed(name, OURS):
            rows.append((np.inf, [name, "", "no result", "", "", "", "", "", reasons.get(name, "")]))
            continue
        by_crps, by_nll = ahead(table, name, "crps"), ahead(table, name, "nll")
        if by_crps is None and by_nll is None:
            continue
        line, gap = [name, "", "", "", "", "", ""], -np.inf
        if by_crps is not None:
            method, ours, other = by_crps
            pair = [(OURS, "default"), (method, "default")]
            rmse = [table.value("rmse", name, m, beside=pair) for m in (OURS, method)]
            gap = ours / other - 1
            quantiles = table.value("crps_of_quantiles", name, OURS, beside=pair)
            by_quantiles = "" if quantiles is None else percent(quantiles / other - 1)
            ratio = percent(rmse[0] / rmse[1] - 1)
            line[1:5] = [METHODS[method].label, percent(gap), by_quantiles, ratio]
        if by_nll is not None:
            method, ours, other = by_nll
            line[5:] = [METHODS[method].label, f"{ours - other:+.2f} ± {nll_error(table, name, method):.2f}"]
        splits = {
            len(table.splits(name, [(OURS, "default"), (by[0], "default")])) for by in (by_crps, by_nll) if by
        }
        rows.append(
            (gap, [line[0], " and ".join(map(str, sorted(splits))), *line[1:], reasons.get(name, "")])
        )
    if not rows:
        return "On no set that has been measured."
    header = ["set", "splits", "furthest ahead by CRPS", "CRPS of itergp, more by", "its quantiles", "RMSE"]
    header += ["furthest ahead by NLL", "NLL of itergp, more by", "why"]
    return markdown(header, [row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def percent(ratio):
    return f"{100 * ratio:+.1f} %"


def ahead(table, name, key):
    """The method that is furthest ahead of itergp, with both values on the splits that both have; None if
    there is none."""
    found = []
    for method in table.methods:
        pair = [(OURS, "default"), (method, "default")]
        ours, other = (table.value(key, name, m, beside=pair) for m in (OURS, method))
        if method != OURS and ours is not None and other is not None and other < ours:
            found.append((ours / other if key == "crps" else ours - other, method, ours, other))
    return max(found)[1:] if found else None


def nll_error(table, name, method):
    """One standard error of the difference, as if errors of the two were independent."""
    pair = [(OURS, "default"), (method, "default")]
    squares = [table.value("nll_square_error", name, m, beside=pair) for m in (OURS, method)]
    return float(np.sqrt(sum(squares) / len(table.splits(name, pair))))


def in_short(table, names):
    """On how many sets itergp is the best by each score, of all methods that have a result there; sets on
    which the quick methods have had their turn."""
    sets = [name for name in table.sets if table.complete(name, [m for m in METHODS if m not in COSTLY])]
    best = dict.fromkeys(("rmse", "crps", "nll"), 0)
    for key in best:
        for name in sets:
            values = {m: v for m in table.methods if (v := table.value(key, name, m)) is not None}
            best[key] += OURS in values and values[OURS] == min(values.values())
    return (
        f"On {len(sets)} public tables, beside boosting, a forest, CatBoost, a linear model and four\n"
        "other Gaussian processes (not all of them on all tables), it has the lowest RMSE on "
        f"{best['rmse']}, the best CRPS on {best['crps']}\nand the best NLL on {best['nll']}"
    )


def why():
    lines = TEMPLATE.read_text().partition(WHY)[2].strip().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def budgets(table, names):
    """itergp by the clock, beside its default on the same splits; and how busy the machine was."""
    rows, of = [], ("10s", "60s", "default")
    for name in table.sets:
        beside, texts = table.asked(name, [OURS], of), []
        for budget in of:
            nll, seconds = (table.value(key, name, OURS, budget, beside) for key in ("nll", "fit_seconds"))
            load = max((r["load"] for r in table.records(name, OURS, budget, beside)), default=None)
            texts.append(table.mark(name, OURS, budget) if nll is None else f"{nll:.2f} ({seconds:.0f} s)")
            texts.append("" if load is None else f"{load:.0f}")
        rows.append([name, len(table.splits(name, beside)), *texts])
    return markdown(["set", "splits", "10 s", "load", "60 s", "load", "default", "load"], rows)


def sets(table, names):
    rows = []
    for name in table.sets:
        records = [record for key, record in table.by.items() if key[0] == name and "rows" in record]
        size = [f"{records[0][key]:,}" for key in ("rows", "features", "test_rows")] if records else [""] * 3
        done = [split for split in range(SETS[name].splits) if (name, split, OURS, "default") in table.by]
        seen = "yes" if SETS[name].looked_at else ""
        rows.append([name, SETS[name].about, *size, f"{len(done)} of {SETS[name].splits}", seen])
    header = ["set", "what", "training rows", "features", "test rows", "splits of itergp", "looked at"]
    return markdown(header, rows)


def settings(table, names):
    return markdown(["method", "settings"], [[METHODS[m].label, METHODS[m].settings] for m in METHODS])


def to_be_run(table, names):
    known = {"/".join(map(str, key)) for key in table.by}
    return [name for name in names if name not in known]


def count(table, names):
    carried = sum("as_split" in record for record in table.by.values())
    run = len(names) - len(to_be_run(table, names)) - carried
    more = f"; {carried} more were not asked for, as their method took too much on the first split" * (
        carried > 0
    )
    return f"{run} of {len(names)} cells have been run{more}."


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
    of_ours = {r.get("commit", "earlier") for r in table.by.values() if r["method"] == OURS}
    listed = ", ".join(f"{package} {' and '.join(sorted(found[package]))}" for package in sorted(found))
    return f"{listed}; cells of itergp at commits {', '.join(sorted(of_ours)) or 'none'}"


def loads(table, names):
    """The median over cells, for each method."""
    texts = []
    for method in table.methods:
        values = [r["load"] for key, r in table.by.items() if key[2] == method and "load" in r]
        texts += [f"{METHODS[method].label} {np.median(values):.1f}"] if values else []
    return ", ".join(texts) or NOT_YET


BLOCKS = {
    "nll": scores_table("nll", ".2f"),
    "crps": scores_table("crps", "#.3g", quantiles="crps_of_quantiles"),
    "rmse": scores_table("rmse", "#.3g"),
    "coverage": scores_table("percent", ".1f", best=None, quantiles="percent_in_quantiles"),
    "processor": scores_table("processor", ".1f", timed=True),
    "seconds": scores_table("fit_seconds", ".1f", timed=True),
    "predict": scores_table("predict_ms", ".2f", timed=True),
    "memory": scores_table("megabytes", ".0f"),
    "ranks": ranks,
    "ranks_of_quick": ranks_of_quick,
    "ranks_of_new": ranks_of_new,
    "in_short": in_short,
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
        ended = f"({table.mark(name, method) or NOT_YET[1:-1]})"
        return ended if value is None else f"{value:.3g}"

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
    points, beside = {}, [*table.asked(name), *table.asked(name, [OURS], ("10s", "60s"))]
    for method, budget in beside:
        seconds, nll = (table.value(key, name, method, budget, beside) for key in ("processor", "nll"))
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


def cited(text, sentence):
    """A page with what it says of the comparison, between two marks, as the records have it."""
    return re.sub(rf"({MARK})[^<]*({MARK_END})", lambda match: match[1] + sentence + match[2], text)


def write(records, names, docs):
    table = Table(records)
    (docs / "comparison.md").write_text(filled(TEMPLATE.read_text(), table, names))
    for page in (docs.parent / "README.md", docs / "index.md"):
        if page.exists():
            page.write_text(cited(page.read_text(), in_short(table, names)))
    (docs / "figures").mkdir(exist_ok=True)
    draw(table, docs / "figures" / "comparison.png")

"""Large tables: read some rows at a time, by Arrow or by the standard library, they are the same tables, and
what is wrong in a late row is named."""

import gzip
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from itergp import InputError, MemoryLimitError, StorageError
from itergp.tables import Inputs, Layout, read_table, training, write_table, writing_table
from itergp.tables.cells import Coded, Lines
from itergp.tables.numbers import numbers_of
from itergp.tables.pieces import Pieces
from itergp.tables.table import NUMBERS, How

arrow = pytest.importorskip("itergp.tables.arrow", exc_type=ImportError)


@pytest.fixture(params=[37, 200, 1 << 21], ids=lambda size: f"{size} bytes")
def fast(request, monkeypatch):
    """Every file is a large one, and is cut in many places."""
    hurried(monkeypatch, request.param)


def hurried(monkeypatch, block):
    monkeypatch.setattr("itergp.tables.pieces.LARGE", 0)
    monkeypatch.setattr("itergp.tables.arrow.BLOCK", block)


def written(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def outcome(path, target, categorical=(), header=None, whole=False):
    """Everything that the fit reads of a table, or the message of the error."""
    try:
        use = None if whole else lambda head: Layout.uses(head, target, (), categorical)
        table = read_table(path, header, (), use)
        layout = Layout.of(table, target, (), categorical)
        lines = [table.lines[i] for i in range(table.rows)]
        X, y = layout.X(table).tolist(), repr(layout.y(table).tolist())  # NaN where it is missing
        return layout, table.names, table.header, lines, X, y, sorted(table.notes.sentences())
    except InputError as error:
        return str(error)


ROWS = "".join(f"{i}.5,{-i}e-3,{('red', 'blue', ' red ')[i % 3]},{i * i}\n" for i in range(60))
PLAIN = "a,b,colour,y\n" + ROWS

ODD = {
    "plain": PLAIN,
    "semicolons": PLAIN.replace(",", ";"),
    "tabs": PLAIN.replace(",", "\t"),
    "bars": PLAIN.replace(",", "|"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "CR": PLAIN.replace("\n", "\r"),
    "mixed line ends": PLAIN.replace("\n", "\r\n", 20).replace("red\r\n", "red\n"),
    "a CR late": PLAIN.replace("40.5", "40.5\r"),
    "a line that ends in CR": PLAIN.replace("\n30.5", "\r30.5"),
    "a blank line that ends in CR": PLAIN.replace("\n30.5", "\n\r30.5"),
    "text after a line that ends in CR": PLAIN.replace("\n30.5", "\r30.5").replace("50.5,", "fifty,"),
    "no last end": PLAIN.rstrip("\n"),
    "BOM": "\ufeff" + PLAIN,
    "BOM in the middle": PLAIN.replace("30.5", "\ufeff30.5"),
    "blank lines": "\n\n" + PLAIN.replace("\n", "\n\n") + "\n  \n",
    "a blank line late": PLAIN.replace("40.5", "\n40.5"),
    "blanks late": PLAIN.replace("40.5", "   \n40.5"),
    "quotes": "".join(",".join(f'"{c}"' for c in line.split(",")) + "\n" for line in PLAIN.splitlines()),
    "some quotes": PLAIN.replace("blue", '"blue"'),
    "a quoted name": PLAIN.replace("colour", '"col,our"'),
    "a name on two lines": PLAIN.replace("colour", '"col\nour"'),
    "a quoted separator late": PLAIN.replace("40.5,-40e-3,blue", '40.5,-40e-3,"bl,ue"'),
    "a cell on two lines late": PLAIN.replace("40.5,-40e-3,blue", '40.5,-40e-3,"bl\nue"'),
    "doubled quotes": PLAIN.replace("blue", '"bl""ue"'),
    "a quote inside": PLAIN.replace("blue", 'bl"ue'),
    "a quote that is not closed": PLAIN.replace("40.5,", '"40.5,'),
    "text after a quote": PLAIN.replace("40.5,", '"40".5,'),
    "spaces": PLAIN.replace(",", " , "),
    "hard spaces": PLAIN.replace("40.5", "40.5\u00a0"),
    "plus signs": PLAIN.replace(",-", ",+"),
    "other digits": PLAIN.replace("40.5", "٤٠"),
    "letters": PLAIN.replace("blue", "blåt"),
    "a short row": PLAIN.replace("40.5,", ""),
    "a long row": PLAIN.replace("40.5,", "40.5,1,"),
    "NUL": PLAIN.replace("40.5", "\0"),
    "Latin-1": PLAIN.replace("blue", "blåt").encode("latin-1"),
    "text late": PLAIN.replace("40.5,", "forty,"),
    "text in two columns": PLAIN.replace("40.5,", "forty,").replace("-30e-3", "-"),
    "a type that changes": PLAIN[: PLAIN.index("30.5")]
    + PLAIN[PLAIN.index("30.5") :].replace("e-3", " metres"),
    "missing": PLAIN.replace("40.5", "").replace("50.5", " NA ").replace("-7e-3", "NaN"),
    "missing and text": PLAIN.replace("10.5", "").replace("50.5", "x"),
    "a missing target": PLAIN.replace(",225\n", ",\n"),
    "a missing category": PLAIN.replace("-40e-3,blue", "-40e-3, "),
    "infinite": PLAIN.replace("40.5", "-Infinity"),
    "too large": PLAIN.replace("40.5", "1e999"),
    "minus nan": PLAIN.replace("40.5", "-nan"),
    "nan with a code": PLAIN.replace("40.5", "nan(1)"),
    "underscores": PLAIN.replace("40.5", "4_0"),
    "hexadecimal": PLAIN.replace("40.5", "0x28"),
    "decimal commas": PLAIN.replace(",", ";").replace(".5", ",5"),
    "decimal commas and thousands": PLAIN.replace(",", ";").replace("40.5", "1.240,5").replace(".5", ",5"),
    "a comma late that is none": PLAIN.replace(",", ";").replace("58.5", "58,5"),
    "a point late that is none": PLAIN.replace(",", ";").replace(".5", ",5").replace("58,5", "58.5"),
    "a comma late that may be either": PLAIN.replace(",", ";").replace(".5", "").replace("58;", "5,800;"),
    "thousands": PLAIN.replace("40.5", '"1,040.5"').replace("50.5", '"12,345"').replace("59.5", "1'000"),
    "percent": PLAIN.replace("40.5", "40.5%").replace("50.5", " 50.5 %"),
    "two percent signs": PLAIN.replace("40.5", "40.5%%"),
    "truth values": PLAIN.replace("40.5", "True").replace("50.5", "false"),
    "truth values as categories": PLAIN.replace("blue", "true").replace(" red ", "TRUE"),
    "4 and 4.0": PLAIN.replace("blue", "4").replace(" red ", "4.0"),
    "dates": PLAIN.replace(".5,", "-01-31,").replace("\n", "\n20", 60).replace("\n20", "\n200", 10),
    "comments above": "# made by hand\n#\n" + PLAIN,
    "names in a comment": "# " + PLAIN,
    "comments among the rows": PLAIN.replace("40.5,", "# half of it\n40.5,").replace("2.5,", "#\n2.5,", 1),
    "many comments": "# word\n" * 120 + PLAIN,
    "data that begin with #": PLAIN.replace("a,b,colour", "colour,b,a").replace("40.5", "#40"),
    "an index": "".join(f"{i or ''},{line}\n" for i, line in enumerate(PLAIN.splitlines())),
    "an empty column": PLAIN.replace("\n", ",\n"),
    "rows that end in a separator": PLAIN.replace("\n", ",\n").replace("y,\n", "y\n", 1),
    "many digits": PLAIN.replace("40.5", "0.1000000000000000055511151231257827021181583404541015626"),
    "a long cell": PLAIN.replace("40.5", "4" + "0" * 140_000),
    "zeros first": PLAIN.replace("blue", "007"),
    "no names": ROWS,
    "names only": "a,b,colour,y\n",
    "empty": "",
}


@pytest.mark.parametrize("what", ODD)
def test_arrow_and_the_standard_library_read_the_same_or_refuse_with_the_same_words(what, tmp_path, fast):
    path = written(tmp_path, ODD[what])
    target, text = ("y", ["colour"]) if "index" in what else ("4", ["3"])
    assert outcome(path, target, text) == outcome(path, target, text, whole=True)


def test_points_that_may_separate_thousands_are_refused_by_both_readers(tmp_path, monkeypatch):
    """As far as a block of lines goes."""
    hurried(monkeypatch, arrow.BLOCK)
    content = PLAIN.replace(",", ";").replace(".5", "").replace("58;", "5.800;")
    path = written(tmp_path, content)
    fast, slow = outcome(path, "4", ["3"]), outcome(path, "4", ["3"], whole=True)
    assert "'5.800' is not a number for certain" in fast
    assert fast == slow


def test_plain_tables_are_read_by_arrow_and_odd_places_alone_are_not(tmp_path, monkeypatch):
    """Otherwise nothing above is about Arrow."""
    hurried(monkeypatch, 200)
    cells, blocks = arrow._by_cells, []
    monkeypatch.setattr(arrow, "_by_cells", lambda *what: blocks.append(what[-1]) or cells(*what))
    counts = {}
    for what in ("plain", "some quotes", "CRLF", "missing", "a blank line late", "a quoted separator late"):
        blocks.clear()
        outcome(written(tmp_path, ODD[what]), "4", ["3"])
        counts[what] = len(blocks)
    assert list(counts.values()) == [0, 0, 0, 1, 1, 1]  # " NA " is an unusual way to write it


CELL = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.text('01.e-+_,"\n\r \t;?nN', max_size=6),
    st.sampled_from(
        ["1,5", "1,234", "1.234,5", "12 %", "1'234", "true", "4.0", "2024-01-31", "#", "\x1a", "#N/A"]
    ),
    st.sampled_from(["", " ", "NA", "nan", "null", "?", "1.", ".5", "+1", "1e400", "1e-400", '"a"', "é"]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(8, 64),
    st.booleans(),
)
def test_any_cells_are_read_alike(tmp_path_factory, rows, separator, end, block, last):
    head = [separator.join("abc"), *[separator.join("123")] * 60]  # so that the separator is beyond doubt
    content = end.join([*head, *map(separator.join, rows)]) + end * last
    path = written(tmp_path_factory.mktemp("cells"), content.encode("utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        hurried(patch, block)
        for text in ([], ["b"], ["a", "b"]):
            expected = outcome(path, "c", text, header=True, whole=True)
            assert outcome(path, "c", text, header=True) == expected


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=1, max_size=8),
    st.sampled_from(["1;2;3", "1,5;2;3", "2024-01-31;2;3"]),
    st.integers(8, 64),
    st.sampled_from(["refuse", "drop", "impute"]),
)
def test_any_rows_are_skipped_dropped_and_filled_alike(tmp_path_factory, rows, plain, block, missing):
    """Both readers find the same rows to be usable, fill the same values in, and count the same."""
    content = "\n".join(["a;b;c", *[plain] * 60, *map(";".join, rows)]) + "\n"
    path = written(tmp_path_factory.mktemp("rows"), content.encode("utf-8", "replace"))

    def outcome(whole):
        use = None if whole else lambda head: Layout.uses(head, "c", (), ["b"], missing=missing)
        try:
            table = read_table(path, True, (), use, skip_bad=True)
            layout = Layout.of(table, "c", (), ["b"], missing=missing)
            found = training(table, layout, skip_bad=True)
        except InputError as error:
            return str(error)
        return (
            layout,
            repr(found.X.tolist()),  # NaN is NaN
            found.y.tolist(),
            found.kept.tolist(),
            sorted(table.notes.sentences()),
        )

    with pytest.MonkeyPatch.context() as patch:
        hurried(patch, block)
        assert outcome(False) == outcome(True)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("1,2\n", "line 50001: 2 cells; expected 3, as in line 1"),
        ("1,two,3\n", "line 50001, column 'b': 'two' is not a number"),
        ("1,,3\n", r"line 50001, column 'b': the value is missing \(1 is missing in all\)"),
        ('1,"2,3\n', "line 50001: .*quotation mark"),
        ("1,\0,3\n", "line 50001: a NUL byte"),
    ],
)
def test_a_damaged_last_row_is_named(last, message, tmp_path, monkeypatch):
    hurried(monkeypatch, 1 << 16)
    path = written(tmp_path, "a,b,y\n" + "1.5,2.5,3\n" * 49_999 + last)
    found = outcome(path, "y")
    with pytest.raises(InputError, match=message):
        raise InputError(found)
    layout = Layout.of_inputs(3, ["a", "b", "y"])
    with pytest.raises(InputError, match=message):
        Inputs(path, None, layout)


def test_columns_that_nobody_uses_may_hold_anything(tmp_path, fast):
    path = written(tmp_path, PLAIN)
    table = read_table(path, use=lambda head: Layout.uses(head, "y", ["colour"]))
    assert len(table.columns[2]) == 0
    assert Layout.of(table, "y", ["colour"]).X(table).shape == (60, 2)


def test_wrong_options_are_refused_before_the_rows_are_read(tmp_path):
    path = written(tmp_path, "a,b,y\n" + "1,2,3\n" * 100 + "1,2\n")
    with pytest.raises(InputError, match="--target is 'z', which is not a column"):
        read_table(path, use=lambda head: Layout.uses(head, "z"))


# Parquet.


def test_parquet_in_batches_is_parquet_at_once(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "id": pa.array(range(50), pa.int32()),
        " colour": pa.array([("red", "blue", " red")[i % 3] for i in range(50)]).dictionary_encode(),
        "words": pa.array([str(i / 4) for i in range(50)]),
        "flag": pa.array([i % 2 == 0 for i in range(50)]),
        "y": pa.array(range(50), pa.decimal128(5, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=20)
    monkeypatch.setattr("itergp.tables.pieces.BATCH", 7)
    expected = outcome(tmp_path / "t.parquet", "y", ["id,colour"], whole=True)[:-1]  # nobody asked for these
    assert outcome(tmp_path / "t.parquet", "y", ["id,colour"])[:-1] == expected
    columns["words"] = pa.array([*["1.5"] * 30, "x", None, *["2"] * 18])
    columns["z"] = pa.array([*[1.0] * 40, None, float("inf"), *[2.0] * 8])
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet", row_group_size=20)
    for drop in ([], ["words"]):
        messages = []
        for use in (None, lambda head, drop=drop: Layout.uses(head, "y", drop, ["colour"])):
            table = read_table(tmp_path / "bad.parquet", use=use)
            with pytest.raises(InputError, match=r"row 31|row 42") as error:
                Layout.of(table, "y", drop, ["colour"]).X(table)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


# Inputs of a model, block by block.


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("size", [1, 7, 60, 1000])
def test_blocks_are_the_rows_of_the_whole_table_in_order(suffix, size, tmp_path, monkeypatch):
    hurried(monkeypatch, 200)
    monkeypatch.setattr("itergp.tables.pieces.BATCH", 9)
    monkeypatch.setattr("itergp.tables.reading.TOGETHER", 40)
    path = tmp_path / f"new{suffix}"
    if suffix == ".parquet":
        rng = np.random.default_rng(1)
        write_table(path, {"b": rng.standard_normal(60), "a": rng.standard_normal(60)})
    else:
        path.write_bytes(gzip.compress(PLAIN.encode()) if suffix == ".csv.gz" else PLAIN.encode())
    layout = Layout.of_inputs(2, ["a", "b"])
    inputs, table = Inputs(path, None, layout), read_table(path)
    blocks = list(inputs.blocks(size))
    assert inputs.rows == table.rows == 60
    assert inputs.unknown == layout.unknown(table)
    assert [len(block.X) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), layout.X(table))
    assert all(block.usable.all() for block in blocks)


def test_all_rows_are_checked_before_the_first_is_used(tmp_path, monkeypatch):
    """Faults are those of the whole table: text before missing values, numbers before categories, and how
    many are missing in all."""
    hurried(monkeypatch, 200)
    table = read_table(written(tmp_path, PLAIN))
    layout = Layout.of(table, "y", [], ["colour"])
    for number, changes in enumerate(
        (
            {"5.5,": ",", "45.5,": ",", "-30e-3": "?"},
            {"5.5,": ",", "45.5,": "x,", "-50e-3": "y"},
            {"-1e-3,blue": "-1e-3,mauve", "45.5,": "x,"},
            {"-1e-3,blue": "-1e-3,mauve", "-40e-3,blue": "-40e-3,"},
        )
    ):
        content = PLAIN
        for old, new in changes.items():
            content = content.replace("\n" + old, "\n" + new) if old[0] in "45" else content.replace(old, new)
        path = written(tmp_path, content, f"{number}.csv")
        with pytest.raises(InputError) as whole:
            layout.X(read_table(path))
        with pytest.raises(InputError) as streamed:
            Inputs(path, None, layout)
        assert str(streamed.value) == str(whole.value)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    hurried(monkeypatch, 200)
    path = written(tmp_path, PLAIN)
    inputs = Inputs(path, None, Layout.of_inputs(2, ["a", "b"]))
    path.write_text(PLAIN + "1,2,red,3\n")
    with pytest.raises(StorageError, match=r"table.csv has changed while it was read"):
        list(inputs.blocks(10))


# Memory.

PEAK = """
import re, sys
from pathlib import Path
from itergp.tables import Inputs, Layout, arrow, pieces, read_table
pieces.LARGE = 0
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
def fit(path):
    table = read_table(path, use=lambda head: Layout.uses(head, "y"))
    layout = Layout.of(table, "y")
    return layout.X(table), layout.y(table)
def predict(path):
    for X in Inputs(path, None, Layout.of_inputs(5, ["a", "b", "c", "d", "e"])).blocks(10_000): pass
work = {"fit": fit, "predict": predict}[sys.argv[1]]
work(Path(sys.argv[2]))  # after which the libraries are loaded, and have done everything once
before = peak()
work(Path(sys.argv[3]))
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("work", "bound"), [("fit", 3.0), ("predict", 0.5)])
def test_more_rows_take_twice_the_memory_of_their_numbers_and_predictions_none(work, bound, suffix, tmp_path):
    """The rest is what allocators keep at this size, and a group of rows of Parquet."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    csv = pytest.importorskip("pyarrow.csv")
    small, large = tmp_path / f"small{suffix}", tmp_path / f"large{suffix}"
    numbers = np.random.default_rng(2).standard_normal((6, 1_200_000)).round(3)
    for path, rows in ((small, 200_000), (large, 1_200_000)):
        table = pa.table(dict(zip("abcdey", numbers[:, :rows], strict=True)))
        csv.write_csv(table, path) if suffix == ".csv" else pq.write_table(
            table, path, row_group_size=100_000
        )
    run = [sys.executable, "-c", PEAK, work, str(small), str(large)]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert int(found.stdout) < bound * 8 * 6 * 1_000_000


def test_a_table_for_which_there_is_no_memory_is_refused_while_it_is_read_by_arrow(tmp_path, monkeypatch):
    hurried(monkeypatch, 1 << 16)
    path = tmp_path / "table.csv"
    write_table(path, {"a": np.arange(100_000.0), "y": np.ones(100_000)})
    monkeypatch.setattr("itergp.linalg.compute.available_bytes", lambda: 1_000_000)
    with pytest.raises(MemoryLimitError, match=r"table.csv: the first .* rows of 2 cells needs about"):
        read_table(path, use=lambda head: Layout.uses(head, "y"))
    assert Inputs(path, None, Layout.of_inputs(1, ["a"])).rows == 100_000  # which needs no such memory


# Cells.


def test_without_pyarrow_large_files_are_read_all_the_same(tmp_path, monkeypatch):
    hurried(monkeypatch, 200)
    path = written(tmp_path, PLAIN)
    expected = outcome(path, "y", ["colour"])
    monkeypatch.setitem(sys.modules, "itergp.tables.arrow", None)
    assert outcome(path, "y", ["colour"]) == expected


def test_coded_cells_are_the_cells_without_spaces_around_them():
    cells = ["b", " a", "b ", "", "a"]
    coded = Coded()
    coded.append(cells[:2])
    coded.append(Coded.of(cells[2:]))
    assert list(coded) == [coded[i] for i in range(5)] == coded[0:5] == ["b", "a", "b", "", "a"]
    assert coded.where(["a", ""]).tolist() == [False, True, False, True, True]


def test_lines_are_those_of_all_runs():
    runs, lines = [range(2, 5), range(5, 9), [12, 15], range(16, 18)], Lines()
    for run in runs:
        lines.extend(run)
    assert list(lines) == lines[0:11] == [2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17]
    with pytest.raises(IndexError):
        lines[11]


def test_numbers_of_cells_and_the_first_that_is_none():
    found = numbers_of(["1", "NA", " x ", "inf", "2.5"])
    np.testing.assert_array_equal(found.values, [1, np.nan, np.inf, np.inf, 2.5])
    assert found.foreign == (2, "x")


def test_pieces_can_be_read_again(tmp_path, fast):
    pieces = Pieces(written(tmp_path, PLAIN), How(), lambda head: Layout.uses(head, "y", ["colour"]))
    assert [table.rows for table in pieces] == [table.rows for table in pieces]
    assert sum(table.rows for table in pieces) == 60


# Writing.


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_does_not_depend_on_the_blocks_in_which_it_was_written(suffix, tmp_path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("itergp.tables.writing.ROW_GROUP", 20)
    columns = {"mean": np.random.default_rng(4).standard_normal(50), "std": np.ones(50)}
    contents = []
    for size in (50, 20, 7, 1):
        path = tmp_path / f"{size}{suffix}"
        with writing_table(path) as write:
            for i in range(0, 50, size):
                write({name: column[i : i + size] for name, column in columns.items()})
        contents.append(path.read_bytes())
    assert len(set(contents)) == 1
    if suffix == ".parquet":
        found = pq.ParquetFile(path).metadata
        assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [20, 20, 10]


def test_a_parquet_file_with_damaged_pages_is_named_in_one_sentence(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, values = tmp_path / "table.parquet", np.random.default_rng(0).standard_normal(20_000)
    pq.write_table(pa.table({"a": values, "y": values}), path, compression="snappy")
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 : len(whole) // 2] = bytes(len(whole) // 2 - len(whole) // 3)
    path.write_bytes(whole)
    with pytest.raises(StorageError, match=r"table\.parquet cannot be read: .*[^.]\.$"):
        read_table(path, use=lambda head: dict.fromkeys(range(2), NUMBERS))

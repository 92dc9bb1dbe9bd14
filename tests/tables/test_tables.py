"""Tables: every dialect gives the same numbers, and whatever is wrong is named with its file, line and
column."""

import csv
import gzip
import json
import os
import shlex
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from itergp import InputError, MemoryLimitError, StorageError
from itergp.tables import Layout, csv_text, read_table, write_table
from itergp.tables.faults import quoted

PLAIN = "a,b,y\n1,2,3\n4.5,-6,7e1\n"
NUMBERS = np.array([[1, 2, 3], [4.5, -6, 70]])


def written(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def numbers(table):
    return np.array(table.columns, dtype=np.float64).T


# Dialects.


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.rstrip("\n"),
        "\ufeff" + PLAIN,
        "\n\n" + PLAIN.replace("\n", "\n\n") + "  \n\n",
        '"a","b","y"\n"1","2","3"\n"4.5","-6","7e1"\n',
        " a , b , y \n 1 , 2 , 3 \n 4.5 , -6 , 7e1 \n",
    ],
    ids=[
        "commas",
        "semicolons",
        "tabs",
        "bars",
        "CRLF",
        "CR",
        "no last end",
        "BOM",
        "blank lines",
        "quotes",
        "spaces",
    ],
)
def test_every_dialect_gives_the_same_table(tmp_path, content):
    table = read_table(written(tmp_path, content))
    assert table.names == ("a", "b", "y")
    assert table.header
    np.testing.assert_array_equal(numbers(table), NUMBERS)


def test_compressed_files_and_files_without_names(tmp_path):
    table = read_table(written(tmp_path, gzip.compress(PLAIN.partition("\n")[2].encode()), "table.csv.gz"))
    assert (table.names, table.header) == (("column 1", "column 2", "column 3"), False)
    np.testing.assert_array_equal(numbers(table), NUMBERS)


def test_lines_are_those_of_the_file_also_after_cells_with_line_ends(tmp_path):
    table = read_table(written(tmp_path, 'name,y\n\n"two\nlines",1\nb,2\n'))
    assert list(table.lines) == [3, 5]
    assert table.text(0) == ["two\nlines", "b"]


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("a,b\n1,2\n", True),
        ("1,2\n3,4\n", False),
        ("red,1\nblue,2\n", False),  # categories in both lines
        ("colour,y\nred,1\n", True),
        ("a,b\n", True),
        ("colour,size\nred,small\n", True),  # no number anywhere
        ("NA,2\n3,4\n", False),  # a value that is missing is no name
        (",y\n0,1\n1,2\n", True),  # a column without a name, as pandas writes its index
        ("y\n1\n2\n", True),
    ],
)
def test_a_first_line_of_text_above_numbers_is_a_header(tmp_path, content, header):
    path = written(tmp_path, content)
    if content == "a,b\n":
        with pytest.raises(InputError, match="no rows below"):
            read_table(path)
        return
    assert read_table(path).header is header


def test_a_first_line_that_may_be_either_must_be_decided(tmp_path):
    path = written(tmp_path, "2019,2020,y\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match=r"line 1: both text .*'y'.*--header or --no-header"):
        read_table(path)
    assert read_table(path, header=True).names == ("2019", "2020", "y")
    assert read_table(path, header=False).rows == 3
    assert read_table(path, known=["2019", "y"]).header  # a model that knows these names decides as well


def test_the_separator_is_the_one_that_splits_all_lines_alike(tmp_path):
    assert read_table(written(tmp_path, "0,;\n0.1,0.2\n"), header=True).names == ("0", ";")
    table = read_table(written(tmp_path, 'a;b,"c\nd,e",y\n1,2,3\n4,5,6\n'))
    assert table.names == ("a;b", "c\nd,e", "y")
    table = read_table(written(tmp_path, "1,5;2,5;3\n1,7;2,9;4\n", "german.csv"))
    assert len(table.names) == 3  # whose decimal commas are then named as such


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=8),
        min_size=2,
        max_size=5,
    ),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_what_is_written_as_csv_is_read_again_to_the_bit(tmp_path_factory, names, rows, seed):
    names = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(names) < 2:
        return
    X = np.random.default_rng(seed).standard_normal((rows, len(names))) * 10.0 ** np.arange(len(names))
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    write_table(path, dict(zip(names, X.T, strict=True)))
    table = read_table(path, header=True)
    assert table.names == tuple(names)
    np.testing.assert_array_equal(numbers(table), X)


# What is wrong is named.

BAD = {
    "empty": ("", "table.csv is empty"),
    "only blanks": ("\n \n\n", "is empty"),
    "short row": ("a,b,y\n1,2,3\n4,5\n", "line 3: 2 cells; expected 3, as in line 1"),
    "long row": ("a,b,y\n1,2,3\n4,5,6,7\n", "line 3: 4 cells; expected 3"),
    "short row after two-line cell": ('a,y\n"x\ny",1\n2\n', "line 4: 1 cell; expected 2"),
    "NUL": (b"a,y\n1,2\n\0,3\n", "line 3: a NUL byte"),
    "UTF-16": (PLAIN.encode("utf-16"), "is UTF-16 text; expected a table as CSV in UTF-8"),
    "spreadsheet": (b"PK\x03\x04 rest", "a spreadsheet or an archive"),
    "quotation mark": ('a,y\n"1,2\n3,4\n', "line 2: .*quotation mark"),
    "two columns alike": ("a,b,a\n1,2,3\n", r"line 1: two columns are called 'a' \(columns 1 and 3\)"),
    "alike but for spaces": ("a, a\n1,2\n", "two columns are called 'a'"),
    "names only": ("a,b,y\n", "no rows below"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_is_no_table_is_refused_with_its_line(tmp_path, what):
    content, message = BAD[what]
    with pytest.raises(InputError, match=message):
        read_table(written(tmp_path, content))


def test_a_named_pipe_is_refused_without_waiting_for_who_writes_into_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(StorageError, match=r"pipe.csv cannot be read: it is a named pipe"):
        read_table(tmp_path / "pipe.csv")


def packed(path, pieces):
    with gzip.open(path, "wb", compresslevel=9) as file:
        for piece in pieces:
            file.write(piece)
    return path


@pytest.mark.parametrize(
    "cell", [b"1,2,3\n", b"\n", b"1", b'"'], ids=["rows", "blank lines", "one line", "quotation marks"]
)
def test_a_small_file_that_unpacks_to_hundreds_of_times_its_size_is_refused(cell, tmp_path, monkeypatch):
    """What is read is bounded by what was packed, not by what somebody packed into it; here with a smaller
    bound."""
    monkeypatch.setattr("itergp.tables.lines.UNPACKED", 500_000)
    monkeypatch.setattr("itergp.tables.lines.TIMES", 20)
    monkeypatch.setattr("itergp.tables.lines.LONGEST", 1 << 18)
    path = packed(tmp_path / "bomb.csv.gz", [b"a,b,c\n1,2,3\n", cell * (10_000_000 // len(cell))])
    assert path.stat().st_size < 30_000
    tracemalloc.start()
    with pytest.raises(InputError, match=r"unpack it first|longer than|field larger than field limit"):
        read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_a_table_takes_a_few_bytes_for_each_letter_of_it(tmp_path):
    content = b"a,b,c\n" + b"1.5,-2.25,3\n" * 100_000
    tracemalloc.start()
    table = read_table(written(tmp_path, content))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert table.rows == 100_000
    assert kept < 2 * len(content)
    X = np.column_stack([table.columns[j].numbers() for j in range(3)])
    assert np.array_equal(X, np.tile([1.5, -2.25, 3], (100_000, 1)))
    assert (table.columns[1][99_999], table.lines[99_999], table.columns[2][1:3]) == (
        "-2.25",
        100_001,
        ["3", "3"],
    )
    with pytest.raises(IndexError):
        table.columns[0][100_000]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_for_which_there_is_no_memory_is_refused_while_it_is_read(suffix, tmp_path, monkeypatch):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"table{suffix}"
    write_table(path, {"a": np.arange(300_000.0), "b": np.ones(300_000)})
    monkeypatch.setattr("itergp.linalg.compute.available_bytes", lambda: 5_000_000)
    with pytest.raises(
        MemoryLimitError,
        match=rf"table{suffix}: .* rows .*needs about .* GB are available. "
        r"Remove rows",
    ):
        read_table(path)


def test_columns_are_the_same_wherever_the_reader_cuts_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = [[str(value) for value in row] for row in rng.integers(0, 100, (97, 5))]
    rows[13][2], rows[50][4], rows[96][0] = "", "a b", "é"
    content = "\n".join(",".join(row) for row in [list("vwxyz"), *rows])
    for together in (1, 7, 35, 10**6):
        monkeypatch.setattr("itergp.tables.reading.TOGETHER", together)
        table = read_table(written(tmp_path, content))
        assert [list(column) for column in table.columns] == [
            list(column) for column in zip(*rows, strict=True)
        ]
        assert all(table.columns[j][i] == rows[i][j] for i in (0, 13, 50, 96) for j in range(5))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(StorageError, match="cannot be read"):
        read_table(written(tmp_path, gzip.compress(PLAIN.encode())[:-12], "cut.csv.gz"))


BAD_CELLS = {
    "text": (
        "a,b,y\n1,2,3\n4,five,6\n",
        "line 3, column 'b': 'five' is not a number. It was one in the fit",
    ),
    "text in two columns": (
        "a,b,y\nq,r,3\ns,1,6\n",
        "line 2, column 'a': 'q' is not a number. Neither are cells of 'b'.",
    ),
    "empty cell": (
        "a,b,y\n1,,3\n4,5,6\n",
        r"line 2, column 'b': the value is missing \(1 is missing in "
        r"all\)",
    ),
    "NA": (
        "a,b,y\n1,2,3\n4,NA,6\nnan,?,9\n",
        r"line 4, column 'a': the value is missing \(3 are missing in "
        r"all\)",
    ),
    "infinite": ("a,b,y\n1,-inf,3\n", "line 2, column 'b': '-inf' is not finite"),
    "too large": ("a,b,y\n1,1e999,3\n", "'1e999' is not finite"),
    "underscore": ("a,b,y\n1,1_000,3\n", "'1_000' is not a number"),
    "decimal comma": (
        "a;b;y\n1,5;2.5;3\n1.5;2.5;3\n",
        "'1,5' is not a number. Write decimals with a point, or use --decimal ,",
    ),
    "a comma that may be either": (
        "a;b;y\n1;2,500;3\n",
        "'2,500' is not a number. Whether its comma is a decimal one is not clear: use --decimal , or",
    ),
    "currency": (
        'a,b,y\n1,"$534,393",3\n',
        r"'\$534,393' is not a number. Currencies and units are not read: write the number without '\$'.",
    ),
    "currency after a sign": ("a,b,y\n1,-$5.20,3\n", r"write the number without '\$'"),
    "currency with decimal commas": ("a;b;y\n1,5;1.234,50 EUR;3\n", "write the number without 'EUR'"),
    "unit": ("a,b,y\n1,5 kg,3\n", "write the number without 'kg'"),
    "name with a number": ("a,b,y\n1,A12,3\n", "'A12' is not a number. (?!Curr)"),
    "number in a text": ("a,b,y\n1,5 of 7,3\n", "'5 of 7' is not a number. (?!Curr)"),
    "date": ("a,b,y\n1,11.12.2020,3\n", "'11.12.2020' is not a number. Write dates as 2024-01-31"),
    "month in letters": (
        'a,b,y\n1,"Jan 01, 2024",3\n',
        "'Jan 01, 2024' is not a number. Write dates as 2024",
    ),
    "a month in the middle": ("a,b,y\n1,1. März 2024,3\n", "is not a number. Write dates as 2024-01-31"),
    "month first": ("a,b,y\n1,12/31/2020,3\n", "'12/31/2020' is not a number. Write dates as 2024-01-31"),
    "month and day first": (
        "b,y\n31/12/2020,3\n12/31/2020,3\n11/12/2020,3\n",
        "'31/12/2020' is not a number. Write dates as 2024-01-31",
    ),
    "no date, day first": (
        "b,y\n31.12.2020,3\n1.2.2021,4\n30.02.2020,3\n",
        "line 4, column 'b': '30.02.2020' is not a date such as 31.01.2024",
    ),
    "no date": (
        "a,b,y\n" + "1,2020-01-01,3\n" * 60 + "1,2020-02-30,3\n",
        "line 62, column 'b': '2020-02-30' is not a date such as 2024-01-31",
    ),
}


@pytest.mark.parametrize("what", BAD_CELLS)
def test_a_cell_that_is_no_number_is_named(tmp_path, what):
    content, message = BAD_CELLS[what]
    table = read_table(written(tmp_path, content), header=True)
    with pytest.raises(InputError, match=message):
        Layout.of(table, "y").X(table)


def test_the_target_must_be_numbers(tmp_path):
    table = read_table(written(tmp_path, "a,y\n1,small\n2,3\n"), header=True)
    with pytest.raises(
        InputError,
        match=r"line 2, column 'y': 'small' is not a number. The target must be "
        r"numbers",
    ):
        Layout.of(table, "y").y(table)


# Columns.

MIXED = "id,colour,size,y\n7,red,1.5,1\n8,blue,2.5,2\n9,red,3.5,3\n"


def mixed(tmp_path):
    table = read_table(written(tmp_path, MIXED))
    return table, Layout.of(table, "y", ["id"], ["colour"])


def test_categories_become_one_column_each(tmp_path):
    table, layout = mixed(tmp_path)
    assert layout.inputs == ["colour=blue", "colour=red", "size"]
    np.testing.assert_array_equal(layout.X(table), [[0, 1, 1.5], [1, 0, 2.5], [0, 1, 3.5]])
    np.testing.assert_array_equal(layout.y(table), [1, 2, 3])


def test_columns_are_given_by_name_or_number_or_several_with_commas(tmp_path):
    table, layout = mixed(tmp_path)
    assert Layout.of(table, "4", ["1"], ["2"]) == layout
    assert [feature.name for feature in Layout.of(table, " y ", ["id,colour"]).features] == ["size"]
    tricky = read_table(written(tmp_path, '"a,b",a,b,3,y\n1,2,3,4,5\n', "tricky.csv"), header=True)
    # a name comes first
    assert [feature.name for feature in Layout.of(tricky, "y", ["a,b"]).features] == ["a", "b", "3"]
    assert [feature.name for feature in Layout.of(tricky, "y", ["3"]).features] == ["a,b", "a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("z",), "--target is 'z', which is not a column of .*'id', 'colour', 'size', 'y'"),
        (("Y",), "Did you mean|is not a column"),
        (("0",), "--target is '0', which is not a column"),
        (("5",), "--target is '5', which is not a column"),
        (("-1",), "--target is '-1', which is not a column"),
        (("",), "--target is '', which is not a column"),
        (("y", ["sise"]), "--drop is 'sise', which is not a column .*Did you mean 'size'"),
        (("y", ["y"]), "--drop names 'y', which is the target"),
        (("y", [], ["y"]), "--categorical names 'y', which is the target"),
        (("y", ["id"], ["id"]), "--drop and --categorical both name 'id'"),
        (("y", ["id,colour,size"]), "no column other than the target 'y'"),
    ],
)
def test_columns_that_cannot_be_meant(tmp_path, arguments, message):
    table = read_table(written(tmp_path, MIXED))
    with pytest.raises(InputError, match=message):
        Layout.of(table, *arguments)


def test_categories_that_are_missing_unseen_or_too_many(tmp_path):
    _, layout = mixed(tmp_path)
    empty = read_table(written(tmp_path, MIXED.replace("blue", " "), "empty.csv"))
    with pytest.raises(InputError, match="line 3, column 'colour': there is no category"):
        Layout.of(empty, "y", ["id"], ["colour"])
    with pytest.raises(InputError, match="line 3, column 'colour': there is no category"):
        layout.X(empty)
    unseen = read_table(written(tmp_path, MIXED.replace("blue", "mauve"), "unseen.csv"))
    with pytest.raises(
        InputError,
        match="line 3, column 'colour': the fit has not seen the category 'mauve'; it knows 'blue', 'red'",
    ):
        layout.X(unseen)
    many = read_table(written(tmp_path, "c,y\n" + "".join(f"k{i},1\n" for i in range(1001)), "many.csv"))
    with pytest.raises(InputError, match="1,001 different categories; expected at most 1,000"):
        Layout.of(many, "y", [], ["c"])


def test_new_tables_are_read_by_name_in_any_order_with_or_without_the_target(tmp_path):
    table, layout = mixed(tmp_path)
    new = read_table(written(tmp_path, "extra,size,colour\nx,1.5,red\ny,2.5,blue\n", "new.csv"))
    np.testing.assert_array_equal(layout.X(new), layout.X(table)[:2])
    assert layout.unknown(new) == ["extra"]
    assert layout.unknown(table) == []
    with pytest.raises(
        InputError,
        match=r"lacks the column 'size'; it has 'sizes', 'colour'. Did you mean "
        r"'sizes'",
    ):
        layout.X(read_table(written(tmp_path, "sizes,colour\n1.5,red\n", "renamed.csv")))
    with pytest.raises(
        InputError, match="has no names in its first line; the model needs the columns 'colour', 'size'"
    ):
        layout.X(read_table(written(tmp_path, "1,red,1.5\n2,red,3\n", "bare.csv")))
    with pytest.raises(InputError, match="lacks the column 'y', the target"):
        layout.y(new)


def test_without_names_columns_are_known_by_place(tmp_path):
    table = read_table(written(tmp_path, "1,10,100\n2,20,200\n"))
    layout = Layout.of(table, "2")
    np.testing.assert_array_equal(layout.X(table), [[1, 100], [2, 200]])
    np.testing.assert_array_equal(
        layout.X(read_table(written(tmp_path, "1,100\n2,200\n", "new.csv"))), [[1, 100], [2, 200]]
    )
    with pytest.raises(InputError, match=r"has 4 columns; expected 3 columns \(or 2, without the target\)"):
        layout.X(read_table(written(tmp_path, "1,2,3,4\n", "wide.csv")))
    with pytest.raises(InputError, match="has names in its first line, but the model was fitted without"):
        layout.X(read_table(written(tmp_path, "a,b,c\n1,2,3\n", "named.csv")))
    with pytest.raises(InputError, match="has 2 columns; expected 3 columns, the target among them"):
        layout.y(read_table(tmp_path / "new.csv"))


def test_a_layout_survives_json(tmp_path):
    _, layout = mixed(tmp_path)
    assert Layout.from_json(json.loads(json.dumps(layout.as_json()))) == layout
    for wrong in ({}, None, {**layout.as_json(), "features": 3}, {**layout.as_json(), "version": 99}):
        with pytest.raises(StorageError, match="the model's columns"):
            Layout.from_json(wrong)


# Parquet, and writing.


def test_parquet_and_csv_give_the_same_table(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "id": pa.array([7, 8, 9], pa.int32()),
        "colour": pa.array(["red", "blue", "red"]).dictionary_encode(),
        "size": pa.array([1.5, 2.5, 3.5], pa.float32()),
        "y": pa.array([1, 2, 3], pa.decimal128(5, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    table, (plain, layout) = read_table(tmp_path / "table.parquet"), mixed(tmp_path)
    np.testing.assert_array_equal(layout.X(table), layout.X(plain))
    np.testing.assert_array_equal(layout.y(table), layout.y(plain))
    assert replace(Layout.of(table, "y", ["id"], ["colour"]), decimal=".") == layout  # which Parquet has not
    # numbers as categories
    assert Layout.of(table, "y", [], ["id", "colour"]).inputs[:3] == ["id=7", "id=8", "id=9"]


def test_parquet_that_is_wrong(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"

    def table(**columns):
        pq.write_table(pa.table(columns), path)
        return read_table(path)

    missing = table(a=[1.0, None, float("nan")], y=[1, 2, 3])
    with pytest.raises(
        InputError,
        match=r"table.parquet, row 2, column 'a': the value is missing \(2 are "
        r"missing in all\)",
    ):
        Layout.of(missing, "y").X(missing)
    infinite = table(a=[1.0, 2.0, float("inf")], y=[1, 2, 3])
    with pytest.raises(InputError, match="row 3, column 'a': 'inf' is not finite"):
        Layout.of(infinite, "y").X(infinite)
    with pytest.raises(InputError, match="is empty: 1 columns, 0 rows"):
        table(a=pa.array([], pa.float64()))
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(InputError, match="two columns are called 'a'"):
        read_table(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is not a Parquet file that can be read"):
        read_table(path)


def test_without_pyarrow_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = written(tmp_path, b"PAR1", "table.parquet")
    with pytest.raises(InputError, match="pip install pyarrow"):
        read_table(path)
    with pytest.raises(InputError, match="pip install pyarrow"):
        write_table(tmp_path / "out.parquet", {"a": np.ones(2)})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path, columns = (
        tmp_path / f"out{suffix}",
        {"mean": np.array([0.1, 1 / 3]), "std": np.array([1e-300, 5.0])},
    )
    write_table(path, columns)
    np.testing.assert_array_equal(numbers(read_table(path)), np.column_stack(list(columns.values())))
    before = path.read_bytes()

    def full(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(StorageError, match="cannot be written: No space left on device"):
        write_table(path, {"mean": np.zeros(5)})
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_the_text_of_a_table_is_what_is_written(tmp_path):
    columns = {"mean": np.array([0.1, 2.0])}
    write_table(tmp_path / "out.csv", columns)
    assert csv_text(columns) == (tmp_path / "out.csv").read_text() == "mean\n0.1\n2.0\n"
    assert next(csv.reader(csv_text({'a "b",c': np.ones(1)}).splitlines())) == ['a "b",c']
    with pytest.raises(InputError, match=r"expected a name that ends in .csv or .parquet"):
        write_table(tmp_path / "out.xlsx", columns)


@pytest.mark.parametrize("names", ["", "x;y;z\n", "Temp, C;Hum, %;y, m\n"])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_do_not_separate_columns(names, separator, tmp_path):
    """The comma splits such lines into more cells, equally many in each."""
    path = tmp_path / "t.csv"
    path.write_text((names + "5,12;5,87;4,811\n9,5;8,4;8,402\n1,44;3,2;4,1\n").replace(";", separator))
    table = read_table(path)
    assert [column[1] for column in table.columns] == ["9,5", "8,4", "8,402"]
    assert table.header == bool(names)


def test_names_that_count_the_columns_are_asked_about(tmp_path):
    """As pandas writes a frame without names: taken for data, another column would be the target."""
    path = tmp_path / "t.csv"
    path.write_text("1,2,3,4\n" + "0.5,1.5,2.5,3.5\n" * 3)
    said = "line 1 counts the columns, and is read as data: use --header if these are names."
    assert read_table(path).notes.sentences() == [said]
    assert read_table(path, header=False).notes.sentences() == []
    path.write_text("0,1,2,3\n" + "0.5,1.5,2.5,3.5\n" * 3)
    with pytest.raises(InputError, match=r"line 1: the cells count the columns, .*--header or --no-header"):
        read_table(path)
    assert len(read_table(path, header=True).columns[0]) == 3


@pytest.mark.parametrize("name", ["y", "a b", 'it\'s "x", ok', "$HOME", "größe"])
def test_a_name_in_a_message_can_be_pasted_into_a_shell(name):
    assert shlex.split(quoted(name)) == [name]


def test_a_name_in_a_message_has_no_control_characters():
    """A terminal would obey them."""
    assert quoted("a\x1b[31mb\nc").isprintable()

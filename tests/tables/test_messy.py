"""Messy tables: what is unusual about them is read as it is meant, said once, and never guessed."""

import bz2
import gzip
import json
import lzma
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from itergp import InputError, StorageError
from itergp.data.holes import Hole, Holes
from itergp.tables import Inputs, Layout, read_table, training
from itergp.tables.dates import days
from itergp.tables.frames import frame_inputs
from itergp.tables.layout import TAKEN_AS_KNOWN
from itergp.tables.numbers import number

GERMAN = "a;b;y\r\n1,5;2.000,25;3\r\n-,5;10;1.234.567\r\n"


def written(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, *asked, **options):
    """As `itergp fit` reads a table: layout, X, y and what was said."""
    table = read_table(path, use=lambda head: Layout.uses(head, *asked, **options))
    layout = Layout.of(table, *asked, **options)
    found = training(table, layout)
    return layout, found.X, found.y, table.notes.sentences()


# Numbers.


@pytest.mark.parametrize(
    ("cell", "point", "comma"),
    [
        ("1.5", 1.5, None),
        ("1,5", None, 1.5),
        ("1.234", 1.234, 1234.0),
        ("1,234", 1234.0, 1.234),
        ("0,234", None, 0.234),
        ("1,234.5", 1234.5, None),
        ("1.234,5", None, 1234.5),
        ("12,34", None, 12.34),
        ("1,23,456", None, None),
        ("1,234 567", None, None),
        ("1 234", 1234.0, 1234.0),
        ("1\u202f234,5", None, 1234.5),
        ("-1'234'567.25", -1234567.25, None),
        ("12.5 %", 0.125, None),
        ("12,5%", None, 0.125),
        ("5%%", None, None),
        ("%", None, None),
        ("1e3", 1000.0, 1000.0),
        ("1,5e3", None, 1500.0),
        ("1_000", None, None),
        ("inf", None, None),
        ("True", 1.0, 1.0),
        ("FALSE", 0.0, 0.0),
        ("", None, None),
    ],
)
def test_a_cell_means_one_number_once_decimals_are_known(cell, point, comma):
    for decimal, expected in ((".", point), (",", comma)):
        found = number(cell, decimal)
        assert (None if found is None else found[0]) == expected


def test_a_comma_that_may_be_either_is_no_number_until_something_tells():
    assert number("1,234", None) is None
    assert number("1,234,567", None)[0] == 1234567.0
    assert number("1.234", None)[0] == 1.234


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e12, 1e12), st.integers(0, 6))
def test_what_python_writes_with_separators_is_read_again(value, digits):
    text = f"{value:,.{digits}f}"
    expected = float(text.replace(",", ""))
    assert number(text, ".")[0] == expected
    swapped = text.replace(",", "_").replace(".", ",").replace("_", ".")
    assert number(swapped, ",")[0] == expected


def test_decimal_commas_are_found_in_the_first_rows_and_said(tmp_path):
    _, X, y, said = read(written(tmp_path, GERMAN), "y")
    np.testing.assert_array_equal(X, [[1.5, 2000.25], [-0.5, 10]])
    np.testing.assert_array_equal(y, [3, 1234567])
    assert said == [
        "decimals are written with a comma, by the first rows: 1,5 is read as 1.5.",
        "'b' has thousands separators: 2.000,25 is read as 2000.25.",
        "'y' has thousands separators: 1.234.567 is read as 1234567.",
    ]


def test_what_the_first_rows_do_not_tell_is_asked_for_or_known_from_the_fit(tmp_path):
    either = written(tmp_path, "a;y\n1,234;3\n")
    with pytest.raises(InputError, match=r"'1,234' is not a number. Whether its comma is a decimal one"):
        read(either, "y")
    for decimal, value in ((".", 1234.0), (",", 1.234)):
        table = read_table(either, decimal=decimal)
        assert Layout.of(table, "y").X(table).item() == value
    layout = read(written(tmp_path, GERMAN, "german.csv"), "y")[0]
    new = written(tmp_path, "b;a\n1,234;1.000\n", "new.csv")
    block = next(Inputs(new, None, layout).blocks(10))
    np.testing.assert_array_equal(block.X, [[1000.0, 1.234]])


@pytest.mark.parametrize("early", [True, False])
def test_points_that_may_separate_thousands_in_some_cells_only_are_asked_for(tmp_path, early):
    """170.154 beside 950: a decimal point would make the first 1,000 times too small. Wherever they stand."""
    ones = "".join(f"{100 + i};{i}\n" for i in range(70))
    late = "170.154;3\n9.200;4\n"
    path = written(tmp_path, "a;y\n" + (late + ones if early else ones + late))
    line = 2 if early else 72
    expected = (
        f"line {line}, column 'a': '170.154' is not a number for certain. Whether its point is a decimal"
    )
    with pytest.raises(InputError, match=expected + ".*: use --decimal , or --decimal . to say so"):
        read(path, "y")
    for decimal, expected in ((",", [170154.0, 9200.0]), (".", [170.154, 9.2])):
        table = read_table(path, decimal=decimal, use=lambda head: Layout.uses(head, "y"))
        X = Layout.of(table, "y").X(table)[:, 0]
        np.testing.assert_array_equal(X[:2] if early else X[-2:], expected)


def test_a_point_is_a_decimal_one_where_another_reading_only_scales_the_column_or_something_tells(tmp_path):
    for content, expected in (
        ("a;y\n170.154;3\n9.200;4\n", [170.154, 9.2]),  # all cells have it
        ("a;y\n170.154;3\n0.950;4\n12;4\n", [170.154, 0.95, 12]),  # no thousands
        ("a;y\n170.154;3\n950;4.5\n", [170.154, 950]),  # another column says it
        ("a;y\n1.234.567;3\n9.200;4\n950;4\n", [1234567, 9200, 950]),  # thousands, for certain
        ("a;y\n170.154;3,5\n950;4\n", [170154, 950]),
    ):
        np.testing.assert_array_equal(read(written(tmp_path, content), "y")[1][:, 0], expected)


def test_the_fitted_file_says_what_a_point_means_in_later_ones(tmp_path):
    new = written(tmp_path, "a;b\n170.154;1\n950;2\n", "new.csv")
    for content, value in (("a;b;y\n1,5;2;3\n1;2;3\n", 170154.0), ("a;b;y\n1.5;2;3\n1;2;3\n", 170.154)):
        layout = read(written(tmp_path, content), "y")[0]
        assert next(Inputs(new, None, layout).blocks(5)).X[0, 0] == value
    layout = read(written(tmp_path, "a;b;y\n15;2;3\n1;2;3\n"), "y")[0]
    with pytest.raises(InputError, match=r"line 2, column 'a': '170.154' is not a number for certain"):
        Inputs(new, None, layout)
    frame = {"a": np.array([170.154, 950], dtype=object), "b": np.array([1, 2])}
    pd = pytest.importorskip("pandas")
    assert frame_inputs(layout, pd.DataFrame(frame))[0, 0] == 170.154  # no text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 3),
)
def test_what_pandas_writes_is_never_refused(tmp_path_factory, values, digits, whole, missing):
    """Floats, rounded, or integers; pandas writes floats as Python does, and missing ones as empty cells."""
    column = [int(value) for value in values] if whole else [round(value, digits) for value in values]
    cells = [repr(value) for value in column] + ([] if whole else [""] * missing)
    content = "a,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells))
    X = read(written(tmp_path_factory.mktemp("t"), content), "y", missing="impute")[1][:, 0]
    np.testing.assert_array_equal(X, [*column, *[np.nan] * (len(cells) - len(column))])


def test_points_and_commas_in_one_file_are_not_guessed(tmp_path):
    path = written(tmp_path, "a;b;y\n1,5;2.5;3\n")
    with pytest.raises(InputError, match=r"'1,5' is not a number. Write decimals with a point, or use --dec"):
        read(path, "y")


def test_percent_signs_that_are_there_in_one_file_only_are_said(tmp_path):
    layout = read(written(tmp_path, "a,b,y\n40 %,1,2\n50 %,3,4\n"), "y")[0]
    inputs = Inputs(written(tmp_path, "a,b\n40,1%\n50,3%\n", "new.csv"), None, layout)
    list(inputs.blocks(5))
    assert inputs.notes.sentences()[1:] == [
        "'a' has no percent signs here, and had them in the fit: 40 % is 0.4.",
        "'b' has percent signs here, and had none in the fit: 40 % is 0.4.",
    ]
    inputs = Inputs(tmp_path / "table.csv", None, layout)
    list(inputs.blocks(5))
    assert inputs.notes.sentences() == ["'a' has percent signs: 40 % is read as 0.4."]


# Spreadsheets.


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_first_line_of_excel_says_what_separates_cells(tmp_path, end):
    content = end.join(["sep=;", "a;b,c;y", "1;2;3", "4;5;6", ""])
    _, X, y, said = read(written(tmp_path, content), "y")
    np.testing.assert_array_equal(np.c_[X, y], [[1, 2, 3], [4, 5, 6]])
    assert said == ["line 1 says that cells are separated by ';', and is left out."]


@pytest.mark.parametrize("title", ["Sales 2024\n", "Sales 2024;;\n", "Sales 2024\n\nby month\n"])
def test_a_title_above_the_table_is_named(tmp_path, title):
    path = written(tmp_path, title + "a;b;y\n1;2;3\n4;5;6\n")
    line = title.count("\n") + 1
    said = f"line 1: one cell, 'Sales 2024', above names of 3 columns in line {line}. If it is a title"
    with pytest.raises(InputError, match=said):
        read(path, "y")


def test_what_stands_alone_in_a_line_may_be_a_name(tmp_path):
    """One column, with decimal commas or without, and an index without a name."""
    assert read_table(written(tmp_path, "y\n1.5\n2.5\n")).names == ("y",)
    assert read_table(written(tmp_path, "y;\n1.5;\n2.5;\n")).names[0] == "y"
    assert read_table(written(tmp_path, ";y\n0;2\n1;3\n")).names[1] == "y"
    assert read_table(written(tmp_path, "city\nBonn\nKiel\n"), header=True).rows == 2


# Dates.


@settings(max_examples=200, deadline=None)
@given(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)), st.sampled_from(" T"))
def test_days_are_those_of_numpy(moment, between):
    expected = np.datetime64(moment, "us").astype(np.int64) / 86_400_000_000
    assert days(moment.isoformat(between)) == expected
    assert days(moment.isoformat(between) + "Z") == expected
    assert days(f"{moment:%Y-%m-%d}") == np.datetime64(moment.date(), "D").astype(np.int64)


MIXED = "a,b,y\n" + "".join(f"{i},{{}},{i}\n" for i in range(12))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("signs", [{0}, {11}, {3, 4}, set(range(11)), set(range(1, 12))])
def test_percent_signs_in_some_cells_of_a_column_alone_are_refused(signs, fast, tmp_path, monkeypatch):
    """8.4 beside 8.4 % may mean either. Whatever the piece of the file in which they are met."""
    if fast:
        monkeypatch.setattr("itergp.tables.pieces.LARGE", 0)
        monkeypatch.setattr("itergp.tables.arrow.BLOCK", 32)
    monkeypatch.setattr("itergp.tables.reading.TOGETHER", 9)
    path = written(tmp_path, MIXED.format(*("8.4 %" if i in signs else "8.4" for i in range(12))))
    with pytest.raises(InputError, match=r"column 'b': some numbers have percent signs, others .* as 8.4"):
        read(path, "y")
    zero = written(tmp_path, MIXED.format(*("8.4 %" if i in signs else "0" for i in range(12))))
    expected = [0.084 if i in signs else 0.0 for i in range(12)]
    assert read(zero, "y")[1][:, 1].tolist() == expected  # nothing is nothing in both


def test_a_date_below_rows_without_any_is_named_as_one(tmp_path):
    rows = "".join(f"{i},{'2024-01-05' if i > 55 else ''},{i}\n" for i in range(60))
    with pytest.raises(InputError, match=r"column 'd': '2024-01-05' .* put rows with dates first"):
        read(written(tmp_path, "a,d,y\n" + rows), "y", missing="drop")


@pytest.mark.parametrize("clock", ["00:00:00", "06:30:00"])
def test_days_as_categories_are_the_same_from_csv_and_parquet(clock, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moments = [datetime.fromisoformat(f"2024-01-0{day} {clock}") for day in (1, 2, 1)]
    pq.write_table(pa.table({"day": moments, "y": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    texts = [str(moment.date()) if clock == "00:00:00" else str(moment) for moment in moments]
    path = written(tmp_path, "day,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    found = [read(one, "y", (), ["day"])[0].features[0].categories for one in (path, tmp_path / "t.parquet")]
    assert found[0] == found[1]


def test_an_offset_is_converted_to_utc_and_what_is_no_date_is_none():
    assert days("2024-01-01T01:30:00+01:30") == days("2024-01-01")
    assert days("2024/01/31") == days("2024-01-31")
    for cell in ("31.01.2024", "2024-02-30", "2024-01-01T25:00", "20240131", "2024", "today", "2024-1-5"):
        assert days(cell) is None


@settings(max_examples=200, deadline=None)
@given(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)), st.sampled_from("./"))
def test_days_with_the_day_first_are_those_of_iso_dates(moment, mark):
    day = f"{moment.day}{mark}{moment.month}{mark}{moment.year}"
    assert days(day, day_first=True) == days(f"{moment:%Y-%m-%d}")
    assert days(f"{moment:%d{mark}%m{mark}%Y %H:%M:%S}", day_first=True) == days(
        f"{moment:%Y-%m-%d %H:%M:%S}"
    )
    assert days(f"{moment:%Y-%m-%d}", day_first=True) == days(f"{moment:%Y-%m-%d}")
    assert days(day) is None


@pytest.mark.parametrize("mark", [".", "/"])
def test_dates_have_the_day_first_where_a_column_of_the_fit_says_so(mark, tmp_path):
    """New rows need not say it again: the model knows."""
    iso = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in (1, 11, 28)]
    turned = [mark.join(reversed(one.split("-"))) for one in iso]
    content = {
        name: "when,y\n" + "".join(f"{one},{i}\n" for i, one in enumerate(dates))
        for name, dates in (("iso", iso), ("turned", turned))
    }
    _, expected, _, _ = read(written(tmp_path, content["iso"]), "y")
    layout, X, _, said = read(written(tmp_path, content["turned"]), "y")
    np.testing.assert_array_equal(X, expected)
    assert any(f"the day first: {turned[0]} is read as 2024-01-01" in one for one in said)
    layout = Layout.from_json(json.loads(json.dumps(layout.as_json())))
    ambiguous = Inputs(written(tmp_path, f"when\n{turned[3]}\n2024-02-01\n", "new.csv"), None, layout)
    np.testing.assert_array_equal(next(ambiguous.blocks(5)).X, expected[[3, 3]])
    pd = pytest.importorskip("pandas")
    np.testing.assert_array_equal(frame_inputs(layout, pd.DataFrame({"when": turned})), expected)


def test_a_dash_among_numbers_or_dates_is_a_missing_value_and_a_category_elsewhere(tmp_path):
    content = "a,b,when,y\n1.5,x,2024-01-01,1\n-,-,\u2013,2\n-2, - ,2024-01-03,3\n4,x,2024-01-04,--\n"
    layout, X, y, _ = read(written(tmp_path, content), "y", categorical=["b"], missing="impute")
    assert layout.inputs[:4] == ["a", "a is missing", "b=-", "b=x"]
    np.testing.assert_array_equal(np.isnan(X[:, 0]), [False, True, False])
    np.testing.assert_array_equal(X[:, 1:4], [[0, 0, 1], [1, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(np.isnan(X[:, 4]), [False, True, False])
    np.testing.assert_array_equal(y, [1, 2, 3])  # a row without a target teaches nothing
    with pytest.raises(InputError, match="line 3, column 'a': the value is missing"):
        read(written(tmp_path, content), "y", categorical=["b"])


def test_columns_that_are_not_used_do_not_say_how_decimals_are_written(tmp_path):
    """A version number with points among decimal commas: in the fit, and in new rows."""
    content = "version;city;a;y\n1.5;2.5;1,5;3\n2.5;1.5;2,25;4\n"
    path = written(tmp_path, content)
    with pytest.raises(InputError, match="1,5"):
        read(path, "y")
    options = {"drop": ["version"], "categorical": ["city"]}
    layout, X, _, said = read(path, "y", **options)
    np.testing.assert_array_equal(X[:, -1], [1.5, 2.25])
    assert any("decimals are written with a comma" in one for one in said)
    inputs = Inputs(path, None, layout, keep=["version"])
    block = next(inputs.blocks(5))
    np.testing.assert_array_equal(block.X, X)
    assert block.kept == {"version": ["1.5", "2.5"]}


def test_dates_become_the_parts_that_say_something(tmp_path):
    pd = pytest.importorskip("pandas")
    when = pd.date_range("2020-02-27", periods=400, freq="35h")
    content = "when,y\n" + "".join(f"{moment},{i}\n" for i, moment in enumerate(when))
    layout, X, _, said = read(written(tmp_path, content), "y")
    assert layout.inputs == [
        "when: days since 2020-02-27",
        "when: day of year",
        "when: weekday",
        "when: hour",
    ]
    oracle = [
        (when - when[0].normalize()).total_seconds() / 86400,
        when.day_of_year,
        when.day_of_week + 1,
        when.hour,
    ]
    np.testing.assert_allclose(X, np.column_stack(oracle), rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(X[:, 3], when.hour)  # so that equal times are equal numbers
    assert said == [
        "'when' is a date, used as: days since 2020-02-27, day of year, weekday, hour.",
    ]
    assert Layout.from_json(json.loads(json.dumps(layout.as_json()))) == layout
    short = "when,y\n" + "".join(f"2020-02-{i:02d},{i}\n" for i in range(1, 10))
    assert read(written(tmp_path, short), "y")[0].inputs == ["when: days since 2020-02-01"]
    chosen = read(written(tmp_path, short), "y", dates="weekday,days")[0]
    assert chosen.inputs == ["when: weekday", "when: days since 2020-02-01"]


def test_a_model_reads_dates_of_csv_parquet_and_frames_alike(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=90, freq="7h"), "y": range(90)})
    frame.loc[[3, 50], "when"] = pd.NaT
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.assign(when=frame.when.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")).to_parquet(
        tmp_path / "zone.parquet"
    )
    layout, X, _, _ = read(tmp_path / "t.csv", "y", missing="impute")
    assert layout.inputs[-1] == "when is missing"
    for name in ("t.parquet", "zone.parquet"):
        again, other, _, _ = read(tmp_path / name, "y", missing="impute")
        np.testing.assert_array_equal(other, X)
        assert again.features == layout.features
    np.testing.assert_array_equal(frame_inputs(layout, frame), X)
    with pytest.raises(InputError, match=r"X, row 0, column 'when': '0' is not a date"):
        frame_inputs(layout, frame.assign(when=range(90)))


def test_a_cell_among_dates_that_is_none_is_named_and_a_damaged_row_hides_nothing(tmp_path):
    content = ",day,y\n0,2020-01-01,1\n1,soon,2\n2,2020-01-03\n3,2020-01-04,4\n"
    with pytest.raises(InputError, match=r"line 3, column 'day': 'soon' is not a date such as 2024-01-31"):
        read(written(tmp_path, content.replace("2,2020-01-03\n", "")), "y")
    table = read_table(written(tmp_path, content), skip_bad=True)
    layout = Layout.of(table, "y")
    assert layout.inputs == ["day: days since 2020-01-01"]
    assert training(table, layout, skip_bad=True).X.tolist() == [[0.0], [3.0]]


# Missing values.

HOLES = "a,colour,y\n1,red,1\nNA,blue,2\n3,,3\n8,red,\nNaN,red,5\n"


def test_rows_without_the_target_are_left_out_and_counted(tmp_path):
    path = written(tmp_path, "a,y\n1,2\n3,NA\n5,?\n")
    _, X, y, said = read(path, "y")
    assert (X.tolist(), y.tolist()) == ([[1.0]], [2.0])
    assert said == ["rows without the target 'y' are left out: 2. `itergp predict` predicts them."]
    with pytest.raises(InputError, match=r"no row is left that has the target"):
        read(written(tmp_path, "a,y\n1,\n3,NA\n"), "y")


def test_where_no_row_can_be_read_the_column_to_blame_is_named(tmp_path):
    """With --skip-bad, a column of text would else leave out all rows, and nothing say why."""
    table = read_table(written(tmp_path, "a,site,b,y\n1,A,2,3\nx,A,3,4\n"), skip_bad=True)
    layout = Layout.of(table, "y")
    with pytest.raises(InputError, match=r"No cell is a number in 'site': use --categorical or --drop\."):
        training(table, layout, skip_bad=True)


def test_missing_values_are_refused_with_the_options_that_help(tmp_path):
    with pytest.raises(
        InputError, match=r"\(2 are missing in all\). Fill .* --missing drop or --missing imp"
    ):
        read(written(tmp_path, HOLES), "y", ["colour"])
    with pytest.raises(InputError, match=r"no category here. .* --missing drop or --missing impute"):
        read(written(tmp_path, HOLES), "y", ["a"], ["colour"])


def test_rows_are_dropped_for_want_of_values(tmp_path):
    layout, X, y, said = read(written(tmp_path, HOLES), "y", (), ["colour"], missing="drop")
    assert layout.inputs == ["a", "colour=blue", "colour=red"]
    assert (X.tolist(), y.tolist()) == ([[1.0, 0.0, 1.0]], [1.0])
    assert said == [
        "rows with missing values are left out, as --missing drop says: 3.",
        "rows without the target 'y' are left out: 1. `itergp predict` predicts them.",
    ]
    block = next(Inputs(tmp_path / "table.csv", None, layout).blocks(10))
    assert block.usable.tolist() == [True, False, False, True, False]


def test_what_may_be_missing_is_nan_and_an_input_says_where(tmp_path):
    layout, X, _, said = read(written(tmp_path, HOLES), "y", (), ["colour"], missing="impute")
    assert layout.inputs == ["a", "a is missing", "colour=blue", "colour=red", "colour is missing"]
    nan = np.nan
    rows = [[1, 0, 0, 1, 0], [nan, 1, 1, 0, 0], [3, 0, nan, nan, 1], [nan, 1, 0, 1, 0]]
    np.testing.assert_array_equal(X, rows)
    assert said[:2] == [
        "'a' has missing values (2): those of similar rows stand for them. If held-out errors "
        "ask for it, an input says where.",
        "'colour' has missing values (1): those of similar rows stand for them. If held-out errors "
        "ask for it, an input says where.",
    ]
    assert layout.holes == Holes((Hole((0,), 1), Hole((2, 3), 4, category=True)))
    assert Layout.from_json(json.loads(json.dumps(layout.as_json()))) == layout
    whole = read(written(tmp_path, HOLES.replace("NA", "2").replace("NaN", "2"), "b.csv"), "y", ["colour"])
    assert whole[0].inputs == ["a"]


def test_what_was_never_missing_in_the_fit_is_filled_and_said_to_have_no_indicator(tmp_path):
    layout = read(written(tmp_path, "a,c,y\n1,u,1\n5,v,2\n9,u,3\n"), "y", (), ["c"], missing="impute")[0]
    assert layout.inputs == ["a", "c=u", "c=v"]
    inputs = Inputs(written(tmp_path, "a,c\n,\n", "new.csv"), None, layout)
    assert np.isnan(next(inputs.blocks(5)).X).all()
    assert layout.holes == Holes((Hole((0,)), Hole((1, 2), category=True)))
    assert inputs.notes.sentences() == [
        "'a' has missing values (1): those of similar rows stand for them; the fit had none.",
        "'c' has missing values (1): those of similar rows stand for them; the fit had none.",
    ]


def test_models_of_the_second_version_fill_in_the_median_and_say_what_that_means(tmp_path):
    layout, _, _, _ = read(written(tmp_path, HOLES), "y", (), ["colour"], missing="impute")
    early = layout.as_json() | {"version": 2}
    for feature, fill in zip(early["features"], (3.0, 0.0), strict=True):
        feature["fill"] = fill
        del feature["holes"]
    early = Layout.from_json(json.loads(json.dumps(early)))
    assert early.holes is None
    inputs = Inputs(written(tmp_path, "a,colour\n,red\n7,\n", "new.csv"), None, early)
    assert next(inputs.blocks(5)).X.tolist() == [[3, 1, 0, 1, 0], [7, 0, 0, 0, 1]]
    assert TAKEN_AS_KNOWN in inputs.notes.sentences()


def test_a_column_without_any_value_is_left_out_and_said(tmp_path):
    layout, X, _, said = read(written(tmp_path, "a,note,y\n1,,2\n3,,4\n"), "y")
    assert (layout.inputs, layout.dropped, X.shape) == (["a"], ("note",), (2, 1))
    assert said == ["'note' has no value in any row: left out."]


# Rows that are bad.


def test_bad_rows_are_left_out_and_counted_and_keep_their_place_in_predictions(tmp_path):
    content = "id,a,colour,y\nr1,1,red,1\nr2,one,red,2\nr3,3\nr4,4,blue,four\nr5,5,blue,5\n"
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=r"line 4: 2 cells; expected 4, as in line 1. --skip-bad"):
        read_table(path)
    asked = ("y", ["id"], ["colour"])
    table = read_table(path, use=lambda head: Layout.uses(head, *asked), skip_bad=True)
    layout = Layout.of(table, *asked)
    found = training(table, layout, skip_bad=True)
    assert found.X.tolist() == [[1, 0, 1], [5, 1, 0]]
    assert table.notes.sentences() == ["bad rows are left out, as --skip-bad says: 3; the first is line 3."]
    new = written(tmp_path, content.replace("r5,5,blue", "r5,5,mauve"), "new.csv")
    block = next(Inputs(new, None, layout, skip_bad=True, keep=["id"]).blocks(10))
    assert block.usable.tolist() == [True, False, False, True, False]
    assert block.kept == {"id": ["r1", "r2", "", "r4", "r5"]}


def test_kept_columns_are_text_as_in_the_file_also_where_they_are_features(tmp_path, monkeypatch):
    rows = "".join(f"{i:03d},{i}.50\n" for i in range(40))
    path = written(tmp_path, "id,a\n" + rows)
    layout = Layout.of_inputs(1, ["a"])
    for large in (10**9, 0):
        monkeypatch.setattr("itergp.tables.pieces.LARGE", large)
        monkeypatch.setattr("itergp.tables.arrow.BLOCK", 64)
        blocks = list(Inputs(path, None, layout, keep=["id,a"]).blocks(7))
        assert [cell for b in blocks for cell in b.kept["id"]] == [f"{i:03d}" for i in range(40)]
        assert [cell for b in blocks for cell in b.kept["a"]] == [f"{i}.50" for i in range(40)]
        np.testing.assert_array_equal(np.concatenate([b.X for b in blocks])[:, 0], np.arange(40) + 0.5)


# Files.

PLAIN = "a,b,y\n1,2,3\n4.5,-6,7e1\n"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table"])
def test_packed_files_are_known_by_what_is_in_them(tmp_path, pack, name):
    table = read_table(written(tmp_path, pack(PLAIN.encode()), name))
    assert [list(column) for column in table.columns] == [["1", "4.5"], ["2", "-6"], ["3", "7e1"]]
    with pytest.raises(StorageError, match="cannot be read"):
        read_table(written(tmp_path, pack(PLAIN.encode() * 99)[:-30], "cut"))


def test_what_is_not_utf8_is_latin_1_and_said(tmp_path):
    content = "größe,ort,y\n1,köln,2\n3,bonn,4\n5,1 €,6\n"
    table = read_table(written(tmp_path, content.encode("cp1252")))
    assert table.names == ("größe", "ort", "y")
    assert list(table.columns[1]) == ["köln", "bonn", "1 €"]
    assert table.notes.sentences() == [
        "line 1 is not UTF-8, so it is read as Latin-1 (Windows-1252), as are all such lines: 3."
    ]
    assert read_table(written(tmp_path, content)).notes.sentences() == []


@pytest.mark.parametrize(
    ("content", "names", "lines", "said"),
    [
        (
            "# made by\n#\n" + PLAIN,
            ("a", "b", "y"),
            [4, 5],
            ["above the table that begin with # are left out: 2"],
        ),
        ("# " + PLAIN, ("a", "b", "y"), [2, 3], ["the names are those in the comment on line 1"]),
        (
            PLAIN + "# the end, \n",
            ("a", "b", "y"),
            [2, 3],
            ["among the rows that begin with # are left out: 1"],
        ),
        ("#ff,1\n#fe,2\n", ("column 1", "column 2"), [1, 2], []),
        ("#ff,1\n#fe,2\nred,3\n", ("column 1", "column 2"), [1, 2, 3], []),
        (
            '# it is "x\n' + PLAIN,
            ("a", "b", "y"),
            [3, 4],
            ["above the table that begin with # are left out: 1"],
        ),
    ],
)
def test_comments_are_left_out_and_counted(tmp_path, content, names, lines, said):
    table = read_table(written(tmp_path, content))
    assert (table.names, list(table.lines)) == (names, lines)
    sentences = table.notes.sentences()
    assert len(sentences) == len(said)
    assert all(part in sentence for part, sentence in zip(said, sentences, strict=True))


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_of_a_data_frame_is_no_feature(tmp_path, name):
    layout, X, _, said = read(written(tmp_path, f"{name},a,y\n17,1,2\n4,3,4\n"), "y")
    assert layout.inputs == ["a"]
    called = f"column 1 ({name!r})" if name else "column 1"
    assert said == [f"{called} numbers the rows, so it is no feature: left out."]
    assert X.tolist() == [[1.0], [3.0]]
    # unless it is asked for, is no number of a row, or is all there is
    assert read(tmp_path / "table.csv", "y", (), ["1"])[0].inputs[-1] == "a"
    assert len(read(written(tmp_path, f"{name},a,y\n1.5,1,2\n2.5,3,4\n"), "y")[0].inputs) == 2
    assert len(read(written(tmp_path, f"{name},y\n1,2\n2,4\n"), "y")[0].inputs) == 1


def test_separators_at_the_ends_of_lines_are_noticed(tmp_path):
    layout, _, _, said = read(written(tmp_path, PLAIN.replace("\n", ",\n")), "y")
    assert layout.inputs == ["a", "b"]
    assert said == ["column 4 has no name, and no value in the first rows: left out."]
    layout, _, _, said = read(written(tmp_path, PLAIN.replace("\n", ",\n").replace("y,", "y")), "y")
    assert layout.inputs == ["a", "b"]
    assert said == ["rows end in a separator, and nothing after it: 2."]


# Categories.


def test_categories_are_spelled_alike_wherever_they_are_from(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"flag": [True, False, True], "k": [4.0, 5.0, 4.0], "y": [1, 2, 3]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    expected, X, _, _ = read(tmp_path / "t.parquet", "y", (), ["flag,k"])
    assert expected.inputs == ["flag=False", "flag=True", "k=4", "k=5"]
    for rows in ("True,4.0,1\nFalse,5.0,2\nTrue,4.0,3\n", "true,4,1\nFALSE,5,2\nTRUE,4.0,3\n"):
        layout, other, _, _ = read(written(tmp_path, "flag,k,y\n" + rows), "y", (), ["flag,k"])
        assert layout.features == expected.features
        np.testing.assert_array_equal(other, X)
    digits = read_table(written(tmp_path, "flag,k\n1,4\n0,5\n1,4\n"))
    np.testing.assert_array_equal(expected.X(digits), X)
    codes = read(written(tmp_path, "zip,v,y\n007,1.10,1\n7,1.1,2\n"), "y", (), ["zip,v"])[0]
    assert codes.inputs == ["zip=007", "zip=7", "v=1.1", "v=1.10"]  # which are not the same


# The file of a model is checked.


@pytest.mark.parametrize(
    "wrong",
    [
        {"missing": "guess"},
        {"decimal": ";"},
        {"features": [{"name": "a", "place": 0, "fill": "x"}]},
        {"features": [{"name": "a", "place": 0, "fill": float("inf")}]},
        {"features": [{"name": "a", "place": 0, "dates": {"parts": ["month"], "origin": 0}}]},
        {"features": [{"name": "a", "place": 0, "dates": {"parts": [], "origin": 0}}]},
        {"features": [{"name": "a", "place": 0, "dates": {"parts": ["days"], "origin": "today"}}]},
        {"features": ["a"]},
    ],
)
def test_what_a_file_says_about_columns_is_checked(wrong):
    plain = Layout.of_inputs(1, ["a"]).as_json()
    with pytest.raises(StorageError, match="the model's columns cannot be understood"):
        Layout.from_json(plain | wrong)


def test_files_of_the_first_version_are_read():
    old = {"name": "a", "place": 0, "categories": None}
    value = {"version": 1, "target": {"name": "y", "place": 1}, "features": [old], "width": 2}
    layout = Layout.from_json(value | {"header": True, "dropped": []})
    assert (layout.inputs, layout.missing, layout.decimal) == (["a"], "refuse", None)


# Numbers that are no text.


def test_numbers_of_parquet_and_frames_have_points_though_the_file_of_the_fit_had_commas(tmp_path):
    """1.234 in a typed column is never 1234: also where it is kept as text, or is an object among others."""
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    import pyarrow.parquet as pq

    layout = read(written(tmp_path, "a;y\n1,5;1\n2,5;2\n"), "y", missing="impute")[0]
    values = [1.234, 5.678, 0.00001]
    path = tmp_path / "new.parquet"
    pq.write_table(pa.table({"a": values}), path)
    for keep in ((), ("a",)):
        inputs = Inputs(path, None, layout, keep=keep)
        assert next(inputs.blocks(5)).X[:, 0].tolist() == values
    assert next(inputs.blocks(5)).kept == {"a": ["1.234", "5.678", "1e-05"]}
    frame = pd.DataFrame({"a": pd.Series([*values, "1,234", None], dtype=object)})
    np.testing.assert_array_equal(frame_inputs(layout, frame)[:, 0], [*values, 1.234, np.nan])


def test_long_integers_stay_different_categories(tmp_path):
    """Float64 would make one category of 2 ** 53 and 2 ** 53 + 1: CSV, Parquet and frames know two."""
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    import pyarrow.parquet as pq

    ids, path = [2**53, 2**53 + 1, 7], tmp_path / "ids.parquet"
    pq.write_table(pa.table({"g": ids, "y": [1.0, 2.0, 3.0]}), path)
    text = "g,y\n" + "".join(f"{g},{i}\n" for i, g in enumerate(ids))
    for file in (path, written(tmp_path, text)):
        layout, X, _, _ = read(file, "y", (), ["g"])
        assert layout.inputs == sorted(f"g={g}" for g in ids)
        assert X.sum(0).tolist() == X.sum(1).tolist() == [1.0] * 3
        np.testing.assert_array_equal(frame_inputs(layout, pd.DataFrame({"g": ids})), X)


def test_percent_signs_of_the_target_that_are_there_in_one_file_only_are_said(tmp_path):
    """Without a word, 40 would be added to a model whose targets lie between 0 and 1."""
    layout = read(written(tmp_path, "a,y\n1,40 %\n2,50 %\n"), "y")[0]
    layout = Layout.from_json(json.loads(json.dumps(layout.as_json())))
    more = read_table(written(tmp_path, "a,y\n1,40\n2,50\n", "more.csv"))
    assert training(more, layout).y.tolist() == [40.0, 50.0]
    said = "'y' has no percent signs here, and had them in the fit: 40 % is 0.4."
    assert more.notes.sentences() == [said]
    new = Inputs(written(tmp_path, "a,y\n1,\n", "new.csv"), None, layout)
    assert [len(block.X) for block in new.blocks(5)] == [1]
    assert not new.notes.sentences()


def test_a_column_without_name_is_not_empty_if_values_come_late(tmp_path):
    rows = "".join(f"{i},{'' if i < 60 else i},{i}\n" for i in range(70))
    layout, X, _, _ = read(written(tmp_path, rows), "3", missing="impute")
    assert layout.inputs == ["column 1", "column 2", "column 2 is missing"]
    assert X[60:, 1].tolist() == list(range(60, 70))
    assert X[:, 2].sum() == 60
    said = read(written(tmp_path, "1,,2\n3,,4\n"), "3")[3]
    assert said == ["'column 2' has no value in any row: left out."]


def test_a_skipped_row_is_no_value_of_a_column_without_any(tmp_path):
    table = read_table(written(tmp_path, "a,note,y\n1,,2\n3,,4\n5\n"), skip_bad=True)
    layout = Layout.of(table, "y")
    assert layout.inputs == ["a"]
    assert training(table, layout, skip_bad=True).X.tolist() == [[1.0], [3.0]]

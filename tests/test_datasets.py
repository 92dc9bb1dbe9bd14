"""Data sets by name and by path: the very numbers of the files, the published splits, and errors that say
what to do."""

import gzip
import hashlib
import subprocess
import sys

import numpy as np
import pytest

from helpers import data_folder, load_split
from itergp import InputError, StorageError, datasets
from itergp.datasets import DATASETS, Source, load


@pytest.fixture
def real(monkeypatch):
    folder = data_folder()
    monkeypatch.setenv("ITERGP_DATA", str(folder))
    return folder


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A small named data set of its own, in a folder of its own."""
    table = np.random.default_rng(0).standard_normal((30, 4)).round(4)
    table[:, 1] = 2.5
    test = np.arange(30)[:, None] % 10 == np.arange(10)
    hashes = []
    for file, values, how in (("toy.csv.gz", table, "%.4f"), ("toy.splits.csv.gz", test, "%d")):
        content = gzip.compress("\n".join(",".join(how % v for v in row) for row in values).encode(), mtime=0)
        (tmp_path / file).write_bytes(content)
        hashes.append(hashlib.sha256(content).hexdigest())
    monkeypatch.setenv("ITERGP_DATA", str(tmp_path))
    monkeypatch.setitem(DATASETS, "toy", Source(30, 3, *hashes, "", "a b c y"))
    return tmp_path, table, test


@pytest.mark.data
@pytest.mark.parametrize(("name", "i"), [("parkinsons", 0), ("parkinsons", 7), ("bike", 3), ("protein", 1)])
def test_a_split_has_the_numbers_of_the_files_standardised_with_the_training_part(real, name, i):
    split = load(name).split(i)
    for found, expected in zip(
        (split.X, split.y, split.X_test, split.y_test), load_split(name, i), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.data
@pytest.mark.parametrize("name", list(DATASETS)[:5])
def test_every_named_set_has_the_size_that_its_source_says(real, name):
    source, dataset = DATASETS[name], load(name)
    assert dataset.X.shape == (source.rows, source.features)
    assert dataset.y.shape == (source.rows,)
    assert len(dataset.feature_names) == source.features == len(set(dataset.feature_names))
    assert dataset.test.shape == (source.rows, 10)
    assert (dataset.test.sum(axis=1) == 1).all()  # each row is a test row once


@pytest.mark.data
def test_what_leaks_in_bike_is_what_the_note_says(real):
    """exp(target) is an affine function of casual + registered, up to the five digits of the file; without
    them no such sum."""
    bike = load("bike")
    columns = dict(zip(bike.feature_names, bike.X.T, strict=True))
    total = columns["casual"] + columns["registered"]
    count = np.exp(bike.y)
    assert np.corrcoef(total, count)[0, 1] > 1 - 1e-8
    assert np.corrcoef(columns["registered"], count)[0, 1] < 0.98
    np.testing.assert_array_equal(columns["yr"], columns["year"])
    np.testing.assert_array_equal(columns["mnth"], columns["month"])
    assert all(word in DATASETS["bike"].note for word in ("`casual`", "`registered`", "columns 16 and 17"))
    assert bike.feature_names[15:] == ("casual", "registered")

    without = load("bike", drop=("casual", "registered"))
    assert without.feature_names == bike.feature_names[:15]
    np.testing.assert_array_equal(without.X, bike.X[:, :15])
    np.testing.assert_array_equal(without.split(2).X, bike.split(2).X[:, :15])


@pytest.mark.data
def test_the_names_of_parkinsons_fit_its_columns(real):
    """42 patients, two sexes; and within a patient, the target is linear in test_time between visits."""
    parkinsons = load("parkinsons")
    columns = dict(zip(parkinsons.feature_names, parkinsons.X.T, strict=True))
    assert np.unique(columns["subject"]).size == 42
    assert np.unique(columns["sex"]).size == 2
    first = columns["subject"] == columns["subject"][0]
    early = first & (columns["test_time"] < np.quantile(columns["test_time"][first], 0.4))
    line = np.polyfit(columns["test_time"][early], parkinsons.y[early], 1)
    assert np.abs(np.polyval(line, columns["test_time"][early]) - parkinsons.y[early]).max() < 0.01


def test_a_named_set_comes_back_from_its_files(toy):
    _, table, test = toy
    dataset = load("toy")
    np.testing.assert_array_equal(dataset.X, table[:, :3])
    np.testing.assert_array_equal(dataset.y, table[:, 3])
    np.testing.assert_array_equal(dataset.test, test)
    split = dataset.split(4)
    np.testing.assert_allclose(split.X[:, [0, 2]].mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose(split.X[:, [0, 2]].std(axis=0), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(split.X[:, 1], 0.0)  # a constant is only centred
    scale = table[~test[:, 4], 3]
    np.testing.assert_allclose(split.y_test * scale.std() + scale.mean(), table[test[:, 4], 3], rtol=1e-13)


def test_a_missing_file_is_named_with_where_to_put_it(toy):
    folder = toy[0]
    (folder / "toy.splits.csv.gz").unlink()
    with pytest.raises(
        StorageError,
        match=r"toy\.splits\.csv\.gz, of the data set 'toy', is not in "
        r"",
    ) as error:
        load("toy")
    assert str(folder) in str(error.value)
    assert "toy/test_mask.csv.gz" in str(error.value)
    assert "ITERGP_DATA" in str(error.value)


@pytest.mark.parametrize("file", ["toy.csv.gz", "toy.splits.csv.gz"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:], lambda b: b""]
)
def test_a_damaged_file_is_named_and_refused(toy, file, damage):
    path = toy[0] / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StorageError, match="is damaged or of another version: its SHA-256") as error:
        load("toy")
    assert str(path) in str(error.value)


def test_a_folder_in_the_place_of_a_file_is_refused_by_name(toy):
    path = toy[0] / "toy.csv.gz"
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError, match=r"toy\.csv\.gz cannot be read"):
        load("toy")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="'bikes' is neither a known data set") as error:
        load("bikes")
    assert all(
        name in str(error.value)
        for name in ("parkinsons", "bike", "protein", "keggdirected", "keggundirected")
    )
    with pytest.raises(InputError, match="name_or_path is 3"):
        load(3)


def test_features_are_dropped_by_name_and_unknown_names_list_the_known_ones(toy):
    assert load("toy", drop=["b"]).feature_names == ("a", "c")
    np.testing.assert_array_equal(load("toy", drop=["b"]).X, toy[1][:, [0, 2]])
    with pytest.raises(InputError, match="drop names 'd', which is not a feature of 'toy'; it has a, b, c"):
        load("toy", drop=["a", "d"])
    with pytest.raises(InputError, match="drop names every feature"):
        load("toy", drop=["a", "b", "c"])
    with pytest.raises(InputError, match="drop is 'a'"):
        load("toy", drop="a")


@pytest.mark.parametrize("i", [10, -1, 1.0, "0"])
def test_a_split_that_does_not_exist_is_refused(toy, i):
    with pytest.raises(InputError, match="i is"):
        load("toy").split(i)


def test_the_folder_is_that_of_the_variable_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ITERGP_DATA", str(tmp_path / "here"))
    assert datasets.data_folder() == tmp_path / "here"
    monkeypatch.setenv("ITERGP_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert datasets.data_folder() == tmp_path / "cache" / "itergp"
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.data_folder() == tmp_path / "Library" / "Caches" / "itergp"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert datasets.data_folder() == tmp_path / "local" / "itergp"


# Tables by path.


def write(path, rows, header=None):
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(([header] if header else []) + lines) + "\n")
    return path


def test_a_table_by_path_gives_its_last_column_from_the_others(tmp_path):
    table = np.random.default_rng(1).standard_normal((25, 3)).round(6)
    named = load(write(tmp_path / "named.csv", table, "a,b c,y"))
    bare = load(str(write(tmp_path / "bare.csv", table)))
    assert named.feature_names == ("a", "b c")
    assert bare.feature_names == ("column 1", "column 2")
    for dataset in (named, bare):
        np.testing.assert_array_equal(dataset.X, table[:, :2])
        np.testing.assert_array_equal(dataset.y, table[:, 2])
    np.testing.assert_array_equal(load(tmp_path / "named.csv", drop=["b c"]).X, table[:, :1])


def test_a_table_has_ten_fixed_splits_in_which_each_row_is_tested_once(tmp_path):
    path = write(tmp_path / "t.csv", np.random.default_rng(1).standard_normal((57, 3)))
    test = load(path).test
    assert test.shape == (57, 10)
    assert (test.sum(axis=1) == 1).all()
    assert set(test.sum(axis=0)) == {5, 6}
    np.testing.assert_array_equal(load(path).test, test)
    runs = (test[1:] & test[:-1]).any(axis=1).sum()
    assert runs < 20  # not blocks of neighbouring rows


def test_a_cell_that_is_no_number_is_named_with_its_place(tmp_path):
    rows = [[i, "red" if i == 4 else 0.5, i] for i in range(12)]
    with pytest.raises(
        InputError,
        match=r"line 6, column 'colour': 'red' is not a number\. Drop this "
        r"column",
    ):
        load(write(tmp_path / "t.csv", rows, "a,colour,y"))
    assert load(tmp_path / "t.csv", drop=["colour"]).feature_names == ("a",)


def test_tables_that_are_too_small_are_refused(tmp_path):
    with pytest.raises(InputError, match="has one column"):
        load(write(tmp_path / "narrow.csv", [[i] for i in range(12)], "y"))
    with pytest.raises(InputError, match="has 9 rows; expected at least 10"):
        load(write(tmp_path / "short.csv", [[i, i] for i in range(9)], "a,y"))
    with pytest.raises(StorageError):
        load(tmp_path)


def test_the_synthetic_set_is_the_papers():
    X, y = datasets.synthetic(5000, 3, noise=0.04, seed=2)
    assert X.shape == (5000, 3)
    assert np.abs(X).max() <= 1
    assert np.var(y - np.sin(np.pi * X.sum(axis=1))) == pytest.approx(0.04, rel=0.1)
    assert not np.array_equal(X, datasets.synthetic(5000, 3, noise=0.04, seed=3)[0])


def test_the_rooms_for_experiments_are_reached_by_their_names():
    code = (
        "import itergp; print(itergp.datasets.synthetic(3, 2)[0].shape, itergp.metrics.rmse([1], [1]), "
        "itergp.baselines.svgp)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.startswith("(3, 2) 0.0 <function svgp")

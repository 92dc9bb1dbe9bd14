"""Data sets for demonstrations and experiments: one synthetic, five from the UCI repository, any table by
path.

The five are read from the folder in ITERGP_DATA, or from the user's cache folder; nothing is downloaded. Each
is two files, as prepared in github.com/treforevans/uci_datasets (MIT; the data: UCI repository, CC BY 4.0):
NAME.csv.gz is its `data.csv.gz`, with the target in the last column, and NAME.splits.csv.gz its
`test_mask.csv.gz`, ten columns in which 1 marks the test rows.
"""

import gzip
import hashlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from itergp.errors import InputError, StorageError
from itergp.tables import Layout, Table, read_table
from itergp.validate import count

SPLITS, SPLIT_SEED = 10, 0
ORIGIN = "https://github.com/treforevans/uci_datasets"


@dataclass(frozen=True)
class Source:
    """Facts about a named data set: its size, the SHA-256 of its files, its columns, and its pitfalls."""

    rows: int
    features: int
    sha256: str  # of NAME.csv.gz
    splits_sha256: str  # of NAME.splits.csv.gz
    note: str
    columns: str = ""  # names of the features and the target; numbered where unknown

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.split()) or (*(f"column {j + 1}" for j in range(self.features)), "target")


DATASETS = {
    "parkinsons": Source(
        5875,
        20,
        "d20ffd9c9e5053a03fff0b770e7b0e076bf856a34538198303c897b6cc6addde",
        "090794e6acb34ce9134ce2ac530b60c408adc646e45f9296adf0e3eb134f1a64",
        "Telemonitoring of 42 patients; the target is total_UPDRS, and the other score is excluded. Scores "
        "were interpolated linearly in test_time for each patient, and random splits put rows of one patient "
        "on both sides: with `subject` and `test_time` the target is nearly free of noise.",
        "subject age sex test_time jitter jitter_abs jitter_rap jitter_ppq5 jitter_ddp shimmer shimmer_db "
        "shimmer_apq3 shimmer_apq5 shimmer_apq11 shimmer_dda nhr hnr rpde dfa ppe total_updrs",
    ),
    "bike": Source(
        17379,
        17,
        "411f76ae426c0e348a2629dcf6b3b29102c7db465eae780a3454c39db1dfac4f",
        "cf13dc25e80c03019cf2b01666f9cc29b03ea222f5c519536023ea56669bf337",
        "Hourly counts of rented bicycles; the target is the logarithm of the count. It leaks: the count is "
        "the sum of "
        "`casual` and `registered`, which are columns 16 and 17 (the last two features). Published numbers "
        "keep them; "
        'load("bike", drop=("casual", "registered")) excludes them. `yr` and `mnth` repeat `year` and '
        "`month`.",
        "year month day season yr mnth hour holiday weekday workingday weather temp atemp humidity windspeed "
        "casual registered log_count",
    ),
    "protein": Source(
        45730,
        9,
        "f709d0107c3ee90ab019b9e5d77fc2ae182158958cb70b1903236a51334fd01b",
        "22afe05e8d17c428558d78a77efeecc08d58004b6c95741d1c533c3207c69fe9",
        "Physicochemical properties of protein tertiary structure (CASP); the target is log(1 + RMSD). 1,758 "
        "rows repeat the inputs of another.",
        "F1 F2 F3 F4 F5 F6 F7 F8 F9 log_rmsd",
    ),
    "keggdirected": Source(
        48827,
        20,
        "51b7bb56e3f3eae36273cdd5a549c042bdf0ec10948a6f8e6b01a1d6912212cd",
        "b8a7fc902444fdbc5866e8bf314e4778a303d675ef5267c83c5c25b70dacd357",
        "KEGG metabolic relation network (directed). 33,016 rows repeat the inputs of another.",
    ),
    "keggundirected": Source(
        63608,
        27,
        "117419270e50f581df18bf996ffc8b6bf1bb76c9f3640331ac9d6e64cff63d4e",
        "ea56968ffbf638720943f2758fe0464e1ff532654bc5a67c369a1cda8c6e7f13",
        "KEGG metabolic reaction network (undirected). 45,157 rows repeat the inputs of another: "
        "pseudo-inputs are linearly dependent, where the paper reports instability. Column 10 is constant.",
    ),
}


@dataclass(frozen=True, eq=False)
class Split:
    """A training and a test part, standardised with the mean and standard deviation of the training part."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True, eq=False)
class Dataset:
    """All rows as they are in the file, and a mask of the test rows of each split."""

    name: str
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    feature_names: tuple[str, ...]
    test: np.ndarray  # (n, splits), true for test rows

    def split(self, i: int = 0) -> Split:
        """Split i, standardised; features that are constant in the training part are only centred."""
        if count("i", i, least=0) >= self.test.shape[1]:
            raise InputError(
                f"i is {i}; expected a split of {self.name!r}, from 0 to {self.test.shape[1] - 1}."
            )
        table, test = np.column_stack([self.X, self.y]), self.test[:, i]
        mean, std = table[~test].mean(axis=0), table[~test].std(axis=0)
        table = (table - mean) / np.where(std > 0, std, 1.0)
        return Split(table[~test, :-1], table[~test, -1], table[test, :-1], table[test, -1])


def synthetic(n: int, d: int, noise: float = 0.01, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's synthetic data: x uniform on [-1, 1]^d, y = sin(pi x^T 1) + N(0, noise)."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, np.sin(np.pi * X.sum(axis=1)) + np.sqrt(noise) * rng.standard_normal(n)


def load(name_or_path: str | os.PathLike[str], drop: Sequence[str] = ()) -> Dataset:
    """Load a data set of `DATASETS` by name, or a CSV or Parquet file by path, without the features in
    `drop`.

    The last column is the target. Named sets have ten fixed 90/10 splits, so that results are comparable;
    tables get ten folds of a fixed random permutation. Unnamed columns are called "column 1", "column 2", and
    so on.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise InputError(
            f"name_or_path is {name_or_path!r}; expected one of {', '.join(DATASETS)}, or the path of a "
            "table."
        )
    if isinstance(drop, str) or not all(isinstance(name, str) for name in drop):
        raise InputError(
            f"drop is {drop!r}; expected a list of feature names, such as ['casual', 'registered']."
        )
    if name_or_path in DATASETS:
        return _named(str(name_or_path), drop)
    path = Path(name_or_path)
    if not path.exists():
        raise InputError(
            f"{str(name_or_path)!r} is neither a known data set ({', '.join(DATASETS)}) nor an existing file."
        )
    return _from_table(read_table(path), drop)


def data_folder() -> Path:
    """Folder of the named data sets: ITERGP_DATA, or `itergp` in the user's cache folder."""
    given = os.environ.get("ITERGP_DATA")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "itergp"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "itergp"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "itergp"


def _named(name: str, drop: Sequence[str]) -> Dataset:
    source = DATASETS[name]
    table = _numbers(name, f"{name}.csv.gz", f"{name}/data.csv.gz", source.sha256)
    test = _numbers(name, f"{name}.splits.csv.gz", f"{name}/test_mask.csv.gz", source.splits_sha256) == 1
    features = source.names[:-1]
    kept = _kept(name, features, drop)
    return Dataset(name, table[:, kept], table[:, -1].copy(), tuple(features[j] for j in kept), test)


def _numbers(name: str, file: str, original: str, sha256: str) -> np.ndarray:
    """Read a file of the data folder after checking its SHA-256."""
    path = data_folder() / file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StorageError(
            f"{file}, of the data set {name!r}, is not in {path.parent}. Get {original} from {ORIGIN} and "
            "save it there under that name, or set the environment variable ITERGP_DATA to the folder that "
            "contains it."
        ) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise StorageError(
            f"{path} is damaged or of another version: its SHA-256 starts with {found[:12]}; expected "
            f"{sha256[:12]}. Get {original} from {ORIGIN} and save it there."
        )
    return np.loadtxt(io.BytesIO(gzip.decompress(content)), delimiter=",")


def _from_table(table: Table, drop: Sequence[str]) -> Dataset:
    """A table whose last column is predicted from the others."""
    if len(table.names) < 2:
        raise InputError(
            f"{table.path} has one column; expected features, and the target in the last column."
        )
    if table.rows < SPLITS:
        raise InputError(
            f"{table.path} has {table.rows} rows; expected at least {SPLITS}, one for the test part of each "
            "split."
        )
    _kept(str(table.path), table.names[:-1], drop)
    layout = Layout.of(table, table.names[-1], drop)
    X, y = layout.X(table, "Drop this column, or encode it as numbers."), layout.y(table)
    if np.isnan(y).any():
        raise InputError(
            f"{table.place(int(np.isnan(y).argmax()), len(table.names) - 1)}: the value is missing "
            f"({np.isnan(y).sum()} in all); expected a target in each row. Remove these rows."
        )
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    test = np.arange(SPLITS) == np.argsort(order)[:, None] % SPLITS
    return Dataset(table.path.name, X, y, tuple(layout.inputs), test)


def _kept(where: str, features: Sequence[str], drop: Sequence[str]) -> list[int]:
    """Column numbers of the features that are kept."""
    unknown = [name for name in drop if name not in features]
    if unknown:
        raise InputError(
            f"drop names {unknown[0]!r}, which is not a feature of {where!r}; it has {', '.join(features)}."
        )
    kept = [j for j, name in enumerate(features) if name not in drop]
    if not kept:
        raise InputError(f"drop names every feature of {where!r}; expected at least one to remain.")
    return kept

"""THE table of bad inputs: each must end in one clear message that names what is wrong, with the model
unchanged.

A row is a name, what goes in, and words that the message must have. `INPUTS` go through fit, partial_fit
and predict, `NEW` through partial_fit and predict, `TARGETS` through fit and partial_fit, `PARAMETERS`
through the constructor and fit, `CALLS` through a method of a fitted model, `FILES` through load (each a
function that makes a path from a folder and a good file).
"""

import datetime
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from safetensors.numpy import save_file
from sklearn.gaussian_process import kernels as skl

from helpers import make_data
from itergp import RBF, IterGPRegressor, LinearMean, Matern32, MaxActions, RandomAction, TimeBudget

DATA = make_data(24)
X, Y, AT = DATA.X, DATA.y, DATA.X_new
DATES = np.array(["2026-01-01", "2026-06-01"] * 12, dtype="datetime64[D]")


def at(array, index, value):
    changed = np.array(array, dtype=object if isinstance(value, str | None) else None)
    changed[index] = value
    return changed


def frame(**columns):
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1]} | columns)


# Inputs of 24 rows and 2 features, unless that is what is wrong with them.
INPUTS = {
    "NaN": (at(X, (3, 1), np.nan), "X contains NaN"),
    "infinity": (at(X, (3, 1), np.inf), "X contains infinity"),
    "minus infinity": (at(X, (3, 1), -np.inf), "X contains infinity"),
    "NaN in a frame": (frame(b=at(X[:, 1], 2, np.nan)), "X contains NaN"),
    "NaN in a polars frame": (pl.DataFrame({"a": X[:, 0], "b": at(X[:, 1], 2, np.nan)}), "X contains NaN"),
    "missing values in a nullable column": (
        frame(b=pd.array([1, None] * 12, dtype="Int64")),
        "X contains NaN",
    ),
    "missing values in a polars frame": (
        pl.DataFrame({"a": X[:, 0], "b": [1.0, None] * 12}),
        "X contains NaN",
    ),
    "masked": (np.ma.masked_less(X, 0), "X is a masked array.*fill"),
    "masked without a mask": (np.ma.array(X), "X is a masked array"),
    "text": (np.array([["a", "b"]] * 24), "X holds text.*Encode"),
    "numbers as text": (X.astype(str), "X holds text.*Encode"),
    "numbers as bytes": (X.astype("S8"), "X holds text"),
    "text among objects": (at(X, (5, 0), "tall"), r"X holds text, the first at \(5, 0\) \('tall'\)"),
    "numbers as text among objects": (at(X, (5, 0), "1.5"), r"X holds text, the first at \(5, 0\)"),
    "nothing among objects": (at(X, (5, 0), None), "X contains NaN"),
    "other objects": (np.array([[{"a": 1}, 2.0]] * 24, dtype=object), "must contain numbers"),
    "dates": (np.stack([DATES, DATES], axis=1), "X holds dates.*days since"),
    "durations": (np.stack([DATES - DATES[0]] * 2, axis=1), "X holds dates or durations"),
    "dates among objects": (
        np.array([[datetime.date(2026, 1, 1), 1.0]] * 24, dtype=object),
        "must contain numbers",
    ),
    "a date column": (frame(b=pd.to_datetime(DATES)), "column 'b' of X holds dates"),
    "a text column": (frame(b=["red", "blue"] * 12), "column 'b' of X holds text.*'red'"),
    "a categorical column": (
        frame(b=pd.Categorical(["red", "blue"] * 12)),
        "column 'b' of X holds text.*'red'",
    ),
    "a polars text column": (
        pl.DataFrame({"a": X[:, 0], "b": ["red", "blue"] * 12}),
        "column 'b' of X holds text.*'red'",
    ),
    "a polars date column": (pl.DataFrame({"a": X[:, 0], "b": DATES}), "column 'b' of X holds dates"),
    "sparse, by rows": (sp.csr_array(X), r"X is a sparse .*OneHotEncoder\(sparse_output=False\).*toarray"),
    "sparse, by columns": (sp.csc_matrix(X), r"X is a sparse matrix.*toarray"),
    "complex": (X + 1j, "[Cc]omplex"),
    "ragged": ([[1.0, 2.0], [3.0]] * 12, "X cannot be read|sequence"),
    "no rows": (X[:0], "0 sample"),
    "no features": (X[:, :0], "0 feature"),
    "a vector": (X[:, 0], "Expected 2D array, got 1D"),
    "three axes": (X[None], "Expected 2D array, got|Found array with dim 3"),
    "a number": (3.0, "Expected 2D array, got scalar"),
    "nothing": (None, "X is a NoneType"),
    "a path": ("train.csv", "X is a str; expected an array or a data frame"),
    "a dictionary": ({"a": X[:, 0]}, "X is a dict"),
    "records": (np.zeros(24, dtype=[("a", float), ("b", float)]), "X holds records"),
    "duplicate column names": (pd.DataFrame(X, columns=["a", "a"]), "X has two columns named 'a'"),
    "column names of two kinds": (pd.DataFrame(X, columns=["a", 1]), "string names"),
    "values beyond float64's squares": (1e200 * X, "X has values too large"),
}

# Inputs that were fine for another model.
NEW = {
    "too few features": (X[:, :1], "X has 1 features, but IterGPRegressor is expecting 2"),
    "too many features": (np.column_stack([X, X]), "X has 4 features, but IterGPRegressor is expecting 2"),
}
NAMED = {  # for a model that was fitted with the names a and b
    "columns in another order": (frame()[["b", "a"]], "feature names should match"),
    "a column of another name": (frame().rename(columns={"b": "c"}), "feature names should match"),
    "a column too few": (frame()[["a"]], "feature names should match"),
    "a column too many": (frame(c=X[:, 0]), "feature names should match"),
}

TARGETS = {
    "NaN": (at(Y, 3, np.nan), "y contains NaN"),
    "infinity": (at(Y, 3, np.inf), "y contains infinity"),
    "masked": (np.ma.masked_less(Y, 0), "y is a masked array"),
    "text": (["a"] * 24, "y holds text"),
    "numbers as text": (Y.astype(str), "y holds text"),
    "text among objects": (at(Y, 5, "low"), r"y holds text, the first at 5 \('low'\)"),
    "dates": (DATES, "y holds dates"),
    "sparse": (sp.csr_array(Y[:, None]), "y is a sparse matrix"),
    "complex": (Y + 1j, "[Cc]omplex"),
    "too short": (Y[:-1], r"inconsistent numbers of samples: \[24, 23\]"),
    "too long": (np.append(Y, 0.0), r"inconsistent numbers of samples: \[24, 25\]"),
    "three axes": (Y[:, None, None], "y.*dim 3|dim 3"),
    "no targets": (np.zeros((24, 0)), "y has shape|0 feature"),
    "nothing": (None, "requires y to be passed"),
    "a number": (3.0, "y|Singleton"),
    "values beyond float64's squares": (1e200 * Y, "y has values too large"),
}

PARAMETERS = {
    "kernel unknown": ({"kernel": "gaussian"}, "kernel is 'gaussian'; expected 'auto', one of 'matern12'"),
    "kernel a number": ({"kernel": 1.0}, "kernel is 1.0"),
    "kernel missing": ({"kernel": None}, "kernel is None"),
    "kernel a class": ({"kernel": Matern32}, "kernel is <class"),
    "kernel a function": ({"kernel": np.exp}, "kernel is"),
    "lengthscales for other features": (
        {"kernel": RBF([1.0, 2.0, 3.0])},
        "RBF.lengthscale has 3 values.*2 features",
    ),
    "columns that are not there": ({"kernel": RBF(1.0).on([5])}, "needs column 5"),
    "scikit-learn lengthscale zero": ({"kernel": skl.RBF(0.0)}, "RBF.lengthscale is 0.0"),
    "scikit-learn lengthscale NaN": ({"kernel": skl.RBF(np.nan)}, "RBF.lengthscale is nan"),
    "scikit-learn lengthscale negative": ({"kernel": skl.Matern(-1.0)}, "lengthscale is -1.0"),
    "scikit-learn lengthscales for other features": (
        {"kernel": skl.RBF([1.0] * 3)},
        "lengthscale has 3 values",
    ),
    "scikit-learn constant negative": ({"kernel": -2.0 * skl.RBF()}, "scale of a kernel is -2.0"),
    "scikit-learn smoothness without a counterpart": (
        {"kernel": skl.Matern(nu=2.0)},
        "has no counterpart.*nu 0.5",
    ),
    "scikit-learn period of two features": (
        {"kernel": skl.ExpSineSquared()},
        "has no counterpart.*one feature",
    ),
    "scikit-learn power": ({"kernel": skl.RBF() ** 2}, "has no counterpart"),
    "scikit-learn pairwise": ({"kernel": skl.PairwiseKernel()}, "has no counterpart"),
    "noise only": ({"kernel": skl.WhiteKernel()}, "only noise"),
    "noise times a kernel": ({"kernel": skl.WhiteKernel() * skl.RBF()}, "add it instead"),
    "white noise negative": (
        {"kernel": skl.RBF() + skl.WhiteKernel(-1.0), "noise": "learn"},
        "WhiteKernel.*-1.0",
    ),
    "noise twice": ({"kernel": skl.RBF() + skl.WhiteKernel(0.1), "noise": 0.1}, "noise is given twice"),
    "noise negative": ({"noise": -0.1}, "noise is -0.1; expected 'learn' or a variance"),
    "noise NaN": ({"noise": np.nan}, "noise is nan"),
    "noise infinite": ({"noise": np.inf}, "noise is inf"),
    "noise as text": ({"noise": "small"}, "noise is 'small'"),
    "noise missing": ({"noise": None}, "noise is None"),
    "noise true": ({"noise": True}, "noise is True"),
    "noise per row": ({"noise": np.full(24, 0.1)}, "use sample_weight in fit, or itergp.condition"),
    "noise to be learned without learning": ({"noise": "learn"}, "noise is 'learn' but learn is False"),
    "learn unknown": ({"learn": "fast"}, "learn is 'fast'; expected one of"),
    "learn missing": ({"learn": None}, "learn is None"),
    "mean unknown": ({"mean": "quadratic"}, "mean is 'quadratic'; expected one of"),
    "mean a number": ({"mean": 3.0}, "mean is 3.0"),
    "mean of other features": ({"mean": LinearMean([1.0, 2.0, 3.0])}, "LinearMean.weights is for 3 features"),
    "mean of a wrong shape": ({"mean": lambda X: X}, "prior mean has shape"),
    "policy unknown": ({"policy": "newton"}, "policy is 'newton'; expected 'auto', one of 'cg'"),
    "policy a number": ({"policy": 3}, "policy is 3"),
    "policy missing": ({"policy": None}, "policy is None"),
    "policy with a bad action": ({"policy": lambda state: np.zeros(24)}, "action of zeros"),
    "neighbours negative": ({"neighbours": -1}, "neighbours is -1"),
    "neighbours a fraction": ({"neighbours": 2.5}, "neighbours is 2.5"),
    "neighbours as text": ({"neighbours": "many"}, "neighbours is 'many'"),
    "neighbours true": ({"neighbours": True}, "neighbours is True"),
    "budget without a unit": ({"budget": "30"}, "budget is '30'; expected a number and a unit"),
    "budget negative": ({"budget": "-3s"}, "budget is '-3s'"),
    "budget of no time": ({"budget": "0s"}, "budget is '0s'"),
    "budget of another unit": ({"budget": "3 days"}, "budget is '3 days'"),
    "budget a number": ({"budget": 30}, "budget is 30"),
    "budget a fraction of an action": ({"budget": "2.5 actions"}, "budget is '2.5 actions'"),
    "budget NaN": ({"budget": "nan s"}, "budget is 'nan s'"),
    "dtype unknown": ({"dtype": "float16"}, "dtype is 'float16'"),
    "cache as text": ({"cache": "much"}, "cache is 'much'"),
    "cache negative": ({"cache": -1}, "cache is -1"),
    "engine unknown": ({"engine": "abacus"}, "engine is 'abacus'"),
    "engine a number": ({"engine": 3}, "engine is 3"),
    "threads zero": ({"threads": 0}, "threads is 0"),
    "threads a fraction": ({"threads": 1.5}, "threads is 1.5"),
    "normalize as text": ({"normalize": "yes"}, "normalize is 'yes'; expected True or False"),
    "merge_duplicates missing": ({"merge_duplicates": None}, "merge_duplicates is None"),
    "checkpoint a number": ({"checkpoint": 3}, "checkpoint is 3; expected a path"),
    "checkpoint a file": ({"checkpoint": __file__}, "is a file; expected a folder"),
    "random_state negative": ({"random_state": -1}, "random_state is -1"),
    "random_state as text": ({"random_state": "seed"}, "random_state is 'seed'"),
    "random_state a fraction": ({"random_state": 0.5}, "random_state is 0.5"),
    "verbose negative": ({"verbose": -1}, "verbose is -1"),
    "verbose as text": ({"verbose": "yes"}, "verbose is 'yes'"),
}

CALLS = {
    "both uncertainties": (
        lambda m: m.predict(AT, return_std=True, return_cov=True),
        "return_std and return_cov are both True",
    ),
    "level zero": (lambda m: m.interval(AT, 0.0), "level is 0.0; expected a probability"),
    "level one": (lambda m: m.interval(AT, 1), "level is 1"),
    "level in percent": (lambda m: m.interval(AT, 95), "level is 95"),
    "level NaN": (lambda m: m.interval(AT, np.nan), "level is nan"),
    "level as text": (lambda m: m.interval(AT, "95%"), "level is '95%'"),
    "level of a conformal interval": (
        lambda m: m.interval(AT, 2, method="conformal"),
        "level is 2; expected a",
    ),
    "too few rows for the level": (
        lambda m: m.interval(AT, 0.95, method="conformal"),
        "level is 0.95, and 24 rows were held out; a conformal interval of that level needs 39",
    ),
    "an unknown method": (
        lambda m: m.interval(AT, method="bootstrap"),
        "method is 'bootstrap'; expected one of 'gaussian', 'conformal'",
    ),
    "no levels": (lambda m: m.quantiles(AT, []), "levels is .*; expected probabilities, such as"),
    "a level of a quantile in percent": (lambda m: m.quantiles(AT, [5, 95]), "levels has 5.0; expected prob"),
    "a level of a quantile that is NaN": (lambda m: m.quantiles(AT, np.nan), "levels has nan; expected"),
    "levels of quantiles as text": (lambda m: m.quantiles(AT, "median"), "levels is 'median'; expected"),
    "levels in a table": (lambda m: m.quantiles(AT, [[0.5]]), "levels is an array of shape \\(1, 1\\)"),
    "too few rows for a quantile": (
        lambda m: m.quantiles(AT, [0.5, 0.01], "conformal"),
        "levels has 0.01, which needs 99 held-out rows, and there are 24. Ask for levels nearer",
    ),
    "a level that hardly is a number": (
        lambda m: m.quantiles(AT, 5e-324, "conformal"),
        "levels has 5e-324, which needs",
    ),
    "a level next to 1": (
        lambda m: m.quantiles(AT, [1 - 1e-9], "conformal"),
        "needs 1e.09 held-out rows",
    ),
    "levels in lists of several lengths": (
        lambda m: m.quantiles(AT, [[0.1], [0.2, 0.3]]),
        "levels is .*; expected probabilities",
    ),
    "levels that are masked": (
        lambda m: m.quantiles(AT, np.ma.array([0.1, 0.5], mask=[False, True])),
        "levels is masked_array.*; expected probabilities",
    ),
    "an unknown method for quantiles": (lambda m: m.quantiles(AT, method="tree"), "method is 'tree'"),
    "points with NaN for quantiles": (lambda m: m.quantiles(at(AT, (0, 0), np.nan)), "X contains NaN"),
    "no method": (lambda m: m.interval(AT, method=None), "method is None; expected one of"),
    "a conformal interval of the latent function": (
        lambda m: m.interval(AT, 0.5, include_noise=False, method="conformal"),
        "include_noise is False and method is 'conformal'",
    ),
    "calibrated without standard deviations": (
        lambda m: m.predict(AT, calibrated=True),
        "calibrated is True and return_std is False",
    ),
    "a calibrated covariance": (
        lambda m: m.predict(AT, return_cov=True, calibrated=True),
        "calibrated is True and return_std is False",
    ),
    "the latent function calibrated": (
        lambda m: m.predict(AT, return_std=True, include_noise=False, calibrated=True),
        "calibrated is True and include_noise is False",
    ),
    "calibrated as text": (
        lambda m: m.predict(AT, return_std=True, calibrated="yes"),
        "calibrated is 'yes'; expected True or False",
    ),
    "no samples": (lambda m: m.sample_y(AT, 0), "n_samples is 0"),
    "half a sample": (lambda m: m.sample_y(AT, 1.5), "n_samples is 1.5"),
    "a seed as text": (lambda m: m.sample_y(AT, 1, random_state="x"), "random_state is 'x'"),
    "points with NaN to decompose": (lambda m: m.decompose(at(AT, (0, 0), np.nan)), "X contains NaN"),
    "points with NaN to certify": (lambda m: m.certify(at(AT, (0, 0), np.nan)), "X contains NaN"),
    "points with NaN to sample": (lambda m: m.sample_y(at(AT, (0, 0), np.nan)), "X contains NaN"),
    "points with NaN for intervals": (lambda m: m.interval(at(AT, (0, 0), np.nan)), "X contains NaN"),
    "refine without a unit": (lambda m: m.refine("30"), "budget is '30'"),
    "refine by less than nothing": (lambda m: m.refine("-3s"), "budget is '-3s'"),
    "refine by a number": (lambda m: m.refine(5), "budget is 5"),
    "more targets than before": (
        lambda m: m.partial_fit(X, np.stack([Y, Y], axis=1)),
        "y has shape.*as in fit",
    ),
    "save nowhere": (lambda m: m.save("/no/such/folder/model.itergp"), "cannot be written"),
    "save to a number": (lambda m: m.save(3), "path is 3; expected a path"),
    "load a number": (lambda m: m.load(3), "path is 3; expected a path"),
}

# What never becomes a model at all.
CONSTRUCTION = {
    "lengthscale zero": (lambda: IterGPRegressor(Matern32(0.0)), "Matern32.lengthscale is 0.0"),
    "lengthscale NaN": (lambda: IterGPRegressor(Matern32([1.0, np.nan])), "Matern32.lengthscale"),
    "scale negative": (lambda: IterGPRegressor(-1.0 * RBF()), "scale of a kernel"),
    "a budget of negative actions": (
        lambda: IterGPRegressor(budget=MaxActions(-1)),
        "MaxActions.number is -1",
    ),
    "a budget of no time": (lambda: IterGPRegressor(budget=TimeBudget(0)), "TimeBudget.seconds"),
    "a block of no actions": (
        lambda: IterGPRegressor(policy=RandomAction(0)),
        "RandomAction.block_size is 0",
    ),
}


def written(content):
    def make(folder, good):
        (folder / "file").write_bytes(content)
        return folder / "file"

    return make


def changed(change):
    def make(folder, good):
        (folder / "file").write_bytes(change(bytearray(good.read_bytes())))
        return folder / "file"

    return make


def flipped(content):
    content[len(content) // 2] ^= 1
    return content


def other_tensors(folder, good):
    save_file({"weights": np.ones(3)}, folder / "file")
    return folder / "file"


FILES = {
    "no file": (lambda folder, good: folder / "none.itergp", "none.itergp"),
    "a folder": (lambda folder, good: folder, "folder|directory"),
    "an empty file": (written(b""), "file"),
    "a text": (written(b"a,b,y\n1,2,3\n"), "file"),
    "JSON": (written(json.dumps({"kernel": "rbf"}).encode()), "file"),
    "a pickle": (written(pickle.dumps({"kernel": "rbf"})), "file"),
    "zeros": (written(bytes(4096)), "file"),
    "other tensors": (other_tensors, "file"),
    "a part of a model": (changed(lambda content: content[: len(content) // 2]), "file"),
    "a model with something behind it": (changed(lambda content: content + b"more"), "file"),
    "a model with one bit flipped": (changed(flipped), "file"),
}

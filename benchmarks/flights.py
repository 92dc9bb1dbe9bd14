"""Claim: three million rows of a real table are fitted with the defaults in minutes, beside boosting.

Delays of flights in the US (2001), in minutes: `flights-3m.parquet` and `airports.csv` of the npm package
`vega-datasets`. Features: hour, day of the week, day of the year, distance, and the coordinates of both
airports. The same rows for all: 20,000 random rows are the test, the others (or `--rows` of them) are known.
Each method in a process of its own. Standard deviations of boosting and of the linear model are those of
their errors on a tenth of the known rows, held out.

    npm pack vega-datasets@3.2.1 && tar xzf vega-datasets-3.2.1.tgz
    python benchmarks/flights.py package/data [--rows 200000 2980000] [--methods itergp boosting linear]
                                              [--budget 120s]
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from common import peak_memory, print_table
from itergp.metrics import coverage, nll, rmse

TESTED = 20_000
SHOWN = ("method", "rows", "seconds", "learn", "predict", "gigabytes", "rmse", "nll", "coverage", "kernel")


def table(folder):
    """Features and delays, in a random order."""
    import pandas as pd

    flights = pd.read_parquet(folder / "flights-3m.parquet")
    places = pd.read_csv(folder / "airports.csv").set_index("iata")[["latitude", "longitude"]]
    when, known = (
        flights["date"].dt,
        flights["origin"].isin(places.index) & flights["destination"].isin(places.index),
    )
    X = np.column_stack(
        [
            when.hour + when.minute / 60.0,
            when.dayofweek,
            when.dayofyear,
            flights["distance"],
            places.reindex(flights["origin"]).to_numpy(),
            places.reindex(flights["destination"]).to_numpy(),
        ]
    )[known.to_numpy()]
    y = flights["delay"].to_numpy(dtype=np.float64)[known.to_numpy()]
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def itergp(X, y, X_new, budget):
    from itergp import IterGPRegressor

    model = IterGPRegressor(budget=budget).fit(X, y)
    began = time.perf_counter()
    mean, std = model.predict(X_new, return_std=True)
    candidates = model.trace_.candidates
    about = {
        "kernel": candidates[0].name if candidates else "",
        "learn": model.timings_["learn"],
        "predict": time.perf_counter() - began,
        "regime": model.regime_,
    }
    return mean, std, about


def _with_held_out_errors(model, X, y, X_new):
    tenth = len(y) // 10
    error = np.std(y[:tenth] - model.fit(X[tenth:], y[tenth:]).predict(X[:tenth]))
    return model.fit(X, y).predict(X_new), np.full(len(X_new), error), {}


def boosting(X, y, X_new, _):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return _with_held_out_errors(HistGradientBoostingRegressor(random_state=0), X, y, X_new)


def linear(X, y, X_new, _):
    from sklearn.linear_model import LinearRegression

    return _with_held_out_errors(LinearRegression(), X, y, X_new)


METHODS = {"itergp": itergp, "boosting": boosting, "linear": linear}


def worker(folder, method, rows, budget):
    X, y = table(Path(folder))
    X_new, y_new, X, y = X[:TESTED], y[:TESTED], X[TESTED:][:rows], y[TESTED:][:rows]
    began = time.perf_counter()
    mean, std, about = METHODS[method](X, y, X_new, budget)
    record = {
        "method": method,
        "rows": len(y),
        "budget": budget,
        "seconds": time.perf_counter() - began,
        "gigabytes": peak_memory() / 1e9,
        "rmse": rmse(y_new, mean),
        "nll": nll(y_new, mean, std**2),
        "coverage": coverage(y_new, mean, std**2),
    }
    print(json.dumps(record | about))


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("folder")
    arguments.add_argument("--rows", nargs="+", type=int, default=[200_000, 3_000_000])
    arguments.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    arguments.add_argument("--budget")
    arguments.add_argument("--worker")
    options = arguments.parse_args()
    if options.worker:
        return worker(*json.loads(options.worker))
    records = []
    for rows in options.rows:
        for method in options.methods:
            task = json.dumps([options.folder, method, rows, options.budget])
            command = [sys.executable, __file__, options.folder, "--worker", task]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{method} on {rows} rows failed: {done.stderr.strip().splitlines()[-1:]}")
                continue
            records.append(json.loads(done.stdout.strip().splitlines()[-1]))
            print(json.dumps(records[-1]), flush=True)
    shown = [[record.get(key, "") for key in SHOWN] for record in records]
    print_table(SHOWN, [[f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in shown])


if __name__ == "__main__":
    main()

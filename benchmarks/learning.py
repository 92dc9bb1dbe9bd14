"""Claim: whole fits, learning included, are better than the peers' for their time.

Split 0 of each data set, standardised with the training part; every run has a process of its own, one
after the other. Beside itergp: GPyTorch's SGPR (512 inducing points, ARD Matern 3/2, 60 Adam steps at 0.1,
float32, as it comes) and GPBoost's Vecchia approximation (30 neighbours, `matern_ard` 1.5, maximum
likelihood, float64). Seconds are those of fit and prediction together, on the clock and of all threads
(`processor`); RMSE, MAE, CRPS and NLL are those of the standardised target; coverage is that of 95 %
intervals. Error bars are one standard error over the test rows.

Two sets of places on the map, `modis` and `magnetic` (5,000 of its test rows), are in their own units:
degrees Celsius and nT. Peers that know only places are there for them: the nearest training row, and linear
interpolation on a triangulation of all training rows (outside of it, the nearest row).

    python benchmarks/learning.py [--datasets parkinsons bike] [--peers sgpr vecchia merged-vecchia]
                                  [--kernel matern12] [--limit 3600] [--budgets none 10 30 90]
                                  [--plot curve.png]
    python benchmarks/learning.py --datasets modis magnetic --peers nearest triangulation --budgets 240
    python benchmarks/learning.py --records printed.txt ... --plot curve.png # from what earlier runs
    printed

`--budgets` are seconds for itergp ("none": its default, counted); with several, `--plot` draws NLL over
the budget. `--kernel` is that of itergp; by default, its default.
"""

import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from common import kernel_names, load_raw_split, load_split, moments, print_table
from itergp import metrics

DATASETS = ("parkinsons", "bike", "protein", "keggdirected", "keggundirected")
PLACES = {"modis": None, "magnetic": 5000}  # in their own units, and how many test rows are taken
BATCH = 5000  # test rows that are predicted at a time
SHOWN = (
    *("dataset", "method", "budget", "seconds", "processor", "nll", "rmse", "mae", "crps", "coverage"),
    *("kernel", "noise", "actions"),
)


def itergp_fit(X, y, X_new, budget, kernel=None):
    from itergp import IterGPRegressor

    settings = {} if kernel is None else {"kernel": kernel}
    model = IterGPRegressor(budget=None if budget == "none" else f"{budget}s", **settings).fit(X, y)
    fitted = time.perf_counter()
    batches = [
        model.predict(X_new[start : start + BATCH], return_std=True) for start in range(0, len(X_new), BATCH)
    ]
    mean, std = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    about = {
        "asked": kernel,
        "kernel": " ".join(kernel_names(model.kernel_)),
        "parameters": str(model.kernel_),
        "learned": model.timings_.get("learn", 0.0),
        "predicted": time.perf_counter() - fitted,
        "noise": model.noise_,
        "actions": model.posterior_.rank,
        "status": model.status_.name,
    }
    return mean, std**2, about


def nearest(X, y, X_new, _):
    from scipy.spatial import cKDTree

    return y[cKDTree(X[:, :2]).query(X_new[:, :2])[1]], None, {}


def triangulation(X, y, X_new, _):
    from scipy.interpolate import LinearNDInterpolator

    mean = LinearNDInterpolator(X[:, :2], y)(X_new[:, :2])
    return np.where(np.isnan(mean), nearest(X, y, X_new, _)[0], mean), None, {}


def sgpr(X, y, X_new, _):
    import gpytorch
    import torch

    X, y, X_new = (torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in (X, y, X_new))
    torch.manual_seed(0)
    inducing = X[torch.randperm(len(X))[:512]].clone()

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=X.shape[1])
            )
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                base, inducing_points=inducing, likelihood=likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train(), likelihood.train()
    for _ in range(60):
        optimiser.zero_grad()
        loss = -objective(model(X), y)
        loss.backward()
        optimiser.step()
    model.eval(), likelihood.eval()
    with torch.no_grad():
        prediction = likelihood(model(X_new))
    noise = float(likelihood.noise.detach())
    return prediction.mean.numpy().astype(float), prediction.variance.numpy().astype(float), {"noise": noise}


def vecchia(X, y, X_new, _, weights=None):
    import gpboost

    model = gpboost.GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        num_neighbors=30,
        likelihood="gaussian",
        weights=weights,
    )
    model.fit(y=y)
    prediction = model.predict(gp_coords_pred=X_new, predict_var=True, predict_response=True)
    return prediction["mu"], prediction["var"], {"noise": float(np.ravel(model.get_cov_pars())[0])}


def merged_vecchia(X, y, X_new, budget):
    """The same posterior from merged rows with their numbers as weights; not the same likelihood: it lacks
    their scatter."""
    from itergp.data.rows import merge_rows

    rows = merge_rows(X, y)
    return vecchia(rows.X, rows.y.ravel(), X_new, budget, weights=rows.counts.astype(float))


PEERS = (("sgpr", "#d95f02", "SGPR (GPyTorch)"), ("vecchia", "#555555", "Vecchia (GPBoost)"))
FAR = 6.0  # nats above the curve: a peer is named below the panel then, not drawn
METHODS = {
    "itergp": itergp_fit,
    "sgpr": sgpr,
    "vecchia": vecchia,
    "merged-vecchia": merged_vecchia,
    "nearest": nearest,
    "triangulation": triangulation,
}


def scores(y, mean, variance):
    """Errors of means, and of densities if there are variances."""
    error = y - mean
    of_means = {"rmse": metrics.rmse(y, mean), "mae": float(np.mean(np.abs(error)))}
    if variance is None:
        return of_means
    terms = 0.5 * np.log(2 * np.pi * variance) + 0.5 * error**2 / variance
    return of_means | {
        "crps": metrics.crps(y, mean, variance),
        "nll": float(np.mean(terms)),
        "nll_error": float(np.std(terms) / np.sqrt(len(terms))),
        "coverage": metrics.coverage(y, mean, variance),
    }


def in_units(method, X, y, X_new, *settings):
    """A method that expects standardised data, on data in their units."""
    (m, s), (m_y, s_y) = moments(X), moments(y)
    mean, variance, about = method((X - m) / s, (y - m_y) / s_y, (X_new - m) / s, *settings)
    return m_y + s_y * mean, s_y**2 * variance, about


def worker(name, dataset, budget, *kernel):
    """One fit and prediction; prints its record."""
    X, y, X_new, y_new = (
        load_raw_split(dataset, test_rows=PLACES[dataset]) if dataset in PLACES else load_split(dataset)
    )
    method = METHODS[name]
    if dataset in PLACES and name in ("sgpr", "vecchia", "merged-vecchia"):
        method = partial(in_units, method)
    began, processor = time.perf_counter(), time.process_time()
    mean, variance, about = method(X, y, X_new, budget, *kernel)
    record = {
        "dataset": dataset,
        "method": name,
        "budget": budget,
        "rows": len(X),
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - processor,
    }
    print(json.dumps(record | scores(y_new, mean, variance) | about), flush=True)


def run(method, dataset, budget="none", *kernel, limit=None):
    """A record, from a process of its own; None where the peer is missing, fails, or has not ended after
    `limit` seconds."""
    command = [sys.executable, __file__, "--worker", json.dumps([method, dataset, budget, *kernel])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{method} on {dataset} has not ended after {limit:.0f} s")
        return None
    if done.returncode:
        print(
            f"{method} on {dataset} failed: "
            f"{done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
        )
        return None
    record = json.loads(done.stdout.strip().splitlines()[-1])
    print(json.dumps(record), flush=True)
    return record


def plot(records, path):
    """NLL over the budget, one panel for each data set, each with its own scale; peers where they ended."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["dataset"] for r in records if r["budget"] != "none"))
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.2 * len(names), 3.2), constrained_layout=True, squeeze=False
    )
    for ax, dataset in zip(axes[0], names, strict=True):
        curve = [
            r
            for r in records
            if r["dataset"] == dataset and r["method"] == "itergp" and r["budget"] != "none"
        ]
        bars = [r["nll_error"] for r in curve] if all("nll_error" in r for r in curve) else None
        ax.errorbar(
            [float(r["budget"]) for r in curve],
            [r["nll"] for r in curve],
            bars,
            fmt="o-",
            color="#9467bd",
            capsize=3,
            label="itergp",
        )
        ax.set_xlabel("seconds")
        for method, colour, label in PEERS:
            for r in (r for r in records if r["dataset"] == dataset and r["method"] == method):
                far = r["nll"] > max(c["nll"] for c in curve) + FAR
                if far:
                    ax.set_xlabel(f"seconds ({label}: {r['nll']:.1f} at {r['seconds']:.0f} s)")
                    continue
                ax.plot(r["seconds"], r["nll"], "s", color=colour, label=label)
                ax.annotate(
                    f"{r['nll']:.2f}",
                    (r["seconds"], r["nll"]),
                    (0, 5),
                    textcoords="offset points",
                    fontsize=8,
                    ha="center",
                )
        ax.set(xscale="log", title=dataset)
        ax.margins(y=0.15)
        low, high = ax.get_ylim()
        middle, half = (low + high) / 2, max(0.1, (high - low) / 2)  # no drama where nothing happens
        ax.set_ylim(middle - half, middle + half)
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("test NLL")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)


def shown(value):
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else value


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--datasets", nargs="+", default=DATASETS[:4], choices=(*DATASETS, *PLACES))
    arguments.add_argument(
        "--peers",
        nargs="*",
        default=["sgpr", "vecchia"],
        choices=[name for name in METHODS if name != "itergp"],
    )
    arguments.add_argument("--kernel", help="of itergp: a name; by default, its default")
    arguments.add_argument("--limit", type=float, help="seconds for each peer")
    arguments.add_argument("--budgets", nargs="+", default=["none"])
    arguments.add_argument("--records", nargs="+", default=[], help="nothing is run: read what was printed")
    arguments.add_argument("--plot")
    arguments.add_argument("--worker")
    options = arguments.parse_args()
    if options.worker:
        return worker(*json.loads(options.worker))
    records = [
        json.loads(line)
        for path in options.records
        for line in Path(path).read_text().splitlines()
        if line[:1] == "{"
    ]
    for dataset in () if records else options.datasets:
        records += [run("itergp", dataset, budget, options.kernel) for budget in options.budgets]
        records += [run(peer, dataset, limit=options.limit) for peer in options.peers]
    records = [record for record in records if record is not None]
    print_table(SHOWN, [[shown(record.get(key)) for key in SHOWN] for record in records])
    if options.plot:
        plot(records, options.plot)


if __name__ == "__main__":
    main()

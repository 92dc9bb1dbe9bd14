"""Predictions fast enough to serve: mean and standard deviation through `IterGPRegressor.predict`; and the
covariance of all rows of a call ("joint"), of local actions and of those that the rows share (`around`).

    python benchmarks/serving.py                              # n = 20,000 and 1,000,000, d = 8
    python benchmarks/serving.py --n 20000 --actions 0 160 --rows 1 100 --peers

Kernel and noise are fixed, so that nothing but predictions is measured: 60 local actions for each row, on top
of random unit vectors as global ones. Times are percentiles over calls with other rows each, and the smallest
processor time of a call, which other work on the machine disturbs less. Peers predict the same rows: trees
the mean alone, sparse GPs mean and standard deviation.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import print_table
from itergp import IterGPRegressor, Matern32, MaxActions, UnitVector

D, NOISE, LENGTHSCALE = 8, 0.02, 2.0
CALLS = {1: 200, 10: 100, 100: 30, 500: 5, 10_000: 3}  # how often so many rows are predicted
LONG = 10.0  # seconds after which calls are not repeated
HEADER = ("n", "model", "rows", "p50 ms", "p95 ms", "p99 ms", "least ms", "least CPU ms")


def data(n, new=20_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + new, D))
    y = np.sin(2 * X[:, 0] + X[:, 1]) * np.cos(X[:, 2]) + X[:, 3] * X[:, 4] + 0.3 * X[:, 5]
    return X[:n], (y + 0.1 * rng.standard_normal(n + new))[:n], X[n:]


def itergp_model(X, y, actions):
    model = IterGPRegressor(
        kernel=1.0 * Matern32(np.full(D, LENGTHSCALE)),
        noise=NOISE,
        learn=False,
        neighbours=60,
        policy=UnitVector("random", block_size=max(1, min(actions, 256))),
        budget=MaxActions(actions),
    ).fit(X, y)
    posterior, scaled = model.posterior_, model.scaling_.inputs
    return {
        "": lambda X_new: model.predict(X_new, return_std=True),
        ", joint": lambda X_new: model.predict(X_new, return_cov=True),
        ", joint, shared": lambda X_new: posterior.around(scaled(X_new)).cov(scaled(X_new)),
    }


def trees(X, y):
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor().fit(X, y).predict


def sgpr(X, y, inducing=512):
    """GPyTorch's SGPR with the same kernel and noise: its caches are filled by the first call."""
    import gpytorch
    import torch

    X, y = torch.tensor(X), torch.tensor(y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = NOISE

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, likelihood)
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5)).double()
            base.outputscale, base.base_kernel.lengthscale = 1.0, LENGTHSCALE
            self.mean_module = gpytorch.means.ConstantMean().double()
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, X[:inducing].clone(), likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().eval()
    likelihood.eval()

    def predict(X_new):
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            found = likelihood(model(torch.tensor(X_new)))
            return found.mean.numpy(), found.stddev.numpy()

    return predict


def gpboost_model(X, y):
    """GPBoost's Vecchia approximation with the same kernel and noise, 60 neighbours for each row."""
    import gpboost

    model = gpboost.GPModel(
        gp_coords=X, cov_function="matern", cov_fct_shape=1.5, gp_approx="vecchia", num_neighbors=60
    )
    parameters = np.array([NOISE, 1.0, LENGTHSCALE])

    def predict(X_new):
        found = model.predict(
            y=y, gp_coords_pred=X_new, cov_pars=parameters, predict_var=True, predict_response=True
        )
        return found["mu"], np.sqrt(found["var"])

    return predict


def timed(predict, X_new, rows, calls):
    """Seconds and processor seconds of each call."""
    wall, cpu = [], []
    for call in range(calls):
        if sum(wall) > LONG:
            break
        first = call * rows % (len(X_new) - rows + 1)
        begun, used = time.perf_counter(), time.process_time()
        predict(X_new[first : first + rows])
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    return np.array(wall), np.array(cpu)


def latencies(n, name, predict, X_new, asked):
    begun = time.perf_counter()
    predict(X_new[:1])
    print(f"{name}, n = {n:,}: first call {1e3 * (time.perf_counter() - begun):.1f} ms", flush=True)
    rows = []
    for size in asked:
        wall, cpu = timed(predict, X_new, size, CALLS.get(size, 10))
        shown = [*np.percentile(wall, [50, 95, 99]), wall.min(), cpu.min()]
        rows.append([f"{n:,}", name, f"{size:,}", *(f"{1e3 * value:.2f}" for value in shown)])
    return rows


def at_once(n, name, predict, X_new, threads, calls=400):
    """Single rows by several threads at once: calls per second, and the median of their seconds."""

    def one(call):
        begun = time.perf_counter()
        predict(X_new[call : call + 1])
        return time.perf_counter() - begun

    begun = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        each = list(pool.map(one, range(calls)))
    seconds = time.perf_counter() - begun
    return [f"{n:,}", name, threads, f"{calls / seconds:.0f}", f"{1e3 * np.median(each):.2f}"]


def peers(X, y):
    """Models by name; those that cannot be imported are left out."""
    for name, make in {"trees": trees, "SGPR, 512": sgpr, "GPBoost": gpboost_model}.items():
        try:
            yield name, make(X, y)
        except ImportError as error:
            print(f"{name} is left out: {error}", flush=True)


def main(asked):
    found, threaded = [], []
    for n in asked.n:
        X, y, X_new = data(n)
        for actions in asked.actions if n <= asked.most else [0]:
            name = f"itergp, {actions} + 60 actions"
            ways = itergp_model(X, y, actions)
            for way, predict in ways.items():
                found += latencies(n, name + way, predict, X_new, asked.joint if way else asked.rows)
            threaded += [at_once(n, name, ways[""], X_new, threads) for threads in (1, 2, 4)]
        if asked.peers and n <= asked.most:
            for name, predict in peers(X, y):
                found += latencies(n, name, predict, X_new, asked.rows)
    print_table(HEADER, found)
    print()
    print_table(("n", "model", "threads at once", "calls per second", "p50 ms"), threaded)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[20_000, 1_000_000])
    parser.add_argument("--actions", type=int, nargs="+", default=[0, 512])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 100, 10_000])
    parser.add_argument("--joint", type=int, nargs="+", default=[100, 500], help="rows of a covariance")
    parser.add_argument("--most", type=int, default=100_000, help="rows up to which there are global actions")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    main(parser.parse_args())

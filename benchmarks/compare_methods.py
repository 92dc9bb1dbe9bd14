"""The methods of the comparison: for each a function of (X, y, budget) that fits, and one that predicts.

Data are standardised. Peers have what somebody who knows them would give them at about the same cost: trees
until held-out rows improve no more, the size of leaves by rows out of bag, the smoothness of a kernel by its
likelihood. Methods that train step by step end after TRAINING seconds of the processor at the latest, so that
there is something to score.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common import kernel_names
from compare_scores import LEVELS, Gaussian, Quantiles

TRAINING = 450.0  # seconds of the processor: half of what a cell has
INDUCING = 512
BATCH = 5000  # test rows that are predicted at a time
THREADS = 2
MANY = 1_000_000  # rows beyond which trees are fewer, so that boosting ends
LEAVES, CHECKED = (1, 5), 50_000  # rows of a leaf that a forest chooses from, up to so many rows
SMOOTHNESS, SUBSET = (0.5, 1.5, 2.5), 2000  # of a Matern kernel; rows by which Vecchia's is chosen
COSTLY = ("vecchia", "sgpr", "svgp")  # minutes each on medium sets: these wait for the others


@dataclass(frozen=True)
class Method:
    fit: Callable  # (X, y, budget) -> predict, about; itergp has its quantiles as a second way to predict
    label: str
    settings: str
    needs: tuple = ()  # modules, imported before the clock starts
    most: float = np.inf  # rows that it is asked to fit


def itergp(X, y, budget):
    from itergp import IterGPRegressor

    model = IterGPRegressor(budget=None if budget == "default" else budget).fit(X, y)

    def predict(X_new):
        mean, std = model.predict(X_new, return_std=True)
        return Gaussian(mean, std**2)

    def quantiles(X_new):
        return Quantiles(model.predict(X_new), model.quantiles(X_new, LEVELS, "conformal"))

    about = {
        "kernel": " ".join(kernel_names(model.kernel_)),
        "noise": float(np.ravel(model.noise_)[0]),
        "learn": model.timings_.get("learn", 0.0),
        "actions": model.posterior_.rank,
        "ended": model.status_.name,
    }
    return predict, about, quantiles


def linear(X, y, _):
    from sklearn.linear_model import BayesianRidge

    model = BayesianRidge().fit(X, y)

    def predict(X_new):
        mean, std = model.predict(X_new, return_std=True)
        return Gaussian(mean, std**2)

    return predict, {}


def exact(X, y, _):
    """The smoothness with the highest likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    def fitted(nu):
        kernel = ConstantKernel() * Matern(np.ones(X.shape[1]), nu=nu) + WhiteKernel(0.1)
        return GaussianProcessRegressor(kernel, random_state=0).fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lengthscales that end at a bound
        model = max(map(fitted, SMOOTHNESS), key=lambda model: model.log_marginal_likelihood_value_)

    def predict(X_new):
        mean, std = model.predict(X_new, return_std=True)
        return Gaussian(mean, std**2)

    return predict, {"kernel": str(model.kernel_)}


def boosting(X, y, _):
    """One model for the mean and one for each quantile."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    how = {"max_iter": 1000 if len(y) <= MANY else 100, "early_stopping": True, "n_iter_no_change": 20}
    mean = HistGradientBoostingRegressor(**how, random_state=0).fit(X, y)
    at = [
        HistGradientBoostingRegressor(**how, loss="quantile", quantile=level, random_state=0).fit(X, y)
        for level in LEVELS
    ]
    return lambda X_new: Quantiles(
        mean.predict(X_new), np.column_stack([model.predict(X_new) for model in at])
    ), {"steps": int(mean.n_iter_)}


def forest(X, y, _):
    """The size of leaves with the smaller error out of bag; of many rows the larger one, for their memory."""
    from quantile_forest import RandomForestQuantileRegressor

    checked = len(y) <= CHECKED

    def fitted(leaf):
        return RandomForestQuantileRegressor(
            n_estimators=200, min_samples_leaf=leaf, oob_score=checked, n_jobs=THREADS, random_state=0
        ).fit(X, y)

    model = max(map(fitted, LEAVES), key=lambda model: model.oob_score_) if checked else fitted(max(LEAVES))
    return lambda X_new: Quantiles(
        model.predict(X_new, quantiles="mean"), model.predict(X_new, quantiles=LEVELS.tolist())
    ), {"leaf": model.min_samples_leaf}


def catboost(X, y, _):
    """As many trees as a tenth of the rows, held out, ask for; then of all rows. Mean and variance are
    learned together."""
    from catboost import CatBoostRegressor

    held_out = np.random.default_rng(0).permutation(len(y)) % 10 == 0
    how = {
        "loss_function": "RMSEWithUncertainty",
        "thread_count": THREADS,
        "random_seed": 0,
        "verbose": False,
        "allow_writing_files": False,
    }
    most = 15_000 if len(y) <= CHECKED else 5000 if len(y) <= MANY else 500
    first = CatBoostRegressor(**how, iterations=most, early_stopping_rounds=50)
    first.fit(X[~held_out], y[~held_out], eval_set=(X[held_out], y[held_out]))
    model = CatBoostRegressor(**how, iterations=max(1, first.tree_count_)).fit(X, y)

    def predict(X_new):
        mean, variance = model.predict(X_new).T
        return Gaussian(mean, variance)

    return predict, {"steps": int(model.tree_count_)}


def vecchia(X, y, _):
    """The smoothness with the highest likelihood of some rows, then learned from all."""
    import gpboost

    def fitted(X, y, nu):
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="matern_ard",
            cov_fct_shape=nu,
            gp_approx="vecchia",
            num_neighbors=20,
            likelihood="gaussian",
            num_parallel_threads=THREADS,
            seed=0,
        )
        model.fit(y=y)
        return model

    some = np.random.default_rng(0).permutation(len(y))[:SUBSET]
    there, kept = (np.ptp(part, axis=0) > 0 for part in (X[some], X))  # it refuses features that are constant
    first = {nu: fitted(X[some][:, there], y[some], nu).get_current_neg_log_likelihood() for nu in SMOOTHNESS}
    nu = min(first, key=first.get)
    model = fitted(X[:, kept], y, nu)

    def predict(X_new):
        found = model.predict(gp_coords_pred=X_new[:, kept], predict_var=True, predict_response=True)
        return Gaussian(found["mu"], found["var"])

    return predict, {"noise": float(np.ravel(model.get_cov_pars())[0]), "smoothness": nu}


def tensors(*parts, dtype="float32"):
    import torch

    return [torch.from_numpy(np.asarray(part, dtype=dtype)) for part in parts]


def matern(d):
    import gpytorch

    return gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=d))


def chosen_rows(X):
    import torch

    torch.manual_seed(0)
    return X[torch.randperm(len(X))[:INDUCING]].clone()


def marginals(model, likelihood, dtype="float32"):
    """Predictions of a GPyTorch model, with noise."""
    import gpytorch
    import torch

    model.eval(), likelihood.eval()

    def predict(X_new):
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            found = likelihood(model(*tensors(X_new, dtype=dtype)))
        return Gaussian(found.mean.numpy().astype(float), found.variance.numpy().astype(float))

    return predict


def sgpr(X, y, _):
    """100 steps of Adam at 0.1 over all rows. In float32, GPyTorch's default, its predictions of smooth
    functions with little noise are far off (CRPS 2.8 instead of 0.016 on volcano)."""
    import gpytorch
    import torch

    X, y = tensors(X, y, dtype="float64")
    inducing = chosen_rows(X)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                matern(X.shape[1]), inducing_points=inducing, likelihood=likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train(), likelihood.train()
    steps, ends = 0, time.process_time() + TRAINING
    while steps < 100 and time.process_time() < ends:
        optimiser.zero_grad()
        (-objective(model(X), y)).backward()
        optimiser.step()
        steps += 1
    noise = float(likelihood.noise.detach())
    return marginals(model, likelihood, "float64"), {"noise": noise, "steps": steps}


def svgp(X, y, _):
    """Batches of 1,024 rows, Adam at 0.01: 20 epochs, at least 2,000 steps."""
    import gpytorch
    import torch

    X, y = tensors(X, y)
    inducing = chosen_rows(X)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            strategy = gpytorch.variational.VariationalStrategy(
                self,
                inducing,
                gpytorch.variational.CholeskyVariationalDistribution(len(inducing)),
                learn_inducing_locations=True,
            )
            super().__init__(strategy)
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), matern(X.shape[1])

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    model.train(), likelihood.train()
    steps, ends, planned = 0, time.process_time() + TRAINING, max(2000, 20 * len(y) // 1024)
    while steps < planned and time.process_time() < ends:
        for some in torch.randperm(len(y)).split(1024):
            if steps >= planned or time.process_time() >= ends:
                break
            optimiser.zero_grad()
            (-bound(model(X[some]), y[some])).backward()
            optimiser.step()
            steps += 1
    noise = float(likelihood.noise.detach())
    return marginals(model, likelihood), {"noise": noise, "steps": steps, "planned": planned}


METHODS = {
    "itergp": Method(
        itergp, "itergp", "`IterGPRegressor()`, nothing else; with a budget, `budget=`", ("itergp", "jax")
    ),
    "linear": Method(linear, "linear", "scikit-learn `BayesianRidge()`", ("sklearn.linear_model",)),
    "boosting": Method(
        boosting,
        "boosting, quantiles",
        "scikit-learn `HistGradientBoostingRegressor`, one model for the mean, eleven for quantiles from 2.5 "
        "to 97.5 %, each up to 1,000 trees (100 beyond a million rows), early stopping after 20",
        ("sklearn.ensemble",),
    ),
    "forest": Method(
        forest,
        "forest, quantiles",
        "`quantile-forest`: 200 trees, the same eleven quantiles, at least 1 or 5 rows in a leaf by the "
        "error out of bag (5 beyond 50,000 rows)",
        ("quantile_forest",),
    ),
    "catboost": Method(
        catboost,
        "CatBoost, Gaussian",
        "`RMSEWithUncertainty`, as many trees, of at most 15,000 (5,000 beyond 50,000 rows, 500 beyond a "
        "million), as a tenth of the rows asks for (early stopping after 50), then fitted to all rows",
        ("catboost",),
    ),
    "gpr": Method(
        exact,
        "GPR (scikit-learn)",
        "`GaussianProcessRegressor`, ARD Matern 1/2, 3/2 or 5/2 by its likelihood, plus white noise; up to "
        "3,000 rows",
        ("sklearn.gaussian_process",),
        most=3000,
    ),
    "vecchia": Method(
        vecchia,
        "Vecchia (GPBoost)",
        "`GPModel`, ARD Matern 1/2, 3/2 or 5/2 by the likelihood of 2,000 rows, 20 neighbours (its default), "
        "maximum likelihood",
        ("gpboost",),
    ),
    "sgpr": Method(
        sgpr,
        "SGPR (GPyTorch)",
        "ARD Matern 3/2, 512 inducing points among the rows, float64 (in float32 it diverges where there is "
        "little noise), 100 steps of Adam at 0.1, at most 450 s of the processor",
        ("torch", "gpytorch"),
    ),
    "svgp": Method(
        svgp,
        "SVGP (GPyTorch)",
        "ARD Matern 3/2, 512 learned inducing points, float32, batches of 1,024, Adam at 0.01, 20 epochs and "
        "at least 2,000 steps, at most 450 s of the processor",
        ("torch", "gpytorch"),
    ),
}

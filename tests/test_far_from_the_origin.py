"""Inputs far from the origin: every answer is that of the same inputs counted from a point among the data.

Offsets are multiples of the spacing of float64 there, so the shifted inputs have the very same differences,
and a dense oracle on the unshifted inputs is exact. Every public method of a posterior, a local posterior and
an estimator has a case: a new method without one fails here.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import scipy.linalg

from helpers import most_informative
from itergp import (
    RBF,
    Compute,
    IterGPRegressor,
    Kernel,
    Matern32,
    MaxActions,
    Periodic,
    Prior,
    PseudoInput,
    UnitVector,
    condition,
)
from itergp.baselines import exact
from itergp.learning import learn
from itergp.posterior.combined import Posterior
from itergp.posterior.local import LocalPosterior

mpl.use("Agg")
OFFSETS = (0.0, 1e6, 1e9, 1.7e12)
GRID = 2.0**-10  # inputs are multiples of it, which float64 holds exactly at 1.7e12
KERNELS = {
    "rbf": RBF(0.7),
    "matern32": 2.0 * Matern32([0.4, 0.9]),
    "periodic": Periodic(1.0, period=2.0),
    "sum": RBF(0.5) + Matern32(2.0).on([1]),
}
NOISE, ROWS, ACTIONS, NEIGHBOURS = 0.01, 80, 24, 10
WHOLE = MaxActions(ROWS)


def on_grid(rng, n):
    return np.round(rng.uniform(0, 4, (n, 2)) / GRID) * GRID


rng = np.random.default_rng(0)
X, T, MORE = on_grid(rng, ROWS), on_grid(rng, 25), on_grid(rng, 7)
Y, Y_MORE = (np.sin(x.sum(axis=1)) + 0.1 * rng.standard_normal(len(x)) for x in (X, MORE))


def test_shifted_inputs_have_the_same_differences():
    for offset in OFFSETS:
        for x in (X, T, MORE):
            assert np.array_equal((x + offset) - offset, x)


@dataclass(frozen=True, eq=False)
class Dense:
    """The combined posterior for actions S (all unit vectors: the exact GP), by dense float64 matrices on the
    unshifted inputs."""

    kernel: Kernel
    X: np.ndarray
    y: np.ndarray
    S: np.ndarray

    @cached_property
    def C(self) -> np.ndarray:
        K_hat = self.kernel(self.X, self.X) + NOISE * np.eye(len(self.X))
        L = scipy.linalg.cholesky(self.S.T @ K_hat @ self.S, lower=True)
        D = scipy.linalg.solve_triangular(L, self.S.T, lower=True)
        return D.T @ D

    def mean(self, T):
        return self.kernel(T, self.X) @ self.C @ self.y

    def cov(self, T0, T1):
        k = self.kernel
        return k(T0, T1) - k(T0, self.X) @ self.C @ k(self.X, T1)

    def var(self, T):
        return np.diag(self.cov(T, T))


@dataclass(frozen=True, eq=False)
class Setting:
    """A posterior of some actions on shifted inputs, the same on inputs near the origin, and the oracles."""

    kernel: Kernel
    offset: float

    def posterior(self, offset) -> Posterior:
        policy = PseudoInput(block_size=8)
        return condition(Prior(self.kernel), X + offset, Y, NOISE, policy, MaxActions(ACTIONS))

    @cached_property
    def far(self) -> Posterior:
        return self.posterior(self.offset)

    @cached_property
    def near(self) -> Posterior:
        return self.posterior(0.0)

    @cached_property
    def at(self) -> np.ndarray:
        return T + self.offset

    @cached_property
    def exact(self) -> Dense:
        return Dense(self.kernel, X, Y, np.eye(ROWS))

    @cached_property
    def combined(self) -> Dense:
        return Dense(self.kernel, X, Y, np.asarray(self.near.actions))

    def rows_near(self, point) -> np.ndarray:
        """The rows that say most about a point; all are candidates."""
        if self.kernel.embedding(X) is None:  # no metric: the most correlated rows
            apart = -self.kernel(point[None], X)[0]
        else:
            apart = ((self.kernel.embedding(X) - self.kernel.embedding(point[None])) ** 2).sum(axis=1)
        by_distance = np.argsort(apart, kind="stable")
        return most_informative(self.kernel, point, X, np.full(ROWS, NOISE), by_distance, NEIGHBOURS)

    def acting_on(self, rows) -> Dense:
        """With the unit vectors of these rows on top of the actions."""
        S = scipy.linalg.orth(np.column_stack([self.combined.S, np.eye(ROWS)[:, rows]]), rcond=1e-9)
        return Dense(self.kernel, X, Y, S)

    def local(self, point) -> Dense:
        return self.acting_on(self.rows_near(point))

    @cached_property
    def nearby(self) -> list[Dense]:
        """The local oracle of each point of T."""
        return [self.local(x) for x in T]

    @cached_property
    def around(self) -> Dense:
        return self.acting_on(np.unique([self.rows_near(x) for x in T]))

    @cached_property
    def local_mean(self) -> np.ndarray:
        return np.array([self.local(x).mean(x[None])[0] for x in T])

    @cached_property
    def local_var(self) -> np.ndarray:
        return np.array([self.local(x).var(x[None])[0] for x in T])

    @cached_property
    def local_cov(self) -> np.ndarray:
        """Of the errors f(x) - c_x^T y of all local means."""
        C = np.array([self.local(x).C @ self.kernel(X, x[None])[:, 0] for x in T])
        between = C @ self.kernel(X, T)
        return self.kernel(T, T) - between - between.T + C @ (self.kernel(X, X) + NOISE * np.eye(ROWS)) @ C.T


@cache
def setting(name, offset) -> Setting:
    return Setting(KERNELS[name], offset)


def close(found: Any, expected: Any, atol: float = 1e-8) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


DESCRIBED = property | classmethod | cached_property


def public(cls: type) -> set[str]:
    """Names of methods and properties of this library's classes."""
    return {
        name
        for base in cls.__mro__
        if base.__module__.startswith("itergp.")
        for name, value in vars(base).items()
        if not name.startswith("_")
        and (callable(value) or isinstance(value, property | classmethod | cached_property))
    }


def check_certificate(s: Setting, process, near) -> None:
    found, expected = process.certify(s.at), near.certify(T)
    assert (found.variance_lower <= s.exact.var(T) + 1e-12).all()
    assert (s.exact.var(T) <= found.variance_upper + 1e-12).all()
    assert (np.abs(process.mean(s.at) - s.exact.mean(T)) <= found.mean_error + 1e-9).all()
    for name in ("variance_lower", "variance_upper", "mean_error"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-9)


def check_parts(s: Setting, process, combined) -> None:
    parts = process.decompose(s.at)
    assert parts.exact
    close(parts.combined, combined)
    close(parts.mathematical, s.exact.var(T))
    close(parts.computational, combined - s.exact.var(T))
    estimate = process.decompose(s.at, "estimate", passes=3)
    assert (estimate.combined - estimate.computational_upper <= s.exact.var(T) + 1e-9).all()
    assert (s.exact.var(T) <= estimate.combined - estimate.computational_lower + 1e-9).all()


def check_covariance(s: Setting) -> None:
    close(s.far.cov(s.at), s.combined.cov(T, T))
    close(s.far.cov(s.at[:5], s.at[5:]), s.combined.cov(T[:5], T[5:]))
    assert np.linalg.eigvalsh(s.far.cov(s.at)).min() > -1e-10


def check_around(s: Setting) -> None:
    process = s.far.around(s.at, NEIGHBOURS)
    close(process.mean(s.at), s.around.mean(T))
    close(process.cov(s.at), s.around.cov(T, T))


def check_path(s: Setting) -> None:
    path = s.far.path(s.at, [0, 8, ACTIONS])
    for i, rank in enumerate((0, 8, ACTIONS)):
        oracle = Dense(s.kernel, X, Y, s.combined.S[:, :rank])
        close(path.mean[i], oracle.mean(T))
        close(path.var[i], oracle.var(T))


def check_at(s: Setting) -> None:
    at = s.far.at(s.at)
    close(at.mean, s.combined.mean(T))
    close(at.var, s.combined.var(T))


def check_refine(s: Setting) -> None:
    whole = s.far.refine(UnitVector(block_size=16), WHOLE)
    close(whole.mean(s.at), s.exact.mean(T), 1e-7)  # unit vectors that others nearly span are left out
    close(whole.var(s.at), s.exact.var(T), 1e-7)


def check_extend(s: Setting) -> None:
    more = s.far.extend(MORE + s.offset, Y_MORE).refine(UnitVector(block_size=16), WHOLE)
    rows, targets = np.concatenate([X, MORE]), np.concatenate([Y, Y_MORE])
    oracle = Dense(s.kernel, rows, targets, np.eye(len(rows)))
    close(more.mean(s.at), oracle.mean(T), 1e-7)
    close(more.var(s.at), oracle.var(T), 1e-7)


def check_append(s: Setting) -> None:
    more, rows = s.far.append(MORE + s.offset, Y_MORE), np.concatenate([X, MORE])
    S = np.concatenate([s.combined.S, np.zeros((len(MORE), ACTIONS))])
    oracle = Dense(s.kernel, rows, np.concatenate([Y, Y_MORE]), S)
    close(more.mean(s.at), oracle.mean(T))
    close(more.var(s.at), oracle.var(T))


def check_actions(s: Setting) -> None:
    Q = np.asarray(s.far.actions)
    close(Q.T @ Q, np.eye(ACTIONS))
    close(Q, s.combined.S, 1e-6)


def check_share(s: Setting) -> None:
    """The estimate, with the passes that solve it, over the same probes near the origin; with its error, the
    oracle's."""
    found, near = (p.computational_share(at, 64, 40) for p, at in ((s.far, s.at), (s.near, T)))
    close(found.estimate, near.estimate, 1e-6)
    share = (s.combined.var(T) - s.exact.var(T)).sum() / s.combined.var(T).sum()
    assert abs(found.estimate - share) <= 4.0 * found.error + found.bias_bound


def check_draws(draws, mean, cov) -> None:
    spread, size = np.sqrt(np.diag(cov)), len(draws)
    assert (np.abs(draws.mean(axis=0) - mean) <= 5.0 * spread / np.sqrt(size)).all()
    assert (np.abs(np.cov(draws.T) - cov) <= 8.0 * np.outer(spread, spread) / np.sqrt(size)).all()


def check_sample(s: Setting) -> None:
    check_draws(s.far.sample(s.at, 4000), s.combined.mean(T), s.combined.cov(T, T))


def check_sample_function(s: Setting) -> None:
    check_functions(s, s.far, s.near, s.combined.mean(T))


def check_functions(s: Setting, far, near, mean) -> None:
    """Their variance is that of the same features near the origin; their mean is the oracle's."""
    size = 400
    functions, near = far.sample_function(size, features=512), near.sample_function(features=512)
    variance = functions.var(s.at)
    close(variance, near.var(T), 1e-4)  # features on circles turn with the origin, which is rounded
    error = functions(s.at).mean(axis=0) - mean
    assert (np.abs(error) <= 5.0 * np.sqrt(variance / size)).all()


def check_trace(s: Setting) -> None:
    residual = Y - (s.kernel(X, X) + NOISE * np.eye(ROWS)) @ s.combined.C @ Y
    close(s.far.trace[-1].residual_norm, np.linalg.norm(residual))


def check_preconditioner(s: Setting) -> None:
    close(s.far.preconditioner() @ np.eye(ROWS), s.near.preconditioner() @ np.eye(ROWS), 1e-6)


STEP = 1e-4  # of central differences, whose error is that of the third derivative
M_SLOPES, C_SLOPES = rng.standard_normal(len(T)), rng.standard_normal((len(T), len(T)))


def by_differences(value, points) -> np.ndarray:
    """The gradient of a number in all points, by central differences."""
    out = np.empty_like(points)
    for i in np.ndindex(points.shape):
        step = np.zeros_like(points)
        step[i] = STEP
        out[i] = (value(points + step) - value(points - step)) / (2.0 * STEP)
    return out


def check_gradients(s: Setting) -> None:
    found = s.far.gradients(s.at)
    close(found.mean, by_differences(lambda t: s.combined.mean(t).sum(), T), 1e-5)
    close(found.var, by_differences(lambda t: s.combined.var(t).sum(), T), 1e-5)


def check_pullback(s: Setting) -> None:
    def value(t):
        return M_SLOPES @ s.combined.mean(t) + (C_SLOPES * s.combined.cov(t, t)).sum()

    close(s.far.pullback(s.at, M_SLOPES, C_SLOPES), by_differences(value, T), 1e-4)


def check_moments(s: Setting) -> None:
    mean, var, W = s.far.moments(s.at)
    close(mean, s.combined.mean(T))
    close(var, s.combined.var(T))
    close(s.kernel(T, T) - W.T @ W, s.combined.cov(T, T))


POSTERIOR = {
    "posterior": lambda s: close(s.far.posterior.mean(s.at), s.combined.mean(T)),
    "as_sent": lambda s: close(s.far.as_sent.local(NEIGHBOURS).mean(s.at), s.local_mean),
    "gradients": check_gradients,
    "pullback": check_pullback,
    "moments": check_moments,
    "at": check_at,
    "mean": lambda s: close(s.far.mean(s.at), s.combined.mean(T)),
    "var": lambda s: close(s.far.var(s.at), s.combined.var(T)),
    "predictive_var": lambda s: close(s.far.predictive_var(s.at), s.combined.var(T) + NOISE),
    "worst_case_error": lambda s: close(s.far.worst_case_error(s.at) ** 2, s.combined.var(T) + NOISE),
    "cov": check_covariance,
    "path": check_path,
    "noise_at": lambda s: close(s.far.noise_at(s.at, None), NOISE),
    "refine": check_refine,
    "extend": check_extend,
    "append": check_append,
    "rank": lambda s: close(s.far.rank, ACTIONS),
    "status": lambda s: close(s.far.status == s.near.status, True),
    "actions": check_actions,
    "trace": check_trace,
    "preconditioner": check_preconditioner,
    "local": lambda s: close(s.far.local(NEIGHBOURS).mean(s.at), s.local_mean),
    "around": check_around,
    "decompose": lambda s: check_parts(s, s.far, s.combined.var(T)),
    "certify": lambda s: check_certificate(s, s.far, s.near),
    "computational_share": check_share,
    "sample": check_sample,
    "sample_function": check_sample_function,
}


def check_local_at(s: Setting) -> None:
    mean, var = s.far.local(NEIGHBOURS).at(s.at).marginals
    close(mean, s.local_mean)
    close(var, s.local_var)


def check_marginals(s: Setting) -> None:
    mean, var = s.far.local(NEIGHBOURS).marginals(s.at)
    close(mean, s.local_mean)
    close(var, s.local_var)


def check_local_covariance(s: Setting) -> None:
    process = s.far.local(NEIGHBOURS)
    close(process.cov(s.at), s.local_cov)
    close(process.cov(s.at[:5], s.at[5:]), s.local_cov[:5, 5:])


def check_estimates(s: Setting) -> None:
    found, state = s.far.local(NEIGHBOURS).estimates(s.at), s.far.state
    close((found.w.T @ state.z[: state.rank])[:, 0] + found.A @ Y[found.rows], s.local_mean)


def check_local_functions(s: Setting) -> None:
    check_functions(s, s.far.local(NEIGHBOURS), s.near.local(NEIGHBOURS), s.local_mean)


def local_weights(s: Setting, t) -> np.ndarray:
    """c_x at each of these points, with the rows that are near the points of T."""
    each = zip(s.nearby, t, strict=True)
    return np.array([oracle.C @ s.kernel(X, x[None])[:, 0] for oracle, x in each])


def local_cov_at(s: Setting, t) -> np.ndarray:
    C = local_weights(s, t)
    between, K_hat = C @ s.kernel(X, t), s.kernel(X, X) + NOISE * np.eye(ROWS)
    return s.kernel(t, t) - between - between.T + C @ K_hat @ C.T


def check_local_gradients(s: Setting) -> None:
    found = s.far.local(NEIGHBOURS).gradients(s.at)
    close(found.mean, by_differences(lambda t: (local_weights(s, t) @ Y).sum(), T), 1e-5)
    close(found.var, by_differences(lambda t: np.trace(local_cov_at(s, t)), T), 1e-5)


def check_local_pullback(s: Setting) -> None:
    def value(t):
        return M_SLOPES @ local_weights(s, t) @ Y + (C_SLOPES * local_cov_at(s, t)).sum()

    found = s.far.local(NEIGHBOURS).pullback(s.at, M_SLOPES, C_SLOPES)
    close(found, by_differences(value, T), 1e-4)


LOCAL = {
    "gradients": check_local_gradients,
    "pullback": check_local_pullback,
    "pulled_weights": check_local_pullback,  # what the pullback is made of
    "cov": check_local_covariance,
    "sample": lambda s: check_draws(s.far.local(NEIGHBOURS).sample(s.at, 4000), s.local_mean, s.local_cov),
    "sample_function": check_local_functions,
    "estimates": check_estimates,
    "at": check_local_at,
    "marginals": check_marginals,
    "mean": lambda s: close(s.far.local(NEIGHBOURS).mean(s.at), s.local_mean),
    "var": lambda s: close(s.far.local(NEIGHBOURS).var(s.at), s.local_var),
    "predictive_var": lambda s: close(s.far.local(NEIGHBOURS).predictive_var(s.at), s.local_var + NOISE),
    "decompose": lambda s: check_parts(s, s.far.local(NEIGHBOURS), s.local_var),
    "certify": lambda s: check_certificate(s, s.far.local(NEIGHBOURS), s.near.local(NEIGHBOURS)),
}


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("method", sorted(public(Posterior)))
def test_every_answer_of_a_posterior_is_that_of_the_dense_oracle(method, kernel, offset):
    POSTERIOR[method](setting(kernel, offset))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("method", sorted(public(LocalPosterior)))
def test_every_answer_of_a_local_posterior_is_that_of_the_dense_oracle(method, kernel, offset):
    LOCAL[method](setting(kernel, offset))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("engine", ["numpy", "jax", "native"])
def test_covariances_of_the_exact_posterior_do_not_depend_on_the_engine(engine, kernel, offset):
    if engine == "native":
        pytest.importorskip("itergp.linalg.engines.native.engine")
    s, policy = setting(kernel, offset), UnitVector(block_size=16)
    how = Prior(s.kernel), X + offset, Y, NOISE
    close(condition(*how, policy, WHOLE, Compute(engine=engine)).cov(s.at), s.exact.cov(T, T))
    close(exact(*how).cov(s.at), s.exact.cov(T, T))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("method", ["exact", "neighbours", "iterative", "sgpr", "elbo"])
def test_what_is_learned_does_not_depend_on_where_the_origin_is(method, offset):
    start, wide = 1.0 * Matern32([2.8, 2.8]), 4.0 * X  # narrower columns count as constant at 1.7e12
    far, near = (learn(wide + o, Y, start, 0.1, method=method) for o in (offset, 0.0))
    assert far.noise == pytest.approx(near.noise, rel=1e-3)
    np.testing.assert_allclose(far.kernel.kernel.lengthscale, near.kernel.kernel.lengthscale, rtol=1e-3)


# The estimator, without normalisation.


@dataclass(frozen=True, eq=False)
class Fitted:
    """An estimator with 40 actions and 10 neighbours, on shifted inputs."""

    s: Setting
    path: Any

    def model(self, **changes):
        how = {"budget": f"{ACTIONS} actions", "neighbours": NEIGHBOURS, "policy": PseudoInput(block_size=8)}
        fixed = {"mean": "zero", "noise": NOISE, "learn": False, "normalize": False}
        return IterGPRegressor(self.s.kernel, **fixed, **(how | changes))

    @cached_property
    def far(self):
        return self.model().fit(X + self.s.offset, Y)

    @cached_property
    def near(self):
        return self.model().fit(X, Y)


def check_predictions(f: Fitted, model=None) -> None:
    model = f.far if model is None else model
    mean, std = model.predict(f.s.at, return_std=True)
    close(mean, f.s.local_mean)
    close(std**2, f.s.local_var + NOISE)
    mean, cov = model.predict(f.s.at, return_cov=True, include_noise=False)
    close(mean, f.s.local_mean)
    close(cov, f.s.local_cov)


def check_partial_fit(f: Fitted) -> None:
    model = f.model(budget=f"{ROWS + len(MORE)} actions", policy=UnitVector(block_size=16))
    model.fit(X + f.s.offset, Y).partial_fit(MORE + f.s.offset, Y_MORE)
    rows, targets = np.concatenate([X, MORE]), np.concatenate([Y, Y_MORE])
    oracle = Dense(f.s.kernel, rows, targets, np.eye(len(rows)))
    mean, std = model.predict(f.s.at, return_std=True, include_noise=False)
    close(mean, oracle.mean(T))
    close(std**2, oracle.var(T))


def check_refine_of_estimator(f: Fitted) -> None:
    model = f.model(policy=UnitVector(block_size=16)).fit(X + f.s.offset, Y).refine(f"{ROWS} actions")
    close(model.predict(f.s.at), f.s.exact.mean(T))


def check_interval(f: Fitted) -> None:
    low, high = f.far.interval(f.s.at)
    close((low + high) / 2, f.s.local_mean)
    close(((high - low) / 2 / 1.959963984540054) ** 2, f.s.local_var + NOISE)


def check_quantiles(f: Fitted) -> None:
    values = f.far.quantiles(f.s.at, [0.2, 0.9], method="gaussian")
    spread = np.sqrt(f.s.local_var + NOISE)[:, None]
    close(values, f.s.local_mean[:, None] + spread * [-0.8416212335729143, 1.2815515655446004])


def check_calibration(f: Fitted) -> None:
    """Scores of rows left out in turn: with P = K_hat^{-1}, (P y)_i / sqrt(P_ii)."""
    whole = f.model(budget=f"{ROWS} actions", policy=UnitVector(block_size=16)).fit(X + f.s.offset, Y)
    P = np.linalg.inv(f.s.kernel(X, X) + NOISE * np.eye(ROWS))
    close(whole.calibration_.scores, np.sort(P @ Y / np.sqrt(np.diag(P))), 1e-6)


def check_parts_of_estimator(f: Fitted) -> None:
    parts = f.far.decompose(f.s.at)
    close(parts.mathematical, f.s.exact.var(T))
    close(parts.computational, f.s.local_var - f.s.exact.var(T))


def check_certificate_of_estimator(f: Fitted) -> None:
    found, expected = f.far.certify(f.s.at), f.near.certify(T)
    assert (found.variance_lower <= f.s.exact.var(T) + 1e-12).all()
    np.testing.assert_allclose(found.mean_error, expected.mean_error, rtol=1e-5)
    np.testing.assert_allclose(found.variance_lower, expected.variance_lower, rtol=1e-5, atol=1e-9)


def check_sample_y(f: Fitted) -> None:
    check_draws(f.far.sample_y(f.s.at, 4000).T, f.s.local_mean, f.s.local_cov + NOISE * np.eye(len(T)))


def check_plot(f: Fitted) -> None:
    """The curve of the mean along the first feature, at the very points where it is drawn."""
    line = f.far.plot(feature=0).lines[0]
    held = np.median(X[:, 1] + f.s.offset) - f.s.offset
    points = np.column_stack([line.get_xdata() - f.s.offset, np.full(len(line.get_xdata()), held)])
    close(line.get_ydata(), f.near.predict(points), 1e-6)


def check_report(f: Fitted) -> None:
    truth = np.sin(T.sum(axis=1))
    far, near = (m.report(f.path / "page.html", at, truth) for m, at in ((f.far, f.s.at), (f.near, T)))
    computational = f.s.local_var - f.s.exact.var(T)
    assert far["share"]["value"] == pytest.approx(computational.sum() / f.s.local_var.sum(), abs=1e-5)
    rmse = np.sqrt(((truth - f.s.local_mean) ** 2).mean())
    assert far["targets"][0]["metrics"]["rmse"][-1] == pytest.approx(rmse, rel=1e-4)
    relevance = [{row["feature"]: row["relevance"] for row in values["relevance"]} for values in (far, near)]
    assert relevance[0] == pytest.approx(relevance[1], rel=1e-3)  # steps are rounded to the spacing there


def check_files(f: Fitted) -> None:
    f.far.save(f.path / "model")
    check_predictions(f, IterGPRegressor.load(f.path / "model"))


def check_score(f: Fitted) -> None:
    truth = np.sin(T.sum(axis=1))
    left = ((truth - f.s.local_mean) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    close(f.far.score(f.s.at, truth), 1.0 - left)


def check_fit_as_a_value(f: Fitted) -> None:
    close(f.far.fit_.process.mean(f.s.at), f.s.local_mean)
    close(f.far.fit_.process.var(f.s.at), f.s.local_var)
    np.testing.assert_array_equal(f.far.fit_.observations()[0], f.far.posterior_.problem.X)


ESTIMATOR = {
    "fit": check_predictions,
    "fit_": check_fit_as_a_value,
    "predict": check_predictions,
    "partial_fit": check_partial_fit,
    "refine": check_refine_of_estimator,
    "interval": check_interval,
    "quantiles": check_quantiles,
    "calibration_": check_calibration,
    "decompose": check_parts_of_estimator,
    "certify": check_certificate_of_estimator,
    "sample_y": check_sample_y,
    "plot": check_plot,
    "report": check_report,
    "save": check_files,
    "load": check_files,
    "score": check_score,
}
NOT_ABOUT_INPUTS = {"set_callbacks"}


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("method", sorted((public(IterGPRegressor) | {"score"}) - NOT_ABOUT_INPUTS))
def test_every_answer_of_an_estimator_is_that_of_the_dense_oracle(method, kernel, offset, tmp_path):
    ESTIMATOR[method](Fitted(setting(kernel, offset), tmp_path))

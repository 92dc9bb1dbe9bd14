"""A report about targets with noises of their own: each target's numbers are those of its own predictions."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from helpers import dense, given
from itergp import IterGPRegressor, Matern32, MaxActions, Prior, PseudoInput, RandomAction, condition
from itergp.fitted import shares as share
from itergp.fitted.points import EachTarget, from_folds, from_test_data
from itergp.fitted.shares import amount
from itergp.posterior.targets import TargetPosterior
from itergp.posterior.uncertainty import taken_apart
from itergp.report import numbers
from itergp.report.page.card import card

N, TEST = 90, 30
NOISES = [0.01, 0.6, 0.1]


def fitted(**parameters):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N + TEST, 2))
    X[80:N] = X[:10]  # merged
    f = np.stack([np.sin(2 * X[:, 0]), 100 * np.cos(X[:, 1]), X.sum(axis=1)], axis=1)
    y = f + [0.05, 50.0, 0.5] * rng.standard_normal(f.shape)
    parameters = {"noise": NOISES, "learn": False, "budget": "25 actions"} | parameters
    return IterGPRegressor(**parameters).fit(X[:N], y[:N]), X[N:], y[N:]


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-3)


@pytest.mark.parametrize("neighbours", [0, 8])
def test_at_test_data_the_numbers_are_those_of_predict_and_decompose(neighbours):
    model, X, y = fitted(neighbours=neighbours)
    values = json.loads(json.dumps(numbers(model.fit_, X, y), allow_nan=False))
    mean, std = model.predict(X, return_std=True)
    parts = model.decompose(X)
    assert len(values["targets"]) == 3
    for t, target in enumerate(values["targets"]):
        close(target["metrics"]["nll"][-1], -norm.logpdf(y[:, t], mean[:, t], std[:, t]).mean())
        close(target["decomposition"]["noise"], parts.noise[0, t])
        order = np.argsort(parts.combined[:, t], kind="stable")
        close(target["decomposition"]["mathematical"], parts.mathematical[order, t])
        close(target["slices"][0]["noise"], parts.noise[0, t])
        line = target["slices"][0]
        assert np.shape(line["combined"]) == np.shape(line["mean"])
    scaled = model.scaling_.y_scale**2
    share = (parts.computational / scaled).sum() / (parts.combined / scaled).sum()
    close(values["share"]["value"], share)
    close(values["path"]["share"][-1], share)
    assert values["path"]["share"][0] > values["path"]["share"][-1]
    assert values["more"]["share"] < share
    close(values["fitted"]["noise"], NOISES * scaled)
    assert [row["name"] for row in values["hyperparameters"]][-3:] == ["noise[0]", "noise[1]", "noise[2]"]
    assert values["hyperparameters"][-1]["words"].startswith("the noise variance of y3")


@pytest.mark.parametrize("budget", ["25 actions", None])
@pytest.mark.parametrize("refinable", [True, False])
def test_held_out_rows_are_those_of_each_target_alone(budget, refinable, tmp_path):
    """With its own noise, and a run of its own over the same actions."""
    model, _, _ = fitted(budget=budget, neighbours=0)
    model.save(tmp_path / "model.itergp", refinable=refinable)
    values = numbers(IterGPRegressor.load(tmp_path / "model.itergp").fit_)
    problem, Q, scaling = model.posterior_.problem, dense(model.posterior_.actions), model.scaling_
    for t in range(3):
        noise = NOISES[t] / model.row_counts_
        alone = condition(
            Prior(model.kernel_), problem.X, problem.y[:, t], noise, given(Q, 25), MaxActions(Q.shape[1])
        )
        held = from_folds(alone, model.row_counts_, 0, False)
        mean, variance = (found[-1] for found in held.path(np.array([alone.rank]), 0))
        z = (held.y[:, 0] - mean[:, 0]) / np.sqrt(variance + held.noise)
        spread = np.sqrt(variance + held.noise) * scaling.y_scale[t]
        close(
            values["targets"][t]["metrics"]["nll"][-1],
            np.mean(np.log(np.sqrt(2 * np.pi) * spread) + z**2 / 2),
        )
        close(values["targets"][t]["metrics"]["coverage"][-1], np.mean(np.abs(z) <= norm.ppf(0.975)))


def test_a_learned_noise_has_its_range_and_the_card_names_all():
    model, X, y = fitted(noise="learn", learn=True)
    rows = numbers(model.fit_, X, y)["hyperparameters"][-3:]
    close([row["value"] for row in rows], model.noise_)
    assert all(row["low"] < row["value"] < row["high"] for row in rows)
    assert ", ".join(f"{v:.3g}" for v in model.noise_) in card(model.fit_)


def test_many_targets_keep_the_report_small():
    model, _, _ = fitted()
    rng = np.random.default_rng(1)
    y = rng.standard_normal((N, 10))
    many = IterGPRegressor(noise=np.linspace(0.1, 1.0, 10), learn=False, budget="5 actions")
    many.fit(model.scaling_.original(model.posterior_.problem.X), y[: model.posterior_.problem.n])
    values = numbers(many.fit_)
    assert len(values["targets"]) == 8
    assert len(values["fitted"]["noise"]) == 10
    assert any("first 8 of 10 targets" in text for text in values["warnings"])


def test_the_error_of_a_share_over_targets_is_that_of_the_choice_of_points():
    """Targets are looked at in the same points, so that t times as many values are not t times as many
    choices."""
    rng = np.random.default_rng(1)
    X, Y, points = (
        rng.uniform(0, 1, (300, 2)),
        rng.standard_normal((300, 4)),
        1.3 * rng.beta(0.5, 0.5, (400, 2)),
    )
    posterior = condition(Prior(1.0 * Matern32(0.15)), X, Y, 0.01, PseudoInput(block_size=64), MaxActions(40))
    each = TargetPosterior(posterior, np.full(4, 0.01)).each
    looked_at = EachTarget(tuple(from_test_data(one, points, np.zeros(400), 0.01) for one in each))
    variance = looked_at.path(np.array([40]), 0)[1][-1]
    exact = looked_at.exact([np.linalg.cholesky(one.problem.K_hat()) for one in each])
    truth, inside = 1.0 - exact.sum() / variance.sum(), []
    for _ in range(200):
        chosen = np.concatenate([rng.permutation(400)[:40]] * 4) + 400 * np.repeat(np.arange(4), 40)
        parts = taken_apart(variance[chosen], exact[chosen], exact[chosen])
        found = share.Parts(looked_at.some(chosen), chosen, parts, variance.size)
        inside.append(abs(found.share.value - truth) <= found.error)
    assert 0.88 < np.mean(inside) < 0.99


def test_a_target_whose_share_is_hidden_by_the_variance_of_another_is_named():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (200, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    how = {
        "kernel": 1.0 * Matern32(0.2),
        "learn": False,
        "normalize": False,
        "mean": "zero",
        "budget": "200 actions",
    }
    model = IterGPRegressor(noise=[1e-5, 1e5], dtype="float32", policy=RandomAction(block_size=50), **how)
    model.fit(X, np.stack([y, y], axis=1))
    values, parts = numbers(model.fit_, X, np.stack([y, y], axis=1)), model.decompose(X)
    own = parts.computational.sum(axis=0) / parts.combined.sum(axis=0)
    assert own[0] > 10 * values["share"]["value"]
    assert values["share"]["method"] == "exact"  # although one of the two is exact already
    close(values["share"]["by_target"][0], own[0])
    assert values["share"]["by_target"][1] < 1e-9
    assert "For y1 alone it is" in " ".join(values["verdict"])


@pytest.mark.parametrize(
    ("upper", "said"),
    [(0.7613, "(at 40 points)"), (0.81, "(between 76 % and 81 % at 40 points)")],
    ids=["meet", "apart"],
)
def test_bounds_that_meet_are_said_once(upper, said):
    assert amount(0.761, 0.027, upper, "estimate", 40) == f"About 76 % ± 2.7 % {said}"

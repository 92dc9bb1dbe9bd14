"""Ctrl-C during a fit leaves a valid model, wherever it strikes; errors leave a fitted model as it was."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from helpers import make_data
from itergp import InterruptedWarning, IterGPRegressor, Status, UnitVector
from itergp.estimator.progress import watching_interrupts

DATA = make_data(150)

FIT = """
import json, sys, time, warnings
import numpy as np
import itergp
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (6000, 4)); y = np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(6000)
itergp.IterGPRegressor(budget="1s").fit(X[:300], y[:300])  # so that imports are done
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print("ready", flush=True)
    model = itergp.IterGPRegressor(budget="60s").fit(X, y)
ended = time.time()
mean, std = model.predict(X[:50], return_std=True)
valid = bool(np.isfinite(mean).all() and (std > 0).all())
print(json.dumps([ended, valid, model.status_.name, model.posterior_.rank]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.1, 0.4, 2.0])
def test_control_c_at_some_moment_of_a_long_fit(delay):
    """From outside, by a signal: during the preparation, the learning or the inference."""
    with subprocess.Popen([sys.executable, "-c", FIT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(delay)
        struck = time.time()
        process.send_signal(signal.SIGINT)
        line = process.stdout.readline()
        assert process.wait(timeout=30) == 0
    ended, valid, status, _ = json.loads(line)
    assert valid
    assert status == "INTERRUPTED"
    assert ended - struck < 6.0  # 2 s where the machine is not shared with other tests


def test_control_c_during_the_learning_keeps_the_best_so_far(monkeypatch):
    from itergp.learning import Ending, Learned

    def interrupted(rows, kernel, noise, *what, **how):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return Learned(kernel, 0.123, 0.0, ended=Ending.INTERRUPTED)

    monkeypatch.setattr("itergp.estimator.hyperparameters.learn_rows", interrupted)
    data = make_data(400)
    with pytest.warns(InterruptedWarning, match="The model is valid"):
        model = IterGPRegressor(kernel="matern32").fit(data.X, data.y)
    assert model.noise_ == 0.123
    assert (model.status_, model.posterior_.rank) == (Status.INTERRUPTED, 128)
    assert model.score(data.X, data.y) > 0.9
    assert model.refine("300 actions").posterior_.rank > 128  # with the policy that was meant


def test_control_c_in_the_loop_keeps_its_actions():
    def policy(state):
        if state.rank == 5:
            raise KeyboardInterrupt
        return np.eye(state.problem.n)[state.rank]

    with pytest.warns(InterruptedWarning, match="after 5 actions"):
        model = IterGPRegressor(learn=False, noise=0.1, policy=policy).fit(DATA.X, DATA.y)
    assert (model.status_, model.posterior_.rank) == (Status.INTERRUPTED, 5)


def test_interrupts_are_remembered_and_raised_only_where_somebody_is_prepared():
    with watching_interrupts() as interrupts:
        assert not interrupts.asked
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked
        with interrupts.raised(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_python_swallows_ends_the_fit_after_the_step():
    """As in a destructor, where errors are only reported."""

    def policy(state):
        if state.rank == 4:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return np.eye(state.problem.n)[state.rank]

    with pytest.warns(InterruptedWarning, match="after 5 actions"):
        model = IterGPRegressor(learn=False, noise=0.1, policy=policy).fit(DATA.X, DATA.y)
    assert (model.status_, model.posterior_.rank) == (Status.INTERRUPTED, 5)


def test_an_interrupt_that_python_swallows_while_learning_is_no_callback_that_ended_it(monkeypatch):
    """JAX has a callback of the garbage collector, in which it is only reported."""
    from itergp.estimator.progress import Watch
    from itergp.learning import Ending

    def show(watch, text):
        if "iteration 7" in text:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Watch, "_show", show)
    for kernel in ("matern32", "auto"):
        with pytest.warns(InterruptedWarning):
            model = IterGPRegressor(kernel=kernel).fit(DATA.X, DATA.y)
        assert model.status_ is Status.INTERRUPTED
        assert model.learning_.ended is Ending.INTERRUPTED
        assert model.learning_.iterations >= 7
        assert "fit again" in model.learning_.advice


def test_control_c_during_refine_and_partial_fit_keeps_what_there_is(monkeypatch):
    model = IterGPRegressor(learn=False, noise=0.1, policy="cg", budget="3 actions").fit(
        DATA.X[:100], DATA.y[:100]
    )
    steps = []

    def acted(self, state, fitted=None):
        steps.append(state.rank)
        if len(steps) in (2, 4):
            signal.raise_signal(signal.SIGINT)
        return False

    monkeypatch.setattr("itergp.estimator.progress.Watch.acted", acted)
    with pytest.warns(InterruptedWarning, match="after 5 actions"):
        model.refine("20 actions")
    model.budget = None
    monkeypatch.setattr(
        "itergp.estimator.fitting.UnitVector", lambda order, block_size: UnitVector(order, block_size=4)
    )
    with pytest.warns(InterruptedWarning, match="after 13 actions"):
        model.partial_fit(DATA.X[100:], DATA.y[100:])
    assert model.posterior_.problem.n == 150
    assert np.isfinite(model.predict(DATA.X_new)).all()


def test_in_other_threads_nothing_is_held():
    found = []

    def work():
        model = IterGPRegressor(learn=False, noise=0.1).fit(DATA.X, DATA.y)
        found.append(model.status_)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [Status.EXACT]


def test_an_error_in_a_second_fit_leaves_the_first_one():
    model = IterGPRegressor(learn=False, noise=0.1).fit(DATA.X, DATA.y)
    before = dict(vars(model))
    for wrong in ({"kernel": "matern"}, {"noise": -1.0}, {"budget": "30"}, {"policy": "newton"}):
        model.set_params(**wrong)
        with pytest.raises(ValueError):
            model.fit(DATA.X[:20], DATA.y[:20])
        model.set_params(**{name: before[name] for name in wrong})
        assert dict(vars(model)) == before


# SIGTERM and SIGHUP: what ends services, containers and batch jobs, and what a closed terminal sends.

ENDED = """
import os, signal, sys
import numpy as np
import itergp.storage.checkpoints
from itergp import IterGPRegressor
itergp.storage.checkpoints.SECONDS = 1e9  # after the first step only, and at the end
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (200, 2))

def policy(state):
    if state.rank == 6:
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    return np.eye(200)[:, state.rank]

model = IterGPRegressor(noise=0.1, learn=False, policy=policy, budget="150 actions", checkpoint=sys.argv[1])
model.fit(X, X[:, 0])
print("went on")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_the_process_does_so_when_the_checkpoint_is_written(name, tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", ENDED, str(tmp_path / "fit"), name]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == -getattr(signal, name)
    assert (ended.stdout, ended.stderr) == ("", "")
    manifest = json.loads((tmp_path / "fit" / "manifest.json").read_text())["value"]
    assert sum(entry["columns"] for entry in manifest["segments"]) >= 6


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_who_answers_such_a_signal_does_so_once_after_the_fit(name):
    number, heard = getattr(signal, name), []

    def policy(state):
        if state.rank == 3:
            signal.raise_signal(number)
        return np.eye(150)[:, state.rank]

    model = IterGPRegressor(noise=0.1, learn=False, policy=policy, budget="20 actions")
    before = signal.signal(number, lambda *_: heard.append(hasattr(model, "posterior_")))
    try:
        with pytest.warns(InterruptedWarning):
            model.fit(DATA.X, DATA.y)
        answered, handler = list(heard), signal.getsignal(number)
        signal.signal(number, signal.SIG_IGN)  # as nohup does
        whole = IterGPRegressor(noise=0.1, learn=False, policy=policy, budget="20 actions").fit(
            DATA.X, DATA.y
        )
    finally:
        signal.signal(number, before)
    assert len(answered) == 1
    assert handler is not signal.SIG_DFL
    assert 3 <= model.posterior_.rank < 20
    assert whole.posterior_.rank == 20


def test_a_signal_is_not_lost_where_the_fit_fails():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with contextlib.suppress(ZeroDivisionError), watching_interrupts() as interrupts:
            signal.raise_signal(signal.SIGTERM)
            during = (interrupts.asked, list(heard))
            raise ZeroDivisionError
    finally:
        signal.signal(signal.SIGTERM, before)
    assert during == (True, [])
    assert heard == [1]

"""Ctrl-C during a fit leaves a valid model, wherever it strikes; errors leave a fitted model as it was."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from helpers import make_data
from itergp import InterruptedWarning, IterGPRegressor, Status
from itergp.progress import holding_interrupts

DATA = make_data(150)

FIT = """
import json, sys, time, warnings
import numpy as np
import itergp
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (6000, 4)); y = np.sin(3 * X.sum(axis=1)) + 0.1 * rng.standard_normal(6000)
itergp.IterGPRegressor(budget="1s").fit(X[:300], y[:300])  # so that imports are done
print("ready", flush=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model = itergp.IterGPRegressor(budget="60s").fit(X, y)
ended = time.time()
mean, std = model.predict(X[:50], return_std=True)
valid = bool(np.isfinite(mean).all() and (std > 0).all())
print(json.dumps([ended, valid, model.status_.name, model.posterior_.rank]))
"""


@pytest.mark.parametrize("delay", [0.0, 0.4, 2.0])
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
    import itergp.learning
    from itergp.learning import Learned

    def interrupted(X, y, kernel, noise, **how):
        return Learned(kernel, 0.123, 0.0, interrupted=True)

    monkeypatch.setattr(itergp.learning, "learn", interrupted)
    data = make_data(400)
    with pytest.warns(InterruptedWarning, match="The model is valid"):
        model = IterGPRegressor().fit(data.X, data.y)
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


def test_a_part_that_holds_interrupts_remembers_them():
    with holding_interrupts() as held:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert held.asked
    with holding_interrupts() as held:
        pass
    assert not held.asked
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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

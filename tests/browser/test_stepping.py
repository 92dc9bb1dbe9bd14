"""The stepping page computes what the library computes, action by action, and its buttons do what they
say."""

from pathlib import Path

import numpy as np
import pytest

from itergp import (
    ConjugateGradient,
    Eigenvector,
    Matern32,
    MaxActions,
    Prior,
    PseudoInput,
    UnitVector,
    condition,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "stepping" / "stepping.html"
FILES = {"stepping.css", "stepping.js", "stepping-math.js"}
GRID = np.linspace(-1.3, 1.3, 41)
TOLERANCE = 1e-8
PACE = 450  # milliseconds, as in stepping.js

# The library's policy for each of the page's; Z are inducing points, S random directions.
POLICIES = {
    "cholesky_in_order": lambda Z, S: UnitVector(),
    "cholesky_pivoted": lambda Z, S: UnitVector("pivoted"),
    "eigenvectors": lambda Z, S: Eigenvector(block_size=1),
    "conjugateGradients": lambda Z, S: ConjugateGradient(),
    "pseudoInputs": lambda Z, S: PseudoInput(Z[:, None], block_size=1),
    "listed": lambda Z, S: lambda state: S[state.proposed] if state.proposed < len(S) else None,
}
PROBLEMS = {  # points, lengthscale, noise
    "as the page begins": (40, 0.32, 0.01),
    "much noise, short lengthscale": (25, 0.08, 0.5),
    "little noise, long lengthscale": (60, 1.2, 0.001),
}
RUN = """
    ([name, x, y, lengthscale, noise, Z, S, grid]) => {
      const plain = (found) => Object.fromEntries(Object.entries(found).map(([key, value]) => [key, Array.from(value)]));
      const problem = Stepping.problem(x, y, lengthscale, noise);
      const policy = name === "listed" ? Stepping.policies.listed(S) : Stepping.policies[name](problem, Z);
      const exact = Stepping.exactPosterior(problem, grid);
      const states = [];
      for (let state = Stepping.start(problem); state !== null; state = Stepping.step(problem, state, policy)) {
        const found = Stepping.posterior(problem, state, grid);
        const { share } = Stepping.decompose(found.variance, exact.variance);
        states.push({ ...plain(found), share, residual: Stepping.norm(state.residual), passes: state.passes });
      }
      return { states, exact: plain(exact) };
    }
"""


def visit(open_page, **settings):
    """The page, after it asked for its own three files and for nothing else."""
    found = open_page(PAGE, **settings)
    assert {url.rpartition("/")[2] for url in found.requests} == FILES
    assert all(url.startswith(PAGE.parent.as_uri() + "/") for url in found.requests)
    found.requests.clear()
    return found


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_action_leads_where_the_library_leads(open_page, name, problem):
    n, lengthscale, noise = PROBLEMS[problem]
    rng = np.random.default_rng([n, 7])
    x = rng.uniform(-1, 1, n)
    y = np.sin(5 * x) + np.sqrt(noise) * rng.standard_normal(n)
    Z, S = rng.uniform(-1.2, 1.2, 8), rng.standard_normal((12, n))
    given = [values.tolist() for values in (x, y, Z, S, GRID)]
    page = visit(open_page).page
    found = page.evaluate(RUN, [name, given[0], given[1], lengthscale, noise, *given[2:]])
    states = found["states"]

    posterior = condition(
        Prior(Matern32(lengthscale)), x, y, noise, POLICIES[name](Z, S), MaxActions(len(states) - 1)
    )
    whole = condition(Prior(Matern32(lengthscale)), x, y, noise)
    path, exact = posterior.path(GRID), whole.var(GRID)
    assert posterior.rank == len(states) - 1 >= {"listed": 12, "pseudoInputs": 8}.get(name, 6)
    np.testing.assert_allclose(found["exact"]["mean"], whole.mean(GRID), atol=TOLERANCE)
    np.testing.assert_allclose(found["exact"]["variance"], exact, atol=TOLERANCE)
    for i, state in enumerate(states):
        np.testing.assert_allclose(state["mean"], path.mean[i], atol=TOLERANCE, err_msg=f"action {i}")
        np.testing.assert_allclose(state["variance"], path.var[i], atol=TOLERANCE, err_msg=f"action {i}")
        share = 1 - exact.sum() / path.var[i].sum()
        assert state["share"] == pytest.approx(share, abs=1e-6), f"action {i}"
    assert [state["passes"] for state in states[1:]] == [step.passes for step in posterior.trace]
    for state, step in zip(states[1:], posterior.trace, strict=True):
        assert state["residual"] == pytest.approx(step.residual_norm, abs=1e-6)


def test_policies_that_take_all_the_data_end_at_the_exact_process(open_page):
    page = visit(open_page).page
    for policy in ("pivoted", "order", "eigenvectors", "pseudo", "random"):
        page.select_option("#policy", policy)
        page.evaluate(
            "() => { const t = document.getElementById('taken'); t.value = t.max; t.dispatchEvent(new "
            "Event('input')); }"
        )
        assert page.inner_text("#actions") == "40 of 40", policy
        assert page.inner_text("#share") == "0.0 %", policy
        assert page.is_disabled("#step")
        assert "exact Gaussian process" in page.inner_text("#ended")


def shown(page):
    """What is drawn and said."""
    bands = page.evaluate(
        "() => [...document.querySelectorAll('#figure path')].map((path) => path.getAttribute('d'))"
    )
    return bands, page.inner_text(".numbers")


def share(page):
    return float(page.inner_text("#share").removesuffix(" %"))


@pytest.mark.parametrize("policy", ["cg", "pivoted", "order", "eigenvectors", "pseudo", "random"])
def test_buttons_take_actions_and_give_them_back(open_page, policy):
    page = visit(open_page).page
    page.select_option("#policy", policy)
    seen = [shown(page)]
    assert page.is_disabled("#back")
    for i in (1, 2, 3):
        before = share(page)
        page.click("#step")
        assert page.inner_text("#actions") == f"{i} of 40"
        assert share(page) <= before
        seen.append(shown(page))
    assert len({str(picture) for picture in seen}) == 4  # each action changes the picture
    page.click("#back")
    assert shown(page) == seen[2]
    page.keyboard.press("ArrowRight")
    assert shown(page) == seen[3]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert shown(page) == seen[1]
    page.click("#reset")
    assert shown(page) == seen[0]


def test_play_goes_on_by_itself_until_it_is_paused_or_at_the_end(open_page):
    page = visit(open_page).page
    page.clock.install()  # time goes on only when asked
    page.click("#play")
    page.clock.run_for(3 * PACE)
    assert page.inner_text("#actions") == "3 of 40"
    assert page.inner_text("#play") == "Pause"
    page.click("#play")
    stopped = shown(page)
    page.clock.run_for(3 * PACE)
    assert page.inner_text("#play") == "Play"
    assert shown(page) == stopped
    page.select_option("#policy", "order")
    page.click("#play")
    page.clock.run_for(50 * PACE)
    assert page.inner_text("#actions") == "40 of 40"
    assert page.inner_text("#play") == "Play"
    page.click("#play")  # from the beginning again
    page.clock.run_for(PACE)
    assert page.inner_text("#actions") == "1 of 40"


@pytest.mark.parametrize(
    ("control", "value"),
    [("points", "200"), ("lengthscale", "-1"), ("noise", "-0.5"), ("seed", "3"), ("policy", "pivoted")],
)
def test_every_setting_changes_the_picture_and_keeps_the_number_of_actions(open_page, control, value):
    page = visit(open_page).page
    page.click("#step")
    page.click("#step")
    before = shown(page)
    page.evaluate(
        """([id, value]) => {
          const control = document.getElementById(id);
          control.value = value;
          control.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        [control, value],
    )
    assert page.inner_text("#actions").startswith("2 of")
    assert shown(page) != before
    page.evaluate("() => document.getElementById('settings').reset()")
    page.evaluate("() => document.getElementById('settings').dispatchEvent(new Event('input'))")
    assert shown(page) == before


def test_a_seed_that_is_no_number_is_read_as_zero(open_page):
    page = visit(open_page).page
    before = shown(page)
    page.fill("#seed", "")
    assert shown(page) == before
    page.fill("#seed", "-5")
    assert shown(page) == before


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light")])
def test_the_page_fits_its_window(open_page, width, scheme):
    page = visit(open_page, width=width, scheme=scheme).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.getElementById('picture').viewBox.baseVal.width") == pytest.approx(
        page.evaluate("document.getElementById('picture').getBoundingClientRect().width")
    )
    for button in page.query_selector_all("button"):
        assert button.bounding_box()["height"] >= 40  # a thumb's width


def test_everything_can_be_reached_with_the_keyboard(open_page):
    page = visit(open_page).page
    page.keyboard.press("ArrowRight")  # so that nothing is disabled
    reached = []
    for _ in range(11):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.id || document.activeElement.tagName"))
    wanted = [
        "back",
        "step",
        "play",
        "reset",
        "taken",
        "policy",
        "points",
        "lengthscale",
        "noise",
        "seed",
        "SUMMARY",
    ]
    assert reached == wanted


def test_the_picture_and_the_numbers_are_spoken(open_page):
    page = visit(open_page).page
    page.click("#step")
    spoken = page.text_content("#spoken")
    assert spoken.startswith("1 of 40 actions. Residual norm ")
    assert page.inner_text("#share") in spoken
    assert page.get_attribute("#picture", "aria-labelledby") == "spoken"


def test_without_javascript_the_page_says_so(open_page):
    found = open_page(PAGE, javascript=False)
    assert "needs JavaScript" in found.page.inner_text("noscript")
    found.requests.clear()


def test_a_policy_that_ends_early_says_why(open_page):
    page = visit(open_page).page
    page.evaluate(
        "() => { const t = document.getElementById('taken'); t.value = t.max; t.dispatchEvent(new "
        "Event('input')); }"
    )
    taken = int(page.inner_text("#actions").split()[0])
    assert taken < 40
    assert page.is_disabled("#step")
    assert "The residual is gone" in page.inner_text("#ended")

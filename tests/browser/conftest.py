"""A real browser, headless and offline: one for all tests of a run, and a page that remembers what went
wrong in it.

`open_page(path)` opens a file in Debian's Chromium, driven by Playwright, and returns a `Visit`:
`visit.page` is Playwright's page, `visit.troubles` every uncaught error, console error or warning and
violation of the content security policy, and `visit.requests` every address that was asked for apart from
the file itself. A visit that has troubles or requests fails its test when it is closed, unless the test
has emptied the lists. (Playwright's `wait_for_function` evaluates text, which a content security policy
forbids: wait for a locator.)
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

INSTALL = (
    "the browser tests need Chromium and Playwright: `apt-get install chromium-headless-shell` and `pip "
    "install playwright`"
)
FOLDERS = (
    "/usr/lib/chromium",
    "/usr/lib64/chromium",
    "/usr/lib/chromium-browser",
    "/usr/lib64/chromium-browser",
)
NAMES = ("chromium-headless-shell", "headless_shell", "chromium", "chrome", "chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
REMEMBER_VIOLATIONS = """
    window.violations = [];
    document.addEventListener("securitypolicyviolation", event =>
        window.violations.push(event.violatedDirective + ": " + event.blockedURI));
"""


def find_browser() -> Path | None:
    """The binary itself: the wrapper on the PATH does not exec, and would leave orphans. `ITERGP_BROWSER`
    names another."""
    named = os.environ.get("ITERGP_BROWSER")
    places = [Path(named)] if named else [Path(folder, name) for folder in FOLDERS for name in NAMES]
    return next((path for path in places if path.is_file() and os.access(path, os.X_OK)), None)


@dataclass
class Visit:
    """A page in the browser, and what went wrong in it."""

    page: Any
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        return self.page.evaluate("window.violations")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once; where it or Playwright is missing, the tests that need it are skipped."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(INSTALL)
    binary = find_browser()
    if binary is None:
        pytest.skip(INSTALL)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(binary), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Visit]]:
    """`open_page(path, width=1280, height=900, scheme="light", javascript=True)`: see the head of this
    file."""
    visits: list[Visit] = []

    def open_page(
        path: Path, width: int = 1280, height: int = 900, scheme: str = "light", javascript: bool = True
    ) -> Visit:
        context = browser.new_context(
            offline=True,
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=javascript,
            reduced_motion="reduce",
        )
        context.set_default_timeout(10_000)
        visit = Visit(context.new_page())
        visits.append(visit)
        address = Path(path).resolve().as_uri()
        if javascript:
            visit.page.add_init_script(REMEMBER_VIOLATIONS)
        visit.page.on("pageerror", lambda error: visit.troubles.append(f"uncaught: {error}"))
        visit.page.on("console", lambda message: _note_console(visit, message))
        visit.page.on("request", lambda request: _note_request(visit, address, request.url))
        visit.page.goto(address)
        return visit

    yield open_page
    for visit in visits:
        visit.page.context.close()
    troubles = [
        trouble
        for visit in visits
        for trouble in visit.troubles + [f"asked for {url}" for url in visit.requests]
    ]
    assert not troubles, "\n".join(troubles)


def _note_console(visit: Visit, message: Any) -> None:
    if message.type in ("error", "warning"):
        visit.troubles.append(f"console {message.type}: {message.text}")


def _note_request(visit: Visit, address: str, url: str) -> None:
    if url.partition("#")[0] != address:
        visit.requests.append(url)

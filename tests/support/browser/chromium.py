"""A real browser for tests: Chromium, driven by playwright.

Every page is watched. At the end of a test nobody may have written an error to the console, thrown one, failed a request
or asked a foreign host for anything, unless the test said beforehand that it causes just that. With TURNBUCKLE_PICTURES
in the environment moments worth seeing are kept as pictures in build/screenshots, light and dark.

Tests that follow each other share one browser, and each visit has windows, storage and cookies of its own. It is closed
behind the last of them, since playwright's plain interface keeps an event loop in the test's thread for as long as it is
open, which tests with loops of their own could not bear.
"""

import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.browser.accessibility import SCHEMES
from support.processes.served_folder import PATIENCE, ServedFolder, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
MISSING = (
    "there is no browser to test with: scripts/set-up-clients gets one, or sudo apt-get install chromium, or "
    "TURNBUCKLE_CHROMIUM=/path/to/a/chromium names one"
)


def chromium() -> str | None:
    """The browser of this machine. The one without windows takes a quarter less to do the same."""
    named = os.environ.get("TURNBUCKLE_CHROMIUM", "")
    names = (named, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


class Watch:
    """Notes everything that a page should not do."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.problems: list[str] = []
        self._forgiven: list[re.Pattern[str]] = []

    def forgive(self, pattern: str) -> None:
        """The test causes this itself, such as a refused key, or a server that is away."""
        self._forgiven.append(re.compile(pattern))

    def on(self, page: "Page") -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self._note(f"error in the page: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", self._asked)

    def check(self) -> None:
        assert self.problems == []

    def _said(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning"):
            place = message.location
            self._note(
                f"console {message.type}: {message.text} ({place.get('url')}:{place.get('lineNumber')})"
            )

    def _failed(self, request: "Request") -> None:
        # A page that stops following a run, or is left, hangs up.
        if request.failure != "net::ERR_ABORTED":
            self._note(f"request failed: {request.failure} {request.method} {request.url}")

    def _asked(self, request: "Request") -> None:
        if not request.url.startswith((f"{self.home}/", "data:", "blob:")):
            self._note(f"asks a foreign host: {request.url}")

    def _note(self, problem: str) -> None:
        if not any(pattern.search(problem) for pattern in self._forgiven):
            self.problems.append(problem)


class Visit:
    """A person with a browser in front of one server. Windows share what a browser keeps, unless another person is
    wanted."""

    def __init__(self, browser: "Browser", home: str) -> None:
        self.watch = Watch(home)
        self.home = home
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(self, address: str = "#/", **options: Any) -> "Page":
        """A new window on an address of the console."""
        if not self._contexts or options:
            context = self._browser.new_context(
                **{
                    "viewport": WIDE,
                    "color_scheme": "light",
                    "reduced_motion": "reduce",
                    "locale": "en-GB",
                    **options,
                }
            )
            context.set_default_timeout(PATIENCE * 1000)
            self._contexts.append(context)
        page = self._contexts[-1].new_page()
        self.watch.on(page)
        page.goto(f"{self.home}/{address}")
        return page

    def leave(self) -> None:
        for context in self._contexts:
            context.close()


def say(page: "Page", text: str) -> None:
    """Send a message."""
    page.get_by_role("textbox", name="Message", exact=True).fill(text)
    page.get_by_role("button", name="Send").click()


def last_run(page: "Page") -> "Locator":
    """The newest run on the page."""
    return page.locator("article.run").last


def reaches(run: "Locator", *statuses: str) -> None:
    """Wait until a run's card has one of these statuses."""
    wanted = re.compile(f"^({'|'.join(statuses)})$")
    _expect()(run).to_have_attribute("data-status", wanted, timeout=PATIENCE * 1000)


def shown(place: "Locator", count: int | None = None) -> None:
    """Wait until it is on the page and can be seen."""
    if count is None:
        _expect()(place).to_be_visible(timeout=PATIENCE * 1000)
    else:
        _expect()(place).to_have_count(count, timeout=PATIENCE * 1000)


def gone(place: "Locator") -> None:
    """Wait until it cannot be seen any more."""
    _expect()(place).to_be_hidden(timeout=PATIENCE * 1000)


def run_id(run: "Locator") -> str:
    return str(run.get_attribute("data-run"))


def tells_once(run: "Locator", text: str) -> None:
    """Wait until a run's card has this text, whole and one time, however its lines are broken."""
    until(lambda: _bare(run.inner_text()).count(_bare(text)) == 1, run.inner_text)


def _bare(text: str) -> str:
    return re.sub(r"[\s`*]", "", text)


def keep_picture(page: "Page", name: str) -> None:
    """The window as it is, light and dark, for somebody who wants to look at it."""
    if not os.environ.get("TURNBUCKLE_PICTURES"):
        return
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png", animations="disabled")
    page.emulate_media(color_scheme="light")


def is_sideways(page: "Page") -> bool:
    """Whether one must scroll sideways to see all of the page."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


_open = ExitStack()
_browsers: list["Browser"] = []
"""The one that is open."""


@pytest.fixture
def browser() -> "Browser":
    """One for all tests that follow each other and need it."""
    program = chromium()
    if program is None:
        pytest.fail(MISSING, pytrace=False)
    if not _browsers:
        playwright = _open.enter_context(_playwright().sync_playwright())
        # In a container there is no sandbox to be had, and the only pages are our own. Nor is there a graphics card: to
        # imitate one costs a tenth more than to draw without.
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--renderer-process-limit=1"]
        )
        _open.callback(started.close)
        _browsers.append(started)
    return _browsers[0]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Behind all that the test itself had."""
    try:
        return (yield)
    finally:
        if _browsers and "browser" not in getattr(nextitem, "fixturenames", ()):
            _browsers.clear()
            _open.close()


@pytest.fixture
def visit(browser: "Browser", serve: Callable[..., ServedFolder]) -> Iterator[Callable[[str], Visit]]:
    """Begin a visit to the server at an address. What its pages did wrong fails the test. Visitors leave before the
    servers of `serve` do."""
    visits: list[Visit] = []

    def begin(home: str) -> Visit:
        visits.append(Visit(browser, home))
        return visits[-1]

    yield begin
    for one in visits:
        one.leave()
    for one in visits:
        one.watch.check()


def _playwright() -> Any:
    try:
        return importlib.import_module("playwright.sync_api")
    except ImportError:
        pytest.fail("playwright is not there: scripts/set-up-clients installs it", pytrace=False)


def _expect() -> Any:
    return _playwright().expect

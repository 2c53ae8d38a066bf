"""The picture of a run that lives through a stall, for the README: the rehearsal model writes a file, goes
silent in the middle of it, and the rest is asked for. Light and dark, and beside them the steps in words, as
the page tells them: what the picture shows, for those who cannot see it, and for the test that it still
shows that.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import FloatRect, Page, sync_playwright
from support.browser.chromium import MISSING, chromium
from support.processes.served_folder import PATIENCE, ServedFolder, served

HERE = Path(__file__).parent.parent / "docs" / "pictures"
TASK = "write notes.md with 600 lines slowly and stall"
WIDTH, HEIGHT = 1280, 1400
ROOM = 12
SCHEMES = ("light", "dark")


def take(into: Path) -> None:
    """Play the task, and write the pictures and their words into a folder."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        run = server.begin(TASK)
        server.ended(run)
        with _page(server, f"#/r/{run}") as page:
            page.locator("article.run[data-status=completed]").wait_for()
            steps = page.locator("article.run ol.steps")
            page.locator("article.run .stepbox summary").click()
            steps.locator("li").first.wait_for()
            page.mouse.move(0, 0)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.screenshot(
                    path=into / f"timeline-{scheme}.png", animations="disabled", clip=_frame(page)
                )
            words = [" ".join(step.locator("> *").all_text_contents()) for step in steps.locator("li").all()]
    (into / "timeline.txt").write_text("".join(f"{line}\n" for line in words), "utf-8")


def _frame(page: Page) -> FloatRect:
    """From the user's words to the end of the timeline, with a little room around it."""
    run, timeline = (page.locator(place).bounding_box() for place in ("article.run", "article.run .timeline"))
    assert run is not None
    assert timeline is not None
    high = timeline["y"] + timeline["height"] - run["y"]
    x, y = run["x"] - ROOM, run["y"] - ROOM
    return {"x": x, "y": y, "width": run["width"] + 2 * ROOM, "height": high + 2 * ROOM}


@contextmanager
def _page(server: ServedFolder, address: str) -> Iterator[Page]:
    program = chromium()
    if program is None:
        raise SystemExit(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            device_scale_factor=1.5,
            reduced_motion="reduce",
            locale="en-GB",
        )
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(f"{server.url}/{address}")
        yield page
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

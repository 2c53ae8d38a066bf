"""The console in a real browser, with a run of 100,000 events and a session of 1,000 runs.

    python benchmarks/console.py

Prints how long each takes to open, how many elements it makes, how long a scroll through it takes, and what
an event costs at the beginning and at the end of the run. The answers are made up by the browser's own
driver, which hands over some megabytes slowly: what that takes is told apart.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from playwright.sync_api import Page, sync_playwright
from support.browser.chromium import chromium
from support.browser.large_console import fake_run, fake_session
from support.processes.served_folder import served

EVENTS, RUNS = 100_000, 1_000
PER_EVENT = """async (count) => {
  const { RunModel } = await import("/console/run_model.js");
  const text = await (await fetch("/v1/runs/big/events")).text();
  const events = text.split("\\n\\n").filter(Boolean).map((one) => JSON.parse(one.split("\\ndata: ")[1]));
  const model = new RunModel();
  const spent = [];
  for (let at = 0; at < events.length; at += count) {
    const began = performance.now();
    for (const event of events.slice(at, at + count)) model.take(event);
    model.drain();
    spent.push(((performance.now() - began) * 1000) / count);
  }
  return spent;
}"""
CARRIED = """async () => {
  const began = performance.now();
  await (await fetch("/v1/runs/big/events")).text();
  return performance.now() - began;
}"""
SCROLL = """async (place) => {
  const box = document.querySelector(place) ?? document.querySelector("main");
  const began = performance.now();
  for (let step = 0; step < 30; step += 1) {
    box.scrollTop = (box.scrollHeight * step) / 30;
    await new Promise((done) => requestAnimationFrame(done));
  }
  return performance.now() - began;
}"""


def opened(page: Page, address: str, ready: str) -> float:
    began = time.perf_counter()
    page.goto(address)
    page.locator(ready).first.wait_for()
    return time.perf_counter() - began


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{server.url}/")
        page.locator("form.composer").wait_for()
        loaded = page.evaluate(
            "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.decodedBodySize, 0)"
        )
        print(f"start page: {loaded / 1000:.0f} kB of modules and styles")
        fake_run(page, EVENTS)
        seconds = opened(page, f"{server.url}/#/r/big", "article.run[data-status=completed]")
        count = page.locator("article.run *").count()
        carried = page.evaluate(CARRIED) / 1000
        print(f"run of {EVENTS:,} events: open after {seconds:.2f} s, {carried:.2f} s of it by the driver")
        print(f"  {count:,} elements")
        print(f"  30 steps of scrolling: {page.evaluate(SCROLL, '.page') / 1000:.2f} s")
        spent = page.evaluate(PER_EVENT, EVENTS // 10)
        print("  µs an event, by tenths of the run: " + ", ".join(f"{one:.2f}" for one in spent[:10]))
        asked = fake_session(page, RUNS)
        ready = f"article.run[data-run=run-{RUNS - 1}][data-status=completed]"
        seconds = opened(page, f"{server.url}/#/s/many", ready)
        count = page.locator("#main *").count()
        told = f"open after {seconds:.2f} s, {count:,} elements, {len(asked)} requests"
        print(f"session of {RUNS:,} runs: {told}")
        print(f"  30 steps of scrolling: {page.evaluate(SCROLL, '.scroller') / 1000:.2f} s")
        browser.close()


if __name__ == "__main__":
    main()

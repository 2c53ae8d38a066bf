"""The console in a real browser, with a run of 100,000 events and a session of 1,000 runs.

    python benchmarks/console.py

Prints how long each takes to open and how many elements it makes, how long a scroll through it takes, what
CPU the server and the page use to open a run (on Linux), and what an event costs at the beginning and at the
end of it. The run is stored in the server's journal. The session is made up by the browser's own driver.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from playwright.sync_api import Page, sync_playwright
from support.browser.chromium import chromium
from support.browser.large_console import fake_run, fake_session
from support.processes.served_folder import ServedFolder, served

from turnbuckle.journal.port import Claim, Grade, IndexUpdate
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.turn.facts import Fact, ModelAsked, RunEnded, RunStarted, Streamed, encode
from turnbuckle.vocab.events import ReasoningDelta, TextDelta
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.outcome import Outcome

EVENTS, RUNS = (1_000, 100_000), 1_000
AT = 1_790_000_000.0
BATCH = 1_000
TICKS = os.sysconf("SC_CLK_TCK")
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
SCROLL = """async (place) => {
  const box = document.querySelector(place) ?? document.querySelector("main");
  const began = performance.now();
  for (let step = 0; step < 30; step += 1) {
    box.scrollTop = (box.scrollHeight * step) / 30;
    await new Promise((done) => requestAnimationFrame(done));
  }
  return performance.now() - began;
}"""


def run_of(count: int, name: str) -> list[Fact]:
    """A run of so many facts: thoughts and words in small pieces."""
    task = Message("user", (TextPart("do it"),))
    began = RunStarted(AT, RunId(name), SessionId(""), (task,))
    asked = ModelAsked(AT, 1, RouteName("main"), "openai_chat", "m", "first")
    pieces: list[Fact] = []
    for number in range(count - 3):
        is_thought = number // 500 % 4 == 0
        event = ReasoningDelta(0, "thinking ") if is_thought else TextDelta(1, _word(number))
        pieces.append(Streamed(AT + number / 100, 1, (event,)))
    return [began, asked, *pieces, RunEnded(AT + count / 100, Outcome("completed"))]


def _word(number: int) -> str:
    return "\n\nA new paragraph. " if number % 60 == 0 else f"word {number} "


async def store(folder: Path) -> None:
    """The runs, in the journal of a server that is not up."""
    journal = SqliteJournal(folder)
    try:
        for count in EVENTS:
            name = f"r20261117-000000-{count:012}"
            claim = await journal.claim(name, "benchmark", 600.0)
            assert isinstance(claim, Claim)
            facts, head = [encode(fact) for fact in run_of(count, name)], claim.head
            for at in range(0, len(facts), BATCH):
                head = await journal.append(
                    name, facts[at : at + BATCH], after=head, epoch=claim.epoch, grade=Grade.FLUSHED
                )
            await journal.note(name, IndexUpdate(kind="run", status="completed", title="Big", user="local"))
            await journal.release(claim)
    finally:
        await journal.close()


def run_opens(page: Page, server: ServedFolder, count: int) -> None:
    run = f"r20261117-000000-{count:012}"
    before = cpu_seconds()
    seconds = opened(page, f"{server.url}/#/r/{run}", f"[data-run={run}][data-status=completed]")
    used = [after - was for was, after in zip(before, cpu_seconds(), strict=True)]
    elements = page.locator("article.run *").count()
    told = f"CPU of the server {used[0]:.2f} s, of the page {used[1]:.2f} s; {elements:,} elements"
    print(f"run of {count:,} events: open after {seconds:.2f} s; {told}")
    print(f"  30 steps of scrolling: {page.evaluate(SCROLL, '.page') / 1000:.2f} s")


def cpu_seconds() -> tuple[float, float]:
    """What the server and the pages of the browser have used so far: processes that began in this one."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            said = (stat.parent / "cmdline").read_text()
        except OSError:
            continue  # it has ended meanwhile
        found[int(stat.parent.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS, said)

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in found and is_ours(found[process][0]))

    ours = [(used, said) for process, (_, used, said) in found.items() if is_ours(process)]
    pages = sum(used for used, said in ours if "--type=renderer" in said)
    return sum(used for used, said in ours if "turnbuckle" in said and "serve" in said), pages


def opened(page: Page, address: str, ready: str) -> float:
    began = time.perf_counter()
    page.goto(address)
    page.locator(ready).first.wait_for()
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        server.stop()
        asyncio.run(store(Path(folder) / ".turnbuckle"))
        server.start()
        look(server)


def look(server: ServedFolder) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{server.url}/")
        page.locator("form.composer").wait_for()
        loaded = page.evaluate(
            "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.decodedBodySize, 0)"
        )
        print(f"start page: {loaded / 1000:.0f} kB of modules and styles")
        for count in EVENTS:
            run_opens(page, server, count)
        fake_run(page, EVENTS[-1])
        spent = page.evaluate(PER_EVENT, EVENTS[-1] // 10)
        print("  µs an event, by tenths of a run: " + ", ".join(f"{one:.2f}" for one in spent[:10]))
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

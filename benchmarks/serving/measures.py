"""What is measured, one contender and one round at a time. Each measure returns named numbers."""

import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import streams

from serving.contender import CHAT, MODEL, Contender, Load, posted, told_by
from serving.processes import cpu_seconds, memory
from serving.script import Script
from serving.servers import said

ANSWERS = 20
BURSTS = 3
BURST = Script(2000)
PACED, PACED_STREAMS = Script(150, 20), 20
CROWD = Script(80, 50)  # 4 seconds
HELD = Script(1, 0, "hold")
UNREAD = Script(100_000)  # 31 MB
UNREAD_SECONDS = 8.0
READERS = 1000

Numbers = dict[str, float]
Measure = Callable[[Contender], Numbers]


class Broken(Exception):
    """Streams failed or lost text, so the numbers would mean nothing."""


def proof(contender: Contender) -> None:
    """The whole text comes through."""
    direct = "".join(streams.words(BURST.chunks))
    told = told_by(contender, BURST, mode="text")
    if not told["whole"] or told["text"] != direct:
        raise Broken(
            f"text of {len(told['text'])} characters instead of {len(direct)}: {told['begin'][:300]!r}"
        )


def _checked(told: dict[str, Any], wanted: int) -> dict[str, Any]:
    if told["whole"] != wanted:
        raise Broken(f"{wanted - told['whole']} of {wanted} streams failed, status {told['status']}")
    return told


def _costed(contender: Contender, script: Script, mode: str, count: int) -> tuple[dict[str, Any], float]:
    """The load's report, and the server's CPU microseconds for each chunk."""
    before = cpu_seconds(contender.pid)
    told = _checked(told_by(contender, script, mode=mode, streams=count), count)
    return told, (cpu_seconds(contender.pid) - before) / count / script.chunks * 1e6


def first_text(contender: Contender) -> Numbers:
    told, each = _costed(contender, Script(1), "sequence", ANSWERS)
    return {"first": statistics.median(told["first"]) * 1e3, "request": each}


def burst(contender: Contender) -> Numbers:
    told, each = _costed(contender, BURST, "sequence", BURSTS)
    return {"burst": each, "burst load": told["cpu"] / BURSTS / BURST.chunks * 1e6}


def paced(contender: Contender) -> Numbers:
    told, each = _costed(contender, PACED, "crowd", PACED_STREAMS)
    return {"paced": each, "paced load": told["cpu"] / PACED_STREAMS / PACED.chunks * 1e6}


def crowd(count: int) -> Measure:
    def measure(contender: Contender) -> Numbers:
        told, each = _costed(contender, CROWD, "crowd", count)
        cuts = statistics.quantiles(told["first"], n=100)
        values = {"wall": told["wall"], "p50": cuts[49], "p99": cuts[98], "cpu": each}
        return {f"{count} {name}": value for name, value in values.items()}

    return measure


def idle(contender: Contender) -> Numbers:
    now = memory(contender.pid)
    return {"idle": now.proportional, "idle resident": now.resident}


def _each(contender: Contender, script: Script | None, path: str) -> float:
    """Kilobytes for each further stream that is held open. As many are open before, so that growth that comes
    only once is not counted."""
    half = READERS // 2
    with closing(Load(contender, script, mode="hold", streams=half, path=path)) as first:
        _begun(first, half)
        before = memory(contender.pid).proportional
        with closing(Load(contender, script, mode="hold", streams=half, path=path)) as second:
            _begun(second, half)
            return (memory(contender.pid).proportional - before) * 1024 / half


def _begun(load: Load, streams: int) -> None:
    told = load.result()
    if told["status"] != [200]:
        raise Broken(f"not all of {streams} streams began, status {told['status']}")


def held_chats(contender: Contender) -> Numbers:
    """Chat streams that wait for the provider."""
    return {"chat": _each(contender, HELD, CHAT)}


def held_events(contender: Contender) -> Numbers:
    """Readers of one run's events, the run waiting for the provider."""
    made = said(
        contender.port, posted(contender.port, "/v1/runs", json.dumps({"model": MODEL, "input": str(HELD)}))
    )
    run = json.loads(made.partition(b"\r\n\r\n")[2])["id"]
    try:
        return {"events": _each(contender, None, f"/v1/runs/{run}/events")}
    finally:
        said(contender.port, posted(contender.port, f"/v1/runs/{run}/stop", "{}"))


def unread(contender: Contender) -> Numbers:
    """How far memory grows while a reader does not read and the provider has 31 MB for it."""
    before = memory(contender.pid).proportional
    most = before
    with closing(Load(contender, UNREAD, mode="unread")) as load:
        load.result()
        until = time.perf_counter() + UNREAD_SECONDS
        while time.perf_counter() < until:
            time.sleep(0.25)
            most = max(most, memory(contender.pid).proportional)
    return {"unread": most - before}

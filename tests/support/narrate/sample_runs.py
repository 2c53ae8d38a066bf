"""Runs for tests of the dialects: recorded ones, simulated ones, and ones put together by hand. Each is a list of items."""

import asyncio
import os
import pickle
from functools import cache
from pathlib import Path

import msgspec
from support.turns.turn_facts import MAIN, OTHER, START, USER, ask, burst, called, said
from support.worlds.tasks import TASKS

from turnbuckle.journal.port import Item
from turnbuckle.testing.world.campaign import faults_of
from turnbuckle.testing.world.faults import NOTHING, Fault
from turnbuckle.testing.world.run_world import RunWorld
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    Continue,
    Decided,
    Fallback,
    GiveUp,
    HandedCall,
    ModelAsked,
    Noticed,
    Retry,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    UserSpoke,
    Waited,
    decode,
    encode,
)
from turnbuckle.vocab.events import (
    BlockClosed,
    Cut,
    Ended,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import DraftId, RunId, SessionId
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import RunOptions
from turnbuckle.vocab.tooling import ToolOutcome
from turnbuckle.wire.sse import SseDecoder

RECORDED = Path(__file__).parents[2] / "recorded_runs"
RUN = RunId("r")
TASK = {task.name: task for task in TASKS}
BIG = msgspec.json.encode({"path": "big.txt", "content": "0123456789abcde\n" * 1900}).decode()
DONE = RunEnded(99.5, Outcome("completed"))
OK = ToolOutcome("finished", "fine", seconds=1.25)
RESET = Cut(failure("reset", "the connection was reset"))


def items(*facts):
    return [Item(number, encode(fact)) for number, fact in enumerate(facts, 1)]


def waited(run):
    """The same run, in which it was noted behind every fact but the last that nothing happens."""
    made = []
    for fact in facts_of(run):
        made += [fact, Waited(fact.at)]
    return tuple(items(*made[:-1]))


def facts_of(run):
    return [decode(item.data) for item in run]


def start(name="look", call_id="c1", at=4.0, **arguments):
    return ToolStarted(at, call_id, name, arguments or {"path": "a.txt"}, f"r:1:{call_id}")


def end(name="look", call_id="c1", outcome=OK, at=5.0):
    return ToolFinished(at, call_id, name, outcome)


def ended(kind, why="", failed=None, drafts=()):
    return RunEnded(99.5, Outcome(kind, why, failed, drafts))


def begin(**options):
    return RunStarted(1.5, RUN, SessionId("s"), START.messages, options=RunOptions(**options))


NOTICE = "Fresh start: the last run was stopped."
FRESH = RunStarted(1.5, RUN, SessionId("s"), START.messages, origin=Origin("chat", notice=NOTICE, notice_why="stopped"))  # fmt: skip


def decided(decision, attempt=1, verdict="cut_by_transport", **more):
    return Decided(3.5, attempt, verdict, ("cut: reset",), decision, **more)


def usage(given, made, number=1):
    return burst(UsageNoted(Usage(given, made, cached=1, reasoning=2)), number=number)


def capped(number=1):
    return burst(TextDelta(0, "One, two"), FinishNoted("length", "length"), Ended("e"), number=number)


_ONE = called(("c1", "look", "{}"))
_ASKED = ApprovalAsked(3.2, "a1-0", "c1", "shell", {"command": "rm -rf build"}, expires=90.0)
_LIMIT = GiveUp("partial", "the output limit of the request is reached")
_NO_WAY = failure("connect", "no connection")
_LIMITED = Failure("rate_limited", "too many requests", True, retry_after=7.2, status=429)

BY_HAND = {
    "consent": (START, ask(), _ONE, _ASKED, ApprovalAnswered(4.0, "a1-0", "allowed", by="ann"), start("shell", command="rm -rf build"), end("shell"), ask(2), said("Gone.", 2), DONE),
    "no consent": (START, ask(), _ONE, _ASKED, ApprovalAnswered(4.0, "a1-0", "denied"), end("shell", outcome=ToolOutcome("denied", "The user said no.")), ask(2), said("Well.", 2), DONE),
    "a question": (
        START, ask(), called(("c1", "ask_user", '{"question":"Red or blue?"}')),
        ApprovalAsked(3.2, "a1-0", "c1", "ask_user", {"question": "Red or blue?"}, "question", "Red or blue?"),
        ApprovalAnswered(4.0, "a1-0", "answered", text="Red."), end("ask_user", outcome=ToolOutcome("finished", "Red.")), ask(2), said("Red it is.", 2), DONE,
    ),
    "handed over": (
        begin(own_tools=False), ask(), usage(10, 5), called(("x", "edit", BIG), ("y", "now", ""), text="I edit it."),
        CallsHandedOver(4.0, (HandedCall("call_r_0", "edit", BIG, "x"), HandedCall("call_r_1", "now", "{}", "y"))), DONE,
    ),
    "handed over behind a tool of ours": (
        START, ask(), called(("c1", "look", "{}"), ("y", "now", "{}")), start(), end(), CallsHandedOver(6.0, (HandedCall("call_r_0", "now", "", "y"),)), DONE,
    ),
    "an internal tool": (START, ask(), said("Hm.", 1), start("_tidy"), end("_tidy"), ask(2), said("Done.", 2), DONE),
    "the same id again": (START, ask(), _ONE, start(), end(), ask(2), _ONE, start(), end(), ask(3), _ONE, start(), end(), ask(4), said("Done.", 4), DONE),
    "an id that looks like another's": (START, ask(), start(call_id="c-2"), end(call_id="c-2"), start(call_id="c"), end(call_id="c"), ask(2), start(call_id="c"), end(call_id="c"), DONE),
    "side by side": (START, ask(), _ONE, start(call_id="a"), start(call_id="b"), ToolSaid(4.5, "a", "…"), end(call_id="b"), end(call_id="a"), ask(2), said("Both.", 2), DONE),
    "run again after a crash": (START, ask(), _ONE, start(), RunClaimed(6.0, 1), start(), end(), ask(2), said("Done.", 2), DONE),
    "unknown after a crash": (START, ask(), _ONE, start("shell"), RunClaimed(6.0, 1), end("shell", outcome=ToolOutcome("unknown", "Nobody knows.")), ask(2), said("Hm.", 2), DONE),
    "left and taken up": (START, ask(), burst(TextDelta(0, "So ")), RunLeft(5.0, "the server stops"), RunClaimed(6.0, 1), burst(RESET), decided(Continue("text")), ask(2, why="continue"), said("it goes.", 2), DONE),
    "stopped in a tool": (START, ask(), called(("c1", "shell", "{}"), text="I wait."), start("shell", command="sleep 99"), StopAsked(6.0), end("shell", outcome=ToolOutcome("killed", partial_output="z", seconds=2.0)), ended("cancelled", "stopped")),
    "stopped in text": (START, ask(), burst(TextDelta(0, "Once upon a")), StopAsked(6.0), burst(Cut(failure("cancelled", "stopped"))), decided(GiveUp("cancelled", "stopped")), ended("cancelled", "stopped")),
    "a tool without an end": (START, ask(), _ONE, start("shell"), ended("partial", "the disk is gone")),
    "a refusal in words": (START, ask(), burst(RefusalDelta(0, "I will "), RefusalDelta(0, "not."), BlockClosed(0), FinishNoted("refused", "refusal"), Ended("e")), decided(GiveUp("failed", "the model declined"), verdict="refused"), ended("failed", "the model declined")),
    "filtered": (START, ask(), burst(TextDelta(0, "It is"), FinishNoted("filtered", "content_filter"), Ended("e")), decided(GiveUp("partial", "a content filter stopped it"), verdict="filtered"), ended("partial", "a content filter stopped it")),
    "filtered at once": (START, ask(), burst(FinishNoted("filtered", "content_filter"), Ended("e")), decided(GiveUp("failed", "a content filter stopped it"), verdict="filtered"), ended("failed", "a content filter stopped it")),
    "filtered, and then no way": (START, ask(), burst(FinishNoted("filtered", "content_filter"), Ended("e")), decided(Fallback(OTHER.name), verdict="filtered"), ask(2, why="fallback", route=OTHER), burst(Cut(_NO_WAY), number=2), decided(GiveUp("failed", "no connection"), 2, failure=_NO_WAY), ended("failed", "no connection", _NO_WAY)),
    "stopped after a refusal": (START, ask(), burst(RefusalDelta(0, "I will not."), FinishNoted("refused", "refusal"), Ended("e")), StopAsked(6.0), decided(GiveUp("cancelled", "stopped"), verdict="refused"), ended("cancelled", "stopped")),
    "rate limited": (START, ask(), burst(Cut(_LIMITED)), decided(Retry(7.2), failure=_LIMITED), ask(2, why="retry"), burst(Cut(_LIMITED), number=2), decided(GiveUp("failed", "too many requests"), 2, failure=_LIMITED), ended("failed", "too many requests", _LIMITED)),
    "at the client's limit": (begin(max_output_tokens=3), ask(cap=3), capped(), decided(_LIMIT, verdict="cut_by_length"), ended("partial", _LIMIT.why)),
    "partial, JSON wanted": (begin(response_format={"type": "json_object"}), ask(), burst(TextDelta(0, '{"a":'), RESET), decided(GiveUp("partial", "3 tries in a row")), ended("partial", "3 tries in a row")),
    "partial with a draft": (START, ask(), burst(TextDelta(0, "I write."), RESET), decided(GiveUp("partial", "it was cut. "), notice="stream broke"), ended("partial", "it was cut.", drafts=(DraftId("d1"),))),
    "thoughts": (START, ask(), burst(ReasoningDelta(0, "One."), ReasoningDelta(0, " Two."), BlockClosed(0), ReasoningDelta(1, "Three."), BlockClosed(1), TextDelta(2, "A"), TextDelta(2, "B")), usage(7, 4), burst(FinishNoted("stop", "stop"), Ended("e")), DONE),
    "a thought before the rest": (
        START, ask(), burst(ReasoningDelta(0, "Hm."), BlockClosed(0), TextDelta(1, "It is all")), usage(10, 3), burst(RESET), decided(Continue("text")),
        ask(2, why="continue"), burst(ReasoningDelta(0, "Where was I?"), number=2), burst(BlockClosed(0), TextDelta(1, " done now."), number=2), usage(20, 4, 2), burst(FinishNoted("stop", "stop"), Ended("e"), number=2), DONE,
    ),
    "a thought that was cut": (START, ask(), burst(ReasoningDelta(0, "Hm")), burst(RESET), decided(Retry(0.5)), ask(2, why="retry"), burst(ReasoningDelta(0, "Hm hm."), number=2), said("Yes.", 2), DONE),
    "text, thought, text": (START, ask(), burst(TextDelta(0, "First."), BlockClosed(0), ReasoningDelta(1, "Hm."), BlockClosed(1), TextDelta(2, "Then."), FinishNoted("stop", "stop"), Ended("e")), DONE),
    "text in blocks": (START, ask(), burst(TextDelta(0, "The sky"), BlockClosed(0), TextDelta(1, " is blue"), BlockClosed(1), TextDelta(2, "."), FinishNoted("stop", "stop"), Ended("e")), DONE),
    "steered": (START, ask(), burst(TextDelta(0, "One.")), UserSpoke(3.5, "m2", (USER,)), burst(FinishNoted("stop", "stop"), Ended("e")), ask(2, why="steered"), burst(RESET, number=2), decided(Retry(0.5), 2), ask(3, why="retry"), said("Two.", 3), DONE),
    "a fresh start": (FRESH, ask(), burst(ReasoningDelta(0, "Hm."), BlockClosed(0), TextDelta(1, "Hello."), FinishNoted("stop", "stop"), Ended("e")), DONE),
    "paragraphs of its own": (START, ask(), said("I look.\n"), start(), end(), ask(2), said("\nDone.\n\n", 2), start(call_id="c2"), end(call_id="c2"), ask(3), said("Bye.", 3), DONE),
    "text and a refusal": (START, ask(), burst(TextDelta(0, "Well."), RefusalDelta(1, "I will "), RefusalDelta(1, "not."), FinishNoted("refused", "refusal"), Ended("e")), decided(GiveUp("failed", "the model declined"), verdict="refused"), ended("failed", "the model declined")),
    "refusals around a tool": (START, ask(), burst(RefusalDelta(0, "I will not."), Ended("e")), start(), end(), ask(2, why="after_tools"), burst(RefusalDelta(0, "Still not."), FinishNoted("refused", "refusal"), Ended("e"), number=2), decided(GiveUp("failed", "the model declined"), 2, verdict="refused"), ended("failed", "the model declined")),
    "messages of a Responses provider": (START, ModelAsked(2.0, 1, MAIN.name, "openai_responses", "m", "first"), burst(TextDelta(0, "I look."), BlockClosed(0), TextDelta(1, "Done."), FinishNoted("stop", "stop"), Ended("e")), DONE),
    "line ends that come one by one": (START, ask(), burst(TextDelta(0, "I look."), TextDelta(0, "\n")), start(), end(), ask(2, why="after_tools"), burst(TextDelta(0, "\n"), number=2), said("Done.", 2), DONE),
    "left, taken up, then killed": (START, ask(), burst(TextDelta(0, "So ")), RunLeft(5.0, "the server stops"), RunClaimed(6.0, 1), burst(RESET), decided(Continue("text")), ask(2, why="continue"), RunClaimed(7.0, 2), burst(RESET, number=2), decided(Retry(0.5), 2), ask(3, why="retry"), said("it goes.", 3), DONE),
}  # fmt: skip
assert MAIN.protocol == "openai_chat"


@cache
def simulated(name, fault=NOTHING, protocol="openai_chat"):
    """A task of the simulated world, from its first fact to its end."""
    return asyncio.run(_items_of(name, fault, protocol))


async def _items_of(name, fault=NOTHING, protocol="openai_chat"):
    return tuple((await RunWorld(TASK[name], fault, protocol=protocol).play()).items)


def simulated_with_faults(name, ends=("reset",)):
    """The same task once for each single fault. A world goes the same way each time, so it is played once for all
    surfaces that tell it, whichever worker they are in."""
    kept = Path(os.environ["TEST_WORLDS"]) / f"{'-'.join((name, *ends))}.pickle"
    if not kept.exists():
        played = asyncio.run(_every_fault(name, ends))
        written = kept.with_suffix(f".{os.getpid()}")
        written.write_bytes(pickle.dumps(played))
        written.replace(kept)
    yield from pickle.loads(kept.read_bytes())


def stories_with_faults(name):
    """The same worlds by their stories: each with all faults that lead to it. About every third fault leads to the
    story of another one, and then there is nothing new to be told."""
    faults: dict[tuple[Item, ...], list[Fault]] = {}
    for fault, run in simulated_with_faults(name):
        faults.setdefault(run, []).append(fault)
    return faults.items()


async def _every_fault(name, ends):
    """All in one loop: a loop for each costs a tenth of what is played in it."""
    story = await RunWorld(TASK[name]).play()
    return [(fault, await _items_of(name, fault)) for fault in (NOTHING, *faults_of(story, ends))]


@cache
def run_named(name):
    if name in BY_HAND:
        return tuple(items(*BY_HAND[name]))
    kept = RECORDED / f"{name}.jsonl"
    if kept.is_file():
        return tuple(Item(number, line) for number, line in enumerate(kept.read_bytes().splitlines(), 1))
    return simulated(name)


ALL = (*sorted(path.stem for path in RECORDED.iterdir()), *BY_HAND, *TASK)
BROKEN = (
    "one tool",
    "a long answer",
    "a draft, finished at once",
    "a thought and an answer",
    "the same ids in each round",
    "a flag and a command",
    "too many requests",
)


# Reading what was written


def whole(dialect, run):
    """All bytes of a run that is read from its start, in one piece."""
    return dialect.open() + dialect.take(run)


def one_by_one(dialect, run):
    return dialect.open() + b"".join([dialect.take([item]) for item in run])


def frames(data):
    """(name, JSON) of each frame; the mark at the end of a chat stream is None."""
    read = SseDecoder().feed(data)
    return [
        (name.decode(), None if body == b"[DONE]" else msgspec.json.decode(body))
        for name, body in read
        if body is not None
    ]


def shown(facts, kind=TextDelta):
    """All words of a kind that the model said."""
    return "".join(
        event.text
        for fact in facts
        if isinstance(fact, Streamed)
        for event in fact.events
        if isinstance(event, kind)
    )


def notices_of(facts):
    """The quiet lines that a run has, in order."""
    lines, left = [], False
    for fact in facts:
        if isinstance(fact, RunStarted | Decided | Noticed):
            lines += [fact.notice] if fact.notice else []
        elif isinstance(fact, StopAsked):
            lines.append("stopping")
        elif isinstance(fact, RunLeft):
            left = True
            lines.append(f"Suspended: {fact.why}. It can be resumed.")
        elif isinstance(fact, RunClaimed):
            lines.append(f"resumed after {'a restart' if left else 'its process died'}")
            left = False
    return lines


def tools_started(facts):
    """(id, name) of each call that began and is for readers, in order. One that runs again is the same call."""
    found, running = [], set()
    for fact in facts:
        if isinstance(fact, ToolStarted) and fact.call_id not in running and not fact.name.startswith("_"):
            found.append((fact.call_id, fact.name))
            running.add(fact.call_id)
        elif isinstance(fact, ToolFinished):
            running.discard(fact.call_id)
    return found

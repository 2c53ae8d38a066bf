"""Facts for tests of the turn, and the fold that takes them in."""

from turnbuckle.turn.commands import Record
from turnbuckle.turn.facts import (
    ModelAsked,
    RunStarted,
    Streamed,
    decode,
    encode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.vocab.events import (
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    Event,
    FinishNoted,
    TextDelta,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart

USER = Message("user", (TextPart("Do it."),))
START = RunStarted(1.0, RunId("r"), SessionId("s"), (USER,))
MAIN = RouteFacts(RouteName("main"), "openai_chat", "m", cap=100, cap_most=900, effort="high")
OTHER = RouteFacts(RouteName("other"), "anthropic", "n", cap=50)
TOOLS = {
    "look": ToolFacts("read"),
    "write_file": ToolFacts("write", draftable="content"),
    "shell": ToolFacts("write"),
}
POLICY = Policy((MAIN,), TOOLS)
TWO = Policy((MAIN, OTHER), TOOLS)
RESET = Cut(failure("reset", "gone"))


def ask(number=1, at=2.0, why="first", route=MAIN, **more):
    return ModelAsked(at, number, route.name, route.protocol, route.model, why, **more)


def burst(*events, number=1, at=3.0):
    return Streamed(at, number, events)


def said(text, number=1):
    return burst(TextDelta(0, text), FinishNoted("stop", "stop"), Ended("end"), number=number)


def called(*calls, number=1, text=""):
    events: list[Event] = [TextDelta(0, text)] if text else []
    for block, (call_id, name, arguments) in enumerate(calls, 1):
        events += [CallStarted(block, call_id, name), CallArgs(block, arguments), CallClosed(block)]
    return burst(*events, FinishNoted("calls", "tool_calls"), Ended("end"), number=number)


def after(*facts, policy=POLICY):
    fold = TurnFold(policy)
    for fact in facts:
        fold.take(decode(encode(fact)))
    return fold


def recorded(fold):
    """Take in what is due, as the driver would, until something must be done outside."""
    while due := fold.due():
        if not isinstance(due[0], Record):
            return due
        for fact in due[0].facts:
            fold.take(fact)
    return ()

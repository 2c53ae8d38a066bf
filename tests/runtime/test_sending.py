"""The requests of a long run, as they are sent: each begins with the one before, whoever sends it."""

import json

import pytest
from support.turns.turn_facts import MAIN, OTHER, START, TOOLS, after, burst, called, recorded, said

from turnbuckle.runtime.sending import Sending, is_paused
from turnbuckle.turn.commands import CallModel
from turnbuckle.turn.facts import ModelAsked, RunStarted, ToolFinished, UserSpoke
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.events import Cut, Ended, FinishNoted, ReasoningDelta, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome
from turnbuckle.wire.registry import PROTOCOLS

OWN = tuple(ToolSpec(name) for name in ("look", "write_file", "shell", FINISH_CALL))
RESET = Cut(failure("reset", "gone"))
REFUSED = Cut(failure("pairing", "bound to a different conversation"))


class Run:
    """A run whose requests are built as the driver does it, by one process and by one that has just come back."""

    def __init__(self, protocol: ProtocolName, *routes) -> None:
        self.protocol: ProtocolName = protocol
        self.policy = Policy(routes or (MAIN,), TOOLS)
        self.fold = after(START, policy=self.policy)
        self.sending = Sending()
        self.sent: dict[str, list[str]] = {}
        self.number = 0

    def ask(self) -> None:
        """Send what is due, and hold it against what the same route was sent before."""
        (due,) = recorded(self.fold)
        assert isinstance(due, CallModel)
        self.number += 1
        route = self.policy.route(due.ask.route)
        protocol = self.protocol if route.name == MAIN.name else route.protocol
        asked = ModelAsked(
            2.0,
            self.number,
            route.name,
            protocol,
            route.model,
            due.ask.why,
            due.ask.notes,
            due.ask.stream,
            due.ask.cap,
        )
        self.fold.take(asked)
        one, other = (
            PROTOCOLS[protocol].build(sender.request(self.fold.turn, asked, self.policy, OWN), Quirks())
            for sender in (self.sending, Sending())
        )
        assert one == other, "a process that comes back sends the same"
        self.before = self.sent.get(route.name, [])
        self.now = [json.dumps(item, sort_keys=True) for item in _items(one)]
        self.sent[route.name] = self.now

    def hear(self, *events) -> None:
        self.fold.take(burst(*events, number=self.number))

    def calls(self, *calls, text: str = "") -> None:
        self.fold.take(called(*calls, number=self.number, text=text))
        recorded(self.fold)
        for call in self.fold.turn.calls:
            self.fold.take(ToolFinished(4.0, call.id, call.name, ToolOutcome("finished", "fine")))

    @property
    def grows(self) -> bool:
        return self.now[: len(self.before)] == self.before


def _items(body):
    """What the model is told, without the marks for a host's cache: those say nothing."""
    items = body.get("messages") or body.get("input") or body["contents"]
    flat = []
    for item in items:
        content = item.get("content")
        pieces = content if isinstance(content, list) else [content]
        flat += [{**item, "content": _unmarked(piece)} for piece in pieces]
    return flat


def _unmarked(piece):
    return (
        {name: value for name, value in piece.items() if name != "cache_control"}
        if isinstance(piece, dict)
        else piece
    )


@pytest.mark.requirement("C5", "C11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_each_request_of_a_long_run_begins_with_the_one_before(protocol: ProtocolName):
    run = Run(protocol)
    run.ask()
    run.calls(("x", "look", "{}"), ("x", "look", '{"a":1}'), text="I look.")
    run.ask()
    assert run.grows
    run.calls(("x", "functions.look", "{}"), ("x_1", "no such tool", "{}"))
    run.ask()
    assert run.grows
    run.hear(ReasoningDelta(0, "Hm."), TextDelta(1, "The answer"), RESET)
    run.ask()
    assert run.grows
    run.hear(TextDelta(0, " is this"), RESET)
    run.ask()
    assert run.grows
    run.calls(("x_1", "look", "{}"), text=" one.")
    run.fold.take(UserSpoke(5.0, "m", (Message("user", (TextPart("Hurry."),)),)))
    run.ask()
    assert run.grows
    assert "Hurry." in run.now[-1]
    run.calls(("", "look", "{}"), ("", "shell", "{}"))
    run.ask()
    assert run.grows
    assert len(run.now) >= 14


@pytest.mark.requirement("C5", "B10")
def test_a_route_that_is_come_back_to_finds_what_it_was_sent():
    run = Run("openai_responses", MAIN, OTHER)
    run.ask()
    run.calls(("x", "look", "{}"))
    run.ask()
    assert run.grows
    run.hear(Cut(failure("server", "down")))
    while True:
        run.ask()
        if run.fold.turn.ask is not None and run.fold.turn.ask.route == OTHER.name:
            break
        run.hear(Cut(failure("server", "down")))
    run.calls(("x", "look", "{}"))
    run.ask()
    assert run.grows


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_history_that_was_retold_grows_from_its_telling(protocol: ProtocolName):
    run = Run(protocol)
    run.ask()
    run.calls(("x", "look", "{}"))
    run.ask()
    run.hear(REFUSED)
    run.ask()
    assert not run.grows
    assert not any("tool_call" in item or "tool_use" in item or "function_call" in item for item in run.now)
    run.calls(("y", "look", "{}"))
    run.ask()
    assert run.grows


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_history_that_ends_with_the_assistant_is_not_an_opening_to_go_on_from(protocol: ProtocolName):
    """A client may send one. The model is asked to continue, and the next request begins with that, too."""
    run = Run(protocol)
    told = (*START.messages, Message("assistant", (TextPart("The answer is"),)))
    run.fold = after(RunStarted(1.0, RunId("r"), SessionId("s"), told), policy=run.policy)
    run.ask()
    assert "Continue." in run.now[-1]
    assert '"role": "user"' in run.now[-1]
    run.calls(("x", "look", "{}"))
    run.ask()
    assert run.grows


@pytest.mark.requirement("C5")
def test_only_a_provider_that_paused_gets_its_own_words_back_as_the_last():
    run = Run("anthropic", OTHER)
    run.ask()
    run.hear(TextDelta(0, "I search."), FinishNoted("paused", "pause_turn"), Ended("message_stop"))
    run.ask()
    assert is_paused(run.fold.turn)
    assert '"role": "assistant"' in run.now[-1]
    run.fold.take(said("Done.", run.number))
    assert not is_paused(run.fold.turn)

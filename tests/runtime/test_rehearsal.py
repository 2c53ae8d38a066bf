"""The rehearsal model says what it is, does simple things, and breaks when it is asked to."""

import asyncio
from typing import Any

import msgspec
import pytest

from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.draft import Draft
from turnbuckle.reply.verdict import verdict
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn import prompts
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.request import ModelRequest, ToolSpec

TOOLS = tuple(ToolSpec(name) for name in ("write_file", "read_file", "list_files", "shell", "finish_call"))


def _user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def _reply(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS) -> Reply:
    async def collect() -> list[Event]:
        bursts = Rehearsal(clock.sleep).attempt(
            RouteName("r"), ModelRequest("m", messages, tools), asyncio.Event()
        )
        return [event async for events in bursts for event in events]

    clock = VirtualClock()
    return fold(clock.run(collect))


@pytest.mark.parametrize(
    ("task", "tool", "arguments"),
    [
        (
            "write a.txt",
            "write_file",
            {"path": "a.txt", "content": "line 1 of 1, written by the rehearsal model\n"},
        ),
        ("Please write the file b/c.md.", "write_file", {"path": "b/c.md"}),
        ("read a.txt", "read_file", {"path": "a.txt"}),
        ("list the files", "list_files", {}),
        ("run `make test`", "shell", {"command": "make test"}),
    ],
)
def test_simple_requests_become_calls(task: str, tool: str, arguments: dict[str, Any]) -> None:
    reply = _reply(_user(task))
    found = verdict(reply)
    assert reply.text.startswith("I am the rehearsal model: a script")
    assert (found.kind, [call.name for call in found.calls]) == ("complete", [tool])
    assert found.calls[0].arguments.items() >= arguments.items()


def test_what_it_does_not_understand_it_answers_with_what_it_does() -> None:
    reply = _reply(_user("make me a sandwich"))
    assert verdict(reply).kind == "complete"
    assert not reply.calls
    assert "`write FILE`" in reply.text


def test_what_a_coding_agent_adds_to_the_words_of_its_user_does_not_hide_them() -> None:
    reminder = TextPart("<system-reminder>\nToday is Tuesday. Answer briefly.\n</system-reminder>\n")
    for parts in ((reminder, TextPart("say hi")), (TextPart("say hi"), reminder)):
        assert _reply(Message("user", parts)).text.endswith("language model. hi\n")


WEATHER = ToolSpec(
    "get_weather",
    "The weather at a place.",
    {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"enum": ["celsius"]},
            "note": {"type": "string"},
        },
        "required": ["location", "days", "unit"],
    },
)


def test_words_that_are_in_the_name_of_a_tool_that_somebody_brought_call_it() -> None:
    task = _user("What's the weather like in San Francisco?")
    (call,) = verdict(_reply(task, tools=(*TOOLS, WEATHER))).calls
    assert (call.name, call.arguments) == (
        "get_weather",
        {"location": "San Francisco", "days": 1, "unit": "celsius"},
    )
    made = Message("assistant", (CallPart("c", "get_weather", "{}"),))
    told = Message("tool", (ResultPart("c", (TextPart("sunny"),)),))
    assert _reply(task, made, told, tools=(*TOOLS, WEATHER)).text.startswith("Done. The tool says:\nsunny")


@pytest.mark.parametrize("task", ["What do these files say?", "help", "say weather"])
def test_a_command_or_talk_of_the_servers_own_tools_calls_nothing_by_its_name(task: str) -> None:
    assert not _reply(_user(task), tools=(*TOOLS, WEATHER)).calls


def test_a_tool_that_is_not_enabled_is_not_called() -> None:
    reply = _reply(_user("run ls"), tools=TOOLS[:1])
    assert not reply.calls
    assert "not enabled" in reply.text


@pytest.mark.parametrize(
    ("failed", "words"), [(False, "Done. The tool says:\nfine"), (True, "That did not work.")]
)
def test_a_result_is_told_and_the_turn_ends(failed: bool, words: str) -> None:
    call = Message("assistant", (CallPart("c", "shell", "{}"),))
    result = Message("tool", (ResultPart("c", (TextPart("fine"),), failed),))
    reply = _reply(_user("run ls"), call, result)
    assert reply.text.startswith(words)
    assert not reply.calls


@pytest.mark.parametrize(("word", "kind"), [("cut", "reset"), ("stall", "stalled")])
def test_it_breaks_in_a_call_when_it_is_asked_to_and_finishes_the_draft(word: str, kind: str) -> None:
    task = _user(f"write a.txt with 40 lines and {word}")
    broken = _reply(task)
    assert isinstance(broken.last, Cut)
    assert broken.last.failure.kind == kind
    whole = _reply(_user("write a.txt with 40 lines")).calls[0].arguments
    assert whole.startswith(broken.calls[0].arguments)
    content: str = msgspec.json.decode(whole)["content"]
    arrived: str = msgspec.json.decode(broken.calls[0].arguments + '"}')["content"]
    size = len(arrived)
    draft = Draft(DraftId("d1"), "write_file", "content", arrived, {"path": "a.txt"})
    finished = _reply(task, prompts.finish_draft(draft, 1))
    (call,) = verdict(finished).calls
    assert call.name == "finish_call"
    assert call.arguments == {"draft": "d1", "after": content[size - 60 : size], "rest": content[size:]}


def test_it_goes_on_behind_what_it_has_said() -> None:
    whole = _reply(_user("hello")).text
    said = Message("assistant", (TextPart(whole[:40]),), partial=True)
    assert _reply(_user("hello"), said, prompts.note(prompts.TEXT)).text == whole[40:]


def test_a_stop_ends_the_silence_of_a_stall_at_once() -> None:
    clock = VirtualClock()

    async def main() -> tuple[list[Event], float]:
        stop = asyncio.Event()
        events = []
        request = ModelRequest("m", (_user("write a.txt with 90 lines and stall"),), TOOLS)
        stopping = asyncio.create_task(_set_after(clock, stop, 0.5))
        async for batch in Rehearsal(clock.sleep).attempt(RouteName("r"), request, stop):
            events += batch
        await stopping
        return events, clock.now()

    events, seconds = clock.run(main)
    last = events[-1]
    assert isinstance(last, Cut)
    assert (last.failure.kind, seconds) == ("cancelled", 0.5)


async def _set_after(clock: VirtualClock, stop: asyncio.Event, seconds: float) -> None:
    await clock.sleep(seconds)
    stop.set()


def test_an_output_cap_is_kept_and_told() -> None:
    async def collect() -> list[Event]:
        request = ModelRequest("m", (_user("tell a story with 90 lines"),), TOOLS, max_output_tokens=50)
        bursts = Rehearsal(clock.sleep).attempt(RouteName("r"), request, asyncio.Event())
        return [event async for events in bursts for event in events]

    clock = VirtualClock()
    reply = fold(clock.run(collect))
    assert len(reply.text) == 200
    assert verdict(reply).kind == "cut_by_length"


def test_a_caller_that_wants_no_call_gets_none() -> None:
    async def collect() -> list[Event]:
        request = ModelRequest("m", (_user("list"),), TOOLS, tool_choice="none")
        bursts = Rehearsal(clock.sleep).attempt(RouteName("r"), request, asyncio.Event())
        return [event async for events in bursts for event in events]

    clock = VirtualClock()
    assert not fold(clock.run(collect)).calls


def test_requests_that_were_turned_away_and_never_come_back_are_forgotten() -> None:
    rehearsal = Rehearsal()

    async def ask(number: int) -> list[Event]:
        request = ModelRequest("m", (_user(f"say {number} and be busy"),), TOOLS)
        bursts = rehearsal.attempt(RouteName("r"), request, asyncio.Event())
        return [event async for events in bursts for event in events]

    async def main() -> list[type]:
        for number in range(300):
            await ask(number)
        return [type((await ask(number))[-1]) for number in (299, 0)]

    assert asyncio.run(main()) == [
        Ended,
        Cut,
    ]  # the latest comes again and is let in, the first is unknown by now

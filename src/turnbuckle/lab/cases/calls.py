"""Tool calls: whole, odd, and cut."""

from typing import Any

from turnbuckle.lab.script import (
    Call,
    Case,
    CutOff,
    Finish,
    Frame,
    KillAfter,
    More,
    Raw,
    Say,
    Script,
    ScriptItem,
    Stall,
    Status,
    When,
    chat_chunk,
)

_DONE = Raw("data: [DONE]\n\n")
_SUNNY: Script = (Say("It is sunny in Oslo and it rains in Bergen."), Finish())
_OSLO = {"city": "Oslo"}
_BERGEN = {"city": "Bergen"}
_CITIES = ("Oslo", "Bergen", "Bodo")
_BOTH: Script = (Call("get_weather", _OSLO), Call("get_weather", _BERGEN), Finish())
_FILE = "".join(
    f"line {number:04}: each turn of the screw takes up a little more slack\n" for number in range(280)
)


def _fragment(arguments: str, name: str = "", **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {**fields, "function": function}


def _calls(*fragments: dict[str, Any], finish: str | None = None) -> Frame:
    return chat_chunk({"tool_calls": list(fragments)}, finish)


def _case(name: str, summary: str, *steps: ScriptItem, scenarios: tuple[str, ...] = ()) -> Case:
    return Case(name, summary, (steps,), after_tools=_SUNNY, scenarios=scenarios)


def _chat_only(name: str, summary: str, *frames: ScriptItem, scenarios: tuple[str, ...]) -> Case:
    """A quirk that only Chat Completions streams can have; elsewhere the same calls come by the book."""
    return _case_of(name, summary, frames, _BOTH, scenarios)


def _case_of(
    name: str, summary: str, frames: Script, by_the_book: Script, scenarios: tuple[str, ...]
) -> Case:
    return _case(
        name, summary, When("openai_chat streaming", (*frames, _DONE), by_the_book), scenarios=scenarios
    )


_OSLO_TEXT = '{"city":"Oslo"}'
_TOLD_AGAIN = Frame(
    {
        "id": "lab",
        "object": "chat.completion",
        "created": 0,
        "model": "lab",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "tool_calls": [_fragment(_OSLO_TEXT, "get_weather", id="call_z", type="function")],
                },
            }
        ],
    }
)


def _item(number: str) -> dict[str, Any]:
    made = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
    return {**made, "name": "get_weather", "arguments": _OSLO_TEXT}


def _other_ids() -> Script:
    """A call that is announced, done and told in the terminal response, each time under other ids."""
    begun = {**_item("a"), "status": "in_progress", "arguments": ""}
    grown = {"item_id": "fc_a", "output_index": 0, "delta": _OSLO_TEXT}
    response = {
        "id": "lab",
        "object": "response",
        "status": "completed",
        "model": "lab",
        "output": [_item("c")],
    }
    told: tuple[tuple[str, dict[str, Any]], ...] = (
        ("response.output_item.added", {"output_index": 0, "item": begun}),
        ("response.function_call_arguments.delta", grown),
        ("response.output_item.done", {"output_index": 0, "item": _item("b")}),
        ("response.completed", {"response": response}),
    )
    return tuple(Frame({"type": kind, **event}, kind) for kind, event in told)


def _city(name: str, **fields: Any) -> Frame:
    return _calls(_fragment(f'{{"city":"{name}"}}', "get_weather", **fields))


CALLS: tuple[Case, ...] = (
    _case("tool", "calls get_weather, then answers from its result", Call("get_weather", _OSLO), Finish()),
    _case(
        "text-then-tool",
        "says a sentence, then calls",
        Say("Let me look."),
        Call("get_weather", _OSLO),
        Finish(),
    ),
    _case("parallel-tools", "two calls in one reply", *_BOTH),
    _case(
        "tool-without-arguments", "a call whose arguments are not text at all", Call("get_time", ""), Finish()
    ),
    _chat_only(
        "same-index",
        "two calls on index 0, with different ids",
        _calls(_fragment('{"city":"Oslo"}', "get_weather", index=0, id="call_a", type="function")),
        _calls(_fragment('{"city":"Bergen"}', "get_weather", index=0, id="call_b", type="function")),
        chat_chunk({}, "tool_calls"),
        scenarios=("T6",),
    ),
    _case_of(
        "three-on-one-index",
        "three calls on index 0, with different ids",
        (
            *(_city(name, index=0, id=f"call_{name}", type="function") for name in _CITIES),
            chat_chunk({}, "tool_calls"),
        ),
        (*(Call("get_weather", {"city": name}) for name in _CITIES), Finish()),
        scenarios=("T6",),
    ),
    _chat_only(
        "interleaved-without-ids",
        "two calls mixed, told apart only by index",
        _calls(_fragment("", "get_weather", index=0), _fragment("", "get_weather", index=1)),
        _calls(_fragment('{"city":', index=0)),
        _calls(_fragment('{"city":"Ber', index=1)),
        _calls(_fragment('"Oslo"}', index=0)),
        _calls(_fragment('gen"}', index=1)),
        chat_chunk({}, "tool_calls"),
        scenarios=("T7",),
    ),
    _chat_only(
        "whole-calls-without-index",
        "two whole calls of one name, without an index",
        _calls(_fragment('{"city":"Oslo"}', "get_weather", id="call_a", type="function")),
        _calls(_fragment('{"city":"Bergen"}', "get_weather", id="call_b", type="function")),
        chat_chunk({}, "tool_calls"),
        scenarios=("T9",),
    ),
    _chat_only(
        "calls-in-finish-chunk",
        "two calls in the chunk that says finish",
        _calls(
            _fragment('{"city":"Oslo"}', "get_weather", index=0, id="call_a", type="function"),
            _fragment('{"city":"Bergen"}', "get_weather", index=1, id="call_b", type="function"),
            finish="tool_calls",
        ),
        scenarios=("T11",),
    ),
    _case(
        "same-object-twice",
        "a call's arguments, twice in one string",
        Call("get_weather", _OSLO_TEXT * 2),
        Finish(),
    ),
    _case(
        "empty-object-first",
        "an empty object before a call's real one",
        Call("get_weather", "{}" + _OSLO_TEXT),
        Finish(),
    ),
    _case_of(
        "whole-message-last",
        "text and call, then the whole message again",
        (
            chat_chunk({"role": "assistant", "content": "Let me look."}),
            _calls(_fragment(_OSLO_TEXT, "get_weather", index=0, id="call_a", type="function")),
            _TOLD_AGAIN,
        ),
        (Say("Let me look."), Call("get_weather", _OSLO), Finish()),
        scenarios=(),
    ),
    _case(
        "other-ids-at-the-end",
        "a call that is told again under other ids",
        When("openai_responses streaming", _other_ids(), (Call("get_weather", _OSLO), Finish())),
    ),
    _case(
        "bare-done-behind-a-call",
        "a whole call, then [DONE] without a reason",
        Call("get_weather", _OSLO),
        When("openai_chat streaming", (_DONE,)),
        CutOff("tidy"),
    ),
    _case(
        "cut-in-arguments",
        "the connection is reset inside a call's arguments",
        Say("I will write the file. "),
        Call("write_file", '{"path":"notes.md","content":"# Notes\\nThe first li', closed=False),
        CutOff("reset"),
        scenarios=("T1", "L1"),
    ),
    Case(
        "cut-in-shell",
        "cut inside a command that would do harm if run",
        (
            (Call("shell", '{"command":"rm -rf notes', 0, closed=False), CutOff("reset")),
            (Say("I leave it."), Finish()),
        ),
        scenarios=("T4",),
    ),
    Case(
        "cut-in-edit",
        "cut inside the new text of an edit",
        (
            (
                Call("edit_file", '{"path":"notes.md","old":"keep","new":"lo', 0, closed=False),
                CutOff("reset"),
            ),
            (Say("I leave it."), Finish()),
        ),
        scenarios=("T4",),
    ),
    Case(
        "tool-then-fails",
        "calls a tool; then 500 for its result",
        ((Call("get_weather", _OSLO), Finish()),),
        after_tools=(Status(500),),
        scenarios=("L6",),
    ),
    _case(
        "broken-arguments",
        "a finished call whose arguments are not JSON",
        Call("get_weather", '{"city": Oslo,,}'),
        Finish(),
    ),
    _case(
        "stalls-in-arguments",
        "300 silent seconds inside a call, then the rest",
        Call("write_file", '{"path":"notes.md","content":"# No', closed=False),
        Stall(300),
        More('tes\\n"}'),
        Finish(),
        scenarios=("P6",),
    ),
    Case(
        "long-write-killed-every-4000",
        "18 kB to write; reset after 4,000 characters each",
        (
            (
                KillAfter(arguments=4000),
                Call("write_file", {"path": "long.txt", "content": _FILE}, 40),
                Finish(),
            ),
        ),
        after_tools=(Say("The file is written."), Finish()),
        scenarios=("T2",),
    ),
    Case(
        "same-call-for-ever",
        "makes the same call again whatever its result",
        ((Call("get_weather", _OSLO), Finish()),),
        scenarios=("T23",),
    ),
)

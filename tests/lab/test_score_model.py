"""The scorecard's model is sane: it goes on where it was, and makes smaller calls when asked to."""

import json
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.server import live_server

from turnbuckle.lab.score.model import PlayState, broken, goes_on, half, shown_before, writes_much
from turnbuckle.lab.score.player import new_score_provider
from turnbuckle.lab.score.score_provider import Play
from turnbuckle.lab.score.tale import NOTE, TALE, WRITTEN
from turnbuckle.lab.script import Call, CutOff, LabRequest, Say
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.registry import PROTOCOLS

S = {"type": "string"}
WRITE = ("write_file", {"path": S, "content": S})
APPEND = ("append_file", {"path": S, "content": S})
SHELL = ("shell", {"command": S})


def scenario(messages: list[dict[str, Any]], number: int = 1, tools=(), path: str = "a.txt") -> PlayState:
    offered = [
        {
            "type": "function",
            "function": {"name": name, "parameters": {"properties": given, "required": list(given)}},
        }
        for name, given in tools
    ]
    return PlayState(
        LabRequest("openai_chat", body={"messages": messages, "tools": offered}), number, (path,), "mark", 0.0
    )


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("form", ["{}", "You said: {}", "<partial>{}</partial>", "{}\n"])
@pytest.mark.parametrize("size", [16, 17, 100, 318, len(TALE)])
def test_it_knows_its_own_words_again_in_any_form(form: str, size: int):
    assert shown_before(form.format(TALE[:size]), TALE) == size


def test_it_begins_anew_when_it_is_shown_nothing_of_its_own():
    assert shown_before("Please do what you have to do.", TALE) == 0
    assert shown_before(TALE[:15], TALE) == 0
    assert goes_on(scenario([user("go")]))[0] == Say(TALE)


def test_it_breaks_as_often_as_it_is_told_to():
    model = broken(half(CutOff("fin")))
    assert model(scenario([user("go")], 1))[-1] == CutOff("fin")
    assert model(scenario([user("go"), {"role": "assistant", "content": TALE[:318]}], 2))[0] == Say(
        TALE[318:]
    )


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_it_sees_all_that_was_said_and_called_in_every_protocol(protocol):
    call = CallPart("c1", "write_file", json.dumps({"path": "a.txt", "content": "under the keel"}))
    history = (
        Message("user", (TextPart("go"),)),
        Message("assistant", (call,)),
        Message("tool", (ResultPart("c1", (TextPart("14 bytes"),)),)),
        Message("assistant", (TextPart(TALE[:318]),)),
        Message("user", (TextPart("Make smaller calls."),)),
    )
    body = protocol.build(ModelRequest("m", history), Quirks())
    seen = PlayState(LabRequest(protocol.name, body=body), 2, (), "", 0.0)
    assert goes_on(seen)[0] == Say(TALE[318:])
    places = [seen.history.index(words) for words in ("under the keel", "14 bytes", TALE[:318], "smaller")]
    assert places == sorted(places)


@pytest.mark.parametrize("more", [APPEND, SHELL])
def test_asked_for_less_it_writes_a_piece_and_appends_the_others(more, tmp_path: Path):
    path = tmp_path / "a.txt"
    messages = [user("go"), user("Your call was truncated. Make smaller calls.")]
    for number in range(2, 20):
        step = next(
            step
            for step in writes_much(scenario(messages, number, (WRITE, more), str(path)))
            if isinstance(step, Call | Say)
        )
        if isinstance(step, Say):
            break
        assert len(step.arguments) < 4_000, "it gets through"
        given = json.loads(step.arguments)
        if step.name == "shell":
            subprocess.run(given["command"], shell=True, check=True)
        else:
            with path.open("a" if step.name == "append_file" else "w") as file:
                file.write(given["content"])
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": step.name, "arguments": step.arguments},
        }
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "done"},
        ]
    assert step == Say(WRITTEN)
    assert path.read_text() == NOTE


def test_without_a_way_to_append_it_can_only_do_the_same_again():
    step = writes_much(scenario([user("go"), user("Make smaller calls.")], 2, (WRITE,)))[1]
    assert json.loads(step.arguments)["content"] == NOTE


def test_a_request_of_an_earlier_play_counts_for_nobody():
    async def main() -> tuple[int, int]:
        old, new = (Play(f"play-0123456789ab-{number}", goes_on, (), "", 0.0) for number in (1, 2))
        async with new_score_provider("127.0.0.1", 0) as provider, aiohttp.ClientSession() as client:
            provider.begin(new)
            for word in (old.word, new.word, "no word at all"):
                async with client.post(
                    f"{provider.url}/chat/completions", json={"messages": [user(word)]}
                ) as answer:
                    await answer.read()
        return old.asked, new.asked

    assert live_server.run(main()) == (0, 2)

"""Answers in a wanted form: one document that fits, or the turn says that it is not."""

import asyncio
import json
from typing import Any

import pytest

from turnbuckle.lab.script import Finish, Say
from turnbuckle.testing.world.faults import CutReply
from turnbuckle.testing.world.invariants import check_run
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.prompts import joint_of
from turnbuckle.turn.structured import fault_in
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.request import RunOptions

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA, "strict": True}}
WHOLE = json.dumps({"city": "Kiel by the sea, where the wind blows", "degrees": list(range(40))})


@pytest.mark.requirement("C10")
@pytest.mark.parametrize(
    "text, wanted, words",
    [
        (WHOLE, FORM, ""),
        (f" {WHOLE}\n", FORM, ""),
        (WHOLE + WHOLE, FORM, "cannot be read"),
        (WHOLE[:-5], FORM, "cannot be read"),
        (f"```json\n{WHOLE}\n```", FORM, "cannot be read"),
        ('{"city": 7, "degrees": []}', FORM, "city"),
        ("{}", FORM, "city"),
        ("", FORM, "cannot be read"),
        ("{}", {"type": "json_object"}, ""),
        ("[]", {"type": "json_object"}, "not an object"),
        ("7", {"type": "json_schema", "json_schema": {"name": "any"}}, ""),
        ("7", {"type": "json_schema", "json_schema": {"name": "odd", "schema": {"type": "nonsense"}}}, ""),
        ("7", {"type": "json_schema", "json_schema": {"schema": {"$ref": "https://127.0.0.1/x"}}}, ""),
        ("anything", None, ""),
    ],
)
def test_an_answer_is_one_document_of_the_wanted_form(
    text: str, wanted: dict[str, Any] | None, words: str
) -> None:
    found = fault_in(text, wanted)
    assert words in found
    assert bool(found) == bool(words)


def goes_on(request: Any, number: int) -> list[Any]:
    """Constrained, it writes a whole document; else it goes on as it is asked to."""
    said = "".join(text_of(message.parts) for message in request.messages if message.role == "assistant")
    if request.response_format is not None or not said:
        return [Say(WHOLE, 9), Finish()]
    return [Say((joint_of(request.messages[-1:]).anchor or "") + WHOLE[len(said) :], 9), Finish()]


def begins_anew(request: Any, number: int) -> list[Any]:
    return [Say(WHOLE, 9), Finish()]


def play(brain: Any, protocol: ProtocolName, after: int, end: str) -> Any:
    task = Task("a form", (brain,), options=RunOptions(response_format=FORM))
    story = asyncio.run(RunWorld(task, CutReply(0, after, end), protocol=protocol).play())
    assert check_run(story) == ()
    return story


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("after", range(1, 18, 3))
def test_a_cut_document_is_gone_on_with_without_the_constraint(protocol: ProtocolName, after: int) -> None:
    story = play(goes_on, protocol, after, "reset")
    assert story.outcome.kind == "completed"
    assert story.turn.shown == WHOLE
    assert story.asked[0].request.response_format == FORM


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("after", range(1, 18, 3))
def test_two_documents_are_never_told_as_one(protocol: ProtocolName, after: int) -> None:
    story = play(begins_anew, protocol, after, "reset")
    is_whole = json.loads(WHOLE) == _read(story.turn.shown)
    assert (story.outcome.kind == "completed") == is_whole
    assert is_whole or "is not the JSON document" in story.outcome.why


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None

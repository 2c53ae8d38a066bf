"""Lists of parts: what each says, and that putting many of them together is not more work for each."""

import json
from typing import Any

import pytest

from turnbuckle.server.faces.chat.choices import OtherChoices, put_together
from turnbuckle.vocab.events import Event, OpaqueBlock
from turnbuckle.wire.answer_fields import GrowingFields
from turnbuckle.wire.gemini.decode import GeminiDecoder
from turnbuckle.wire.openai_chat.content_parts import ReadPart, read_part, told_content, whole_content

REFERENCE = {"type": "reference", "id": 1}
TEXT_OBJECT = {"type": "text", "text": {"value": "Hi.", "annotations": []}}


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(
    "part, read",
    [
        (None, ReadPart("text")),
        (5, ReadPart("text")),
        ([["Hi."]], ReadPart("text")),
        ({}, ReadPart("text")),
        ({"type": "text", "text": None}, ReadPart("text")),
        ("Hi.", ReadPart("text", "Hi.")),
        ({"type": ["odd"], "text": "Hi."}, ReadPart("text", "Hi.", {"type": ["odd"]})),
        (TEXT_OBJECT, ReadPart("strange", "", TEXT_OBJECT)),
    ],
)
def test_a_part_of_any_shape_is_read(part: Any, read: ReadPart) -> None:
    assert read_part(part) == read


def test_words_in_many_pieces_are_one_part_between_others() -> None:
    words: list[tuple[str, dict[str, Any]]] = [("ab", {})] * 1000
    marked: list[tuple[str, dict[str, Any]]] = [("c", {"level": 1})] * 2

    assert told_content([*words, ("", REFERENCE), ("", REFERENCE), *marked, *words]) == [
        {"type": "text", "text": "ab" * 1000},
        REFERENCE,
        REFERENCE,
        {"type": "text", "text": "cc", "level": 1},
        {"type": "text", "text": "ab" * 1000},
    ]


def test_pieces_of_several_choices_are_put_together_in_their_order() -> None:
    def piece(index: int, delta: dict[str, Any], **beside: Any) -> dict[str, Any]:
        return {"index": index, "logprobs": None, "finish_reason": None, "delta": delta, **beside}

    pieces = [piece(1, {"role": "assistant", "content": ""}), piece(2, {"content": "x"})]
    pieces += [piece(index, {name: "a"}) for _ in range(500) for index in (1, 2) for name in ("reasoning",)]
    pieces += [piece(index, {"content": "b"}) for _ in range(500) for index in (2, 1)]
    pieces += [piece(1, {"content": [REFERENCE]}), piece(1, {"content": "c"}), piece(1, {"content": "d"})]
    pieces += [piece(2, {"content": "c"}, logprobs={"content": [1]}), piece(2, {"content": "d"})]
    pieces += [piece(index, {}, finish_reason="stop") for index in (1, 2)]
    one, two = put_together(pieces)

    said: list[Any] = [{"type": "text", "text": "b" * 500}, REFERENCE, {"type": "text", "text": "cd"}]
    assert one["message"]["content"] == said
    assert two["message"]["content"] == f"x{'b' * 500}cd"
    assert one["message"]["reasoning"] == two["message"]["reasoning"] == "a" * 500
    assert (two["logprobs"], one["finish_reason"], two["finish_reason"]) == ({"content": [1]}, "stop", "stop")


def test_a_list_that_a_provider_gave_is_not_changed() -> None:
    given = [{"type": "text", "text": "a"}]
    made = whole_content([None, given, [{"type": "text", "text": "b"}]])

    assert (made, given) == ([{"type": "text", "text": "ab"}], [{"type": "text", "text": "a"}])


@pytest.mark.parametrize(
    "pieces, whole",
    [
        ([], None),
        ([None, None], None),
        ([None, ""], ""),
        (["a", None, "b"], "ab"),
        (
            ["a", [REFERENCE], "b", "c"],
            [{"type": "text", "text": "a"}, REFERENCE, {"type": "text", "text": "bc"}],
        ),
        ([["a", {"type": "text", "text": "b"}], "c"], [{"type": "text", "text": "abc"}]),
        (
            [[{"type": "text", "text": "a", "level": 1}], "b", [{"type": "said", "text": "c"}]],
            [
                {"type": "text", "text": "a", "level": 1},
                {"type": "text", "text": "b"},
                {"type": "said", "text": "c"},
            ],
        ),
    ],
)
def test_a_content_in_pieces_is_one_text_or_one_list(pieces: list[Any], whole: Any) -> None:
    assert whole_content(pieces) == whole


@pytest.mark.requirement("I8")
def test_odds_and_sound_of_another_choice_cost_what_is_new_in_each_piece() -> None:
    count = 20_000
    pieces = [
        {
            "index": 1,
            "delta": {"content": "a", "audio": {"data": "QQ==", "id": "s"}},
            "logprobs": {"content": [{"token": "a", "at": at}]},
            "finish_reason": None,
        }
        for at in range(count)
    ]
    (made,) = put_together(pieces)

    assert [one["at"] for one in made["logprobs"]["content"]] == list(range(count))
    assert made["message"]["content"] == "a" * count
    assert made["message"]["audio"] == {"data": "QQ==" * count, "id": "s"}
    assert pieces[0]["logprobs"] == {"content": [{"token": "a", "at": 0}]}, "what was given is not changed"


def test_the_call_of_another_choice_grows_by_its_pieces() -> None:
    others = OtherChoices()
    first = {
        "index": 0,
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
        "odd": [1],
    }
    others.take(1, {"delta": {"tool_calls": [first]}})
    for _ in range(1_000):
        more = {"index": 0, "function": {"arguments": "ab"}, "odd": [2]}
        assert others.take(1, {"delta": {"tool_calls": [more]}}) is None
    others.take(1, {"delta": {}, "finish_reason": "tool_calls"})
    told, _ = others.last("")

    call = {"index": 0, "id": "c", "type": "function", "odd": [2]}
    assert told["delta"]["tool_calls"] == [{**call, "function": {"name": "f", "arguments": "ab" * 1_000}}]


@pytest.mark.requirement("I8")
def test_a_gemini_chunk_of_many_parts_that_nobody_knows_is_read_once() -> None:
    parts = [{"odd": {"at": at}} for at in range(5000)]
    frame = json.dumps({"candidates": [{"content": {"parts": [{"text": "Hi."}, *parts]}}]}).encode()
    out: list[Event] = []
    GeminiDecoder().frames([(b"", frame)], out)

    assert [event.data for event in out if isinstance(event, OpaqueBlock)] == parts


def test_fields_that_grow_are_told_as_they_were_and_a_null_takes_nothing_back() -> None:
    fields = GrowingFields()
    fields.add({"logprobs": {"content": ["a"], "refusal": None}})
    first = fields.whole()
    fields.add({"logprobs": {"content": ["b"]}})
    fields.add({"logprobs": {"content": None}})
    assert first == {"logprobs": {"content": ["a"], "refusal": None}}
    assert fields.whole() == {"logprobs": {"content": ["a", "b"], "refusal": None}}

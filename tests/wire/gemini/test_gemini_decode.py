"""What Gemini's transcripts become."""

import msgspec
import pytest
from support.wire.transcript_files import FOLDER, transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.message import message_of
from turnbuckle.reply.verdict import verdict
from turnbuckle.vocab.events import Cut, Ended, Usage
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply, ReplyOpaque, ReplyReasoning, ReplyText
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.json_array import ArrayDecoder
from turnbuckle.wire.registry import PROTOCOLS, rules_of

GEMINI = PROTOCOLS["gemini"]


def read(name: str, *, broken: object = None) -> Reply:
    decoder = open_answer("gemini")
    return fold(decoder.feed((FOLDER / "gemini" / name).read_bytes()) + decoder.close(broken))


@pytest.mark.parametrize(
    "name, text, finish",
    [
        ("clean-text.sse", "The sea is blue.", "stop"),
        ("clean-text.json", "The sea is blue.", "stop"),
        ("clean-array.json", "The “sea” [\\] is {blue}.", "stop"),
        ("clean-thoughts-then-text.sse", "It is blue.", "stop"),
        ("clean-signed-text-in-the-middle.sse", "One two three.", "stop"),
        ("late-words-behind-every-reason.sse", "One two three.", "stop"),
        ("clean-max-tokens.sse", "A long story", "length"),
        ("clean-max-tokens-in-thoughts.sse", "", "length"),
        ("end-safety.sse", "Half ", "filtered"),
        ("end-recitation.sse", "Half ", "filtered"),
        ("end-blocklist.sse", "Half ", "filtered"),
        ("end-prohibited-content.sse", "Half ", "filtered"),
        ("end-spii.sse", "Half ", "filtered"),
        ("end-language.sse", "Half ", "filtered"),
        ("end-prompt-blocked.sse", "", "filtered"),
        ("end-prompt-blocked.json", "", "filtered"),
        ("end-malformed-function-call.sse", "", "malformed"),
        ("end-unexpected-tool-call.sse", "", "malformed"),
        ("end-too-many-tool-calls.sse", "", "malformed"),
        ("end-missing-thought-signature.sse", "", "malformed"),
        ("end-other.sse", "Half ", "other"),
        ("two-reasons-to-stop.sse", "Half", "length"),
        ("mistyped-side-fields.sse", "It is so.", "stop"),
        ("two-candidates.sse", "a", "stop"),
        ("crlf-comments-and-a-done.sse", "Blue 🌊", "stop"),
    ],
)
def test_a_reply_that_ended_has_its_text_and_its_reason(name: str, text: str, finish: str) -> None:
    reply = read(name)
    assert (reply.text, reply.finish) == (text, finish)
    assert isinstance(reply.last, Ended)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("cut-without-a-reason.sse", "incomplete"),
        ("cut-behind-a-call.sse", "incomplete"),
        ("cut-array.json", "incomplete"),
        ("end-unspecified.sse", "incomplete"),
        ("error-in-the-middle.sse", "overloaded"),
        ("error-rate-limit.json", "rate_limited"),
        ("error-array.json", "rate_limited"),
        ("error-key.json", "auth"),
        ("hole-in-the-text.sse", "garbage"),
        ("call-in-pieces.sse", "garbage"),
    ],
)
@pytest.mark.requirement("A10")
def test_anything_else_is_a_cut_that_says_why(name: str, kind: str) -> None:
    reply = read(name)
    assert isinstance(reply.last, Cut)
    assert reply.last.failure.kind == kind
    assert verdict(reply).calls == ()


def test_a_rate_limit_says_how_long_to_wait() -> None:
    last = read("error-array.json").last
    assert isinstance(last, Cut)
    assert last.failure.retry_after == 12.0


def test_text_behind_a_hole_is_not_shown() -> None:
    assert read("hole-in-the-text.sse").text == "The number is 1"


@pytest.mark.parametrize(
    "name, calls",
    [
        ("clean-one-call.sse", [("fc_1", "get_weather", '{"city":"Oslo"}')]),
        ("clean-call-without-id.sse", [("call_r1_0", "get_weather", '{"city":"Oslo"}')]),
        (
            "clean-parallel-calls.sse",
            [
                ("call_r1_0", "get_weather", '{"city":"Oslo"}'),
                ("call_r1_1", "get_weather", '{"city":"Bergen"}'),
            ],
        ),
        (
            "clean-parallel-calls-apart.sse",
            [("a", "get_weather", '{"city":"Oslo"}'), ("b", "get_weather", '{"city":"Bergen"}')],
        ),
        ("clean-equal-calls.sse", [("call_r1_0", "roll", "{}"), ("call_r1_1", "roll", "{}")]),
        ("clean-call-without-arguments.sse", [("call_r1_0", "now", "{}")]),
        ("arguments-as-text.sse", [("call_r1_0", "look", '{"at": 1}')]),
    ],
)
def test_calls_come_whole_with_and_without_ids(name: str, calls: list[tuple[str, str, str]]) -> None:
    reply = read(name)
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == calls
    assert verdict(reply).kind == "complete"


@pytest.mark.requirement("A13")
@pytest.mark.parametrize("name", ["call-told-twice.sse", "whole-reply-in-the-last-chunk.sse"])
def test_what_is_told_a_second_time_is_settled(name: str) -> None:
    reply = read(name)
    assert [(call.name, call.arguments) for call in reply.calls] == [("get_weather", '{"city":"Oslo"}')]
    assert reply.text in ("", "Let me look it up for you.")


def test_a_signed_part_is_a_block_of_its_own_and_keeps_its_signature() -> None:
    assert read("clean-signed-text-in-the-middle.sse").blocks == (
        ReplyText("One ", True),
        ReplyText("two ", True, {"thoughtSignature": "sigD"}),
        ReplyText("three.", True),
    )
    assert read("clean-thoughts-then-text.sse").blocks == (
        ReplyReasoning("**Weighing** the colours", True),
        ReplyText("It is blue.", True),
        ReplyText("", True, {"thoughtSignature": "sigB"}),
    )


@pytest.mark.parametrize("first, second", [(0, 1), (1, 0), ("0", "1"), ("1", "0"), (None, "1"), (0.0, 1.0)])
def test_of_two_candidates_the_first_is_heard_however_they_are_numbered(
    first: object, second: object
) -> None:
    pieces = [(first, "a"), (second, "b"), (second, "b"), (first, "a")]
    decoder = open_answer("gemini")
    events = []
    for index, text in pieces:
        candidate = {"index": index, "content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
        events += decoder.feed(b"data: %b\n\n" % msgspec.json.encode({"candidates": [candidate]}))
    assert fold(events + decoder.close()).text == "aa"


def test_what_only_the_provider_understands_is_kept_whole() -> None:
    opaque = [
        block.data for block in read("clean-code-execution.sse").blocks if isinstance(block, ReplyOpaque)
    ]
    assert opaque == [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "sigF"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
    ]


def test_thoughts_are_counted_as_output() -> None:
    assert read("clean-thoughts.json").usage == Usage(30, 52, cached=8, reasoning=40)


def test_why_a_call_was_malformed_is_told() -> None:
    assert read("end-malformed-function-call.sse").finish_detail.startswith("Malformed function call")


SIGNED = [path.name for path in transcripts("gemini") if b"thoughtSignature" in path.read_bytes()]


@pytest.mark.parametrize("name", SIGNED)
def test_signatures_go_back_on_the_parts_on_which_they_came(name: str) -> None:
    message = message_of(read(name), rules_of("gemini"), "gemini-3-flash")
    assert message is not None
    body = GEMINI.build(ModelRequest("gemini-3-flash", (message,)), Quirks())
    sent = [part for part in body["contents"][0]["parts"] if "thoughtSignature" in part]
    again = open_answer("gemini")
    answer = {"candidates": [{"content": body["contents"][0], "finishReason": "STOP"}]}
    reply = fold(again.feed(msgspec.json.encode(answer)) + again.close())
    assert sent
    assert message_of(reply, rules_of("gemini"), "gemini-3-flash") is not None
    told = (FOLDER / "gemini" / name).read_bytes().count(b'"thoughtSignature"')
    assert len(sent) == told


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_objects_of_an_array_are_found_wherever_it_is_split(size: int) -> None:
    data = b' [{"a":"\\\\\\"}]{"},\n{"b":[1,{"c":2}]}, 3, "x", {}] '
    decoder = ArrayDecoder()
    frames = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    assert [frame for _, frame in frames] == [b'{"a":"\\\\\\"}]{"}', b'{"b":[1,{"c":2}]}', b"{}"]
    assert decoder.rest() == b""


def test_an_object_of_an_array_has_a_cap() -> None:
    decoder = ArrayDecoder(max_event=10)
    assert decoder.feed(b'[{"a":"xxxxxxxxxxxxxxxx') == []
    assert decoder.overflow is not None

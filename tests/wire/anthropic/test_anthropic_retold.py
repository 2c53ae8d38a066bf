"""What a Messages stream tells a second time is settled against what arrived."""

import msgspec
import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import Cut, Ended, Skipped
from turnbuckle.vocab.reply import ReplyCall, ReplyReasoning, ReplyText
from turnbuckle.wire.anthropic.decode import AnthropicDecoder
from turnbuckle.wire.decoder import ReplyDecoder

pytestmark = pytest.mark.requirement("A13")
WORDS = "Let me look at the tide tables first."
FIELDS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
SHOWN: dict[str, type[ReplyText | ReplyReasoning]] = {"text": ReplyText, "thinking": ReplyReasoning}
STOP = {"type": "message_stop"}
KINDS = pytest.mark.parametrize("kind", FIELDS)


def replied(*frames):
    decoder = ReplyDecoder(AnthropicDecoder())
    body = b"".join(b"data: %b\n\n" % msgspec.json.encode(frame) for frame in frames)
    events = decoder.feed(body) + decoder.close()
    assert check_stream(events) == ()
    return fold(events), events


def start(kind, text="", index=0):
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: text}}


def deltas(kind, text, index=0, size=5):
    name, field = FIELDS[kind]
    return [
        {
            "type": "content_block_delta",
            "index": index,
            "delta": {"type": name, field: text[at : at + size]},
        }
        for at in range(0, len(text), size)
    ]


def stop(index=0):
    return {"type": "content_block_stop", "index": index}


def block(kind, text, index=0):
    return [start(kind, "", index), *deltas(kind, text, index), stop(index)]


def call(index=1, call_id="t", given='{"d":"."}'):
    return [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": "tool_use", "id": call_id, "name": "ls", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": index,
            "delta": {"type": "input_json_delta", "partial_json": given},
        },
        stop(index),
    ]


def texts(reply, kind="text"):
    return [found.text for found in reply.blocks if isinstance(found, SHOWN[kind])]


def called(reply):
    return [(found.id, found.arguments) for found in reply.blocks if isinstance(found, ReplyCall)]


def again(kind):
    return {
        "in deltas": block(kind, WORDS),
        "in larger deltas": [start(kind), *deltas(kind, WORDS, size=19), stop()],
        "in its start": [start(kind, WORDS), stop()],
        "in both": [start(kind, WORDS), *deltas(kind, WORDS), stop()],
        "twice": [*block(kind, WORDS), *block(kind, WORDS)],
    }


@KINDS
@pytest.mark.parametrize("way", again("text"))
@pytest.mark.parametrize("between", [[], call()], ids=["at once", "behind a call"])
def test_a_block_that_starts_again_behind_its_stop_is_shown_once(kind, way, between):
    reply, events = replied(*block(kind, WORDS), *between, *again(kind)[way], STOP)
    assert texts(reply, kind) == [WORDS]
    assert any(isinstance(event, Skipped) and event.harmless for event in events)
    assert isinstance(events[-1], Ended)


@KINDS
@pytest.mark.parametrize(
    "second, more",
    [
        (WORDS + " Then I answer.", " Then I answer."),
        ("Let me think.", "Let me think."),
        ("Let me", "Let me"),
        ("Done.", "Done."),
    ],
    ids=["goes on", "begins alike", "is shorter", "is another"],
)
def test_a_block_at_a_used_index_loses_nothing_that_is_new(kind, second, more):
    reply, _ = replied(*block(kind, WORDS), *block(kind, second), STOP)
    assert texts(reply, kind) == [WORDS, more]
    assert all(found.closed for found in reply.blocks)


@KINDS
@pytest.mark.parametrize("tail", ["", " Then I answer."])
def test_deltas_that_tell_the_text_of_their_start_again_add_only_their_tail(kind, tail):
    reply, _ = replied(start(kind, WORDS), *deltas(kind, WORDS + tail), stop(), STOP)
    assert texts(reply, kind) == [WORDS + tail]


@KINDS
@pytest.mark.parametrize(
    "first, then", [(WORDS, " More."), (WORDS, "Let me"), ("ha", "ha"), ("1", "1"), (WORDS, "Let them.")]
)
def test_deltas_behind_the_text_of_their_start_that_are_no_echo_are_kept(kind, first, then):
    reply, _ = replied(start(kind, first), *deltas(kind, then), stop(), STOP)
    assert texts(reply, kind) == [first + then]


@KINDS
def test_an_open_block_that_starts_again_from_the_top_is_shown_once(kind):
    reply, _ = replied(start(kind), *deltas(kind, WORDS), *block(kind, WORDS + " More."), STOP)
    assert texts(reply, kind) == [WORDS + " More."]


@KINDS
def test_equal_text_under_another_index_is_kept(kind):
    reply, _ = replied(*block(kind, WORDS), *block(kind, WORDS, 1), STOP)
    assert texts(reply, kind) == [WORDS, WORDS]


@pytest.mark.parametrize("index", [1, 2])
def test_a_call_under_the_same_id_is_one_call_at_any_index(index):
    reply, _ = replied(*call(), *call(index, given='{ "d": "." }'), STOP)
    assert called(reply) == [("t", '{"d":"."}')]


TEXT = {"type": "text", "text": WORDS}
CALL = {"type": "tool_use", "id": "t", "name": "ls", "input": {"d": "."}}
WAYS = {
    "message": lambda content: [{"type": "message", "content": content, "stop_reason": "end_turn"}],
    "message_stop": lambda content: [{**STOP, "message": {"content": content}}],
    "message_delta": lambda content: [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "message": {"content": content}},
        STOP,
    ],
}
EACH_WAY = pytest.mark.parametrize("way", WAYS)


@EACH_WAY
@pytest.mark.parametrize(
    "arrived",
    [
        [*block("text", WORDS), *call()],
        [*block("text", WORDS[:9]), *block("text", WORDS[9:], 1), *call(2)],
        block("text", WORDS),
        call(0),
        block("text", WORDS[:9]),
        [start("text"), *deltas("text", WORDS[:9])],
        [*block("text", WORDS), *call()[:1]],
    ],
    ids=["all", "other blocks", "no call", "no text", "no tail", "open text", "open call"],
)
def test_a_whole_message_adds_what_its_blocks_lack(way, arrived):
    reply, events = replied(*arrived, *WAYS[way]([TEXT, CALL]))
    assert "".join(texts(reply)) == WORDS
    assert called(reply) == [("t", '{"d":"."}')]
    assert all(found.closed for found in reply.blocks)
    assert isinstance(events[-1], Ended)


@EACH_WAY
def test_a_whole_message_tells_calls_under_other_ids(way):
    reply, _ = replied(*call(), *WAYS[way]([{**CALL, "id": "other"}]))
    assert called(reply) == [("t", '{"d":"."}')]


@EACH_WAY
def test_a_call_before_a_known_one_is_new(way):
    reply, _ = replied(*call(), *WAYS[way]([{**CALL, "id": "u", "input": {"d": "/"}}, CALL]))
    assert called(reply) == [("t", '{"d":"."}'), ("u", '{"d":"/"}')]


@EACH_WAY
@pytest.mark.parametrize("told", ["Something else.", WORDS[:9]])
def test_a_whole_message_with_another_text_is_noted_and_left(way, told):
    reply, events = replied(*block("text", WORDS), *WAYS[way]([{**TEXT, "text": told}]))
    assert texts(reply) == [WORDS]
    assert [event.harmless for event in events if isinstance(event, Skipped)] == [True]


@EACH_WAY
@pytest.mark.parametrize("call_id", ["t", "other"])
def test_a_whole_message_with_other_arguments_for_a_call_cuts_the_reply(way, call_id):
    _, events = replied(*call(), *WAYS[way]([{**CALL, "id": call_id, "input": {"d": "/"}}]))
    assert isinstance(events[-1], Cut)
    assert events[-1].failure.kind == "garbage"


@EACH_WAY
def test_a_whole_message_repeats_no_block_of_the_provider(way):
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "tide"}}
    begin = {"type": "content_block_start", "index": 0, "content_block": search}
    reply, _ = replied(begin, stop(), *WAYS[way]([search, TEXT]))
    assert [type(found).__name__ for found in reply.blocks] == ["ReplyOpaque", "ReplyText"]

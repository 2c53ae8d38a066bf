"""Inline reasoning in the protocols that have blocks of their own: it becomes blocks beside those of the text."""

from itertools import combinations, pairwise

import msgspec
import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.message import message_of
from turnbuckle.reply.repair import repair
from turnbuckle.testing.stream_invariants import check_cut, check_stream
from turnbuckle.vocab.events import BlockClosed, BlockStarted, Cut, Ended, Skipped, StateNoted, TextDelta
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import ReplyReasoning, ReplyText
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.anthropic import request as anthropic_request
from turnbuckle.wire.openai_responses import request as responses_request
from turnbuckle.wire.registry import rules_of

EVERY = pytest.mark.parametrize("protocol", ["anthropic", "openai_responses"])
NOTE = {
    "type": "url_citation",
    "url": "https://tides.example",
    "title": "Tides",
    "start_index": 0,
    "end_index": 1,
}

# What the provider's text says, and the text (in plain words) and reasoning (in a pair of brackets) that it becomes.
TEXTS = [
    ("b", ["b"]),
    ("", [""]),
    (" \n ", [" \n "]),
    ("  b", ["  b"]),
    ("<think>a</think>b", ["", "(a)", "b"]),
    ("\n <think>\na\n</think>\n\nb\n", ["", "(a\n)", "b\n"]),
    ("x <think>a</think> y", ["x <think>a</think> y"]),
    ("<think>a</think><think>b</think>c", ["", "(ab)", "c"]),
    ("<think>a</think>y<thinking>b</thinking>z", ["", "(a)", "y<thinking>b</thinking>z"]),
    ("x<think>a</think>\n", ["x<think>a</think>\n"]),
    ("<think>a", ["", "(a)", "a"]),
    ("<think></think>b", ["b"]),
    ("a</think>b", ["ab"]),
    ("a < b <thin", ["a < b <thin"]),
    ("<think>a</think><thin", ["", "(a)", "<thin"]),
    ("<think>a</thin", ["", "(a</thin)", "a</thin"]),
    ("`<think>` is a tag", ["`<think>` is a tag"]),
    ("◁think▷a◁/think▷b", ["", "(a)", "b"]),
    ("<|begin_of_thought|>a<|end_of_thought|>b", ["", "(a)", "b"]),
    ("<reason>a</reason>b", ["<reason>a</reason>b"]),
    ("<thought>a</thought>", ["<thought>a</thought>"]),
]
EVERY_TEXT = pytest.mark.parametrize("content, blocks", TEXTS, ids=[content for content, _ in TEXTS])


def body(frames):
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(frame) for frame in frames)


def anthropic_frames(pieces, *, index=0, stop=True):
    yield {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    for piece in pieces:
        delta = {"type": "text_delta", "text": piece}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    if stop:
        yield {"type": "content_block_stop", "index": index}


def message(text, *, item_id="msg_1", status="completed", annotations=()):
    content = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"type": "message", "id": item_id, "status": status, "role": "assistant", "content": [content]}


def responses_frames(pieces, *, index=0, stop=True):
    where = {"item_id": f"msg_{index}", "output_index": index}
    item = message("".join(pieces), item_id=f"msg_{index}")
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
    part = {"type": "output_text", "text": ""}
    yield {"type": "response.content_part.added", **where, "content_index": 0, "part": part}
    for piece in pieces:
        yield {"type": "response.output_text.delta", **where, "content_index": 0, "delta": piece}
    if stop:
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


GROW = {"anthropic": anthropic_frames, "openai_responses": responses_frames}
END = {
    "anthropic": {"type": "message_stop"},
    "openai_responses": {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
}


def decode(protocol, frames, **quirks):
    decoder = open_answer(protocol, quirks=Quirks(**quirks))
    return decoder.feed(body(frames)) + decoder.close()


def said(protocol, pieces, **quirks):
    return decode(protocol, [*GROW[protocol](pieces), END[protocol]], **quirks)


def answered(protocol, text):
    """The same as a plain answer."""
    answer = {
        "anthropic": {
            "type": "message",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
        },
        "openai_responses": {"status": "completed", "output": [message(text)]},
    }[protocol]
    decoder = open_answer(protocol)
    return decoder.feed(msgspec.json.encode(answer)) + decoder.close()


def shape(events):
    """The blocks in their order, with the reasoning in brackets."""
    kinds = {ReplyText: "{}", ReplyReasoning: "({})"}
    return [kinds[type(block)].format(block.text) for block in fold(events).blocks]


def ways(text):
    """Whole, by characters, and cut at every one or two places."""
    yield [text] if text else []
    yield list(text)
    for count in (1, 2) if len(text) <= 45 else (1,):
        for places in combinations(range(1, len(text)), count):
            yield [text[start:end] for start, end in pairwise((0, *places, len(text)))]


@EVERY_TEXT
@EVERY
@pytest.mark.requirement("A7", "A10")
def test_a_text_becomes_the_same_blocks_however_it_comes(protocol, content, blocks):
    for pieces in ways(content):
        events = said(protocol, pieces)
        assert check_stream(events) == (), pieces
        assert shape(events) == blocks, pieces
        assert all(block.closed for block in fold(events).blocks), pieces


@EVERY_TEXT
@EVERY
@pytest.mark.requirement("A7", "A10")
def test_a_plain_answer_becomes_the_same_blocks_as_a_stream(protocol, content, blocks):
    events = answered(protocol, content)
    assert check_stream(events) == ()
    assert shape(events) == blocks


@EVERY_TEXT
@EVERY
@pytest.mark.requirement("A7", "B1")
def test_what_was_shown_before_a_cut_is_the_beginning_of_the_whole(protocol, content, blocks):
    frames = [*GROW[protocol](list(content)), END[protocol]]
    whole = decode(protocol, frames)
    for count in range(1, len(frames)):
        cut = decode(protocol, frames[:count])
        assert isinstance(cut[-1], Cut)
        assert check_stream(cut) == check_cut(whole, cut) == ()


@EVERY
@pytest.mark.requirement("A7")
def test_what_may_become_a_tag_is_not_shown_at_a_cut_and_is_at_a_proper_end(protocol):
    frames = [*GROW[protocol](["a ", "<thi"], stop=False)]
    assert fold(decode(protocol, frames)).text == "a "
    assert fold(decode(protocol, [*frames, END[protocol]])).text == "a <thi"


@EVERY
def test_what_was_held_back_comes_before_the_next_block(protocol):
    first, second = GROW[protocol](["a <"], stop=False), GROW[protocol](["b"], index=1)
    events = decode(protocol, [*first, *second, END[protocol]])
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a ", "<", "b"]
    assert fold(events).text == "a <b"
    assert check_stream(events) == ()


@EVERY
def test_reasoning_is_closed_by_the_text_behind_it_and_text_by_the_provider(protocol):
    events = said(protocol, ["<think>", "a</think>", "y", "z"])
    kept = [event for event in events if isinstance(event, BlockStarted | BlockClosed | Ended)]
    assert kept[:-1] == [
        BlockStarted(0, "text"),
        BlockStarted(1, "reasoning"),
        BlockClosed(1),
        BlockStarted(2, "text"),
        BlockClosed(0),
        BlockClosed(2),
    ]


@EVERY
@pytest.mark.requirement("A7")
def test_a_swallowed_opening_tag_is_taken_as_read_in_the_first_text_that_says_something(protocol):
    texts = [[], ["a</th", "ink>b"], ["c</think>d"]]
    frames = [frame for at, pieces in enumerate(texts) for frame in GROW[protocol](pieces, index=at)]
    events = decode(protocol, [*frames, END[protocol]], think="open")
    assert check_stream(events) == ()
    assert shape(events) == ["", "", "(a)", "b", "c</think>d"]


@EVERY
def test_tags_are_left_alone_where_that_is_asked_for(protocol):
    events = said(protocol, ["<thi", "nk>a</think>", "b"], think="off")
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["<thi", "nk>a</think>", "b"]


@EVERY
def test_state_goes_to_the_last_text(protocol):
    text = "<think>a</think>y"
    grown = list(GROW[protocol]([text]))
    if protocol == "anthropic":
        delta = {"type": "citations_delta", "citation": NOTE}
        grown.insert(1, {"type": "content_block_delta", "index": 0, "delta": delta})
    else:
        item = message(text, item_id="msg_0", annotations=[NOTE])
        grown[-1] = {"type": "response.output_item.done", "output_index": 0, "item": item}
    events = decode(protocol, [*grown, END[protocol]])
    (noted,) = [event for event in events if isinstance(event, StateNoted)]
    assert noted.block == 2
    assert noted.data[{"anthropic": "citations", "openai_responses": "annotations"}[protocol]] == [NOTE]
    assert shape(events) == ["", "(a)", "y"]


@EVERY
@pytest.mark.requirement("A7", "C5")
def test_a_reply_with_inline_reasoning_goes_back_without_it(protocol):
    reply = fold(said(protocol, ["<think>a</think>b"]))
    spoken = message_of(reply, rules_of(protocol), "m")
    user = Message("user", (TextPart("hello"),))
    repaired = repair((user, spoken, user), rules_of(protocol), model="m", to_ask=True)
    assert repaired.left == ()
    request = ModelRequest("m", repaired.messages, max_output_tokens=9)
    if protocol == "anthropic":
        content = anthropic_request.build(request, Quirks())["messages"][1]["content"]
        assert content == [{"type": "text", "text": "b"}]
    else:
        # Without its id, since the provider might look for reasoning that belongs to it.
        content = [{"type": "output_text", "text": "b", "annotations": []}]
        (item,) = responses_request.build(request, Quirks())["input"][1:2]
        assert item == {"type": "message", "role": "assistant", "content": content}


# Responses tells a text up to four times


WHOLE = "\n <think>a</think>\n\ny"


def tellings():
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.output_text.done", **where, "text": WHOLE},
        {"type": "response.content_part.done", **where, "part": {"type": "output_text", "text": WHOLE}},
        {"type": "response.output_item.done", "output_index": 0, "item": message(WHOLE)},
        {"type": "response.completed", "response": {"status": "completed", "output": [message(WHOLE)]}},
    ]


@pytest.mark.parametrize("received", range(len(WHOLE) + 1))
@pytest.mark.requirement("A2", "A7")
def test_each_telling_of_a_text_adds_what_the_deltas_left_out(received):
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    delta = [{"type": "response.output_text.delta", **where, "delta": WHOLE[:received]}] if received else []
    done, part, item, completed = tellings()
    for told in ([done, part, item, completed], [item, completed], [done, completed], [completed]):
        events = decode("openai_responses", [*delta, *told])
        assert check_stream(events) == ()
        assert shape(events) == ["", "(a)", "y"]
        assert fold(events).skipped == 0


def test_a_whole_text_that_contradicts_its_deltas_is_said_to():
    events = decode(
        "openai_responses", [*responses_frames(["<think>a</think>", "b"], stop=False), *tellings()[2:]]
    )
    assert [event.harmless for event in events if isinstance(event, Skipped)] == [True]


@EVERY
@pytest.mark.requirement("A16")
def test_tags_count_until_a_word_was_said_in_any_text(protocol):
    texts = [["<think>a</think>"], ["<think>b</think>c"], ["<think>d</think>e"]]
    frames = [frame for at, pieces in enumerate(texts) for frame in GROW[protocol](pieces, index=at)]
    events = decode(protocol, [*frames, END[protocol]])
    assert check_stream(events) == ()
    assert shape(events) == ["", "(a)", "", "(b)", "c", "<think>d</think>e"]


@EVERY
@pytest.mark.requirement("A16")
def test_an_answer_that_was_taken_for_reasoning_from_the_first_character_is_shown(protocol):
    events = said(protocol, ["It is ", "4."], think="open")
    assert check_stream(events) == ()
    assert (fold(events).text, fold(events).reasoning) == ("It is 4.", "It is 4.")

"""Messages streams and answers: every recorded case, and the rules one by one."""

from pathlib import Path

import msgspec
import pytest

from turnbuckle.lab.invariants import check_stream
from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.events import Alive, Cut, Ended, Skipped, Started, Usage
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyText
from turnbuckle.wire.anthropic.decode import AnthropicDialect
from turnbuckle.wire.decoder import ReplyDecoder

FOLDER = Path(__file__).parents[2] / "transcripts" / "anthropic"
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds4n+2c7bQf1oXQ=="
SIGNED = {"type": "thinking", "signature": SIGNATURE}
DIRECT = {"caller": {"type": "direct"}}
SECRET = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"}
HIGH = {
    "type": "web_search_result_location",
    "cited_text": "High water 14:32",
    "url": "https://tides.example/today",
    "title": "Tides today",
    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0",
}
LOW = {**HIGH, "cited_text": "Low water 20:41", "encrypted_index": "Eo8BCioIAhgBIiQzYzU1"}
FOUND = {
    "type": "web_search_result",
    "title": "Tides today",
    "url": "https://tides.example/today",
    "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5",
    "page_age": "2 hours ago",
}
SEARCH = "srvtoolu_014hJH82Qum7Td6UV8gDXThB"


def text(shown, **more):
    return ReplyText(shown, **{"closed": True, **more})


def thought(shown, state=None, **more):
    return ReplyReasoning(shown, **{"closed": True, "state": state, **more})


def call(call_id, name, arguments, **more):
    return ReplyCall(call_id, name, arguments, **{"closed": True, **more})


def opaque(closed=True, **data):
    return ReplyOpaque(data, closed)


def row(*blocks, usage, said="end_turn", finish="stop", detail="", skipped=0, last="message_stop"):
    made = Reply(tuple(blocks), finish=finish, finish_said=said, finish_detail=detail, usage=usage, skipped=skipped)
    return made, last


def calls_row(*blocks, **more):
    return row(*blocks, said="tool_use", finish="calls", **more)


def cut_row(*blocks, last, **more):
    return row(*blocks, **{"said": "", "finish": None, "usage": Usage(25, 1), "last": last, **more})


# Name of the transcript: the blocks, how it finished, usage, frames that were skipped, and the last word: what ended
# it, or the kind of failure that cut it.
EXPECTED = {
    "clean-text.sse": row(
        text("Hello, the tide turns at 14:32.\n\nBring a coat — it’s windy. 🌊"), usage=Usage(25, 24)
    ),
    "clean-thinking-then-text.sse": row(
        thought("27 × 453: 27·400 = 10800, 27·53 = 1431.", SIGNED),
        text("27 × 453 = 12,231"),
        usage=Usage(25, 61, reasoning=44),
    ),
    "clean-thinking-omitted-then-call.sse": calls_row(
        thought("", SIGNED),
        call("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather", '{"location": "San Francisco, CA"}', state=DIRECT),
        usage=Usage(25, 89),
    ),
    "clean-redacted-thinking.sse": row(
        thought("", SECRET), thought("Now the public part.", SIGNED), text("Here it is."), usage=Usage(25, 40)
    ),
    "clean-signature-sent-twice.sse": row(thought("Short thought.", SIGNED), text("Done."), usage=Usage(25, 9)),
    "clean-text-and-parallel-calls.sse": calls_row(
        text("I will look at both files."),
        call("toolu_01AAA", "read_file", '{"path": "a.txt"}', state=DIRECT),
        call("toolu_01BBB", "read_file", '{"path": "b/ü.txt", "lines": [1, 20]}', state=DIRECT),
        usage=Usage(25, 112),
    ),
    "clean-calls-without-arguments.sse": calls_row(
        call("toolu_01NONE", "list_files", ""), call("toolu_01EMPTY", "now", ""), usage=Usage(25, 31)
    ),
    "clean-call-with-input-in-its-start.sse": calls_row(
        opaque(
            type="server_tool_use",
            id="srvtoolu_01CODE",
            name="code_execution",
            input={"code": 'rows = await query(sql="select 1")'},
        ),
        call(
            "toolu_01FROMCODE",
            "query",
            '{"sql":"select 1","limit":null}',
            state={"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_01CODE"}},
        ),
        usage=Usage(25, 57),
    ),
    "clean-server-search-with-citations.sse": row(
        text("I will search."),
        opaque(type="server_tool_use", id=SEARCH, name="web_search", input={"query": "tide times today"}),
        opaque(type="web_search_tool_result", tool_use_id=SEARCH, content=[FOUND]),
        text("High water is at 14:32 and low water at 20:41.", state={"citations": [HIGH, LOW]}),
        usage=Usage(10682, 510),
    ),
    "clean-pause-turn.sse": row(
        opaque(type="server_tool_use", id="srvtoolu_01PAUSE", name="web_search", input={"query": "long research"}),
        said="pause_turn",
        finish="paused",
        usage=Usage(25, 77),
    ),
    "clean-refusal-with-details.sse": row(
        text("I can explain the general"),
        said="refusal",
        finish="refused",
        detail="cyber: The request asks for working malware.",
        usage=Usage(25, 6),
    ),
    "clean-stop-sequence.sse": row(text("one, two, three"), said="stop_sequence", detail="four", usage=Usage(25, 8)),
    "clean-max-tokens-in-text.sse": row(
        text("The list begins with"), said="max_tokens", finish="length", usage=Usage(25, 4)
    ),
    "clean-thinking-used-up-the-budget.sse": row(
        thought("Let me go through all of it, slowly, once more", SIGNED),
        said="max_tokens",
        finish="length",
        usage=Usage(25, 1024, reasoning=1024),
    ),
    "clean-window-exceeded.sse": row(
        text("As I was say"), said="model_context_window_exceeded", finish="window", usage=Usage(199_990, 10)
    ),
    "clean-usage-grows-with-cache.sse": row(
        text("Cached."), usage=Usage(6 + 18_100 + 1_200, 11, cached=18_100, cache_written=1_200)
    ),
    "clean-empty-end-turn.sse": row(usage=Usage(25, 2)),
    "clean-unknown-events-between.sse": row(text("Still here."), usage=Usage(25, 5)),
    "clean-answer.json": calls_row(
        thought("They want the weather.", SIGNED),
        text("I will look."),
        call("toolu_01W", "get_weather", '{"location":"Łódź","days":3}', state=DIRECT),
        call("toolu_01N", "now", ""),
        usage=Usage(2095 + 512, 503, cached=512, reasoning=120),
        last="answer",
    ),
    "length-inside-a-call.sse": row(
        text("Writing the file."),
        call("toolu_01CUT", "write_file", '{"path": "a.txt", "content": "hel'),
        said="max_tokens",
        finish="length",
        usage=Usage(25, 64),
    ),
    "eager-arguments-that-are-not-json.sse": calls_row(
        call("toolu_01BAD", "write_file", '{"path": a.txt, "content": "x"}'), usage=Usage(25, 30)
    ),
    "cut-inside-a-call.sse": cut_row(
        text("One moment."),
        call(
            "toolu_01HALF",
            "write_file",
            r'{"path":"notes.md","content":"# Title\n\nFirst paragraph with \"quotes\" and \u00e9',
            closed=False,
        ),
        last="incomplete",
    ),
    "cut-before-message-stop.sse": row(text("All said."), usage=Usage(25, 5), last="incomplete"),
    "error-overloaded-in-the-middle.sse": cut_row(text("The first half of ", closed=False), last="overloaded"),
    "error-bare-object-from-llama-cpp.sse": cut_row(text("Loading", closed=False), last="server"),
    "error-throttling-from-bedrock.sse": cut_row(thought("Reading the", closed=False), last="rate_limited"),
    "error-as-plain-text.sse": cut_row(text("Half", closed=False), last="reset"),
    "answer-that-is-an-error.json": cut_row(usage=None, last="context"),
    "bedrock-chunks-without-type.sse": row(text("From Bedrock."), usage=Usage(25, 6)),
    "bedrock-metrics-as-only-usage.sse": row(text("Counted late."), usage=Usage(310, 4)),
    "no-event-names.sse": calls_row(text("Only data lines."), call("toolu_01D", "now", "{}"), usage=Usage(25, 20)),
    "types-only-in-event-names.sse": row(text("Names only."), usage=Usage(25, 6)),
    "blocks-share-index-zero.sse": calls_row(
        thought("Hm."), text("Let me check."), call("toolu_01S", "now", '{"zone":"UTC"}'), usage=Usage(25, 18)
    ),
    "starts-left-out.sse": row(thought("Quiet thought."), text("Text without a start."), usage=Usage(25, 9)),
    "block-left-open.sse": calls_row(
        text("Calling now."), call("toolu_01OPEN", "now", '{"zone":"UTC"}', closed=False), usage=Usage(25, 18)
    ),
    "delta-behind-its-stop.sse": calls_row(
        call("toolu_01LATE", "now", '{"zone":"UTC"}'), usage=Usage(25, 18), skipped=1
    ),
    "stop-without-a-reason.sse": row(text("Thin shim."), said="", finish=None, usage=Usage(25, 1)),
    "server-side-fallback.sse": row(
        text("I can not"),
        ReplyOpaque(
            {
                "type": "fallback",
                "from": {"model": "claude-fable-5-2"},
                "to": {"model": "claude-opus-5-5"},
                "trigger": {"type": "refusal", "category": "bio"},
            },
            closed=True,
        ),
        text("Here is the general answer."),
        usage=Usage(30, 40),
    ),
    "compaction.sse": row(
        opaque(type="compaction", content="Summary: the user wants tide times.", encrypted_content="Q29tcGFjdGVk"),
        said="compaction",
        finish="compacted",
        usage=Usage(25, 210),
    ),
    "mcp-call-and-result.sse": row(
        opaque(type="mcp_tool_use", id="mcptoolu_01M", name="search", server_name="tides", input={"q": "today"}),
        opaque(
            type="mcp_tool_result",
            tool_use_id="mcptoolu_01M",
            is_error=False,
            content=[{"type": "text", "text": "14:32"}],
        ),
        text("At 14:32."),
        usage=Usage(25, 30),
    ),
    "server-call-with-broken-input.sse": row(
        opaque(
            closed=False,
            type="server_tool_use",
            id="srvtoolu_01BR",
            name="web_search",
            input={},
            _unparsed_input='{"query": "tide',
        ),
        text("Never mind."),
        usage=Usage(25, 12),
    ),
    "crlf-and-a-character-in-two-halves.sse": row(text("wave 🌊!"), usage=Usage(25, 4)),
    "whole-message-as-one-event.sse": row(
        text("All at once."), usage=Usage(2095 + 512, 503, cached=512, reasoning=120), last="answer"
    ),
}


def decode(body, **quirks):
    decoder = ReplyDecoder(AnthropicDialect(Quirks(**quirks)))
    return decoder.feed(body) + decoder.close()


def stream(*frames):
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(frame) for frame in frames)


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


END = {"type": "message_stop"}


@pytest.mark.requirement("A12")
def test_every_transcript_has_an_expected_reply():
    assert {path.name for path in FOLDER.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.requirement("A1", "A2", "A4", "A7", "A10", "A11", "A12", "B1")
def test_a_transcript_folds_to_the_expected_reply(name):
    events = decode((FOLDER / name).read_bytes())
    expected, last = EXPECTED[name]
    reply = fold(events)
    assert check_stream(events) == ()
    assert (reply.last.by if isinstance(reply.last, Ended) else reply.last.failure.kind) == last
    assert msgspec.structs.replace(reply, id="", model="", last=None) == expected


@pytest.mark.parametrize("name", EXPECTED)
def test_a_transcript_gives_the_same_events_byte_by_byte(name):
    body = (FOLDER / name).read_bytes()
    decoder = ReplyDecoder(AnthropicDialect())
    pieces = [event for at in range(len(body)) for event in decoder.feed(body[at : at + 1])]
    assert pieces + decoder.close() == decode(body)


def test_the_reply_is_named_once():
    events = decode((FOLDER / "clean-text.sse").read_bytes())
    named = [event for event in events if isinstance(event, Started)]
    assert named == [Started("msg_01XFDUDYJgAACzvnptvVoYEL", "claude-sonnet-5-5")]


def test_every_frame_of_a_stream_is_a_sign_of_life():
    body = (FOLDER / "clean-server-search-with-citations.sse").read_bytes()
    for frame in body.split(b"\n\n")[:-1]:
        dialect, out = AnthropicDialect(), []
        name, data = frame.removeprefix(b"event: ").split(b"\ndata: ")
        last = dialect.frames([(name, data)], out)
        assert out or last, frame


def test_a_call_without_text_gives_no_text():
    events = decode((FOLDER / "clean-thinking-omitted-then-call.sse").read_bytes())
    assert not [event for event in events if type(event).__name__ == "TextDelta"]


def test_input_in_a_start_gives_way_to_deltas():
    reply = fold(
        decode(
            stream(
                start(0, type="tool_use", id="t", name="f", input={"old": 1}),
                delta(0, "input_json_delta", partial_json='{"new":'),
                delta(0, "input_json_delta", partial_json="2}"),
                stop(0),
                END,
            )
        )
    )
    assert reply.blocks == (call("t", "f", '{"new":2}'),)


@pytest.mark.requirement("B1")
def test_input_in_a_start_is_held_back_until_the_block_is_closed():
    reply = fold(decode(stream(start(0, type="tool_use", id="t", name="f", input={"a": 1}))))
    assert reply.blocks == (call("t", "f", "", closed=False),)


def test_a_call_without_an_id_gets_one_from_its_place():
    frames = stream({"type": "message_start", "message": {"id": "msg_1"}}, start(0, type="tool_use", name="f"), stop(0))
    assert fold(decode(frames)).calls[0].id == "call_msg_1_0"


def test_arguments_without_their_start_are_skipped():
    events = decode(stream(delta(3, "input_json_delta", partial_json='{"a":1}'), END))
    assert [event.sample for event in events if isinstance(event, Skipped)] == ['{"a":1}']
    assert fold(events).blocks == ()


@pytest.mark.parametrize(
    "first, second, expected",
    [
        ({"type": "text", "text": ""}, {"type": "text", "text": ""}, (text("ab"),)),
        ({"type": "text", "text": ""}, {"type": "text", "text": "x"}, (text("a", closed=False), text("xb"))),
    ],
)
def test_a_start_that_is_repeated_begins_a_block_only_if_it_brings_text(first, second, expected):
    frames = [start(0, **first), delta(0, "text_delta", text="a"), start(0, **second)]
    events = decode(stream(*frames, delta(0, "text_delta", text="b"), stop(0), END))
    assert check_stream(events) == ()
    assert fold(events).blocks == expected


def test_a_call_that_starts_twice_is_one_call_and_another_id_is_another_call():
    twice = [start(0, type="tool_use", id="a", name="f", input={})] * 2
    other = start(0, type="tool_use", id="b", name="f", input={})
    events = decode(stream(*twice, other, delta(0, "input_json_delta", partial_json="{}"), stop(0), stop(0), END))
    assert check_stream(events) == ()
    assert fold(events).blocks == (call("a", "f", "", closed=False), call("b", "f", "{}"))


def test_a_delta_of_the_wrong_kind_is_skipped():
    events = decode(stream(start(0, type="tool_use", id="a", name="f"), delta(0, "text_delta", text="stray"), END))
    assert check_stream(events) == ()
    assert fold(events).skipped == 1


def test_a_block_of_an_unknown_type_is_kept_whole():
    block = {"type": "hologram", "seed": [1, 2], "deep": {"x": None}}
    assert fold(decode(stream(start(0, **block), stop(0), END))).blocks == (ReplyOpaque(block, closed=True),)


@pytest.mark.parametrize(
    "frame, kind",
    [
        ({"type": "error", "error": {"type": kind, "message": "m"}}, expected)
        for kind, expected in {
            "invalid_request_error": "invalid",
            "authentication_error": "auth",
            "billing_error": "billing",
            "permission_error": "permission",
            "not_found_error": "not_found",
            "conflict_error": "server",
            "request_too_large": "too_large",
            "rate_limit_error": "rate_limited",
            "api_error": "server",
            "timeout_error": "timeout",
            "overloaded_error": "overloaded",
            "internalServerException": "server",
            "modelStreamErrorException": "server",
            "serviceUnavailableException": "server",
            "throttlingException": "rate_limited",
            "validationException": "invalid",
            "modelTimeoutException": "timeout",
        }.items()
    ]
    + [
        ({"error": {"message": "m", "type": "overloaded_error"}}, "overloaded"),
        ({"code": 500, "message": "m", "type": "server_error"}, "server"),
    ],
)
def test_an_error_inside_a_stream_is_a_cut_of_its_kind(frame, kind):
    events = decode(stream(start(0, type="text", text="a"), frame, END))
    assert isinstance(events[-1], Cut)
    assert events[-1].failure.kind == kind


def test_an_exception_known_only_by_the_name_of_its_event_is_a_cut():
    events = decode(b'event: throttlingException\ndata: {"message":"slow down"}\n\n')
    assert (events[-1].failure.kind, events[-1].failure.message) == ("rate_limited", "slow down")


@pytest.mark.parametrize(
    "body, what",
    [
        (b"event: ping\ndata: {}\n\n", "ping"),
        (b"event: ping\ndata: pong\n\n", "ping"),
        (b"data: [DONE]\n\n", "unknown"),
        (b"event: later_version\ndata: {}\n\n", "unknown"),
        (b": comment\n\n", "comment"),
    ],
)
def test_what_holds_nothing_is_a_sign_of_life_and_no_end(body, what):
    events = decode(body)
    assert events[0] == Alive(what)
    assert isinstance(events[-1], Cut)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"not json",
        b'{"type":"content_block_delta","index":"zero","delta":{}}',
        b'{"type":"content_block_start","index":0,"content_block":{"text":"no type"}}',
        b'{"type":"content_block_start","index":0}',
        b'{"type":"content_block_start","content_block":{"text":"\\ud800"}}',
    ],
)
def test_a_frame_that_can_not_be_read_is_skipped_and_said_so(data):
    events = decode(b"data: %b\n\ndata: %b\n\n" % (data, msgspec.json.encode(END)))
    assert [type(event) for event in events] == [Skipped, Ended]


def test_input_in_a_start_with_half_a_character_is_mended():
    body = stream(start(0, type="tool_use", id="a", name="f", input={"x": "HALF"})).replace(b"HALF", rb"\ud800")
    assert fold(decode(body + stream(stop(0), END))).calls[0].arguments == '{"x":"\ufffd"}'


@pytest.mark.requirement("A11")
@pytest.mark.parametrize("body", [b'{"hello":"world"}', b'{"content":"text"}', b"[]", b'"words"', b"<html>busy</html>"])
def test_a_body_that_is_no_message_is_garbage(body):
    events = decode(body)
    assert [type(event) for event in events] == [Cut]
    assert events[-1].failure.kind == "garbage"


@pytest.mark.requirement("B1")
def test_a_tidy_end_counts_only_for_hosts_that_never_say_more():
    body = stream(start(0, type="text", text="a"), stop(0))
    assert decode(body)[-1].failure.kind == "incomplete"
    assert decode(body, finishless=True)[-1] == Ended("end of body")


@pytest.mark.requirement("B1")
def test_a_tidy_end_never_ends_a_reply_with_calls():
    body = stream(start(0, type="tool_use", id="t", name="f", input={"a": 1}), stop(0))
    assert decode(body, finishless=True)[-1].failure.kind == "incomplete"

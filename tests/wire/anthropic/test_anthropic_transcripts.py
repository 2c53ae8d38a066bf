"""Every recorded Messages body folds to the reply that it holds."""

from pathlib import Path

import msgspec
import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import Ended, Usage
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyText
from turnbuckle.wire.answer import open_answer

FOLDER = Path(__file__).parents[2] / "transcripts" / "anthropic"
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds4n+2c7bQf1oXQ=="
SIGNED = {"type": "thinking", "signature": SIGNATURE}
DIRECT = {"caller": {"type": "direct"}}
SECRET = {
    "type": "redacted_thinking",
    "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
}
HIGH = {
    "type": "web_search_result_location",
    "cited_text": "High water 14:32",
    "url": "https://tides.example/today",
    "title": "Tides today",
    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0",
}
LOW = {**HIGH, "cited_text": "Low water 20:41", "encrypted_index": "Eo8BCioIAhgBIiQzYzU1"}
PLACE = {
    "type": "char_location",
    "cited_text": "6:40",
    "document_index": 0,
    "document_title": "Tides",
    "start_char_index": 4,
    "end_char_index": 8,
}
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
    made = Reply(
        tuple(blocks), finish=finish, finish_said=said, finish_detail=detail, usage=usage, skipped=skipped
    )
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
        call(
            "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather", '{"location": "San Francisco, CA"}', state=DIRECT
        ),
        usage=Usage(25, 89),
    ),
    "clean-redacted-thinking.sse": row(
        thought("", SECRET), thought("Now the public part.", SIGNED), text("Here it is."), usage=Usage(25, 40)
    ),
    "clean-signature-sent-twice.sse": row(
        thought("Short thought.", SIGNED), text("Done."), usage=Usage(25, 9)
    ),
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
        opaque(
            type="server_tool_use", id="srvtoolu_01PAUSE", name="web_search", input={"query": "long research"}
        ),
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
    "clean-stop-sequence.sse": row(
        text("one, two, three"), said="stop_sequence", detail="four", usage=Usage(25, 8)
    ),
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
    "error-overloaded-in-the-middle.sse": cut_row(
        text("The first half of ", closed=False), last="overloaded"
    ),
    "error-bare-object-from-llama-cpp.sse": cut_row(text("Loading", closed=False), last="server"),
    "error-throttling-from-bedrock.sse": cut_row(thought("Reading the", closed=False), last="rate_limited"),
    "error-as-plain-text.sse": cut_row(text("Half", closed=False), last="reset"),
    "answer-that-is-an-error.json": cut_row(usage=None, last="context"),
    "bedrock-chunks-without-type.sse": row(text("From Bedrock."), usage=Usage(25, 6)),
    "bedrock-metrics-as-only-usage.sse": row(text("Counted late."), usage=Usage(310, 4)),
    "no-event-names.sse": calls_row(
        text("Only data lines."), call("toolu_01D", "now", "{}"), usage=Usage(25, 20)
    ),
    "types-only-in-event-names.sse": row(text("Names only."), usage=Usage(25, 6)),
    "blocks-share-index-zero.sse": calls_row(
        thought("Hm."), text("Let me check."), call("toolu_01S", "now", '{"zone":"UTC"}'), usage=Usage(25, 18)
    ),
    "starts-left-out.sse": row(thought("Quiet thought."), text("Text without a start."), usage=Usage(25, 9)),
    "block-left-open.sse": calls_row(
        text("Calling now."), call("toolu_01OPEN", "now", '{"zone":"UTC"}', closed=False), usage=Usage(25, 18)
    ),
    "a-call-told-twice.sse": calls_row(call("toolu_2t", "ls", '{"d":"."}'), usage=Usage(25, 18)),
    "whole-message-behind-its-blocks.sse": calls_row(
        text("Let me look."), call("toolu_2t", "ls", '{"d":"."}'), usage=Usage(25, 18), last="message"
    ),
    "blocks-told-again.sse": row(
        thought("They want the tide."),
        text("Let me look at the tide tables first."),
        text(" High water is at 14:32."),
        usage=Usage(25, 18),
    ),
    "text-of-a-start-told-again.sse": row(
        text("Let me look at the tide tables first. Then I answer."), usage=Usage(25, 18)
    ),
    "whole-message-in-message-stop.sse": calls_row(
        text("Let me look at the"),
        call("toolu_2t", "ls", '{"d":"."}'),
        text(" tide tables first."),
        call("toolu_3t", "now", '{"zone":"UTC"}'),
        usage=Usage(25, 18),
    ),
    "content-in-the-opening-event.sse": row(text("All at once."), usage=Usage(25, 18)),
    "signature-inside-a-thinking-delta.sse": row(
        thought("Add them. Done.", state={"type": "thinking", "signature": "EqQBCgIYAhIM"}),
        text("It is 4."),
        usage=Usage(25, 18),
    ),
    "two-reasons-to-stop.sse": row(
        text("Let me look."), said="max_tokens", finish="length", usage=Usage(25, 18)
    ),
    "hole-in-the-text.sse": row(
        text("It is 1", closed=False), usage=Usage(25, 18), skipped=1, last="garbage"
    ),
    "mistyped-side-fields.sse": row(text("Hello."), usage=None),
    "think-never-closed.sse": row(text(""), thought("It is 4."), text("It is 4."), usage=Usage(25, 18)),
    "delta-behind-its-stop.sse": calls_row(
        call("toolu_01LATE", "now", '{"zone":"UTC"}'), usage=Usage(25, 18), skipped=1, last="garbage"
    ),
    "stop-without-a-reason.sse": row(text("Thin shim."), said="", finish=None, usage=Usage(25, 1)),
    "server-side-fallback.sse": row(
        text("I cannot"),
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
        opaque(
            type="compaction", content="Summary: the user wants tide times.", encrypted_content="Q29tcGFjdGVk"
        ),
        said="compaction",
        finish="compacted",
        usage=Usage(25, 210),
    ),
    "mcp-call-and-result.sse": row(
        opaque(
            type="mcp_tool_use", id="mcptoolu_01M", name="search", server_name="tides", input={"q": "today"}
        ),
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
    "think-tags-split.sse": row(
        text(""), thought("Add a < b now."), text("It is 4, a < b."), usage=Usage(25, 24)
    ),
    "think-then-call.sse": calls_row(
        text(""), thought("List it."), call("toolu_t1", "ls", '{"d":"<think>"}'), usage=Usage(25, 18)
    ),
    "think-tags-in-the-middle-with-a-citation.sse": row(
        text(
            "First, <thinking>which day?</thinking>today. ◁think▷Look it up.◁/think▷ At 6:40. <thi",
            state={"citations": [PLACE]},
        ),
        usage=Usage(25, 30),
    ),
    "think-words-and-code-stay-text.sse": row(
        text("<reason>tide</reason> Write `<think>` and `</think>` around it."), usage=Usage(25, 20)
    ),
    "think-tag-begun-at-the-end.sse": row(text("a <thi", closed=False), usage=Usage(25, 4)),
    "think-cut-in-a-tag.sse": cut_row(
        text("", closed=False), thought("Add.", closed=False), last="incomplete"
    ),
    "think-until-the-cap.sse": row(
        text(""), thought("Well, let me see </thi"), said="max_tokens", finish="length", usage=Usage(25, 64)
    ),
    "think-answer.json": calls_row(
        text(""),
        thought("Greet.\n"),
        text("Hello."),
        call("toolu_t2", "now", ""),
        usage=Usage(25, 12),
        last="answer",
    ),
}


def decode(body):
    decoder = open_answer("anthropic")
    return decoder.feed(body) + decoder.close()


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
    decoder = open_answer("anthropic")
    pieces = [event for at in range(len(body)) for event in decoder.feed(body[at : at + 1])]
    assert pieces + decoder.close() == decode(body)

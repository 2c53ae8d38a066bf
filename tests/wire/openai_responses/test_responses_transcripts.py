"""Every recorded Responses body folds to what it says."""

from typing import NamedTuple

import pytest
from support.wire.transcript_files import transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.events import Cut, Ended, Usage
from turnbuckle.vocab.reply import ReplyOpaque
from turnbuckle.wire.answer import open_answer

USUAL = Usage(input=36, output=12)
PLAIN = Usage(input=30, output=9, cached=16, reasoning=4)


class Told(NamedTuple):
    """What a recorded body folds to. A call is (id, name, arguments, closed)."""

    last: str = "response.completed"
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple = ()
    opaque: tuple = ()
    finish: tuple = ("stop", "completed", "")
    usage: Usage | None = USUAL
    skipped: int = 0


def cut(kind, usage=None, **told):
    return Told(last=kind, finish=(None, "", ""), usage=usage, **told)


CALLS = ("calls", "completed", "")
LENGTH = ("length", "incomplete", "max_output_tokens")
PAID = '{"to":"ann"}'
COUNTED = Usage(36, 12)
ADDED = ("call_w", "add", '{"a":1,"b":2}', True)
TRANSCRIPTS = {
    "clean-text": Told(text="The tide turns at 6:40 — bring a coat. 🌊", usage=Usage(48, 15, cached=32)),
    "clean-one-call": Told(
        calls=(("call_Vh2k", "get_weather", '{"city":"Porto","unit":"c"}', True),), finish=CALLS
    ),
    "clean-parallel-calls-interleaved": Told(
        calls=(
            ("call_A", "read_file", '{"path":"a.txt"}', True),
            ("call_B", "read_file", '{"path":"b.txt"}', True),
        ),
        finish=CALLS,
        usage=Usage(90, 44),
    ),
    "clean-reasoning-then-call": Told(
        reasoning="**Looking at the file**\n\nI need its size.",
        calls=(("call_size", "files__stat", '{"path":"/tmp/x"}', True),),
        finish=CALLS,
        usage=Usage(120, 210, cached=64, reasoning=192),
    ),
    "clean-secret-reasoning": Told(text="Done.", usage=Usage(20, 70, reasoning=64)),
    "clean-text-and-call": Told(
        text="I will look it up.",
        calls=(("call_1", "search", '{"q":"tide \\u00e9t\\u00e9"}', True),),
        finish=CALLS,
    ),
    "clean-refusal": Told(refusal="I can’t help with that."),
    "clean-web-search": Told(text="High tide at 6:40.", opaque=("web_search_call",), usage=Usage(800, 40)),
    "clean-custom-tool-call": Told(calls=(("call_sql", "sql", "SELECT 1;\n", True),), finish=CALLS),
    "clean-keepalive-and-unknown-events": Told(text="Still here."),
    "clean-open-weights-reasoning-text": Told(text="4", reasoning="User wants a sum."),
    "clean-call-that-the-server-answered": Told(
        text="It says alpha.",
        calls=(("call_s", "read_file", '{"path":"a"}', True),),
        opaque=("function_call_output",),
    ),
    "clean-items-that-the-provider-runs": Told(
        text="ok",
        opaque=(
            "mcp_list_tools",
            "mcp_call",
            "shell_call",
            "shell_call_output",
            "image_generation_call",
            "compaction",
        ),
    ),
    "clean-answer-reasoning-text-and-call": Told(
        last="answer",
        text="Checking.",
        reasoning="One.\n\nTwo.",
        calls=(("call_7", "lookup", '{"id":7}', True),),
        finish=CALLS,
        usage=PLAIN,
    ),
    "incomplete-by-length-in-a-call": Told(
        last="response.incomplete",
        calls=(
            ("call_ok", "list_dir", '{"path":"."}', True),
            ("call_cut", "write_file", '{"path":"a.py","content":"def f(', False),
        ),
        finish=LENGTH,
        usage=Usage(50, 64),
    ),
    "incomplete-inside-reasoning": Told(
        last="response.incomplete", reasoning="Let me think", finish=LENGTH, usage=Usage(10, 32, reasoning=32)
    ),
    "incomplete-by-content-filter": Told(
        last="response.incomplete", text="First mix the", finish=("filtered", "incomplete", "content_filter")
    ),
    "failed-by-rate-limit": cut("rate_limited", text="Wait a"),
    "failed-by-context": cut("context"),
    "error-event-flat": cut("server", text="Half of"),
    "error-event-nested": cut("billing", text="Half of"),
    "error-of-a-gateway-without-type": cut("reset"),
    "cancelled": cut("cancelled", text="One"),
    "tidy-end-without-terminal": cut(
        "incomplete", text="It was a dark and stormy", calls=(("call_n", "note", '{"text":"x"}', False),)
    ),
    "done-marker-without-terminal": cut("incomplete", text="Half"),
    "items-only-when-done": Told(
        reasoning="Listing first.",
        calls=(("call_ls", "shell", '{"command":["ls"]}', True),),
        finish=CALLS,
        usage=Usage(7, 3),
    ),
    "items-only-in-the-terminal-response": Told(
        text="Yes. Really.", reasoning="Easy.", calls=(("call_p", "go", '{"fast":true}', True),), finish=CALLS
    ),
    "every-item-at-index-zero": Told(
        text="Two files.",
        calls=(("call_z1", "read", '{"f":1}', True), ("call_z2", "read", '{"f":2}', True)),
        finish=CALLS,
    ),
    "a-new-item-id-in-every-event": Told(text="Ids may lie."),
    "no-type-in-the-json": Told(text="Names only."),
    "arguments-rewritten-when-done": Told(calls=(ADDED,), finish=CALLS),
    "last-arguments-only-when-done": Told(calls=(ADDED,), finish=CALLS),
    "terminal-output-with-other-call-ids": Told(
        calls=(("call_1", "pay", PAID, True),), finish=CALLS, usage=COUNTED
    ),
    "item-done-with-another-call-id": Told(
        calls=(("call_1", "pay", PAID, True),), finish=CALLS, usage=COUNTED
    ),
    "item-done-twice-with-other-ids": Told(
        text="Paid.", calls=(("call_1", "pay", PAID, True),), finish=CALLS, usage=COUNTED
    ),
    "hole-in-the-text": cut("garbage", text="It is 1", usage=COUNTED),
    "hole-that-the-whole-heals": Told(text="It is 12345.", usage=COUNTED),
    "completed-with-a-reason-why-not": Told(text="One, two", finish=LENGTH, usage=COUNTED),
    "mistyped-side-fields": Told(text="Hello.", usage=COUNTED),
    "think-never-closed": Told(text="It is 4.", reasoning="It is 4.", usage=COUNTED),
    "a-delta-was-lost": Told(text="One three"),
    "a-character-split-over-two-deltas": Told(text="Sea 🌊!"),
    "nothing-is-announced": Told(
        text="No starts.", calls=(("call_q", "ping", "{}", True),), finish=CALLS, usage=None
    ),
    "think-tags-split": Told(text="It is 4, a < b.", reasoning="Add a < b now."),
    "think-then-call": Told(
        reasoning="List it.", calls=(("call_t1", "ls", '{"d":"<think>"}', True),), finish=CALLS
    ),
    "think-tags-in-the-middle-with-an-annotation": Told(
        text="First, <thinking>which day?</thinking>today. ◁think▷Look it up.◁/think▷ At 6:40. <thi"
    ),
    "think-words-and-code-stay-text": Told(
        text="<reason>tide</reason> Write `<think>` and `</think>` around it."
    ),
    "think-only-when-done": Told(text="It is 4.", reasoning="Add."),
    "think-last-words-only-in-the-whole": Told(text="It is 4.", reasoning="Add. "),
    "think-until-the-cap": Told(
        last="response.incomplete", reasoning="Well, let me see </thi", finish=LENGTH
    ),
    "think-failed-in-a-tag": cut("server", reasoning="Add."),
    "think-answer": Told(
        last="answer",
        text="Hello.",
        reasoning="Greet.\n",
        calls=(("call_t2", "now", "{}", True),),
        finish=CALLS,
    ),
    "answer-incomplete": Told(last="answer", text="Checking.", finish=LENGTH, usage=PLAIN),
    "answer-failed": cut("server"),
    "answer-still-in-progress": cut("incomplete"),
    "answer-error-inside-200": cut("auth"),
}


def recorded_events(name):
    body = next(path for path in transcripts("openai_responses") if path.stem == name).read_bytes()
    decoder = open_answer("openai_responses")
    return decoder.feed(body) + decoder.close()


def told(reply):
    last = reply.last
    return Told(
        last=last.by if isinstance(last, Ended) else last.failure.kind,
        text=reply.text,
        reasoning=reply.reasoning,
        refusal=reply.refusal,
        calls=tuple((call.id, call.name, call.arguments, call.closed) for call in reply.calls),
        opaque=tuple(block.data["type"] for block in reply.blocks if isinstance(block, ReplyOpaque)),
        finish=(reply.finish, reply.finish_said, reply.finish_detail),
        usage=reply.usage,
        skipped=reply.skipped,
    )


def test_the_table_names_every_recorded_body():
    assert {path.stem for path in transcripts("openai_responses")} == set(TRANSCRIPTS)


@pytest.mark.parametrize("name", TRANSCRIPTS)
@pytest.mark.requirement("A1", "A2", "A4", "A10", "A11", "A12")
def test_a_recorded_body_folds_to_what_it_says(name):
    assert told(fold(recorded_events(name))) == TRANSCRIPTS[name]


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_recorded_body_has_one_last_word(name):
    events = recorded_events(name)
    assert [isinstance(event, Ended | Cut) for event in events].count(True) == 1
    assert isinstance(events[-1], Ended | Cut)

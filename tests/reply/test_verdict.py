"""One function weighs all the evidence: what a reply is, why, and which calls may run."""

from itertools import product
from typing import get_args

import pytest

from turnbuckle.reply.verdict import SoundCall, VerdictKind, verdict
from turnbuckle.vocab.events import Cut, Ended, Usage
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyReasoning, ReplyRefusal, ReplyText

ENDED = Ended("[DONE]")
RESET = Cut(failure("reset", "the connection was reset"))
STALLED = Cut(failure("stalled", "nothing arrived in time", clock="gap"))
FILTERED = Cut(failure("filtered", "a policy stopped it"))

WHOLE = ReplyCall("c1", "read", '{"p":"a"}', True)
OTHER = ReplyCall("c2", "now", "", True)
OPEN = ReplyCall("c3", "write", '{"p":"a","t":"hel', True)
UNCLOSED = ReplyCall("c4", "write", '{"p":"a"}', False)
BAD = ReplyCall("c5", "read", '{"p":a}', True)
LIST = ReplyCall("c6", "read", '["a"]', True)
NAMELESS = ReplyCall("c7", "", "{}", True)
TEXT = ReplyText("Hello.", True)
BLANK = ReplyText(" \n", True)
THOUGHT = ReplyReasoning("Hm.", True)
SEALED = ReplyReasoning("", True, {"data": "x"})
NO = ReplyRefusal("No.", True)


def _reply(*blocks, finish="stop", output=None, last=ENDED, skipped=0, reasoning=0):
    usage = None if output is None else Usage(input=5, output=output, reasoning=reasoning)
    return Reply(
        blocks,
        id="r",
        model="m",
        finish=finish,
        finish_said=finish or "",
        usage=usage,
        skipped=skipped,
        last=last,
    )


TABLE = [
    # A tidy end
    pytest.param(_reply(TEXT), None, "complete", id="text"),
    pytest.param(_reply(TEXT, finish=None), None, "complete", id="text without a reason"),
    pytest.param(_reply(TEXT, finish="other"), None, "complete", id="text and an unknown reason"),
    pytest.param(_reply(ReplyText("Done 😀", True)), None, "complete", id="an answer that ends in an emoji"),
    pytest.param(_reply(WHOLE, finish="calls"), None, "complete", id="a call"),
    pytest.param(_reply(TEXT, WHOLE, OTHER, finish="calls"), None, "complete", id="text and two calls"),
    pytest.param(_reply(WHOLE, finish="stop"), None, "complete", id="a call over stop"),
    pytest.param(_reply(WHOLE, finish=None), None, "complete", id="a call without a reason"),
    pytest.param(_reply(WHOLE, finish="calls", output=64), 64, "complete", id="a whole call at the cap"),
    pytest.param(_reply(TEXT, output=63), 64, "complete", id="text below the cap"),
    # Length
    pytest.param(_reply(TEXT, finish="length"), None, "cut_by_length", id="text over length"),
    pytest.param(_reply(TEXT, finish="window"), None, "cut_by_length", id="the window is full"),
    pytest.param(_reply(TEXT, finish="stop", output=64), 64, "cut_by_length", id="text at the cap over stop"),
    pytest.param(_reply(WHOLE, finish="length"), None, "cut_by_length", id="a whole call over length"),
    pytest.param(_reply(OPEN, finish="length"), None, "cut_by_length", id="an open call over length"),
    pytest.param(_reply(OPEN, finish="calls", output=64), 64, "cut_by_length", id="an open call at the cap"),
    pytest.param(_reply(finish="length"), None, "cut_by_length", id="nothing over length, no reasoning"),
    pytest.param(
        _reply(THOUGHT, TEXT, finish="length"), None, "cut_by_length", id="reasoning and text over length"
    ),
    pytest.param(
        _reply(THOUGHT, OPEN, finish="length"), None, "cut_by_length", id="reasoning and a call over length"
    ),
    # Thinking
    pytest.param(_reply(THOUGHT, finish="length"), None, "thinking_exhausted", id="reasoning over length"),
    pytest.param(
        _reply(THOUGHT, BLANK, finish="length"), None, "thinking_exhausted", id="reasoning and white space"
    ),
    pytest.param(
        _reply(SEALED, finish="length"), None, "thinking_exhausted", id="sealed reasoning over length"
    ),
    pytest.param(_reply(THOUGHT, output=64), 64, "thinking_exhausted", id="reasoning at the cap over stop"),
    pytest.param(
        _reply(finish="length", output=64, reasoning=64),
        None,
        "thinking_exhausted",
        id="reasoning only counted",
    ),
    # Nothing
    pytest.param(_reply(), None, "empty", id="nothing"),
    pytest.param(_reply(BLANK), None, "empty", id="white space"),
    pytest.param(_reply(THOUGHT), None, "empty", id="reasoning and then nothing"),
    pytest.param(_reply(finish=None), None, "empty", id="nothing, no reason"),
    # Filters and refusals
    pytest.param(_reply(TEXT, finish="filtered"), None, "filtered", id="filtered text"),
    pytest.param(_reply(WHOLE, finish="filtered"), None, "filtered", id="a filtered call"),
    pytest.param(_reply(finish="filtered"), None, "filtered", id="filtered before anything"),
    pytest.param(_reply(TEXT, finish=None, last=FILTERED), None, "filtered", id="cut by a policy"),
    pytest.param(_reply(NO), None, "refused", id="a refusal over stop"),
    pytest.param(
        _reply(NO, finish="filtered"), None, "refused", id="a refusal that the host files under its filter"
    ),
    pytest.param(_reply(TEXT, finish="refused"), None, "refused", id="a refusal by reason"),
    pytest.param(_reply(NO, WHOLE, finish="calls"), None, "refused", id="a refusal and a call"),
    # To go on
    pytest.param(_reply(TEXT, finish="paused"), None, "paused", id="paused"),
    pytest.param(_reply(TEXT, finish="compacted"), None, "paused", id="compacted"),
    # Not to be trusted
    pytest.param(_reply(BAD, finish="calls"), None, "malformed", id="bad JSON"),
    pytest.param(_reply(WHOLE, BAD, finish="calls"), None, "malformed", id="one good and one bad"),
    pytest.param(_reply(LIST, finish="calls"), None, "malformed", id="a list for arguments"),
    pytest.param(_reply(NAMELESS, finish="calls"), None, "malformed", id="a call without a name"),
    pytest.param(
        _reply(WHOLE, finish="calls", skipped=1), None, "malformed", id="a call and an unreadable frame"
    ),
    pytest.param(_reply(TEXT, finish="calls"), None, "malformed", id="calls announced, none sent"),
    pytest.param(_reply(finish="malformed"), None, "malformed", id="the provider could not read its call"),
    pytest.param(
        _reply(WHOLE, finish="malformed"), None, "malformed", id="malformed by reason over a whole call"
    ),
    # Cuts
    pytest.param(_reply(TEXT, skipped=1), None, "cut_by_transport", id="text and an unreadable frame"),
    pytest.param(_reply(skipped=1), None, "cut_by_transport", id="nothing but an unreadable frame"),
    pytest.param(_reply(TEXT, finish=None, last=RESET), None, "cut_by_transport", id="text and a reset"),
    pytest.param(
        _reply(WHOLE, finish="calls", last=RESET), None, "cut_by_transport", id="a whole call and a reset"
    ),
    pytest.param(
        _reply(TEXT, finish="stop", last=STALLED), None, "cut_by_transport", id="a reason and a stall"
    ),
    pytest.param(_reply(finish=None, last=RESET), None, "cut_by_transport", id="nothing and a reset"),
    pytest.param(
        _reply(THOUGHT, finish=None, last=RESET), None, "cut_by_transport", id="reasoning and a reset"
    ),
    pytest.param(
        _reply(WHOLE, finish="failed"), None, "cut_by_transport", id="a call, but the provider says it failed"
    ),
    pytest.param(_reply(WHOLE, finish="calls", last=None), None, "cut_by_transport", id="no last word yet"),
    pytest.param(_reply(OPEN, finish="calls"), None, "cut_by_transport", id="an open call over tool_calls"),
    pytest.param(_reply(OPEN, finish="stop"), None, "cut_by_transport", id="an open call over stop"),
    pytest.param(_reply(OPEN, finish=None), None, "cut_by_transport", id="an open call without a reason"),
    pytest.param(
        _reply(WHOLE, OPEN, finish="calls"), None, "cut_by_transport", id="one whole and one open call"
    ),
    pytest.param(_reply(UNCLOSED, finish="calls"), None, "cut_by_transport", id="a call that was not closed"),
    pytest.param(_reply(BAD, OPEN, finish="calls"), None, "cut_by_transport", id="one bad and one open call"),
    pytest.param(
        _reply(OPEN, finish="calls", output=63), 64, "cut_by_transport", id="an open call below the cap"
    ),
]
BLOCKS = [
    (),
    (TEXT,),
    (THOUGHT,),
    (WHOLE,),
    (WHOLE, OPEN),
    (BAD,),
    (NO,),
    (UNCLOSED,),
    (NAMELESS,),
    (TEXT, WHOLE),
]
FINISHES = [
    None,
    "stop",
    "length",
    "calls",
    "filtered",
    "refused",
    "window",
    "malformed",
    "paused",
    "failed",
    "other",
]


def _every_reply():
    for blocks, finish, last, skipped, output in product(
        BLOCKS, FINISHES, [ENDED, RESET, STALLED, FILTERED, None], [0, 1], [None, 64]
    ):
        yield _reply(*blocks, finish=finish, last=last, skipped=skipped, output=output)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("reply, cap, kind", TABLE)
def test_a_reply_is_what_all_the_evidence_says(reply, cap, kind):
    assert verdict(reply, cap=cap).kind == kind


def test_the_table_has_every_kind_of_verdict():
    assert {row.values[2] for row in TABLE} == set(get_args(VerdictKind))


@pytest.mark.requirement("B1", "C1")
def test_only_a_complete_reply_carries_calls():
    tried = 0
    for reply in _every_reply():
        tried += 1
        found = verdict(reply, cap=64)
        if found.kind != "complete":
            assert found.calls == (), reply
        elif reply.calls:
            assert len(found.calls) == len(reply.calls), reply
            assert all(call.closed for call in reply.calls)
    assert tried == 2200


@pytest.mark.requirement("B1")
def test_a_reply_without_its_terminal_event_is_never_complete():
    for reply in _every_reply():
        if not reply.ended:
            assert verdict(reply).kind in ("cut_by_transport", "filtered"), reply


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("call", [OPEN, UNCLOSED])
def test_cut_arguments_are_refused_under_any_finish_reason(call, finish):
    for blocks in ((call,), (WHOLE, call), (call, WHOLE), (TEXT, call)):
        found = verdict(_reply(*blocks, finish=finish))
        assert found.kind != "complete"
        assert found.calls == ()


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("at", range(len(WHOLE.arguments)))
def test_arguments_cut_at_any_character_never_run(at):
    cut = ReplyCall("c", "read", WHOLE.arguments[:at], closed=at > 0)
    assert verdict(_reply(cut, finish="calls")).kind == "cut_by_transport"


@pytest.mark.requirement("C2")
def test_thinking_is_blamed_only_if_reasoning_came_and_nothing_visible():
    for reply in _every_reply():
        if verdict(reply, cap=64).kind == "thinking_exhausted":
            assert reply.reasoning, reply
            assert not reply.text.strip(), reply
            assert not reply.calls, reply


def test_sound_calls_have_parsed_arguments_in_order():
    assert verdict(_reply(WHOLE, OTHER, finish="calls")).calls == (
        SoundCall("c1", "read", {"p": "a"}),
        SoundCall("c2", "now", {}),
    )


@pytest.mark.parametrize("arguments", ["", " ", "{}", "null", " {} "])
def test_no_arguments_in_any_spelling_are_an_empty_object(arguments):
    (call,) = verdict(_reply(ReplyCall("c", "now", arguments, True), finish="calls")).calls
    assert call.arguments == {}


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    "reply, cap, sentence",
    [
        (_reply(TEXT), None, "ended by [DONE]"),
        (_reply(TEXT), None, "finish stop"),
        (_reply(TEXT), None, "no usage"),
        (_reply(TEXT, finish=None), None, "no finish reason"),
        (_reply(TEXT, last=RESET), None, "cut: reset"),
        (_reply(TEXT, last=STALLED), None, "cut: stalled, clock gap"),
        (_reply(TEXT, last=None), None, "the stream has no last word yet"),
        (_reply(TEXT, skipped=2), None, "2 unreadable frames were skipped"),
        (_reply(TEXT, output=64), 64, "the output count reached the cap of 64"),
        (_reply(ReplyText("```py\nx", True)), None, "a code fence is open"),
        (_reply(OPEN, finish="calls"), None, "the arguments of write are not whole"),
        (_reply(NAMELESS, finish="calls"), None, "a call without a name"),
        (
            _reply(WHOLE, finish="calls", skipped=1),
            None,
            "an unreadable frame may have held a part of a call",
        ),
        (_reply(WHOLE, OTHER, finish="calls"), None, "2 whole calls"),
        (_reply(TEXT, finish="calls"), None, "calls were announced and none arrived"),
        (_reply(THOUGHT), None, "reasoning only"),
        (_reply(), None, "nothing arrived"),
        (_reply(THOUGHT, finish="length"), None, "reasoning was seen and nothing visible"),
        (
            Reply(finish="failed", finish_said="stop", finish_detail="network_error"),
            None,
            "finish stop (network_error)",
        ),
    ],
)
def test_a_verdict_records_why(reply, cap, sentence):
    assert sentence in verdict(reply, cap=cap).evidence


def test_every_verdict_has_evidence():
    assert all(verdict(reply, cap=64).evidence for reply in _every_reply())

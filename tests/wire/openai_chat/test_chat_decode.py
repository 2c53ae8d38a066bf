"""Chat Completions as servers really speak it: every recorded body, and the single rules behind them."""

import json
from typing import Any

import msgspec
import pytest
from support.wire.chat_cases.calls import CALLS
from support.wire.chat_cases.case import TRANSCRIPTS, Case, body, found, last_word, read, reply_of, states
from support.wire.chat_cases.clean import CLEAN
from support.wire.chat_cases.endings import ENDINGS
from support.wire.chat_cases.errors import ERRORS
from support.wire.chat_cases.framing import FRAMING
from support.wire.chat_cases.reasoning import REASONING

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    CallStarted,
    Cut,
    FieldsNoted,
    FinishNoted,
    ReasoningDelta,
    StateNoted,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.openai_chat.calls import CallMerger
from turnbuckle.wire.openai_chat.frames import Function, ToolCall

ALL = [*CLEAN, *CALLS, *REASONING, *ENDINGS, *ERRORS, *FRAMING]
TWINS = [case.name.removesuffix(".sse") for case in CLEAN if case.name.endswith(".sse")]
CALL_ONLY = [case.name for case in ALL if case.calls and not case.text]


def _names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


def _stream(*deltas, finish="stop", done=True):
    """A body of one chunk per delta, then the reason, then the end mark."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [{"id": "chatcmpl-1", "model": "m", "choices": [choice]} for choice in choices]
    frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join(frames + ["data: [DONE]\n\n"] * done).encode()


def _fragment(**fields):
    return {"tool_calls": [fields]}


# The recorded bodies


@pytest.mark.requirement("A12")
def test_every_recorded_body_has_its_row_in_a_table():
    recorded = sorted(path.name for path in TRANSCRIPTS.iterdir())
    assert sorted(_names(ALL)) == recorded


@pytest.mark.requirement("A2", "A10", "A12")
@pytest.mark.parametrize("case", [*CLEAN, *CALLS], ids=lambda case: case.name)
def test_calls_and_text_fold_to_whole_values(case):
    assert found(case) == case


@pytest.mark.requirement("A7", "A12")
@pytest.mark.parametrize("case", REASONING, ids=lambda case: case.name)
def test_reasoning_in_any_spelling_folds_to_its_own_field(case):
    assert found(case) == case


@pytest.mark.requirement("C4", "A12")
@pytest.mark.parametrize("case", ENDINGS, ids=lambda case: case.name)
def test_a_finish_reason_is_weighed_and_usage_is_found_wherever_it_is(case):
    assert found(case) == case


@pytest.mark.requirement("A11", "A12", "B1")
@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.name)
def test_an_error_inside_a_200_is_a_cut_that_says_so(case):
    assert found(case) == case


@pytest.mark.requirement("A12")
@pytest.mark.parametrize("case", FRAMING, ids=lambda case: case.name)
def test_damage_below_the_json_is_survived(case):
    assert found(case) == case


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_events_of_a_recorded_body_break_no_invariant(case):
    assert check_stream(read(body(case.name), case.quirks)) == ()


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("name", TWINS)
def test_a_stream_folds_to_the_same_reply_as_its_plain_answer(name):
    streamed, plain = reply_of(f"{name}.sse"), reply_of(f"{name}.json")
    assert msgspec.structs.replace(streamed, last=None) == msgspec.structs.replace(plain, last=None)
    assert (last_word(streamed), last_word(plain)) == ("ended by [DONE]", "ended by answer")


def test_each_clean_stream_has_a_plain_twin():
    assert sorted(_names(CLEAN)) == sorted(
        f"{name}{suffix}" for name in TWINS for suffix in (".sse", ".json")
    )


# State


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "name, expected",
    [
        (
            "calls-gemini-signature.sse",
            [{"extra_content": {"google": {"thought_signature": "EpwBCpkBAdHtim9k+Zt/aQ=="}}}],
        ),
        ("calls-openrouter-signature.sse", [{"thoughtSignature": "Ep0BsAbc=="}]),
        (
            "reasoning-details.sse",
            [
                {
                    "reasoning_details": [
                        {
                            "type": "reasoning.text",
                            "format": "anthropic-claude-v1",
                            "index": 0,
                            "text": "Add them.",
                            "signature": "ErUBCkYIBxgC",
                        }
                    ]
                }
            ],
        ),
        (
            "reasoning-details-two-types-one-index.sse",
            [
                {
                    "reasoning_details": [
                        {"type": "reasoning.text", "format": "google-gemini-v1", "index": 0, "text": "Plan."},
                        {
                            "type": "reasoning.encrypted",
                            "format": "google-gemini-v1",
                            "index": 0,
                            "id": "tool_book",
                            "data": "Q2lQ",
                        },
                    ]
                }
            ],
        ),
        (
            "reasoning-encrypted-only.sse",
            [
                {
                    "reasoning_details": [
                        {
                            "type": "reasoning.encrypted",
                            "id": "rs_1",
                            "format": "openai-responses-v1",
                            "index": 0,
                            "data": "gAAAAABo",
                        }
                    ]
                }
            ],
        ),
    ],
)
def test_provider_state_is_kept_without_loss(name, expected):
    assert states(reply_of(name)) == expected


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "field, value", [("extra_content", {"google": {"x": 1}}), ("thoughtSignature", "Ep0B")]
)
def test_a_signature_on_a_later_fragment_is_kept(field, value):
    first = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{"})
    later = _fragment(index=0, function={"arguments": "}"}, **{field: value})
    reply = fold(read(_stream(first, later)))
    assert (reply.calls[0].arguments, reply.calls[0].state) == ("{}", {field: value})


# Order


@pytest.mark.requirement("A4")
@pytest.mark.parametrize(
    "name, kinds",
    [
        ("calls-text-around.sse", "text call text"),
        ("clean-text-then-call.sse", "text call"),
        ("clean-reasoning-content.sse", "reasoning text"),
        ("reasoning-encrypted-only.sse", "reasoning call text"),
        ("reasoning-details-two-types-one-index.sse", "reasoning call"),
        ("think-then-call.sse", "reasoning call"),
    ],
)
def test_blocks_keep_the_order_in_which_they_began(name, kinds):
    blocks = reply_of(name).blocks
    assert [block.__struct_config__.tag for block in blocks] == kinds.split()


@pytest.mark.requirement("A4")
def test_text_that_was_held_back_stays_in_front_of_the_call():
    call = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{}"})
    events = read(_stream({"content": "a "}, {"content": "<"}, call, {"content": "b"}))
    assert [type(event) for event in events if isinstance(event, TextDelta | CallStarted)] == [
        TextDelta,
        TextDelta,
        CallStarted,
        TextDelta,
    ]
    assert fold(events).text == "a <b"


@pytest.mark.requirement("A6")
@pytest.mark.parametrize("name", CALL_ONLY)
def test_a_reply_of_calls_alone_shows_no_text(name):
    assert not [event for event in read(body(name)) if isinstance(event, TextDelta)]


@pytest.mark.requirement("A6")
def test_text_around_a_call_is_shown_as_it_comes():
    shown = [
        event.text for event in read(body("calls-text-around.sse")) if isinstance(event, TextDelta | CallArgs)
    ]
    assert shown == ["First ", "this.", '{"x":', "And ", "1}", "that."]


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "case", [case for case in REASONING if "think-tag-in" not in case.name], ids=lambda c: c.name
)
def test_no_piece_of_a_tag_is_ever_shown(case):
    shown = [event.text for event in read(body(case.name), case.quirks) if isinstance(event, TextDelta)]
    assert not [text for text in shown if "think" in text or "◁" in text]


def test_reasoning_beside_an_argument_fragment_is_not_lost():
    first = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{"})
    for field in ("reasoning_content", "reasoning", "thinking"):
        both = {**_fragment(index=0, function={"arguments": "}"}), field: "Hm."}
        reply = fold(read(_stream(first, both)))
        assert (reply.reasoning, reply.calls[0].arguments) == ("Hm.", "{}")


def test_an_angle_bracket_or_a_backtick_does_not_hold_up_plain_text():
    pieces = ["if a ", "< b", " and `c` ", "<d>", " end"]
    reply = fold(read(_stream(*({"content": piece} for piece in pieces))))
    assert reply.text == "".join(pieces)


# Ends


WORDS = {
    "stop": "stop eos eos_token stop_sequence end_turn COMPLETE",
    "length": "length max_tokens model_length",
    "calls": "tool_calls function_call tool_use",
    "filtered": "content_filter content_filtered sensitive SAFETY recitation guardrail_intervened PROHIBITED_CONTENT",
    "window": "model_context_window_exceeded",
    "malformed": "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MISSING_THOUGHT_SIGNATURE",
    "failed": "error network_error ERROR abort insufficient_system_resource repetition",
    "other": "load_shed",
}


@pytest.mark.requirement("A12", "C4")
@pytest.mark.parametrize(
    "finish, said", [(finish, word) for finish, words in WORDS.items() for word in words.split()]
)
def test_each_known_finish_word_has_its_meaning(finish, said):
    noted = [
        event for event in read(_stream({"content": "x"}, finish=said)) if isinstance(event, FinishNoted)
    ]
    assert noted == [FinishNoted(finish, said)]


@pytest.mark.requirement("B1")
@pytest.mark.parametrize("said", ["error", "network_error", "abort"])
def test_a_reply_whose_provider_says_that_it_failed_is_cut(said):
    call = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{}"})
    reply = fold(read(_stream(call, finish=said)))
    assert last_word(reply) == "cut: server"
    assert not any(call.closed for call in reply.calls)
    assert verdict(reply).calls == ()


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    "finish, native, expected",
    [
        ("stop", "network_error", "failed"),
        ("tool_calls", "MALFORMED_FUNCTION_CALL", "malformed"),
        (None, "error", "failed"),
        ("length", "MAX_TOKENS", "length"),
        ("stop", "STOP", "stop"),
        ("stop", "never_seen", "stop"),
    ],
)
def test_what_the_upstream_said_beats_a_routers_relabelling(finish, native, expected):
    choice = {"index": 0, "delta": {}, "finish_reason": finish, "native_finish_reason": native}
    chunk = {"id": "gen-1", "model": "m", "choices": [choice]}
    noted = [
        event
        for event in read(b"data: %b\n\n" % json.dumps(chunk).encode())
        if isinstance(event, FinishNoted)
    ]
    assert noted == [FinishNoted(expected, finish or "", native)]


@pytest.mark.requirement("B1")
def test_a_call_is_closed_only_by_the_end_of_the_stream():
    call = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{}"})
    whole = _stream(call, finish="tool_calls")
    cut = whole[: whole.index(b'"finish_reason": "tool_calls"')]
    assert [found.closed for found in fold(read(whole)).calls] == [True]
    assert [found.closed for found in fold(read(cut)).calls] == [False]


@pytest.mark.requirement("B1", "C1")
@pytest.mark.parametrize("finish", ["tool_calls", "stop", "length"])
@pytest.mark.parametrize("done", [True, False])
def test_a_finish_reason_does_not_close_a_call_whose_object_is_open(finish, done):
    whole = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{}"})
    cut = _fragment(index=1, id="c2", function={"name": "f", "arguments": '{"a":'})
    reply = fold(read(_stream(whole, cut, finish=finish, done=done)))
    assert [call.closed for call in reply.calls] == [True, False]
    assert verdict(reply).calls == ()


@pytest.mark.requirement("B1")
def test_on_a_host_that_never_says_why_it_stopped_a_call_is_not_believed():
    quirks = Quirks(finishless=True)
    call = _fragment(index=0, id="c1", function={"name": "f", "arguments": "{}"})
    body_without_end = _stream(call).rsplit(b"data: {", 1)[0]
    assert last_word(fold(read(body_without_end, quirks))) == "cut: incomplete"
    text_without_end = _stream({"content": "Hello"}).rsplit(b"data: {", 1)[0]
    assert last_word(fold(read(text_without_end, quirks))) == "ended by end of body"


def test_a_named_error_event_that_is_no_json_is_an_error():
    last = read(b"event: error\ndata: the connection was lost\n\n")[-1]
    assert isinstance(last, Cut)
    assert (last.failure.kind, last.failure.message) == ("reset", "the connection was lost")


def test_a_chunk_may_call_itself_an_error_without_an_envelope():
    last = read(
        b'data: {"object":"error","message":"too many tokens","type":"BadRequestError","code":400}\n\n'
    )[-1]
    assert isinstance(last, Cut)
    assert (last.failure.kind, last.failure.status) == ("context", 400)


def test_usage_is_replaced_and_never_summed():
    noted = [
        event.usage.output
        for event in read(body("usage-on-every-chunk.sse"))
        if isinstance(event, UsageNoted)
    ]
    assert noted == [0, 1, 2, 2]


def test_details_of_usage_are_read():
    usage = reply_of("clean-reasoning-content.sse").usage
    assert usage is not None
    assert (usage.cached, usage.reasoning) == (64, 5)
    cost = reply_of("calls-openrouter-signature.sse").usage
    assert cost is not None
    assert cost.cost == 0.00042


@pytest.mark.parametrize(
    "frame, what",
    [
        (b": keep-alive\n\n", "comment"),
        (b"event: ping\n\n", "empty"),
        (b'data: {"id":"x","choices":[]}\n\n', "lifecycle"),
        (b'data: {"id":"x","choices":[{"index":0,"delta":{}}]}\n\n', "ping"),
    ],
)
def test_every_frame_without_content_is_a_sign_of_life(frame, what):
    start = b'data: {"id":"x","model":"m","choices":[]}\n\n'
    assert read(start + frame)[-2] == Alive(what)


def test_the_first_facts_come_once_and_late_ones_are_added():
    reply = reply_of("azure-first-frame.sse")
    assert (reply.id, reply.model) == ("chatcmpl-AzT", "gpt-4.1-2025-04-14")
    assert reply_of("model-without-id.sse").model == "tiny"


def test_think_tags_are_left_alone_where_that_is_asked_for():
    data = _stream({"content": "<think>a</think>b"})
    assert fold(read(data, Quirks(think="off"))).text == "<think>a</think>b"
    assert fold(read(data)).text == "b"


def test_state_of_reasoning_is_noted_before_its_block_closes():
    events = read(body("reasoning-details.sse"))
    (noted,) = [at for at, event in enumerate(events) if isinstance(event, StateNoted)]
    assert [type(event).__name__ for event in events[noted:]] == [
        "StateNoted",
        "BlockClosed",
        "BlockClosed",
        "Ended",
    ]
    assert any(isinstance(event, ReasoningDelta) for event in events[:noted])


@pytest.mark.requirement("B1", "C4")
def test_a_model_that_its_host_stopped_for_circling_is_not_asked_the_same_again():
    failure = read(_stream({"content": "again again "}, finish="repetition"))[-1].failure
    assert (failure.kind, failure.retryable) == ("repeated", False)


def test_an_error_in_groqs_own_field_is_an_error():
    chunk = {
        "choices": [{"index": 0, "delta": {"content": "a"}}],
        "x_groq": {"error": "the engine is over capacity"},
    }
    last = read(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())[-1]
    assert (type(last), last.failure.message) == (Cut, "the engine is over capacity")


@pytest.mark.requirement("A2", "A12")
def test_a_name_that_is_only_repeated_is_no_further_call():
    fragments = [
        _fragment(index=0, function={"name": "f", "arguments": piece}) for piece in ('{"x"', ":1}", "", "")
    ]
    reply = fold(read(_stream(*fragments, finish="tool_calls")))
    assert [(call.name, call.arguments) for call in reply.calls] == [("f", '{"x":1}')]


def test_another_name_behind_a_whole_object_is_the_next_call():
    first = _fragment(index=0, function={"name": "f", "arguments": '{"x":1}'})
    second = [
        _fragment(index=0, function={"name": "g", "arguments": ""}),
        _fragment(index=0, function={"arguments": "{}"}),
    ]
    reply = fold(read(_stream(first, *second, finish="tool_calls")))
    assert [(call.name, call.arguments) for call in reply.calls] == [("f", '{"x":1}'), ("g", "{}")]


BRACES = ['{"a":"}{"}', r'{"a":"\"}{"}', r'{"a":"\\"}', '{"a":{"b":[{}]}}', ' {"a":1} ', "{}"]


@pytest.mark.parametrize("arguments", [arguments for arguments in BRACES if arguments.strip() != "{}"])
def test_braces_inside_a_string_end_no_call_though_each_fragment_repeats_the_name(arguments):
    fragments = [_fragment(index=0, function={"name": "f", "arguments": piece}) for piece in arguments]
    twice = _stream(*fragments, *fragments, finish="tool_calls")
    assert [call.arguments.strip() for call in fold(read(twice)).calls] == [arguments.strip()] * 2


def test_an_argument_of_braces_whose_every_character_repeats_the_name_is_one_call():
    """Reading all of it again at each fragment would take minutes and meet the suite's time limit."""
    merger = CallMerger(lambda call_id: (0, call_id or "c"))
    out: list[Any] = []
    for piece in '{"a":"' + "}{" * 100_000:
        merger.fragment(ToolCall(index=0, function=Function("f", piece)), 0, out)
    assert len(merger.calls) == 1
    assert len(out) == 1 + 200_006


def test_a_field_beside_the_reply_is_told_again_where_the_end_of_it_says_something_else():
    def chunk(tier: str | None, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        told = {"id": "c", "model": "m", "provider": "p", "service_tier": tier, "choices": [choice]}
        return b"data: %b\n\n" % msgspec.json.encode(told)

    begun, words = chunk("auto", {"role": "assistant"}), chunk("unseen", {"content": "a"})
    for tier, told in (("auto", []), (None, []), ("flex", [{"service_tier": "flex"}])):
        events = read(begun + words + words + chunk(tier, {}, "stop"))
        noted = [event.data for event in events if isinstance(event, FieldsNoted)]
        assert noted == [{"provider": "p", "service_tier": "auto"}, *told]

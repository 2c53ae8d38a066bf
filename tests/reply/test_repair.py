"""One sentence for each thing that repair does."""

import msgspec
import pytest
from support.turns.histories import assistant, call, every_protocol, passes_of, result, signed, tool, user

from turnbuckle.reply.repair import PASSES, repair
from turnbuckle.reply.repair.history import Terms
from turnbuckle.reply.repair.order import GO_ON, OPENING, RESULTS_SEEN
from turnbuckle.reply.rules import violations
from turnbuckle.reply.stand_in import BAD_ARGUMENTS, CUT_CALL, KEPT_RAW, NO_RESULT, stand_in
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
    text_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.registry import rules_of

MISTRAL = Quirks(text_after_tools=False)


@every_protocol
def test_a_legal_history_comes_back_as_the_same_objects_without_a_note(protocol: ProtocolName) -> None:
    history = (
        Message("system", (TextPart("be kind"),)),
        user("hi"),
        assistant(ReasoningPart("so", signed(protocol)), "looking", call("c1"), call("c2")),
        tool(result("c1"), result("c2")),
        user("and?"),
        assistant("done"),
    )
    repaired = repair(history, rules_of(protocol), model="m")
    assert all(one is other for one, other in zip(repaired.messages, history, strict=True))
    assert repaired.notes == ()
    assert repaired.left == ()


@every_protocol
def test_an_empty_history_stays_empty(protocol: ProtocolName) -> None:
    repaired = repair((), rules_of(protocol), to_ask=True, sealed=5)
    assert (repaired.messages, repaired.notes, repaired.left) == ((), (), ())


@every_protocol
@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("led", [False, True], ids=["", "with instructions"])
def test_no_pass_changes_a_history_of_plain_words(protocol: ProtocolName, length: int, led: bool) -> None:
    """What lets `repair` hand it back without a look."""
    spoken = [user("hi") if number % 2 == 0 else assistant("yes") for number in range(length)]
    history = (*((Message("system", (TextPart("be kind"),)),) if led else ()), *spoken)
    terms = Terms(rules_of(protocol), "m", 0, Quirks(), to_ask=length % 2 == 1)
    for run in PASSES:
        assert run(history, terms) == (history, []), run.__name__
    repaired = repair(history, rules_of(protocol), model="m", to_ask=length % 2 == 1)
    assert (repaired.messages, repaired.notes) == (history, ())


@pytest.mark.requirement("C5")
@every_protocol
def test_a_call_without_a_result_gets_a_failed_one_that_claims_nothing(protocol: ProtocolName) -> None:
    """L1"""
    repaired = repair((user("hi"), assistant(call("c1")), user("next")), rules_of(protocol))
    assert repaired.messages[2] == tool(stand_in("c1", NO_RESULT))
    assert repaired.messages[2].parts[0].failed  # type: ignore[union-attr]
    assert passes_of(repaired) == {"answers"}


@pytest.mark.requirement("C5")
@every_protocol
def test_results_stand_in_one_message_behind_their_turn_in_the_order_of_the_calls(
    protocol: ProtocolName,
) -> None:
    repaired = repair(
        (user("hi"), assistant(call("a"), call("b")), tool(result("b")), tool(result("a"))),
        rules_of(protocol),
    )
    assert repaired.messages[2:] == (tool(result("a"), result("b")),)
    assert passes_of(repaired) == {"answers"}


@every_protocol
def test_a_late_result_that_was_not_sent_is_moved_into_its_place(protocol: ProtocolName) -> None:
    """L3"""
    repaired = repair(
        (user("hi"), assistant(call("c1")), user("next"), tool(result("c1", "late"))), rules_of(protocol)
    )
    assert repaired.messages[2:] == (tool(result("c1", "late")), user("next"))


@every_protocol
def test_a_late_result_takes_the_place_of_a_stand_in_that_was_not_sent(protocol: ProtocolName) -> None:
    history = (
        user("hi"),
        assistant(call("c1")),
        tool(stand_in("c1", NO_RESULT)),
        user("x"),
        tool(result("c1")),
    )
    assert repair(history, rules_of(protocol)).messages[2:] == (tool(result("c1")), user("x"))


@pytest.mark.requirement("C5")
@every_protocol
def test_a_late_result_whose_place_was_sent_is_told_as_a_note(protocol: ProtocolName) -> None:
    """L3"""
    sent = (user("hi"), assistant(call("c1")), tool(stand_in("c1", NO_RESULT)))
    repaired = repair((*sent, user("next"), tool(result("c1", "late"))), rules_of(protocol), sealed=3)
    assert repaired.messages[:3] == sent
    told = repaired.messages[4]
    assert told.role == "user"
    assert told.note
    assert "late result" in text_of(told.parts)
    assert text_of(told.parts).endswith("late")
    assert repaired.left == ()


def test_a_late_result_that_repeats_what_was_sent_is_dropped_with_a_note() -> None:
    sent = (user("hi"), assistant(call("c1")), tool(result("c1")))
    repaired = repair((*sent, tool(result("c1"))), rules_of("openai_chat"), sealed=3)
    assert repaired.messages == sent
    assert [note.index for note in repaired.notes] == [3]


@every_protocol
def test_of_two_results_the_first_stays(protocol: ProtocolName) -> None:
    repaired = repair(
        (user("hi"), assistant(call("c1")), tool(result("c1", "1"), result("c1", "2"))), rules_of(protocol)
    )
    assert repaired.messages[2:] == (tool(result("c1", "1")),)
    assert "it has another" in repaired.notes[0].what


@every_protocol
def test_a_result_that_no_call_asked_for_is_dropped_with_a_note(protocol: ProtocolName) -> None:
    repaired = repair((user("hi"), tool(result("who")), assistant("yes")), rules_of(protocol))
    assert repaired.messages == (user("hi"), assistant("yes"))
    assert passes_of(repaired) == {"orphan_results"}


@every_protocol
def test_a_result_before_its_call_is_an_orphan(protocol: ProtocolName) -> None:
    repaired = repair((user("hi"), tool(result("c1")), assistant(call("c1"))), rules_of(protocol))
    assert repaired.messages == (user("hi"), assistant(call("c1")), tool(stand_in("c1", NO_RESULT)))


@pytest.mark.requirement("C5", "A12")
@every_protocol
def test_ids_that_start_again_each_round_are_renamed_with_their_results(protocol: ProtocolName) -> None:
    one_round = (assistant(call("call_0")), tool(result("call_0")))
    repaired = repair((user("hi"), *one_round, *one_round, *one_round), rules_of(protocol))
    ids = [part.id for message in repaired.messages for part in message.parts if isinstance(part, CallPart)]
    assert ids == ["call_0", "call_0_1", "call_0_2"]
    assert [m.parts[0].call_id for m in repaired.messages if m.role == "tool"] == ids  # type: ignore[union-attr]
    assert passes_of(repaired) == {"unique_ids"}


@every_protocol
def test_a_renamed_id_avoids_every_id_of_the_history(protocol: ProtocolName) -> None:
    history = (
        user("hi"),
        assistant(call("c"), call("c"), call("c_1")),
        tool(result("c", "1"), result("c", "2")),
    )
    repaired = repair(history, rules_of(protocol))
    assert [part.id for part in repaired.messages[1].parts] == ["c", "c_2", "c_1"]  # type: ignore[union-attr]
    assert repaired.messages[2] == tool(result("c", "1"), result("c_2", "2"), stand_in("c_1", NO_RESULT))


@every_protocol
def test_calls_without_ids_are_named_and_paired_in_order(protocol: ProtocolName) -> None:
    history = (user("hi"), assistant(call(""), call("")), tool(result("", "1"), result("", "2")))
    repaired = repair(history, rules_of(protocol))
    assert repaired.messages[1:] == (
        assistant(call("call_1"), call("call_2")),
        tool(result("call_1", "1"), result("call_2", "2")),
    )


@pytest.mark.parametrize(
    "protocol, call_id, is_renamed",
    [
        ("openai_chat", "functions.look:0", False),
        ("openai_chat", "x" * 200, False),
        ("openai_responses", "functions.look:0", False),
        ("openai_responses", "x" * 64, False),
        ("openai_responses", "x" * 65, True),
        ("anthropic", "functions.look:0", True),
        ("anthropic", "x" * 65, False),
    ],
)
def test_an_id_of_another_provider_is_renamed_where_it_is_not_allowed(
    protocol: ProtocolName, call_id: str, is_renamed: bool
) -> None:
    history = (user("hi"), assistant(call(call_id)), tool(result(call_id)))
    repaired = repair(history, rules_of(protocol))
    assert (repaired.messages != history) == is_renamed
    assert violations(repaired.messages, rules_of(protocol)) == ()


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "protocol, is_kept", [("openai_chat", True), ("anthropic", True), ("openai_responses", False)]
)
def test_a_renamed_call_keeps_its_signature_but_is_no_longer_a_known_item(
    protocol: ProtocolName, is_kept: bool
) -> None:
    state = ProviderState(protocol, "m", {"extra_content": {"google": {"thought_signature": "s"}}})
    history = (user("hi"), assistant(CallPart("", "look", "{}", state)))
    renamed = repair(history, rules_of(protocol)).messages[1].parts[0]
    assert renamed.state == (state if is_kept else None)  # type: ignore[union-attr]


@every_protocol
def test_a_call_without_a_name_goes_together_with_its_result(protocol: ProtocolName) -> None:
    history = (user("hi"), assistant("look", call("c1", name=" ")), tool(result("c1")))
    repaired = repair(history, rules_of(protocol))
    assert repaired.messages == (user("hi"), assistant("look"))
    assert [note.pass_name for note in repaired.notes] == ["nameless_calls"] * 2


@pytest.mark.requirement("C1", "C5", "B1")
@pytest.mark.parametrize("arguments", ["", '{"path":"a', '{"a":1}}', "[1]"])
@every_protocol
def test_a_half_call_of_a_cut_reply_is_dropped_and_the_text_stays(
    protocol: ProtocolName, arguments: str
) -> None:
    """T1"""
    history = (user("hi"), assistant("so", call("c1", arguments), partial=True), user("go on"))
    repaired = repair(history, rules_of(protocol))
    assert repaired.messages == (user("hi"), assistant("so", partial=True), user("go on"))
    assert passes_of(repaired) == {"half_calls"}


@pytest.mark.requirement("B1")
@every_protocol
def test_a_whole_call_of_a_cut_reply_is_answered_as_one_that_did_not_run(protocol: ProtocolName) -> None:
    repaired = repair((user("hi"), assistant(call("c1"), partial=True)), rules_of(protocol))
    assert repaired.messages[2] == tool(stand_in("c1", CUT_CALL))


@every_protocol
def test_a_half_call_that_was_answered_stays_with_legal_arguments(protocol: ProtocolName) -> None:
    history = (user("hi"), assistant(call("c1", '{"a":"b'), partial=True), tool(stand_in("c1", CUT_CALL)))
    repaired = repair(history, rules_of(protocol))
    kept = repaired.messages[1].parts[0]
    assert msgspec.json.decode(kept.arguments) == {"_truncated": '{"a":"b'}  # type: ignore[union-attr]
    assert repaired.messages[2] is history[2]


@pytest.mark.requirement("C1", "C5")
@pytest.mark.parametrize(
    "raw, key",
    [
        ('{"a":"b', "_truncated"),
        ('{"a":1}}', "_malformed"),
        ("[1]", "_malformed"),
        ("\ud800", "_malformed"),
        ('{"a":NaN}', "_malformed"),
    ],
)
@every_protocol
def test_arguments_that_are_no_object_become_one_and_the_call_a_failed_one(
    protocol: ProtocolName, raw: str, key: str
) -> None:
    repaired = repair((user("hi"), assistant(call("c1", raw))), rules_of(protocol))
    kept = repaired.messages[1].parts[0]
    assert list(msgspec.json.decode(kept.arguments)) == [key]  # type: ignore[union-attr]
    assert repaired.messages[2] == tool(stand_in("c1", BAD_ARGUMENTS))


def test_no_more_than_a_few_kilobytes_of_bad_arguments_are_kept() -> None:
    raw = '{"content":"' + "x" * 100_000
    kept = repair((user("hi"), assistant(call("c1", raw))), rules_of("openai_chat")).messages[1].parts[0]
    value = msgspec.json.decode(kept.arguments)  # type: ignore[union-attr]
    assert value == {"_truncated": raw[:KEPT_RAW], "_characters": len(raw)}


@pytest.mark.parametrize("blank", ["", " \n", "null"])
@every_protocol
def test_no_arguments_become_an_empty_object_and_nothing_failed(protocol: ProtocolName, blank: str) -> None:
    repaired = repair((user("hi"), assistant(call("c1", blank)), tool(result("c1"))), rules_of(protocol))
    assert repaired.messages[1:] == (assistant(call("c1", "{}")), tool(result("c1")))


@every_protocol
def test_results_in_a_users_message_come_first_and_his_words_after(protocol: ProtocolName) -> None:
    """L2"""
    history = (user("hi"), assistant(call("c1")), user("see", result("c1"), "thanks"))
    assert repair(history, rules_of(protocol)).messages[2:] == (tool(result("c1")), user("see", "thanks"))


@every_protocol
def test_a_users_words_in_a_tool_message_become_a_users_message(protocol: ProtocolName) -> None:
    """T24"""
    image = ImagePart(url="https://example.test/a.png")
    mixed = Message("tool", (TextPart("stop"), result("c1"), image))
    repaired = repair((user("hi"), assistant(call("c1")), mixed), rules_of(protocol))
    assert repaired.messages[2:] == (tool(result("c1")), user("stop", image))


@every_protocol
def test_results_inside_an_assistant_message_come_out_behind_it(protocol: ProtocolName) -> None:
    repaired = repair((user("hi"), assistant(call("c1"), result("c1"), "ok")), rules_of(protocol))
    assert repaired.messages[1:] == (assistant(call("c1"), "ok"), tool(result("c1")))


@every_protocol
def test_calls_and_reasoning_in_a_users_message_are_dropped_with_notes(protocol: ProtocolName) -> None:
    repaired = repair((user("hi", call("c1"), ReasoningPart("hm"), RefusalPart("no")),), rules_of(protocol))
    assert repaired.messages == (user("hi"),)
    assert [note.pass_name for note in repaired.notes] == ["parts_in_place"] * 3


@every_protocol
def test_messages_that_say_nothing_are_dropped(protocol: ProtocolName) -> None:
    """S10"""
    repaired = repair((user("hi"), user(), user(" \n"), assistant(""), user("x", "")), rules_of(protocol))
    assert repaired.messages == (user("hi"), user("x"))
    assert passes_of(repaired) == {"empties"}


@pytest.mark.parametrize(
    "protocol, is_kept", [("openai_chat", True), ("openai_responses", True), ("anthropic", False)]
)
def test_white_space_between_texts_goes_only_where_it_is_refused(
    protocol: ProtocolName, is_kept: bool
) -> None:
    repaired = repair((user("hi"), assistant("a", "\n\n", "b")), rules_of(protocol))
    assert repaired.messages[1] == (assistant("a", "\n\n", "b") if is_kept else assistant("a", "b"))


def test_an_empty_text_in_a_result_goes_where_it_is_refused_and_the_result_stays() -> None:
    history = (user("hi"), assistant(call("c1")), tool(result("c1", "")))
    assert repair(history, rules_of("anthropic")).messages[2] == tool(ResultPart("c1", ()))
    assert repair(history, rules_of("openai_chat")).messages == history


@every_protocol
def test_assistant_messages_behind_each_other_become_one_before_results_are_placed(
    protocol: ProtocolName,
) -> None:
    history = (user("hi"), assistant(call("c1")), assistant("looking"), tool(result("c1")))
    assert repair(history, rules_of(protocol)).messages[1:] == (
        assistant(call("c1"), "looking"),
        tool(result("c1")),
    )


def test_two_finished_texts_are_joined_with_a_break_and_a_cut_one_without() -> None:
    finished = repair((user("hi"), assistant("One."), assistant("Two.")), rules_of("openai_chat")).messages[1]
    assert text_of(finished.parts) == "One.\n\nTwo."
    cut = repair(
        (user("hi"), assistant("Hel", partial=True), assistant("lo")), rules_of("openai_chat")
    ).messages[1]
    assert text_of(cut.parts) == "Hello"
    assert not cut.partial


@pytest.mark.parametrize(
    "protocol, has_opening", [("anthropic", True), ("openai_chat", False), ("openai_responses", False)]
)
def test_a_history_that_begins_with_the_assistant_is_opened_by_a_note(
    protocol: ProtocolName, has_opening: bool
) -> None:
    """L10"""
    system = Message("system", (TextPart("be kind"),))
    repaired = repair((system, assistant("hello")), rules_of(protocol))
    opening = Message("user", (TextPart(OPENING),), note=True)
    assert repaired.messages == (
        (system, opening, assistant("hello")) if has_opening else (system, assistant("hello"))
    )


def test_where_no_user_may_follow_results_a_note_stands_between() -> None:
    """T24"""
    history = (user("hi"), assistant(call("c1")), tool(result("c1")), user("stop"))
    between = Message("assistant", (TextPart(RESULTS_SEEN),), note=True)
    repaired = repair(history, rules_of("openai_chat"), quirks=MISTRAL)
    assert repaired.messages == (*history[:3], between, history[3])
    assert repair(history, rules_of("openai_chat"), quirks=MISTRAL, sealed=3).messages == repaired.messages
    assert repair(history, rules_of("openai_chat")).messages == history


@every_protocol
def test_a_history_to_be_answered_ends_with_a_request_only_if_that_is_asked_for(
    protocol: ProtocolName,
) -> None:
    history = (user("hi"), assistant("Once upon", partial=True))
    go_on = Message("user", (TextPart(GO_ON),), note=True)
    assert repair(history, rules_of(protocol), to_ask=True, sealed=2).messages == (*history, go_on)
    assert repair(history, rules_of(protocol)).messages == history
    assert repair(history[:1], rules_of(protocol), to_ask=True).messages == history[:1]


def test_each_pass_has_a_name_and_says_what_it_is_for() -> None:
    assert all(run.__name__ != "<lambda>" and run.__doc__ for run in PASSES)


def test_each_of_very_many_colliding_calls_is_renamed_once_and_answered_once() -> None:
    rounds = tuple(message for _ in range(2_000) for message in (assistant(call("call_0")), user("go on")))
    repaired = repair((user("hi"), *rounds), rules_of("anthropic"))
    assert len(repaired.notes) == 1_999 + 2_000
    assert violations(repaired.messages, rules_of("anthropic")) == ()


def test_the_free_text_of_a_custom_tool_is_no_bad_arguments_where_it_came_from() -> None:
    state = ProviderState("openai_responses", "m", {"type": "custom_tool_call", "id": "ctc_1"})
    patch = CallPart("c1", "patch", "*** Begin", state)
    history = (user("hi"), assistant(patch), tool(result("c1")))
    assert repair(history, rules_of("openai_responses")).messages == history
    elsewhere = repair(history, rules_of("anthropic")).messages[1].parts[0]
    assert msgspec.json.decode(elsewhere.arguments) == {"_malformed": "*** Begin"}  # type: ignore[union-attr]
    renamed = repair((*history, *history[1:]), rules_of("openai_responses")).messages[3].parts[0]
    kind_only = ProviderState("openai_responses", "m", {"type": "custom_tool_call"})
    assert renamed == CallPart("c1_1", "patch", "*** Begin", kind_only)
    half = repair((user("hi"), assistant("so", patch, partial=True)), rules_of("openai_responses")).messages
    assert half == (user("hi"), assistant("so", partial=True))


@every_protocol
@pytest.mark.requirement("C5")
def test_a_part_that_no_protocol_takes_from_its_speaker_is_dropped_and_said_so(
    protocol: ProtocolName,
) -> None:
    kept = OpaquePart(ProviderState(protocol, "", {"type": "input_audio", "data": "w"}))
    refusal = RefusalPart("no")
    image = ImagePart(url="https://example.test/a.png")
    history = (
        user("a", refusal, kept),
        assistant(image),
        user("b"),
        assistant("c", FilePart(name="f", data="AA")),
        user("d"),
    )
    repaired = repair(history, rules_of(protocol))
    assert repaired.messages == (user("a", kept), user("b"), assistant("c"), user("d"))
    assert {"parts_in_place", "empties"} == passes_of(repaired)
    assert not repaired.left
    assert {found.rule for found in violations(history, rules_of(protocol))} >= {"misplaced_part"}

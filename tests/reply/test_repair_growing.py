"""A history that grows is sent growing: what went out in one request is how the next one begins."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.reply.repair import repair
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.registry import rules_of

# Few ids, so that they collide within a reply and over replies, and results turn up late or for nothing.
IDS = st.sampled_from(["x", "x", "x_1", "x_1_1", "call_0", "call_0_1", "", "f.a:0", "y" * 70])
NAMES = st.sampled_from(["look", "functions.look", "no such tool", "", "z" * 200])
ARGUMENTS = st.sampled_from(["{}", '{"a":1}', "", '{"a":"cut', "[1]"])
STATES = st.none() | st.builds(
    ProviderState,
    st.sampled_from(PROTOCOL_NAMES),
    st.sampled_from(["", "m", "other"]),
    st.sampled_from(
        [{"signature": "s"}, {"id": "rs_1", "encrypted_content": "e"}, {"type": "custom_tool_call"}]
    ),
)
CALLS = st.builds(CallPart, IDS, NAMES, ARGUMENTS, STATES)
RESULTS = st.builds(
    ResultPart, IDS, st.sampled_from([(TextPart("r1"),), (TextPart("r2"),), ()]), st.booleans()
)
THOUGHTS = st.builds(ReasoningPart, st.sampled_from(["hm", ""]), STATES)
SAID = st.lists(st.one_of(CALLS, CALLS, THOUGHTS), max_size=4)
REPLIES = st.builds(
    lambda parts, partial: Message("assistant", (*parts, TextPart("so")), partial=partial),
    SAID,
    st.booleans(),
)
TOLD = st.lists(RESULTS, min_size=1, max_size=3).map(lambda results: Message("tool", tuple(results)))
NOTES = st.booleans().map(lambda note: Message("user", (TextPart("go on"),), note=note))
PICTURES = st.just(Message("user", (ImagePart(url="https://example.test/a.png"),)))
ASKED = st.tuples(st.lists(st.one_of(TOLD, TOLD, NOTES, PICTURES), max_size=3), NOTES).map(
    lambda two: [*two[0], two[1]]
)
ROUNDS = st.tuples(REPLIES, ASKED)
QUIRKS = st.sampled_from([Quirks(), Quirks(text_after_tools=False), Quirks(longest_call_id=40)])
BEGIN = (Message("system", (TextPart("Be good."),)), Message("user", (TextPart("Do it."),)))


def flat(messages: tuple[Message, ...]) -> list[tuple[str, Part]]:
    return [(message.role, part) for message in messages for part in message.parts]


@pytest.mark.requirement("C5", "C11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@settings(max_examples=60)
@given(
    rounds=st.lists(ROUNDS, min_size=1, max_size=5),
    quirks=QUIRKS,
    tools=st.sampled_from([frozenset(), frozenset({"look"})]),
)
def test_each_request_begins_with_the_one_before(
    protocol: ProtocolName,
    rounds: list[tuple[Message, list[Message]]],
    quirks: Quirks,
    tools: frozenset[str],
):
    history: tuple[Message, ...] = BEGIN
    sent = repair(history, rules_of(protocol), model="m", quirks=quirks, to_ask=True, tools=tools).messages
    upheld = sent
    for reply, asked in rounds:
        history = (*history, reply, *asked)
        now = repair(history, rules_of(protocol), model="m", quirks=quirks, to_ask=True, tools=tools)
        assert now.left == ()
        assert flat(now.messages)[: len(flat(sent))] == flat(sent)
        # With what was sent under seal it comes to the same words, where results belong to the reply before them.
        called = {part.id for part in reply.parts if isinstance(part, CallPart)}
        told = {part.call_id for message in asked for part in message.parts if isinstance(part, ResultPart)}
        if not told <= called:
            break
        on_top = repair(
            (*upheld, reply, *asked),
            rules_of(protocol),
            model="m",
            sealed=len(upheld),
            quirks=quirks,
            to_ask=True,
            tools=tools,
        )
        assert flat(on_top.messages) == flat(now.messages)
        sent, upheld = now.messages, on_top.messages


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_result_that_comes_when_the_model_has_spoken_again_is_told_in_its_own_place(protocol: ProtocolName):
    call = Message("assistant", (CallPart("c", "look", "{}"),))
    spoken = (
        *BEGIN,
        call,
        Message("user", (TextPart("Never mind."),)),
        Message("assistant", (TextPart("Well."),)),
    )
    late = (*spoken, Message("tool", (ResultPart("c", (TextPart("It is fine."),)),)))
    before, after = (repair(history, rules_of(protocol)).messages for history in (spoken, late))
    assert after[: len(before)] == before
    assert [part for message in after[len(before) :] for part in message.parts][-1] == TextPart("It is fine.")


def test_an_opaque_part_of_the_provider_stays_where_it_stood():
    state = ProviderState("anthropic", "m", {"type": "server_tool_use", "id": "s"})
    history = (*BEGIN, Message("assistant", (OpaquePart(state), TextPart("so"))), BEGIN[1])
    assert repair(history, rules_of("anthropic"), model="m").messages == history

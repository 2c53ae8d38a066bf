"""Whatever happened to a history, repair leaves it legal, loses nothing of the user, and has nothing to do twice."""

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wire.any_history import HISTORIES, MODELS, QUIRKS

from turnbuckle.reply.repair import PASSES, repair
from turnbuckle.reply.repair.growing import NOTHING_SETTLED, ForWhom, grown, sealed, settle
from turnbuckle.reply.repair.history import Terms
from turnbuckle.reply.rules import violations
from turnbuckle.reply.stand_in import is_stand_in
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    Message,
    Part,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.registry import rules_of

History = tuple[Message, ...]

STEPS = st.sampled_from([1, 2, 5])
SEALS = st.just(0) | st.integers(0, 9)
every_protocol = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
EXAMPLES = settings(max_examples=60)


def result_words(messages: History) -> Iterator[tuple[str, ...]]:
    """What each real result says, where it says anything."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ResultPart) and not is_stand_in(part):
                words = tuple(
                    piece.text for piece in part.content if isinstance(piece, TextPart) and piece.text.strip()
                )
                if words:
                    yield words


def told_words(messages: History) -> Iterator[tuple[str, ...]]:
    for message in messages:
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        if message.note and texts and texts[0].startswith("A late result"):
            words = tuple(text for text in texts[1:] if text.strip())
            if words:
                yield words


def user_words(messages: History) -> Counter[str]:
    """What was said in messages of people, and in tool messages, where only people's words are text."""
    parts = [part for message in messages if message.role in ("user", "tool") for part in message.parts]
    return Counter(part.text for part in parts if isinstance(part, TextPart) and part.text.strip())


@pytest.mark.requirement("C5")
@every_protocol
@EXAMPLES
@given(history=HISTORIES, quirks=QUIRKS, model=MODELS, to_ask=st.booleans())
def test_any_history_becomes_legal(
    protocol: ProtocolName, history: History, quirks: Quirks, model: str, to_ask: bool
) -> None:
    """L1"""
    repaired = repair(history, rules_of(protocol), model=model, quirks=quirks, to_ask=to_ask)
    assert violations(repaired.messages, rules_of(protocol), model=model, quirks=quirks, to_ask=to_ask) == ()


@pytest.mark.requirement("C5")
@every_protocol
@EXAMPLES
@given(history=HISTORIES, sealed=st.integers(0, 9), quirks=QUIRKS, to_ask=st.booleans())
def test_what_was_sent_stays_byte_for_byte_and_the_rest_becomes_legal(
    protocol: ProtocolName, history: History, sealed: int, quirks: Quirks, to_ask: bool
) -> None:
    sealed = min(sealed, len(history))
    repaired = repair(history, rules_of(protocol), model="m", sealed=sealed, quirks=quirks, to_ask=to_ask)
    assert msgspec.json.encode(_utf8(repaired.messages[:sealed])) == msgspec.json.encode(
        _utf8(history[:sealed])
    )
    found = violations(repaired.messages, rules_of(protocol), model="m", quirks=quirks, to_ask=to_ask)
    assert [violation for violation in found if violation.index >= sealed] == []
    assert repaired.left == found


@pytest.mark.requirement("C5")
@every_protocol
@EXAMPLES
@given(history=HISTORIES, sealed=SEALS, quirks=QUIRKS, model=MODELS, to_ask=st.booleans())
def test_repairing_twice_changes_nothing_and_notes_nothing(
    protocol: ProtocolName, history: History, sealed: int, quirks: Quirks, model: str, to_ask: bool
) -> None:
    sealed = min(sealed, len(history))
    once = repair(history, rules_of(protocol), model=model, sealed=sealed, quirks=quirks, to_ask=to_ask)
    twice = repair(
        once.messages, rules_of(protocol), model=model, sealed=sealed, quirks=quirks, to_ask=to_ask
    )
    assert (twice.messages, twice.notes, twice.left) == (once.messages, (), once.left)


@pytest.mark.requirement("C5")
@every_protocol
@EXAMPLES
@given(history=HISTORIES, sealed=SEALS, more=HISTORIES)
def test_a_repaired_and_sent_history_needs_no_other_edit_when_it_grows(
    protocol: ProtocolName, history: History, sealed: int, more: History
) -> None:
    """What was repaired once and sent is the sealed part of the next request, and stays legal in it."""
    sent = repair(history, rules_of(protocol)).messages
    grown = repair((*sent, *more), rules_of(protocol), sealed=len(sent))
    assert grown.messages[: len(sent)] == sent
    assert grown.left == ()


@pytest.mark.requirement("C5")
@every_protocol
@settings(max_examples=30)
@given(history=st.lists(HISTORIES, max_size=3), quirks=QUIRKS, model=MODELS, to_ask=st.booleans(), step=STEPS)
def test_a_history_that_is_repaired_as_it_grows_is_the_one_that_is_repaired_whole(
    protocol: ProtocolName, history: list[History], quirks: Quirks, model: str, to_ask: bool, step: int
) -> None:
    """However often it is settled on its way."""
    whole = tuple(message for piece in history for message in piece)
    whom, settled = ForWhom(rules_of(protocol), model, quirks, frozenset({"look"})), NOTHING_SETTLED
    for length in range(1, len(whole) + 1):
        now = whole[:length]
        expected = repair(now, whom.rules, model=model, quirks=quirks, to_ask=to_ask, tools=whom.tools)
        assert grown(now, whom, settled, to_ask=to_ask) == expected.messages
        if length % step == 0:
            settled = settle(now, whom, settled)


@pytest.mark.requirement("C5")
@every_protocol
@EXAMPLES
@given(history=HISTORIES, more=HISTORIES, quirks=QUIRKS, to_ask=st.booleans())
def test_what_was_sent_need_not_be_seen_to_repair_what_is_new(
    protocol: ProtocolName, history: History, more: History, quirks: Quirks, to_ask: bool
) -> None:
    rules = rules_of(protocol)
    sent = repair(history, rules, model="m", quirks=quirks, to_ask=True).messages
    whole, terms = (*sent, *more), Terms(rules, "m", len(sent), quirks, to_ask)
    for run in PASSES:
        whole, _ = run(whole, terms)
    before = NOTHING_SETTLED.followed_by(history, sent)
    assert sealed(before, (*history, *more), ForWhom(rules, "m", quirks), to_ask=to_ask) == whole


@every_protocol
@EXAMPLES
@given(history=HISTORIES, sealed=SEALS, quirks=QUIRKS)
def test_no_word_of_the_user_is_lost(
    protocol: ProtocolName, history: History, sealed: int, quirks: Quirks
) -> None:
    repaired = repair(history, rules_of(protocol), sealed=sealed, quirks=quirks)
    assert user_words(history) <= user_words(repaired.messages)


@every_protocol
@EXAMPLES
@given(history=HISTORIES, sealed=SEALS)
def test_no_result_goes_without_a_note(protocol: ProtocolName, history: History, sealed: int) -> None:
    repaired = repair(history, rules_of(protocol), sealed=sealed)
    before = Counter(result_words(history))
    after = Counter([*result_words(repaired.messages), *told_words(repaired.messages)])
    dropped = [note for note in repaired.notes if note.what.startswith("dropped a result")]
    assert (before - after).total() <= len(dropped)
    assert after - before == Counter()


@every_protocol
@EXAMPLES
@given(history=HISTORIES, sealed=SEALS)
def test_a_history_is_changed_exactly_when_there_is_a_note(
    protocol: ProtocolName, history: History, sealed: int
) -> None:
    repaired = repair(history, rules_of(protocol), sealed=sealed)
    assert (repaired.messages != history) == bool(repaired.notes)


def _utf8(messages: History) -> History:
    """Lone surrogates have no bytes; they stand as question marks on both sides."""
    return tuple(
        Message(
            message.role, tuple(_utf8_part(part) for part in message.parts), message.note, message.partial
        )
        for message in messages
    )


def _utf8_part(part: Part) -> Part:
    if not isinstance(part, CallPart):
        return part
    return CallPart(part.id, part.name, part.arguments.encode("utf-8", "replace").decode(), part.state)

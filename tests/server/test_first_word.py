"""The short way to the first word says what the story of the run would say, after every item."""

import asyncio

import pytest
from support.narrate.chat_output import chat
from support.worlds.relay_tasks import RELAY_TASKS
from support.worlds.tasks import TASKS

from turnbuckle.journal.port import Item
from turnbuckle.narrate.fold import Narration
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.testing.world.faults import NOTHING, CutReply, Kill, StopInReply
from turnbuckle.testing.world.run_world import RunWorld
from turnbuckle.turn.facts import ModelAsked, RunStarted, Streamed, encode
from turnbuckle.vocab.events import FieldsNoted, HeadNoted, ReasoningDelta, RefusalDelta, Started, TextDelta
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.origin import Origin

FAULTS = (NOTHING, CutReply(0, 1, "reset"), CutReply(0, 3, "stall"), Kill(1, "after"), StopInReply(0, 1))


class Narrated(FirstWord):
    """One that narrates everything."""

    def __init__(self) -> None:
        super().__init__()
        self._narration = Narration()


def known(first: FirstWord) -> tuple[object, ...]:
    return first.ended, first.failed, first.route, first.model, first.headers


def check_after_every_item(items: list[Item]) -> None:
    short, narrated = FirstWord(), Narrated()
    for item in items:
        short.take([item])
        narrated.take([item])
        assert known(short) == known(narrated), item
    for size in range(1, len(items) + 1):
        at_once, one_by_one = FirstWord(), Narrated()
        at_once.take(items[:size])
        one_by_one.take(items[:size])
        assert known(at_once) == known(one_by_one)


@pytest.mark.requirement("C6", "F2")
@pytest.mark.parametrize("task", [*TASKS, *RELAY_TASKS], ids=lambda task: task.name)
def test_a_first_word_is_the_same_without_a_narration_whatever_the_run_does(task):
    for fault in FAULTS:
        story = asyncio.run(RunWorld(task, fault).play())
        check_after_every_item(list(story.items))


ASKED = ModelAsked(1.0, 1, RouteName("main"), "openai_chat", "model-1", "first")
STARTED = RunStarted(0.0, RunId("r"), SessionId("s"), (Message("user", (TextPart("Hi."),)),))
BURSTS = [
    (Started("id", "model-2"), TextDelta(0, "Hello")),
    (HeadNoted({"request-id": "a"}), Started("id", "")),
    (FieldsNoted("reply", {"service_tier": "default"}), TextDelta(0, "")),
    (TextDelta(0, ""), TextDelta(0, "late")),
    (ReasoningDelta(0, "Let me see."),),
    (RefusalDelta(0, "No."),),
    (ReasoningDelta(0, ""), TextDelta(1, "word")),
]


@pytest.mark.parametrize("first", BURSTS, ids=str)
@pytest.mark.parametrize("second", BURSTS, ids=str)
def test_so_it_is_whatever_the_first_two_bursts_are(first, second):
    facts = [STARTED, ASKED, Streamed(2.0, 1, first), Streamed(3.0, 1, second)]
    check_after_every_item([Item(seq, encode(fact)) for seq, fact in enumerate(facts, 1)])


@pytest.mark.parametrize("first", BURSTS, ids=str)
@pytest.mark.parametrize("second", BURSTS, ids=str)
def test_a_stream_behind_the_first_word_says_the_same_as_one_that_decodes_everything(first, second):
    facts = [STARTED, ASKED, Streamed(2.0, 1, first), Streamed(3.0, 1, second), Streamed(4.0, 1, BURSTS[0])]
    items = [Item(seq, encode(fact)) for seq, fact in enumerate(facts, 1)]
    for size in (1, 2, len(items)):
        word = FirstWord()
        word.take(items)
        behind, alone = chat(known=word.known), chat()
        for at in range(0, len(items), size):
            assert behind.take(items[at : at + size]) == alone.take(items[at : at + size])
        assert not word.known


def test_what_was_merged_behind_the_first_word_is_decoded_again():
    items = [Item(seq, encode(fact)) for seq, fact in enumerate((STARTED, ASKED), 1)]
    burst = Item(3, encode(Streamed(2.0, 1, (TextDelta(0, "Hello"),))))
    word = FirstWord()
    word.take([*items, burst])
    stream = chat(known=word.known)
    merged = Item(3, encode(Streamed(2.0, 1, (TextDelta(0, "Well, hello"),), merged=2)))
    assert b"Well, hello" in stream.take([*items, merged])


def test_a_notice_of_the_conversation_is_a_first_word():
    origin = Origin(notice="A new conversation begins.")
    item = Item(1, encode(RunStarted(0.0, RunId("r"), SessionId("s"), (), origin=origin)))
    check_after_every_item([item])
    first = FirstWord()
    first.take([item])
    assert first.ended

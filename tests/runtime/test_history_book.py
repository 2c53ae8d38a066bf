"""What was made of a session's history serves its next request, and no longer than it is used."""

from msgspec.structs import replace
from support.turns.turn_facts import MAIN, START, TOOLS, after, recorded

from turnbuckle.reply.repair.growing import NOTHING_SETTLED, ForWhom, Settled, settle
from turnbuckle.runtime.history_book import IDLE, MOST_MESSAGES, SHORT, HistoryBook
from turnbuckle.runtime.sending import Sending
from turnbuckle.turn.facts import ModelAsked
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.window import estimate
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import CallPart, Message, ProviderState, TextPart
from turnbuckle.wire.registry import rules_of

ONE, OTHER = SessionId("one"), SessionId("other")
WHOM = ForWhom(rules_of("anthropic"), "m")


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def talk(length: int) -> tuple[Message, ...]:
    return tuple(
        Message("assistant" if place % 2 else "user", (TextPart(f"word {place}"),)) for place in range(length)
    )


def test_of_a_long_history_all_but_its_end_is_settled_for_the_next_run_of_its_session():
    histories, policy = HistoryBook(Watch()), Policy((MAIN,), TOOLS)
    fold = after(START, policy=policy)
    recorded(fold)
    asked = ModelAsked(2.0, 1, MAIN.name, MAIN.protocol, MAIN.model, "")
    fold.take(asked)
    for length in (101, 103, 141):
        turn = replace(fold.turn, messages=talk(length))
        sent = Sending(histories).request(turn, asked, policy, ()).messages
        assert sent == Sending().request(turn, asked, policy, ()).messages
        whom = ForWhom(rules_of(MAIN.protocol), MAIN.model, MAIN.quirks)
        assert length - len(histories.settled(turn.session, turn.messages, whom).history) <= SHORT


def test_what_another_history_begins_with_is_not_taken_for_this_one():
    histories, messages = HistoryBook(Watch()), talk(80)
    histories.keep(ONE, WHOM, settle(messages, WHOM, NOTHING_SETTLED))
    changed = (Message("user", (TextPart("otherwise"),)), *messages[1:])
    assert histories.settled(ONE, changed, WHOM) is NOTHING_SETTLED
    assert histories.settled(OTHER, messages, WHOM) is NOTHING_SETTLED
    assert histories.settled(ONE, messages, replace(WHOM, model="another")) is NOTHING_SETTLED
    assert histories.settled(ONE, messages, WHOM).history == messages[:79]


def test_an_estimate_is_the_same_however_a_history_grew():
    histories = HistoryBook(Watch())
    for length in (10, 50, 51, 120, 40):
        assert histories.estimate(ONE, talk(length)) == estimate(talk(length))


def test_a_session_that_nobody_uses_is_let_go_of_and_so_is_one_that_was_deleted():
    wall, messages = Watch(), talk(80)
    histories = HistoryBook(wall)
    settled = settle(messages, WHOM, NOTHING_SETTLED)
    histories.keep(ONE, WHOM, settled)
    wall.now = IDLE + 1
    histories.keep(OTHER, WHOM, settled)
    assert histories.settled(ONE, messages, WHOM) is NOTHING_SETTLED
    histories.forget(OTHER)
    assert histories.settled(OTHER, messages, WHOM) is NOTHING_SETTLED


def test_all_sessions_together_hold_a_bounded_number_of_messages():
    histories, messages = HistoryBook(Watch()), talk(1) * (MOST_MESSAGES // 2)
    for name in (ONE, OTHER, SessionId("third")):
        histories.keep(name, WHOM, Settled(messages, messages))
    assert histories.settled(ONE, messages, WHOM) is NOTHING_SETTLED
    assert histories.settled(OTHER, messages, WHOM).history == messages


def test_what_is_only_equal_to_what_was_settled_is_made_legal_as_it_is_written():
    def history(data: dict[str, int]) -> tuple[Message, ...]:
        return (Message("user", (TextPart("a"),), state=ProviderState("anthropic", "m", data)), *talk(80)[1:])

    histories, messages = HistoryBook(Watch()), history({"a": 1})
    histories.keep(ONE, WHOM, settle(messages, WHOM, NOTHING_SETTLED))
    assert histories.settled(ONE, history({"a": True}), WHOM) is NOTHING_SETTLED
    assert histories.settled(ONE, history({"a": 1}), WHOM) is not NOTHING_SETTLED


def test_the_ids_of_a_history_that_was_repaired_anew_are_all_known():
    def called(name: str) -> Message:
        return Message("assistant", (CallPart(name, "look", "{}"),))

    before = Settled().followed_by(talk(1), (called("a"), called("b")))
    anew = before.followed_by(talk(2), (called("c"), called("d"), called("e")))
    assert (before.ids, anew.ids) == ({"a", "b"}, {"c", "d", "e"})

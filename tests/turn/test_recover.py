"""What is decided about each kind of broken reply, as a table, and the laws that hold over all of them."""

from itertools import product
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from turnbuckle.reply.verdict import VerdictKind
from turnbuckle.turn.facts import Continue, Fallback, FinishDraft, GiveUp, Reask, Retry
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.recover import Broken, decide
from turnbuckle.turn.state import Tally
from turnbuckle.vocab.failure import Failure, FailureKind, failure
from turnbuckle.vocab.ids import DraftId, RouteName

POLICY = Policy((RouteFacts(RouteName("main"), "openai_chat", "m"),))
OTHER = RouteName("other")
DRAFT = DraftId("d1")
RESET = failure("reset", "the connection was reset")
THIRD = RouteName("third")
DOWN = Failure("overloaded", "the server restarts", True, status=503)
GATEWAY = Failure("server", "bad gateway", True, status=502)
REFUSED = failure("connect", "connection refused")
SILENT = failure("stalled", "no event", clock="first_event")
UNKNOWN = Failure("invalid", "no", False, status=400)
UNPAIRED = failure("pairing", "unpaired")
BLANK = Broken(
    verdict="cut_by_transport",
    failure=RESET,
    said_text=False,
    has_more=False,
    tool="",
    draft=None,
    gained=0,
    tally=Tally(retries=1),
    others=(),
    can_give_room=False,
    can_lower_effort=False,
    streaming=True,
    seconds_left=1000.0,
    jitter=0.0,
)
CUT_1, CUT_2, CUT_3, CUT_4 = (
    Tally(cut_tool="shell", cuts=count, unproductive=count - 1) for count in (1, 2, 3, 4)
)


def broken(verdict="cut_by_transport", **changes):
    return replace(BLANK, verdict=verdict, **changes)


def limited(seconds):
    return Failure("rate_limited", "too many requests", True, retry_after=seconds)


TABLE = {
    # Nothing escaped: in silence, three times in all, then elsewhere
    "nothing, first": (broken(), Retry(0.5)),
    "nothing, second": (broken(tally=Tally(retries=2)), Retry(1.0)),
    "nothing, third": (broken(tally=Tally(retries=3)), GiveUp("failed", "the connection was reset")),
    "nothing, third, a route": (broken(tally=Tally(retries=3), others=(OTHER,)), Fallback(OTHER)),
    "nothing, third, behind text": (
        broken(tally=Tally(retries=3), has_more=True),
        GiveUp("partial", RESET.message),
    ),
    "spread by chance": (broken(jitter=1.0), Retry(0.375)),
    "no failure named": (broken(failure=None), Retry(0.5)),
    "no failure named, at last": (
        broken(failure=None, tally=Tally(retries=3)),
        GiveUp("failed", "no answer came"),
    ),
    # The provider says when
    "wait": (broken(failure=limited(7.0)), Retry(7.0)),
    "wait, told again and again": (broken(failure=limited(7.0), tally=Tally(waits=8)), Retry(7.0)),
    "wait, told too often": (
        broken(failure=limited(7.0), tally=Tally(waits=9)),
        GiveUp("failed", "too many requests"),
    ),
    "wait, told again, a route": (
        broken(failure=limited(7.0), tally=Tally(waits=3), others=(OTHER,)),
        Fallback(OTHER),
    ),
    "wait too long": (
        broken(failure=limited(900.0)),
        GiveUp("failed", "too many requests (the provider asks to wait 900 s)"),
    ),
    "wait too long, a route": (broken(failure=limited(900.0), others=(OTHER,)), Fallback(OTHER)),
    "wait beyond the turn": (
        broken(failure=limited(50.0), seconds_left=20.0),
        GiveUp("failed", "too many requests (the provider asks to wait 50 s)"),
    ),
    "wait, told to come at once": (broken(failure=limited(0.0), tally=Tally(waits=1)), Retry(0.5)),
    "wait, told to come at once, again": (broken(failure=limited(0.0), tally=Tally(waits=3)), Retry(2.0)),
    "wait, told to come at once, forever": (broken(failure=limited(0.0), tally=Tally(waits=8)), Retry(4.0)),
    # The only route is down: it is waited for, with pauses that grow to a cap
    "down": (broken(failure=DOWN, tally=Tally(retries=3), waited=3.5), Retry(2.0)),
    "down, long": (broken(failure=DOWN, tally=Tally(retries=6), waited=20.0), Retry(8.0)),
    "down, longer": (broken(failure=DOWN, tally=Tally(retries=30), waited=74.9), Retry(8.0)),
    "down, too long": (
        broken(failure=DOWN, tally=Tally(retries=9), waited=75.0),
        GiveUp("failed", DOWN.message),
    ),
    "down, spread by chance": (
        broken(failure=DOWN, tally=Tally(retries=9), waited=9.0, jitter=1.0),
        Retry(6.0),
    ),
    "no connection": (broken(failure=REFUSED, tally=Tally(retries=5), waited=9.0), Retry(8.0)),
    "reset before any byte": (broken(tally=Tally(retries=5), waited=9.0), Retry(8.0)),
    "too many requests, no hint": (
        broken(failure=limited(None), tally=Tally(retries=4), waited=9.0),
        Retry(4.0),
    ),
    "too many requests, told often": (
        broken(failure=limited(7.0), tally=Tally(waits=9), waited=70.0),
        Retry(7.0),
    ),
    "a bad gateway": (broken(failure=GATEWAY, tally=Tally(retries=5), waited=9.0), Retry(8.0)),
    "a failure inside the host is not waited for": (
        broken(failure=failure("server", "a bug"), tally=Tally(retries=3), waited=3.5),
        GiveUp("failed", "a bug"),
    ),
    "a key that is bad is not waited for": (
        broken(failure=failure("auth", "bad key"), tally=Tally(retries=1), waited=0.5),
        GiveUp("failed", "bad key"),
    ),
    "a silence is not waited for": (
        broken(failure=SILENT, tally=Tally(retries=3), waited=60.0),
        GiveUp("failed", "no event"),
    ),
    "down, a route": (
        broken(failure=DOWN, tally=Tally(retries=3), waited=3.5, others=(OTHER,)),
        Fallback(OTHER),
    ),
    "down, as the one before": (
        broken(failure=DOWN, tally=Tally(retries=3), waited=3.5, returns=(OTHER,)),
        Fallback(OTHER, after=2.0),
    ),
    # Silence: a healthy other route is taken at once
    "silent, a route": (broken(failure=SILENT, others=(OTHER,)), Fallback(OTHER)),
    "silent, a route that rests": (broken(failure=SILENT, others=(OTHER,), resting=(OTHER,)), Retry(0.5)),
    "silent, one rests and one does not": (
        broken(failure=SILENT, others=(OTHER, THIRD), resting=(OTHER,)),
        Fallback(THIRD),
    ),
    "silent in text, a route": (
        broken(failure=SILENT, said_text=True, gained=9, tally=Tally(), others=(OTHER,)),
        Fallback(OTHER, Continue("text")),
    ),
    "silent in a call, a route": (
        broken(failure=SILENT, tool="write_file", draft=DRAFT, gained=9, tally=CUT_1, others=(OTHER,)),
        Fallback(OTHER, FinishDraft(DRAFT, 1)),
    ),
    "silent in text": (broken(failure=SILENT, said_text=True, gained=9, tally=Tally()), Continue("text")),
    # Text escaped: it stays
    "text": (broken(said_text=True, gained=9, tally=Tally()), Continue("text")),
    "text, nothing new": (broken(said_text=True, tally=Tally(unproductive=2)), Continue("text")),
    "text, nothing new again": (
        broken(said_text=True, tally=Tally(unproductive=3)),
        GiveUp("partial", "3 tries in a row brought nothing new"),
    ),
    "text, nothing new, a route": (
        broken(said_text=True, tally=Tally(unproductive=3), others=(OTHER,)),
        Fallback(OTHER, Continue("text")),
    ),
    # A call was begun
    "call": (broken(tool="shell", tally=CUT_1), Continue("call", "shell", 1)),
    "call and text": (broken(tool="shell", said_text=True, tally=CUT_1), Continue("call", "shell", 1)),
    "call again": (broken(tool="shell", tally=CUT_2), Continue("call", "shell", 2)),
    "call, third": (broken(tool="shell", tally=CUT_3), Continue("call", "shell", 3)),
    "call, third, a route": (
        broken(tool="shell", tally=CUT_3, others=(OTHER,)),
        Fallback(OTHER, Continue("call", "shell", 3)),
    ),
    "call, plain too": (
        broken(tool="shell", tally=replace(CUT_4, plain=True), streaming=False),
        GiveUp("failed", "the call of shell was cut 4 times in a row"),
    ),
    "draft": (broken(tool="write_file", draft=DRAFT, gained=500, tally=CUT_1), FinishDraft(DRAFT, 1)),
    "draft again": (broken(tool="write_file", draft=DRAFT, tally=CUT_2), FinishDraft(DRAFT, 2)),
    "draft, third, a route": (
        broken(tool="write_file", draft=DRAFT, tally=CUT_3, others=(OTHER,)),
        Fallback(OTHER, FinishDraft(DRAFT, 3)),
    ),
    "draft, plain too": (
        broken(tool="write_file", draft=DRAFT, has_more=True, tally=CUT_4, streaming=False),
        GiveUp("partial", "the call of write_file was cut 4 times in a row"),
    ),
    # What a retry cannot change
    "stopped": (broken(failure=failure("cancelled", "stopped")), GiveUp("cancelled", "stopped")),
    "no streams": (broken(failure=failure("unstreamable", "no streams")), Reask("plain")),
    "no streams, plain": (
        broken(failure=failure("unstreamable", "no streams"), streaming=False, others=(OTHER,)),
        Fallback(OTHER),
    ),
    "no key": (broken(failure=failure("auth", "bad key")), GiveUp("failed", "bad key")),
    "no key, a route": (broken(failure=failure("auth", "bad key"), others=(OTHER,)), Fallback(OTHER)),
    "bad request, a route": (
        broken(failure=failure("invalid", "no such field"), others=(OTHER,)),
        GiveUp("failed", "no such field"),
    ),
    "too long, a call was begun": (
        broken(
            failure=failure("oversize", "too long"),
            tool="write_file",
            draft=DRAFT,
            tally=CUT_1,
            others=(OTHER,),
        ),
        Fallback(OTHER, FinishDraft(DRAFT, 1)),
    ),
    "in circles": (
        broken(failure=failure("repeated", "it repeats itself"), said_text=True, others=(OTHER,)),
        GiveUp("partial", "it repeats itself"),
    ),
    "in circles, in a call, a route": (
        broken(failure=failure("repeated", "it repeats itself"), tool="shell", tally=CUT_1, others=(OTHER,)),
        Fallback(OTHER, Continue("call", "shell", 1)),
    ),
    "in circles, in thought, a route": (
        broken(failure=failure("repeated", "it repeats itself"), others=(OTHER,)),
        Fallback(OTHER),
    ),
    "in circles, in thought": (
        broken(failure=failure("repeated", "it repeats itself"), can_lower_effort=True),
        Reask("less_effort"),
    ),
    # A call that the caller never got is not part of anything
    "call of the caller": (
        broken(tool="edit", said_text=True, has_more=True, tally=CUT_4, streaming=False, for_caller=True),
        GiveUp("failed", "the call of edit was cut 4 times in a row"),
    ),
    # The output cap
    "cap, text": (broken("cut_by_length", failure=None, said_text=True, tally=Tally()), Continue("length")),
    "cap, nothing usable": (broken("cut_by_length", failure=None, can_give_room=True), Reask("more_room")),
    "cap, nothing usable, less effort": (
        broken("cut_by_length", failure=None, can_lower_effort=True),
        Reask("less_effort"),
    ),
    "cap, nothing helps": (
        broken("cut_by_length", failure=None),
        GiveUp("failed", "the output limit is too small for any answer"),
    ),
    "cap, call": (
        broken(
            "cut_by_length",
            failure=None,
            tool="shell",
            tally=replace(CUT_1, cap_raised=True),
            can_give_room=True,
        ),
        Continue("call", "shell", 1),
    ),
    "cap, call, room": (
        broken("cut_by_length", failure=None, tool="shell", tally=CUT_1, can_give_room=True),
        Reask("more_room"),
    ),
    "cap, draft": (
        broken(
            "cut_by_length", failure=None, tool="write_file", draft=DRAFT, tally=CUT_1, can_give_room=True
        ),
        FinishDraft(DRAFT, 1),
    ),
    "thinking": (broken("thinking_exhausted", failure=None, can_give_room=True), Reask("more_room")),
    "thinking, effort": (
        broken("thinking_exhausted", failure=None, can_lower_effort=True),
        Reask("less_effort"),
    ),
    "thinking again": (
        broken("thinking_exhausted", failure=None, can_give_room=True, tally=Tally(cap_raised=True)),
        GiveUp("failed", "the model used up its output limit by thinking"),
    ),
    # Whole, and no use
    "empty": (broken("empty", failure=None, tally=Tally(empty=1)), Reask("say_something")),
    "empty again": (
        broken("empty", failure=None, tally=Tally(empty=2)),
        GiveUp("failed", "the model answered with nothing"),
    ),
    "empty again, a route": (
        broken("empty", failure=None, tally=Tally(empty=2), others=(OTHER,)),
        Fallback(OTHER),
    ),
    "malformed": (broken("malformed", failure=None, tally=Tally(malformed=1)), Reask("valid_calls")),
    "malformed, third": (broken("malformed", failure=None, tally=Tally(malformed=3)), Reask("valid_calls")),
    "malformed, text": (
        broken("malformed", failure=None, said_text=True, tally=Tally(malformed=1)),
        Continue("unreadable"),
    ),
    "malformed, fourth": (
        broken("malformed", failure=None, tally=Tally(malformed=4)),
        GiveUp("failed", "the model's calls could not be read"),
    ),
    # A history that is refused is told once in plain words, where it has calls
    "pairing": (broken(failure=UNPAIRED, can_retell=True), Reask("retold")),
    "pairing, no calls": (broken(failure=UNPAIRED), GiveUp("failed", "unpaired")),
    "pairing, retold": (
        broken(failure=UNPAIRED, can_retell=True, tally=Tally(retold=2)),
        GiveUp("failed", "unpaired"),
    ),
    "pairing, retold, a route": (
        broken(failure=UNPAIRED, can_retell=True, tally=Tally(retold=2), others=(OTHER,)),
        Fallback(OTHER),
    ),
    # A host that refuses a request in words that nobody knows may not take back its own parts
    "its own parts": (broken(failure=UNKNOWN, own_parts=True), Reask("words_only")),
    "its own parts, 422": (broken(failure=replace(UNKNOWN, status=422), own_parts=True), Reask("words_only")),
    "its own parts, in a stream": (
        broken(failure=replace(UNKNOWN, status=None), own_parts=True),
        Reask("words_only"),
    ),
    "its own parts, a route": (
        broken(failure=UNKNOWN, own_parts=True, others=(OTHER,)),
        Reask("words_only"),
    ),
    "no parts": (broken(failure=UNKNOWN), GiveUp("failed", "no")),
    "its own parts, tried": (
        broken(failure=UNKNOWN, own_parts=True, tally=Tally(reworded=True)),
        GiveUp("failed", "no"),
    ),
    "its own parts, behind text": (
        broken(failure=UNKNOWN, own_parts=True, said_text=True),
        GiveUp("partial", "no"),
    ),
    "its own parts, another status": (
        broken(failure=replace(UNKNOWN, status=405), own_parts=True),
        GiveUp("failed", "no"),
    ),
    "its own parts, a known reason": (
        broken(failure=replace(UNKNOWN, kind="auth"), own_parts=True),
        GiveUp("failed", "no"),
    ),
    # More text in a full window helps nobody
    "window": (
        broken("cut_by_length", failure=None, said_text=True, window=True, can_give_room=True),
        GiveUp("partial", "the context window is full"),
    ),
    "window, a route": (
        broken("cut_by_length", failure=None, said_text=True, window=True, others=(OTHER,)),
        Fallback(OTHER, Continue("text")),
    ),
    "filtered": (broken("filtered", failure=None), GiveUp("failed", "a content filter stopped the answer")),
    "filtered, text, a route": (
        broken("filtered", failure=None, said_text=True, others=(OTHER,)),
        Fallback(OTHER, Continue("text")),
    ),
    "paused": (broken("paused", failure=None, tally=Tally(pauses=10)), Continue("paused")),
    "paused forever": (
        broken("paused", failure=None, tally=Tally(pauses=11)),
        GiveUp("failed", "the provider paused again and again"),
    ),
    "declined": (broken("refused", failure=None, others=(OTHER,)), GiveUp("failed", "the model declined")),
}


@pytest.mark.requirement("A9", "B2", "B3", "B4", "B6", "B7", "C1", "C2", "C3")
@pytest.mark.parametrize("case, decision", TABLE.values(), ids=TABLE.keys())
def test_each_broken_reply_has_its_decision(case, decision):
    assert decide(case, POLICY) == decision


def test_the_table_knows_every_verdict_but_complete():
    assert {case.verdict for case, _ in TABLE.values()} == set(get_args(VerdictKind)) - {"complete"}


def test_a_complete_reply_needs_no_recovery():
    with pytest.raises(ValueError, match="no recovery"):
        decide(broken("complete"), POLICY)


VERDICTS = tuple(kind for kind in get_args(VerdictKind) if kind != "complete")
ESCAPED: tuple[dict[str, Any], ...] = (
    {},
    {"said_text": True},
    {"tool": "shell"},
    {"tool": "shell", "said_text": True},
    {"tool": "write_file", "draft": DRAFT},
    {"tool": "write_file", "draft": DRAFT, "said_text": True},
)
COUNTS = (0, 1, 2, 3, 4, 11)


def every_case():
    """Verdicts, what escaped, all small counts alike, routes, room, streaming, and every kind of failure."""
    for verdict, escaped, count, others, room, streaming in product(
        VERDICTS, ESCAPED, COUNTS, ((), (OTHER,)), (False, True), (False, True)
    ):
        tally = Tally(
            retries=count,
            unproductive=count,
            cuts=count,
            malformed=count,
            empty=count,
            pauses=count,
            cap_raised=count > 1,
        )
        kinds = get_args(FailureKind) if verdict == "cut_by_transport" else (None,)
        for kind in kinds:
            told = failure(kind, kind) if kind is not None else None
            yield broken(
                verdict,
                failure=told,
                tally=tally,
                others=others,
                can_give_room=room,
                streaming=streaming,
                **escaped,
            )


@pytest.mark.requirement("B1", "B3", "B6", "B12", "C6")
def test_over_all_cases_the_laws_of_recovery_hold(record_property):
    tried = 0
    for case in every_case():
        choice = decide(case, POLICY)
        tried += 1
        if case.said_text:
            # What was shown stays: it is never asked for again as if it had not been there.
            assert not isinstance(choice, Retry), case
            assert not isinstance(choice, Reask) or case.verdict in ("empty", "thinking_exhausted"), case
            assert not isinstance(choice, Fallback) or choice.then is not None, case
            assert not isinstance(choice, GiveUp) or choice.kind in ("partial", "cancelled"), case
        if case.tool and isinstance(choice, Fallback) and case.verdict == "cut_by_transport":
            assert choice.then is not None, case
        if isinstance(choice, FinishDraft):
            assert choice.draft == case.draft, case
        if isinstance(choice, Continue) and choice.kind == "call":
            assert choice.tool == case.tool, case
        if isinstance(choice, Fallback):
            assert choice.route in case.others, case
        if case.tally.retries >= 4 and not case.others and case.verdict != "paused":
            assert isinstance(choice, GiveUp) or choice == Reask("plain"), case
        if case.failure is not None and not case.failure.retryable and case.failure.kind != "unstreamable":
            assert isinstance(choice, Fallback | GiveUp), case
    record_property("cases", tried)
    assert tried > 5_000

"""Which routes rest, which are tried again, and which do not stream. All in handed-in time."""

from typing import get_args

import pytest

from turnbuckle.call.health import (
    FIRST_BENCH,
    HOPELESS_BENCH,
    LONGEST_BENCH,
    PLAIN,
    PROBE,
    HealthBook,
    RouteHealth,
    begin,
    note,
)
from turnbuckle.vocab.events import Cut, Ended, LastWord
from turnbuckle.vocab.failure import Failure, FailureKind, failure
from turnbuckle.vocab.ids import RouteName

OK = Ended("[DONE]")
A, B, C = RouteName("a"), RouteName("b"), RouteName("c")


def cut(kind: FailureKind, retry_after: float | None = None) -> Cut:
    return Cut(Failure(kind, "words", True, retry_after=retry_after))


def after(*lasts: LastWord, health: RouteHealth | None = None, now: float = 0.0) -> RouteHealth:
    health = health or RouteHealth()
    for last in lasts:
        health = note(begin(health, now), last, now)
    return health


@pytest.mark.requirement("B11")
@pytest.mark.parametrize(
    "lasts, standing",
    [
        ([], "fit"),
        ([OK], "fit"),
        ([cut("stalled")], "fit"),
        ([cut("stalled"), cut("stalled")], "benched"),
        ([cut("stalled"), OK, cut("stalled")], "fit"),
        ([cut("stalled"), cut("reset"), cut("stalled")], "benched"),
        ([cut("reset"), cut("reset")], "fit"),
        ([cut("reset"), cut("server"), cut("overloaded")], "benched"),
        ([cut("reset"), cut("server"), OK, cut("overloaded")], "fit"),
        ([cut("rate_limited", 20)], "benched"),
        ([cut("rate_limited")], "fit"),
        ([cut("auth")], "benched"),
        ([cut("billing")], "benched"),
        ([cut("reset"), cut("context"), cut("context"), cut("context")], "fit"),
        ([cut("cancelled")] * 9, "fit"),
        ([cut("unstreamable")] * 9, "fit"),
    ],
    ids=str,
)
def test_failures_in_a_row_bench_a_route(lasts: list[LastWord], standing: str):
    """P33."""
    assert after(*lasts).standing(1.0) == standing


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_of_failure_has_a_place(kind: FailureKind):
    """What speaks against the route benches it after a few; what speaks against the request never does."""
    against = failure(kind, "").retryable or kind in ("auth", "permission", "billing", "not_found")
    assert after(*[cut(kind)] * 5).usable(1.0) is not against


@pytest.mark.requirement("B11")
def test_behind_the_bench_one_probe_goes_out_and_the_others_wait_for_it():
    health = after(cut("stalled"), cut("stalled"))
    assert [health.standing(now) for now in (0, FIRST_BENCH - 1, FIRST_BENCH)] == [
        "benched",
        "benched",
        "due",
    ]
    probing = begin(health, FIRST_BENCH)
    assert probing.standing(FIRST_BENCH) == "probed"
    assert not probing.usable(FIRST_BENCH + PROBE - 1)
    assert probing.usable(FIRST_BENCH + PROBE)
    assert note(probing, OK, FIRST_BENCH + 1) == RouteHealth()


@pytest.mark.requirement("B11")
def test_each_probe_that_fails_rests_the_route_twice_as_long_up_to_a_cap():
    health = after(cut("stalled"), cut("stalled"))
    benches = [health.bench]
    for _ in range(7):
        assert health.benched_until is not None
        health = after(cut("connect"), health=health, now=health.benched_until)
        benches.append(health.bench)
    assert benches == [30, 60, 120, 240, 480, LONGEST_BENCH, LONGEST_BENCH, LONGEST_BENCH]
    assert health.benched_until is not None
    well = after(OK, health=health, now=health.benched_until)
    assert after(cut("stalled"), cut("stalled"), health=well).bench == FIRST_BENCH


def test_a_probe_that_says_nothing_about_the_route_leaves_it_due():
    health = after(cut("stalled"), cut("stalled"))
    assert after(cut("cancelled"), health=health, now=40.0).standing(41.0) == "due"


def test_failures_of_attempts_that_were_under_way_do_not_lengthen_the_bench():
    health = after(*[cut("stalled")] * 50)
    assert (health.bench, health.benched_until) == (FIRST_BENCH, FIRST_BENCH)


@pytest.mark.parametrize("wait, until", [(20.0, 20.0), (5000.0, LONGEST_BENCH)])
def test_a_provider_that_says_when_to_come_back_is_left_alone_until_then(wait: float, until: float):
    assert after(cut("rate_limited", wait)).benched_until == until


def test_a_hopeless_route_rests_for_minutes_and_says_why():
    health = after(Cut(Failure("billing", "your balance is empty", False)))
    assert (health.benched_until, health.why) == (HOPELESS_BENCH, "billing: your balance is empty")


@pytest.mark.requirement("A8")
def test_a_route_that_cannot_stream_is_asked_plainly_for_a_limited_time():
    health = after(cut("unstreamable"))
    assert [health.streams(now) for now in (0, PLAIN - 1, PLAIN)] == [False, False, True]
    plain = after(OK, health=health, now=10.0)
    assert [plain.streams(now) for now in (11, PLAIN - 1, PLAIN)] == [False, False, True]


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("kind", sorted(set(get_args(FailureKind)) - {"unstreamable"}))
def test_any_other_failure_leaves_the_next_request_streaming(kind: FailureKind):
    """L13."""
    assert after(*[cut(kind)] * 5).streams(0.0)


@pytest.mark.requirement("B11")
def test_the_order_puts_resting_routes_behind_the_others_soonest_back_first():
    book = HealthBook()
    book.note(A, cut("auth"), 0.0)
    for _ in range(2):
        book.note(B, cut("stalled"), 0.0)
    assert book.order((A, B, C), 1.0) == (C, B, A)
    assert book.order((A, B), 1.0) == (B, A)
    assert book.order((A, B, C), FIRST_BENCH) == (B, C, A)
    book.begin(B, FIRST_BENCH)
    assert book.order((A, B, C), FIRST_BENCH) == (C, B, A)
    assert book.order((A, B, C), HOPELESS_BENCH) == (A, B, C)


def test_routes_do_not_share_their_health_or_their_pace():
    book = HealthBook()
    book.note(A, cut("auth"), 0.0)
    assert (book.usable(A, 1.0), book.usable(B, 1.0)) == (False, True)
    assert book.pace(A) is book.pace(A)
    assert book.pace(A) is not book.pace(B)


# Streaming


REFUSED = cut("unstreamable")


def streaming(*lasts: LastWord, now: float = 0.0) -> HealthBook:
    book = HealthBook()
    for last in lasts:
        book.begin_stream(A, "m", now)
        book.note_stream(A, "m", last, now)
    return book


@pytest.mark.requirement("A8")
@pytest.mark.parametrize(
    "lasts, streams",
    [
        ([], True),
        ([REFUSED], False),
        ([OK, REFUSED], True),
        ([OK, REFUSED, REFUSED], False),
        ([OK, REFUSED, OK, REFUSED], True),
        ([OK, REFUSED, cut("reset"), REFUSED], False),
        ([cut("reset")] * 9, True),
    ],
    ids=str,
)
def test_one_odd_request_does_not_speak_for_a_model_that_has_streamed(lasts: list[LastWord], streams: bool):
    assert streaming(*lasts).streams(A, 1.0, "m") is streams


@pytest.mark.requirement("A8")
def test_a_model_that_does_not_stream_says_nothing_of_another_or_of_another_route():
    book = streaming(REFUSED)
    assert [book.streams(*of) for of in ((A, 1.0, "m"), (A, 1.0, "other"), (B, 1.0, "m"))] == [
        False,
        True,
        True,
    ]


@pytest.mark.requirement("A8")
def test_behind_the_plain_time_one_stream_is_tried_and_the_others_wait_for_it():
    book = streaming(REFUSED)
    assert [book.streams(A, now, "m") for now in (0, PLAIN - 1, PLAIN)] == [False, False, True]
    book.begin_stream(A, "m", PLAIN)
    assert not book.streams(A, PLAIN + 1, "m")
    assert book.streams(A, PLAIN + PROBE, "m"), "a probe that nobody hears of again holds nobody up"
    book.note_stream(A, "m", REFUSED, PLAIN + 2)
    assert [book.streams(A, PLAIN + 2 + wait, "m") for wait in (0, PLAIN - 1, PLAIN)] == [False, False, True]
    book.begin_stream(A, "m", 3 * PLAIN)
    book.note_stream(A, "m", OK, 3 * PLAIN)
    assert book.streams(A, 3 * PLAIN, "m")


@pytest.mark.requirement("A8")
def test_a_probe_that_breaks_says_nothing_and_the_next_one_is_it():
    book = streaming(REFUSED)
    book.begin_stream(A, "m", PLAIN)
    book.note_stream(A, "m", cut("reset"), PLAIN + 1)
    assert book.streams(A, PLAIN + 1, "m")


def test_money_that_is_enough_for_less_does_not_rest_a_route():
    short = Cut(Failure("billing", "you can only afford 42", False, room=42))
    assert after(short).standing(1.0) == "fit"
    assert after(Cut(Failure("billing", "pay", False))).standing(1.0) == "benched"


@pytest.mark.parametrize(
    "refused, other", [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")]
)
def test_a_field_that_was_refused_by_its_name_is_not_sent_there_again(refused: str, other: str):
    book = HealthBook()
    assert book.cap_field(A) is None
    book.note(A, Cut(Failure("unsupported", "words", False, param=refused)), 0.0)
    assert (book.cap_field(A), book.cap_field(B)) == (other, None)


@pytest.mark.requirement("A14")
@pytest.mark.parametrize(
    "ends, known",
    [
        ([], False),
        (["bare"], False),
        (["bare", "bare"], True),
        (["bare", "blank"], True),
        (["blank", "blank"], False),
        (["bare", "", "bare"], True),
        (["reason", "bare", "bare"], False),
        (["bare", "bare", "reason"], False),
        (["bare", "bare", "reason", "bare", "bare"], False),
    ],
)
def test_a_host_that_never_gives_a_reason_is_known_by_its_ends(ends, known):
    book = HealthBook()
    for kind in ends:
        book.note_end("a", "m", kind)
    assert book.ends_bare("a", "m") is known
    assert not book.ends_bare("a", "other")
    assert not book.ends_bare("b", "m")

"""What several processes know of one route: how two of them agree, and what they tell each other."""

import pytest

from turnbuckle.call.health import Endings, RouteHealth
from turnbuckle.call.limits import Limit, PaceSeen, RoutePace
from turnbuckle.call.shared_health import (
    ModelKnown,
    RouteKnown,
    agreed_health,
    agreed_model,
    agreed_route,
    model_heard,
    model_told,
    route_heard,
    route_told,
)

FIT = RouteHealth()
ONE = RouteHealth(failures=1)
TWO = RouteHealth(failures=2, stalls=1)
BENCHED = RouteHealth(benched_until=130.0, bench=30.0, why="server: no")
LATER = RouteHealth(benched_until=190.0, bench=60.0, why="server: still no")
PROBED = RouteHealth(benched_until=130.0, bench=30.0, probe_until=251.0, why="server: no")
PLAIN = RouteHealth(plain_until=600.0)


@pytest.mark.requirement("K7")
@pytest.mark.parametrize(
    ("base", "mine", "theirs", "agreed"),
    [
        (FIT, FIT, FIT, FIT),
        (FIT, FIT, BENCHED, BENCHED),  # they know more
        (FIT, BENCHED, FIT, BENCHED),  # so do we
        (FIT, ONE, BENCHED, BENCHED),  # a failure of ours does not bring it back
        (FIT, BENCHED, ONE, BENCHED),
        (FIT, ONE, TWO, TWO),
        (FIT, TWO, ONE, TWO),
        (FIT, BENCHED, LATER, LATER),
        (BENCHED, FIT, BENCHED, FIT),  # a probe of ours came back
        (BENCHED, FIT, PROBED, FIT),
        (BENCHED, PROBED, FIT, FIT),
        (BENCHED, PROBED, LATER, LATER),  # a probe of theirs did not
        (BENCHED, FIT, LATER, LATER),
        (BENCHED, LATER, FIT, LATER),
        (FIT, PLAIN, ONE, PLAIN),
        (PLAIN, FIT, PLAIN, FIT),
        (ONE, FIT, TWO, TWO),
    ],
)
def test_where_two_know_different_things_the_news_holds(base, mine, theirs, agreed):
    assert agreed_health(base, mine, theirs) == agreed


def test_a_name_for_the_cap_is_learned_and_never_unlearned_by_others():
    learned, nothing = RouteKnown(cap_field="max_tokens"), RouteKnown()
    assert agreed_route(nothing, learned, nothing).cap_field == "max_tokens"
    assert agreed_route(nothing, nothing, learned).cap_field == "max_tokens"


def test_one_reason_to_stop_anywhere_ends_the_belief_in_bare_ends():
    agreed = agreed_model(
        ModelKnown(), ModelKnown(endings=Endings(bare=2)), ModelKnown(endings=Endings(reasoned=True))
    )
    assert not agreed.endings.is_bare
    both = agreed_model(ModelKnown(), ModelKnown(endings=Endings(bare=2)), ModelKnown())
    assert both.endings.is_bare


@pytest.mark.parametrize("health", [FIT, ONE, BENCHED, PROBED, PLAIN])
def test_times_are_told_as_seconds_that_are_left(health):
    """The teller's clock stands at 100, the listener's at 5000, and the news took two seconds."""
    heard = route_heard(route_told(RouteKnown(health), 100.0), 5000.0 - 2.0).health
    for name in ("benched_until", "probe_until", "plain_until"):
        mine, theirs = getattr(health, name), getattr(heard, name)
        assert theirs == (None if mine is None else pytest.approx(mine - 100.0 + 4998.0))
    assert heard.failures == health.failures
    known = ModelKnown(health, Endings(bare=1))
    assert model_heard(model_told(known, 100.0), 100.0) == known


EMPTY = RoutePace().seen().shares


def noted(pace: RoutePace, *seconds: float) -> RoutePace:
    for one in seconds:
        pace.note("gap", one, Limit(10.0, default=10.0))
    return pace


@pytest.mark.requirement("K7")
def test_what_two_have_seen_of_a_pace_is_seen_by_both_and_nothing_counts_twice():
    mine, theirs = noted(RoutePace(), *[1.0] * 5), noted(RoutePace(), *[2.0] * 5)
    assert (mine.scale("gap"), theirs.scale("gap")) == (None, None)
    theirs.hear(mine.to_tell())
    mine.told()
    assert theirs.scale("gap") == pytest.approx(0.8)
    mine.hear(theirs.to_tell())
    theirs.told()
    assert mine.seen() == theirs.seen()
    assert (mine.is_news, theirs.is_news) == (False, False)
    assert len(mine.seen().shares["gap"]) == 10


@pytest.mark.requirement("K7")
def test_what_one_has_forgotten_is_forgotten_by_all_and_no_old_news_bring_it_back():
    mine, theirs = noted(RoutePace(), *[1.0] * 8), RoutePace()
    theirs.hear(mine.to_tell())
    mine.told()
    theirs.forget("gap")
    noted(theirs, 9.0)
    theirs.hear(PaceSeen({"gap": [0.1] * 8}))  # somebody told it meanwhile
    assert theirs.seen().shares["gap"] == [0.9]
    mine.hear(theirs.seen())
    assert mine.scale("gap") is None


@pytest.mark.requirement("K7")
@pytest.mark.parametrize("overtaken", [False, True])
@pytest.mark.parametrize("forgets", [False, True])
def test_what_is_seen_while_others_are_told_is_news_to_them(forgets: bool, overtaken: bool):
    mine, theirs = noted(RoutePace(), 1.0, 2.0), RoutePace()
    on_its_way = mine.to_tell()
    if forgets:
        mine.forget("gap")
    noted(mine, 3.0)
    mine.late = 1
    if overtaken:
        mine.hear(PaceSeen({"gap": [0.9]}))
        theirs.hear(PaceSeen({"gap": [0.9]}))
    else:
        mine.told()
        theirs.hear(on_its_way)
    assert mine.is_news
    theirs.hear(mine.to_tell())
    mine.told()
    before = [0.9] * overtaken + [0.1, 0.2]
    assert (
        theirs.seen() == mine.seen() == PaceSeen({**EMPTY, "gap": [*([] if forgets else before), 0.3]}, [], 1)
    )
    assert not mine.is_news


def test_how_often_a_route_was_late_is_told_and_a_reply_in_time_ends_it():
    mine, theirs = RoutePace(), RoutePace()
    mine.late = 2
    assert mine.is_news
    theirs.hear(mine.to_tell())
    mine.told()
    assert theirs.late == 2
    theirs.note_reading(1.0, 5000)
    mine.hear(theirs.seen())
    assert (mine.late, mine.reading) == (0, pytest.approx(0.2))


def test_what_is_kept_of_a_pace_has_an_end():
    pace = noted(RoutePace(), *[1.0] * 500)
    for _ in range(500):
        pace.note_reading(1.0, 5000)
    heard = RoutePace()
    heard.hear(PaceSeen({"gap": [0.1] * 500}, [1.0] * 500))
    for one in (pace, heard):
        assert (len(one.seen().shares["gap"]), len(one.seen().reading)) == (32, 32)

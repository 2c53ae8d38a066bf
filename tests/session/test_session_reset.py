"""When a conversation starts fresh by itself, in any time zone and across the days on which clocks are moved."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from turnbuckle.session.reset import ResetRule, is_told, last_time, note_for, notice_for, reason

BERLIN, NEW_YORK, KOLKATA, APIA = (
    ZoneInfo(name) for name in ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia")
)
WHYS = ("new", "reset", "idle", "daily", "stopped", "crashed", "stale")
HOUR = 3600.0


def at(zone, *when, fold=0) -> float:
    return datetime(*when, tzinfo=zone, fold=fold).timestamp()


@pytest.mark.requirement("G4")
@pytest.mark.parametrize(
    "mode, silent, same_day, expected",
    [
        ("none", 100 * HOUR, False, None),
        ("idle", 2 * HOUR, True, "idle"),
        ("idle", 1.99 * HOUR, False, None),
        ("daily", 1 * HOUR, False, "daily"),
        ("daily", 5 * HOUR, True, None),
        ("both", 3 * HOUR, False, "idle"),
        ("both", 1 * HOUR, False, "daily"),
        ("both", 1 * HOUR, True, None),
    ],
)
def test_each_rule_gives_its_reason_and_of_two_the_silence_is_told(mode, silent, same_day, expected):
    now = at(BERLIN, 2026, 6, 10, 12 if same_day else 4, 30)
    assert reason(ResetRule(mode, 120.0, 4), now - silent, now, BERLIN) == expected


@pytest.mark.requirement("G4")
@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, KOLKATA, APIA, UTC], ids=str)
@pytest.mark.parametrize("hour", [0, 2, 4, 23])
def test_each_day_of_two_years_has_one_reset_and_it_is_never_in_the_future(zone, hour):
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    resets = set()
    while moment < datetime(2027, 1, 1, tzinfo=UTC):
        now = moment.timestamp()
        last = last_time(hour, now, zone)
        assert now - 25 * HOUR <= last <= now
        resets.add(last)
        moment += timedelta(minutes=30)
    days = {datetime.fromtimestamp(reset, zone).date() for reset in resets}
    assert len(resets) == len(days) in (730, 731)


@pytest.mark.requirement("G4")
def test_an_hour_that_a_day_does_not_have_comes_when_the_clock_has_jumped():
    # In New York the clock jumps from 2:00 to 3:00 on 8 March 2026.
    assert last_time(2, at(NEW_YORK, 2026, 3, 8, 1, 59), NEW_YORK) == at(NEW_YORK, 2026, 3, 7, 2)
    assert last_time(2, at(NEW_YORK, 2026, 3, 8, 3, 0), NEW_YORK) == at(NEW_YORK, 2026, 3, 8, 3, 0)
    rule = ResetRule("daily", daily_hour=2)
    before, after = at(NEW_YORK, 2026, 3, 8, 1, 30), at(NEW_YORK, 2026, 3, 8, 3, 30)
    assert reason(rule, before, after, NEW_YORK) == "daily"


@pytest.mark.requirement("G4")
def test_an_hour_that_a_day_has_twice_counts_once():
    # In Berlin 2:00 to 3:00 comes twice on 25 October 2026.
    first, second = at(BERLIN, 2026, 10, 25, 2, 30), at(BERLIN, 2026, 10, 25, 2, 30, fold=1)
    assert second - first == HOUR
    assert last_time(2, first, BERLIN) == last_time(2, second, BERLIN) == first - HOUR / 2
    assert reason(ResetRule("daily", daily_hour=2), first, second, BERLIN) is None


@pytest.mark.requirement("G4")
def test_the_zone_decides_which_day_it_is():
    spoken, now = at(UTC, 2026, 6, 10, 0, 0), at(UTC, 2026, 6, 10, 3, 0)
    rule = ResetRule("daily", daily_hour=4)
    assert reason(rule, spoken, now, UTC) is None
    assert reason(rule, spoken, now, BERLIN) == "daily"  # there it is five o'clock
    assert reason(rule, spoken, now, KOLKATA) is None  # half past five was when it was said


@pytest.mark.requirement("G2", "G4")
@pytest.mark.parametrize("why", WHYS)
def test_note_and_notice_name_the_reason(why):
    others = [other for other in WHYS if other != why]
    assert note_for(why).startswith("[Runtime] This is a fresh start: ")
    assert note_for(why) not in map(note_for, others)
    assert notice_for(why) not in map(notice_for, others)
    assert "(it died in shell)" in note_for(why, "it died in shell")
    assert "(it died in shell)" in notice_for(why, "it died in shell")


@pytest.mark.requirement("G2", "G4")
@pytest.mark.parametrize("why", WHYS)
def test_notices_can_be_off_for_a_surface_but_never_where_something_went_wrong(why):
    assert is_told(why, "chat", ())
    assert is_told(why, "chat", ("responses", "runs"))
    assert is_told(why, "chat", ("chat",)) == (why in ("stopped", "crashed", "stale"))

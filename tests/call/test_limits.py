"""How long each clock waits, and who says so."""

import pytest

from turnbuckle.call.limits import AttemptLimits, Limit, RoutePace, StallSettings, limits_for

CLOCKS = ("connect", "first_event", "gap", "gap_in_call", "thinking", "silence")


def limits(settings: StallSettings | None = None, **fields) -> AttemptLimits:
    return limits_for(settings or StallSettings(), **{"prompt_size": 0, **fields})


def taught(share: float, times: int = RoutePace.ENOUGH) -> RoutePace:
    pace = RoutePace()
    for _ in range(times):
        for what in ("first_event", "gap", "gap_in_call"):
            pace.note(what, share, Limit(1, default=1))
    return pace


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_number_in_the_settings_is_the_limit_whatever_else_is_known(clock: str):
    """L14."""
    settings = StallSettings(**{clock: 7.5})
    made = limits(settings, prompt_size=10**6, local=True, effort="high", pace=taught(1.0))
    assert getattr(made, clock).seconds == 7.5
    assert getattr(made, clock).source == "configured"


def test_a_fixed_gap_holds_in_calls_in_thought_and_in_silence_too():
    made = limits(StallSettings(gap=33))
    found = {
        made.gap,
        made.gap_thinking,
        made.gap_in_call,
        made.silence,
        made.silence_thinking,
        made.silence_in_call,
    }
    assert {(limit.seconds, limit.source) for limit in found} == {(33, "configured")}


def test_the_effective_values_and_their_sources_can_be_printed():
    """L14."""
    effective = limits(StallSettings(gap=33), pace=taught(0.25))
    assert str(effective.gap) == "33 s, configured"
    assert str(effective.connect) == "10 s, configured"
    assert str(effective.first_event) == "120 s, learned"
    assert str(effective.thinking) == "600 s, default"


def test_a_long_prompt_is_given_time_to_be_read():
    """P3: 200,000 tokens to a slow backend, three minutes and more."""
    assert limits(prompt_size=800_000).first_event.seconds > 180
    assert limits(prompt_size=800_000, local=True).first_event.seconds > 1800


@pytest.mark.parametrize("local", [False, True])
def test_the_time_for_a_prompt_grows_with_it_up_to_a_bound(local: bool):
    grown = [
        limits(prompt_size=size, local=local).first_event.seconds for size in (0, 10**5, 10**6, 10**8, 10**9)
    ]
    assert grown == sorted(grown)
    assert grown[0] < grown[1]
    assert grown[-2] == grown[-1] <= 3600


def test_local_routes_plain_requests_and_hard_thinking_are_given_more_time():
    usual = limits().first_event.seconds
    assert limits(local=True).first_event.seconds > usual
    assert limits(streaming=False).first_event.seconds > usual
    assert limits(effort="high").first_event.seconds > usual
    assert limits(effort="low").first_event.seconds == usual
    assert limits(effort="high").gap_thinking.seconds > limits().gap_thinking.seconds
    assert limits(effort="high").gap.seconds == limits().gap.seconds


def test_silence_in_text_is_shorter_than_the_gap_and_a_call_may_be_silent_for_five_minutes():
    """P6."""
    made = limits()
    assert made.silence.seconds < made.gap.seconds < made.gap_thinking.seconds < made.thinking.seconds
    assert made.silence_in_call.seconds > 300


@pytest.mark.parametrize(
    "share, times, scale",
    [
        (0.25, RoutePace.ENOUGH - 1, None),
        (0.25, RoutePace.ENOUGH, 1.0),
        (0.0, RoutePace.ENOUGH, RoutePace.LEAST),
        (0.9, RoutePace.ENOUGH, RoutePace.MOST),
    ],
)
def test_what_is_learned_is_four_times_the_longest_wait_within_bounds(share, times, scale):
    assert taught(share, times).scale("gap") == scale


def test_only_the_latest_waits_are_remembered():
    pace = taught(0.6)
    for _ in range(RoutePace.KEPT):
        pace.note("gap", 0.25, Limit(1, default=1))
    assert pace.scale("gap") == 1.0


def test_a_route_with_quick_text_is_still_given_time_to_think():
    assert limits(pace=taught(0.0)).gap.seconds < limits().gap.seconds
    assert limits(pace=taught(0.0)).gap_thinking == limits().gap_thinking


# A machine of one's own that reads slowly


def read_by(*prompts: tuple[float, int]) -> RoutePace:
    """A local server that read prompts of these sizes in so many seconds, and is otherwise quick."""
    pace = taught(0.001)
    for seconds, size in prompts:
        pace.note_reading(seconds, size)
    return pace


def first(pace: RoutePace, size: int, **fields) -> float:
    return limits(prompt_size=size, pace=pace, **{"local": True, **fields}).first_event.seconds


def test_a_local_server_that_answers_short_prompts_at_once_still_gets_its_time_for_a_long_one():
    unread = limits(prompt_size=100_000, local=True).first_event.seconds
    assert first(taught(0.001), 100_000) == unread
    assert first(taught(0.001), 100_000, local=False) < unread


@pytest.mark.parametrize("seconds_per_thousand", [0.1, 2.0, 12.0, 30.0])
@pytest.mark.parametrize("size", [1_000, 10_000, 60_000, 100_000, 10**7])
def test_the_first_clock_of_a_local_server_follows_how_fast_it_reads(seconds_per_thousand: float, size: int):
    pace = read_by((seconds_per_thousand * 8, 8_000))
    needed = seconds_per_thousand * size / 1000
    given = first(pace, size)
    assert given >= min(2 * needed, 3600)
    assert given <= 3600


def test_short_prompts_do_not_tell_how_fast_one_reads():
    assert read_by((50.0, 100)).reading is None
    assert read_by((50.0, 100), (40.0, 8_000), (10.0, 8_000)).reading == 5.0


def test_a_prompt_that_was_not_read_in_time_gets_twice_the_time():
    pace = taught(0.001)
    times = []
    for pace.late in range(6):
        times.append(first(pace, 50_000))
    assert times[1] == 2 * times[0]
    assert times[2] == 4 * times[0]
    assert times[-1] <= 3600
    pace.note_reading(1.0, 50_000)
    assert pace.late == 0


def test_what_somebody_set_holds_for_a_slow_reader_too():
    pace = read_by((500.0, 8_000))
    pace.late = 3
    assert (
        limits(StallSettings(first_event=9), prompt_size=10**6, local=True, pace=pace).first_event.seconds
        == 9
    )

"""Which clock fires next, as a table; and what moves the clocks."""

import pytest

from turnbuckle.call.limits import AttemptLimits, Limit, RoutePace, StallSettings, limits_for
from turnbuckle.call.stall import Activity, Watch, forget_wrong, next_deadline, stalled
from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallStarted,
    Ended,
    Event,
    FinishNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    Skipped,
    Started,
    TextDelta,
    Usage,
    UsageNoted,
)

LIMITS = AttemptLimits(
    connect=Limit(10),
    first_event=Limit(100),
    gap=Limit(40),
    gap_thinking=Limit(60),
    gap_in_call=Limit(200),
    thinking=Limit(300),
    silence=Limit(30),
    silence_thinking=Limit(50),
    silence_in_call=Limit(150),
)
START = Started("r", "m")
TEXT = TextDelta(0, "a")
THOUGHT = ReasoningDelta(0, "a")
CALL = CallStarted(1, "c", "write_file")
ARGS = CallArgs(1, "{")
CLOSED = CallClosed(1)
COMMENT = Alive("comment")
PING = Alive("ping")
LIFE = Alive("lifecycle")

Story = list[tuple[float, list[Event]]]


def watched(story: Story, connected: float | None = 5.0) -> Watch:
    watch = Watch(0.0)
    if connected is not None:
        watch.connected(connected)
    for moment, events in story:
        watch.received(events, moment)
    return watch


TABLE: list[tuple[str, Story, str, float]] = [
    ("connected, and nothing came", [], "first_event", 105),
    ("blank bytes are no event", [(20, [])], "first_event", 105),
    (
        "comments do not move the first-event clock, but show that there should be bytes",
        [(20, [COMMENT])],
        "silence",
        70,
    ),
    (
        "comments that go on leave the first-event clock",
        [(60, [COMMENT]), (90, [COMMENT])],
        "first_event",
        105,
    ),
    ("P2: one opening event, then nothing", [(20, [START])], "silence", 70),
    ("P2: with comments, the gap fires", [(20, [START]), (60, [COMMENT])], "gap", 80),
    ("pings carry a thinking model on", [(20, [START]), (60, [PING]), (100, [PING])], "silence", 150),
    (
        "lifecycle events do too",
        [(20, [START]), (60, [LIFE]), (100, [LIFE, COMMENT]), (140, [COMMENT])],
        "gap",
        160,
    ),
    ("P4: but not beyond the thinking limit", [(20, [START]), (310, [PING])], "gap", 320),
    ("P5: text, then comments only", [(20, [TEXT]), (50, [COMMENT])], "gap", 60),
    ("pings do not carry text on", [(20, [TEXT]), (50, [PING])], "gap", 60),
    ("text, then nothing", [(20, [TEXT])], "silence", 50),
    ("a refusal is text", [(20, [RefusalDelta(0, "no")])], "silence", 50),
    ("reasoning is thinking", [(20, [THOUGHT])], "silence", 70),
    (
        "reasoning behind text is thinking again",
        [(20, [TEXT]), (30, [BlockStarted(1, "reasoning")])],
        "silence",
        80,
    ),
    ("a provider's own tool is thinking", [(20, [TEXT]), (30, [OpaqueBlock(1, {})])], "silence", 80),
    ("P6: an open call widens both", [(20, [TEXT, CALL])], "silence", 170),
    ("P6: and the gap with comments", [(20, [CALL]), (190, [COMMENT])], "gap", 220),
    ("arguments are progress", [(20, [CALL]), (100, [ARGS]), (240, [COMMENT])], "gap", 300),
    ("a closed call narrows them again", [(20, [CALL, ARGS, CLOSED])], "silence", 50),
    ("counts are no progress", [(20, [TEXT]), (45, [UsageNoted(Usage())])], "gap", 60),
    ("an unreadable frame is no progress", [(20, [TEXT]), (45, [Skipped("", "")])], "gap", 60),
    ("the end of a block is progress", [(20, [TEXT]), (45, [BlockClosed(0)])], "silence", 75),
    ("a finish reason is progress", [(20, [TEXT]), (45, [FinishNoted("stop", "stop")])], "silence", 75),
]


@pytest.mark.parametrize("story, clock, when", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_next_deadline_follows_from_what_came(story: Story, clock: str, when: float):
    deadline = next_deadline(watched(story), LIMITS)
    assert (deadline.clock, deadline.when) == (clock, when)


def test_without_a_connection_only_the_connect_clock_runs():
    deadline = next_deadline(watched([], connected=None), LIMITS)
    assert (deadline.clock, deadline.when) == ("connect", 10)


def test_the_body_of_an_error_is_only_waited_for_briefly():
    watch = watched([])
    watch.failing_at = 20.0
    assert next_deadline(watch, LIMITS).when == 30


@pytest.mark.parametrize(
    "slept, read_at, when",
    [
        (10.0, None, 50.0),  # a short sleep is only time
        (21600.0, None, 1001.0),  # a long one leaves a moment
        (21600.0, 1000.1, 1001.0),  # what was lying there proves nothing
        (21600.0, 1000.5, 1030.5),  # what comes later proves that it lives
    ],
)
def test_a_sleep_of_the_machine_leaves_the_stream_a_moment_to_show_that_it_lives(slept, read_at, when):
    watch = watched([(20, [TEXT])])
    watch.woke(1000.0, slept, LIMITS)
    if read_at is not None:
        watch.received([TEXT], read_at)
    assert next_deadline(watch, LIMITS).when == when


@pytest.mark.parametrize(
    "story, connected, activity",
    [
        ([], None, Activity("connect", 0.0)),
        ([], 5.0, Activity("first_event", 5.0)),
        ([(20, [COMMENT])], 5.0, Activity("first_event", 5.0, last_event=20)),
        ([(20, [START])], 5.0, Activity("more", 20, thinking=True, last_event=20)),
        ([(20, [TEXT]), (25, [COMMENT])], 5.0, Activity("more", 20, last_event=25)),
        ([(20, [TEXT, CALL])], 5.0, Activity("arguments", 20, "write_file", last_event=20)),
        ([(20, [TEXT, Ended("x")])], 5.0, Activity("nothing", 20, last_event=20)),
    ],
)
def test_the_activity_tells_what_is_waited_for(story: Story, connected, activity: Activity):
    assert watched(story, connected).activity() == activity


@pytest.mark.parametrize(
    "activity, words",
    [
        (Activity("connect", 0), "connecting, 90 s"),
        (Activity("first_event", 0), "waiting for the first token, 90 s"),
        (Activity("more", 0, thinking=True), "thinking, 90 s"),
        (Activity("more", 0), "waiting for more, 90 s"),
        (Activity("arguments", 0, "write_file"), "receiving write_file, 90 s"),
        (Activity("nothing", 0), "done"),
    ],
)
def test_the_activity_has_words(activity: Activity, words: str):
    assert activity.words(90) == words


def test_the_failure_says_which_clock_how_long_and_by_whose_limit():
    watch = watched([(20, [TEXT, CALL]), (190, [COMMENT])])
    failure = stalled(watch, next_deadline(watch, LIMITS), 220.0)
    assert (failure.kind, failure.clock, failure.retryable) == ("stalled", "gap", True)
    assert failure.message == "no progress for 200 s in the arguments of write_file (limit 200 s, default)"


def test_a_failure_that_was_noticed_late_says_so():
    watch = watched([(20, [TEXT])])
    assert stalled(watch, next_deadline(watch, LIMITS), 90.0, 40.0).message.endswith("noticed 40 s late")


def test_a_finished_attempt_teaches_its_route_its_longest_waits():
    pace = RoutePace()
    for _ in range(RoutePace.ENOUGH):
        limits = limits_for(StallSettings(), prompt_size=0)
        watch = watched(
            [(17, [START]), (18, [TEXT]), (48, [TEXT]), (49, [CALL]), (139, [ARGS]), (140, [Ended("x")])]
        )
        watch.teach(pace, limits)
    learned = limits_for(StallSettings(), prompt_size=0, pace=pace)
    assert (learned.first_event.seconds, learned.first_event.source) == (48, "learned")  # 4 x 12
    assert (learned.gap.seconds, learned.gap.source) == (120, "learned")  # 4 x 30
    assert (learned.gap_in_call.seconds, learned.gap_in_call.source) == (360, "learned")  # 4 x 90


def test_time_spent_thinking_teaches_nothing_about_gaps_in_text():
    pace = RoutePace()
    for _ in range(RoutePace.ENOUGH):
        watch = watched([(6, [START]), (100, [THOUGHT]), (190, [TEXT]), (191, [TEXT])])
        watch.teach(pace, limits_for(StallSettings(), prompt_size=0))
    assert pace.scale("gap") == RoutePace.LEAST


@pytest.mark.parametrize(
    "story, clock, what",
    [
        ([], "first_event", "first_event"),
        ([(20, [TEXT])], "silence", "gap"),
        ([(20, [CALL])], "gap", "gap_in_call"),
    ],
)
def test_a_learned_limit_that_fires_is_forgotten(story: Story, clock: str, what):
    pace = RoutePace()
    for _ in range(RoutePace.ENOUGH):
        for name in ("first_event", "gap", "gap_in_call"):
            pace.note(name, 1.0, Limit(100, default=100))
    watch = watched(story)
    deadline = next_deadline(watch, limits_for(StallSettings(), prompt_size=0, pace=pace))
    assert (deadline.clock, deadline.limit.source) == (clock, "learned")
    forget_wrong(watch, deadline, pace)
    known = {name for name in ("first_event", "gap", "gap_in_call") if pace.scale(name) is not None}
    assert known == {"first_event", "gap", "gap_in_call"} - {what}

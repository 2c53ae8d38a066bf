"""Replies that are whole, though some come in odd ways."""

from collections.abc import Iterable

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import (
    Call,
    Case,
    Comments,
    Dribble,
    Finish,
    LabRequest,
    Pace,
    Plain,
    Reason,
    Refuse,
    Say,
    ScriptItem,
    Stall,
    case_of,
)

ANSWER = "A turnbuckle joins two ropes and takes up their slack, so that the line holds when the wind pulls."
THOUGHT = "The user wants a short answer. A turnbuckle tightens a line; I will say that and no more."
_PARAGRAPH = (
    "Line {} runs from the mast to the deck, and each turn of the screw takes up a little more slack. "
)
_LONG = "".join(_PARAGRAPH.format(number) for number in range(1, 206))
_UNICODE = "Grüße, 漢字, \u2028 a line separator, e\u0301, 👩‍👩‍👧, 🇩🇪 and the end."
_TABLE = "| part | state |\n|---|---|\n" + "| shackle | in order |\n" * 60


def _echo(request: LabRequest) -> Iterable[ScriptItem]:
    return (Say(last_user_text(request) or "You said nothing."), Finish())


WHOLE: tuple[Case, ...] = (
    case_of("happy", "a short answer, finished properly", Say(ANSWER), Finish()),
    case_of("echo", "says what the user said", _echo),
    case_of("reasoning", "thinks, then answers", Reason(THOUGHT), Say(ANSWER), Finish()),
    case_of("long", "an answer of 20,000 characters", Say(_LONG), Finish()),
    case_of(
        "unicode",
        "many scripts, and U+2028, which ends no line",
        Say(_UNICODE, pieces=1),
        Finish(),
        scenarios=("P24",),
    ),
    case_of(
        "emoji-ending",
        "a finished answer that ends in an emoji",
        Say("Done 👍"),
        Finish(),
        scenarios=("P14",),
    ),
    case_of(
        "byte-by-byte",
        "every byte comes in a write of its own",
        Dribble(1),
        Reason(THOUGHT),
        Say(ANSWER + " 漢字"),
        Finish(),
        scenarios=("P23",),
    ),
    case_of("slow-drip", "four characters every fifth of a second", Pace(4, 0.2), Say(ANSWER), Finish()),
    case_of(
        "slow-first-byte",
        "20 silent seconds before the first byte",
        Stall(20),
        Say(ANSWER),
        Finish(),
        scenarios=("P3",),
    ),
    case_of(
        "slow-prefill",
        "three silent minutes, then the answer",
        Stall(180),
        Say(ANSWER),
        Finish(),
        scenarios=("P3",),
    ),
    case_of(
        "thinks-behind-signs-of-life",
        "a thought, 90 seconds of pings, then the answer",
        Reason(THOUGHT),
        Comments(90, 5, "ping"),
        Say(ANSWER),
        Finish(),
        scenarios=("P4",),
    ),
    case_of(
        "long-winded",
        "one new sentence a second, for a minute",
        Pace(0, 1.0),
        *(Say(_PARAGRAPH.format(number)) for number in range(1, 61)),
        Finish(),
        scenarios=("L8",),
    ),
    case_of(
        "thinks-behind-pings",
        "90 seconds of pings, then the answer",
        Comments(90, 10, "ping"),
        Say(ANSWER),
        Finish(),
        scenarios=("P4",),
    ),
    case_of(
        "think-tags",
        "reasoning in the text, between split tags",
        Say(f"<think>{THOUGHT}</think>\n\n", pieces=3),
        Say(ANSWER),
        Finish(),
        scenarios=("P28",),
    ),
    case_of(
        "plain-answer", "one JSON document though a stream was asked for", Plain(), Say(ANSWER), Finish()
    ),
    case_of("refusal", "the model declines", Refuse("I cannot help with that."), Finish()),
    case_of(
        "repeats-itself",
        "one sentence 300 times",
        Say("I will try again. ", pieces=18, times=300),
        Finish(),
        scenarios=("P25",),
    ),
    case_of(
        "thinks-in-circles",
        "the same thought forever",
        Reason("wait, let me look at this again and then " * 1_500, pieces=41),
        Finish(),
    ),
    case_of(
        "blanks-in-arguments",
        "a call whose arguments run into blanks",
        Call("write_file", '{"path": "a.txt",' + " \n" * 20_000, pieces=64, closed=False),
        Finish(),
    ),
    case_of("table", "a long table whose rows are rightly alike", Say(_TABLE), Finish(), scenarios=("P26",)),
    case_of("says-nothing", "finishes without a word", Finish()),
)

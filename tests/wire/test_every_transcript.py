"""What must hold for every recorded transcript of every protocol, wherever it is split or cut."""

from functools import partial
from typing import Any

import pytest
from support.wire.transcript_files import ALL, IDS, transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.testing.cut_points import try_every_cut, try_every_split
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.ids import PROTOCOL_NAMES
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.answer import open_answer

# In these the reason to stop is not the last thing that counts, so a tidy end behind it cannot be told from the real one.
EARLY_ENDS = ("late-", "behind-finish")


def _end_is_terminal(name):
    return any(mark in name for mark in EARLY_ENDS)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.requirement("A10", "A12")
def test_each_protocol_has_at_least_twelve_recorded_transcripts(protocol):
    assert len(transcripts(protocol)) >= 12


@pytest.mark.parametrize("protocol, path", ALL, ids=IDS)
@pytest.mark.requirement("A12")
def test_a_transcript_gives_the_same_events_however_it_is_split(protocol, path, record_property):
    report = try_every_split(partial(open_answer, protocol), path.read_bytes(), n=20)
    record_property("splits tried", report.tried)
    assert report.problems == ()


@pytest.mark.exhaustive
@pytest.mark.parametrize("protocol, path", ALL, ids=IDS)
@pytest.mark.requirement("A10", "B1")
def test_a_transcript_cut_at_any_byte_in_any_way_has_one_honest_last_word(protocol, path, record_property):
    report = try_every_cut(
        partial(open_answer, protocol),
        path.read_bytes(),
        end_is_terminal=_end_is_terminal(path.name),
        check=nothing_runs(),
    )
    record_property("cuts tried", report.tried)
    assert report.tried == (path.stat().st_size + 1) * 5
    assert report.problems == ()


@pytest.mark.exhaustive
@pytest.mark.parametrize("protocol, path", ALL, ids=IDS)
@pytest.mark.requirement("B1")
def test_a_transcript_read_with_other_quirks_still_has_one_honest_last_word(protocol, path, record_property):
    # Where more may come behind the reason, nobody knows yet whether reasoning that is still open was the answer.
    quirks = Quirks(think="auto" if _end_is_terminal(path.name) else "open", finishless=True)
    report = try_every_cut(
        partial(open_answer, protocol, quirks=quirks),
        path.read_bytes(),
        ends=("tidy", "reset"),
        end_is_terminal=True,
    )
    record_property("cuts tried", report.tried)
    assert report.problems == ()


def nothing_runs():
    """A cut reply gives no call that may run. Most cuts give the very list of events of the one a byte before."""
    judged: dict[Any, Any] = {}

    def check(cut, _whole, events):
        if judged.get(cut.end) is events:
            return
        if isinstance(events[-1], Cut) and verdict(fold(list(events))).calls:
            yield "calls may run from a cut reply"
        else:
            judged[cut.end] = events

    return check

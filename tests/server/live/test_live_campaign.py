"""A short campaign of `scripts/campaign`: random clients, kills, pauses and a full disk, with real processes."""

from pathlib import Path

import pytest
from campaigning.play import campaign
from campaigning.world import Broken, Seen
from support.server.live_server import Frame, run

pytestmark = [pytest.mark.process, pytest.mark.realtime]

SECONDS = 10.0


@pytest.mark.requirement("E2", "E4", "D3", "G6")
def test_a_short_random_campaign_breaks_no_promise(tmp_path: Path):
    world = run(campaign(7, SECONDS, tmp_path))
    assert world.runs
    assert any(reader.frames for reader in world.readers)
    assert {"say", "read", "began"} <= set(world.counts)
    assert {"kill", "term", "pause", "disk"} & set(world.counts)


def test_a_reader_that_is_told_an_event_again_is_a_broken_promise():
    seen = Seen("r")
    seen.take([Frame(b"id: 1", "1"), Frame(b": beat"), Frame(b"id: 2", "2")])
    with pytest.raises(Broken, match="got 2 behind 2"):
        seen.take([Frame(b"id: 2", "2")])

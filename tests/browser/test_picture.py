"""The picture in the README stays true: taken again, it shows the same steps in the same size."""

import re
import struct
import subprocess

import pytest
from tidy import ROOT

PICTURES = ROOT / "docs" / "pictures"
NAMES = ("timeline-light.png", "timeline-dark.png")
MOST_BYTES = 150_000  # a page that is opened on a phone


def _size(picture):
    """Width and height, as they stand at the beginning of every PNG."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def _words(folder):
    """The steps without what differs from one time to the next."""
    told = (folder / "timeline.txt").read_text("utf-8")
    return re.sub(r"[\d.,]+ ?(?:ms|s)?\b", "#", told).splitlines()


@pytest.mark.process
@pytest.mark.realtime
@pytest.mark.requirement("H3")
def test_the_picture_taken_again_shows_what_the_committed_one_shows(tmp_path):
    ran = subprocess.run(
        [ROOT / "scripts" / "picture", tmp_path], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert _words(tmp_path) == _words(PICTURES)
    assert any("stall" in step for step in _words(tmp_path))
    for name in NAMES:
        (wide, high), (was_wide, was_high) = _size(tmp_path / name), _size(PICTURES / name)
        assert wide == was_wide
        assert abs(high - was_high) <= was_high * 0.1  # a line more or less


@pytest.mark.requirement("H3")
@pytest.mark.parametrize("name", NAMES)
def test_the_committed_picture_is_small(name):
    assert (PICTURES / name).stat().st_size <= MOST_BYTES

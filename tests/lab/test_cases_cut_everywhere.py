"""What the lab itself sends, cut at every byte by every kind of end."""

from functools import partial

import pytest

from turnbuckle.lab.cases import find_case
from turnbuckle.lab.script import LabRequest
from turnbuckle.testing.cut_points import ENDS, try_every_cut, try_every_split
from turnbuckle.testing.dry_run import rehearse
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.wire.answer import open_answer

NAMES = (
    "tool",
    "refusal",
    "same-index",
    "interleaved-without-ids",
    "error-in-stream",
    "length-in-arguments",
    "no-reason",
)


@pytest.mark.requirement("B1")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_no_cut_of_what_the_lab_sends_breaks_an_invariant(name: str, protocol: ProtocolName) -> None:
    body = rehearse(find_case(name).script_for(1), LabRequest(protocol)).body
    decoder = partial(open_answer, protocol)
    report = try_every_cut(decoder, body)
    assert report.problems == ()
    assert report.tried == (len(body) + 1) * len(ENDS)
    assert try_every_split(decoder, body).problems == ()


@pytest.mark.requirement("A11", "B1")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_no_cut_of_a_plain_answer_breaks_an_invariant(protocol: ProtocolName) -> None:
    body = rehearse(find_case("text-then-tool").script_for(1), LabRequest(protocol, stream=False)).body
    assert try_every_cut(partial(open_answer, protocol), body).problems == ()

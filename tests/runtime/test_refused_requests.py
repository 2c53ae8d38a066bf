"""Whole runs against providers that refuse a request as it is, and would take it said otherwise."""

from pathlib import Path

import pytest
from support.runs.run_harness import run_case

from turnbuckle.lab.cases.refusals import AFFORDABLE
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.turn.facts import Reask, Retry
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.quirks import Quirks

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


@pytest.mark.requirement("C3")
@EVERY
def test_a_call_that_its_own_provider_could_not_read_is_asked_for_again(
    tmp_path: Path, protocol: ProtocolName
):
    """Given a provider that refuses a call of its own model as unreadable, then the call is asked for again."""
    record = run_case(tmp_path, "call-unreadable-once", protocol=protocol)
    assert (record.outcome.kind, record.shown) == ("completed", ANSWER)
    assert [decided.decision for decided in record.decided] == [Reask("valid_calls")]


@pytest.mark.requirement("A9")
@EVERY
def test_a_gateway_whose_model_failed_is_asked_again_in_silence(tmp_path: Path, protocol: ProtocolName):
    """Given a gateway that says 424 once, then it is asked again and nothing is shown of it."""
    record = run_case(tmp_path, "gateway-failed-once", protocol=protocol)
    assert (record.outcome.kind, record.shown, record.notices) == ("completed", ANSWER, [])
    assert isinstance(record.decided[0].decision, Retry)


@EVERY
def test_what_can_be_paid_for_is_asked_for(tmp_path: Path, protocol: ProtocolName):
    """Given 402 with what can be afforded, then the request goes out once more with that cap."""
    record = run_case(tmp_path, "can-only-afford", protocol=protocol)
    assert (record.outcome.kind, record.shown) == ("completed", ANSWER)
    assert [decided.decision for decided in record.decided] == [Reask("less_room", cap=AFFORDABLE)]
    assert len(record.requests) == 2


@pytest.mark.requirement("C5")
@EVERY
def test_a_signature_that_is_refused_is_left_out_and_nothing_runs_twice(
    tmp_path: Path, protocol: ProtocolName
):
    """Given a history refused for its signature, then it is told in plain words and no tool runs again."""
    record = run_case(tmp_path, "signature-refused", protocol=protocol)
    assert (record.outcome.kind, record.shown) == ("completed", ANSWER)
    assert [decided.decision for decided in record.decided] == [Reask("retold")]
    assert len(record.started) == 1


@pytest.mark.requirement("C11", "D1")
@EVERY
def test_a_name_that_the_model_invented_never_comes_back_to_its_provider(
    tmp_path: Path, protocol: ProtocolName
):
    """Given a call of a tool that is not there, then later requests hold a legal name for it."""
    record = run_case(tmp_path, "tool-name-refused", protocol=protocol)
    assert (record.outcome.kind, record.shown, record.decided) == ("completed", ANSWER, [])
    assert (len(record.requests), record.started) == (2, [])
    (told,) = record.finished
    assert told.outcome.status == "not_started"
    assert "get_weather" in told.outcome.text
    assert "get_weather" in record.body(1)


def test_a_field_that_is_refused_goes_by_its_other_name(tmp_path: Path):
    """Given a host that refuses one name of the output cap, then it gets the other one."""
    route = {"quirks": Quirks(output_cap_field="max_tokens"), "max_output_tokens": 99}
    record = run_case(tmp_path, "cap-field-refused", route=route)
    assert (record.outcome.kind, record.shown, record.notices) == ("completed", ANSWER, [])
    caps = [request.body.get("max_completion_tokens") for request in record.requests]
    assert caps == [None, 99]

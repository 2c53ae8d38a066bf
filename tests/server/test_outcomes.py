"""One table for how a run's end is told, and it is whole."""

from typing import get_args

import pytest

from turnbuckle.narrate.told import RunOver
from turnbuckle.server.outcomes import FAULTS, ROWS, ending, note_of, outcome_fields, trouble_of
from turnbuckle.vocab.failure import Failure, FailureKind, failure
from turnbuckle.vocab.ids import DraftId, RunId
from turnbuckle.vocab.outcome import Outcome, OutcomeKind

KINDS = get_args(OutcomeKind)
FINISHES = ("stop", "length", "tool_calls", "content_filter", "function_call")


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handed", [False, True])
@pytest.mark.parametrize("declined", [False, True])
@pytest.mark.parametrize("quiet", [False, True])
def test_every_end_has_one_answer_on_every_surface(kind, handed, declined, quiet):
    end = ending(RunOver("r", Outcome(kind, "because"), handed=handed, declined=declined, bare=quiet))
    failed = kind == "failed" and not declined
    assert (end.trouble is not None) == failed
    assert (end.finish in FINISHES) == (not failed)
    assert (end.status == 200) == (not failed)
    assert (end.finish == "stop") <= (kind == "completed")
    assert (end.finish == "tool_calls") == (kind == "completed" and handed)
    assert (end.row.response == "completed") == (kind == "completed")
    assert bool(end.row.reason) == (end.row.response in ("incomplete", "cancelled"))
    assert bool(end.note) == (kind != "completed" and not quiet and not failed)
    assert dict(end.headers)["x-turnbuckle-outcome"] == kind


def test_the_table_has_a_row_for_each_outcome_and_one_for_a_model_that_declines():
    assert set(ROWS) == {*KINDS, "declined"}
    assert {row.event for row in ROWS.values()} == {
        "response.completed",
        "response.incomplete",
        "response.failed",
    }


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_of_failure_is_an_error_that_no_client_repeats_by_itself(kind):
    trouble = trouble_of(Outcome("failed", "it broke", failure(kind, "inner words")))
    assert 400 <= trouble.status <= 599
    assert set(trouble.body()["error"]) == {"message", "type", "param", "code"}
    assert trouble.message.endswith("it broke")
    assert trouble.code
    assert dict(trouble.headers())["x-should-retry"] == "false"
    assert "retry-after" not in dict(trouble.headers())


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_what_a_relay_could_not_get_may_be_asked_for_again_if_that_can_help(kind):
    told = failure(kind, "inner words")
    headers = dict(trouble_of(Outcome("failed", "it broke", told), repeatable=True).headers())
    assert headers["x-should-retry"] == ("true" if told.retryable else "false")
    assert ("retry-after" in headers) == (kind in ("rate_limited", "overloaded"))


@pytest.mark.parametrize(
    "kind, status, type, code",
    [
        ("rate_limited", 429, "rate_limit_error", "rate_limit_exceeded"),
        ("overloaded", 503, "server_error", "overloaded"),
        ("context", 400, "invalid_request_error", "context_length_exceeded"),
        ("too_large", 413, "invalid_request_error", "request_too_large"),
        ("invalid", 400, "invalid_request_error", "invalid"),
        ("stalled", 504, "server_error", "timeout"),
        ("connect", 502, "server_error", "connect"),
        ("server", 502, "server_error", "server"),
        ("budget", 422, "invalid_request_error", "limit_reached"),
    ],
)
@pytest.mark.requirement("F1")
def test_the_kind_of_failure_decides_what_a_client_is_told(kind, status, type, code):
    trouble = trouble_of(Outcome("failed", "it broke", failure(kind, "x")))
    assert (trouble.status, trouble.type, trouble.code) == (status, type, code)


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("kind", ["auth", "permission", "billing", "not_found"])
def test_a_bad_key_of_ours_never_looks_like_a_bad_key_of_the_client(kind):
    trouble = trouble_of(
        Outcome(
            "failed", "the key is not valid", Failure(kind, "x", False, code="invalid_api_key", status=401)
        )
    )
    assert (trouble.status, trouble.type, trouble.code) == (502, "server_error", f"provider_{kind}")
    assert trouble.message == "The provider of the model did not accept this server: the key is not valid"


def test_a_provider_says_what_is_wrong_with_a_request_in_its_own_words():
    refused = Failure("invalid", "no such size", False, code="bad_size", param="size")
    trouble = trouble_of(Outcome("failed", "no such size", refused))
    assert (trouble.code, trouble.param) == ("bad_size", "size")


def test_a_client_is_told_to_wait_as_long_as_the_provider_said_and_never_less():
    limited = Failure("rate_limited", "x", True, retry_after=7.2)
    assert dict(trouble_of(Outcome("failed", "x", limited), repeatable=True).headers())["retry-after"] == "8"


def test_a_failure_without_a_cause_is_still_an_error_with_words():
    assert trouble_of(Outcome("failed", "nothing arrived")).message == "nothing arrived"
    assert trouble_of(Outcome("failed")).message
    assert trouble_of(Outcome("failed", "", failure("reset", "the line broke"))).message == "the line broke"
    assert trouble_of(Outcome("failed")).status == 500


def test_the_table_knows_every_kind_of_failure():
    assert set(FAULTS) == set(get_args(FailureKind))


def test_a_note_is_one_short_paragraph():
    long = Outcome("partial", "it was " + "very\n\nlong " * 200, drafts=(DraftId("d1"), DraftId("d2")))
    note = note_of(long)
    assert "\n" not in note
    assert len(note) < 500
    assert note.endswith("Kept as a draft: d1, d2.]")
    assert note_of(Outcome("partial")) == "[Not finished: no reason is known]"
    assert note_of(Outcome("cancelled", "stopped")) == "[Stopped.]"
    assert note_of(Outcome("completed")) == ""


def test_the_outcome_is_told_in_our_own_words_too():
    outcome = Outcome("partial", "cut", drafts=(DraftId("d1"),))
    assert outcome_fields(outcome, RunId("r9")) == {
        "outcome": "partial",
        "why": "cut",
        "run": "r9",
        "drafts": ["d1"],
    }

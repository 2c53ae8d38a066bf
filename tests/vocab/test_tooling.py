"""How a call went, and how the model is told."""

import itertools

import msgspec
import pytest

from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import ToolOutcome, result_part

WHOLE = {
    "finished": ToolOutcome("finished", "42"),
    "failed": ToolOutcome("failed", "no such file", exit_code=2),
    "killed": ToolOutcome("killed", partial_output="half", seconds=3.21, killed=("sleep 9 (pid 7)",)),
    "timed_out": ToolOutcome(
        "timed_out", partial_output="half", seconds=60.0, survivors=("the thread of x",)
    ),
    "unknown": ToolOutcome("unknown", "The process was killed."),
    "not_started": ToolOutcome("not_started", "There is no such tool."),
    "denied": ToolOutcome("denied", "Never in this folder."),
}


def told(outcome: ToolOutcome) -> str:
    return text_of(result_part("call_1", outcome).content)


@pytest.mark.requirement("D4")
def test_the_four_facts_are_told_apart():
    facts = {status: outcome.fact for status, outcome in WHOLE.items()}
    assert facts == {
        "finished": "ended",
        "failed": "ended",
        "killed": "stopped",
        "timed_out": "stopped",
        "unknown": "unknown",
        "not_started": "never_started",
        "denied": "never_started",
    }


@pytest.mark.requirement("D4")
def test_no_two_outcomes_are_told_in_the_same_words():
    words = [
        told(
            msgspec.structs.replace(one, text="", partial_output="", killed=(), survivors=(), exit_code=None)
        )
        for status, one in WHOLE.items()
        if status not in ("finished", "failed")
    ]
    assert all(one != other for one, other in itertools.combinations(words, 2))


@pytest.mark.requirement("D4")
@pytest.mark.parametrize("status", WHOLE)
def test_only_a_finished_call_is_told_as_a_success(status: str):
    assert result_part("call_1", WHOLE[status]).failed is (status != "finished")


@pytest.mark.parametrize("status", WHOLE)
def test_an_outcome_survives_the_journal(status: str):
    assert msgspec.json.decode(msgspec.json.encode(WHOLE[status]), type=ToolOutcome) == WHOLE[status]


@pytest.mark.requirement("D4")
def test_a_killed_call_is_told_with_its_output_and_what_died():
    text = told(WHOLE["killed"])
    assert "3.2 s" in text
    assert "half" in text
    assert "sleep 9 (pid 7)" in text
    assert "reject" not in text


def test_what_could_not_be_stopped_is_named():
    assert "may still be running: the thread of x" in told(WHOLE["timed_out"])


def test_an_exit_code_is_told_unless_it_is_zero():
    assert told(WHOLE["failed"]) == "no such file\n[exit code 2]"
    assert told(ToolOutcome("finished", "fine\n", exit_code=0)) == "fine\n"


def test_the_place_of_a_kept_output_is_told():
    assert told(ToolOutcome("finished", "a\nb\n", kept_at="data/kept/x.txt")) == (
        "a\nb\n[The whole output is kept. Read it with read_file, path data/kept/x.txt]"
    )


def test_a_result_without_words_still_says_something():
    assert told(ToolOutcome("finished")) == "(no output)"

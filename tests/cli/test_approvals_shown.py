"""What a person is asked in a terminal shows all that a yes would be for."""

import pytest

from turnbuckle.cli.approvals import question_text
from turnbuckle.turn.facts import ApprovalAsked


@pytest.mark.requirement("R11")
def test_a_question_shows_everything_and_nothing_that_steers_a_terminal():
    hostile = "ls " + "x" * 5_000 + "\x1b[2K\x9b1A\u202e; rm -rf ~"
    asked = ApprovalAsked(0.0, "a", "c", "shell", {"command": hostile}, "approval", "", None)
    text = question_text(asked)
    assert "; rm -rf ~" in text
    assert text.count("x" * 5_000) == 1
    assert text.isprintable()
    assert "\\u001b[2K\\x9b1A\\u202e" in text

"""What a person is asked in a terminal shows all that a yes would be for."""

import asyncio
import os
import pty

import pytest

from turnbuckle.cli.approvals import ask_on_terminal, question_text
from turnbuckle.cli.screen import Screen
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


@pytest.mark.requirement("R11")
def test_what_was_typed_before_a_question_is_no_answer_to_it():
    """Somebody who types ahead, or a text that was pasted, has not seen what is asked."""
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")  # before anything was asked
    with os.fdopen(ours, "wb", 0) as keys, os.fdopen(theirs, "w") as out, os.fdopen(os.dup(theirs)) as typed:
        ask = ask_on_terminal(Screen(out, out, color=False), typed)
        assert ask is not None

        async def scene() -> str:
            asked = asyncio.ensure_future(ask("May shell run?"))
            while not asked.done():  # a person who reads first, however long that takes
                await asyncio.wait({asked}, timeout=0.1)
                keys.write(b"n\n")
            return await asked

        assert asyncio.run(asyncio.wait_for(scene(), 100)) == "n"

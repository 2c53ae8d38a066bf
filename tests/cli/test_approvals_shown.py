"""What a person is asked in a terminal shows all that a yes would be for."""

import asyncio
import io
import os
import pty

import pytest

from turnbuckle.cli.approvals import ask_on_terminal, question_text
from turnbuckle.cli.pieces import Break, drawn
from turnbuckle.cli.screen import Screen
from turnbuckle.narrate.questions import asked as asked_of
from turnbuckle.narrate.questions import question_lines
from turnbuckle.turn.facts import ApprovalAsked
from turnbuckle.vocab.file_change import FileChange


class Terminal(io.StringIO):
    """Keeps what a terminal would get."""

    def isatty(self) -> bool:
        return True


def shown(asked: ApprovalAsked) -> str:
    """The whole question as a terminal gets it."""
    out = Terminal()
    screen = Screen(out, out, color=False)
    screen.show([Break(), *drawn(question_lines(asked_of("r", asked)))])
    return f"{out.getvalue()}? {question_text(asked)}\n"


@pytest.mark.requirement("R11", "H10")
def test_a_question_shows_everything_once_and_nothing_that_steers_a_terminal():
    hostile = "ls " + "x" * 500 + "\x1b[2K\x9b1A\u202e; rm -rf ~"
    asked = ApprovalAsked(0.0, "a", "c", "shell", {"command": hostile}, "approval", "", None)
    text = shown(asked)
    assert text.count("; rm -rf ~") == text.count("x" * 500) == 1
    assert text.replace("\n", "").isprintable()
    assert all(sign in text for sign in ("\\x1b[2K", "\\x9b1A", "\\u202e"))
    assert text.endswith("? May shell run this?\n")


@pytest.mark.requirement("H10")
@pytest.mark.parametrize(
    "tool, arguments, note, words",
    [
        ("shell", {"command": "make", "timeout": 30}, None, 'May shell run this, with {"timeout":30}?'),
        ("write_file", {"path": "a", "content": "x"}, "", "May write_file do this?"),
        ("edit_file", {"path": "a", "old": "y", "new": "x"}, "", "May edit_file do this?"),
        ("write_file", {"path": "a", "content": "x"}, "too long", "May write_file do this?"),
        # The diff of anybody's tool does not stand for its arguments.
        ("save", {"path": "a", "content": "x"}, "", 'May save run with {"path":"a","content":"x"}?'),
        (
            "write_file",
            {"path": "a", "content": "x"},
            None,
            'May write_file run with {"path":"a","content":"x"}?',
        ),
    ],
)
def test_a_question_repeats_nothing_that_is_drawn_above_it(tool, arguments, note, words):
    changes = () if note is None else (FileChange("a", diff="@@ -0,0 +1 @@\n+x", added=1, note=note),)
    asked = ApprovalAsked(0.0, "a", "c", tool, arguments, "approval", "", None, changes=changes)
    assert question_text(asked) == words


@pytest.mark.requirement("R11", "H10")
def test_a_text_whose_diff_is_cut_is_drawn_line_by_line_and_all_of_it():
    content = "".join(f"line {number}\n" for number in range(3_000)) + "the \x1bend"
    cut = FileChange("a", diff="@@ -0,0 +1 @@\n+line 0", added=3_001, note="3,000 more lines are not shown")
    given = {"path": "a", "content": content, "mode": "new"}
    text = shown(ApprovalAsked(0.0, "a", "c", "write_file", given, "approval", "", None, changes=(cut,)))
    lines = text.splitlines()
    assert "    line 1" in lines
    assert "    line 2999" in lines
    assert "    the \\x1bend" in lines
    assert lines[-1] == '? May write_file do this, with {"mode":"new"}?'
    unknown = (FileChange("", note="what it would change is not known"),)
    text = shown(ApprovalAsked(0.0, "a", "c", "write_file", given, "approval", "", None, changes=unknown))
    assert "the \\x1bend" not in text.splitlines()
    assert '"path":"a"' in text


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

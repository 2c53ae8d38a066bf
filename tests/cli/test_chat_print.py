"""A chat as text for a terminal."""

import re

import pytest

from turnbuckle.cli.chat.printing import Typesetter
from turnbuckle.cli.chat.renderer import CommandOutput, TypedCommand, UserWords
from turnbuckle.cli.pieces import Break, Line, Words, drawn
from turnbuckle.narrate.questions import question_lines
from turnbuckle.narrate.told import QuestionAsked
from turnbuckle.vocab.file_change import FileChange

MARKDOWN = """# Head

Some **bold** words and `code`, and enough of them that a narrow window has to break the line somewhere.
A second line.

- one
- two

```python
if x:
    y = "a long line of code that is never broken, so that it can be copied as it is"
```

| name | value |
|---|---|
| a | 1 |

The end.
"""
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def printed(pieces, width=80, color=False):
    return Typesetter(color=color).take([*pieces, Break()], width)


def split(text, size):
    return [Words(text[at : at + size]) for at in range(0, len(text), size)]


@pytest.mark.requirement("H2")
@pytest.mark.parametrize("width", [20, 40, 80, 132])
def test_the_same_is_printed_however_the_text_comes(width):
    whole = printed([Words(MARKDOWN)], width)
    assert all(printed(split(MARKDOWN, size), width) == whole for size in (1, 2, 3, 7, 50))
    assert "\x1b" not in whole


@pytest.mark.requirement("H2")
@pytest.mark.parametrize("width", [20, 40, 80])
def test_nothing_is_wider_than_the_window_but_code(width):
    lines = printed([Words(MARKDOWN)], width).splitlines()
    code = [line for line in lines if "never broken" in line]
    assert code == ['    y = "a long line of code that is never broken, so that it can be copied as it is"']
    assert all(len(line) <= width for line in lines if line not in code)


def test_markdown_is_set_with_colours_and_without():
    lines = printed([Words(MARKDOWN)]).splitlines()
    assert lines[0] == "Head"
    assert "Some bold words and code, and enough" in lines[2]
    assert "A second line." in lines
    assert " • one" in lines
    assert lines[lines.index(" • one") + 1] == " • two"
    assert "── python ───" in printed([Words(MARKDOWN)])
    colored = printed([Words(MARKDOWN)], color=True)
    assert "\x1b[1mbold\x1b[0m" in colored
    assert ESCAPES.sub("", colored) == printed([Words(MARKDOWN)])


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    "evil",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x9b31m",
        "a\rb",
        "\x08\x08",
        "\u202egnorw",
        "\x1b]52;c;aGk=\x07",
        "&#x202e;gnorw",
        "&#155;2J",
        "&#13;x",
    ],
)
def test_nothing_that_is_said_steers_the_terminal(evil):
    pieces = [
        UserWords(evil),
        Words(evil),
        Words(f"\n```\n{evil}\n```\n"),
        Words(f"\n| {evil} |\n|---|\n"),
        Words(evil, reasoning=True),
        Line(evil, "tool"),
        CommandOutput(evil),
    ]
    shown = ESCAPES.sub("", printed(pieces, color=True))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


@pytest.mark.requirement("R11")
def test_the_path_of_a_file_that_somebody_is_asked_about_is_never_cut():
    path = "deep/" * 40 + "secret.txt"
    question = QuestionAsked("r", "a", "approval", "write_file", {}, changes=(FileChange(path, added=1),))
    shown = printed(drawn(question_lines(question)), width=40)
    assert f"{path}+1−0" in re.sub(r"\s", "", shown)


def test_a_notice_at_the_end_stands_behind_the_item_that_had_just_begun():
    """An item is known to be over by the next one, so two of them may be open."""
    lines = printed([Words("1. one\n2. tw"), Line("interrupted", "notice")]).splitlines()
    assert lines == [" 1 one", " 2 tw", "interrupted"]


def test_a_notice_in_the_middle_of_a_paragraph_stands_behind_it():
    pieces = [Words("half a sen"), Line("stream stalled", "notice"), Words("tence\n\nmore")]
    assert printed(pieces).splitlines() == ["half a sentence", "stream stalled", "", "more"]
    setter = Typesetter(color=False)
    assert setter.take(pieces[:2], 80) == ""
    assert [line.text for line in setter.held] == ["stream stalled"]
    assert setter.tail(100) == ("half a sen", False)


def test_what_is_said_into_a_run_does_not_tear_the_paragraph_that_is_open():
    said = UserWords("shorter \x1bplease", into=True)
    pieces = [Words("half a [li"), said, Words("nk](x) more.\n\nThe end")]
    assert printed(pieces).splitlines() == [
        "half a link (x) more.",
        "",
        "› shorter \\x1bplease",
        "",
        "The end",
    ]
    setter = Typesetter(color=False)
    assert setter.take(pieces[:2], 80) == ""
    assert [line.text for line in setter.held] == ["› shorter \x1bplease"]  # in the live part meanwhile


def test_an_answer_to_a_command_does_not_wait_and_tears_nothing():
    setter = Typesetter(color=False)
    setter.take([Words("half a sen")], 80)
    assert setter.take([CommandOutput("no sessions")], 80) == "no sessions\n"
    assert setter.take([Words("tence"), Break()], 80) == "\nhalf a sentence\n"


def test_a_command_stands_above_its_answer_and_apart_from_the_one_before():
    pieces = [
        TypedCommand("/cost"),
        CommandOutput("Last run: nothing."),
        TypedCommand("/tools"),
        CommandOutput("a\nb"),
    ]
    assert printed(pieces).splitlines() == ["› /cost", "Last run: nothing.", "", "› /tools", "a", "b"]


def test_a_tool_card_is_one_row_and_a_failure_is_told_whole():
    long = "→ shell " + "x" * 200
    assert printed([Line(long, "tool")], 40) == long[:38] + "…\n"
    assert "".join(printed([Line(long, "bad")], 40).split("\n")).count("x") == 200


def test_reasoning_is_printed_line_by_line_and_its_open_line_is_the_tail():
    setter = Typesetter(color=False)
    assert setter.take([Words("hm\nwell", reasoning=True)], 80) == "hm\n"
    assert setter.tail(2) == ("ll", True)
    assert setter.take([Words("So.", False), Break()], 80) == "well\n\nSo.\n"

"""A run on a terminal and in a pipe: what is written where."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes.commands import ENVIRONMENT

from turnbuckle.cli.pieces import Break, Line, Piece, Words
from turnbuckle.cli.screen import Screen


class Terminal(io.StringIO):
    """A stream that says it is a terminal. Several may stand for one and the same."""

    def __init__(self, log: list[str] | None = None) -> None:
        super().__init__()
        self.log = [] if log is None else log

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.log.append(text)
        return len(text)


def _terminal(color: bool = False) -> tuple[Screen, list[str]]:
    log: list[str] = []
    return Screen(Terminal(log), Terminal(log), color=color), log


def _shown(log: list[str], width: int = 80) -> list[str]:
    """The lines that a terminal shows after these writes: only what a screen uses is understood."""
    lines, row, column = [""], 0, 0
    text = "".join(log)
    at = 0
    while at < len(text):
        if text[at] == "\x1b":
            end = next(n for n in range(at + 2, len(text)) if text[n].isalpha())
            number, verb = text[at + 2 : end], text[end]
            if verb == "K":
                lines[row] = lines[row][:column]
            elif verb == "A":
                row -= 1
            elif verb == "G":
                column = int(number) - 1
            at = end + 1
            continue
        if text[at] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif text[at] == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + text[at] + lines[row][column + 1 :]
            column += 1
        at += 1
    return lines


def test_a_pipe_gets_the_answer_on_stdout_and_the_rest_on_stderr() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)
    screen.show(
        [
            Words("I look. "),
            Break(),
            Line("→ read_file a", "tool"),
            Words("hm", reasoning=True),
            Words("Done."),
        ]
    )
    screen.status("waiting")
    screen.show([Break(), Line("completed")])
    assert out.getvalue() == "I look. \nDone.\n"
    assert err.getvalue() == "→ read_file a\nhmcompleted\n"


def test_on_a_terminal_a_line_never_stands_inside_a_sentence() -> None:
    screen, log = _terminal()
    screen.show([Words("half a sen"), Line("stream stalled", "notice"), Words("tence")])
    assert _shown(log) == ["half a sen", "stream stalled", "tence"]


@pytest.mark.parametrize("before", ["", "some text", "two\nlines"])
def test_a_status_line_goes_away_without_a_trace(before: str) -> None:
    screen, log = _terminal()
    pieces: list[Piece] = [Words(before)] if before else []
    screen.show(pieces)
    screen.status("waiting for m, 3 s")
    assert _shown(log)[-1] == "waiting for m, 3 s"
    screen.status("waiting for m, 4 s")
    assert [line for line in _shown(log) if line.startswith("waiting")] == ["waiting for m, 4 s"]
    screen.show([Words(" and more")])
    assert [line for line in _shown(log) if line] == f"{before} and more".split("\n")


def test_a_status_line_is_cut_to_the_width_and_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen, log = _terminal()
    screen.status("w" * 100)
    assert _shown(log) == ["w" * 29]


def test_wide_characters_take_two_columns() -> None:
    screen, log = _terminal()
    screen.show([Words("漢字")])
    screen.status("waiting")
    screen.clear_status()
    assert log[-1].endswith("\x1b[5G")


def test_what_a_model_says_can_not_steer_the_terminal() -> None:
    screen, log = _terminal()
    screen.show([Words("a\x1b[2Jb\x07\r\tc\n"), Line("→ shell \x1b]0;title\x07", "tool")])
    assert "".join(log) == "a\\x1b[2Jb\\x07\\r\tc\n→ shell \\x1b]0;title\\x07\n"
    out = io.StringIO()
    Screen(out, io.StringIO()).show([Words("a\x1b[2Jb")])
    assert out.getvalue() == "a\x1b[2Jb"


def test_colours_are_used_only_when_wanted() -> None:
    plain, log = _terminal()
    plain.show([Line("x", "bad"), Words("y", reasoning=True)])
    assert "\x1b" not in "".join(log)
    coloured, log = _terminal(color=True)
    coloured.show([Line("x", "bad"), Words("y", reasoning=True)])
    assert "\x1b[31mx\x1b[0m\n\x1b[2my\x1b[0m" in "".join(log)


@pytest.mark.process
def test_a_terminal_of_another_encoding_gets_signs_that_it_lacks_spelled_out(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "turnbuckle.cli.main", "run", "--json", "say caf\u00e9 \u2192 \U0001f600"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=100,
    )
    lines = [json.loads(line) for line in done.stdout.decode("ascii").splitlines()]
    assert done.returncode == 0
    assert lines[0]["input"][0]["parts"][0]["text"] == "say caf\u00e9 \u2192 \U0001f600"

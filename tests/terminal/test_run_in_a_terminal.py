"""`turnbuckle run` in a real terminal of 80 columns."""

import re

import pytest
from support.processes.served_folder import lab_in_thread, lab_settings
from support.server.live_server import gate
from support.terminal.tmux import COLUMNS

from turnbuckle.lab.script import Call, Finish, Say, Stall

pytestmark = pytest.mark.process

STATUS = "waiting for more from m, "


def _settings(folder, text):
    (folder / "work").mkdir()
    (folder / "turnbuckle.toml").write_text(text)


@pytest.mark.requirement("H2")
def test_a_task_is_shown_as_it_happens_and_fits_80_columns(terminal, tmp_path):
    made = terminal().turnbuckle("run", "write hello.txt with 3 lines")
    assert made.code() == 0
    first, *lines = made.lines()
    assert first.startswith("run r")
    assert "→ write_file hello.txt" in lines
    assert any(line.startswith("✓ write_file, ") for line in lines)
    assert lines[-1].startswith("completed after ")
    assert max(len(line) for line in made.screen().splitlines()) <= COLUMNS
    assert len((tmp_path / "hello.txt").read_text().splitlines()) == 3


@pytest.mark.realtime
@pytest.mark.requirement("H2")
@pytest.mark.parametrize("before", ["Half a sen", "x" * 79, "wide 字" * 20], ids=["short", "edge", "wrapped"])
def test_a_silence_shows_what_is_waited_for_and_leaves_no_trace(before, terminal, tmp_path):
    def model(request):
        return (Say(before), gate(1), Say("tence, whole."), Finish())

    with lab_in_thread(model) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        made = terminal().turnbuckle("run", "say something")
        made.wait_for(STATUS)
        behind.open(1)
        assert made.code() == 0
    assert STATUS not in made.text()
    assert f"{before}tence, whole." in "".join(made.lines())


@pytest.mark.realtime
@pytest.mark.requirement("B4", "H2")
def test_a_stall_in_a_call_is_seen_while_it_lasts_and_told_in_one_line_afterwards(terminal, tmp_path):
    made = terminal().turnbuckle("run", "write a.txt with 50 lines and stall")
    made.wait_for("receiving write_file, ")
    assert made.code() == 0
    told = made.text()
    assert "receiving write_file" not in told
    assert len(re.findall(r"^stream stalled \d+ s in write_file, [\d,]+ characters kept", told, re.M)) == 1
    assert len((tmp_path / "a.txt").read_text().splitlines()) == 50


@pytest.mark.requirement("C6", "H2")
def test_ctrl_c_stops_a_run_cleanly_and_says_so(terminal, tmp_path):
    with lab_in_thread(lambda request: (Say("Half a sentence"), Stall("forever"))) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        made = terminal().turnbuckle("run", "say something")
        made.wait_for("Half a sentence")
        made.send("C-c")
        assert made.code() == 130
    _, said, stopping, *rest = made.lines()
    assert (said, stopping) == ("Half a sentence^C", "interrupted; the conversation is kept")
    assert len([line for line in rest if line.startswith("cancelled after ")]) == 1, rest


@pytest.mark.requirement("D8", "H2")
@pytest.mark.parametrize(
    "answer, made_it, term", [("y", True, "screen"), ("n", False, "screen"), ("y", True, "dumb")]
)
def test_consent_is_asked_for_in_place(answer, made_it, term, terminal, tmp_path):
    made = terminal(TURNBUCKLE_TOOLS__APPROVAL__SHELL="ask", TERM=term).turnbuckle("run", "run touch made")
    made.wait_for("? May shell run this? [y/a/N]")
    assert not (tmp_path / "made").exists()
    made.type(answer)
    made.send("Enter")
    assert made.code() == 0
    assert (tmp_path / "made").exists() == made_it
    assert ("✗ shell did not run: " in made.text()) != made_it


@pytest.mark.realtime
@pytest.mark.requirement("H2")
def test_a_dumb_terminal_gets_no_escape_codes(terminal, tmp_path):
    def model(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return (
                Say("Half a sen"),
                Stall(2.5),
                Say("tence, whole."),
                Finish(),
            )  # others show a status line meanwhile
        return (Call("list_files", {"path": "."}), Finish())

    with lab_in_thread(model) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        made = terminal(TERM="dumb").turnbuckle("run", "say something")
        assert made.code() == 0
    assert "\x1b" not in made.written
    assert "Half a sentence, whole." in made.text()

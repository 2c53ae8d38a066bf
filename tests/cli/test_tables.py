"""Lists of the command line in columns."""

import pytest

from turnbuckle.cli.table import columns_of, table_lines

HEADERS = ("run", "status", "task")
ROWS = [("r1", "completed", "short"), ("r22", "partial", "名前" * 30 + "\u202e"), ("r3", "failed", "")]


def test_a_pipe_gets_every_row_whole_and_no_header():
    lines = table_lines(HEADERS, ROWS, ("", "", "found here"), None)
    assert lines[0] == "r1   completed  short"
    assert lines[1].startswith("r22  partial    名前名前")
    assert "名前" * 30 in lines[1]
    assert lines[2:] == ["r3   failed", "    found here"]


@pytest.mark.parametrize("room", [1, 12, 40, 80, 130])
def test_a_terminal_gets_a_header_and_no_line_is_wider_than_it(room):
    lines = table_lines(HEADERS, ROWS, ("a note " * 40, "", ""), room)
    assert len(lines) == 5
    assert max(map(columns_of, lines)) <= room
    assert room < 40 or lines[0] == "RUN  STATUS     TASK"
    assert lines[2].endswith("…")

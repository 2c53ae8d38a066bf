"""A chat whose terminal is closed leaves in good order: its run is kept, and goes on in the next chat."""

import os

import pytest
from support.processes.commands import facts_of
from support.processes.own_terminal import start_in_terminal
from support.processes.served_folder import until

from turnbuckle.turn.facts import ApprovalAsked, RunLeft


@pytest.mark.process
@pytest.mark.requirement("H13")
def test_a_run_of_a_chat_whose_terminal_is_closed_is_kept(tmp_path):
    process, terminal = start_in_terminal(tmp_path, "chat")
    os.set_blocking(terminal, False)
    seen = b""

    def shows(words):
        nonlocal seen
        try:
            seen += os.read(terminal, 65_536)
        except BlockingIOError:
            return False
        return words in seen

    until(lambda: shows(b"/help lists"), lambda: seen)
    os.write(terminal, b"run echo hi\r")
    until(lambda: shows(b"y/a/n"), lambda: seen)  # which nobody answers
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    facts = facts_of(tmp_path)
    assert isinstance(facts[-2], ApprovalAsked)
    assert facts[-1] == RunLeft(facts[-1].at, "the chat was closed", worked=facts[-1].worked)

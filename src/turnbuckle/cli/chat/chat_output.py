"""The terminal that a chat writes to, as long as it has it."""

import os
import sys
from typing import TextIO

from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output


class ChatOutput(Vt100_Output):
    """Has the terminal mark what is pasted from the beginning of a chat to its end.

    The library takes that back for a moment whenever something is printed above the line that is typed. Lines
    that are pasted in such a moment would come as if they were typed: the first of them would be sent as a
    message, and the others would be left on the line."""

    def disable_bracketed_paste(self) -> None:
        """Not now: `give_back` does it."""

    def give_back(self) -> None:
        """The terminal is somebody else's."""
        super().disable_bracketed_paste()
        self.flush()


def chat_output(stdout: TextIO | None = None) -> Output:
    stdout = stdout if stdout is not None else sys.stdout
    if not stdout.isatty():
        return create_output(stdout)
    term = os.environ.get("TERM")
    return ChatOutput.from_pty(stdout, term=term, default_color_depth=ColorDepth.from_env())

"""The `turnbuckle` command."""

import atexit
import codecs
import gc
import io
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from turnbuckle import __version__

FAILED = 1
USAGE_ERROR = 2
CANCELLED = 130

app = App(name="turnbuckle", version=__version__, help="An LLM agent runtime for streams that break.")

_COMMANDS = (
    ("run", "Carry out a task and show it as it happens."),
    ("chat.command", "Talk with the model in this terminal."),
    ("serve", "The server: the console, the OpenAI-compatible API, runs and sessions."),
    ("runs", "What was run: list, show, and resume after a crash."),
    ("sessions", "Conversations: list, search, fork, export, stop, undo …"),
    ("drafts", "What is kept of calls that were cut: list, show, save."),
    ("processes", "What runs in the background: list, stop."),
    ("rules", 'What "always" has allowed: list, remove.'),
    ("init.command", "Set up a provider: choose, try, write turnbuckle.toml."),
    ("trust", "Accept the settings that were found in a folder, list and forget those that were accepted."),
    ("keys", "API keys of the server: create, list, revoke."),
    ("doctor.command", "Check everything: set-up, journal, keys, disk, settings."),
    ("move", "Copy the journal from a folder into a database, or back."),
    ("nodes", "The servers that work on one database."),
    ("clients.command", "Point Claude Code, Codex, opencode … at this server."),
    ("lab", "A provider that misbehaves on purpose."),
)
"""The module of each command, which is imported when it is used, and what it is for."""

for _module, _help in _COMMANDS:
    app.command(f"turnbuckle.cli.{_module}:app", name=_module.removesuffix(".command"), help=_help)


def _open_standard_streams() -> None:
    """A caller may have closed some of them, as `<&-` does: nothing is read there, and what is written goes
    nowhere. The lowest free number is theirs, so no file of ours gets it. Input that is not UTF-8 is
    read with signs in the place of such bytes."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    codecs.register_error("turnbuckle.spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="turnbuckle.spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """What a terminal of another encoding (`LANG=C`, Latin-1) has no sign for, as JSON spells it, so that
    lines of JSON stay what they are."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs), error.end


def _end_quickly() -> None:
    """When Python ends it looks for cycles among all objects that there are, which takes a fifth of the time
    of a short command. What is frozen is not looked at."""
    atexit.unregister(gc.freeze)  # once, however often a program calls this command
    atexit.register(gc.freeze)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code: 0 it worked, 1 it failed, 2 it was asked wrongly.
    `turnbuckle run` has more of them, one for each outcome."""
    _open_standard_streams()
    _end_quickly()
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        from turnbuckle.cli.wrong_usage import echo_usage  # what is given rightly never needs it

        echo_usage(error)
        sys.exit(USAGE_ERROR)
    except KeyboardInterrupt:
        sys.exit(CANCELLED)  # before there was anything to stop cleanly
    except BrokenPipeError:
        # Whoever read our output has left, as `head` does. Python's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()

"""What people type into a chat that is not for the model: one word behind a slash, and what it needs.

The words that every session knows are the same here. One word of letters behind a slash is a command, and if
there is no such command that is said, with the nearest one: a slip is likelier than a model that waits for
`/statsu`. What looks otherwise (a path, a regular expression) is for the model, and `//` sends anything as it
is, without the first slash.
"""

import difflib
import re
from typing import Literal

from msgspec import Struct

from turnbuckle.session.commands import HELP as OF_SESSION
from turnbuckle.session.commands import Command as SessionWord
from turnbuckle.session.commands import parse as of_session

Own = Literal[
    "quit",
    "session",
    "runs",
    "drafts",
    "ledger",
    "model",
    "reasoning",
    "busy",
    "queue",
    "steer",
    "args",
    "diff",
    "revert",
    "share",
    "!",
]
Word = SessionWord | Own
MODES = ("queue", "steer", "interrupt", "refuse")

_ABOUT: dict[Word, tuple[str, str]] = {
    **{name: ("", about) for name, about in OF_SESSION.items()},
    "compact": ("[WORDS]", "summarise the conversation for the model; the words say what to keep"),
    "rules": ("[remove ID]", "what you have always allowed, or remove one of these rules"),
    "retry": ("[ROUTE]", "retry the last message, as if its answer had not been given, on a route"),
    "sessions": ("[WORDS]", "list the sessions, or those in which the words stand"),
    "session": ("NAME", "go on in another session, or begin it"),
    "runs": ("", "what was run in this session"),
    "drafts": ("[show ID | save ID PATH]", "what is kept of calls that were cut"),
    "ledger": ("", "what the last run wasted, and why"),
    "model": ("[NAME]", "the routes that there are, or run the agent on one of them"),
    "reasoning": ("on|off", "show the model's reasoning, or do not"),
    "busy": ("queue|steer|interrupt|refuse", "what becomes of a message while something runs"),
    "queue": ("TEXT", "say it when the run is over"),
    "steer": ("TEXT", "say it into the run"),
    "interrupt": ("[TEXT]", "end the run and keep the conversation, as Ctrl-C and Esc do; then say the text"),
    "diff": ("[PATH]", "what the last run changed in files, from before it to after it"),
    "revert": ("PATH", "make a file what it was before the last run"),
    "args": ("", "show the full arguments of the call awaiting approval"),
    "share": ("[WORDS]", "send what your last !COMMAND printed, with words of yours"),
    "quit": ("", "leave; Ctrl-D does the same"),
}
_LETTERS = re.compile(r"[A-Za-z-]+")
_AS_IT_IS = "// at the beginning sends it as it is"
_TAKES_NOTHING = frozenset(name for name, (needs, _) in _ABOUT.items() if not needs)
_NEEDS = frozenset({"session", "revert", "queue", "steer"})
WORDS: tuple[str, ...] = tuple(f"/{name}" for name in _ABOUT)


class Command(Struct, frozen=True):
    """Something for the chat itself. `rest` is what stands behind the word."""

    word: Word
    rest: str = ""


class ChatMessage(Struct, frozen=True):
    """Something for the model."""

    text: str


class Wrong(Struct, frozen=True):
    """Something that cannot be meant; `why` says what to do."""

    why: str


def parse(text: str, *, own_commands: bool = False) -> Command | ChatMessage | Wrong:
    """What a line is. With `own_commands`, one line behind a `!` is a command of the user's own; `!!` sends
    it as it is, with one `!`."""
    if own_commands and text.startswith("!") and "\n" not in text:
        if text.startswith("!!"):
            return ChatMessage(text[1:])
        own = text[1:].strip()
        return Command("!", own) if own else Wrong("! needs a command: !git status")
    if not text.startswith("/"):
        return ChatMessage(text)
    if text.startswith("//"):  # the session itself would take a command for one
        return ChatMessage(text if of_session(text[1:]) is not None else text[1:])
    first, _, rest = text[1:].strip().partition(" ")
    word, rest = first.lower(), rest.strip()
    if word == "exit":
        word = "quit"
    if word == "share" and not own_commands:
        return Wrong("/share is for a terminal: there !COMMAND runs a command of yours")
    if word not in _ABOUT:
        return _unknown(text, first)
    if word == "undo" and rest.lower() == "compaction":
        return Command("undo", "compaction")
    if word in _TAKES_NOTHING and rest:
        return Wrong(f"/{word} takes no arguments; {_AS_IT_IS}")
    return _checked(word, rest)


def _unknown(text: str, first: str) -> ChatMessage | Wrong:
    if not _LETTERS.fullmatch(first):
        return ChatMessage(text)
    near = difflib.get_close_matches(first.lower(), list(_ABOUT), 1)
    hint = f"did you mean /{near[0]}?" if near else "/help lists the commands;"
    return Wrong(f"there is no /{first}; {hint} {_AS_IT_IS}")


def _checked(word: Word, rest: str) -> Command | Wrong:
    fault = ""
    if word in _NEEDS and not rest:
        fault = f"/{word} needs more: /{word} {_ABOUT[word][0]}"
    elif word == "reasoning" and rest not in ("", "on", "off"):
        fault = "/reasoning takes on or off"
    elif word == "busy" and rest not in ("", *MODES):
        fault = f"/busy takes one of {', '.join(MODES)}"
    elif word == "drafts" and rest and not _is_draft_command(rest.split()):
        fault = "/drafts takes nothing, or show ID, or save ID PATH"
    elif word == "rules" and rest and not _is_removal(rest.split()):
        fault = "/rules takes nothing, or remove ID"
    elif word == "retry" and len(rest.split()) > 1:
        fault = "/retry takes nothing, or the name of a route"
    elif word == "session" and len(rest.split()) > 1:
        fault = "the name of a session has no spaces"
    return Wrong(fault) if fault else Command(word, rest)


def _is_removal(words: list[str]) -> bool:
    return len(words) == 2 and words[0].lower() == "remove"


def _is_draft_command(words: list[str]) -> bool:
    return (words[0], len(words)) in (("show", 2), ("save", 3))


def help_text() -> str:
    """All commands, one in a line."""
    named = [(f"/{name} {needs}".rstrip(), about) for name, (needs, about) in _ABOUT.items()]
    keys = (
        "Alt-Enter, or a backslash at the end of a line, begins another line. Ctrl-R searches what "
        "you typed before."
    )
    wide = max(len(name) for name, _ in named if len(name) <= 20)
    lines = [f"{name:<{wide}}  {about}" if len(name) <= wide else f"{name}: {about}" for name, about in named]
    return "\n".join(
        [
            *lines,
            "",
            "!COMMAND runs a command of your own, with your rights. The model sees it only by /share.",
            "@FILE names a file of the workspace: the model gets its path, and reads it when it needs it.",
            keys,
            "Ctrl-C or Esc ends what runs and keeps the conversation. Ctrl-C again forces it. Ctrl-D leaves.",
        ]
    )


def about(word: str) -> str:
    """What a command does, for a list of them; `word` has its slash."""
    return _ABOUT[word[1:]][1]  # type: ignore[index]

"""What people type to the session itself instead of to the model: one word behind a slash, alone in its
message. Only `/compact`, `/rules remove` and `/retry ROUTE` take more behind it.

Anything else that begins with a slash is for the model: a path, a regular expression, a command that we do
not know.
"""

import re
from typing import Literal

from turnbuckle.session.facts import FreshWhy
from turnbuckle.session.state import SessionState

Command = Literal[
    "interrupt",
    "stop",
    "new",
    "reset",
    "retry",
    "undo",
    "compact",
    "context",
    "undo compaction",
    "status",
    "cost",
    "tools",
    "rules",
    "sessions",
    "help",
]

HELP: dict[Command, str] = {
    "interrupt": "end what runs, and keep the conversation",
    "stop": "force: end what runs, refuse what waits; the next message starts fresh",
    "new": "begin a new conversation in this session",
    "reset": "the same; the model is told that something went wrong",
    "retry": "retry the last message as if it had not been answered; a name after it picks the route",
    "undo": "undo the last message and its answer",
    "compact": "summarise the conversation, to free the model's window; words after it say what to keep",
    "context": "how full the model's window is, and the summary that it gets",
    "undo compaction": "give the model the full history again",
    "status": "what runs, what waits, and how full the model's window is",
    "cost": "tokens and money of the last run, this session and today",
    "tools": "what the agent may use, and what of it asks first",
    "rules": "what you have always allowed; /rules remove ID removes one",
    "sessions": "list the sessions",
    "help": "this list",
}


_REMOVE_RULE = re.compile(r"/rules\s+remove\s+(\S+)")


def parse(text: str) -> Command | None:
    """The command, if the whole text is one."""
    word = text.strip().lower()
    if word.startswith("/compact "):
        return "compact"
    if _REMOVE_RULE.fullmatch(word):
        return "rules"
    if word.startswith("/retry ") and len(word.split()) == 2:
        return "retry"
    return next((name for name in HELP if word == f"/{name}"), None)


def rule_to_remove(text: str) -> str:
    """The id behind `/rules remove`; empty for `/rules` alone."""
    found = _REMOVE_RULE.fullmatch(text.strip().lower())
    return "" if found is None else found[1]


def words_behind(text: str) -> str:
    """What stands behind the word of a command."""
    return text.strip().partition(" ")[2].strip()


def help_text() -> str:
    return "\n".join(f"/{name}: {about}" for name, about in HELP.items())


def status_text(state: SessionState, running: str, since: str, context: str = "") -> str:
    """Where a session stands, for a person."""
    lines = [f"Running: {running}{f', {since}' if since else ''}." if running else "Nothing runs."]
    if state.waiting:
        lines.append(f"Waiting: {len(state.waiting)}.")
    if state.suspended is not None:
        lines.append(f"The next message starts fresh ({words_for(state.suspended.why)}).")
    lines.append(f"Messages in this conversation: {len(state.runs)}.")
    if context:
        lines.append(f"Context: {context}.")
    return " ".join(lines)


def interrupted_text(run: str | None) -> str:
    return "Nothing was running." if run is None else "Interrupted. The conversation goes on from here."


def stopped_text(run: str | None, refused: int) -> str:
    if run is None and not refused:
        return "Nothing was running."
    parts = ["Stopped." if run is not None else "Nothing was running."]
    if refused:
        parts.append(f"{refused} waiting {'message' if refused == 1 else 'messages'} will not be answered.")
    return " ".join([*parts, "The next message starts fresh."])


def words_for(why: FreshWhy) -> str:
    return {
        "new": "somebody wanted it",
        "reset": "it was reset",
        "idle": "after a long silence",
        "daily": "as each day",
        "stopped": "the last run was stopped",
        "crashed": "the last run could not be brought to an end",
        "stale": "the last run was interrupted long ago",
    }[why]

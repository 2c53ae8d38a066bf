"""Short names of a tool call for people: the one argument that tells most, in one line, and a sign for the
tool."""

from typing import Any

from turnbuckle.vocab.redaction import without_credentials

SHORT = 72
_LOOKED_AT = (
    2_000  # characters of an argument; a credential that begins behind them cannot get into a short line
)
_TELLING = ("path", "command", "url", "pattern", "question", "query", "draft")
_SIGNS = {
    "read_file": "📖",
    "write_file": "📝",
    "append_file": "📝",
    "edit_file": "✏️",
    "list_files": "📂",
    "search_files": "🔍",
    "shell": "💻",
    "read_process": "👀",
    "stop_process": "🛑",
    "fetch_url": "🌐",
    "ask_user": "❓",
    "recall": "🗂️",
}
_ANY_TOOL = "🔧"


def emoji_of(tool: str) -> str:
    """The sign of a tool; tools that are not our own have one in common."""
    return _SIGNS.get(tool, _ANY_TOOL)


def short_argument(arguments: dict[str, Any]) -> str:
    """The argument that tells most about a call, short enough for a line, and without credentials."""
    named = [name for name in _TELLING if isinstance(arguments.get(name), str)]
    value = arguments[named[0]] if named else next(iter(arguments.values()), "")
    return shortened(without_credentials(str(value)[:_LOOKED_AT]))


def shortened(text: str, length: int = SHORT) -> str:
    """One line, with its end left out if it is long."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length else f"{line[: length - 1]}…"

"""Turnbuckle: an LLM agent runtime and server for streams that break.

    from turnbuckle import Agent, tool

    @tool(effect="read")
    def word_count(text: str) -> str:
        "Count the words of a text."
        return str(len(text.split()))

    with Agent("rehearsal", tools=[word_count]) as agent:
        print(agent.run_sync("write hello.txt").text)

What is named here is meant for other programs, and keeps its meaning. It is loaded when it is first used, so
that to import the package costs nothing. `docs/embedding.md` and `docs/tools.md` tell more.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from turnbuckle.agent.agent import Agent
    from turnbuckle.agent.approvals import Allow, Deny
    from turnbuckle.agent.events import Event
    from turnbuckle.agent.result import Result
    from turnbuckle.agent.run_choices import Budget, ResultOf
    from turnbuckle.agent.sessions import SessionLine
    from turnbuckle.errors import (
        ClaimLost,
        ConfigError,
        CursorGone,
        InvalidValue,
        KeyReused,
        RunHeld,
        RunUnfinished,
        RunUnknown,
        SessionBusy,
        SessionExists,
        SessionUnknown,
        TurnbuckleError,
    )
    from turnbuckle.journal.port import InUse, JournalError
    from turnbuckle.narrate.told import (
        Notice,
        QuestionAnswered,
        QuestionAsked,
        Reasoning,
        RunBegun,
        RunOver,
        Text,
        ToolBegun,
        ToolEnded,
        ToolPrinted,
        Waiting,
    )
    from turnbuckle.tools.spec import RunContext, Tool, ToolContext, ToolError, foreign_tool, tool
    from turnbuckle.tools.workspace import read_text, was_written, write_text
    from turnbuckle.vocab.messages import FilePart, ImagePart, Message, TextPart
    from turnbuckle.vocab.tooling import ToolOutcome

_PLACES = {
    "agent.agent": "Agent",
    "agent.approvals": "Allow Deny",
    "agent.events": "Event",
    "agent.result": "Result",
    "agent.run_choices": "Budget ResultOf",
    "agent.sessions": "SessionLine",
    "errors": (
        "ClaimLost ConfigError CursorGone InvalidValue KeyReused RunHeld RunUnfinished RunUnknown "
        "SessionBusy SessionExists SessionUnknown TurnbuckleError"
    ),
    "journal.port": "InUse JournalError",
    "narrate.told": (
        "Notice QuestionAnswered QuestionAsked Reasoning RunBegun RunOver Text ToolBegun ToolEnded"
        " ToolPrinted Waiting"
    ),
    "tools.spec": "RunContext Tool ToolContext ToolError foreign_tool tool",
    "tools.workspace": "read_text was_written write_text",
    "vocab.messages": "FilePart ImagePart Message TextPart",
    "vocab.tooling": "ToolOutcome",
}
_PLACE = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = [
    "Agent",
    "Allow",
    "Budget",
    "ClaimLost",
    "ConfigError",
    "CursorGone",
    "Deny",
    "Event",
    "FilePart",
    "ImagePart",
    "InUse",
    "InvalidValue",
    "JournalError",
    "KeyReused",
    "Message",
    "Notice",
    "QuestionAnswered",
    "QuestionAsked",
    "Reasoning",
    "Result",
    "ResultOf",
    "RunBegun",
    "RunContext",
    "RunHeld",
    "RunOver",
    "RunUnfinished",
    "RunUnknown",
    "SessionBusy",
    "SessionExists",
    "SessionLine",
    "SessionUnknown",
    "Text",
    "TextPart",
    "Tool",
    "ToolBegun",
    "ToolContext",
    "ToolEnded",
    "ToolError",
    "ToolOutcome",
    "ToolPrinted",
    "TurnbuckleError",
    "Waiting",
    "__version__",
    "foreign_tool",
    "read_text",
    "tool",
    "was_written",
    "write_text",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PLACE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""How far a call of one of our own tools is, for frontends that show that."""

from typing import Any, Literal

from turnbuckle.turn.labels import emoji_of
from turnbuckle.vocab.tooling import ToolStatus

_STATUSES: dict[ToolStatus, str] = {"finished": "completed"}
"""What a status is called on a stream. The others keep their names."""


def tool_progress(
    call: str, tool: str, label: str, status: ToolStatus | Literal["running"]
) -> dict[str, Any]:
    """Where a call is: running, or how it ended."""
    return {
        "toolCallId": call,
        "tool": tool,
        "label": label,
        "emoji": emoji_of(tool),
        "status": status if status == "running" else _STATUSES.get(status, status),
    }

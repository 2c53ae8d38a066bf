"""What a user of a client gets to see of one turn, in the same words for every client."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel


@dataclass
class Seen:
    """`text` is what was shown piece by piece, `final` what the client holds at the end, if it keeps count itself.

    `calls` are the calls that the client takes for its own, `ran` the tools that it ran, and `shown` those of which it
    says that the server ran them. `finish` is the client's own word for why it ended.
    """

    text: str = ""
    final: str | None = None
    reasoning: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    finish: str | None = None
    usage: dict[str, int] | None = None
    chunks: int = 0
    numbers: list[int] = field(default_factory=list)
    outcome: str | None = None
    error: dict[str, Any] | None = None

    def failed(self, error: BaseException) -> None:
        """The client raised this."""
        body = getattr(error, "body", None)
        self.error = {
            "kind": type(error).__name__,
            "message": str(error),
            "status": getattr(error, "status_code", None),
            "code": body.get("code") if isinstance(body, dict) else None,
        }

    def start_over(self) -> None:
        """A second turn begins, and only that one counts."""
        self.text, self.final, self.reasoning, self.finish, self.chunks = "", None, "", None, 0
        for row in (self.calls, self.ran, self.shown, self.numbers):
            row.clear()

    def used(self, taken: int | None, given: int | None) -> None:
        """The tokens that the client was told of."""
        self.usage = {"input": taken or 0, "output": given or 0}

    # The tools that the clients bring

    def get_weather(self, city: str) -> str:
        """The weather of a city."""
        self.ran.append("get_weather")
        return f"sunny in {city}"

    def keep_text(self, text: str) -> str:
        """Keep a text for later."""
        self.ran.append("keep_text")
        return f"kept {len(text)} characters"


class Weather(BaseModel):
    """What is asked for where an answer must have a form."""

    city: str
    sunny: bool


def _tool(name: str, description: str, argument: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "parameters": schema}


TOOLS = [
    _tool("get_weather", "The weather of a city.", "city"),
    _tool("keep_text", "Keep a text for later.", "text"),
]

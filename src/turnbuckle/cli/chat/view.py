"""Where a chat is shown, and what is shown of what is under way."""

from typing import Protocol

from msgspec import Struct

from turnbuckle.cli.chat.renderer import ChatPiece
from turnbuckle.cli.pieces import Line
from turnbuckle.turn.facts import ApprovalAsked


class ChatView(Protocol):
    """Where a chat is shown."""

    async def show(self, pieces: list[ChatPiece]) -> None:
        """For good."""
        ...

    async def shown(self) -> None:
        """Wait until all of that stands there, where it can be read."""
        ...

    def refresh(self) -> None:
        """What is under way has changed."""
        ...


class View(Struct, frozen=True):
    """What is under way. `queued` are messages that no run has taken up yet. `meter` is the route, how full
    the context is and the cost of the run, or of the last one. `own` is the user's own command that runs."""

    running: bool
    lines: tuple[Line, ...] = ()
    waiting: str = ""
    queued: tuple[str, ...] = ()
    question: ApprovalAsked | None = None
    lost: bool = False
    meter: str = ""
    own: str = ""


def prompt_for(view: View, sign: str) -> str:
    """What stands in front of what is typed: which answers count, and the sign."""
    if view.question is None:
        return sign
    if view.question.kind == "question":
        return f"answer {sign}"
    return f"{'y/a/n' if view.question.always else 'y/n'} {sign}"

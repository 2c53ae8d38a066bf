"""What every surface tells of a run in the same way: where a paragraph begins, and the quiet lines for the user.

The words of a run are one text. A reply that goes on behind a cut goes on in the same words, since seams are clean
already. A new paragraph begins behind a round of tools, behind what the user has said meanwhile, behind a thought in
the midst of a reply, between words and a refusal, and where a Responses provider begins another message.
"""

from typing import Any

from turnbuckle.turn.facts import (
    Decided,
    Fact,
    ModelAsked,
    Noticed,
    RunClaimed,
    RunLeft,
    RunStarted,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import Event, ReasoningDelta, RefusalDelta, StateNoted, TextDelta
from turnbuckle.vocab.ids import Protocol

STOPPING = "stopping"
RESTARTED = "taken up again after a restart"
CRASHED = "taken up again after its process died"


class Answerer:
    """Who answers. `model` is empty while that is the route that was asked for; else it is the model of the route that
    stands in for it."""

    __slots__ = ("_wanted", "model")

    def __init__(self) -> None:
        self.model = ""
        self._wanted = ""

    def take(self, fact: Fact) -> None:
        match fact:
            case RunStarted():
                self._wanted = fact.wishes.route
            case ModelAsked():
                self._wanted = self._wanted or fact.route
                self.model = "" if fact.route == self._wanted else fact.model
            case _:
                pass


class Paragraphs:
    """`take` every fact that is not `Streamed`, and ask `before` of every event of those. However a text comes in
    pieces, it has the same paragraphs. Keeps no text."""

    __slots__ = ("_apart", "_ends", "_kind", "_protocol", "_said", "_thoughts", "_thoughts_of", "_where")

    def __init__(self) -> None:
        self._said = False
        self._ends = 0  # line ends behind the last word
        self._apart = False
        self._kind: object = None
        self._where = (0, 0)  # attempt and block of the last words
        self._protocol: Protocol = "openai_chat"
        self._thoughts: set[int] = set()  # blocks of reasoning in this attempt; as many as a reply may have
        self._thoughts_of = 0

    def take(self, fact: Fact) -> None:
        match fact:
            case ModelAsked():
                self._apart = self._apart or begins_anew(fact)
                self._protocol = fact.protocol
            case ToolStarted() | ToolFinished():
                self._apart = True
            case _:
                pass

    def part(self) -> None:
        """What comes next is a paragraph of its own."""
        self._apart = True

    def before(self, attempt: int, event: Event) -> str:
        """What stands between this piece and the one before it: nothing, or what is missing to a blank line."""
        match event:
            case TextDelta(block, text) | RefusalDelta(block, text):
                return self.words(attempt, block, text, type(event))
            case ReasoningDelta(block, text) if text:
                self.thought(attempt, block)
            case StateNoted(block, data) if data.get("type") == "reasoning":
                self.thought(attempt, block)
            case _:
                pass
        return ""

    def words(self, attempt: int, block: int, text: str, kind: Any = TextDelta) -> str:
        if not text:
            return ""
        where = (attempt, block)
        if where != self._where or kind is not self._kind:
            if self._kind is not None and self._is_another(attempt, kind):
                self._apart = True
            self._where, self._kind = where, kind
        bare = text.strip("\n")
        between = ""
        if self._apart and bare:
            self._apart = False
            between = "\n" * max(2 - self._ends - leading(text), 0) if self._said else ""
        self._said = True
        self._ends = trailing(text) if bare else self._ends + len(text)
        return between

    def thought(self, attempt: int, block: int) -> None:
        """One that goes on behind a text does not end that."""
        if attempt != self._thoughts_of:
            self._thoughts_of = attempt
            self._thoughts.clear()
        if block not in self._thoughts:
            self._thoughts.add(block)
            if self._where[0] == attempt:
                self._apart = True

    def _is_another(self, attempt: int, kind: Any) -> bool:
        return kind is not self._kind or (attempt == self._where[0] and self._protocol == "openai_responses")


class Notices:
    """`take` facts in their order; each gives one quiet line for the user, or none."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = False

    def take(self, fact: Fact) -> str:
        match fact:
            case RunStarted() | Decided() | Noticed():
                return fact.notice
            case RunLeft(_, why):
                self._left = True
                return f"Let go of: {why}. It is kept, and can be resumed."
            case RunClaimed():
                left, self._left = self._left, False
                return RESTARTED if left else CRASHED
            case StopAsked():
                return STOPPING
            case _:
                return ""


def begins_anew(fact: ModelAsked) -> bool:
    """Whether this reply is a message of its own. Any other goes on with what was said before it."""
    return fact.why in ("after_tools", "steered")


def gap(before: str, after: str) -> str:
    """What makes a blank line of the place between two texts; nothing, if there is no text before."""
    return "\n" * max(2 - trailing(before) - leading(after), 0) if before else ""


def leading(text: str) -> int:
    """Line ends at its beginning."""
    return len(text) - len(text.lstrip("\n"))


def trailing(text: str) -> int:
    """Line ends at its end."""
    return len(text) - len(text.rstrip("\n"))

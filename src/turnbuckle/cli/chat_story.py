"""A run in a chat: facts in; out come pieces that are shown for good, and what is under way at this moment.

The pieces are those of `turnbuckle run`, with what was said to the model beside them. What is under way is told by
`live`: the call whose arguments come in, and the tools that run with the end of what they print. Nothing here grows
with a reply: of arguments the beginning is kept, to name the file, and of output the last lines.
"""

import re

import msgspec
from msgspec import Struct

from turnbuckle.cli.story import Line, Piece, Story, Tone
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    Decided,
    Fact,
    ModelAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    UserSpoke,
)
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.vocab.events import CallArgs, CallNamed, CallStarted, Cut, Ended
from turnbuckle.vocab.messages import Message, text_of

_HEAD = 600  # characters of arguments in which the one that tells most is looked for: a path and what is before it
_TELLING = re.compile(r'"(?:path|command|url|pattern|question|draft)"\s*:\s*"((?:[^"\\]|\\.){1,300})"')
_TAIL_LINES = 4
_TAIL_WIDTH = 200  # characters of a line of output; no terminal shows more of it in one row
MOST_SAID = 65_536  # characters of a message of the user that are shown; what was pasted may have megabytes


class Said(Struct, frozen=True):
    """Words of the user. `into`: they were said into the turn."""

    text: str
    run: str = ""
    into: bool = False


class Reply(Struct, frozen=True):
    """What the chat itself has to say to a command."""

    text: str
    tone: Tone = "quiet"


ChatPiece = Piece | Said | Reply


class _Card:
    """A tool that runs."""

    __slots__ = ("_last", "_lines", "label")

    def __init__(self, label: str) -> None:
        self.label = label
        self._lines: list[str] = []
        self._last = ""

    def take(self, text: str) -> None:
        first, *others = text[-_TAIL_LINES * _TAIL_WIDTH * 4 :].split("\n")
        self._last = (self._last + first)[:_TAIL_WIDTH]
        for line in others:
            self._lines = [*self._lines, self._last][-_TAIL_LINES:]
            self._last = line[:_TAIL_WIDTH]

    @property
    def tail(self) -> list[str]:
        return [*self._lines, *([self._last] if self._last else [])][-_TAIL_LINES:]


class ChatStory:
    """`take` the facts of one run in their order."""

    def __init__(self, reasoning: bool = False) -> None:
        self._story = Story(reasoning)
        self._run = ""
        self._cards: dict[str, _Card] = {}
        self._call = ""
        self._named = ""
        self._head = ""
        self._characters = 0

    @property
    def reasoning(self) -> bool:
        return self._story.reasoning

    @reasoning.setter
    def reasoning(self, shown: bool) -> None:
        self._story.reasoning = shown

    def take(self, fact: Fact) -> list[ChatPiece]:
        if isinstance(fact, Streamed):
            self._streamed(fact)
            return [*self._story.take(fact)]
        before, behind = self._around(fact)
        return [*before, *self._story.take(fact), *behind]

    def live(self) -> list[Line]:
        """What is under way."""
        lines: list[Line] = []
        if self._call:
            label = f"{self._call} {self._named}".rstrip()
            lines.append(Line(f"→ {label} … {self._characters:,} characters", "tool"))
        for card in self._cards.values():
            lines.append(Line(f"→ {card.label} …", "tool"))
            lines += [Line(f"  {line}") for line in card.tail]
        return lines

    def _around(self, fact: Fact) -> tuple[list[ChatPiece], list[ChatPiece]]:
        """What is shown before and behind what `turnbuckle run` shows."""
        match fact:
            case RunStarted():
                self._run = fact.run
                fresh = fact.messages[max(len(fact.messages) - fact.fresh, 0) :]
                return [Said(words, fact.run) for words in _words(fresh)], []
            case UserSpoke():
                return [Said(words, self._run, into=True) for words in _words(fact.messages)], []
            case ModelAsked() | Decided():
                self._call = ""
            case ToolStarted():
                self._call = ""
                self._cards[fact.call_id] = _Card(f"{fact.name} {short_argument(fact.arguments)}".rstrip())
            case ToolSaid() if fact.call_id in self._cards:
                self._cards[fact.call_id].take(fact.text)
            case ToolFinished():
                self._call = ""
                card = self._cards.pop(fact.call_id, None)
                return [Line(f"  {line}") for line in card.tail] if card is not None else [], []
            case ApprovalAnswered():
                return [Line(answer_text(fact), "notice" if fact.verdict != "allowed" else "quiet")], []
            case RunClaimed() | RunLeft() | RunEnded():
                self._call = ""
                self._cards.clear()
            case _:
                pass
        return [], []

    def _streamed(self, fact: Streamed) -> None:
        for event in fact.events:
            if isinstance(event, CallArgs):
                self._characters += len(event.text)
                if not self._named and len(self._head) < _HEAD:
                    self._head += event.text[:_HEAD]
                    self._named = _telling(self._head)
            elif isinstance(event, CallStarted):
                self._call, self._named, self._head, self._characters = event.name or "a call", "", "", 0
            elif isinstance(event, CallNamed):
                self._call = event.name or self._call
            elif isinstance(event, Ended | Cut):
                self._call = ""


def _telling(head: str) -> str:
    """The argument that tells most, if it is whole already."""
    found = _TELLING.search(head)
    if found is None:
        return ""
    try:
        return short_argument({"path": msgspec.json.decode(f'"{found[1]}"'.encode())})
    except msgspec.DecodeError:
        return ""


def _words(messages: tuple[Message, ...]) -> list[str]:
    return [text_of(one.parts)[:MOST_SAID] for one in messages if one.role == "user" and not one.note]


def answer_text(fact: ApprovalAnswered) -> str:
    """An answer in one line."""
    if fact.verdict == "withdrawn":
        return "no answer is needed any more"
    if fact.verdict == "expired":
        return "nobody answered in time"
    by = f" by {fact.by}" if fact.by else ""
    return f"{fact.verdict}{by}{f': {shortened(fact.text)}' if fact.text else ''}"

"""A run in a chat: facts in; out come pieces that are shown for good, and what is under way at this moment.

The pieces are those of `turnbuckle run`, with what was said to the model beside them. What is under way is
told by `live`: the call whose arguments come in, and the tools that run with the end of what they print.
Nothing here grows with a reply: of arguments the beginning is kept, to name the file, and of output the last
lines. Each piece is shown once, also when the run has to be read again.
"""

import re

import msgspec
from msgspec import Struct

from turnbuckle.cli.follow import waste_lines
from turnbuckle.cli.pieces import Line, Piece, PieceRenderer, Tone, Words
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.meter import Meter
from turnbuckle.narrate.told import (
    Broke,
    CallArriving,
    CallGrown,
    CallMoved,
    ModelCalled,
    Notice,
    QuestionAnswered,
    ReplyOver,
    RunBegun,
    RunOver,
    Told,
    ToolBegun,
    ToolEnded,
    ToolPrinted,
    UserSaid,
)
from turnbuckle.narrate.waiting import WaitingFold
from turnbuckle.turn.facts import Fact
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.turn.ledger import Ledger
from turnbuckle.vocab.ids import LOCAL
from turnbuckle.vocab.messages import Message, text_of

# characters of arguments in which the one that tells most is looked for: a path and what is before it
_HEAD = 600
_TELLING = re.compile(r'"(?:path|command|url|pattern|question|draft)"\s*:\s*"((?:[^"\\]|\\.){1,300})"')
_TAIL_LINES = 4
_TAIL_WIDTH = 200  # characters of a line of output; no terminal shows more of it in one row
MOST_SAID = 65_536  # characters of a message of the user that are shown; what was pasted may have megabytes


_HERE = ("", "terminal", LOCAL)
"""Whoever sits at this machine: nobody else has to be named."""


class UserWords(Struct, frozen=True):
    """Words of the user. `into`: they were said into the turn."""

    text: str
    run: str = ""
    into: bool = False


class CommandOutput(Struct, frozen=True):
    """What the chat itself has to say to a command. `rows`: each line is cut to one row of the terminal."""

    text: str
    tone: Tone = "quiet"
    rows: bool = False


class TypedCommand(Struct, frozen=True):
    """A command as it was typed, above its answer. Where lines are typed on a plain terminal it stands there
    already."""

    text: str


ChatPiece = Piece | UserWords | CommandOutput


class _RunningTool:
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


class ChatRunRenderer:
    """`take` the facts of one run in their order. `after` is the number of the last one."""

    def __init__(self, reasoning: bool = False) -> None:
        self.after = 0
        self._pieces = PieceRenderer(reasoning, Narration(arguments=True))
        self._ledger = Ledger()
        self.meter = Meter()
        self._run = ""
        self._cards: dict[str, _RunningTool] = {}
        self._call = ""
        self._named = ""
        self._head = ""
        self._characters = 0
        self._shown: list[int] = [0, 0]  # characters of text, and other pieces
        self._skip: list[int] = [0, 0]  # and those that were shown before it had to be read again

    def again(self, reasoning: bool) -> "ChatRunRenderer":
        """The same run from its beginning, without what was shown already: merging changes no word and no
        order."""
        renderer = ChatRunRenderer(reasoning)
        renderer._skip = [*self._shown]
        return renderer

    @property
    def waiting(self) -> WaitingFold:
        return self._pieces.narration.waiting

    @property
    def title(self) -> str:
        """The task in one line."""
        return self._pieces.narration.title

    @property
    def reasoning(self) -> bool:
        return self._pieces.reasoning

    @reasoning.setter
    def reasoning(self, shown: bool) -> None:
        self._pieces.reasoning = shown

    def take(self, seq: int, fact: Fact) -> list[ChatPiece]:
        self.after = seq
        self._ledger.take(fact)
        pieces: list[ChatPiece] = []
        narration = self._pieces.narration
        if text := narration.going_on(fact):
            pieces.append(Words(text))
        else:
            for told in narration.take(fact):
                self.meter.take(told)
                pieces += self._before(told)
                pieces += self._pieces.draw(told)
                if isinstance(told, RunOver):
                    pieces += self._last(told)
        return [left for piece in pieces if (left := self._new(piece)) is not None]

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

    def _before(self, told: Told) -> list[ChatPiece]:
        """What is shown before that which `turnbuckle run` shows."""
        match told:
            case CallGrown(_, text):
                self._grow(text)
            case CallArriving(_, name):
                self._call, self._named, self._head, self._characters = name or "a call", "", "", 0
            case CallMoved(_, name, "arriving"):
                self._call = name or self._call
            case RunBegun(run, _, messages):
                self._run = run
                return [UserWords(words, run) for words in _words(messages)]
            case UserSaid(messages):
                return [UserWords(words, self._run, into=True) for words in _words(messages)]
            case ModelCalled() | Broke() | ReplyOver():
                self._call = ""
            case ToolBegun(call, tool, _, label):
                self._call = ""
                self._cards[call] = _RunningTool(f"{tool} {label}".rstrip())
            case ToolPrinted(call, text) if call in self._cards:
                self._cards[call].take(text)
            case ToolEnded(call, _, outcome):
                self._call = ""
                card = self._cards.pop(call, None)
                shown = [] if card is None else card.tail
                if len(shown) == 1 and shown[0].strip() == outcome.text.strip():
                    return []  # the line about its end says the same
                return [Line(f"  {line}") for line in shown]
            case QuestionAnswered():
                return [Line(answer_text(told), "notice" if told.verdict != "allowed" else "quiet")]
            case RunOver() | Notice(_, "left" | "restarted" | "crashed"):
                self._call = ""
                self._cards.clear()
            case _:
                pass
        return []

    def _last(self, told: RunOver) -> list[ChatPiece]:
        drafts = [Line(f"draft kept: /drafts show {self._run}:{draft}", "notice") for draft in told.drafts]
        return [*waste_lines(self._ledger.entries), *drafts]

    def _grow(self, text: str) -> None:
        self._characters += len(text)
        if not self._named and len(self._head) < _HEAD:
            self._head += text[:_HEAD]
            self._named = _telling(self._head)

    def _new(self, piece: ChatPiece) -> ChatPiece | None:
        """What of a piece was not shown yet."""
        if not isinstance(piece, Words):
            self._shown[1] += 1
            return piece if self._shown[1] > self._skip[1] else None
        before = max(self._skip[0] - self._shown[0], 0)
        self._shown[0] += len(piece.text)
        if before >= len(piece.text):
            return None
        return Words(piece.text[before:], piece.reasoning, piece.apart if not before else "")


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
    return [
        text_of(message.parts)[:MOST_SAID]
        for message in messages
        if message.role == "user" and not message.note
    ]


def answer_text(answer: QuestionAnswered) -> str:
    """An answer in one line."""
    if answer.verdict == "withdrawn":
        return "no answer is needed any more"
    if answer.verdict == "expired":
        return "nobody answered in time"
    by = f" by {answer.by}" if answer.by not in _HERE else ""
    verdict = "always allowed" if answer.always else answer.verdict
    rules = "; /rules lists what is" if answer.always else ""
    return f"{verdict}{by}{f': {shortened(answer.text)}' if answer.text else ''}{rules}"

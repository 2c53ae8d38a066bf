"""Models that know what they want: each is a function of the request, so it gives the same answer to whoever
asks.

`planned` carries out rounds of text and calls. It goes on behind text that was cut, finishes drafts, and
makes calls again that did not run; what it has done it learns from the history alone.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.model import Brain, Step
from turnbuckle.testing.world.tools import FACTS
from turnbuckle.turn.prompt_reading import DraftNote, draft_note, held_calls
from turnbuckle.turn.prompts import joint_of
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.vocab.tooling import FINISH_CALL

AFTER = 60


class PlannedCall(Struct, frozen=True):
    """A call that a model wants to make."""

    name: str
    arguments: dict[str, Any]

    @property
    def text(self) -> str:
        """The long text in it, if it has one."""
        if self.name in FACTS:
            return str(self.arguments.get(FACTS[self.name].draftable, ""))
        return max(
            (value for value in self.arguments.values() if isinstance(value, str)), key=len, default=""
        )


class Round(Struct, frozen=True):
    """What a model says and calls before it waits for results."""

    say: str = ""
    calls: tuple[PlannedCall, ...] = ()


class Seen(Struct, frozen=True):
    """What a model learns from a request."""

    rounds: int
    """How many rounds are done."""
    said: str
    """What it said already in the present round."""
    note: str
    """The runtime's last words, if they are the last words."""
    draft: DraftNote | None
    held: str = ""
    """The sentence about calls that arrived whole, if there is one: they need not be made again."""


def look(messages: Sequence[Message]) -> Seen:
    """Read a history as a model would."""
    rounds, said, draft, held = 0, "", None, ""
    calls: tuple[CallPart, ...] = ()
    for message in messages:
        if message.role == "assistant":
            said += text_of(message.parts)
            calls = tuple(part for part in message.parts if isinstance(part, CallPart))
        elif message.role == "tool":
            draft = draft_note(_results(message)) if any(call.name == FINISH_CALL for call in calls) else None
            rounds += draft is None
            said = ""
            held = f"{held} {_results(message)}" if draft is not None else ""
        elif message.note:
            draft = draft_note(text_of(message.parts))
            held = held_calls(text_of(message.parts)) or held
    last = messages[-1]
    return Seen(rounds, said, text_of(last.parts) if last.note else "", draft, held)


def _results(message: Message) -> str:
    parts = [part for part in message.parts if isinstance(part, ResultPart)]
    return "\n".join(
        text_of(tuple(piece for piece in part.content if isinstance(piece, TextPart))) for part in parts
    )


def planned(
    *rounds: Round, pieces: int = 12, rest: int = 0, echo: int = 0, drafts: bool = True, remakes: bool = False
) -> Brain:
    """A model that carries out these rounds. `rest` is the size of its pieces when it finishes a draft;
    `echo` how much it repeats before it goes on, where it was not told what to repeat. Without `drafts` it
    makes a cut call again from the start. One that `remakes` makes calls again although it was told that they
    arrived whole."""

    def brain(request: ModelRequest, number: int) -> list[Step]:
        seen = look(request.messages)
        now = rounds[min(seen.rounds, len(rounds) - 1)]
        if not remakes:
            now = Round(now.say, _unheld(now.calls, seen.held))
        if seen.draft is not None and drafts and (made := _finish(now, seen.draft, pieces, rest)):
            return made
        out: list[Step] = []
        if left := _unsaid(now.say, seen.said, echo, joint_of(request.messages[-1:]).anchor or ""):
            out.append(Say(left, pieces))
        out += [Call(call.name, call.arguments, pieces) for call in now.calls]
        return [*out, Finish()]

    return brain


def _unheld(calls: tuple[PlannedCall, ...], words: str) -> tuple[PlannedCall, ...]:
    """The calls without those that these words name, by tool and first argument; each name stands for one
    call."""
    left: list[PlannedCall] = []
    for call in calls:
        name = f"{call.name} {next(iter(call.arguments.values()), '')}".rstrip()
        if name in words:
            words = words.replace(name, "", 1)
        else:
            left.append(call)
    return tuple(left)


def _unsaid(whole: str, said: str, echo: int, anchor: str) -> str:
    if not said or not whole.startswith(said):
        return whole
    if len(said) == len(whole):
        return ""
    if anchor and said.endswith(anchor):
        return anchor + whole[len(said) :]
    return said[len(said) - echo :] + whole[len(said) :] if echo and len(said) >= echo else whole[len(said) :]


def _finish(now: Round, draft: DraftNote, pieces: int, rest: int) -> list[Step]:
    """The calls of this round with the drafted one finished, or nothing if no call fits the draft."""
    if draft.asks:
        return [
            Call(FINISH_CALL, {"draft": draft.id, "after": "", "rest": "", "reading": "a"}, pieces),
            Finish(),
        ]
    for wanted in now.calls:
        text = wanted.text
        if not text or draft.tail not in text:
            continue
        at = text.rfind(draft.tail, 0, draft.count) + len(draft.tail) if draft.tail else draft.count
        end = min(at + rest, len(text)) if rest else len(text)
        arguments: dict[str, Any] = {
            "draft": draft.id,
            "after": text[max(at - AFTER, 0) : at],
            "rest": text[at:end],
        }
        if end < len(text):
            arguments["more"] = True
        finish = Call(FINISH_CALL, arguments, pieces)
        made = [finish if call is wanted else Call(call.name, call.arguments, pieces) for call in now.calls]
        return [*made, Finish()]
    return []

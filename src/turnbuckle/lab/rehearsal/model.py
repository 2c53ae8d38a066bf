"""The rehearsal model: a small script that answers in place of a model, so that everything can be tried
without a key or a network. It says what it is, and it can break on purpose.

It looks at the newest words of the user and at what came since. A reply follows from the task and from the
results so far, so when it was cut it goes on exactly from where it stands, and it finishes drafts as a good
model does. Where it breaks follows from the same: the next place behind what has arrived. Only a break before
the first word leaves no trace in the request, so those are counted here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.lab.rehearsal.commands import Break, Plan, Step, is_understood, plan_of
from turnbuckle.lab.rehearsal.tools_by_words import with_tools
from turnbuckle.lab.rehearsal.words import REFUSAL, WHO
from turnbuckle.lab.script import Call, Finish, Reason, Refuse, Say
from turnbuckle.lab.speaking import ContentStep, Speaker
from turnbuckle.turn.prompt_reading import draft_note, times_cut
from turnbuckle.turn.prompts import joint_of
from turnbuckle.turn.summary import is_users
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import (
    CallArgs,
    Cut,
    Ended,
    Event,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.events import Finish as FinishWord
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import CallPart, Message, ReasoningPart, ResultPart, TextPart, text_of
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.vocab.tooling import FINISH_CALL

NAME = "rehearsal"
Speech = ContentStep | Finish
CHARACTERS_PER_TOKEN = 4
SLOW_PACE = 0.065
"""Seconds for a piece when it goes slowly: the 200 pieces of a long text then take 13 seconds."""
BUSY_FOR = 1.0
_PIECE = 24
_SLOW_PIECE = 10
_MOST_PIECES = 200
_STALL = 2.0
_SLOW_STALL = 3.0
_ANCHOR = 60
_MOST_REMEMBERED = (
    256  # requests that were turned away and may come again within seconds; each is two numbers
)


class _Call(Struct, frozen=True):
    tool: str
    arguments: dict[str, Any]


class _Reply(Struct, frozen=True):
    """One whole reply, and what of it is there already: characters of `text`, characters of the last call's
    last argument in a draft, and how often that call was cut without one."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[_Call, ...] = ()
    breaks: tuple[Break, ...] = ()
    every: bool = False
    slowly: bool = False
    said: int = 0
    held: int = 0
    cuts: int = 0
    anchor: str = ""
    draft: str = ""
    draft_is_whole: bool = False

    @property
    def is_first(self) -> bool:
        """Nothing of it has arrived yet."""
        return not (self.said or self.draft or self.cuts)


class _Ending(Struct, frozen=True):
    """How a reply breaks, and behind how many characters of its text or of its last argument."""

    how: Break
    place: int


class Rehearsal:
    """A model that is a script. `pace` is how long each piece of a reply takes."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, pace: float = 0.0) -> None:
        self._sleep = sleep
        self._pace = pace
        self._turned_away: dict[int, int] = {}

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        reply = _reply_to(request)
        refused = self._turn_away(reply, request)
        if refused is not None:
            yield [Cut(refused)]
            return
        pace = max(self._pace, SLOW_PACE) if reply.slowly else self._pace
        ending = _ending(reply)
        for event in _within(_events(reply, ending, request), request.max_output_tokens):
            if stop.is_set():
                yield [Cut(failure("cancelled", "stopped"))]
                return
            yield [event]
            if isinstance(event, Ended):
                return
            if pace:
                await self._sleep(pace)
        assert ending is not None
        yield [Cut(await self._broken(ending, reply, stop))]

    def choose(self, wanted: RouteName) -> RouteName:
        return wanted

    def streams(self, route: RouteName) -> bool:
        return True

    def note(self, route: RouteName, events: list[Event]) -> None:
        return None

    def _turn_away(self, reply: _Reply, request: ModelRequest) -> Failure | None:
        """A provider that fails or is busy says so before anything else, once or as often as it was asked
        to."""
        early = [how for how in reply.breaks if how in ("fail", "busy")]
        if not early or not reply.is_first:
            return None
        key = hash(msgspec.json.encode(request.messages))
        count = self._turned_away.pop(key, 0)
        if count >= len(early) and not reply.every:
            return None
        self._turned_away[key] = count + 1
        if len(self._turned_away) > _MOST_REMEMBERED:
            del self._turned_away[next(iter(self._turned_away))]
        if early[min(count, len(early) - 1)] == "fail":
            return Failure("server", "the rehearsal was asked to fail", True, status=500)
        return Failure("rate_limited", "the rehearsal was asked to be busy", True, BUSY_FOR, 429)

    async def _broken(self, ending: _Ending, reply: _Reply, stop: StopSignal) -> Failure:
        if ending.how == "cut":
            return failure("reset", "the rehearsal was asked to cut the stream")
        seconds = _SLOW_STALL if reply.slowly else _STALL
        if await self._silent(seconds, stop):
            return failure("cancelled", "stopped")
        where = f" in the arguments of {reply.calls[-1].tool}" if reply.calls else ""
        words = f"no progress for {seconds:g} s{where} (the rehearsal was asked to stall)"
        return failure("stalled", words, clock="gap")

    async def _silent(self, seconds: float, stop: StopSignal) -> bool:
        """Say nothing for so long; whether somebody wants it to stop."""
        waits = [asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return stop.is_set()


# What it says


def _reply_to(request: ModelRequest) -> _Reply:
    at = next((n for n in range(len(request.messages) - 1, -1, -1) if is_users(request.messages[n])), -1)
    task = _task_in(request.messages[at]) if at >= 0 else ""
    results, since = _since(request.messages[at + 1 :])
    open_draft = _about_a_draft(results[-1]) if results else ""
    results = [group for group in results if not _about_a_draft(group)]
    tools = request.tools if request.tool_choice != "none" else ()
    plan = with_tools(plan_of(task), task, tools)
    reply = _wanted(plan, results, {tool.name for tool in tools})
    note = next((text_of(message.parts) for message in reversed(since) if message.note), "")
    draft = draft_note(note or open_draft)
    if draft is not None and draft.asks:
        # It always means what it says.
        answer = {"draft": draft.id, "after": "", "rest": "", "reading": "a"}
        return _Reply(calls=(_Call(FINISH_CALL, answer),))
    if open_draft:
        reply = replace(reply, text="")  # it was said before the call
    if draft is not None:
        reply = replace(reply, held=draft.count, draft=draft.id, draft_is_whole=draft.is_whole)
    else:
        reply = replace(reply, cuts=times_cut(note))
    said = "".join(text_of(message.parts) for message in since if message.role == "assistant")
    if not said or not reply.text.startswith(said):
        return reply
    anchor = joint_of(tuple(message for message in since[-1:] if message.note)).anchor or ""
    return replace(reply, said=len(said), anchor=anchor if said.endswith(anchor) else "")


def _about_a_draft(results: tuple[ResultPart, ...]) -> str:
    """What the runtime says about a draft in place of a result; empty if these are results."""
    words = "".join(part.text for result in results for part in result.content if isinstance(part, TextPart))
    draft = draft_note(words)
    return words if draft is not None and (draft.asks or draft.grew) else ""


def _since(messages: tuple[Message, ...]) -> tuple[list[tuple[ResultPart, ...]], tuple[Message, ...]]:
    """The results since the task, by the reply that asked for them, and the messages behind the last of
    them."""
    groups: list[tuple[ResultPart, ...]] = []
    last = -1
    for number, message in enumerate(messages):
        results = tuple(part for part in message.parts if isinstance(part, ResultPart))
        if results and last == number - 1 and groups and number:
            groups[-1] = (*groups[-1], *results)  # protocols may tell each result by a message of its own
        elif results:
            groups.append(results)
        if results:
            last = number
    return groups, messages[last + 1 :]


def _wanted(plan: Plan, results: list[tuple[ResultPart, ...]], offered: set[str]) -> _Reply:
    """The next reply: what became of the last calls, what is to be said, and the next calls."""
    told = _told(results[-1]) if results else WHO
    steps = _left(plan, sum(map(len, results)))
    if results and any(result.failed for result in results[-1]):
        left = sum(bool(step.tool) for step in steps)
        return _Reply(told + (f"So I leave the rest, {left} more, undone.\n" if left else ""))
    now = _now(steps, at_once=plan.at_once)
    missing = [step.tool for step in now if step.tool and step.tool not in offered]
    if missing:
        return _Reply(f"{told}I would call {missing[0]}, but that tool is not enabled.")
    return _Reply(
        told + "".join(step.text for step in now),
        "".join(step.reasoning for step in now),
        tuple(_Call(step.tool, step.arguments) for step in now if step.tool),
        tuple(how for step in now for how in step.breaks),
        any(step.every for step in now),
        any(step.slowly for step in plan.steps),
    )


def _left(plan: Plan, done: int) -> list[Step]:
    """The steps behind those whose calls have their results."""
    left = list(plan.steps)
    while done and left:
        done -= bool(left.pop(0).tool)
    return left


def _now(steps: list[Step], *, at_once: bool) -> list[Step]:
    """The steps of one reply: up to a call, or all of them. A reply without a call ends the turn."""
    first = next((number for number, step in enumerate(steps) if step.tool), len(steps))
    return steps if at_once else steps[: first + 1]


def _told(results: tuple[ResultPart, ...]) -> str:
    told = []
    for result in results:
        text = "".join(part.text for part in result.content if isinstance(part, TextPart)).strip()
        told.append(f"{'That did not work' if result.failed else 'Done'}. The tool says:\n{text}\n")
    return "".join(told)


def _task_in(message: Message) -> str:
    """What a user wants. Coding agents put reminders of their own beside the user's words, as parts of the
    same message: then the last part that is understood."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    whole = text_of(message.parts)
    known = (text for text in (*reversed(texts), whole) if is_understood(text))
    return next(known, whole)


# How it says it


def _ending(reply: _Reply) -> _Ending | None:
    """Where this attempt breaks; None if it goes through."""
    kinds = [how for how in reply.breaks if how in ("cut", "stall", "lie")]
    if not kinds or "refuse" in reply.breaks:
        return None
    last = next(reversed(reply.calls[-1].arguments.values()), "") if reply.calls else reply.text
    size, there = len(last) if isinstance(last, str) else 0, reply.held if reply.calls else reply.said
    places = [size * (number + 2) // (len(kinds) + 2) for number in range(len(kinds))]
    if not reply.calls:
        places = [len(reply.text[:place].rstrip()) for place in places]
    if reply.every:
        return _Ending(kinds[0], max(places[0], there))
    if reply.calls and not reply.draft:
        return _Ending(kinds[reply.cuts], places[reply.cuts]) if reply.cuts < len(kinds) else None
    return next(
        (_Ending(how, place) for how, place in zip(kinds, places, strict=True) if place > there), None
    )


def _script(reply: _Reply, ending: _Ending | None, given: int) -> Iterator[Speech]:
    """What is said in an attempt. One that is cut or stalls has no end here."""
    if "refuse" in reply.breaks:
        yield Refuse(REFUSAL, 0)
        yield Finish("refused", "refusal", Usage(given, _tokens(len(REFUSAL))))
        return
    thought = reply.reasoning if reply.is_first else ""
    in_text = ending.place if ending is not None and not reply.calls else len(reply.text)
    text = reply.text[reply.said : in_text]
    text = f"{reply.anchor}{text}" if text else ""
    yield Reason(thought, _piece(len(thought), reply.slowly))
    yield Say(text, _piece(len(reply.text), reply.slowly))
    size = len(thought) + len(text)
    for call, (name, arguments, is_cut) in zip(reply.calls, _spoken(reply, ending), strict=True):
        size += len(arguments)
        yield Call(name, arguments, _piece(len(_json(call.arguments)), reply.slowly), closed=not is_cut)
    if ending is None or ending.how == "lie":
        # A text that is a part cannot be told from a whole one, so the lie there is that a call came with
        # it.
        reason: FinishWord = "calls" if reply.calls or ending is not None else "stop"
        yield Finish(reason, usage=Usage(given, _tokens(size), reasoning=_tokens(len(thought))))


def _events(reply: _Reply, ending: _Ending | None, request: ModelRequest) -> Iterator[Event]:
    """The events of an attempt. A cut and a stall have no last word here."""
    number, given = len(request.messages), _tokens(sum(map(_size, request.messages)))
    speaker = Speaker(f"call_{number}_")
    yield Started(f"rehearsal-{number}", NAME)
    yield UsageNoted(Usage(given, 0))
    for step in _script(reply, ending, given):
        if isinstance(step, Finish):
            yield from speaker.finish(step, Usage(given, 0))
            yield Ended(NAME)
        else:
            yield from speaker.content(step)
            yield from speaker.close_block()


def _spoken(reply: _Reply, ending: _Ending | None) -> Iterator[tuple[str, str, bool]]:
    """The calls as they are made: name, arguments, and whether they break off. A draft is finished, and what
    was to run before it is called again, since nothing of a broken reply ran."""
    for call in reply.calls[:-1]:
        yield call.tool, _json(call.arguments), False
    if not reply.calls:
        return
    name, arguments = reply.calls[-1].tool, reply.calls[-1].arguments
    if reply.draft:
        *others, last = arguments
        content = arguments[last]
        name = FINISH_CALL
        also = {"also": {other: arguments[other] for other in others}} if reply.draft_is_whole else {}
        after = content[: reply.held][-_ANCHOR:]
        arguments = {**also, "draft": reply.draft, "after": after, "rest": content[reply.held :]}
    if ending is None:
        yield name, _json(arguments), False
        return
    yield name, _broken_off(arguments, max(ending.place - reply.held, 0)), True


def _broken_off(arguments: dict[str, Any], place: int) -> str:
    """The text of a call that ends behind so many characters of its last argument."""
    if not arguments or not isinstance(next(reversed(arguments.values())), str):
        text = _json(arguments)
        return text[: max(len(text) * 2 // 3, 1)]
    last = next(reversed(arguments))
    return _json({**arguments, last: arguments[last][:place]}).removesuffix('"}')


def _within(events: Iterator[Event], cap: int | None) -> Iterator[Event]:
    """The events up to the output cap, and there the end that a cap makes."""
    left = None if cap is None else cap * CHARACTERS_PER_TOKEN
    for event in events:
        if left is not None and isinstance(event, TextDelta | ReasoningDelta | RefusalDelta | CallArgs):
            if len(event.text) > left:
                yield replace(event, text=event.text[:left])
                yield FinishNoted("length", "length")
                yield Ended(NAME)
                return
            left -= len(event.text)
        yield event


def _piece(whole: int, slowly: bool) -> int:
    """The size of the pieces of a text: it follows from the whole that the text is a part of, so that a rest
    is not slower."""
    return max(_SLOW_PIECE if slowly else _PIECE, whole // _MOST_PIECES)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _size(message: Message) -> int:
    """Characters of a message that a model would read."""
    first = message.parts[0] if len(message.parts) == 1 else None
    if type(first) is TextPart:  # nearly every message of a long conversation
        return len(first.text)
    size = 0
    for part in message.parts:
        match part:
            case TextPart() | ReasoningPart():
                size += len(part.text)
            case CallPart():
                size += len(part.arguments)
            case ResultPart():
                size += sum(len(inner.text) for inner in part.content if isinstance(inner, TextPart))
            case _:
                pass
    return size

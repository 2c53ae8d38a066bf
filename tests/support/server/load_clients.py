"""Many clients at once in front of a server, and a provider behind it that breaks often.

Every stream has a text of its own, which the provider goes on with wherever it was broken, and of which no two words
are alike: whatever is lost, repeated or mixed up on the way shows. Faults follow from the number of the stream and of
the attempt, so they are the same each time.
"""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from support.server.live_server import ApiClient, frames

from turnbuckle.lab.script import (
    Error,
    Finish,
    Garbage,
    KillAfter,
    LabRequest,
    Pace,
    Say,
    ScriptItem,
    Stall,
    Status,
)

WORDS = 90
PIECE, EVERY = 24, 0.04
"""Characters in a delta, and seconds between two."""
MOST_FAULTS = 3
"""For one stream; then it is left in peace."""
_TASK = re.compile(r"load (\d+)")
_NOTE = "\n\n[Not finished"


def text_of(number: int) -> str:
    """What a stream is to say."""
    return " ".join(f"{number}.{word}" for word in range(WORDS))


@dataclass
class Brittle:
    """The provider's model. `faults` counts what was done to it, `odd` what it did not understand."""

    faults: Counter[str] = field(default_factory=Counter)
    odd: list[str] = field(default_factory=list)
    smooth: set[int] = field(default_factory=set)
    """Streams whose first attempt was not broken."""
    _asked: Counter[int] = field(default_factory=Counter)

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        messages = request.body["messages"]
        found = [(at, _TASK.search(_text(one))) for at, one in enumerate(messages) if one["role"] == "user"]
        at, match = next((at, match) for at, match in found if match)
        number = int(match[1])
        said = "".join(_text(one) for one in messages[at:] if one["role"] == "assistant")
        if not text_of(number).startswith(said):
            self.odd.append(f"stream {number} is asked to go on behind {said[-80:]!r}")
        rest = text_of(number)[len(said) :]
        self._asked[number] += 1
        chance = random.Random(number * 1000 + self._asked[number])
        fault = chance.choice(_FAULTS) if self._asked[number] <= MOST_FAULTS else "none"
        self.faults[fault] += 1
        if fault == "none" and self._asked[number] == 1:
            self.smooth.add(number)
        return (Pace(PIECE, EVERY), *_broken(fault, rest, chance))


_FAULTS = ("none", "none", "none", "none", "reset", "fin", "stall", "error", "status", "garbage", "late")


def _broken(fault: str, rest: str, chance: random.Random) -> tuple[ScriptItem, ...]:
    part = rest[: chance.randrange(len(rest)) + 1] if rest else ""
    match fault:
        case "reset" | "fin":
            return (KillAfter(text=len(part), how=fault), Say(rest), Finish())
        case "stall":
            return (Say(part), Stall("forever"))
        case "error":
            return (Say(part), Error("overloaded", "the lab is full"))
        case "status":
            return (Status(500, "the lab fell over"),)
        case "garbage":
            return (Garbage("html"),)
        case "late":
            return (Stall(0.5), Say(rest), Finish())
        case _:
            return (Say(rest), Finish())


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


@dataclass
class Result:
    """What one stream came to. `wrong` says what must not be."""

    kind: str
    number: int
    outcome: str = ""
    first: float = 0.0
    events: int = 0
    wrong: str = ""


class Crowd:
    """Clients that begin one stream after the other until the time is over."""

    def __init__(self, address: ApiClient, until: float) -> None:
        self.address = address
        self.results: list[Result] = []
        self._until = until
        self._next = 0

    async def play(self, clients: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        while time.monotonic() < self._until:
            self._next += 1
            number = self._next
            kind = _KINDS[number % len(_KINDS)]
            try:
                result = await kind(self.address, number)
            except Exception as error:
                result = Result(kind.__name__, number, wrong=f"stream {number}: {error!r}")
            self.results.append(result)


def _judge(kind: str, number: int, text: str, outcome: str, first: float, events: int) -> Result:
    """Whole, or truthful about what is missing."""
    told, wanted = text.partition(_NOTE)[0], text_of(number)
    if outcome == "completed" and text != wanted:
        wrong = f"{kind} {number} is said to be complete: {_difference(text, wanted)}"
    elif outcome in ("partial", "failed") and not wanted.startswith(told):
        wrong = f"{kind} {number} is {outcome}, and not the beginning: {_difference(told, wanted)}"
    elif outcome not in ("completed", "partial", "failed"):
        wrong = f"{kind} {number} has no end"
    else:
        wrong = ""
    return Result(kind, number, outcome, first, events, wrong)


def _difference(text: str, wanted: str) -> str:
    same = next(
        (at for at, (one, other) in enumerate(zip(text, wanted, strict=False)) if one != other), len(text)
    )
    return (
        f"{text[max(same - 20, 0) : same + 40]!r} where {wanted[max(same - 20, 0) : same + 40]!r} should be"
    )


class _Reading:
    """The frames of a stream as they come, and when the first word came."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.first = 0.0
        self.events = 0
        self._rest = b""

    async def frames(self, address: ApiClient, path: str, json: Any = None, **headers: str) -> Any:
        async with address.listen(path, json, **headers) as listener:
            while piece := await listener.client.chunk():
                whole, end, self._rest = (self._rest + piece).rpartition(b"\n\n")
                for frame in frames(whole + end):
                    self.events += 1
                    yield frame

    def spoke(self) -> None:
        self.first = self.first or time.monotonic() - self.began


async def chat(address: ApiClient, number: int, model: str = "agent") -> Result:
    body = {"model": model, "messages": [{"role": "user", "content": f"load {number}"}], "stream": True}
    reading, pieces, outcome, done = _Reading(), [], "", False
    async for frame in reading.frames(address, "/v1/chat/completions", body):
        if frame.data == b"[DONE]":
            done = True
            continue
        told = frame.json
        for choice in told.get("choices", ()):
            if text := choice["delta"].get("content"):
                reading.spoke()
                pieces.append(text)
        outcome = told.get("turnbuckle", {}).get("outcome", outcome)
    ended = done == (outcome != "failed")
    return _judge("chat", number, "".join(pieces), outcome if ended else "", reading.first, reading.events)


async def relay(address: ApiClient, number: int) -> Result:
    return await chat(address, number, "lab")


async def plain(address: ApiClient, number: int) -> Result:
    body = {"model": "lab", "messages": [{"role": "user", "content": f"load {number}"}]}
    reply = await address.post("/v1/chat/completions", body)
    outcome = reply.json["turnbuckle"]["outcome"]
    text = "" if reply.status != 200 else reply.json["choices"][0]["message"]["content"]
    return _judge("plain", number, text, outcome, 0.0, 1)


async def response(address: ApiClient, number: int) -> Result:
    body = {"model": "agent", "input": f"load {number}", "stream": True}
    reading, pieces, outcome, numbers = _Reading(), [], "", []
    async for frame in reading.frames(address, "/v1/responses", body):
        told = frame.json
        if told["type"] == "response.output_text.delta":
            reading.spoke()
            pieces.append(told["delta"])
        numbers.append(told["sequence_number"])
        outcome = told.get("response", {}).get("turnbuckle", {}).get("outcome", outcome)
    if numbers != list(range(len(numbers))):
        outcome = f"numbers {numbers}"
    return _judge("response", number, "".join(pieces), outcome, reading.first, reading.events)


async def run(address: ApiClient, number: int) -> Result:
    """Followed by a reader that is cut off in the middle and comes back."""
    name = await address.begin(f"load {number}")
    reading = _Reading()
    seen: list[Any] = []
    leaves_at = 3 + number % 40
    for after in (0, None):
        cursor = {} if after == 0 else {"last_event_id": str(seen[-1]["seq"])}
        async for frame in reading.frames(address, f"/v1/runs/{name}/events", **cursor):
            if not frame.id:
                continue
            seen.append(frame.json)
            if frame.event == "streamed" and any(event["type"] == "text" for event in seen[-1]["events"]):
                reading.spoke()
            if after == 0 and len(seen) == leaves_at:
                break
        if seen[-1]["type"] == "run_ended":
            break
        reading._rest = b""
    numbers = [one["seq"] for one in seen]
    text = "".join(
        event["text"]
        for one in seen
        if one["type"] == "streamed"
        for event in one["events"]
        if event["type"] == "text"
    )
    outcome = seen[-1]["outcome"]["kind"] if seen[-1]["type"] == "run_ended" else ""
    if numbers != list(range(1, len(numbers) + 1)):
        outcome = f"numbers {numbers}"
    return _judge("run", number, text, outcome, reading.first, reading.events)


_KINDS = (chat, relay, response, run, chat, plain, response, relay)

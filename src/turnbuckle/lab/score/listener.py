"""The scorecard's client: one request to the server under test, and everything that came back.

It believes nothing: a stream is over at `[DONE]`, at an error, or when its bytes end, and the record says
which. What is not understood is passed over, as clients do.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from turnbuckle.lab.score.facts import End, Heard, SeenCall
from turnbuckle.vocab.clock import Clock
from turnbuckle.wire.sse import SseDecoder

MOST = 4 << 20
"""Bytes of one answer. The longest trial has 14,000 characters; with the frames around them some hundred
kilobytes."""


class Ear:
    """Reads one streamed answer."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.finish = self.error = ""
        self._frames = SseDecoder()
        self._text: list[str] = []
        self._calls: dict[tuple[int, str], _GrowingCall] = {}
        self._latest: dict[int, _GrowingCall] = {}
        self._size = 0

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def calls(self) -> tuple[SeenCall, ...]:
        return tuple(SeenCall(call.id, call.name, "".join(call.pieces)) for call in self._calls.values())

    @property
    def has_text(self) -> bool:
        return bool(self._text)

    def feed(self, data: bytes) -> None:
        """More bytes; `end` is set as soon as the answer is over."""
        self._size += len(data)
        for _, frame in self._frames.feed(data):
            if self.end is None and frame is not None:
                self._frame(frame)
        if self.end is None and self._size > MOST:
            self.end = "flood"

    def _frame(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.end = "done"
            return
        try:
            document = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return
        if not isinstance(document, dict):
            return
        if document.get("error"):
            self.end, self.error = "error", _message(document)
            return
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        self.finish = _string(choice.get("finish_reason")) or self.finish
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta)

    def _delta(self, delta: dict[str, Any]) -> None:
        if text := _string(delta.get("content")):
            self._text.append(text)
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else []:
            if isinstance(piece, dict):
                self._piece(piece)

    def _piece(self, piece: dict[str, Any]) -> None:
        found = piece.get("function")
        index, function = piece.get("index"), found if isinstance(found, dict) else {}
        place = index if isinstance(index, int) else 0
        call = self._latest.get(place)
        name = _string(piece.get("id"))
        if call is None or (name and call.id and name != call.id):
            call = self._calls[place, name] = self._latest[place] = _GrowingCall()
        call.id = call.id or name
        call.name = call.name or _string(function.get("name"))
        call.pieces.append(_string(function.get("arguments")))


class _GrowingCall:
    def __init__(self) -> None:
        self.id = self.name = ""
        self.pieces: list[str] = []


class ScoreClient:
    """Asks one server, over a connection of its own each time."""

    def __init__(self, server: str, key: str, seconds: float, clock: Clock) -> None:
        base = server.rstrip("/").removesuffix("/v1")
        self.url = f"{base}/v1/chat/completions"
        self.models_url = f"{base}/v1/models"
        self._headers = {"content-type": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._seconds = seconds
        self._clock = clock

    async def ask(
        self, body: dict[str, Any], key: str = "", enough: Callable[[Ear], bool] = lambda ear: False
    ) -> Heard:
        """One request to its end. `enough` says when to leave in mid-answer."""
        began = self._clock.now()
        headers = {**self._headers, **({"idempotency-key": key} if key else {})}
        plain = body.get("stream") is not True
        ear, status = Ear(), [0]
        try:
            async with (
                asyncio.timeout(self._seconds),
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client,
                client.post(self.url, data=msgspec.json.encode(body), headers=headers) as answer,
            ):
                status[0] = answer.status
                if plain or answer.status >= 400:
                    heard = _document(answer.status, await answer.content.read(MOST))
                    return msgspec.structs.replace(heard, seconds=self._clock.now() - began, plain=plain)
                await _listen(ear, answer, enough)
            end: End = ear.end or "closed"
        except TimeoutError:
            end = "silent"
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientError, OSError):
            end = ear.end or "broken"
        seconds = self._clock.now() - began
        return Heard(end, ear.text, ear.calls, ear.finish, ear.error, status[0], seconds, plain)

    async def models(self) -> tuple[str, ...]:
        """The names of the server's models; none if it does not say."""
        try:
            async with (
                asyncio.timeout(self._seconds),
                aiohttp.ClientSession() as client,
                client.get(self.models_url, headers=self._headers) as answer,
            ):
                document = msgspec.json.decode(await answer.content.read(MOST))
        except (TimeoutError, aiohttp.ClientError, OSError, msgspec.DecodeError):
            return ()
        listed = document.get("data") if isinstance(document, dict) else None
        found = listed if isinstance(listed, list) else []
        return tuple(
            model["id"] for model in found if isinstance(model, dict) and isinstance(model.get("id"), str)
        )


async def _listen(ear: Ear, answer: aiohttp.ClientResponse, enough: Callable[[Ear], bool]) -> None:
    async for data in answer.content.iter_any():
        ear.feed(data)
        if ear.end is not None or enough(ear):
            return


def _document(status: int, data: bytes) -> Heard:
    """An answer in one piece: a reply, an error, or nothing that anybody can read."""
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        found = None
    document = found if isinstance(found, dict) else {}
    if status >= 400 or document.get("error"):
        words = _message(document) if document else data[:200].decode("utf-8", "replace")
        return Heard("error", error=words or f"status {status}", status=status)
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        return Heard("broken", status=status)
    listed = message.get("tool_calls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    handed = tuple(_whole(call) for call in calls)
    return Heard(
        "done", _string(message.get("content")), handed, _string(choice.get("finish_reason")), status=status
    )


def _whole(call: dict[str, Any]) -> SeenCall:
    found = call.get("function")
    function = found if isinstance(found, dict) else {}
    return SeenCall(
        _string(call.get("id")), _string(function.get("name")), _string(function.get("arguments"))
    )


def _message(document: dict[str, Any]) -> str:
    error = document.get("error")
    return _string(error.get("message")) if isinstance(error, dict) else str(error)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""

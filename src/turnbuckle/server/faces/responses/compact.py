"""`POST /v1/responses/compact`: a conversation made smaller, on a client's own wish.

The client gets back what to send in place of it: the user's and the system's own messages as they were,
and one item that stands for all the rest. The summary is a run of its own, with no tools, on the route of the
model that was named: it is healed, counted and kept as any other, and what goes wrong is told as anywhere.

What would not be smaller is not changed: the client gets its own items back, and an item that stands for
nothing. Where that can be known, no model is asked.
"""

import hashlib
import sys
import time
from typing import Any, NoReturn

import msgspec

from turnbuckle.server.faces.responses.handler import ResponsesApi
from turnbuckle.server.http.begin import KEY, request_key
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, RequestHead, json_answer
from turnbuckle.server.http.problems import refused
from turnbuckle.service.catalog import AGENT
from turnbuckle.turn.base import without_opening
from turnbuckle.turn.compact import SUMMARY_LEAST, least_freed
from turnbuckle.turn.summary import summary_request
from turnbuckle.turn.window import estimate
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message, text_of
from turnbuckle.wire.openai_responses.compaction import compaction_item, opened
from turnbuckle.wire.openai_responses.parse_request import ResponsesAsked, read_response
from turnbuckle.wire.openai_responses.request import input_items

ROOM = 24_000
"""Tokens of the conversation that a model is told for its summary: what is longer is shortened in its middle,
so that it fits a window of 32,000."""
LEAST_ROOM = 1_500
"""A model that says that this is too much is not asked again."""
LONGEST = 4_000
"""Tokens of a summary at most, as the model is told."""
NOTHING = "there is nothing to make smaller"
LARGE_PART = 4_000
"""Characters of a picture or a document from which on only that it was there is kept."""
KEPT_CHARACTERS = 40_000
"""Of the user's own messages, the newest first. The summary tells of the others."""


class CompactApi:
    """The handler."""

    def __init__(self, responses: ResponsesApi) -> None:
        self._runs = responses.runs
        self._responses = responses

    async def create(self, exchange: Exchange) -> Answer:
        asked = await self._asked(exchange)
        if (key := await request_key(exchange)) is not None:
            key.check()  # also where no summary is needed, which is what would count once
        self._runs.catalog.choose(asked.model)
        earlier: tuple[Message, ...] = ()
        if asked.previous_response_id:
            session, run, _ = await self._responses.earlier(
                asked.previous_response_id, exchange.caller.owner, frozenset()
            )
            earlier = without_opening(await self._runs.said(run, session))
        messages = (*earlier, *asked.messages)
        if not messages:
            raise Problem(
                400, "there is nothing to compact: give input or previous_response_id", param="input"
            )
        whole = [*input_items(earlier), *filter(_stands_for_something, asked.input_items)]
        kept = _kept_items(asked.input_items)
        before = estimate((*earlier, *asked.fresh))
        least = least_freed(before)
        fits = before - least - _size([*kept, compaction_item("", "none")])
        if fits < SUMMARY_LEAST:
            name = self._responses.new_response()
            return json_answer(_compacted(name, whole, "", _NOTHING_SPENT, NOTHING))
        summary = await self._fitting_summary(exchange, asked.model, messages, fits)
        response = msgspec.json.decode(summary.body)
        if summary.status != 200 or response.get("status") != "completed":
            if summary.status == 200:
                _unfinished(response)
            return summary
        name, text, usage = str(response["id"]), _text(response), response["usage"]
        made = _compacted(name, kept, text, usage)
        after = _size(made["output"])
        if before - after < least:
            why = f"{NOTHING}: with a summary it would take {after:,} tokens instead of {before:,}"
            made = _compacted(name, whole, "", usage, why)
        return json_answer(made, headers=summary.headers)

    async def _asked(self, exchange: Exchange) -> ResponsesAsked:
        """The request, read as one for a response. Raises Problem."""
        body = await exchange.body()
        asked = read_response(body, stem=self._runs.new_id())
        if isinstance(asked, Failure):
            raise refused(asked)
        return asked

    async def _fitting_summary(
        self, exchange: Exchange, model: str, messages: tuple[Message, ...], longest: int
    ) -> Answer:
        """A model with a smaller window is told the conversation in fewer words."""
        room = ROOM
        summary = await self._summary(exchange, model, messages, room, longest)
        while room > LEAST_ROOM and _is_too_long(summary):
            room //= 2
            summary = await self._summary(exchange, model, messages, room, longest)
        return summary

    async def _summary(
        self, exchange: Exchange, model: str, messages: tuple[Message, ...], room: int, longest: int
    ) -> Answer:
        chosen = self._runs.catalog.choose(model)
        route = chosen.name
        if chosen.own_tools:  # a summary runs no tools
            route = chosen.route or next(iter(self._runs.catalog.relays), "")
        request = summary_request(messages, room, longest=min(longest, LONGEST))
        system, ask = (text_of(message.parts) for message in request)
        body = {"model": route or AGENT, "instructions": system, "input": ask, "store": False}
        headers = _headers(exchange)
        if room < ROOM and KEY in headers:
            # It is another request; its key may be no longer than the client's.
            headers[KEY] = f"{room}-{hashlib.sha256(headers[KEY].encode()).hexdigest()}"
        head = RequestHead("POST", exchange.path, b"", headers, exchange.request_id)

        async def read() -> bytes:
            return msgspec.json.encode(body)

        inner = Exchange(head, params={}, caller=exchange.caller, line=exchange.line, read=read)
        answer = await self._responses.create(inner)
        if not isinstance(answer, Answer):
            raise TypeError("a plain request was answered by a stream")
        return answer


def _compacted(
    name: str, items: list[dict[str, Any]], summary: str, usage: dict[str, Any], notice: str = ""
) -> dict[str, Any]:
    """The answer: these items, and one that stands for the rest, if there is any."""
    return {
        "id": name,
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*items, compaction_item(f"cmp_{name.removeprefix('resp_')}", summary)],
        "usage": usage,
        **({"turnbuckle": {"notices": [notice]}} if notice else {}),
    }


def _stands_for_something(item: dict[str, Any]) -> bool:
    return item.get("type") != "compaction" or opened(str(item.get("encrypted_content"))) != ""


def _size(items: list[dict[str, Any]]) -> int:
    """The tokens that a model is told if a client sends these."""
    read = read_response(msgspec.json.encode({"model": AGENT, "input": items}))
    return estimate(read.messages) if isinstance(read, ResponsesAsked) else sys.maxsize


def _headers(exchange: Exchange) -> dict[str, str]:
    return {name: value for name, value in exchange.headers.items() if not name.startswith("x-turnbuckle-")}


def _is_too_long(answer: Answer) -> bool:
    if answer.status not in (400, 413):
        return False
    error = msgspec.json.decode(answer.body).get("error") or {}
    return error.get("code") in ("context_length_exceeded", "request_too_large")


def _lighter(item: dict[str, Any]) -> dict[str, Any]:
    """A message without the bytes of its pictures and documents, which would leave no room for words."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    return {**item, "content": [_lighter_part(part) for part in content]}


def _lighter_part(part: dict[str, Any]) -> dict[str, Any]:
    shown = {"input_image": "a picture", "input_file": "a document"}.get(str(part.get("type")))
    if shown is None or len(msgspec.json.encode(part)) <= LARGE_PART:
        return part
    return {"type": "input_text", "text": f"[{shown}, which is no longer in sight]"}


def _kept_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the client's own side said, the newest as far as it fits."""
    kept: list[dict[str, Any]] = []
    room = KEPT_CHARACTERS
    for item in reversed(items):
        if item.get("type") != "message" or item.get("role") not in ("user", "system", "developer"):
            continue
        lighter = _lighter(item)
        room -= len(msgspec.json.encode(lighter))
        if room < 0:
            break
        kept.append(lighter)
    return kept[::-1]


def _text(response: dict[str, Any]) -> str:
    """What the model said, without its thoughts and parts that nobody here knows."""
    said = [item for item in response["output"] if item.get("type") == "message"]
    parts = [part for item in said for part in item.get("content") or ()]
    text = "".join(part["text"] for part in parts if part.get("type") == "output_text")
    if not text.strip():
        _unfinished(response)
    return text


_NOTHING_SPENT: dict[str, Any] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _unfinished(response: dict[str, Any]) -> NoReturn:
    why = (response.get("error") or {}).get("message") or "the summary was not finished"
    raise Problem(502, f"the conversation could not be compacted: {why}", code="compaction_failed")

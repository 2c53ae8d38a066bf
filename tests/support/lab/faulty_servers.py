"""Servers with one fault each, to be graded by the lab: small, naive, and in the test's own loop.

Each is a relay or an agent in front of a provider that speaks Chat Completions, written as such things are often written.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
BROKEN = (aiohttp.ClientError, OSError, ValueError)


def text_frame(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


class Broke(Exception):
    """The provider's stream ended in any way but a proper one."""


class Naive:
    """Passes the provider's chunks on, and says `stop` at the end whatever happens."""

    def __init__(self, provider: str) -> None:
        self.url = f"{provider}/chat/completions"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not body.get("stream"):
            return await self.plain(body)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await self.stream(request, body, response)
        return response

    async def stream(self, request: web.Request, body: dict[str, Any], response: web.StreamResponse) -> None:
        try:
            async for chunk in self.chunks(body):
                await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        except Broke:
            pass
        await response.write(STOP)

    async def plain(self, body: dict[str, Any]) -> web.Response:
        text = ""
        try:
            async for chunk in self.chunks({**body, "stream": True}):
                text += text_of(chunk)
        except Broke:
            pass
        message = {"role": "assistant", "content": text}
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async def chunks(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The chunks of one answer without their finish. Raises Broke at the end of one that did not end well."""
        try:
            async with aiohttp.ClientSession() as client, client.post(self.url, json=body) as answer:
                async for line in answer.content:
                    if line.strip() == b"data: [DONE]":
                        return
                    if line.startswith(b"data: "):
                        chunk = json.loads(line[6:])
                        for choice in chunk.get("choices", []):
                            choice["finish_reason"] = None
                        yield chunk
        except BROKEN:
            raise Broke from None
        raise Broke


class Hangs(Naive):
    """Waits forever when the provider breaks."""

    async def stream(self, request, body, response):
        try:
            async for chunk in self.chunks(body):
                await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        except Broke:
            await asyncio.get_running_loop().create_future()
        await response.write(STOP)


class HangsUp(Naive):
    """Closes without a word when the provider breaks."""

    async def stream(self, request, body, response):
        try:
            async for chunk in self.chunks(body):
                await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        except Broke:
            return
        await response.write(STOP)


class StartsOver(Naive):
    """Asks again when the provider breaks, though the client was shown the beginning."""

    tries = 2

    async def stream(self, request, body, response):
        for _ in range(self.tries):
            try:
                async for chunk in self.chunks(body):
                    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                break
            except Broke:
                continue
        await response.write(STOP)


class Spends(Naive):
    """Shows nothing before it has a whole answer, and has five made to choose from."""

    async def stream(self, request, body, response):
        whole = []
        for _ in range(6):
            try:
                whole.append("".join([text_of(chunk) async for chunk in self.chunks(body)]))
            except Broke:
                continue
        await response.write(text_frame(whole[0]) + STOP)


class Skips(Naive):
    """Asks to go on behind what was shown, and loses some of it at the seam."""

    async def stream(self, request, body, response):
        shown = ""
        try:
            async for chunk in self.chunks(body):
                shown += text_of(chunk)
                await response.write(text_frame(text_of(chunk)))
        except Broke:
            more = [
                *body["messages"],
                {"role": "assistant", "content": shown},
                {"role": "user", "content": "go on"},
            ]
            rest = "".join([text_of(chunk) async for chunk in self.chunks({**body, "messages": more})])
            await response.write(text_frame(rest[20:]))
        await response.write(STOP)


class Remembers(Naive):
    """Knows finished answers by their keys, and begins a dropped one anew."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self.finished: dict[str, bytes] = {}

    async def stream(self, request, body, response):
        key = request.headers.get("idempotency-key", "")
        if key not in self.finished:
            sent = b""
            async for chunk in self.chunks(body):
                piece = b"data: " + json.dumps(chunk).encode() + b"\n\n"
                await response.write(piece)
                sent += piece
            self.finished[key] = sent
        else:
            await response.write(self.finished[key])
        await response.write(STOP)


class Runs(Naive):
    """An agent with two tools that mends cut arguments by closing what is open, and carries them out."""

    TOOLS = tuple(
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
            },
        }
        for name, properties in (
            ("write_file", {"path": {"type": "string"}, "content": {"type": "string"}}),
            ("shell", {"command": {"type": "string"}}),
        )
    )

    async def stream(self, request, body, response):
        messages = list(body["messages"])
        for _ in range(8):
            text, calls = await self.reply({**body, "messages": messages, "tools": self.TOOLS}, response)
            if not calls:
                break
            messages.append({"role": "assistant", "content": text, "tool_calls": list(calls.values())})
            for call in calls.values():
                done = await asyncio.to_thread(self.carry_out, call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": done})
        await response.write(STOP)

    async def reply(self, body, response) -> tuple[str, dict[str, Any]]:
        text = ""
        calls: dict[Any, Any] = {}
        try:
            async for chunk in self.chunks(body):
                if text_of(chunk):
                    text += text_of(chunk)
                    await response.write(text_frame(text_of(chunk)))
                for piece in (
                    chunk["choices"][0]["delta"].get("tool_calls", []) if chunk.get("choices") else []
                ):
                    call = calls.setdefault(
                        piece["index"], {"type": "function", "function": {"name": "", "arguments": ""}}
                    )
                    call["id"] = piece.get("id") or call["id"]
                    call["function"]["name"] += piece["function"].get("name") or ""
                    call["function"]["arguments"] += piece["function"].get("arguments") or ""
        except Broke:
            pass
        return text, calls

    def carry_out(self, function: dict[str, str]) -> str:
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:
            arguments = json.loads(function["arguments"].rstrip("\\") + '"}')
            function["arguments"] = json.dumps(arguments)
        if function["name"] == "shell":
            return subprocess.run(
                arguments["command"], shell=True, capture_output=True, text=True, check=False
            ).stdout
        Path(arguments["path"]).write_text(arguments["content"])
        return "Written."


def text_of(chunk: dict[str, Any]) -> str:
    choices = chunk.get("choices") or [{"delta": {}}]
    return choices[0]["delta"].get("content") or ""


@asynccontextmanager
async def open_server(server: Naive) -> AsyncIterator[str]:
    """The address of a server, until the block ends."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()

"""An MCP server that breaks on purpose, as a program (`python mcp_server.py`) and as a value. Standard
library only, so that it starts anywhere, also inside of a sandbox.

Its tools are named by what they do. `start` says how it begins: well, or in one of the ways in which servers
fail to.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

END = b""
"""In the place of a message: the server dies here."""
PICTURE = "iVBORw0KGgo="
_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_HINTS: dict[str, dict[str, bool]] = {"look": {"readOnlyHint": True}, "set": {"idempotentHint": True}}


class McpDouble:
    """`take` a message, and get what is answered. `calls` are the calls that were carried out."""

    def __init__(self, start: str = "well", lives: int = 0) -> None:
        self.start = start
        self.lives = lives
        """How often a server with this memory began before. One that dies once lives the second time."""
        self.calls: list[str] = []
        self.heard: list[str] = []
        self.extra: list[dict[str, Any]] = []

    def take(self, line: bytes) -> Iterator[bytes]:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method", "")
        self.heard.append(method or f"answer {message.get('error', {}).get('code', 'ok')}")
        if number is None or not method:
            return
        if method == "ping":
            yield from () if self.start == "deaf" else self._answer(number, {})
        elif method == "initialize":
            yield from self._initialize(number)
        elif method == "tools/list":
            yield from self._list(number, message.get("params", {}))
        elif method == "tools/call":
            yield from self._call(number, message["params"])
        else:
            yield _message(id=number, error={"code": -32601, "message": "no such method"})

    def _answer(self, number: Any, result: Any) -> Iterator[bytes]:
        yield _message(id=number, result=result)

    def _initialize(self, number: Any) -> Iterator[bytes]:
        version = {"old": "2024-11-05", "unknown": "1999-01-01"}.get(self.start, "2025-11-25")
        match self.start:
            case "hang":
                return
            case "die":
                yield END
            case "garbage":
                yield from [b"Welcome! This is not JSON.\n"] * 5
            case "noise":
                yield from [b"noise\n"] * 300
            case "stateless":
                yield _message(id=number, error={"code": -32022, "message": "which revision?"})
                return
        info = {"name": "double", "version": "1"}
        yield from self._answer(
            number, {"protocolVersion": version, "serverInfo": info, "capabilities": {"tools": {}}}
        )

    def _list(self, number: Any, params: dict[str, Any]) -> Iterator[bytes]:
        names = [name for name in vars(type(self)) if name.startswith("do_")]
        tools = [
            {
                "name": name[3:],
                "description": f"Does {name[3:]}{' otherwise' if self.start == 'reworded' else ''}.",
                "inputSchema": _SCHEMA,
                "annotations": _HINTS.get(name[3:]),
            }
            for name in names
        ]
        every = [*tools, *self.extra]
        at = int(params.get("cursor", 0))
        page = {"tools": every[at : at + 5]}
        yield from self._answer(number, {**page, "nextCursor": str(at + 5)} if at + 5 < len(every) else page)

    def _call(self, number: Any, params: dict[str, Any]) -> Iterator[bytes]:
        name, text = params["name"], str(params.get("arguments", {}).get("text", ""))
        do: Callable[[Any, str, Any], Iterator[bytes]] | None = getattr(self, f"do_{name}", None)
        if do is None:
            yield _message(id=number, error={"code": -32602, "message": f"there is no tool {name}"})
            return
        token = params.get("_meta", {}).get("progressToken")
        self.calls.append(name)
        yield from do(number, text, token)

    # Tools that work

    def do_echo(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _text(text))

    def do_look(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        """Read-only, it says; dies the first time."""
        yield from [END] if not self.lives else self._answer(number, _text(f"seen {text}"))

    def do_set(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from [END] if not self.lives else self._answer(number, _text(f"set {text}"))

    def do_picture(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
        link = {"type": "resource_link", "uri": "note://1", "name": "a note"}
        held = {"type": "resource", "resource": {"uri": "note://2", "text": "held"}}
        yield from self._answer(
            number, {"content": [{"type": "text", "text": text}, image, link, held, {"type": "x"}]}
        )

    def do_structured(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, {"content": [], "structuredContent": {"text": text}})

    def do_long(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _text("x" * int(text)))

    def do_progress(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        for part in (1, 2):
            yield _note("progress", progressToken=token, progress=part, total=2, message=f"part {part}")
        yield _note("message", level="info", data="a note")
        yield _note("tools/list_changed")
        yield from self._answer(number, _text("done"))

    def do_fail(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, {**_text("it is broken"), "isError": True})

    # Tools that attack

    def do_read(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _tried(lambda: _content(text)))

    def do_write(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _tried(lambda: _written(text)))

    def do_connect(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _tried(lambda: _connected(int(text))))

    def do_variables(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _text(json.dumps(dict(os.environ))))

    # Tools that break

    def do_hang(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from ()

    def do_die(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield END

    def do_half(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield _message(id=number, result=_text("whole"))[:20]
        yield END

    def do_refuse(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield _message(id=number, error={"code": -32000, "message": "\x1b[31mno\u202e"})

    def do_twice(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, _text("first"))
        yield from self._answer(number, _text("second"))

    def do_wrong(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        """Answers to every number but the right one."""
        for other in (number + 1, str(number), None, True, 1e300, [number]):
            yield from self._answer(other, _text("for somebody else"))

    def do_asks(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        wishes = ("sampling/createMessage", "roots/list", "elicitation/create", "ping")
        for place, method in enumerate(wishes):
            yield _message(id=f"mine-{place}", method=method, params={})
        yield from self._answer(number, _text("asked"))

    def do_mistyped(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from self._answer(number, {"content": "not a list"})

    def do_parts(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        """Millions of parts that are nothing."""
        yield b'{"id":%d,"result":{"content":[' % number + b"{}," * 1_000_000 + b"{}]}}\n"

    def do_flood(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        while True:
            yield _note("message", level="info", data="x" * 2000)

    def do_line(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        """One line without an end."""
        while True:
            yield b"x" * 60_000

    def do_noise(self, number: Any, text: str, token: Any) -> Iterator[bytes]:
        yield from [b"not JSON\n"] * 1000


def _message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def _note(method: str, **params: Any) -> bytes:
    return _message(method=f"notifications/{method}", params=params)


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _tried(attempt: Callable[[], str]) -> dict[str, Any]:
    try:
        return _text(attempt())
    except OSError as error:
        return _text(f"refused: {type(error).__name__}")


def _content(path: str) -> str:
    with open(path) as file:
        return file.read()


def _written(path: str) -> str:
    with open(path, "w") as file:
        file.write("mine")
    return "written"


def _connected(port: int) -> str:
    socket.create_connection(("127.0.0.1", port), 5).close()
    return "connected"


def main() -> None:
    """Serve on stdin and stdout. Arguments: how to start, and a file in which lives are counted."""
    start, memory = (*sys.argv[1:], "well", "")[:2]
    lives = 0
    if memory:
        with open(memory, "a+") as file:
            file.seek(0)
            lives = len(file.read())
            file.write("x")
    double = McpDouble(start, lives)
    for line in sys.stdin.buffer:
        for said in double.take(line):
            if said == END:
                sys.stderr.write("that was too much\n")
                sys.stderr.flush()
                os._exit(3)
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()
        if double.calls[-1:] == ["hang"]:
            time.sleep(3600)  # it does not even see that its input ends


if __name__ == "__main__":
    main()

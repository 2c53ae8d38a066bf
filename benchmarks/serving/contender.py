"""Somebody who is asked, and the asking: a job for the load's process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from serving.script import Script

HERE = Path(__file__).parents[1]
KEY = "a-key-of-the-benchmark-0123456789"
MODEL = "bench"
CHAT = "/v1/chat/completions"


class Contender(NamedTuple):
    """A port, the name of the model there, and the process whose cost is counted."""

    name: str
    port: int
    model: str
    pid: int

    def body(self, script: Script) -> str:
        return json.dumps(
            {"model": self.model, "stream": True, "messages": [{"role": "user", "content": str(script)}]}
        )

    def request(self, script: Script) -> bytes:
        return posted(self.port, CHAT, self.body(script))


def posted(port: int, path: str, body: str) -> bytes:
    """A request whose answer ends the connection."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer "
        f"{KEY}\r\nconnection: close\r\n"
    )
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


class Load:
    """One job for the load's process, which holds its streams until `close`."""

    def __init__(
        self, contender: Contender, script: Script | None, *, mode: str, streams: int = 1, path: str = CHAT
    ) -> None:
        job = {
            "port": contender.port,
            "path": path,
            "headers": {"authorization": f"Bearer {KEY}"},
            "body": contender.body(script) if script else "",
            "mode": mode,
            "streams": streams,
        }
        command = [sys.executable, "-m", "serving.load"]
        self.process = subprocess.Popen(command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        assert self.process.stdout
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def close(self) -> None:
        self.process.communicate()


def told_by(contender: Contender, script: Script, *, mode: str, streams: int = 1) -> dict[str, Any]:
    load = Load(contender, script, mode=mode, streams=streams)
    try:
        return load.result()
    finally:
        load.close()

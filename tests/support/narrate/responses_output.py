"""Runs as responses, and the parts of what was written."""

import contextlib

import msgspec
from support.narrate.sample_runs import RUN, frames, run_named, whole

from turnbuckle.server.faces.responses.renderer import ResponsesRenderer
from turnbuckle.server.faces.responses.socket import SocketMessages

CREATED = 1_790_000_000


def response(**options):
    return ResponsesRenderer(RUN, model="agent", created=CREATED, **options)


def rendered(name, **options):
    return whole(response(**options), run_named(name))


def events(data):
    read = frames(data)
    assert all(name == body["type"] for name, body in read)
    return [body for _, body in read]


class _Messages:
    """The other end of a WebSocket."""

    def __init__(self):
        self.events = []

    async def send(self, text):
        self.events.append(msgspec.json.decode(text))


def socket_events(run):
    """The same events as a WebSocket has them, one message each."""
    other_end, dialect = _Messages(), response()
    messages = SocketMessages(other_end)
    for body in (dialect.open(), *(dialect.take([item]) for item in run)):
        with contextlib.suppress(StopIteration):  # it waits for nothing
            messages.send({"type": "http.response.body", "body": body}).send(None)
    return other_end.events


def final(name, **options):
    return events(rendered(name, **options))[-1]["response"]


def outline(output):
    """The kinds of items, with what tells them apart."""
    made = []
    for item in output:
        match item["type"]:
            case "message":
                (part,) = item["content"]
                made.append(("says", part.get("text", part.get("refusal"))))
            case "reasoning":
                made.append(("thinks", "".join(part["text"] for part in item["summary"])))
            case "mcp_call":
                made.append(("runs", item["name"]))
            case "function_call":
                made.append(("calls", item["call_id"]))
            case "function_call_output":
                made.append(("gets", item["call_id"]))
    return made

"""Runs as messages of Anthropic's API, the parts of what was written, and the rules that any such stream keeps."""

from typing import Any

import msgspec
from support.narrate.sample_runs import RUN, frames, run_named, whole

from turnbuckle.server.faces.messages.renderer import MessagesRenderer, WholeMessageRenderer

ENDS = ("message_stop", "error")
STARTS = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
_GROWS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("text", "citations"),
}


def message(**options):
    return MessagesRenderer(RUN, model="agent", **options)


def whole_message(run, **options):
    page = WholeMessageRenderer(RUN, model="agent", **options)
    assert page.take(run) == b""
    return page.answer()


def rendered(name, **options):
    return whole(message(**options), run_named(name))


def asides(data, what):
    found = [body.get("turnbuckle", {}) for name, body in frames(data) if name == "ping"]
    return [about[what] for about in found if what in about]


class MessageReader:
    """Folds events to the message that they are, or to the error that they end with, by the rules of the wire."""

    def __init__(self):
        self.made: Any = None
        self.last = ""
        self.content = []
        self._open: Any = None
        self._pieces = []

    def take(self, name, body):
        assert body["type"] == name
        assert self.last not in ENDS, "nothing may come behind the end"
        self.last = name
        match name:
            case "ping":
                pass
            case "message_start":
                assert self.made is None
                assert body["message"]["content"] == []
                assert body["message"]["stop_reason"] is None
                self.made = {**body["message"], "content": self.content}
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._block(name, body)
            case "message_delta":
                assert self._open is None
                self.made |= {**body["delta"], "usage": body["usage"], "turnbuckle": body["turnbuckle"]}
            case "message_stop":
                assert self.made["stop_reason"] is not None
            case "error":
                assert set(body["error"]) == {"type", "message", "details"}
                self.made = dict(body)
            case "message_progress":
                pass  # of a provider, and of tomorrow: it goes through as it came
            case _:
                raise AssertionError(f"{name} is no event of this protocol")

    def _block(self, name, body):
        if name == "content_block_start":
            assert self._open is None, "one block at a time"
            assert body["index"] == len(self.content)
            self._open, self._pieces = dict(body["content_block"]), []
            self.content.append(self._open)
            assert self._open == STARTS.get(self._open["type"], self._open)
            assert self._open.get("input", {}) == {}
            return
        assert body["index"] == len(self.content) - 1
        if name == "content_block_delta":
            self._grow(self._open, body["delta"])
            return
        if self._pieces:
            self._open["input"] = msgspec.json.decode("".join(self._pieces))  # whole, or it is no call
        self._open = None

    def _grow(self, block, delta):
        kind = delta["type"]
        if kind == "input_json_delta":
            assert block["type"].endswith("tool_use")
            self._pieces.append(delta["partial_json"])
            return
        if kind == "tone_delta":
            return  # of a provider, and of tomorrow
        of, field = _GROWS[kind]
        assert block["type"] == of
        if kind == "citations_delta":
            block.setdefault(field, []).append(delta["citation"])
        elif kind == "signature_delta":
            assert block[field] == "", "signed once"
            block[field] = delta["signature"]
        else:
            assert not block.get("signature")
            block[field] += delta[field]


def read_message(data, *, ended=True):
    """All of a stream. With `ended` false it may break off between two frames, and what is there is still legal."""
    reader = MessageReader()
    for name, body in frames(data):
        reader.take(name, body)
    assert reader.last in ENDS or not ended
    return reader


def texts(content):
    return [block["text"] for block in content if block["type"] == "text"]


def tools(content):
    """Name and end of each of our own tools, in the order of their ends."""
    names = {block["id"]: block["name"] for block in content if block["type"] == "mcp_tool_use"}
    ends = [block for block in content if block["type"] == "mcp_tool_result"]
    assert len(ends) == len(names)
    return tuple((names[end["tool_use_id"]], "" if end["is_error"] else "finished") for end in ends)

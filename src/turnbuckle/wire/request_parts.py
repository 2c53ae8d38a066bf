"""What the requests of several protocols have in common."""

import re
from typing import Any

from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.request import HostedTool

LOGPROBS = "message.output_text.logprobs"
"""How Responses calls what Chat Completions calls `logprobs`."""
_DATA_URL = re.compile(r"data:([^;,]*);base64,", re.ASCII)
_INT32 = 1 << 31


def object_of(arguments: str) -> dict[str, Any]:
    """A call's arguments as an object, where the wire wants one; what is none is wrapped into one."""
    value = judge(arguments).value
    return value if value is not None else {"_malformed": arguments}


def inline_data(url: str, media_type: str) -> tuple[str, str] | None:
    """The media type and the base64 text of an address that holds its content; None for any other."""
    inline = _DATA_URL.match(url)
    return (inline[1] or media_type, url[inline.end() :]) if inline else None


def with_hosted(tools: list[dict[str, Any]], hosted: tuple[HostedTool, ...]) -> list[dict[str, Any]]:
    """The tools, with those of the provider's own where the client had put them."""
    for tool in hosted:
        tools.insert(tool.place, tool.state.data)
    return tools


def overlay(body: dict[str, Any], extra: dict[str, Any]) -> None:
    """Put what only this protocol knows into a body. Objects are joined, since we may own a part of one."""
    for key, value in extra.items():
        ours = body.get(key)
        body[key] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, dict) else value


def fits_elsewhere(name: str, value: Any) -> bool:
    """Whether others take this value, too. Chat hosts know a `top_k` of -1 or 0 as none, and longer seeds; a
    provider that refuses them would fail what goes well without."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if name == "top_k":
        return isinstance(value, int) and value > 0
    return name != "seed" or -_INT32 <= value < _INT32

"""Where the API keeps a prompt for the next request: at most four places of a body are marked.

Marked are the end of the tools, the end of the system prompt, the last message, and the last of the user's
messages before it. The last mark is where the next request finds what this one has written; the one before it
is where this one finds what the last one wrote, however much a round of tools has added: the API looks back
only some twenty blocks from a mark. What is marked says the same without its mark, so that each request still
begins with the one before.

A client that marks its own body knows better: then nothing is added. Clients of Chat Completions mark theirs
by the same field, since gateways to this API read it there.
"""

from typing import Any

from turnbuckle.vocab.messages import ProviderState

MARK = {"type": "ephemeral"}
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def mark(body: dict[str, Any]) -> None:
    """Mark the places of a body, unless somebody has done so."""
    if _is_marked(body):
        return
    if body.get("tools"):
        body["tools"][-1]["cache_control"] = MARK
    if isinstance(body.get("system"), str):
        body["system"] = [{"type": "text", "text": body["system"], "cache_control": MARK}]
    elif body.get("system"):
        body["system"][-1]["cache_control"] = MARK
    messages = body["messages"]
    users = [message for message in messages[:-1] if message["role"] == "user"]
    for message in (*users[-1:], *messages[-1:]):
        block = next((one for one in reversed(message["content"]) if one["type"] not in _UNMARKABLE), None)
        if block is not None:
            block["cache_control"] = MARK


def mark_of(state: ProviderState | None) -> dict[str, Any]:
    """The mark that a client of another protocol has set on a tool, or on the function in it."""
    data = state.data if state is not None else {}
    function = data.get("function")
    for holder in (data, function if isinstance(function, dict) else {}):
        if isinstance(holder.get("cache_control"), dict):
            return {"cache_control": holder["cache_control"]}
    return {}


def _is_marked(body: dict[str, Any]) -> bool:
    if "cache_control" in body:
        return True
    system = body.get("system")
    blocks = [*body.get("tools", ()), *(system if isinstance(system, list) else ())]
    blocks += [block for message in body["messages"] for block in message["content"]]
    return any("cache_control" in block for block in blocks if isinstance(block, dict))

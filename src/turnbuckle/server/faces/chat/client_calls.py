"""Calls that a chat client runs, as it reads them: with all that their provider said of them, if that speaks
this protocol, too."""

from typing import Any

from turnbuckle.turn.facts import HandedCall
from turnbuckle.vocab.free_text import unwrapped

_OWN = ("index", "id", "type", "function", "custom")


def chat_call(call: HandedCall, *, native: bool) -> dict[str, Any]:
    """A whole call. `native`: what its provider noted of it is of this protocol."""
    state = call.state if native else {}
    beside = {name: value for name, value in state.items() if name not in _OWN}
    kind = "custom" if call.free_text else "function"
    within = state.get(kind)
    within = dict(within) if isinstance(within, dict) else {}
    if call.free_text:
        called = {**within, "name": call.name, "input": unwrapped(call.arguments)}
    else:
        called = {**within, "name": call.name, "arguments": call.arguments or "{}"}
    return {**beside, "id": call.id, "type": kind, kind: called}

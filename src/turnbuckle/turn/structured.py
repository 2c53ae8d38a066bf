"""Answers that the caller wants as one JSON document, perhaps of a certain form.

A cut document is gone on with without the constraint: with it, the provider would begin a second document. So
what leaves may be anything, and is checked here as a whole: it is one document that fits, or the turn says
that it is not.
"""

from typing import Any

import jsonschema_rs
import msgspec
from msgspec.structs import replace

from turnbuckle.turn.facts import GiveUp
from turnbuckle.turn.prompts import joint_of
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.messages import Message

NOT_THE_DOCUMENT = "the answer is not the JSON document that was asked for"
_MOST = 200  # characters about what does not fit


def constraint(turn: Turn, notes: tuple[Message, ...]) -> dict[str, Any] | None:
    """The form that a request asks for; none where it asks for the rest of what was begun."""
    goes_on = bool(turn.shown) and joint_of(notes).anchor is not None
    return None if goes_on else turn.options.response_format


def ending(turn: Turn, text: str) -> Turn:
    """The turn ends with this text behind what was shown."""
    ended = replace(turn, phase="ending", open_text=(*turn.open_text, text))
    fault = fault_in(ended.shown, turn.options.response_format)
    if not fault or turn.giving_up is not None:
        return ended
    return replace(ended, giving_up=GiveUp("partial", f"{NOT_THE_DOCUMENT}: {fault}"))


def fault_in(text: str, wanted: dict[str, Any] | None) -> str:
    """What is wrong with an answer of a wanted form; empty if it fits, or if no form was wanted."""
    if wanted is None:
        return ""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"it cannot be read ({str(error)[:_MOST]})"
    if wanted.get("type") == "json_object":
        return "" if isinstance(document, dict) else "it is not an object"
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not isinstance(schema, dict):
        return ""
    try:
        misfit = next(iter(jsonschema_rs.validator_for(schema, offline=True).iter_errors(document)), None)
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError):
        return ""  # a schema that nobody can read asks for nothing
    if misfit is None:
        return ""
    where = ".".join(str(step) for step in misfit.instance_path)
    return f"{where}: {misfit.message}"[:_MOST] if where else misfit.message[:_MOST]

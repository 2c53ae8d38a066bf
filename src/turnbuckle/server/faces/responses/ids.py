"""Ids of responses: the run's id, with what the protocol wants in front of it."""

import re

from turnbuckle.service.owners import run_id
from turnbuckle.vocab.ids import RunId

_RESPONSE = "resp_"
_ITEM = re.compile(r"[a-z]+_(.+)_[0-9]+")
_INTO = "."
"""Between a run and the message that was said into it: the answer to that is a response of its own."""


def response_id(run: RunId, message: str = "") -> str:
    """The id of a run's response, or of the one that answers a message that was said into the run."""
    return f"{_RESPONSE}{run}{_INTO}{message}" if message else _RESPONSE + run


def run_of_response(response: str) -> RunId | None:
    """The run behind a response's id; None if it cannot be one of ours."""
    run, _, _ = response.removeprefix(_RESPONSE).partition(_INTO)
    return run_id(run) if response.startswith(_RESPONSE) else None


def message_of_response(response: str) -> str:
    """The message that a response answers, if it was said into a run that was under way."""
    return response.partition(_INTO)[2]


def response_of_item(item: str) -> str | None:
    """The id of the response that an output item belongs to; None if it cannot be one of ours."""
    named = _ITEM.fullmatch(item)
    return f"{_RESPONSE}{named[1]}" if named and run_of_response(f"{_RESPONSE}{named[1]}") else None

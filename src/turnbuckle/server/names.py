"""Ids as clients see them, and what they are inside.

A session's public id is the client's own word. Inside, it begins with the owner, so that no owner can name another's
session; only the owner `local`, who is everybody on a machine without keys, has the same id in both places, as the
command line has. Ids of answers are the run's id with what the protocol wants in front of it.
"""

import re

from turnbuckle.server.http import Problem
from turnbuckle.vocab.ids import RunId, SessionId

LOCAL = "local"
RESERVED = ("import", ".", "..")
"""What stands at the place of a session's id in an address of its own, and what no address can hold there."""
_PUBLIC = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_RUN = re.compile(r"[A-Za-z0-9._-]{1,100}")
_RESPONSE = "resp_"
_ITEM = re.compile(r"[a-z]+_(.+)_[0-9]+")
_INTO = "."
"""Between a run and the message that was said into it: the answer to that is a response of its own."""


def session_id(owner: str, public: str, *, param: str = "X-Turnbuckle-Session") -> SessionId:
    """The id inside. Raises Problem if the public one is none."""
    if not _PUBLIC.fullmatch(public) or public in RESERVED:
        names = ", ".join(RESERVED)
        message = f"{param} must have 1 to 128 of the characters A-Z a-z 0-9 . _ : - and be none of these: {names}"
        raise Problem(400, message, param=param, code="invalid_session_id")
    return SessionId(public if owner == LOCAL else f"{owner}/{public}")


def public_session(owner: str, session: str) -> str:
    """The id outside."""
    return session if owner == LOCAL else session.removeprefix(f"{owner}/")


def response_id(run: RunId, message: str = "") -> str:
    """The id of a run's response, or of the one that answers a message that was said into the run."""
    return f"{_RESPONSE}{run}{_INTO}{message}" if message else _RESPONSE + run


def run_of_response(response: str) -> RunId | None:
    """The run behind a response's id; None if it can not be one of ours."""
    run, _, _ = response.removeprefix(_RESPONSE).partition(_INTO)
    return run_id(run) if response.startswith(_RESPONSE) else None


def message_of_response(response: str) -> str:
    """The message that a response answers, if it was said into a run that was under way."""
    return response.partition(_INTO)[2]


def response_of_item(item: str) -> str | None:
    """The id of the response that an output item belongs to; None if it can not be one of ours."""
    named = _ITEM.fullmatch(item)
    return f"{_RESPONSE}{named[1]}" if named and run_of_response(f"{_RESPONSE}{named[1]}") else None


def run_id(text: str) -> RunId | None:
    """A run's id as a client sent it; None if no run can have it, so that the journal need not be asked."""
    return RunId(text) if _RUN.fullmatch(text) else None

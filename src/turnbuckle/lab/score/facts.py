"""What one play of the scorecard was and what came of it, as values, so that each grade is a function of
nothing else.

A play is one request of a client to the server under test. `Expectation` says what a good server makes of it,
`ProviderAttempt` what the provider was asked and had sent each time, `Heard` what the client got.
"""

from typing import Any, Literal

from msgspec import Struct

End = Literal["done", "error", "closed", "broken", "silent", "flood"]
"""How the answer ended for the client: finish and [DONE], or a whole document; an error that was told; a
close without a last word; a connection that broke off; nothing in time; more than any answer has."""

Traces = Literal["", "none", "half", "whole"]
"""What is in the folder for traces: nobody looked, nothing, something that only a cut call can have left, the
whole."""


class SeenCall(Struct, frozen=True):
    """A call as somebody has it: argument text, sound or not."""

    id: str
    name: str
    arguments: str


class Heard(Struct, frozen=True):
    """What the client got. `finish` is as it was spelt; `error` what was told of an error."""

    end: End
    text: str = ""
    calls: tuple[SeenCall, ...] = ()
    finish: str = ""
    error: str = ""
    status: int = 200
    seconds: float = 0.0
    plain: bool = False


class SentResult(Struct, frozen=True):
    """A tool's result in a request to the provider."""

    call: str
    text: str


class ProviderAttempt(Struct, frozen=True):
    """One request to the provider: the results that it brought, and what was really sent for it."""

    text: str = ""
    calls: tuple[SeenCall, ...] = ()
    results: tuple[SentResult, ...] = ()
    ended: bool = False

    @property
    def characters(self) -> int:
        """What the model generated, paid for whether it was of use or not."""
        return len(self.text) + sum(len(call.arguments) for call in self.calls)


class Expectation(Struct, frozen=True):
    """What a good server makes of a play. `calls`: arguments of the calls that the client is to get, if it
    runs them.

    `cut_call`: somewhere a call is cut. `writes`: in the end all is in the folder for traces. `own_tools`:
    the server itself carries calls out. `heals`: the whole can arrive. `requests` and `characters`: what a
    careful server needs of the provider.
    """

    answer: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    cut_call: bool = False
    writes: bool = False
    own_tools: bool = False
    heals: bool = True
    requests: int = 1
    characters: int = 0


class Again(Struct, frozen=True):
    """A request that was dropped and repeated under its key. `offered`: a repeat of a finished one was not
    done again. `anew`: requests to the provider beyond those that the finished one took."""

    offered: bool
    anew: int


class Played(Struct, frozen=True):
    """One play, all of it. `idle` says why it could not be played at all."""

    wanted: Expectation
    heard: Heard
    attempts: tuple[ProviderAttempt, ...] = ()
    traces: Traces = ""
    again: Again | None = None
    idle: str = ""

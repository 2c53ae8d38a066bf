"""The three protocols as the lab speaks them: an encoder each, and the path where clients look for it."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from turnbuckle.vocab import ids
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.anthropic import encode as anthropic
from turnbuckle.wire.openai_chat import encode as openai_chat
from turnbuckle.wire.openai_responses import encode as openai_responses


class Encoder(Protocol):
    """Events in, bytes out."""

    def open(self) -> bytes: ...

    def event(self, event: Event) -> bytes: ...


class Answer(Protocol):
    """A whole reply as the protocol's plain document."""

    def __call__(self, reply: Reply, *, created: int) -> dict[str, Any]: ...


class Dialect(Struct, frozen=True):
    """How one protocol is spoken. `encoder` takes the reply's id, the model, and when it was created."""

    protocol: ids.Protocol
    path: str
    encoder: Callable[[str, str, int], Encoder]
    answer: Answer
    error_body: Callable[[Failure], dict[str, Any]]


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "openai_chat", "/v1/chat/completions", openai_chat.StreamEncoder, openai_chat.answer, openai_chat.error_body
    ),
    Dialect(
        "openai_responses",
        "/v1/responses",
        openai_responses.StreamEncoder,
        openai_responses.answer,
        openai_responses.error_body,
    ),
    Dialect("anthropic", "/v1/messages", anthropic.StreamEncoder, anthropic.answer, anthropic.error_body),
)


def dialect_of(protocol: ids.Protocol) -> Dialect:
    return next(dialect for dialect in DIALECTS if dialect.protocol == protocol)


def dialect_at(path: str) -> Dialect | None:
    """By a request's path, with or without the version in front."""
    path = path.rstrip("/")
    return next((dialect for dialect in DIALECTS if path in (dialect.path, dialect.path.removeprefix("/v1"))), None)

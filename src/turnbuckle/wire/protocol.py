"""The seam: what a protocol is. Each folder of `wire` exports one such value; `registry.py` has them by name.

Whoever speaks to a provider, plays one, or tells a history to one asks the value. Nobody compares names.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from typing import Protocol as Interface

from msgspec import Struct

from turnbuckle.vocab.events import Event
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.request import ModelRequest, RunOptions, ToolSpec
from turnbuckle.wire.decoder import ProtocolDecoder

Fields = Mapping[str, Any]
QUIRKS_OF_ALL = frozenset({"drafts", "text_after_tools"})
"""Quirks that every protocol has."""


def bearer_headers(api_key: str, quirks: Quirks) -> dict[str, str]:
    """The headers of a request where a key is a bearer token."""
    headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    return headers


def says_all(options: RunOptions, quirks: Quirks) -> Iterable[str]:
    """The `unsaid` of a protocol that has words for every wish."""
    return ()


class OtherWords(dict[str, Any]):
    """Fields in the words of another protocol. `of` are the names of those that they stand for."""

    def __init__(self) -> None:
        super().__init__()
        self.of: set[str] = set()

    def say(self, said: Fields, *names: str) -> None:
        self.update(said)
        self.of.update(names)


def adopts_nothing(fields: Fields, quirks: Quirks, words: OtherWords) -> None:
    """The `adopt` of a protocol that has no words for fields of others."""


def has_none(where: str, data: Fields) -> list[Any]:
    """The `token_odds` and the `untold_fields` of a protocol that has none."""
    return []


class StreamEncoder(Interface):
    """Events in, bytes out: whole frames."""

    def open(self) -> bytes: ...

    def event(self, event: Event) -> bytes: ...


class AnswerEncoder(Interface):
    """A whole reply as the protocol's plain document."""

    def __call__(self, reply: Reply, *, created: int) -> dict[str, Any]: ...


class Encoding(Struct, frozen=True):
    """How replies are written. `stream` takes the reply's id, the model, and when it was created."""

    stream: Callable[[str, str, int], StreamEncoder]
    answer: AnswerEncoder
    error_body: Callable[[Failure], dict[str, Any]]
    relabel: Callable[[dict[str, Any], str | None], None]
    """Put another word, or none, where a document gives its reason to stop. For doubles, which must be able
    to lie."""
    finish_words: Mapping[Any, str]
    """Our words for a finish in the protocol's, where they differ."""
    error_frame: Callable[[Failure, str, int], bytes] | None = None
    """An error inside a stream in another shape than the encoder's own, where the protocol has several."""


class ReceivedRequest(Struct, frozen=True):
    """What a client asked for, read as far as it can be: whoever plays a provider refuses nobody."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


def served_at(address: str) -> Callable[[str], dict[str, Any] | None]:
    """The `serves` of a protocol whose path says nothing but where it is."""
    return lambda path: {} if path == address else None


class Counting(Struct, frozen=True):
    """How tokens are counted: where, for a model; the body that is sent there; and the field of the answer
    that has the number."""

    endpoint: Callable[[str], str]
    build: Callable[[ModelRequest, Quirks], dict[str, Any]]
    field: str


class Protocol(Struct, frozen=True, kw_only=True):
    """One language of model providers, complete."""

    name: ProtocolName
    provider: str
    """Whose protocol it is, in the words of OpenTelemetry's `gen_ai.provider.name`."""
    base_path: str = "/v1"
    """Under which it is served where an address is a bare host."""

    # Asking
    endpoint: Callable[[ModelRequest], str]
    """Where to send it, behind the base address."""
    counting: Counting | None = None
    """How its providers count the tokens of a request without answering it, if they do."""
    headers: Callable[[str, Quirks], dict[str, str]]
    build: Callable[[ModelRequest, Quirks], dict[str, Any]]
    unsaid: Callable[[RunOptions, Quirks], Iterable[str]] = says_all
    """The names of options, as they are given, for which it has no words. `build` leaves them out."""
    history_field: str
    """The field of a body that holds the conversation, message by message."""
    rules: HistoryRules
    quirks: frozenset[str]
    """The fields of `Quirks` that mean anything here."""

    # Reading
    decoder: Callable[[Quirks], ProtocolDecoder]
    several_decoder: Callable[[Quirks], ProtocolDecoder] | None = None
    """Reads the answer to a request for several, where the protocol has such."""
    streams_arguments: bool = True
    """Arguments of a call come in pieces; else a call is there whole, or not at all."""
    texts_are_messages: bool = False
    """Another block of text is another message, not the next piece of the same one."""
    texts_are_blocks: bool = False
    """Blocks of text have something of their own, such as what they cite, and stay apart for whoever asks."""

    # Beside other protocols
    shared_fields: frozenset[str] = frozenset()
    """Fields of a client's request that providers of other protocols may be told in their own words."""
    adopt: Callable[[Fields, Quirks, OtherWords], None] = adopts_nothing
    """Say what its providers can be told of the shared fields of another protocol's client."""
    option_names: Mapping[str, str] = {}
    """How clients call our options, where that is another name."""
    can_forbid_thinking: bool = True
    """A model can be told not to think. Else half of the models refuse it, and nothing is said instead."""
    citations_field: str = "annotations"
    """Where the state of a text has the pages that it refers to."""
    token_odds: Callable[[str, Fields], Any] = has_none
    """How likely the tokens of the next piece of text were, from fields of an answer and where they stood, in
    the form of both of OpenAI's protocols."""
    untold_fields: Callable[[str, Fields], Iterable[str]] = has_none
    """The names of what an answer says in fields of which no other protocol knows, such as its pictures."""

    # Playing a provider
    path: str
    """Where clients look for it, for people to read."""
    serves: Callable[[str], dict[str, Any] | None]
    """Whether requests of this protocol come to a path (behind `base_path`): what the path says that is not
    in the body, or None."""
    read_request: Callable[[dict[str, Any]], ReceivedRequest]
    encoding: Encoding

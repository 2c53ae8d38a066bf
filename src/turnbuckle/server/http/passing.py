"""What of a client's request goes on to the provider, and how the client is told of what does not.

To a route of the client's own protocol everything goes as it came, fields and headers alike, known or not.
To any other route goes what can be said in its protocol. What is left is named in `X-Turnbuckle-Left-Out`, or
the request is refused, where the client or the settings are strict about it. The server's own agent is no
relay: it speaks for itself, so neither headers nor fields that nobody knows go with its requests.

Never passed, and not named, since they are about this connection or this server: what `_OURS` lists. A header
that looks like a secret is never passed, and is named: the keys of routes are in the settings.
"""

import re
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.server.http.exchange import Exchange, Headers, Problem
from turnbuckle.service.catalog import ModelChoice
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.request import RunOptions
from turnbuckle.wire.other_words import in_words_of, named_by_client
from turnbuckle.wire.protocol import OtherWords
from turnbuckle.wire.registry import PROTOCOLS

LEFT_OUT = "x-turnbuckle-left-out"
STRICT = "x-turnbuckle-strict"
ROUTE = "x-turnbuckle-route"
LONGEST = 1000
"""Characters of the list: some clients and proxies give up at 8,000 for all headers."""
_MOST_HEADERS, _LONGEST_HEADER = 64, 4096

# Of this connection, of the hops between, of the body that we write ourselves, or read by this server.
_OURS = frozenset(
    (
        "accept accept-charset accept-encoding access-control-request-headers access-control-request-method "
        "authorization cache-control connection content-encoding content-length content-type date dnt expect "
        "forwarded host idempotency-key keep-alive last-event-id origin pragma priority proxy-connection "
        "range referer te trailer transfer-encoding upgrade upgrade-insecure-requests via x-api-key "
        "x-real-ip x-request-id"
    ).split()
)
_OUR_KINDS = ("x-turnbuckle-", "x-forwarded-", "proxy-", "sec-", "cf-", "if-", "x-amzn-", "x-envoy-", "fly-")
# A name that only says of which kind a secret is (`x-…-auth-type`) is none itself.
_SECRET = re.compile(
    r"(?!.*-(?:type|scheme|method|mode)$).*(?:key|token|secret|auth|cookie|passw|credential|signature)"
)
# About the client's program, and of no meaning to a model: nobody misses them.
_LABELS = re.compile(
    r"user-agent|accept-language|x-stainless-.*|traceparent|tracestate|baggage|x-app|x-title"
)


class PassedOn(Struct, frozen=True):
    """The options with what goes along, and the names of what does not."""

    options: RunOptions
    left_out: tuple[str, ...] = ()

    @property
    def headers(self) -> Headers:
        """What the answer says of it."""
        return with_left_out((), self.left_out)


class ReceivedFields(Protocol):
    """A request, by the names of what only providers of its protocol take (`only_here`), and of the fields
    among it that nobody here knows."""

    @property
    def only_here(self) -> tuple[str, ...]: ...
    @property
    def unknown(self) -> tuple[str, ...]: ...


def passed_on(
    exchange: Exchange,
    chosen: ModelChoice,
    protocol: ProtocolName,
    options: RunOptions,
    received: ReceivedFields,
    *,
    strict: bool = False,
    prefills: bool = False,
) -> PassedOn:
    """What goes on to the chosen route of a request in this protocol. `prefills`: the last message is the
    assistant's. Raises Problem if something does not go on and the client is strict about it."""
    wants_strict = _is_strict(exchange)
    unknown = received.unknown
    headers, withheld = passable(exchange.headers)
    given = options.extra.get(protocol, {})
    others: dict[ProtocolName, OtherWords] = {}
    if given:  # mostly there is nothing to be said in other words
        others = {
            name: in_words_of(name, protocol, given, chosen.quirks) for name in PROTOCOLS if name != protocol
        }
    left: list[str] = []
    if chosen.protocol != protocol:
        left = list(received.only_here)
        if chosen.protocol is not None:
            there = PROTOCOLS[chosen.protocol]
            said = others[chosen.protocol].of if others else set()
            left = [
                name
                for name in received.only_here
                if name not in said and not _is_mark(name, there.rules.cache_mark)
            ]
            left += named_by_client(protocol, there.unsaid(options, chosen.quirks))
    if chosen.own_tools:
        given = {name: value for name, value in given.items() if name not in unknown}
        left += [name for name in unknown if name not in left]
    else:
        options = replace(
            options,
            headers={protocol: headers} if headers else {},
            prefilled=protocol if prefills else None,
        )
        left += withheld
        if chosen.protocol != protocol:
            left += [name for name in headers if not _LABELS.fullmatch(name)]
    # The client's own protocol stands first: by it is known what it speaks.
    extra = {protocol: given, **{name: dict(words) for name, words in others.items()}}
    options = replace(options, extra={name: fields for name, fields in extra.items() if fields})
    if (strict or wants_strict) and left:
        raise Problem(
            400,
            f"not passed on to {chosen.name}: {', '.join(left)[:LONGEST]}. Leave it out, or do not ask for a "
            "strict relay.",
            param=left[0],
            code="not_passed_on",
        )
    return PassedOn(options, tuple(left))


def _is_mark(name: str, mark: str) -> bool:
    """Whether a client has marked a part, a message or a tool for a cache, in the one way that there is."""
    return bool(mark) and name.endswith(f".{mark}")


def with_left_out(headers: Headers, names: tuple[str, ...]) -> Headers:
    """The headers, with these among the names of what was left out."""
    if not names:
        return headers
    known = [value for name, value in headers if name == LEFT_OUT]
    named = ", ".join([*known, *names])
    named = named if len(named) <= LONGEST else f"{named[: LONGEST - 3]}..."
    return (*((name, value) for name, value in headers if name != LEFT_OUT), (LEFT_OUT, named))


def route_header(route: str) -> Headers:
    """Which route answers, once that is known: another than the one asked for may stand in for it."""
    return ((ROUTE, route),) if route else ()


def passable(headers: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The headers that may go to a provider, and the names of those that look like secrets."""
    passed: dict[str, str] = {}
    withheld: list[str] = []
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    for name, value in headers.items():
        if name in _OURS or name in named or name.startswith(_OUR_KINDS):
            continue
        if _SECRET.match(name) or len(value) > _LONGEST_HEADER or len(passed) >= _MOST_HEADERS:
            if name != "cookie":
                withheld.append(name)
        else:
            passed[name] = value
    return passed, tuple(withheld)


def _is_strict(exchange: Exchange) -> bool:
    match exchange.headers.get(STRICT, "").strip().lower():
        case "" | "false":
            return False
        case "true":
            return True
        case _:
            message = "X-Turnbuckle-Strict must be true or false"
            raise Problem(400, message, param="X-Turnbuckle-Strict", code="invalid_value")

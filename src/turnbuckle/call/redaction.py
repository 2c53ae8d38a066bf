"""What a provider says beside its reply, without our own keys.

Some servers, and more proxies, repeat the request in their error texts, and its Authorization header with it.
Those texts are kept in the journal, shown to readers and logged. So they are cleaned here, where the keys of
the route are known and before anybody else has seen them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from turnbuckle.call.routes import Route
from turnbuckle.vocab.events import ChoiceNoted, Cut, Event, FieldsNoted, FinishNoted, Skipped, StageNoted
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.redaction import Redactor, redactor_of, secrets_in_headers, secrets_in_url
from turnbuckle.wire.failures import SAID
from turnbuckle.wire.payload import SAMPLE

_SPACES = 8
_LONGEST, _MOST = 1_000, 50
"""Characters of a header that goes to the client, and how many of them do."""
_FOREIGN = (Cut, Skipped, FinishNoted, FieldsNoted, StageNoted, ChoiceNoted)


def discreet(events: list[Event], route: Route) -> list[Event]:
    """The same events; the texts that are not the model's own hold no secret of this route."""
    if not any(isinstance(event, _FOREIGN) for event in events):
        return events
    redactor = _redactor_of(route)
    return [_discreet(event, redactor) if isinstance(event, _FOREIGN) else event for event in events]


_known: list[tuple[Route, Redactor]] = []
"""Of the routes that were asked last."""
_MOST_KNOWN = 16


def _redactor_of(route: Route) -> Redactor:
    for known, redactor in _known:
        if known is route:
            return redactor
    redactor = redactor_of(secrets_of_route(route))
    _known.insert(0, (route, redactor))
    del _known[_MOST_KNOWN:]
    return redactor


def secrets_of_route(route: Route) -> frozenset[str]:
    """The key, secret headers, and what the address holds beside the host."""
    headers = secrets_in_headers(route.headers)
    return frozenset({route.api_key.reveal(), *headers, *secrets_in_url(route.base_url)})


def _discreet(event: Event, redactor: Redactor) -> Event:
    match event:
        case Cut(told):
            return Cut(_failure(told, redactor))
        case Skipped(why, sample, harmless):
            return Skipped(redactor.message(why), _sample(sample, SAMPLE, redactor), harmless)
        case FinishNoted(finish, said, detail):
            return FinishNoted(finish, redactor.message(said), redactor.message(detail))
        case FieldsNoted(where, data) if where != "piece":
            return FieldsNoted(where, _values(data, redactor))
        case StageNoted(item, data):
            return StageNoted(item, _values(data, redactor))
        case ChoiceNoted(index, data):
            return ChoiceNoted(index, _values(data, redactor))
        case _:
            return event


def discreet_headers(headers: Mapping[str, str], route: Route) -> dict[str, str]:
    """Headers of an answer, without a secret of this route. One that is long, or no plain text, is nothing
    that a client could use."""
    redactor = _redactor_of(route)
    plain = {
        name: value
        for name, value in headers.items()
        if len(value) <= _LONGEST and value.isascii() and value.isprintable()
    }
    return {name: redactor.message(value) for name, value in list(plain.items())[:_MOST]}


def _values(data: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    encoded = msgspec.json.encode(data)
    if not redactor.spans(encoded.lower()):
        return data
    return msgspec.json.decode(redactor.text(encoded.decode()), type=dict[str, Any])


def _failure(told: Failure, redactor: Redactor) -> Failure:
    return replace(
        told,
        message=_sample(told.message, SAMPLE, redactor),
        said=_sample(told.said, SAID, redactor),
        code=redactor.message(told.code),
        type=redactor.message(told.type),
        param=redactor.message(told.param),
        request_id=redactor.message(told.request_id),
    )


def _sample(text: str, most: int, redactor: Redactor) -> str:
    """What was cut at `most`, before spaces at its ends were taken off, may end inside of a secret."""
    return redactor.sample(text, cut=len(text) >= most - _SPACES)

"""The endpoints for clients of Anthropic's API, with what the document says of them."""

from turnbuckle.server.api.request_headers import (
    BUSY_HEADER,
    KEY,
    ON_DISCONNECT_HEADER,
    SESSION_HEADER,
    STRICT_HEADER,
)
from turnbuckle.server.faces.messages.handler import MessagesApi
from turnbuckle.server.faces.messages.shapes import (
    COUNT_BODY,
    COUNTED,
    MESSAGE,
    MESSAGE_BODY,
    MESSAGE_STREAM,
    VERSIONS,
)
from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.openapi import MESSAGES_ERROR, STREAM, Given, Operation


def message_endpoints(
    api: MessagesApi, relayed: tuple[str, ...], ends_badly: tuple[int, ...]
) -> tuple[Endpoint, ...]:
    """The rows. `relayed` are headers of answers that a relay may give, `ends_badly` statuses of runs that
    fail."""
    message = Given("The message.", MESSAGE, headers=(*relayed, "request-id"))
    streamed = Given("Or the message as it comes.", MESSAGE_STREAM, STREAM)
    created = Operation(
        "createMessage",
        "Messages, as Anthropic's clients send them",
        "messages",
        (*VERSIONS, SESSION_HEADER, BUSY_HEADER, ON_DISCONNECT_HEADER, STRICT_HEADER, KEY),
        MESSAGE_BODY,
        answers={200: (message, streamed)},
        problems=(*ends_badly, 529),
        errors=(MESSAGES_ERROR,),
    )
    counted = Operation(
        "countMessageTokens",
        "How many tokens a request has",
        "messages",
        VERSIONS,
        COUNT_BODY,
        answers={200: (Given("The count.", COUNTED, headers=("request-id", "x-turnbuckle-estimated")),)},
        problems=(404,),
        errors=(MESSAGES_ERROR,),
    )
    return (
        Endpoint("POST", "/v1/messages", api.create, created, by_turns=True),
        Endpoint("POST", "/v1/messages/count_tokens", api.count_tokens, counted),
    )

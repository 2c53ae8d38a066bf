"""The one way to read a provider's answer, in any protocol."""

from collections.abc import Mapping

from turnbuckle.vocab.ids import Protocol
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.anthropic.decode import AnthropicDialect
from turnbuckle.wire.decoder import Dialect, Limits, ReplyDecoder
from turnbuckle.wire.openai_chat.decode import ChatDialect
from turnbuckle.wire.openai_responses.decode import ResponsesDialect


def open_answer(
    protocol: Protocol,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    quirks: Quirks | None = None,
    limits: Limits | None = None,
) -> ReplyDecoder:
    """A decoder for one response, from its status and headers on: `feed` its body, `close` it once."""
    quirks = quirks or Quirks()
    dialect: Dialect
    match protocol:
        case "openai_chat":
            dialect = ChatDialect(quirks)
        case "openai_responses":
            dialect = ResponsesDialect(quirks)
        case "anthropic":
            dialect = AnthropicDialect(quirks)
    return ReplyDecoder(dialect, status=status, headers=headers, limits=limits)

"""The one way to read a provider's answer, in any protocol."""

from collections.abc import Mapping

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.decoder import DecoderLimits, ReplyDecoder
from turnbuckle.wire.registry import PROTOCOLS


def open_answer(
    protocol: ProtocolName,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    quirks: Quirks | None = None,
    limits: DecoderLimits | None = None,
) -> ReplyDecoder:
    """A decoder for one response, from its status and headers on: `feed` its body, `close` it once."""
    decoder = PROTOCOLS[protocol].decoder(quirks or Quirks())
    return ReplyDecoder(decoder, status=status, headers=headers, limits=limits)

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
    choices: int = 1,
) -> ReplyDecoder:
    """A decoder for one response, from its status and headers on: `feed` its body, `close` it once.
    `choices`: so many answers were asked for."""
    spoken = PROTOCOLS[protocol]
    make = spoken.several_decoder if choices > 1 and spoken.several_decoder is not None else spoken.decoder
    decoder = make(quirks or Quirks())
    return ReplyDecoder(decoder, status=status, headers=headers, limits=limits)

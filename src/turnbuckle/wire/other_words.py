"""Fields of a request that another protocol knows too, under the same name or another.

Only what any provider of the other protocol takes is said in its words. Many hosts of Chat Completions refuse
a field that they do not know, and clients of Responses send some with every request; so those are named as
left out, and the request goes through.
"""

from collections.abc import Iterable

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.protocol import Fields, OtherWords
from turnbuckle.wire.registry import PROTOCOLS

_USUAL = Quirks()


def in_words_of(
    protocol: ProtocolName, spoken: ProtocolName, fields: Fields, quirks: Quirks = _USUAL
) -> OtherWords:
    """What of these fields of a client's request a provider of this protocol can be told."""
    shared = PROTOCOLS[spoken].shared_fields
    words = OtherWords()
    given = {name: value for name, value in fields.items() if value is not None and name in shared}
    PROTOCOLS[protocol].adopt(given, quirks, words)
    return words


def named_by_client(spoken: ProtocolName, options: Iterable[str]) -> tuple[str, ...]:
    """The names of options in a client's own words."""
    names = PROTOCOLS[spoken].option_names
    return tuple(names.get(option, option) for option in options)

"""What a client wrote that has no place in our values: it rides beside them, in its own words.

Only a provider of the client's own protocol gets it back. `names` is what any other goes without, each name
once and without numbers, so that the answer can say so.
"""

import re
from collections.abc import Mapping
from typing import Any

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import ProviderState
from turnbuckle.wire.fields import Fields

MOST_NAMES = 64
"""Of what goes unpassed; more of them would tell nobody anything."""
_NUMBER = re.compile(r"\[\d+\]")


class KeptFields:
    """One request's."""

    def __init__(self, protocol: ProtocolName) -> None:
        self._protocol = protocol
        self._names: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def name(self, fields: Fields, field: str) -> None:
        """Note that a field of this object goes only to where it is known."""
        if len(self._names) < MOST_NAMES:
            self._names[_NUMBER.sub("", fields.at(field))] = None

    def state(
        self, data: dict[str, Any], fields: Fields, named: Mapping[str, Any] | None = None
    ) -> ProviderState | None:
        """The state that holds this, if it is anything; `named` are the fields of it that others miss."""
        if not data:
            return None
        for field in data if named is None else named:
            self.name(fields, field)
        return self.sure(data)

    def sure(self, data: dict[str, Any]) -> ProviderState:
        """The state that holds this, of which nobody misses anything."""
        return ProviderState(self._protocol, "", data)

"""What a provider said for which a client's protocol has no place: its names, told with the end."""

from typing import Any

from turnbuckle.narrate.told import AnswerFields, ProviderItem, Told
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.wire.across import untold_fields
from turnbuckle.wire.answer_fields import item_name

_MOST, _LONGEST = 64, 80


class LeftOut:
    """One answer's, to a client of this protocol."""

    def __init__(self, protocol: ProtocolName) -> None:
        self._protocol = protocol
        self._names: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    @property
    def fields(self) -> dict[str, Any]:
        """What is told of it beside the outcome."""
        return {"left_out": list(self._names)} if self._names else {}

    def look(self, told: Told) -> None:
        """Note what this client is not told. Fields beside a reply are not part of what it says."""
        if not isinstance(told, (ProviderItem, AnswerFields)) or told.protocol == self._protocol:
            return
        if isinstance(told, ProviderItem):
            self._name(item_name(told.data))
        else:
            for name in untold_fields(told.protocol, told.where, told.data):
                self._name(name)

    def _name(self, name: str) -> None:
        if len(self._names) < _MOST and name.isascii() and name.isprintable():
            self._names[name[:_LONGEST]] = None

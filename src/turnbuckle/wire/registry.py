"""All protocols by their names in settings and in the journal. A new one is one row here."""

from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.wire.anthropic import ANTHROPIC
from turnbuckle.wire.gemini import GEMINI
from turnbuckle.wire.openai_chat import OPENAI_CHAT
from turnbuckle.wire.openai_responses import OPENAI_RESPONSES
from turnbuckle.wire.protocol import Protocol

PROTOCOLS: dict[ProtocolName, Protocol] = {
    protocol.name: protocol for protocol in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI)
}


def protocol_called(name: str) -> Protocol | None:
    """The protocol of this name, if there is one."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.name == name), None)


def rules_of(name: ProtocolName) -> HistoryRules:
    """What this protocol's providers take in a history."""
    return PROTOCOLS[name].rules

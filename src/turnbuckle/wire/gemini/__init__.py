"""Google's Gemini, in its own words (`generateContent`)."""

from turnbuckle.vocab.history_rules import HistoryRules, NamePattern
from turnbuckle.wire.gemini import request
from turnbuckle.wire.gemini.decode import GeminiDecoder
from turnbuckle.wire.gemini.encode import ENCODING
from turnbuckle.wire.gemini.received import read_request, serves
from turnbuckle.wire.protocol import QUIRKS_OF_ALL, Protocol

GEMINI = Protocol(
    name="gemini",
    provider="gcp.gemini",
    base_path="/v1beta",
    path="/v1beta/models/{model}:streamGenerateContent",
    serves=serves,
    endpoint=request.endpoint,
    counting=request.COUNTING,
    headers=request.headers,
    build=request.build,
    unsaid=request.unsaid,
    history_field="contents",
    decoder=GeminiDecoder,
    streams_arguments=False,
    adopt=request.adopt,
    encoding=ENCODING,
    read_request=read_request,
    rules=HistoryRules(
        protocol="gemini",
        system_apart=True,
        tool_names=NamePattern(r"[a-zA-Z_][a-zA-Z0-9_-]*", 64),
        call_ids=NamePattern(r"[!-~]+"),
        user_first=True,
        vouched_by=frozenset({"thoughtSignature"}),
        reasoning_leads=False,
    ),
    quirks=QUIRKS_OF_ALL | {"finishless", "signature_fallback"},
)

"""Anthropic Messages."""

from turnbuckle.vocab.history_rules import HistoryRules, NamePattern
from turnbuckle.wire.anthropic import request
from turnbuckle.wire.anthropic.decode import AnthropicDecoder
from turnbuckle.wire.anthropic.encode import ENCODING
from turnbuckle.wire.anthropic.received import read_request
from turnbuckle.wire.protocol import QUIRKS_OF_ALL, Protocol, served_at

ANTHROPIC = Protocol(
    name="anthropic",
    provider="anthropic",
    path="/v1/messages",
    serves=served_at("/messages"),
    endpoint=request.endpoint,
    counting=request.COUNTING,
    headers=request.headers,
    build=request.build,
    unsaid=request.unsaid,
    history_field="messages",
    decoder=AnthropicDecoder,
    texts_are_blocks=True,
    shared_fields=frozenset({"top_k"}),
    adopt=request.adopt,
    option_names={
        "stop": "stop_sequences",
        "parallel_calls": "tool_choice.disable_parallel_tool_use",
        "response_format": "output_config.format",
        "strict": "tools.strict",
    },
    citations_field="citations",
    encoding=ENCODING,
    read_request=read_request,
    rules=HistoryRules(
        protocol="anthropic",
        system_apart=True,
        tool_names=NamePattern(r"[a-zA-Z0-9_-]+", 128),
        call_ids=NamePattern(r"[a-zA-Z0-9_-]+"),
        user_first=True,
        refuses_blank_text=True,
        cache_mark="cache_control",
        vouched_by=frozenset({"signature", "data"}),
        reasoning_bound_to_tools=True,
    ),
    quirks=QUIRKS_OF_ALL
    | {
        "think",
        "finishless",
        "eager_arguments",
        "anthropic_version",
        "sampling",
        "anthropic_auth",
        "cache_marks",
    },
)

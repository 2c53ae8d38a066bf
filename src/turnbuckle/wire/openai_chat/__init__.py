"""Chat Completions, OpenAI's and everybody's."""

from turnbuckle.vocab.history_rules import HistoryRules, NamePattern
from turnbuckle.wire.openai_chat import request
from turnbuckle.wire.openai_chat.answer_fields import token_odds, untold_fields
from turnbuckle.wire.openai_chat.decode import ChatDecoder
from turnbuckle.wire.openai_chat.encode import ENCODING
from turnbuckle.wire.openai_chat.received import read_request
from turnbuckle.wire.openai_chat.several import SeveralDecoder
from turnbuckle.wire.protocol import QUIRKS_OF_ALL, Protocol, bearer_headers, served_at

OPENAI_CHAT = Protocol(
    name="openai_chat",
    provider="openai",
    path="/v1/chat/completions",
    serves=served_at("/chat/completions"),
    endpoint=request.endpoint,
    headers=bearer_headers,
    build=request.build,
    history_field="messages",
    decoder=ChatDecoder,
    several_decoder=SeveralDecoder,
    shared_fields=frozenset(
        {
            "frequency_penalty",
            "logprobs",
            "metadata",
            "presence_penalty",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "seed",
            "service_tier",
            "store",
            "top_k",
            "top_logprobs",
            "user",
            "verbosity",
        }
    ),
    adopt=request.adopt,
    option_names={"parallel_calls": "parallel_tool_calls", "strict": "tools.strict"},
    can_forbid_thinking=False,
    token_odds=token_odds,
    untold_fields=untold_fields,
    encoding=ENCODING,
    read_request=read_request,
    rules=HistoryRules(
        protocol="openai_chat",
        tool_names=NamePattern(r"[a-zA-Z_][a-zA-Z0-9_-]*", 64),  # OpenAI's; Gemini wants a letter first
        call_ids=NamePattern(r"[!-~]+"),
        joins_turns=False,
        runs_text_together=True,
        parts_bound_to_model=True,
        takes_plain_reasoning=True,
        reasoning_leads=False,
    ),
    quirks=QUIRKS_OF_ALL
    | {
        "think",
        "bare_done",
        "finishless",
        "prefill",
        "output_cap_field",
        "stream_usage",
        "system_role",
        "reasoning_field",
        "reasoning_with_calls",
        "short_call_ids",
        "longest_call_id",
        "prompt_cache_key",
        "signature_fallback",
    },
)

"""OpenAI Responses."""

from turnbuckle.vocab.history_rules import HistoryRules, NamePattern
from turnbuckle.wire.openai_responses import request
from turnbuckle.wire.openai_responses.answer_fields import token_odds
from turnbuckle.wire.openai_responses.decode import ResponsesDecoder
from turnbuckle.wire.openai_responses.encode import ENCODING
from turnbuckle.wire.openai_responses.received import read_request
from turnbuckle.wire.protocol import QUIRKS_OF_ALL, Protocol, bearer_headers, served_at

OPENAI_RESPONSES = Protocol(
    name="openai_responses",
    provider="openai",
    path="/v1/responses",
    serves=served_at("/responses"),
    endpoint=request.endpoint,
    counting=request.COUNTING,
    headers=bearer_headers,
    build=request.build,
    unsaid=request.unsaid,
    history_field="input",
    decoder=ResponsesDecoder,
    encoding=ENCODING,
    read_request=read_request,
    rules=HistoryRules(
        protocol="openai_responses",
        system_apart=True,
        tool_names=NamePattern(r"[a-zA-Z0-9_-]+", 64),
        call_ids=NamePattern(r"[!-~]+", 64),
        results="anywhere",
        free_text_calls=frozenset({"custom_tool_call"}),
        items_have_identity=True,
        vouched_by=frozenset({"encrypted_content", "content"}),
        vouched_by_store=True,
        reasoning_leads_to_whole=True,
    ),
    quirks=QUIRKS_OF_ALL | {"think", "stored", "system_role", "prompt_cache_key"},
    texts_are_messages=True,
    shared_fields=frozenset({"include", "safety_identifier", "top_k", "top_logprobs", "user"}),
    adopt=request.adopt,
    option_names={
        "parallel_calls": "parallel_tool_calls",
        "response_format": "text.format",
        "strict": "tools.strict",
    },
    can_forbid_thinking=False,
    token_odds=token_odds,
)

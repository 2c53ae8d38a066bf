"""Fields that another protocol knows too are told in its words, and nobody calls them left out."""

from typing import Any

import pytest

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.other_words import in_words_of
from turnbuckle.wire.registry import PROTOCOLS

ROWS: list[tuple[ProtocolName, ProtocolName, dict[str, Any], dict[str, Any], set[str]]] = [
    (
        "openai_chat",
        "openai_responses",
        {"metadata": {"a": "b"}, "user": "u", "service_tier": "flex", "store": True, "seed": 1},
        {"metadata": {"a": "b"}, "user": "u", "service_tier": "flex", "store": True},
        {"metadata", "user", "service_tier", "store"},
    ),
    (
        "openai_chat",
        "openai_responses",
        {"logprobs": True, "top_logprobs": 3, "verbosity": "low"},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 3, "text": {"verbosity": "low"}},
        {"logprobs", "top_logprobs", "verbosity"},
    ),
    ("openai_chat", "openai_responses", {"logprobs": False}, {}, {"logprobs"}),
    ("openai_responses", "openai_chat", {"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}, {"top_logprobs"}),
    (
        "openai_responses",
        "openai_chat",
        {"include": ["message.output_text.logprobs"], "prompt_cache_key": "k", "store": False},
        {"logprobs": True},
        {"include", "top_logprobs"},
    ),
    ("openai_responses", "openai_chat", {"include": ["reasoning.encrypted_content"], "user": "u"}, {}, set()),
    ("openai_chat", "anthropic", {"user": "u", "top_k": 4}, {"metadata": {"user_id": "u"}}, {"user"}),
    ("openai_chat", "anthropic", {"user": "u" * 300, "top_k": "4"}, {}, set()),
    ("openai_responses", "anthropic", {"safety_identifier": "s"}, {"metadata": {"user_id": "s"}}, {"safety_identifier"}),
    (
        "openai_chat",
        "gemini",
        {"seed": 7, "top_k": 4, "frequency_penalty": 0.5, "logit_bias": {"1": 2}},
        {"generationConfig": {"seed": 7, "topK": 4, "frequencyPenalty": 0.5}},
        {"seed", "top_k", "frequency_penalty"},
    ),
    ("openai_chat", "anthropic", {"top_k": -1}, {}, set()),
    ("openai_chat", "anthropic", {"top_k": True}, {}, set()),
    ("openai_chat", "gemini", {"top_k": -1, "seed": 1 << 40}, {}, set()),
    (
        "openai_chat",
        "anthropic",
        {"user": "u", "safety_identifier": "s"},
        {"metadata": {"user_id": "s"}},
        {"safety_identifier"},
    ),
    (
        "openai_chat",
        "anthropic",
        {"user": "u", "safety_identifier": "u"},
        {"metadata": {"user_id": "u"}},
        {"user", "safety_identifier"},
    ),
    ("anthropic", "gemini", {"top_k": 4, "container": "c"}, {"generationConfig": {"topK": 4}}, {"top_k"}),
    ("anthropic", "openai_chat", {"metadata": {"user_id": "u"}, "top_k": 4}, {}, set()),
]  # fmt: skip


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("spoken, protocol, fields, said, names", ROWS)
def test_a_field_that_both_protocols_know_is_told_in_the_words_of_the_other(
    spoken: ProtocolName,
    protocol: ProtocolName,
    fields: dict[str, Any],
    said: dict[str, Any],
    names: set[str],
) -> None:
    made = in_words_of(protocol, spoken, fields)

    assert dict(made) == said
    assert made.of == names


@pytest.mark.parametrize("spoken", PROTOCOLS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_field_at_all_is_nothing_in_any_words(spoken: ProtocolName, protocol: ProtocolName) -> None:
    """So nobody needs to ask."""
    made = in_words_of(protocol, spoken, {}, Quirks(sampling=True))

    assert not made
    assert not made.of


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("value, said", [(4, {"top_k": 4}), (-1, {}), (True, {}), ("4", {})])
def test_how_many_tokens_to_choose_from_is_told_where_the_host_takes_it(
    value: Any, said: dict[str, Any]
) -> None:
    """Anthropic's newest version refuses it, as it does temperature."""
    made = in_words_of("anthropic", "openai_chat", {"top_k": value}, Quirks(sampling=True))

    assert dict(made) == said
    assert made.of == set(said)

"""How much a model is to think is said to every provider in its own words, or is named as left out."""

from typing import Any

import msgspec
import pytest

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.anthropic.parse_request import read_message_request
from turnbuckle.wire.registry import PROTOCOLS
from turnbuckle.wire.thinking import is_said_by, word_elsewhere

ADAPTIVE = {"type": "adaptive", "display": "omitted"}
DISABLED = {"type": "disabled"}


def enabled(budget: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget}


def sent(protocol: ProtocolName, model: str, **body: Any) -> dict[str, Any]:
    """What a provider gets of a client's wish in Messages."""
    asked = read_message_request(
        msgspec.json.encode(
            {"model": "r", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}], **body}
        )
    )
    assert not isinstance(asked, Failure)
    wishes = asked.wishes
    request = ModelRequest(
        model,
        (Message("user", (TextPart("Hi."),)),),
        effort=wishes.effort,
        thinking_budget=wishes.thinking_budget,
        extra=wishes.extra.get(protocol, {}),
    )
    made: dict[str, Any] = PROTOCOLS[protocol].build(request, Quirks())
    made |= made.pop("generationConfig", {})
    known = ("reasoning_effort", "reasoning", "thinking", "output_config", "thinkingConfig")
    return {name: made[name] for name in known if name in made}


@pytest.mark.requirement("J1", "I8")
@pytest.mark.parametrize(
    "body, word",
    [
        ({}, None),
        ({"thinking": ADAPTIVE}, None),
        ({"thinking": ADAPTIVE, "output_config": {"effort": "high"}}, "high"),
        ({"thinking": enabled(1024)}, "low"),
        ({"thinking": enabled(4095)}, "low"),
        ({"thinking": enabled(4096)}, "medium"),
        ({"thinking": enabled(31_999)}, "high"),
        ({"thinking": enabled(1024), "output_config": {"effort": "high"}}, "high"),
        ({"thinking": DISABLED}, None),
        ({"thinking": {"type": "enabled"}}, None),
    ],
)
def test_a_budget_becomes_a_word_for_openais_protocols_and_stays_what_it_was_for_its_own(
    body: dict[str, Any], word: str | None
) -> None:
    assert sent("openai_chat", "m", **body) == ({"reasoning_effort": word} if word else {})
    assert sent("openai_responses", "m", **body) == ({"reasoning": {"effort": word}} if word else {})
    assert sent("anthropic", "m", **body) == body


@pytest.mark.requirement("J1", "I8")
@pytest.mark.parametrize(
    "model, body, config",
    [
        ("gemini-2.5-flash", {"thinking": enabled(5000)}, {"thinkingBudget": 5000, "includeThoughts": True}),
        (
            "gemini-2.5-flash",
            {"thinking": enabled(60_000)},
            {"thinkingBudget": 24_576, "includeThoughts": True},
        ),
        ("gemini-2.5-flash", {"thinking": DISABLED}, {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinking": DISABLED}, {"thinkingBudget": 128}),
        ("gemini-3-pro", {"thinking": enabled(5000)}, {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-3-pro", {"thinking": DISABLED}, {"thinkingLevel": "minimal"}),
        ("gemini-3-pro", {"thinking": ADAPTIVE}, None),
        (
            "gemini-3-pro",
            {"thinking": ADAPTIVE, "output_config": {"effort": "max"}},
            {"thinkingLevel": "high", "includeThoughts": True},
        ),
    ],
)
def test_gemini_gets_a_budget_or_a_level(
    model: str, body: dict[str, Any], config: dict[str, Any] | None
) -> None:
    assert sent("gemini", model, **body).get("thinkingConfig") == config


@pytest.mark.requirement("J1", "I8")
def test_what_a_provider_has_no_word_for_is_lost_to_it() -> None:
    assert is_said_by(PROTOCOLS["openai_chat"], {"type": "adaptive"})
    assert is_said_by(PROTOCOLS["openai_chat"], enabled(9))
    assert not is_said_by(PROTOCOLS["openai_chat"], DISABLED)
    assert not is_said_by(PROTOCOLS["openai_responses"], DISABLED)
    assert is_said_by(PROTOCOLS["gemini"], DISABLED)
    assert not is_said_by(PROTOCOLS["gemini"], {"type": "of tomorrow"})
    assert not is_said_by(PROTOCOLS["openai_chat"], {**ADAPTIVE, "display": "omitted"})
    assert is_said_by(PROTOCOLS["openai_chat"], {**ADAPTIVE, "display": None})
    assert [word_elsewhere(word) for word in (None, "low", "max")] == [None, "low", "high"]

"""How much a model is to think, from one protocol's words to another's.

Chat Completions, Responses and newer models of Anthropic and Gemini have words for it (`low`, `medium` …).
Older ones have a number of tokens. Only a client of Messages can send us a number; every provider gets what
it knows.
"""

from collections.abc import Mapping
from typing import Any

from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.protocol import Protocol

BUDGETS = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}
"""Tokens for a word, where a provider wants tokens."""
_WORDS = ((4096, "low"), (16_384, "medium"))
"""Below so many tokens it is this word; from the last on it is `high`."""
_SAID = frozenset({"type", "budget_tokens"})
_NEWER = {"max": "high"}
"""Words of Anthropic's that nobody else knows."""


def budget_in(thinking: Mapping[str, Any] | None) -> int | None:
    """The tokens that a client of Messages gives the model to think: 0 if it is not to. None: the model
    decides, or nothing is said."""
    match (thinking or {}).get("type"):
        case "disabled":
            return 0
        case "enabled":
            budget = (thinking or {}).get("budget_tokens")
            return budget if isinstance(budget, int) and not isinstance(budget, bool) and budget > 0 else None
    return None


def is_said_by(protocol: Protocol | None, thinking: Mapping[str, Any] | None) -> bool:
    """Whether nothing of `thinking` is lost to a provider of another protocol."""
    said = {name for name, value in (thinking or {}).items() if value is not None}
    known = (thinking or {}).get("type") in ("adaptive", "enabled", "disabled") and said <= _SAID
    return known and (budget_in(thinking) != 0 or protocol is None or protocol.can_forbid_thinking)


def word_elsewhere(effort: str | None) -> str | None:
    """A word of Anthropic's for everybody else."""
    return _NEWER.get(effort, effort) if effort is not None else None


def effort_of(request: ModelRequest) -> str | None:
    """The word for a provider of OpenAI's protocols: the client's own, or what its budget amounts to."""
    budget = request.thinking_budget
    if request.effort is not None or not budget:
        return request.effort
    return word_for(budget)


def word_for(budget: int) -> str:
    """The word that so many tokens amount to."""
    return next((word for below, word in _WORDS if budget < below), "high")

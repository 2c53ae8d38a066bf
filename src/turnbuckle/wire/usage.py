"""Token counts in every provider's spelling become one `Usage`."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from turnbuckle.vocab.events import Usage

_TOO_MANY = 2**53


def usage_from_openai(found: Mapping[str, Any]) -> Usage:
    """Chat Completions and Responses: input counts include cached tokens."""
    given = _inner(found, "prompt_tokens_details", "input_tokens_details")
    made = _inner(found, "completion_tokens_details", "output_tokens_details")
    return Usage(
        input=_count(found, "prompt_tokens", "input_tokens"),
        output=_count(found, "completion_tokens", "output_tokens"),
        cached=_count(given, "cached_tokens") or _count(found, "prompt_cache_hit_tokens") or 0,
        cache_written=_count(given, "cache_write_tokens") or 0,
        reasoning=_count(made, "reasoning_tokens") or 0,
        cost=_cost(found.get("cost")),
    )


def usage_from_anthropic(found: Mapping[str, Any]) -> Usage:
    """Messages: `input_tokens` leaves out what was read from or written to the cache; ours includes it."""
    cached = _count(found, "cache_read_input_tokens") or 0
    written = _count(found, "cache_creation_input_tokens") or 0
    fresh = _count(found, "input_tokens")
    made = _inner(found, "output_tokens_details")
    return Usage(
        input=None if fresh is None else fresh + cached + written,
        output=_count(found, "output_tokens"),
        cached=cached,
        cache_written=written,
        reasoning=_count(made, "reasoning_tokens", "thinking_tokens") or 0,
    )


def usage_from_gemini(found: Mapping[str, Any]) -> Usage:
    """Gemini: thoughts are counted beside the candidates, and what tools put into the prompt beside it."""
    thoughts = _count(found, "thoughtsTokenCount") or 0
    made = _count(found, "candidatesTokenCount")
    given = _count(found, "promptTokenCount")
    return Usage(
        input=None if given is None else given + (_count(found, "toolUsePromptTokenCount") or 0),
        output=thoughts + (made or 0) if made is not None or thoughts else None,
        cached=_count(found, "cachedContentTokenCount") or 0,
        reasoning=thoughts,
    )


def usage_to_gemini(usage: Usage) -> dict[str, Any]:
    given, made = usage.input or 0, usage.output or 0
    written: dict[str, Any] = {
        "promptTokenCount": given,
        "candidatesTokenCount": max(made - usage.reasoning, 0),
        "totalTokenCount": given + made,
    }
    if usage.reasoning:
        written["thoughtsTokenCount"] = usage.reasoning
    if usage.cached:
        written["cachedContentTokenCount"] = usage.cached
    return written


def usage_to_chat(usage: Usage) -> dict[str, Any]:
    given, made = usage.input or 0, usage.output or 0
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": _cache_counts(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def usage_to_responses(usage: Usage) -> dict[str, Any]:
    given, made = usage.input or 0, usage.output or 0
    return {
        "input_tokens": given,
        "input_tokens_details": _cache_counts(usage),
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": given + made,
    }


def _cache_counts(usage: Usage) -> dict[str, int]:
    written = {"cache_write_tokens": usage.cache_written} if usage.cache_written else {}
    return {"cached_tokens": usage.cached, **written}


def usage_to_anthropic(usage: Usage) -> dict[str, Any]:
    made: dict[str, Any] = {
        "input_tokens": max((usage.input or 0) - usage.cached - usage.cache_written, 0),
        "output_tokens": usage.output or 0,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_written,
    }
    if usage.reasoning:
        made["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return made


def _inner(found: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        value = found.get(key)
        if isinstance(value, dict):
            return value
    return {}


def _count(found: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = found.get(key)
        if value is not None and _is_number(value):
            return int(value)
    return None


def _is_number(value: Any) -> TypeGuard[int | float]:
    """A number that can be one. JSON can spell integers that no float holds, and this must not raise."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _TOO_MANY


def _cost(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, dict):
        value = value.get("total_cost", value.get("total"))
    return float(value) if _is_number(value) else None

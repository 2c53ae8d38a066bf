"""Token counts of every provider become one usage, and go out in each protocol's spelling."""

import pytest

from turnbuckle.vocab.events import Usage
from turnbuckle.wire.usage import (
    usage_from_anthropic,
    usage_from_openai,
    usage_to_anthropic,
    usage_to_chat,
    usage_to_responses,
)

CHAT = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
RESPONSES = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 120,
}
ANTHROPIC = {
    "input_tokens": 28,
    "cache_read_input_tokens": 64,
    "cache_creation_input_tokens": 8,
    "output_tokens": 20,
    "output_tokens_details": {"thinking_tokens": 12},
}
WHOLE = Usage(input=100, output=20, cached=64, cache_written=8, reasoning=12)


@pytest.mark.parametrize(
    "read, found",
    [(usage_from_openai, CHAT), (usage_from_openai, RESPONSES), (usage_from_anthropic, ANTHROPIC)],
)
def test_three_spellings_are_one_usage(read, found):
    assert read(found) == WHOLE


@pytest.mark.parametrize(
    "found, usage",
    [
        ({}, Usage()),
        ({"prompt_tokens": 7}, Usage(input=7)),
        ({"prompt_tokens": 7, "prompt_cache_hit_tokens": 5}, Usage(input=7, cached=5)),
        ({"prompt_tokens": 7.0, "completion_tokens": 1e300}, Usage(input=7)),
        ({"prompt_tokens": None, "completion_tokens": "3", "prompt_tokens_details": None}, Usage()),
        ({"prompt_tokens": float("inf"), "completion_tokens": True}, Usage()),
        ({"cost": 0.25}, Usage(cost=0.25)),
        ({"cost": {"total_cost": 0.5}}, Usage(cost=0.5)),
        ({"cost": {"total": 2}}, Usage(cost=2.0)),
        ({"cost": "free"}, Usage()),
    ],
)
def test_missing_and_odd_counts_are_taken_for_what_they_are(found, usage):
    assert usage_from_openai(found) == usage


def test_input_of_anthropic_is_unknown_while_it_is_not_said():
    assert usage_from_anthropic({"output_tokens": 3}) == Usage(output=3)


@pytest.mark.parametrize(
    "write, read",
    [
        (usage_to_chat, usage_from_openai),
        (usage_to_responses, usage_from_openai),
        (usage_to_anthropic, usage_from_anthropic),
    ],
)
def test_what_is_written_is_read_back_the_same(write, read):
    assert read(write(WHOLE)) == WHOLE
    assert read(write(Usage())) == Usage(input=0, output=0)


@pytest.mark.parametrize(
    "count", [10**400, -(10**400), 2**53, -1, float("inf"), float("nan"), True, "7", None, [7]]
)
def test_a_count_that_can_be_none_is_left_out(count):
    """JSON can spell integers that no float holds; no decoder may fall over one."""
    openai = usage_from_openai({"prompt_tokens": count, "completion_tokens": 3, "cost": count})
    assert openai == Usage(output=3)
    assert usage_from_anthropic({"input_tokens": count, "output_tokens": 3}) == Usage(output=3)

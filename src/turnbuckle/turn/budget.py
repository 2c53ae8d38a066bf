"""Whether a turn has used up what it was given. These limits never refill."""

from turnbuckle.turn.ledger import CHARACTERS_PER_TOKEN
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Usage


def seconds_used(turn: Turn, now: float) -> float:
    """How long the turn has been at work. The time that people take for their answers is theirs."""
    return now - turn.started_at - turn.tally.seconds_asked


def seconds_left(turn: Turn, policy: Policy) -> float:
    return max(policy.limits.seconds - seconds_used(turn, turn.now), 0.0)


def exceeded(turn: Turn, policy: Policy) -> str:
    """The sentence that says which limit was reached; empty while there is room for one more model call."""
    limits, used = policy.limits, turn.tally
    if used.asks >= limits.model_calls:
        return f"the limit of {limits.model_calls} model calls is reached"
    if seconds_used(turn, turn.now) >= limits.seconds:
        return f"the limit of {limits.seconds:g} seconds is reached"
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return f"the limit of {limits.tokens:,} tokens is reached"
    if limits.money is not None and used.money >= limits.money:
        return f"the limit of {limits.money:g} in money is reached"
    if used.misjoined > policy.continuations:
        return f"a call that was cut could not be finished {used.misjoined} times in a row"
    return ""


def exceeded_inside(turn: Turn, policy: Policy, now: float, characters: int, usage: Usage | None) -> str:
    """The same in the middle of a reply, of which so many characters have come. Tokens that the provider has not yet
    counted are guessed."""
    limits, used = policy.limits, turn.tally
    if seconds_used(turn, now) >= limits.seconds:
        return f"the limit of {limits.seconds:g} seconds is reached"
    given = (usage.input or 0) if usage is not None else 0
    counted = (usage.output or 0) if usage is not None else 0
    tokens = used.tokens + given + max(counted, characters // CHARACTERS_PER_TOKEN)
    if limits.tokens is not None and tokens >= limits.tokens:
        return f"the limit of {limits.tokens:,} tokens is reached"
    cost = usage.cost if usage is not None and usage.cost else 0.0
    if limits.money is not None and used.money + cost >= limits.money:
        return f"the limit of {limits.money:g} in money is reached"
    return ""


def no_more_tools(turn: Turn, policy: Policy) -> str:
    """The sentence that says why the next call may not start; empty while it may."""
    limits = policy.limits
    if turn.tally.tool_runs >= limits.tool_calls:
        return f"the limit of {limits.tool_calls} tool calls is reached"
    repeated = next((mark for mark, count in turn.same_calls.items() if count > limits.same_call), "")
    if repeated:
        return f"the same call was made more than {limits.same_call} times: {repeated[:120]}"
    return ""

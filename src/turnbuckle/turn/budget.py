"""Whether a turn has used up what it was given. These limits never refill.

Time is time of work. Each fact says for how long the run was worked on since the one before; the rest of what
the wall clock shows between them is idle: people were waited for, the process was gone, the machine slept,
the clock was set. Tokens are the provider's own count. What a reply that broke did not tell is guessed from
what came.
"""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from turnbuckle.turn.ledger import CHARACTERS_PER_TOKEN
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.messages import CallPart, Message, ReasoningPart, RefusalPart, ResultPart, TextPart
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyOpaque


def seconds_used(turn: Turn, now: float) -> float:
    """How long the turn has been at work."""
    return now - turn.started_at - turn.tally.seconds_idle


def timed(turn: Turn, at: float, worked: float | UnsetType, *, idle: bool) -> Turn:
    """The turn at the time of its next fact. `idle`: whatever has passed since the one before was not
    work."""
    gap = max(at - turn.now, 0.0)
    used = 0.0 if idle else gap if worked is UNSET else worked
    tally = replace(turn.tally, seconds_idle=turn.tally.seconds_idle + gap - used)
    return replace(turn, now=turn.now + gap, tally=tally)


def worked_on(turn: Turn, seconds: float) -> Turn:
    """So long was worked on it while its time stood still."""
    return replace(turn, tally=replace(turn.tally, seconds_idle=turn.tally.seconds_idle - seconds))


def tokens_of(reply: Reply, turn: Turn) -> tuple[int, int]:
    """Input and output of one attempt. A whole reply's own count is believed; of any other the larger of what
    it told and what came. An attempt of which nothing came has cost nothing that anybody could know."""
    usage = reply.usage
    told_in, told_out = (usage.input or 0, usage.output or 0) if usage is not None else (0, 0)
    if (reply.ended and usage is not None) or not (reply.blocks or usage is not None):
        return told_in, told_out
    came = -(-sum(map(_characters, reply.blocks)) // CHARACTERS_PER_TOKEN)
    return told_in or input_guess(turn), max(told_out, came)


def _characters(block: object) -> int:
    if isinstance(block, ReplyCall):
        return len(block.name) + len(block.arguments)
    return 0 if isinstance(block, ReplyOpaque) else len(getattr(block, "text", ""))


def input_guess(turn: Turn) -> int:
    """The tokens of a turn's history, where nobody counts them. What it began with was counted then."""
    return (turn.given + characters(turn.messages[turn.began :])) // CHARACTERS_PER_TOKEN


def characters(messages: tuple[Message, ...]) -> int:
    """The length of a history. Pictures and files are left out."""
    total = 0
    for message in messages:
        for part in message.parts:
            if isinstance(part, (TextPart, ReasoningPart, RefusalPart)):
                total += len(part.text)
            elif isinstance(part, CallPart):
                total += len(part.name) + len(part.arguments)
            elif isinstance(part, ResultPart):
                total += sum(len(piece.text) for piece in part.content if isinstance(piece, TextPart))
    return total


def seconds_left(turn: Turn, policy: Policy) -> float:
    return max(policy.limits.seconds - seconds_used(turn, turn.now), 0.0)


class BudgetLeft(Struct, frozen=True):
    """What is left of the limits of a run. None: there is no such limit. `money` counts the calls whose price
    is known."""

    model_calls: int
    tool_calls: int
    seconds: float
    tokens: int | None = None
    money: float | None = None


def left(turn: Turn, policy: Policy) -> BudgetLeft:
    """What the turn may still use."""
    limits, used = policy.limits, turn.tally
    return BudgetLeft(
        max(limits.model_calls - used.asks, 0),
        max(limits.tool_calls - used.tool_runs, 0),
        round(seconds_left(turn, policy), 3),
        None if limits.tokens is None else max(limits.tokens - used.spent.tokens, 0),
        None if limits.money is None else max(limits.money - (used.spent.cost or 0.0), 0.0),
    )


def exceeded(turn: Turn, policy: Policy) -> str:
    """The sentence that says which limit was reached; empty while there is room for one more model call."""
    limits, used = policy.limits, turn.tally
    if used.asks >= limits.model_calls:
        return f"the limit of {limits.model_calls} model calls is reached"
    if seconds_used(turn, turn.now) >= limits.seconds:
        return f"the limit of {limits.seconds:g} seconds is reached"
    if limits.tokens is not None and used.spent.tokens >= limits.tokens:
        return f"the limit of {limits.tokens:,} tokens is reached"
    if limits.money is not None and (used.spent.cost or 0.0) >= limits.money:
        return f"the limit of {limits.money:g} in money is reached"
    if used.splice_failures > policy.continuations:
        return f"a call that was cut could not be finished {used.splice_failures} times in a row"
    if used.thin > policy.crumbs:
        return f"{used.thin} tries in a row brought only a few characters each"
    if used.refused > policy.refusals:
        return f"the model made calls {used.refused} times in a row of which none could start"
    return ""


def has_only_time(policy: Policy) -> bool:
    """Whether nothing but time limits a reply that is under way."""
    return policy.limits.tokens is None and policy.limits.money is None


def exceeded_inside(
    turn: Turn, policy: Policy, now: float, characters: int, usage: Usage | None, given: int = 0
) -> str:
    """The same in the middle of a reply, of which so many characters have come. Tokens that the provider has
    not yet counted are guessed; `given` is the guess for the input."""
    limits, used = policy.limits, turn.tally
    if seconds_used(turn, now) >= limits.seconds:
        return f"the limit of {limits.seconds:g} seconds is reached"
    given = usage.input if usage is not None and usage.input else given if characters else 0
    counted = (usage.output or 0) if usage is not None else 0
    tokens = used.spent.tokens + given + max(counted, characters // CHARACTERS_PER_TOKEN)
    if limits.tokens is not None and tokens >= limits.tokens:
        return f"the limit of {limits.tokens:,} tokens is reached"
    cost = usage.cost if usage is not None and usage.cost else 0.0
    if limits.money is not None and (used.spent.cost or 0.0) + cost >= limits.money:
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

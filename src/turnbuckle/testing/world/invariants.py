"""What must be true of every run, whatever broke on its way. Checks return sentences; none means that all is
well.

They look at the journal, at what the world counted and at the requests that went out; of the turn they only
use the fold, to see that it folds the same way twice.

The worlds of a task differ in one place, so most attempts and requests of one were in another before: what
follows from such a piece alone is remembered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from itertools import pairwise
from typing import ParamSpec, TypeVar

import msgspec

from turnbuckle.journal.port import EPOCH_BITS, Item
from turnbuckle.reply.accumulate import fold as fold_reply
from turnbuckle.reply.rules import Violation, violations
from turnbuckle.reply.verdict import Verdict, verdict
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.testing.world.compaction_rules import COMPACTION_RULES, left_out_of
from turnbuckle.testing.world.consent_rules import CONSENT_RULES
from turnbuckle.testing.world.handover_rules import HANDOVER_RULES
from turnbuckle.testing.world.held_rules import HELD_RULES
from turnbuckle.testing.world.model import Asked
from turnbuckle.testing.world.run_world import Story, Task
from turnbuckle.turn.facts import (
    ApprovalAsked,
    CallsHandedOver,
    CallsHeld,
    Compacted,
    Decided,
    DraftClosed,
    DraftKept,
    Fact,
    ModelAsked,
    RunEnded,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolStarted,
    encode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ladder import UNJOINED
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.vocab.events import Cut, Event, TextDelta
from turnbuckle.vocab.messages import Message, Part
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.tooling import FINISH_CALL
from turnbuckle.wire.registry import rules_of

P = ParamSpec("P")
T = TypeVar("T")

_PIECES = 1_000
"""So many are remembered of each kind. The largest task has about three hundred."""


def check_run(story: Story) -> tuple[str, ...]:
    """Every invariant of one run. What cannot even be folded is not looked at any further."""
    if torn := tuple(_one_last_word_each(story)):
        return tuple(f"one_last_word_each: {problem}" for problem in torn)
    rules = (
        _one_end,
        _shown_is_final,
        _tools_from_whole_replies,
        _writes_once,
        _starts_are_settled,
        _folds_the_same,
        _nothing_seen_is_lost,
        _readers_agree,
        _robbed_do_nothing,
        _budgets,
        _legal_requests,
        _every_break_is_decided,
        _drafts_are_listed,
        _nothing_starts_after_a_stop,
        *CONSENT_RULES,
        *HANDOVER_RULES,
        *HELD_RULES,
        *COMPACTION_RULES,
    )
    return tuple(f"{rule.__name__.strip('_')}: {problem}" for rule in rules for problem in rule(story))


def check_wanted(task: Task, story: Story) -> tuple[str, ...]:
    """That the task came to its wanted end. Only where nothing happened that may change it."""
    problems = []
    if story.outcome.kind != task.ends:
        problems.append(f"ended as {story.outcome.kind} ({story.outcome.why}), not {task.ends}")
    if task.answer is not None and story.driven.shown != task.answer:
        problems.append(f"the user saw {story.driven.shown!r}, not {task.answer!r}")
    handed = tuple((call.name, msgspec.json.decode(call.arguments)) for call in story.driven.handed)
    if task.handed is not None and handed != task.handed:
        problems.append(f"handed over was {_short(handed)}, not {_short(task.handed)}")
    if task.files is not None and story.files != task.files:
        problems.append(f"the files are {_brief(story.files)}, not {_brief(task.files)}")
    return tuple(problems)


def attempts_of(facts: Iterable[Fact]) -> dict[int, list[Event]]:
    """The events of each attempt, in order, as readers see them."""
    found: dict[int, list[Event]] = {}
    for fact in facts:
        if isinstance(fact, ModelAsked):
            found.setdefault(fact.attempt, [])
        elif isinstance(fact, Streamed):
            found[fact.attempt] += fact.events
    return found


def summary_attempts(facts: Iterable[Fact]) -> set[int]:
    """The attempts that wrote summaries, which are nobody's answer."""
    return {fact.attempt for fact in facts if isinstance(fact, ModelAsked) and fact.folding is not None}


def _remembering(work: Callable[P, T]) -> Callable[P, T]:
    """Like `lru_cache`, for arguments that can be encoded but not always be hashed."""
    known: dict[bytes, T] = {}

    @wraps(work)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        key = msgspec.msgpack.encode((args, kwargs))
        if key not in known:
            if len(known) >= _PIECES:
                known.clear()
            known[key] = work(*args, **kwargs)
        return known[key]

    return remembered


@_remembering
def _stream_problems(events: Sequence[Event]) -> tuple[str, ...]:
    return check_stream(events)


@_remembering
def _judged(events: list[Event], cap: int | None = None) -> tuple[Reply, Verdict]:
    reply = fold_reply(events)
    return reply, verdict(reply, cap=cap)


@_remembering
def _broken_rules(messages: tuple[Message, ...], route: RouteFacts, *, to_ask: bool) -> tuple[Violation, ...]:
    return violations(
        messages, rules_of(route.protocol), model=route.model, quirks=route.quirks, to_ask=to_ask
    )


def _one_end(story: Story) -> Iterator[str]:
    ends = [place for place, fact in enumerate(story.facts) if isinstance(fact, RunEnded)]
    if ends != [len(story.facts) - 1]:
        yield f"the run ended at {ends} of {len(story.facts)} items"
    last = story.facts[-1]
    if isinstance(last, RunEnded) and last.outcome != story.outcome:
        yield "the journal tells another outcome"
    stopped = any(isinstance(fact, StopAsked) for fact in story.facts)
    if story.outcome.kind == "cancelled" and not stopped:
        yield "cancelled, but nobody asked for it"


def _one_last_word_each(story: Story) -> Iterator[str]:
    asked = [fact.attempt for fact in story.facts if isinstance(fact, ModelAsked)]
    if asked != list(range(1, len(asked) + 1)):
        yield f"the attempts are numbered {asked}"
    for attempt, events in attempts_of(story.facts).items():
        yield from (f"attempt {attempt}: {problem}" for problem in _stream_problems(events))


def _shown_is_final(story: Story) -> Iterator[str]:
    """All text that was shown since the last results is the answer, every character of it and in this
    order."""
    shown: list[str] = []
    summaries = summary_attempts(story.facts)
    for fact in story.facts:
        if isinstance(fact, Streamed) and fact.attempt not in summaries:
            shown += [event.text for event in fact.events if isinstance(event, TextDelta)]
        elif isinstance(fact, ToolFinished):
            shown.clear()
    if "".join(shown) != story.driven.shown and not _ended_in_tools(story):
        yield f"shown was {''.join(shown)!r}, the turn has {story.driven.shown!r}"


def _ended_in_tools(story: Story) -> bool:
    return len(story.facts) > 1 and isinstance(story.facts[-2], ToolFinished | CallsHandedOver)


def _tools_from_whole_replies(story: Story) -> Iterator[str]:
    """From the last reply, which is whole, or held from one before it."""
    attempts = attempts_of(story.facts)
    latest = 0
    held: set[str] = set()
    for fact in story.facts:
        if isinstance(fact, ModelAsked):
            latest = fact.attempt
        elif isinstance(fact, CallsHeld):
            held |= {call.id for call in fact.calls}
        elif isinstance(fact, ToolStarted):
            reply, judged = _judged(attempts[latest])
            called = held | {call.id for call in judged.calls}  # a second call of one id gets a longer one
            if not reply.ended or not any(f"{fact.call_id}_".startswith(f"{one}_") for one in called):
                yield f"{fact.name} {fact.call_id} ran from a reply that was not whole"


def _writes_once(story: Story) -> Iterator[str]:
    counts = Counter(done.key for done in story.done if story.policy.tool(done.name).effect == "write")
    yield from (f"{key} was done {count} times" for key, count in counts.items() if count > 1)
    yield from (
        f"{done.key} was done before its intent was stored" for done in story.done if not done.intended
    )


def _starts_are_settled(story: Story) -> Iterator[str]:
    open_calls: set[str] = set()
    for fact in story.facts:
        match fact:
            case ToolStarted():
                open_calls.add(fact.call_id)
            case ToolFinished():
                open_calls.discard(fact.call_id)
                if fact.outcome.fact == "never_started" and fact.call_id in open_calls:
                    yield f"{fact.call_id} was started and then called never started"
            case ModelAsked() | RunEnded() if open_calls:
                yield f"{sorted(open_calls)} had no result when the run went on"
            case _:
                pass
    ends = Counter(
        (place, fact.call_id)
        for place, facts in enumerate(_by_attempt(story.facts))
        for fact in facts
        if isinstance(fact, ToolFinished)
    )
    yield from (f"{call} finished {count} times" for (_, call), count in ends.items() if count > 1)


def _by_attempt(facts: Sequence[Fact]) -> list[list[Fact]]:
    found: list[list[Fact]] = [[]]
    for fact in facts:
        if isinstance(fact, ModelAsked):
            found.append([])
        found[-1].append(fact)
    return found


def _folds_the_same(story: Story) -> Iterator[str]:
    again = story.turn
    if any(isinstance(fact, Compacted) for fact in story.facts):
        fold = TurnFold(story.policy, sending=True)
        for fact in story.facts:
            fold.take(fact)
        again = fold.turn
    if again != story.driven:
        yield "what is stored folds to another turn than the one that was driven"
    if any(encode(fact) != item.data for fact, item in zip(story.facts, story.items, strict=True)):
        yield "a fact does not come back from the journal as it went in"


def _nothing_seen_is_lost(story: Story) -> Iterator[str]:
    for seen in story.seen:
        if story.items[: len(seen)] != seen:
            yield "items that a reader saw are not in the journal any more"
    numbers = [item.seq for item in story.items]
    if sorted(set(numbers)) != numbers:
        yield "numbers do not grow"


def _readers_agree(story: Story) -> Iterator[str]:
    for cursor, read in story.reread:
        if read != tuple(item for item in story.items if item.seq > cursor):
            yield f"a reader behind {cursor} sees another story"


def _robbed_do_nothing(story: Story) -> Iterator[str]:
    for epoch, count, started in story.robbed:
        late = [item for item in story.items[count:] if _epoch(item) <= epoch]
        if late:
            yield f"a process that had lost its claim stored {len(late)} items"
        if started:
            yield f"a process that had lost its claim started {started} tools"


def _epoch(item: Item) -> int:
    return item.seq >> EPOCH_BITS


def _budgets(story: Story) -> Iterator[str]:
    limits = story.policy.limits
    asks = sum(isinstance(fact, ModelAsked) for fact in story.facts)
    if asks > limits.model_calls:
        yield f"{asks} model calls, {limits.model_calls} allowed"
    keys = {fact.key for fact in story.facts if isinstance(fact, ToolStarted)}
    if len(keys) > limits.tool_calls:
        yield f"{len(keys)} tool calls, {limits.tool_calls} allowed"


def _legal_requests(story: Story) -> Iterator[str]:
    before: dict[str, Asked] = {}
    for number, asked in enumerate(story.asked):
        route = story.policy.route(asked.route)
        request = asked.request
        paused = request.messages[-1].role == "assistant"
        if request.prefill != (paused and bool(route.quirks.prefill)):
            yield f"request {number} ends with the assistant, and the route does not go on behind that"
        broken = _broken_rules(request.messages, route, to_ask=not paused)
        yield from (f"request {number}: {one.rule}, {one.what}" for one in broken)
        if any(one == other and one.note for one, other in pairwise(request.messages)):
            yield f"request {number} says the same note twice"
        if _is_for_plain_text(story, number):
            continue  # leaves nothing behind, not even what it said
        if problem := _other_tools(story, number):
            yield f"request {number} {problem}"
        if asked.route in before and (edit := _edited(before[asked.route], asked)):
            yield f"request {number}: {edit}"
        before[asked.route] = asked


def _other_tools(story: Story, number: int) -> str:
    """The list stays as it is; `finish_call` comes in with the first draft and does not go again. Where
    thoughts may be bound to the list it is there from the beginning."""
    usual = [at for at in range(number + 1) if not _is_for_plain_text(story, at)]
    first, before, now = (
        story.asked[at].request.tools for at in (usual[0], usual[max(len(usual) - 2, 0)], number)
    )
    same = [tool for tool in now if tool.name != FINISH_CALL] == [
        tool for tool in first if tool.name != FINISH_CALL
    ]
    bound = rules_of(story.policy.route(story.asked[number].route).protocol).reasoning_bound_to_tools
    if not same or (bound and FINISH_CALL not in {tool.name for tool in now} and first):
        return "has other tools"
    return "lost a tool" if len(now) < len(before) and not _is_other_protocol(story, number) else ""


def _is_for_plain_text(story: Story, number: int) -> bool:
    """Whether a request asks for the rest of a cut call, or of a cut text, without any tool or behind its
    beginning."""
    request = story.asked[number].request
    return request.prefill or (bool(story.asked[0].request.tools) and not request.tools)


def _is_other_protocol(story: Story, number: int) -> bool:
    one, other = (story.policy.route(story.asked[at].route).protocol for at in (number - 1, number))
    return one != other


def _edited(before: Asked, after: Asked) -> str:
    """What was sent stands where it stood. Notes at its end may go when no reply to them was kept."""
    sent, now = before.request.messages, after.request.messages
    if _starts(now, sent) or left_out_of(now) != left_out_of(sent):
        return ""
    asked = list(sent)
    while asked and asked[-1].note:
        asked.pop()
    if not _starts(now, asked):
        return "something that was sent before was changed"
    if any(message.role == "assistant" for message in now[len(asked) :]):
        return "notes were dropped although a reply to them was kept"
    return ""


def _starts(now: Sequence[Message], before: Sequence[Message]) -> bool:
    """Whether one history begins with the other; assistant messages behind each other count as one."""
    one, other = _flat(now), _flat(before)
    return one[: len(other)] == other


def _flat(messages: Sequence[Message]) -> list[tuple[str, Part]]:
    return [(message.role, part) for message in messages for part in message.parts]


def _every_break_is_decided(story: Story) -> Iterator[str]:
    shown = ""
    for facts in _by_attempt(story.facts)[1:]:
        events = [event for fact in facts if isinstance(fact, Streamed) for event in fact.events]
        decided = [fact for fact in facts if isinstance(fact, Decided)]
        asked = facts[0]
        cap = asked.cap if isinstance(asked, ModelAsked) else None
        reply, judged = _judged(events, cap)
        kind = judged.kind
        if isinstance(asked, ModelAsked) and asked.folding is not None:
            whole = kind in ("complete", "cut_by_length") and bool(reply.text.strip()) and not reply.calls
            if len(decided) != (0 if whole else 1):
                yield f"a summary that {'was whole' if whole else 'broke'} has {len(decided)} decisions"
            continue
        # Asked to go on behind its last word, a model has nothing to add.
        whole = kind == "complete" or (kind == "empty" and bool(shown) and reply.finish == "stop")
        shown = "" if any(isinstance(fact, ToolFinished) for fact in facts) else shown + reply.text
        # Whole words may still not be the rest that was asked for.
        whole = whole and not (decided and decided[0].verdict == UNJOINED)
        if len(decided) != (0 if whole else 1):
            yield f"an attempt that {'was whole' if whole else 'broke'} has {len(decided)} decisions"
        cut = next((event for event in events if isinstance(event, Cut)), None)
        if decided and cut is not None and decided[0].failure != cut.failure:
            yield "a decision names another failure than the stream"


def _drafts_are_listed(story: Story) -> Iterator[str]:
    kept: dict[str, None] = {}
    for fact in story.facts:
        if isinstance(fact, DraftKept):
            kept[fact.draft.id] = None
        elif isinstance(fact, DraftClosed):
            kept.pop(fact.draft, None)
    if tuple(kept) != story.outcome.drafts:
        yield f"open drafts {list(kept)}, listed {list(story.outcome.drafts)}"


def _nothing_starts_after_a_stop(story: Story) -> Iterator[str]:
    stopped = False
    for fact in story.facts:
        stopped = stopped or isinstance(fact, StopAsked)
        if stopped and isinstance(fact, ModelAsked | ToolStarted | ApprovalAsked | CallsHandedOver):
            yield f"{type(fact).__name__} behind the wish to stop"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:100]}…{text[-100:]} ({len(text)})"


def _brief(files: dict[str, str]) -> dict[str, str]:
    return {
        name: text if len(text) < 60 else f"{text[:30]}…{text[-30:]} ({len(text)})"
        for name, text in files.items()
    }

"""What must be true of every session that has come to rest, whatever was said, stopped or killed on the way.
Checks return sentences; none means that all is well. They look at what was stored, in the order of the
world."""

from collections import Counter
from collections.abc import Iterable, Iterator

from turnbuckle.reply.rules import violations
from turnbuckle.runtime.session_messages import Accepted, Stopped
from turnbuckle.session.facts import BegunAnew, MessageAccepted, MessageInjected, MessageRefused, Suspended
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.campaign import CampaignReport
from turnbuckle.testing.world.sessions import SESSION, Chronicle, Plot, SessionWorld
from turnbuckle.turn.facts import ModelAsked, RunEnded, RunStarted, StopAsked, ToolStarted, UserSpoke
from turnbuckle.vocab.messages import Message, text_of
from turnbuckle.wire.registry import rules_of

MOST_ASKED = 4
"""Model calls for each message and each death: one, one more behind a cut, and two around a tool."""
_MOST_PROBLEMS = 20
FRESH = "This is a fresh start"
INTERRUPTED = "was interrupted before its end"


def check_session(told: Chronicle) -> tuple[str, ...]:
    """Every invariant of one session."""
    rules = (
        _one_at_a_time,
        _one_end_each,
        _no_message_is_lost,
        _nothing_twice,
        _in_order,
        _fresh_starts_are_told_once,
        _a_stop_stops,
        _an_interrupt_keeps,
        _legal_requests,
        _bounded,
        _usable,
    )
    return tuple(f"{rule.__name__.strip('_')}: {problem}" for rule in rules for problem in rule(told))


def _one_at_a_time(told: Chronicle) -> Iterator[str]:
    """No run begins or does anything while another one of the session has no end."""
    active: dict[str, None] = {}
    for one in told.stored:
        match one.fact:
            case RunStarted():
                active[one.stream] = None
            case RunEnded():
                active.pop(one.stream, None)
                continue
            case ModelAsked() | ToolStarted():
                pass
            case _:
                continue
        others = [run for run in active if run != one.stream]
        if others and not _is_refused(told, one.stream):
            yield f"{type(one.fact).__name__} of {one.stream} at {one.append} beside {', '.join(others)}"


def _is_refused(told: Chronicle, run: str) -> bool:
    facts = told.facts(run)
    return (
        len(facts) == 3
        and isinstance(facts[1], StopAsked)
        and not any(isinstance(one, ModelAsked) for one in facts)
    )


def _one_end_each(told: Chronicle) -> Iterator[str]:
    for run in told.streams:
        facts = told.facts(run)
        ends = sum(isinstance(fact, RunEnded) for fact in facts)
        if ends != 1 or not isinstance(facts[-1], RunEnded):
            yield f"{run} has {ends} ends, and {type(facts[-1]).__name__} is its last item"
        if sum(isinstance(fact, RunStarted) for fact in facts) != 1:
            yield f"{run} did not begin once"
    if told.unfinished:
        yield f"{told.unfinished} are without an end"
    if told.slots:
        yield f"{told.slots} slots are taken, and nothing runs"


def _no_message_is_lost(told: Chronicle) -> Iterator[str]:
    """Whoever was told that a message was taken finds it in a run, or refused with a reason."""
    state = told.state
    if state.waiting or state.steering:
        yield f"{[one.id for one in (*state.waiting, *state.steering)]} wait, and nothing runs"
    accepted = {fact.id: fact for fact in told.facts() if isinstance(fact, MessageAccepted)}
    for place, answer in told.answers.items():
        if isinstance(answer, Accepted) and answer.id not in accepted:
            yield f"deed {place} was told that it was taken, and is not stored"
    for message, fact in accepted.items():
        fate = state.statuses[message]
        if fate.state not in ("injected", "refused") or (fate.state == "refused" and not fate.why):
            yield f"{message} is {fate.state} ({fate.why})"
        if fate.state == "injected" and not _was_told(told, fact, fate.run):
            yield f"{message} counts as injected into {fate.run}, which never heard of it"
        if not any(isinstance(one, RunEnded) for one in told.facts(fate.run)):
            yield f"whoever reads {fate.run} for {message} waits forever"


def _was_told(told: Chronicle, fact: MessageAccepted, run: str) -> bool:
    for one in told.facts(run):
        if isinstance(one, RunStarted) and run == fact.run:
            return one.messages[len(one.messages) - one.fresh :] == fact.messages
        if isinstance(one, UserSpoke) and one.id == fact.id:
            return True
    return False


def _nothing_twice(told: Chronicle) -> Iterator[str]:
    """A message is one task, or one word into a turn, or neither, but never both. No command runs twice."""
    said: Counter[str] = Counter()
    for run in told.streams:
        for fact in told.facts(run):
            if isinstance(fact, RunStarted) and not _is_refused(told, run):
                said.update(text_of(one.parts) for one in fact.messages[len(fact.messages) - fact.fresh :])
    heard: Counter[str] = Counter()
    for asked in told.asked:
        texts = Counter(
            text_of(one.parts) for one in asked.request.messages if one.role == "user" and not one.note
        )
        heard |= texts
    retried = sum(deed.kind == "retry" for deed in told.plot.deeds)
    yield from (f"{text!r} began {count} runs" for text, count in said.items() if count > 1 + retried)
    yield from (f"{text!r} stood {count} times in one request" for text, count in heard.items() if count > 1)
    accepted = Counter(fact.run for fact in told.facts() if isinstance(fact, MessageAccepted))
    yield from (f"{run} was accepted {count} times" for run, count in accepted.items() if count > 1)
    done = Counter(one.key for one in told.done)
    yield from (f"{key} ran {count} times" for key, count in done.items() if count > 1)


def _in_order(told: Chronicle) -> Iterator[str]:
    """Messages that wait begin in the order in which they were taken; one that interrupts comes before those
    that do not."""
    facts = told.facts()
    accepted = [fact for fact in facts if isinstance(fact, MessageAccepted)]
    begun = [fact.id for fact in facts if isinstance(fact, MessageInjected) and fact.how == "task"]
    urgent = {fact.id for fact in accepted if fact.busy == "interrupt"}
    order = [fact.id for fact in accepted if fact.id in begun]
    if not urgent and begun != order:
        yield f"begun as {begun}, taken as {order}"


def _fresh_starts_are_told_once(told: Chronicle) -> Iterator[str]:
    """Each is told by one run, to the model and to the user; nobody hears of one that did not happen; and
    behind a run that was given up the next one is fresh."""
    due: BegunAnew | None = None
    suspended = False
    for one in told.stored:
        match one.fact:
            case Suspended():
                suspended = True
            case BegunAnew():
                due, suspended = one.fact, False
            case RunStarted() if not _is_refused(told, one.stream):
                if suspended:
                    yield f"{one.stream} goes on with a conversation that was suspended"
                notes = [message for message in one.fact.messages if _is_fresh_note(message)]
                notice = one.fact.origin.notice_why
                if len(notes) > 1:
                    yield f"{one.stream} has {len(notes)} notes of a fresh start"
                if bool(notice) != (due is not None):
                    yield f"{one.stream} has the notice {notice}, due was {due}"
                if due is not None and (notice != due.why or not notes):
                    yield f"{one.stream} has the notice {notice} and {len(notes)} notes, due was {due.why}"
                due = None
            case _:
                pass


def _is_fresh_note(message: Message) -> bool:
    return message.note and FRESH in text_of(message.parts)


def _a_stop_stops(told: Chronicle) -> Iterator[str]:
    """A run that somebody stopped is not completed behind that, and the next one starts fresh. Whoever was
    told that a message is refused does not see it run."""
    stopped: set[str] = set()
    for one in told.stored:
        match one.fact:
            case Suspended(run=run, why="stopped"):
                stopped.add(run)
            case ModelAsked() if one.stream in stopped and _asked_late(told, one.stream, one.append):
                yield f"{one.stream} asked a model at {one.append}, long after it was stopped"
            case _:
                pass
    for answer in told.answers.values():
        stop = answer.run if isinstance(answer, Stopped) else None
        if stop is not None and not any(isinstance(fact, RunEnded) for fact in told.facts(stop)):
            yield f"{stop} was said to be stopped, and has no end"
    refused = {fact.id for fact in told.facts() if isinstance(fact, MessageRefused)}
    for fact in told.facts():
        if isinstance(fact, MessageInjected) and fact.id in refused:
            yield f"{fact.id} was refused and injected"


def _an_interrupt_keeps(told: Chronicle) -> Iterator[str]:
    """A run that was interrupted has its end, the next one of the session stands on it, and its model is told
    once. Nothing that waited is refused for it."""
    for place, deed in enumerate(told.plot.deeds):
        run = told.answers.get(place)
        if deed.kind == "interrupt" and isinstance(run, str) and run:
            ends = [fact for fact in told.facts(run) if isinstance(fact, RunEnded)]
            if len(ends) != 1:
                yield f"{run} was said to be interrupted, and has {len(ends)} ends"
    kinds = {deed.kind for deed in told.plot.deeds}
    if kinds <= {"say", "interrupt"} and any(isinstance(fact, MessageRefused) for fact in told.facts()):
        yield "a message was refused because of an interrupt"
    for run in told.streams:
        started = next((fact for fact in told.facts(run) if isinstance(fact, RunStarted)), None)
        ended = [] if started is None else [f for f in told.facts(started.base) if isinstance(f, RunEnded)]
        if started is None or not ended:
            continue
        notes = sum(one.note and INTERRUPTED in text_of(one.parts) for one in started.messages)
        if notes != (ended[-1].outcome.kind == "cancelled"):
            kind = ended[-1].outcome.kind
            yield f"{run} is told {notes} times that {started.base}, {kind}, was interrupted"


def _asked_late(told: Chronicle, run: str, append: int) -> bool:
    """Whether the wish had been stored in the run, or the process that stored it was gone."""
    wish = next(one for one in told.stored if isinstance(one.fact, Suspended) and one.fact.run == run)
    here = next(one for one in told.stored if one.append == append)
    noted = any(
        isinstance(one.fact, StopAsked) and one.append < append for one in told.stored if one.stream == run
    )
    return noted or here.life != wish.life


def _legal_requests(told: Chronicle) -> Iterator[str]:
    for number, asked in enumerate(told.asked):
        messages = asked.request.messages
        broken = violations(
            messages, rules_of(told.plot.protocol), model="model", to_ask=messages[-1].role != "assistant"
        )
        yield from (f"request {number}: {one.rule}, {one.what}" for one in broken)


def _bounded(told: Chronicle) -> Iterator[str]:
    most = MOST_ASKED * (len(told.plot.deeds) + len(told.plot.deaths) + 1)
    if len(told.asked) > most:
        yield f"{len(told.asked)} model calls, {most} are enough"


def _usable(told: Chronicle) -> Iterator[str]:
    """In the end a message is answered as ever."""
    end = told.facts(told.last.run)[-1]
    if not isinstance(end, RunEnded) or end.outcome.kind != "completed":
        yield f"the last word ended as {end}"
    if told.stored[-1].stream == SESSION and not isinstance(told.stored[-1].fact, MessageInjected):
        yield f"{told.stored[-1].fact} came behind everything"


def try_plots(plots: Iterable[Plot]) -> CampaignReport:
    """Play each of these worlds, one after the other on one loop."""
    tried: dict[str, int] = {}
    problems: list[str] = []
    clock = VirtualClock()

    async def all_of_them() -> None:
        for plot in plots:
            tried[plot.busy] = tried.get(plot.busy, 0) + 1
            found = check_session(await SessionWorld(plot, clock).play())
            problems.extend(f"{plot}: {problem}" for problem in found)
            if len(problems) >= _MOST_PROBLEMS:
                return

    clock.run(all_of_them, quiet=0)
    return CampaignReport(tried, tuple(problems[:_MOST_PROBLEMS]))

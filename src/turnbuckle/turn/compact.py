"""Making a history smaller: which step is due, and what it makes of the history. Pure.

The steps, each taken only if it is enough: results of old calls become lines; reasoning goes; the oldest
part is summarised; the newest results become lines too; then it ends, with words. A step is enough if it
brings the history down to the goal, which is far below the limit, so that the next one is not due at
once. What frees less than the least is never done, also where somebody asked for it; then they are told that
there is nothing to make smaller. A border between what is summarised and what stays never splits a call
from its result, nor a reply from the rest of it. Whatever is changed, the history in front of the model is
another one from there on: reasoning that its provider bound to the old one goes with it.
"""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.reply.thoughts import is_thought
from turnbuckle.turn import summary
from turnbuckle.turn.base import Messages, opening_of
from turnbuckle.turn.budget import characters
from turnbuckle.turn.compaction import Compaction, Folding, Measure, ResultLine, Step
from turnbuckle.turn.facts import Compacted, GiveUp, SummaryDropped
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.turn.summary import is_users
from turnbuckle.turn.window import (
    WindowRoom,
    corrected,
    estimate,
    expected,
    tokens_of_part,
    tokens_of_text,
    unsure,
)
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.reply import Reply

_WORTH_A_LINE = 120
"""Tokens of a result below which a line saves nothing."""
_HEAD, _END = 1_200, 400
"""Characters of the newest results that stay where even they must become smaller."""
_LEAST = 0.05
"""A step that frees less than this part of the limit is none. If somebody asked for it: of what is used."""
_SUMMARY = 4_000
"""Tokens of a summary at most, and an eighth of the window."""
SUMMARY_LEAST = 128
"""Tokens below which there are no notes worth their name."""
_LONGEST = 1.25
"""So many times as long as it was asked to be a summary may come: some providers know no limit."""
_TRANSCRIPT = 24_000
"""Tokens that the summarised part is told in where nobody knows the window of who summarises."""
_TRANSCRIPT_SHARE = 0.6
_SAFE = 0.9
"""Of a window, what a request for a summary may fill together with its answer."""
_KEPT_ROUND = 2


class NothingToShrink(Struct, frozen=True):
    """There is nothing that could be made smaller, and why, if there is more to say."""

    why: str = ""


def border_of(turn: Turn) -> int:
    """Where the history begins that stands for itself: behind the instructions and the note."""
    note = turn.compaction.note if turn.compaction is not None else ()
    return len(opening_of(turn.messages)) + len(note)


def used_by(turn: Turn, guessed: int, model: str, more: Messages = ()) -> int:
    """The tokens of the next request of this turn, which takes `guessed` by length alone. `more` are messages
    that come behind its history."""
    measure = turn.measure
    if measure is not None:
        measure = replace(measure, left=len(turn.messages) - turn.measured + len(more))
    return expected(guessed, (*turn.messages, *more), measure, model)


def ratio_of(turn: Turn) -> float:
    return turn.measure.ratio if turn.measure is not None else 1.0


def may_shrink(turn: Turn, policy: Policy) -> bool:
    """Whether a request that was refused as too large can be made smaller."""
    rules = policy.compaction
    return rules is not None and turn.tally.compactions < rules.most and turn.options.compact is None


def refused(turn: Turn, why: Failure | None, reply: Reply) -> Turn:
    """The turn knows what was too much. A provider that counted it corrects our estimate."""
    is_full = reply.finish == "window"
    if not is_full and (why is None or why.kind not in ("context", "too_large")):
        return turn
    assert turn.ask is not None
    route, size = turn.ask.route, turn.asked_for or estimate(turn.messages)
    smallest = min(turn.refused.get(route, size), size)
    if why is not None and why.taken and turn.guessed:
        ratio = corrected(why.taken, turn.guessed)
        smallest = max(smallest, why.taken)
        measure = Measure(why.taken, 0, ratio, turn.model)
        turn = replace(turn, measure=measure, measured=turn.before_notes)
    return replace(turn, refused={**turn.refused, route: smallest}, refusal=why or turn.refusal)


def next_step(
    turn: Turn,
    policy: Policy,
    room: WindowRoom | None,
    used: int,
    *,
    bound: bool,
    summarising: int | None = None,
) -> Compacted | Folding | GiveUp | NothingToShrink | None:
    """What is due before a request of so many tokens goes out: None, if it fits. `bound`: reasoning is
    bound to what stands before it. `summarising` is the window of who writes summaries."""
    rules, keep = policy.compaction, turn.options.compact
    if rules is None:
        return None
    if keep is not None:
        return _wanted(turn, policy, room, used, keep, summarising, bound=bound)
    if room is None or used <= room.limit:
        return None
    if turn.tally.compactions + turn.tally.dropped >= rules.most:
        return _full(turn, room, used, f"it was made smaller {rules.most} times in this turn")
    lines = _lines(turn, policy, room.results)
    step = _trimmed(turn, policy, "results", lines, used, bare=bound)
    if step.after <= room.goal:
        return step
    bare = _trimmed(turn, policy, "reasoning", lines, used, bare=True)
    if bare.after <= room.goal and bare.after < step.after:
        return bare
    least = least_freed(room.limit)
    upto, cap = _border(turn, room.tail), _cap(room)
    folding = _folding(turn, upto, room, used, "", summarising, cap, least)
    is_new = upto > max(border_of(turn), turn.unsummarised)
    freed = _freed_by_note(turn, policy, upto, cap) - int(_LONGEST * cap) if is_new else 0
    if freed >= least and used - freed <= room.limit:
        return folding
    newest = _trimmed(turn, policy, "newest", _lines(turn, policy, 0), used, bare=True)
    if used - newest.after >= least:
        return newest
    return folding if freed >= least else _full(turn, room, used, "nothing more can be left out of it")


def least_freed(size: int) -> int:
    """So many tokens a step must free, of a history or a limit of this size."""
    return max(int(size * _LEAST), 1)


def _wanted(
    turn: Turn,
    policy: Policy,
    room: WindowRoom | None,
    used: int,
    keep: str,
    summarising: int | None,
    *,
    bound: bool,
) -> Compacted | Folding | NothingToShrink:
    """Somebody asked for it: all but the last exchange is summarised, in less than it takes itself. Where it
    is too short for that, or its summary was too long, old results and reasoning go if that helps."""
    least = least_freed(used)
    last = max((i for i, message in enumerate(turn.messages) if is_users(message)), default=0)
    size = estimate(turn.messages[last:])
    tail = min(size, room.tail) if room is not None else size if size < _SUMMARY else 0
    upto = _border(turn, tail) if tail else len(turn.messages)
    if upto - border_of(turn) >= _KEPT_ROUND and not turn.tally.dropped:
        fits = _freed_by_note(turn, policy, upto, _cap(room)) - least
        if fits >= SUMMARY_LEAST:
            folding = _folding(turn, upto, room, used, keep, summarising, min(_cap(room), fits), least)
            return replace(folding, words=_cap(room))
    lines = _lines(turn, policy, 1)
    for step in (
        _trimmed(turn, policy, "results", lines, used, bare=bound),
        _trimmed(turn, policy, "reasoning", lines, used, bare=True),
    ):
        if used - step.after >= least:
            return step
    return NothingToShrink(turn.too_long)


def _full(turn: Turn, room: WindowRoom, used: int, why: str) -> GiveUp | None:
    """The honest end. What may fit is sent: nobody but its provider knows what a picture weighs, and the
    limit is not yet the window."""
    new = turn.messages if turn.measure is None else turn.messages[turn.measured :]
    if not room.was_refused and used - int(unsure(new) * max(ratio_of(turn), 1.0)) <= room.most:
        return None
    words = (
        f"the conversation does not fit the model: it takes about {used:,} tokens of {room.window:,}, "
        f"and {why}. Send a shorter message, name a route with a larger window, or begin a new conversation "
        "with /new"
    )
    return GiveUp("partial" if turn.has_something else "failed", words)


# Lines in place of results


def _lines(turn: Turn, policy: Policy, spared: int) -> tuple[ResultLine, ...]:
    """A line for every large result but the newest ones, of which so many tokens are spared, the last
    round in any case. With nothing spared, all of them."""
    start, messages = border_of(turn), turn.messages
    calls = _calls_in(messages)
    known = {line.call_id for line in turn.compaction.lines} if turn.compaction is not None else set()
    lines: list[ResultLine] = []
    kept, rounds = 0, 0
    for place in range(len(messages) - 1, start - 1, -1):
        results = [part for part in messages[place].parts if isinstance(part, ResultPart)]
        rounds += bool(results)
        for part in results:
            size = tokens_of_part(part)
            kept += size
            if size <= _WORTH_A_LINE or part.call_id in known or (spared and (kept <= spared or rounds == 1)):
                continue
            text = _line(calls.get(part.call_id), part, policy, newest=not spared and rounds == 1)
            if tokens_of_text(text) >= size:
                continue
            lines.append(ResultLine(place - start, part.call_id, text))
    return tuple(reversed(lines))


def _calls_in(messages: Messages) -> dict[str, CallPart]:
    return {part.id: part for message in messages for part in message.parts if isinstance(part, CallPart)}


def _line(call: CallPart | None, part: ResultPart, policy: Policy, *, newest: bool) -> str:
    text = text_of(part.content)
    name = call.name if call is not None else "a tool"
    given = summary.shortened(call.arguments, 160) if call is not None else ""
    shown = [*summary.seen_in(part.content)]
    size = ", ".join([f"{len(text):,} characters", *shown, f"content {summary.mark_of(text)}"])
    how = []
    if kept := summary.kept_line(text):
        how.append(kept)
    elif call is not None and policy.tool(call.name).effect == "read":
        how.append("Call it again to see it as it is now.")
    if summary.RECALL in policy.tools:
        how.append(f'recall("{part.call_id}") shows it as it was.')
    said = f"[Runtime] Left out to save room: the result of {name} {given} ({size}). {' '.join(how)}".rstrip()
    if not newest or len(text) <= _HEAD + _END:
        return said
    return f"{text[:_HEAD]}\n[… {len(text) - _HEAD - _END:,} characters left out …]\n{text[-_END:]}\n{said}"


def _trimmed(
    turn: Turn, policy: Policy, step: Step, lines: tuple[ResultLine, ...], used: int, *, bare: bool
) -> Compacted:
    """The history with these results as lines, and without reasoning if it goes `bare`. Which files were
    seen in them is noted here, since a later summary finds only the lines."""
    before = turn.compaction or Compaction(0, opening_of(turn.messages))
    start = border_of(turn)
    compaction = replace(
        before,
        back=turn.began - len(turn.past) - start,
        opening=opening_of(turn.messages),
        lines=(*before.lines, *lines),
        bare=len(turn.messages) - start if bare else before.bare,
        files=summary.seen_files(
            turn.messages[start:], before, policy, frozenset(line.call_id for line in lines)
        ),
    )
    return _fact(turn, step, compaction, used)


def edited(messages: Messages, compaction: Compaction) -> Messages:
    """What stands behind the border, as this compaction tells it."""
    lines: dict[int, dict[str, str]] = {}
    for line in compaction.lines:
        lines.setdefault(line.place, {})[line.call_id] = line.text
    touched = _touched(compaction)
    told = [
        _told(message, lines.get(place, {}), bare=place < compaction.bare)
        for place, message in enumerate(messages[:touched])
    ]
    return (*told, *messages[touched:])


def _told(message: Message, lines: dict[str, str], *, bare: bool) -> Message:
    if not lines and not (bare and any(map(is_thought, message.parts))):
        return message
    parts = tuple(
        replace(part, content=(TextPart(lines[part.call_id]),))
        if isinstance(part, ResultPart) and part.call_id in lines
        else part
        for part in message.parts
        if not (bare and is_thought(part))
    )
    return replace(message, parts=parts)


# A summary in place of the oldest part


def _border(turn: Turn, tail: int) -> int:
    """The first place behind which no more than so many tokens stand, and where nothing is split; at the
    latest before the last round. Where there is no such place, the border that is there."""
    messages, start = turn.messages, border_of(turn)
    best, size = start, 0
    unanswered: set[str] = set()  # results whose calls stand further in front
    for place in range(len(messages) - 1, start, -1):
        message, before = messages[place], messages[place - 1]
        size += estimate((message,))
        unanswered |= {part.call_id for part in message.parts if isinstance(part, ResultPart)}
        unanswered -= {part.id for part in message.parts if isinstance(part, CallPart)}
        if best != start and size > tail:
            break
        in_call = message.role == "tool" or any(isinstance(part, CallPart) for part in before.parts)
        if not (unanswered or before.partial or in_call):
            best = place
    return best


def _freed_by_note(turn: Turn, policy: Policy, upto: int, words: int) -> int:
    """Tokens that a note would free if its summary were empty."""
    gone = estimate(turn.messages[len(opening_of(turn.messages)) : upto])
    note, _ = _note_of(turn, policy, upto, words, "", "")
    return int((gone - estimate((note, *summary.spared(turn, upto)))) * ratio_of(turn))


def _cap(room: WindowRoom | None) -> int:
    return _SUMMARY if room is None else max(min(_SUMMARY, room.window // 8), SUMMARY_LEAST)


def _folding(
    turn: Turn,
    upto: int,
    room: WindowRoom | None,
    used: int,
    keep: str,
    summarising: int | None,
    cap: int,
    least: int,
) -> Folding:
    window = summarising or (room.window if room is not None else None)
    transcript = int(window * _TRANSCRIPT_SHARE / max(ratio_of(turn), 1.0)) if window else _TRANSCRIPT
    return Folding(upto, transcript, used, cap, keep, least=least)


def fitted(folding: Folding, window: int | None, ratio: float) -> Folding:
    """The same for a route of this window: the conversation in what is left beside the instructions and the
    summary itself."""
    if window is None:
        return folding
    around = estimate(summary.summary_request((), 0, folding.keep, folding.cap))
    cap = min(folding.cap, max(window // 4, SUMMARY_LEAST))
    fits = int((window * _SAFE - cap) / max(ratio, 1.0)) - around
    return replace(folding, fits=max(fits, 1), cap_fits=cap)


def summarised(turn: Turn, policy: Policy, *, bound: bool) -> Compacted | SummaryDropped:
    """The summary of the reply that is there, or none, in place of what it stands for; unless that would not
    be smaller."""
    ask = turn.ask
    assert ask is not None
    assert ask.folding is not None
    folding, reply = ask.folding, turn.reply
    before = turn.compaction or Compaction(0)
    most = int(_LONGEST * folding.cap / max(ratio_of(turn), 1.0))
    text = summary.within(reply.text.strip(), most) if reply is not None else ""
    why = "" if text else "no model could summarise it"
    start, upto = border_of(turn), folding.upto
    note, gone = _note_of(turn, policy, upto, folding.words or folding.cap, text, why)
    shift = upto - start
    compaction = Compaction(
        back=turn.began - len(turn.past) - upto,
        opening=opening_of(turn.messages),
        note=(note, *summary.spared(turn, upto)),
        lines=tuple(replace(line, place=line.place - shift) for line in before.lines if line.place >= shift),
        bare=len(turn.messages) - upto if bound else max(before.bare - shift, 0),
        summary=text,
        words=gone.words,
        files=gone.files,
        messages=before.messages + shift,
    )
    made = _fact(turn, "summary", compaction, folding.used, shift, why)
    if made.before - made.after >= folding.least:
        return made
    return SummaryDropped(turn.now, made.before, made.after)


def _note_of(
    turn: Turn, policy: Policy, upto: int, words: int, text: str, why: str
) -> tuple[Message, summary.Gathered]:
    """The note with this summary in place of all before a message, and what it was made of."""
    before = turn.compaction or Compaction(0)
    part = turn.messages[border_of(turn) : upto]
    gone = summary.Gathered.of(part, before, policy, words, spared=summary.spared(turn, upto))
    recall = summary.RECALL in policy.tools
    return summary.note(text, gone, before.messages + len(part), recall=recall, why=why), gone


def dropped(turn: Turn, fact: SummaryDropped) -> Turn:
    """The turn behind a summary that is not used: the history is as it was, and the call that waited for it
    is due again."""
    folding = turn.ask.folding if turn.ask is not None else None
    return replace(
        turn,
        phase="asking",
        ask=turn.suspended or turn.ask,
        suspended=None,
        reply=None,
        unsummarised=folding.upto if folding is not None else len(turn.messages),
        too_long=f"with a summary it would take {fact.after:,} tokens instead of {fact.before:,}",
        tally=replace(turn.tally, dropped=turn.tally.dropped + 1),
    )


# What comes of it


def _fact(turn: Turn, step: Step, made: Compaction, used: int, count: int = 0, why: str = "") -> Compacted:
    now = applied(turn, made)
    saved = estimate(turn.messages) - estimate(now.messages)
    after = max(used - int(saved * ratio_of(turn)), 0)
    return Compacted(turn.now, step, made, used, after, characters(now.messages[: now.began]), count, why)


def applied(turn: Turn, made: Compaction) -> Turn:
    """The turn whose history is told in this way. What the run added stays at hand as it was said."""
    border = turn.began - len(turn.past) - made.back
    behind = turn.messages[border:]
    changed = max(border + _touched(made), turn.began)
    past = (*turn.past, *turn.messages[turn.began : changed])
    front = (*made.opening, *made.note)
    messages = (*front, *edited(behind, made))
    began = len(front) + changed - border
    return replace(turn, messages=messages, past=past, began=began, compaction=made)


def compacted(turn: Turn, fact: Compacted, *, sending: bool) -> Turn:
    """The turn behind a compaction. Who does not send needs the history as it was said, and counts the
    same."""
    measure = Measure(fact.after, 0, ratio_of(turn), turn.measure.model if turn.measure is not None else "")
    if sending:
        turn = applied(turn, fact.compaction)
        turn = replace(turn, measure=measure, measured=len(turn.messages))
    else:
        added = turn.began - len(turn.past)
        border = added - fact.compaction.back
        changed = max(border + _touched(fact.compaction), turn.began)
        turn = replace(turn, began=changed, past=turn.messages[added:changed], compaction=fact.compaction)
    tally = replace(turn.tally, compactions=turn.tally.compactions + 1)
    ask = turn.suspended or turn.ask
    return replace(
        turn,
        phase="asking",
        ask=ask,
        suspended=None,
        reply=None,
        tally=tally,
        told_by=turn.run,
        given=fact.given,
        unsummarised=0,
    )


def _touched(made: Compaction) -> int:
    """How many messages behind the border are not told as they were said."""
    return max(made.bare, max((line.place + 1 for line in made.lines), default=0))

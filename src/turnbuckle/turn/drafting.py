"""Drafts in a turn: what is kept of a cut call, and what `finish_call` makes of it."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft, draft_of, grown, text_argument, told_length
from turnbuckle.reply.splice import Extended, Spliced, SpliceRefused, choose, extend_by_cut, splice
from turnbuckle.reply.verdict import ours_to_run
from turnbuckle.turn import held, pieces, prompts
from turnbuckle.turn.commands import Command, Record, RunTool
from turnbuckle.turn.facts import (
    CallsHeld,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    HeldCall,
    ToolFinished,
)
from turnbuckle.turn.policy import ANY_TEXT, Policy
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.messages import CallPart, Message
from turnbuckle.vocab.reply import Reply, ReplyCall
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome, ToolStatus

WORTH_A_DRAFT = 400
"""Characters of arguments below which a call is simply made again: that costs less than the words about a
draft."""
_LETTERS = "bcdefghijklmnopqrstuvwxyz"


class KeptDraft(Struct, frozen=True):
    """What is kept of a cut call. `tool` is the tool that the work was for, also when `finish_call` was cut.

    `gained` counts what no draft had before: a call that starts again from the top brings nothing new until
    it is past what is there already. `length` is how much the draft holds now."""

    tool: str
    facts: tuple[Fact, ...] = ()
    draft: DraftId | None = None
    gained: int = 0
    length: int = 0


def keep(turn: Turn, reply: Reply, policy: Policy) -> KeptDraft | None:
    """What to keep of a reply that was cut: None if no call had begun. All its calls are kept (`held`); of
    those that are not whole, the first whose draft is open is asked for next."""
    calls = [call for call in ours_to_run(reply) if call.name or call is reply.calls[-1]]
    if not calls:
        return None
    whole = [call.id for call in calls if held.arrived_whole(call)]
    if len(whole) == len(calls):
        whole.pop()  # the reply may have gone on: the model only has to say that it still wants this one
    keeping = _Keeping(turn, policy)
    for call in calls:
        if call.id in whole:
            keeping.take_whole(call)
        else:
            keeping.take_cut(call)
    return keeping.kept()


class _Keeping:
    """Takes the calls of a reply that was cut, in their order. `before` is the turn as the reply found it."""

    def __init__(self, before: Turn, policy: Policy) -> None:
        self._before = self._now = before
        self._policy = policy
        self._facts: list[Fact] = []
        self._placed: list[HeldCall] = []
        self._gained = 0
        self._cut = KeptDraft("")

    def take_whole(self, call: ReplyCall) -> None:
        if call.name == FINISH_CALL and not self._policy.tool(FINISH_CALL).client:
            self._take_finish(call)
            return
        whole = HeldCall(call.id, call.name, call.arguments if call.arguments.strip() else "{}")
        known = self._now.held
        closing = self._of_before(replaced(self._now, call.name, held.arguments_of(whole)))
        self._add(closing)
        if any(place.draft == closed.draft for closed in closing for place in known):
            self._hold(held.fill(known, closing[0].draft, whole), whole)
        else:
            placed = held.put(known, whole, self._placed)
            self._hold(placed.held, placed.one)
        self._gained += len(call.arguments) if self._now.held != known else 0

    def _take_finish(self, call: ReplyCall) -> None:
        turn = self._now
        pending = PendingCall(call.id, call.name, judge(call.arguments).value or {})
        draft, joined = turn.drafts.get(draft_named(pending)), join(turn, pending, self._policy)
        if draft is None or isinstance(joined, (SpliceRefused, str)):
            return
        if isinstance(joined, Extended):
            grows = len(joined.draft.text) - len(draft.text)
            if grows > 0:
                self._add([DraftGrown(turn.now, draft.id, joined.kept, joined.added)])
                self._gained += grows
            return
        whole = HeldCall(call.id, draft.tool, joined.arguments_text)
        self._add(replaced(turn, draft.tool, joined.arguments, draft.id))
        self._hold(held.fill(turn.held, draft.id, whole), whole)
        self._gained += len(joined.added)

    def take_cut(self, call: ReplyCall) -> None:
        """The call that was cut, or the last one where it is not known whether more was to come."""
        kept = self._cut = self._of_cut(call)
        self._add(kept.facts)
        self._gained += kept.gained
        earlier = [place for place in self._before.held if place.is_whole and place.name == call.name]
        if kept.tool == FINISH_CALL or any(place.arguments.startswith(call.arguments) for place in earlier):
            return  # nothing of its own, or a call that is here already
        place = HeldCall(call.id, kept.tool, draft=kept.draft or DraftId(""))
        placed = held.put(self._now.held, place, self._placed)
        self._hold(placed.held, placed.one)

    def _of_cut(self, call: ReplyCall) -> KeptDraft:
        if call.name == FINISH_CALL:
            return _extend(self._now, call)
        argument, cut = self._policy.tool(call.name).draftable, _as_cut(call)
        if argument == ANY_TEXT or (not argument and held.arrived_whole(call)):
            argument = text_argument(cut) if len(cut) >= WORTH_A_DRAFT else ""
        if not argument or self._is_too_short(call.name, cut):
            return KeptDraft(call.name)
        draft = draft_of(call.name, cut, argument, self._new_name())
        if not isinstance(draft, Draft) or not draft.text:
            return KeptDraft(call.name)
        return _restarted(self._before, draft, self._now) or _begun(self._before, draft)

    def _is_too_short(self, tool: str, cut: str) -> bool:
        """Whether saying it again costs less than the words about a draft. A tool that was cut before keeps
        whatever arrived: a connection that breaks all the time gets there by small pieces."""
        turn = self._before
        begun = tool == turn.tally.cut_tool or any(draft.tool == tool for draft in turn.drafts.values())
        return len(cut) < self._policy.worth_a_draft and not begun

    def _new_name(self) -> DraftId:
        """Named by its attempt; a second one of the same reply gets a letter."""
        count = sum(isinstance(fact, DraftKept) for fact in self._facts)
        return DraftId(
            f"d{self._before.attempt}{_LETTERS[count - 1] if 0 < count <= len(_LETTERS) else count or ''}"
        )

    def _of_before(self, closing: list[DraftClosed]) -> list[DraftClosed]:
        """Without the drafts of this very reply: a call beside them is another call."""
        return [closed for closed in closing if closed.draft in self._before.drafts]

    def _hold(self, places: tuple[HeldCall, ...], one: HeldCall) -> None:
        self._now = replace(self._now, held=places)
        self._placed.append(one)

    def _add(self, facts: Sequence[Fact]) -> None:
        self._facts += facts
        self._now = _after(self._now, facts)

    def kept(self) -> KeptDraft:
        turn, places, drafts = self._before, self._now.held, self._now.drafts
        if not turn.held and len(places) <= 1:
            return replace(self._cut, facts=tuple(self._facts), gained=self._gained)
        if places != turn.held:
            self._facts.append(CallsHeld(turn.now, places))
        missing = next((place for place in places if place.draft in drafts), None)
        if missing is not None:
            length = len(drafts[missing.draft].text)
            return KeptDraft(missing.name, tuple(self._facts), missing.draft, self._gained, length)
        named = next((place.name for place in places if not place.is_whole), self._cut.tool)
        return KeptDraft(named, tuple(self._facts), None, self._gained)


def _after(turn: Turn, facts: Sequence[Fact]) -> Turn:
    """The turn behind these facts, as far as the next call of the same reply must know."""
    drafts = dict(turn.drafts)
    for fact in facts:
        match fact:
            case DraftKept(_, draft):
                drafts[draft.id] = draft
            case DraftGrown(_, name, count, added):
                drafts[name] = grown(drafts[name], count, added)
            case DraftClosed(_, name):
                drafts.pop(name, None)
            case _:
                pass
    return replace(turn, drafts=drafts)


def lost(reply: Reply, kept: KeptDraft | None) -> int:
    """Characters of the reply's calls that are of no use, counted as they came. What a draft took in is of
    use, with its escapes and with the arguments around it; so is a whole call that is held."""
    arrived = sum(len(call.arguments) for call in reply.calls)
    return max(arrived - (0 if kept is None else _used(kept, reply)), 0)


def _used(kept: KeptDraft, reply: Reply) -> int:
    arguments = {call.id: len(call.arguments) for call in reply.calls}
    places = [place for fact in kept.facts if isinstance(fact, CallsHeld) for place in fact.calls]
    whole = {place.id: arguments.get(place.id, 0) for place in places if place.is_whole}
    source = {place.draft: place.id for place in places if place.draft}
    used = sum(whole.values())
    fresh = kept.gained - used
    for fact in kept.facts:
        match fact:
            case DraftKept(draft=draft) if fresh >= len(draft.text):
                used += arguments.get(source.get(draft.id, reply.calls[-1].id), 0)  # all of it is new
                fresh -= len(draft.text)
            case DraftKept(draft=draft):
                used += _as_written(draft.text[len(draft.text) - max(fresh, 0) :])
            case DraftGrown(doubtful=doubtful) if doubtful is not None:
                used += _as_written(doubtful.rest)
                fresh -= len(doubtful.rest)
            case DraftGrown(added=added):
                used += _as_written(added)
                fresh -= len(added)
            case _:
                pass
    return used


def _as_written(text: str) -> int:
    """How many characters a text has in JSON."""
    return len(msgspec.json.encode(text).decode()) - len('""')


def _restarted(turn: Turn, found: Draft, now: Turn) -> KeptDraft | None:
    """The model made the same call again from the top, and it was cut again: one draft, and the longer
    text."""
    for draft in turn.drafts.values():
        if draft != now.drafts.get(draft.id):
            continue
        if (draft.tool, draft.settled) != (found.tool, found.settled) or draft.closed:
            continue
        if draft.text.startswith(found.text) and not found.closed:
            return KeptDraft(found.tool, (), draft.id, 0, len(draft.text))
        if found.text.startswith(draft.text) and not found.closed:
            added = DraftGrown(turn.now, draft.id, len(draft.text), found.text[len(draft.text) :])
            return KeptDraft(found.tool, (added,), draft.id, len(added.added), len(found.text))
    return None


def _begun(turn: Turn, found: Draft) -> KeptDraft:
    most = max((len(draft.text) for draft in turn.drafts.values() if draft.tool == found.tool), default=0)
    gained = max(len(found.text) - most, 0)
    return KeptDraft(found.tool, (DraftKept(turn.now, found),), found.id, gained, len(found.text))


def _as_cut(call: ReplyCall) -> str:
    """A call that looks whole in a reply that was cut did not run either. Its last brace is taken off, so
    that it is kept as a draft whose text is complete, and the model only has to say that it still wants
    it."""
    text = call.arguments.rstrip()
    return text[:-1] if text.endswith("}") and judge(text).status == "whole" else call.arguments


def _extend(turn: Turn, call: ReplyCall) -> KeptDraft:
    for draft in turn.drafts.values():
        longer = extend_by_cut(draft, _as_cut(call), told=told_length(draft))
        if isinstance(longer, Extended):
            added = DraftGrown(turn.now, draft.id, longer.kept, longer.added)
            length = len(longer.draft.text)
            return KeptDraft(draft.tool, (added,), draft.id, length - len(draft.text), length)
        if longer.doubtful is not None:
            before = len(draft.doubtful.rest) if draft.doubtful is not None else 0
            asked = DraftGrown(turn.now, draft.id, len(draft.text), "", longer.doubtful)
            return KeptDraft(
                draft.tool, (asked,), draft.id, max(len(longer.doubtful.rest) - before, 0), len(draft.text)
            )
    latest = next(reversed(turn.drafts.values()), None)
    return (
        KeptDraft(FINISH_CALL)
        if latest is None
        else KeptDraft(latest.tool, (), latest.id, 0, len(latest.text))
    )


def replaced(
    turn: Turn, tool: str, arguments: dict[str, Any], finished: DraftId | None = None
) -> list[DraftClosed]:
    """The drafts that a call settles: the one that it finishes, and those for the same thing. A draft of
    another file, say, stays open, and so does one of which this is not the whole, or that another call of
    this reply is there to finish."""
    others = {draft_named(call) for call in turn.calls if call.name == FINISH_CALL and call.outcome is None}
    return [
        DraftClosed(turn.now, draft.id, "finished" if draft.id == finished else "superseded")
        for draft in turn.drafts.values()
        if draft.id == finished or (draft.id not in others and pieces.settles(turn, draft, tool, arguments))
    ]


def refuse_part(turn: Turn, call: PendingCall, policy: Policy) -> Record | None:
    """A new call that would put a part in place of the whole is not started, and the model is told
    why."""
    fault = pieces.unfit(turn, call, policy)
    if fault is None:
        return None
    draft, why = fault
    text = call.arguments[draft.argument]
    words = f"Not started: {why} ({len(text):,} characters, {len(draft.text):,} are kept). "
    again = prompts.text(prompts.finish_draft(draft, 0, policy.tool(draft.tool).guarded))
    return _answer(turn, call, "not_started", words + again)


def is_waited_for(turn: Turn, policy: Policy) -> bool:
    """Whether calls wait for a reply that was cut and is not yet whole: those that are held, and the caller's
    beside a `finish_call` that did not finish the draft of another one: once calls were handed over, nobody
    can."""
    if turn.held:
        return True
    tried = {
        draft_named(call) for call in turn.calls if call.name == FINISH_CALL and call.outcome is not None
    }
    if not tried & set(turn.drafts):
        return False
    left = tuple(call for call in turn.calls if call.outcome is None)
    settled = set(finished_by(turn, left, policy).values())
    return any(policy.tool(turn.drafts[name].tool).client for name in tried & set(turn.drafts) - settled)


def finish(turn: Turn, call: PendingCall, key: str, policy: Policy) -> Command:
    """Perform a whole `finish_call`: extend the draft, run the call that it completes, or say why not."""
    draft = turn.drafts.get(draft_named(call))
    joined = join(turn, call, policy)
    if draft is None or isinstance(joined, str):
        return _answer(turn, call, "not_started", str(joined))
    match joined:
        case SpliceRefused(doubtful=doubtful) if doubtful is not None:
            asked = _answer(turn, call, "not_started", prompts.doubt(draft, doubtful, joined.why))
            return Record((DraftGrown(turn.now, draft.id, len(draft.text), "", doubtful), *asked.facts))
        case SpliceRefused():
            there = (
                f"The draft {draft.id} has {len(draft.text):,} characters and ends "
                f"with:\n{prompts.end_of(draft)}"
            )
            words = f"Not joined: {joined.why}. {there}"
            return _answer(turn, call, "not_started", words)
        case Extended():
            added = DraftGrown(turn.now, draft.id, joined.kept, joined.added)
            count = len(joined.draft.text)
            words = (
                f"Kept: the draft {draft.id} has {count:,} characters now. Send the next piece with "
                "finish_call."
            )
            if draft.doubtful is not None:  # it may have been cut, and the model does not know where
                words = (
                    f"{words} Written as a JSON string, the draft ends with:\n{prompts.end_of(joined.draft)}"
                )
            finished = ToolFinished(turn.now, call.id, call.name, ToolOutcome("finished", words))
            return Record((added, finished))
        case Spliced():
            closing = replaced(turn, draft.tool, joined.arguments, draft.id)
            if is_waited_for(turn, policy):
                whole = HeldCall(call.id, draft.tool, joined.arguments_text)
                return _wait(turn, call, draft.id, whole, closing, policy)
            return RunTool(call.id, draft.tool, joined.arguments, key, tuple(closing))


def _wait(
    turn: Turn, call: PendingCall, draft: DraftId, whole: HeldCall, closing: list[DraftClosed], policy: Policy
) -> Record:
    """A draft is whole, and another one of the same reply is not: this call waits for it."""
    after = replace(turn, held=held.fill(turn.held, draft, whole), drafts=_without_closed(turn, closing))
    after = _with_places(after, policy)
    named = held.named(whole.name, held.arguments_of(whole), policy)
    words = f"Whole now, and will run with the rest of your reply: {named}. {_what_is_missing(after, policy)}"
    status: ToolStatus = "finished" if call.name == FINISH_CALL else "not_started"
    return Record((*closing, CallsHeld(turn.now, after.held), *_answer(turn, call, status, words).facts))


def _with_places(turn: Turn, policy: Policy) -> Turn:
    """With a place for every open draft of a call that the caller is to get."""
    known = {place.draft for place in turn.held}
    drafts = [
        draft for draft in turn.drafts.values() if policy.tool(draft.tool).client and draft.id not in known
    ]
    return replace(
        turn, held=(*turn.held, *(HeldCall(draft.id, draft.tool, draft=draft.id) for draft in drafts))
    )


def _without_closed(turn: Turn, closing: list[DraftClosed]) -> dict[DraftId, Draft]:
    gone = {closed.draft for closed in closing}
    return {name: draft for name, draft in turn.drafts.items() if name not in gone}


def _what_is_missing(turn: Turn, policy: Policy) -> str:
    """What to do next so that the reply becomes whole."""
    for place in turn.held:
        if place.draft in turn.drafts:
            draft = turn.drafts[place.draft]
            return prompts.text(prompts.finish_draft(draft, 0, policy.tool(draft.tool).guarded))
    return ""


def hold_back(turn: Turn, call: PendingCall, policy: Policy) -> Record | None:
    """A call that is made while another one of a cut reply is not yet whole: it waits for it where it belongs
    to that reply, else it is not started. Looking at something is always possible."""
    facts = policy.tool(call.name)
    if not turn.held and not (facts.client and is_waited_for(turn, policy)):
        return None
    if facts.effect == "read" and not facts.client:
        return None
    closing = replaced(turn, call.name, call.arguments)
    if closing:
        whole = HeldCall(call.id, call.name, msgspec.json.encode(call.arguments).decode())
        return _wait(turn, call, closing[0].draft, whole, closing, policy)
    words = (
        "Not started: your reply that was cut comes first. "
        f"{_what_is_missing(_with_places(turn, policy), policy)}"
    )
    return _answer(turn, call, "not_started", words)


def finished_by(turn: Turn, calls: tuple[PendingCall, ...], policy: Policy) -> dict[str, DraftId]:
    """Which draft each of these calls makes whole, or takes the place of."""
    finished: dict[str, DraftId] = {}
    for call in calls:
        if call.name == FINISH_CALL and not policy.tool(FINISH_CALL).client:
            if isinstance(join(turn, call, policy), Spliced):
                finished[call.id] = draft_named(call)
        elif call.draft:
            finished[call.id] = call.draft
        elif closing := replaced(turn, call.name, call.arguments):
            finished[call.id] = closing[0].draft
    return finished


def made_whole(
    turn: Turn, made: tuple[PendingCall, ...], policy: Policy
) -> tuple[Turn, tuple[PendingCall, ...]]:
    """The calls of a whole reply, which is the last of the history, with those of a cut one that it makes
    whole."""
    whole = held.together(turn, made, finished_by(turn, made, policy)) if turn.held else None
    if whole is None:
        return turn, made
    message = held.with_calls(turn.messages[-1], whole.added, turn.held)
    return replace(turn, messages=(*turn.messages[:-1], message), held=()), whole.calls


def join(turn: Turn, call: PendingCall, policy: Policy) -> Spliced | Extended | SpliceRefused | str:
    """What a whole `finish_call` makes of its draft; a sentence if it names none, or is spelt wrongly."""
    given = call.arguments
    draft = turn.drafts.get(draft_named(call))
    if draft is None:
        known = ", ".join(turn.drafts) or "none"
        return f"There is no such open draft (open: {known}). Make the call itself."
    wrong = _misspelt(given)
    if wrong:
        return wrong
    guarded = policy.tool(draft.tool).guarded
    rest, also = given.get("rest", ""), given.get("also")
    if given.get("reading") and (not rest or (draft.doubtful is not None and rest == draft.doubtful.rest)):
        return choose(draft, given["reading"], also, guarded)
    return splice(
        draft, given.get("after", ""), rest, given.get("more", False), also, guarded, told=told_length(draft)
    )


def was_used(messages: tuple[Message, ...]) -> bool:
    """Whether a history holds a `finish_call`: then it stays in the list of tools."""
    return any(
        isinstance(part, CallPart) and part.name == FINISH_CALL
        for message in messages
        for part in message.parts
    )


def draft_named(call: PendingCall) -> DraftId:
    """The draft that a `finish_call` names."""
    return DraftId(str(call.arguments.get("draft", "")))


def tool_of(turn: Turn, call: PendingCall) -> str:
    """The tool whose call a `finish_call` finishes; empty if there is no such draft."""
    draft = turn.drafts.get(draft_named(call))
    return draft.tool if draft is not None else ""


def _misspelt(given: dict[str, Any]) -> str:
    kinds: dict[str, type] = {"after": str, "rest": str, "more": bool, "also": dict, "reading": str}
    wrong = [name for name, kind in kinds.items() if name in given and not isinstance(given[name], kind)]
    return f"finish_call takes another kind of value for {', '.join(wrong)}." if wrong else ""


def _answer(turn: Turn, call: PendingCall, status: ToolStatus, text: str) -> Record:
    return Record((ToolFinished(turn.now, call.id, call.name, ToolOutcome(status, text)),))

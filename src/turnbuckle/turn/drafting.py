"""Drafts in a turn: what is kept of a cut call, and what `finish_call` makes of it."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from turnbuckle.reply.draft import Draft, draft_of, text_argument
from turnbuckle.reply.splice import Extended, Refused, Spliced, extend_by_cut, splice
from turnbuckle.turn.commands import Command, Record, RunTool
from turnbuckle.turn.facts import (
    Decision,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    Fallback,
    FinishDraft,
    GiveUp,
    Reask,
    Retry,
    ToolFinished,
)
from turnbuckle.turn.policy import ANY_TEXT, Policy
from turnbuckle.turn.recover import Broken
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.reply import Reply, ReplyCall
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome

WORTH_A_DRAFT = 400
"""Characters of arguments below which a tool that nobody described simply makes its call again: that costs less than
the words about a draft."""


class Kept(Struct, frozen=True):
    """What is kept of a cut call. `tool` is the tool that the work was for, also when `finish_call` was cut.

    `gained` counts what no draft had before: a call that starts again from the top brings nothing new until it is
    past what is there already. `length` is how much the draft holds now."""

    tool: str
    facts: tuple[Fact, ...] = ()
    draft: DraftId | None = None
    gained: int = 0
    length: int = 0


def keep(turn: Turn, reply: Reply, policy: Policy) -> Kept | None:
    """What to keep of a reply that was cut: None if no call had begun.

    Only the last call can hold a long text that broke; the ones before it did not run either, and the model makes
    them again."""
    call = reply.calls[-1] if reply.calls else None
    if call is None:
        return None
    if call.name == FINISH_CALL:
        return _extend(turn, call)
    argument, cut = policy.tool(call.name).draftable, _as_cut(call)
    if argument == ANY_TEXT:
        argument = text_argument(cut) if len(cut) >= WORTH_A_DRAFT else ""
    if not argument:
        return Kept(call.name)
    found = draft_of(call.name, cut, argument, DraftId(f"d{turn.attempt}"))
    if not isinstance(found, Draft) or not found.text:
        return Kept(call.name)
    return _restarted(turn, found) or _begun(turn, found)


def lost(reply: Reply, kept: Kept | None) -> int:
    """Characters of the reply's calls that are of no use, counted as they came. What a draft took in is of use, with
    its escapes and with the arguments around it."""
    arguments = [len(call.arguments) for call in reply.calls]
    return max(sum(arguments) - (0 if kept is None else _used(kept, arguments[-1])), 0)


def _used(kept: Kept, arrived: int) -> int:
    match kept.facts:
        case (DraftKept(draft=draft),) if kept.gained == len(draft.text):
            return arrived  # all of it is new
        case (DraftKept(draft=draft),):
            return _as_written(draft.text[len(draft.text) - kept.gained :])
        case (DraftGrown(added=added),):
            return _as_written(added)
        case _:
            return 0


def _as_written(text: str) -> int:
    """How many characters a text has in JSON."""
    return len(msgspec.json.encode(text).decode()) - len('""')


def _restarted(turn: Turn, found: Draft) -> Kept | None:
    """The model made the same call again from the top, and it was cut again: one draft, and the longer text."""
    for draft in turn.drafts.values():
        if (draft.tool, draft.settled) != (found.tool, found.settled) or draft.closed:
            continue
        if draft.text.startswith(found.text) and not found.closed:
            return Kept(found.tool, (), draft.id, 0, len(draft.text))
        if found.text.startswith(draft.text) and not found.closed:
            added = DraftGrown(turn.now, draft.id, len(draft.text), found.text[len(draft.text) :])
            return Kept(found.tool, (added,), draft.id, len(added.added), len(found.text))
    return None


def _begun(turn: Turn, found: Draft) -> Kept:
    most = max((len(draft.text) for draft in turn.drafts.values() if draft.tool == found.tool), default=0)
    gained = max(len(found.text) - most, 0)
    return Kept(found.tool, (DraftKept(turn.now, found),), found.id, gained, len(found.text))


def _as_cut(call: ReplyCall) -> str:
    """A call that looks whole in a reply that was cut did not run either. Its last brace is taken off, so that it
    is kept as a draft whose text is complete, and the model only has to say that it still wants it."""
    text = call.arguments.rstrip()
    return text[:-1] if text.endswith("}") and judge(text).status == "whole" else call.arguments


def _extend(turn: Turn, call: ReplyCall) -> Kept:
    for draft in turn.drafts.values():
        grown = extend_by_cut(draft, _as_cut(call))
        if isinstance(grown, Extended):
            added = DraftGrown(turn.now, draft.id, grown.kept, grown.added)
            length = len(grown.draft.text)
            return Kept(draft.tool, (added,), draft.id, length - len(draft.text), length)
    latest = next(reversed(turn.drafts.values()), None)
    return Kept(FINISH_CALL) if latest is None else Kept(latest.tool, (), latest.id, 0, len(latest.text))


def replaced(turn: Turn, tool: str, arguments: dict[str, Any], finished: DraftId | None = None) -> list[DraftClosed]:
    """The drafts that a call settles: the one that it finishes, and those for the same thing. A draft of another
    file, say, stays open."""
    return [
        DraftClosed(turn.now, draft.id, "finished" if draft.id == finished else "superseded")
        for draft in turn.drafts.values()
        if draft.id == finished
        or (draft.tool == tool and all(arguments.get(key, value) == value for key, value in draft.settled.items()))
    ]


def finish(turn: Turn, call: PendingCall, key: str, policy: Policy) -> Command:
    """Perform a whole `finish_call`: extend the draft, run the call that it completes, or say why not."""
    draft = turn.drafts.get(draft_named(call))
    joined = join(turn, call, policy)
    if draft is None or isinstance(joined, str):
        return _answer(turn, call, "not_started", str(joined))
    match joined:
        case Refused():
            told = f"Not joined: {joined.why}. The draft {draft.id} ends with:\n<<<{joined.true_tail}>>>"
            return _answer(turn, call, "not_started", told)
        case Extended():
            added = DraftGrown(turn.now, draft.id, joined.kept, joined.added)
            count = len(joined.draft.text)
            told = f"Kept: the draft {draft.id} has {count:,} characters now. Send the next piece with finish_call."
            finished = ToolFinished(turn.now, call.id, call.name, ToolOutcome("finished", told))
            return Record((added, finished))
        case Spliced():
            closing = replaced(turn, draft.tool, joined.arguments, draft.id)
            return RunTool(call.id, draft.tool, joined.arguments, key, tuple(closing))


def join(turn: Turn, call: PendingCall, policy: Policy) -> Spliced | Extended | Refused | str:
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
    return splice(
        draft, given.get("after", ""), given.get("rest", ""), given.get("more", False), given.get("also"), guarded
    )


def draft_named(call: PendingCall) -> DraftId:
    """The draft that a `finish_call` names."""
    return DraftId(str(call.arguments.get("draft", "")))


def tool_of(turn: Turn, call: PendingCall) -> str:
    """The tool whose call a `finish_call` finishes; empty if there is no such draft."""
    draft = turn.drafts.get(draft_named(call))
    return draft.tool if draft is not None else ""


def _misspelt(given: dict[str, Any]) -> str:
    kinds: dict[str, type] = {"after": str, "rest": str, "more": bool, "also": dict}
    wrong = [name for name, kind in kinds.items() if name in given and not isinstance(given[name], kind)]
    return f"finish_call takes another kind of value for {', '.join(wrong)}." if wrong else ""


def _answer(turn: Turn, call: PendingCall, status: Any, text: str) -> Record:
    return Record((ToolFinished(turn.now, call.id, call.name, ToolOutcome(status, text)),))


def notice(choice: Decision, broken: Broken, kept: Kept | None) -> str:
    """One quiet line for the user; empty where nothing that was shown is touched."""
    where = f" in {broken.tool}" if broken.tool else ""
    what = _what_broke(broken)
    match choice:
        case Retry():
            return ""
        case Reask(change):
            return f"{what}: {_CHANGES[change]}" if change in _CHANGES else ""
        case FinishDraft() | Fallback(_, FinishDraft()):
            count = kept.length if kept is not None else 0
            return f"{what}{where}, {count:,} characters kept, finishing the draft"
        case Fallback(route):
            return f"{what}{where}, going on with {route}" if broken.said_text or broken.tool else ""
        case GiveUp("cancelled", _):
            return ""  # the wish to stop was told, and so is the end
        case GiveUp(_, why):
            told_alone = broken.verdict == "refused" or why == what or _is_our_own(broken)
            return why if told_alone else f"{what}{where}: {why}"
        case _:
            return f"{what}{where}, nothing ran, asking for smaller calls" if broken.tool else ""


_CHANGES = {
    "more_room": "asking again with more room",
    "less_effort": "asking again with less effort",
    "say_something": "asking again",
    "valid_calls": "asking for a valid call",
    "less_room": "asking again with a smaller output limit",
    "retold": "asking again with the history in plain words",
}


def _is_our_own(broken: Broken) -> bool:
    """Whether we ended the stream ourselves, so that it did not break."""
    return broken.failure is not None and broken.failure.kind in ("cancelled", "repeated", "budget")


_WAITED = re.compile(r"\b(?:for|after|stalled) (\d[\d.]* s)\b")
"""The time in the words of a clock that fired; its limit and its source are for the record, not for a quiet line."""


def _what_broke(broken: Broken) -> str:
    failure = broken.failure
    if failure is not None:
        if failure.kind == "stalled":
            waited = _WAITED.search(failure.message)
            return f"stream stalled {waited[1]}" if waited is not None else "stream stalled"
        return f"stream broke ({failure.kind.replace('_', ' ')})"
    words = {
        "cut_by_length": "the output limit was reached",
        "thinking_exhausted": "the output limit was used up by thinking",
        "empty": "nothing arrived",
        "malformed": "the call could not be read",
    }
    return words.get(broken.verdict, broken.verdict.replace("_", " "))

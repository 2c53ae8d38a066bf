"""The ladder: in which way a model is asked to finish what was cut, by what its route is and by what worked
there.

Strong models use `finish_call`. Small ones do not: they are asked for plain text, without tools, and the
runtime makes the call of it (`reply/rest.py`). Such a request is a matter of its own: its notes and its
answer leave no trace in the history, only the call that came of it does. An answer that does not fit is
refused, and the next way is tried. Behind the last of them the turn ends in part, with the draft kept,
rather than with a guess; a model that is not known to be small is asked for a `finish_call` before that.
"""

import msgspec
from msgspec.structs import replace

from turnbuckle.reply import rest
from turnbuckle.reply.draft import Draft, last_member, string_at
from turnbuckle.reply.rest import Unfit, Way
from turnbuckle.reply.verdict import Verdict
from turnbuckle.turn import drafting, held, progress, prompts
from turnbuckle.turn.commands import Record
from turnbuckle.turn.drafting import KeptDraft
from turnbuckle.turn.facts import Continue, Decided, Decision, DraftGrown, FinishDraft, GiveUp, ModelAsked
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.state import Ask, PendingCall, Turn
from turnbuckle.vocab.arguments import scan_object
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, TextPart
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.tooling import FINISH_CALL

UNJOINED = "unjoined"
"""The verdict on an answer that is whole, and yet not the rest that was asked for."""
SAME_TOOL = "rest_"
AGAIN = "again"
"""The way in which cut text is asked for once more, from its top."""
_SPLICE_FAILURES = 2
"""From so many pieces in a row on that did not fit, any model is asked for plain text."""


def way_for(turn: Turn, ask: Ask, route: RouteFacts, policy: Policy, worked: str = "") -> str:
    """How this request asks for what is missing; empty: by notes, with all tools. `worked` is what did so
    last on this route."""
    if isinstance(ask.wanted, Continue):
        goes_on = (
            ask.wanted.kind in ("text", "length") and _ends_with_text(turn) and "prefill" not in turn.tried
        )
        if not goes_on or turn.options.response_format is not None:
            return ""  # a host that keeps to a schema would begin with a new document
        return "prefill" if _prefills(route) else AGAIN if _may_ask_again(turn, ask.wanted, route) else ""
    if ask.wanted is None or ask.wanted.draft not in turn.drafts:
        return ""
    if route.quirks.drafts != "text" and not worked and turn.tally.splice_failures < _SPLICE_FAILURES:
        return ""
    draft = turn.drafts[ask.wanted.draft]
    ways = sorted(_possible(turn, draft, route, policy), key=lambda way: way != worked)
    return next((way for way in ways if way not in turn.tried), "")


def under_way(turn: Turn, asked: ModelAsked) -> Ask:
    """The request as it went out, with what it was to bring."""
    return Ask(
        asked.route,
        asked.why,
        notes=asked.notes,
        stream=asked.stream,
        cap=asked.cap,
        effort=asked.effort,
        cap_field=asked.cap_field,
        wanted=turn.ask.wanted if turn.ask is not None else None,
        way=asked.way,
    )


def after_tools(turn: Turn, ask: Ask) -> Ask:
    """The request behind results. Where piece after piece did not fit, the draft is asked for in another
    way."""
    if turn.tally.splice_failures < _SPLICE_FAILURES or not turn.own_drafts:
        return ask
    return replace(ask, wanted=FinishDraft(turn.own_drafts[0]))


def _prefills(route: RouteFacts) -> bool:
    return bool(route.quirks.prefill)


def _ends_with_text(turn: Turn) -> bool:
    last = turn.messages[-1] if turn.messages else None
    if last is None or last.role != "assistant" or not last.partial or not turn.shown or turn.spoken:
        return False
    return all(isinstance(part, TextPart) for part in last.parts) and bool(rest.word_end(_text(last)).kept)


def _may_ask_again(turn: Turn, wanted: Continue, route: RouteFacts) -> bool:
    """Whether the very same question may go out once more, and the answer is dropped as far as it was shown:
    a small model takes a note about its answer for the question."""
    before = next((message for message in reversed(turn.messages) if message.role != "assistant"), None)
    is_small = route.quirks.drafts == "text" and len(turn.shown) <= rest.WHOLE_MOST
    return is_small and wanted.kind == "text" and before is not None and not before.note


def as_sent(turn: Turn, way: str) -> Turn:
    """The turn as this request tells it. Asked again, it ends with the question, without the answer that
    broke off."""
    end = len(turn.messages)
    while way == AGAIN and end and turn.messages[end - 1].role == "assistant":
        end -= 1
    return replace(turn, messages=turn.messages[:end])


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def _possible(turn: Turn, draft: Draft, route: RouteFacts, policy: Policy) -> list[Way]:
    """The ways in which this draft can be finished by text alone: nothing but its text may be missing."""
    facts = policy.tool(draft.tool)
    brought = next((tool for tool in turn.options.tools if tool.name == draft.tool), None)
    needed = {*facts.guarded, *([facts.subject] if facts.subject else [])}
    if brought is not None:
        needed |= {name for name in brought.parameters.get("required", ()) if isinstance(name, str)}
    if draft.lost is not None or draft.doubtful is not None or needed - {draft.argument} - set(draft.settled):
        return []
    ways: list[Way] = []
    if _prefills(route) and not draft.closed and rest.line_end(draft.text).kept:
        ways.append("prefill")
    if len(draft.text) <= rest.WHOLE_MOST:
        ways.append("whole")
    if not draft.closed and rest.anchored(draft.text) is not None:
        ways.append("anchored")
    return ways


def notes_for(turn: Turn, ask: Ask, way: str, policy: Policy) -> tuple[Message, ...]:
    """What the request says besides the history."""
    if not way:
        return usual_notes(turn, ask.wanted, policy) if ask.way and ask.wanted is not None else ask.notes
    if isinstance(ask.wanted, Continue) or ask.wanted is None:
        return ()
    draft = turn.drafts[ask.wanted.draft]
    name = held.named(draft.tool, draft.settled, policy).removeprefix(draft.tool).strip() or draft.argument
    place = rest.anchored(draft.text) if way == "anchored" else None
    if place is None:
        return (prompts.note(prompts.WHOLE_TEXT.format(name=name)),)
    shown = place.kept[-rest.SHOWN :]
    if len(shown) < len(place.kept):
        shown = shown[shown.find("\n") + 1 :]
    fence = rest.fence_for(draft.text)
    words = prompts.REST_TEXT.format(name=name, fence=fence, shown=shown, anchor=place.anchor)
    return (prompts.note(words),)


def usual_notes(
    turn: Turn, wanted: Continue | FinishDraft, policy: Policy, shown: str | None = None
) -> tuple[Message, ...]:
    """What is said to a model that has its tools. `shown` is what it goes on behind, if the turn does not
    know yet."""
    if isinstance(wanted, Continue):
        document = turn.options.response_format is not None
        notes = prompts.continuation(wanted, turn.shown if shown is None else shown, document=document)
    else:
        draft = turn.drafts[wanted.draft]
        notes = (prompts.finish_draft(draft, wanted.escalation, policy.tool(draft.tool).guarded),)
    return prompts.beside(notes, held.names(turn, policy))


def prefill(turn: Turn, way: str) -> Message | None:
    """The beginning of the answer that goes out as the last message, if this way has one. Instead of the last
    message of the history, where text goes on, else behind it."""
    if way != "prefill" or turn.ask is None:
        return None
    draft = drafted(turn)
    if draft is None:
        last = turn.messages[-1]
        return replace(last, parts=(TextPart(rest.word_end(_text(last)).kept),))
    text = f"{rest.fence_for(draft.text)}\n{rest.line_end(draft.text).kept}"
    return Message("assistant", (TextPart(text),), partial=True)


def held_back(turn: Turn, way: str) -> str:
    """What a text that goes on behind a prefill brings again first, since the prefill stopped before it."""
    if way != "prefill" or drafted(turn) is not None:
        return ""
    return rest.word_end(_text(turn.messages[-1])).back


def goes_on_behind_itself(turn: Turn) -> bool:
    """Whether the request under way ends with the beginning of the answer, for a host that goes on behind
    that."""
    return turn.ask is not None and turn.ask.way == "prefill" and drafted(turn) is None


def is_prefilled(turn: Turn, protocol: ProtocolName) -> bool:
    """Whether the caller of a relay began the answer, for a provider of its own protocol. One that has
    refused it is asked to go on in words."""
    begun = turn.messages[-1] if turn.messages else None
    is_begun = begun is not None and begun.role == "assistant" and not begun.partial
    return is_begun and turn.options.prefilled == protocol and not turn.tally.retold


def drafted(turn: Turn) -> Draft | None:
    """The draft whose rest the request under way asks for as plain text."""
    ask = turn.ask
    if ask is None or not ask.way or not isinstance(ask.wanted, FinishDraft):
        return None
    return turn.drafts.get(ask.wanted.draft)


def answer_of(reply: Reply) -> str | Unfit:
    """The plain text of such an answer. It is told to readers as the arguments of a `finish_call`."""
    parts = []
    for call in reply.calls:
        if call.name != FINISH_CALL or not call.id.startswith(SAME_TOOL):
            return Unfit("it made a call instead")
        member = last_member(scan_object(call.arguments), "rest")
        parts.append(string_at(call.arguments, member) or "" if member is not None else "")
    return "".join(parts)


def joined(turn: Turn, reply: Reply, *, ended: bool) -> str | Unfit:
    """All of the drafted text with the rest that came."""
    draft, answer = drafted(turn), answer_of(reply)
    assert draft is not None
    assert turn.ask is not None
    if isinstance(answer, Unfit):
        return answer
    way: Way = turn.ask.way  # type: ignore[assignment]
    text = rest.join(draft.text, way, answer, ended=ended, fence=rest.fence_for(draft.text))
    if isinstance(text, Unfit) or not ended:
        return text
    if reply.finish != "stop" and not rest.has_its_own_end(answer):
        return Unfit("nothing says that it is all of it")
    words = " ".join(_text(note) for note in turn.ask.notes)
    if any(len(line) >= 30 and line in words and line not in draft.text for line in answer.splitlines()):
        return Unfit("it repeats what it was asked")
    name = next((value for value in draft.settled.values() if isinstance(value, str) and "." in value), "")
    fault = rest.fault(name, draft.text, text)
    return Unfit(fault) if fault else text


def over(turn: Turn, found: Verdict, policy: Policy) -> Turn:
    """The turn behind the answer: with the call that the draft became, or with a decision due."""
    draft, reply = drafted(turn), turn.reply
    assert draft is not None
    assert reply is not None
    text = (
        joined(turn, reply, ended=True) if found.kind == "complete" and reply.calls else Unfit("no text came")
    )
    if isinstance(text, Unfit):
        return replace(turn, phase="deciding")
    arguments = {**draft.settled, draft.argument: text}
    call = PendingCall(reply.calls[0].id, draft.tool, arguments, draft=draft.id)
    part = CallPart(call.id, call.name, msgspec.json.encode(arguments).decode())
    messages = (*turn.messages[: turn.before_notes], Message("assistant", (part,)))
    turn = replace(turn, messages=messages, tally=progress.settled(turn.tally), reply=None)
    turn, calls = drafting.made_whole(turn, (call,), policy)
    same = progress.same_calls(turn, calls, policy)
    return replace(turn, phase="tools", calls=calls, same_calls=same, open_text=())


def keep(turn: Turn, reply: Reply, policy: Policy) -> KeptDraft | None:
    """What to keep of an answer that was cut: None if nothing of a call came."""
    draft = drafted(turn)
    if draft is None:
        return drafting.keep(turn, reply, policy)
    if not reply.calls:
        return None
    text = joined(turn, reply, ended=False)
    if isinstance(text, Unfit) or len(text) <= len(draft.text) or not text.startswith(draft.text):
        return KeptDraft(draft.tool, (), draft.id, 0, len(draft.text))
    added = text[len(draft.text) :]
    grown = DraftGrown(turn.now, draft.id, len(draft.text), added)
    return KeptDraft(draft.tool, (grown,), draft.id, len(added), len(text))


def judged(turn: Turn, found: Verdict, policy: Policy) -> Record | None:
    """The decision on an answer that is not what was asked for in this way: the next way. None if it broke,
    and what is due then is due as ever."""
    ask, reply = turn.ask, turn.reply
    if ask is None or reply is None or not ask.way or ask.wanted is None:
        return None
    draft = drafted(turn)
    failed = reply.last.failure if isinstance(reply.last, Cut) else None
    if failed is not None and failed.kind == "invalid" and ask.way == "prefill":
        why = f"the route does not go on behind an answer: {failed.message}"
    elif draft is not None and found.kind in ("complete", "empty", "malformed"):
        text = (
            joined(turn, reply, ended=True)
            if found.kind == "complete" and reply.calls
            else Unfit("no text came")
        )
        why = text.why if isinstance(text, Unfit) else "it could not be read"
    else:
        return None
    choice: Decision = GiveUp("cancelled", "stopped") if turn.stopping else ask.wanted
    if isinstance(choice, FinishDraft):
        choice = FinishDraft(choice.draft)
        next_turn = replace(turn, tried=(*turn.tried, ask.way))
        route = policy.route(ask.route)
        if route.quirks.drafts == "text" and not way_for(next_turn, ask, route, policy):
            # With `finish_call` such a model joins wrong texts in good order: measured, and worse than none.
            choice = GiveUp("partial", f"the rest of {draft.tool if draft else 'a call'} does not fit: {why}")
    tool = draft.tool if draft is not None else ""
    goes_on = draft is not None and not isinstance(choice, GiveUp)
    notice = f"the rest of {tool} does not fit ({why}), asking in another way" if goes_on else ""
    lost = sum(len(call.arguments) for call in reply.calls)
    evidence = (*found.evidence, why)
    return Record(
        (Decided(turn.now, turn.attempt, UNJOINED, evidence, choice, failed, notice=notice, lost=lost),)
    )

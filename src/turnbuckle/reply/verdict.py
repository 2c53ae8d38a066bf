"""What a reply is. One pure function weighs all the evidence and writes down why.

The finish reason is a witness, not the judge: servers say `tool_calls` over a cut call and `stop` over a lost
connection. Only a verdict of `complete` carries calls that may run, so nothing can run from anything else.
"""

from typing import Any, Literal

from msgspec import Struct

from turnbuckle.vocab.arguments import Judged, judge
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyOpaque, ReplyReasoning

_OF_TOOLS = (
    "_call",
    "_output",
    "_tool_use",
    "_result",
    "_list_tools",
    "_request",
    "thinking",
    "reasoning",
    "reference",
    "compaction",
)
"""How types of blocks end that are not an answer to anybody."""
_CODE = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
"""Fields of blocks without a type that are none either."""

VerdictKind = Literal[
    "complete",
    "cut_by_length",  # the output cap or the context window
    "cut_by_transport",  # the protocol's terminal event never came, or came over a cut call
    "thinking_exhausted",  # the cap was used up by reasoning, nothing visible came
    "empty",  # a tidy end with nothing in it
    "filtered",  # a content filter
    "malformed",  # whole, but not to be trusted: bad JSON, no name, an unreadable frame
    "refused",  # the model declined
    "paused",  # to be sent back as it is, to go on
]


class SoundCall(Struct, frozen=True):
    """A call from a complete reply with strictly parsed arguments. Only these may run."""

    id: str
    name: str
    arguments: dict[str, Any]


class Verdict(Struct, frozen=True):
    kind: VerdictKind
    evidence: tuple[str, ...]
    calls: tuple[SoundCall, ...] = ()


def verdict(reply: Reply, *, cap: int | None = None) -> Verdict:
    """Judge a reply. `cap` is the output limit that was asked for, if any."""
    evidence = _what_arrived(reply)
    if not reply.ended or reply.finish == "failed":
        return _judge_cut(reply, evidence)
    at_cap = cap is not None and reply.usage is not None and (reply.usage.output or 0) >= cap
    if at_cap:
        evidence.append(f"the output count reached the cap of {cap}")
    if reply.finish == "refused" or reply.refusal:
        return Verdict("refused", tuple(evidence))  # also where the host files a refusal under its filter
    if reply.finish == "filtered":
        return Verdict("filtered", tuple(evidence))
    if reply.finish in ("length", "window") or _is_declared_incomplete(reply) or (at_cap and not reply.calls):
        return _judge_length(reply, evidence)
    if reply.finish in ("paused", "compacted"):
        return Verdict("paused", tuple(evidence))
    if reply.finish == "malformed":
        return Verdict("malformed", tuple(evidence))
    calls = ours_to_run(reply)
    if calls:
        return _judge_calls(calls, reply, at_cap, evidence)
    return _judge_text(reply, evidence)


def ours_to_run(reply: Reply) -> tuple[ReplyCall, ...]:
    """The calls without those that the provider ran itself: their results stand in the same reply."""
    calls = reply.calls
    if not calls:
        return ()
    answered = {block.data.get("call_id") for block in reply.blocks if isinstance(block, ReplyOpaque)}
    return tuple(call for call in calls if call.id not in answered)


def _is_declared_incomplete(reply: Reply) -> bool:
    """The Responses protocol can end a reply tidily and call it incomplete, for reasons that we do not
    know."""
    return reply.finish == "other" and reply.finish_said == "incomplete"


def _judge_cut(reply: Reply, evidence: list[str]) -> Verdict:
    if isinstance(reply.last, Cut) and reply.last.failure.kind == "filtered":
        return Verdict("filtered", tuple(evidence))
    if isinstance(reply.last, Cut) and reply.last.failure.kind == "malformed_call":
        return Verdict("malformed", tuple(evidence))
    return Verdict("cut_by_transport", tuple(evidence))


def _judge_length(reply: Reply, evidence: list[str]) -> Verdict:
    if not reply.text.strip() and not reply.calls and _reasoned(reply):
        evidence.append("reasoning was seen and nothing visible")
        return Verdict("thinking_exhausted", tuple(evidence))
    return Verdict("cut_by_length", tuple(evidence))


def _judge_calls(calls: tuple[ReplyCall, ...], reply: Reply, at_cap: bool, evidence: list[str]) -> Verdict:
    judged = [(call, judge(call.arguments)) for call in calls]
    cut = [call for call, found in judged if found.status == "cut" or not call.closed]
    if cut:
        evidence.extend(f"the arguments of {_named(call)} are not whole" for call in cut)
        return Verdict("cut_by_length" if at_cap else "cut_by_transport", tuple(evidence))
    faults = [fault for call, found in judged if (fault := _fault(call, found))]
    if reply.skipped:
        faults.append("an unreadable frame may have held a part of a call")
    if faults:
        return Verdict("malformed", (*evidence, *faults))
    sound = tuple(SoundCall(call.id, call.name, found.value or {}) for call, found in judged)
    return Verdict("complete", (*evidence, f"{len(sound)} whole calls"), sound)


def _judge_text(reply: Reply, evidence: list[str]) -> Verdict:
    if reply.skipped:
        evidence.append("an unreadable frame may have held a part of the text")
        return Verdict("cut_by_transport", tuple(evidence))
    if reply.finish == "calls":
        evidence.append("calls were announced and none arrived")
        return Verdict("malformed", tuple(evidence))
    if reply.text.strip():
        return Verdict("complete", tuple(evidence))
    if _shows_something(reply):
        evidence.append("no text, but something that is shown")
    else:
        evidence.append("reasoning only" if _reasoned(reply) else "nothing arrived")
        return Verdict("empty", tuple(evidence))
    return Verdict("complete", tuple(evidence))


def _shows_something(reply: Reply) -> bool:
    """A picture alone is an answer. That a provider used a tool of its own, and said nothing, is none."""
    return reply.media or any(
        _is_shown(block.data) for block in reply.blocks if isinstance(block, ReplyOpaque)
    )


def _is_shown(data: dict[str, Any]) -> bool:
    kind = data.get("type")
    if kind == "image_generation_call":
        return bool(data.get("result"))
    return not (str(kind).endswith(_OF_TOOLS) if kind is not None else _CODE & data.keys())


def _what_arrived(reply: Reply) -> list[str]:
    evidence = []
    match reply.last:
        case None:
            evidence.append("the stream has no last word yet")
        case Cut(failure):
            clock = f", clock {failure.clock}" if failure.clock else ""
            evidence.append(f"cut: {failure.kind}{clock}")
        case ended:
            evidence.append(f"ended by {ended.by}")
    if reply.finish is None:
        evidence.append("no finish reason")
    else:
        native = f" ({reply.finish_detail})" if reply.finish_detail else ""
        evidence.append(f"finish {reply.finish_said or reply.finish}{native}")
    if reply.skipped:
        evidence.append(f"{reply.skipped} unreadable frames were skipped")
    if reply.usage is None:
        evidence.append("no usage")
    if reply.text.count("```") % 2:
        evidence.append("a code fence is open")
    return evidence


def _reasoned(reply: Reply) -> bool:
    """Whether reasoning was seen: as text, as a sealed block, or only in the provider's count."""
    seen = any(isinstance(block, ReplyReasoning) and (block.text or block.state) for block in reply.blocks)
    return seen or (reply.usage is not None and reply.usage.reasoning > 0)


def _fault(call: ReplyCall, found: Judged) -> str:
    if not call.name:
        return "a call without a name"
    if found.status == "malformed":
        return f"the arguments of {_named(call)} are not valid: {found.why}"
    return ""


def _named(call: ReplyCall) -> str:
    return call.name or "a call without a name"

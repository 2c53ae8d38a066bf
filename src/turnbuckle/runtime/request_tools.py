"""Which tools a model call offers, and which of them it must take: ours, the caller's, and what both ask
for."""

from turnbuckle.turn.facts import ModelAsked
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import CallPart, Message
from turnbuckle.vocab.request import NamedTool, RunOptions, ToolChoice, ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL
from turnbuckle.wire.registry import rules_of

PATIENCE = 3
"""Rounds in which a model that must call a tool may call one that is not there, before it need not any
more."""


def offered(
    own: tuple[ToolSpec, ...], options: RunOptions, *, finishing: bool = True
) -> tuple[ToolSpec, ...]:
    """All tools, always in the same order. The caller's hide ours of the same name. `finish_call` stands
    last, and only where there is anything that could be cut: a caller without tools gets none. Without
    `finishing` nobody does."""
    if not options.tools:
        return _ours(own, finishing) if options.own_tools else ()
    brought = {tool.name for tool in options.tools}
    finish = tuple(tool for tool in own if tool.name == FINISH_CALL and tool.name not in brought)
    ours = tuple(tool for tool in own if tool.name not in brought and tool.name != FINISH_CALL)
    tools = (*(ours if options.own_tools else ()), *options.tools)
    return (*tools, *(finish if finishing else ())) if tools else ()


_offers: dict[tuple[int, bool], tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]] = {}
"""What is offered of a set of tools, by the set itself: all runs share it."""
_MOST_OFFERS = 8


def _ours(own: tuple[ToolSpec, ...], finishing: bool) -> tuple[ToolSpec, ...]:
    """The same where the caller brings none: one tuple for all runs, so that whoever keeps something of it
    knows it again at once."""
    known = _offers.get((id(own), finishing))
    if known is not None and known[0] is own:
        return known[1]
    ours = tuple(tool for tool in own if tool.name != FINISH_CALL)
    finish = tuple(tool for tool in own if tool.name == FINISH_CALL) if finishing and ours else ()
    if len(_offers) >= _MOST_OFFERS:
        _offers.clear()
    made = (*ours, *finish)
    _offers[id(own), finishing] = (own, made)
    return made


def free_text_names(tools: tuple[ToolSpec, ...], protocol: ProtocolName) -> frozenset[str]:
    """The tools whose calls a provider of this protocol sends as plain text."""
    native = [tool for tool in tools if tool.free_text and tool.state is not None]
    return frozenset([tool.name for tool in native if tool.state and tool.state.protocol == protocol])


def offers_finishing(protocol: ProtocolName, effort: str | None, *, drafted: bool) -> bool:
    """Whether `finish_call` is in the list. Small models take it for a tool like any other, so it stays out
    until there is a draft, and in from then on. Only where thoughts are bound to the list is it there from
    the beginning."""
    return drafted or (rules_of(protocol).reasoning_bound_to_tools and effort != "none")


def tool_choice(
    options: RunOptions,
    asked: ModelAsked,
    *,
    is_drafting: bool,
    rounds: tuple[frozenset[str], ...] | None = None,
) -> ToolChoice:
    """What the caller chose. A draft is finished by a tool that the caller does not know of, so where a
    certain tool was asked for, that one takes its place; and once our own tools have answered, none is forced
    again.

    `rounds` are the tools that were called since a person spoke. A call of `finish_call`, or of a tool that
    is not there, is not a tool's answer: the choice stays, for a few rounds."""
    choice = options.tool_choice
    if choice in ("auto", "none"):
        return choice
    if is_drafting:
        return NamedTool(FINISH_CALL)
    if rounds is None:
        return "auto" if asked.why == "after_tools" else choice
    return "auto" if _is_met(options, rounds) or len(rounds) >= PATIENCE else choice


def _is_met(options: RunOptions, rounds: tuple[frozenset[str], ...]) -> bool:
    return options.own_tools and any(name for called in rounds for name in called)


def rounds_of(messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> tuple[frozenset[str], ...]:
    """Which of these tools were called in each round since a person last spoke, the newest first.
    `finish_call` is none of them."""
    known = {tool.name for tool in tools} - {FINISH_CALL}
    rounds: list[frozenset[str]] = []
    for message in reversed(messages):
        if message.role in ("user", "system") and not message.note:
            break
        names = [part.name for part in message.parts if isinstance(part, CallPart)]
        if names:
            rounds.append(frozenset(names) & known)
    return tuple(rounds)

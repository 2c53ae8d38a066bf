"""Which tools a model call offers, and which of them it must take: ours, the caller's, and what both ask for."""

from turnbuckle.turn.facts import ModelAsked
from turnbuckle.vocab.request import NamedTool, ToolChoice, ToolSpec, Wishes
from turnbuckle.vocab.tooling import FINISH_CALL


def offered(own: tuple[ToolSpec, ...], wishes: Wishes) -> tuple[ToolSpec, ...]:
    """All tools, always in the same order. The caller's hide ours of the same name. `finish_call` stands last, and only
    where there is anything that could be cut: a caller without tools gets none."""
    brought = {tool.name for tool in wishes.tools}
    finish = tuple(tool for tool in own if tool.name == FINISH_CALL and tool.name not in brought)
    ours = tuple(tool for tool in own if tool.name not in brought and tool.name != FINISH_CALL)
    tools = (*(ours if wishes.own_tools else ()), *wishes.tools)
    return (*tools, *finish) if tools else ()


def tool_choice(wishes: Wishes, asked: ModelAsked, *, is_drafting: bool) -> ToolChoice:
    """What the caller chose. A draft is finished by a tool that the caller does not know of, so where a certain tool
    was asked for, that one takes its place; and once our own tools have answered, none is forced again."""
    choice = wishes.tool_choice
    if choice in ("auto", "none"):
        return choice
    if is_drafting:
        return NamedTool(FINISH_CALL)
    return "auto" if asked.why == "after_tools" else choice

"""The tools of a run, by their exact names. A name that is almost right runs nothing."""

import difflib
import re
from collections.abc import Iterable

from turnbuckle.tools.spec import Tool
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every provider accepts

FINISH_CALL_SPEC = ToolSpec(
    FINISH_CALL,
    "Finish a tool call of yours whose arguments were cut in transit. Use it only when you are told that "
    "a draft is"
    " open. Send only what is missing: it is put behind the draft and the call then runs once.",
    {
        "type": "object",
        "properties": {
            "draft": {"type": "string", "description": "The id of the draft."},
            "after": {
                "type": "string",
                "description": "The last characters of the draft, repeated exactly, about 40 of them.",
            },
            "rest": {
                "type": "string",
                "description": "What comes directly behind them. Do not repeat earlier text.",
            },
            "more": {
                "type": "boolean",
                "description": "True if this is only a piece, and the call must not run yet.",
                "default": False,
            },
            "also": {
                "type": "object",
                "description": "Other arguments of the call that were lost, if you are asked for them.",
            },
            "reading": {
                "type": "string",
                "description": "The letter of your answer, if you are asked how a rest belongs to its draft.",
            },
        },
        "required": ["draft", "after", "rest"],
        "additionalProperties": False,
    },
)


class Registry:
    """Tools in a fixed order, which is the order in which the model sees them: a list that changes in the
    middle of a conversation spoils prompt caches."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for one in tools:
            if not _NAME.fullmatch(one.name):
                raise ValueError(
                    f"{one.name!r} is not a name for a tool: letters, digits, _ and -, at most 64"
                )
            if one.name in self._tools or one.name == FINISH_CALL:
                raise ValueError(f"there is a tool with the name {one.name} already")
            self._tools[one.name] = one
        self.specs: tuple[ToolSpec, ...] = (*(one.spec for one in self._tools.values()), FINISH_CALL_SPEC)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def extended(self, tools: Iterable[Tool]) -> "Registry":
        """These tools and more behind them. One whose name is taken, or is none, is left out."""
        more = {one.name: one for one in tools if one.name not in self._tools and _NAME.fullmatch(one.name)}
        return Registry((*self._tools.values(), *more.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def draftable(self, name: str) -> str | None:
        """The argument of this tool that survives a cut, if there is one."""
        found = self._tools.get(name)
        return None if found is None else found.draftable

    def guarded(self, name: str) -> frozenset[str]:
        """The arguments of this tool whose defaults must not be assumed after a cut."""
        found = self._tools.get(name)
        return frozenset() if found is None else found.guarded

    def unknown(self, name: str) -> str:
        """What to tell a model that called a tool which is not there."""
        near = difflib.get_close_matches(name[:100], self._tools, n=3, cutoff=0.5)
        hint = (
            f"Similar names: {', '.join(near)}."
            if near
            else f"The tools are: {', '.join(self._tools) or 'none'}."
        )
        return f"There is no tool with the name {name[:100]!r}. {hint}"

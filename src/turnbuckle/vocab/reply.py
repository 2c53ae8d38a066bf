"""A reply as a value: what arrived, in order, and how it ended. Partial until its last word is `Ended`."""

from typing import Any

from msgspec import Struct

from turnbuckle.vocab.events import Ended, Finish, LastWord, Usage


class ReplyText(Struct, frozen=True, tag_field="kind", tag="text"):
    text: str
    closed: bool = False
    state: dict[str, Any] | None = None


class ReplyReasoning(Struct, frozen=True, tag_field="kind", tag="reasoning"):
    text: str
    closed: bool = False
    state: dict[str, Any] | None = None


class ReplyRefusal(Struct, frozen=True, tag_field="kind", tag="refusal"):
    text: str
    closed: bool = False


class ReplyCall(Struct, frozen=True, tag_field="kind", tag="call"):
    """A call as received. `closed` is the protocol's word; whether it may run is the verdict's."""

    id: str
    name: str
    arguments: str
    closed: bool = False
    state: dict[str, Any] | None = None


class ReplyOpaque(Struct, frozen=True, tag_field="kind", tag="opaque"):
    data: dict[str, Any]
    closed: bool = False


ReplyBlock = ReplyText | ReplyReasoning | ReplyRefusal | ReplyCall | ReplyOpaque


class Reply(Struct, frozen=True):
    """One model reply. `last` is None while the stream goes on."""

    blocks: tuple[ReplyBlock, ...] = ()
    id: str = ""
    model: str = ""
    finish: Finish | None = None
    finish_said: str = ""
    finish_detail: str = ""
    usage: Usage | None = None
    skipped: int = 0
    others: bool = False
    """Something of other answers to the same request has come."""
    media: bool = False
    """Pictures or sound stand beside its words."""
    last: LastWord | None = None

    @property
    def text(self) -> str:
        return "".join([block.text for block in self.blocks if isinstance(block, ReplyText)])

    @property
    def reasoning(self) -> str:
        return "".join([block.text for block in self.blocks if isinstance(block, ReplyReasoning)])

    @property
    def refusal(self) -> str:
        return "".join([block.text for block in self.blocks if isinstance(block, ReplyRefusal)])

    @property
    def calls(self) -> tuple[ReplyCall, ...]:
        return tuple([block for block in self.blocks if isinstance(block, ReplyCall)])

    @property
    def ended(self) -> bool:
        return isinstance(self.last, Ended)

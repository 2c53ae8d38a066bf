"""A whole message behind its blocks: what it has more is added, what is known is not repeated.

Texts are compared as one, and so are thoughts, since gateways put blocks together. What contradicts is noted
and left: what was shown cannot be taken back. Other arguments for a call that is over leave a hole, since
nobody can tell which of the two are meant.
"""

from typing import Any

from turnbuckle.vocab.arguments import same_arguments
from turnbuckle.vocab.events import CallRewritten, Event, Skipped
from turnbuckle.wire.anthropic.blocks import TOLD, Blocks, OpenBlock, argument_text
from turnbuckle.wire.anthropic.retold import untold
from turnbuckle.wire.loose_json import word
from turnbuckle.wire.payload import SAMPLE, sample_of, whole_text


def settle(blocks: Blocks, content: list[Any], out: list[Event]) -> bool:
    """False if the message says something else than its blocks did."""
    _end_echoes(blocks, out)
    told = [found for found in content if isinstance(found, dict)]
    ids = {found.get("id") for found in told if isinstance(found.get("id"), str)}
    calls = [block for block in blocks.every if block.kind == "call"]
    left = {kind: _known(blocks, kind) for kind in TOLD}
    fits = True
    for found in told:
        kind = found.get("type")
        if kind in TOLD:
            rest = untold(word(found.get(kind)), left[kind])
            fits = fits and rest is not None
            if rest is not None:
                _add_words(blocks, found, kind, rest[0], not left[kind], out)
                left[kind] = rest[1]
        elif kind == "tool_use":
            _settle_call(blocks, found, calls, ids, out)
        elif not _is_known(blocks, found):
            blocks.add(found, out)
    if not fits or any(text.strip() for text in left.values()):
        shown = sample_of(content)
        out.append(Skipped("the whole message differs from its blocks", shown, harmless=True))
        return False
    for index, block in list(blocks.open.items()):
        if block.kind in TOLD:
            blocks.stop(index, out)
    return True


def _end_echoes(blocks: Blocks, out: list[Event]) -> None:
    for index, block in list(blocks.open.items()):
        blocks.end_echo(index, block, out)
        blocks.open[index].echo = None
        if blocks.open[index].number < 0:
            blocks.stop(index, out)


def _known(blocks: Blocks, kind: str) -> str:
    return whole_text(
        "".join(piece for block in blocks.every if block.kind == kind for piece in block.pieces)
    )


def _add_words(
    blocks: Blocks, found: dict[str, Any], kind: str, more: str, fresh: bool, out: list[Event]
) -> None:
    """What a text or thought has more: in the block that is open for it, else in one of its own."""
    place = next((index for index, block in blocks.open.items() if block.kind == kind), None)
    if more and place is not None:
        blocks.tell(place, blocks.open[place], more, out)
    elif more:
        blocks.add(found if fresh else {**found, kind: more}, out)
    elif found.get("signature") and not any(block.kind == kind for block in blocks.every):
        blocks.add(found, out)


def _settle_call(
    blocks: Blocks, found: dict[str, Any], left: list[OpenBlock], ids: set[Any], out: list[Event]
) -> None:
    """A told call is found by its id, then by what it says, then by its place."""
    given = found.get("input")
    arguments = argument_text(given) if given is not None else ""
    same_id = (block for block in left if block.call_id and block.call_id == found.get("id"))
    named = [block for block in left if block.name == found.get("name") and block.call_id not in ids]
    alike = (block for block in named if same_arguments("".join(block.pieces) or "{}", arguments))
    block = next(same_id, None) or next(alike, None) or next(iter(named), None)
    if block is None:
        if not any(call.call_id and call.call_id == found.get("id") for call in blocks.every):
            blocks.add(found, out)
        return
    left.remove(block)
    place = next((index for index, other in blocks.open.items() if other is block), None)
    if place is not None and isinstance(given, dict):
        block.given = None
        block.pieces[:] = [arguments]
        out.append(CallRewritten(block.number, arguments))
        blocks.stop(place, out)
    elif place is None and arguments and not same_arguments("".join(block.pieces) or "{}", arguments):
        blocks.lose("the whole message has other arguments for a call", arguments[:SAMPLE], out)


def _is_known(blocks: Blocks, found: dict[str, Any]) -> bool:
    """Whether a block that only its provider understands has come already."""
    keys = [name for name in ("id", "tool_use_id") if found.get(name)]
    return any(
        block.data == found
        or (keys and all(block.data.get(name) == found.get(name) for name in ("type", *keys)))
        for block in blocks.every
    )

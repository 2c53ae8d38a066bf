"""Calls are told apart by their ids from the reply on. Some models give none, or the same one twice."""

from msgspec.structs import replace

from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall


def with_own_ids(reply: Reply) -> Reply:
    """The reply with an id of its own for each call. The first call of an id keeps it; one that needs another
    gets a name that no call of the reply has, always the same for the same reply."""
    ids = [call.id for call in reply.calls]
    if all(ids) and len(set(ids)) == len(ids):
        return reply
    taken = set(ids)
    seen: set[str] = set()
    blocks: list[ReplyBlock] = []
    for place, block in enumerate(reply.blocks):
        if not isinstance(block, ReplyCall):
            blocks.append(block)
            continue
        own = block.id
        if not own or own in seen:
            own = fresh_id(f"{own or 'call'}_{place}", taken)
            taken.add(own)
        seen.add(own)
        blocks.append(block if own == block.id else replace(block, id=own))
    return replace(reply, blocks=tuple(blocks))


def fresh_id(wanted: str, taken: set[str]) -> str:
    """An id that no other call has. Some models begin to count again with each reply."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name

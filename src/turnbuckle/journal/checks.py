"""What can be said against an append, a change or a merge without a look at the store."""

from collections.abc import Sequence

from turnbuckle.journal.port import EPOCH_BITS, MAX_ITEM, Changes, Merge, TooLarge


def check_size(items: Sequence[bytes]) -> None:
    """Raises TooLarge."""
    largest = max(map(len, items), default=0)
    if largest > MAX_ITEM:
        raise TooLarge(largest)


def check_distinct(changes: Changes) -> list[str]:
    """The streams that change. Raises ValueError if one is named twice: which comes first?"""
    appended, noted = (one.stream for one in changes.appends), (name for name, _ in changes.notes)
    names = [*appended, *noted, *changes.drops]
    if len(set(names)) != len(names):
        raise ValueError("a change of several streams names one of them twice")
    return names


def merge_fault(merges: Sequence[Merge]) -> str:
    """What is wrong with merges by themselves; empty if nothing is."""
    last = 0
    for merge in merges:
        if not last < merge.first <= merge.item.seq:
            return f"{merge.first} to {merge.item.seq} is not in order behind {last}"
        if merge.first >> EPOCH_BITS != merge.item.seq >> EPOCH_BITS:
            return f"{merge.first} to {merge.item.seq} reaches over the end of an epoch"
        if len(merge.item.data) > MAX_ITEM:
            return f"an item may have at most {MAX_ITEM} bytes"
        last = merge.item.seq
    return ""

"""Each call of a reply has an id of its own, whatever the model gave."""

from itertools import product

import pytest

from turnbuckle.reply.own_ids import with_own_ids
from turnbuckle.vocab.events import Ended
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyText

IDS = ("", "x", "x_1", "x_2", "x_1_2", "call_0", "call_1")


def reply_of(ids: tuple[str, ...], *, talks: bool = False) -> Reply:
    calls = tuple(ReplyCall(name, f"tool{place}", "{}", closed=True) for place, name in enumerate(ids))
    return Reply(blocks=((ReplyText("I look."), *calls) if talks else calls), finish="calls", last=Ended("x"))


@pytest.mark.requirement("C11", "D1")
def test_every_small_list_of_ids_becomes_one_without_a_repetition(record_property):
    tried = 0
    for length in range(5):
        for ids in product(IDS, repeat=length):
            for talks in (False, True):
                tried += 1
                reply = reply_of(ids, talks=talks)
                made = with_own_ids(reply)
                own = [call.id for call in made.calls]
                assert all(own), ids
                assert len(set(own)) == len(own), ids
                assert [call.name for call in made.calls] == [call.name for call in reply.calls]
                first = {name: own[ids.index(name)] for name in ids if name}
                assert all(name == kept for name, kept in first.items()), ids
                assert with_own_ids(made) == made
    record_property("cases", tried)
    assert tried > 5_000

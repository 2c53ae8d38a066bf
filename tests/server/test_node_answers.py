"""What another node could not do is told as if this one had tried."""

import asyncio

import pytest

from turnbuckle.errors import ApprovalSettled, ChangingHands, TurnbuckleError
from turnbuckle.journal.nodes import NodeReply
from turnbuckle.journal.port import (
    ReadOnly,
    StorageAway,
    StorageError,
    StorageFailed,
    StorageFull,
    StorageLocked,
    StorageSlow,
)
from turnbuckle.server.http.problems import problem_of, written
from turnbuckle.service.anywhere import NodeDesk, anywhere


class Told:
    """A service that can do nothing, and says why."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.desk: NodeDesk | None = None

    @anywhere("run")
    async def do(self, run: str) -> bool:
        raise self.error


class Line:
    """The way from one node to the other."""

    def __init__(self, other: NodeDesk) -> None:
        self._other = other

    async def ask(self, stream, data):
        return await self._other.perform(data)

    async def ask_all(self, data, *, patient=False):
        return [NodeReply("b", await self._other.perform(data)), NodeReply("c", None)]


class Looked:
    """A service that has something, or not."""

    def __init__(self, has: str | None) -> None:
        self.has = has
        self.desk: NodeDesk | None = None

    async def look(self) -> str | None:
        return self.has


def asking(there: object) -> NodeDesk:
    """The desk of a node beside one that has this service and one that does not answer."""
    other = NodeDesk(Line(None), lambda stream: True, "b")
    other.serve(there)
    return NodeDesk(Line(other), lambda stream: False, "a")


@pytest.mark.requirement("K2")
def test_who_did_not_answer_is_named_beside_what_the_others_say():
    told = asyncio.run(asking(Looked("x")).from_all(Looked(None), Looked.look))
    assert (told.given, told.missing) == (["x"], ["c"])


@pytest.mark.requirement("K2")
def test_what_nobody_has_who_answered_may_be_with_who_did_not():
    assert asyncio.run(asking(Looked("x")).from_whoever(Looked(None), Looked.look)) == "x"
    with pytest.raises(ChangingHands, match="c did not answer, and may have it"):
        asyncio.run(asking(Looked(None)).from_whoever(Looked(None), Looked.look))


ERRORS: tuple[StorageError | TurnbuckleError, ...] = (
    StorageFull("no room"),
    StorageAway("away"),
    StorageLocked("locked"),
    StorageSlow("slow"),
    ReadOnly("a standby"),
    StorageFailed("words"),
    ApprovalSettled("somebody else was first"),
)


@pytest.mark.requirement("K2", "K6")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_another_node_is_the_same_error_here(error):
    async def main():
        there, here = Told(error), Told(AssertionError("it is not done here"))
        other = NodeDesk(Line(None), lambda stream: True, "b")
        other.serve(there)
        here.desk = NodeDesk(Line(other), lambda stream: False, "a")
        with pytest.raises(type(error)) as caught:
            await here.do("r1")
        return caught.value

    found = asyncio.run(main())
    assert (type(found), str(found)) == (type(error), str(error))


@pytest.mark.requirement("K6")
def test_whoever_asks_for_what_changes_hands_is_told_to_come_back():
    problem = problem_of(ChangingHands("no server drives this run at this moment; try again"))
    assert problem is not None
    answer = written(problem)
    headers = dict(answer.headers)
    assert (answer.status, headers["retry-after"], headers["x-should-retry"]) == (503, "1", "true")

"""One life of a run: the journal as this process sees it, and the moment at which its fault comes."""

from collections.abc import Callable, Sequence
from typing import Literal

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import READ_LIMIT, Changes, Claim, Grade, IndexUpdate, Item
from turnbuckle.journal.tail import items_of
from turnbuckle.journal.wrapped import WrappedJournal
from turnbuckle.testing.world.faults import (
    CutReply,
    Fault,
    Kill,
    KillInTool,
    Leave,
    Nothing,
    Steal,
    StealInTool,
    StopInQuestion,
    StopInReply,
    StopInTool,
    end_by,
    singles,
)
from turnbuckle.vocab.failure import Failure

LEASE = 60.0
Side = Literal["before", "after"]


class Killed(BaseException):
    """The process is no more. Nothing in it may catch this."""


class Luck:
    """Counts what happens over all processes of a world, and knows at which count the fault comes. Each comes
    once. `hurried`: replies far from any fault come in one burst."""

    def __init__(self, fault: Fault, *, hurried: bool = False) -> None:
        self.faults = list(singles(fault))
        self._hurried = hurried
        self._last = -1
        self._moments = {getattr(one, "append", None) for one in self.faults}
        self.appends = 0
        self.replies = 0
        self.questions = 0
        self.intents: list[bytes] = []

    def comes_at(self, append: int) -> bool:
        """Whether anything may happen there. Nearly always nothing does, and nothing is looked for."""
        return append in self._moments

    def take(self, wanted: Fault) -> bool:
        """Whether this is the moment of that fault. It does not come twice."""
        if wanted not in self.faults:
            return False
        self.faults.remove(wanted)
        self._last = self.replies
        return True

    def is_near(self, reply: int) -> bool:
        """Whether a fault comes or may come in this reply, or came in the one before."""
        if not self._hurried or reply <= self._last:
            return True
        for fault in self.faults:
            match fault:
                case CutReply() | StopInReply():
                    near = reply - fault.reply in (0, 1)
                case Kill() | Steal() | Leave() | Nothing():  # which are counted by what is stored, in pieces
                    near = True
                case _:
                    near = False
            if near:
                return True
        return False


class WorldProcess(WrappedJournal):
    """Wraps the journal of the world for one process, and is what its model and tools tell of their doings.

    Dead means that nothing more is done here, whatever still runs. Robbed means that another process has the
    claim and this one does not know it yet."""

    def __init__(self, journal: MemoryJournal, luck: Luck, let_lease_end: Callable[[], None]) -> None:
        super().__init__(journal)
        self.dead = False
        self.power_lost = False
        self.stolen: Claim | None = None
        self.items_when_stolen = 0
        self.started_when_robbed = 0
        self.stop: Callable[[], None] = lambda: None
        self.leave: Callable[[], object] = lambda: None
        self._luck = luck
        self._let_lease_end = let_lease_end

    # The journal

    async def append(
        self,
        stream: str,
        items: Sequence[bytes],
        *,
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None = None,
    ) -> int:
        number = await self._before_append(stream)
        head = await self._journal.append(stream, items, after=after, epoch=epoch, grade=grade, note=note)
        self._luck.intents += [item for item in items if item.startswith(b'{"type":"tool_started"')]
        await self._append_at(stream, number, "after")
        return head

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._live()
        return await self._journal.read(stream, after, limit)

    def still_mine(self, claim: Claim) -> bool:
        return not self.dead and self._journal.still_mine(claim)

    async def close(self) -> None:
        self.dead = True

    async def change_all(self, changes: Changes) -> bool:
        """One moment, like an append, however many streams it changes."""
        stream = next((append.stream for append in changes.appends), "run")
        number = await self._before_append(stream)
        changed = await self._journal.change_all(changes)
        await self._append_at(stream, number, "after")
        return changed

    async def _before_append(self, stream: str) -> int:
        """The number of the append that comes now."""
        self._live()
        number = self._luck.appends
        self._luck.appends += 1
        await self._append_at(stream, number, "before")
        return number

    # The faults

    async def _append_at(self, stream: str, number: int, side: Side) -> None:
        if not self._luck.comes_at(number):
            return
        if self._luck.take(Kill(number, side)):
            self._die()
        if self._luck.take(Kill(number, side, power=True)):
            self.power_lost = True
            self._die()
        if self._luck.take(Steal(number, side)):
            await self._be_robbed(stream)
        if side == "after" and self._luck.take(Leave(number)):
            self.leave()

    async def tool_at(self, run: int, side: Side) -> None:
        self._live()
        if side == "before" and self.stolen is not None:
            self.started_when_robbed += 1
        if self._luck.take(KillInTool(run, side)):
            self._die()
        if self._luck.take(StealInTool(run, side)):
            await self._be_robbed("run")
        if side == "before" and self._luck.take(StopInTool(run)):
            self.stop()

    def intended(self, key: str) -> bool:
        """Whether the intent of this call is stored."""
        self._live()
        wanted = f'"key":"{key}"'.encode()
        return any(wanted in item for item in self._luck.intents)

    def question_at(self) -> None:
        self._live()
        self._luck.questions += 1
        if self._luck.take(StopInQuestion(self._luck.questions - 1)):
            self.stop()

    def reply_begins(self) -> int:
        self._live()
        self._luck.replies += 1
        return self._luck.replies - 1

    def cut_after(self, reply: int) -> tuple[int, Failure] | None:
        for fault in self._luck.faults:
            if isinstance(fault, CutReply) and fault.reply == reply:
                return fault.after, end_by(fault.end)
        return None

    def comes_in_pieces(self, reply: int) -> bool:
        return self._luck.is_near(reply)

    def event_sent(self, reply: int, count: int) -> None:
        if self._luck.take(StopInReply(reply, count)):
            self.stop()

    async def _be_robbed(self, stream: str) -> None:
        self._let_lease_end()
        claim = await self._journal.claim(stream, "the other", LEASE)
        assert isinstance(claim, Claim)
        self.stolen = claim
        self.items_when_stolen = len(await items_of(self._journal, stream))

    def _die(self) -> None:
        self.dead = True
        raise Killed

    def _live(self) -> None:
        if self.dead:
            raise Killed

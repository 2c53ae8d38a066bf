"""Background processes, as far as they belong to sessions of an owner. Each runs on the machine of one node,
and any node lists and stops them."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from turnbuckle.errors import ProcessUnknown
from turnbuckle.journal.port import StreamQuery, StreamRow
from turnbuckle.service.anywhere import NodeDesk, NodeResults
from turnbuckle.service.owners import LOCAL, Owner
from turnbuckle.service.stores import Stores
from turnbuckle.tools.background import BackgroundProcess
from turnbuckle.vocab.ids import SessionId

ProcessList = tuple[BackgroundProcess, ...]


class FoundProcesses(Struct, frozen=True):
    """`missing` are the nodes that did not answer, so that what they have is not there."""

    processes: ProcessList
    missing: Sequence[str] = ()


class BackgroundOfSessions:
    """A part of `SessionService`."""

    _stores: Stores

    @property
    def desk(self) -> NodeDesk | None:
        """The other nodes, if there may be any."""
        return self._stores.desk

    async def processes(self, row: StreamRow) -> FoundProcesses:
        """What runs, or ran, in the background, oldest first."""
        session = SessionId(row.name)
        here = await self._processes_here(session)
        if self.desk is None:
            return FoundProcesses(here)
        return _merged(here, await self.desk.from_all(self, BackgroundOfSessions._processes_here, session))

    async def all_processes(self, owner: Owner) -> FoundProcesses:
        """All background processes of an owner. What nobody is known to have begun any more is the machine's
        own."""
        here = await self._all_here(owner)
        if self.desk is None:
            return FoundProcesses(here)
        return _merged(here, await self.desk.from_all(self, BackgroundOfSessions._all_here, owner))

    async def stop_process(self, name: str, owner: Owner) -> BackgroundProcess:
        """One that has ended stays as it is. Raises ProcessUnknown."""
        ended = await self._stop_here(name, owner)
        if ended is None and self.desk is not None:
            ended = await self.desk.from_whoever(self, BackgroundOfSessions._stop_here, name, owner)
        if ended is None:
            raise ProcessUnknown.named(name)
        return ended

    async def end_processes_elsewhere(self, session: SessionId) -> None:
        """Other nodes end and forget what a session that is gone has left on them. What one does that does
        not answer is the machine's own then."""
        if self.desk is not None:
            await self.desk.from_all(self, BackgroundOfSessions._end_here, session)

    async def _processes_here(self, session: SessionId) -> ProcessList:
        background = self._stores.runs.background
        return () if background is None else await asyncio.to_thread(background.listed, session)

    async def _all_here(self, owner: Owner) -> ProcessList:
        background = self._stores.runs.background
        listed_here = () if background is None else await asyncio.to_thread(background.listed)
        if owner is None:
            return listed_here
        owners = {process.id: await self._owner_of(process) for process in listed_here}
        return tuple(process for process in listed_here if owners[process.id] == owner)

    async def _stop_here(self, name: str, owner: Owner) -> BackgroundProcess | None:
        background = self._stores.runs.background
        process = None if background is None else background.named(name)
        if background is None or process is None or owner not in (None, await self._owner_of(process)):
            return None
        return await background.stop(name)

    async def _end_here(self, session: SessionId) -> bool:
        if self._stores.runs.background is not None:
            await self._stores.runs.background.end_all(session)
        return True

    async def _owner_of(self, process: BackgroundProcess) -> str:
        for name in (process.run, process.session):
            if rows := await self._stores.journal.streams(StreamQuery(name=name), limit=1):
                return rows[0].user or LOCAL
        return LOCAL


def _merged(here: ProcessList, elsewhere: NodeResults[ProcessList]) -> FoundProcesses:
    """In the order in which they were started."""
    found = {one.id: one for each in (here, *elsewhere.given) for one in each}
    made = tuple(sorted(found.values(), key=lambda one: (one.started_at, one.id)))
    return FoundProcesses(made, elsewhere.missing)

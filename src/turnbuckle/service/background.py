"""Background processes, as far as they belong to sessions of an owner. They run on this machine."""

import asyncio

from turnbuckle.errors import ProcessUnknown
from turnbuckle.journal.port import StreamQuery, StreamRow
from turnbuckle.service.owners import LOCAL, Owner
from turnbuckle.service.stores import Stores
from turnbuckle.tools.background import BackgroundProcess
from turnbuckle.vocab.ids import SessionId


class BackgroundOfSessions:
    """A part of `SessionService`."""

    _stores: Stores

    def processes(self, row: StreamRow) -> tuple[BackgroundProcess, ...]:
        """What runs, or ran, in the background, oldest first."""
        background = self._stores.runs.background
        return () if background is None else background.listed(SessionId(row.name))

    async def all_processes(self, owner: Owner) -> tuple[BackgroundProcess, ...]:
        """All background processes of an owner. What nobody is known to have begun any more is the machine's
        own."""
        background = self._stores.runs.background
        listed_here = () if background is None else await asyncio.to_thread(background.listed)
        if owner is None:
            return listed_here
        owners = {process.id: await self._owner_of(process) for process in listed_here}
        return tuple(process for process in listed_here if owners[process.id] == owner)

    async def _owner_of(self, process: BackgroundProcess) -> str:
        for name in (process.run, process.session):
            if rows := await self._stores.journal.streams(StreamQuery(name=name), limit=1):
                return rows[0].user or LOCAL
        return LOCAL

    async def stop_process(self, name: str, owner: Owner) -> BackgroundProcess:
        """One that has ended stays as it is. Raises ProcessUnknown."""
        background = self._stores.runs.background
        process = None if background is None else background.named(name)
        if background is not None and process is not None and owner in (None, await self._owner_of(process)):
            ended = await background.stop(name)
            if ended is not None:
                return ended
        raise ProcessUnknown.named(name)

"""Looking after a journal and what lies beside it: checked, mended, compacted, swept."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

from msgspec import Struct

from turnbuckle.app import process_environment
from turnbuckle.config import Loaded
from turnbuckle.journal.address import is_database
from turnbuckle.journal.large_items import LargeItemsJournal, with_objects
from turnbuckle.journal.opening import check_journal_at, mend_journal_at, open_journal
from turnbuckle.journal.port import Journal
from turnbuckle.journal.report import JournalReport
from turnbuckle.journal.sqlite import doctor
from turnbuckle.journal.sqlite.folder import holds_journal
from turnbuckle.objects.opening import open_objects
from turnbuckle.runtime.filling import fill_gaps
from turnbuckle.runtime.idempotency import IdempotencyStore
from turnbuckle.runtime.retention import Keeping, ObjectUpkeep, Retention, Swept
from turnbuckle.settings import Settings
from turnbuckle.tools.kept_objects import KeptObjects


async def check_journal(loaded: Loaded) -> JournalReport | None:
    """What a look at the whole journal finds; None if there is none yet. Raises StorageError."""
    return await check_journal_at(loaded.settings.data)


async def mend_journal(loaded: Loaded) -> JournalReport | None:
    """Cut damage out of the journal, and let conversations go on that lost a run. Raises InUse beside a
    living process, and StorageError."""
    place, folder = loaded.settings.data, Path(loaded.settings.folder)
    report = await mend_journal_at(place)
    if report is not None and (report.sound or report.kept):
        journal = await open_journal(place, folder)
        try:
            await fill_gaps(journal, process_environment(asyncio.sleep))
        finally:
            await journal.close()
    return report


class CompactedJournal(Struct, frozen=True):
    """What was swept, and the bytes of the data folder before and after."""

    swept: Swept
    before: int
    after: int


async def compact_journal(loaded: Loaded) -> CompactedJournal | None:
    """Do now what the server does by and by, and give the room back. None if there is no journal yet. Raises
    InUse beside a living process, and StorageError."""
    place, folder = loaded.settings.data, Path(loaded.settings.folder)
    found = await check_journal_at(place) if is_database(place) else None
    if found is None and not holds_journal(folder):
        return None
    before = folder_size(folder) + (found.bytes if found is not None else 0)
    objects = open_objects(loaded.settings.objects, os.environ)
    journal = await with_objects(await open_journal(place, folder), objects, loaded.settings.objects.over)
    try:
        swept = await retention_of(loaded.settings, journal).sweep()
    finally:
        await journal.close()
    if found is None:
        doctor.vacuum(folder)
    left = (
        await check_journal_at(place) if found is not None else None
    )  # the database gives room back by itself
    return CompactedJournal(swept, before, folder_size(folder) + (left.bytes if left is not None else 0))


def retention_of(settings: Settings, journal: Journal, kept: KeptObjects | None = None) -> Retention:
    """What is kept, and for how long; `kept` are the files of this node, if they go to a store."""
    session = settings.session
    once = IdempotencyStore(journal, process_environment(asyncio.sleep))
    keeping = Keeping(session.keep_deltas_days * 86_400, session.keep_relays_hours * 3600)
    sweep = journal.sweep if isinstance(journal, LargeItemsJournal) else None
    objects = None if sweep is None else ObjectUpkeep(sweep, None if kept is None else kept.catch_up)
    return Retention(
        journal, keeping, Path(settings.folder), wall=time.time, deleted=once.deleted, objects=objects
    )


def folder_size(folder: Path) -> int:
    """The bytes of all files in it, as far as they can be looked at."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it went meanwhile
                total += os.lstat(os.path.join(place, name)).st_size
    return total

"""What may lag behind a commit, and for how long: the disk and the index of words.

A commit that is only flushed survives the death of the process. What follows it reaches the disk with the
next one that is synced; if none comes, with a catch-up half a second later. So a loss of power takes away the
words of half a second, however long a model goes on.

A text is stored with what it belongs to, but to put it into the index of words takes several times as long.
That is done here, too, for many texts at once. Until then a search looks through them (`search`). If the
index is damaged, nobody else's work fails with it, and the disk is caught up with all the same.
"""

import asyncio
from collections.abc import Callable

from turnbuckle.journal.port import Damaged, Grade, StorageError
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.committer import IN_THREAD, Committer, PendingWrite
from turnbuckle.journal.trouble import TroubleBook

CATCH_UP = 0.5  # seconds behind a commit
_MOST_AT_CLOSE = 64  # parts of the index; the next process does the rest


class CatchUp:
    """`is_behind` looks whether texts are missing in the index. `book` hears if it fails, and if it works
    again; what others say of the store counts more, since theirs may need more room."""

    def __init__(self, is_behind: Callable[[], bool], book: TroubleBook, seconds: float = CATCH_UP) -> None:
        self._is_behind = is_behind
        self._book = book
        self._seconds = seconds
        self._committer: Committer | None = None
        self._later: asyncio.TimerHandle | None = None
        self._under_way = self._closed = False
        self._has_told = False
        self._statements = rows.INDEX_WORDS

    def use(self, committer: Committer) -> None:
        self._committer = committer

    def due(self) -> None:
        """Somebody stored something, or could not."""
        self._has_told = False
        self._wait()

    def _wait(self) -> None:
        if self._later is None and not (self._under_way or self._closed):
            self._later = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _begin(self) -> None:
        self._later = None
        self._under_way = True
        assert self._committer is not None
        self._committer.add(self._work(Grade.SYNCED))

    def _work(self, grade: Grade) -> PendingWrite:
        work = PendingWrite((), grade, [], list(self._statements), self._done)
        work.alone = True
        work.size = IN_THREAD
        return work

    def _done(self, error: StorageError | None) -> None:
        self._under_way = False
        self._tell(error)
        if isinstance(error, Damaged):
            self._statements = (rows.INDEX_NOTHING,)
        if error is not None or (self._statements is rows.INDEX_WORDS and self._is_behind()):
            self._wait()

    def _tell(self, error: StorageError | None) -> None:
        if isinstance(error, Damaged) or (error is not None and not self._book.is_failing):
            self._book.failed(error)
            self._has_told = True
        elif error is None and self._has_told:
            self._book.stored()
            self._has_told = False

    async def close(self) -> None:
        """Nothing begins any more. What is missing in the index is brought in, if that is not very much."""
        self._closed = True
        if self._later is not None:
            self._later.cancel()
            self._later = None
        assert self._committer is not None
        for _ in range(_MOST_AT_CLOSE):
            if self._statements is not rows.INDEX_WORDS or not self._is_behind():
                return
            await self._committer.commit(self._work(Grade.FLUSHED))

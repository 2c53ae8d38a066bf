"""A process that appends to several streams until it is killed, and says what was stored as soon as it is.

Run as a program: `journal_writer.py FOLDER`. Each line is `stream sequence`.
"""

import asyncio
import os
import sys
from pathlib import Path

from turnbuckle.journal.port import Claim, Grade, next_seq
from turnbuckle.journal.sqlite.journal import SqliteJournal

STREAMS = ("a", "b", "c", "d")


def content(stream: str, seq: int) -> bytes:
    return f"{stream}:{seq}:".encode() + bytes([seq % 251]) * (seq * 37 % 900)


async def run(journal: SqliteJournal, stream: str) -> None:
    claim = await journal.claim(stream, f"process-{os.getpid()}", 60)
    assert isinstance(claim, Claim), claim
    head = claim.head
    for number in range(1_000_000):
        first = next_seq(head, claim.epoch)
        items = [content(stream, first + at) for at in range(1 + number % 3)]
        grade = Grade.SYNCED if number % 10 == 9 else Grade.FLUSHED
        head = await journal.append(stream, items, after=head, epoch=claim.epoch, grade=grade)
        os.write(1, f"{stream} {head}\n".encode())
        await asyncio.sleep(0)


async def main(folder: Path) -> None:
    journal = SqliteJournal(folder, checkpoint_pages=200)
    await asyncio.gather(*(run(journal, stream) for stream in STREAMS))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

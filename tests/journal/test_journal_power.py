"""The power goes at any moment: what was promised as sure is there, and what is there is what was written."""

import asyncio
import random
import uuid
from pathlib import Path

import pytest
from support.journals.power_cuts import MERCIES, Change, Recorder, left_after

from turnbuckle.journal.port import Claim, Grade, IndexUpdate, next_seq
from turnbuckle.journal.sqlite.database import open_to_write, transaction
from turnbuckle.journal.sqlite.doctor import check
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.sqlite.rows import index_all_words
from turnbuckle.journal.tail import read_all

pytestmark = pytest.mark.waits  # for the disk
STREAMS = ("a", "b", "c")
CUTS = 150
OFTEN, NEVER = 0.005, 3600.0  # how soon behind a commit what was only flushed is brought to the disk


class History:
    """What was written, and what was promised when so many changes had reached the disk."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.written: dict[str, list[tuple[int, bytes]]] = {name: [] for name in STREAMS}
        self.sure: list[tuple[int, str, int]] = []  # (changes, stream, head)
        self.words: list[tuple[int, str, int]] = []  # (changes, stream, a number that was noted as a word)
        self.claims: list[tuple[int, str, int]] = []  # (changes, stream, epoch)

    def promised(self, promises: list[tuple[int, str, int]], stream: str, cut: int, nothing: int) -> int:
        return max((value for at, name, value in promises if name == stream and at <= cut), default=nothing)


async def write(history: History, folder: Path, chance: random.Random, catch_up: float) -> None:
    connect = history.recorder.connect
    journal = SqliteJournal(folder, connect=connect, checkpoint_pages=60, catch_up=catch_up)

    async def run(name: str) -> None:
        head = 0
        for _ in range(3):  # epochs
            claim = await journal.claim(name, "one", 60)
            assert isinstance(claim, Claim)
            for number in range(40):
                grade = Grade.SYNCED if chance.random() < 0.15 else Grade.FLUSHED
                items = [
                    chance.randbytes(chance.choice((0, 20, 200, 3000))) for _ in range(chance.randint(1, 5))
                ]
                first = next_seq(head, claim.epoch)
                history.written[name].extend((first + at, data) for at, data in enumerate(items))
                note = IndexUpdate(words=f"{name} {first}") if grade is Grade.SYNCED else None
                head = await journal.append(
                    name, items, after=head, epoch=claim.epoch, grade=grade, note=note
                )
                if number == 0:  # whatever its grade: no number of this epoch may ever be given again
                    history.claims.append((len(history.recorder.changes), name, claim.epoch))
                if grade is Grade.SYNCED:
                    history.sure.append((len(history.recorder.changes), name, head))
                    history.words.append((len(history.recorder.changes), name, first))
            await journal.release(claim)

    await asyncio.gather(*map(run, STREAMS))
    await journal.close()


async def examine(history: History, folder: Path, cut: int) -> None:
    if not history.promised(history.claims, "a", cut, -1) + 1:
        return  # nothing was promised yet, so there need not be a journal
    assert check(folder).sound
    reader = SqliteReader(folder)
    epochs = {row.name: row.epoch for row in await reader.streams()}
    for name in STREAMS:
        items = [(item.seq, item.data) async for page in read_all(reader, name) for item in page]
        kept = len(items)
        assert items == history.written[name][:kept]
        assert (items[-1][0] if items else 0) >= history.promised(history.sure, name, cut, 0)
        if word := history.promised(history.words, name, cut, 0):
            assert [found.row.name for found in (await reader.search(f"{name} {word}")).hits] == [name]
        assert epochs.get(name, -1) >= history.promised(history.claims, name, cut, -1)
    await reader.close()


async def go_on(folder: Path) -> None:
    """The next process can use what is left, and the index of words fits the words."""
    connection = open_to_write(folder / DATABASE)
    with transaction(connection):
        index_all_words(connection)
    connection.execute("INSERT INTO word_index(word_index, rank) VALUES('integrity-check', 1)")
    connection.close()
    journal = SqliteJournal(folder)
    for name in STREAMS:
        claim = await journal.claim(name, "two", 60)
        assert isinstance(claim, Claim)
        head = await journal.append(name, [b"on"], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED)
        assert [item.data for item in await journal.read(name, claim.head)] == [b"on"]
        assert head == next_seq(claim.head, claim.epoch)
    await journal.close()


def recorded(folder: Path, catch_up: float) -> History:
    history = History(Recorder(f"recorder-{uuid.uuid4().hex}"))
    asyncio.run(write(history, folder, random.Random(7), catch_up))
    return history


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> History:
    return recorded(tmp_path_factory.mktemp("recorded"), OFTEN)


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("mercy", MERCIES)
def test_no_power_cut_loses_a_sure_item_or_leaves_a_hole(mercy, history, tmp_path, record_property):
    chance = random.Random(mercy)
    changes = history.recorder.changes
    assert len(changes) > CUTS
    cuts = sorted(chance.sample(range(len(changes)), CUTS))
    for number, cut in enumerate(cuts):
        folder = tmp_path / str(cut)
        folder.mkdir()
        for name, content in left_after(changes[:cut], mercy, chance).items():
            (folder / name).write_bytes(content)
        asyncio.run(examine(history, folder, cut))
        if number % 8 == 0 and (folder / DATABASE).exists():
            asyncio.run(go_on(folder))
    record_property("power cuts tried", len(cuts))


@pytest.mark.requirement("E3")
def test_the_proof_can_fail_since_unsynced_items_are_really_lost(history):
    chance = random.Random(1)
    log = f"{DATABASE}-wal"
    written = [
        at
        for at, change in enumerate(history.recorder.changes, 1)
        if (change.file, change.kind) == (log, "write")
    ]
    cut = written[len(written) * 2 // 3]  # right behind a write, so that no sync came since
    nothing = left_after(history.recorder.changes[:cut], "nothing", chance)
    everything = left_after(history.recorder.changes[:cut], "everything", chance)
    assert nothing[log] != everything[log]


@pytest.mark.requirement("E3")
def test_only_sure_works_wait_for_the_disk(tmp_path):
    syncs = sum(change.kind == "sync" for change in recorded(tmp_path, NEVER).recorder.changes)
    appends = 3 * 3 * 40
    assert syncs < appends  # each would cost at least one, were they all synced


def test_a_torn_write_keeps_whole_sectors():
    changes = [
        Change("write", "f", 0, b"a" * 4096),
        Change("sync", "f"),
        Change("write", "f", 0, b"b" * 4096),
    ]
    seen = {left_after(changes, "something", random.Random(seed))["f"].count(b"b") for seed in range(60)}
    assert seen <= {512 * sectors for sectors in range(9)}
    assert len(seen) > 3
    assert left_after(changes, "nothing", random.Random(1)) == {"f": b"a" * 4096}
    assert left_after([*changes, Change("truncate", "f", 9)], "everything", random.Random(1)) == {
        "f": b"b" * 9
    }

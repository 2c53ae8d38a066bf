"""A journal moved from one store to another is the same journal, however often the move was broken off."""

import asyncio
import os

import msgspec
import pytest
from support.journals.postgres_bench import PostgresBench
from support.postgres.server import shared_server

from turnbuckle.cli.main import main
from turnbuckle.journal.opening import move_journal, open_journal, open_journal_reader
from turnbuckle.journal.port import (
    Claim,
    Grade,
    IndexUpdate,
    InUse,
    Item,
    Merge,
    StorageFailed,
    StreamQuery,
    first_seq,
)
from turnbuckle.journal.tail import items_of

STREAMS = 12


def nobody(_):
    """Nobody wants to know how far it is."""


async def fill(place, folder):
    """A journal with all that one can have: epochs, merges, gaps in keys, titles, words, holders."""
    journal = await open_journal(place, folder)
    for number in range(STREAMS):
        name = f"run{number}"
        note = IndexUpdate(
            kind="run", parent="s", title=f"title {number}", user="ann", words=f"word{number} sea"
        )
        await journal.note(name, note)
        claim = await journal.claim(name, "one", 60)
        assert isinstance(claim, Claim)
        items = [b"%d-%d" % (number, at) for at in range(number * 40)] + [b"", b"x" * 300_000]
        await journal.append(name, items, after=0, epoch=0, grade=Grade.SYNCED)
        if number % 3:
            await journal.release(claim)
        if number % 3 == 2:
            await journal.merge(name, [Merge(2, Item(9, b"merged")), Merge(11, Item(12, b"too"))])
            again = await journal.claim(name, "two", 60)
            await journal.append(
                name, [b"later"], after=again.head, epoch=1, grade=Grade.SYNCED, note=IndexUpdate(mark="m")
            )
            await journal.release(again)
    await journal.drop("run4")
    await journal.note("run1", IndexUpdate(words="sea again"))
    await journal.close()


async def told(place):
    """Everything that can be read of a journal."""
    reader = await open_journal_reader(place)
    assert reader is not None
    rows = await reader.streams(StreamQuery(order="oldest"), limit=100)
    items = {row.name: await items_of(reader, row.name) for row in rows}
    hits = [hit.row.name for hit in (await reader.search("sea", limit=100)).hits]
    await reader.close()
    return rows, items, hits


async def extend(place, folder):
    """Goes on with a journal as if it had never been elsewhere."""
    journal = await open_journal(place, folder)
    claim = await journal.claim("run5", "three", 60)
    head = await journal.append("run5", [b"on"], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED)
    await journal.note("new", IndexUpdate(kind="run", words="sea new"))
    await journal.merge("run2", [Merge(9, Item(10, b"merged again"))])
    first = [hit.row.name for hit in (await journal.search("sea")).hits][:2]
    await journal.close()
    return head == first_seq(claim.epoch), first


@pytest.mark.requirement("K9")
def test_a_journal_goes_to_a_database_and_back_and_is_the_same(tmp_path):
    async def main():
        here, there = str(tmp_path / "here"), shared_server().url()
        back, other = str(tmp_path / "back"), shared_server().url()
        await fill(here, tmp_path / "here")
        first = await told(here)
        moved = await move_journal(here, there, nobody)
        await move_journal(there, other, nobody)
        await move_journal(other, back, nobody)
        assert await told(there) == await told(other) == await told(back) == await told(here) == first
        assert sorted(os.listdir(back)) == [".gitignore", "journal.db", "journal.lock"]
        goes_on = [await extend(place, tmp_path / "files") for place in (there, back)]
        assert await told(there) != first
        assert (await told(there))[1] == (await told(back))[1]
        return moved.streams, moved.items > 2000, goes_on

    assert asyncio.run(main()) == (STREAMS - 1, True, [(True, ["new", "run1"])] * 2)


class BrokenOff(Exception):
    """Somebody ended the move."""


@pytest.mark.requirement("K9")
@pytest.mark.parametrize("to_database", [True, False], ids=["to a database", "to a folder"])
def test_a_move_that_is_broken_off_goes_on_although_the_source_changed_meanwhile(to_database, tmp_path):
    def after(streams):
        def told(moved):
            if moved.streams >= streams:
                raise BrokenOff

        return told

    async def main():
        folder, database = str(tmp_path / "here"), shared_server().url()
        source, target = (folder, database) if to_database else (database, folder)
        await fill(source, tmp_path / "files")
        for streams in (2, 9):
            with pytest.raises(BrokenOff):
                await move_journal(source, target, after(streams))
            assert await open_journal_reader(target) is None  # nobody takes it for a journal
        await extend(source, tmp_path / "files")
        journal = await open_journal(source, tmp_path / "files")
        await journal.drop("run7")
        await journal.note("run2", IndexUpdate(forgotten=True, words="other words"))
        await journal.close()
        last = await move_journal(source, target, nobody)
        assert await told(target) == await told(source)
        return last.written < last.items

    assert asyncio.run(main())


@pytest.mark.requirement("K9")
def test_a_journal_that_is_written_to_or_is_there_already_is_not_moved(tmp_path):
    async def main():
        here, there = str(tmp_path / "here"), shared_server().url()
        await fill(here, tmp_path / "here")
        journal = await open_journal(here, tmp_path / "here")
        with pytest.raises(InUse):
            await move_journal(here, there, nobody)
        await journal.close()
        bench = await PostgresBench().open()
        await bench.journal.note("a", IndexUpdate(kind="run"))
        for target in (bench.url, here):
            with pytest.raises(StorageFailed, match="there is a journal"):
                await move_journal(here if target != here else bench.url, target, nobody)
        with pytest.raises(StorageFailed, match="there is no journal"):
            await move_journal(there, str(tmp_path / "new"), nobody)
        with pytest.raises(StorageFailed, match="there is no journal"):
            await move_journal(str(tmp_path / "none"), there, nobody)
        await bench.close()
        return True

    assert asyncio.run(main())


@pytest.mark.requirement("K9", "R3")
def test_the_command_moves_and_says_what_to_set(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        return caught.value.code

    monkeypatch.chdir(tmp_path)
    place = shared_server().url().replace("tester@", "tester:sw0rdfish@")
    assert run("run", "say the harbour is green") == 0
    assert run("move", ".turnbuckle", ".turnbuckle/.") == 2
    assert run("move", ".turnbuckle", place) == 0
    told = capsys.readouterr()
    assert "all compared" in told.out
    assert 'files = ".turnbuckle"' in told.out
    assert "sw0rdfish" not in told.out + told.err
    assert run("move", place, "back", "--json") == 0
    counts = msgspec.json.decode(capsys.readouterr().out)
    assert (counts["target"], counts["items"] > 0) == ("back", True)
    assert counts["written"] >= counts["items"] + counts["words"]  # heads of streams, too
    monkeypatch.setenv("TURNBUCKLE_DATA", place)
    assert run("runs", "show") == 0
    assert "harbour" in capsys.readouterr().out

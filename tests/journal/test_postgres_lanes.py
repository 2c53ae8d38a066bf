"""Nobody waits forever for somebody else: lanes of the journal, and calls for work among nodes."""

import asyncio
import os

import pytest
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.nodes import NodeState
from turnbuckle.journal.opening import open_as_node
from turnbuckle.journal.port import Claim, Grade, InUse, StorageFailed
from turnbuckle.journal.postgres import committer
from turnbuckle.journal.postgres.group_reads import GroupReads
from turnbuckle.journal.postgres.journal import open_postgres


@pytest.mark.requirement("K1", "I4")
def test_a_claim_that_nobody_waits_for_any_more_does_not_keep_the_journal_from_closing():
    """A task that is ended with its process was just about to claim something."""

    async def main():
        bench = await PostgresBench().open()
        other = await bench.another()
        try:
            claiming = asyncio.create_task(bench.journal.claim("run", "one", 60.0))
            await asyncio.sleep(0)  # it is in the line
            claiming.cancel()
            async with asyncio.timeout(100):
                await bench.journal.close()
                return await other.claim("run", "two", 60.0)
        finally:
            await other.close()
            await bench.close()

    assert isinstance(asyncio.run(main()), Claim)


def test_who_cannot_hear_what_became_of_an_item_keeps_nobody_else_from_storing(caplog):
    async def main():
        bench = await PostgresBench().open()
        try:
            claim = await bench.journal.claim("run", "one", 60.0)
            await bench.journal.append("run", [b"1"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
            assert bench.journal.append_soon("run", b"2", after=1, epoch=claim.epoch, landed=lambda *_: 1 / 0)
            async with asyncio.timeout(100):
                await bench.journal.append("run", [b"3"], after=2, epoch=claim.epoch, grade=Grade.FLUSHED)
                return [item.data for item in await bench.journal.read("run")]
        finally:
            await bench.close()

    assert asyncio.run(main()) == [b"1", b"2", b"3"]
    assert "could not be told to whoever stored it" in caplog.text


class Commits:
    """Words that a journal is given, and of how many streams it stores some at once where nobody waits for the disk."""

    def __init__(self, journal):
        self._journal = journal
        self.made = []
        self.landed = 0
        self._heads = {}

    async def begin(self, names):
        for name in names:
            claim = await self._journal.claim(name, "one", 60.0)
            self._heads[name] = await self._journal.append(
                name, [b"first"], after=0, epoch=claim.epoch, grade=Grade.SYNCED
            )
        async with self._journal.links["relaxed"].use() as connection:
            connection.add_query_logger(self._note)

    def _note(self, query):
        if "INSERT INTO item" in query.query:
            self.made.append(query.args[0].count(",") + 1)

    def say(self, name):
        after = self._heads[name]
        assert self._journal.append_soon(name, b"word", after=after, epoch=0, landed=self._land)
        self._heads[name] = after + 1

    async def store(self, name, grade):
        async with asyncio.timeout(100):
            after = self._heads[name]
            self._heads[name] = await self._journal.append(name, [b"x"], after=after, epoch=0, grade=grade)

    def _land(self, _, error):
        assert error is None
        self.landed += 1

    async def until(self, landed):
        async with asyncio.timeout(100):
            while self.landed < landed:
                await asyncio.sleep(0)


@pytest.mark.requirement("K1")
def test_words_wait_for_each_other_and_nothing_else_waits_for_them(monkeypatch):
    monkeypatch.setattr(committer, "GATHER_SECONDS", 1000.0)

    async def main():
        bench = await PostgresBench().open()
        commits = Commits(bench.journal)
        try:
            await commits.begin(["a", "b", "c", "d"])
            for name in ("a", "b", "c"):
                commits.say(name)
                await asyncio.sleep(0)
            await commits.store("a", Grade.SYNCED)
            landed = [commits.landed]
            await commits.store("d", Grade.FLUSHED)
            landed.append(commits.landed)
            return landed, commits.made
        finally:
            await bench.close()

    assert asyncio.run(main()) == ([1, 3], [3])


@pytest.mark.requirement("K1")
def test_words_that_wait_for_more_to_come_are_stored_when_nothing_comes_and_before_the_journal_closes():
    async def main():
        bench = await PostgresBench().open()
        commits = Commits(bench.journal)
        try:
            await commits.begin(["run"])
            for seq in range(1, 4):
                commits.say("run")
                await commits.until(seq)
            commits.say("run")
            await bench.journal.close()
            return commits.landed
        finally:
            await bench.close()

    assert asyncio.run(main()) == 4


@pytest.mark.requirement("K1")
def test_a_server_on_a_database_stores_words_without_a_task_that_waits_for_each(tmp_path):
    """As over a folder: a word that has to be waited for costs twice as much."""

    async def main():
        bench = await PostgresBench().open()
        journal, _, _ = await open_as_node(bench.url, tmp_path)
        landed = asyncio.Event()
        try:
            claim = await journal.claim("run", "one", 60.0)
            await journal.append("run", [b"1"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
            begun = journal.append_soon(
                "run", b"2", after=1, epoch=claim.epoch, landed=lambda *_: landed.set()
            )
            async with asyncio.timeout(100):
                assert begun
                await landed.wait()
            return [item.data for item in await journal.read("run")]
        finally:
            await journal.close()
            await bench.close()

    assert asyncio.run(main()) == [b"1", b"2"]


@pytest.mark.requirement("I4", "K1")
def test_hints_that_cannot_be_written_down_keep_nobody_from_storing(monkeypatch):
    """A mistake of our own must not end the lane that everybody's words go by."""

    def fails(_):
        monkeypatch.undo()
        raise RuntimeError("a mistake")

    async def main():
        bench = await PostgresBench().open()
        try:
            claim = await bench.journal.claim("run", "one", 60.0)
            monkeypatch.setattr(committer, "hint_texts", fails)
            await bench.journal.append("run", [b"1"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
            while vars(committer)["hint_texts"] is fails:
                await asyncio.sleep(0)
            async with asyncio.timeout(100):
                return await bench.journal.append(
                    "run", [b"2"], after=1, epoch=claim.epoch, grade=Grade.FLUSHED
                )
        finally:
            await bench.close()

    assert asyncio.run(main()) == 2


@pytest.mark.requirement("I4")
def test_a_reader_is_told_of_a_mistake_that_nobody_thought_of_and_the_next_one_is_answered():
    tries = []

    async def ask(question):
        tries.append(question)
        if len(tries) == 1:
            raise RuntimeError("a mistake")
        return [None]

    async def main():
        group = GroupReads(ask)
        async with asyncio.timeout(100):
            with pytest.raises(StorageFailed, match="mistake"):
                await group.stands("run")
            return await group.stands("run")

    assert asyncio.run(main()) is None


@pytest.mark.requirement("I4", "K2")
def test_a_node_goes_on_looking_around_after_a_mistake_that_nobody_thought_of():
    looks = asyncio.Event()
    tries = []

    async def mistaken():
        tries.append(1)
        if len(tries) > 2:
            looks.set()
        raise RuntimeError("a mistake")

    async def perform(_: bytes) -> bytes:
        return b""

    async def main():
        bench = await PostgresBench().open()
        journal = await open_postgres(bench.url, beside=True)
        journal.nodes.with_each_look(mistaken)
        try:
            await journal.nodes.join("node", "1", NodeState, perform, lambda: None)
            async with asyncio.timeout(100):
                await looks.wait()
            return len(tries) > 2
        finally:
            await journal.nodes.leave()
            await journal.close()
            await bench.close()

    assert asyncio.run(main())


@pytest.mark.requirement("I4", "K2")
def test_a_process_listens_again_after_a_mistake_that_nobody_thought_of():
    def mistaken() -> None:
        raise RuntimeError("a mistake")

    async def main():
        bench = await PostgresBench().open()
        listener = bench.journal.listener
        listener.back = mistaken
        try:
            async with asyncio.timeout(100):
                for _ in range(2):
                    lost = listener.pid
                    bench.server.sql(f"SELECT pg_terminate_backend({lost})")
                    while listener.pid in (0, lost):
                        await asyncio.sleep(0)
            return True
        finally:
            await bench.close()

    assert asyncio.run(main())


@pytest.mark.requirement("I4", "K1")
@pytest.mark.parametrize("steps", range(4))
def test_a_process_stops_listening_also_in_the_moment_in_which_its_connection_is_lost(steps):
    """It was told of both at once, heard of the loss alone, and never closed."""

    async def main():
        bench = await PostgresBench().open()
        listener = bench.journal.listener
        try:
            await asyncio.sleep(0)
            listener._on_loss(None)
            for _ in range(steps):
                await asyncio.sleep(0)
            async with asyncio.timeout(100):
                await listener.close()
            return True
        finally:
            await bench.close()

    assert asyncio.run(main())


@pytest.mark.requirement("K1")
def test_a_second_process_with_the_same_files_is_told_of_that_folder_and_of_no_journal_in_it(tmp_path):
    async def main():
        bench = await PostgresBench().open()
        journal, _, _ = await open_as_node(bench.url, tmp_path)
        try:
            with pytest.raises(InUse) as refused:
                await open_as_node(bench.url, tmp_path)
            return str(refused.value)
        finally:
            await journal.close()
            await bench.close()

    told = f"process {os.getpid()} already uses {tmp_path}; stop it, or set `files` to another folder"
    assert asyncio.run(main()) == told


@pytest.mark.requirement("K2")
def test_a_call_for_work_waits_for_nothing_that_a_node_is_about_to_ask():
    """Neither where it is made nor where it is heard."""

    async def main():
        bench = await PostgresBench().open()
        nodes = [await open_postgres(bench.url, beside=True) for _ in range(2)]
        stuck, heard = [asyncio.Event(), asyncio.Event()], asyncio.Event()
        never = asyncio.Event()

        async def perform(_: bytes) -> bytes:
            return b""

        def gets_stuck(event: asyncio.Event):
            async def share() -> None:
                event.set()
                await never.wait()

            return share

        calls = 0

        def look() -> None:
            nonlocal calls
            calls += 1
            if all(event.is_set() for event in stuck):
                heard.set()

        try:
            for journal, event in zip(nodes, stuck, strict=True):
                journal.nodes.with_each_look(gets_stuck(event))
                await journal.nodes.join("node", "1", NodeState, perform, look)
            async with asyncio.timeout(100):
                for event in stuck:
                    await event.wait()
                before = calls
                nodes[0].nodes.call()
                await heard.wait()
            return calls > before
        finally:
            for journal in nodes:
                await journal.nodes.leave()
                await journal.close()
            await bench.close()

    assert asyncio.run(main())

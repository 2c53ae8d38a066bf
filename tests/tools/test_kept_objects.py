"""Whole outputs and changed contents where every node finds them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.objects.faulty_objects import FaultyObjects
from support.tools.toolbox import Toolbox

from turnbuckle.objects.port import StoreAway, object_key
from turnbuckle.testing.conformance.objects import keys_of
from turnbuckle.tools.kept_objects import RESTS, KeptObjects, kept_names
from turnbuckle.tools.restore import RunFiles
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.file_change import TouchedFile

AWAY = StoreAway("it is away")
LONG = "seq 1 20000"


class TwoNodes:
    """Two nodes with one store and folders of their own. Only `one` has worked so far."""

    def __init__(self, folder: Path) -> None:
        self.store = FaultyObjects()
        self.monotonic = 0.0
        self.one, self.other = (self._node(folder / name) for name in ("one", "other"))

    def _node(self, folder: Path) -> Toolbox:
        folder.mkdir()
        made = Toolbox(folder)
        return made.with_settings(objects=KeptObjects(self.store, made.data, lambda: self.monotonic))

    def kept(self, node: Toolbox) -> KeptObjects:
        assert node.context.objects is not None
        return node.context.objects


def played(folder: Path, scenario: Any) -> Any:
    async def main() -> Any:
        return await scenario(TwoNodes(folder))

    return asyncio.run(asyncio.wait_for(main(), 100))


@pytest.mark.requirement("K8")
def test_a_whole_output_is_read_at_another_node_by_the_path_that_the_first_one_told(tmp_path: Path):
    async def scenario(nodes: TwoNodes):
        done = await nodes.one.run("shell", command=LONG)
        assert done.kept_at is not None
        assert str(nodes.one.data) in done.kept_at
        read = await nodes.other.run("read_file", path=done.kept_at, start=15_000, lines=1)
        found = await nodes.other.run("search_files", pattern="^17171$", path=done.kept_at)
        return read.status, "15000" in read.text, "17171" in found.text

    assert played(tmp_path, scenario) == ("finished", True, True)


@pytest.mark.requirement("K8")
def test_a_change_is_undone_at_another_node(tmp_path: Path):
    async def scenario(nodes: TwoNodes):
        await nodes.one.run("write_file", path="a.txt", content="old\n")
        done = await nodes.one.run("write_file", path="a.txt", content="new\n")
        [change] = done.changes
        (nodes.other.workspace / "a.txt").write_text("new\n")  # the workspace is shared
        touched = TouchedFile(change.path, change.before, change.after, 1, True)
        files = RunFiles(nodes.other.context)
        undone = await in_thread(lambda: files.undo(touched, "undo"))
        return undone, (nodes.other.workspace / "a.txt").read_text()

    assert played(tmp_path, scenario) == (True, "old\n")


def test_a_store_that_is_away_loses_no_output_and_gets_it_later(tmp_path: Path):
    async def scenario(nodes: TwoNodes):
        nodes.store.fault = AWAY
        done = await nodes.one.run("shell", command=LONG)
        again = await nodes.one.run("shell", command=LONG)
        assert (done.status, again.status) == ("finished", "finished")
        assert nodes.store.asked == 1  # then it rests
        there = Path(nodes.one.workspace, done.kept_at).exists()
        unread = await nodes.other.run("read_file", path=done.kept_at)
        nodes.store.fault = None
        missing = await nodes.other.run("read_file", path=done.kept_at)
        nodes.monotonic += RESTS
        caught_up = await nodes.kept(nodes.one).catch_up()
        read = await nodes.other.run("read_file", path=done.kept_at)
        return there, unread.status, unread.text, missing.status, caught_up, read.status

    there, unread, words, missing, caught_up, read = played(tmp_path, scenario)
    assert there
    assert (unread, missing, read) == ("not_started", "failed", "finished")
    assert "cannot be read now. it is away" in words
    assert caught_up >= 2


def test_what_is_stored_already_is_not_stored_again(tmp_path: Path):
    async def scenario(nodes: TwoNodes):
        await nodes.one.run("shell", command=LONG)
        await nodes.one.run("write_file", path="a.txt", content="x")
        await nodes.kept(nodes.one).catch_up()  # what nobody was told of
        before = nodes.store.asked
        return await nodes.kept(nodes.one).catch_up(), nodes.store.asked - before, await keys_of(nodes.store)

    caught_up, asked, keys = played(tmp_path, scenario)
    assert (caught_up, asked) == (0, 0)
    assert sorted({key.split("/")[1] for key in keys}) == ["changes", "kept"]


def test_a_stop_does_not_wait_for_the_store(tmp_path: Path):
    async def scenario(nodes: TwoNodes):
        stop = asyncio.Event()
        nodes.store.gate = asyncio.Event()
        nodes.one.with_settings(stop=stop)
        running = asyncio.create_task(nodes.one.run("shell", command=LONG))
        while not nodes.store.asked:
            await asyncio.wait({running}, timeout=0.005)
        stop.set()
        done = await running
        nodes.store.gate = None
        nodes.one.with_settings(stop=None)
        await nodes.kept(nodes.one).catch_up()
        read = await nodes.other.run("read_file", path=done.kept_at)
        return done.status, read.status

    assert played(tmp_path, scenario) == ("finished", "finished")


def test_what_no_store_has_leaves_no_trace(tmp_path: Path):
    async def scenario(nodes: TwoNodes):
        path = "somewhere/kept/run9/shell-0123456789ab.txt"
        done = await nodes.other.run("read_file", path=path)
        return done.status, (nodes.other.data / "kept" / "run9").exists()

    assert played(tmp_path, scenario) == ("failed", False)


@pytest.mark.parametrize(
    "text, named",
    (
        ("/a/kept/run1/shell-0123456789ab.txt", [("run1", "shell-0123456789ab.txt")]),
        ("cat x/kept/r/a_b-0123456789ab.txt | wc", [("r", "a_b-0123456789ab.txt")]),
        ("kept/r/a-0123456789ab.txt", [("r", "a-0123456789ab.txt")]),
        ("kept/../a-0123456789ab.txt", []),
        ("kept/r/../a-0123456789ab.txt", []),
        ("unkept/r/a-0123456789ab.txt", []),
        ("kept/r/a.txt", []),
        ("nothing", []),
    ),
)
def test_names_of_whole_outputs_are_found_wherever_they_are_written(text: str, named: list):
    assert list(kept_names(text)) == named


def test_a_name_is_an_object_of_its_run():
    assert object_key("run1", "kept", "shell-0123456789ab.txt") == "run1/kept/shell-0123456789ab.txt"

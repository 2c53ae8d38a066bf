"""Processes in the background, with real ones: they outlive their server, are found again, and never by mistake."""

import asyncio
import errno
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.lab.clock import RealClock
from turnbuckle.tools.background import MOST, RECORD, TOLD, Processes, ProcessRecord, lost_note, name_of
from turnbuckle.tools.identity import identity_of
from turnbuckle.tools.keeper import RUNNING, store

PATIENCE = 100.0
FAMILY = "exec 3>alive; (setsid sleep 300 &); sleep 300 & echo up >&3; echo begun; sleep 300"
SERVER = """
import os, signal, sys
from pathlib import Path
from support.tools.toolbox import Toolbox
box = Toolbox(Path(sys.argv[1])).with_settings(key="k")
Path(sys.argv[1], "alive").rename(box.workspace / "alive")
assert box.do("shell", command=sys.argv[2], background=True).ok
os.kill(os.getpid(), signal.SIGKILL)
"""
pytestmark = pytest.mark.process


class Alive:
    """A named pipe that every process of a command holds open: it ends when all of them are dead."""

    def __init__(self, path):
        os.mkfifo(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self):
        ready, _, _ = select.select([self._end], [], [], PATIENCE)
        assert ready, "nothing happened"
        return os.read(self._end, 100)

    def close(self):
        os.close(self._end)


@pytest.fixture
def box(tmp_path):
    made = Toolbox(tmp_path).with_settings(key="k")
    yield made
    asyncio.run(Processes(made.data, RealClock()).end_all(""))


@pytest.fixture
def alive(box):
    made = Alive(box.workspace / "alive")
    yield made
    made.close()


def processes(box, **options):
    return Processes(box.data, RealClock(), **options)


def started(box, command, **settings):
    outcome = box.with_settings(**settings).do("shell", command=command, background=True)
    assert outcome.ok, outcome
    return outcome.text.split("process ")[1].split()[0]


def look(box, name, **arguments):
    return box.do("read_process", id=name, **arguments).text


def until_over(box, name):
    for _ in range(100):
        (found,) = [one for one in processes(box).listed() if one.id == name]
        if not found.is_alive:
            return found
        look(box, name, after=1 << 40, wait=1)
    raise AssertionError("it did not end")


def written(box, key, *, running=None, session="", starter=0, mark="nobody", at=1.0):
    """A process as a server that is gone left it."""
    name = name_of(session, key)
    home = box.data / "processes" / name
    home.mkdir(parents=True)
    record = ProcessRecord(name, "serve it", "r", session, "/", at, starter, mark)
    (home / RECORD).write_bytes(msgspec.json.encode(record))
    if running is not None:
        (home / RUNNING).write_bytes(msgspec.json.encode(running))
    return home


def me(**changes):
    """This very process as a keeper. Its session is never the one that is cleaned up behind a test."""
    return {"keeper": os.getpid(), "identity": identity_of(os.getpid()), "pid": 1 << 30, **changes}


@pytest.mark.requirement("G6")
def test_a_command_in_the_background_comes_back_at_once_and_can_be_read_until_its_end(box):
    os.mkfifo(box.workspace / "go")
    name = started(box, "echo one; echo two >&2; read x <go; echo $x; exit 7")
    assert " is running for " in look(box, name, after=0, wait=20)
    assert box.do("read_process").text.startswith(f"{name} is running for ")
    (box.workspace / "go").write_text("three\n")
    until_over(box, name)
    text = look(box, name)
    assert "ended with exit code 7" in text
    assert "one\ntwo\nthree\n" in text


@pytest.mark.requirement("G6")
def test_what_was_read_is_not_read_again(box):
    name = started(box, "printf 0123456789")
    assert until_over(box, name).output_bytes == 10
    assert look(box, name, after=4).split("\n")[1] == "456789"
    assert look(box, name, after=10).split("\n")[1] == "(no new output)"
    assert look(box, name, after=-5).split("\n")[1] == "0123456789"
    assert "after=10" in look(box, name)


@pytest.mark.requirement("G6", "D7")
def test_a_stop_ends_everything_that_came_from_it_and_a_second_one_changes_nothing(box, alive):
    name = started(box, FAMILY)
    assert alive.read() == b"up\n"
    assert "was stopped" in box.do("stop_process", id=name).text
    assert alive.read() == b""
    assert "over already" in box.do("stop_process", id=name).text


@pytest.mark.requirement("G6", "D7")
def test_a_command_that_does_not_want_to_end_is_killed(box, alive):
    name = started(box, "exec 3>alive; trap '' TERM; echo up >&3; while :; do sleep 300; done")
    assert alive.read() == b"up\n"
    assert "was stopped" in box.do("stop_process", id=name).text
    assert alive.read() == b""


@pytest.mark.requirement("G6", "D7")
def test_what_a_command_leaves_running_when_it_ends_is_ended(box, alive):
    name = started(box, "exec 3>alive; (setsid sleep 300 &); echo up >&3; exit 3")
    assert alive.read() == b"up\n"
    assert alive.read() == b""
    over = until_over(box, name)
    assert (over.state, over.exit_code) == ("ended", 3)
    assert len(over.killed) == 1


@pytest.mark.requirement("G6")
def test_it_outlives_a_server_that_is_killed_and_the_next_one_finds_and_ends_it(tmp_path):
    alive = Alive(tmp_path / "alive")
    tests = str(Path(__file__).parents[1])
    server = subprocess.run(
        [sys.executable, "-c", SERVER, str(tmp_path), FAMILY], cwd=tests, timeout=100, check=False
    )
    assert server.returncode == -signal.SIGKILL
    assert alive.read() == b"up\n"
    found = Processes(tmp_path / "data", RealClock())
    (process,) = found.listed()
    assert (process.state, process.command) == ("running", FAMILY)
    assert found.lost("") == ()
    over = asyncio.run(found.stop(process.id))
    assert over.state == "stopped"
    assert alive.read() == b""
    alive.close()


@pytest.mark.requirement("G6")
def test_a_process_whose_keeper_was_killed_is_lost_and_told_of_once(box, alive):
    name = started(box, "exec 3>alive; echo up >&3; exec sleep 300")
    assert alive.read() == b"up\n"
    kept = msgspec.json.decode((box.data / "processes" / name / RUNNING).read_bytes())
    os.kill(kept["keeper"], signal.SIGKILL)
    if sys.platform == "linux":
        assert alive.read() == b""  # it went with its keeper
    over = until_over(box, name)
    assert over.state == "lost"
    assert "is lost" in look(box, name)
    here = processes(box)
    assert here.lost("") == (over,)
    assert f"{name} (exec 3>alive" in lost_note(here.lost(""))
    here.told(here.lost(""))
    assert here.lost("") == ()


@pytest.mark.requirement("G6")
def test_another_process_with_the_same_number_is_not_it_and_is_not_touched(box):
    home = written(box, "k1", running=me(identity="another boot:1"), session="s")
    here = processes(box)
    assert here.find(home.name, "s").state == "lost"
    assert asyncio.run(here.stop(home.name)).state == "lost"  # and we are still here
    (home / RUNNING).write_bytes(msgspec.json.encode(me()))
    assert here.find(home.name, "s").state == "running"


@pytest.mark.requirement("G6")
def test_what_was_written_down_and_never_started_is_starting_only_as_long_as_its_starter_lives(box):
    written(box, "k1", starter=os.getpid(), mark=identity_of(os.getpid()), at=1.0)
    written(box, "k2", starter=os.getpid(), mark="another", at=2.0)
    assert [one.state for one in processes(box).listed()] == ["starting", "lost"]


@pytest.mark.requirement("G6")
def test_the_same_call_never_starts_a_second_one(box):
    first = started(box, "echo x >>count; sleep 300")
    assert started(box, "echo x >>count; sleep 300") == first
    assert len(processes(box).listed()) == 1
    assert started(box, "true", key="another") != first


@pytest.mark.requirement("G6", "F9")
def test_no_session_sees_or_ends_the_processes_of_another(box):
    async def other():
        return "theirs"

    name = started(box, "sleep 300")
    box.with_settings(session=other)
    assert "no background processes" in box.do("read_process").text
    for tool in ("read_process", "stop_process"):
        outcome = box.do(tool, id=name)
        assert (outcome.status, "there is no background process" in outcome.text) == ("failed", True)
    assert processes(box).find(name, "").state == "running"
    assert processes(box).find("../p1", "") is None


@pytest.mark.requirement("G6", "B10")
def test_a_noisy_one_keeps_only_the_end_of_its_output(box):
    async def story():
        here, folder = processes(box, cap=1000), os.open(box.workspace, os.O_RDONLY)
        command = "i=0; while [ $i -lt 1000 ]; do printf '%09d\\n' $i; i=$((i+1)); done"
        try:
            return await here.start(
                ["/bin/sh", "-c", command], command, run="r", session="", key="n", where=folder, folder=".",
                environment={"PATH": "/usr/bin:/bin"},
            )  # fmt: skip
        finally:
            os.close(folder)

    process = asyncio.run(story())
    assert until_over(box, process.id).output_bytes == 10_000
    files = list((box.data / "processes" / process.id).glob("log-*"))
    assert sum(path.stat().st_size for path in files) <= 2000
    piece = processes(box).read(process.id, 0, 100_000)
    assert (piece.total, piece.begins + len(piece.data)) == (10_000, 10_000)
    assert piece.data.startswith(b"%09d\n" % (piece.begins // 10))
    assert "bytes before this left out" in look(box, process.id, after=0)


@pytest.mark.requirement("G6")
def test_so_many_may_run_in_a_session_and_so_many_ended_ones_are_remembered(box):
    for number in range(MOST):
        written(box, f"p{number}", running=me(), session="full")
        written(box, f"q{number}", session="old", at=float(number))

    async def full():
        return "full"

    async def old():
        return "old"

    outcome = box.with_settings(session=full).do("shell", command="true", background=True)
    assert (outcome.status, f"{MOST} background processes" in outcome.text) == ("failed", True)
    name = started(box, "true", session=old)
    left = [one.id for one in processes(box).listed("old")]
    assert left == [*(name_of("old", f"q{number}") for number in range(1, MOST)), name]


@pytest.mark.requirement("G6")
def test_all_of_a_session_are_ended_and_forgotten_with_it(box, alive):
    started(box, FAMILY)
    assert alive.read() == b"up\n"
    home = written(box, "k1", session="other")
    asyncio.run(processes(box).end_all(""))
    assert alive.read() == b""
    assert [one.id for one in processes(box).listed()] == [home.name]
    assert not (home / TOLD).exists()


@pytest.mark.requirement("D5")
def test_it_gets_the_environment_without_its_secrets(box):
    environment = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "sk-secret-0123456789", "COLOR": "red"}
    name = started(box, "env", environment=environment)
    until_over(box, name)
    text = look(box, name)
    assert "COLOR=red" in text
    assert "sk-secret" not in text


def test_a_background_process_has_no_timeout(box):
    outcome = box.do("shell", command="true", background=True, timeout=5)
    assert (outcome.status, processes(box).listed()) == ("failed", ())


class Disk:
    """Takes a few bytes at a time, and in the end none, as a disk that gets full does."""

    def __init__(self, monkeypatch, room):
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle, data):
        taken = min(len(data), 7, self.room)
        if not taken:
            raise OSError(errno.ENOSPC, "no space left on device")
        self.room -= taken
        return self._write(handle, data[:taken])


@pytest.mark.requirement("E10")
def test_what_a_keeper_writes_down_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = str(tmp_path / "ended.json")
    data = b'{"status": 0, "stopped": false}' * 9
    Disk(monkeypatch, 10_000)
    store(path, data)
    assert Path(path).read_bytes() == data
    Disk(monkeypatch, 50)
    with pytest.raises(OSError, match="no space left"):
        store(path, data + b" more")
    assert Path(path).read_bytes() == data

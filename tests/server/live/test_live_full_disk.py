"""A file system that is really full: everybody is told, and when there is room again nothing is missing.

The server gets a small file system of its own, which only it sees: a mount namespace, by root or by a user namespace.
Where the machine allows neither, that is said, and every write of the server is refused by a limit instead."""

import errno
import io
import os
import resource
import subprocess
from pathlib import Path

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.face_requests import error_code, request_for, streamed
from support.server.live_server import asked_until, gate, said_in

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Finish, Say

CHAT = "/v1/chat/completions"
MESSAGES = request_for("messages stream", "slowly")
NAMESPACES = (("unshare", "-m"), ("unshare", "-Urm"))
SIZE = "size=8m"


def asked(text: str, **more):
    return {"model": "agent", "messages": [{"role": "user", "content": text}], **more}


def speaker(request):
    if "slowly" in last_user_text(request):
        return (Say("One half"), gate(1), Say(" and the other."), Finish())
    return (Say("Well."), Finish())


class FullDisk:
    """A small file system in place of `folder`, which only the server sees, and whatever takes its room."""

    told = (507, "storage_full", "the server's disk is full")

    def __init__(self, folder: Path, namespace: tuple[str, ...]) -> None:
        self._folder = folder
        mount = f'mount -t tmpfs -o {SIZE} tmpfs "$0" && exec "$@"'
        self.before = (*namespace, "sh", "-c", mount, str(folder))

    def is_possible(self) -> bool:
        try:
            return subprocess.run((*self.before, "true"), capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False

    def fill(self, pid: int) -> None:
        with self._filler(pid).open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                while self._takes(file, size):
                    pass
        assert os.statvfs(self._filler(pid)).f_bavail == 0

    def _takes(self, file: io.FileIO, size: int) -> bool:
        try:
            return bool(file.write(b"x" * size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False

    def empty(self, pid: int) -> None:
        self._filler(pid).unlink()

    def _filler(self, pid: int) -> Path:
        return Path(f"/proc/{pid}/root{self._folder}/filler")


class SmallFiles:
    """The system refuses every write of the server. What stands in for a full disk where mounting is forbidden."""

    told = (503, "storage_failed", "the server's disk or database reported an error")
    before = ()

    def fill(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    def empty(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def disk_for(folder: Path) -> FullDisk | SmallFiles:
    disks = (FullDisk(folder, namespace) for namespace in NAMESPACES)
    found = next((disk for disk in disks if disk.is_possible()), None)
    if found is None:
        print("no private mount on this machine: a limit on the size of files takes the place of a full disk")
    return found or SmallFiles()


async def eventually_ready(server: ServerProcess) -> None:
    await asked_until(lambda ready: ready.status == 200, server.get, "/readyz")


@pytest.mark.requirement("E10")
@pytest.mark.process
def test_a_full_file_system_is_told_as_full_and_nothing_is_lost_when_there_is_room_again(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    disk = disk_for(data)
    status, code, words = disk.told

    async def scenario(server: ServerProcess):
        await server.start(*disk.before)
        before = await server.post(CHAT, asked("hello"), x_turnbuckle_session="s")
        async with (
            server.listen(CHAT, asked("slowly", stream=True), x_turnbuckle_session="s") as listener,
            server.listen(*MESSAGES) as messenger,
        ):
            await listener.until(b"One half")
            await messenger.until(b"One half")
            run_id = listener.reply.headers["x-turnbuckle-run"]
            disk.fill(server.pid)
            refused = await server.post(CHAT, asked("hello"))
            refused_too = await server.post(*request_for("messages", "hello"))
            ready = await server.get("/readyz")
            server.behind.gates.open(1)
            await listener.until(f": waiting for storage: {words}".encode())
            await messenger.until(f": waiting for storage: {words}".encode())
            disk.empty(server.pid)
            heard = await listener.rest()
            message = await messenger.rest()
        async with server.listen(f"/v1/runs/{run_id}/events") as reader:
            events = await reader.rest()
        messages = await server.get("/v1/sessions/s/messages")
        later = await server.post(CHAT, asked("hello"), x_turnbuckle_session="s")
        await eventually_ready(server)
        await server.stop()
        return before, (refused, refused_too), ready, heard, message, events, messages, later

    before, (refused, refused_too), ready, heard, message, events, messages, later = run_process_scenario(
        scenario, tmp_path, speaker
    )
    assert (before.status, later.status) == (200, 200)
    assert (refused.status, refused.json["error"]["code"]) == (status, code)
    assert (refused_too.status, refused_too.json["type"], error_code(refused_too)) == (status, "error", code)
    for one in (refused, refused_too):
        assert words in one.error["message"]
        assert "retry-after" in one.headers
    assert streamed("messages", message) == "One half and the other."
    assert (ready.status, ready.json["code"]) == (503, code)
    in_chat = "".join(
        choice["delta"].get("content") or ""
        for frame in heard
        if frame.data.startswith(b"{")
        for choice in frame.json["choices"]
    )
    assert in_chat == said_in(events) == "One half and the other."
    assert heard[-1].data == b"[DONE]"
    assert b"One half and the other." in messages.body

"""The shell, with real processes. A named pipe that every process of a command holds open tells when all are dead."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.tools.builtin.shell import shell as shell_tool
from turnbuckle.vocab.tooling import ToolOutcome

FAMILY = "exec 3>alive; (setsid sleep 300 &); sleep 300 & echo up >&3; echo begun; sleep 300"
"""A command with a child, a grandchild in a session of its own, and itself. Left alone, it takes five minutes."""
HANGS = 100.0

SERVER = """
import asyncio, sys
from pathlib import Path
from support.tools.toolbox import Toolbox
box = Toolbox(Path(sys.argv[1]))
Path(sys.argv[1], "alive").rename(box.workspace / "alive")
box.do("shell", command=sys.argv[2])
"""


class Alive:
    """The reading end of the pipe."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes:
        """What was written, or nothing at all when every holder is dead."""
        ready, _, _ = select.select([self._end], [], [], HANGS)
        assert ready, f"nothing happened within {HANGS} s"
        return os.read(self._end, 100)

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    "command, status, code, text",
    [
        ("echo out; echo err >&2; echo out", "finished", 0, "out\nerr\nout\n"),
        ("printf 'no end'; exit 7", "failed", 7, "no end"),
        ("true", "finished", 0, ""),
        ("kill -9 $$", "failed", 137, ""),
        ("cat", "finished", 0, ""),
        ("yes | head -n 1", "finished", 0, "y\n"),
        ("printf 'caf\\303\\251 \\377'", "finished", 0, "café \ufffd"),
        ("no_such_program_here 2>/dev/null", "failed", 127, ""),
    ],
)
def test_output_and_exit_code_come_back(box: Toolbox, command: str, status: str, code: int, text: str):
    outcome = box.do("shell", command=command)
    assert (outcome.status, outcome.exit_code, outcome.text, outcome.killed) == (status, code, text, ())


def test_a_command_runs_in_the_workspace_or_in_a_folder_of_it(box: Toolbox):
    (box.workspace / "src").mkdir()
    (box.workspace / "out").symlink_to("..")
    assert box.do("shell", command="pwd").text.strip() == os.path.realpath(box.workspace)
    assert box.do("shell", command="pwd", cwd="src").text.strip() == os.path.realpath(box.workspace / "src")
    for cwd in ("..", "out", "missing"):
        assert box.do("shell", command="echo ran", cwd=cwd).status == "failed"


def test_secrets_are_not_in_the_environment_of_a_command(box: Toolbox):
    names = ["OPENAI_API_KEY", "GITHUB_TOKEN", "my_secret", "DB_PASSWORD"]
    box.with_settings(
        environment={"PATH": "/usr/bin:/bin", "PLAIN": "1", **dict.fromkeys(names, "not for you")}
    )
    shown = box.do("shell", command="env").text
    assert "PLAIN=1" in shown
    assert not any(name in shown for name in names)


def test_a_secret_that_a_command_finds_elsewhere_is_not_shown(box: Toolbox):
    box.with_settings(environment={"PATH": "/usr/bin:/bin", "API_KEY": "hunter2hunter2"})
    (box.workspace / ".env").write_text("API_KEY=hunter2hunter2\n")
    assert box.do("shell", command="cat .env").text == "API_KEY=[secret]\n"
    assert "".join(box.heard) == "API_KEY=[secret]\n"


@pytest.mark.requirement("D5")
def test_a_flood_of_output_is_capped_counted_and_kept(box: Toolbox):
    outcome = box.do("shell", command="seq 100000")
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert outcome.text.startswith("1\n2\n3\n")
    assert outcome.text.endswith("99999\n100000\n")
    assert len(outcome.text) < 31_000
    assert outcome.kept_at is not None
    assert (box.workspace / outcome.kept_at).read_text() == whole
    assert sum(map(len, box.heard)) < 210_000


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_output_is_heard_while_the_command_runs(box: Toolbox):
    async def main() -> ToolOutcome:
        stop = asyncio.Event()
        box.with_settings(stop=stop, publish=lambda text: stop.set() if "begun" in text else None)
        return await box.run("shell", command="echo begun; sleep 300")

    outcome = asyncio.run(main())
    assert (outcome.status, outcome.partial_output) == ("killed", "begun\n")


@pytest.mark.requirement("D4", "D5")
@pytest.mark.realtime
def test_a_stop_kills_the_whole_family_at_once_and_names_it(box: Toolbox):
    alive = Alive(box.workspace / "alive")

    async def main() -> ToolOutcome:
        stop = asyncio.Event()
        return await box.with_settings(stop=stop, publish=lambda text: stop.set()).run(
            "shell", command=FAMILY
        )

    outcome = asyncio.run(main())
    assert outcome.seconds < HANGS
    assert (outcome.status, outcome.survivors) == ("killed", ())
    assert len(outcome.killed) >= 3
    assert (alive.read(), alive.read()) == (b"up\n", b"")
    alive.close()


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_a_command_that_ignores_being_asked_is_killed_at_its_time_limit(box: Toolbox):
    outcome = box.do(
        "shell", command="trap '' TERM HUP INT; echo begun; while :; do sleep 300; done", timeout=2
    )
    assert (outcome.status, outcome.partial_output, outcome.survivors) == ("timed_out", "begun\n", ())
    assert 2 <= outcome.seconds < HANGS


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_what_a_command_leaves_running_holds_up_nothing_and_is_killed(box: Toolbox):
    alive = Alive(box.workspace / "alive")
    command = "exec 3>alive; nohup setsid sleep 300 & sleep 300 & echo up >&3; echo done"
    outcome = box.do("shell", command=command)
    assert (outcome.status, outcome.exit_code) == ("finished", 0)
    assert outcome.seconds < HANGS
    assert len(outcome.killed) == 2
    assert (alive.read(), alive.read()) == (b"up\n", b"")
    alive.close()


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_a_command_that_kills_its_guard_is_found_out(box: Toolbox):
    alive = Alive(box.workspace / "alive")
    outcome = box.do("shell", command="exec 3>alive; echo up >&3; echo last words; kill -9 $PPID; sleep 300")
    assert (outcome.status, outcome.partial_output) == ("killed", "last words\n")
    assert "not seen" in outcome.text
    assert (alive.read(), alive.read()) == (b"up\n", b"")
    alive.close()


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_a_killed_server_takes_the_whole_family_with_it(tmp_path: Path):
    alive = Alive(tmp_path / "alive")
    here = Path(__file__).parent.parent
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path), FAMILY],
        env={**os.environ, "PYTHONPATH": f"{here.parent / 'src'}:{here}"},
    )
    assert alive.read() == b"up\n"
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    assert alive.read() == b""
    alive.close()


@pytest.mark.parametrize(
    "arguments", [{"command": "x" * 3_000_000}, {"command": "a\0b"}, {"command": "a", "timeout": 0}]
)
def test_a_command_that_can_not_be_started_is_told(box: Toolbox, arguments: dict[str, object]):
    assert box.do("shell", **arguments).status == "failed"


@pytest.mark.parametrize("asked, limit", [(None, 120.0), (5, 5.0), (0.5, 0.5), (100_000, 3600.0)])
def test_the_time_limit_is_what_was_asked_for_within_bounds(asked: float | None, limit: float):
    assert shell_tool.seconds({"timeout": asked}) == limit


def test_many_commands_at_once_leave_no_file_open(box: Toolbox):
    async def main() -> list[str]:
        outcomes = await asyncio.gather(*(box.run("shell", command=f"echo {number}") for number in range(8)))
        return [outcome.text for outcome in outcomes]

    before = len(os.listdir("/dev/fd"))
    assert asyncio.run(main()) == [f"{number}\n" for number in range(8)]
    assert len(os.listdir("/dev/fd")) == before

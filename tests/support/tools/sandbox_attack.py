"""A machine to attack from inside a sandbox: a home with keys, a journal, a workspace with what is protected, and a
server process that must not be reached."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.tools.toolbox import Toolbox

from turnbuckle.tools.sandbox.choose import SandboxRules, SandboxTools, choose, sandbox_tools, what_holds
from turnbuckle.tools.sandbox.files import visible
from turnbuckle.vocab.tooling import ToolOutcome

MECHANISMS = ("bubblewrap", "landlock")
SECRET = "the-secret-of-this-home"


def tools_for(mechanism: str) -> SandboxTools:
    """What this machine has, without the other mechanism."""
    found = sandbox_tools()
    if mechanism == "bubblewrap":
        assert found.bwrap, f"these tests need bubblewrap (scripts/set-up-clients gets it): {found.why}"
        return found
    assert found.abi, "these tests need a kernel with Landlock"
    return SandboxTools("", found.abi, found.machine, "left out by this test")


class Attack:
    """Commands in a sandbox, and what they must not reach."""

    def __init__(self, folder: Path, mechanism: str, **rules: Any) -> None:
        self.mechanism = mechanism
        self.home = folder / "user"
        self.home.mkdir()
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh/id").write_text(SECRET)
        (self.home / "notes.txt").write_text(SECRET)
        self.box = Toolbox(folder)
        self.workspace, self.data = self.box.workspace, self.box.data
        (self.data / "journal.db").write_text(SECRET)
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "SSH_AUTH_SOCK": "/run/agent"}
        self.protected: list[str] = []
        self.rules = rules
        self.network: tuple[str, ...] = ()

    def do(self, command: str, **arguments: Any) -> ToolOutcome:
        seen = visible(
            self.workspace,
            self.data,
            self.environment,
            protected=self.protected,
            prefixes=(sys.prefix, sys.base_prefix),
            is_root=os.getuid() == 0,
        )
        sandbox = choose(SandboxRules("strict", seen, **self.rules), tools_for(self.mechanism))
        self.box.with_settings(environment=self.environment, sandbox=sandbox, network=self.network)
        return self.box.do("shell", command=command, **arguments)

    @property
    def holds_signals(self) -> bool:
        """Whether this kernel keeps signals inside."""
        return what_holds(tools_for(self.mechanism), data_inside=False).signals

    def says(self, command: str, **arguments: Any) -> str:
        """All that a command printed, however it ended."""
        outcome = self.do(command, **arguments)
        return outcome.text + outcome.partial_output

    def python(self, *lines: str, **arguments: Any) -> str:
        """What a Python program inside printed."""
        (self.workspace / "attack.py").write_text("\n".join(lines))
        return self.says(f"{sys.executable} -I -S attack.py 2>&1", **arguments)


def tried(*attempts: str) -> list[str]:
    """Lines of Python that try each of these and say for each whether it worked: `ok`, or the error's name."""
    lines = ["import os, socket, ctypes, mmap", "libc = ctypes.CDLL(None, use_errno=True)"]
    lines += ["def must(result):", "    if result < 0: raise OSError(ctypes.get_errno(), 'refused')"]
    for attempt in attempts:
        lines += ["try:", f"    {attempt}", "    print('ok')"]
        lines += ["except (OSError, MemoryError) as error:", "    print('refused')"]
    return lines


@contextmanager
def victim() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of this user, outside, with a secret in its variables."""
    process = subprocess.Popen(["sleep", "300"], env={"PATH": "/usr/bin:/bin", "SECRET": SECRET})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def all_refused(said: str, count: int) -> bool:
    return said.split() == ["refused"] * count

"""Which sandbox this machine can give, and what holds in it.

Bubblewrap is tried by running it, since being installed says little: a kernel, a container or a security
module may refuse users and mounts of one's own. Landlock is asked for its version; without the filter of
system calls it would leave the network open, so it counts only on machines that the filter knows. What was
found is a value, and what follows from it is a pure function.
"""

import os
import platform
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from turnbuckle.errors import ConfigError
from turnbuckle.tools.sandbox import bubblewrap, files, landlock, seccomp
from turnbuckle.tools.sandbox.plan import BubblewrapPlace, LandlockPlace, PlanLimits, SandboxPlan
from turnbuckle.tools.sandbox.port import (
    Holds,
    NoSandbox,
    Sandbox,
    SandboxJob,
    SandboxLaunch,
    SandboxSetting,
)
from turnbuckle.tools.sandbox.scratch import scratch_of
from turnbuckle.tools.spec import ToolError

_PATIENCE = 20.0
_HALF = 2
_DEVICES = tuple(f"/dev/{name}" for name in "null zero full random urandom tty".split())
_TO_SERVICES = frozenset(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR DISPLAY XAUTHORITY "
    "WAYLAND_DISPLAY DOCKER_HOST KUBECONFIG GNOME_KEYRING_CONTROL SUDO_ASKPASS SSH_ASKPASS".split()
)
"""Variables that lead to services of the user, which are out of reach."""
_OWN = "TURNBUCKLE_"
_INSTALL = "install bubblewrap (`apt install bubblewrap`)"


class SandboxTools(Struct, frozen=True):
    """What there is to make a sandbox of. An empty `bwrap` has a reason in `why`."""

    bwrap: str = ""
    abi: int = 0
    machine: str = ""
    why: str = ""


class SandboxRules(Struct, frozen=True):
    """What the settings say. Bounds are as in `PlanLimits`, without those of time that do not fit both kinds
    of programs. `shell` and `servers` are what would be started in the sandbox."""

    setting: SandboxSetting
    seen: files.Visible
    processes: int = 0
    memory: int = 0
    file_size: int = 0
    cpu: int = 0
    background_seconds: int = 0
    shell: bool = True
    servers: tuple[str, ...] = ()


@cache
def sandbox_tools() -> SandboxTools:
    """Look at this machine, once."""
    if not sys.platform.startswith("linux"):
        return SandboxTools(why="there is none for this system")
    found = (os.path.join(place, "bwrap") for place in bubblewrap.PLACES)
    program = next((path for path in found if os.access(path, os.X_OK)), "")
    why = f"{program} does not work here" if program else "bubblewrap is not installed"
    if program and (said := _refusal(program)):
        program, why = "", f"{why}: {said}"
    return SandboxTools(program, landlock.abi(), platform.machine(), why)


def _refusal(program: str) -> str:
    """Why bubblewrap cannot do its work; empty if it can."""
    try:
        tried = subprocess.run(
            [program, *bubblewrap.PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return ""
    return tried.stderr.decode("utf-8", "replace").strip()[:200] or f"exit code {tried.returncode}"


def what_holds(tools: SandboxTools, *, data_inside: bool) -> Holds:
    """What a command is kept from with these tools. `data_inside`: the data folder lies in a folder that
    commands see."""
    if tools.bwrap:
        return Holds("bubblewrap", True, True, True)
    known = tools.machine in seccomp.MACHINES
    if tools.abi and known:
        return Holds("landlock", not data_inside, False, tools.abi >= landlock.SCOPES, tools.why)
    missing = "Landlock is not there" if known else f"no filter of system calls for {tools.machine or 'it'}"
    return Holds(why=f"{tools.why}, and {missing}" if tools.machine else tools.why)


def choose(rules: SandboxRules, tools: SandboxTools | None = None) -> Sandbox:
    """The sandbox that the settings want. Raises ConfigError if they want one that is not to be had."""
    if rules.setting == "off":
        return NoSandbox('tools.sandbox = "off"')
    tools = sandbox_tools() if tools is None else tools
    seen = rules.seen
    holds = what_holds(tools, data_inside=seen.data in seen.hidden)
    if rules.setting == "strict" and not (holds.is_there and holds.data):
        raise ConfigError(f'tools.sandbox = "strict": {_refused(holds, rules)}')
    if not holds.is_there:
        return NoSandbox(holds.why)
    return LinuxSandbox(rules, tools, holds)


def _refused(holds: Holds, rules: SandboxRules) -> str:
    tables = " and ".join(f"tools.mcp.{name}" for name in rules.servers)
    out = ['leave "shell" out of tools.enable'] * rules.shell + [f"leave out {tables}"] * bool(tables)
    ways = f'{" and ".join(out)}, or set tools.sandbox = "auto"'
    if not holds.is_there:
        nothing = " and ".join(["no shell"] * rules.shell + ["no MCP server"] * bool(tables))
        return f"there is no sandbox here ({holds.why}), so {nothing}; {_INSTALL}, {ways}"
    return (
        f"{holds.mechanism} cannot hide the data folder {rules.seen.data}, which lies in the workspace;"
        f" let `data` lie elsewhere, {_INSTALL}, {ways}"
    )


class LinuxSandbox:
    """Commands in bubblewrap, or under Landlock and seccomp."""

    def __init__(self, rules: SandboxRules, tools: SandboxTools, holds: Holds) -> None:
        self._rules = rules
        self._tools = tools
        self.holds = holds

    def launch(self, job: SandboxJob) -> SandboxLaunch:
        try:
            scratch = str(scratch_of(Path(self._rules.seen.data), job.session).resolve())
        except OSError as error:
            raise ToolError(f"the sandbox could not be made: {error}") from error
        seen = self._rules.seen
        rules = files.rules_for(seen, network=job.network)
        limits = self._limits(job)
        wraps = bool(self._tools.bwrap)
        allowed = seccomp.families(network=job.network, own_network=wraps)
        judge = not wraps and self._tools.abi < landlock.TRUNCATES
        known = self._tools.machine in seccomp.MACHINES
        code = seccomp.program(self._tools.machine, allowed, judge_truncation=judge) if known else b""
        make = partial(SandboxPlan, limits=limits, seccomp=code, held=scratch)
        if wraps:
            home = bubblewrap.home_inside(rules, seen.home)
            words = bubblewrap.arguments(
                rules, cwd=job.cwd, home=seen.home, scratch=scratch, network=job.network
            )
            plan = make(BubblewrapPlace(self._tools.bwrap, words))
            return SandboxLaunch(job.argv, _environment(job, home, "/tmp"), plan)
        read = (*files.without_hidden(rules.read, rules.hidden), "/proc")
        plan = make(LandlockPlace(read, (*rules.write, scratch, *_DEVICES), self._tools.abi))
        environment = _environment(job, os.path.join(scratch, "home"), os.path.join(scratch, "tmp"))
        return SandboxLaunch(job.argv, environment, plan)

    def _limits(self, job: SandboxJob) -> PlanLimits:
        rules = self._rules
        wall = rules.background_seconds if job.background else 0
        memory = rules.memory or _memory_of_machine() // _HALF
        return PlanLimits(rules.processes, memory, rules.file_size, rules.cpu, wall)


def _environment(job: SandboxJob, home: str, temporary: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in job.environment.items()
        if name not in _TO_SERVICES and not name.startswith((_OWN, "XDG_"))
    }
    return {**kept, "HOME": home, "TMPDIR": temporary}


def _memory_of_machine() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

"""The port between what starts a program for a model and what keeps that program in its place.

A sandbox takes what is to be started, where, with which variables, and whether it may use the network. It
gives back what the guard of the command needs. The shell uses it, and any other program that a model's work
starts: it asks for a program's words, a folder and variables, and for nothing that belongs to a shell.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from turnbuckle.tools.sandbox.plan import SandboxPlan

SandboxSetting = Literal["auto", "off", "strict"]
Mechanism = Literal["bubblewrap", "landlock", "none"]


class SandboxJob(Struct, frozen=True):
    """What is to be started. `cwd` is a real path. Programs of one `session` share their temporary files.
    One that stays `background` has other bounds of time."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    network: bool = False
    session: str = ""
    background: bool = False


class SandboxLaunch(Struct, frozen=True):
    """What to start, and how. Without a plan it starts as it is."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    plan: SandboxPlan | None = None


class Holds(Struct, frozen=True):
    """What a command is kept from, as far as it is. `why` says why there is nothing, or not all."""

    mechanism: Mechanism = "none"
    data: bool = False
    """It cannot see the data folder."""
    protected: bool = False
    """It cannot change the settings, own tools and hooks in the workspace."""
    signals: bool = False
    """It cannot see or end processes outside."""
    why: str = ""

    @property
    def is_there(self) -> bool:
        return self.mechanism != "none"

    @property
    def words(self) -> str:
        """For a person, in one line."""
        if not self.is_there:
            return f"none: commands may do what your user may ({self.why})"
        missing = ", ".join(self.missing)
        but = f"; not held: {missing}" if missing else ""
        return f"{self.mechanism}: commands see workspace and programs, no home, no network{but}"

    @property
    def missing(self) -> tuple[str, ...]:
        """What this mechanism does not hold, here."""
        parts = {
            "the data folder is in their reach": self.data,
            "protected files can be changed": self.protected,
            "other processes can be ended": self.signals,
        }
        return tuple(words for words, held in parts.items() if not held)

    def told(self, families: tuple[str, ...]) -> str:
        """For the model, behind what its tool does."""
        if not self.is_there:
            return ""
        always = f" Single commands of {', '.join(families)} have it." if families else ""
        temporary = "/tmp" if self.mechanism == "bubblewrap" else "the folder $TMPDIR"
        return (
            "Commands run in a sandbox: they can change the workspace and "
            f"{temporary}, read installed programs, and see no other file of the user. There is no network;"
            f" network=true asks the user for it.{always} A server started in the background is reached by"
            " other commands only with the network."
        )


class Sandbox(Protocol):
    """Keeps programs in their place."""

    @property
    def holds(self) -> Holds: ...

    def launch(self, job: SandboxJob) -> SandboxLaunch:
        """How to start this. Raises ToolError if it cannot be kept in its place: then it must not start."""
        ...


class NoSandbox:
    """Starts everything as it is."""

    def __init__(self, why: str = "") -> None:
        self.holds = Holds(why=why)

    def launch(self, job: SandboxJob) -> SandboxLaunch:
        return SandboxLaunch(job.argv, job.environment)

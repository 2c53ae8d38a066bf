"""What the guard of a command is told about the place in which to start it. Standard library only, and little
of it, since it is loaded with every command."""

import json


class PlanLimits:
    """Bounds of one command, with all that comes from it. 0 is none. `processes` counts threads, too;
    `memory` and `file_size` are bytes, `cpu` are seconds of one process, `wall` seconds of all of it."""

    def __init__(
        self, processes: int = 0, memory: int = 0, file_size: int = 0, cpu: int = 0, wall: int = 0
    ) -> None:
        self.processes = processes
        self.memory = memory
        self.file_size = file_size
        self.cpu = cpu
        self.wall = wall


class BubblewrapPlace:
    """A place that bubblewrap makes."""

    mechanism = "bubblewrap"

    def __init__(self, program: str, arguments: tuple[str, ...]) -> None:
        self.program = program
        self.arguments = arguments


class LandlockPlace:
    """What Landlock lets through, in its version `abi`."""

    mechanism = "landlock"

    def __init__(self, read: tuple[str, ...], write: tuple[str, ...], abi: int) -> None:
        self.read = read
        self.write = write
        self.abi = abi


class SandboxPlan:
    """`seccomp` is a program for the filter of system calls. `held` is a folder that nobody cleans up as long
    as the guard lives."""

    def __init__(
        self,
        place: BubblewrapPlace | LandlockPlace,
        limits: PlanLimits,
        seccomp: bytes = b"",
        held: str = "",
    ) -> None:
        self.place = place
        self.limits = limits
        self.seccomp = seccomp
        self.held = held

    def encode(self) -> bytes:
        parts = {self.place.mechanism: vars(self.place), "limits": vars(self.limits)}
        return json.dumps({**parts, "seccomp": self.seccomp.hex(), "held": self.held}).encode()


def decode_plan(data: bytes) -> SandboxPlan:
    """What `encode` wrote."""
    values = json.loads(data)
    wrapped = values.get(BubblewrapPlace.mechanism)
    place = (
        LandlockPlace(**values[LandlockPlace.mechanism]) if wrapped is None else BubblewrapPlace(**wrapped)
    )
    return SandboxPlan(
        place, PlanLimits(**values["limits"]), bytes.fromhex(values["seccomp"]), values["held"]
    )

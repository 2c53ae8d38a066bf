"""A script of the lab as it would be played: no wire, no waiting."""

from msgspec import Struct

from turnbuckle.lab.actions import End, SendHead, Wait, Write
from turnbuckle.lab.dialogue import ScriptPlayer
from turnbuckle.lab.script import Ending, LabRequest, Script


class DryRun(Struct, frozen=True):
    """A script as it would be played, without a wire: everything that is sent, how it ends, and how long it
    takes."""

    status: int
    headers: dict[str, str]
    body: bytes
    end: Ending | None
    seconds: float


def rehearse(
    script: Script, request: LabRequest, *, reply_id: str = "lab-1", longest: float = 86_400.0
) -> DryRun:
    """Play a script without a wire and without waiting, for at most `longest` seconds of its own time."""
    status, headers = 0, {}
    body: list[bytes] = []
    seconds = 0.0
    for action in ScriptPlayer(request, reply_id=reply_id).play(script):
        match action:
            case SendHead():
                status, headers = action.status, action.headers
            case Write():
                body.append(action.data)
            case Wait():
                seconds += action.seconds
                if seconds > longest:
                    break
            case End():
                return DryRun(status, headers, b"".join(body), action.how, seconds)
    return DryRun(status, headers, b"".join(body), None, seconds)

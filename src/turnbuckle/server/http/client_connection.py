"""The line to a client: whether somebody is still at the other end, and how to hang up.

A handler runs to its end also if its client has left, since it may be in the middle of something that must be
whole. Only where nothing but waiting is done for the client, in streams, is the wait ended when the client
leaves: that place is marked by `with Presence(line)`. It works as a time-out does: the waiting task is
cancelled, and the cancellation becomes one of the two exceptions below where the block ends. So no reader
needs a second task to notice that its client has left.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol


class ClientConnection(Protocol):
    """One connection, for the time of one request."""

    @property
    def gone(self) -> bool:
        """Nobody is there any more."""
        ...

    @property
    def dropped(self) -> bool:
        """We hung up, because the client did not read."""
        ...

    @property
    def clear(self) -> bool:
        """The client has taken most of what was sent, so that a send would not wait."""
        ...

    @property
    def has_body(self) -> bool:
        """The whole body of the request has arrived. False if that is not known."""
        ...

    def on_gone(self, call: Callable[[], None] | None) -> None:
        """Whom to tell when the client leaves: one listener at a time, or none."""
        ...

    def push(self, body: bytes) -> bool:
        """Send more of an answer's body, here and now. False if that would have to wait, or cannot be done
        here: then nothing was sent."""
        ...

    def abort(self) -> None:
        """Hang up at once. What was not sent yet is thrown away, and the answer has no proper end."""
        ...


class ClientGone(Exception):
    """The client has left."""


class Interrupted(Exception):
    """The server wants to let go of this client."""


class Presence:
    """Ends what is waited for inside the block when the client leaves, or when the server interrupts."""

    __slots__ = ("_line", "_task", "_why")

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._task: asyncio.Task[object] | None = None
        self._why: type[ClientGone | Interrupted] | None = None

    def __enter__(self) -> "Presence":
        if self._line.gone:
            raise ClientGone
        self._task = asyncio.current_task()
        self._line.on_gone(self._left)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.on_gone(None)
        task, self._task = self._task, None
        if self._why is None or task is None:
            return
        if task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise self._why from None

    def interrupt(self) -> None:
        """Ask whoever waits inside to end in good order."""
        self._end(Interrupted)

    def _left(self) -> None:
        self._end(ClientGone)

    def _end(self, why: type[ClientGone | Interrupted]) -> None:
        if self._task is not None and self._why is None:
            self._why = why
            self._task.cancel()

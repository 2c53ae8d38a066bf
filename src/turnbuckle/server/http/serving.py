"""Listening, and leaving in good order.

What a stop means:

1. The first signal. `/readyz` says no, nothing new starts, and everything else goes on.
2. Runs that are under way get `drain` seconds to end. Those that do not are marked, and go on after the next
   start.
3. Every client that still reads is told so, in its own dialect, and its stream is closed properly.
4. No more connections, then the end. The second signal skips all of this: what anybody saw is stored, so
   leaving at once is as safe as a crash.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate

from msgspec import Struct

from turnbuckle.errors import CanNotListen
from turnbuckle.runtime.supervise import keep_going
from turnbuckle.server.http.asgi import Server
from turnbuckle.server.http.connection import HttpConnection, Listening, watch_peer
from turnbuckle.server.http.descriptors import room_for
from turnbuckle.server.streaming.heartbeat import TICK, Heartbeat
from turnbuckle.service.limits import Slots

TOKEN = "/#key="
"""Between the address that is announced and a key of the server's own: no request carries a fragment."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048
FAREWELL = 2.0
"""How long clients get to take the last bytes of what is sent to them."""
MARKING = 5.0
"""How much longer than `drain` the marking of the others may take."""
_LOOK = 0.02

log = logging.getLogger("turnbuckle.server")


class Service(Struct, frozen=True):
    """All that serving needs. `leave` lets runs end for so many seconds, and lets go of the others in good
    order."""

    app: Server
    heartbeat: Heartbeat
    slots: Slots
    host: str
    port: int
    send_timeout: float
    max_connections: int
    drain: float
    leave: Callable[[float], Awaitable[object]]
    reload: Callable[[], None] | None = None
    """Take the settings again, and tell the log what came of it; None: they cannot be read again."""
    token: str = ""
    """A key that the server made for itself, since this machine does not tell one user from another."""


class ShutdownSignal:
    """Somebody's wish to stop: the first in good order, the second at once."""

    def __init__(self, at_once: Callable[[], None]) -> None:
        self._at_once = at_once
        self._asked = asyncio.Event()

    def ask(self) -> None:
        if self._asked.is_set():
            self._at_once()
        self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()


def _listen_for_hangup(loop: asyncio.AbstractEventLoop, service: Service, stopper: ShutdownSignal) -> None:
    """SIGHUP has two meanings. The kernel and shells send it when a terminal is closed: then this is a stop
    in good order. Somebody who wants the settings to be read again sends it too. They are told apart by the
    terminal: whoever had one and has it no longer was left. Under `nohup` neither is wanted."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return
    had_terminal = has_terminal()

    def hung_up() -> None:
        if had_terminal and not has_terminal():
            log.info("the terminal was closed: shutting down")
            stopper.ask()
        elif service.reload is not None:
            service.reload()

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def has_terminal() -> bool:
    """Whether input, output or errors are a terminal that is still there."""
    return any(map(os.isatty, (0, 1, 2)))


async def serve(
    service: Service, stopper: ShutdownSignal, announce: Callable[[str], None], *, signals: bool = True
) -> None:
    """Serve until somebody wants it to stop. `announce` is told the address as soon as there is one. Raises
    CanNotListen."""
    loop = asyncio.get_running_loop()
    sockets = service.app.sockets.paths if service.app.sockets is not None else frozenset()
    most = room_for(service.max_connections)
    shared = Listening(service.app, service.send_timeout, most, sockets, service.app.max_body)

    def tell_time() -> None:
        shared.default_headers = ((b"date", formatdate(time.time(), usegmt=True).encode()),)

    tell_time()
    listening = await _listen(lambda: HttpConnection(shared), service.host, service.port)
    if sys.platform == "linux":  # five calls of the kernel less for each connection
        for listener in listening.sockets:
            watch_peer(listener, service.send_timeout)
        shared.watches = True

    def each_tick() -> None:
        tell_time()
        service.app.drop_revoked()

    def beat() -> Awaitable[None]:
        return service.heartbeat.run(lambda: shared.connections, each_tick)

    beating = asyncio.create_task(keep_going("the heartbeat", beat, TICK, asyncio.sleep), name="heartbeat")
    try:
        if signals:
            for number in SIGNALS:
                loop.add_signal_handler(number, stopper.ask)
            _listen_for_hangup(loop, service, stopper)
        announce(address_of(listening.sockets) + (f"{TOKEN}{service.token}" if service.token else ""))
        await stopper.wait()
        service.slots.close()
        async with asyncio.timeout(service.drain + MARKING):
            await service.leave(service.drain)
    except TimeoutError:
        log.warning("some runs could not be marked as interrupted; the next start will treat them as crashed")
    finally:
        listening.close()
        service.heartbeat.interrupt_all()
        await _say_farewell(shared.connections, shared.tasks)
        beating.cancel()
        await asyncio.wait({beating})
        if signals:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


async def _listen(accept: Callable[[], HttpConnection], host: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(accept, host, port, backlog=BACKLOG)
    except OverflowError:
        raise CanNotListen(f"there is no port {port}; ports go from 0 to 65535") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            words = f"port {port} of {host} is in use; choose another by --port, or --port 0 for any free one"
        else:
            words = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise CanNotListen(words) from None


async def _say_farewell(connections: set[HttpConnection], tasks: set[asyncio.Task[None]]) -> None:
    """Let every answer that is under way be taken, for a moment, and hang up on whoever is left."""
    for connection in list(connections):
        connection.shutdown()
    loop = asyncio.get_running_loop()
    until = loop.time() + FAREWELL
    while connections and loop.time() < until:
        await asyncio.sleep(_LOOK)
    for connection in list(connections):
        connection.abort()
    if tasks:
        _, late = await asyncio.wait(list(tasks), timeout=FAREWELL)
        for task in late:
            task.cancel()


def address_of(sockets: Sequence[socket.socket]) -> str:
    """Where the server can be reached, with the port that it really has."""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

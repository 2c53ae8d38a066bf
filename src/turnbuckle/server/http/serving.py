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
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from ipaddress import ip_address

from msgspec import Struct

from turnbuckle.observe.worker_numbers import NumberSockets
from turnbuckle.runtime.supervise import keep_going
from turnbuckle.server.http.asgi import Server
from turnbuckle.server.http.connection import HttpConnection, Listening
from turnbuckle.server.http.descriptors import room_for
from turnbuckle.server.http.listeners import (
    BACKLOG,
    ConnectionSource,
    Loads,
    SharedListener,
    address_of,
    open_listeners,
)
from turnbuckle.server.streaming.heartbeat import TICK, Heartbeat
from turnbuckle.service.limits import Slots

TOKEN = "/#key="
"""Between the address that is announced and a key of the server's own: no request carries a fragment."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
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

    def ask_once(self) -> None:
        """In good order, however often it is asked."""
        self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()


class WorkerPlace(Struct, frozen=True):
    """Where one of several processes takes its connections, and its orders. `number` begins with 0."""

    number: int
    listeners: Sequence[socket.socket]
    loads: Loads
    orders: socket.socket
    """RELOAD comes by it; its end means that the parent wants a stop, or is gone."""
    numbers: NumberSockets
    token: str
    """The key that all of them take, if they need one of their own."""


RELOAD = b"r"


def _obey(
    loop: asyncio.AbstractEventLoop, orders: socket.socket, service: Service, stopper: ShutdownSignal
) -> None:
    try:
        order = orders.recv(1)
    except BlockingIOError:
        return
    except OSError:
        order = b""
    if not order:
        loop.remove_reader(orders)
        stopper.ask_once()
    elif service.reload is not None:
        service.reload()


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
            stopper.ask_once()  # a shell and the kernel send one each
        elif service.reload is not None:
            service.reload()

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def has_terminal() -> bool:
    """Whether input, output or errors are a terminal that is still there."""
    return any(map(os.isatty, (0, 1, 2)))


async def serve(
    service: Service,
    stopper: ShutdownSignal,
    announce: Callable[[str], None],
    *,
    signals: bool = True,
    worker: WorkerPlace | None = None,
) -> None:
    """Serve until somebody wants it to stop. `announce` is told the address as soon as there is one. A
    `worker` takes its connections and its orders where its parent says. Raises CanNotListen."""
    loop = asyncio.get_running_loop()
    sockets = service.app.sockets.paths if service.app.sockets is not None else frozenset()
    most = room_for(service.max_connections)
    shared = Listening(service.app, service.send_timeout, most, sockets, service.app.max_body)

    def tell_time() -> None:
        shared.default_headers = ((b"date", formatdate(time.time(), usegmt=True).encode()),)

    tell_time()
    shared.watches = sys.platform == "linux"  # five calls of the kernel less for each connection
    address, listening = await _listen(service, shared, worker)

    def each_tick() -> None:
        tell_time()
        service.app.drop_revoked()

    def beat() -> Awaitable[None]:
        return service.heartbeat.run(lambda: shared.connections, each_tick)

    beating = asyncio.create_task(keep_going("the heartbeat", beat, TICK, asyncio.sleep), name="heartbeat")
    try:
        if signals:
            for number in SIGNALS:
                loop.add_signal_handler(number, stopper.ask if worker is None else stopper.ask_once)
            _listen_for_hangup(loop, service, stopper)
        if worker is not None:
            loop.add_reader(worker.orders, _obey, loop, worker.orders, service, stopper)
        announce(address + (f"{TOKEN}{service.token}" if service.token else ""))
        await stopper.wait()
        service.slots.close()
        async with asyncio.timeout(service.drain + MARKING):
            await service.leave(service.drain)
    except TimeoutError:
        log.warning("some runs could not be marked as interrupted; the next start will treat them as crashed")
    finally:
        for listener in listening:
            listener.close()
        service.heartbeat.interrupt_all()
        await _say_farewell(shared.connections, shared.tasks)
        beating.cancel()
        await asyncio.wait({beating})
        if signals and worker is None:  # to a worker the same wish may come twice, and the second one late
            for number in SIGNALS:
                loop.remove_signal_handler(number)


async def _listen(
    service: Service, shared: Listening, worker: WorkerPlace | None
) -> tuple[str, list[ConnectionSource]]:
    """The address, and what takes the connections."""

    def accept() -> HttpConnection:
        return HttpConnection(shared)

    if worker is not None:
        busy = (worker.loads, worker.number, lambda: len(shared.connections) + len(shared.tasks))
        taking = [SharedListener(each, accept, *busy) for each in worker.listeners]
        return address_of(worker.listeners), list(taking)
    wanted = (service.host, service.port, service.send_timeout)
    opened = (
        open_listeners(*wanted)
        if _is_number(service.host)
        else await asyncio.to_thread(open_listeners, *wanted)
    )
    address, create = address_of(opened), asyncio.get_running_loop().create_server
    return address, [await create(accept, sock=each, backlog=BACKLOG) for each in opened]


def _is_number(host: str) -> bool:
    """Whether nobody has to be asked where that is, which may take long."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


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

"""The server as an app for any ASGI server: `uvicorn --factory turnbuckle.asgi:app`.

The server in front runs the app's lifespan: the journal is opened when it starts and closed when it stops,
and runs that are under way then get `server.drain` seconds. What our own server does besides, and what is
therefore lost behind another one, is in `docs/server.md`.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnbuckle.config import Loaded, load
from turnbuckle.errors import TurnbuckleError
from turnbuckle.hosting import open_server
from turnbuckle.journal.port import JournalError
from turnbuckle.runtime.supervise import keep_going
from turnbuckle.server.http.asgi import Receive, Scope, Server
from turnbuckle.server.streaming.heartbeat import TICK, Send


class AsgiApp:
    """One server over one data folder."""

    def __init__(self, loaded: Loaded, environment: Mapping[str, str]) -> None:
        self._loaded = loaded
        self._environment = environment
        self._server: Server | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._server is None:
            raise RuntimeError(
                "the server in front must run the lifespan of this app (uvicorn: --lifespan on)"
            )
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._server(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # to start
        started = False
        try:
            async with open_server(self._loaded, self._environment) as service:

                def beat() -> Any:
                    return service.heartbeat.run(tuple, service.app.drop_revoked)

                beating = asyncio.create_task(keep_going("the heartbeat", beat, TICK, asyncio.sleep))
                self._server = service.app
                started = True
                await send({"type": "lifespan.startup.complete"})
                try:
                    await receive()  # to stop
                    service.slots.close()
                    await service.leave(service.drain)
                finally:
                    self._server = None
                    service.heartbeat.interrupt_all()
                    beating.cancel()
                    await asyncio.wait({beating})
        except (TurnbuckleError, JournalError) as error:
            if started:
                raise
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def app(config: Path | None = None) -> AsgiApp:
    """The app, with the settings of this folder or of `config`, and the environment. Raises ConfigError."""
    environment = dict(os.environ)
    return AsgiApp(load(config, environment=environment), environment)
